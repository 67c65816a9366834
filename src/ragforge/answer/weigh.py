"""How much each word of a question tells, and how much of them a text holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

Groups: TypeAlias = Sequence[tuple[str, ...]]
"""A question's words, each with the terms that stand for it in the keyword index."""
TermsOf: TypeAlias = Callable[[Sequence[str]], Sequence[Sequence[str]]]
"""The terms of pieces of one text, as the keyword index would hold them; in one call, so that its language is one."""

SMALLEST = 500
"""A project of fewer chunks is weighed as a part of one with so many: in three files, a word of one file would count
half of a word that no file holds, and a question with one odd word would seem not to be covered."""
_ASKING = frozenset(
    ("call", "exampl", "far", "happen", "kind", "long", "mani", "mean", "much", "name", "often", "old", "sort", "type")
)
"""Stems of English words that ask rather than name what is asked about."""
_ASKING_COUNTS = 0.4


def rarity(holding: Mapping[str, int], rows: int) -> dict[str, float]:
    """The weight of each term by the number of chunks that hold it (the IDF of BM25)."""
    known = max(rows, SMALLEST)
    return {term: math.log(1 + (known - count + 0.5) / (count + 0.5)) for term, count in holding.items()}


def weights(groups: Groups, rare: Mapping[str, float]) -> list[float]:
    """How much each word of the question tells: as much as the commonest of its terms."""
    return [
        min((rare[term] for term in group if term in rare), default=0.0)
        * (_ASKING_COUNTS if not _ASKING.isdisjoint(group) else 1.0)
        for group in groups
    ]


def covered(groups: Groups, weighed: Sequence[float], held: Collection[str]) -> float:
    """The part of the question's weight whose words are held, 0 to 1."""
    total = sum(weighed)
    if not total:
        return 0.0
    held = held if isinstance(held, frozenset) else frozenset(held)
    return sum(weight for group, weight in zip(groups, weighed, strict=True) if not held.isdisjoint(group)) / total
