"""Blocking work for an event loop: an iterator is asked in a thread, and holds none while it has nothing to give."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

import anyio
import anyio.to_thread
from anyio import CapacityLimiter

from ragforge.domain.cancel import Cancel
from ragforge.domain.pending import Pending

T = TypeVar("T")

_AT_ONCE = 32
"""Items that are fetched before the loop is told: fewer turns of a thread, and none waits long for its reader."""
_LOOK_SECONDS = 2.0
"""How often somebody looks after an iterator that says nothing: its time may be up."""


async def stepped(
    items: Iterator[T | Pending], threads: CapacityLimiter, cancel: Cancel | None = None
) -> AsyncGenerator[T, None]:
    """The items as they come. Whoever stops early, or is cancelled, ends the iterator too.

    `cancel` is what the iterator listens to: with it, also a step that blocks just then ends at once.
    """
    steps = _Steps(items)
    try:
        while True:
            step = await anyio.to_thread.run_sync(steps.take, limiter=threads, abandon_on_cancel=True)
            for item in step.taken:
                yield item
            if step.problem is not None:
                raise step.problem
            if step.ended:
                return
            if step.pending is not None:
                await _arrival(step.pending)
    finally:
        if cancel is not None:
            cancel.set()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(steps.close, limiter=threads)


@dataclass(slots=True)
class _Step(Generic[T]):
    """What one turn of a thread brought."""

    taken: list[T]
    pending: Pending | None = None
    ended: bool = False
    problem: BaseException | None = None
    """Raised after what was taken before it."""


class _Steps(Generic[T]):
    """An iterator that several threads take from, one after the other."""

    def __init__(self, items: Iterator[T | Pending]) -> None:
        self._items = items
        self._lock = threading.Lock()

    def take(self) -> _Step[T]:
        step: _Step[T] = _Step([])
        with self._lock:
            try:
                for item in self._items:
                    if isinstance(item, Pending):
                        step.pending = item
                        return step
                    step.taken.append(item)
                    if len(step.taken) >= _AT_ONCE:
                        return step
                step.ended = True
            except BaseException as problem:
                step.problem = problem
        return step

    def close(self) -> None:
        """After a step that may still be going on, abandoned."""
        with self._lock:
            if isinstance(self._items, Generator):
                self._items.close()


async def _arrival(pending: Pending) -> None:
    """Until something is there, or it is time to look."""
    loop, there = asyncio.get_running_loop(), asyncio.Event()

    def tell() -> None:
        with suppress(RuntimeError):  # the loop has ended, and nobody waits
            loop.call_soon_threadsafe(there.set)

    pending.then(tell)
    with anyio.move_on_after(_LOOK_SECONDS):
        await there.wait()
