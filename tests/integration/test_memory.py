"""Memory stays flat however often files change, and a large file does not stay in memory."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

from ragforge.domain.library import Outcome
from tests.forge import fill, open_forge, prose
from tests.proof import count, record


def resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_memory_stays_flat_over_changing_files(swift_path: Path) -> None:
    paths = fill(swift_path / "docs", 20, 60)
    rounds = count(24, 200)
    with open_forge(swift_path / "workspace") as forge:
        sizes = []
        for turn in range(rounds):
            for number, path in enumerate(paths):
                path.write_text(prose(turn * 1000 + number, 60))
            assert forge.add(swift_path / "docs", project="p").count(Outcome.READY) == len(paths)
            sizes.append(resident())
        assert len(forge.documents(project="p")) == len(paths)
    # the least of a few rounds: what one round holds for a moment is no growth
    warm, end = min(sizes[rounds // 3 :][:6]), min(sizes[-6:])
    limit = count(30_000_000, 15_000_000)  # few rounds end while the allocator is still warming
    assert end - warm < limit, [round(size / 1e6) for size in sizes]
    record("memory_over_changes", rounds=rounds, grown_mb=round((end - warm) / 1e6, 1))


def test_a_large_text_is_let_go(swift_path: Path) -> None:
    """In a process of its own: what other tests left in this one's memory would be counted too."""
    script = f"from tests.integration.test_memory import print_sizes; print_sizes({str(swift_path)!r})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    sizes = [int(size) for size in done.stdout.split()]
    assert sizes[-1] - sizes[7] < 40_000_000, [round(size / 1e6) for size in sizes]


def print_sizes(folder: str) -> None:
    """The memory in use after each of twelve versions of a large file."""
    path = Path(folder) / "large.md"
    with open_forge(Path(folder) / "workspace") as forge:
        for turn in range(12):
            path.write_text("".join(prose(turn * 10_000 + number, 60) for number in range(150)))
            assert forge.add(path, project="p").count(Outcome.READY) == 1
            print(resident())
    assert path.stat().st_size > 500_000
