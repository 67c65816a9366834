"""Where uploads wait: each a file with a random name, durable before anybody is told that it was taken.

A client's file name is never part of a path. What no job needs is swept when a server starts and nobody else receives.
Other machines are not seen to receive: where they may, only what is older than a day is swept. Another catalog, which a
setting may name for the same folder, knows none of our jobs. So a file's name begins with the word by which its catalog
is known, and each sweeps its own.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from io import BufferedReader
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import BinaryIO, Self

from ragforge.durable import sync
from ragforge.errors import DiskFull, StoreError, Unreachable, cannot_write
from ragforge.ports import Clock, ProcessLock, UploadStore

log = logging.getLogger("ragforge.inbox")

_NAME = re.compile(r"[0-9a-f]{32}")
ROOM_BYTES = 16_000_000
"""Uploads leave so much of the disk to the catalog: whoever sends more than can be read in time stops nobody else."""
_REST = timedelta(days=1)
_AT_ONCE = 8
"""Files of a request that are sent on side by side."""
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Received:
    """Bytes that are in the inbox for good."""

    inbox: str
    name: str
    """As the client called them."""
    size: int
    sha256: str


class Inbox:
    """One folder for all uploads of a workspace, or with `shared` for those of all machines."""

    def __init__(
        self,
        folder: Path,
        new_lock: Callable[[Path], ProcessLock],
        *,
        shared: bool = False,
        claim: Callable[[], None] = lambda: None,
        catalog: Callable[[], str] = lambda: "",
        former: Path | None = None,
    ) -> None:
        """`claim` raises if the folder is another catalog's, or not there; `catalog` tells by what ours is known.

        What this machine received before the settings named this folder still waits in `former`.
        """
        self._claim = claim
        self._catalog = catalog
        self._former = former
        self._folder = folder
        self._new_lock = new_lock
        self._rest_seconds = _REST.total_seconds() if shared else 0.0
        self._receiving: ProcessLock | None = None
        self._opening = Lock()

    def open(self, needed: Callable[[], Collection[str]]) -> None:
        """Be known as one who receives; if nobody else is, first remove what no job needs."""
        with self._opening:
            if self._receiving is not None:
                return
            self._claim()
            self._gather(needed)
            with self.alone() as alone:
                if alone:
                    self._sweep(needed())
            lock = self._new_lock(self._folder / "lock")
            lock.acquire(shared=True, blocking=True)
            self._receiving = lock

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """True if nobody receives; whoever would meanwhile waits."""
        self._make()
        lock = self._new_lock(self._folder / "lock")
        try:
            yield lock.acquire(shared=False, blocking=False)
        finally:
            lock.release()

    def _make(self) -> None:
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as problem:
            raise cannot_write(self._folder, problem) from problem

    def close(self) -> None:
        with self._opening:
            if self._receiving is not None:
                self._receiving.release()
                self._receiving = None

    def _gather(self, needed: Callable[[], Collection[str]]) -> None:
        """What waits in the former folder is brought to where all reach it; what no job needs is swept there, too."""
        if self._former is None or not (left := [*filter(_NAME.fullmatch, _names_in(self._former))]):
            return
        self._make()
        if self._former.samefile(self._folder):
            return
        wanted = set(needed())
        former = Inbox(self._former, self._new_lock, catalog=self._catalog)
        with former.alone() as alone:
            if alone:
                former._sweep(wanted)
        for name in wanted.intersection(left):
            try:
                with (self._former / name).open("rb") as file:
                    self._copy(file, self.path(name))
                sync(self._folder)
                (self._former / name).unlink(missing_ok=True)
            except FileNotFoundError:  # another process does the same
                continue
            except (OSError, StoreError) as problem:
                log.warning("%s still waits in %s, where only this machine reaches it: %s", name, self._former, problem)

    def _sweep(self, needed: Collection[str]) -> None:
        for path in self._folder.iterdir():
            if self._is_own(path.name) and path.name not in needed and self._is_left(path):
                path.unlink(missing_ok=True)

    def _is_own(self, name: str) -> bool:
        return _NAME.fullmatch(name) is not None and name.startswith(self._word)

    @cached_property
    def _word(self) -> str:
        return self._catalog()

    def _is_left(self, path: Path) -> bool:
        if not self._rest_seconds:
            return True
        with suppress(FileNotFoundError):
            return time.time() - path.stat().st_mtime > self._rest_seconds
        return False

    def receive(self, name: str) -> Receiving:
        """A new file to write to, while the disk has room for more than what waits here."""
        self._claim()
        try:
            free = shutil.disk_usage(self._folder).free
        except OSError as problem:
            raise cannot_write(self._folder, problem) from problem
        if free < ROOM_BYTES:
            raise DiskFull("the disk is almost full; nothing was lost", hint="free some space and try again")
        return Receiving(self._folder / (self._word + secrets.token_hex(16))[:32], name)

    def put_back(self, inbox: str, pieces: Iterable[bytes]) -> None:
        """From a backup, under the name it had there. Durable after `sync`."""
        self._make()
        self.remove(inbox)
        with Receiving(self.path(inbox), "") as receiving:
            for piece in pieces:
                receiving.write(piece)
            receiving.keep()

    def path(self, inbox: str) -> Path:
        if not _NAME.fullmatch(inbox):
            raise StoreError(f"not an upload's name: {inbox!r}")
        return self._folder / inbox

    @property
    def place(self) -> str:
        """Where what was acknowledged waits."""
        return str(self._folder)

    def here(self, inbox: str) -> Path | None:
        """The file as one of this machine; None if it is not to be had here. Raises if the place is not."""
        if found := next((path for path in self._paths(inbox) if path.exists()), None):
            return found
        self._claim()
        return None

    def read(self, inbox: str) -> BufferedReader:
        return (self.here(inbox) or self.path(inbox)).open("rb")

    def fill_in(self, inbox: str, same: str) -> None:
        """The same bytes were received again: where the first are not to be had, these take their place for good."""
        try:
            self.read(inbox).close()
        except FileNotFoundError:
            with self.read(same) as file:
                self._copy(file, self.path(inbox))
            self.sync([inbox])

    def remove(self, inbox: str) -> None:
        for path in self._paths(inbox):
            try:
                path.unlink(missing_ok=True)
            except OSError as problem:
                raise cannot_write(path.parent, problem) from problem

    def _paths(self, inbox: str) -> Iterator[Path]:
        """Where it may be on this machine."""
        yield self.path(inbox)
        if self._former is not None:
            yield self._former / inbox

    def _copy(self, file: BinaryIO, path: Path) -> None:
        """Nobody sees it under its name before it is whole."""
        with self.receive("") as receiving:
            while piece := file.read(_PIECE):
                receiving.write(piece)
            receiving.keep_as(path)

    def sync(self, received: Collection[str] = ()) -> None:
        """What was received survives everything: the names of the files are durable too."""
        try:
            sync(self._folder)
        except OSError as problem:
            raise cannot_write(self._folder, problem) from problem


class SharedInbox(Inbox):
    """Uploads that wait where all machines reach them. The folder holds what is being received, and what is read."""

    def __init__(
        self,
        folder: Path,
        new_lock: Callable[[Path], ProcessLock],
        uploads: UploadStore,
        clock: Clock,
        *,
        catalog: Callable[[], str] = lambda: "",
    ) -> None:
        super().__init__(folder, new_lock, catalog=catalog)
        self._uploads = uploads
        self._clock = clock
        self._unremoved: set[str] = set()

    def _sweep(self, needed: Collection[str]) -> None:
        """Beforehand what was received here while the settings named no place for all is sent on."""
        super()._sweep(needed)
        try:
            self.sync([name for name in _names_in(self._folder) if name in needed])
            for name in list(self._uploads.before(self._clock() - _REST)):
                if self._is_own(name) and name not in needed:
                    self._uploads.remove(name)
        except Unreachable as away:
            log.warning("uploads that nobody needs were not looked for: %s", away.message)

    def sync(self, received: Collection[str] = ()) -> None:
        """What was received is where all machines reach it, and no longer here."""
        with ThreadPoolExecutor(_AT_ONCE, "ragforge-inbox") as threads:
            list(threads.map(self._send, received))

    def _send(self, inbox: str) -> None:
        path = self.path(inbox)
        try:
            with path.open("rb") as file:
                self._uploads.put(inbox, file)
            path.unlink(missing_ok=True)
        except OSError as problem:
            raise cannot_write(path.parent, problem) from problem

    def put_back(self, inbox: str, pieces: Iterable[bytes]) -> None:
        super().put_back(inbox, pieces)
        self._send(inbox)

    @property
    def place(self) -> str:
        return str(self._uploads)

    def here(self, inbox: str) -> Path | None:
        path = self.path(inbox)
        if path.exists():
            return path
        self._make()
        with suppress(FileNotFoundError), self._uploads.open(inbox) as file:
            self._copy(file, path)
            return path
        return None

    def read(self, inbox: str) -> BufferedReader:
        path = self.path(inbox)
        return path.open("rb") if path.exists() else self._uploads.open(inbox)

    def remove(self, inbox: str) -> None:
        """What cannot be reached just now is removed with the next, or swept."""
        super().remove(inbox)
        self._unremoved.add(inbox)
        with suppress(Unreachable):
            for name in list(self._unremoved):
                self._uploads.remove(name)
                self._unremoved.discard(name)


class Receiving:
    """A file that is being received; gone again unless it is kept."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._name = name
        self._sha256 = hashlib.sha256()
        self._size = 0
        self._kept: Received | None = None
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        try:
            self._fd: int | None = os.open(path, flags, 0o600)
        except OSError as problem:
            raise cannot_write(path.parent, problem) from problem

    def write(self, data: bytes) -> None:
        assert self._fd is not None
        self._sha256.update(data)
        self._size += len(data)
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as problem:
            raise cannot_write(self._path.parent, problem) from problem

    def keep(self) -> Received:
        """Its bytes are durable; its name is once `Inbox.sync` has been called."""
        assert self._fd is not None
        try:
            os.fsync(self._fd)
        except OSError as problem:
            raise cannot_write(self._path.parent, problem) from problem
        self._close()
        self._kept = Received(self._path.name, self._name, self._size, self._sha256.hexdigest())
        return self._kept

    def keep_as(self, path: Path) -> None:
        """Whole, under a name that it had elsewhere."""
        self.keep()
        try:
            self._path.replace(path)
        except OSError as problem:
            raise cannot_write(path.parent, problem) from problem

    def discard(self) -> None:
        self._close()
        self._path.unlink(missing_ok=True)

    def _close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._kept is None:
            self.discard()


def _names_in(folder: Path) -> list[str]:
    """Nothing where there is no such folder yet."""
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
