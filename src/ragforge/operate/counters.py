"""What this process has done so far, in numbers."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from threading import Lock
from typing import TYPE_CHECKING, Literal, get_args

from ragforge.domain.cancel import Cancel
from ragforge.domain.generation import Usage
from ragforge.ports import Embedder, EmbedderCard, Tokenizer

if TYPE_CHECKING:
    from ragforge.domain.tokens import Matrix, Passage, Vector

Counted = Literal["files", "chunks", "embedding_calls", "searches", "answered", "abstained", "failed", "provider_calls"]
"""Files and chunks that were taken in; calls of embedders; searches; questions by how they ended; requests to language
models, second tries too."""
Timed = Literal["search", "ask"]
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds up to which durations are counted together."""


@dataclass(frozen=True, slots=True)
class Durations:
    """How long something took: how often at most as long as each of `BOUNDS`, and longer."""

    counts: tuple[int, ...] = (0,) * (len(BOUNDS) + 1)
    seconds: float = 0.0

    def and_one(self, seconds: float) -> Durations:
        place = bisect_left(BOUNDS, seconds)
        counts = (*self.counts[:place], self.counts[place] + 1, *self.counts[place + 1 :])
        return Durations(counts, self.seconds + seconds)


class Counters:
    """Counts from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: dict[Counted, int] = dict.fromkeys(get_args(Counted), 0)
        self._durations: dict[Timed, Durations] = {what: Durations() for what in get_args(Timed)}
        self._usage: dict[str, Usage] = {}

    def add(self, what: Counted, number: int = 1) -> None:
        with self._lock:
            self._counts[what] += number

    def all(self) -> dict[str, int]:
        """Every number, of one moment."""
        with self._lock:
            return {str(what): number for what, number in self._counts.items()}

    def took(self, what: Timed, seconds: float) -> None:
        with self._lock:
            self._durations[what] = self._durations[what].and_one(seconds)

    @contextmanager
    def timed(self, what: Timed) -> Iterator[None]:
        """However it ends."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.took(what, time.perf_counter() - began)

    def durations(self) -> dict[Timed, Durations]:
        with self._lock:
            return dict(self._durations)

    def spend(self, model: str, usage: Usage) -> None:
        """What a question took of a language model. Where no price is known, only tokens count."""
        with self._lock:
            cost = self._usage[model].cost if model in self._usage else Decimal(0)
            total = self._usage.get(model, Usage()) + usage
            known = (cost or Decimal(0)) + (usage.cost or Decimal(0))
            self._usage[model] = Usage(total.input_tokens, total.output_tokens, total.calls, known, total.seconds)

    def usage(self) -> dict[str, Usage]:
        """What was spent, by model."""
        with self._lock:
            return dict(self._usage)


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
