"""Paths to files: order, what is left out, and what is said of the rest."""

from __future__ import annotations

import os
from pathlib import Path

from ragforge.domain.documents import Reason
from ragforge.ingest.walk import Found, Unreadable, find_files, key_of


def walk(*paths: Path, workspace: Path) -> tuple[list[str], list[Unreadable]]:
    found = list(find_files(paths, workspace))
    return [f.path for f in found if isinstance(f, Found)], [f for f in found if isinstance(f, Unreadable)]


def test_files_come_by_name_and_folders_after_them(tmp_path: Path) -> None:
    for name in ("b.md", "a.md", "z/c.md", "m/d.md", "m/n/e.md"):
        (tmp_path / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "docs" / name).write_text(name)
    (tmp_path / "workspace").mkdir()
    files, bad = walk(tmp_path / "docs", workspace=tmp_path / "workspace")
    names = [os.path.relpath(path, tmp_path / "docs") for path in files]
    assert names == ["a.md", "b.md", "m/d.md", "m/n/e.md", "z/c.md"] and bad == []


def test_hidden_files_are_taken_only_when_named(tmp_path: Path) -> None:
    docs, workspace = tmp_path / "docs", tmp_path / "workspace"
    workspace.mkdir()
    for name in (".env", ".git/config", "node_modules/a.js", "__pycache__/a.pyc", "ok.md"):
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        (docs / name).write_text(name)
    assert walk(docs, workspace=workspace)[0] == [str(docs / "ok.md")]
    assert walk(docs / ".env", workspace=workspace)[0] == [str(docs / ".env")]
    assert walk(docs / ".git", docs / "node_modules", workspace=workspace)[0] == [
        str(docs / ".git" / "config"),
        str(docs / "node_modules" / "a.js"),
    ]


def test_a_folder_is_walked_once_however_it_is_reached(tmp_path: Path) -> None:
    docs, workspace = tmp_path / "docs", tmp_path / "workspace"
    workspace.mkdir()
    (docs / "real").mkdir(parents=True)
    (docs / "real" / "a.md").write_text("a")
    (docs / "link").symlink_to(docs / "real")
    assert len(walk(docs, docs, docs / "real", workspace=workspace)[0]) == 1


def test_size_and_time_are_those_of_the_file_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "a.md").write_text("content")
    (tmp_path / "link.md").symlink_to(tmp_path / "a.md")
    (found,) = find_files([tmp_path / "link.md"], tmp_path / "workspace")
    info = (tmp_path / "a.md").stat()
    assert found == Found(str(tmp_path / "link.md"), info.st_size, info.st_mtime_ns)


def test_a_broken_link_is_told(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "broken.md").symlink_to("nowhere")
    _, (bad,) = walk(tmp_path / "docs", workspace=tmp_path / "workspace")
    assert bad.failure.reason is Reason.UNREADABLE and "link" in bad.failure.hint


def test_a_key_is_text_and_keeps_different_paths_apart() -> None:
    assert key_of("/docs/Müller.md") == "/docs/Müller.md"
    bad = [key_of(os.fsdecode(name)) for name in (b"/docs/a\xff.md", b"/docs/a\xfe.md")]
    assert len(set(bad)) == 2
    for key in bad:
        key.encode()
