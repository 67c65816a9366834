"""A cross-encoder from a folder on this machine, through fastembed. Nothing is downloaded.

Each text is read alone, on as many threads as are given: quantised models score a text differently beside others.
A text over the model's limit is read in overlapping pieces, and its best piece counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from ragforge.adapters.embedders.pieces import windows
from ragforge.domain.cancel import Cancel
from ragforge.errors import MissingExtra, ProviderError, UserError
from ragforge.once import once

MODEL_FILES = ("model.onnx", "model_quantized.onnx", "onnx/model.onnx", "onnx/model_quantized.onnx")
"""Where the weights may be; the first one that is there is taken."""
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")

_MARKS = 3
"""Tokens that the model puts around question and text."""
_LEAST_PIECE = 16
_OVERLAP = 1 / 8
"""Part of a piece that the next one repeats."""


class _Encoder(Protocol):
    """What we need of fastembed's `TextCrossEncoder`, which has no types."""

    model: Any

    def rerank(self, query: str, documents: Sequence[str], batch_size: int) -> Iterable[float]: ...


class CrossEncoder:
    """Scores texts with the model in a folder. Reads it at first use; may be called from any thread."""

    def __init__(self, folder: Path, threads: int = 1) -> None:
        self._folder = folder
        self._model_file = next((name for name in MODEL_FILES if (folder / name).is_file()), None)
        self._threads = threads
        missing = [name for name in TOKENIZER_FILES if not (folder / name).is_file()]
        if self._model_file is None or missing:
            raise ProviderError(
                f"no cross-encoder in {folder}: {', '.join(missing) or MODEL_FILES[0]} is missing",
                hint=f"put {MODEL_FILES[0]}, {' and '.join(TOKENIZER_FILES)} of a model such as "
                "ms-marco-MiniLM-L-6-v2 there, or set the reranker to cosine: it needs no model",
            )

    @property
    def name(self) -> str:
        return "cross-encoder"

    def score(self, question: str, texts: Sequence[str], cancel: Cancel) -> list[float]:
        cancel.check()
        encoder, tokenizer = self._encoder, self._tokenizer
        room = encoder.model.tokenizer.truncation["max_length"] - _MARKS - len(_tokens(tokenizer, question))
        if room < _LEAST_PIECE:
            raise UserError("the question is longer than the cross-encoder can read", hint="ask in fewer words")

        def best(text: str) -> float:
            cancel.check()
            pieces = _pieces(tokenizer, text, room)
            return max(encoder.rerank(question, pieces, batch_size=1))

        return list(self._workers.map(best, texts)) if self._threads > 1 else [best(text) for text in texts]

    @once
    def _workers(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._threads, thread_name_prefix="cross-encoder")

    @once
    def _encoder(self) -> _Encoder:
        try:
            from fastembed.common.model_description import ModelSource
            from fastembed.rerank.cross_encoder import TextCrossEncoder
        except ImportError:
            raise MissingExtra("fastembed", "rerank") from None

        path = (self._folder / str(self._model_file)).resolve()
        name = f"ragforge/{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"
        with suppress(ValueError):  # known already: another one reads the same folder
            TextCrossEncoder.add_custom_model(name, ModelSource(hf=name), model_file=str(self._model_file))
        try:
            encoder: _Encoder = TextCrossEncoder(
                name,
                cache_dir=str(self._folder),
                specific_model_path=str(self._folder),
                threads=1,
                providers=["CPUExecutionProvider"],
            )
            [_] = encoder.rerank("question", ["text"], batch_size=1)  # an embedder's weights would fail here
        except Exception as problem:  # fastembed lets through whatever its own libraries raise
            raise UserError(
                f"the model in {self._folder} does not work as a cross-encoder ({type(problem).__name__})",
                hint="copy the folder again, and check that the model gives one score for a pair of texts",
            ) from problem
        return encoder

    @once
    def _tokenizer(self) -> Any:
        """The same vocabulary, without the limit."""
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self._folder / TOKENIZER_FILES[0]))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer


def _tokens(tokenizer: Any, text: str) -> list[tuple[int, int]]:
    """Where each token of the text begins and ends."""
    offsets: list[tuple[int, int]] = tokenizer.encode(text, add_special_tokens=False).offsets
    return offsets


def _pieces(tokenizer: Any, text: str, room: int) -> list[str]:
    """The text in pieces of at most `room` tokens; itself, if it is no longer."""
    offsets = _tokens(tokenizer, text)
    if len(offsets) <= room:
        return [text]
    spans = windows(len(offsets), room, int(room * _OVERLAP))
    return [text[offsets[start][0] : offsets[end - 1][1]] for start, end in spans]
