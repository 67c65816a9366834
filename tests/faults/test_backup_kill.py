"""`kill -9` in backup and restore: no half archive under its name, and either the old workspace or the new one."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.flows import backup
from tests.forge import faults, fill, open_forge
from tests.proof import count, record

FILES = 12
NEW = {"restore.loaded": False, "restore.files": False, "restore.built": False, "restore.placed": True}
"""Whether the new workspace is there if it is killed at this point."""


def killed(work: Callable[[], object], seconds: float | None = None) -> bool:
    """Do it in a process of its own; True if that was killed, by us or by its failpoint."""
    pid = os.fork()
    if not pid:
        try:
            work()
        finally:
            os._exit(0)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status)


def names(workspace: Path) -> set[str]:
    with open_forge(workspace) as forge:
        assert faults(forge) == []
        return {document.name for document in forge.documents(project="p")}


@pytest.fixture
def stage(tmp_path: Path) -> tuple[Path, Path, set[str], set[str]]:
    """A workspace, its backup, what the backup holds, and what is in the workspace since."""
    with open_forge(tmp_path / "ws") as forge:
        forge.add(fill(tmp_path / "docs", FILES), project="p")
        forge.backup(tmp_path / "b.zip")
        before = {document.name for document in forge.documents(project="p")}
        (tmp_path / "docs" / "later.md").write_text("# Later\n\nThis came after the backup.\n")
        forge.add(tmp_path / "docs" / "later.md", project="p")
    return tmp_path / "ws", tmp_path / "b.zip", before, before | {"later.md"}


def restore(file: Path, workspace: Path, *, replacing: bool = False) -> None:
    for _ in Ragforge.restoring(file, workspace, replacing=replacing):
        pass


@pytest.mark.parametrize("point", [*NEW, "restore.exchanged"])
def test_a_kill_leaves_the_old_workspace_or_the_new_one(
    stage: tuple[Path, Path, set[str], set[str]], point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, file, in_backup, in_workspace = stage
    monkeypatch.setenv("RAGFORGE_TESTING", "1")
    monkeypatch.setenv("RAGFORGE_FAILPOINT", f"{point}:kill")
    assert killed(lambda: restore(file, workspace, replacing=True)), "the point was not reached"
    monkeypatch.delenv("RAGFORGE_FAILPOINT")
    assert names(workspace) == (in_backup if NEW.get(point, True) else in_workspace)
    restore(file, workspace, replacing=True)
    assert names(workspace) == in_backup
    kept = [path for path in workspace.parent.glob("*ws.*") if (path / "catalog.db").exists()]
    assert any(names(path) == in_workspace for path in kept), "the replaced one is kept"


@pytest.mark.parametrize("point", ["restore.loaded", "restore.files", "restore.built"])
def test_a_kill_leaves_no_half_new_workspace(
    stage: tuple[Path, Path, set[str], set[str]], point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, file, in_backup, _ = stage
    new = workspace.with_name("new")
    monkeypatch.setenv("RAGFORGE_TESTING", "1")
    monkeypatch.setenv("RAGFORGE_FAILPOINT", f"{point}:kill")
    assert killed(lambda: restore(file, new)), "the point was not reached"
    monkeypatch.delenv("RAGFORGE_FAILPOINT")
    assert not new.exists()
    restore(file, new)
    assert names(new) == in_backup


@pytest.mark.parametrize("point", ["backup.dumped", "archive.member", "archive.written"])
def test_a_killed_backup_leaves_no_file_under_its_name(
    stage: tuple[Path, Path, set[str], set[str]], point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, _, _, in_workspace = stage
    file = workspace.with_name("second.zip")

    def back_up() -> None:
        with open_forge(workspace) as forge:
            forge.backup(file)

    monkeypatch.setenv("RAGFORGE_TESTING", "1")
    monkeypatch.setenv("RAGFORGE_FAILPOINT", f"{point}:kill")
    assert killed(back_up), "the point was not reached"
    monkeypatch.delenv("RAGFORGE_FAILPOINT")
    assert not file.exists()
    back_up()
    restore(file, workspace.with_name("new"))
    assert names(workspace.with_name("new")) == in_workspace


def test_random_kills_of_a_restore(stage: tuple[Path, Path, set[str], set[str]]) -> None:
    workspace, file, in_backup, in_workspace = stage
    dice, kills, longest = random.Random(3), 0, 0.3
    wanted = count(4, 60)
    while kills < wanted:
        ended_alone = not killed(lambda: restore(file, workspace, replacing=True), dice.uniform(0, longest))
        longest = longest * 0.8 if ended_alone else min(1.0, longest * 1.1)
        kills += not ended_alone
        assert names(workspace) in (in_backup, in_workspace)
    record("restore_kills", kills=kills, half=0)


def test_where_folders_cannot_be_exchanged_they_are_renamed(
    stage: tuple[Path, Path, set[str], set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, file, in_backup, in_workspace = stage
    monkeypatch.setattr(backup, "_exchange", lambda one, other: False)
    restore(file, workspace, replacing=True)
    assert names(workspace) == in_backup
    (kept,) = workspace.parent.glob("ws.before-*")
    assert names(kept) == in_workspace


def test_a_full_disk_leaves_the_old_workspace(
    stage: tuple[Path, Path, set[str], set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ragforge.errors import DiskFull

    workspace, file, _, in_workspace = stage
    monkeypatch.setenv("RAGFORGE_TESTING", "1")
    for point in ("restore.files", "restore.built"):
        monkeypatch.setenv("RAGFORGE_FAILPOINT", f"{point}:enospc@{1}")
        with pytest.raises(DiskFull):
            restore(file, workspace, replacing=True)
        assert not list(workspace.parent.glob(".*"))
    monkeypatch.delenv("RAGFORGE_FAILPOINT")
    assert names(workspace) == in_workspace
