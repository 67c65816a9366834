"""A real server on a free port, in a thread of the test."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp as ASGIApplication

from ragforge import Ragforge
from ragforge.interfaces.http.app import create_app
from ragforge.interfaces.http.connections import impatient


class _Attentive(uvicorn.Server):
    """Told to stop, it does so at once: the usual one looks every tenth of a second."""

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            await asyncio.sleep(0.01)


@contextmanager
def serving(forge: Ragforge) -> Iterator[str]:
    """Its address while it runs."""
    with listening_to(create_app(forge)) as address:
        yield address


@contextmanager
def listening_to(
    app: ASGIApplication, *more: socket.socket, head_seconds: float = 10.0, grace_seconds: int = 2
) -> Iterator[str]:
    """The address of any application, which may listen on more sockets."""
    listening = socket.create_server(("127.0.0.1", 0))
    http = impatient(head_seconds)
    config = uvicorn.Config(
        app, http=http, log_config=None, log_level="warning", timeout_graceful_shutdown=grace_seconds
    )
    server = _Attentive(config)
    thread = threading.Thread(target=server.run, args=([listening, *more],), daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + 10
        while not server.started:
            assert thread.is_alive() and time.monotonic() < deadline, "the server did not start"
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        assert not thread.is_alive(), "the server did not stop"
