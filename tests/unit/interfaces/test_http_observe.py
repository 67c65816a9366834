"""The outermost layer, around applications that behave well and badly."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from ragforge.interfaces.http.metrics import Metrics, together
from ragforge.interfaces.http.observe import Observe
from ragforge.testing.model_server import ModelServer
from tests.forge import open_forge
from tests.served import add_files, open_served

App = Callable[[Scope, Receive, Send], Awaitable[None]]


@pytest.fixture
def metrics(tmp_path: Path) -> Iterator[Metrics]:
    with open_forge(tmp_path / "ws") as forge:
        yield Metrics(forge)


def scope_of(path: str = "/v1/projects", method: str = "GET", type: str = "http", **more: Any) -> Scope:
    return {"type": type, "method": method, "path": path, "headers": [], "server": ("127.0.0.1", 80), **more}


async def nothing() -> Message:
    await asyncio.sleep(60)
    raise AssertionError("nobody waits so long")


async def call(app: App, scope: Scope) -> list[Message]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, nothing, send)
    return sent


def value(metrics: Metrics, line: str) -> float:
    """A number of the page, by the beginning of its line."""
    found = [each for each in metrics.page().splitlines() if each.startswith(line + " ")]
    return float(found[0].rsplit(" ", 1)[1]) if found else 0.0


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    return dict(record.fields)  # type: ignore[attr-defined]


def test_a_request_is_counted_and_told_in_one_line(metrics: Metrics, caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["ragforge.request"], scope["ragforge.route"] = "0123456789", "/v1/projects/{project}/search"
        await PlainTextResponse("found")(scope, receive, send)

    with caplog.at_level(logging.INFO, "ragforge"):
        asyncio.run(call(Observe(app, metrics, 10), scope_of("/v1/projects/my secret plan/search", "POST")))
    (record,) = caplog.records
    fields = fields_of(record)
    assert fields.pop("ms") >= 0
    assert fields == {
        "request": "0123456789",
        "method": "POST",
        "route": "/v1/projects/{project}/search",
        "status": 200,
        "principal": "",
        "bytes": 5,
    }
    labels = 'method="POST",route="/v1/projects/{project}/search"'
    assert value(metrics, f'ragforge_http_requests_total{{{labels},status="200"}}') == 1
    assert value(metrics, f"ragforge_http_request_seconds_count{{{labels}}}") == 1
    assert "secret plan" not in metrics.page()


def test_what_a_client_invents_is_no_label(metrics: Metrics) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("nothing is here", 404)(scope, receive, send)

    for number in range(20):
        asyncio.run(call(Observe(app, metrics, 10), scope_of(f"/invented/{number}", f"INVENTED{number}")))
    assert value(metrics, 'ragforge_http_requests_total{method="other",route="other",status="404"}') == 20
    assert "INVENTED" not in metrics.page() and "invented" not in metrics.page()


def test_a_fault_is_told_once_and_answered(metrics: Metrics, caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["ragforge.request"] = "0123456789"
        raise ValueError("a sentence of a document")

    sent = asyncio.run(call(Observe(app, metrics, 10), scope_of()))
    assert sent[0]["status"] == 500
    told = json.loads(sent[1]["body"])["error"]
    assert told["code"] == "internal" and told["request_id"] == "0123456789" and "sentence" not in str(told)
    assert [record.levelname for record in caplog.records if record.exc_info] == ["ERROR"]
    assert value(metrics, 'ragforge_http_requests_total{method="GET",route="other",status="500"}') == 1


def test_an_answer_that_has_begun_breaks_off(metrics: Metrics) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ValueError("later")

    with pytest.raises(ValueError, match="later"):
        asyncio.run(call(Observe(app, metrics, 10), scope_of()))
    assert value(metrics, "ragforge_http_requests_at_work") == 0


def test_who_waits_for_an_answer_when_the_server_stops_is_told(
    metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(60)

    async def stopped() -> list[Message]:
        waiting = asyncio.create_task(call(Observe(app, metrics, 10), scope_of()))
        await asyncio.sleep(0)
        waiting.cancel()
        return await waiting

    sent = asyncio.run(stopped())
    assert sent[0]["status"] == 503 and json.loads(sent[1]["body"])["error"]["code"] == "stopped"
    assert value(metrics, 'ragforge_http_requests_total{method="GET",route="other",status="503"}') == 1
    assert value(metrics, "ragforge_http_requests_at_work") == 0


def test_more_than_can_wait_are_sent_away_at_once(metrics: Metrics) -> None:
    async def everything() -> None:
        go = asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["path"] != "/healthz":
                await go.wait()
            await PlainTextResponse("done")(scope, receive, send)

        observe = Observe(app, metrics, 3)
        waiting = [asyncio.create_task(call(observe, scope_of())) for _ in range(3)]
        await asyncio.sleep(0)
        refused = await asyncio.wait_for(call(observe, scope_of()), 1)
        assert refused[0]["status"] == 503 and (b"retry-after", b"1") in refused[0]["headers"]
        assert json.loads(refused[1]["body"])["error"]["code"] == "overloaded"
        alive = await asyncio.wait_for(call(observe, scope_of("/healthz")), 1)
        assert alive[0]["status"] == 200
        assert value(metrics, "ragforge_http_requests_at_work") == 3
        go.set()
        assert [sent[0]["status"] for sent in await asyncio.gather(*waiting)] == [200, 200, 200]
        assert (await call(observe, scope_of()))[0]["status"] == 200

    asyncio.run(everything())
    assert value(metrics, "ragforge_http_overload_total") == 1
    assert value(metrics, "ragforge_http_requests_at_work") == 0


def test_an_open_stream_takes_nobodys_place(metrics: Metrics) -> None:
    async def everything() -> None:
        go = asyncio.Event()

        async def pieces() -> Any:
            yield b"data: 1\n\n"
            await go.wait()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await StreamingResponse(pieces(), media_type="text/event-stream")(scope, receive, send)

        observe = Observe(app, metrics, 1)
        streams = []
        for number in range(1, 4):
            streams.append(asyncio.create_task(call(observe, scope_of())))
            for _ in range(100):
                await asyncio.sleep(0.001)
                if value(metrics, "ragforge_open_streams") == number:
                    break
            assert value(metrics, "ragforge_open_streams") == number
        streams[0].cancel()
        go.set()
        ended = await asyncio.gather(*streams, return_exceptions=True)
        assert isinstance(ended[0], asyncio.CancelledError) and not isinstance(ended[1], BaseException)

    asyncio.run(everything())
    assert value(metrics, "ragforge_open_streams") == 0 and value(metrics, "ragforge_http_requests_at_work") == 0


async def shortly() -> None:
    """Until all that can go on has gone on."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_client_that_is_waited_for_takes_nobodys_place(metrics: Metrics) -> None:
    """Neither one whose body comes slowly, nor one that reads its answer slowly."""

    async def everything() -> None:
        rest, read = asyncio.Event(), asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            while scope["path"] == "/slow" and (await receive())["more_body"]:
                pass
            await PlainTextResponse("found")(scope, receive, send)

        async def receive() -> Message:
            if not started:
                started.append(True)
                return {"type": "http.request", "body": b"{", "more_body": True}
            await rest.wait()
            return {"type": "http.request", "body": b"}", "more_body": False}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.body":
                await read.wait()

        started: list[bool] = []
        observe = Observe(app, metrics, 1)
        slow = asyncio.create_task(observe(scope_of("/slow", "POST"), receive, send))
        await shortly()
        assert started and value(metrics, "ragforge_http_requests_at_work") == 0
        assert (await call(observe, scope_of()))[0]["status"] == 200
        rest.set()
        await shortly()
        assert not slow.done() and value(metrics, "ragforge_http_requests_at_work") == 0
        assert (await call(observe, scope_of()))[0]["status"] == 200
        read.set()
        await slow

    asyncio.run(everything())
    assert value(metrics, "ragforge_http_requests_at_work") == 0


def test_what_is_done_between_the_pieces_of_a_body_is_work(metrics: Metrics) -> None:
    async def everything() -> None:
        go = asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await receive()
            await go.wait()
            await PlainTextResponse("kept")(scope, receive, send)

        async def receive() -> Message:
            return {"type": "http.request", "body": b"piece", "more_body": True}

        async def send(_: Message) -> None: ...

        observe = Observe(app, metrics, 1)
        upload = asyncio.create_task(observe(scope_of(method="POST"), receive, send))
        await shortly()
        assert (await call(observe, scope_of()))[0]["status"] == 503
        go.set()
        await upload

    asyncio.run(everything())
    assert value(metrics, "ragforge_http_requests_at_work") == 0


def test_what_was_done_is_on_the_page(tmp_path: Path) -> None:
    with ModelServer() as server, open_served(tmp_path / "ws", server, model__cheap="") as forge:
        metrics = Metrics(forge)
        add_files(forge, tmp_path / "docs", {"chairs.md": "# Chairs\n\nA chair may be returned within 30 days.\n"})
        forge.search("chair", project="p")
        forge.ask("How long may a chair be returned?", project="p")
        forge.ask("How long may a chair be returned?", project="p", model="openai-compatible:asked-for-by-a-caller")
        page = metrics.page()
    for line in ("ragforge_files_total 1.0", "ragforge_search_seconds_count 1.0", "ragforge_ask_seconds_count 2.0"):
        assert line in page.splitlines(), line
    assert value(metrics, 'ragforge_tokens_total{direction="in",model="openai-compatible:stub"}') > 0
    assert value(metrics, 'ragforge_tokens_total{direction="out",model="other"}') > 0
    assert 'ragforge_jobs{kind="add",state="done"} 1.0' in page
    assert "asked-for" not in page and "chairs.md" not in page
    assert 'ragforge_build_info{version="' in page and "ragforge_threads" in page


def test_each_row_of_several_workers_says_whose_it_is(metrics: Metrics) -> None:
    metrics.answered("/v1/projects", "GET", 200, 0.02)
    one = metrics.own_page()
    three = together({1: one, 2: one, 3: one})
    rows = three.splitlines()
    for number in (1, 2, 3):
        asked = f'ragforge_http_requests_total{{method="GET",route="/v1/projects",status="200",worker="{number}"}} 1.0'
        assert asked in rows
        assert f'ragforge_build_info{{version="0.1.0",worker="{number}"}} 1.0' in rows
        assert f'ragforge_searches_total{{worker="{number}"}} 0.0' in rows
    assert "_created" not in three
    kinds = [line.split()[2:] for line in one.splitlines() if line.startswith("# TYPE")]
    assert [line.split()[2:] for line in rows if line.startswith("# TYPE")] == kinds
    assert len([row for row in rows if "#" not in row]) == 3 * len([row for row in one.splitlines() if "#" not in row])
