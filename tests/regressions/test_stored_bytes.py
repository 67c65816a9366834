"""Stored bytes: durable before they are promised, gone when they are not needed, looked for without dying."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ragforge.adapters.blobs import folder
from ragforge.adapters.blobs.folder import FolderBlobs
from ragforge.errors import StoreError
from ragforge.ingest import accept as accepting
from ragforge.ingest.accept import accept
from ragforge.ingest.traces import Traces, scan
from ragforge.ingest.walk import Found


def blobs_in(path: Path) -> FolderBlobs:
    path.mkdir(exist_ok=True)
    return FolderBlobs(path, lambda: datetime(2030, 1, 1, tzinfo=UTC))


def test_a_flush_that_failed_is_owed_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run's failure must not let another run commit files that were never flushed."""
    blobs = blobs_in(tmp_path / "uploads")
    paths = [tmp_path / "uploads" / blobs.put("owner", io.BytesIO(b"x"), 10).key for _ in range(3)]
    flushed: list[Path] = []
    broken = [True]
    real = folder._fsync

    def fsync(path: Path) -> bool:
        if broken[0] and path == paths[1]:
            raise StoreError("cannot write")
        flushed.append(path)
        return real(path)

    monkeypatch.setattr(folder, "_fsync", fsync)
    with pytest.raises(StoreError):
        blobs.sync()
    flushed.clear()
    broken[0] = False
    blobs.sync()
    assert {*paths, paths[0].parent, tmp_path / "uploads", tmp_path} <= set(flushed)


def test_bytes_of_a_file_that_could_not_be_looked_at_do_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(accepting, "sniff", unreadable)
    path = tmp_path / "a.md"
    path.write_text("words")
    blobs = blobs_in(tmp_path / "uploads")
    with pytest.raises(OSError, match="Input/output"):
        accept(Found(str(path), 5, 1), "owner", blobs, 100)
    assert list(blobs.names()) == []


def test_bytes_that_cannot_be_removed_are_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs = blobs_in(tmp_path / "uploads")
    key = blobs.put("owner", io.BytesIO(b"x"), 10).key

    def refuse(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(StoreError, match="cannot write"):
        blobs.remove(key)


SCAN = """
import subprocess, sys
from pathlib import Path
from ragforge.ingest.traces import Traces, scan
root = Path(sys.argv[1])
subprocess.Popen(["sh", "-c", 'sleep 0.1; : > "$0"', str(root / "log")])
scan(root, {"d": Traces((b"not there",), ())})
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a mapped file cannot be truncated there")
def test_a_log_that_is_emptied_while_it_is_searched_kills_nobody(tmp_path: Path) -> None:
    """Another process empties the write-ahead log: a memory map of it would end this one with SIGBUS."""
    with (tmp_path / "log").open("wb") as file:
        os.truncate(file.fileno(), 2_000_000_000)
    ended = subprocess.run([sys.executable, "-c", SCAN, str(tmp_path)], check=False, timeout=60)
    assert ended.returncode == 0


def test_traces_are_found_wherever_they_lie(tmp_path: Path) -> None:
    phrase, other = b"these very words stand h", b"\x00\x01\x02\x03" * 16
    for place in (0, 100, (1 << 20) - 7, (1 << 20), 3 * (1 << 20) - 23):
        (tmp_path / f"at{place}").write_bytes(bytes(place) + phrase + b"tail")
    (tmp_path / "two").write_bytes(other + bytes(2_000_000) + phrase)
    found = scan(tmp_path, {"a": Traces((phrase,), ()), "b": Traces((), (other,)), "c": Traces((b"absent words",), ())})
    assert len(found.found["a"]) == 6
    assert found.found["b"] == ("two",)
    assert found.found["c"] == ()
    assert found.bytes == sum(path.stat().st_size for path in tmp_path.iterdir())
