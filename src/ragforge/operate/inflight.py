"""Who is at work on a workspace, so that what a killed process left behind is found and nothing living is touched."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

from ragforge.ports import ProcessLock


class InFlight:
    """A note per process while it works. A note without a living process means: recover first."""

    def __init__(self, folder: Path, new_lock: Callable[[], ProcessLock]) -> None:
        self._folder = folder
        self._new_lock = new_lock

    @contextlib.contextmanager
    def working(self, recover: Callable[[], object]) -> Iterator[None]:
        """Recover what a killed process left, then be counted as at work until the end."""
        self.recover(recover)
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = self._new_lock()
        lock.acquire(shared=True)
        note = self._folder / f"{os.getpid()}-{secrets.token_hex(4)}"
        note.touch()
        try:
            yield
        finally:
            note.unlink(missing_ok=True)
            lock.release()

    def recover(self, recover: Callable[[], object], *, always: bool = False) -> bool:
        """Run `recover` if someone left a note and nobody is at work. True if it ran."""
        notes = list(self._folder.glob("*-*")) if self._folder.exists() else []
        if not notes and not always:
            return False
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = self._new_lock()
        if not lock.acquire(blocking=False):
            return False
        try:
            recover()
            for note in notes:
                note.unlink(missing_ok=True)
        finally:
            lock.release()
        return True
