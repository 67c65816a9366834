"""all-MiniLM-L6-v2, int8, on onnxruntime: the default embedder.

Each text runs alone, on as many threads as there are processors. The model quantises its activations by the range of
the whole batch: in a batch, the same text gives another vector beside other texts (cosine .99). Alone it always
gives the same one, needs no padding and little memory, and comes through faster.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ragforge.adapters.embedders.pieces import merge, unit_length, windows
from ragforge.adapters.embedders.tokenizer import FileTokenizer, token_ids
from ragforge.domain.cancel import Cancel
from ragforge.domain.tokens import Ints, Matrix, Passage, Vector
from ragforge.errors import NotFound
from ragforge.once import once
from ragforge.ports import EmbedderCard

MODEL_FILE = "model_quantized.onnx"
TOKENIZER_FILE = "tokenizer.json"
DIMENSION = 384
LIMIT = 510
"""Tokens the model takes beside its two marks."""
OVERLAP = 64

_CLS, _SEP = 101, 102
_VERSION = f"mean/{LIMIT}/{OVERLAP}/alone"


class _Session(Protocol):
    """What we need of `onnxruntime.InferenceSession`, which has no types."""

    def run(self, outputs: None, inputs: dict[str, Any]) -> list[Any]: ...


class MiniLM:
    """Embeds English text. Reads the model at first use; may be called from any thread."""

    def __init__(self, folder: Path, threads: int | None = None) -> None:
        self._model_path = folder / MODEL_FILE
        if not self._model_path.is_file() or not (folder / TOKENIZER_FILE).is_file():
            raise NotFound(f"the minilm model is not in {folder}", hint="ragforge models pull minilm")
        self._threads = threads or _processors()
        self._tokenizer = FileTokenizer(folder / TOKENIZER_FILE)

    @cached_property
    def card(self) -> EmbedderCard:
        with self._model_path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
        fingerprint = f"minilm/{digest}/{self._tokenizer.fingerprint}/{_VERSION}"
        return EmbedderCard("minilm", fingerprint, DIMENSION, languages=("en",), fusion_weight=0.7, cosine_floor=0.0)

    @property
    def tokenizer(self) -> FileTokenizer:
        return self._tokenizer

    def embed(self, passages: Sequence[Passage], cancel: Cancel) -> Matrix:
        cancel.check()
        pieces = [
            (owner, ids[start:end])
            for owner, ids in enumerate(token_ids(passages, self._tokenizer))
            for start, end in windows(len(ids), LIMIT, OVERLAP)
        ]
        vectors = self._run_all([ids for _, ids in pieces], cancel)
        return merge(vectors, [owner for owner, _ in pieces], [len(ids) for _, ids in pieces], len(passages))

    def embed_query(self, text: str, cancel: Cancel) -> Vector:
        vector: Vector = self.embed([Passage(text)], cancel)[0]
        return vector

    def load(self) -> None:
        """Read the model now instead of at the first call."""
        self._tokenizer.load()
        _ = self._session

    @once
    def _session(self) -> _Session:
        import onnxruntime

        onnxruntime.disable_telemetry_events()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        session: _Session = onnxruntime.InferenceSession(
            str(self._model_path), options, providers=["CPUExecutionProvider"]
        )
        return session

    @once
    def _workers(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._threads, thread_name_prefix="minilm")

    def _run_all(self, pieces: list[Ints], cancel: Cancel) -> Matrix:
        session = self._session
        vectors = np.empty((len(pieces), DIMENSION), dtype=np.float32)

        def run(index: int) -> None:
            cancel.check()
            vectors[index] = _run(session, pieces[index])

        longest_first = sorted(range(len(pieces)), key=lambda index: -len(pieces[index]))
        spread = map if self._threads == 1 or len(pieces) == 1 else self._workers.map
        for _ in spread(run, longest_first):
            pass
        return vectors


def _processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run(session: _Session, ids: Ints) -> Vector:
    """The mean of the text's token vectors, of unit length."""
    marked = np.concatenate(([_CLS], ids, [_SEP])).astype(np.int64)[None, :]
    inputs = {"input_ids": marked, "attention_mask": np.ones_like(marked), "token_type_ids": np.zeros_like(marked)}
    [hidden] = session.run(None, inputs)
    mean: Vector = hidden[0].mean(axis=0, dtype=np.float32)
    return unit_length(mean)
