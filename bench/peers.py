"""Other frameworks on the same folder: read, split, embed almost for free, persist. CPU ms per chunk.

Each runs in its own virtual environment under .cache/peers, made by `make bench-peers`:

    .cache/peers/llamaindex/bin/python -m bench.peers llamaindex FOLDER WORKSPACE
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PEERS = ("llamaindex", "langchain", "haystack")
ENVIRONMENTS = Path(__file__).parents[1] / ".cache" / "peers"
DIMENSION = 384


def vector(text: str) -> list[float]:
    """A vector that costs next to nothing, so that what is measured is the framework."""
    seed = hashlib.blake2b(text.encode(), digest_size=64).digest()
    return [byte / 255 for byte in seed] * (DIMENSION // 64)


def llamaindex(docs: Path, workspace: Path) -> int:
    from llama_index.core import Settings, SimpleDirectoryReader, StorageContext, VectorStoreIndex
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.node_parser import SentenceSplitter

    class Free(BaseEmbedding):  # type: ignore[misc, unused-ignore]
        def _get_text_embedding(self, text: str) -> list[float]:
            return vector(text)

        def _get_query_embedding(self, query: str) -> list[float]:
            return vector(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return vector(query)

    Settings.embed_model, Settings.llm = Free(), None
    documents = SimpleDirectoryReader(str(docs), recursive=True).load_data()
    nodes = SentenceSplitter(chunk_size=400, chunk_overlap=0).get_nodes_from_documents(documents)
    context = StorageContext.from_defaults()
    VectorStoreIndex(nodes, storage_context=context)
    context.persist(str(workspace))
    return len(nodes)


def langchain(docs: Path, workspace: Path) -> int:
    from langchain_chroma import Chroma
    from langchain_community.document_loaders import DirectoryLoader, TextLoader
    from langchain_core.embeddings import Embeddings
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    class Free(Embeddings):  # type: ignore[misc, unused-ignore]
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [vector(text) for text in texts]

        def embed_query(self, text: str) -> list[float]:
            return vector(text)

    loader = DirectoryLoader(str(docs), glob="**/*", loader_cls=TextLoader, loader_kwargs={"encoding": "utf-8"})
    chunks = RecursiveCharacterTextSplitter(chunk_size=1500, chunk_overlap=0).split_documents(loader.load())
    store = Chroma(embedding_function=Free(), persist_directory=str(workspace))
    for start in range(0, len(chunks), 5000):
        store.add_documents(chunks[start : start + 5000])
    return len(chunks)


def haystack(docs: Path, workspace: Path) -> int:
    from haystack.components.converters import TextFileToDocument
    from haystack.components.preprocessors import DocumentSplitter
    from haystack.document_stores.in_memory import InMemoryDocumentStore
    from haystack.document_stores.types import DuplicatePolicy

    paths: list[str | Path] = sorted(path for path in docs.rglob("*") if path.is_file())
    documents = TextFileToDocument().run(sources=paths)["documents"]
    splitter = DocumentSplitter(split_by="word", split_length=270, split_overlap=0)
    splitter.warm_up()
    chunks = splitter.run(documents=documents)["documents"]
    for chunk in chunks:
        chunk.embedding = vector(chunk.content or "")
    store = InMemoryDocumentStore()
    store.write_documents(chunks, policy=DuplicatePolicy.OVERWRITE)
    store.save_to_disk(str(workspace))
    return len(chunks)


def figures(docs: Path) -> dict[str, str]:
    """Every peer that is installed, in a process of its own environment."""
    found: dict[str, str] = {}
    for name in PEERS:
        python = ENVIRONMENTS / name / "bin" / "python"
        if not python.exists():
            found[name] = "not installed (make bench-peers)"
            continue
        with tempfile.TemporaryDirectory() as folder:
            command = [str(python), "-m", "bench.peers", name, str(docs), str(Path(folder) / "store")]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        said = done.stdout if done.returncode == 0 else done.stderr
        found[name] = said.strip().splitlines()[-1]
    return found


def main() -> None:
    name, docs, workspace = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    cpu = time.process_time()
    chunks = {"llamaindex": llamaindex, "langchain": langchain, "haystack": haystack}[name](docs, workspace)
    cpu = time.process_time() - cpu
    print(json.dumps({"chunks": chunks, "cpu_ms_per_chunk": round(cpu / chunks * 1e3, 3)}))


if __name__ == "__main__":
    main()
