"""What uvicorn leaves open: it waits for the head of a request as long as a client likes.

Here a head comes in time, or the connection is closed. The time begins with the connection, and again with the end of
each answer; bodies have a patience of their own.
"""

from __future__ import annotations

import asyncio

from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle


def impatient(head_seconds: float) -> type[asyncio.Protocol]:
    """What uvicorn makes for each connection."""

    class Connection(HttpToolsProtocol):
        _overdue: asyncio.TimerHandle | None = None
        _answering: RequestResponseCycle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._expect_head()

        def on_headers_complete(self) -> None:
            self._expect_nothing()
            super().on_headers_complete()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.timeout_keep_alive_task is not None:  # else another request is here already
                self._expect_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._expect_nothing()
            super().connection_lost(exc)
            if self._answering is not None:  # uvicorn tells only the last of several requests
                self._answering.disconnected = not self._answering.response_complete
                self._answering.message_event.set()

        def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
            self._answering = cycle
            super()._start_asgi_task(cycle, app)

        def _expect_head(self) -> None:
            self._expect_nothing()
            self._overdue = self.loop.call_later(head_seconds, self.transport.close)

        def _expect_nothing(self) -> None:
            if self._overdue is not None:
                self._overdue.cancel()
                self._overdue = None

    return Connection
