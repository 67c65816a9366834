"""The guard before every route, met through a real server: who is let in, what the others are told, and when a key
that is revoked ends what is done for it."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio.to_thread
import httpx
import pytest
from fastapi import APIRouter
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from ragforge import Ragforge
from ragforge.build import utc_now
from ragforge.domain.access import KeyLimits, Role
from ragforge.domain.cancel import Cancelled
from ragforge.domain.hosts import is_loopback
from ragforge.errors import NotAllowed, NotFound
from ragforge.interfaces.http.app import create_app, routes_of
from ragforge.interfaces.http.caller import caller_of
from ragforge.interfaces.http.door import refuse_open_door
from ragforge.interfaces.http.guard import REVOKED, Guard, Names
from ragforge.interfaces.http.limits import Limits
from ragforge.interfaces.http.policy import POLICY, WS, methods_of, row_of, undecided
from ragforge.interfaces.http.revocation import Revocations
from ragforge.interfaces.http.routes import ROUTERS
from ragforge.operate.access import Access
from tests.forge import open_forge
from tests.serving import listening_to

PROJECT = "/v1/projects/p"
SOON = 1.0


@dataclass
class Behind:
    """What stands behind the guard, and what became of it."""

    bodies: list[bytes] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    free: threading.Event = field(default_factory=threading.Event)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        if scope["type"] == "websocket":
            await self._talk(WebSocket(scope, receive, send))
            return
        request = Request(scope, receive)
        response = await self._answer(request)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path = request.url.path
        if path.endswith("/ask"):
            media = request.query_params.get("media", "text/event-stream")
            return StreamingResponse(self._endless(), media_type=media)
        if path.endswith("/prompt"):
            try:
                await asyncio.sleep(5)
            except asyncio.CancelledError:
                return JSONResponse({"accepted": True}, 202)
        if path.endswith("/search"):
            await anyio.to_thread.run_sync(self.free.wait, 5)
            return JSONResponse({"late": True})
        if path.endswith("/explain"):
            raise {"not_found": NotFound("no such thing"), "stopped": Cancelled()}[request.query_params["with"]]
        if request.method == "POST":
            self.bodies.append(await request.body())
        caller = request.scope.get("ragforge.caller")
        return JSONResponse({"who": caller.principal.id if caller else "nobody", "path": path})

    async def _endless(self) -> Any:
        try:
            yield "event: token\ndata: {}\n\n"
            while True:
                await asyncio.sleep(0.05)
                yield ": beat\n\n"
        finally:
            self.ended.append("stream")

    async def _talk(self, opened: WebSocket) -> None:
        await opened.accept()
        try:
            while True:
                await opened.send_text(await opened.receive_text())
        finally:
            self.ended.append("socket")


@dataclass
class Served:
    url: str
    access: Access
    behind: Behind

    def key(self, role: Role = Role.READER, **facts: Any) -> tuple[str, str]:
        key, secret = self.access.create("k", role, **facts)
        return key.id, secret

    def get(self, path: str = PROJECT, key: str = "", method: str = "GET", **more: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx.request(method, self.url + path, headers=headers | more.pop("headers", {}), **more)


@pytest.fixture(scope="module")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ragforge]:
    with open_forge(tmp_path_factory.mktemp("guard") / "workspace") as opened:
        yield opened


@contextmanager
def guarded(forge: Ragforge) -> Iterator[Served]:
    access, behind = forge.access(), Behind()
    names = Names(["localhost", "127.0.0.1", "::1", "rag.example.org"], ["https://App.example.org/"])
    with listening_to(Guard(behind, forge, access, names, Limits(access.used_today))) as url:
        try:
            yield Served(url, access, behind)
        finally:
            behind.free.set()


@pytest.fixture(scope="module")
def server(forge: Ragforge) -> Iterator[Served]:
    with guarded(forge) as served:
        served.key()  # from now on everybody needs one
        time.sleep(0.6)
        yield served


# -- who is let in


def test_without_keys_everybody_is_the_owner(swift_path: Path) -> None:
    with open_forge(swift_path / "workspace") as alone, guarded(alone) as served:
        for key in ("", "rf_whatever"):
            assert served.get(key=key).json()["who"] == "owner"
        served.key()
        time.sleep(0.6)
        assert served.get().status_code == 401


def test_a_key_is_taken_from_either_header(server: Served) -> None:
    id, secret = server.key()
    for headers in (
        {"Authorization": f"Bearer {secret}"},
        {"authorization": f"bEARER   {secret}"},
        {"X-API-Key": secret},
    ):
        assert server.get(headers=headers).json()["who"] == f"key:{id}"
    for headers in ({"Authorization": secret}, {"Authorization": f"Basic {secret}"}, {"Cookie": f"key={secret}"}):
        assert server.get(headers=headers).status_code == 401
    assert server.get(f"{PROJECT}?key={secret}&api_key={secret}").status_code == 401


def test_every_bad_key_gets_the_same_bytes(server: Served) -> None:
    id, revoked = server.key(Role.ADMIN)
    server.access.revoke(id)
    _, expired = server.key(Role.ADMIN, expires_at=utc_now() + timedelta(milliseconds=50))
    _, good = server.key()
    time.sleep(0.1)
    answers = []
    for key in ("x", "rf_" + "a" * 12 + "_" + "b" * 43, good[:-1] + "!", revoked, expired, "x" * 8000):
        response = server.get(key=key, headers={"X-Request-ID": "same-request"})
        assert response.headers["WWW-Authenticate"] == "Bearer"
        answers.append((response.status_code, response.content, dict(response.headers) | {"date": ""}))
    assert all(answer == answers[0] for answer in answers)
    status, content, headers = answers[0]
    assert status == 401 and json.loads(content)["error"]["code"] == "unauthenticated"
    assert headers["x-request-id"] == "same-request"
    assert "ask whoever runs the server" in json.loads(content)["error"]["hint"]


def test_who_presents_no_key_is_told_how(server: Served) -> None:
    for headers in ({}, {"Authorization": "Basic eDp5"}, {"Authorization": "rf_whatever"}, {"X-API-Key": ""}):
        error = server.get(headers=headers).json()["error"]
        assert error["code"] == "unauthenticated" and error["message"] == "a key is needed"
        assert "Authorization: Bearer" in error["hint"] and "X-API-Key" in error["hint"]


def test_a_role_that_may_not_is_told_before_anything_is_looked_at(server: Served) -> None:
    _, secret = server.key(Role.READER, projects=frozenset({"elsewhere"}))
    for path in (PROJECT, "/v1/projects/missing"):
        response = server.get(path, secret, "DELETE")
        assert response.status_code == 403
        assert response.json()["error"]["code"] == "not_allowed"
    before = len(server.behind.bodies)
    assert server.get("/v1/projects", secret, "POST", content=b"{}").status_code == 403
    assert len(server.behind.bodies) == before


def test_a_body_is_not_read_for_those_who_may_not(server: Served) -> None:
    sent = []

    def pieces() -> Iterator[bytes]:
        for _ in range(2_000):
            sent.append(1)
            yield b"x" * 65_536

    with httpx.Client() as client:
        try:
            response = client.post(f"{server.url}{PROJECT}/files", content=pieces())
            assert response.status_code == 401
        except httpx.WriteError:
            pass  # the server closed while we wrote
    assert len(sent) < 2_000


def test_health_needs_no_key(server: Served) -> None:
    assert server.get("/healthz").json()["who"] == "nobody"


@pytest.mark.parametrize(
    "path",
    ["/v1", "/v2/projects", "/v1/projects/", "/v1//projects", "/v1/projects/a/b/c/d/e", "/v1/projects/p/files/"],
)
def test_what_is_nobodys_is_not_there(server: Served, path: str) -> None:
    for key in ("", server.key(Role.ADMIN)[1]):
        response = server.get(path, key)
        assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")


def test_a_wrong_method_is_told_the_right_ones(server: Served) -> None:
    response = server.get("/v1/projects", method="DELETE")
    assert response.status_code == 405 and response.headers["Allow"] == "HEAD, GET, POST"
    assert server.get(PROJECT, method="OPTIONS").status_code == 405
    assert "access-control-allow-origin" not in {name.lower() for name in response.headers}


def test_head_is_how_get_begins(server: Served, caplog: pytest.LogCaptureFixture) -> None:
    _, secret = server.key()
    for path in ("/v1/projects", "/v1/streams/none", "/nobody/knows"):
        with httpx.Client(headers={"Authorization": f"Bearer {secret}"}) as client:
            got, head = client.get(server.url + path), client.head(server.url + path)
        assert (head.status_code, head.content) == (got.status_code, b"")
        assert head.headers["content-type"] == got.headers["content-type"]
    assert httpx.head(server.url + "/v1/projects").status_code == 401
    assert httpx.head(server.url + f"{PROJECT}/search").status_code == 405
    assert not [record for record in caplog.records if record.levelname in ("ERROR", "WARNING")]


def test_errors_of_a_route_keep_the_one_shape(server: Served) -> None:
    _, secret = server.key()
    missing = server.get(f"{PROJECT}/explain?with=not_found", secret, "POST")
    assert missing.status_code == 404 and missing.json()["error"]["message"] == "no such thing"
    stopped = server.get(f"{PROJECT}/explain?with=stopped", secret, "POST")
    assert stopped.status_code == 503 and stopped.headers["Retry-After"] == "1"


def test_request_ids(server: Served) -> None:
    for given, kept in (("abc-DEF_1.2", True), ("short", False), ("bad id here", False), ("x" * 65, False)):
        for path in (PROJECT, "/healthz", "/nowhere"):
            response = server.get(path, headers={"X-Request-ID": given})
            assert (response.headers["X-Request-ID"] == given) == kept
            if response.status_code >= 400:
                assert response.json()["error"]["request_id"] == response.headers["X-Request-ID"]
    one, two = (server.get("/healthz").headers["X-Request-ID"] for _ in range(2))
    assert one != two


# -- names


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:1", "[::1]", "[::1]:8080", "rag.example.org"])
def test_known_hosts(server: Served, host: str) -> None:
    assert server.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "evil.example:80",
        "127.0.0.1.nip.io",
        "[::1].evil",
        "::1",
        "localhost@e",
    ],
)
def test_unknown_hosts_are_misdirected(server: Served, host: str) -> None:
    response = server.get("/healthz", headers={"Host": host})
    assert response.status_code in (400, 421)
    if response.status_code == 421:
        assert response.json()["error"]["code"] == "host"


def test_two_hosts_are_none(server: Served) -> None:
    with socket.create_connection(("127.0.0.1", httpx.URL(server.url).port or 0), 5) as raw:
        raw.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        assert raw.recv(100).split(b" ")[1] in (b"400", b"421")
    with socket.create_connection(("127.0.0.1", httpx.URL(server.url).port or 0), 5) as raw:
        raw.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert raw.recv(100).split(b" ")[1] in (b"400", b"421")


@pytest.mark.parametrize("origin", ["https://app.example.org", "HTTPS://APP.example.org", ""])
def test_known_origins(server: Served, origin: str) -> None:
    assert server.get("/healthz", headers={"Origin": origin} if origin else {}).status_code == 200


def test_pages_of_the_server_itself_may_call(server: Served) -> None:
    assert server.get("/healthz", headers={"Origin": server.url}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["null", "https://evil.example", "http://localhost:1", "https://app.example.org.evil"]
)
def test_unknown_origins_may_not_call(server: Served, origin: str) -> None:
    _, secret = server.key()
    response = server.get(key=secret, headers={"Origin": origin})
    assert (response.status_code, response.json()["error"]["code"]) == (403, "origin")
    with pytest.raises(InvalidStatus) as refused, socket_of(server, secret, origin=origin):
        pass
    assert refused.value.response.status_code == 403


# -- WebSockets


@contextmanager
def socket_of(server: Served, key: str, **more: Any) -> Iterator[Any]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    with connect(server.url.replace("http", "ws") + f"{PROJECT}/chat", additional_headers=headers, **more) as opened:
        yield opened


def test_a_socket_is_refused_as_a_request_is(server: Served) -> None:
    with pytest.raises(InvalidStatus) as refused, socket_of(server, ""):
        pass
    answer = refused.value.response
    assert answer.status_code == 401 and json.loads(answer.body or b"")["error"]["code"] == "unauthenticated"
    assert answer.headers["X-Request-ID"]
    with pytest.raises(InvalidStatus) as refused, connect(server.url.replace("http", "ws") + "/v1/projects"):
        pass
    assert refused.value.response.status_code in (404, 405)


def test_a_socket_with_a_key_talks(server: Served) -> None:
    with socket_of(server, server.key()[1]) as opened:
        opened.send("hello")
        assert opened.recv(timeout=5) == "hello"


# -- limits


def test_a_flood_is_told_to_wait(server: Served) -> None:
    _, secret = server.key(limits=KeyLimits(requests_per_minute=2))
    statuses = [server.get(key=secret).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    refused = server.get(key=secret)
    assert 25 <= int(refused.headers["Retry-After"]) <= 30 and refused.json()["error"]["code"] == "limit"


def test_what_is_refused_is_not_counted_as_at_work(server: Served) -> None:
    _, secret = server.key(limits=KeyLimits(concurrent=1))
    with httpx.Client() as client:
        headers = {"Authorization": f"Bearer {secret}"}
        with client.stream("POST", f"{server.url}{PROJECT}/ask", headers=headers) as stream:
            lines = stream.iter_lines()
            assert next(lines)
            assert server.get(key=secret).status_code == 429
    deadline = time.monotonic() + 5
    while server.get(key=secret).status_code == 429 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert server.get(key=secret).status_code == 200


# -- revocation


def revoked_after(server: Served, id: str, work: Callable[[], Any]) -> tuple[float, Any]:
    """How long after the revocation the work ended, and how."""
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(work)
        time.sleep(0.3)
        assert not running.done()
        began = time.monotonic()
        Access(server.access._catalog, utc_now).revoke(id)  # as another process does
        result = running.result(10)
    return time.monotonic() - began, result


def test_a_stream_ends_with_its_key(server: Served) -> None:
    id, secret = server.key()
    ended = len(server.behind.ended)

    def read() -> str:
        with httpx.stream(
            "POST", f"{server.url}{PROJECT}/ask", headers={"Authorization": f"Bearer {secret}"}
        ) as response:
            return "".join(response.iter_text())

    seconds, text = revoked_after(server, id, read)
    assert seconds < SOON
    assert text.startswith("event: token") and '"code":"unauthenticated"' in text.replace(" ", "")
    assert text.rstrip().rpartition("\n\n")[2].startswith("event: error\ndata: {")
    deadline = time.monotonic() + 2
    while len(server.behind.ended) == ended and time.monotonic() < deadline:
        time.sleep(0.01)
    assert server.behind.ended[ended:] == ["stream"]
    assert server.get(key=secret).status_code == 401


def test_a_download_is_cut_and_not_taken_for_whole(server: Served) -> None:
    id, secret = server.key()

    def read() -> str:
        url = f"{server.url}{PROJECT}/ask?media=application/octet-stream"
        with httpx.stream("POST", url, headers={"Authorization": f"Bearer {secret}"}) as response:
            try:
                for _ in response.iter_bytes():
                    pass
            except httpx.RemoteProtocolError:
                return "cut"
        return "whole"

    seconds, ended = revoked_after(server, id, read)
    assert seconds < SOON and ended == "cut"


def test_a_request_whose_thread_works_on_is_answered_all_the_same(server: Served) -> None:
    id, secret = server.key()
    seconds, response = revoked_after(server, id, lambda: server.get(f"{PROJECT}/search", secret, "POST"))
    assert seconds < SOON and response.status_code == 401
    assert response.json()["error"]["code"] == "unauthenticated"
    server.behind.free.set()


def test_a_request_that_answers_when_it_is_cancelled_is_refused_all_the_same(server: Served) -> None:
    id, secret = server.key()
    seconds, response = revoked_after(server, id, lambda: server.get(f"{PROJECT}/prompt", secret, "POST"))
    assert seconds < SOON and response.status_code == 401


def test_a_socket_closes_with_its_key(server: Served) -> None:
    id, secret = server.key()

    def talk() -> int:
        with socket_of(server, secret) as opened:
            opened.send("hello")
            try:
                while True:
                    opened.recv(timeout=5)
            except ConnectionClosed as closed:
                assert closed.rcvd is not None
                return closed.rcvd.code

    seconds, code = revoked_after(server, id, talk)
    assert seconds < SOON and code == REVOKED


def test_an_expired_key_ends_its_stream(server: Served) -> None:
    _, secret = server.key(expires_at=utc_now() + timedelta(seconds=0.5))
    began = time.monotonic()
    with httpx.stream("POST", f"{server.url}{PROJECT}/ask", headers={"Authorization": f"Bearer {secret}"}) as response:
        text = "".join(response.iter_text())
    assert 0.3 < time.monotonic() - began < 0.5 + SOON and "event: error" in text


def test_other_keys_go_on(server: Served) -> None:
    id, _ = server.key()
    _, other = server.key()
    with httpx.stream("POST", f"{server.url}{PROJECT}/ask", headers={"Authorization": f"Bearer {other}"}) as response:
        lines = response.iter_lines()
        server.access.revoke(id)
        until = time.monotonic() + 0.9
        while time.monotonic() < until:
            assert "error" not in next(lines)


class Asked:
    """Who was asked about, how often."""

    def __init__(self) -> None:
        self.rounds: list[int] = []
        self.works = True

    def still(self, principal: object) -> bool:
        self.rounds.append(threading.get_ident())
        return self.works


def test_one_look_serves_all_who_wait_for_a_key(server: Served) -> None:
    who, asked = server.access.resolve(server.key()[1]), Asked()

    async def many() -> int:
        revocations = Revocations(asked, seconds=0.02)  # type: ignore[arg-type]

        async def wait() -> None:
            async with revocations.guarded_stream(who):
                await asyncio.sleep(5)

        waiting = [asyncio.ensure_future(wait()) for _ in range(50)]
        await asyncio.sleep(0.15)
        looks = len(asked.rounds)
        asked.works = False
        await asyncio.wait_for(asyncio.gather(*waiting), 1)
        assert not revocations._waiting
        last = len(asked.rounds)
        await asyncio.sleep(0.1)
        assert len(asked.rounds) == last, "nobody waits, nobody looks"
        return looks

    assert 1 <= asyncio.run(many()) <= 8
    assert threading.get_ident() not in asked.rounds


def test_who_stops_waiting_is_forgotten(server: Served) -> None:
    who, asked = server.access.resolve(server.key()[1]), Asked()

    async def come_and_go() -> None:
        revocations = Revocations(asked, seconds=0.01)  # type: ignore[arg-type]
        for _ in range(3):
            async with revocations.guarded_stream(who):
                await asyncio.sleep(0.03)
        with pytest.raises(ZeroDivisionError):
            async with revocations.guarded_stream(who):
                raise ZeroDivisionError
        assert not revocations._waiting
        said: list[str] = []

        async def farewell() -> None:
            said.append("goodbye")

        asked.works = False
        async with revocations.guarded_stream(who, farewell):
            await asyncio.sleep(5)
        assert said == ["goodbye"]

    asyncio.run(come_and_go())


# -- the policy


def test_what_names_more_of_a_path_comes_first() -> None:
    for (method, path), action in POLICY.items():
        row = row_of(method, path.replace(":path", ""))
        assert row is not None and (row.path, row.action) == (path, action)
    assert row_of("GET", "/v1/models/ragforge/p") is not None
    assert row_of("GET", "/healthzx") is None and row_of("GET", "/openapi-json") is None
    assert row_of("GET", "/v1/projects\n") is None
    assert row_of("GET", "/v1/projects/a\0b") is None and row_of("GET", "/v1/models/ragforge/a\0") is None
    assert row_of(WS, "/v1/projects/p/chat") is not None and row_of("GET", "/v1/projects/p/chat") is None
    assert methods_of("/v1/projects/p/chat") == []


def test_a_route_without_a_row_is_named() -> None:
    router = APIRouter(prefix="/v1")
    router.get("/projects")(lambda: None)
    router.get("/surprise")(lambda: None)
    router.websocket("/surprise")(lambda: None)
    assert undecided(routes_of((router,))) == ["GET /v1/surprise", "WS /v1/surprise"]


@pytest.mark.parametrize("kind", ["get", "websocket"])
def test_a_route_without_a_row_stops_the_start(swift_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    router = APIRouter(prefix="/v1")
    getattr(router, kind)("/surprise")(lambda: None)
    monkeypatch.setattr("ragforge.interfaces.http.app.ROUTERS", (*ROUTERS, router))
    with open_forge(swift_path / "workspace") as forge, pytest.raises(NotAllowed, match=r"nobody .* /v1/surprise$"):
        create_app(forge)


def test_a_caller_belongs_to_the_route_that_was_allowed() -> None:
    class Route:
        path = "/v1/projects/{project}"

    me = object()
    scope = {"type": "http", "ragforge.caller": me, "ragforge.route": Route.path, "route": Route}
    assert caller_of(HTTPConnection(scope)) is me
    with pytest.raises(NotAllowed):
        caller_of(HTTPConnection(scope | {"ragforge.route": "/v1/projects"}))


@pytest.mark.parametrize(
    ("host", "is_local"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("LocalHost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.2", False),
        ("", False),
        ("localhost.example.org", False),
    ],
)
def test_without_keys_only_this_machine_is_listened_to(swift_path: Path, host: str, is_local: bool) -> None:
    assert is_loopback(host) == is_local
    with open_forge(swift_path / "workspace") as alone:
        access = alone.access()
        if is_local:
            refuse_open_door(access, host)
        else:
            with pytest.raises(NotAllowed, match="no keys"):
                refuse_open_door(access, host)
        key, _ = access.create("k", Role.READER)
        access.revoke(key.id)
        refuse_open_door(access, host)
