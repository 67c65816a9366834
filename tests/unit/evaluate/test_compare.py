"""Two runs side by side: what changed, and whether it could be chance."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.domain.evaluation import Wanted
from ragforge.errors import UserError
from ragforge.evaluate.compare import bootstrapped, compare, randomised
from tests.unit.evaluate.records import details, result, scored


def test_differences_wins_and_the_questions_that_changed() -> None:
    comparison = compare(scored([0.5, 1.0, 0.2, 0.0]), scored([0.5, 0.4, 0.3, 1.0]))
    (change,) = comparison.metrics
    assert (change.metric, change.wins, change.losses, change.ties) == ("ndcg@10", 2, 1, 1)
    assert change.before == pytest.approx(0.425) and change.after == pytest.approx(0.55)
    assert change.difference == pytest.approx(0.125)
    assert change.low < change.difference < change.high
    assert [(q.question, round(q.difference, 3)) for q in comparison.changed] == [
        ("q3", 1.0),
        ("q1", -0.6),
        ("q2", 0.1),
    ]
    assert (comparison.questions, comparison.main, comparison.notice) == (4, "ndcg@10", "")


def test_a_run_against_itself() -> None:
    (change,) = compare(scored([0.1, 0.9]), scored([0.1, 0.9])).metrics
    assert (change.p, change.low, change.high, change.ties) == (1.0, 0.0, 0.0, 2)
    assert not change.significant


def test_p_agrees_with_every_swap_counted() -> None:
    """With few questions all swaps can be tried: the sampled p is near the exact one."""
    for seed in range(4):
        values = [random.Random(seed).uniform(-0.5, 1) for _ in range(9)]
        sums = [abs(sum(s * v for s, v in zip(signs, values, strict=True))) for signs in _signs(len(values))]
        exact = sum(total >= abs(sum(values)) - 1e-9 for total in sums) / len(sums)
        assert randomised(np.array(values)[:, None])[0] == pytest.approx(exact, abs=0.02)


def _signs(count: int) -> list[tuple[int, ...]]:
    return list(itertools.product((-1, 1), repeat=count))


def test_chance_alone_is_seldom_called_significant() -> None:
    """Of comparisons where nothing is better, about one in twenty has p below 0.05."""
    random_ = np.random.default_rng(1)
    differences = random_.normal(0, 0.2, size=(60, 400))
    part = float((randomised(differences, rounds=2_000) < 0.05).mean())
    assert 0.02 <= part <= 0.09


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    random_ = np.random.default_rng(2)
    low, high = bootstrapped(random_.normal(0.1, 0.3, size=(80, 400)), rounds=1_000)
    assert 0.90 <= float(((low <= 0.1) & (high >= 0.1)).mean()) <= 0.985


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(-1, 1), min_size=1, max_size=40), st.integers(1, 400))
def test_laws_of_p_and_interval(values: list[float], rounds: int) -> None:
    differences = np.array(values)[:, None]
    (p,) = randomised(differences, rounds)
    assert 0 < p <= 1
    assert p == randomised(differences, rounds)[0] == randomised(-differences, rounds)[0], "the same every time"
    (low,), (high,) = bootstrapped(differences, rounds)
    assert min(values) - 1e-9 <= low <= high <= max(values) + 1e-9


def test_a_clear_gain_is_significant_also_where_the_rounds_take_several_blocks() -> None:
    rng = random.Random(3)
    before = [rng.random() * 0.6 for _ in range(600)]
    (change,) = compare(scored(before), scored([score + 0.05 for score in before])).metrics
    assert change.significant and change.p < 0.001
    assert change.low == pytest.approx(0.05) and change.high == pytest.approx(0.05)


def test_other_questions_are_refused() -> None:
    with pytest.raises(UserError, match="different questions") as refused:
        compare(scored([1.0], questions="a"), scored([1.0], questions="b"))
    assert "eval ls" in refused.value.hint
    gone = details([result("other", {"ndcg@10": 1.0})])
    with pytest.raises(UserError, match="no judged question in common"):
        compare(scored([1.0]), gone)


def test_a_set_that_was_imported_anew_is_compared_by_what_is_the_same() -> None:
    old, new = scored([0.1, 0.2, 0.3, 0.4]), scored([0.2, 0.3, 0.4, 0.5], digest="new")
    results = list(new.results)
    results[0] = replace(results[0], text="Another question?")
    results[1] = replace(results[1], wanted=(Wanted("other.md", 1.0, "id"),))
    results[2] = replace(results[2], metrics={})
    comparison = compare(old, replace(new, results=tuple(results)))
    assert comparison.questions == 1
    assert comparison.notice == "the set changed in between: compared by the 1 of 4 questions that did not"


def test_what_the_asker_may_not_see_is_compared_all_the_same() -> None:
    before, after = scored([0.1, 0.2]), scored([0.2, 0.3])
    unseen = replace(after.results[0], wanted=(Wanted("", 1.0, None),))
    assert compare(before, replace(after, results=(unseen, *after.results[1:]))).questions == 2


def test_only_metrics_of_both_are_compared() -> None:
    before = details([result("q", {"ndcg@5": 0.5, "mrr": 1.0})])
    after = details([result("q", {"ndcg@10": 0.5, "mrr": 0.5})])
    comparison = compare(before, after)
    assert [change.metric for change in comparison.metrics] == ["mrr"] and comparison.main == "mrr"
    assert comparison.notice == "only one of the runs has ndcg@10, ndcg@5"
