"""Workers find each other by their sockets, also in a folder whose path is too long for one, and do without those that
are gone.
"""

from __future__ import annotations

import asyncio
import socket
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ragforge.interfaces.http import workers
from ragforge.interfaces.http.workers import Place, Relay, asked_of_others, is_relayed

STREAM = "/v1/streams/2.abc"


def place(workspace: Path, number: int, count: int = 2) -> Place:
    return Place.of(workspace, {"RAGFORGE_WORKER": str(number), "RAGFORGE_WORKERS": str(count)})


@contextmanager
def running(app: ASGIApp, *sockets: socket.socket) -> Iterator[None]:
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    thread = threading.Thread(target=server.run, args=(list(sockets),), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield
    server.should_exit = True
    thread.join(10)


def tells(text: str) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        told = " ".join(
            (text, scope["method"], scope["raw_path"].decode(), scope["query_string"].decode(), str(is_relayed(scope)))
        )
        key = headers.get(b"authorization", b"").decode()
        await PlainTextResponse(told, headers={"X-Key": key, "X-Host": headers[b"host"].decode()})(scope, receive, send)

    return app


@pytest.fixture(params=["short", "long"])
def workspace(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    folder = tmp_path if request.param == "short" else tmp_path / ("x" * 120)
    folder.mkdir(exist_ok=True)
    return folder


def test_a_stream_of_another_worker_is_asked_of_it(workspace: Path) -> None:
    first, second = place(workspace, 1), place(workspace, 2)
    front = socket.create_server(("127.0.0.1", 0))
    own = second.listen()
    path = workspace / "run" / "2.sock"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    address = f"http://127.0.0.1:{front.getsockname()[1]}"
    with running(Relay(tells("first"), first), front), running(Relay(tells("second"), second), own):
        answer = httpx.get(f"{address}{STREAM}?after=3", headers={"Authorization": "Bearer k", "Host": "docs.example"})
        assert answer.text == f"second GET {STREAM} after=3 True"
        assert (answer.headers["x-key"], answer.headers["x-host"]) == ("Bearer k", "docs.example")
        assert httpx.delete(f"{address}{STREAM}").text.startswith("second DELETE")
        assert httpx.request("GET", f"{address}{STREAM}", content=b"12345").text.startswith("second GET")
        for elsewhere in ("/v1/streams/1.abc", "/v1/streams/abc", "/v1/streams/3.abc", "/v1/streams/0.a", "/healthz"):
            assert httpx.get(f"{address}{elsewhere}").text.startswith("first GET")
        assert httpx.post(f"{address}{STREAM}").text.startswith("first POST")
        caller = {"authorization": "Bearer k", "host": "docs.example"}
        assert asyncio.run(asked_of_others(first, "/metrics", caller)) == {2: "second GET /metrics  True"}
    assert httpx_of(first, tells("first")).startswith("first")  # it is gone: its streams are missing here too


def httpx_of(own: Place, app: ASGIApp) -> str:
    front = socket.create_server(("127.0.0.1", 0))
    with running(Relay(app, own), front):
        assert asyncio.run(asked_of_others(own, "/metrics", {})) == {}
        return httpx.get(f"http://127.0.0.1:{front.getsockname()[1]}{STREAM}").text


def test_events_are_passed_on_as_they_come_and_an_end_on_either_side_ends_both(workspace: Path) -> None:
    ended = threading.Event()

    async def pieces() -> Any:
        try:
            for number in range(10_000):
                yield f"data: {number}\n\n".encode()
                await asyncio.sleep(0.01)
        finally:
            ended.set()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        response: Response = StreamingResponse(pieces(), media_type="text/event-stream")
        await response(scope, receive, send)

    front = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{front.getsockname()[1]}"
    own = place(workspace, 2).listen()
    with running(Relay(tells("first"), place(workspace, 1)), front), running(app, own):
        with httpx.stream("GET", f"{address}{STREAM}") as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            lines = answer.iter_lines()
            assert [next(lines), next(lines), next(lines)] == ["data: 0", "", "data: 1"]
        assert ended.wait(10), "nobody reads it any more, and it goes on"


def test_workers_that_stand_still_are_asked_at_once_and_left_out(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_CONNECT_SECONDS", 0.5)
    listening = [place(workspace, number, 4).listen() for number in (2, 3, 4)]
    with running(tells("second"), listening[0]):
        began = time.monotonic()
        told = asyncio.run(asked_of_others(place(workspace, 1, 4), "/metrics", {"host": "docs.example"}))
        assert list(told) == [2] and time.monotonic() - began < 0.9
    for each in listening[1:]:
        each.close()
