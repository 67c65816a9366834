"""R8: indexes come from the catalog alone; `check` finds any difference and mends it."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.domain.library import Finding
from tests.forge import WatchedEmbedder, faults, fill, open_forge, prose
from tests.indexes import PARTS, keep, lose_all
from tests.proof import count, record

QUESTIONS = [f"word{number} word{number * 7 % 10_000} page {number % 40}" for number in range(30)]


def tops(forge: Ragforge) -> list[list[str]]:
    return [[p.chunk for p in forge.search(q, project="p", fresh=True).passages] for q in QUESTIONS]


def index_findings(forge: Ragforge, *, repair: bool = False) -> list[Finding]:
    return [f for f in forge.check(project="p", repair=repair) if f.subject.endswith("index")]


def test_R8_rebuild_gives_the_same_answers_without_the_model(swift_path: Path) -> None:
    embedder = WatchedEmbedder()
    with open_forge(swift_path / "workspace", embedder) as forge:
        for start in range(0, 60, 20):
            forge.add(fill(swift_path / f"docs{start}", 60)[start : start + 20], project="p")
        before, calls = tops(forge), embedder.calls
        stages = [event.stage for event in forge.rebuilding(project="p")]
        assert stages[0] == "rebuilding keyword index" and embedder.calls == calls
        assert tops(forge) == before
        lose_all(forge)
        assert tops(forge) == before and embedder.calls == calls
        assert faults(forge) == []


def test_R8_after_churn_a_rebuilt_index_agrees(swift_path: Path) -> None:
    files = fill(swift_path / "docs", 50)
    with open_forge(swift_path / "workspace") as forge:
        forge.add(swift_path / "docs", project="p")
        for number, path in enumerate(files[::5]):
            path.write_text(prose(900 + number))
            forge.add(path, project="p")
        before = tops(forge)
        list(forge.rebuilding(project="p"))
        after = tops(forge)
    same = sum(len(set(a) & set(b)) for a, b in zip(before, after, strict=True))
    total = sum(len(a) for a in before)
    assert same / total >= 0.95
    record("churn", overlap=round(same / total, 4))


@pytest.mark.parametrize("name", PARTS)
def test_R8_check_finds_rows_that_differ_and_mends_them(swift_path: Path, name: str) -> None:
    fill(swift_path / "docs", 10)
    with open_forge(swift_path / "workspace") as forge:
        forge.add(swift_path / "docs", project="p")
        put_back = keep(forge, name, swift_path / "saved")
        forge.add(fill(swift_path / "more", 14)[10:], project="p")
        list(forge.removing(["file0000.md"], project="p"))
        put_back()  # an older state: behind what was pruned
        found = [finding for finding in index_findings(forge) if not finding.ok]
        assert found == [] or found[0].hint
        assert all(f.ok or f.repaired for f in index_findings(forge, repair=True))
        assert faults(forge) == []
        assert "file0012.md" in {p.name for p in forge.search("Page 12", project="p").passages}
        assert "file0000.md" not in {p.name for p in forge.search("Page 0", project="p").passages}


def mutate(path: Path, how: random.Random) -> str:
    data = path.read_bytes()
    kind = how.choice(["truncate", "flip", "zero", "replace", "delete", "grow"])
    if kind == "truncate":
        os.truncate(path, how.randrange(len(data)) if data else 0)
    elif kind == "flip" and data:
        place = how.randrange(len(data))
        path.write_bytes(data[:place] + bytes([data[place] ^ (1 << how.randrange(8))]) + data[place + 1 :])
    elif kind == "zero":
        path.write_bytes(bytes(len(data)))
    elif kind == "replace":
        path.write_bytes(how.randbytes(len(data)))
    elif kind == "grow":
        path.write_bytes(data + how.randbytes(50))
    else:
        path.unlink()
    return kind


@pytest.mark.embedded("damages the files of local indexes, byte by byte", part="indexes")
def test_R8_corrupted_files_are_noticed_said_and_healed(swift_path: Path) -> None:
    """The process lives, says what is missing, never shows a wrong passage, and is whole again."""
    how = random.Random(8)
    embedder = WatchedEmbedder()
    mutations = count(7, 100)
    degraded = 0
    with open_forge(swift_path / "workspace", embedder) as forge:
        forge.add(fill(swift_path / "docs", 30), project="p")
        before, calls = tops(forge), embedder.calls
        for _ in range(mutations):
            files = [p for p in forge.workspace.glob("indexes/*/*/*/**/*") if p.is_file() and p.stat().st_size]
            mutate(how.choice(files), how)
            found = forge.search(QUESTIONS[0], project="p", fresh=True)
            degraded += bool(found.degraded)
            assert found.degraded or [p.chunk for p in found.passages] == before[0]
            forge._flows.follow.finish()
            again = forge.search(QUESTIONS[0], project="p", fresh=True)
            assert again.degraded == () and [p.chunk for p in again.passages] == before[0]
        assert tops(forge) == before and embedder.calls == calls and degraded > mutations // 3
        assert faults(forge) == []
    record("corruptions", mutations=mutations, degraded_said=degraded, healed=mutations)
