"""BM25 in plain Python, to compare keyword engines with: slow, and easy to be sure of."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence

from ragforge.domain.retrieval import QueryWords

_K1, _B = 1.2, 0.75


class Bm25:
    """Scores of rows by their terms. `rounded`: lengths as engines that keep them in one byte see them."""

    def __init__(self, rows: Mapping[int, Sequence[str]], *, rounded: bool = False) -> None:
        lengths = {key: len(terms) for key, terms in rows.items()}
        self._average = sum(lengths.values()) / len(lengths) if any(lengths.values()) else 1.0
        self._lengths = {key: round_length(length) for key, length in lengths.items()} if rounded else lengths
        self._counts = {key: Counter(terms) for key, terms in rows.items()}
        self._holding = Counter(term for counts in self._counts.values() for term in counts)

    def holding(self, term: str) -> int:
        """In how many rows the term occurs."""
        return self._holding[term]

    def score(self, words: QueryWords, key: int) -> float:
        """Each term counts once, in however many groups it stands."""
        counts = self._counts[key]
        norm = _K1 * (1 - _B + _B * self._lengths[key] / self._average)
        return sum(
            self._idf(term) * (1 + _K1) * counts[term] / (counts[term] + norm) for term in words.terms if counts[term]
        )

    def is_complete(self, words: QueryWords, key: int) -> bool:
        """Whether the row holds a term of every group."""
        return all(any(term in self._counts[key] for term in group) for group in words.groups)

    def search(self, words: QueryWords, k: int) -> list[int]:
        """The keys of the best rows that hold any of the terms, complete ones first, equal ones by key."""
        scores = {key: score for key in self._counts if (score := self.score(words, key)) > 0}
        return sorted(scores, key=lambda key: (not self.is_complete(words, key), -scores[key], key))[:k]

    def _idf(self, term: str) -> float:
        holding = self._holding[term]
        return math.log(1 + (len(self._counts) - holding + 0.5) / (holding + 0.5))


_LENGTHS: list[int] = [*range(40), *(24 + ((step % 8 + 8) << (step // 8 - 1)) for step in range(16, 232))]
"""The lengths that Lucene and tantivy can tell apart: exact up to 40, then with four significant bits."""


def round_length(length: int) -> int:
    return _LENGTHS[bisect_right(_LENGTHS, length) - 1]
