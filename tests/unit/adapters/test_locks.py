"""A lock between processes that dies with its holder."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from ragforge.adapters.locks import FileLock
from ragforge.errors import StoreError


def test_one_holder_or_many_readers(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first, second, third = FileLock(path), FileLock(path), FileLock(path)
    assert first.acquire()
    assert not second.acquire(blocking=False) and not second.acquire(shared=True, blocking=False)
    first.release()
    first.release()
    assert second.acquire(shared=True, blocking=False) and third.acquire(shared=True, blocking=False)
    assert not first.acquire(blocking=False)
    second.release()
    third.release()
    assert first.acquire(blocking=False)
    first.release()


def test_a_killed_holder_lets_go(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        FileLock(tmp_path / "lock").acquire()
        os.write(writing, b"l")
        signal.pause()
    os.read(reading, 1)
    lock = FileLock(tmp_path / "lock")
    assert not lock.acquire(blocking=False)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert lock.acquire(blocking=False)
    lock.release()
    os.close(reading)
    os.close(writing)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as refused:
        FileLock(tmp_path / "missing" / "lock").acquire()
    assert refused.value.hint
