"""How good a ranking is. Pure functions of a ranked list and the grades of what was wanted.

Gains are linear, as in trec_eval and BEIR; what is not graded counts as not relevant; a grade above zero is relevant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import log2

CUTOFFS = (1, 3, 5, 10, 20, 50, 100)

Grades = Mapping[str, float]


def ranked_once(items: Iterable[str]) -> list[str]:
    """Each item at its best place: how documents are ranked by their passages."""
    return list(dict.fromkeys(items))


def recall(ranking: Sequence[str], grades: Grades, k: int) -> float:
    """The part of what is relevant that is among the first k."""
    relevant = _relevant(grades)
    return len(relevant.intersection(ranking[:k])) / len(relevant) if relevant else 0.0


def precision(ranking: Sequence[str], grades: Grades, k: int) -> float:
    """The part of the first k places that is relevant; places that stay empty are not."""
    return len(_relevant(grades).intersection(ranking[:k])) / k


def hit(ranking: Sequence[str], grades: Grades, k: int) -> float:
    """1 if anything relevant is among the first k."""
    return float(not _relevant(grades).isdisjoint(ranking[:k]))


def ndcg(ranking: Sequence[str], grades: Grades, k: int) -> float:
    """Discounted gain of the first k, as a part of the best that any ranking could have."""
    best = _gain(sorted(grades.values(), reverse=True)[:k])
    return _gain([grades.get(item, 0.0) for item in ranking[:k]]) / best if best else 0.0


def reciprocal_rank(ranking: Sequence[str], grades: Grades) -> float:
    """One over the place of the first relevant item."""
    relevant = _relevant(grades)
    return next((1 / place for place, item in enumerate(ranking, 1) if item in relevant), 0.0)


def _relevant(grades: Grades) -> set[str]:
    return {item for item, grade in grades.items() if grade > 0}


def _gain(grades: Sequence[float]) -> float:
    return sum(max(0.0, grade) / log2(place + 1) for place, grade in enumerate(grades, 1))


def measured(ranking: Sequence[str], grades: Grades, k: int) -> dict[str, float]:
    """Every metric of one question, by name: `ndcg@10`, `recall@10`, `precision@10`, `hit@10`, `mrr`."""
    cutoffs = sorted({cutoff for cutoff in CUTOFFS if cutoff < k} | {k})
    at = {"ndcg": ndcg, "recall": recall, "precision": precision, "hit": hit}
    metrics = {f"{name}@{cutoff}": rate(ranking, grades, cutoff) for name, rate in at.items() for cutoff in cutoffs}
    return {**metrics, "mrr": reciprocal_rank(ranking, grades)}


def means(each: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of every metric that all questions have."""
    shared = [name for name in each[0] if all(name in metrics for metrics in each)] if each else []
    return {name: sum(metrics[name] for metrics in each) / len(each) for name in shared}


def means_of_some(each: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of every metric over the questions that have it."""
    names = dict.fromkeys(name for metrics in each for name in metrics)
    known = {name: [metrics[name] for metrics in each if name in metrics] for name in names}
    return {name: sum(values) / len(values) for name, values in known.items()}


def main_metric(names: Iterable[str]) -> str:
    """The one that tells most: nDCG at ten, else at the deepest cut; empty if there is none."""
    known = list(names)
    graded = [name for name in known if name.startswith("ndcg@")]
    if "ndcg@10" in graded:
        return "ndcg@10"
    return max(graded, key=lambda name: int(name.partition("@")[2]), default=next(iter(known), ""))


def quantile(values: Sequence[float], part: float) -> float:
    """The value below which this part of the values lies, between two of them if need be."""
    if not values:
        return 0.0
    ordered = sorted(values)
    place = part * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
