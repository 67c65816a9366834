"""LangChain: Chroma and its BM25 retriever, fused by EnsembleRetriever."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from bench.search_peers.common import CANDIDATES, K, Passages, Query, Search, Vectors, run


def words(text: str) -> list[str]:
    """Its own default splits at blanks and minds capitals; this is kinder to it."""
    return re.findall(r"\w+", text.lower())


class LangChain:
    def __init__(self) -> None:
        from langchain_core.embeddings import Embeddings

        known = self._known = Vectors()

        class Given(Embeddings):  # type: ignore[misc, unused-ignore]
            def embed_documents(self, texts: list[str]) -> list[list[float]]:
                return [known[text].tolist() for text in texts]

            def embed_query(self, text: str) -> list[float]:
                vector: list[float] = known[text].tolist()
                return vector

        self._embeddings = Given()

    def _chroma(self, store: Path) -> Any:
        from langchain_chroma import Chroma

        return Chroma(
            embedding_function=self._embeddings,
            persist_directory=str(store),
            collection_metadata={"hnsw:space": "cosine"},
        )

    def build(self, passages: Passages, store: Path) -> None:
        from langchain_community.retrievers import BM25Retriever
        from langchain_core.documents import Document

        self._known.learn(passages.texts, passages.vectors)
        documents = [
            Document(page_content=text, metadata={"id": id})
            for id, text in zip(passages.ids, passages.texts, strict=True)
        ]
        self._store = self._chroma(store)
        for start in range(0, len(documents), 5000):
            self._store.add_documents(documents[start : start + 5000], ids=passages.ids[start : start + 5000])
        self._keywords = BM25Retriever.from_documents(documents, preprocess_func=words, k=CANDIDATES)

    def open(self, store: Path) -> None:
        """Its BM25 has no form on disk: it is built again from the stored texts."""
        from langchain_community.retrievers import BM25Retriever

        self._store = self._chroma(store)
        held = self._store.get()
        self._keywords = BM25Retriever.from_texts(
            held["documents"], metadatas=held["metadatas"], preprocess_func=words, k=CANDIDATES
        )

    def variants(self) -> dict[str, Search]:
        return {"equal weights": self._search(0.5), "vector weight .7": self._search(0.7)}

    def _search(self, weight: float) -> Search:
        from langchain_classic.retrievers import EnsembleRetriever

        vectors = self._store.as_retriever(search_kwargs={"k": CANDIDATES})
        ensemble = EnsembleRetriever(retrievers=[vectors, self._keywords], weights=[weight, 1 - weight], id_key="id")

        def search(query: Query) -> list[str]:
            self._known.learn([query.text], query.vector[None])
            return [document.metadata["id"] for document in ensemble.invoke(query.text)[:K]]

        return search


if __name__ == "__main__":
    run(LangChain())
