"""The machines that work on one catalog."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from ragforge.domain.library import Node
from ragforge.interfaces.http.caller import Called
from ragforge.interfaces.http.errors import ERRORS
from ragforge.interfaces.http.routing import Route
from ragforge.interfaces.http.shapes import page_of

router = APIRouter(prefix="/v1/nodes", tags=["operation"], responses=ERRORS, route_class=Route)


@router.get("", response_model=page_of(Node))
def nodes(caller: Called) -> Response:
    """The machines that serve or work on a Postgres catalog: when each was seen, how far its own indexes are behind."""
    return caller.shown({"items": caller.forge.nodes(), "next": None})
