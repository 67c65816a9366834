"""A route that is described only when somebody asks what it answers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Query
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from ragforge.errors import UserError


class Route(APIRoute):
    """FastAPI makes a model of every answer that a route may give, which takes longer than all else when a server
    starts. No model is needed to answer: our routes write their answers themselves."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **how: Any) -> None:
        self._how = how
        super().__init__(path, endpoint, **{**how, "response_model": None, "responses": None})

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What is not named is refused in an address, too: it may be misspelt."""
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            for name in request.query_params:
                if name not in self._taken:
                    raise _unknown(name, self._taken)
            return await handle(request)

        return handled

    @cached_property
    def _taken(self) -> frozenset[str]:
        """The parameters of its address."""
        return frozenset(each.alias for each in get_flat_params(self.dependant) if isinstance(each.field_info, Query))

    def described(self) -> APIRoute:
        """The same with all that it may answer, for the schema."""
        return APIRoute(self.path, self.endpoint, **self._how)


def _unknown(name: str, taken: frozenset[str]) -> UserError:
    meant = get_close_matches(name, taken, 1)
    hint = f"did you mean {meant[0]}?" if meant else f"it takes {', '.join(sorted(taken)) or 'none'}"
    return UserError(f"there is no parameter {name[:100]!r} here", hint=hint)
