"""Passages for a question, prompts, and answers."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import aclosing
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
from anyio import CapacityLimiter
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ragforge.domain.answers import DoneEvent, Event, Prompted
from ragforge.domain.cancel import Cancel
from ragforge.domain.pending import Pending
from ragforge.interfaces.explaining import explain_all
from ragforge.interfaces.fields.answers import AnswerFields, PromptFields, answer_fields, prompt_fields
from ragforge.interfaces.fields.explained import ExplainedSearch, ExplanationFields, explanation_fields
from ragforge.interfaces.fields.passages import RetrievedFields, retrieved_fields
from ragforge.interfaces.http.asking import (
    Seals,
    asked_options,
    begun,
    check_model,
    options_of,
    seals_of,
    told_events,
    tuning_of,
)
from ragforge.interfaces.http.caller import Called, Caller
from ragforge.interfaces.http.errors import ERRORS
from ragforge.interfaces.http.presence import unless_gone, worked
from ragforge.interfaces.http.requests import AskRequest, ExplainRequest, PromptRequest, SearchRequest
from ragforge.interfaces.http.routing import Route
from ragforge.interfaces.http.stepping import stepped
from ragforge.interfaces.http.streams import ServerSentEvents, streams_of
from ragforge.interfaces.records import encode

EVENTS = "text/event-stream"
_STREAMED: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {EVENTS: {"schema": {}}},
        "description": "The answer; as events, if those are asked",
    }
}

router = APIRouter(prefix="/v1/projects/{project}", tags=["questions"], responses=ERRORS, route_class=Route)


class SealedPrompt(PromptFields):
    """The prompt, and what `ask` takes to send it, with its texts changed or not."""

    token: str


@router.post("/search", response_model=RetrievedFields)
async def search(project: str, asked: SearchRequest, request: Request, caller: Called) -> Response:
    """Passages for a question, best first: by its words and by its meaning."""
    threads = anyio.to_thread.current_default_thread_limiter()
    return await worked(request, threads, partial(_searched, caller, project, asked))


def _searched(caller: Caller, project: str, asked: SearchRequest, cancel: Cancel) -> Response:
    found = caller.forge.search(
        asked.question,
        project=project,
        filters=asked.filters.record(),
        tuning=tuning_of(caller, asked),
        context=asked.context,
        fresh=asked.fresh,
        cancel=cancel,
    )
    return caller.shown(found, retrieved_fields)


@router.post("/explain", response_model=ExplanationFields)
async def explain(project: str, asked: ExplainRequest, request: Request, caller: Called) -> Response:
    """What becomes of a question: its words, each candidate with every stage's verdict, whether it is answered.

    No language model is asked unless `model` names one, and nothing is kept.
    """
    return await worked(request, streams_of(request).threads, partial(_explained, caller, project, asked))


def _explained(caller: Caller, project: str, asked: ExplainRequest, cancel: Cancel) -> Response:
    check_model(caller, asked.model)
    filters, tuning = asked.filters.record(), tuning_of(caller, asked)
    for replay in asked.replays:
        tuning_of(caller, replay)
    if caller.records:
        found = caller.forge.explain(asked.question, project=project, filters=filters, tuning=tuning, cancel=cancel)
        return caller.shown(found)
    told = explain_all(
        caller.forge,
        asked.question,
        project,
        filters=filters,
        tuning=tuning,
        kind=ExplainedSearch,
        conversation=asked.conversation,
        model=asked.model,
        changes=[(replay.label, replay.changes()) for replay in asked.replays],
        request=caller.request,
        cancel=cancel,
    )
    return caller.shown(explanation_fields(asked.question, told.first, told.replays, told.prompted))


@router.post("/prompt", response_model=SealedPrompt)
async def prompt(project: str, asked: PromptRequest, request: Request, caller: Called) -> Response:
    """Exactly what `ask` would send, with its tokens and price. Nothing is sent to answer, and nothing is kept.

    To send it, hand `token` to `ask`, with other `texts` if you changed some.
    """
    made = partial(_prompted, caller, project, asked, seals_of(request))
    return await worked(request, streams_of(request).threads, made)


def _prompted(caller: Caller, project: str, asked: PromptRequest, seals: Seals, cancel: Cancel) -> Response:
    options = options_of(caller, project, asked, cancel)
    prompted = caller.forge.prompt(asked.question, project=project, **options)
    shown: Prompted | PromptFields = prompted if caller.records else prompt_fields(prompted)
    return caller.shown({**encode(shown), "token": seals.sealed(caller.principal.id, prompted)})


@router.post("/ask", response_model=AnswerFields, responses=_STREAMED)
async def ask(project: str, asked: AskRequest, request: Request, caller: Called) -> Response:
    """An answer with checked citations, or an abstention that says why.

    With `Accept: text/event-stream` it comes as it is written: the events retrieval, decision, token, citation, usage,
    and done or error. Each has an id; after a cut, `GET /v1/streams/{stream}` with the last id goes on from there. When
    nobody has read for five seconds, the work is stopped.
    """
    streams, cancel = streams_of(request), Cancel()
    begin = partial(_begun, caller, project, asked, seals_of(request), cancel)
    events = await anyio.to_thread.run_sync(begin, limiter=streams.threads)
    if EVENTS in request.headers.get("accept", ""):
        told = told_events(events, caller, caller.request)
        stream = streams.start(caller.principal, told, caller.request, cancel)
        return ServerSentEvents(stream, 0, streams.idle_seconds)
    return await unless_gone(request, partial(_last, _answered(events, caller), streams.threads, cancel))


def _begun(caller: Caller, project: str, asked: AskRequest, seals: Seals, cancel: Cancel) -> Iterator[Event | Pending]:
    options = asked_options(caller, project, asked, seals, cancel)
    return begun(caller.forge, asked.question, project, options)


def _answered(events: Iterator[Event | Pending], caller: Caller) -> Iterator[Response | Pending]:
    """The answer when it is there. It is written in a thread, for it may be long."""
    try:
        for event in events:
            if isinstance(event, Pending):
                yield event
            elif isinstance(event, DoneEvent):
                yield caller.shown(event.result, answer_fields)
    finally:
        if isinstance(events, Generator):
            events.close()


async def _last(items: Iterator[Response | Pending], threads: CapacityLimiter, cancel: Cancel) -> Response:
    async with aclosing(stepped(items, threads, cancel)) as steps:
        found = [each async for each in steps]
    return found[-1]
