"""What is embedded, under which hash, and what is left out because it is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ragforge.domain.cancel import Cancel
from ragforge.domain.documents import Leaf, Locator, Parsed, Section, Split
from ragforge.domain.tokens import Passage
from ragforge.ingest.embed import embed_missing, passages, text_hash
from tests.forge import WatchedEmbedder, fill, open_forge

TEXT = "Oak is hard. Pine is soft."
SPLIT = Split(
    (Section(0, 0, len(TEXT), Locator(("Wood",)), 8),),
    (
        Leaf(0, 0, 0, 13, Locator(("Wood",)), 4),
        Leaf(1, 0, 13, len(TEXT), Locator(("Wood", "Soft")), 4, header="| a |\n"),
    ),
)


def test_a_leaf_is_embedded_with_breadcrumb_and_table_header() -> None:
    embedder = WatchedEmbedder()
    (tokens,) = embedder.tokenizer.encode([TEXT])
    found = passages("wood.md", Parsed(TEXT), SPLIT, tokens, embedder.tokenizer)
    assert [passage.text for _, passage in found] == [
        "[Source: wood.md > Wood]\nOak is hard. ",
        "[Source: wood.md > Wood > Soft]\n| a |\nPine is soft.",
    ]
    assert [name for name, _ in found] == [text_hash(passage.text) for _, passage in found]


def test_tokens_come_along_and_give_the_same_vector() -> None:
    embedder = WatchedEmbedder()
    (tokens,) = embedder.tokenizer.encode([TEXT])
    for _, passage in passages("wood.md", Parsed(TEXT), SPLIT, tokens, embedder.tokenizer):
        with_ids, without = (embedder.embed([p], Cancel()) for p in (passage, Passage(passage.text)))
        np.testing.assert_allclose(with_ids, without)


def test_only_unknown_passages_are_embedded_longest_first(swift_path: Path) -> None:
    fill(swift_path / "docs", 1)
    embedder = WatchedEmbedder()
    with open_forge(swift_path / "workspace", embedder) as forge:
        forge.add(swift_path / "docs", project="p")
        known = embedder.texts[0]
        embedder.texts.clear()
        texts = [known, *("a longer text of " + "words " * number for number in range(60))]
        wanted = {text_hash(text): Passage(text) for text in texts}
        batches = list(
            embed_missing(forge._parts.catalog, forge._scope, forge.project("p").id, embedder, wanted, Cancel())
        )
    assert [len(hashes) for hashes, _ in batches] == [16, 32, 12], "batches grow while they are quick"
    assert embedder.texts == sorted(texts[1:], key=len, reverse=True)
    assert all(len(hashes) == len(vectors) for hashes, vectors in batches)
