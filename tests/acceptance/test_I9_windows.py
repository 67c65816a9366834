"""I9: windows of characters or tokens, overlapping, ending where the text does."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from ragforge.domain.library import Chunk
from ragforge.domain.strategy import Strategy
from tests.forge import open_forge, prose


def windows(folder: Path, strategy: Strategy) -> tuple[str, list[Chunk]]:
    text = "\n".join(prose(number, 40) for number in range(20))
    (folder / "book.md").write_text(text)
    with open_forge(folder / "workspace") as forge:
        forge.create_project("q", strategy=strategy, embedder="hashing")
        forge.add(folder / "book.md", project="q")
        return text, forge.chunks("book.md", project="q")


def covers(text: str, chunks: list[Chunk]) -> bool:
    reached = 0
    for chunk in chunks:
        if text[reached : chunk.start].strip():
            return False
        reached = max(reached, chunk.end)
    return not text[reached:].strip()


@pytest.mark.parametrize("name", ["chars", "tokens"])
def test_I9_sizes_and_overlaps_hold_on_what_is_stored(swift_path: Path, name: str) -> None:
    text, chunks = windows(swift_path, Strategy(name=name))
    least, most, overlap_least, overlap_most = (800, 1200, 150, 250) if name == "chars" else (700, 1000, 100, 150)
    assert len(chunks) > 3 and covers(text, chunks)
    sizes = [len(chunk.text) if name == "chars" else chunk.tokens for chunk in chunks]
    assert max(sizes) <= most and min(sizes[:-1]) >= least
    for before, after in itertools.pairwise(chunks):
        shared = text[after.start : before.end]
        size = len(shared) if name == "chars" else round(before.tokens * len(shared) / len(before.text))
        slack = 0 if name == "chars" else 15  # counted by share, tokens differ in length
        assert overlap_least - slack <= size <= overlap_most + slack
    at_paragraph = sum(text[chunk.end : chunk.end + 1] in ("\n", "") or chunk.text.endswith("\n") for chunk in chunks)
    assert at_paragraph >= len(chunks) * 0.8, "windows end at a paragraph where one lies in range"


def test_I9_the_settings_choose_the_strategy_of_a_new_project(swift_path: Path) -> None:
    (swift_path / "book.md").write_text(prose(1, 60))
    with open_forge(
        swift_path / "workspace", split__strategy="chars", split__window_min=400, split__window_max=500
    ) as forge:
        project = forge.create_project("q", embedder="hashing")
        assert (project.strategy.name, project.strategy.window_max) == ("chars", 500)
        forge.add(swift_path / "book.md", project="q")
        chunks = forge.chunks("book.md", project="q")
        assert chunks and all(len(chunk.text) <= 500 for chunk in chunks)
