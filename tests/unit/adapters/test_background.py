"""Streams on the background loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator

import pytest

from ragforge.adapters import background
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.pending import waited


class Source:
    """Numbers, and whether somebody still wants them."""

    def __init__(self, stop: int | None = None, problem: Exception | None = None) -> None:
        self.given = 0
        self.stop = stop
        self.problem = problem
        self.closed = threading.Event()

    async def numbers(self) -> AsyncGenerator[int, None]:
        try:
            while self.stop is None or self.given < self.stop:
                self.given += 1
                yield self.given
            if self.problem:
                raise self.problem
            if self.stop == 0:
                await asyncio.sleep(30)
        finally:
            self.closed.set()


def test_everything_comes_in_order() -> None:
    assert list(waited(background.stream(Source(1000).numbers(), Cancel()))) == list(range(1, 1001))


def test_a_slow_reader_holds_the_source_back() -> None:
    source = Source()
    stream = waited(background.stream(source.numbers(), Cancel()))
    assert next(stream) == 1
    time.sleep(0.1)
    assert source.given < 200
    stream.close()  # type: ignore[attr-defined]
    assert source.closed.wait(2)


def test_what_fails_is_raised_after_what_came_before() -> None:
    stream = waited(background.stream(Source(2, ValueError("broken")).numbers(), Cancel()))
    assert [next(stream), next(stream)] == [1, 2]
    with pytest.raises(ValueError, match="broken"):
        next(stream)


def test_a_cancel_stops_the_wait_and_the_source() -> None:
    source = Source(0)
    began = time.monotonic()
    with pytest.raises(Cancelled):
        next(waited(background.stream(source.numbers(), Cancel(0.1))))
    assert time.monotonic() - began < 1
    assert source.closed.wait(2)
