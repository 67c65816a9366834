"""`kill -9` of a server under upload load: nothing it answered for is lost, and it is back at once."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from ragforge import Ragforge
from ragforge.domain.library import UPLOAD, JobState
from tests.forge import faults, prose
from tests.process import serve
from tests.proof import PROVING, count, record
from tests.shell import fill_workspace

SENDERS = 4
FILES = "/v1/projects/default/files"


class Sent:
    """What one sender sent under each of its names, in order, and which of it was answered for."""

    def __init__(self, number: int) -> None:
        self.random = random.Random(number)
        self.names = [f"s{number}-{place}.md" for place in range(30)]
        self.texts: dict[str, list[tuple[str, bool]]] = {}
        self.answered = 0

    def one(self, client: httpx.Client) -> None:
        """Send one file. Unless the answer came, nobody knows whether it was taken."""
        name, text = self.random.choice(self.names), prose(self.random.randrange(10**9), self.random.randrange(3, 40))
        history = self.texts.setdefault(name, [])
        history.append((text, False))
        wait = {"wait": "5"} if self.random.random() < 0.3 else {}
        answer = client.post(FILES, files={"file": (name, text)}, params=wait)
        assert answer.status_code in (200, 202), answer.text
        if answer.status_code == 200:
            assert answer.json()["state"] == "done", answer.text
        history[-1] = (text, True)
        self.answered += 1

    def allowed(self, name: str) -> set[str]:
        """What may be there now: the last that was answered for, or something that was sent after it."""
        history = self.texts[name]
        last = max((place for place, (_, answered) in enumerate(history) if answered), default=-1)
        return {text for text, _ in history[max(last, 0) :]}

    def owed(self) -> list[str]:
        return [name for name, history in self.texts.items() if any(answered for _, answered in history)]


@contextmanager
def server(workspace: Path) -> Iterator[tuple[str, float]]:
    """The command, until it is killed: its address, and how long it took to be ready."""
    began = time.monotonic()
    compiled = {"PYTHONPYCACHEPREFIX": str(workspace.parent / "compiled"), "PYTHONDONTWRITEBYTECODE": ""}
    with serve(workspace, variables=compiled) as serving:
        while not _is_ready(serving.address):
            assert time.monotonic() - began < 60
            time.sleep(0.01)
        yield serving.address, time.monotonic() - began


def _is_ready(address: str) -> bool:
    try:
        return httpx.get(f"{address}/readyz", timeout=2).status_code == 200
    except httpx.TransportError:
        return False


def send_until(ended: threading.Event, address: str, sent: Sent) -> None:
    with httpx.Client(base_url=address, timeout=10) as client:
        while not ended.is_set():
            try:
                sent.one(client)
            except httpx.TransportError:  # it was killed
                return


@pytest.mark.alone
@pytest.mark.timeout(600)
def test_nothing_that_was_answered_for_is_lost(tmp_path: Path) -> None:
    workspace = fill_workspace(tmp_path, {"first.md": prose(1)})
    senders, kills = [Sent(number) for number in range(SENDERS)], count(2, 40)
    ready: list[float] = []
    moments = random.Random(5)
    for _ in range(kills):
        ended = threading.Event()
        with server(workspace) as (address, took):
            ready.append(took)
            threads = [threading.Thread(target=send_until, args=(ended, address, sender)) for sender in senders]
            for thread in threads:
                thread.start()
            enough = sum(sender.answered for sender in senders) + moments.randrange(1, 30)
            while sum(sender.answered for sender in senders) < enough:
                assert all(thread.is_alive() for thread in threads)
                time.sleep(moments.uniform(0.001, 0.05))
        ended.set()
        for thread in threads:
            thread.join()
    with Ragforge.open(workspace) as forge:
        worker = forge.worker()
        worker.start()
        deadline = time.monotonic() + 120
        while any(job.state in (JobState.QUEUED, JobState.RUNNING) for job in forge.jobs()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        worker.stop()
        assert {job.state for job in forge.jobs() if job.kind == UPLOAD} == {JobState.DONE}
        documents = {document.name: document for document in forge.documents()}
        for sender in senders:
            assert set(sender.owed()) <= documents.keys(), "answered for, and lost"
            for name in documents.keys() & sender.texts.keys():
                _, file = forge.content(documents[name].id)
                with file:
                    assert file.read().decode() in sender.allowed(name), "an older one came after a newer one"
        assert faults(forge) == []
        assert [path.name for path in (workspace / "inbox").iterdir()] == ["lock"]
    names = [row[0] for row in sqlite3.connect(workspace / "catalog.db").execute("SELECT name FROM documents")]
    assert sorted(names) == sorted(set(names)) and names
    answered = sum(sender.answered for sender in senders)
    again = ready[1:]  # the first start compiles
    record("kill_server", kills=kills, answered=answered, ready_seconds=[round(t, 2) for t in (min(again), max(again))])
    if PROVING:  # beside other tests nothing is quick
        assert max(again) <= 2.0, ready
