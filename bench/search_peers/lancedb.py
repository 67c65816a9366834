"""LanceDB: its full-text and vector search on one table, fused by its rerankers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.search_peers.common import CANDIDATES, K, Passages, Query, Search, run


class LanceDB:
    def build(self, passages: Passages, store: Path) -> None:
        import lancedb
        import pyarrow as pa

        size = passages.vectors.shape[1]
        table = pa.table(
            {
                "id": pa.array(passages.ids),
                "text": pa.array(passages.texts),
                "vector": pa.FixedSizeListArray.from_arrays(pa.array(passages.vectors.ravel()), size),
            }
        )
        self._table = lancedb.connect(str(store)).create_table("passages", table)
        self._table.create_fts_index("text")

    def open(self, store: Path) -> None:
        import lancedb

        self._table = lancedb.connect(str(store)).open_table("passages")

    def variants(self) -> dict[str, Search]:
        from lancedb.rerankers import LinearCombinationReranker, RRFReranker

        return {
            "RRFReranker": self._search(RRFReranker()),
            "LinearCombinationReranker": self._search(LinearCombinationReranker()),
            "LinearCombinationReranker, vector weight .5": self._search(LinearCombinationReranker(weight=0.5)),
        }

    def _search(self, reranker: Any) -> Search:
        def search(query: Query) -> list[str]:
            found = (
                self._table.search(query_type="hybrid")
                .vector(query.vector)
                .text(query.text)
                .distance_type("cosine")
                .select(["id", "text"])
                .rerank(reranker)
                .limit(CANDIDATES)
                .to_arrow()
            )
            ids: list[str] = found["id"].to_pylist()[:K]
            return ids

        return search


if __name__ == "__main__":
    run(LanceDB())
