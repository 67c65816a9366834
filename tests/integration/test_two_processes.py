"""Many threads and many processes on one workspace at once: every document is there once, and nobody fails."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.domain.library import Outcome
from ragforge.domain.strategy import Strategy
from ragforge.settings import load
from ragforge.testing.hashing import HashingEmbedder
from tests.forge import faults, fill, open_forge, prose, text_of
from tests.proof import count, record


def in_processes(number: int, work: Callable[[int], None]) -> list[int]:
    """Fork processes that all begin at once; their exit codes."""
    reading, writing = os.pipe()
    children = []
    for place in range(number):
        child = os.fork()
        if not child:
            code = 1
            try:
                os.close(writing)
                os.read(reading, 1)  # until the parent closes its end
                work(place)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        children.append(child)
    os.close(reading)
    os.close(writing)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def in_threads(number: int, work: Callable[[int], None]) -> list[BaseException]:
    problems: list[BaseException] = []

    def guarded(place: int) -> None:
        try:
            work(place)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=guarded, args=(place,)) for place in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return problems


def new_forge(workspace: Path) -> Ragforge:
    """As a user's first command would: neither workspace nor project need be there."""
    settings = load(workspace, flags={"the test": {"embed.model": "hashing"}})
    return Ragforge.open(settings, embedders={"hashing": HashingEmbedder(64)})


def test_sixteen_threads_add_the_same_folder(swift_path: Path) -> None:
    files = fill(swift_path / "docs", 40)
    with new_forge(swift_path / "workspace") as forge:

        def add(place: int) -> None:
            assert forge.add(swift_path / "docs", project="p").failed == ()

        assert in_threads(16, add) == []
        documents = forge.documents(project="p")
        assert sorted(document.name for document in documents) == [path.name for path in files]
        assert len(list((swift_path / "workspace" / "uploads").glob("*/*/*"))) == len(files)
        assert faults(forge) == []


@pytest.mark.parametrize("round", range(count(1, 25)))
def test_eight_processes_make_a_workspace_and_add_the_same_folder(swift_path: Path, round: int) -> None:
    files = fill(swift_path / "docs", 20)

    def add(place: int) -> None:
        with new_forge(swift_path / "workspace") as forge:
            assert forge.add(swift_path / "docs", project="p").failed == ()

    assert in_processes(8, add) == [0] * 8
    with new_forge(swift_path / "workspace") as forge:
        assert len(forge.documents(project="p")) == len(files)
        assert len(list((swift_path / "workspace" / "uploads").glob("*/*/*"))) == len(files)
        assert faults(forge) == []


def test_processes_that_add_change_remove_reindex_and_check(swift_path: Path) -> None:
    fill(swift_path / "docs", 20)
    with open_forge(swift_path / "workspace") as forge:
        forge.add(swift_path / "docs", project="p")

    def work(place: int) -> None:
        own = swift_path / f"own{place}"
        fill(own, 3)
        with open_forge(swift_path / "workspace") as forge:
            for turn in range(3):
                (own / "file0000.md").write_text(prose(10_000 * place + turn))
                (own / f"late{turn}.md").write_text(prose(10_000 * place + 500 + turn))
                assert forge.add(own, project="p").failed == ()
                if place == 0:
                    list(forge.reindexing(project="p", strategy=Strategy(name="chars", window_max=1000 + turn)))
                elif place == 1:
                    assert all(r.blobs for r in forge.removing([str(own / f"late{turn}.md")], project="p"))
                elif place == 2:
                    findings = forge.check(repair=True)  # a state file may be behind while others add
                    assert [finding for finding in findings if not finding.ok and not finding.repaired] == []

    assert in_processes(4, work) == [0] * 4
    with open_forge(swift_path / "workspace") as forge:
        names = {source.key for document in forge.documents(project="p") for source in document.sources}
        expected = {str(path) for path in swift_path.glob("*/*.md")} - {str(swift_path / "own1" / "late2.md")}
        assert names == expected and faults(forge) == []
        assert "Page 10002" in text_of(forge, str(swift_path / "own1" / "file0000.md"))


def test_many_small_files(swift_path: Path) -> None:
    number = count(300, 10_000)
    docs = swift_path / "docs"
    docs.mkdir()
    for place in range(number):
        (docs / f"{place}.md").write_text(f"# Note {place}\n\nThe desk number {place} stands in room {place % 97}.\n")
    with open_forge(swift_path / "workspace") as forge:
        before = resident()
        began = time.monotonic()
        report = forge.add(docs, project="p")
        seconds = time.monotonic() - began
        grown = resident() - before
        assert report.count(Outcome.READY) == number == len(forge.documents(project="p"))
        assert grown < 200_000_000
        assert number / seconds > 20
        assert faults(forge) == []
    record("small_files", files=number, files_per_second=round(number / seconds), grown_mb=round(grown / 1e6))


def resident() -> int:
    """Bytes of memory this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
