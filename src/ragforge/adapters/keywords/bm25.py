"""BM25 as our keyword engines agree on it: k1 = 1.2, b = .75, lengths in the steps of Lucene and tantivy."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable

import numpy as np

from ragforge.adapters.vectors.rows import NOTHING
from ragforge.domain.retrieval import Ranked

K1, B = 1.2, 0.75

SHORT_QUESTION = 4
"""Words up to which rows that hold each of them come first: in longer questions most is as good as all (measured)."""

_LENGTHS: tuple[int, ...] = (*range(40), *(24 + ((code % 8 + 8) << (code // 8 - 1)) for code in range(16, 232)))
"""The lengths that engines tell apart which keep each in one byte."""


def idf(rows: int, holding: int) -> float:
    """How much a term tells that occurs in so many of the rows."""
    return math.log(1 + (rows - holding + 0.5) / (holding + 0.5))


def rounded_length(terms: int) -> int:
    return _LENGTHS[bisect_right(_LENGTHS, terms) - 1]


def saturation(count: int, length: int, average: float) -> float:
    """What a term counts for that occurs so often in a row of so many terms; times its `idf` it is the BM25."""
    norm = K1 * (1 - B + B * rounded_length(length) / average)
    return (1 + K1) * count / (count + norm)


def complete_first(groups: int, k: int, complete: Callable[[], Ranked], some: Callable[[], Ranked]) -> Ranked:
    """The k best rows with any word of a question; of a short one after those that hold a term of every group."""
    first = complete() if 2 <= groups <= SHORT_QUESTION else NOTHING
    if len(first) == k:
        return first
    found = some()
    others = ~np.isin(found.keys, first.keys)
    return Ranked(
        np.concatenate([first.keys, found.keys[others]])[:k],
        np.concatenate([first.scores, found.scores[others]])[:k],
    )
