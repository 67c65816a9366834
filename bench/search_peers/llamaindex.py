"""LlamaIndex: its vector index and its BM25 retriever, fused by QueryFusionRetriever."""

from __future__ import annotations

from pathlib import Path

from bench.search_peers.common import CANDIDATES, K, Passages, Query, Search, Vectors, run


class LlamaIndex:
    def __init__(self) -> None:
        from llama_index.core import Settings
        from llama_index.core.embeddings import BaseEmbedding

        known = self._known = Vectors()

        class Given(BaseEmbedding):  # type: ignore[misc, unused-ignore]
            def _get_text_embedding(self, text: str) -> list[float]:
                return list(map(float, known[text]))

            def _get_query_embedding(self, query: str) -> list[float]:
                return list(map(float, known[query]))

            async def _aget_query_embedding(self, query: str) -> list[float]:
                return list(map(float, known[query]))

        Settings.embed_model, Settings.llm = Given(), None

    def build(self, passages: Passages, store: Path) -> None:
        from llama_index.core import StorageContext, VectorStoreIndex
        from llama_index.core.schema import TextNode
        from llama_index.retrievers.bm25 import BM25Retriever

        nodes = [
            TextNode(id_=id, text=text, embedding=vector.tolist())
            for id, text, vector in zip(passages.ids, passages.texts, passages.vectors, strict=True)
        ]
        context = StorageContext.from_defaults()
        self._index = VectorStoreIndex(nodes, storage_context=context)
        self._keywords = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=CANDIDATES)
        context.persist(str(store / "index"))
        self._keywords.persist(str(store / "bm25"))

    def open(self, store: Path) -> None:
        from llama_index.core import StorageContext, load_index_from_storage
        from llama_index.retrievers.bm25 import BM25Retriever

        self._index = load_index_from_storage(StorageContext.from_defaults(persist_dir=str(store / "index")))
        self._keywords = BM25Retriever.from_persist_dir(str(store / "bm25"))

    def variants(self) -> dict[str, Search]:
        return {
            "reciprocal_rerank": self._search("reciprocal_rerank", 0.5),
            "relative_score": self._search("relative_score", 0.5),
            "relative_score, vector weight .7": self._search("relative_score", 0.7),
            "dist_based_score": self._search("dist_based_score", 0.5),
            "dist_based_score, vector weight .7": self._search("dist_based_score", 0.7),
        }

    def _search(self, mode: str, weight: float) -> Search:
        from llama_index.core.retrievers import QueryFusionRetriever

        retriever = QueryFusionRetriever(
            [self._index.as_retriever(similarity_top_k=CANDIDATES), self._keywords],
            retriever_weights=[weight, 1 - weight],
            mode=mode,
            similarity_top_k=K,
            num_queries=1,
            use_async=False,
        )

        def search(query: Query) -> list[str]:
            self._known.learn([query.text], query.vector[None])
            return [found.node.node_id for found in retriever.retrieve(query.text)]

        return search


if __name__ == "__main__":
    run(LlamaIndex())
