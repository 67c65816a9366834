"""The query log: what was asked, what it took, and what people thought of the answers."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import AwareDatetime
from starlette.responses import Response
from typing_extensions import TypedDict

from ragforge.domain.evaluation import Feedback
from ragforge.domain.records import LogEntry, Spent
from ragforge.interfaces.http.caller import Called
from ragforge.interfaces.http.errors import ERRORS
from ragforge.interfaces.http.pages import Paged
from ragforge.interfaces.http.requests import FeedbackRequest
from ragforge.interfaces.http.routing import Route
from ragforge.interfaces.http.shapes import page_of, shape

router = APIRouter(prefix="/v1/projects/{project}", tags=["log"], responses=ERRORS, route_class=Route)

Since = Annotated[AwareDatetime | None, Query(description="Only what was asked since this moment")]


@router.get("/log", response_model=page_of(LogEntry))
def entries(project: str, caller: Called, paging: Paged, since: Since = None) -> Response:
    """What was asked, newest first."""
    found = caller.forge.query_log(project=project, limit=paging.most, since=since, after=paging.after)
    return caller.shown(paging.page_from(found, lambda entry: entry.asked_at))


class Pruned(TypedDict):
    """How many questions were removed."""

    removed: int


@router.delete("/log", response_model=Pruned)
def prune(
    project: str,
    caller: Called,
    before: Annotated[AwareDatetime, Query(description="What was asked before this moment goes")],
) -> Response:
    """Remove for good what was asked before: of everybody, where your clearance is for all; else what you asked.

    With a key, nothing of today: the limits of keys are counted from it.
    """
    return caller.shown({"removed": caller.forge.prune_log(before, project=project)})


@router.get("/log/{entry}", response_model=shape(LogEntry))
def entry(project: str, entry: str, caller: Called) -> Response:
    """One question by its id (the `trace_id` of its answer), the beginning of it, or `last`."""
    return caller.shown(caller.forge.logged(entry, project=project))


@router.post("/log/{entry}/feedback", response_model=shape(Feedback))
def feedback(project: str, entry: str, given: FeedbackRequest, caller: Called) -> Response:
    """Mark an answer as good or bad, in place of an earlier mark; what is right joins the set `feedback`."""
    marked = caller.forge.give_feedback(entry, given.good, note=given.note, expected=given.expected, project=project)
    return caller.shown(marked)


@router.get("/spent", response_model=page_of(Spent))
def spent(
    project: str,
    caller: Called,
    paging: Paged,
    by: Literal["model", "profile", "agent", "day"] = "model",
    since: Since = None,
) -> Response:
    """The tokens and money that questions took, by model, profile, agent or day."""
    found = caller.forge.spent(by=by, project=project, since=since)
    return caller.shown(paging.page(found, lambda each: each.name))
