"""A route that is described only when somebody asks what it answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi.routing import APIRoute


class Route(APIRoute):
    """FastAPI makes a model of every answer that a route may give, which takes longer than all else when a server
    starts. No model is needed to answer: our routes write their answers themselves."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **how: Any) -> None:
        self._how = how
        super().__init__(path, endpoint, **{**how, "response_model": None, "responses": None})

    def described(self) -> APIRoute:
        """The same with all that it may answer, for the schema."""
        return APIRoute(self.path, self.endpoint, **self._how)
