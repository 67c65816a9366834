"""The format of OpenAI: a project is the model `ragforge/<slug>`, so programs that know theirs can ask it."""

from __future__ import annotations

import base64
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
from fastapi import APIRouter
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from ragforge.app import AskOptions
from ragforge.domain.answers import DoneEvent, Event, TokenEvent
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.library import Project
from ragforge.domain.pending import Pending
from ragforge.errors import NotFound, RagforgeError, UserError
from ragforge.interfaces.http.caller import Called, Caller, json_response
from ragforge.interfaces.http.completions import (
    PREFIX,
    ChatRequest,
    EmbeddingRequest,
    Replies,
    UnknownModel,
    Unsupported,
    conversed,
)
from ragforge.interfaces.http.errors import (
    ERRORS,
    INTERNAL,
    TAKEN,
    broken,
    error_fields,
    failure_response,
    misshapen,
    request_id,
    status_of,
)
from ragforge.interfaces.http.presence import unless_gone, worked
from ragforge.interfaces.http.routing import Route
from ragforge.interfaces.http.stepping import stepped
from ragforge.interfaces.http.streams import SSE_HEADERS, streams_of, while_there
from ragforge.interfaces.records import json_text

_MODELS = f"GET /v1/models lists those that do; a project is {PREFIX}PROJECT"
_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


class _Route(Route):
    """Errors are told with the fields of OpenAI's, beside ours."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handle(request)
            except (RagforgeError, RequestValidationError, HTTPException) as problem:
                status, fields = _problem(request, problem)
                return json_response(fields, status, _headers(request, problem))

        return handled


router = APIRouter(prefix="/v1", tags=["OpenAI"], responses=ERRORS, route_class=_Route)


# -- models


@router.get("/models")
def models(caller: Called) -> Response:
    """The projects you reach, as models."""
    return json_response({"object": "list", "data": [_model_fields(each) for each in caller.forge.projects()]})


@router.get("/models/{model:path}")
def model(model: str, caller: Called) -> Response:
    """One project, as a model."""
    return json_response(_model_fields(_project(caller, model)))


def _model_fields(project: Project) -> dict[str, Any]:
    return {
        "id": f"{PREFIX}{project.slug}",
        "object": "model",
        "created": int(project.created_at.timestamp()),
        "owned_by": "ragforge",
    }


def _project(caller: Caller, model: str) -> Project:
    """What the caller does not reach, it learns nothing of."""
    try:
        if model.startswith(PREFIX):
            return caller.forge.project(model.removeprefix(PREFIX))
    except (NotFound, UserError):
        pass
    raise UnknownModel(f"the model {model[:200]!r} does not exist", hint=_MODELS)


# -- answers


@router.post("/chat/completions")
async def chat(asked: ChatRequest, request: Request, caller: Called) -> Response:
    """Answer the last message of the user from a project's files, plain or streamed."""
    asked.refuse_what_is_not_done()
    said = conversed(asked.messages, datetime.now(UTC))
    project = await anyio.to_thread.run_sync(_project, caller, asked.model)
    cancel = Cancel()
    how = AskOptions(history=said.history, system=said.system, request=caller.request, cancel=cancel)
    how.update(asked.sampling())
    events: AsyncGenerator[Event, None] = stepped(
        _answering(caller, said.question, project.slug, how), streams_of(request).threads, cancel
    )
    files = f"{str(request.base_url).rstrip('/')}/v1/projects/{project.slug}/files"
    replies = Replies(f"chatcmpl-{caller.request}", f"{PREFIX}{project.slug}", int(time.time()), files)
    if not asked.stream:
        return await unless_gone(request, partial(_whole, replies, events))
    with_usage = asked.stream_options is not None and bool(asked.stream_options.include_usage)
    return await unless_gone(request, partial(_begun, request, replies, events, with_usage))


def _answering(caller: Caller, question: str, project: str, how: AskOptions) -> Iterator[Event | Pending]:
    """Begun in the thread that takes the first event: a model is made then, which may take a moment."""
    yield from caller.forge.answering(question, project=project, **how)


async def _whole(replies: Replies, events: AsyncGenerator[Event, None]) -> Response:
    async with aclosing(events):
        async for event in events:
            if isinstance(event, DoneEvent):
                return json_response(replies.whole(event.result))
    raise AssertionError("a stream ends with its result")


async def _begun(request: Request, replies: Replies, events: AsyncGenerator[Event, None], with_usage: bool) -> Response:
    """A stream from its first word on: until there is one, whatever fails is told with a status."""
    try:
        first = await anext(events)
        while not isinstance(first, TokenEvent | DoneEvent):
            first = await anext(events)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await events.aclose()
        raise
    lines = _told(request, replies, first, events, with_usage)
    return Streamed(lines, events, streams_of(request).idle_seconds)


async def _told(
    request: Request, replies: Replies, first: Event, events: AsyncGenerator[Event], with_usage: bool
) -> AsyncGenerator[bytes]:
    """The rest of a stream; what fails now can only be told in it."""
    empty = {"usage": None} if with_usage else {}
    try:
        yield _line(replies.begun() | empty)
        said_any, event = False, first
        while not isinstance(event, DoneEvent):
            if isinstance(event, TokenEvent):
                said_any = True
                yield _line(replies.piece(event.text) | empty)
            event = await anext(events)
        if not said_any:  # an abstention has no words of a model
            yield _line(replies.piece(event.result.text) | empty)
        yield _line(replies.ended(event.result) | empty)
        if with_usage:
            yield _line(replies.used(event.result))
        yield b"data: [DONE]\n\n"
    except RagforgeError as problem:
        yield _line(_problem(request, problem)[1])
    except Cancelled:
        yield _line(_fields(request, 503, "stopped", "the work was stopped", "ask again"))
    except Exception as problem:
        broken(request, problem)
        yield _line(_fields(request, 500, *INTERNAL))


def _line(fields: dict[str, Any]) -> bytes:
    return f"data: {json_text(fields)}\n\n".encode()


class Streamed(StreamingResponse):
    """Server-sent events; however it ends, also before its first line, what brings them is closed."""

    def __init__(self, lines: AsyncGenerator[bytes], events: AsyncGenerator[Event], idle_seconds: float) -> None:
        super().__init__(lines, headers=SSE_HEADERS, media_type="text/event-stream")
        self._sources: tuple[AsyncGenerator[object], ...] = (lines, events)
        self._idle_seconds = idle_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await while_there(self, receive, send, self._idle_seconds)
        finally:
            with anyio.CancelScope(shield=True):
                for each in self._sources:
                    await each.aclose()


# -- vectors


@router.post("/embeddings")
async def embeddings(asked: EmbeddingRequest, request: Request, caller: Called) -> Response:
    """Vectors of texts, from the model of a project's own vectors."""
    asked.refuse_too_much()
    return await worked(request, streams_of(request).embeddings, partial(_embedded, asked, caller))


def _embedded(asked: EmbeddingRequest, caller: Caller, cancel: Cancel) -> Response:
    project = _project(caller, asked.model)
    vectors, tokens = caller.forge.embedded(asked.texts, project=project.slug, cancel=cancel)
    if asked.dimensions not in (None, vectors.shape[1]):
        said = f"the vectors of this project have {vectors.shape[1]} dimensions"
        raise Unsupported("dimensions", said, hint="leave dimensions out")
    as_floats = asked.encoding_format == "float"
    shown = [
        each.tolist() if as_floats else base64.b64encode(each.astype("<f4").tobytes()).decode() for each in vectors
    ]
    data = [{"object": "embedding", "index": place, "embedding": each} for place, each in enumerate(shown)]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return json_response({"object": "list", "data": data, "model": f"{PREFIX}{project.slug}", "usage": usage})


# -- errors


_Problem = RagforgeError | RequestValidationError | HTTPException


def _problem(request: Request, problem: _Problem) -> tuple[int, dict[str, Any]]:
    """Status and fields: OpenAI's `message`, `type`, `param` and `code`, with our hint and the request's id."""
    param: str | None = None
    if isinstance(problem, RequestValidationError):
        status, code, (message, hint) = 400, "invalid", misshapen(request, problem)
        param = next((str(part) for part in problem.errors()[0]["loc"][1:]), None)
    elif isinstance(problem, HTTPException):
        status, code, message, hint = problem.status_code, "refused", str(problem.detail), TAKEN
    else:
        (status, code), message, hint = status_of(problem), problem.message, problem.hint
    if isinstance(problem, Unsupported):
        status, code, param = 400, "unsupported", problem.param
    if isinstance(problem, UnknownModel):
        code, param = "model_not_found", "model"
    return status, _fields(request, status, code, message, hint, param)


def _fields(
    request: Request, status: int, code: str, message: str, hint: str, param: str | None = None
) -> dict[str, Any]:
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return error_fields(code, message, hint, request_id(request), in_one=True, type=kind, param=param)


def _headers(request: Request, problem: _Problem) -> dict[str, str]:
    """When to try again, if that is known."""
    if not isinstance(problem, RagforgeError):
        return {}
    usual = failure_response(request, problem).headers
    return {name: value for name, value in usual.items() if name == "retry-after"}
