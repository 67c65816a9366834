"""A process that has removed a file goes on beside others: the search for what is left must not cost it its locks.

POSIX drops all locks that a process has on a file when the process closes that file, however it was opened. Then
another process believes to be alone, and takes the catalog's log away from under the first.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ragforge import Ragforge
from tests.forge import open_forge

IN_ANOTHER = """
import sys
from pathlib import Path
from tests.forge import open_forge
with open_forge(Path(sys.argv[1])) as forge:
    forge.create_project(sys.argv[2])
    print(*(document.name for document in forge.documents(project="p")))
"""


def another_process(workspace: Path, project: str) -> list[str]:
    """Makes a project, and tells the files that are there."""
    command = [sys.executable, "-c", IN_ANOTHER, str(workspace), project]
    return subprocess.run(
        command, check=True, cwd=Path(__file__).parents[2], capture_output=True, text=True
    ).stdout.split()


def test_a_process_that_removed_a_file_and_others_see_the_same(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.md").write_text(f"# File {name}\n\nIt is about chairs of the kind {name}.\n")
    workspace = tmp_path / "workspace"
    with open_forge(workspace) as forge, ThreadPoolExecutor(4) as threads:
        forge.add(tmp_path / "one.md", project="p")
        list(threads.map(lambda _: forge.projects(), range(8)))  # several connections, as in a server
        (proof,) = forge.removing(["one.md"], project="p")
        assert proof.erased
        assert another_process(workspace, "first") == []
        forge.add(tmp_path / "two.md", project="p")
        assert another_process(workspace, "second") == ["two.md"]
        assert {project.slug for project in forge.projects()} == {"p", "first", "second"}
    with open_forge(workspace) as forge:
        assert [document.name for document in forge.documents(project="p")] == ["two.md"]


def has_locks(workspace: Path) -> bool:
    """Whether this process still keeps others from the catalog's file."""
    node = f":{(workspace / 'catalog.db').stat().st_ino} "
    return any(node in line and f" {os.getpid()} " in line for line in Path("/proc/locks").read_text().splitlines())


DONE: dict[str, Callable[[Ragforge, Path], object]] = {
    "add": lambda forge, folder: forge.add(folder / "two.md", project="p"),
    "add the catalog by another name": lambda forge, folder: list(
        forge.adding([folder / "linked", folder], project="p")
    ),
    "search": lambda forge, folder: forge.search("chairs", project="p"),
    "remove": lambda forge, folder: list(forge.removing(["two.md"], project="p")),
    "sync": lambda forge, folder: list(forge.syncing(folder / "docs", project="p")),
    "reindex": lambda forge, folder: list(forge.reindexing(project="p")),
    "rebuild": lambda forge, folder: list(forge.rebuilding(project="p")),
    "check": lambda forge, folder: forge.check(repair=True),
    "doctor": lambda forge, folder: forge.doctor() + forge.ready(),
    "backup": lambda forge, folder: forge.backup(folder / "backup.zip"),
    "export": lambda forge, folder: list(forge.exporting(folder / "p.zip", project="p")),
    "import": lambda forge, folder: list(forge.importing(folder / "p.zip", project="copy")),
    "remove a project": lambda forge, folder: forge.remove_project("copy"),
}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who has which locks")
def test_nothing_that_can_be_done_costs_the_locks(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for name in ("docs/one", "two"):
        (tmp_path / f"{name}.md").write_text(f"# File {name}\n\nIt is about chairs of the kind {name}.\n")
    workspace = tmp_path / "workspace"
    with open_forge(workspace) as forge:
        (tmp_path / "linked").hardlink_to(workspace / "catalog.db")
        for name, done in DONE.items():
            done(forge, tmp_path)
            assert has_locks(workspace), name
