"""What a proof of deletion looks for, and where it looks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.ingest.seek import seek
from ragforge.ingest.traces import Traces, phrases, scan, vector_piece
from tests.proof import count


@settings(max_examples=count(33, 100), deadline=None)
@given(st.text(max_size=400), st.integers(1, 8))
def test_phrases_stand_in_the_text(text: str, count: int) -> None:
    found = list(phrases(text, count))
    assert len(found) <= count
    assert all(phrase in text and phrase.strip() for phrase in found)


def test_a_text_gives_phrases_from_all_its_parts() -> None:
    text = " ".join(f"word{number}" for number in range(500))
    found = list(phrases(text, 6))
    assert len(found) == 6
    places = [text.index(phrase) for phrase in found]
    assert places[0] == 0 and places[-1] > len(text) * 0.8


def test_a_piece_of_a_vector_comes_from_its_middle() -> None:
    vector = bytes(range(256))
    assert vector_piece(vector) == vector[128:192]
    assert vector_piece(b"12345678") == b"5678"
    assert vector_piece(bytes(300) + b"1234" + bytes(300)) == b"", "zeros are everywhere"


def test_every_file_is_searched(tmp_path: Path) -> None:
    for name, content in {
        "catalog.db": b"\0" * 5000 + b"the canary" + b"\0" * 100,
        "uploads/a/b/c": b"nothing",
        "backups/old.db": b"the canary",
        "empty": b"",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    traces = {"a": Traces((b"the canary",), ()), "b": Traces((), (b"nothing",)), "c": Traces((b"elsewhere",), ())}
    result = scan(tmp_path, traces)
    assert result.found == {"a": ("backups/old.db", "catalog.db"), "b": ("uploads/a/b/c",), "c": ()}
    assert result.bytes == 5110 + 7 + 10


def test_folders_that_vanish_while_they_are_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(b"needle in the hay")
    look = os.scandir

    def vanishing(path: str) -> object:
        if Path(path).name == "a":
            Path(path, "file").unlink()
            Path(path).rmdir()
        return look(path)

    monkeypatch.setattr(os, "scandir", vanishing)
    assert seek(str(tmp_path), [("d", b"needle")])[1] == {"d": ["b/file"]}


def test_a_folder_that_cannot_be_looked_into_is_no_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    look = os.scandir

    def closed(path: str) -> object:
        if Path(path).name == "a":
            raise PermissionError(13, "Permission denied")
        return look(path)

    monkeypatch.setattr(os, "scandir", closed)
    with pytest.raises(PermissionError):
        seek(str(tmp_path), [("d", b"needle")])


def test_what_could_not_be_read_is_told_by_the_process_that_tried(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert scan(tmp_path, {"d": Traces((b"needle",), ())}).found == {"d": ()}
    with pytest.raises(NotADirectoryError):
        (tmp_path / "file").write_bytes(b"needle")
        scan(tmp_path / "file", {"d": Traces((b"needle",), ())})
