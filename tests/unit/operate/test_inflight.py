"""Who is at work, and who clears up after whom."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from ragforge.adapters.locks import FileLock
from ragforge.errors import StoreError
from ragforge.operate.inflight import InFlight


def in_flight(folder: Path) -> InFlight:
    return InFlight(folder, lambda: FileLock(folder / "lock"))


def test_nothing_to_recover_where_all_ended_well(tmp_path: Path) -> None:
    ran: list[int] = []
    for _ in range(2):
        with in_flight(tmp_path / "f").working(lambda: ran.append(1)) as recovered:
            assert not recovered
    assert ran == []


def test_work_that_failed_is_recovered_by_the_next(tmp_path: Path) -> None:
    ran: list[int] = []
    with pytest.raises(ValueError), in_flight(tmp_path).working(lambda: ran.append(1)):
        raise ValueError
    with in_flight(tmp_path).working(lambda: ran.append(2)) as recovered:
        assert recovered
    assert ran == [2]
    assert not in_flight(tmp_path).recover(lambda: ran.append(3)) and ran == [2]


def test_a_killed_process_is_recovered_and_a_living_one_left_alone(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        with in_flight(tmp_path).working(lambda: None):
            os.write(writing, b"w")
            signal.pause()
        os._exit(0)
    os.read(reading, 1)
    ran: list[int] = []
    assert not in_flight(tmp_path).recover(lambda: ran.append(1)), "it lives"
    with in_flight(tmp_path).alone() as alone:
        assert not alone
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert in_flight(tmp_path).recover(lambda: ran.append(2)) and ran == [2]
    os.close(reading)
    os.close(writing)


def test_a_recovery_that_fails_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / "1-abc").touch()

    def fail() -> None:
        raise StoreError("the disk is gone")

    with pytest.raises(StoreError):
        in_flight(tmp_path).recover(fail)
    assert in_flight(tmp_path).recover(lambda: None)


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError) as refused, in_flight(tmp_path / "file" / "f").working(lambda: None):
        pass
    assert refused.value.hint
