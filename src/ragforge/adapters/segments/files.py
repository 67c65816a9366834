"""Files that are written once: made durable, hashed, and told apart from any other under the same name."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import TypeAlias

from ragforge.adapters.segments.manifest import StoredFile
from ragforge.durable import sync

Stamp: TypeAlias = tuple[int, int, int, int]
"""Size, times of change (one can be set back, the other not) and inode: whether a file is the one that was opened."""


def stamp_of(path: Path | str) -> Stamp:
    stat = os.stat(path)
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino


def names_in(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_durably(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    _set_time(path)


def finished(path: Path) -> StoredFile:
    """A written file as the manifest will name it, durable."""
    sync(path)
    mtime_ns = _set_time(path)
    return StoredFile(path.name, path.stat().st_size, checksum(path), mtime_ns)


def _set_time(path: Path) -> int:
    """The time now, to the nanosecond: the file system's own clock ticks too slowly to tell two writes apart."""
    now = time.time_ns()
    os.utime(path, ns=(now, now))
    return path.stat().st_mtime_ns
