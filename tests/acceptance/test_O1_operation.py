"""What operators see: whether it lives, whether it can work and what is missing, its numbers, its log."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragforge import Ragforge
from ragforge.domain.access import Role
from ragforge.domain.cancel import Cancel
from ragforge.domain.library import Finding
from ragforge.domain.tokens import Vector
from ragforge.interfaces.http.metrics import Metrics
from ragforge.interfaces.http.routes import health
from ragforge.operate import ready, telemetry
from ragforge.testing.hashing import HashingEmbedder
from ragforge.testing.model_server import ModelServer
from tests.forge import open_forge
from tests.served import add_files, open_served
from tests.serving import serving

FILES = {"chairs.md": "# Chairs\n\nA chair may be returned within 30 days of its delivery.\n"}
ASKED = {"question": "How long may a chair be returned?"}


class Held(HashingEmbedder):
    """Embeds no question before it is let go."""

    def __init__(self) -> None:
        super().__init__(64)
        self.go = threading.Event()

    def embed_query(self, text: str, cancel: Cancel) -> Vector:
        self.go.wait(30)
        return super().embed_query(text, cancel)


def parts_of(address: str, status: int) -> dict[str, Any]:
    answer = httpx.get(f"{address}/readyz", timeout=30)
    assert answer.status_code == status, answer.text
    parts: dict[str, Any] = answer.json()["parts"]
    assert answer.json()["ready"] is (status == 200) is all(part["ok"] for part in parts.values())
    return parts


def missing(address: str) -> dict[str, str]:
    return {name: part["why"] for name, part in parts_of(address, 503).items() if not part["ok"]}


def test_each_part_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_BELIEVED_SECONDS", 0.0)
    with open_forge(tmp_path / "ws", embed__model="hashing") as forge, serving(forge) as address:
        assert set(parts_of(address, 200)) == {
            "catalog", "database", "indexes", "disk", "embedder", "parsers", "workers",
        }  # fmt: skip
        with monkeypatch.context() as patched:
            patched.setattr(ready, "LEAST_FREE_BYTES", 10**18)
            assert "MB are free" in missing(address)["disk"]
        with monkeypatch.context() as patched:
            patched.setattr(forge._parts, "workspace", tmp_path / "elsewhere")
            patched.setattr(forge, "workspace", tmp_path / "elsewhere")
            assert missing(address) == {
                "indexes": "their folder cannot be written",
                "disk": "the workspace is not there",
            }
        forge._parts.catalog.close()
        (tmp_path / "ws" / "catalog.db").write_bytes(b"no longer a database" * 1_000)
        assert set(missing(address)) == {"catalog"}
        assert str(tmp_path) not in httpx.get(f"{address}/readyz").text


def test_a_model_that_is_not_here(tmp_path: Path) -> None:
    nowhere = {"embed__model": "minilm", "embed__fallback": "", "store__models_dir": str(tmp_path / "none")}
    with open_forge(tmp_path / "ws", **nowhere) as forge, serving(forge) as address:
        assert missing(address) == {"embedder": "the model of the settings is not here"}


def test_what_was_found_is_believed_for_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    before = Ragforge.ready

    def look(forge: Ragforge) -> list[Finding]:
        looked.append(1)
        return before(forge)

    monkeypatch.setattr(Ragforge, "ready", look)
    with (
        open_forge(tmp_path / "ws", embed__model="hashing") as forge,
        serving(forge) as address,
        ThreadPoolExecutor(8) as pool,
    ):
        began = time.monotonic()
        list(pool.map(lambda _: parts_of(address, 200), range(40)))
        seconds = time.monotonic() - began
    assert 1 <= len(looked) <= min(20, seconds + 2)


def test_health_never_waits_for_work(tmp_path: Path) -> None:
    """Every thread that answers requests is held, and many more requests wait."""
    embedder = Held()
    with open_forge(tmp_path / "ws", embedder, server__threads=2) as forge:
        add_files(forge, tmp_path / "docs", FILES)
        with serving(forge) as address, ThreadPoolExecutor(20) as pool:
            asked = [
                pool.submit(
                    httpx.post,
                    f"{address}/v1/projects/p/search",
                    json={"question": f"{ASKED['question']} {number}", "fresh": True},
                    timeout=60,
                )
                for number in range(20)
            ]
            time.sleep(0.5)
            slowest = 0.0
            with httpx.Client() as client:
                for _ in range(20):
                    began = time.perf_counter()
                    assert client.get(f"{address}/healthz").status_code == 200
                    slowest = max(slowest, time.perf_counter() - began)
                page = client.get(f"{address}/metrics", timeout=30).text
                assert client.get(f"{address}/readyz", timeout=30).json()["parts"]["catalog"]["ok"]
            assert not any(each.done() for each in asked)
            assert "ragforge_http_requests_at_work 21.0" in page
            embedder.go.set()
            assert {each.result().status_code for each in asked} == {200}
    assert slowest < 5.0


def test_whether_it_can_work_does_not_wait_for_its_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting, go = threading.Event(), threading.Event()
    page = Metrics.page

    def held(self: Metrics, *others: Any) -> str:
        counting.set()
        go.wait(30)
        return page(self, *others)

    monkeypatch.setattr(Metrics, "page", held)
    with open_forge(tmp_path / "ws") as forge, serving(forge) as address, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(httpx.get, f"{address}/metrics", timeout=30)
        try:
            assert counting.wait(10)
            assert httpx.get(f"{address}/readyz", timeout=5).status_code == 200
        finally:
            go.set()
        assert asked.result().status_code == 200


def test_too_many_at_once_are_sent_away(tmp_path: Path) -> None:
    embedder = Held()
    with open_forge(tmp_path / "ws", embedder, server__threads=2, server__waiting=4) as forge:
        add_files(forge, tmp_path / "docs", FILES)
        with serving(forge) as address, ThreadPoolExecutor(12) as pool:
            url = f"{address}/v1/projects/p/search"
            asked = [
                pool.submit(httpx.post, url, json={"question": f"chair {number}", "fresh": True}, timeout=60)
                for number in range(12)
            ]
            deadline = time.monotonic() + 20
            while sum(each.done() for each in asked) < 8:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            refused = [each.result() for each in asked if each.done()]
            assert [answer.status_code for answer in refused] == [503] * 8
            assert all(answer.headers["retry-after"] == "1" for answer in refused)
            assert httpx.get(f"{address}/healthz").status_code == 200
            embedder.go.set()
            assert sorted(each.result().status_code for each in asked) == [200] * 4 + [503] * 8


def test_one_key_leaves_room_for_others(tmp_path: Path) -> None:
    embedder = Held()
    with open_forge(tmp_path / "ws", embedder, server__waiting=4) as forge:
        add_files(forge, tmp_path / "docs", FILES)
        one, other = ({"X-API-Key": forge.access().create(name, Role.READER)[1]} for name in ("one", "other"))
        with serving(forge) as address, ThreadPoolExecutor(4) as pool:
            url = f"{address}/v1/projects/p/search"
            asked = [
                pool.submit(httpx.post, url, json={"question": f"chair {number}"}, headers=one, timeout=60)
                for number in range(4)
            ]
            deadline = time.monotonic() + 20
            while sum(each.done() for each in asked) < 2:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            refused = [each.result() for each in asked if each.done()]
            assert [(answer.status_code, answer.headers["retry-after"]) for answer in refused] == [(429, "1")] * 2
            assert httpx.get(f"{address}/v1/projects", headers=other).status_code == 200
            embedder.go.set()
            assert sorted(each.result().status_code for each in asked) == [200, 200, 429, 429]


def test_spans_of_a_question(tmp_path: Path) -> None:
    exporter = InMemorySpanExporter()
    telemetry.begin_with(SimpleSpanProcessor(exporter))
    try:
        with ModelServer() as model, open_served(tmp_path / "ws", model) as forge:
            add_files(forge, tmp_path / "docs", FILES)
            with serving(forge) as address:
                asked = httpx.post(
                    f"{address}/v1/projects/p/ask", json=ASKED, headers={"X-Request-ID": "request-0123"}, timeout=60
                )
                assert asked.status_code == 200
                assert httpx.post(f"{address}/v1/projects/p/search", json=ASKED, timeout=60).status_code == 200
    finally:
        telemetry.end()
    spans = exporter.get_finished_spans()
    (request,) = [each for each in spans if (each.attributes or {}).get("request.id") == "request-0123"]
    assert request.name == "request" and dict(request.attributes or {})["http.route"] == "/v1/projects/{project}/ask"
    below = {each.name for each in spans if each.context and each.context.trace_id == request.context.trace_id}
    assert {"ask", "provider call"} < below and any(name.startswith("ask ") for name in below)
    assert "search" in {each.name for each in spans}
    assert "chair" not in "".join(each.to_json() for each in spans).lower()
