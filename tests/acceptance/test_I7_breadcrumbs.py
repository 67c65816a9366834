"""I7: every chunk carries a breadcrumb that is embedded with it."""

from __future__ import annotations

from pathlib import Path

from ragforge.domain.strategy import Strategy
from tests.forge import WatchedEmbedder, open_forge

TEXT = "# Handbook\n\n## Long part\n\n" + "\n\n".join(
    " ".join(f"The desk number {n * 10 + k} was made of oak and sold to a friend of the house." for k in range(7))
    for n in range(40)
)


def test_I7_every_leaf_is_embedded_with_its_breadcrumb(swift_path: Path) -> None:
    (swift_path / "book.md").write_text(TEXT)
    embedder = WatchedEmbedder()
    with open_forge(swift_path / "workspace", embedder) as forge:
        forge.create_project("q", strategy=Strategy(), embedder="hashing")
        forge.add(swift_path / "book.md", project="q")
        chunks = forge.chunks("book.md", project="q")
    expected = {
        f"[Source: {' > '.join(('book.md', *chunk.locator.path))}]\n{chunk.header}{chunk.text}" for chunk in chunks
    }
    assert set(embedder.texts) == expected
    assert any(text.startswith("[Source: book.md > Handbook > Long part]\n") for text in expected)
