"""I17: long work shows how far it is, everywhere, and stops when told to."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.library import FileResult, JobState, Outcome, Progress
from ragforge.domain.strategy import Strategy
from tests.forge import WatchedEmbedder, faults, fill, open_forge


def test_I17_progress_rises_to_the_end(swift_path: Path) -> None:
    fill(swift_path / "docs", 25)
    with open_forge(swift_path / "workspace", ingest__batch_files=5) as forge:
        events = list(forge.adding([swift_path / "docs"], project="p"))
        steps = [event for event in events if isinstance(event, Progress)]
        assert len(steps) > 5 and {step.total for step in steps} == {25}
        for name in ("done", "chunks", "embedded", "seconds"):
            values = [getattr(step, name) for step in steps]
            assert values == sorted(values), name
        assert steps[-1].done == 25 and steps[-1].chunks == sum(d.chunks for d in forge.documents(project="p"))
        assert sum(isinstance(event, FileResult) for event in events) == 25
        steps = list(forge.reindexing(project="p", strategy=Strategy(name="chars")))
        assert steps[-1].stage == "done" and [step.done for step in steps] == sorted(step.done for step in steps)


def test_I17_a_result_is_sent_when_it_is_durable(swift_path: Path) -> None:
    fill(swift_path / "docs", 12)
    with (
        open_forge(swift_path / "workspace", ingest__batch_files=3) as forge,
        open_forge(swift_path / "workspace") as other,
    ):
        for event in forge.adding([swift_path / "docs"], project="p"):
            if isinstance(event, FileResult):
                assert event.document is not None
                assert other.document(event.document, project="p").chunks == event.chunks


def test_I17_others_see_the_job_and_can_cancel_it(swift_path: Path) -> None:
    fill(swift_path / "docs", 60)
    embedder = WatchedEmbedder(before=lambda: time.sleep(0.25))
    stopped: list[BaseException] = []
    with (
        open_forge(swift_path / "workspace", embedder, ingest__batch_files=2) as forge,
        open_forge(swift_path / "workspace") as other,
    ):

        def add() -> None:
            try:
                forge.add(swift_path / "docs", project="p")
            except Cancelled as problem:
                stopped.append(problem)

        thread = threading.Thread(target=add)
        thread.start()
        job = None
        while job is None or job.progress is None or not job.progress.done:
            running = [known for known in other.jobs(project="p") if known.state is JobState.RUNNING]
            job = running[0] if running else None
            assert thread.is_alive()
            time.sleep(0.05)
        assert job.kind == "add" and job.progress.total == 60 and 0 < job.progress.done < 60
        other.cancel_job(job.id)
        thread.join(5)
        assert not thread.is_alive() and stopped
        (job,) = other.jobs(project="p")
        assert job.state is JobState.CANCELLED
        done = len(other.documents(project="p"))
        assert 0 < done < 60 and faults(other) == []
        embedder.before = lambda: None
        assert forge.add(swift_path / "docs", project="p").count(Outcome.READY) == 60 - done
        assert other.jobs(project="p")[0].state is JobState.DONE


def test_I17_a_cancelled_add_stops_within_a_second_and_leaves_nothing_half_done(swift_path: Path) -> None:
    fill(swift_path / "docs", 300)
    cancel = Cancel()
    told = 0.0
    with open_forge(swift_path / "workspace", ingest__batch_files=40) as forge:
        with pytest.raises(Cancelled):
            for event in forge.adding([swift_path / "docs"], project="p", cancel=cancel):
                if isinstance(event, FileResult) and not told:
                    cancel.set()
                    told = time.monotonic()
        assert time.monotonic() - told < 1.0
        kept = len(forge.documents(project="p"))
        assert 0 < kept < 300
        assert len(list((swift_path / "workspace" / "uploads").glob("*/*/*"))) == kept, "bytes nobody needs"
        assert faults(forge) == []
        assert forge.add(swift_path / "docs", project="p").count(Outcome.READY) == 300 - kept


def test_I17_bytes_stored_ahead_leave_with_a_cancelled_add(swift_path: Path) -> None:
    fill(swift_path / "docs", 300)
    uploads = swift_path / "workspace" / "uploads"
    cancel = Cancel()
    with open_forge(swift_path / "workspace") as forge:

        def stop_soon() -> None:
            while len(list(uploads.glob("*/*/*"))) < 30:
                time.sleep(0.001)
            cancel.set()

        thread = threading.Thread(target=stop_soon)
        thread.start()
        with pytest.raises(Cancelled):
            forge.add(swift_path / "docs", project="p", cancel=cancel)
        thread.join()
        assert len(list(uploads.glob("*/*/*"))) == len(forge.documents(project="p")) < 300
        assert faults(forge) == []


def test_I17_a_caller_who_stops_listening_leaves_nothing_half_done(swift_path: Path) -> None:
    fill(swift_path / "docs", 100)
    with open_forge(swift_path / "workspace", ingest__batch_files=10) as forge:
        events = forge.adding([swift_path / "docs"], project="p")
        while not isinstance(next(events), FileResult):
            pass
        events.close()  # type: ignore[attr-defined]
        kept = len(forge.documents(project="p"))
        assert len(list((swift_path / "workspace" / "uploads").glob("*/*/*"))) == kept < 100
        assert faults(forge) == []
        assert forge.jobs(project="p")[0].state is JobState.FAILED


def test_I17_a_long_quiet_step_keeps_its_job(swift_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One call of an embedder may take longer than a lease: the job is still its worker's."""
    monkeypatch.setattr("ragforge.operate.jobs._LEASE_SECONDS", 0.6)
    monkeypatch.setattr("ragforge.operate.jobs._BEAT_SECONDS", 0.1)
    fill(swift_path / "docs", 4)
    (swift_path / "other.md").write_text("# Other\n\nA file of another process.\n")
    embedder = WatchedEmbedder(before=lambda: time.sleep(1.5))
    with (
        open_forge(swift_path / "workspace", embedder, ingest__batch_files=2) as forge,
        open_forge(swift_path / "workspace") as other,
    ):
        results: list[int] = []
        thread = threading.Thread(
            target=lambda: results.append(forge.add(swift_path / "docs", project="p").count(Outcome.READY))
        )
        thread.start()
        time.sleep(1.2)
        other.add(swift_path / "other.md", project="p")  # takes a job, and clears those whose worker is gone
        thread.join()
        assert results == [4]
        assert {job.state for job in other.jobs(project="p")} == {JobState.DONE}
