"""What people and machines get wrong: each ends in one clear sentence with the next step, and nothing is lost."""

from __future__ import annotations

import ctypes
import fcntl
import io
import json
import os
import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pypdf
import pytest

from ragforge import Ragforge
from ragforge.domain.documents import Reason
from ragforge.domain.library import AddReport, FileResult, Outcome, Progress
from ragforge.errors import Busy, CorruptStore, RagforgeError, UserError
from ragforge.interfaces.cli.main import main
from tests.forge import WatchedEmbedder, faults, fill, open_forge, prose, text_of
from tests.pdf_files import pdf


def clear(message: str, hint: str) -> bool:
    """One sentence a person understands, and the next step."""
    return bool(message) and bool(hint) and "\n" not in message and "Traceback" not in message and len(message) < 300


def only_failure(report: AddReport) -> FileResult:
    (failed,) = report.failed
    assert clear(failed.message, failed.hint), failed
    return failed


# -- paths


@pytest.mark.parametrize("path", ["missing.md", "missing/folder", "~nobody-of-that-name/x.md", "a\0b.md", "x" * 5000])
def test_a_path_that_is_not_there(swift_path: Path, path: str) -> None:
    with open_forge(swift_path / "workspace") as forge:
        report = forge.add([path, *fill(swift_path / "docs", 1)], project="p")
        assert only_failure(report).reason is Reason.UNREADABLE
        assert report.count(Outcome.READY) == 1


def test_links_in_a_circle_end(swift_path: Path) -> None:
    docs = swift_path / "docs"
    fill(docs / "below", 2)
    (docs / "below" / "up").symlink_to(docs)
    (docs / "again").symlink_to(docs / "below")
    (docs / "self").symlink_to("self")
    with open_forge(swift_path / "workspace") as forge:
        report = forge.add(docs, project="p")
        assert report.count(Outcome.READY) == 2
        assert Path(only_failure(report).path).name == "self"


def test_names_that_would_do_harm(swift_path: Path) -> None:
    docs = os.fsencode(swift_path / "docs")
    os.mkdir(docs)
    names = [
        b"up\\..\\..\\etc\\passwd.md",
        b"two\nlines.md",
        b"tab\tand\x1b[31mred\x07.md",
        b"bad\xff.md",
        b"bad\xfe.md",
        b"x" * 252 + b".md",
        "ü".encode() * 126 + b".md",
        b"-n.md",
        b"' OR 1=1; --.md",
        b"%s{0}$HOME.md",
        "﷽‮evil.md".encode(),
    ]
    for number, name in enumerate(names):
        Path(os.fsdecode(docs + b"/" + name)).write_text(prose(number))
    with open_forge(swift_path / "workspace") as forge:
        report = forge.add(os.fsdecode(docs), project="p")
        assert report.failed == () and report.count(Outcome.READY) == len(names)
        for document in forge.documents(project="p"):
            assert document.name.isprintable() and len(document.name) <= 255
            document.sources[0].key.encode()  # text that every store can hold
        assert forge.add(os.fsdecode(docs), project="p").count(Outcome.UNCHANGED) == len(names)
        removed = [e for e in forge.syncing(os.fsdecode(docs), project="p") if isinstance(e, FileResult)]
        assert {event.outcome for event in removed} == {Outcome.UNCHANGED}
        assert sorted(os.listdir(swift_path)) == ["docs", "workspace"] and faults(forge) == []


def test_our_own_files_are_never_taken(swift_path: Path) -> None:
    fill(swift_path / "docs", 2)
    workspace = swift_path / "docs" / "workspace"
    with open_forge(workspace) as forge:
        forge.add(swift_path / "docs", project="p")
        (swift_path / "docs" / "stored").symlink_to(workspace / "uploads")
        (swift_path / "docs" / "catalog").symlink_to(workspace / "catalog.db")
        report = forge.add(swift_path / "docs", project="p")
        assert report.count(Outcome.UNCHANGED) == len(report.files) == 2
        for path in (workspace, workspace / "uploads", workspace / "catalog.db", swift_path / "docs" / "stored"):
            assert "workspace" in only_failure(forge.add(path, project="p")).message
        assert len(forge.documents(project="p")) == 2


# -- files


def test_a_file_of_two_gigabytes_is_not_read(swift_path: Path) -> None:
    path = swift_path / "huge.md"
    with path.open("wb") as file:
        file.truncate(2 << 30)
    with open_forge(swift_path / "workspace") as forge:
        began = time.monotonic()
        failed = only_failure(forge.add(path, project="p"))
        assert time.monotonic() - began < 2
        assert failed.reason is Reason.TOO_LARGE and "100 MB" in failed.message and "2.1 GB" in failed.message
        assert list((swift_path / "workspace" / "uploads").glob("*/*/*")) == []


def test_a_file_that_grows_over_the_limit_while_it_is_read(swift_path: Path) -> None:
    path = swift_path / "log.md"
    path.write_text(prose(1))
    with open_forge(swift_path / "workspace", limits__file_bytes=10_000) as forge:
        report = during_add(forge, path, lambda: path.write_text(prose(1) * 100))
        assert only_failure(report).reason is Reason.TOO_LARGE
        assert list((swift_path / "workspace" / "uploads").glob("*/*/*")) == [] and faults(forge) == []


def during_add(forge: Ragforge, path: Path, happening: Callable[[], object]) -> AddReport:
    """Add; let something happen after the files were found and before they are read."""
    results: list[FileResult] = []
    waiting = True
    for event in forge.adding([path], project="p"):
        if isinstance(event, Progress) and waiting:
            waiting = False
            happening()
        elif isinstance(event, FileResult):
            results.append(event)
    return AddReport(tuple(results), 0)


def test_a_file_that_vanishes_grows_or_becomes_another_thing_before_it_is_read(swift_path: Path) -> None:
    docs = swift_path / "docs"
    fill(docs, 6)

    def change() -> None:
        (docs / "file0000.md").unlink()
        with (docs / "file0001.md").open("a") as file:
            file.write("\nOne more line at the end.\n")
        (docs / "file0002.md").unlink()
        os.mkfifo(docs / "file0002.md")
        (docs / "file0003.md").unlink()
        (docs / "file0003.md").mkdir()

    with open_forge(swift_path / "workspace") as forge:
        report = during_add(forge, docs, change)
        assert {Path(f.path).name for f in report.failed} == {"file0000.md", "file0002.md", "file0003.md"}
        assert all(clear(f.message, f.hint) and f.reason is Reason.UNREADABLE for f in report.failed)
        assert report.count(Outcome.READY) == 3
        assert "One more line" in text_of(forge, "file0001.md")
        again = forge.add(docs, project="p")
        assert again.count(Outcome.UNCHANGED) == len(again.files) == 3 and faults(forge) == []


def test_pipes_sockets_and_devices(swift_path: Path) -> None:
    docs = swift_path / "docs"
    fill(docs, 1)
    os.mkfifo(docs / "pipe.md")
    (docs / "zeros.md").symlink_to("/dev/zero")
    with open_forge(swift_path / "workspace") as forge, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(docs / "socket.md"))
        report = forge.add(docs, project="p")
        assert report.count(Outcome.READY) == len(report.files) == 1, "in a folder they are passed over"
        for name in ("pipe.md", "zeros.md", "socket.md"):
            assert "regular file" in only_failure(forge.add(docs / name, project="p")).message


def test_an_encrypted_file_and_one_that_another_program_holds(swift_path: Path) -> None:
    docs = swift_path / "docs"
    docs.mkdir()
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf([[(72, 700, "Secret words.")]])))
    writer.encrypt("password", algorithm="RC4-128")
    writer.write(docs / "locked.pdf")
    (docs / "held.md").write_text(prose(1))
    with open_forge(swift_path / "workspace") as forge, (docs / "held.md").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        report = forge.add(docs, project="p")
        failed = only_failure(report)
        assert failed.reason is Reason.ENCRYPTED and "password" in f"{failed.message} {failed.hint}"
        assert report.count(Outcome.READY) == 1


def without_privileges(work: Callable[[], None]) -> int:
    """Run in a forked process that may not read everything, even if we are root. Its exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        header = (ctypes.c_uint32 * 2)(0x20080522, 0)
        if os.geteuid() == 0:
            ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)())
        work()
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def test_files_and_folders_without_permission(swift_path: Path) -> None:
    docs = swift_path / "docs"
    fill(docs, 2)
    fill(docs / "closed", 2)
    with open_forge(swift_path / "workspace") as forge:
        forge.add(docs, project="p")
    (docs / "secret.md").write_text(prose(9))
    (docs / "secret.md").chmod(0)
    (docs / "closed").chmod(0)

    def look() -> None:
        with open_forge(swift_path / "workspace") as forge:
            report = forge.add(docs, project="p")
            assert {Path(f.path).name for f in report.failed} == {"secret.md", "closed"}
            assert all("permission" in f.message and clear(f.message, f.hint) for f in report.failed)
            before = len(forge.documents(project="p"))
            list(forge.syncing(docs, project="p"))
            assert len(forge.documents(project="p")) == before, "what cannot be seen is not gone"

    try:
        assert without_privileges(look) == 0
    finally:
        (docs / "closed").chmod(0o700)


def test_a_workspace_that_may_not_be_written(swift_path: Path) -> None:
    fill(swift_path / "docs", 1)
    workspace = swift_path / "workspace"
    with open_forge(workspace) as forge:
        forge.add(swift_path / "docs", project="p")
    folders = [workspace, *(path for path in workspace.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o500)
    (swift_path / "docs" / "new.md").write_text(prose(7))

    def add() -> None:
        with pytest.raises(RagforgeError) as refused, open_forge(workspace) as forge:
            forge.add(swift_path / "docs", project="p")
        assert refused.value.exit_code == 8 and clear(refused.value.message, refused.value.hint)

    try:
        assert without_privileges(add) == 0
    finally:
        for folder in folders:
            folder.chmod(0o700)
    with open_forge(workspace) as forge:
        assert forge.add(swift_path / "docs", project="p").count(Outcome.READY) == 1
        assert faults(forge) == []


def test_a_workspace_where_none_can_be(swift_path: Path) -> None:
    (swift_path / "file").write_text("a file")
    (swift_path / "full").mkdir()
    (swift_path / "full" / "thing.txt").write_text("not ours")
    for place in ("file", "file/below", "full"):
        with pytest.raises(UserError) as refused:
            Ragforge.open(swift_path / place)
        assert clear(refused.value.message, refused.value.hint)
    assert os.listdir(swift_path / "full") == ["thing.txt"]


# -- the store


@pytest.mark.parametrize("damage", ["junk", "half", "empty", "gone", "zeros in the middle"])
def test_a_damaged_catalog_is_told_and_nothing_is_deleted(swift_path: Path, damage: str) -> None:
    workspace = swift_path / "workspace"
    files = fill(swift_path / "docs", 40)
    with open_forge(workspace) as forge:
        forge.add(swift_path / "docs", project="p")
    catalog = workspace / "catalog.db"
    whole = catalog.read_bytes()
    changed = {
        "junk": b"no database at all " * 1000,
        "half": whole[: len(whole) // 2],
        "empty": b"",
        "gone": b"",
        "zeros in the middle": whole[:4096] + bytes(len(whole) - 4096),
    }
    catalog.write_bytes(changed[damage])
    if damage == "gone":
        catalog.unlink()
    (workspace / "inflight" / "1-abcd").touch()  # as after a kill: the next command clears up
    with pytest.raises(CorruptStore) as refused, open_forge(workspace) as forge:
        forge.add(swift_path / "docs", project="p")
        assert forge.check() == []
    assert refused.value.exit_code == 8 and clear(refused.value.message, refused.value.hint)
    assert "backup" in refused.value.hint
    assert len(list((workspace / "uploads").glob("*/*/*"))) == len(files), "stored files stay"
    for extra in workspace.glob("catalog.db*"):
        extra.unlink()
    catalog.write_bytes(whole)
    with open_forge(workspace) as forge:
        assert forge.add(swift_path / "docs", project="p").count(Outcome.UNCHANGED) == len(files)
        assert faults(forge) == []


def test_stored_bytes_that_rot_are_found(swift_path: Path) -> None:
    fill(swift_path / "docs", 2)
    with open_forge(swift_path / "workspace") as forge:
        forge.add(swift_path / "docs", project="p")
        first, second = (swift_path / "workspace" / "uploads").glob("*/*/*")
        first.write_bytes(b"rotten")
        second.unlink()
        (bad,) = faults(forge)
        assert "(changed)" in bad.detail and "(missing)" in bad.detail and bad.hint


def test_another_process_that_writes_too_long(swift_path: Path) -> None:
    fill(swift_path / "docs", 1)
    workspace = swift_path / "workspace"
    with open_forge(workspace):
        pass
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        try:
            with open_forge(workspace) as forge, forge._parts.catalog.write():
                os.write(ready[1], b"r")
                os.read(go[0], 1)
        finally:
            os._exit(0)
    os.read(ready[0], 1)
    with open_forge(workspace, store__busy_seconds=0.3) as forge:
        began = time.monotonic()
        with pytest.raises(Busy) as refused:
            forge.add(swift_path / "docs", project="p")
        assert 0.2 < time.monotonic() - began < 5
        assert refused.value.exit_code == 8 and clear(refused.value.message, refused.value.hint)
        assert forge.documents(project="p") == [], "readers go on"
        os.write(go[1], b"g")
        os.waitpid(child, 0)
        assert forge.add(swift_path / "docs", project="p").count(Outcome.READY) == 1
    for end in (*ready, *go):
        os.close(end)


def test_check_does_not_take_what_another_process_is_adding(swift_path: Path) -> None:
    fill(swift_path / "docs", 8)
    workspace = swift_path / "workspace"
    findings = []
    embedder = WatchedEmbedder()
    with open_forge(workspace, embedder) as forge, open_forge(workspace) as other:
        embedder.before = lambda: findings.extend(other.check(repair=True))
        assert forge.add(swift_path / "docs", project="p").count(Outcome.READY) == 8
        assert findings and all(finding.ok for finding in findings)
        assert faults(forge) == []


# -- the command line


def command(capture: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str]:
    capture.readouterr()
    code = main([str(argument) for argument in arguments])
    return code, capture.readouterr().err


def test_the_command_line_says_it_in_one_sentence_with_the_right_code(
    swift_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(swift_path)
    monkeypatch.setenv("RAGFORGE_WORKSPACE", str(swift_path / "workspace"))
    monkeypatch.setenv("RAGFORGE_EMBED__MODEL", "wordllama")
    docs = swift_path / "docs"
    fill(docs, 2)
    (docs / "empty.md").touch()
    Path(os.fsdecode(os.fsencode(docs) + b"/bad\xff.md")).write_text(prose(5))
    code, errors = command(capsys, "add", "docs")
    assert code == 3 and "empty" in errors and "Traceback" not in errors
    code, errors = command(capsys, "add", "docs", "--json", "--retry")
    assert code == 3
    code, errors = command(capsys, "ls", "--json")
    assert code == 0
    for arguments, expected in [
        (("add", "nothing-here.md"), 5),
        (("ls", "--project", "nobody"), 5),
        (("show", "nothing"), 5),
        (("add", "docs", "--set", "limits.file_bytes=lots"), 2),
        (("ls", "--workspace", docs / "empty.md"), 2),
        (("add", "docs", "--workspace", docs / "empty.md" / "below"), 2),
        (("sync", "docs/empty.md"), 2),
        (("project", "new", "!!!"), 2),
    ]:
        code, errors = command(capsys, *arguments)
        assert code == expected, (arguments, code, errors)
        lines = errors.strip().splitlines()
        assert lines[0].startswith("Error: ") and lines[1].startswith("Next: ") and len(lines) == 2, errors
    shutil.copy(swift_path / "workspace" / "catalog.db", swift_path / "whole.db")
    (swift_path / "workspace" / "catalog.db").write_bytes(b"junk" * 5000)
    code, errors = command(capsys, "ls")
    assert code == 8 and "is damaged" in errors and "backup" in errors


def test_json_of_a_name_that_is_no_text_can_be_read(
    swift_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(swift_path)
    monkeypatch.setenv("RAGFORGE_EMBED__MODEL", "wordllama")
    Path(os.fsdecode(b"bad\xff.md")).write_text(prose(5))
    assert main(["add", "--json", "--workspace", "workspace", os.fsdecode(b"bad\xff.md")]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert first["outcome"] == "ready" and "bad" in first["path"]


def test_a_project_is_named_as_people_write(swift_path: Path) -> None:
    fill(swift_path / "docs", 1)
    with open_forge(swift_path / "workspace", embed__model="hashing") as forge:
        assert forge.add(swift_path / "docs", project="My Papers").count(Outcome.READY) == 1
        assert forge.add(swift_path / "docs", project="My Papers").count(Outcome.UNCHANGED) == 1
        assert forge.project("my-papers").name == "My Papers"
