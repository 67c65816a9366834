"""Clients that come slowly, go away or read nothing: they hold no connection, and are no error of ours."""

from __future__ import annotations

import io
import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from ragforge import Ragforge
from ragforge.domain.access import Role
from ragforge.interfaces.http import streams
from ragforge.interfaces.http.app import create_app
from ragforge.interfaces.http.workers import Place
from ragforge.operate.logs import logging_to
from ragforge.testing.model_server import ModelServer
from tests.served import add_files, open_served
from tests.serving import listening_to

HEAD, IDLE = 0.5, 0.5
QUESTION = {"question": "How long may a chair be returned?"}
ASK = "/v1/projects/p/ask"
EVENTS = "Accept: text/event-stream"
LONG = f"{'w' * 20_000} " * 1_000
"""More than all buffers on the way take."""
BYTES = b"x" * 8_000_000 + b"-->"
"""The same of a file."""
GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@dataclass
class Served:
    """A server with two doors: its address, and a Unix socket as a worker has one."""

    address: str
    own: str
    forge: Ragforge
    model: ModelServer
    secret: str
    log: io.StringIO

    def lines(self) -> list[dict[str, Any]]:
        """What the server said; the client of a test, whose socket is closed under it, is in the same process."""
        said = [json.loads(line) for line in self.log.getvalue().splitlines()]
        return [line for line in said if line["logger"] != "websockets.client"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder, log = tmp_path_factory.mktemp("clients"), io.StringIO()
    with (
        ModelServer() as model,
        open_served(folder / "ws", model, ask__stages="inject", server__idle_seconds=IDLE) as forge,
    ):
        add_files(forge, folder / "files", {"chairs.md": "# Chairs\n\nA chair may be returned within 30 days.\n"})
        (folder / "large.html").write_bytes(b"<p>Sofas may not be returned.</p><!--" + BYTES)
        forge.add(folder / "large.html", project="p")
        secret = forge.access().create("caller", Role.READER)[1]
        own = Place(1, 2, folder / "run")
        with (
            logging_to(log, "json"),
            own.listen() as listening,
            listening_to(create_app(forge), listening, head_seconds=HEAD) as address,
        ):
            yield Served(address, own.socket_of(1), forge, model, secret, log)


def connected(where: str) -> socket.socket:
    """To an address, or to the socket of a worker."""
    if where.startswith("/"):
        stream = socket.socket(socket.AF_UNIX)
        stream.connect(where)
    else:
        host, port = where.removeprefix("http://").split(":")
        stream = socket.create_connection((host, int(port)))
    stream.settimeout(10)
    return stream


def until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def read_until(stream: socket.socket, end: bytes) -> bytes:
    read = b""
    while not read.endswith(end):
        piece = stream.recv(65_536)
        assert piece, read[-200:]
        read += piece
    return read


def seconds_until_closed(stream: socket.socket, drops: bytes) -> float:
    """How long it takes to be closed when this is sent a byte at a time, and what comes back is read."""
    began = time.monotonic()
    stream.settimeout(0.1)
    for sent in range(50):
        try:
            stream.sendall(drops[sent : sent + 1])
            if stream.recv(1) == b"":
                break
        except TimeoutError:
            pass
        except (ConnectionResetError, BrokenPipeError):
            break
    return time.monotonic() - began


def deaf_to(served: Served, request: bytes) -> socket.socket:
    """One who asks and reads nothing."""
    stream = socket.socket()
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    host, port = served.address.removeprefix("http://").split(":")
    stream.connect((host, int(port)))
    stream.sendall(request)
    return stream


def open_blobs(served: Served) -> int:
    """Stored files that are open in this process."""
    blobs, count = str(served.forge.workspace / "uploads"), 0
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            count += str(each.readlink()).startswith(blobs)
    return count


def test_a_download_that_nobody_reads_is_given_up(served: Served) -> None:
    headers = {"Authorization": f"Bearer {served.secret}"}
    content = f"/v1/projects/p/files/{served.forge.documents(project='p')[-1].id}/content"
    whole = httpx.get(served.address + content, headers=headers)
    assert whole.content.endswith(BYTES) and int(whole.headers["Content-Length"]) == len(whole.content)
    get = f"GET {content} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {served.secret}\r\n\r\n".encode()
    with deaf_to(served, get):
        until(lambda: open_blobs(served))
        began, before = time.monotonic(), len(served.lines())
        until(lambda: not open_blobs(served))
        assert time.monotonic() - began < IDLE + 2
        until(lambda: any(line["message"] == "request" for line in served.lines()[before:]))
    assert [line for line in served.lines()[before:] if line["level"] != "info"] == []
    leave_early = connected(served.address)
    leave_early.sendall(get)
    until(lambda: open_blobs(served))
    leave(leave_early)
    until(lambda: not open_blobs(served))


def test_a_head_that_comes_too_slowly_closes_the_connection(served: Served) -> None:
    """Also one that never begins, and one that never gets beyond empty lines."""
    cases = [(door, drops) for door in (served.address, served.own) for drops in (b"", GET[:-2], b"\r\n" * 50)]

    def closed(case: tuple[str, bytes]) -> float:
        with connected(case[0]) as stream:
            return seconds_until_closed(stream, case[1])

    with ThreadPoolExecutor(len(cases)) as pool:
        took = list(pool.map(closed, cases))
    assert all(HEAD - 0.1 < each < HEAD + 1 for each in took), took


def test_the_next_head_on_the_same_connection_has_as_long(served: Served) -> None:
    for door in (served.address, served.own):
        with connected(door) as stream:
            for _ in range(3):  # longer together than one head may take
                time.sleep(HEAD / 2)
                stream.sendall(GET)
                assert read_until(stream, b'alive"}').startswith(b"HTTP/1.1 200")
            assert HEAD - 0.1 < seconds_until_closed(stream, b"\r\n" * 50) < HEAD + 1


def post(secret: str, *headers: str) -> bytes:
    """A question, as it goes over the wire."""
    body = json.dumps(QUESTION | {"max_tokens": 1_000_000}).encode()
    own = (f"Authorization: Bearer {secret}", "Content-Type: application/json", f"Content-Length: {len(body)}")
    return "\r\n".join((f"POST {ASK} HTTP/1.1", "Host: localhost", *own, *headers, "", "")).encode() + body


def test_a_request_that_takes_longer_than_a_head_is_answered(served: Served) -> None:
    """Also with the next one behind it already."""
    served.model.reply, served.model.piece_seconds = "A chair may be returned within 30 days [1].", 0.1
    began = time.monotonic()
    with connected(served.address) as stream:
        stream.sendall(post(served.secret) + GET)
        answer = read_until(stream, b'alive"}')
    assert answer.count(b"HTTP/1.1 200") == 2 and time.monotonic() - began > 1.5 * HEAD


def leave(stream: socket.socket) -> None:
    """At once, without a word."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.close()


def leaves_at_once(served: Served, *wanted: str) -> None:
    stream = connected(served.address)
    stream.sendall(post(served.secret, *wanted))
    leave(stream)


def leaves_in_the_middle(served: Served, *wanted: str, behind: bytes = b"") -> None:
    served.model.piece_seconds = 0.1
    stream = connected(served.address)
    calls = len(served.model.calls)
    stream.sendall(post(served.secret, *wanted) + behind)
    until(lambda: len(served.model.calls) > calls)
    leave(stream)


def leaves_with_another_question_behind(served: Served) -> None:
    leaves_in_the_middle(served, behind=GET)


def leaves_a_stream(served: Served) -> None:
    leaves_in_the_middle(served, EVENTS)


def leaves_a_socket(served: Served) -> None:
    served.model.piece_seconds = 0.1
    url = served.address.replace("http", "ws") + "/v1/projects/p/chat"
    with connect(url, additional_headers={"Authorization": f"Bearer {served.secret}"}, max_size=None) as talk:
        talk.send(json.dumps({"type": "ask", **QUESTION}))
        assert talk.recv(10)
        leave(talk.socket)


def leaves_before_the_socket_is_open(served: Served) -> None:
    stream = connected(served.address)
    stream.sendall(
        f"GET /v1/projects/p/chat HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {served.secret}\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
    )
    leave(stream)


def reads_nothing(served: Served) -> None:
    with deaf_to(served, post(served.secret, EVENTS)):
        until(lambda: served.model.disconnects)


@pytest.mark.parametrize(
    "client",
    [
        leaves_at_once,
        leaves_in_the_middle,
        leaves_with_another_question_behind,
        leaves_a_stream,
        leaves_a_socket,
        leaves_before_the_socket_is_open,
        reads_nothing,
    ],
)
def test_a_client_that_goes_away_is_no_error(
    served: Served, client: Callable[[Served], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "ABANDONED_SECONDS", 0.3)
    served.model.reply, served.model.piece_seconds, served.model.disconnects = LONG, 0.0, 0
    before = len(served.lines())
    client(served)
    until(lambda: any(line["message"] == "request" for line in served.lines()[before:]))
    time.sleep(0.1)
    assert [line for line in served.lines()[before:] if line["level"] != "info"] == []
    served.model.rest()  # nobody is left to be counted in the next test
