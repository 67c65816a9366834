"""What this process has done so far, in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Literal, get_args

from ragforge.domain.cancel import Cancel
from ragforge.ports import Embedder, EmbedderCard, Tokenizer

if TYPE_CHECKING:
    from ragforge.domain.tokens import Matrix, Passage, Vector

Counted = Literal["files", "chunks", "embedding_calls", "searches", "answered", "abstained", "failed", "provider_calls"]
"""Files and chunks that were taken in; calls of embedders; searches; questions by how they ended; requests to language
models, second tries too."""


class Counters:
    """Counts from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: dict[Counted, int] = dict.fromkeys(get_args(Counted), 0)

    def add(self, what: Counted, number: int = 1) -> None:
        with self._lock:
            self._counts[what] += number

    def all(self) -> dict[str, int]:
        """Every number, of one moment."""
        with self._lock:
            return {str(what): number for what, number in self._counts.items()}


class CountedEmbedder:
    """An embedder whose calls are counted."""

    def __init__(self, embedder: Embedder, counters: Counters) -> None:
        self._embedder = embedder
        self._counters = counters

    @property
    def card(self) -> EmbedderCard:
        return self._embedder.card

    @property
    def tokenizer(self) -> Tokenizer:
        return self._embedder.tokenizer

    def embed(self, passages: Sequence[Passage], cancel: Cancel) -> Matrix:
        self._counters.add("embedding_calls")
        return self._embedder.embed(passages, cancel)

    def embed_query(self, text: str, cancel: Cancel) -> Vector:
        self._counters.add("embedding_calls")
        return self._embedder.embed_query(text, cancel)
