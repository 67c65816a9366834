"""Who still reads files that have left the index: every process holds a lock on the epoch that it reads."""

from __future__ import annotations

import re
import threading
from pathlib import Path

from ragforge.adapters.locks import FileLock
from ragforge.adapters.segments.files import names_in

_NAME = re.compile(r"epoch-(\d{1,18})")


class _Hold:
    """A process's sign that it reads files of an epoch."""

    def __init__(self, lock: FileLock) -> None:
        self.lock = lock
        self.users = 0


class Epochs:
    """The epochs of one index. Those who write ask; those who read hold."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._holds: dict[int, _Hold] = {}
        self._guard = threading.Lock()

    def make(self, epoch: int) -> None:
        """By the writer, so that a reader needs no space."""
        self._path(epoch).touch(0o600)

    def hold(self, epoch: int) -> None:
        """Raises `StoreError` if that cannot be."""
        with self._guard:
            hold = self._holds.get(epoch)
            if hold is None:
                lock = FileLock(self._path(epoch))
                lock.acquire(shared=True)
                hold = self._holds[epoch] = _Hold(lock)
            hold.users += 1

    def let_go(self, epoch: int) -> None:
        with self._guard:
            hold = self._holds[epoch]
            hold.users -= 1
            if not hold.users:
                hold.lock.release()
                del self._holds[epoch]

    def known(self) -> list[int]:
        """Every epoch that a file tells of."""
        return sorted(int(match[1]) for name in names_in(self._folder) if (match := _NAME.fullmatch(name)))

    def read_by_others(self, before: int) -> bool:
        """Whether another process holds an epoch before this one. Files of those that nobody holds are removed."""
        held = [self._is_read_by_others(epoch) for epoch in self.known() if epoch < before]
        return any(held)

    def _is_read_by_others(self, epoch: int) -> bool:
        with self._guard:
            ours = self._holds.get(epoch)
            if ours is not None:
                ours.lock.release()
            probe = FileLock(self._path(epoch))
            free = probe.acquire(blocking=False)
            if free and ours is None:
                self._path(epoch).unlink(missing_ok=True)
            probe.release()
            if ours is not None:
                ours.lock.acquire(shared=True)
            return not free

    def _path(self, epoch: int) -> Path:
        return self._folder / f"epoch-{epoch}"
