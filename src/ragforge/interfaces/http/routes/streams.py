"""Streams that are read again, or stopped; and the progress of long work."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Header, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from ragforge.domain.library import Job
from ragforge.interfaces.http.caller import Called
from ragforge.interfaces.http.errors import ERRORS
from ragforge.interfaces.http.routing import Route
from ragforge.interfaces.http.streams import (
    FIRST,
    HEARTBEAT,
    SSE_HEADERS,
    ServerSentEvents,
    position_of,
    streams_of,
    while_there,
)
from ragforge.interfaces.http.watching import AT_WORK, Watched, Watches, watches_of
from ragforge.interfaces.records import encode, json_text

_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {}}}, "description": "Events as they come"}
}
_ENDED: dict[int | str, dict[str, Any]] = {204: {"description": "There is nothing more to come"}}

router = APIRouter(prefix="/v1", tags=["streams"], responses=ERRORS, route_class=Route)


@router.get("/streams/{stream}", response_class=Response, responses={**_EVENTS, **_ENDED})
async def resume(
    stream: str,
    request: Request,
    caller: Called,
    after: Annotated[str, Query(max_length=200, description="The id or number of the last event you saw")] = "",
    last_event_id: Annotated[str, Header(max_length=200)] = "",
) -> Response:
    """Go on with a stream of yours after the last event you saw, or from its beginning. 204: you have seen all."""
    streams = streams_of(request)
    found = streams.get(caller.principal, stream)
    position = position_of(stream, last_event_id, after)
    if found.has_ended and position == found.ring.last:
        return Response(status_code=204)
    return ServerSentEvents(found, position, streams.idle_seconds)


@router.delete("/streams/{stream}", status_code=204, response_class=Response)
async def stop(stream: str, request: Request, caller: Called) -> Response:
    """Stop an answer of yours. Whoever reads it is told."""
    streams_of(request).get(caller.principal, stream).stop()
    return Response(status_code=204)


@router.get("/jobs/{job}/events", response_class=Response, responses=_EVENTS)
async def job_events(job: str, request: Request, caller: Called) -> Response:
    """How far a job has come, whenever that changes: the events `progress`, and `done` when it has ended."""
    streams = streams_of(request)
    seen = await anyio.to_thread.run_sync(caller.forge.job, job, limiter=streams.lookups)
    return JobEvents(seen, watches_of(request), streams.idle_seconds, caller.seen)


class JobEvents(StreamingResponse):
    """The state of a job to one reader. Each event is the whole of it, so nothing is missed by coming back."""

    media_type = "text/event-stream"

    def __init__(self, job: Job, watches: Watches, idle_seconds: float, seen: Callable[[object], object]) -> None:
        self._job = job
        self._watches = watches
        self._seen = seen
        self._idle_seconds = idle_seconds
        super().__init__((), headers=SSE_HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._watches.watching(self._job) as watched:
            self.body_iterator = self._frames(watched)
            await while_there(self, receive, send, self._idle_seconds)

    async def _frames(self, watched: Watched) -> AsyncIterator[bytes]:
        yield FIRST + self._frame(self._job)
        async for job in watched.news(self._job):
            yield HEARTBEAT if job is None else self._frame(job)

    def _frame(self, job: Job) -> bytes:
        name = "progress" if job.state in AT_WORK else "done"
        return f"event: {name}\ndata: {json_text(self._seen({'event': name, **encode(job)}))}\n\n".encode()
