"""A found file becomes stored bytes with a hash and a type."""

from __future__ import annotations

import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.adapters.blobs.folder import FolderBlobs
from ragforge.domain.documents import Reason
from ragforge.ingest.accept import Accepted, accept, safe_name
from ragforge.ingest.walk import Found
from tests.proof import count


def accepted(path: Path, uploads: Path, limit: int = 10_000) -> Accepted:
    info = path.stat()
    blobs = FolderBlobs(uploads, lambda: datetime(2026, 3, 1, tzinfo=UTC))
    return accept(Found(str(path), info.st_size, info.st_mtime_ns), "owner", blobs, limit)


def test_the_bytes_are_stored_and_hashed(tmp_path: Path) -> None:
    path = tmp_path / "note.md"
    path.write_text("# Note\n\nText.\n")
    result = accepted(path, tmp_path / "uploads")
    assert result.failure is None and result.type.name == "markdown"
    assert result.source.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (result.source.key, result.source.name, result.source.size) == (str(path), "note.md", 14)
    assert result.blob.startswith("owner/2026-03-01/")
    assert (tmp_path / "uploads" / result.blob).read_bytes() == path.read_bytes()


def test_a_file_over_the_limit_is_known_by_path_size_and_time(tmp_path: Path) -> None:
    path = tmp_path / "large.md"
    path.write_text("x" * 101)
    first, again = (accepted(path, tmp_path / "uploads", limit=100) for _ in range(2))
    assert first.failure is not None and first.failure.reason is Reason.TOO_LARGE and first.blob == ""
    assert first.source.sha256 == again.source.sha256
    os.utime(path, ns=(1, 1))
    assert accepted(path, tmp_path / "uploads", limit=100).source.sha256 != first.source.sha256
    assert accepted(path, tmp_path / "uploads", limit=101).failure is None


def test_what_cannot_be_read_is_kept_with_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "empty.md"
    path.touch()
    result = accepted(path, tmp_path / "uploads")
    assert result.failure is not None and result.failure.reason is Reason.EMPTY and result.blob


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    with pytest.raises(OSError, match="no longer a regular file"):
        accepted(tmp_path / "pipe.md", tmp_path / "uploads")
    assert not (tmp_path / "uploads").exists()


@settings(max_examples=count(33, 100), deadline=None)
@given(st.binary(max_size=300))
def test_a_safe_name_is_one_printable_line(raw: bytes) -> None:
    name = safe_name(os.fsdecode(raw))
    assert 0 < len(name) <= 255 and name == name.strip()
    assert all(ord(c) >= 32 and c not in "\x7f\u202e\u200b" for c in name)
    name.encode()
