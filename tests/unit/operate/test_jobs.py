"""Work under a job: its progress, its lease, its end."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.library import FOREGROUND, Job, JobState, OwnProgress, Progress
from ragforge.errors import ProviderError
from ragforge.operate import jobs
from ragforge.operate.jobs import JobRunner
from ragforge.ports import Unit
from tests.forge import open_forge


@pytest.fixture
def forge(swift_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ragforge]:
    monkeypatch.setattr(jobs, "_BEAT_SECONDS", 0.02)
    monkeypatch.setattr(jobs, "_LEASE_SECONDS", 0.5)
    with open_forge(swift_path / "workspace") as opened:
        yield opened


def run(forge: Ragforge, events: Iterator[Progress], cancel: Cancel | None = None) -> Iterator[Progress]:
    runner = JobRunner(forge._parts.catalog)
    return runner.run(forge._scope, forge.project("p").id, "test", {"a": 1}, events, cancel or Cancel())


def only(forge: Ragforge) -> Job:
    (job,) = forge.jobs(project="p")
    return job


def test_events_pass_and_the_job_is_done(forge: Ragforge) -> None:
    steps = [Progress("reading", done, 3) for done in range(4)]
    assert list(run(forge, iter(steps))) == steps
    assert (only(forge).state, only(forge).payload["a"], only(forge).error) == (JobState.DONE, 1, "")


def test_nobody_but_the_person_takes_up_what_died(forge: Ragforge) -> None:
    with forge._parts.catalog.write() as c:
        (job,) = c.jobs.enqueue(forge._scope, forge.project("p").id, "add", [{FOREGROUND: True}])
        assert c.jobs.claim(forge._scope, "gone", ["add"], 0.0, job.id)
    time.sleep(0.01)
    with forge._parts.catalog.write() as c:
        assert c.jobs.reap(forge._scope) == 1
    assert only(forge).state is JobState.FAILED and "run the command again" in only(forge).error


def test_others_see_how_far_it_is_and_that_it_lives(forge: Ragforge) -> None:
    def work() -> Iterator[Progress]:
        yield Progress("reading", 1, 2)
        time.sleep(1.0)  # longer than the lease
        yield Progress("reading", 2, 2)

    seen = run(forge, work())
    next(seen)
    time.sleep(0.8)
    with forge._parts.catalog.write() as c:
        assert c.jobs.reap(forge._scope) == 0, "its worker lives"
    assert only(forge).progress == Progress("reading", 1, 2)
    assert len(list(seen)) == 1 and only(forge).state is JobState.DONE


def test_each_of_several_jobs_tells_how_far_it_is(forge: Ragforge, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, project, writes = forge._parts.catalog, forge.project("p").id, 0
    with catalog.write() as c:
        waiting = c.jobs.enqueue(forge._scope, project, "test", [{}] * 3)
        held = [c.jobs.claim(forge._scope, "me", ["test"], 5.0, job.id) for job in waiting]
    claimed = [job for job in held if job is not None]
    write, began = catalog.write, time.monotonic()

    def counted() -> AbstractContextManager[Unit]:
        nonlocal writes
        writes += 1
        return write()

    def at() -> list[Progress | None]:
        return [forge.job(job.id).progress for job in claimed]

    def work() -> Generator[object, None, list[object]]:
        common, own = Progress("reading", 1, 3), [Progress("embedding", done, 9) for done in (2, 7)]
        yield common
        yield OwnProgress(claimed[0].id, own[0])
        yield OwnProgress(claimed[2].id, own[1])
        deadline = time.monotonic() + 5
        while at() != [own[0], common, own[1]]:
            assert time.monotonic() < deadline, at()
            time.sleep(0.01)
        for done in range(2, 9):
            yield OwnProgress(claimed[0].id, Progress("embedding", done, 9))
        time.sleep(0.1)
        assert at() == [Progress("embedding", 8, 9), common, own[1]]
        return [1, 2, 3]

    monkeypatch.setattr(catalog, "write", counted)
    list(JobRunner(catalog).carry(forge._scope, claimed, work(), Cancel()))
    assert writes <= 2 + (time.monotonic() - began) / 0.02, "one for each beat, however many jobs tell something"
    assert [forge.job(job.id).result for job in claimed] == [1, 2, 3]


def test_a_cancelled_job_stops_the_work(forge: Ragforge) -> None:
    cancel = Cancel()

    def work() -> Iterator[Progress]:
        while True:
            yield Progress("reading", 0, None)
            cancel.check()
            time.sleep(0.01)

    with pytest.raises(Cancelled):
        for _ in run(forge, work(), cancel):
            if not only(forge).cancel_requested:
                forge.cancel_job(only(forge).id)
    assert only(forge).state is JobState.CANCELLED


def test_a_failure_is_written_down(forge: Ragforge) -> None:
    def work() -> Iterator[Progress]:
        yield Progress("reading", 0, 1)
        raise ProviderError("the service is down", hint="wait")

    with pytest.raises(ProviderError):
        list(run(forge, work()))
    assert (only(forge).state, only(forge).error) == (JobState.FAILED, "the service is down")


def test_a_caller_who_leaves_ends_the_job(forge: Ragforge) -> None:
    events = run(forge, iter([Progress("reading", n, 9) for n in range(9)]))
    next(events)
    events.close()  # type: ignore[attr-defined]
    assert only(forge).state is JobState.FAILED
