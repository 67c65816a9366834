"""`project_state.json`: its keys, and how it is replaced."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from ragforge.errors import StoreError
from ragforge.ingest.state_file import project_state, state_text, write_if_changed


def test_an_empty_project() -> None:
    assert json.loads(state_text(project_state([], "We sell desks. Größe: ü"))) == {
        "file_summaries": [],
        "org_context": "We sell desks. Größe: ü",
    }
    assert "Größe" in state_text(project_state([], "Größe"))


def test_it_is_written_only_when_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "state.json"
    assert write_if_changed(path, "one")
    before = path.stat()
    assert not write_if_changed(path, "one")
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert write_if_changed(path, "two") and path.read_text() == "two"
    assert os.listdir(path.parent) == ["state.json"]


def test_many_writers_leave_one_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    problems: list[Exception] = []

    def write(letter: str) -> None:
        try:
            for _ in range(20):
                write_if_changed(path, letter * 10_000)
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == [] and os.listdir(tmp_path) == ["state.json"]
    assert len(set(path.read_text())) == 1 and len(path.read_text()) == 10_000


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError) as refused:
        write_if_changed(tmp_path / "file" / "state.json", "x")
    assert refused.value.hint
