"""What a question gets unless it says otherwise: the models at hand, and how passages are found."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from ragforge.domain.models import LanguageModels
from ragforge.domain.retrieval import Tuning
from ragforge.interfaces.http.caller import Called
from ragforge.interfaces.http.errors import ERRORS
from ragforge.interfaces.http.routing import Route
from ragforge.interfaces.http.shapes import shape

router = APIRouter(prefix="/v1", tags=["questions"], responses=ERRORS, route_class=Route)


@router.get("/language-models", response_model=shape(LanguageModels))
def language_models(caller: Called) -> Response:
    """The models that can write answers: what they cost and read, and what is missing. None of them is called."""
    return caller.shown(caller.forge.language_models())


@router.get("/tuning", response_model=shape(Tuning))
def tuning(caller: Called) -> Response:
    """How passages are found unless a question says otherwise."""
    return caller.shown(caller.forge.tuning())
