"""Conversations and their turns: each caller's own."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from ragforge.domain.conversation import Conversation, Rollup, Turn
from ragforge.errors import UserError
from ragforge.interfaces.http.attached import MARKDOWN, attached
from ragforge.interfaces.http.caller import Called
from ragforge.interfaces.http.errors import ERRORS
from ragforge.interfaces.http.pages import Paged
from ragforge.interfaces.http.requests import ConversationChange, ConversationRequest, TurnChange
from ragforge.interfaces.http.routing import Route
from ragforge.interfaces.http.shapes import page_of, shape

router = APIRouter(prefix="/v1/projects/{project}", tags=["memory"], responses=ERRORS, route_class=Route)


@router.get("/conversations", response_model=page_of(Conversation))
def conversations(project: str, caller: Called, paging: Paged) -> Response:
    """Your conversations, the last spoken in first."""
    return caller.shown(paging.page(caller.forge.conversations(project=project)))


@router.post("/conversations", status_code=201, response_model=shape(Conversation))
def begin(project: str, wanted: ConversationRequest, caller: Called) -> Response:
    """Begin a conversation; `ask` takes its id, understands follow-ups and remembers the turns."""
    return caller.shown(caller.forge.begin_conversation(wanted.title, project=project), status=201)


@router.get("/conversations/{conversation}", response_model=shape(Conversation))
def conversation(project: str, conversation: str, caller: Called) -> Response:
    """One conversation by its id, the beginning of it, or `last`."""
    return caller.shown(caller.forge.conversation(conversation, project=project))


@router.patch("/conversations/{conversation}", response_model=shape(Conversation))
def rename(project: str, conversation: str, change: ConversationChange, caller: Called) -> Response:
    """Give a conversation another title, by its whole id."""
    return caller.shown(caller.forge.rename_conversation(conversation, change.title, project=project))


@router.get(
    "/conversations/{conversation}/markdown",
    response_class=Response,
    responses={200: {"content": {MARKDOWN: {"schema": {"type": "string"}}}}},
)
def markdown(project: str, conversation: str, caller: Called) -> Response:
    """A conversation as a Markdown document: questions, answers, and the sources of each."""
    known = caller.forge.conversation(conversation, project=project)
    text = caller.forge.conversation_markdown(known.id, project=project)
    return attached(text, f"conversation-{known.id[:8]}", "md")


@router.delete("/conversations/{conversation}", status_code=204, response_class=Response)
def remove(project: str, conversation: str, caller: Called) -> Response:
    """Delete a conversation for good, by its whole id: its turns, summaries and vectors."""
    known = caller.forge.conversation(conversation, project=project)
    if known.id != conversation:  # the beginning of an id, or `last`, may be meant for another
        raise UserError("a conversation is removed by its whole id", hint=f"{conversation!r} is {known.id}")
    caller.forge.remove_conversation(known.id, project=project)
    return Response(status_code=204)


@router.get("/conversations/{conversation}/rollups", response_model=page_of(Rollup))
def rollups(project: str, conversation: str, caller: Called, paging: Paged) -> Response:
    """The summaries that stand for the oldest turns of a conversation."""
    known = caller.forge.conversation(conversation, project=project)
    return caller.shown(paging.page(caller.forge.rollups(known.id, project=project)))


@router.get("/turns", response_model=page_of(Turn))
def turns(
    project: str,
    conversation: Annotated[str, Query(min_length=1, max_length=200, description="Its id, or `last`")],
    caller: Called,
    paging: Paged,
) -> Response:
    """What was asked and answered in a conversation, in its order."""
    known = caller.forge.conversation(conversation, project=project)
    return caller.shown(paging.page(caller.forge.turns(known.id, project=project)))


@router.patch("/turns/{turn}", status_code=204, response_class=Response)
def mark(project: str, turn: str, change: TurnChange, caller: Called) -> Response:
    """Say how much a turn matters: one that matters fully is remembered however old it is."""
    caller.forge.mark_turn(turn, importance=change.importance, project=project)
    return Response(status_code=204)


@router.delete("/turns/{turn}", status_code=204, response_class=Response)
def remove_turn(project: str, turn: str, caller: Called) -> Response:
    """Delete one turn for good."""
    caller.forge.remove_turn(turn, project=project)
    return Response(status_code=204)
