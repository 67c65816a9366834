"""How alike two lessons are, or a lesson and what an agent is up to: by meaning, and by the words they share.

Neither alone will do. Vectors take any two failures of one library for neighbours; words miss what is told otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import exp, sqrt
from typing import NamedTuple

from ragforge.domain.lessons import Curve, Facets, Told, problem_text, solution_text

SAME = 0.5
"""From here on two lessons are one, or two problems."""
TASK = 0.7
FAILURE = 0.75
"""From here on a lesson is told."""


class Lexical(NamedTuple):
    """A text's words, as far as they tell something, and those that name one thing."""

    terms: frozenset[str]
    names: frozenset[str]


Lexicon = Callable[[str], Lexical]


@dataclass(frozen=True, slots=True)
class Side:
    """One of two lessons that are compared."""

    problem: Lexical
    solution: Lexical


def side(facets: Facets, told: Told, lexicon: Lexicon) -> Side:
    return Side(lexicon(problem_text(facets, told)), lexicon(solution_text(told)))


def of_lessons(problem_cosine: float, solution_cosine: float, one: Side, other: Side) -> tuple[float, ...]:
    """How alike two lessons are: what the curve `lesson` weighs."""
    return (
        problem_cosine,
        solution_cosine,
        shared(one.problem.terms, other.problem.terms),
        shared(one.solution.terms, other.solution.terms),
    )


def of_problems(cosine: float, one: Lexical, other: Lexical) -> tuple[float, ...]:
    """How alike two problems are, or a lesson's and an agent's."""
    return cosine, shared(one.terms, other.terms), shared(one.names, other.names)


def shared(one: frozenset[str], other: frozenset[str]) -> float:
    """The share of words that two texts have in common."""
    return len(one & other) / sqrt(len(one) * len(other)) if one and other else 0.0


def value(curve: Curve, alike: Sequence[float]) -> float:
    """From 0 to 1."""
    total = curve.offset + sum(weight * each for weight, each in zip(curve.weights, alike, strict=True))
    return 1 / (1 + exp(-max(-60.0, min(60.0, total))))


def best(alike: Iterable[tuple[str, float]]) -> tuple[str, float]:
    """The pattern that a lesson belongs to, by how alike it is to captures of each; empty if to none.

    All captures of a pattern are asked: one that happens to share its words would draw strangers together.
    """
    of_pattern: dict[str, list[float]] = {}
    for pattern, each in alike:
        of_pattern.setdefault(pattern, []).append(each)
    means = {pattern: sum(values) / len(values) for pattern, values in of_pattern.items()}
    found = max(means.items(), key=lambda item: (item[1], item[0]), default=("", 0.0))
    return found if found[1] >= SAME else ("", found[1])
