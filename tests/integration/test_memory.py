"""Memory stays flat however often files change, and a large file does not stay in memory.

Each in a process of its own: what other tests left in this one's memory would be counted too. With few arenas, or the
pages that the allocator holds back for its threads hide what the program holds.
"""

from __future__ import annotations

import gc
import itertools
import os
import statistics
import subprocess
import sys
from pathlib import Path

from ragforge.domain.library import Outcome
from tests.forge import fill, open_forge, prose
from tests.proof import count, record


def resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def sizes_of(work: str, folder: Path, rounds: int) -> list[int]:
    """The memory in use after each round of one of the functions below."""
    script = f"from tests.integration import test_memory as t; t.{work}({str(folder)!r}, {rounds})"
    alone = {**os.environ, "MALLOC_ARENA_MAX": "2"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=alone)
    return [int(size) for size in done.stdout.split()]


def test_memory_stays_flat_over_changing_files(swift_path: Path) -> None:
    rounds = count(18, 200)
    sizes = sizes_of("change_files", swift_path, rounds)
    assert len(sizes) == rounds
    shown = [round(size / 1e6, 1) for size in sizes]
    # A leak grows in every round. What the allocator takes once and keeps, sooner or later, does not.
    usual = statistics.median(after - before for before, after in itertools.pairwise(sizes[rounds // 3 :]))
    assert usual < 500_000, shown
    # The least of a few rounds: what one round holds for a moment is no growth.
    warm, end = min(sizes[rounds // 3 :][:6]), min(sizes[-6:])
    assert end - warm < count(40_000_000, 15_000_000), shown
    record("memory_over_changes", rounds=rounds, grown_mb=round((end - warm) / 1e6, 1))


def change_files(folder: str, rounds: int) -> None:
    paths = fill(Path(folder) / "docs", 20, 60)
    with open_forge(Path(folder) / "workspace") as forge:
        for turn in range(rounds):
            for number, path in enumerate(paths):
                path.write_text(prose(turn * 1000 + number, 60))
            assert forge.add(Path(folder) / "docs", project="p").count(Outcome.READY) == len(paths)
            print(resident())
        assert len(forge.documents(project="p")) == len(paths)


def test_a_large_text_is_let_go(swift_path: Path) -> None:
    sizes = sizes_of("change_a_large_file", swift_path, count(8, 12))
    assert sizes[-1] - sizes[5] < 25_000_000, [round(size / 1e6) for size in sizes]


def change_a_large_file(folder: str, rounds: int) -> None:
    path = Path(folder) / "large.md"
    with open_forge(Path(folder) / "workspace") as forge:
        for turn in range(rounds):
            path.write_text("".join(prose(turn * 10_000 + number, 60) for number in range(150)))
            assert forge.add(path, project="p").count(Outcome.READY) == 1
            print(resident())
    assert path.stat().st_size > 500_000
