"""A lock between processes that the operating system lets go when its holder dies."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ragforge.errors import Busy, cannot_write

if sys.platform == "win32":
    import msvcrt

    def _lock(fd: int, *, shared: bool, blocking: bool) -> None:
        msvcrt.locking(fd, msvcrt.LK_LOCK if blocking else msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(fd: int, *, shared: bool, blocking: bool) -> None:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if blocking else fcntl.LOCK_NB))


class FileLock:
    """Exclusive, or shared by many holders. Released by `release` or by the end of the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    def acquire(self, *, shared: bool = False, blocking: bool = True) -> bool:
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        except OSError as problem:
            raise cannot_write(self._path, problem) from problem
        try:
            _lock(fd, shared=shared, blocking=blocking)
        except OSError as problem:
            os.close(fd)
            if blocking:
                raise cannot_write(self._path, problem) from problem
            return False
        self._fd = fd
        return True

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class WorkspaceLock(FileLock):
    """Of a workspace, in whose place a restore may put another while one waits: what was opened is then the old one."""

    def acquire(self, *, shared: bool = False, blocking: bool = True) -> bool:
        acquired = super().acquire(shared=shared, blocking=blocking)
        if acquired and not self._is_in_place():
            self.release()
            raise Busy("the workspace was replaced just now", hint="try again")
        return acquired

    def _is_in_place(self) -> bool:
        assert self._fd is not None
        try:
            return os.path.samestat(os.fstat(self._fd), os.stat(self._path))
        except FileNotFoundError:
            return False
