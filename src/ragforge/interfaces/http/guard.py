"""What stands before every route. Nothing of a body is read before it agrees.

request id -> known host, known origin -> row of the policy -> key -> action -> limits -> the route

While the route works, its key is looked after: when it is revoked or expires, the answer ends within a second.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress

import anyio
import anyio.to_thread
from anyio import CapacityLimiter
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragforge.app import Ragforge
from ragforge.domain.access import Principal
from ragforge.domain.cancel import Cancelled
from ragforge.errors import RagforgeError
from ragforge.interfaces.http.caller import RECORDS, Caller
from ragforge.interfaces.http.errors import TAKEN, error_response, failure_response, request_id
from ragforge.interfaces.http.limits import Limits
from ragforge.interfaces.http.policy import WS, methods_of, row_of
from ragforge.interfaces.http.revocation import Revocations
from ragforge.interfaces.http.streams import begins_stream
from ragforge.operate.access import Access, allowed, refused

_HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[^\[\]:]+))(?::\d*)?")
_READ_ANYWAY = 65_536
"""Bytes of a body that come with the request itself."""
_LAST_WORDS_SECONDS = 1.0
REVOKED = 4401
"""Why a WebSocket is closed: 401, as far as it has such a code."""
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")

log = logging.getLogger("ragforge.http")


class Names:
    """Under which names a server may be called, and by which web pages: others may be a trick on a browser."""

    def __init__(self, hosts: Iterable[str], origins: Iterable[str]) -> None:
        self._hosts = {host.lower().strip("[]") for host in hosts if host}
        self._origins = {origin.lower().rstrip("/") for origin in origins}

    def known_host(self, host: str) -> bool:
        """`name`, `name:port`, and `[address]:port` for IPv6."""
        match = _HOST.fullmatch(host.lower())
        return match is not None and (match["address"] or match["name"]) in self._hosts

    def known_origin(self, origin: str, host: str) -> bool:
        """None is sent by programs; a page of this server itself is known."""
        own = {f"http://{host}".lower(), f"https://{host}".lower()}
        return not origin or origin.lower() in self._origins | own


class Answering:
    """What was said so far, and how to end it: an answer that has begun cannot become another."""

    def __init__(self, connection: HTTPConnection, receive: Receive, send: Send) -> None:
        self._connection = connection
        self._receive = receive
        self._send = send
        self._begun: Message | None = None
        self._over = False

    async def send(self, message: Message) -> None:
        """For the route, until the answer is over."""
        if self._over:
            return
        self._begun = self._begun or message
        await self._send(message)

    async def failed(self, response: Response) -> None:
        """In place of an answer that has not begun; one that has is cut, so that nobody takes it for whole."""
        if self._begun is None:
            self._over = True
            if _has_much_to_say(self._connection.headers):  # of which the server would read all, for nothing
                response.headers["Connection"] = "close"
            await response(self._connection.scope, self._receive, self._send)
            return
        log.warning("an answer broke off", extra={"request_id": request_id(self._connection)})
        if self._begun["type"] == "websocket.accept":
            await self._close(1011, "the work failed")

    async def revoked(self) -> None:
        """The key works no more: the last words, for whoever still listens."""
        if self._over:
            return
        self._over, problem = True, refused()
        response = failure_response(self._connection, problem)
        with suppress(RuntimeError, OSError), anyio.move_on_after(_LAST_WORDS_SECONDS):  # it may have just ended
            if self._begun is None:
                await response(self._connection.scope, self._receive, self._send)
            elif self._begun["type"] == "websocket.accept":
                await self._close(REVOKED, problem.message)
            elif begins_stream(self._begun):
                event = b"event: error\ndata: " + bytes(response.body) + b"\n\n"
                await self._send({"type": "http.response.body", "body": event})

    async def _close(self, code: int, reason: str) -> None:
        self._over = True
        with suppress(RuntimeError, OSError):  # it may be closed already
            await self._send({"type": "websocket.close", "code": code, "reason": reason})


class Guard:
    """For HTTP and WebSockets alike."""

    def __init__(self, app: ASGIApp, forge: Ragforge, access: Access, names: Names, limits: Limits) -> None:
        self._app = app
        self._forge = forge
        self._access = access
        self._names = names
        self._limits = limits
        self._revocations = Revocations(access)
        self._lookups = CapacityLimiter(2)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] == "http" and scope["method"] == "HEAD":
            await self._head(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        scope["ragforge.request"] = request = _request_id(connection.headers)
        send = _with_request_id(send, request)
        answer = Answering(connection, receive, send)
        if refusal := self._misdirected(connection):
            await answer.failed(error_response(connection, *refusal))
            return
        method, path = WS if scope["type"] == "websocket" else scope["method"], scope["path"]
        row = row_of(method, path)
        if row is None:
            response = error_response(
                connection, 404, "not_found", "nothing is at this path", "GET /docs lists what is"
            )
            if methods := methods_of(path):
                response = error_response(connection, 405, "method", f"this path takes {' or '.join(methods)}", TAKEN)
                response.headers["Allow"] = ", ".join(methods)
            await answer.failed(response)
            return
        scope["ragforge.route"] = row.path
        if row.action is None:
            await self._app(scope, receive, send)
            return
        try:
            principal = await self._principal(connection.headers)
            scope["ragforge.principal"] = principal
            reach = allowed(principal, row.action)
            async with (
                self._limits.holding(principal, row.action) as streams,
                self._revocations.guarded_stream(principal, answer.revoked),
            ):
                records = RECORDS in connection.headers.get("accept", "")
                scope["ragforge.caller"] = Caller(self._forge.acting(reach), principal, request, records)
                scope["ragforge.limits"] = self._limits
                await self._app(scope, receive, _telling(answer.send, streams))
        except RagforgeError as problem:
            await answer.failed(failure_response(connection, problem))
        except Cancelled:
            await answer.failed(error_response(connection, 503, "stopped", "the work was stopped", "ask again"))

    async def _head(self, scope: Scope, receive: Receive, send: Send) -> None:
        """How GET would begin; its route is not asked for more."""
        got = {**scope, "method": "GET"}
        with anyio.CancelScope() as enough:

            async def beginning(message: Message) -> None:
                if message["type"] == "http.response.start":
                    await send(message)
                    await send({"type": "http.response.body", "body": b""})
                    enough.cancel()

            try:
                await self(got, receive, beginning)
            finally:  # for the log
                scope.update({name: told for name, told in got.items() if name.startswith("ragforge.")})

    def _misdirected(self, connection: HTTPConnection) -> tuple[int, str, str, str] | None:
        host, origin = connection.headers.get("host", ""), connection.headers.get("origin", "")
        if len(connection.headers.getlist("host")) != 1 or not self._names.known_host(host):
            return 421, "host", "this server does not go by that name", "add it to server.hosts in ragforge.toml"
        if not self._names.known_origin(origin, host):
            return 403, "origin", "pages of that origin may not call", "add it to server.origins in ragforge.toml"
        return None

    async def _principal(self, headers: Headers) -> Principal:
        return await anyio.to_thread.run_sync(self._access.principal, _presented(headers), limiter=self._lookups)


def _has_much_to_say(headers: Headers) -> bool:
    length = headers.get("content-length", "0")
    return "transfer-encoding" in headers or not length.isdecimal() or int(length) > _READ_ANYWAY


def _presented(headers: Headers) -> str:
    """The key that was sent, if one was: `Authorization: Bearer`, or `X-API-Key`."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "").strip()


def _request_id(headers: Headers) -> str:
    """The caller's own, if it can stand in a log; else a new one."""
    given = headers.get("x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)


def _telling(send: Send, streams: Callable[[], None]) -> Send:
    """The same, and who should know is told when an answer streams."""

    async def sending(message: Message) -> None:
        if begins_stream(message):
            streams()
        await send(message)

    return sending


def _with_request_id(send: Send, request: str) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            MutableHeaders(scope=message)["X-Request-ID"] = request
        await send(message)

    return sending
