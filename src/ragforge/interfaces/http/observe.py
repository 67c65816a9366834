"""The outermost layer: one line in the log for each request, its numbers, and no more of them than can wait."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass

import anyio
from starlette.requests import HTTPConnection, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragforge.domain.access import Principal
from ragforge.interfaces.http.errors import broken, error_response
from ragforge.interfaces.http.metrics import Metrics
from ragforge.interfaces.http.policy import WS
from ragforge.interfaces.http.presence import GONE
from ragforge.interfaces.http.streams import begins_stream
from ragforge.interfaces.http.workers import is_relayed
from ragforge.operate import telemetry

ALWAYS = ("/healthz", "/readyz")
"""Answered however much there is to do; no line in the log tells that somebody looked."""
_QUIET = (*ALWAYS, "/metrics")
_LAST_SECONDS = 1.0
"""For the answer of a server that stops."""

log = logging.getLogger("ragforge.http")


@dataclass(slots=True)
class _Seen:
    """What can be seen of an answer from outside."""

    status: int = 0
    bytes: int = 0
    began: float = 0.0
    streams: bool = False
    works: bool = False
    """It takes one of the places that there are."""
    gone: bool = False
    """The client left, and the server says so to whoever sends."""


class Observe:
    """Around everything, for HTTP and WebSockets alike."""

    def __init__(self, app: ASGIApp, metrics: Metrics, waiting: int) -> None:
        self._app = app
        self._metrics = metrics
        self._waiting = waiting
        self._at_work = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or is_relayed(scope):
            await self._app(scope, receive, send)
            return
        began, seen = time.perf_counter(), _Seen()
        if scope["type"] == "http" and scope["path"] not in ALWAYS and self._at_work >= self._waiting:
            self._metrics.overloaded()
            scope["ragforge.request"] = secrets.token_hex(8)
            refusal = error_response(
                HTTPConnection(scope), 503, "overloaded", "too many requests wait here already", "try again in a moment"
            )
            await refusal(scope, receive, self._watching(send, seen))
            self._tell(scope, seen, began)
            return
        self._works(seen, True)
        try:
            with telemetry.span("request"):
                await self._answer(scope, self._waiting_for(receive, seen), self._watching(send, seen), seen)
        except asyncio.CancelledError:
            if seen.status or scope["type"] != "http":
                seen.status = seen.status or GONE
                raise
            scope.setdefault("ragforge.request", secrets.token_hex(8))
            refusal = error_response(HTTPConnection(scope), 503, "stopped", "the server stops", "try again in a moment")
            with anyio.move_on_after(_LAST_SECONDS):
                await refusal(scope, receive, self._watching(send, seen))
        finally:
            self._works(seen, False)
            if seen.streams:
                self._metrics.streams.dec()
            self._tell(scope, seen, began)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, seen: _Seen) -> None:
        """A fault of ours is told once, with the request's id; also if nothing else of the server would tell it."""
        try:
            await self._app(scope, receive, send)
        except Exception as problem:
            if seen.gone:
                return
            connection = Request(scope) if scope["type"] == "http" else HTTPConnection(scope)
            answer = broken(connection, problem)
            if seen.status:  # half of an answer is out: the connection breaks off
                raise
            with suppress(RuntimeError):  # a socket that was not accepted yet may not know how to refuse
                await answer(scope, receive, send)
        finally:
            telemetry.fact("request.id", scope.get("ragforge.request", ""))
            telemetry.fact("http.route", scope.get("ragforge.route", ""))
            telemetry.fact("http.response.status_code", seen.status or GONE)

    def _watching(self, send: Send, seen: _Seen) -> Send:
        async def sending(message: Message) -> None:
            kind = message["type"]
            if kind in ("http.response.start", "websocket.http.response.start", "websocket.accept"):
                seen.status = message.get("status", 101)
                seen.began = time.perf_counter()
                self._works(seen, False)
                if begins_stream(message):
                    seen.streams = True
                    self._metrics.streams.inc()
            elif kind == "websocket.close" and not seen.status:
                seen.status = 403  # what a client sees whose socket was not accepted
            elif kind in ("http.response.body", "websocket.http.response.body"):
                seen.bytes += len(message.get("body", b""))
            elif kind == "websocket.send":
                seen.bytes += len(message.get("bytes") or (message.get("text") or "").encode())
            try:
                await send(message)
            except OSError:
                seen.gone = True
                raise

        return sending

    def _waiting_for(self, receive: Receive, seen: _Seen) -> Receive:
        """Nobody works while a body comes."""
        is_whole = False

        async def receiving() -> Message:
            nonlocal is_whole
            if is_whole or not seen.works:
                return await receive()
            self._works(seen, False)
            try:
                message = await receive()
            finally:
                self._works(seen, not seen.status)
            is_whole = not message.get("more_body", False)
            return message

        return receiving

    def _works(self, seen: _Seen, works: bool) -> None:
        """What waits for a client, or once it streams for a model or for news, takes nobody's place."""
        self._at_work += works - seen.works
        seen.works = works
        self._metrics.at_work.set(self._at_work)

    def _tell(self, scope: Scope, seen: _Seen, began: float) -> None:
        now = time.perf_counter()
        route = scope.get("ragforge.route", "")
        method = WS if scope["type"] == "websocket" else scope["method"]
        status = seen.status or GONE
        self._metrics.answered(route, method, status, (seen.began or now) - began)
        principal: Principal | None = scope.get("ragforge.principal")
        fields = {
            "request": scope.get("ragforge.request", ""),
            "method": method[:10],
            "route": route,
            "status": status,
            "ms": round((now - began) * 1000, 1),
            "principal": principal.id if principal else "",
            "bytes": seen.bytes,
        }
        level = logging.DEBUG if scope["path"] in _QUIET and status < 400 else logging.INFO
        log.log(level, "request", extra={"fields": fields})
