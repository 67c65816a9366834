"""Original bytes in a folder: `{owner}/{date}/{random}`. A client's file name never becomes a path."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from threading import Lock
from typing import BinaryIO

from ragforge.adapters.blobs.keys import checked, is_key, new_key
from ragforge.durable import sync
from ragforge.errors import StoreError, TooLarge, cannot_write
from ragforge.ports import Clock, StoredBlob

_PIECE = 1 << 20


class FolderBlobs:
    def __init__(
        self,
        root: Path,
        clock: Clock,
        *,
        shared: bool = False,
        claim: Callable[[], None] = lambda: None,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        """`claim` raises if the place is another catalog's, and as `look` does if it is not there any more."""
        self._root = root
        self._clock = clock
        self._shared = shared
        self._claim = claim
        self._look = look
        self._unsynced: deque[Path] = deque()
        self._syncing = Lock()

    @property
    def shared(self) -> bool:
        return self._shared

    def put(self, owner: str, file: BinaryIO, limit: int) -> StoredBlob:
        """Copy a file's bytes, hashing them on the way. Durable after `sync`."""
        self._claim()
        key = new_key(owner, self._clock)
        path = self._path(key)
        sha256, size = hashlib.sha256(), 0
        fd = _create(path)
        try:
            while piece := file.read(_PIECE):
                size += len(piece)
                if size > limit:
                    raise TooLarge(f"more than {limit:,} bytes")
                sha256.update(piece)
                _write_all(fd, piece, path)
        except BaseException:
            path.unlink()
            raise
        finally:
            os.close(fd)
        self._unsynced.append(path)
        return StoredBlob(key, size, sha256.hexdigest())

    def put_back(self, key: str, pieces: Iterable[bytes]) -> None:
        """Bytes from a backup, under the name they had there. What stands under it is replaced."""
        self._claim()
        path = self._path(key)
        new = path.with_name(secrets.token_hex(16))  # what a kill leaves is found as nobody's
        fd = _create(new)
        try:
            for piece in pieces:
                _write_all(fd, piece, path)
            new.replace(path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
        finally:
            os.close(fd)
        self._unsynced.append(path)

    def open(self, key: str) -> BufferedReader:
        return self._path(key).open("rb")

    def remove(self, key: str) -> str:
        """Delete the bytes, and folders that are empty then. Absent is fine: removing may be repeated."""
        path = self._path(key)
        try:
            path.unlink()
        except FileNotFoundError:
            self._look()  # where a share is not mounted, nothing is removed by looking for it
        except OSError as problem:
            raise cannot_write(path, problem) from problem
        for folder in (path.parent, path.parent.parent):
            try:
                folder.rmdir()
            except OSError:
                break
        return ""

    def sync(self) -> None:
        """Make new blobs and their names durable: many at once, since the first flush carries most of the others."""
        with self._syncing:  # who comes second must not return before the first has flushed its blobs
            paths: list[Path] = []
            try:
                while self._unsynced:
                    paths.append(self._unsynced.popleft())
                there = [path for path in paths if _fsync(path)]
                for folder in {folder for path in there for folder in self._above(path)}:
                    _fsync(folder)
            except BaseException:
                self._unsynced.extendleft(paths)  # another run's may be among them
                raise

    def _above(self, path: Path) -> tuple[Path, ...]:
        """The folders that hold the path's name, up to the one that holds all blobs."""
        return path.parent, path.parent.parent, self._root, self._root.parent

    def names(self) -> Iterator[str]:
        self._claim()
        names = (path.relative_to(self._root).as_posix() for path in self._root.glob("*/*/*"))
        yield from filter(is_key, names)

    def reach(self) -> None:
        """Look into the folder: it may be a share whose server does not answer."""
        try:
            with os.scandir(self._root) as inside:
                next(inside, None)
        except OSError as problem:
            why = problem.strerror or str(problem)
            raise StoreError(f"{self._root} cannot be read: {why}", hint="mount it; store.blobs names it") from problem

    def _path(self, key: str) -> Path:
        return self._root / checked(key)


class FolderMarks:
    """What is marked in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def marked(self, name: str) -> str:
        """What stands under the name; empty if nothing does."""
        path = self._folder / name
        try:
            return path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""
        except OSError as problem:
            why = problem.strerror or str(problem)
            raise StoreError(f"{path} cannot be read: {why}", hint="mend its permissions") from problem

    def mark(self, name: str, text: str) -> str:
        """What stands under the name: the text, if nothing did. Of many who come at once, one is the first."""
        path = self._folder / name
        own = path.with_name(f"{name}.{secrets.token_hex(8)}")
        try:
            own.touch(0o600)
            own.write_text(text, encoding="utf-8")
            sync(own)
            _name_it(own, path)
            sync(self._folder)
        except OSError as problem:
            raise cannot_write(path, problem) from problem
        finally:
            own.unlink(missing_ok=True)
        return self.marked(name)

    def is_marked(self, name: str) -> bool:
        """Whether something still stands under the name: a share can be unmounted at any moment."""
        return os.path.exists(self._folder / name)


def _name_it(own: Path, path: Path) -> None:
    try:
        os.link(own, path)
    except FileExistsError:  # another was quicker
        return
    except OSError:  # a share without links: who is last counts, for all who look now
        own.rename(path)


def _create(path: Path) -> int:
    """A new file to write to. Another may remove its folder as empty just when it was made."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    while True:
        try:
            return os.open(path, flags, 0o600)
        except FileNotFoundError:  # the day's first file
            _make_folder(path.parent)
        except OSError as problem:
            raise cannot_write(path, problem) from problem


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileNotFoundError, FileExistsError):  # it came and went just now
        return
    except OSError as problem:
        raise cannot_write(path, problem) from problem


def _write_all(fd: int, data: bytes, path: Path) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError as problem:
        raise cannot_write(path, problem) from problem


def _fsync(path: Path) -> bool:
    """False if it was removed meanwhile."""
    try:
        sync(path)
    except FileNotFoundError:
        return False
    except OSError as problem:
        raise cannot_write(path, problem) from problem
    return True
