"""Two runs over the same questions -> what changed, and whether chance could have done it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragforge.domain.evaluation import Comparison, MetricChange, QuestionChange, QuestionResult, RunDetails
from ragforge.errors import UserError
from ragforge.evaluate.metrics import main_metric

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float64]

ROUNDS = 10_000
SEED = 20_260_101
_BLOCK_CELLS = 2_000_000
_EQUAL = 1e-9
"""Differences below this are ties."""


def compare(before: RunDetails, after: RunDetails) -> Comparison:
    """Refuses runs over other questions; where a set was imported anew, it takes what both have."""
    if before.run.questions != after.run.questions:
        raise UserError(
            f"the runs asked different questions: {before.run.questions} and {after.run.questions}",
            hint="compare runs over the same set: ragforge eval ls shows them",
        )
    pairs = _pairs(before, after)
    if not pairs:
        raise UserError(
            "the runs have no judged question in common: the set was imported anew in between",
            hint=f"ragforge eval run {after.run.questions}",
        )
    shared = [name for name in pairs[0][0].metrics if all(name in b.metrics and name in a.metrics for b, a in pairs)]
    main = main_metric(shared)
    return Comparison(
        before=before.run,
        after=after.run,
        questions=len(pairs),
        metrics=_changes(pairs, shared),
        main=main,
        changed=_changed(pairs, main),
        notice=_notice(before, after, len(pairs), shared),
    )


Pair = tuple[QuestionResult, QuestionResult]


def _pairs(before: RunDetails, after: RunDetails) -> list[Pair]:
    """Questions that both were judged on, by the same judgements. Those of the same set are, whoever may see them."""
    known = {result.question: result for result in before.results if result.metrics}
    pairs = [(known[each.question], each) for each in after.results if each.metrics and each.question in known]
    is_same = before.run.digest == after.run.digest
    return [(b, a) for b, a in pairs if is_same or (b.text == a.text and _grades(b) == _grades(a))]


def _grades(result: QuestionResult) -> list[tuple[str, float]]:
    return sorted((wanted.name, wanted.grade) for wanted in result.wanted)


def _notice(before: RunDetails, after: RunDetails, pairs: int, shared: Sequence[str]) -> str:
    notices = []
    most = max(sum(bool(result.metrics) for result in run.results) for run in (before, after))
    if pairs < most:
        notices.append(f"the set changed in between: compared by the {pairs:,} of {most:,} questions that did not")
    if single := sorted(set(before.run.metrics) ^ set(after.run.metrics)):
        notices.append(f"only one of the runs has {', '.join(single)}")
    return "; ".join(notices)


def _changed(pairs: Sequence[Pair], metric: str) -> tuple[QuestionChange, ...]:
    changes = [QuestionChange(a.question, a.text, b.metrics[metric], a.metrics[metric]) for b, a in pairs]
    differing = [change for change in changes if abs(change.difference) > _EQUAL]
    return tuple(sorted(differing, key=lambda change: -abs(change.difference)))


def _changes(pairs: Sequence[Pair], names: Sequence[str]) -> tuple[MetricChange, ...]:
    import numpy as np

    old = np.array([[b.metrics[name] for name in names] for b, _ in pairs])
    new = np.array([[a.metrics[name] for name in names] for _, a in pairs])
    differences = np.where(np.abs(new - old) > _EQUAL, new - old, 0.0)
    p = randomised(differences)
    low, high = bootstrapped(differences)
    return tuple(
        MetricChange(
            metric=name,
            before=float(old[:, place].mean()),
            after=float(new[:, place].mean()),
            wins=int((differences[:, place] > 0).sum()),
            losses=int((differences[:, place] < 0).sum()),
            ties=int((differences[:, place] == 0).sum()),
            p=float(p[place]),
            low=float(low[place]),
            high=float(high[place]),
        )
        for place, name in enumerate(names)
    )


def randomised(differences: Matrix, rounds: int = ROUNDS, seed: int = SEED) -> Matrix:
    """Two-sided p of each column: how often swapping the runs at random, question by question, differs as much."""
    import numpy as np

    random = np.random.default_rng(seed)
    differences = differences[np.any(differences != 0, axis=1)]  # a tie stays a tie, however it is swapped
    observed = np.abs(differences.sum(axis=0))
    reached = np.zeros(differences.shape[1])
    for count in _blocks(rounds, len(differences)):
        signs = random.integers(0, 2, size=(count, len(differences)), dtype=np.int8) * 2.0 - 1.0
        reached += (np.abs(signs @ differences) >= observed - _EQUAL).sum(axis=0)
    return np.asarray((reached + 1) / (rounds + 1))


def bootstrapped(differences: Matrix, rounds: int = ROUNDS, seed: int = SEED) -> tuple[Matrix, Matrix]:
    """The 95 % interval of each column's mean, over questions drawn anew with replacement."""
    import numpy as np

    random = np.random.default_rng(seed)
    size = len(differences)
    means = []
    for count in _blocks(rounds, size):
        drawn = random.integers(0, size, size=(count, size))
        cells = (drawn + np.arange(count)[:, None] * size).ravel()
        means.append(np.bincount(cells, minlength=count * size).reshape(count, size) @ differences / size)
    low, high = np.percentile(np.concatenate(means), [2.5, 97.5], axis=0)
    return low, high


def _blocks(rounds: int, questions: int) -> list[int]:
    """Rounds in blocks that fit in memory."""
    block = max(1, min(rounds, _BLOCK_CELLS // max(1, questions)))
    return [min(block, rounds - done) for done in range(0, rounds, block)]
