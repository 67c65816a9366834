"""Reranking: the first few in a new order, the rest after them; a reranker that fails changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.documents import Locator
from ragforge.domain.retrieval import Candidate, Stage
from ragforge.errors import RagforgeError, RateLimited, UserError
from ragforge.retrieve.rerank import Reranked, by_cosine, rerank
from tests.candidates import MANY, by_key, in_order, stored


class Fixed:
    """Gives each text the score that was laid down for it, or raises."""

    name = "fixed"

    def __init__(self, *scores: float, problem: BaseException | None = None) -> None:
        self.scores = list(scores)
        self.problem = problem
        self.texts: list[str] = []

    def score(self, question: str, texts: Sequence[str], cancel: Cancel) -> list[float]:
        self.texts = list(texts)
        if self.problem:
            raise self.problem
        return self.scores[: len(texts)]


def run(candidates: Sequence[Candidate], reranker: Fixed, first: int) -> Reranked:
    passages = by_key(stored(each.key, f"text {each.key}") for each in candidates)
    return rerank(candidates, passages, reranker, "question", first, Cancel())


@MANY
@given(st.lists(st.floats(-20, 20), max_size=12), st.integers(0, 15), st.integers(0, 6))
def test_the_first_follow_the_reranker_and_the_rest_their_old_order(scores: list[float], first: int, more: int) -> None:
    before = in_order(range(len(scores) + more))
    after, decisions, missing = run(before, Fixed(*scores, *[0.0] * more), first)
    judged = min(first, len(before))
    raw = [*scores, *[0.0] * more]
    assert missing is None
    assert [each.key for each in after[:judged]] == sorted(range(judged), key=lambda key: (-raw[key], key))
    assert [each.rerank for each in after[:judged]] == [raw[each.key] for each in after[:judged]]
    assert after[judged:] == before[judged:]
    assert [(each.key, each.score) for each in decisions] == [(each.key, each.score) for each in after]
    assert all(each.kept and each.stage is Stage.RERANK for each in decisions)
    assert all(0 <= each.score <= 1 for each in after)
    assert all(left.score >= right.score for left, right in pairwise(after))


def test_the_decision_tells_where_it_came_from() -> None:
    _, decisions, _ = run(in_order(range(4)), Fixed(1.0, 3.0, 0.5), 3)
    assert [each.reason for each in decisions] == [
        "fixed puts it at 1, up from 2",
        "fixed puts it at 2, down from 1",
        "fixed puts it at 3, as before",
        "not reranked",
    ]


def test_what_the_engines_said_stays() -> None:
    [candidate] = run([Candidate(1, 0.4, 7.0, 0.3, 2, 5)], Fixed(-3.5), 5)[0]
    assert candidate == Candidate(1, 1.0, 7.0, 0.3, 2, 5, -3.5)


def test_a_text_is_read_with_its_headings_and_its_tables_header() -> None:
    reranker = Fixed(1.0)
    passage = stored(1, "| 30 |", header="| days |\n", locator=Locator(("Refunds", "Chairs")))
    rerank(in_order([1]), by_key([passage]), reranker, "question", 5, Cancel())
    assert reranker.texts == ["[Source: a.md > Refunds > Chairs]\n| days |\n| 30 |"]


@pytest.mark.parametrize(
    "problem", [RateLimited("slow down", hint="wait"), UserError("no model", hint="get one"), RagforgeError("odd")]
)
def test_a_reranker_that_fails_changes_nothing_and_it_is_said(problem: RagforgeError) -> None:
    before = in_order(range(5))
    after, decisions, missing = run(before, Fixed(problem=problem), 3)
    assert after == before
    assert {each.reason for each in decisions} == {"not reranked"} and len(decisions) == 5
    assert missing is not None
    assert (missing.part, missing.message, missing.hint) == ("reranker", problem.message, problem.hint)


@pytest.mark.parametrize("scores", [(1.0,), (1.0, float("nan")), (1.0, float("inf"))])
def test_scores_that_are_none_count_as_failure(scores: tuple[float, ...]) -> None:
    before = in_order(range(2))
    after, _, missing = run(before, Fixed(*scores), 2)
    assert after == before
    assert missing is not None and "one number for each text" in missing.message


def test_a_cancel_is_no_failure() -> None:
    with pytest.raises(Cancelled):
        run(in_order(range(2)), Fixed(problem=Cancelled()), 2)


def test_nothing_to_rerank_asks_nobody() -> None:
    reranker = Fixed(problem=UserError("was asked"))
    assert run([], reranker, 5) == ([], [], None)
    assert run(in_order([1]), reranker, 0)[2] is None


def test_cosine_is_the_vectors_order_with_the_unknown_last() -> None:
    before = [Candidate(1, 0.9, 5.0), Candidate(2, 0.8, None, 0.2), Candidate(3, 0.7, 1.0, 0.6), Candidate(4, 0.1)]
    after, decisions, missing = by_cosine(before, 3)
    assert [(each.key, each.rerank) for each in after] == [(3, 0.6), (2, 0.2), (1, None), (4, None)]
    assert decisions[0].reason == "cosine puts it at 1, up from 3"
    assert missing is None


def test_without_a_cosine_the_order_stays_and_it_is_said() -> None:
    before = [Candidate(1, 0.9, 5.0), Candidate(2, 0.8, 3.0)]
    after, decisions, missing = by_cosine(before, 2)
    assert after == before and len(decisions) == 2
    assert missing is not None and missing.part == "reranker"
    assert by_cosine([], 2) == ([], [], None)
