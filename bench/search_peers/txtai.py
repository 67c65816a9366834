"""txtai: its hybrid index (BM25 and Faiss) with texts in its SQLite database.

Faiss is approximate by default, which is in its favour for speed; for quality it compares exactly.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.search_peers.common import K, Passages, Query, Search, Vectors, run

KNOWN = Vectors()
EXACT = {"faiss": {"components": "IDMap,Flat"}}


def given(texts: Sequence[str]) -> Any:
    """txtai asks for vectors by calling a plain function."""
    import numpy as np

    return np.stack([KNOWN[text] for text in texts])


class Txtai:
    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = {"method": "external", "transform": given, "hybrid": True, "content": True, **settings}

    def build(self, passages: Passages, store: Path) -> None:
        from txtai import Embeddings

        KNOWN.learn(passages.texts, passages.vectors)
        self._embeddings = Embeddings(self._settings)
        self._embeddings.index(zip(passages.ids, passages.texts, strict=True))
        self._embeddings.save(str(store))

    def open(self, store: Path) -> None:
        from txtai import Embeddings

        self._embeddings = Embeddings(self._settings)
        self._embeddings.load(str(store), config={"transform": given})

    def variants(self) -> dict[str, Search]:
        """It takes ten times as many candidates as results of each engine by itself."""
        return {"equal weights": self._search(0.5), "vector weight .7": self._search(0.7)}

    def _search(self, weight: float) -> Search:
        def search(query: Query) -> list[str]:
            KNOWN.learn([query.text], query.vector[None])
            return [found["id"] for found in self._embeddings.search(query.text, K, weights=weight)]

        return search


if __name__ == "__main__":
    run(Txtai(EXACT if sys.argv[1] == "quality" else {}))
