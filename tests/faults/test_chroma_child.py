"""Chroma's child is killed, starved or fed damaged files: ragforge lives, says so, and a rebuild heals it."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from ragforge.adapters.vectors.chroma import ChromaEmbedded
from ragforge.domain.retrieval import VectorRows
from ragforge.errors import IndexLost, StoreError
from ragforge.testing.contracts.vectors import ALL, NONE, Library, rebuild, write
from tests.proof import count, record

LIBRARY = Library(1_200, 60)
FIRST = VectorRows(LIBRARY.keys[:600], LIBRARY.documents[:600], LIBRARY.vectors[:600])
SECOND = VectorRows(LIBRARY.keys[600:], LIBRARY.documents[600:], LIBRARY.vectors[600:])


@pytest.fixture
def index(swift_path: Path) -> Iterator[ChromaEmbedded]:
    index = ChromaEmbedded(swift_path / "index", "f")
    yield index
    index.close()


def kill(index: ChromaEmbedded, number: signal.Signals, delay: float = 0) -> None:
    time.sleep(delay)
    pid = index._process.pid
    assert pid is not None
    os.kill(pid, number)


def whole(index: ChromaEmbedded) -> bool:
    """Whether the index is at the second state with all its rows, found by search and listed."""
    reader = index.pin()
    assert reader.watermark == 2
    assert reader.keys().tolist() == LIBRARY.keys.tolist()
    assert LIBRARY.recall(reader, ALL, queries=3) >= 0.98
    return index.verify() == []


def test_killed_while_idle(index: ChromaEmbedded) -> None:
    """No call was under way, so its files are whole: a new child answers."""
    rebuild(index, [FIRST, SECOND], 2)
    reader = index.pin()
    for number in (signal.SIGKILL, signal.SIGSEGV):
        kill(index, number)
        assert LIBRARY.recall(reader, ALL, queries=3) >= 0.98
    assert whole(index)


def test_killed_while_it_writes(index: ChromaEmbedded) -> None:
    """Whatever it was doing: the index is either as before or after, or known to be lost."""
    dice, outcomes = random.Random(11), {"lost": 0, "before": 0, "after": 0}
    for _ in range(count(2, 60)):
        rebuild(index, [FIRST], 1)
        number = dice.choice([signal.SIGKILL, signal.SIGSEGV])
        killer = Thread(target=kill, args=(index, number, dice.uniform(0, 0.35)))
        killer.start()
        try:
            write(index, SECOND, NONE, 2)
        except IndexLost as problem:
            assert number.name in problem.message
        killer.join()
        try:
            watermark = index.pin().watermark
        except IndexLost:
            outcomes["lost"] += 1
            rebuild(index, [FIRST, SECOND], 2)
        else:
            outcomes["after" if watermark == 2 else "before"] += 1
            write(index, SECOND, NONE, 2)  # what was under way is applied again
        assert whole(index)
    record("chroma_kills", **outcomes)


if sys.platform == "linux":

    def test_a_file_that_grows_too_large(index: ChromaEmbedded, swift_path: Path) -> None:
        import resource

        rebuild(index, [FIRST], 1)
        pid = index._process.pid
        assert pid is not None
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (200_000, 200_000))
        with pytest.raises(StoreError):
            write(index, SECOND, NONE, 2)
        assert max(path.stat().st_size for path in swift_path.rglob("*") if path.is_file()) < 2_000_000
        kill(index, signal.SIGKILL)  # it would keep the limit
        with pytest.raises(IndexLost):
            index.pin()
        rebuild(index, [FIRST, SECOND], 2)
        assert whole(index)


def test_damaged_files(index: ChromaEmbedded, swift_path: Path) -> None:
    dice, outcomes = random.Random(5), {"lost": 0, "incomplete": 0, "answered": 0}
    for _ in range(count(2, 40)):
        rebuild(index, [FIRST, SECOND], 2)
        index.close()
        data = next(path for path in (swift_path / "index").iterdir() if path.is_dir())
        damaged = dice.choice(sorted(path for path in data.rglob("*") if path.is_file() and path.stat().st_size))
        damage(damaged, dice)
        try:
            reader = index.pin()
            LIBRARY.recall(reader, ALL, queries=2)
            index.verify()
            outcomes["answered"] += 1  # Chroma has no checksums: what it does not notice, nobody does
        except IndexLost:
            outcomes["lost"] += 1
        except AssertionError:
            outcomes["incomplete"] += 1
        rebuild(index, [FIRST, SECOND], 2)
        assert whole(index)
    record("chroma_damage", **outcomes)


def damage(path: Path, dice: random.Random) -> None:
    """Cut the file short, overwrite a part of it, or empty it."""
    data = bytearray(path.read_bytes())
    at = dice.randrange(len(data))
    match dice.randrange(3):
        case 0:
            del data[at:]
        case 1:
            data[at : at + 400] = dice.randbytes(len(data[at : at + 400]))
        case _:
            data.clear()
    path.write_bytes(data)
