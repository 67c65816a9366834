"""A way to stop long work: an event somebody sets, and a deadline."""

from __future__ import annotations

import threading
import time


class Cancelled(BaseException):
    """Raised inside work that was told to stop. Not an error: nobody should catch and retry it."""


class Cancel:
    """Handed to every long call; the call asks `check()` between its steps."""

    def __init__(self, deadline_seconds: float | None = None) -> None:
        self._event = threading.Event()
        self._deadline = None if deadline_seconds is None else time.monotonic() + deadline_seconds

    def set(self) -> None:
        self._event.set()

    @property
    def is_set(self) -> bool:
        return self._event.is_set() or self.remaining() <= 0

    def remaining(self) -> float:
        """Seconds left until the deadline; infinite without one."""
        return float("inf") if self._deadline is None else self._deadline - time.monotonic()

    def within(self, seconds: float) -> Cancel:
        """The same, with a deadline at most so many seconds from now."""
        sooner = Cancel(min(seconds, self.remaining()))
        sooner._event = self._event
        return sooner

    def wait(self, seconds: float) -> bool:
        """Sleep, but wake at once when cancelled. True if cancelled."""
        self._event.wait(max(0.0, min(seconds, self.remaining())))
        return self.is_set

    def check(self) -> None:
        if self.is_set:
            raise Cancelled
