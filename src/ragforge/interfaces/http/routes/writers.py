"""Who can speak, and which documents can be made: the same in every project."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from ragforge.answer.agents import Agent
from ragforge.answer.outline import Outline
from ragforge.interfaces.http.caller import Called
from ragforge.interfaces.http.errors import ERRORS
from ragforge.interfaces.http.pages import Paged
from ragforge.interfaces.http.routing import Route
from ragforge.interfaces.http.shapes import page_of, shape

router = APIRouter(prefix="/v1", tags=["documents made"], responses=ERRORS, route_class=Route)


@router.get("/agents", response_model=page_of(Agent))
def agents(caller: Called, paging: Paged) -> Response:
    """The agents that `ask` and documents can be written by."""
    return caller.shown(paging.page(caller.forge.agents(), lambda each: each.name))


@router.get("/agents/{agent}", response_model=shape(Agent))
def agent(agent: str, caller: Called) -> Response:
    """One agent by its name."""
    return caller.shown(caller.forge.agent(agent))


@router.get("/document-kinds", response_model=page_of(Outline))
def document_kinds(caller: Called, paging: Paged) -> Response:
    """The kinds of documents that can be made, and of which sections each of them is."""
    return caller.shown(paging.page(caller.forge.document_kinds(), lambda each: each.kind))
