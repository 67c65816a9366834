"""Backup and restore: consistent while others write, verified before anything is written; removed stays removed."""

from __future__ import annotations

import json
import random
import re
import shutil
import stat
import threading
import time
import tomllib
import zipfile
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from ragforge import Ragforge
from ragforge.adapters import locks
from ragforge.adapters.catalog import tables as t
from ragforge.adapters.catalog.unit import milliseconds
from ragforge.domain.access import Clearance, Role
from ragforge.domain.archives import BackupReport, Kind, RestoreReport
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.conversation import FORGOTTEN_ANSWER, ConversationKind
from ragforge.domain.discovery import Assumption, Cited, Evidence, Level, Point
from ragforge.domain.evaluation import Question, Run
from ragforge.domain.library import JobState
from ragforge.domain.records import ProjectTextKind
from ragforge.errors import (
    Busy,
    CorruptStore,
    NotAllowed,
    NotFound,
    RagforgeError,
    StoreError,
    Unauthenticated,
    UserError,
)
from ragforge.interfaces.http.app import create_app
from ragforge.operate.access import owner
from ragforge.settings import FACTS, load
from ragforge.testing.postgres import TemporaryPostgres
from ragforge.testing.records import artifact
from tests.forge import WatchedEmbedder, faults, fill, open_forge, places_of, prose, text_of
from tests.proof import count, record
from tests.serving import listening_to
from tests.shell import Shell

SECRETS = (
    "sk-planted-4f9a8b7c6d5e",
    "hunter2-of-the-database",
    "gsk_planted0123456789abcdef",
    "planted-token-value-1",
    "planted-key-of-the-machine",
    "planted-seal",
    "planted-word-in-an-address",
)


@pytest.fixture
def embedder() -> WatchedEmbedder:
    return WatchedEmbedder()


@pytest.fixture
def forge(tmp_path: Path, embedder: WatchedEmbedder) -> Iterator[Ragforge]:
    with open_forge(tmp_path / "ws", embedder) as forge:
        forge.add(fill(tmp_path / "docs", 6), project="p")
        yield forge


def restored(file: Path, workspace: Path, *, replacing: bool = False) -> RestoreReport:
    *_, report = Ragforge.restoring(file, workspace, replacing=replacing)
    assert isinstance(report, RestoreReport)
    return report


def reopened(workspace: Path, embedder: WatchedEmbedder) -> Ragforge:
    return Ragforge.open(workspace, create=False, embedders={"hashing": embedder})


def state(forge: Ragforge, project: str = "p") -> dict[str, object]:
    """All that a person sees of a project."""
    conversations, interviews = forge.conversations(project=project), forge.discovery.all(project=project)
    return {
        "documents": forge.documents(project=project),
        "chunks": {d.id: forge.chunks(d.id, project=project) for d in forge.documents(project=project)},
        "found": [p.chunk for p in forge.search("word1 word2 word3", project=project).passages],
        "conversations": conversations,
        "turns": [forge.turns(each.id, project=project) for each in conversations],
        "interviews": [forge.discovery.get(each.id, project=project) for each in interviews],
        "versions": [forge.discovery.versions(each.id, project=project) for each in interviews],
        "said": [forge.discovery.turns(each.id, project=project) for each in interviews],
        "organisation": forge.discovery.org_context(project=project),
        "rules": forge.project_text_versions(ProjectTextKind.HARD_RULES, project=project),
        "log": forge.query_log(project=project),
    }


def interviewed(forge: Ragforge, quoting: str = "") -> str:
    """An interview of one turn, with a point that the person made and one that quotes a document."""
    id = forge.discovery.begin("Returns", project="p").id
    forge.discovery.say("We are Nordlicht, a maker of furniture, and returns are late.", id, project="p")
    forge.discovery.add_point("impact", "It takes twenty minutes.", id, project="p")
    if quoting:
        chunk = forge.chunks(quoting, project="p")[0]
        passage = Cited(chunk.id, quoting, "a.md", chunk.locator, chunk.checksum, chunk.text)
        with forge._parts.catalog.write() as c:
            known = c.interviews.get(owner(), forge.project("p").id, id)
            first = Assumption("A9", "It is so.", Level.LOW, Level.LOW, 0)
            first = replace(first, evidence=(Evidence(chunk.text, 0, (passage,)),))
            quote = Point("P99", "impact", chunk.text, 0, cited=(passage,), documents=(quoting,))
            more = replace(known, points=(*known.points, quote), assumptions=(*known.assumptions, first))
            c.interviews.put(owner(), forge.project("p").id, id, more)
    return id


def test_a_restored_workspace_is_the_one_that_was_backed_up(
    forge: Ragforge, embedder: WatchedEmbedder, tmp_path: Path
) -> None:
    talk = forge.begin_conversation("talk", project="p").id
    forge.ask(prose(1).split(".")[1] + "?", project="p", conversation=talk)
    forge.write_project_text(ProjectTextKind.HARD_RULES, "Be brief.", project="p")
    forge.enable([forge.documents(project="p")[0].id], False, project="p")
    (forge.workspace / "templates").mkdir()
    (forge.workspace / "templates" / "note.md").write_text("ours")
    (forge.workspace / "discovery").mkdir()
    (forge.workspace / "discovery" / "note.md").write_text("ours too")
    interviewed(forge)
    before = state(forge)
    report = forge.backup(tmp_path / "b.zip")
    assert (report.projects, report.documents, report.files, report.removed) == (1, 6, 6, 0)
    assert stat.S_IMODE(report.file.stat().st_mode) == 0o600
    calls = embedder.calls
    assert restored(report.file, tmp_path / "new").documents == 6
    assert embedder.calls == calls, "nothing is embedded again"
    with reopened(tmp_path / "new", embedder) as again:
        assert state(again) == before
        assert faults(again) == []
        for document in again.documents(project="p"):
            path = Path(document.sources[0].key)
            blobs = places_of(path.read_bytes(), tmp_path / "new" / "uploads")
            assert len(blobs) == 1
        assert (tmp_path / "new" / "templates" / "note.md").read_text() == "ours"
        assert (tmp_path / "new" / "discovery" / "note.md").read_text() == "ours too"
        calls = embedder.calls
        again.add(Path(document.sources[0].key), project="p")
        assert embedder.calls == calls


def test_the_archive_is_read_without_ragforge(forge: Ragforge, tmp_path: Path) -> None:
    import hashlib

    with zipfile.ZipFile(forge.backup(tmp_path / "b.zip").file) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        assert set(manifest["members"]) == set(archive.namelist()) - {"manifest.json"}
        for name, member in manifest["members"].items():
            assert hashlib.sha256(archive.read(name)).hexdigest() == member["sha256"]
        versions = [json.loads(line) for line in archive.read("catalog/versions.jsonl").splitlines()]
        originals = {archive.read(f"files/{version['blob']}") for version in versions}
        assert originals == {path.read_bytes() for path in (tmp_path / "docs").iterdir()}
        assert b"ragforge restore" in archive.read("README.md")
        assert archive.read("catalog/jobs.jsonl") == b"", "nothing waits"
        assert "catalog/index_states.jsonl" not in archive.namelist()


def test_no_secret_is_in_a_backup_or_an_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRETS[4])
    monkeypatch.setenv("RAGFORGE_SEAL", SECRETS[5])
    monkeypatch.setenv("BILLING_DATABASE", f"postgresql://me:{SECRETS[6]}@db/x")
    workspace = tmp_path / "ws"
    with open_forge(workspace) as forge:
        forge.add(fill(tmp_path / "docs", 1), project="p")
        key, secret = forge.access().create("planted", Role.READER)
        assert key
    (workspace / ".env").write_text(f"OPENAI_API_KEY={SECRETS[0]}\nMY_TOKEN={SECRETS[3]}\n")
    (workspace / "ragforge.toml").write_text(
        f"""[store]
# database_url = "postgresql://me:{SECRETS[1]}@localhost/x"
[model]
api_key_env = "{SECRETS[2]}"
base_url = "https://user:{SECRETS[1]}@example.org/v1"
max_tokens = 512
# the key is {SECRETS[0]}
[search]
k = 7
"""
    )
    (workspace / "templates").mkdir()
    (workspace / "templates" / "x.md").write_text(f"Never say {SECRETS[3]}\nBe kind.\n" + "\n".join(SECRETS[4:]))
    with open_forge(workspace) as forge:
        report = forge.backup(tmp_path / "b.zip")
        list(forge.exporting(tmp_path / "e.zip", project="p"))
    assert len(report.left_out) == 8
    for file in ("b.zip", "e.zip"):
        with zipfile.ZipFile(tmp_path / file) as archive:
            everything = b"\n".join(archive.read(name) for name in archive.namelist())
        for planted in (*SECRETS, secret, secret[16:]):
            assert planted.encode() not in everything, (file, planted)
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        settings = archive.read("workspace/ragforge.toml").decode()
        assert "max_tokens = 512" in settings and "k = 7" in settings
        assert "Be kind." in archive.read("workspace/templates/x.md").decode()
        assert "access_keys" in "".join(archive.namelist())
    with zipfile.ZipFile(tmp_path / "e.zip") as archive:
        assert not [name for name in archive.namelist() if "key" in name]
    assert restored(tmp_path / "b.zip", tmp_path / "new").keys == 1
    with Ragforge.open(tmp_path / "new") as again:
        assert again.access().principal(secret).key == again.access().keys()[0]


def test_the_settings_file_that_comes_with_a_workspace_is_kept_whole(tmp_path: Path) -> None:
    from ragforge.operate.secrets import without_secrets
    from ragforge.settings import template

    assert without_secrets(template(), []) == (template(), ())


# -- what was removed stays so


def test_what_was_removed_since_does_not_come_back(forge: Ragforge, embedder: WatchedEmbedder, tmp_path: Path) -> None:
    forge.create_project("q", embedder="hashing")
    forge.add(fill(tmp_path / "more", 2), project="q")
    kept, *_, gone = forge.documents(project="p")
    talk, other = (forge.begin_conversation(name, project="p").id for name in ("goes", "stays"))
    words, *_, unspoken = (line for line in text_of(forge, gone.id).splitlines() if line.startswith("Word"))
    for conversation in (talk, other):
        forge.ask(words, project="p", conversation=conversation)
        forge.ask("And what else is there?", project="p", conversation=conversation)
    revoked, _ = forge.access().create("later", Role.READER)
    report = forge.backup(tmp_path / "b.zip")
    assert places_of(unspoken.encode(), forge.workspace) != []
    list(forge.removing([gone.id], project="p"))
    forge.remove_conversation(talk, project="p")
    forge.remove_turn(forge.turns(other, project="p")[1].id, project="p")
    forge.remove_project("q")
    forge.access().revoke(revoked.id)
    new = forge.add(fill(tmp_path / "new-docs", 1, 40), project="p").files[0]
    forge.close()
    done = restored(report.file, forge.workspace, replacing=True)
    assert done.removed == 6 and done.documents == 5 and done.keys == 0  # three files, of which two with a project
    with reopened(forge.workspace, embedder) as again:
        assert faults(again) == []
        documents = {document.id for document in again.documents(project="p")}
        assert kept.id in documents and not {gone.id, new.document} & documents
        assert [project.slug for project in again.projects()] == ["p"]
        assert [each.id for each in again.conversations(project="p")] == [other]
        assert [each.number for each in again.turns(other, project="p")] == [1]
        assert places_of(unspoken.encode(), again.workspace) == []
        assert again.access().keys()[0].revoked_at is not None
    assert done.before is not None
    with reopened(done.before, embedder) as old:
        assert new.document in {document.id for document in old.documents(project="p")}
    done = restored(report.file, forge.workspace, replacing=True)
    assert done.documents == 5, "not even the second time"


def test_no_quote_of_a_file_that_was_removed_since_comes_back(
    forge: Ragforge, embedder: WatchedEmbedder, tmp_path: Path
) -> None:
    path = tmp_path / "code.md"
    path.write_text("# The vault\n\nThe vault opens by the code zanzibarquokka.\n")
    forge.add(path, project="p")
    talk = forge.begin_conversation("talk", project="p").id
    forge.ask("By which code does the vault open?", project="p", conversation=talk)
    (said,) = forge.turns(talk, project="p")
    assert "zanzibarquokka" in said.citations[0].quote
    asked = interviewed(forge, forge.document("code.md", project="p").id)

    def quoted(forge: Ragforge) -> list[Point]:
        points = forge.discovery.get(asked, project="p").state.points
        return [point for point in points if "zanzibarquokka" in point.text]

    assert len(quoted(forge)) == 1
    report = forge.backup(tmp_path / "b.zip")
    assert all(removal.erased for removal in forge.removing(["code.md"], project="p"))
    assert places_of(b"zanzibarquokka", forge.workspace) == []
    assert quoted(forge) == []
    forge.close()
    restored(report.file, forge.workspace, replacing=True)
    with reopened(forge.workspace, embedder) as again:
        (left,) = again.turns(talk, project="p")
        assert (left.answer, left.citations) == (FORGOTTEN_ANSWER, ())
        assert quoted(again) == [] and again.discovery.get(asked, project="p").state.points
        assert places_of(b"zanzibarquokka", again.workspace) == []


def test_what_is_removed_while_the_backup_is_made_is_not_restored(
    forge: Ragforge, embedder: WatchedEmbedder, tmp_path: Path
) -> None:
    first, *_, last = forge.documents(project="p")
    path = Path(first.sources[0].key)
    events = forge.backing_up(tmp_path / "b.zip")
    while (event := next(events)) and getattr(event, "stage", "") != "files":
        pass
    list(forge.removing([last.id], project="p"))
    path.write_text(prose(99))
    forge.add(path, project="p")
    *_, report = events
    assert isinstance(report, BackupReport)
    assert report.removed == 1 and set(report.missing) <= {first.name, last.name}
    done = restored(report.file, tmp_path / "new")
    assert done.removed == 1 and done.documents == 5
    with reopened(tmp_path / "new", embedder) as again:
        assert faults(again) == []
        assert {document.id for document in again.documents(project="p")} == {
            document.id for document in forge.documents(project="p")
        }
        assert "word" in text_of(again, first.id)


def test_nothing_of_any_kind_that_was_removed_comes_back(
    forge: Ragforge, embedder: WatchedEmbedder, tmp_path: Path
) -> None:
    """Not even the second time, and whatever else is removed meanwhile."""
    made = artifact()
    with forge._parts.catalog.write() as c:
        c.artifacts.put(owner(), forge.project("p").id, made)
    forge.create_project("q", embedder="hashing")
    waiting = forge.upload(tmp_path / "docs" / "file0001.md", name="waits.md", project="p")
    first, second = (forge.begin_conversation(name, project="p").id for name in ("one", "two"))
    for conversation in (first, second):
        forge.ask("word1 word2?", project="p", conversation=conversation)
    key, secret = forge.access().create("later", Role.READER)
    document = forge.documents(project="p")[0]
    lesson = forge.lessons.capture("gate_approval", project="p", gate_type="design", approved_approach="a queue").id
    whole, cut = interviewed(forge, document.id), interviewed(forge, document.id)
    words = forge.chunks(document.id, project="p")[0].text
    file = forge.backup(tmp_path / "b.zip").file

    def there(forge: Ragforge) -> dict[str, bool]:
        versions = forge.discovery.versions(cut, project="p")
        with forge._parts.catalog.read() as c:
            known = [c.interviews.at(owner(), forge.project("p").id, cut, each.version) for each in versions]
        points = [point for state in known for point in state.points]
        return {
            "document": same(
                document.id in {each.id for each in forge.documents(project="p")},
                any(words in point.text for point in points),
                any(some.text == words for state in known for each in state.assumptions for some in each.evidence),
                document.id in {id for state in known for id in state.documents},
            ),
            "artifact": made.id in {each.id for each in forge.artifacts(project="p")},
            "conversation": same(
                first in {each.id for each in forge.conversations(project="p")},
                whole in {each.id for each in forge.discovery.all(project="p")},
            ),
            "turn": same(
                bool(forge.turns(second, project="p")),
                bool(forge.discovery.turns(cut, project="p")),
                any(point.turn == 1 for point in points),
                any(each.turn == 1 for state in known for each in state.asked),
            ),
            "lesson": lesson in {each.id for each in forge.lessons.staged(project="p")},
            "question": bool(forge.query_log(project="p")),
            "project": "q" in {each.slug for each in forge.projects()},
            "upload": waiting.id in {job.id for job in forge.jobs() if not job.ended},
            "key": {each.id: each.revoked_at is None for each in forge.access().keys()}[key.id],  # noqa: SIM118
        }

    def remove_talks(forge: Ragforge) -> None:
        forge.remove_conversation(first, project="p")
        forge.discovery.remove(whole, project="p")

    def remove_turns(forge: Ragforge) -> None:
        for talk in (second, cut):
            forge.remove_turn(forge.turns(talk, project="p")[0].id, project="p")

    removals: dict[str, Callable[[Ragforge], object]] = {
        "document": lambda f: list(f.removing([document.id], project="p")),
        "artifact": lambda f: f.remove_artifacts([made.id], project="p"),
        "conversation": remove_talks,
        "turn": remove_turns,
        "lesson": lambda f: f.lessons.reject(lesson, project="p"),
        "question": lambda f: f.prune_log(datetime.now(UTC) + timedelta(days=1), project="p"),
        "project": lambda f: f.remove_project("q"),
        "upload": lambda f: f.cancel_job(waiting.id),
        "key": lambda f: f.access().revoke(key.id),
    }
    assert set(removals) == set(Kind), "each kind is here"
    half = len(removals) // 2
    gone: set[str] = set()
    forge.close()
    for some in (list(removals)[:half], list(removals)[half:]):
        with reopened(forge.workspace, embedder) as now:
            for what in some:
                removals[what](now)
        restored(file, forge.workspace, replacing=True)
        gone.update(some)
        with reopened(forge.workspace, embedder) as now:
            assert there(now) == {kind: kind not in gone for kind in removals} and faults(now) == []
    with reopened(forge.workspace, embedder) as now, pytest.raises(Unauthenticated):
        now.access().principal(secret)
    restored(file, tmp_path / "elsewhere")
    with reopened(tmp_path / "elsewhere", embedder) as other:
        assert all(there(other).values()), "nobody knows there"


def same(*facts: bool) -> bool:
    """What all of them say."""
    (told,) = set(facts)
    return told


def test_what_came_back_after_its_removal_is_not_removed_again(tmp_path: Path) -> None:
    """As an import brings it, which gives the same id each time."""
    made, workspace = artifact(), tmp_path / "ws"

    def bring(forge: Ragforge) -> None:
        with forge._parts.catalog.write() as c:
            c.artifacts.put(owner(), forge.project("p").id, made)

    with open_forge(workspace) as forge:
        bring(forge)
        forge.remove_artifacts([made.id], project="p")
        bring(forge)
        back = forge.backup(tmp_path / "b.zip").file
    restored(back, workspace, replacing=True)
    with open_forge(workspace) as forge:
        assert forge.artifacts(project="p") == [made]
        events = forge.backing_up(tmp_path / "c.zip")
        next(events)
        forge.remove_artifacts([made.id], project="p")
        list(events)
    restored(back, workspace, replacing=True)
    restored(tmp_path / "c.zip", tmp_path / "new")
    for place in (workspace, tmp_path / "new"):
        with open_forge(place) as again:
            assert again.artifacts(project="p") == []


def test_an_upload_whose_job_was_forgotten_before_its_file_was_removed_does_not_come_back(tmp_path: Path) -> None:
    """Its bytes tell. Other uploads of that age, and the same bytes if they came later, are taken in."""
    old, other, workspace = tmp_path / "old.md", tmp_path / "other.md", tmp_path / "ws"
    with open_forge(workspace) as forge:
        forge.create_project("q", embedder="hashing")
        for path in (old, other):
            path.write_text(f"# {path.name}")
            forge.upload(path, project="p")
        with forge._parts.catalog.write() as c:
            aged = sa.update(t.jobs).values(created_at=milliseconds(datetime.now(UTC) - timedelta(days=31)))
            c.jobs._session.execute(aged)  # type: ignore[attr-defined]
        later = forge.upload(old, project="q").id
        file = forge.backup(tmp_path / "b.zip").file
        worked_off(forge)
        with forge._parts.catalog.write() as c:
            c.jobs._session.execute(sa.delete(t.jobs).where(t.jobs.c.id != later))  # type: ignore[attr-defined]
        list(forge.removing(["old.md"], project="p"))
    done = restored(file, workspace, replacing=True)
    assert (done.removed, done.uploads) == (1, 2)
    with open_forge(workspace) as again:
        waiting = {job.payload["name"]: job.id for job in again.jobs()}
        assert waiting.keys() == {"old.md", "other.md"} and waiting["old.md"] == later
        assert faults(again) == []


def test_the_log_of_a_restored_workspace_is_as_old_as_it_may_be(
    forge: Ragforge, embedder: WatchedEmbedder, tmp_path: Path
) -> None:
    forge.ask("word1?", project="p")
    old = replace(forge.query_log(project="p")[0], id="old", asked_at=datetime.now(UTC) - timedelta(days=90))
    with forge._parts.catalog.write() as c:
        c.log.add(owner(), forge.project("p").id, old)
    restored(forge.backup(tmp_path / "b.zip").file, tmp_path / "new")
    with reopened(tmp_path / "new", embedder) as again:
        assert [each.question for each in again.query_log(project="p")] == ["word1?"]
        assert [each.id for each in again.query_log(project="p")] != ["old"]


# -- uploads that wait


def sent(address: str, name: str, text: str) -> str:
    """An upload that was acknowledged; its job's id."""
    answer = httpx.post(f"{address}/v1/projects/p/files?name={name}", content=text.encode())
    assert answer.status_code == 202
    return str(answer.json()["id"])


def worked_off(forge: Ragforge) -> None:
    worker = forge.worker(1)
    worker.start()
    try:
        deadline = time.monotonic() + 20
        while any(not job.ended for job in forge.jobs()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        worker.stop()


@pytest.mark.parametrize("worker", ["idle", "at it", "done before it is copied"])
def test_an_acknowledged_upload_is_taken_in_where_it_is_restored(
    forge: Ragforge, embedder: WatchedEmbedder, tmp_path: Path, worker: str
) -> None:
    """Also if a worker takes it in while the backup is made: its bytes are a document's then."""
    app = create_app(forge)
    with listening_to(app) as address:
        app.state.worker.stop()
        job = sent(address, "later.md", prose(77))
    if worker == "at it":
        with forge._parts.catalog.write() as c:
            assert c.jobs.claim(owner(), "somebody", ["upload"], 60)
    events = forge.backing_up(tmp_path / "b.zip")
    next(events)
    if worker == "done before it is copied":
        worked_off(forge)
        assert not forge._parts.inbox.path(forge.job(job).payload["inbox"]).exists()
    *_, report = events
    assert isinstance(report, BackupReport)
    assert (report.documents, report.uploads, report.missing_uploads) == (6, 1, ())
    assert restored(report.file, tmp_path / "new").uploads == 1
    with reopened(tmp_path / "new", embedder) as again:
        assert faults(again) == []
        assert (again.job(job).state, again.job(job).attempts, again.job(job).owner) == (JobState.QUEUED, 0, None)
        worked_off(again)
        assert again.search(prose(77).split("\n")[2], project="p").passages[0].name == "later.md"
        assert list((again.workspace / "inbox").glob("?" * 32)) == []
        assert faults(again) == []


def test_an_upload_that_is_gone_meanwhile_is_not_taken_in_and_named(forge: Ragforge, tmp_path: Path) -> None:
    uploads = [forge.upload(path, project="p") for path in fill(tmp_path / "x", 10)[7:]]
    events = forge.backing_up(tmp_path / "b.zip")
    next(events)
    forge.cancel_job(uploads[0].id)
    worked_off(forge)
    list(forge.removing(["file0008.md"], project="p"))
    while getattr(next(events), "stage", "") != "files":  # the last of them is in it by now
        pass
    list(forge.removing(["file0009.md"], project="p"))
    *_, report = events
    assert isinstance(report, BackupReport)
    assert (report.uploads, report.removed, report.missing_uploads) == (1, 2, ("file0007.md", "file0008.md"))
    done = restored(report.file, tmp_path / "new")
    assert (done.documents, done.uploads, done.missing_uploads) == (6, 0, report.missing_uploads)
    with open_forge(tmp_path / "new") as again:
        assert again.jobs() == [] and faults(again) == []
        assert not (again.workspace / "inbox").exists()


def test_only_the_owner_may_take_everything(forge: Ragforge, tmp_path: Path) -> None:
    project = forge.project("p").id
    reader, secret = forge.access().create(
        "reader", Role.ADMIN, projects=frozenset({project}), clearance=Clearance.RESTRICTED
    )
    acting = forge.acting(forge.access().principal(secret).scope)
    for work in (
        lambda: acting.backup(tmp_path / "b.zip"),
        lambda: list(acting.exporting(tmp_path / "b.zip", project="p")),
        lambda: list(acting.importing(tmp_path / "b.zip")),
    ):
        with pytest.raises(NotAllowed):
            work()
    assert not (tmp_path / "b.zip").exists() and reader


# -- while others write


@pytest.mark.parametrize("on_server", [False, True])
def test_the_backup_is_a_state_between_its_begin_and_its_end(
    tmp_path: Path, on_server: bool, postgres: TemporaryPostgres
) -> None:
    """Random work while it is made: what was there all the time is in it, each file whole, nothing that was removed."""
    dice = random.Random(5)
    rounds = count(1 if on_server else 3, 10 if on_server else 50)
    store = {"store__database_url": postgres.create()} if on_server else {}
    with open_forge(tmp_path / "ws", **store) as forge:
        paths = fill(tmp_path / "docs", 12)
        texts = {str(path): {path.read_text()} for path in paths}
        forge.add(tmp_path / "docs", project="p")
        for number in range(rounds):
            stop = threading.Event()
            removed: set[str] = set()
            touched: set[str] = set()

            def work(stop: threading.Event = stop, removed: set[str] = removed, touched: set[str] = touched) -> None:
                while not stop.is_set():
                    path = dice.choice(paths)
                    touched.add(str(path))
                    if dice.random() < 0.4:
                        known = [d for d in forge.documents(project="p") if d.sources[0].key == str(path)]
                        for document in known:
                            list(forge.removing([document.id], project="p"))
                            removed.add(document.id)
                    else:
                        path.write_text(prose(dice.randrange(10**6), dice.randrange(3, 30)))
                        texts[str(path)].add(path.read_text())
                        forge.add(path, project="p")

            before = {document.id: document for document in forge.documents(project="p")}
            worker = threading.Thread(target=work)
            worker.start()
            report = forge.backup(tmp_path / f"{number}.zip")
            gone = set(removed)
            stop.set()
            worker.join()
            restored(report.file, tmp_path / f"new{number}")
            with open_forge(tmp_path / f"new{number}") as again:
                assert faults(again) == []
                there = {document.id: document for document in again.documents(project="p")}
                assert not gone & there.keys()
                assert {id for id, each in before.items() if each.sources[0].key not in touched} <= there.keys()
                with again._parts.catalog.read() as c:
                    for id, document in there.items():
                        whole = c.documents.text(owner(), document.project, id)
                        assert whole in texts[document.sources[0].key]
            shutil.rmtree(tmp_path / f"new{number}")
    record("backups of a server" if on_server else "backups", rounds=rounds, faults=0)


def test_lost_and_changed_bytes_are_named_and_not_forgotten(
    forge: Ragforge, embedder: WatchedEmbedder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are no news of the backup: where it is restored, `check` says of them what it says here."""
    for number, path in enumerate(sorted((forge.workspace / "uploads").glob("*/*/*"))[:2]):
        if number:
            path.chmod(0o600)
            path.write_bytes(path.read_bytes() + b"rot")
        else:
            path.unlink()
    (fault,) = faults(forge)
    report = forge.backup(tmp_path / "b.zip")
    assert report.files == 5 and report.missing == ()
    assert len(report.damaged) == 2 and all(name in fault.detail for name in report.damaged)
    done = restored(report.file, tmp_path / "new")
    assert done.damaged == report.damaged and done.missing == ()
    with reopened(tmp_path / "new", embedder) as again:
        assert faults(again) == [fault]
    said = Shell(tmp_path / "new", capsys).run("backup", str(tmp_path / "c.zip")).stderr
    assert all(name in said for name in report.damaged) and "Replaced" not in said


def test_stopping_leaves_no_file(forge: Ragforge, tmp_path: Path) -> None:
    cancel = Cancel()
    with pytest.raises(NotFound):
        forge.backup(tmp_path / "out" / "b.zip", cancel=cancel)
    (tmp_path / "out").mkdir()
    events = forge.backing_up(tmp_path / "out" / "b.zip", cancel=cancel)
    next(events)
    cancel.set()
    with pytest.raises(Cancelled):
        list(events)
    events = forge.backing_up(tmp_path / "out" / "b.zip")
    next(events)
    events.close()  # type: ignore[attr-defined]
    assert list((tmp_path / "out").iterdir()) == []
    forge.backup(tmp_path / "out" / "b.zip")
    with pytest.raises(UserError, match="exists"):
        forge.backup(tmp_path / "out" / "b.zip")
    with pytest.raises(UserError, match="inside the workspace"):
        forge.backup(forge.workspace / "b.zip")


# -- archives that must not be believed


def rewritten(
    source: Path,
    target: Path,
    change: dict[str, bytes | None],
    manifest: dict[str, Any] | None = None,
    rehash: bool = True,
    without: Collection[str] = (),
) -> Path:
    """A copy with other members, and a manifest that agrees with them unless told otherwise; `without` these facts."""
    import hashlib

    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        facts = json.loads(old.read("manifest.json"))
        members = {name: old.read(name) for name in old.namelist() if name != "manifest.json"}
        for name, content in change.items():
            if content is None:
                members.pop(name)
            else:
                members[name] = content
        for name, content in members.items():
            new.writestr(name, content)
        if rehash:
            facts["members"] = {
                name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
                for name, content in members.items()
            }
        told = {name: fact for name, fact in (facts | (manifest or {})).items() if name not in without}
        new.writestr("manifest.json", json.dumps(told))
    return target


def lines_of(file: Path, table: str) -> list[dict[str, Any]]:
    with zipfile.ZipFile(file) as archive:
        return [json.loads(line) for line in archive.read(f"catalog/{table}.jsonl").splitlines()]


def as_lines(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


NO_SETTINGS = (
    "[search\nk = 3\n",
    "k = 3\n",
    "[search]\nk = [3]\n",
    "[search]\nk = 2026-01-01\n",
    "[search.k]\nless = 3\n",
    "[[search]]\nk = 3\n",
    "[search]\nk = " + "[" * 50_000 + "\n",
    "[search]\nk = " + "9" * 5_000 + "\n",
    "[search]\nk = 0x" + "f" * 5_000 + "\n",
    "a." * 50_000 + "a = 1\n",
    "search = {" + "a." * 50_000 + "a = 1}\n",
    "# x\n" * 300_000,
)


def test_a_bad_archive_ends_with_a_clear_error_and_writes_nothing(
    forge: Ragforge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragforge.operate.archive._UNPACKED_AT_LEAST", 10_000_000)
    forge.upload(tmp_path / "docs" / "file0000.md", project="p")
    good = forge.backup(tmp_path / "good.zip").file
    data = good.read_bytes()
    blob = next(name for name in zipfile.ZipFile(good).namelist() if name.startswith("files/"))
    projects, versions, chunks, jobs = (lines_of(good, name) for name in ("projects", "versions", "chunks", "jobs"))

    gone = {"kind": "document", "id": "0" * 16, "sha256": "0" * 64}

    def bad(name: str, content: bytes) -> Path:
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    def other(name: str, change: dict[str, bytes | None], **how: Any) -> Path:
        return rewritten(good, tmp_path / name, change, **how)

    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 0xFF
    link = tmp_path / "link.zip"
    shutil.copy(good, link)
    with zipfile.ZipFile(link, "a") as archive:
        info = zipfile.ZipInfo("workspace/templates/x")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    cases = [
        bad("empty.zip", b""),
        bad("text.zip", b"not an archive at all\n" * 50),
        *(bad(f"cut{part}.zip", data[: len(data) * part // 7]) for part in range(1, 7)),
        bad("flipped.zip", bytes(flipped)),
        other("changed.zip", {blob: b"something else"}, rehash=False),
        other("lacks.zip", {blob: None}),
        other("lost.zip", {blob: None}, rehash=False),
        other("more.zip", {"files/../../../evil": b"x"}),
        other("absolute.zip", {"/tmp/evil": b"x"}),
        other("backslash.zip", {"files\\..\\evil": b"x"}),
        other("stray.zip", {"workspace/evil.sh": b"x"}),
        other("format.zip", {}, manifest={"format": "ragforge export"}),
        other("newer.zip", {}, manifest={"version": 2}),
        other("schema.zip", {}, manifest={"schema": "9999"}),
        other("injected.zip", {}, manifest={"schema": "head; DROP"}),
        other("tables.zip", {}, manifest={"tables": None}),
        other("names.zip", {}, manifest={"tables": [{"name": "projects", "columns": [["a"]], "base64": []}]}),
        *(other(f"{name}.zip", {}, manifest={name: 5}) for name in ("damaged", "missing_uploads", "left_out")),
        other("when.zip", {}, manifest={"made_at": "yesterday"}),
        other("where.zip", {}, manifest={"removed_meanwhile": [gone | {"removed_at": "2026-01-01"}]}),
        other("table.zip", {}, manifest={"tables": [{"name": "sqlite_master", "columns": ["a"], "base64": []}]}),
        other("slug.zip", {"catalog/projects.jsonl": as_lines([row | {"slug": "../../evil"} for row in projects])}),
        other("id.zip", {"catalog/projects.jsonl": as_lines([row | {"id": "../evil"} for row in projects])}),
        other("blob.zip", {"catalog/versions.jsonl": as_lines([row | {"blob": "../../x"} for row in versions])}),
        other("types.zip", {"catalog/projects.jsonl": as_lines([row | {"generation": "1"} for row in projects])}),
        other("columns.zip", {"catalog/projects.jsonl": as_lines([row | {"evil": 1} for row in projects])}),
        other("orphans.zip", {"catalog/chunks.jsonl": as_lines([row | {"version": 10**6} for row in chunks])}),
        other("job.zip", {"catalog/jobs.jsonl": as_lines([row | {"kind": "make"} for row in jobs])}),
        other("inbox.zip", {"catalog/jobs.jsonl": as_lines([row | {"payload": '{"inbox": "../x"}'} for row in jobs])}),
        other("upload.zip", {next(name for name in zipfile.ZipFile(good).namelist() if name[:6] == "inbox/"): None}),
        other("json.zip", {"catalog/projects.jsonl": b"{nope\n"}),
        *(other(f"toml{n}.zip", {"workspace/ragforge.toml": text.encode()}) for n, text in enumerate(NO_SETTINGS)),
        other("bomb.zip", {"files/bomb": b"\0" * 30_000_000}),
        link,
    ]
    place = tmp_path / "place"
    place.mkdir()
    for file in cases:
        with pytest.raises(RagforgeError) as problem:
            restored(file, place / "new")
        assert isinstance(problem.value, (CorruptStore, UserError, StoreError)) and problem.value.hint, file
        assert list(place.iterdir()) == [], file
        assert not (tmp_path / "evil").exists()
    with pytest.raises(NotFound):
        restored(tmp_path / "nothing.zip", place / "new")
    restored(good, place / "new")


def test_a_backup_of_an_older_version_is_migrated(forge: Ragforge, embedder: WatchedEmbedder, tmp_path: Path) -> None:
    """Before there were keys, tombstones, uploads that wait, turns that keep what they cite, lessons and interviews."""
    talk = forge.begin_conversation("talk", project="p").id
    forge.ask("word1 word2?", project="p", conversation=talk)
    good = forge.backup(tmp_path / "good.zip").file
    with zipfile.ZipFile(good) as archive:
        tables = json.loads(archive.read("manifest.json"))["tables"]
    new = {
        "access_keys",
        "tombstones",
        "jobs",
        "interview_states",
        "interview_documents",
        *(name for name in (each["name"] for each in tables) if "knowledge" in name),
    }
    kept_now = {
        "turns": ("citations", "trace_id", "model", "quoted"),
        "projects": ("shares_lessons",),
        "conversations": ("kind",),
    }
    older: dict[str, bytes | None] = {f"catalog/{name}.jsonl": None for name in new}
    for table in tables:
        if since := kept_now.get(table["name"]):
            table["columns"] = [name for name in table["columns"] if name not in since]
            rows = [{name: row[name] for name in row if name not in since} for row in lines_of(good, table["name"])]
            older[f"catalog/{table['name']}.jsonl"] = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    old = rewritten(
        good,
        tmp_path / "old.zip",
        older,
        manifest={"schema": "0008", "tables": [table for table in tables if table["name"] not in new]},
    )
    restored(old, tmp_path / "new")
    with reopened(tmp_path / "new", embedder) as again:
        assert again.documents(project="p") == forge.documents(project="p")
        said = [replace(turn, citations=(), trace_id="", quoted=False) for turn in forge.turns(talk, project="p")]
        assert again.turns(talk, project="p") == said
        assert [each.kind for each in again.conversations(project="p")] == [ConversationKind.CHAT]
        assert again.discovery.all(project="p") == []
        assert again.discovery.say("Returns are late.", interviewed(again), project="p").turn.number == 2
        assert faults(again) == []


def test_a_workspace_is_not_overwritten(forge: Ragforge, tmp_path: Path) -> None:
    file = forge.backup(tmp_path / "b.zip").file
    with pytest.raises(UserError, match="already"):
        restored(file, forge.workspace)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    for replacing in (False, True):
        with pytest.raises(UserError, match="not empty"):
            restored(file, tmp_path / "full", replacing=replacing)
    (tmp_path / "empty").mkdir()
    assert restored(file, tmp_path / "empty").before is None
    events = forge.adding([tmp_path / "docs"], project="p")
    next(events)
    with pytest.raises(Busy):
        restored(file, forge.workspace, replacing=True)
    list(events)
    with listening_to(create_app(forge)), pytest.raises(Busy, match="at work"):  # a server that has nothing to do
        restored(file, forge.workspace, replacing=True)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("ws")) == ["ws"]


def test_whoever_waited_for_a_restore_does_not_go_on_in_the_workspace_that_was(
    forge: Ragforge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, lock = threading.Semaphore(0), locks._lock

    def watched(fd: int, *, shared: bool, blocking: bool) -> None:
        if shared and blocking:
            waits.release()
        lock(fd, shared=shared, blocking=blocking)

    file = forge.backup(tmp_path / "b.zip").file
    events = Ragforge.restoring(file, forge.workspace, replacing=True)
    while getattr(next(events), "stage", "") != "catalog":
        pass
    monkeypatch.setattr(locks, "_lock", watched)
    with ThreadPoolExecutor(2) as others:
        calls: list[Callable[[], object]] = [lambda: forge.add(tmp_path / "docs", project="p"), forge.inbox]
        tries = [others.submit(call) for call in calls]
        assert waits.acquire(timeout=20) and waits.acquire(timeout=20)
        list(events)
    for each in tries:
        with pytest.raises(Busy, match="replaced"):
            each.result()


def test_settings_of_the_machine_stay_and_addresses_are_not_taken_over(forge: Ragforge, tmp_path: Path) -> None:
    (forge.workspace / "ragforge.toml").write_text('[index]\nurl = "http://localhost:1"\n[search]\nk = 3\n')
    file = forge.backup(tmp_path / "b.zip").file
    done = restored(file, tmp_path / "new")
    assert any("index.url" in notice for notice in done.notices)
    assert load(tmp_path / "new", env={}).search.k == 3 and not load(tmp_path / "new", env={}).index.url
    (forge.workspace / "ragforge.toml").write_text("[search]\nk = 4\n")
    (forge.workspace / ".env").write_text("OPENAI_API_KEY=mine\n")
    forge.close()
    restored(file, forge.workspace, replacing=True)
    assert load(forge.workspace, env={}).search.k == 4
    assert load(forge.workspace, env={}).secrets == {"OPENAI_API_KEY": "mine"}


EVIL = "http://evil.example"
WRITTEN_OTHERWISE = {
    "plain": f'[search]\nk = 3\n[model]\nbase_url = "{EVIL}"\n',
    "dotted": f'model.base_url = "{EVIL}"\nstore.database_url = "postgresql://evil.example/x"\nsearch.k = 3\n',
    "dotted and quoted": f'"model" . \'base_url\' = "{EVIL}"\n"search".k = 3\n',
    "a quoted header": f'["index"]\n"url" = "{EVIL}"\n[ \'search\' ]\nk = 3\n',
    "escapes": f'["mod\\u0065l"]\n"base\\u005Furl" = "{EVIL}"\n[search]\nk = 3\n',
    "an inline table": f'model = {{base_url = "{EVIL}", api_key_env = "HF_TOKEN", window = 7}}\nsearch = {{k = 3}}\n',
    "another system": f'\ufeff[search]\r\nk = 3\r\n[model]\r\nproxy = "{EVIL}"\r\n',
    "lines in a text": f'[model]\nbase_url = """x\nproxy = "{EVIL}"\n[jail]\nunsafe = true\n"""\n[search]\nk = 3\n',
    "lines in a text, escaped": f'search.k = 3\nmodel.proxy = "x\\nbase_url = \\"{EVIL}\\"\\n\\r\\u0085\\u2028"\n',
    "lines in what is kept": f'search.k = 3\nmodel.proxy = "{EVIL}"\nask.stages = "x\\n[model]\\nproxy = 1"\n',
    "a name that is none of ours": f'[search]\nk = 3\n"x\\n[model]\\nproxy" = 1\n[model]\nproxy = "{EVIL}"\n',
}


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A backup of nothing."""
    with open_forge(tmp_path / "ws") as forge:
        return forge.backup(tmp_path / "bare.zip").file


def with_settings(bare: Path, text: str) -> Path:
    return rewritten(bare, bare.with_name("other.zip"), {"workspace/ragforge.toml": text.encode()})


def live(file: Path) -> dict[str, object]:
    """Every setting that a file sets."""
    tables = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    return {f"{section}.{name}": value for section, table in tables.items() for name, value in table.items()}


@pytest.mark.parametrize("how", WRITTEN_OTHERWISE)
def test_a_backup_does_not_say_where_keys_are_sent(bare: Path, tmp_path: Path, how: str) -> None:
    file, new = with_settings(bare, WRITTEN_OTHERWISE[how]), tmp_path / "new"
    if how in ("a name that is none of ours", "lines in what is kept"):
        with suppress(UserError):  # no ragforge takes such a value
            restored(file, new)
    else:
        notices = restored(file, new).notices
        assert notices and all("is not taken over" in notice for notice in notices)
        origins = load(new, env={}, folder=tmp_path).origins
        assert {key for key, origin in origins.items() if origin != "default"} - {"workspace"} == {
            "search.k",
            *(["model.window"] if "window" in WRITTEN_OTHERWISE[how] else []),
        }
    there = live(new / "ragforge.toml")
    assert not {key for key in there if key in FACTS and FACTS[key].guarded} and there["search.k"] == 3


def test_no_guarded_setting_is_taken_over_and_each_can_be_uncommented(bare: Path, tmp_path: Path) -> None:
    values = {
        "str": '"a\\n\\"b\\\\ \U0001f600\\u007f"',
        "path": '"/else"',
        "bool": "true",
        "int": "3",
        "size": '"2GiB"',
    }
    guarded = [fact for fact in FACTS.values() if fact.guarded]
    assert len(guarded) > 15
    text = "".join(f"{fact.key} = {values[fact.kind]}\n" for fact in guarded) + "search.alpha = 0.5\nask.log = false\n"
    done, new = restored(with_settings(bare, text), tmp_path / "new"), tmp_path / "new"
    assert [notice.split()[0] for notice in done.notices] == [fact.key for fact in guarded]
    assert live(new / "ragforge.toml") == {"search.alpha": 0.5, "ask.log": False}
    written = (new / "ragforge.toml").read_text()
    (new / "ragforge.toml").write_text(re.sub(r"(?m)^# (?=\w+ = )", "", written))
    meant = tmp_path / "meant.toml"
    meant.write_text(text)
    assert live(new / "ragforge.toml") == live(meant)


def test_settings_that_lead_nowhere_are_kept_to_the_letter(bare: Path, tmp_path: Path) -> None:
    text = '# mine: model.base_url = 1\r\n[search]  # why\r\nk = 3\r\n\r\n# [model]\n# base_url = "x"\n'
    assert restored(with_settings(bare, text), tmp_path / "new").notices == ()
    assert (tmp_path / "new" / "ragforge.toml").read_bytes() == text.encode()


def test_settings_that_could_not_be_read_again_are_not_in_a_backup(tmp_path: Path) -> None:
    with open_forge(tmp_path / "ws") as forge:
        (forge.workspace / "ragforge.toml").write_text('[model]\nbase_url = """https://me:secret-word@x.org\n"""\n')
        report = forge.backup(tmp_path / "b.zip")
    assert any(each.startswith("ragforge.toml as a whole") for each in report.left_out)
    done = restored(report.file, tmp_path / "new")
    assert (tmp_path / "new" / "ragforge.toml").read_text() == "" and len(done.notices) == len(report.left_out)


def test_a_backup_chooses_no_folder_to_write_to(forge: Ragforge, embedder: WatchedEmbedder, tmp_path: Path) -> None:
    asked = [Question("q1", "word1 word2", {"file0001.md": 1.0})]
    with forge._parts.catalog.write() as c:
        c.evaluations.put_questions(owner(), forge.project("p").id, "mine", str(tmp_path / "chosen"), asked)
    restored(forge.backup(tmp_path / "b.zip").file, tmp_path / "new")
    with reopened(tmp_path / "new", embedder) as again:
        (known,) = again.question_sets(project="p")
        assert (known.name, known.folder) == ("mine", "")
        assert isinstance(list(again.evaluating("mine", project="p"))[-1], Run)


def test_a_damaged_workspace_is_replaced_too(forge: Ragforge, embedder: WatchedEmbedder, tmp_path: Path) -> None:
    file = forge.backup(tmp_path / "b.zip").file
    forge.close()
    (forge.workspace / "catalog.db").write_bytes(b"this is no database" * 1000)
    done = restored(file, forge.workspace, replacing=True)
    assert any("may be back" in notice for notice in done.notices)
    with reopened(forge.workspace, embedder) as again:
        assert len(again.documents(project="p")) == 6 and faults(again) == []


def test_a_place_that_cannot_be_had_leaves_nothing_behind(
    forge: Ragforge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    file = forge.backup(tmp_path / "b.zip").file
    (tmp_path / "place").mkdir()

    def refuse(before: object, after: object) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(StoreError):
        restored(file, tmp_path / "place" / "new")
    assert list((tmp_path / "place").iterdir()) == []


# -- Postgres


def test_from_a_file_to_a_server_and_back(
    forge: Ragforge, embedder: WatchedEmbedder, tmp_path: Path, postgres: TemporaryPostgres
) -> None:
    upload = forge.upload(fill(tmp_path / "up", 21)[20], project="p").id
    before = state(forge)
    file, url = forge.backup(tmp_path / "b.zip").file, postgres.create()
    settings = load(tmp_path / "pg", flags={"the test": {"store.database_url": url}})
    with pytest.raises(UserError, match="not replaced") as refused:
        list(Ragforge.restoring(file, settings, replacing=True))
    assert "empty database" in refused.value.hint
    broken = rewritten(file, tmp_path / "bad.zip", {"catalog/changes.jsonl": b'{"seq": "x"}\n'})
    with pytest.raises(CorruptStore):
        list(Ragforge.restoring(broken, settings))
    assert not (tmp_path / "pg").exists()
    *_, done = Ragforge.restoring(file, settings)
    assert isinstance(done, RestoreReport) and (done.documents, done.uploads) == (6, 1)
    with Ragforge.open(settings, embedders={"hashing": embedder}) as served:
        assert state(served) == before
        assert faults(served) == []
        served.add(fill(tmp_path / "more", 8, 6)[6:], project="p")  # numbers go on after those that came
        list(served.removing([served.documents(project="p")[0].id], project="p"))
        after = state(served)
        again = served.backup(tmp_path / "pg.zip")
        assert again.uploads == 1
        with pytest.raises(UserError, match="not empty"):
            list(Ragforge.restoring(file, settings))
    restored(again.file, tmp_path / "back")
    with reopened(tmp_path / "back", embedder) as back:
        assert state(back) == after
        assert faults(back) == []
        worked_off(back)
        assert back.job(upload).state is JobState.DONE and len(back.documents(project="p")) == 8
    postgres.drop(url)


# -- the command line


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_forge(tmp_path / "ws") as forge:
        forge.add(fill(tmp_path / "docs", 2), project="p")
    shell = Shell(tmp_path / "ws", capsys)
    file = str(tmp_path / "b.zip")
    assert shell.json("backup", file)["backup"]["documents"] == 2
    assert "exists already" in shell.run("backup", file, code=2).stderr
    assert "already" in shell.run("restore", file, code=2).stderr
    said = shell.run("restore", file, "--replace").stderr
    assert "2 files" in said and "The workspace as it was" in said
    new = Shell(tmp_path / "new", capsys)
    assert new.json("restore", file)["restored"]["documents"] == 2
    assert new.json("check")["ok"]
    (tmp_path / "b.zip").write_bytes(b"PK")
    assert "damaged" in Shell(tmp_path / "x", capsys).run("restore", file, code=8).stderr
    assert shell.run("restore", str(tmp_path / "none.zip"), code=5)


def test_ten_thousand_chunks_are_back_within_seconds(tmp_path: Path) -> None:
    files = count(10, 300)
    with open_forge(tmp_path / "ws") as forge:
        forge.add(fill(tmp_path / "docs", files, 170), project="p")
        chunks = sum(document.chunks for document in forge.documents(project="p"))
        file = forge.backup(tmp_path / "b.zip").file
    began = time.monotonic()
    restored(file, tmp_path / "new")
    seconds = time.monotonic() - began
    record("restore", chunks=chunks, seconds=round(seconds, 2))
    assert seconds < 10 * max(1, chunks / 10_000)
