"""What a second look at the indexes' following, leaving and healing found."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from ragforge import Ragforge
from ragforge.adapters.vectors.chroma_http import ChromaHttp
from ragforge.adapters.vectors.chroma_rows import Gone
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.library import FileResult, Outcome
from ragforge.domain.retrieval import Moment
from ragforge.testing.chroma import TemporaryChroma
from tests.forge import faults, fill, open_forge

AWAY = "http://127.0.0.1:9"
"""Where nobody listens."""


def moment(forge: Ragforge) -> Moment:
    with forge._parts.catalog.read() as c:
        return c.passages.moment(forge._scope, forge.project("p").id)


def folders(forge: Ragforge) -> set[str]:
    return {folder.name for folder in forge.workspace.glob("indexes/*/*/*")}


# -- engines that are not chosen any more


@pytest.mark.parametrize("engine", ["chroma", "qdrant"])
def test_an_engine_that_moved_to_a_server_leaves_no_folder(swift_path: Path, engine: str) -> None:
    with open_forge(swift_path / "workspace", index__vectors=engine) as forge:
        forge.add(fill(swift_path / "docs", 3), project="p")
        assert folders(forge) == {"keywords", engine}
    with open_forge(swift_path / "workspace", index__vectors=engine, index__url=AWAY) as forge:
        (removal,) = forge.removing(["file0001.md"], project="p")
        assert engine not in folders(forge)
        (place,) = removal.pending
        assert place.startswith(f"{engine} index: the {engine.capitalize()} server at {AWAY} does not answer")
        assert "is the server running?" in place and not removal.erased


def test_the_log_is_not_kept_for_an_engine_that_is_gone(swift_path: Path) -> None:
    with open_forge(swift_path / "workspace", index__vectors="qdrant") as forge:
        forge.add(fill(swift_path / "docs", 3), project="p")
    with open_forge(swift_path / "workspace") as forge:
        list(forge.removing(["file0001.md"], project="p"))
        forge.add(fill(swift_path / "more", 6)[3:], project="p")
        now = moment(forge)
        assert now.forgotten == now.seq - 1


def test_a_project_that_is_removed_leaves_its_server(swift_path: Path) -> None:
    with TemporaryChroma() as server:
        at_server: dict[str, Any] = {"index__vectors": "chroma", "index__url": server.url}
        with open_forge(swift_path / "workspace", **at_server) as forge:
            forge.add(fill(swift_path / "docs", 3), project="p")
            name = f"ragforge-{forge.project('p').id}-1"
        http = ChromaHttp(server.url, 10)
        current = http.get_collection(name).metadata["current"]
        with open_forge(swift_path / "workspace", **at_server) as forge:
            forge.remove_project("p")
        for gone in (name, current):
            with pytest.raises(Gone):
                http.get_collection(gone)
        http.close()


def test_a_folder_that_cannot_be_removed_is_told(swift_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_forge(swift_path / "workspace") as forge:
        forge.add(fill(swift_path / "docs", 3), project="p")
        (stuck,) = forge.workspace.glob("indexes/*/1")
        stuck = stuck.rename(stuck.with_name("7"))
        remove = shutil.rmtree

        def refuse(path: Path, **how: object) -> None:
            if path == stuck:
                raise PermissionError(13, "Permission denied")
            remove(path)

        monkeypatch.setattr(shutil, "rmtree", refuse)
        (removal,) = forge.removing(["file0001.md"], project="p")
        assert removal.pending == (f"{stuck.relative_to(forge.workspace)}: Permission denied",)
        (fault,) = faults(forge)
        assert fault.subject == "indexes nobody uses" and "Permission denied" in fault.detail and fault.hint
        monkeypatch.undo()
        assert faults(forge) == [] and not stuck.exists()


def test_an_index_misses_nothing_that_was_pruned_while_it_was_read(swift_path: Path) -> None:
    """On two machines with one catalog, the other may be further and prune what this index has not seen."""
    with open_forge(swift_path / "workspace") as forge:
        forge.add(fill(swift_path / "docs", 3), project="p")
        behind = moment(forge).seq
        forge.add(fill(swift_path / "more", 9)[3:], project="p")
        assert moment(forge).forgotten > behind
        for lane in forge._flows.follow._lanes(moment(forge)):
            with lane.index.writing(blocking=True):
                lane.index.rebuild([], behind)
                forge._flows.follow._step(lane, moment(forge), behind, Cancel())
            reader = lane.index.pin()
            assert reader.rows == sum(document.chunks for document in forge.documents(project="p"))
            reader.release()


# -- an engine that cannot be used


@pytest.mark.parametrize(
    ("engine", "url", "package"),
    [("qdrant", "", "qdrant_client"), ("qdrant", AWAY, "qdrant_client"), ("chroma", AWAY, "httpx")],
)
def test_a_package_that_is_missing_is_said_and_words_are_searched(
    swift_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, url: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with open_forge(swift_path / "workspace", index__vectors=engine, index__url=url) as forge:
        assert forge.add(fill(swift_path / "docs", 3), project="p").failed == ()
        (notice,) = forge.notices
        found = forge.search("Page 2", project="p")
        (missing,) = found.degraded
        assert found.passages[0].name == "file0002.md" and missing.part == "vectors"
        for told in (notice, f"{missing.message} {missing.hint}"):
            assert "is not installed" in told and f'pip install "ragforge[{engine}]"' in told
            assert "choose the snapshot index" in told
        (removal,) = forge.removing(["file0001.md"], project="p")
        assert "is not installed" in removal.pending[0]


@pytest.mark.parametrize("engine", ["chroma", "qdrant"])
def test_a_folder_that_another_process_uses_is_said(swift_path: Path, engine: str) -> None:
    chosen: dict[str, Any] = {"index__vectors": engine}
    with open_forge(swift_path / "workspace", **chosen) as owner:
        owner.add(fill(swift_path / "docs", 3), project="p")
        with open_forge(swift_path / "workspace", **chosen) as other:
            (missing,) = other.search("Page 2", project="p").degraded
            assert f"another process uses this {engine.capitalize()}" in missing.message
            assert "end the other process" in missing.hint and "in the settings" in missing.hint
            (removal,) = other.removing(["file0001.md"], project="p")
            assert removal.pending[0].startswith(f"{engine} index: another process uses") and not removal.remains


# -- what sync leaves behind


def test_sync_says_what_is_not_erased_yet(swift_path: Path) -> None:
    docs = fill(swift_path / "docs", 4)
    chosen: dict[str, Any] = {"index__vectors": "qdrant", "index__url": AWAY}
    with open_forge(swift_path / "workspace", **chosen) as forge:
        forge.add(swift_path / "docs", project="p")
        forge.notices.clear()
        docs[0].unlink()
        events = forge.syncing(swift_path / "docs", project="p")
        assert [e.path for e in events if isinstance(e, FileResult) and e.outcome is Outcome.REMOVED] == [str(docs[0])]
        (notice,) = forge.notices
        assert notice.startswith("removed files are not erased yet from qdrant index: the Qdrant server")
        assert notice.endswith("ragforge check finishes it")


def test_sync_says_that_the_log_is_read(swift_path: Path) -> None:
    docs = fill(swift_path / "docs", 4)
    with open_forge(swift_path / "workspace") as forge, open_forge(swift_path / "workspace") as other:
        forge.add(swift_path / "docs", project="p")
        docs[0].unlink()
        with other._parts.catalog.read() as c:
            c.projects.all(other._scope)
            list(forge.syncing(swift_path / "docs", project="p"))
        (notice,) = forge.notices
        assert "catalog.db-wal: another process reads the catalog" in notice
        forge.notices.clear()
        docs[1].unlink()
        list(forge.syncing(swift_path / "docs", project="p"))
        assert forge.notices == []


# -- waiting for another process


@contextmanager
def written_by_another(forge: Ragforge) -> Iterator[None]:
    """Another process that has the right to write, as it seems to this one."""
    held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with open_forge(forge.workspace) as other, other._parts.indexes(moment(other)).keywords.writing(blocking=True):
            held.set()
            let_go.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    try:
        yield
    finally:
        let_go.set()
        thread.join()


WAITS: dict[str, Callable[[Ragforge, Path, Cancel], object]] = {
    "add": lambda forge, docs, cancel: forge.add(docs, project="p", cancel=cancel),
    "sync": lambda forge, docs, cancel: list(forge.syncing(docs, project="p", cancel=cancel)),
    "rebuild": lambda forge, docs, cancel: list(forge.rebuilding(project="p", cancel=cancel)),
}


@pytest.mark.parametrize("name", WAITS)
def test_waiting_for_another_writer_ends_when_cancelled(swift_path: Path, name: str) -> None:
    docs = fill(swift_path / "docs", 6)
    with open_forge(swift_path / "workspace") as forge:
        forge.add(docs[:3], project="p")
        docs[0].unlink()
        with written_by_another(forge):
            cancel = Cancel(deadline_seconds=1.5)
            began = time.monotonic()
            with pytest.raises(Cancelled) if name == "rebuild" else nullcontext():  # files that are added are durable
                WAITS[name](forge, swift_path / "docs", cancel)
            assert 1.4 < time.monotonic() - began < 4
            assert [notice for notice in forge.notices if "it was stopped" in notice] == forge.notices
            assert bool(forge.notices) == (name == "sync")
        assert forge.search("Page 2", project="p").passages[0].name == "file0002.md"
        list(forge.rebuilding(project="p"))
        assert faults(forge) == []


@pytest.mark.parametrize("command", [("add", "docs"), ("rebuild",), ("rm", "file0001.md", "--yes")])
def test_ctrl_c_ends_a_command_that_waits(swift_path: Path, command: tuple[str, ...]) -> None:
    workspace = swift_path / "workspace"
    docs = fill(swift_path / "docs", 3)
    with Ragforge.open(workspace) as forge:
        forge.create_project("p", embedder="wordllama")
        forge.add(docs, project="p")
        docs[0].write_text("# Another\n\nText about nothing.\n")
        with written_by_another(forge):
            program = [sys.executable, "-c", "from ragforge.interfaces.cli.main import main; raise SystemExit(main())"]
            process = subprocess.Popen(
                [*program, *command, "-w", str(workspace), "-p", "p"],
                cwd=swift_path,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
            while not list(workspace.glob("inflight/*-*")):  # it is at work now, and soon at the index
                time.sleep(0.05)
            time.sleep(1.5)
            assert process.poll() is None, process.communicate()[0]
            process.send_signal(signal.SIGINT)
            began = time.monotonic()
            output, _ = process.communicate(timeout=20)
            assert process.returncode == 130 and time.monotonic() - began < 3, output


def test_a_rebuild_that_is_cancelled_keeps_the_old_index(swift_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ragforge.flows import follow

    monkeypatch.setattr(follow, "STEP", 4)
    with open_forge(swift_path / "workspace") as forge:
        forge.add(fill(swift_path / "docs", 10), project="p")
        cancel, asked = Cancel(), []
        read = follow.keyword_rows

        def interrupted(*given: object) -> object:
            asked.append(given)
            if len(asked) == 2:
                cancel.set()
            return read(*given)  # type: ignore[arg-type]

        monkeypatch.setattr(follow, "keyword_rows", interrupted)
        with pytest.raises(Cancelled):
            list(forge.rebuilding(project="p", cancel=cancel))
        assert len(asked) == 2
        assert forge.search("Page 7", project="p").degraded == () and faults(forge) == []


# -- damage is told


def damaged(folder: Path) -> None:
    for path in sorted(folder.glob("*/*")):
        data = bytearray(path.read_bytes())
        if data:
            data[len(data) // 2] ^= 1
            path.write_bytes(data)


@pytest.mark.parametrize("harm", [damaged, shutil.rmtree])
@pytest.mark.parametrize("names", [("keywords",), ("vectors",), ("keywords", "vectors")])
def test_damage_is_told_once_whenever_it_was_healed(
    swift_path: Path, names: tuple[str, ...], harm: Callable[[Path], object]
) -> None:
    workspace = swift_path / "workspace"
    with open_forge(workspace) as forge:
        forge.add(fill(swift_path / "docs", 12), project="p")
        assert forge.search("Page 7", project="p").notice == ""
    for name in names:
        (folder,) = workspace.glob(f"indexes/*/*/{name}")
        harm(folder)
    with open_forge(workspace) as forge:
        first = forge.search("Page 7", project="p")
        forge._flows.follow.finish()
        second, third = (forge.search("Page 7", project="p", fresh=True) for _ in range(2))
        assert first.passages
        told = [*(missing.message for missing in first.degraded), first.notice]
        assert all(any(engine in text and "built anew" in text for text in told) for engine in _engines(names))
        assert second.degraded == () and third.degraded == () and third.notice == ""
        assert ("built anew" in second.notice) == bool(first.degraded)


def _engines(names: tuple[str, ...]) -> list[str]:
    return [{"keywords": "tantivy", "vectors": "snapshot"}[name] for name in names]


def test_damage_that_an_add_meets_is_told(swift_path: Path) -> None:
    with open_forge(swift_path / "workspace") as forge:
        forge.add(fill(swift_path / "docs", 3), project="p")
        (folder,) = forge.workspace.glob("indexes/*/*/keywords")
        shutil.rmtree(folder)
        assert forge.notices == []
        forge.add(fill(swift_path / "more", 6)[3:], project="p")
        (notice,) = forge.notices
        assert "tantivy" in notice and notice.endswith("it was built anew")
        assert forge.search("Page 2", project="p").notice == ""
