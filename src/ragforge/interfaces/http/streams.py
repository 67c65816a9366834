"""Answers as streams of events: numbered, kept for a while, and read from any place by whoever asked.

A reader that goes away can come back within five seconds and go on where it stopped; after that nobody waits for the
answer, and the work is stopped. What was said stays for `server.events_seconds` after the end. All of this lives in
the event loop's thread; only the work itself is done in others.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import secrets
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import NamedTuple, cast

import anyio
from anyio import CapacityLimiter
from anyio.lowlevel import checkpoint
from starlette.requests import HTTPConnection
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from ragforge.domain.access import Principal
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.pending import Pending
from ragforge.errors import Busy, NotFound, RagforgeError, UserError
from ragforge.interfaces.http.errors import INTERNAL, error_fields, status_of
from ragforge.interfaces.http.serve import NUMBER
from ragforge.interfaces.http.stepping import stepped
from ragforge.interfaces.records import json_text

HEARTBEAT_SECONDS = 10.0
"""After so long without an event a reader is told that all is well."""
ABANDONED_SECONDS = 5.0
"""When nobody has read for so long, the work is stopped: time to come back after a cut of the network."""
RETRY_MILLISECONDS = 1_000
"""When a browser should come back."""
MOST_STREAMS = 1_000
"""At work at once."""
MOST_BYTES = 256 * 2**20
"""Of all streams together; who asks meanwhile is sent away."""
LARGEST_RING = 4 * 2**20
"""Bytes of one stream; less where so many are at work that all together would be too much."""
MOST_KEPT_BYTES = 64 * 2**20
"""Of all streams that ended; the oldest give way."""
LAST_WORDS = ("done", "error")
_STOP_SECONDS = 3.0
"""What is stopped may take so long to end well."""
_AT_ONCE = 64
"""Events that are written to a reader together."""

log = logging.getLogger("ragforge.http")


class Told(NamedTuple):
    """An event, ready to be sent."""

    name: str
    data: str
    """Its fields as one line of JSON."""


class Event(NamedTuple):
    """One with its number, from 1."""

    number: int
    name: str
    data: str


def error_told(code: str, message: str, hint: str, request: str) -> Told:
    return Told("error", json_text({"event": "error", **error_fields(code, message, hint, request)}))


def failure_told(problem: RagforgeError, request: str) -> Told:
    return error_told(status_of(problem)[1], problem.message, problem.hint, request)


def stopped_told(request: str) -> Told:
    return error_told("stopped", "the answer was stopped before it was complete", "ask again", request)


def internal_told(problem: Exception, request: str) -> Told:
    """A fault of ours: the log tells what it was, the caller only how to find it there."""
    log.error("a stream failed: %s", type(problem).__name__, exc_info=problem, extra={"request_id": request})
    return error_told(*INTERNAL, request)


class Ring:
    """The latest events of a stream. It is full when it may take no more without forgetting some."""

    def __init__(self, most_events: int = 4_096, most_bytes: int = LARGEST_RING) -> None:
        self._most_events = most_events
        self.most_bytes = most_bytes
        self._events: deque[Event] = deque()
        self.bytes = 0
        self.last = 0
        """The number of the newest event."""

    @property
    def first(self) -> int:
        """The number of the oldest event that is kept, or of the next if there is none."""
        return self.last - len(self._events) + 1

    @property
    def is_full(self) -> bool:
        return len(self._events) >= self._most_events or self.bytes >= self.most_bytes

    def add(self, told: Told) -> None:
        self.last += 1
        self._events.append(Event(self.last, *told))
        self.bytes += _weight(told.data)

    def make_room(self, read: int) -> None:
        """While it is full, forget the oldest of those that were read."""
        while self.is_full and self._events and self._events[0].number <= read:
            self.bytes -= _weight(self._events.popleft().data)

    def after(self, number: int, most: int = _AT_ONCE) -> list[Event]:
        start = number + 1 - self.first
        return [self._events[place] for place in range(start, min(start + most, len(self._events)))]


def _weight(data: str) -> int:
    """In memory, about: a letter of any script counts as one, and each event has its frame."""
    return len(data) + 200


class Stream:
    """One answer on its way. Its events are numbered, and nobody but `principal` reads them."""

    def __init__(self, id: str, principal: str, request: str, cancel: Cancel, ring: Ring | None = None) -> None:
        self.id = id
        self.principal = principal
        self.request = request
        self.ring = ring or Ring()
        self.has_ended = False
        self.work = anyio.CancelScope()
        self._cancel = cancel
        self._readers: list[Reader] = []
        self._changed = asyncio.Event()
        self._abandoned: asyncio.TimerHandle | None = None
        self._is_read_or_given_up()

    @property
    def is_read(self) -> bool:
        return bool(self._readers)

    def stop(self) -> None:
        """What blocks in a thread listens to `cancel`; what waits for a model is cancelled."""
        self._cancel.set()
        self.work.cancel()

    async def put(self, told: Told) -> None:
        """Waits while the ring is full of what its readers have not read: so slow a reader slows the model down."""
        while True:
            self._forget()
            if not self.ring.is_full:
                break
            await self.changed()
        self.ring.add(told)
        self._tell()

    def end(self, told: Told | None = None) -> None:
        """Nothing comes after this, the last word included."""
        if told is not None:
            self.ring.add(told)
        self.has_ended = True
        self._is_read_or_given_up()
        self._tell()

    @contextmanager
    def reading(self, after: int = 0) -> Iterator[Reader]:
        """Read what comes after the event of this number."""
        if after > self.ring.last:
            raise UserError(
                f"the stream has {self.ring.last} events so far, not {after}", hint="send the last id you saw"
            )
        if after < self.ring.first - 1:
            raise NotFound(f"the events up to {self.ring.first - 1} are no longer kept", hint="ask again")
        reader = Reader(self, after)
        self._readers.append(reader)
        self._is_read_or_given_up()
        try:
            yield reader
        finally:
            self._readers.remove(reader)
            self._is_read_or_given_up()
            self._tell()

    def allow(self, most_bytes: int) -> None:
        """How much it may hold from now on; whoever waits for room looks again."""
        if most_bytes != self.ring.most_bytes:
            self.ring.most_bytes = most_bytes
            self._tell()

    def moved(self) -> None:
        """Said by a reader that has read more."""
        if self.ring.is_full:
            self._tell()

    async def changed(self, seconds: float | None = None) -> bool:
        """Until there is something new; False: there was nothing for so long."""
        with anyio.move_on_after(seconds) as waiting:
            await self._changed.wait()
        return not waiting.cancelled_caught

    def _forget(self) -> None:
        if self._readers:  # else somebody may come back, and wants them
            self.ring.make_room(min(reader.position for reader in self._readers))

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _is_read_or_given_up(self) -> None:
        if self._abandoned is not None:
            self._abandoned.cancel()
            self._abandoned = None
        if not self._readers and not self.has_ended:
            self._abandoned = asyncio.get_running_loop().call_later(ABANDONED_SECONDS, self.stop)


class Reader:
    """One who reads a stream, and how far."""

    def __init__(self, stream: Stream, position: int) -> None:
        self._stream = stream
        self.position = position

    async def batches(self) -> AsyncGenerator[list[Event]]:
        """What comes, some at a time, to the end. An empty batch: nothing came for a while, and all is well."""
        stream = self._stream
        while True:
            batch = stream.ring.after(self.position)
            if batch:
                yield batch
                self.position = batch[-1].number
                stream.moved()
            elif stream.has_ended:
                return
            elif not await stream.changed(HEARTBEAT_SECONDS):
                yield []


def no_stream(id: str) -> NotFound:
    return NotFound(f"no stream {id[:200]!r}", hint="it may have ended a while ago: ask again")


class Streams:
    """All streams of a server."""

    def __init__(self, threads: int, kept_seconds: float, idle_seconds: float) -> None:
        self.threads = CapacityLimiter(threads)
        """Of their own: a model that takes its time over small work must not keep others from searching."""
        self.embeddings = CapacityLimiter(2)
        """For texts that are embedded for whoever asks: all processors are busy with one already."""
        self.lookups = CapacityLimiter(4)
        """For what is only looked up: many may watch, few need to look at a time."""
        self.idle_seconds = idle_seconds
        self._kept_seconds = kept_seconds
        self._worker = os.environ.get(NUMBER, "")
        """Several processes may serve: the id of a stream tells which of them has it."""
        self._streams: dict[str, Stream] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Those at work."""
        return len(self._tasks)

    def start(self, principal: Principal, told: Iterator[Told | Pending], request: str, cancel: Cancel) -> Stream:
        """Work on it at once; it goes on while somebody reads."""
        size = sum(each.ring.bytes for each in self._streams.values())
        if len(self._tasks) >= MOST_STREAMS or size >= MOST_BYTES:
            raise Busy(f"{len(self._tasks):,} answers are being written already", hint="ask again in a moment")
        self._give_way(principal)
        random = secrets.token_urlsafe(18)
        id = f"{self._worker}.{random}" if self._worker else random
        stream = self._streams[id] = Stream(id, principal.id, request, cancel)
        task = asyncio.create_task(self._work(stream, told, cancel))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        self._share()
        return stream

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._share()

    def _share(self) -> None:
        """Each of those at work may hold its part of what there is for all."""
        part = min(LARGEST_RING, MOST_BYTES // max(1, len(self._tasks)))
        for stream in self._streams.values():
            stream.allow(part)

    def get(self, principal: Principal, id: str) -> Stream:
        """One of the principal's own; what is another's is not there."""
        stream = self._streams.get(id)
        if stream is None or stream.principal != principal.id:
            raise no_stream(id)
        return stream

    @asynccontextmanager
    async def hosted(self) -> AsyncIterator[None]:
        """While the server runs."""
        try:
            yield
        finally:
            await self.close()

    async def close(self) -> None:
        """Stop all, and wait for them."""
        for stream in self._streams.values():
            stream.stop()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_STOP_SECONDS)
        self._streams.clear()

    async def _work(self, stream: Stream, told: Iterator[Told | Pending], cancel: Cancel) -> None:
        last: Told | None = stopped_told(stream.request)
        try:
            with stream.work:
                async with aclosing(stepped(told, self.threads, cancel)) as steps:
                    async for each in steps:
                        await stream.put(each)
                last = None
        except Cancelled:
            pass
        finally:
            stream.end(last)
            self._keep(stream)

    def _keep(self, stream: Stream) -> None:
        """Its events for a while, as long as there is room."""
        asyncio.get_running_loop().call_later(self._kept_seconds, self._streams.pop, stream.id, None)
        ended = [each for each in self._streams.values() if each.has_ended]
        size = sum(each.ring.bytes for each in ended)
        for each in ended:
            if size <= MOST_KEPT_BYTES:
                break
            size -= each.ring.bytes
            del self._streams[each.id]

    def _give_way(self, principal: Principal) -> None:
        """A key that may have so many requests at once has no more streams: one that nobody reads gives way."""
        most = principal.key.limits.concurrent if principal.key is not None else 0
        if not most:
            return
        own = [each for each in self._streams.values() if each.principal == principal.id and not each.has_ended]
        unread = [each for each in own if not each.is_read]
        for each in unread[: max(0, len(own) + 1 - most)]:
            each.stop()


def streams_of(connection: HTTPConnection) -> Streams:
    return cast(Streams, connection.app.state.streams)


# -- server-sent events

SSE_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""No proxy is to hold events back, nor anybody to keep them."""
FIRST = f"retry: {RETRY_MILLISECONDS}\n\n".encode()
HEARTBEAT = b": all is well\n\n"


def begins_stream(message: Message) -> bool:
    """Whether this begins an answer that goes on for as long as there is something to say."""
    if message["type"] == "websocket.accept":
        return True
    kinds = (value for name, value in message.get("headers", ()) if name.lower() == b"content-type")
    return any(kind.startswith(b"text/event-stream") for kind in kinds)


def frame(stream: str, event: Event) -> bytes:
    return f"id: {stream}-{event.number}\nevent: {event.name}\ndata: {event.data}\n\n".encode()


def position_of(stream: str, last_event_id: str, after: str) -> int:
    """Where a reader was: the number, or the whole id, of the last event it saw."""
    seen = after or last_event_id
    if not seen:
        return 0
    match = re.fullmatch(rf"(?:{re.escape(stream)}-)?([0-9]{{1,9}})", seen)
    if match is None:
        raise UserError(f"{seen[:200]!r} is no event of this stream", hint="send the last id you saw, as it was")
    return int(match[1])


class ServerSentEvents(StreamingResponse):
    """A stream to one reader. One that is cut off here stops the work; one that goes away may come back."""

    media_type = "text/event-stream"

    def __init__(self, stream: Stream, after: int, idle_seconds: float) -> None:
        self._stream = stream
        self._after = after
        self._idle_seconds = idle_seconds
        super().__init__((), headers={**SSE_HEADERS, "Content-Location": f"/v1/streams/{stream.id}"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self._stream.reading(self._after) as reader:
                self.body_iterator = self._frames(reader)
                await while_there(self, receive, send, self._idle_seconds)
            await checkpoint()
        except asyncio.CancelledError:  # the key was revoked, or the server stops
            self._stream.stop()
            raise

    async def _frames(self, reader: Reader) -> AsyncIterator[bytes]:
        yield FIRST
        async for batch in reader.batches():
            yield b"".join(frame(self._stream.id, event) for event in batch) or HEARTBEAT


async def while_there(response: StreamingResponse, receive: Receive, send: Send, idle_seconds: float) -> None:
    """Send all of a response, or as much as somebody is there to read."""
    async with anyio.create_task_group() as group:

        async def until_gone() -> None:
            await response.listen_for_disconnect(receive)
            group.cancel_scope.cancel()

        group.start_soon(until_gone)
        await response.stream_response(patient(send, idle_seconds, group.cancel_scope))
        group.cancel_scope.cancel()


def patient(send: Send, seconds: float, scope: anyio.CancelScope) -> Send:
    """The same, but a client that reads nothing for so long is given up."""

    async def sending(message: Message) -> None:
        with anyio.move_on_after(seconds) as waiting:
            await send(message)
        if waiting.cancelled_caught:
            scope.cancel()
            await checkpoint()

    return sending
