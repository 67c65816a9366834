"""Workers: what is asked for is done once, in order, in the scope of who asked; and never lost."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.build import utc_now
from ragforge.domain.access import Clearance, Role
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.library import Job, JobState, Labels, Outcome, OwnProgress, Progress
from ragforge.errors import Conflict, DiskFull, IndexLost, NotAllowed, NotFound, ProviderError
from ragforge.operate import access, jobs
from ragforge.operate import worker as operate_worker
from ragforge.operate.jobs import JobRunner, may_live, worker_name
from tests.forge import SMALL, WatchedEmbedder, faults, open_forge, prose, set_aside, text_of


@pytest.fixture
def embedder() -> WatchedEmbedder:
    return WatchedEmbedder()


@pytest.fixture
def forge(swift_path: Path, embedder: WatchedEmbedder, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ragforge]:
    monkeypatch.setattr(jobs, "_BEAT_SECONDS", 0.02)
    monkeypatch.setattr(jobs, "_WAIT_SECONDS", 0.05)
    with open_forge(swift_path / "workspace", embedder) as opened:
        yield opened


@contextmanager
def working(forge: Ragforge, uploads: int = 2) -> Iterator[None]:
    worker = forge.worker(uploads)
    worker.start()
    try:
        yield
    finally:
        worker.stop()


def sent(forge: Ragforge, name: str, text: str, **how: object) -> Job:
    path = forge.workspace.parent / f"{os.urandom(4).hex()}.txt"
    path.write_text(text)
    return forge.upload(path, name=name, project="p", **how)  # type: ignore[arg-type]


def ended(forge: Ragforge, *waiting: Job, seconds: float = 10) -> list[Job]:
    deadline = time.monotonic() + seconds
    found = list(waiting)
    while not all(job.ended for job in found):
        assert time.monotonic() < deadline, found
        time.sleep(0.01)
        found = [forge.job(job.id) for job in waiting]
    return found


def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def inbox_of(forge: Ragforge) -> set[str]:
    return {path.name for path in (forge.workspace / "inbox").iterdir()} - {"lock"}


def test_an_upload_becomes_a_document_and_leaves_the_inbox(forge: Ragforge) -> None:
    job = sent(forge, "../secret/plan.md", prose(1), labels=Labels("memo", ("x",), Clearance.PUBLIC))
    assert (job.state, len(inbox_of(forge))) == (JobState.QUEUED, 1)
    with working(forge):
        (done,) = ended(forge, job)
        until(lambda: not inbox_of(forge))
    (result,) = done.result
    assert (done.state, result["outcome"], result["path"]) == (JobState.DONE, "ready", "plan.md")
    (document,) = forge.documents(project="p")
    assert (document.id, document.name, document.sources[0].key) == (result["document"], "plan.md", "upload:plan.md")
    assert document.labels == Labels("memo", ("x",), Clearance.PUBLIC)
    assert faults(forge) == []


def test_the_same_name_again_replaces_in_the_order_in_which_it_was_sent(forge: Ragforge) -> None:
    waiting = [sent(forge, "plan.md", prose(seed)) for seed in range(6)]
    with working(forge, 3):
        results = [job.result[0] for job in ended(forge, *waiting)]
    assert [result["replaced"] for result in results] == [False] + [True] * 5
    assert "Page 5" in text_of(forge, "plan.md") and len(forge.documents(project="p")) == 1
    assert faults(forge) == []


def test_identical_uploads_at_once_are_one_document_embedded_once(forge: Ragforge, embedder: WatchedEmbedder) -> None:
    text = prose(7)
    waiting: list[Job] = []
    threads = [threading.Thread(target=lambda: waiting.append(sent(forge, "same.md", text))) for _ in range(16)]
    with working(forge, 3):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        outcomes = [job.result[0]["outcome"] for job in ended(forge, *waiting)]
    assert sorted(set(outcomes)) == ["ready", "unchanged"] and outcomes.count("ready") == 1
    (document,) = forge.documents(project="p")
    assert len(embedder.texts) == document.chunks
    assert faults(forge) == []


def test_each_of_those_taken_in_together_tells_how_far_its_own_file_is(
    forge: Ragforge, embedder: WatchedEmbedder
) -> None:
    texts = {"a.md": prose(1), "large.md": prose(2, 600), "copy.md": prose(1), "b.md": prose(3), "empty.md": ""}
    waiting = [sent(forge, name, text) for name, text in texts.items()]
    runner = JobRunner(forge._parts.catalog)
    first = runner.claim(access.owner(), "me", ["upload"])
    assert first is not None
    claimed = [first, *forge._alike(first)]
    assert [job.id for job in claimed] == [job.id for job in waiting]
    told: dict[str, list[Progress]] = {job.id: [] for job in claimed}
    for event in forge.perform(claimed, Cancel()):
        if isinstance(event, OwnProgress):
            told[event.of].append(event.progress)
    steps = {job.payload["name"]: told[job.id] for job in claimed}
    for seen in steps.values():
        places = [(each.stage == "embedding", each.done / (each.total or 1)) for each in seen]
        assert places == sorted(set(places)) and places[:2] == [(False, 0.0), (False, 1.0)]
    leaves = {document.name: document.chunks for document in forge.documents(project="p")}
    for name in ("a.md", "large.md", "b.md"):
        assert {each.total for each in steps[name][2:]} == {leaves[name]}, "its own leaves, and not those of the others"
        assert steps[name][2].done == 0 and steps[name][-1].done == leaves[name]
    assert leaves["large.md"] > 10 * leaves["a.md"] and len(steps["large.md"]) > len(steps["a.md"])
    assert [each.stage for each in steps["copy.md"]] == [each.stage for each in steps["empty.md"]] == ["reading"] * 2
    assert {job.state for job in ended(forge, *waiting)} == {JobState.DONE}


def test_others_see_the_large_file_go_on_while_the_small_one_waits(forge: Ragforge, embedder: WatchedEmbedder) -> None:
    embedder.before = lambda: time.sleep(0.05)
    small, large = sent(forge, "small.md", prose(1)), sent(forge, "large.md", prose(2, 600))
    seen: dict[str, list[Progress]] = {small.id: [], large.id: []}
    with working(forge, 1):
        found = [small, large]
        while not all(job.ended for job in found):
            found = [forge.job(id) for id in seen]
            for job in found:
                if job.progress is not None and job.progress not in seen[job.id]:
                    seen[job.id].append(job.progress)
            time.sleep(0.005)
    totals = {id: {each.total for each in told if each.stage == "embedding"} for id, told in seen.items()}
    assert len(totals[large.id]) == 1 and totals[large.id].isdisjoint(totals[small.id])
    for told in seen.values():
        places = [(each.stage == "embedding", each.done / (each.total or 1)) for each in told]
        assert places == sorted(places)
    assert len(seen[large.id]) > 2


def test_many_small_ones_are_taken_in_together(forge: Ragforge, embedder: WatchedEmbedder) -> None:
    waiting = [sent(forge, f"{number}.md", prose(number, 3)) for number in range(40)]
    with working(forge, 1):
        assert {job.result[0]["outcome"] for job in ended(forge, *waiting)} == {"ready"}
    assert embedder.calls < 20
    assert len(forge.documents(project="p")) == 40 and faults(forge) == []


def test_indexes_follow_also_what_took_longer_than_the_others(forge: Ragforge, embedder: WatchedEmbedder) -> None:
    """One thread brings the indexes up to date while another still works for the same project."""
    slow, go_on = threading.Event(), threading.Event()

    def first_waits() -> None:
        if not slow.is_set():
            slow.set()
            go_on.wait(10)

    def behind() -> int:
        with forge._parts.catalog.read() as c:
            now = c.passages.moment(access.owner(), forge.project("p").id)
        try:
            reader = forge._parts.indexes(now).keywords.pin()
        except IndexLost:  # not made yet
            return now.seq
        try:
            return now.seq - reader.watermark
        finally:
            reader.release()

    embedder.before = first_waits
    with working(forge, 2):
        long = sent(forge, "long.md", prose(1))
        assert slow.wait(5)
        ended(forge, sent(forge, "short.md", prose(2)))
        until(lambda: behind() == 0)
        go_on.set()
        ended(forge, long)
        until(lambda: behind() == 0, 5)


def test_a_file_that_cannot_be_read_is_a_job_that_is_done(forge: Ragforge) -> None:
    jobs = [sent(forge, "broken.pdf", "%PDF-1.7 nothing"), sent(forge, "good.md", prose(1))]
    with working(forge):
        broken, good = ended(forge, *jobs)
    assert (broken.state, broken.result[0]["outcome"]) == (JobState.DONE, str(Outcome.FAILED))
    assert broken.result[0]["hint"]
    assert good.result[0]["outcome"] == "ready"


def test_work_is_done_in_the_scope_of_who_asked(forge: Ragforge) -> None:
    scope = replace(
        access.owner(), principal="key:1", owner="1", clearance=Clearance.PUBLIC, oversees=False, projects=None
    )
    guest = forge.acting(replace(scope, projects=frozenset({forge.project("p").id})))
    job = sent(guest, "mine.md", prose(1))
    hidden = sent(forge, "theirs.md", prose(2))
    with working(forge):
        (done,) = ended(guest, job)
        ended(forge, hidden)
    (document,) = guest.documents(project="p")
    assert document.labels.confidentiality is Clearance.PUBLIC, "else its sender could not see it"
    assert [each.id for each in guest.jobs()] == [done.id]
    with pytest.raises(NotFound):
        guest.job(hidden.id)
    with pytest.raises(NotAllowed):
        sent(guest, "above.md", prose(3), labels=Labels(confidentiality=Clearance.INTERNAL))
    assert not inbox_of(forge)


def test_the_same_key_is_the_same_job_also_after_its_end(forge: Ragforge) -> None:
    first, again = (sent(forge, "a.md", prose(1), key="k") for _ in range(2))
    assert first.id == again.id and len(inbox_of(forge)) == 1
    with working(forge):
        ended(forge, first)
    assert sent(forge, "a.md", prose(1), key="k").state is JobState.DONE
    for name, text in (("b.md", prose(1)), ("a.md", prose(2))):
        with pytest.raises(Conflict):
            sent(forge, name, text, key="k")
    assert forge.enqueue("rebuild", {}, project="p", key="other").kind == "rebuild"
    with pytest.raises(Conflict):
        forge.enqueue("rebuild", {}, project="p", key="k")
    assert not inbox_of(forge)


def test_what_breaks_three_times_is_set_aside_and_stops_nobody(
    forge: Ragforge, embedder: WatchedEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ragforge.adapters.catalog import jobs as stored

    monkeypatch.setattr(stored, "_PAUSE_MILLISECONDS", 10)

    def before() -> None:
        raise RuntimeError("it broke")

    embedder.before = before
    bad = sent(forge, "bad.md", prose(1))
    with working(forge):
        (broken,) = ended(forge, bad)
        embedder.before = lambda: None
        (fine,) = ended(forge, sent(forge, "fine.md", prose(2)))
    assert (broken.state, broken.attempts, broken.error) == (JobState.QUARANTINED, 3, "it broke")
    assert fine.state is JobState.DONE
    assert inbox_of(forge) == {bad.payload["inbox"]}, "it was accepted, so it is kept"


def test_one_that_may_not_be_done_fails_at_once_with_the_next_step(forge: Ragforge, embedder: WatchedEmbedder) -> None:
    def before() -> None:
        raise ProviderError("no such model", hint="choose another")

    embedder.before = before
    job = sent(forge, "a.md", prose(1))
    with working(forge):
        (failed,) = ended(forge, job)
        until(lambda: not inbox_of(forge))
    assert (failed.state, failed.error, failed.hint) == (JobState.FAILED, "no such model", "choose another")


def test_a_full_disk_is_waited_out_without_a_strike(forge: Ragforge, embedder: WatchedEmbedder) -> None:
    tries = iter(range(5))

    def before() -> None:
        if next(tries, None) is not None:
            raise DiskFull("the disk is full")

    embedder.before = before
    with working(forge):
        (done,) = ended(forge, sent(forge, "a.md", prose(1)))
    assert (done.state, done.attempts) == (JobState.DONE, 1)


def test_a_stop_is_quick_and_what_was_begun_waits_as_before(forge: Ragforge, embedder: WatchedEmbedder) -> None:
    stuck, go_on = threading.Event(), threading.Event()

    def before() -> None:
        stuck.set()
        go_on.wait(20)

    embedder.before = before
    job = sent(forge, "a.md", prose(1))
    worker = forge.worker()
    worker.start()
    assert worker.alive and stuck.wait(5)
    began = time.monotonic()
    worker.stop()
    assert time.monotonic() - began < 2
    left = forge.job(job.id)
    assert (left.state, left.attempts, left.owner) == (JobState.QUEUED, 0, None)
    embedder.before = lambda: None
    go_on.set()
    with working(forge):
        (done,) = ended(forge, job)
    assert done.state is JobState.DONE and len(forge.documents(project="p")) == 1


def test_a_cancelled_job_stops_and_its_bytes_are_gone(forge: Ragforge, embedder: WatchedEmbedder) -> None:
    waiting = sent(forge, "waiting.md", prose(1))
    assert forge.cancel_job(waiting.id).state is JobState.CANCELLED and not inbox_of(forge)
    begun, go_on = threading.Event(), threading.Event()

    def before() -> None:
        begun.set()
        go_on.wait(10)

    embedder.before = before
    running = sent(forge, "running.md", prose(2))
    with working(forge):
        assert begun.wait(5)
        assert forge.cancel_job(running.id).cancel_requested
        time.sleep(0.2)
        go_on.set()
        (stopped,) = ended(forge, running)
        until(lambda: not inbox_of(forge))
    assert stopped.state in (JobState.CANCELLED, JobState.DONE)


def test_of_several_taken_in_together_one_can_be_cancelled(forge: Ragforge, embedder: WatchedEmbedder) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def before() -> None:
        begun.set()
        go_on.wait(10)
        raise Cancelled  # what a real model does when it is told to stop

    embedder.before = before
    waiting = [sent(forge, f"{number}.md", prose(number)) for number in range(5)]
    with working(forge, 1):
        assert begun.wait(5)
        forge.cancel_job(waiting[2].id)
        embedder.before = lambda: None
        time.sleep(0.2)
        go_on.set()
        states = [job.state for job in ended(forge, *waiting)]
        until(lambda: not inbox_of(forge))
    assert states == [JobState.DONE] * 2 + [JobState.CANCELLED] + [JobState.DONE] * 2
    assert [job.attempts for job in map(forge.job, (job.id for job in waiting))] == [1, 1, 1, 1, 1]
    assert len(forge.documents(project="p")) == 4 and faults(forge) == []


def guest_of(forge: Ragforge, role: Role = Role.EDITOR, **how: object) -> tuple[str, Ragforge]:
    """The id of a new key, and the workspace as whoever has it reaches it."""
    key, secret = forge.access().create("guest", role, **how)  # type: ignore[arg-type]
    return key.id, forge.acting(forge.access().resolve(secret).scope)


def test_work_that_runs_for_a_revoked_key_stops_and_says_why(forge: Ragforge, embedder: WatchedEmbedder) -> None:
    begun = threading.Event()
    key, guest = guest_of(forge, Role.ADMIN, clearance=Clearance.RESTRICTED)
    sent(forge, "a.md", prose(1))
    with working(forge, 1):
        ended(forge, *forge.jobs())

        def before() -> None:
            begun.set()
            until(lambda: forge.jobs()[0].cancel_requested)
            raise Cancelled  # what a real model does when it is told to stop

        embedder.before = before
        strategy = asdict(replace(SMALL, leaf_max=50))
        running = guest.enqueue("reindex", {"strategy": strategy, "embedder": None}, project="p")
        assert begun.wait(5)
        forge.access().revoke(key)
        (told,) = ended(forge, running)
    assert (told.state, told.error) == (JobState.CANCELLED, "the key that asked for it was revoked")


def test_files_that_were_accepted_are_taken_in_also_if_their_key_is_revoked(forge: Ragforge) -> None:
    key, guest = guest_of(forge)
    before = sent(guest, "before.md", prose(1))
    forge.access().revoke(key)
    time.sleep(0.002)
    after = sent(guest, "after.md", prose(2))
    with working(forge, 1):
        told = ended(forge, before, after)
        until(lambda: not inbox_of(forge))
    assert [job.state for job in told] == [JobState.DONE, JobState.CANCELLED]
    assert told[1].error == "the key that asked for it was revoked"
    assert [document.name for document in forge.documents(project="p")] == ["before.md"]


@pytest.mark.parametrize("kind", ["reindex", "evaluate", "make"])
def test_work_that_waits_for_a_revoked_key_is_cancelled(forge: Ragforge, kind: str) -> None:
    key, guest = guest_of(forge, clearance=Clearance.RESTRICTED)
    job = guest.enqueue(kind, {}, project="p")
    forge.access().revoke(key)
    told = forge.job(job.id)
    assert (told.state, told.error) == (JobState.CANCELLED, "the key that asked for it was revoked")


def test_what_an_expired_key_asked_for_in_its_time_is_still_done(forge: Ragforge) -> None:
    soon = utc_now() + timedelta(seconds=0.1)
    _, guest = guest_of(forge, expires_at=soon)
    job = sent(guest, "kept.md", prose(1))
    until(lambda: utc_now() > soon)
    with working(forge):
        assert ended(forge, job)[0].state is JobState.DONE


_NAMED = """
import sys
from ragforge.operate.jobs import worker_name
print(worker_name(), flush=True)
sys.stdin.read()
"""


@contextmanager
def another_process(*around: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that lives until its input ends, and the name of a worker in it."""
    command = [*around, sys.executable, "-c", _NAMED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()


def claim(forge: Ragforge, worker: str) -> None:
    with forge._parts.catalog.write() as c:
        assert c.jobs.claim(forge._scope, worker, ["upload"], 3600) is not None


def test_what_a_dead_process_held_is_free_at_once(forge: Ragforge) -> None:
    job = sent(forge, "a.md", prose(1))
    assert may_live(worker_name())
    with another_process() as (process, name):
        assert may_live(name)
        process.kill()
        until(lambda: not may_live(name))  # ended, but nobody has waited for it
    assert not may_live(name)
    host, place, process_, word = worker_name().split("/")
    pid, _, _ = process_.partition(".")
    assert not may_live(f"{host}/{place}/{pid}.1/{word}"), "the number was given to another process"
    claim(forge, name)
    with working(forge):
        (done,) = ended(forge, job)
    assert (done.state, done.attempts) == (JobState.DONE, 2)


def test_what_a_process_held_that_dies_while_others_work_is_free_soon(forge: Ragforge) -> None:
    job = sent(forge, "a.md", prose(1))
    with another_process() as (process, name):
        claim(forge, name)
        with working(forge, 1):
            ended(forge, sent(forge, "b.md", prose(2)))
            assert (forge.job(job.id).state, forge.job(job.id).owner) == (JobState.RUNNING, name)
            process.kill()
            (done,) = ended(forge, job, seconds=20)
    assert (done.state, done.attempts) == (JobState.DONE, 2)


def test_nobody_is_held_for_dead_who_cannot_be_looked_at(forge: Ragforge) -> None:
    """Another machine may have the same name, and a process there the number of one that is no more here."""
    with another_process() as (_, dead):
        pass
    assert not may_live(dead)
    host, place, process, word = dead.split("/")
    boot, _, numbers = place.rpartition(":")
    for elsewhere in (f"{boot[::-1]}:{numbers}", f"{boot}:1", ""):
        assert may_live(f"{host}/{elsewhere}/{process}/{word}")
    for unheard in ("", "unheard of", "killed", f"{host}/{process}/{word}", f"{host}/{place}/x/{word}"):
        assert may_live(unheard)


@pytest.mark.parametrize("sees", [["--mount-proc"], []])
def test_a_start_takes_nothing_from_a_container_of_the_same_host_name(forge: Ragforge, sees: list[str]) -> None:
    """Processes have numbers of their own there; `sees`: it has a /proc of its own, too, or that of all."""
    own = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", *sees]
    if shutil.which("unshare") is None or subprocess.run([*own, "true"], capture_output=True).returncode:
        pytest.skip("no namespaces here")
    job = sent(forge, "a.md", prose(1))
    with another_process(*own) as (_, name):
        host, place, *_ = name.split("/")
        assert host == socket.gethostname() and bool(place) is bool(sees)
        claim(forge, name)
        with working(forge, 1):
            ended(forge, sent(forge, "b.md", prose(2)))
        assert (forge.job(job.id).state, forge.job(job.id).owner) == (JobState.RUNNING, name)
    assert may_live(name), "nobody here can know"


def test_a_projects_waiting_uploads_go_with_it(forge: Ragforge) -> None:
    sent(forge, "a.md", prose(1))
    forge.remove_project("p")
    assert not inbox_of(forge) and forge.jobs() == []


def test_other_kinds_of_work(forge: Ragforge) -> None:
    with working(forge):
        ended(forge, sent(forge, "a.md", prose(1)))
        rebuilt, changed, none = ended(
            forge,
            forge.enqueue("rebuild", {}, project="p"),
            forge.enqueue("reindex", {"strategy": {"name": "chars"}, "embedder": None}, project="p"),
            forge.enqueue("evaluate", {"questions": "none"}, project="p"),
        )
    assert rebuilt.state is changed.state is JobState.DONE
    assert changed.result == {"project": "p", "generation": 2} and forge.project("p").strategy.name == "chars"
    assert none.state is JobState.FAILED and "none" in none.error
    assert [job.kind for job in forge.jobs(limit=2)] == ["evaluate", "reindex"]
    assert faults(forge) == []


def test_what_was_set_aside_is_taken_up_when_it_is_asked_for_again(forge: Ragforge) -> None:
    text = prose(1)
    job = set_aside(forge, sent(forge, "a.md", text, key="once"))
    assert job.state is JobState.QUARANTINED and "ask for it again" in job.hint
    again = sent(forge, "a.md", text, key="once")
    assert (again.id, again.state, again.attempts, again.error, again.hint) == (job.id, JobState.QUEUED, 0, "", "")
    with working(forge):
        (done,) = ended(forge, again)
        until(lambda: not inbox_of(forge))
    assert done.state is JobState.DONE and len(forge.documents(project="p")) == 1


def test_what_was_set_aside_can_be_let_go(forge: Ragforge) -> None:
    job = set_aside(forge, sent(forge, "a.md", prose(1), key="once"))
    assert len(inbox_of(forge)) == 1
    assert forge.cancel_job(job.id).state is JobState.CANCELLED
    assert not inbox_of(forge)


def test_what_a_late_worker_holds_no_more_it_does_not_publish(
    forge: Ragforge, embedder: WatchedEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process stood still until its lease was over; meanwhile another did its job, and a newer one."""
    monkeypatch.setattr(jobs, "_BEAT_SECONDS", 60.0)
    stalled, go = threading.Event(), threading.Event()

    def stall() -> None:
        embedder.before = lambda: None
        stalled.set()
        go.wait(10)

    embedder.before = stall
    old, late = sent(forge, "plan.md", prose(1)), forge.worker(1)
    late.start()
    assert stalled.wait(10)
    new = sent(forge, "plan.md", prose(2))
    with forge._parts.catalog.write() as c:
        assert c.jobs.free(access.owner(), lambda worker: False) == 1
    with working(forge, 1):
        assert [job.state for job in ended(forge, old, new)] == [JobState.DONE] * 2
    go.set()
    until(lambda: not late._held)
    late.stop()
    assert "Page 2" in text_of(forge, "plan.md")
    assert faults(forge) == []


def test_the_same_trouble_is_told_once_until_it_passes(
    forge: Ragforge, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(operate_worker, "_REST_SECONDS", 0.01)
    tries: list[str] = []

    def full(self: JobRunner, scope: object, worker: str, kinds: tuple[str, ...]) -> Job | None:
        if "upload" not in kinds:
            return None
        tries.append(worker)
        raise DiskFull("no room")

    def told() -> list[str]:
        return [record.message for record in caplog.records if record.name == "ragforge.worker"]

    with caplog.at_level("INFO", "ragforge.worker"), working(forge, 1):
        for turn in (1, 2):
            with monkeypatch.context() as patched:
                patched.setattr(JobRunner, "claim", full)
                until(lambda: len(tries) > 20)
            ended(forge, sent(forge, "a.md", prose(turn)))
            until(lambda: told().count("a worker goes on") == turn)  # noqa: B023 - asked at once
            tries.clear()
    assert told() == ["a worker could not go on just now", "a worker goes on"] * 2
