"""O5: an acknowledged upload is taken in, or it waits: where its bytes are elsewhere, or a share is not mounted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from ragforge import Ragforge
from ragforge.domain.cancel import Cancel
from ragforge.domain.library import Finding, Job, JobState
from ragforge.errors import StoreError, Unreachable
from ragforge.ingest.walk import Found
from ragforge.operate.jobs import Bell
from ragforge.settings import load
from ragforge.testing.postgres import TemporaryPostgres
from tests.forge import faults, fill, open_forge, prose
from tests.serving import serving


@pytest.fixture
def database(postgres: TemporaryPostgres) -> Iterator[str]:
    url = postgres.create()
    yield url
    postgres.drop(url)


@pytest.fixture
def share(tmp_path: Path) -> Path:
    (tmp_path / "share").mkdir()
    return tmp_path / "share"


def opened(workspace: Path, **settings: object) -> Ragforge:
    given = {name: str(value) for name, value in settings.items()}
    return open_forge(workspace, embed__model="hashing", server__uploads=0, **given)


@contextmanager
def working(forge: Ragforge) -> Iterator[None]:
    worker = forge.worker(1)
    worker.start()
    try:
        yield
    finally:
        worker.stop()


def eventually(what: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragforge.operate.jobs._WAIT_SECONDS", 0.1)
    monkeypatch.setattr("ragforge.operate.ready._BELIEVED_SECONDS", 0.0)


def sent(forge: Ragforge, *names: str) -> list[Job]:
    """What was acknowledged; each name gives its text."""
    path, jobs = forge.workspace.parent / "sent.md", []
    for name in names:
        path.write_text(prose(sum(name.encode())))
        jobs.append(forge.upload(path, name=name, project="p"))
    return jobs


def names(forge: Ragforge) -> set[str]:
    return {document.name for document in forge.documents(project="p")}


def bytes_of(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*")} - {"lock"}


def waits(forge: Ragforge, job: Job, for_: str) -> Job:
    """It was tried, and goes on waiting as if it had not been."""
    eventually(lambda: for_ in forge.job(job.id).error)
    eventually(lambda: forge.job(job.id).state is JobState.QUEUED)
    now = forge.job(job.id)
    assert now.hint and now.attempts <= 1
    return now


def is_done(forge: Ragforge, *jobs: Job) -> bool:
    return all(forge.job(job.id).state is JobState.DONE for job in jobs)


# -- bytes that are elsewhere


def test_what_waited_in_a_workspace_before_it_moved_is_its_machines(tmp_path: Path, database: str) -> None:
    with opened(tmp_path / "a") as a:
        (job,) = sent(a, "first.md")
    *_, _ = Ragforge.migrating(database, load(tmp_path / "a", flags={"the test": {"embed.model": "hashing"}}))
    with opened(tmp_path / "b", store__database_url=database) as b, working(b):
        told = waits(b, job, for_=str(tmp_path / "b" / "inbox"))
        assert "ragforge worker" in told.hint and names(b) == set()
    with opened(tmp_path / "a", store__database_url=database) as a, working(a):
        assert bytes_of(tmp_path / "a" / "inbox") == {job.payload["inbox"]}
        eventually(lambda: is_done(a, job))
        assert names(a) == {"first.md"} and bytes_of(tmp_path / "a" / "inbox") == set()


def test_what_waited_in_a_workspace_is_taken_in_once_a_share_is_named(tmp_path: Path, share: Path) -> None:
    with opened(tmp_path / "a") as a:
        jobs = sent(a, "first.md", "second.md")
    with opened(tmp_path / "a", store__blobs=share) as a:
        assert {path.name for path in a.workspace.glob("inbox/*")} >= {job.payload["inbox"] for job in jobs}
        a.backup(tmp_path / "backup.zip")
        with working(a):
            eventually(lambda: is_done(a, *jobs))
        assert names(a) == {"first.md", "second.md"} and faults(a) == []
        assert bytes_of(tmp_path / "a" / "inbox") == bytes_of(share / "inbox") == set()


def test_what_a_machine_received_for_itself_is_brought_to_the_share_when_one_is_named(
    tmp_path: Path, share: Path, database: str
) -> None:
    with opened(tmp_path / "a", store__database_url=database) as a:
        (job,) = sent(a, "first.md")
    with opened(tmp_path / "b", store__database_url=database, store__blobs=share) as b, working(b):
        told = waits(b, job, for_=str(share / "inbox"))
        assert str(job.payload["machine"]) in told.error
        with opened(tmp_path / "a", store__database_url=database, store__blobs=share) as a:
            a.inbox()  # as a server opens it that takes nothing in itself
            eventually(lambda: is_done(b, job))
    assert bytes_of(tmp_path / "a" / "inbox") == bytes_of(share / "inbox") == set()


def test_a_workspace_that_is_its_own_share_keeps_what_waits(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as a:
        (job,) = sent(a, "first.md")
    with opened(tmp_path / "a", store__blobs=tmp_path / "a") as a, working(a):
        eventually(lambda: is_done(a, job))
        assert names(a) == {"first.md"}


def test_what_is_missing_holds_up_nobody_else(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as a:
        first, lost, last = sent(a, "first.md", "lost.md", "last.md")
        path = a.workspace / "inbox" / lost.payload["inbox"]
        path.rename(tmp_path / "aside")
        with working(a):
            eventually(lambda: is_done(a, first, last))
            waits(a, lost, for_="they are not there")
            assert names(a) == {"first.md", "last.md"}
            (tmp_path / "aside").rename(path)
            eventually(lambda: is_done(a, lost))
        assert "lost.md" in names(a)


def test_bytes_that_cannot_be_read_just_now_are_waited_for(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as a:
        first, unreadable = sent(a, "first.md", "unreadable.md")
        path = a.workspace / "inbox" / unreadable.payload["inbox"]
        path.rename(tmp_path / "aside")
        path.mkdir()  # as a file that gives an error, whoever asks
        with working(a):
            eventually(lambda: is_done(a, first))
            waits(a, unreadable, for_="cannot be read")
            path.rmdir()
            (tmp_path / "aside").rename(path)
            eventually(lambda: is_done(a, unreadable))


def test_what_was_published_before_its_worker_was_killed_ends_well(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as a:
        (job,) = sent(a, "first.md")
        path = a.workspace / "inbox" / job.payload["inbox"]
        info = path.stat()
        found = Found(str(path), info.st_size, info.st_mtime_ns, "first.md")
        list(a.taking_in([found], project="p", labels=None, cancel=Cancel()))
        path.unlink()
        with working(a):
            eventually(lambda: is_done(a, job))
        (told,) = a.job(job.id).result
        assert told["outcome"] == "unchanged" and told["document"] == a.document("first.md", project="p").id


def test_another_catalog_sweeps_nothing_of_what_waits(tmp_path: Path, database: str) -> None:
    """A setting names an empty database by mistake, and is put right."""
    with opened(tmp_path / "a") as a:
        (job,) = sent(a, "first.md")
    with opened(tmp_path / "a", store__database_url=database) as other:
        other.inbox()
        assert bytes_of(tmp_path / "a" / "inbox") == {job.payload["inbox"]}
    with opened(tmp_path / "a") as a, working(a):
        eventually(lambda: is_done(a, job))


def test_bytes_stay_where_the_catalog_went_away_before_it_said_that_it_has_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise Unreachable("the catalog does not answer")

    with opened(tmp_path / "a") as a:
        with monkeypatch.context() as patched, pytest.raises(Unreachable):
            patched.setattr(Bell, "ring", away)
            sent(a, "first.md")
        with monkeypatch.context() as patched, serving(a) as url:
            patched.setattr(Bell, "ring", away)
            answer = httpx.post(f"{url}/v1/projects/p/files", params={"name": "second.md"}, content=prose(2))
            assert answer.status_code == 503
        with working(a):
            eventually(lambda: names(a) == {"first.md", "second.md"})
        assert {job.state for job in a.jobs()} == {JobState.DONE}


# -- a share that is not mounted


@contextmanager
def unmounted(share: Path) -> Iterator[None]:
    """What is left of a share then: the empty folder on which it is mounted."""
    aside = share.with_name("mounted elsewhere")
    share.rename(aside)
    share.mkdir()
    try:
        yield
        assert list(share.rglob("*")) == [], "nothing was written beside the share"
    finally:
        share.rmdir()
        aside.rename(share)


def stored_files(findings: list[Finding]) -> Finding:
    return next(each for each in findings if each.subject == "stored files")


def test_a_server_whose_share_is_unmounted_says_so_and_loses_nothing(tmp_path: Path, share: Path) -> None:
    with opened(tmp_path / "a", store__blobs=share) as a, serving(a) as url, httpx.Client(base_url=url) as client:
        a.add(fill(tmp_path / "docs", 2), project="p")
        (job,) = sent(a, "first.md")
        assert not stored_files(a.ready()).warning and stored_files(a.doctor()).ok
        with unmounted(share):
            (told,) = [each for each in a.ready() if each.subject == "stored files"]
            assert told.ok and told.warning and "uploads are refused" in told.detail
            assert client.get("/readyz").json()["parts"]["stored files"]["warning"]
            for looked in (stored_files(a.doctor()), stored_files(a.deployment())):
                assert not looked.ok and "not mounted" in looked.detail and "mount it" in looked.hint
            answer = client.post("/v1/projects/p/files", params={"name": "second.md"}, content=prose(2))
            assert answer.status_code == 503 and "not mounted" in answer.json()["error"]["message"]
            with pytest.raises(Unreachable, match="not mounted"):
                a.add(fill(tmp_path / "more", 3), project="p")
            with working(a):
                waits(a, job, for_="not mounted")
            (proof,) = a.removing(["file0000.md"], project="p")
            assert not proof.erased and "not mounted" in proof.pending[0]
            assert a.search("Page 1", project="p").passages[0].name == "file0001.md"
        with working(a):
            eventually(lambda: is_done(a, job))
        assert names(a) == {"file0001.md", "first.md"}


def test_a_server_begins_beside_a_share_that_is_not_mounted(tmp_path: Path, share: Path) -> None:
    with opened(tmp_path / "a", store__blobs=share) as a:
        (job,) = sent(a, "first.md")
    with unmounted(share), opened(tmp_path / "a", store__blobs=share) as a, working(a):
        assert stored_files(a.ready()).warning
        with pytest.raises(StoreError, match="not mounted"):
            sent(a, "second.md")
        waits(a, job, for_="not mounted")
    with opened(tmp_path / "a", store__blobs=share) as a, working(a):
        eventually(lambda: is_done(a, job))
        assert names(a) == {"first.md"}
