"""Writers of the local indexes are killed, and their files damaged: a reader gets a whole state or is told it is lost.

Everything that opens an index runs in a process of its own, so that one that dies is seen.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest

from ragforge.adapters.keywords.tantivy import TantivyIndex
from ragforge.adapters.vectors.snapshot import SnapshotIndex
from ragforge.domain.retrieval import Allowed, Keys, KeywordRows, QueryWords, VectorRows
from ragforge.errors import IndexLost
from tests.proof import count, record

DIMENSION = 16
FAILPOINTS = ("index.segment", "index.swap", "index.swapped")
NONE = np.empty(0, dtype=np.int64)
QUERIES = 6


class Engine(Protocol):
    """One kind of index, with rows that follow from their keys."""

    def open(self, folder: Path) -> Any: ...
    def rows(self, keys: Keys) -> Any: ...
    def answers(self, reader: Any) -> list[Any]: ...


class Vectors:
    def open(self, folder: Path) -> SnapshotIndex:
        return SnapshotIndex(folder, "f")

    def rows(self, keys: Keys) -> VectorRows:
        vectors = np.array([np.random.default_rng(key).normal(size=DIMENSION) for key in keys.tolist()], np.float32)
        return VectorRows(keys, keys // 4, vectors.reshape(-1, DIMENSION))

    def answers(self, reader: Any) -> list[Any]:
        queries = np.random.default_rng(1).normal(size=(QUERIES, DIMENSION)).astype(np.float32)
        results = [reader.search(query, 20, Allowed()) for query in queries]
        return [(result.keys.tolist(), result.scores.tolist()) for result in results]


class Keywords:
    def open(self, folder: Path) -> TantivyIndex:
        return TantivyIndex(folder, "f")

    def rows(self, keys: Keys) -> KeywordRows:
        terms = [("every", f"n{key}", *(f"m{key % number}" for number in (3, 5, 7))) for key in keys.tolist()]
        return KeywordRows(keys, keys // 4, tuple(terms))

    def answers(self, reader: Any) -> list[Any]:
        queries = [QueryWords((("every",), (f"m{number}",))) for number in range(QUERIES)]
        results = [reader.search(query, 20, Allowed()) for query in queries]
        return [(result.keys.tolist(), result.scores.tolist()) for result in results]


ENGINES: dict[str, Engine] = {"snapshot": Vectors(), "tantivy": Keywords()}


def start(work: Callable[[], None]) -> int:
    """A process that does the work; its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def alone(work: Callable[[], None]) -> None:
    """Do the work in a process of its own, which must come back."""
    assert os.waitstatus_to_exitcode(os.waitpid(start(work), 0)[1]) == 0


# -- kills


def put_at(step: int) -> Keys:
    """New rows, and some of the step before once more."""
    return np.concatenate([np.arange(step * 10 - 2, step * 10), np.arange(step * 10, step * 10 + 2 + step % 7)])


def removed_at(step: int) -> Keys:
    return np.arange((step // 2) * 10, (step // 2) * 10 + step % 4, dtype=np.int64)


def keys_at(watermark: int) -> list[int]:
    """The rows that an index holds after so many steps."""
    held: set[int] = set()
    for step in range(1, watermark + 1):
        held = (held - set(removed_at(step).tolist())) | set(put_at(step).tolist())
    return sorted(held)


def write_on(engine: Engine, folder: Path, told: int) -> None:
    """Apply step after step, erase and rebuild now and then, and tell each watermark that is durable."""
    index = engine.open(folder)
    while True:
        with index.writing(blocking=True):
            reader = index.pin()
            step = reader.watermark + 1
            reader.release()
            if step % 11 == 0:
                index.rebuild((engine.rows(np.array(part)) for part in np.array_split(keys_at(step), 3)), step)
            else:
                index.apply(engine.rows(put_at(step)), removed_at(step), step)
            os.write(told, step.to_bytes(4, "big"))
            if step % 5 == 0:
                index.erase()


def judge(engine: Engine, folder: Path, durable: int) -> None:
    """The state is that of one watermark, nothing durable is lost, and the next writer can go on."""
    index = engine.open(folder)
    reader = index.pin()
    assert reader.watermark >= durable
    assert reader.keys().tolist() == keys_at(reader.watermark)
    assert index.verify() == []
    fresh = engine.open(folder.with_name("fresh"))
    with fresh.writing(blocking=True):
        fresh.rebuild([engine.rows(np.array(keys_at(reader.watermark), dtype=np.int64))], 1)
    with index.writing(blocking=False) as mine:
        assert mine  # the lock died with its holder
        assert index.erase()
    named = {segment.name for segment in index._folder.read()[0].segments}
    assert {path.name for path in folder.iterdir() if path.is_dir()} == named  # nothing of the killed one is left
    assert engine.answers(index.pin()) == engine.answers(fresh.pin())
    shutil.rmtree(folder.with_name("fresh"))


@pytest.mark.parametrize("name", ENGINES)
def test_writers_are_killed_at_any_moment(swift_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    engine, folder = ENGINES[name], swift_path / "index"
    monkeypatch.setenv("RAGFORGE_TESTING", "1")
    chance = random.Random(11)

    def begin() -> None:
        index = engine.open(folder)
        with index.writing(blocking=True):
            index.rebuild([], 0)

    alone(begin)
    durable, steps, kills = 0, 0, count(6, 100)
    for number in range(kills):
        if number % 2:
            monkeypatch.setenv("RAGFORGE_FAILPOINT", f"{FAILPOINTS[number // 2 % 3]}:kill@{chance.randrange(1, 6)}")
        else:
            monkeypatch.delenv("RAGFORGE_FAILPOINT", raising=False)
        told, telling = os.pipe()
        pid = start(partial(write_on, engine, folder, telling))
        os.close(telling)
        if number % 2 == 0:
            time.sleep(chance.uniform(0.01, 0.2))
            os.kill(pid, signal.SIGKILL)
        with os.fdopen(told, "rb") as file:
            messages = file.read()
        assert os.WIFSIGNALED(os.waitpid(pid, 0)[1]), "it did not die by our hand"
        if messages:
            durable = int.from_bytes(messages[-4:], "big")
        steps += len(messages) // 4
        monkeypatch.delenv("RAGFORGE_FAILPOINT", raising=False)
        alone(partial(judge, engine, folder, durable))
    assert steps > kills
    record(f"index_kills_{name}", kills=kills, steps=steps, lost=0)


# -- damage


def harm(folder: Path, chance: random.Random) -> str:
    """Damage one file of an index in one of many ways, half of the time with its time set back."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
    file = chance.choice(files)
    before, content = file.stat(), bytearray(file.read_bytes())
    start = chance.randrange(len(content))
    length = min(len(content) - start, chance.choice((1, 16, 4_096, 1 << 20)))
    kind = chance.choice(("cut", "empty", "flip", "zero", "noise", "swap", "grow", "delete", "remove folder"))
    match kind:
        case "cut":
            os.truncate(file, start)
        case "empty":
            os.truncate(file, 0)
        case "flip":
            content[start] ^= 1 << chance.randrange(8)
        case "zero":
            content[start : start + length] = bytes(length)
        case "noise":
            content[start : start + length] = chance.randbytes(length)
        case "swap":
            shutil.copy(chance.choice(files), folder / "other")
            os.replace(folder / "other", file)
        case "grow":
            content += chance.randbytes(length)
        case "delete":
            file.unlink()
        case "remove folder":
            shutil.rmtree(file.parent)
    if kind in ("flip", "zero", "noise", "grow"):
        with file.open("r+b") as same:  # in place, under the maps of whoever has it open
            same.write(content)
    if file.exists() and chance.random() < 0.5:
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    return f"{kind} {file.name}"


def survive(engine: Engine, folder: Path, seed: int) -> None:
    """Damage an index that is open here: what opened it before and what opens it now say so, or answer as ever."""
    keys = np.array(keys_at(30), dtype=np.int64)
    opened, later = engine.open(folder), engine.open(folder)
    expected = engine.answers(opened.pin())
    what = harm(folder, random.Random(seed))
    lost = []
    for index in (opened, later, opened):
        began = time.process_time()
        try:
            reader = index.pin()
            assert reader.keys().tolist() == keys.tolist(), what
            assert engine.answers(reader) == expected, what
            reader.release()
        except IndexLost as problem:
            lost.append(problem.message)
        assert time.process_time() - began < 1, what
    wrong = later.verify()
    assert wrong or not lost, (what, lost)
    with later.writing(blocking=True):
        later.rebuild([engine.rows(keys)], 31)
    for index in (opened, later):
        reader = index.pin()
        assert (reader.watermark, reader.keys().tolist()) == (31, keys.tolist()), what
    assert later.verify() == [], what


@pytest.mark.parametrize("name", ENGINES)
def test_files_are_damaged_in_any_way(swift_path: Path, name: str) -> None:
    engine, whole = ENGINES[name], swift_path / "whole"

    def begin() -> None:
        index = engine.open(whole)
        with index.writing(blocking=True):
            index.rebuild([], 0)
            for step in range(1, 31):
                index.apply(engine.rows(put_at(step)), removed_at(step), step)
        assert len([path for path in whole.iterdir() if path.is_dir()]) > 1
        assert any(segment.dead is not None for segment in index.pin()._state.manifest.segments)

    alone(begin)
    mutations = count(8, 100)
    for seed in range(mutations):
        shutil.copytree(whole, swift_path / "index", copy_function=shutil.copy2)
        alone(partial(survive, engine, swift_path / "index", seed))
        shutil.rmtree(swift_path / "index")
    record(f"index_damage_{name}", mutations=mutations, died=0)
