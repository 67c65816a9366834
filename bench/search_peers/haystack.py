"""Haystack: the BM25 and the embedding retriever of its in-memory store, fused by DocumentJoiner."""

from __future__ import annotations

from pathlib import Path

from bench.search_peers.common import CANDIDATES, K, Passages, Query, Search, run


class Haystack:
    def build(self, passages: Passages, store: Path) -> None:
        from haystack import Document
        from haystack.document_stores.in_memory import InMemoryDocumentStore

        self._store = InMemoryDocumentStore(embedding_similarity_function="cosine")
        self._store.write_documents(
            [
                Document(id=id, content=text, embedding=vector.tolist())
                for id, text, vector in zip(passages.ids, passages.texts, passages.vectors, strict=True)
            ]
        )
        self._store.save_to_disk(str(store / "store.json"))

    def open(self, store: Path) -> None:
        from haystack.document_stores.in_memory import InMemoryDocumentStore

        self._store = InMemoryDocumentStore.load_from_disk(str(store / "store.json"))

    def variants(self) -> dict[str, Search]:
        return {
            "reciprocal_rank_fusion": self._search("reciprocal_rank_fusion"),
            "reciprocal_rank_fusion, vector weight .7": self._search("reciprocal_rank_fusion", [0.3, 0.7]),
            "distribution_based_rank_fusion": self._search("distribution_based_rank_fusion"),
            "merge": self._search("merge"),
            "merge, vector weight .7": self._search("merge", [0.3, 0.7]),
        }

    def _search(self, mode: str, weights: list[float] | None = None) -> Search:
        from haystack.components.joiners import DocumentJoiner
        from haystack.components.retrievers.in_memory import InMemoryBM25Retriever, InMemoryEmbeddingRetriever

        scaled = mode == "merge"  # BM25 between 0 and 1, so that a sum with cosines means something
        keywords = InMemoryBM25Retriever(self._store, top_k=CANDIDATES, scale_score=scaled)
        vectors = InMemoryEmbeddingRetriever(self._store, top_k=CANDIDATES, scale_score=scaled)
        joiner = DocumentJoiner(join_mode=mode, weights=weights, top_k=K)

        def search(query: Query) -> list[str]:
            lists = [
                keywords.run(query=query.text)["documents"],
                vectors.run(query_embedding=query.vector.tolist())["documents"],
            ]
            return [document.id for document in joiner.run(documents=lists)["documents"]]

        return search


if __name__ == "__main__":
    run(Haystack())
