"""Ingestion measured on a folder of Markdown: `make bench`, or `python -m bench.ingest --docs FOLDER`.

Every figure is CPU time of this process, so that other work on the machine does not count. Each part runs in a
process of its own.

    overhead   CPU ms per leaf beyond tokenising and embedding, with the hashing embedder; everything durable
    unchanged  the same folder added again
    changed    one file in a hundred changed: how many passages are embedded
    peers      other frameworks on the same folder, where `make bench-peers` has installed them
    minilm     leaves per second through the whole path, beside raw onnxruntime on the same passages
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import peers
from ragforge import Ragforge
from ragforge.domain.cancel import Cancel
from ragforge.domain.library import FileResult, Outcome, Progress
from ragforge.domain.tokens import Matrix, Passage, Tokens, Vector
from ragforge.ports import Embedder, EmbedderCard, Tokenizer
from ragforge.testing.hashing import HashingEmbedder

DEFAULT_DOCS = Path(__file__).parents[2] / "shared" / "data" / "k8s_docs" / "docs"


class Clocked:
    """CPU time spent inside calls, over all threads."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._lock = threading.Lock()

    def measure(self, work: Callable[[], Any]) -> Any:
        began = time.thread_time()
        try:
            return work()
        finally:
            with self._lock:
                self.seconds += time.thread_time() - began


class ClockedTokenizer:
    def __init__(self, inner: Tokenizer, clock: Clocked) -> None:
        self._inner, self._clock = inner, clock

    @property
    def fingerprint(self) -> str:
        return self._inner.fingerprint

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        result: list[Tokens] = self._clock.measure(lambda: self._inner.encode(texts))
        return result


class ClockedEmbedder:
    """An embedder that knows how much CPU time its own work took, and what it was given."""

    def __init__(self, inner: Embedder, *, keep: bool = False) -> None:
        self._inner, self._keep = inner, keep
        self.count = 0
        self.tokenising, self.embedding = Clocked(), Clocked()
        self._tokenizer = ClockedTokenizer(inner.tokenizer, self.tokenising)
        self.passages: list[Passage] = []

    @property
    def card(self) -> EmbedderCard:
        return self._inner.card

    @property
    def tokenizer(self) -> Tokenizer:
        return self._tokenizer

    def embed(self, passages: Sequence[Passage], cancel: Cancel) -> Matrix:
        self.count += len(passages)
        if self._keep:
            self.passages += passages
        result: Matrix = self.embedding.measure(lambda: self._inner.embed(passages, cancel))
        return result

    def embed_query(self, text: str, cancel: Cancel) -> Vector:
        return self._inner.embed_query(text, cancel)


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def overhead(docs: Path, workspace: Path) -> dict[str, Any]:
    """The whole path with a near-free embedder, then the same folder again, then with a few files changed."""
    embedder = ClockedEmbedder(HashingEmbedder())
    memory: list[float] = []
    with Ragforge.open(workspace, embedders={"hashing": embedder}) as forge:
        forge.create_project("bench", embedder="hashing")
        forge.projects()
        began, cpu = time.monotonic(), time.process_time()
        for event in forge.adding([docs], project="bench"):
            if isinstance(event, Progress):
                memory.append(resident_mb())
        cpu = time.process_time() - cpu
        wall = time.monotonic() - began
        documents = forge.documents(project="bench")
        leaves = sum(document.chunks for document in documents)
        megabytes = sum(document.characters for document in documents) / 1e6
        own = cpu - embedder.tokenising.seconds - embedder.embedding.seconds
        quarter = len(memory) // 4
        figures = {
            "files": len(documents),
            "leaves": leaves,
            "mean_leaf_tokens": round(sum(document.tokens for document in documents) / leaves, 1),
            "cpu_ms_per_leaf": round(own / leaves * 1e3, 3),
            "cpu_s_per_mb": round(cpu / megabytes, 3),
            "wall_s": round(wall, 1),
            "tokenising_cpu_s": round(embedder.tokenising.seconds, 2),
            "embedding_cpu_s": round(embedder.embedding.seconds, 2),
            "rss_mb_first_quarter": round(memory[quarter], 1),
            "rss_mb_end": round(memory[-1], 1),
        }
        began = time.monotonic()
        again = forge.add(docs, project="bench")
        figures["unchanged_s"] = round(time.monotonic() - began, 2)
        assert again.count(Outcome.UNCHANGED) == len(again.files)
    return figures


def changed(docs: Path, workspace: Path) -> dict[str, Any]:
    """One file in a hundred gets one more sentence: only its changed chunks are embedded."""
    embedder = ClockedEmbedder(HashingEmbedder())
    copy = workspace.with_name("docs")
    shutil.copytree(docs, copy)
    with Ragforge.open(workspace, embedders={"hashing": embedder}) as forge:
        forge.create_project("bench", embedder="hashing")
        forge.add(copy, project="bench")
        embedder.count = 0
        files = sorted(path for path in copy.rglob("*") if path.is_file())[::100]
        for path in files:
            with path.open("a", encoding="utf-8") as file:
                file.write("\nOne more sentence at the end of this page.\n")
        report = forge.add(copy, project="bench")
        replaced = [file for file in report.files if isinstance(file, FileResult) and file.replaced]
        leaves = sum(file.chunks for file in replaced)
    return {"files_changed": len(replaced), "leaves_in_them": leaves, "leaves_embedded": embedder.count}


def minilm(docs: Path, workspace: Path, files: int) -> dict[str, Any]:
    """Wall time of the whole path with MiniLM, beside the bare model on the same passages in the same process."""
    chosen = sorted(path for path in docs.rglob("*") if path.is_file())[:: max(1, 2453 // files)][:files]
    with Ragforge.open(workspace) as forge:
        inner = forge._parts.embedder("minilm")
        inner.embed([Passage("warm up")], Cancel())
        embedder = ClockedEmbedder(inner, keep=True)
    with Ragforge.open(workspace, embedders={"minilm": embedder}) as forge:
        forge.create_project("bench", embedder="minilm")
        began = time.monotonic()
        forge.add(chosen, project="bench")
        whole = time.monotonic() - began
    passages = embedder.passages
    raw = raw_onnxruntime(passages)
    return {
        "files": len(chosen),
        "leaves": len(passages),
        "leaves_per_s": round(len(passages) / whole, 1),
        "raw_leaves_per_s": round(len(passages) / raw, 1),
        "share_of_raw": round(raw / whole, 3),
    }


def raw_onnxruntime(passages: Sequence[Passage]) -> float:
    """Seconds for the plain loop: sorted by length, padded batches, two threads; tokens given."""
    import numpy as np
    import onnxruntime

    from ragforge.adapters.weights import model_folder
    from ragforge.settings import load

    folder = model_folder("minilm", load().store.models_dir)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(folder / "model_quantized.onnx", options, providers=["CPUExecutionProvider"])
    rows = sorted((passage.ids[:510] for passage in passages if passage.ids is not None), key=len)
    best = float("inf")
    for size in (8, 32):
        began = time.monotonic()
        for start in range(0, len(rows), size):
            batch = rows[start : start + size]
            ids = np.zeros((len(batch), len(batch[-1]) + 2), np.int64)
            mask = np.zeros_like(ids)
            for row, tokens in enumerate(batch):
                ids[row, : len(tokens) + 2] = (101, *tokens, 102)
                mask[row, : len(tokens) + 2] = 1
            session.run(None, {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)})
        best = min(best, time.monotonic() - began)
    return best


def _part(name: str, docs: Path, files: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder) / "workspace"
        if name == "overhead":
            return overhead(docs, workspace)
        if name == "changed":
            return changed(docs, workspace)
        return minilm(docs, workspace, files)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=Path, default=DEFAULT_DOCS, help="a folder of Markdown files")
    parser.add_argument("--files", type=int, default=120, help="how many of them the MiniLM part takes")
    parser.add_argument("--part", choices=("overhead", "changed", "minilm"), help="one part, as JSON")
    arguments = parser.parse_args()
    if not arguments.docs.is_dir():
        raise SystemExit(f"no folder {arguments.docs}: name one with --docs")
    if arguments.part:
        print(json.dumps(_part(arguments.part, arguments.docs, arguments.files)))
        return
    for part in ("overhead", "changed", "minilm"):
        command = [sys.executable, "-m", "bench.ingest", "--part", part, "--docs", str(arguments.docs)]
        done = subprocess.run([*command, "--files", str(arguments.files)], capture_output=True, text=True, check=True)
        _show(part, json.loads(done.stdout))
    _show("peers, same folder, near-free embedder", peers.figures(arguments.docs))


def _show(title: str, figures: Mapping[str, object]) -> None:
    print(f"{title}:")
    for key, value in figures.items():
        print(f"    {key:<24}{value}")


if __name__ == "__main__":
    main()
