"""Many clients at once against a real `ragforge serve`: questions, uploads and deletions, and somebody who asks all the
while whether it lives.
"""

from __future__ import annotations

import random
import signal
import statistics
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.forge import prose
from tests.process import Serving, resident, serve
from tests.proof import PROVING, count, record
from tests.shell import fill_workspace

CLIENTS = 32
WARM_SECONDS = count(2, 30)
SECONDS = WARM_SECONDS + count(3, 60)
SLOWEST_HEALTH = 0.25 if PROVING else 2.0
"""Beside other tests on a small machine nothing is quick; `make prove` runs it alone."""


class Client:
    """One of them: what it sent, and what came back."""

    def __init__(self, number: int, address: str) -> None:
        self.random = random.Random(number)
        self.number = number
        self.statuses: Counter[str] = Counter()
        self.faults: list[str] = []
        self.seconds: dict[str, list[float]] = {"ask": [], "search": [], "upload": [], "delete": []}
        self._http = httpx.Client(base_url=f"{address}/v1/projects/default", timeout=60)
        self._mine: list[str] = []
        self._sent = 0

    def work(self, until: float) -> None:
        with self._http:
            if self.number % 8 == 0:  # however short it is, every kind of request comes
                self._upload()
                self._delete()
            while time.monotonic() < until:
                chance = self.random.random()
                if chance < 0.80:
                    self._question()
                elif chance < 0.95:
                    self._upload()
                else:
                    self._delete()

    def _question(self) -> None:
        words = f"word{self.random.randrange(10_000)} page {self.random.randrange(60)}"
        what = self.random.choice(("search", "ask"))
        self._send(what, "POST", f"/{what}", json={"question": f"What is said of {words}?"})

    def _upload(self) -> None:
        name, self._sent = f"client{self.number}-{self._sent}.md", self._sent + 1
        text = prose(1_000 * self.number + self._sent)
        if self._send("upload", "POST", f"/files?wait=30&name={name}", content=text.encode()) == 200:
            self._mine.append(name)

    def _delete(self) -> None:
        if self._mine:
            self._send("delete", "DELETE", f"/files/{self._mine.pop(0)}")
        else:
            self._upload()

    def _send(self, what: str, method: str, path: str, **how: object) -> int:
        began = time.perf_counter()
        try:
            answer = self._http.request(method, path, **how)  # type: ignore[arg-type]
        except httpx.HTTPError as problem:
            self.faults.append(f"{what}: {problem!r}")
            return 0
        self.seconds[what].append(time.perf_counter() - began)
        self.statuses[f"{what} {answer.status_code}"] += 1
        if answer.status_code >= 400:
            self.faults.append(f"{what}: {answer.status_code} {answer.text[:300]}")
        return answer.status_code


class Watcher:
    """Asks whether it lives, on a connection of its own."""

    def __init__(self, serving: Serving, address: str) -> None:
        self.seconds: list[float] = []
        self.memory: list[tuple[float, int]] = []
        self._serving = serving
        self._address = address

    def watch(self, until: float) -> None:
        with httpx.Client(base_url=self._address, timeout=60) as client:
            while (now := time.monotonic()) < until:
                began = time.perf_counter()
                assert client.get("/healthz").status_code == 200
                self.seconds.append(time.perf_counter() - began)
                self.memory.append((now, resident(self._serving.process.pid)))
                time.sleep(0.02)


def high(values: list[float], share: float = 0.99) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = {f"page{number}.md": prose(number, 40) for number in range(60)}
    return fill_workspace(tmp_path_factory.mktemp("load"), files)


@pytest.mark.alone
def test_many_clients_at_once(workspace: Path) -> None:
    with serve(workspace) as serving:
        address = serving.address
        assert httpx.get(f"{address}/readyz", timeout=60).status_code == 200
        began = time.monotonic()
        until = began + SECONDS
        clients = [Client(number, address) for number in range(CLIENTS)]
        watcher = Watcher(serving, address)
        with ThreadPoolExecutor(CLIENTS + 1) as pool:
            watched = pool.submit(watcher.watch, until)
            for done in [pool.submit(client.work, until) for client in clients]:
                done.result()
            watched.result()
        statuses = sum((client.statuses for client in clients), Counter[str]())
        faults = [fault for client in clients for fault in client.faults]
        warm = [size for moment, size in watcher.memory if moment - began > WARM_SECONDS]
        third = len(warm) // 3  # long enough for what is used and given back in between to even out
        growth = statistics.median(warm[-third:]) / statistics.median(warm[:third]) - 1
        page = httpx.get(f"{address}/metrics", timeout=60).text
        code, took = serving.stop(signal.SIGTERM)
    seconds = {what: [each for client in clients for each in client.seconds[what]] for what in clients[0].seconds}
    figures = {
        "clients": CLIENTS,
        "seconds": SECONDS,
        "requests": sum(statuses.values()),
        "faults": len(faults),
        "health_p50_ms": round(statistics.median(watcher.seconds) * 1000, 1),
        "health_p99_ms": round(high(watcher.seconds) * 1000, 1),
        "memory_mb": round(warm[-1] / 1e6),
        "memory_growth_percent": round(growth * 100, 1),
        "stop_seconds": round(took, 2),
        **{f"{what}_p95_ms": round(high(each, 0.95) * 1000) for what, each in seconds.items() if each},
    }
    record("load", **figures)
    print(figures, dict(statuses))
    assert not faults, faults[:5]
    assert not any('"level": "error"' in line or "locked" in line for line in serving.lines)
    assert {what.split()[0] for what in statuses} == {"search", "ask", "upload", "delete"}
    assert 'status="500"' not in page and 'status="503"' not in page
    assert high(watcher.seconds) <= SLOWEST_HEALTH, figures
    assert code == 0 and took < 5
    if PROVING:
        assert growth <= 0.05, figures


def test_the_same_file_from_many_at_once(workspace: Path) -> None:
    text = prose(99_999).encode()
    with serve(workspace) as serving:
        address = serving.address
        together = threading.Barrier(count(16, 64))

        def send(_: int) -> int:
            together.wait()
            url = f"{address}/v1/projects/default/files?wait=60&name=same.md"
            return httpx.post(url, content=text, timeout=90).status_code

        with ThreadPoolExecutor(together.parties) as pool:
            statuses = list(pool.map(send, range(together.parties)))
        listed = httpx.get(f"{address}/v1/projects/default/files?limit=1000", timeout=30).json()["items"]
    documents = [each["name"] for each in listed].count("same.md")
    failed = sum(status != 200 for status in statuses)
    record("identical_uploads", uploads=len(statuses), failed=failed, documents=documents)
    assert not failed, statuses
    assert documents == 1
    assert not any('"level": "error"' in line or "locked" in line for line in serving.lines)
