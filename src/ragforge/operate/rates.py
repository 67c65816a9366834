"""Requests a minute, for each who sends them."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

from ragforge.errors import OverLimit

_MINUTE = 60.0


class Rates:
    """Buckets that fill evenly: a minute's worth may come at once, then it is one by one.

    Each of several processes sees its own requests only, and gives out its `share` of what a key may have.
    """

    def __init__(self, *, share: float = 1.0, tick: Callable[[], float] = time.monotonic) -> None:
        self._share = share
        self._tick = tick
        self._buckets: dict[str, tuple[float, float]] = {}
        self._lock = Lock()

    def part(self, limit: int) -> int:
        """Of a limit, what this process may give; none stays none."""
        return max(1, int(limit * self._share)) if limit else 0

    def spend(self, id: str, given: int) -> None:
        """One request; `given` a minute may be sent, 0: as many as they like. Raises `OverLimit`."""
        if not (per_minute := self.part(given)):
            return
        with self._lock:
            now = self._tick()
            full, seen = self._buckets.get(id, (float(per_minute), now))
            full = min(float(per_minute), full + (now - seen) * per_minute / _MINUTE)
            self._buckets[id] = (full if full < 1 else full - 1, now)
        if full < 1:
            wait = (1 - full) * _MINUTE / per_minute
            raise OverLimit(
                f"this key may send {requests(given)} a minute", hint=f"wait {wait:.0f} s", retry_after=wait
            )


def requests(number: int) -> str:
    return f"{number} request{'' if number == 1 else 's'}"
