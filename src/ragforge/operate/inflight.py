"""Who is at work on a workspace, so that what a killed process left behind is found and nothing living is touched."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

from ragforge.errors import cannot_write
from ragforge.ports import ProcessLock


class InFlight:
    """A note per process while it works. A note without a living process means: recover first."""

    def __init__(self, folder: Path, new_lock: Callable[[], ProcessLock]) -> None:
        self._folder = folder
        self._new_lock = new_lock

    @contextlib.contextmanager
    def working(self, recover: Callable[[], object]) -> Iterator[bool]:
        """Recover what others left (True if they did), then be counted as at work. Work that fails leaves its note."""
        recovered = self.recover(recover)
        lock = self._locked(shared=True, blocking=True)
        assert lock is not None
        note = self._folder / f"{os.getpid()}-{secrets.token_hex(4)}"
        try:
            try:
                note.touch()
            except OSError as problem:
                raise cannot_write(note, problem) from problem
            yield recovered
            note.unlink(missing_ok=True)
        finally:
            lock.release()

    def recover(self, recover: Callable[[], object]) -> bool:
        """Run `recover` if someone left a note and nobody is at work. True if it ran."""
        notes = list(self._folder.glob("*-*")) if self._folder.exists() else []
        if not notes:
            return False
        with self.alone() as alone:
            if alone:
                recover()
                for note in notes:
                    note.unlink(missing_ok=True)
            return alone

    @contextlib.contextmanager
    def alone(self) -> Iterator[bool]:
        """True if nobody is at work; whoever begins meanwhile waits."""
        lock = self._locked(shared=False, blocking=False)
        try:
            yield lock is not None
        finally:
            if lock is not None:
                lock.release()

    def _locked(self, *, shared: bool, blocking: bool) -> ProcessLock | None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise cannot_write(self._folder, problem) from problem
        lock = self._new_lock()
        return lock if lock.acquire(shared=shared, blocking=blocking) else None
