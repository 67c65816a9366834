"""A part that is made once, by whichever thread comes first."""

from __future__ import annotations

import threading
import time

import pytest

from ragforge.build import Parts
from ragforge.once import once
from ragforge.wired import Flows


class Machine:
    def __init__(self) -> None:
        self.made: list[object] = []

    @once
    def engine(self) -> object:
        """What turns."""
        time.sleep(0.05)
        self.made.append(object())
        return self.made[-1]

    @once
    def gearbox(self) -> tuple[str, object]:
        return "of", self.engine

    @once
    def brake(self) -> object:
        self.made.append(object())
        if len(self.made) == 1:
            raise ValueError("not yet")
        return self.made[-1]


def test_many_threads_get_the_same_one() -> None:
    machine, found = Machine(), list[object]()
    together = threading.Barrier(8)

    def ask(place: int) -> None:
        together.wait()
        found.append(machine.engine if place % 2 else machine.gearbox[1])

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(machine.made) == 1 and found == machine.made * 8


def test_two_machines_do_not_wait_for_each_other() -> None:
    first, second = Machine(), Machine()
    with first.__dict__.setdefault("engine (lock)", threading.RLock()):
        thread = threading.Thread(target=lambda: second.engine)
        thread.start()
        thread.join(10)
        assert second.made and not first.made


def test_what_could_not_be_made_is_tried_again() -> None:
    machine = Machine()
    with pytest.raises(ValueError, match="not yet"):
        _ = machine.brake
    assert machine.brake is machine.made[1] is machine.brake


@pytest.mark.parametrize("whole", [Parts, Flows])
def test_every_part_of_a_workspace_is_made_once(whole: type) -> None:
    """A second catalog, jail or search would have connections, processes and threads of its own."""
    from functools import cached_property

    parts = {name: part for name, part in vars(whole).items() if isinstance(part, cached_property)}
    assert parts and all(isinstance(part, once) for part in parts.values()), parts
