"""A service that keeps failing is left alone for a moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ragforge.errors import ProviderError

Seconds = Callable[[], float]


class Unfinished(ProviderError):
    """The caller's time ended while the model was still writing: no fault of the service."""


class Resting(ProviderError):
    """The breaker is open: nothing was sent."""


class Breaker:
    """Opens after failures in a row; then lets one call through every few seconds until one succeeds."""

    def __init__(
        self, name: str, *, failures: int = 5, rest_seconds: float = 4.0, clock: Seconds = time.monotonic
    ) -> None:
        self._name, self._most, self._rest, self._clock = name, failures, rest_seconds, clock
        self._lock = threading.Lock()
        self._failures = 0
        self._again_at = 0.0

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Around one call. Raises at once while the breaker is open; learns from how the call ends."""
        self._enter()
        try:
            yield
        except ProviderError as problem:
            if problem.retryable and not isinstance(problem, Unfinished):
                self._failed()
            else:
                self._answered()
            raise
        # anything else, such as a cancel, says nothing of the service
        self._answered()

    def _enter(self) -> None:
        with self._lock:
            if self._failures < self._most:
                return
            now = self._clock()
            if now >= self._again_at:
                self._again_at = now + self._rest  # this call tries it; the others wait for what it finds
                return
            wait = self._again_at - now
        raise Resting(
            f"{self._name} failed {self._failures} times in a row; it is tried again in {max(1, round(wait))} s",
            hint="search works without it; or choose another model with --model",
            retryable=True,
        )

    def _failed(self) -> None:
        with self._lock:
            self._failures += 1
            self._again_at = self._clock() + self._rest

    def _answered(self) -> None:
        with self._lock:
            self._failures = 0
