"""A conversation over a WebSocket: questions in, the same events out that server-sent events bring.

A client sends `{"type": "ask", "question": …}` with the fields of `ask`, `{"type": "cancel"}`, or
`{"type": "resume", "stream": …, "after": n}`. Every event of an answer has its `id`, `<stream>-<n>`; what is wrong
comes as an event `error`, and a `ping` when there was nothing to say for a while.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, suppress

import anyio
import anyio.to_thread
from anyio.lowlevel import checkpoint
from fastapi import APIRouter
from pydantic import TypeAdapter, ValidationError
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from ragforge.domain.access import Action
from ragforge.domain.cancel import Cancel
from ragforge.domain.pending import Pending
from ragforge.errors import RagforgeError, UserError
from ragforge.interfaces.http.asking import asked_options, begun, seals_of, told_events
from ragforge.interfaces.http.caller import Called, Caller
from ragforge.interfaces.http.limits import Limits
from ragforge.interfaces.http.requests import AskMessage, CancelMessage, ChatMessage, ResumeMessage
from ragforge.interfaces.http.streams import (
    HEARTBEAT_SECONDS,
    LAST_WORDS,
    Event,
    Stream,
    Streams,
    Told,
    error_told,
    failure_told,
    internal_told,
    streams_of,
)
from ragforge.interfaces.http.workers import Elsewhere, Place
from ragforge.interfaces.misshapen import sentence
from ragforge.interfaces.records import json_text

_LARGEST = 1_000_000
"""Characters of a message."""
_MOST_GARBAGE = 5
_BETWEEN_MESSAGES = 0.01
"""Seconds: whoever sends faster waits, and everybody else has their turn meanwhile."""
_POLICY = 1008
"""The code of a socket that is closed for what was sent."""
_LONGEST_TITLE = 80
_MESSAGES: TypeAdapter[AskMessage | CancelMessage | ResumeMessage] = TypeAdapter(ChatMessage)

router = APIRouter(prefix="/v1/projects/{project}", tags=["questions"])


@router.websocket("/chat")
async def chat(socket: WebSocket, project: str, caller: Called) -> None:
    """Refused before it is opened if there is no such project."""
    streams = streams_of(socket)
    known = await anyio.to_thread.run_sync(lambda: caller.forge.project(project), limiter=streams.threads)
    await socket.accept()
    await Chat(socket, caller, known.slug, streams).run()


class Garbage(Exception):
    """Something that is no message."""

    def __init__(self, told: str) -> None:
        super().__init__(told)
        self.told = told


class Chat:
    """One socket: at most one answer at a time."""

    def __init__(self, socket: WebSocket, caller: Caller, project: str, streams: Streams) -> None:
        self._socket = socket
        self._caller = caller
        self._project = project
        self._streams = streams
        self._limits: Limits = socket.scope["ragforge.limits"]
        self._conversation = ""
        """That of the last question that had one: those after it go on in it."""
        self._questions = 0
        self._garbage = 0
        self._busy = False
        self._is_cancelled = False
        self._stream: Stream | Elsewhere | None = None
        self._said = anyio.Event()

    async def run(self) -> None:
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                group.start_soon(self._ping)
                await self._listen()
                group.cancel_scope.cancel()
            await checkpoint()
        except anyio.get_cancelled_exc_class():  # the key was revoked, or the server stops
            if isinstance(self._stream, Stream):  # another worker does the same
                self._stream.stop()
            raise
        if self._garbage >= _MOST_GARBAGE and self._socket.application_state is WebSocketState.CONNECTED:
            await self._socket.close(_POLICY, "too much that is no message")

    async def _listen(self) -> None:
        """Until the client goes, or has sent too much garbage."""
        while self._garbage < _MOST_GARBAGE:
            received = await self._socket.receive()
            if received["type"] == "websocket.disconnect":
                return
            await anyio.sleep(_BETWEEN_MESSAGES)
            try:
                await self._heard(_message(received.get("text")))
            except Garbage as problem:
                self._garbage += 1
                hint = 'send JSON: {"type": "ask", "question": …}, or cancel, or resume'
                await self._send(error_told("invalid", problem.told, hint, self._caller.request))

    async def _heard(self, message: AskMessage | CancelMessage | ResumeMessage) -> None:
        if isinstance(message, CancelMessage):
            self._is_cancelled = self._busy
            if self._busy and self._stream is not None:
                await self._stop(self._stream)
            return
        if self._busy:
            hint = 'wait for done, or send {"type": "cancel"}'
            name = message.id if isinstance(message, AskMessage) else ""
            told = error_told(
                "busy", "one answer at a time: the last is still being written", hint, self._caller.request
            )
            await self._send(told, name=name)
            return
        self._busy, self._is_cancelled, self._stream = True, False, None
        self._group.start_soon(self._answer, message)

    async def _answer(self, message: AskMessage | ResumeMessage) -> None:
        name, after = (message.id, 0) if isinstance(message, AskMessage) else ("", message.after)
        try:
            stream = self._stream = await self._meant(message)
            if self._is_cancelled:  # before there was anything to stop
                await self._stop(stream)
            if isinstance(stream, Elsewhere):
                await self._read(stream.id, stream.batches(after), name)
                return
            with stream.reading(after) as reader:
                await self._read(stream.id, reader.batches(), name)
        except RagforgeError as problem:
            self._busy = False
            await self._send(failure_told(problem, self._caller.request), name=name)
        except Exception as problem:
            self._busy = False
            await self._send(internal_told(problem, self._caller.request), name=name)

    async def _meant(self, message: AskMessage | ResumeMessage) -> Stream | Elsewhere:
        if isinstance(message, AskMessage):
            return await self._asked(message)
        place: Place = self._socket.app.state.place
        if place.other_with(message.stream):
            return Elsewhere(place, message.stream, self._socket.scope["headers"])
        return self._streams.get(self._caller.principal, message.stream)

    async def _stop(self, stream: Stream | Elsewhere) -> None:
        if isinstance(stream, Elsewhere):
            await stream.stop()
        else:
            stream.stop()

    async def _asked(self, message: AskMessage) -> Stream:
        """Each question counts as a request, and has an id of its own that begins with the socket's."""
        await self._limits.again(self._caller.principal, Action.ASK)
        self._questions += 1
        request, cancel = f"{self._caller.request}.{self._questions}", Cancel()
        told = await anyio.to_thread.run_sync(self._begun, message, request, cancel, limiter=self._streams.threads)
        return self._streams.start(self._caller.principal, told, request, cancel)

    def _begun(self, message: AskMessage, request: str, cancel: Cancel) -> Iterator[Told | Pending]:
        forge, caller = self._caller.forge, self._caller
        options = asked_options(caller, self._project, message, seals_of(self._socket), cancel, request)
        if message.remember and "conversation" not in options:
            title = " ".join(message.question.split())[:_LONGEST_TITLE]
            options["conversation"] = forge.begin_conversation(title, project=self._project).id
        self._conversation = options.setdefault("conversation", self._conversation)
        return told_events(begun(forge, message.question, self._project, options), caller, request)

    # -- what is said

    async def _read(self, stream: str, batches: AsyncGenerator[list[Event]], name: str) -> None:
        async with aclosing(batches):
            async for batch in batches:
                for event in batch:
                    if event.name in LAST_WORDS:  # whoever hears it may ask again
                        self._busy = False
                    id = f"{stream}-{event.number}" if event.number else ""
                    await self._send(Told(event.name, event.data), id, name)
                    if event.name in LAST_WORDS:
                        return
        raise UserError("that was the last event of the stream", hint="there is nothing to go on with: ask again")

    async def _ping(self) -> None:
        while True:
            self._said = anyio.Event()
            with anyio.move_on_after(HEARTBEAT_SECONDS) as quiet:
                await self._said.wait()
            if quiet.cancelled_caught:
                await self._send(Told("ping", '{"event": "ping"}'))

    async def _send(self, told: Told, id: str = "", name: str = "") -> None:
        """One message. A client that reads nothing for too long, or is gone, is left."""
        head = {key: value for key, value in (("id", id), ("for", name)) if value}
        text = json_text(head)[:-1] + ", " + told.data[1:] if head else told.data
        self._said.set()
        sent = False
        with suppress(WebSocketDisconnect, RuntimeError), anyio.move_on_after(self._streams.idle_seconds):
            await self._socket.send_text(text)
            sent = True
        if not sent:
            self._group.cancel_scope.cancel()
            await checkpoint()


def _message(text: str | None) -> AskMessage | CancelMessage | ResumeMessage:
    if text is None:
        raise Garbage("messages are text, not bytes")
    if len(text) > _LARGEST:
        raise Garbage(f"a message has at most {_LARGEST:,} characters")
    try:
        return _MESSAGES.validate_json(text)
    except ValidationError as problem:
        raise Garbage(sentence(problem.errors())) from None
