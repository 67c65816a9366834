"""O5: original files and waiting uploads where all machines reach them: in S3, or in a folder that they share."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragforge import Ragforge
from ragforge.adapters.blobs.storage import storage
from ragforge.client import RemoteForge
from ragforge.domain.archives import RestoreReport
from ragforge.domain.library import JobState, Removal
from ragforge.errors import StoreError, Unreachable, UserError
from ragforge.ports import BlobStore
from ragforge.settings import load
from ragforge.testing.hashing import HashingEmbedder
from ragforge.testing.postgres import TemporaryPostgres
from ragforge.testing.s3 import TemporaryS3
from tests.bad_servers import nobody, silence
from tests.forge import faults, fill, open_forge, prose
from tests.serving import serving

FILES = "/v1/projects/p/files"


@dataclass(frozen=True)
class Shared:
    """What all machines reach: a database, and a place for files."""

    database: str
    blobs: str
    blobs_url: str
    folder: Path

    @property
    def settings(self) -> dict[str, object]:
        return {
            "store__database_url": self.database,
            "store__blobs": self.blobs,
            "store__blobs_url": self.blobs_url,
            "embed__model": "hashing",
            "server__uploads": 0,
        }

    def machine(self, name: str, **settings: object) -> Ragforge:
        return open_forge(self.folder / name, **(self.settings | settings))

    def stored(self) -> BlobStore:
        return storage(self.blobs, self.blobs_url, self.folder / "nowhere", lambda: datetime.now(UTC)).blobs


@pytest.fixture(params=["s3", "folder"])
def shared(
    request: pytest.FixtureRequest, postgres: TemporaryPostgres, s3: TemporaryS3, swift_path: Path
) -> Iterator[Shared]:
    database, place = postgres.create(), swift_path / "share"
    place.mkdir()
    yield Shared(database, s3.create() if request.param == "s3" else str(place), s3.url, swift_path)
    postgres.drop(database)


@pytest.fixture
def in_s3(postgres: TemporaryPostgres, s3: TemporaryS3, swift_path: Path) -> Iterator[Shared]:
    database = postgres.create()
    yield Shared(database, s3.create(), s3.url, swift_path)
    postgres.drop(database)


@contextmanager
def working(forge: Ragforge) -> Iterator[None]:
    worker = forge.worker(2)
    worker.start()
    try:
        yield
    finally:
        worker.stop()


def eventually(what: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def sent(client: httpx.Client, **files: str) -> list[dict[str, Any]]:
    """The jobs of what was sent and acknowledged."""
    answer = client.post(FILES, files=[("file", (f"{name}.md", text)) for name, text in files.items()])
    assert answer.status_code == 202, answer.text
    told = answer.json()
    return list(told.get("items", [told]))


def waiting_in(forge: Ragforge) -> set[str]:
    """Files in a machine's own folder of uploads."""
    return {path.name for path in (forge.workspace / "inbox").glob("*")} - {"lock"}


def test_one_machine_is_sent_a_file_another_takes_it_in_and_both_have_it(shared: Shared) -> None:
    with (
        shared.machine("a") as a,
        shared.machine("b") as b,
        serving(a) as url,
        httpx.Client(base_url=url, timeout=30) as client,
    ):
        jobs = sent(client, one=prose(1), two=prose(2), three=prose(3))
        assert {job["state"] for job in jobs} == {"queued"} and a.documents(project="p") == []
        assert waiting_in(a) == set(), "they wait where the other reaches them"
        with working(b):
            eventually(lambda: all(a.job(job["id"]).state is JobState.DONE for job in jobs))
        assert waiting_in(b) == set() and not list(b.workspace.glob("uploads/*/*/*"))
        assert {document.name for document in a.documents(project="p")} == {"one.md", "two.md", "three.md"}
        answer = client.get(f"{FILES}/two.md/content")
        assert (answer.status_code, answer.text) == (200, prose(2))
        assert answer.headers["content-length"] == str(len(prose(2)))
        for forge in (a, b):
            assert forge.search("Page 3", project="p").passages[0].name == "three.md"
        proof = client.delete(f"{FILES}/two.md").json()
        assert (proof["blobs"], proof["remains"], proof["pending"]) == (1, [], [])
        assert client.get(f"{FILES}/two.md/content").status_code == 404
        for forge in (a, b):
            assert "two.md" not in {found.name for found in forge.search("Page 2", project="p").passages}
        assert len(list(shared.stored().names())) == 2
        assert faults(a) == []


def test_files_are_added_backed_up_and_restored_elsewhere(
    shared: Shared, postgres: TemporaryPostgres, s3: TemporaryS3, tmp_path: Path
) -> None:
    files = fill(shared.folder / "docs", 6)
    with shared.machine("a") as a:
        report = a.add(files, project="p")
        assert len(report.files) == 6 and not report.failed and len(list(shared.stored().names())) == 6
        assert not list((a.workspace / "uploads").glob("*/*/*"))
        (shared.folder / "late.md").write_text(prose(99))
        a.upload(shared.folder / "late.md", project="p")
        a.backup(tmp_path / "backup.zip")
        assert faults(a) == []
    elsewhere = tmp_path / "other share"
    elsewhere.mkdir()
    is_s3 = shared.blobs.startswith("s3:")
    beside = Shared(postgres.create(), s3.create() if is_s3 else str(elsewhere), s3.url, tmp_path)
    settings = {name.replace("__", "."): value for name, value in beside.settings.items()}
    *_, told = Ragforge.restoring(tmp_path / "backup.zip", load(tmp_path / "b", flags={"the test": settings}))
    assert isinstance(told, RestoreReport) and (told.files, told.uploads) == (6, 1)
    with beside.machine("b") as b:
        assert set(beside.stored().names()) == set(shared.stored().names())
        with b.content("file0003.md", project="p")[1] as content:
            assert content.read() == files[3].read_bytes()
        with working(b):
            eventually(lambda: len(b.documents(project="p")) == 7)
        assert b.search("Page 99", project="p").passages[0].name == "late.md"
        assert faults(b) == []
    postgres.drop(beside.database)


def test_what_another_machine_is_storing_is_no_stray(shared: Shared) -> None:
    blobs, day = shared.stored(), datetime.now(UTC).date()
    with shared.machine("a") as a:
        keys = [f"owner/{(day - timedelta(days=days)).isoformat()}/{days:032x}" for days in range(4)]
        for key in keys:
            blobs.put_back(key, [b"nobody's, or somebody's who is just publishing"])
        (finding,) = [each for each in a.check(repair=True) if each.subject == "stored files nobody needs"]
        assert finding.ok, "a catalog that knows no file cannot tell whose they are"
        a.add(fill(shared.folder / "docs", 1), project="p")
        (finding,) = [each for each in a.check(repair=True) if each.subject == "stored files nobody needs"]
        assert (finding.detail, finding.repaired) == ("2", True)
        left = set(blobs.names())
        assert left >= set(keys[:2]) and not left & set(keys[2:]) and len(left) == 3
        with a.content("file0000.md", project="p")[1] as content:
            assert content.read()


def removal(forge: Ragforge, name: str) -> Removal:
    (proof,) = forge.removing([name], project="p")
    return proof


def test_a_proof_says_what_the_storage_keeps_and_when_it_does_not_answer(in_s3: Shared, s3: TemporaryS3) -> None:
    s3.client.create_bucket(Bucket="kept", ObjectLockEnabledForBucket=True)
    rule = {"DefaultRetention": {"Mode": "COMPLIANCE", "Days": 1}}
    s3.client.put_object_lock_configuration(
        Bucket="kept", ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule}
    )
    with in_s3.machine("a", store__blobs="s3://kept") as a:
        a.add(fill(in_s3.folder / "docs", 2), project="p")
        proof = removal(a, "file0000.md")
        assert not proof.erased and "s3://kept keeps older versions" in proof.remains[0]
    with in_s3.machine("a", store__blobs="s3://kept", store__blobs_url=nobody()) as a:
        proof = removal(a, "file0001.md")
        assert not proof.erased and "s3://kept does not answer" in proof.pending[0]
        assert a.documents(project="p") == []


def test_an_upload_waits_until_the_storage_is_back(in_s3: Shared) -> None:
    with in_s3.machine("a") as a:
        (in_s3.folder / "a.md").write_text(prose(5))
        job = a.upload(in_s3.folder / "a.md", project="p")
    with in_s3.machine("b", store__blobs_url=nobody()) as b:
        with pytest.raises(Unreachable):
            b.upload(in_s3.folder / "a.md", project="p")
        assert waiting_in(b) == set()
        with working(b):
            eventually(lambda: "does not answer" in b.job(job.id).error)
        assert not b.job(job.id).ended
    with in_s3.machine("b") as b, working(b):
        eventually(lambda: b.job(job.id).state is JobState.DONE)
        assert b.search("Page 5", project="p").passages[0].name == "a.md"


def test_what_is_sent_again_takes_the_place_of_bytes_that_are_missing(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragforge.operate.jobs._WAIT_SECONDS", 0.1)
    with shared.machine("a") as a:
        path = shared.folder / "a.md"
        path.write_text(prose(5))
        job = a.upload(path, project="p", key="k")
        a.inbox().remove(job.payload["inbox"])
        with working(a):
            eventually(lambda: "they are not there" in a.job(job.id).error)
            assert a.upload(path, project="p", key="k").id == job.id
            eventually(lambda: a.job(job.id).state is JobState.DONE)
        assert a.search("Page 5", project="p").passages[0].name == "a.md" and waiting_in(a) == set()


# -- one place, one catalog


def refused(attempt: Callable[[], object]) -> StoreError:
    with pytest.raises(StoreError, match="keeps the files of another catalog") as told:
        attempt()
    assert "store.blobs" in told.value.hint and "ragforge-catalog" in told.value.hint
    return told.value


def test_a_place_belongs_to_one_catalog(shared: Shared, postgres: TemporaryPostgres) -> None:
    files = fill(shared.folder / "docs", 2)
    database = postgres.create()
    with shared.machine("other", store__database_url=database, store__blobs="") as other:
        other.add(files[:1], project="p")
    with shared.machine("a") as a, shared.machine("other", store__database_url=database) as other:
        a.add(files[:1], project="p")
        a.upload(files[1], project="p")
        shared.stored().put_back(f"owner/2026-01-01/{'0' * 32}", [b"what only the first may clear away"])
        stored = set(shared.stored().names())
        refused(lambda: other.add(files[1:], project="p"))
        refused(lambda: other.upload(files[1], project="p"))
        refused(lambda: list(other.check(repair=True)))
        assert waiting_in(other) == set() and len(other.documents(project="p")) == 1
        assert set(shared.stored().names()) == stored
        with shared.machine("b") as b, working(b):  # of the same catalog
            eventually(lambda: len(a.documents(project="p")) == 2)
        assert [each.repaired for each in a.check(repair=True) if not each.ok] == [True]
    postgres.drop(database)


def test_a_place_in_use_that_is_nobodys_yet_becomes_the_first_ones(shared: Shared, s3: TemporaryS3) -> None:
    """As a version left it that marked none."""
    shared.stored().put_back(f"owner/2026-01-01/{'0' * 32}", [b"of that version"])
    with shared.machine("a") as a:
        a.add(fill(shared.folder / "docs", 1), project="p")
    assert len(unmark(shared, s3)) == 16


def test_a_place_without_the_mark_that_was_left_there_is_refused_until_a_person_says_so(
    shared: Shared, s3: TemporaryS3
) -> None:
    files = fill(shared.folder / "docs", 2)
    with shared.machine("a") as a:
        a.add(files[:1], project="p")
    marker = unmark(shared, s3)
    with shared.machine("b") as b:
        with pytest.raises(Unreachable, match="is not mounted, or was emptied") as told:
            b.add(files[1:], project="p")
        assert marker in told.value.hint and len(b.documents(project="p")) == 1
        (found,) = [each for each in b.doctor() if each.subject == "stored files"]
        assert not found.ok and "not mounted" in found.detail and marker in found.hint
        mark(shared, s3, f"{marker}\n")
        assert not b.add(files[1:], project="p").failed and faults(b) == []


def test_another_place_is_claimed_by_naming_it(shared: Shared, s3: TemporaryS3, tmp_path: Path) -> None:
    files = fill(shared.folder / "docs", 2)
    with shared.machine("a") as a:
        a.add(files[:1], project="p")
    with shared.machine("a", store__blobs=str(tmp_path)) as a:
        a.add(files[1:], project="p")
    assert (tmp_path / "ragforge-catalog").read_text() == unmark(shared, s3)


def test_a_backup_is_restored_to_the_place_that_was_lost(
    shared: Shared, s3: TemporaryS3, postgres: TemporaryPostgres, tmp_path: Path
) -> None:
    with shared.machine("a") as a:
        a.add(fill(shared.folder / "docs", 2), project="p")
        a.backup(tmp_path / "backup.zip")
    unmark(shared, s3)
    database = postgres.create()
    flags = {name.replace("__", "."): value for name, value in shared.settings.items()}
    settings = load(tmp_path / "again", flags={"the test": flags | {"store.database_url": database}})
    list(Ragforge.restoring(tmp_path / "backup.zip", settings))
    with open_forge(tmp_path / "again", **(shared.settings | {"store__database_url": database})) as again:
        again.add(fill(tmp_path / "more", 3), project="p")
        assert faults(again) == []
    postgres.drop(database)


def unmark(shared: Shared, s3: TemporaryS3) -> str:
    """Take away the mark; whose it was."""
    if not shared.blobs.startswith("s3:"):
        path = Path(shared.blobs) / "ragforge-catalog"
        told = path.read_text()
        path.unlink()
        return told
    where = _mark_in_bucket(shared)
    answer = s3.client.get_object(**where)["Body"].read().decode()
    s3.client.delete_object(**where)
    return str(answer)


def mark(shared: Shared, s3: TemporaryS3, text: str) -> None:
    """As a person does."""
    if shared.blobs.startswith("s3:"):
        s3.client.put_object(**_mark_in_bucket(shared), Body=text.encode())
    else:
        (Path(shared.blobs) / "ragforge-catalog").write_text(text)


def _mark_in_bucket(shared: Shared) -> dict[str, str]:
    bucket, _, folder = shared.blobs.removeprefix("s3://").partition("/")
    return {"Bucket": bucket, "Key": f"{folder}/ragforge-catalog"}


def test_a_catalog_that_moved_or_was_restored_keeps_its_place(
    shared: Shared, postgres: TemporaryPostgres, s3: TemporaryS3, tmp_path: Path
) -> None:
    files, database = fill(shared.folder / "docs", 3), postgres.create()
    with shared.machine("a", store__database_url="") as a:
        a.add(files[:1], project="p")
    flags = {name.replace("__", "."): value for name, value in shared.settings.items()}
    settings = load(shared.folder / "a", flags={"the test": flags | {"store.database_url": ""}})
    *_, _ = Ragforge.migrating(shared.database, settings)
    with shared.machine("a") as a:
        a.add(files[1:2], project="p")
        a.backup(tmp_path / "backup.zip")
    again = load(tmp_path / "again", flags={"the test": flags | {"store.database_url": database}})
    *_, told = Ragforge.restoring(tmp_path / "backup.zip", again)
    assert isinstance(told, RestoreReport) and told.files == 2
    with shared.machine("again", store__database_url=database) as restored:
        restored.add(files[2:], project="p")
        assert len(restored.documents(project="p")) == 3 and faults(restored) == []
    postgres.drop(database)


def test_a_backup_is_not_restored_to_the_place_of_another_catalog(
    shared: Shared, postgres: TemporaryPostgres, tmp_path: Path
) -> None:
    files, database = fill(shared.folder / "docs", 2), postgres.create()
    with open_forge(tmp_path / "small", embed__model="hashing") as small:
        small.add(files[:1], project="p")
        small.backup(tmp_path / "backup.zip")
    with shared.machine("a") as a:
        a.add(files[1:], project="p")
    stored = set(shared.stored().names())
    flags = {name.replace("__", "."): value for name, value in shared.settings.items()}
    settings = load(tmp_path / "b", flags={"the test": flags | {"store.database_url": database}})
    refused(lambda: list(Ragforge.restoring(tmp_path / "backup.zip", settings)))
    assert set(shared.stored().names()) == stored
    postgres.drop(database)


# -- a server tells of it


def parts(client: httpx.Client) -> dict[str, Any]:
    answer = client.get("/readyz")
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["parts"])


def test_a_server_tells_that_the_storage_is_there(shared: Shared) -> None:
    with shared.machine("a") as a, serving(a) as url, httpx.Client(base_url=url, timeout=30) as client:
        eventually(lambda: client.get("/readyz").status_code == 200)
        assert parts(client)["stored files"] == {"ok": True, "why": "", "warning": False}
        assert next(each for each in a.doctor() if each.subject == "stored files").detail == "shared; they answer"


@pytest.mark.parametrize("answers", [False, True])
def test_a_server_without_its_storage_answers_questions_and_says_so(
    in_s3: Shared, answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragforge.operate.ready._SILENT_SECONDS", 0.2)
    with in_s3.machine("a") as a:
        a.add(fill(in_s3.folder / "docs", 3), project="p")
    with silence() if answers else nullcontext(nobody()) as away, in_s3.machine("a", store__blobs_url=away) as a:
        with serving(a) as url, httpx.Client(base_url=url, timeout=30) as client:
            eventually(lambda: client.get("/readyz").status_code == 200)
            began = time.monotonic()
            eventually(lambda: parts(client)["stored files"]["warning"])
            assert time.monotonic() - began < 5, "nobody waits for it"
            told = parts(client)["stored files"]
            assert told["ok"] and "uploads are refused" in told["why"]
            assert away.removeprefix("http://") not in client.get("/readyz").text and "s3:" not in told["why"]
            search = client.post("/v1/projects/p/search", json={"question": "Page 2"})
            assert search.json()["passages"][0]["document"] == "file0002.md" and search.json()["degraded"] == []
            with RemoteForge(url) as remote:
                assert [each.subject for each in remote.ready() if each.warning] == ["stored files"]
        (finding,) = [each for each in a.doctor() if each.subject == "stored files"]
        assert not finding.ok and finding.hint


def test_a_folder_that_went_away_is_told(swift_path: Path) -> None:
    share = swift_path / "share"
    share.mkdir()
    with open_forge(swift_path / "ws", store__blobs=str(share)) as forge:
        forge.add(fill(swift_path / "docs", 1), project="p")
        share.rename(swift_path / "elsewhere")
        (told,) = [each for each in forge.ready() if each.subject == "stored files"]
        assert told.ok and told.warning and str(share) not in told.detail
        (finding,) = [each for each in forge.doctor() if each.subject == "stored files"]
        assert not finding.ok and str(share) in finding.detail and "mount" in finding.hint


@pytest.mark.parametrize(
    ("place", "kind"), [("relative/folder", UserError), ("gs://bucket", UserError), ("{}/not mounted", StoreError)]
)
def test_a_place_that_cannot_be_is_refused(tmp_path: Path, place: str, kind: type[Exception]) -> None:
    (tmp_path / "a.md").write_text(prose(1))
    forge = Ragforge.open(
        load(tmp_path / "ws", flags={"the test": {"store.blobs": place.format(tmp_path), "embed.model": "hashing"}}),
        embedders={"hashing": HashingEmbedder(64)},
    )
    with forge, pytest.raises(kind) as refused:
        forge.add(tmp_path / "a.md")
    assert getattr(refused.value, "hint", "")
    assert not (tmp_path / "not mounted").exists()


def test_a_folder_may_be_written_as_an_address(tmp_path: Path) -> None:
    (tmp_path / "a share").mkdir()
    place = storage(f"file://{tmp_path}/a%20share", "", tmp_path, lambda: datetime.now(UTC))
    assert place.blobs.shared and place.inbox == tmp_path / "a share" / "inbox"
    stored = place.blobs.put("owner", io.BytesIO(b"x"), 10)
    assert (tmp_path / "a share" / stored.key).is_file()
