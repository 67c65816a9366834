"""Original bytes in a folder: `{owner}/{date}/{random}`. A client's file name never becomes a path."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from ragforge.errors import DiskFull, StoreError, TooLarge
from ragforge.ports import Clock, StoredBlob

_KEY = re.compile(r"[a-z0-9]+/\d{4}-\d{2}-\d{2}/[0-9a-f]{32}")
_PIECE = 1 << 20


class FolderBlobs:
    def __init__(self, root: Path, clock: Clock) -> None:
        self._root = root
        self._clock = clock
        self._unsynced: set[Path] = set()

    def put(self, owner: str, file: BinaryIO, limit: int) -> StoredBlob:
        """Copy a file's bytes, hashing them on the way. Durable after `sync`."""
        key = f"{owner}/{self._clock():%Y-%m-%d}/{secrets.token_hex(16)}"
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        sha256, size = hashlib.sha256(), 0
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            while piece := file.read(_PIECE):
                size += len(piece)
                if size > limit:
                    raise TooLarge(f"more than {limit:,} bytes")
                sha256.update(piece)
                _write_all(fd, piece)
            os.fsync(fd)
        except BaseException as problem:
            path.unlink()
            if isinstance(problem, OSError) and problem.errno == errno.ENOSPC:
                raise DiskFull(
                    "the disk is full; nothing was lost", hint="free some space and run it again"
                ) from problem
            raise
        finally:
            os.close(fd)
        self._unsynced.add(path.parent)
        return StoredBlob(key, size, sha256.hexdigest())

    def open(self, key: str) -> BufferedReader:
        return self._path(key).open("rb")

    def remove(self, key: str) -> None:
        """Delete the bytes, and folders that are empty then. Absent is fine: removing may be repeated."""
        path = self._path(key)
        path.unlink(missing_ok=True)
        for folder in (path.parent, path.parent.parent):
            try:
                folder.rmdir()
            except OSError:
                return

    def sync(self) -> None:
        """Make the names of new blobs durable too."""
        while self._unsynced:
            folder = self._unsynced.pop()
            for level in (folder, folder.parent, self._root):
                _fsync_folder(level)

    def names(self) -> Iterator[str]:
        for path in self._root.glob("*/*/*"):
            yield path.relative_to(self._root).as_posix()

    def _path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise StoreError(f"not a stored file's name: {key!r}")
        return self._root / key


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _fsync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
