"""`project_state.json` is derived: whatever stands in its place is replaced, or refused in a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragforge.errors import StoreError
from ragforge.ingest.state_file import write_if_changed


def test_a_damaged_state_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "project_state.json"
    path.write_bytes(b"\xff\xfe not utf-8")
    assert write_if_changed(path, "{}")
    assert path.read_text(encoding="utf-8") == "{}"
    assert not write_if_changed(path, "{}")


def test_a_folder_in_its_place_is_explained(tmp_path: Path) -> None:
    (tmp_path / "project_state.json").mkdir()
    with pytest.raises(StoreError, match="cannot write"):
        write_if_changed(tmp_path / "project_state.json", "{}")


def test_line_ends_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "project_state.json"
    assert write_if_changed(path, "{\n}")
    assert path.read_bytes() == b"{\n}"
    assert not write_if_changed(path, "{\n}")
