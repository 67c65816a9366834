"""Two runs side by side: what changed, and whether it could be chance."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.domain.evaluation import AnswerKind, AnswerResult, RunDetails, Wanted
from ragforge.errors import UserError
from ragforge.evaluate.compare import bootstrapped, compare, randomised
from tests.unit.evaluate.records import answered, details, result, scored


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


# -- answers


def answering(*answers: AnswerResult | None, **facts: str) -> RunDetails:
    return details([result(f"q{n}", {"ndcg@10": 1.0}, answer=answer) for n, answer in enumerate(answers)], **facts)


def test_answers_are_compared_each_metric_where_both_have_it() -> None:
    hit, miss = answered({"answer_hit": 1.0, "tokens": 50.0}), answered({"answer_hit": 0.0, "tokens": 80.0})
    silent = answered({"abstention": 1.0, "tokens": 50.0}, AnswerKind.ABSTENTION, has_answer=False)
    comparison = compare(answering(hit, hit, miss, silent), answering(hit, miss, miss, silent))
    changes = {change.metric: change for change in comparison.answers}
    assert list(changes) == ["answer_hit", "abstention", "tokens", "answer_ms"]
    change = changes["answer_hit"]
    assert (change.wins, change.losses, change.ties) == (0, 1, 2) and change.before == pytest.approx(2 / 3)
    assert (changes["abstention"].ties, changes["abstention"].wins) == (1, 0)
    assert [(q.question, q.before, q.after) for q in comparison.changed_answers] == [("q1", "hit", "missed")]
    assert comparison.notice == "" and comparison.questions == 4


def test_fewer_tokens_and_fewer_false_answers_are_better() -> None:
    before = [answered({"tokens": 100.0 + n, "false_answers": 1.0}, has_answer=False) for n in range(40)]
    after = [answered({"tokens": 50.0 + n, "false_answers": 0.0}, has_answer=False) for n in range(40)]
    for change in compare(answering(*before), answering(*after)).answers[:2]:
        assert (change.wins, change.losses, change.less_is_better) == (40, 0, True)
        assert change.improves and change.significant and change.difference < 0
    for change in compare(answering(*after), answering(*before)).answers[:2]:
        assert (change.wins, change.losses) == (0, 40) and not change.improves


def test_losses_come_first_among_changed_answers() -> None:
    good, bad = answered({"answer_hit": 1.0}), answered({}, AnswerKind.ABSTENTION)
    comparison = compare(answering(bad, good, good), answering(good, bad, good))
    assert [(q.question, q.before, q.after) for q in comparison.changed_answers] == [
        ("q1", "hit", "false abstention"),
        ("q0", "false abstention", "hit"),
    ]


def test_tokens_that_nobody_spent_are_no_row() -> None:
    free = answered({"tokens": 0.0, "cost": 0.0})
    assert [change.metric for change in compare(answering(free), answering(free)).answers] == ["answer_ms"]


def test_answers_of_one_run_only_are_told() -> None:
    comparison = compare(answering(None), answering(answered({"answered": 1.0})))
    assert comparison.answers == () and comparison.notice == "only one of the runs has answers"
    comparison = compare(answering(answered({"answered": 1.0})), answering(answered({"answered": 1.0, "clarity": 0.5})))
    assert comparison.notice == "only one of the runs has clarity"


def test_answers_without_known_documents_are_compared_by_themselves() -> None:
    one = details([result("q", {}, answer=answered({"answered": 1.0}))])
    comparison = compare(one, one)
    assert (comparison.metrics, comparison.main, comparison.changed, comparison.questions) == ((), "", (), 0)
    assert [change.metric for change in comparison.answers] == ["answered", "answer_ms"]


def test_other_expected_answers_are_not_compared() -> None:
    old, new = answered({"answer_hit": 1.0}, expected=("a",)), answered({"answer_hit": 0.0}, expected=("b",))
    assert compare(answering(old), answering(new, digest="new")).answers == ()
    same = answered({"answer_hit": 0.0}, expected=("a",))
    assert compare(answering(old), answering(same, digest="new")).answers
    hidden = answered({"answer_hit": 0.0}, expected=(), text="")
    assert compare(answering(old), answering(hidden)).answers, "the same set, whoever may see it"
