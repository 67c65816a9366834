"""Requests to a provider end with the call that made them."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from ragforge.adapters import background
from ragforge.domain.cancel import Cancel


def test_an_interrupted_wait_stops_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.set()

    waited: list[object] = []

    def interrupted(futures: list[Future[Any]], timeout: float) -> None:
        waited.append(timeout)
        if len(waited) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(background, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        background.run(work(), Cancel())
    assert ended.wait(5)
