"""An iterator that has nothing to give yet says so, instead of holding its caller's thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from typing import TypeVar

T = TypeVar("T")

_POLL_SECONDS = 0.05


class Pending:
    """Something is on its way. Whoever has a thread to spare waits for it; whoever has none is called."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._there = threading.Event()
        self._call: Callable[[], None] | None = None

    def arrived(self) -> None:
        """Said by the one who brings it, from any thread."""
        with self._lock:
            self._there.set()
            call, self._call = self._call, None
        if call is not None:
            call()

    def begin(self) -> None:
        """Said by the one who is about to look: what comes from now on will be told."""
        with self._lock:
            self._there.clear()

    def wait(self, seconds: float = _POLL_SECONDS) -> None:
        self._there.wait(seconds)

    def then(self, call: Callable[[], None]) -> None:
        """Call once when something is there, at once if it is; from another thread, so it must be quick."""
        with self._lock:
            if not self._there.is_set():
                self._call = call
                return
        call()


def at_once() -> Pending:
    """Said before something that takes a while: whoever collects what came so far may hand it on now."""
    pending = Pending()
    pending.arrived()
    return pending


def waited(items: Iterator[T | Pending]) -> Iterator[T]:
    """The same items for a caller whose thread may wait."""
    try:
        for item in items:
            if isinstance(item, Pending):
                item.wait()
            else:
                yield item
    finally:
        if isinstance(items, Generator):
            items.close()
