"""Servers that do not do what one hopes: silent, or with one answer to everything."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

_last: list[Message] = []


def last_request() -> Message:
    """The headers of what was last asked of `always`."""
    return _last[-1]


def nobody() -> str:
    """The address of a port at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


@contextmanager
def silence() -> Iterator[str]:
    """The address of a server that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def always(status: int, body: str = "") -> Iterator[str]:
    """The address of a server with one answer to everything."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            _last[:] = [self.headers]
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        do_GET = do_POST = do_PUT = do_DELETE = answer

        def log_message(self, format: str, *args: object) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def interrupted(url: str, times: int) -> Iterator[str]:
    """The address of a way to a server that breaks off the first connections."""
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_server(("127.0.0.1", 0)) as way:
        thread = Thread(target=_lead, args=(way, (host, int(port)), times), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{way.getsockname()[1]}"
        way.shutdown(socket.SHUT_RDWR)
        thread.join()


def _lead(way: socket.socket, there: tuple[str, int], refused: int) -> None:
    while True:
        try:
            caller, _ = way.accept()
        except OSError:  # closed
            return
        if refused:
            refused -= 1
            caller.close()
            continue
        server = socket.create_connection(there)
        for one, other in ((caller, server), (server, caller)):
            Thread(target=_pass_on, args=(one, other), daemon=True).start()


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError), one, other:
        while data := one.recv(65_536):
            other.sendall(data)
