"""One event loop in a thread of its own, for a library that only speaks async."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from concurrent.futures import CancelledError, wait
from contextlib import aclosing
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.pending import Pending

T = TypeVar("T")

_POLL_SECONDS = 0.05
_CLEAN_UP_SECONDS = 2
_HANG_UP_SECONDS = 0.2
"""What is stopped may take so long of its caller's time to end well; it ends anyway."""
_AHEAD = 64
"""Pieces of a stream that wait for their reader, at most."""


class _End:
    """Behind the last piece."""


_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}


def run(work: Coroutine[Any, Any, T], cancel: Cancel) -> T:
    """Wait for work on the background loop; a cancel stops it in the middle of a request or a sleep."""
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        while not future.done():
            wait([future], timeout=_POLL_SECONDS)
            if cancel.is_set and future.cancel():
                wait([future], timeout=_HANG_UP_SECONDS)
    finally:
        future.cancel()  # an interrupted wait must not leave a request going on; one that is done does not mind
    try:
        return future.result()
    except CancelledError:
        raise Cancelled from None


def stream(source: AsyncGenerator[T, None], cancel: Cancel) -> Iterator[T | Pending]:
    """The pieces of a source on the background loop, as they come. Closing the iterator, or a cancel, stops it."""
    loop, room, more = _loop(), asyncio.Semaphore(_AHEAD), Pending()
    pieces: SimpleQueue[T | _End] = SimpleQueue()

    def put(piece: T | _End) -> None:
        pieces.put(piece)
        more.arrived()

    async def pump() -> None:
        async with aclosing(source):
            async for piece in source:
                await room.acquire()
                put(piece)

    future = asyncio.run_coroutine_threadsafe(pump(), loop)
    future.add_done_callback(lambda _: put(_End()))
    try:
        while True:
            cancel.check()
            more.begin()
            try:
                piece = pieces.get_nowait()
            except Empty:
                yield more
                continue
            if isinstance(piece, _End):
                break
            loop.call_soon_threadsafe(room.release)
            yield piece
        future.result()
    except CancelledError:
        raise Cancelled from None
    finally:
        future.cancel()  # one that is done does not mind


def _loop() -> asyncio.AbstractEventLoop:
    """The loop of this process: a fork inherits the memory but not the thread."""
    with _lock:
        if os.getpid() not in _loops:
            _loops[os.getpid()] = _start()
        return _loops[os.getpid()]


def _start() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=_serve, args=(loop,), name="ragforge-async", daemon=True)
    thread.start()
    atexit.register(_stop, loop, thread)
    return loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    loop.call_soon_threadsafe(loop.stop)
    thread.join(_CLEAN_UP_SECONDS)
