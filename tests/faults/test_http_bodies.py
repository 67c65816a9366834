"""Bodies that are too large, too slow, or not what they say: 4xx with the next step, never a 500, never a hang."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from ragforge import Ragforge
from ragforge.settings import Server
from tests.forge import faults, open_forge, prose
from tests.process import resident, serve
from tests.proof import PROVING, count, record
from tests.serving import serving
from tests.shell import fill_workspace

LIMIT = 2_000_000
IDLE = 0.6


@pytest.fixture(scope="module")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ragforge]:
    folder = tmp_path_factory.mktemp("bodies")
    with open_forge(folder / "ws", server__body_bytes=LIMIT, server__idle_seconds=IDLE) as opened:
        yield opened


@pytest.fixture(scope="module")
def url(forge: Ragforge) -> Iterator[str]:
    with serving(forge) as address:
        yield address


@pytest.fixture(autouse=True)
def nothing_is_left(forge: Ragforge) -> Iterator[None]:
    yield
    until_nothing_is_left(
        forge.workspace,
        lambda: {job.payload["inbox"] for job in forge.jobs() if not job.ended and "inbox" in job.payload},
    )


def until_nothing_is_left(workspace: Path, needed: Callable[[], set[str]] = set) -> None:
    deadline = time.monotonic() + 5  # the server may still be at it
    while left := {path.name for path in workspace.glob("inbox/*")} - {"lock"} - needed():
        assert time.monotonic() < deadline, f"what was refused leaves nothing behind, not {left}"
        time.sleep(0.02)


def connected(url: str) -> socket.socket:
    address = urlsplit(url)
    assert address.hostname and address.port
    return socket.create_connection((address.hostname, address.port), timeout=20)


def head(path: str, *headers: str) -> bytes:
    return "\r\n".join((f"POST {path} HTTP/1.1", "Host: 127.0.0.1", *headers, "", "")).encode()


def told(stream: socket.socket) -> tuple[int, dict[str, str]]:
    """The status and the error, read until the server closes."""
    answer = b""
    while piece := _read(stream):
        answer += piece
    top, _, body = answer.partition(b"\r\n\r\n")
    error: dict[str, str] = json.loads(body)["error"] if body else {}
    return int(top.split()[1]), error


def _read(stream: socket.socket) -> bytes:
    try:
        return stream.recv(65_536)
    except ConnectionResetError:  # we were still sending when it had enough
        return b""


UPLOAD = "/v1/projects/p/files?name=a.md"
JSON = ("Content-Type: application/json",)


@pytest.mark.parametrize(("path", "limit"), [(UPLOAD, LIMIT), ("/v1/projects/p/search", LIMIT)])
def test_a_length_over_the_cap_is_refused_before_a_byte_is_sent(url: str, path: str, limit: int) -> None:
    with connected(url) as stream:
        stream.sendall(head(path, *JSON, f"Content-Length: {limit + 1}"))
        status, error = told(stream)
    assert (status, error["code"]) == (413, "too_large") and error["hint"]


@pytest.mark.parametrize("path", [UPLOAD, "/v1/projects/p/search"])
def test_a_body_that_says_nothing_of_its_length_is_cut_at_the_cap(url: str, path: str) -> None:
    piece = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    sent = 0
    with connected(url) as stream:
        stream.sendall(head(path, *JSON, "Transfer-Encoding: chunked"))
        try:
            for _ in range(20 * LIMIT // 65_536):
                stream.sendall(piece)
                sent += 65_536
        except (ConnectionResetError, BrokenPipeError):
            pass
        status, error = told(stream)
    assert (status, error["code"]) == (413, "too_large")
    assert sent < LIMIT + 8_000_000, "the rest was not read, but for what the system buffers"


@pytest.mark.parametrize("path", [UPLOAD, "/v1/projects/p/search"])
def test_a_length_that_promises_more_than_comes_is_not_waited_for(url: str, path: str) -> None:
    with connected(url) as stream:
        stream.sendall(head(path, *JSON, "Content-Length: 1000") + b"{")
        began = time.monotonic()
        status, error = told(stream)
    assert (status, error["code"]) == (408, "slow") and IDLE * 0.9 < time.monotonic() - began < IDLE + 3


def test_a_body_that_drips_is_not_waited_for(url: str) -> None:
    with connected(url) as stream:
        stream.sendall(head(UPLOAD, "Content-Length: 100000"))
        ended = threading.Event()

        def drip() -> None:
            while not ended.wait(0.05):
                try:
                    stream.sendall(b"x")
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        began = time.monotonic()
        status, _ = told(stream)
        ended.set()
        thread.join()
    assert status == 408 and time.monotonic() - began < IDLE + 4


@pytest.mark.parametrize(
    "headers",
    [
        ("Content-Length: -1",),
        ("Content-Length: 1e9",),
        ("Content-Length: 10", "Content-Length: 20"),
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
    ],
)
def test_lengths_that_are_none_are_refused(url: str, headers: tuple[str, ...]) -> None:
    with connected(url) as stream:
        stream.sendall(head(UPLOAD, *headers) + b"abc")
        stream.shutdown(socket.SHUT_WR)
        answer = stream.recv(65_536)
    assert answer == b"" or answer.split()[1].startswith(b"4")


def test_a_client_that_leaves_halfway_leaves_nothing(url: str, forge: Ragforge) -> None:
    with connected(url) as stream:
        stream.sendall(head(UPLOAD, "Content-Length: 1000000") + b"x" * 200_000)
        time.sleep(0.2)
    time.sleep(0.3)


def form(*parts: tuple[str, bytes], boundary: str = "edge", end: bool = True) -> tuple[dict[str, str], bytes]:
    body = b"".join(
        f"--{boundary}\r\n{headers}\r\n\r\n".encode("utf-8", "surrogateescape") + data + b"\r\n"
        for headers, data in parts
    )
    closing = f"--{boundary}--\r\n".encode() if end else b""
    return {"Content-Type": f"multipart/form-data; boundary={boundary}"}, body + closing


def file_part(name: str, data: bytes = b"text") -> tuple[str, bytes]:
    return f'Content-Disposition: form-data; name="file"; filename="{name}"', data


FIELD = 'Content-Disposition: form-data; name="tags"'
BAD_FORMS = {
    "10,000 files": form(*[file_part(f"{n}.md") for n in range(10_000)]),
    "10,000 fields": form(*[(FIELD, b"x")] * 10_000),
    "a long field": form(file_part("a.md"), (FIELD, b"x" * 100_000)),
    "a long header": form((f"{FIELD}\r\nX-Long: {'y' * 10_000}", b"x")),
    "many headers": form((FIELD + "".join(f"\r\nX-{n}: y" for n in range(100)), b"x")),
    "no file": form((FIELD, b"x")),
    "no end": form(file_part("a.md"), end=False),
    "no name": form(('Content-Disposition: form-data; filename="a.md"', b"x")),
    "another field": form(('Content-Disposition: form-data; name="photo"; filename="a.md"', b"x")),
    "an unknown field": form(file_part("a.md"), ('Content-Disposition: form-data; name="colour"', b"red")),
    "a wrong label": form(file_part("a.md"), ('Content-Disposition: form-data; name="confidentiality"', b"top")),
    "a name that is no UTF-8": form(file_part("\udcff\udcfe.md")),
    "a field that is no UTF-8": form(file_part("a.md"), (FIELD, b"\xff\xfe")),
    "garbage": ({"Content-Type": "multipart/form-data; boundary=edge"}, os.urandom(5_000)),
    "no boundary": ({"Content-Type": "multipart/form-data"}, b"x"),
    "a long boundary": form(file_part("a.md"), boundary="b" * 1_000),
    "nothing": ({"Content-Type": "multipart/form-data; boundary=edge"}, b""),
    "no name of the file": ({"Content-Type": "text/plain"}, b"x"),
}


@pytest.mark.parametrize("what", BAD_FORMS)
def test_forms_that_are_none_are_refused(url: str, forge: Ragforge, what: str) -> None:
    headers, body = BAD_FORMS[what]
    before = len(forge.jobs())
    answer = httpx.post(f"{url}/v1/projects/p/files", headers=headers, content=body, timeout=20)
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.json()["error"]["hint"] and len(forge.jobs()) == before


BAD_NAMES = {
    "../../../../etc/cron.d/evil.md": "evil.md",
    "..\\\\..\\\\windows\\\\system.md": "system.md",
    "/etc/passwd.md": "passwd.md",
    "C:\\\\x\\\\y.md": "y.md",
    "..": "..",
    "": "unnamed",
    "a\u202egpj.md": "a gpj.md",
    "line\tbreak.md": "line break.md",
    "x" * 400 + ".md": "x" * 255,
    "ragforge.toml": "ragforge.toml",
    "naïve – ß.md": "naïve – ß.md",
}


@pytest.mark.parametrize("name", BAD_NAMES)
def test_tricks_in_names_are_names_only(url: str, forge: Ragforge, name: str) -> None:
    before = {path for path in forge.workspace.parent.rglob("*") if path.is_file()}
    headers, body = form(file_part(name, prose(len(name)).encode()))
    answer = httpx.post(f"{url}/v1/projects/p/files", headers=headers, content=body, params={"wait": 20}, timeout=30)
    assert answer.status_code == 200, answer.text
    assert answer.json()["payload"]["name"] == BAD_NAMES[name]
    made = {path for path in forge.workspace.parent.rglob("*") if path.is_file()} - before
    assert all(path.is_relative_to(forge.workspace) for path in made)
    assert all(BAD_NAMES[name] not in (path.name, path.stem) for path in made)


@pytest.mark.parametrize(
    "body", [b"\xff\xfe", b'{"question": "\xff"}', b"[]", b"null", b"{", b'{"question": 1}', b"1" * 9]
)
def test_bad_json_is_refused(url: str, body: bytes) -> None:
    answer = httpx.post(f"{url}/v1/projects/p/search", content=body, headers={"Content-Type": "application/json"})
    assert 400 <= answer.status_code < 500 and answer.json()["error"]["code"] == "invalid"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json"])
@pytest.mark.parametrize("size", ["Content-Length: 3", "Transfer-Encoding: chunked"])
def test_nobody_sends_anything_without_a_key(url: str, path: str, size: str) -> None:
    with connected(url) as stream:
        stream.sendall(head(path, size).replace(b"POST", b"GET") + b"3\r\n")
        if "chunked" in size:
            stream.sendall(b"abc")
        status, error = told(stream)
    assert (status, error["code"]) == (413, "too_large")


def test_what_needs_no_body_takes_but_a_small_one(url: str) -> None:
    with httpx.Client(base_url=url) as client:
        assert client.request("GET", "/v1/projects", content=b"x" * 60_000).status_code == 200
        refused = client.request("GET", "/v1/projects", content=b"x" * 70_000)
    assert refused.status_code == 413 and "body_bytes" not in refused.json()["error"]["hint"]


class Memory:
    """The most memory that a process had while this was open, over what it had before."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.before = self.peak = resident(process)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        is_over = False
        while not is_over:  # the last look is after all was sent
            is_over = self._over.wait(0.005)
            self.peak = max(self.peak, resident(self._process))

    @property
    def grown(self) -> int:
        return self.peak - self.before


def answer_to_much(url: str, path: str, size: int, *, chunked: bool) -> tuple[int, dict[str, str], int]:
    """Status and error of a body of so many bytes, read also if the server has enough before its end; how many went."""
    piece, sent = b"x" * 1_000_000, 0
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
    with connected(url) as stream:
        stream.sendall(head(path, length))
        with suppress(BrokenPipeError, ConnectionResetError):
            while sent < size:
                stream.sendall(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
                sent += len(piece)
            stream.sendall(b"0\r\n\r\n" if chunked else b"")
        return *told(stream), sent


def warm_up(url: str, upload: str, process: int) -> None:
    """All that a server loads when it is first needed is there, and its memory has been the same for a second."""
    with httpx.Client(base_url=url, timeout=90) as client:
        assert client.post(f"{upload}&wait=60", content=prose(2).encode()).status_code == 200
        assert client.post("/v1/projects/default/search", json={"question": "word1"}).status_code == 200
        assert client.get("/docs").status_code == client.get("/readyz").status_code == 200
    seen, deadline = [0, *[resident(process)] * 19], time.monotonic() + 20
    while max(seen) - min(seen) > 500_000:
        assert time.monotonic() < deadline, f"its memory does not come to rest: {seen}"
        time.sleep(0.05)
        seen = [*seen[1:], resident(process)]


@pytest.mark.alone
def test_300_mb_take_no_memory(tmp_path: Path) -> None:
    """Of a server in a process of its own, whose memory is nobody else's."""
    size, cap = count(60, 300) * 1_000_000, count(40, 200) * 1_000_000
    smaller = {} if PROVING else {"RAGFORGE_SERVER__BODY_BYTES": str(cap)}
    assert not PROVING or Server().body_bytes == cap, "the full count is about the cap that holds unless told otherwise"
    workspace = fill_workspace(tmp_path, {"a.md": prose(1)})
    files = "/v1/projects/default/files"
    upload = f"{files}?name=b.md"
    grown = {}
    with serve(workspace, variables=smaller) as server:
        url, process = server.address, server.process.pid
        warm_up(url, upload, process)
        for chunked in (False, True):
            with Memory(process) as memory:
                status, error, sent = answer_to_much(url, upload, size, chunked=chunked)
            assert (status, error["code"]) == (413, "too_large") and error["hint"]
            assert sent < (cap if chunked else 0) + 8_000_000, "but for what the system buffers, no more was read"
            grown["without a length" if chunked else "with a length"] = round(memory.grown / 1e6, 1)
        until_nothing_is_left(workspace)
        assert httpx.get(f"{url}/readyz", timeout=60).status_code == 200
        assert [each["name"] for each in httpx.get(f"{url}{files}").json()["items"]] == ["a.md", "b.md"]
    record("large_body", megabytes=size // 1_000_000, cap_megabytes=cap // 1_000_000, extra_memory_mb=grown)
    assert max(grown.values()) <= 20, grown


def test_health_answers_while_many_are_slow(url: str, forge: Ragforge) -> None:
    slow = [connected(url) for _ in range(50)]
    try:
        for stream in slow:
            stream.sendall(head(UPLOAD, "Content-Length: 1000") + b"x")
        took = []
        for _ in range(10):
            began = time.monotonic()
            assert httpx.get(f"{url}/v1/projects").status_code == 200
            took.append(time.monotonic() - began)
        assert max(took) < 2
    finally:
        for stream in slow:
            stream.close()


def test_after_all_this_nothing_is_wrong(url: str, forge: Ragforge) -> None:
    deadline = time.monotonic() + 20
    while any(not job.ended for job in forge.jobs()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert faults(forge) == []


def test_a_cap_of_the_settings_holds_for_forms_too(tmp_path: Path, url: str) -> None:
    headers, body = form(file_part("a.md", b"x" * (LIMIT + 10)))
    answer = httpx.post(f"{url}/v1/projects/p/files", headers=headers, content=body, timeout=20)
    assert answer.status_code == 413
