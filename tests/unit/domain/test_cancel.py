"""A way to stop long work."""

from __future__ import annotations

import threading
import time

import pytest

from ragforge.domain.cancel import Cancel, Cancelled


def test_it_is_set_once_and_for_all() -> None:
    cancel = Cancel()
    cancel.check()
    assert not cancel.is_set and cancel.remaining() == float("inf")
    cancel.set()
    assert cancel.is_set
    with pytest.raises(Cancelled):
        cancel.check()


def test_a_deadline_sets_it() -> None:
    cancel = Cancel(deadline_seconds=0.05)
    assert not cancel.is_set and 0 < cancel.remaining() <= 0.05
    assert cancel.wait(5)
    assert cancel.is_set and cancel.remaining() <= 0


def test_a_sleeper_wakes_at_once() -> None:
    cancel = Cancel()
    threading.Timer(0.05, cancel.set).start()
    began = time.monotonic()
    assert cancel.wait(10)
    assert time.monotonic() - began < 2
    assert not Cancel().wait(0.01)


def test_nobody_catches_it_by_accident() -> None:
    assert not issubclass(Cancelled, Exception)
