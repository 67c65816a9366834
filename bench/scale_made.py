"""Chunks and questions made by a seed, as many as wanted: texts and vectors of topics, and nothing kept on the disk.

A topic has a direction and some words of its own; a chunk is near the one and uses the others, beside words of all
topics, which are as unevenly common as those of a language.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bench.search_peers.common import Passages, Query

DIMENSION = 384
WORDS = 120
"""In a chunk."""
IN_A_FILE = 20
"""Chunks."""
FILES = 64
"""In a batch, which is published in one transaction."""
BATCH = FILES * IN_A_FILE

_VOCABULARY = 60_000
_OWN_WORDS = 40
_OWN_SHARE = 0.3
"""Of a chunk's words, those of its topic."""
_SPREAD = 0.8
"""How far a chunk lies from its topic's direction; two of a topic have a cosine of about .6."""
_ASKED_WORDS = 6
_ASKED_SPREAD = 0.6
_SYLLABLES = [f"{a}{b}" for a in "bcdfghjklmnprstvwz" for b in "aeiou"]

Rows = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Made:
    """The same chunks whenever they are made with the same seed."""

    chunks: int
    seed: int = 7
    topics: int = 2_500

    def first(self, chunks: int) -> Made:
        """The same without what comes after, in whole batches."""
        return replace(self, chunks=min(self.chunks, max(1, chunks // BATCH) * BATCH))

    @cached_property
    def _topics(self) -> Rows:
        rng = np.random.default_rng(self.seed)
        return _unit(rng.standard_normal((self.topics, DIMENSION), np.float32))

    @cached_property
    def _words(self) -> npt.NDArray[np.object_]:
        return np.array([_word(number) for number in range(_VOCABULARY)], object)

    @cached_property
    def _common(self) -> npt.NDArray[np.float64]:
        """How much of all text the words up to each make up."""
        shares = 1 / (np.arange(_VOCABULARY) + 2.7)
        total: npt.NDArray[np.float64] = np.cumsum(shares) / shares.sum()
        return total

    @property
    def batches(self) -> int:
        return -(-self.chunks // BATCH)

    def batch(self, number: int) -> Passages:
        """Whole files, but for the last batch."""
        rng = np.random.default_rng((self.seed, number))
        first = number * BATCH
        count = min(BATCH, self.chunks - first)
        topics = rng.integers(0, len(self._topics), count)
        vectors = _unit(self._topics[topics] + _SPREAD * _unit(rng.standard_normal((count, DIMENSION), np.float32)))
        words = np.searchsorted(self._common, rng.random((count, WORDS)))
        own = rng.random((count, WORDS)) < _OWN_SHARE
        words[own] = self._own_words(np.broadcast_to(topics[:, None], words.shape)[own], rng)
        places = range(first, first + count)
        return Passages(
            [f"c{place}" for place in places],
            [" ".join(row) for row in self._words[words]],
            vectors,
            [f"file{place // IN_A_FILE:07}.txt" for place in places],
        )

    def queries(self, count: int) -> list[Query]:
        """Each asks for a chunk: by some of its words, from a direction near it."""
        rng = np.random.default_rng((self.seed, 1 << 20))
        asked: list[Query] = []
        while len(asked) < count:
            held = self.batch(int(rng.integers(0, self.batches)))
            for row in rng.integers(0, len(held.ids), min(20, count - len(asked))).tolist():
                words = rng.choice(held.texts[row].split(), _ASKED_WORDS, replace=False)
                noise = _unit(rng.standard_normal((1, DIMENSION), np.float32))
                vector = _unit(held.vectors[row : row + 1] + _ASKED_SPREAD * noise)[0]
                asked.append(Query(f"q{len(asked)}", " ".join(words), vector))
        return asked

    def _own_words(self, topics: npt.NDArray[np.int64], rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Words out of the rarer half: each topic has some, which a few others have too."""
        rare = _VOCABULARY // 2
        words: npt.NDArray[np.int64] = rare + (topics * 7919 + rng.integers(0, _OWN_WORDS, len(topics)) * 104729) % rare
        return words


def _unit(vectors: Rows) -> Rows:
    units: Rows = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return units


def _word(number: int) -> str:
    """Two to four syllables; no two numbers give the same."""
    parts = []
    number += len(_SYLLABLES)
    while number:
        number, rest = divmod(number, len(_SYLLABLES))
        parts.append(_SYLLABLES[rest])
    return "".join(parts)
