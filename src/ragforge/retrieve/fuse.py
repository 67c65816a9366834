"""Two engines' lists become one: each candidate once, ranked by what both say of it.

    merge -> (fill) -> weighted | reciprocal_rank

Pure and plain Python: sixty candidates are too few for NumPy to pay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TypeAlias

from ragforge.domain.retrieval import Candidate, Decision, Ranked, Scores, Stage

RANK_OFFSET = 60
"""How little the very first places count more than the next, in reciprocal rank (Cormack et al., 2009)."""

Fused: TypeAlias = tuple[list[Candidate], list[Decision]]
Scale: TypeAlias = Callable[[Mapping[int, float]], Mapping[int, float]]
"""One engine's scores to values from 0 to 1, in the same order."""


@dataclass(frozen=True, slots=True)
class Leg:
    """What one engine says of the candidates: a score where it knows one, a place where it found one itself."""

    scores: Mapping[int, float]
    ranks: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Legs:
    """Every candidate's key once, ascending, with what both engines say."""

    keys: tuple[int, ...]
    keyword: Leg
    vector: Leg

    @property
    def unknown_to_keywords(self) -> list[int]:
        """Candidates without a keyword score: what `fill` can be given one for."""
        return [key for key in self.keys if key not in self.keyword.scores]

    @property
    def unknown_to_vectors(self) -> list[int]:
        return [key for key in self.keys if key not in self.vector.scores]


def merge(keyword: Ranked | None, vector: Ranked | None) -> Legs:
    """The engines' lists as one. None: that engine was not there."""
    words, meaning = _leg(keyword), _leg(vector)
    return Legs(tuple(sorted(words.ranks.keys() | meaning.ranks.keys())), words, meaning)


def fill(legs: Legs, keyword: Scores | None = None, vector: Scores | None = None) -> Legs:
    """The same with the true scores of candidates only the other engine found, in the order of `unknown_to_…`.

    NaN stays unknown. A candidate keeps its places: it was not found twice.
    """
    return Legs(
        legs.keys,
        _filled(legs.keyword, legs.unknown_to_keywords, keyword),
        _filled(legs.vector, legs.unknown_to_vectors, vector),
    )


def share_of_best(scores: Mapping[int, float]) -> Mapping[int, float]:
    """For BM25. Zero has a meaning there, no word in common: so each score counts as its part of the best."""
    best = max(scores.values(), default=0.0)
    if best <= 0:
        return dict.fromkeys(scores, 0.0)
    return {key: score / best if score > 0 else 0.0 for key, score in scores.items()}


def share_of_range(scores: Mapping[int, float]) -> Mapping[int, float]:
    """For cosines. Where they begin depends on the model: so the worst candidate counts 0 and the best 1.

    When all are alike, each is the best.
    """
    best, worst = max(scores.values(), default=0.0), min(scores.values(), default=0.0)
    if (span := best - worst) <= 0:
        return dict.fromkeys(scores, 1.0)
    return {key: (score - worst) / span for key, score in scores.items()}


def share_above(floor: float) -> Scale:
    """For cosines of a model whose floor is known: what lies above it, as part of all that could."""

    def scale(scores: Mapping[int, float]) -> Mapping[int, float]:
        return {key: max(score - floor, 0.0) / (1 - floor) for key, score in scores.items()}

    return scale


def weighted(
    legs: Legs,
    alpha: float,
    keyword_scale: Scale = share_of_best,
    vector_scale: Scale = share_of_range,
    holders: Collection[int] = (),
) -> Fused:
    """By the sum of both scaled scores, `alpha` being the share of the vectors. An unknown score counts 0.

    That a candidate holds a code of the question counts as much as all else.
    """
    alpha = _share(alpha, legs.keyword.scores, legs.vector.scores)
    return _ranked(legs, keyword_scale(legs.keyword.scores), vector_scale(legs.vector.scores), alpha, holders)


def reciprocal_rank(legs: Legs, alpha: float = 0.5, offset: int = RANK_OFFSET, holders: Collection[int] = ()) -> Fused:
    """By places alone: the first of both lists scores 1, one that an engine did not find gets nothing from it."""
    alpha = _share(alpha, legs.keyword.ranks, legs.vector.ranks)
    words, meaning = (
        {key: (offset + 1) / (offset + rank) for key, rank in leg.ranks.items()} for leg in (legs.keyword, legs.vector)
    )
    return _ranked(legs, words, meaning, alpha, holders)


def _leg(found: Ranked | None) -> Leg:
    if found is None:
        return Leg({}, {})
    keys: list[int] = found.keys.tolist()
    scores: list[float] = found.scores.tolist()
    known = {key: score for key, score in zip(keys, scores, strict=True) if isfinite(score)}
    return Leg(known, {key: place for place, key in enumerate(keys, 1)})


def _filled(leg: Leg, unknown: Sequence[int], scores: Scores | None) -> Leg:
    if scores is None:
        return leg
    told = {key: score for key, score in zip(unknown, scores.tolist(), strict=True) if isfinite(score)}
    return Leg({**leg.scores, **told}, leg.ranks)


def _share(alpha: float, keyword: Mapping[int, object], vector: Mapping[int, object]) -> float:
    """An engine that says nothing has no share: the other's order stands."""
    if not vector:
        return 0.0
    return alpha if keyword else 1.0


def _ranked(
    legs: Legs, words: Mapping[int, float], meaning: Mapping[int, float], alpha: float, holders: Collection[int]
) -> Fused:
    rest = 1 - alpha
    totals = {key: rest * words.get(key, 0.0) + alpha * meaning.get(key, 0.0) for key in legs.keys}
    if holders:
        totals = {key: ((key in holders) + total) / 2 for key, total in totals.items()}
    known_words, known_meaning = legs.keyword.scores.get, legs.vector.scores.get
    word_place, meaning_place = legs.keyword.ranks.get, legs.vector.ranks.get
    candidates = [
        Candidate(key, totals[key], known_words(key), known_meaning(key), word_place(key), meaning_place(key))
        for key in sorted(
            totals, key=totals.__getitem__, reverse=True
        )  # stable: equal ones stay in order of their keys
    ]
    return candidates, [Decision(Stage.FUSE, each.key, True, _reason(each, holders), each.score) for each in candidates]


def _reason(candidate: Candidate, holders: Collection[int]) -> str:
    if candidate.key in holders:
        return "holds a code of the question"
    if candidate.vector_rank is None:
        return "found by words"
    return "found by meaning" if candidate.keyword_rank is None else "found by words and by meaning"
