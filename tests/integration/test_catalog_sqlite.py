"""The catalog's SQLite file: how it is opened, shared between processes, broken, and what it leaves behind."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragforge.adapters.catalog.catalog import SqlCatalog
from ragforge.adapters.catalog.database import SAFE_SQLITE, Database
from ragforge.errors import Busy, CorruptStore, StoreError
from ragforge.operate.access import owner
from ragforge.testing.shelf import Shelf, file, vectors

SECRET = "the vault's number is QUOKKA-7301-ZEBU and nobody else may know it"


def now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def opened(path: Path, busy_seconds: float = 30.0) -> SqlCatalog:
    return SqlCatalog.open(path / "catalog.db", now, busy_seconds)


def process(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Python code in a process of its own, with the names every such process needs."""
    head = """
        import datetime as dt, os, sys, time
        from pathlib import Path
        from ragforge.adapters.catalog.catalog import SqlCatalog
        from ragforge.errors import *
        from ragforge.operate.access import owner
        def opened(path, busy_seconds=30.0):
            return SqlCatalog.open(Path(path) / "catalog.db", lambda: dt.datetime.now(dt.UTC), busy_seconds)
    """
    script = textwrap.dedent(head) + textwrap.dedent(code)
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ended(child: subprocess.Popen[str]) -> str:
    """What the process said; it must have ended well."""
    output, _ = child.communicate(timeout=120)
    assert child.returncode == 0, output
    return output


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    catalog = opened(tmp_path)
    yield catalog
    catalog.close()


# -- how connections are set up


def pragmas(database: Database) -> dict[str, object]:
    names = ("journal_mode", "synchronous", "secure_delete", "foreign_keys")
    with database.engine.connect() as connection:
        return {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names}


def test_every_connection_is_durable_and_thorough(tmp_path: Path, catalog: SqlCatalog) -> None:
    database = Database.sqlite(tmp_path / "catalog.db", 1)
    expected = {"journal_mode": "wal", "synchronous": 2, "secure_delete": 1, "foreign_keys": 1}
    assert pragmas(database) == expected
    with database.read(), database.read():
        assert pragmas(database) == expected
    assert database.checkpoint()
    assert pragmas(database) == expected
    database.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a wheel with a newer SQLite")
def test_sqlite_is_one_that_processes_can_share(catalog: SqlCatalog) -> None:
    (version,) = [finding for finding in catalog.inspect() if finding.subject == "SQLite version"]
    assert version.ok
    assert tuple(map(int, version.detail.split("."))) >= SAFE_SQLITE


# -- several processes


def test_eight_processes_write_without_a_lock_error(tmp_path: Path, catalog: SqlCatalog) -> None:
    code = """
        catalog = opened(sys.argv[1])
        for number in range(20):
            with catalog.write() as unit:
                unit.jobs.enqueue(owner(), None, "add", [{"worker": sys.argv[2], "number": number}])
        catalog.close()
    """
    children = [process(code, tmp_path, worker) for worker in range(8)]
    for child in children:
        ended(child)
    with catalog.read() as unit:
        jobs = unit.jobs.all(owner())
    assert len({(job.payload["worker"], job.payload["number"]) for job in jobs}) == len(jobs) == 160


def test_turns_of_several_processes_get_numbers_of_their_own(tmp_path: Path, catalog: SqlCatalog) -> None:
    shelf = Shelf.create(catalog)
    with catalog.write() as unit:
        talk = unit.conversations.begin(owner(), shelf.id, "talk").id
    code = """
        from ragforge.domain.conversation import Turn
        catalog = opened(sys.argv[1])
        now = dt.datetime.now(dt.UTC)
        for step in range(10):
            said = Turn(f"{sys.argv[4]}/{step}", sys.argv[3], 0, "question", "answer", now)
            with catalog.write() as unit:
                unit.conversations.add(owner(), sys.argv[2], said, "", None)
        catalog.close()
    """
    children = [process(code, tmp_path, shelf.id, talk, worker) for worker in range(3)]
    for child in children:
        ended(child)
    with catalog.read() as unit:
        turns = unit.conversations.turns(owner(), shelf.id, talk)
    assert [said.number for said in turns] == list(range(1, 31))
    assert len({said.id for said in turns}) == 30


def test_who_waits_too_long_is_told_so(tmp_path: Path, catalog: SqlCatalog) -> None:
    code = """
        catalog = opened(sys.argv[1])
        with catalog.write() as unit:
            unit.jobs.enqueue(owner(), None, "add", [{}])
            print("writing", flush=True)
            sys.stdin.readline()
        catalog.close()
    """
    holder = process(code, tmp_path)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "writing\n"
    hasty = opened(tmp_path, busy_seconds=0.1)
    with pytest.raises(Busy) as busy, hasty.write():
        pass
    assert busy.value.hint
    with hasty.read() as unit:
        assert unit.jobs.all(owner()) == [], "readers are not held up"
    hasty.close()
    holder.communicate("end\n", timeout=60)
    assert holder.returncode == 0
    with catalog.write() as unit:
        assert len(unit.jobs.all(owner())) == 1


def test_a_killed_writer_leaves_no_half_and_no_lock(tmp_path: Path, catalog: SqlCatalog) -> None:
    shelf = Shelf.create(catalog)
    shelf.add("/a", "before")
    code = """
        from ragforge.testing.shelf import Shelf, file
        catalog = opened(sys.argv[1])
        with catalog.read() as unit:
            project = unit.projects.get(owner(), "demo")
        with catalog.write() as unit:
            Shelf(catalog, project).publish_in(unit, file("/a", "after"), file("/b", "new"))
            print("half", flush=True)
            sys.stdin.readline()
    """
    child = process(code, tmp_path)
    assert child.stdout is not None
    assert child.stdout.readline() == "half\n"
    child.kill()
    child.communicate(timeout=60)
    assert shelf.texts() == {"before"}
    shelf.add("/c", "afterwards")
    assert shelf.texts() == {"before", "afterwards"}
    assert shelf.faults() == []


def test_two_processes_open_a_new_workspace_at_once(tmp_path: Path) -> None:
    code = """
        from ragforge.testing.shelf import Shelf
        while not (Path(sys.argv[1]) / "go").exists():
            time.sleep(0.005)
        catalog = opened(sys.argv[1])
        Shelf.create(catalog, sys.argv[2]).add("/a", "text")
        assert all(finding.ok for finding in catalog.inspect())
        catalog.close()
    """
    children = [process(code, tmp_path, name) for name in ("one", "two", "three")]
    (tmp_path / "go").touch()
    for child in children:
        ended(child)
    catalog = opened(tmp_path)
    with catalog.read() as unit:
        assert [project.slug for project in unit.projects.all(owner())] == ["one", "three", "two"]
    assert not (tmp_path / "backups").exists()
    catalog.close()


def test_an_old_sqlite_lets_one_process_write(tmp_path: Path, catalog: SqlCatalog) -> None:
    old = """
        from ragforge.adapters.catalog import database
        database._sqlite_module().sqlite_version_info = (3, 50, 4)
    """
    first = process(
        old
        + """
        catalog = opened(sys.argv[1])
        with catalog.write() as unit:
            unit.jobs.enqueue(owner(), None, "add", [{}])
        print("wrote", flush=True)
        sys.stdin.readline()
    """,
        tmp_path,
    )
    assert first.stdout is not None
    assert first.stdout.readline() == "wrote\n"
    second = (
        old
        + """
        catalog = opened(sys.argv[1])
        with catalog.read() as unit:
            assert len(unit.jobs.all(owner())) == 1
        assert not all(finding.ok for finding in catalog.inspect())
        try:
            with catalog.write():
                print("written")
        except Busy as problem:
            assert "3.50.4" in problem.message and "3.51.3" in problem.hint
            print("refused")
    """
    )
    assert ended(process(second, tmp_path)) == "refused\n"
    first.communicate("end\n", timeout=60)
    assert ended(process(second, tmp_path)) == "written\n"


# -- what can be wrong with the place


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_bytes(b"not a database at all, " * 500)
    with pytest.raises(CorruptStore) as corrupt:
        opened(tmp_path)
    assert "backup" in corrupt.value.hint


def test_damage_inside_the_file_is_found(tmp_path: Path, catalog: SqlCatalog) -> None:
    shelf = Shelf.create(catalog)
    shelf.publish(*(file(f"/{number}", f"{number} " * 300) for number in range(20)))
    assert catalog.flush()
    catalog.close()
    path = tmp_path / "catalog.db"
    data = bytearray(path.read_bytes())
    for page in range(4096 * 3, len(data), 4096):
        data[page : page + 4096] = b"\xa5" * 4096
    path.write_bytes(data)
    with pytest.raises(CorruptStore):
        broken = opened(tmp_path)
        assert all(finding.ok for finding in broken.inspect())
        raise AssertionError("the damage was not seen")


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot write") as refused:
        opened(tmp_path / "missing")
    assert refused.value.hint


def test_a_place_that_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").mkdir()
    with pytest.raises(StoreError, match="cannot write"):
        opened(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="folders have no such permissions there")
@pytest.mark.parametrize("part", ["folder", "file"])
def test_a_workspace_that_may_not_be_written(part: str) -> None:
    """Tried as a user without rights, for root may write anywhere."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        catalog = opened(folder)
        Shelf.create(catalog)
        catalog.close()
        for path in folder.iterdir():
            path.chmod(0o444 if part == "folder" or path.name == "catalog.db" else 0o666)
        folder.chmod(0o555 if part == "folder" else 0o777)
        code = """
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            try:
                with opened(sys.argv[1]).write() as unit:
                    unit.jobs.enqueue(owner(), None, "add", [{}])
            except StoreError as problem:
                assert type(problem) is StoreError and problem.hint, repr(problem)
                print(problem.message.split(":")[0].split("/")[0])
        """
        assert ended(process(code, folder)) == "cannot write \n"
        folder.chmod(0o755)


# -- what is left behind


def test_deleted_text_and_vectors_leave_no_bytes(tmp_path: Path, catalog: SqlCatalog) -> None:
    shelf = Shelf.create(catalog)
    publication = file("/vault.md", SECRET * 40, name="vault.md", size=400)
    shelf.publish(*(file(f"/{number}", f"harmless {number} " * 60) for number in range(10)))
    (published,) = shelf.publish(publication)
    marks = [b"QUOKKA", b"vault.md", *(row.tobytes() for row in vectors(publication.hashes))]
    assert catalog.flush()
    assert {mark for mark in marks if mark in (tmp_path / "catalog.db").read_bytes()} == set(marks)
    shelf.remove(published.document)
    assert catalog.flush()
    for path in tmp_path.iterdir():
        assert [mark for mark in marks if mark in path.read_bytes()] == [], path.name
    assert (tmp_path / "catalog.db-wal").stat().st_size == 0


def test_a_replaced_text_leaves_no_bytes(tmp_path: Path, catalog: SqlCatalog) -> None:
    shelf = Shelf.create(catalog)
    shelf.add("/a", SECRET)
    shelf.add("/a", "nothing to see")
    shelf.reindex("splitter/2", shelf.card, 10)
    assert catalog.flush()
    assert not [path.name for path in tmp_path.iterdir() if b"QUOKKA" in path.read_bytes()]


def test_flush_says_when_a_reader_still_needs_the_log(tmp_path: Path) -> None:
    catalog = opened(tmp_path, busy_seconds=0.05)
    shelf = Shelf.create(catalog)
    with catalog.read() as unit:
        assert unit.documents.all(owner(), shelf.id) == []
        shelf.add("/a", SECRET)
        assert not catalog.flush()
    assert catalog.flush()
    shelf.add("/b", "writing goes on as before")
    assert len(shelf.documents()) == 2
    catalog.close()


def test_threads_wait_for_each_other_without_a_lock_error(tmp_path: Path) -> None:
    """Inside one process the wait has no limit: only another process can be in the way for too long."""
    catalog = opened(tmp_path, busy_seconds=0.01)
    entered = threading.Event()
    done: list[int] = []

    def late() -> None:
        entered.wait()
        with catalog.write() as unit:
            done.append(len(unit.jobs.all(owner())))

    thread = threading.Thread(target=late)
    thread.start()
    with catalog.write() as unit:
        unit.jobs.enqueue(owner(), None, "add", [{}])
        entered.set()
        thread.join(0.3)
        assert done == []
    thread.join()
    assert done == [1]
    catalog.close()
