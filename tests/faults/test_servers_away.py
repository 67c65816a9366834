"""Postgres is restarted under the work, or stays away: nothing is lost, it is said, and work goes on by itself."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import pytest

from ragforge import Ragforge
from ragforge.domain.library import Job, JobState, Outcome
from ragforge.errors import Unreachable
from ragforge.testing.postgres import TemporaryPostgres
from tests.forge import WatchedEmbedder, faults, fill, open_forge
from tests.proof import count, record
from tests.qdrant_rest import RestQdrant, rest_qdrant


@pytest.fixture
def server() -> Iterator[TemporaryPostgres]:
    """One that nobody else needs meanwhile."""
    with TemporaryPostgres() as server:
        yield server


def restart_often(server: TemporaryPostgres, times: int, ended: threading.Event) -> int:
    """At any moment, while the work goes on. How often it was."""
    moments = random.Random(3)
    for number in range(times):
        if ended.wait(moments.uniform(0.2, 0.8)):
            return number
        server.stop()
        ended.wait(moments.uniform(0.0, 0.4))
        server.start()
    return times


def have_ended(forge: Ragforge, jobs: list[Job]) -> bool:
    with suppress(Unreachable):  # restarted just while we look
        return all(forge.job(job.id).ended for job in jobs)
    return False


@pytest.mark.timeout(600)
def test_adding_goes_on_when_postgres_is_restarted(server: TemporaryPostgres, tmp_path: Path) -> None:
    files, restarts, ended = fill(tmp_path / "docs", count(60, 600)), count(3, 30), threading.Event()
    done: list[int] = []
    slow = WatchedEmbedder(before=lambda: time.sleep(0.05))
    settings = {"store__database_url": server.create(), "ingest__batch_files": 4, "ingest__batch_leaves": 8}
    with open_forge(tmp_path / "workspace", slow, **settings) as forge:
        restarting = threading.Thread(target=lambda: done.append(restart_often(server, restarts, ended)))
        restarting.start()
        report = forge.add(tmp_path / "docs", project="p")
        ended.set()
        restarting.join()
        assert {result.outcome for result in report.files} <= {Outcome.READY, Outcome.UNCHANGED}
        assert len(report.files) == len(files) == len(forge.documents(project="p"))
        assert forge.search("Page 7", project="p").passages and faults(forge) == []
    record("postgres_restarts_add", files=len(files), restarts=done[0])
    assert done[0] > 0


@pytest.mark.timeout(600)
def test_uploads_are_taken_in_when_postgres_is_restarted(server: TemporaryPostgres, tmp_path: Path) -> None:
    files, restarts, ended = fill(tmp_path / "docs", count(40, 400)), count(3, 30), threading.Event()
    done: list[int] = []
    slow = WatchedEmbedder(before=lambda: time.sleep(0.1))
    settings = {"store__database_url": server.create(), "ingest__batch_leaves": 8}
    with open_forge(tmp_path / "workspace", slow, **settings) as forge:
        jobs = [forge.upload(file, project="p") for file in files]
        worker, neighbour = forge.worker(), forge.neighbour(serves=True)
        assert neighbour is not None
        worker.start()
        neighbour.start()
        restarting = threading.Thread(target=lambda: done.append(restart_often(server, restarts, ended)))
        restarting.start()
        deadline = time.monotonic() + 300
        while not have_ended(forge, jobs):
            assert time.monotonic() < deadline and worker.alive
            time.sleep(0.2)
        ended.set()
        restarting.join()
        neighbour.stop()
        worker.stop()
        assert {forge.job(job.id).state for job in jobs} == {JobState.DONE}
        assert len(forge.documents(project="p")) == len(files) and faults(forge) == []
    record("postgres_restarts_uploads", files=len(files), restarts=done[0])
    assert done[0] > 0


def test_a_server_that_stays_away_is_said_with_the_next_step(server: TemporaryPostgres, tmp_path: Path) -> None:
    with open_forge(tmp_path / "w", store__database_url=server.create(), store__reach_seconds=0.3) as forge:
        fill(tmp_path / "docs", 3)
        forge.add(tmp_path / "docs", project="p")
        server.stop()
        began = time.monotonic()
        with pytest.raises(Unreachable, match="does not answer") as told:
            forge.search("Page 1", project="p")
        assert time.monotonic() - began < 5 and "database_url" in told.value.hint
        server.start()
        assert forge.search("Page 1", project="p").passages, "it comes back by itself"


class Away(Protocol):
    """A server that keeps vectors."""

    def stop(self) -> None: ...
    def start(self) -> None: ...


def answers_by_words_until_it_is_back(workspace: Path, server: Away, **settings: object) -> None:
    files = fill(workspace.parent / "docs", 6)
    with open_forge(workspace, **settings) as forge:
        forge.add(files[:4], project="p")
        assert forge.search("Page 1", project="p").degraded == ()
        server.stop()
        found = forge.search("Page 2", project="p")
        assert found.passages[0].name == "file0002.md" and [each.part for each in found.degraded] == ["vectors"]
        assert "searched by words alone" in found.degraded[0].message and found.degraded[0].hint
        report = forge.add(files[4:], project="p")
        assert [result.outcome for result in report.files] == [Outcome.READY] * 2, "files are taken in all the same"
        assert any("could not follow yet" in notice for notice in forge.notices)
        assert forge.search("Page 5", project="p").passages[0].name == "file0005.md"
        server.start()
        deadline = time.monotonic() + 60
        while (found := forge.search("Page 5", project="p")).degraded:
            assert time.monotonic() < deadline, found.degraded
            time.sleep(0.1)
        assert "vectors" in found.passages[0].ranks and faults(forge) == []


def test_pgvector_is_away(server: TemporaryPostgres, tmp_path: Path) -> None:
    url = server.create()
    server.add_vectors(url)
    settings = {"index__vectors": "pgvector", "index__database_url": url}
    answers_by_words_until_it_is_back(tmp_path / "workspace", server, **settings)


class Overloaded:
    """A Qdrant that answers 503 to everything for a while."""

    def __init__(self, qdrant: RestQdrant) -> None:
        self._qdrant = qdrant

    def stop(self) -> None:
        self._qdrant.fail(503, times=1_000_000)

    def start(self) -> None:
        self._qdrant.failures.clear()


def test_qdrant_is_away(tmp_path: Path) -> None:
    with rest_qdrant() as qdrant:
        settings = {"index__vectors": "qdrant", "index__url": qdrant.url}
        answers_by_words_until_it_is_back(tmp_path / "workspace", Overloaded(qdrant), **settings)
