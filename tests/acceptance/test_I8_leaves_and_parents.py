"""I8: leaves of 300 to 500 tokens are searched, parents of 1000 to 2000 come back."""

from __future__ import annotations

from pathlib import Path

from ragforge.domain.strategy import Strategy
from tests.forge import open_forge

TEXT = "# Handbook\n\n## Long part\n\n" + "\n\n".join(
    " ".join(f"The desk number {n * 10 + k} was made of oak and sold to a friend of the house." for k in range(7))
    for n in range(40)
)


def test_I8_leaves_lie_inside_parents_of_the_right_size(swift_path: Path) -> None:
    (swift_path / "book.md").write_text(TEXT)
    with open_forge(swift_path / "workspace") as forge:
        forge.create_project("q", strategy=Strategy(), embedder="hashing")
        forge.add(swift_path / "book.md", project="q")
        chunks = forge.chunks("book.md", project="q")
    parents: dict[int, int] = {}
    for chunk in chunks:
        assert TEXT[chunk.start : chunk.end] == chunk.text
        parents[chunk.section] = parents.get(chunk.section, 0) + chunk.tokens
    assert all(tokens <= 2000 for tokens in parents.values())
    assert sum(tokens >= 1000 for tokens in parents.values()) >= len(parents) - 1
    long = [chunk for chunk in chunks if chunk.locator.path[-1:] == ("Long part",)]
    assert sum(300 <= chunk.tokens <= 500 for chunk in long) >= len(long) - 1
