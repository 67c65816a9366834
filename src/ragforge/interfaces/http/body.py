"""The reader of bodies: what is too large, too slow or not what it says is sent away before a route works on it.

A small body is read here, whole; an upload is passed on as it comes, and counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragforge.domain.sizes import size_text
from ragforge.errors import TooLarge
from ragforge.interfaces.http.errors import TooSlow, failure_response

SMALL_BYTES = 4_000_000
"""The most that anything but an upload may be."""
NEEDLESS_BYTES = 65_536
"""The most where nothing needs to be sent."""
UPLOADS = ("POST", "/v1/projects/{project}/files")
_LEAST_PER_SECOND = 1_024
"""Bytes that a client must send on the average, once its patience is over."""


class Bodies:
    """For HTTP; the events of a WebSocket are counted where they are read."""

    def __init__(
        self, app: ASGIApp, largest: int, idle_seconds: float, tick: Callable[[], float] = time.monotonic
    ) -> None:
        self._app = app
        self._largest = largest
        self._idle = idle_seconds
        self._tick = tick

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else {}
        length, streamed = headers.get("content-length", "0"), "transfer-encoding" in headers
        if scope["type"] != "http" or (length == "0" and not streamed):
            await self._app(scope, receive, send)
            return
        is_upload = (scope["method"], scope.get("ragforge.route")) == UPLOADS
        limit = self._largest if is_upload else min(_most(scope), self._largest)
        body = _Body(receive, limit, self._idle, self._tick, is_upload)
        send = body.closing(send)
        try:
            if length.isascii() and length.isdecimal() and int(length) > limit:
                raise _over(limit, is_upload)
            await self._app(scope, body.receive if is_upload else await body.whole(), send)
        except (TooLarge, TooSlow) as problem:
            await failure_response(HTTPConnection(scope), problem)(scope, receive, send)


class _Body:
    """One body as it comes."""

    def __init__(
        self, receive: Receive, limit: int, idle: float, tick: Callable[[], float], is_upload: bool = False
    ) -> None:
        self._receive = receive
        self._is_upload = is_upload
        self._limit = limit
        self._idle = idle
        self._tick = tick
        self._began = tick()
        self._size = 0
        self._ended = False

    async def receive(self) -> Message:
        """The next piece. Raises TooLarge or TooSlow."""
        if self._ended:
            return await self._receive()
        message: Message | None = None
        with anyio.move_on_after(self._idle):
            message = await self._receive()
        if message is None:
            raise TooSlow("nothing came for too long", hint="send the body without pauses")
        if message["type"] != "http.request":
            return message
        self._size += len(message.get("body", b""))
        self._ended = not message.get("more_body", False)
        if self._size > self._limit:
            raise _over(self._limit, self._is_upload)
        if not self._ended and self._is_dripping():
            raise TooSlow("the body came too slowly", hint="send it at once, or use a better line")
        return message

    def _is_dripping(self) -> bool:
        return self._size < (self._tick() - self._began - self._idle) * _LEAST_PER_SECOND

    async def whole(self) -> Receive:
        """All of it at once; after that, what the connection tells."""
        pieces: list[bytes] = []
        ended = False
        while not ended:
            message = await self.receive()
            if message["type"] != "http.request":  # the client has gone
                gone = message
                return lambda: _soon(gone)
            pieces.append(message.get("body", b""))
            ended = self._ended
        told: list[Message] = [{"type": "http.request", "body": b"".join(pieces), "more_body": False}]

        async def receive() -> Message:
            return told.pop() if told else await self._receive()

        return receive

    def closing(self, send: Send) -> Send:
        """Who answers before all was read has no use for the rest: the connection ends with the answer."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and not self._ended:
                MutableHeaders(scope=message)["Connection"] = "close"
            await send(message)

        return sending


async def _soon(message: Message) -> Message:
    return message


def _most(scope: Scope) -> int:
    """Whoever needs no key sends nothing: nobody would count it."""
    if "ragforge.caller" not in scope:
        return 0
    return NEEDLESS_BYTES if scope["method"] in ("GET", "DELETE") else SMALL_BYTES


def _over(limit: int, is_upload: bool) -> TooLarge:
    hint = "send less; long texts are for the project's files"
    if is_upload:
        hint = "send fewer files at a time; whoever runs the server can raise server.body_bytes in ragforge.toml"
    return TooLarge(f"the request is larger than {size_text(limit)}", hint=hint)
