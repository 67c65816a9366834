"""Two runs over the same questions -> what changed, and whether chance could have done it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ragforge.domain.evaluation import (
    AnswerChange,
    AnswerResult,
    Comparison,
    MetricChange,
    QuestionChange,
    QuestionResult,
    RunDetails,
)
from ragforge.errors import UserError
from ragforge.evaluate.answers import AMOUNTS, LESS_IS_BETTER, verdict
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
    is_same = before.run.digest == after.run.digest
    both = _pairs(before, after, is_same)
    pairs = [(b, a) for b, a in both if b.metrics and a.metrics]
    answers = [(b, b.answer, a.answer) for b, a in both if b.answer and a.answer]
    answers = [(b, old, new) for b, old, new in answers if is_same or _told(old) == _told(new)]
    if not pairs and not answers:
        raise UserError(
            "the runs have no judged question in common: the set was imported anew in between",
            hint=f"ragforge eval run {after.run.questions}",
        )
    measured = [(b.metrics, a.metrics) for b, a in pairs]
    shared = [name for name in measured[0][0] if all(name in b and name in a for b, a in measured)] if measured else []
    main = main_metric(shared)
    return Comparison(
        before=before.run,
        after=after.run,
        questions=len(pairs),
        metrics=_changes(measured, shared),
        main=main,
        changed=_changed(pairs, main) if main else (),
        notice=_notice(before, after, len(pairs)),
        answers=_answer_changes(
            [(old.metrics, new.metrics) for _, old, new in answers],
            [name for name in before.run.answers if name in after.run.answers],
        ),
        changed_answers=_changed_answers(answers),
    )


Pair: TypeAlias = tuple[QuestionResult, QuestionResult]
AnswerPair: TypeAlias = tuple[QuestionResult, AnswerResult, AnswerResult]
Measured: TypeAlias = tuple[Mapping[str, float], Mapping[str, float]]
"""The metrics of one question, before and after."""


def _pairs(before: RunDetails, after: RunDetails, is_same: bool) -> list[Pair]:
    """Questions of both that want the same. Those of the same set do, whoever may see it."""
    known = {result.question: result for result in before.results}
    pairs = [(known[each.question], each) for each in after.results if each.question in known]
    return [(b, a) for b, a in pairs if is_same or (b.text == a.text and _grades(b) == _grades(a))]


def _grades(result: QuestionResult) -> list[tuple[str, float]]:
    return sorted((wanted.name, wanted.grade) for wanted in result.wanted)


def _told(answer: AnswerResult) -> tuple[object, ...]:
    """What the question's author said of an answer."""
    return answer.has_answer, frozenset(answer.expected)


def _notice(before: RunDetails, after: RunDetails, pairs: int) -> str:
    notices = []
    most = max(sum(bool(result.metrics) for result in run.results) for run in (before, after))
    if pairs < most:
        notices.append(f"the set changed in between: compared by the {pairs:,} of {most:,} questions that did not")
    single = set(before.run.metrics) ^ set(after.run.metrics)
    if bool(before.run.answers) != bool(after.run.answers):
        single.add("answers")
    else:
        single |= set(before.run.answers) ^ set(after.run.answers)
    if single:
        notices.append(f"only one of the runs has {', '.join(sorted(single))}")
    return "; ".join(notices)


def _changed(pairs: Sequence[Pair], metric: str) -> tuple[QuestionChange, ...]:
    changes = [QuestionChange(a.question, a.text, b.metrics[metric], a.metrics[metric]) for b, a in pairs]
    differing = [change for change in changes if abs(change.difference) > _EQUAL]
    return tuple(sorted(differing, key=lambda change: -abs(change.difference)))


def _changed_answers(pairs: Sequence[AnswerPair]) -> tuple[AnswerChange, ...]:
    fates = [(b, verdict(old), verdict(new)) for b, old, new in pairs]
    differing = sorted((each for each in fates if each[1] != each[2]), key=lambda each: each[2] - each[1])
    return tuple(AnswerChange(b.question, b.text, old.words, new.words) for b, old, new in differing)


def _answer_changes(pairs: Sequence[Measured], names: Sequence[str]) -> tuple[MetricChange, ...]:
    """Each metric over the questions where both have it; those with the same questions are compared together."""
    groups: dict[tuple[int, ...], list[str]] = {}
    for name in names:
        places = tuple(place for place, (b, a) in enumerate(pairs) if name in b and name in a)
        if places:
            groups.setdefault(places, []).append(name)
    changes = {
        change.metric: change
        for places, alike in groups.items()
        for change in _changes([pairs[place] for place in places], alike)
        if not _is_nothing(change)
    }
    return tuple(changes[name] for name in names if name in changes)


def _is_nothing(change: MetricChange) -> bool:
    """Tokens and money where no model was asked in either run."""
    return change.metric in AMOUNTS and change.before == change.after == 0


def _changes(pairs: Sequence[Measured], names: Sequence[str]) -> tuple[MetricChange, ...]:
    import numpy as np

    if not names:
        return ()
    old = np.array([[b[name] for name in names] for b, _ in pairs])
    new = np.array([[a[name] for name in names] for _, a in pairs])
    differences = np.where(np.abs(new - old) > _EQUAL, new - old, 0.0)
    gains = differences * [-1.0 if name in LESS_IS_BETTER else 1.0 for name in names]
    p = randomised(differences)
    low, high = bootstrapped(differences)
    return tuple(
        MetricChange(
            metric=name,
            before=float(old[:, place].mean()),
            after=float(new[:, place].mean()),
            wins=int((gains[:, place] > 0).sum()),
            losses=int((gains[:, place] < 0).sum()),
            ties=int((gains[:, place] == 0).sum()),
            p=float(p[place]),
            low=float(low[place]),
            high=float(high[place]),
            less_is_better=name in LESS_IS_BETTER,
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
