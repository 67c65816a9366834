from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.domain.conversation import Episode, MemoryVerdict, Remembered, Turn
from ragforge.remember.episodes import USUAL, Fading, freshness, recall
from tests.unit.remember.support import AXIS, START, WORDS, at_angle, count, groups_of, rollup, turn

NOW = START + timedelta(hours=6)
NO_NEIGHBOURS = Fading(near=-1)


def recalled(
    remembered: Sequence[Remembered], budget: int = 1_000, *, now: int = 100, days: float = 0, fading: Fading = USUAL
) -> tuple[tuple[Episode, ...], tuple[MemoryVerdict, ...]]:
    """By vectors."""
    at = NOW + timedelta(days=days)
    return recall(remembered, AXIS, (), at, budget, turn=now, words=WORDS, count=count, cosine_floor=0.0, fading=fading)


def reasons(verdicts: Sequence[MemoryVerdict]) -> dict[str, str]:
    return {verdict.id: verdict.reason for verdict in verdicts}


def test_what_is_on_topic_comes_back_and_the_rest_says_why_not() -> None:
    remembered = [
        Remembered(turn(1, "What of the rent?", "It is due on Mondays."), at_angle(0.4)),
        Remembered(turn(88, "How long is the guarantee?", "Five years."), at_angle(0.7)),
        Remembered(turn(89, "Who is Anna?", "A dog."), at_angle(0.1)),
        Remembered(turn(90, "How much is the fish?", "", abstained=True), at_angle(0.9)),
    ]
    episodes, verdicts = recalled(remembered)
    assert [episode.text for episode in episodes] == ["Asked: How long is the guarantee?\nAnswered: Five years."]
    assert reasons(verdicts) == {
        "t1": "faded: 99 turns ago",
        "t88": "on topic, 12 turns ago",
        "t89": "off topic",
        "t90": "no answer was found then",
    }
    assert [verdict.kept for verdict in verdicts] == [False, True, False, False]


def test_without_vectors_the_words_of_the_question_decide() -> None:
    remembered = [
        Remembered(turn(5, "How long is the guarantee for motors?", "Motors have a guarantee of five years [1].")),
        Remembered(turn(6, "Where is Flensburg?", "In the north.")),
    ]
    groups = groups_of("Which guarantee do the frames have?")
    episodes, verdicts = recall(remembered, None, groups, NOW, 100, turn=9, words=WORDS, count=count)
    assert [episode.id for episode in episodes] == ["t5"]
    assert "[1]" not in episodes[0].text
    assert reasons(verdicts)["t6"] == "off topic"


def test_vectors_of_an_embedder_nobody_measured_are_not_trusted() -> None:
    remembered = [Remembered(turn(5, "Where is Flensburg?", "In the north."), AXIS)]
    groups = groups_of("Which guarantee do the frames have?")
    episodes, _ = recall(remembered, AXIS, groups, NOW, 100, turn=9, words=WORDS, count=count)
    assert not episodes


def test_what_a_person_marked_comes_back_whatever_its_age_and_topic() -> None:
    old = Remembered(turn(1, "Which tone?", "Always formal.", importance=1.0), at_angle(0.0))
    near = Remembered(turn(90, "What of the rent?", "Due on Mondays."), at_angle(0.9))
    episodes, verdicts = recalled([old, near], budget=8)
    assert [episode.id for episode in episodes] == ["t1"]
    assert reasons(verdicts) == {"t1": "marked important, 99 turns ago", "t90": "no room: 7 tokens over"}


def test_a_rolled_turn_is_in_its_summary_unless_it_was_marked() -> None:
    plain = Remembered(turn(1, "a", "b", rolled_into="r1"), AXIS)
    marked = Remembered(turn(2, "a", "b", rolled_into="r1", importance=1.0), AXIS)
    summary = Remembered(rollup(1, 2, "Rent", "Due on Mondays."), AXIS)
    episodes, verdicts = recalled([plain, marked, summary], now=20)
    assert [(episode.id, episode.first, episode.last) for episode in episodes] == [("r1", 1, 2), ("t2", 2, 2)]
    assert reasons(verdicts)["t1"] == "in the summary “Rent”"


def test_a_long_turn_comes_back_by_its_summary() -> None:
    long = turn(90, "What of the rent?", "word " * 300, summary="Due on Mondays.")
    episodes, verdicts = recalled([Remembered(long, AXIS)])
    assert episodes[0].text == "Asked: What of the rent?\nAnswered: Due on Mondays."
    assert reasons(verdicts)["t90"] == "on topic, 10 turns ago, as its summary"


def test_a_turn_that_does_not_fit_may_come_by_its_summary() -> None:
    said = Remembered(turn(90, "What of the rent?", "word " * 30, summary="Due on Mondays."), AXIS)
    assert recalled([said], budget=40)[0][0].tokens == 36
    assert recalled([said], budget=20)[0][0].text.endswith("Due on Mondays.")
    assert reasons(recalled([said], budget=5)[1])["t90"] == "no room: 4 tokens over"


def test_the_cosine_counts_from_the_floor_of_the_embedder() -> None:
    said = [Remembered(turn(90, "What of the rent?", "Due on Mondays."), at_angle(0.8))]
    assert recall(said, AXIS, (), NOW, 100, turn=91, words=WORDS, count=count, cosine_floor=0.0)[0]
    assert not recall(said, AXIS, (), NOW, 100, turn=91, words=WORDS, count=count, cosine_floor=0.7)[0]


def test_long_gaps_damp() -> None:
    remembered = [Remembered(turn(80, "What of the rent?", "Due on Mondays."), at_angle(0.4))]
    assert recalled(remembered, days=0)[0]
    assert recalled(remembered, days=0.7)[0][0].score == recalled(remembered, days=0)[0][0].score
    episodes, verdicts = recalled(remembered, days=90)
    assert not episodes
    assert reasons(verdicts)["t80"] == "faded: 20 turns and 90 days ago"


def test_a_rollup_that_proved_useful_fades_less() -> None:
    def kept(used: int) -> bool:
        return bool(recalled([Remembered(rollup(1, 5, "Rent", "Due on Mondays.", used), at_angle(0.45))])[0])

    assert not kept(0)
    assert kept(8)


def test_the_budget_is_spread_over_the_conversation() -> None:
    remembered = [
        Remembered(turn(90, "one", "said"), at_angle(0.55)),
        Remembered(turn(91, "two", "said"), at_angle(0.56)),
        Remembered(turn(80, "three", "said"), at_angle(0.59)),
    ]
    assert [episode.id for episode in recalled(remembered, budget=8)[0]] == ["t80", "t91"]
    assert [episode.id for episode in recalled(remembered, budget=8, fading=NO_NEIGHBOURS)[0]] == ["t90", "t91"]


# -- for any conversation


@st.composite
def remembered_turns(draw: st.DrawFn) -> list[Remembered]:
    numbers = draw(st.lists(st.integers(1, 99), unique=True, max_size=12))
    return [
        Remembered(
            turn(
                number,
                "q",
                " ".join(["word"] * draw(st.integers(1, 40))),
                importance=draw(st.sampled_from([0.0, 0.0, 0.3, 1.0])),
                summary=draw(st.sampled_from(["", "in short"])),
            ),
            at_angle(draw(st.floats(-0.2, 1.0))),
        )
        for number in numbers
    ]


BUDGETS = st.integers(0, 120)


@given(remembered_turns(), BUDGETS)
@settings(max_examples=150, deadline=None)
def test_never_over_budget_and_a_verdict_on_each(remembered: list[Remembered], budget: int) -> None:
    episodes, verdicts = recalled(remembered, budget)
    assert sum(episode.tokens for episode in episodes) <= budget
    assert all(episode.tokens == count(episode.text) for episode in episodes)
    assert sorted(verdict.id for verdict in verdicts) == sorted(each.what.id for each in remembered)
    assert {verdict.id for verdict in verdicts if verdict.kept} == {episode.id for episode in episodes}
    assert [episode.first for episode in episodes] == sorted(episode.first for episode in episodes)


@given(remembered_turns(), BUDGETS, st.randoms(use_true_random=False))
@settings(max_examples=80, deadline=None)
def test_the_order_they_come_in_changes_nothing(remembered: list[Remembered], budget: int, random: Random) -> None:
    mixed = list(remembered)
    random.shuffle(mixed)
    assert recalled(remembered, budget) == recalled(mixed, budget)


@given(remembered_turns(), BUDGETS)
@settings(max_examples=150, deadline=None)
def test_what_is_marked_comes_before_anything_else_of_its_size(remembered: list[Remembered], budget: int) -> None:
    alike = [Remembered(replace(as_turn(each), answer="a b c", summary=""), each.vector) for each in remembered]
    kept = {episode.id for episode in recalled(alike, budget)[0]}
    marked = {each.what.id for each in alike if as_turn(each).importance == 1}
    assert marked <= kept or kept <= marked


@given(remembered_turns(), BUDGETS, st.floats(-0.5, 0.2), st.integers(1, 50))
@settings(max_examples=150, deadline=None)
def test_an_unrelated_turn_evicts_nothing(
    remembered: list[Remembered], budget: int, cosine: float, length: int
) -> None:
    unrelated = Remembered(turn(100, "q", "word " * length), at_angle(cosine))
    assert recalled([*remembered, unrelated], budget)[0] == recalled(remembered, budget)[0]


@given(remembered_turns(), BUDGETS, st.floats(-0.2, 1.0), st.integers(1, 40))
@settings(max_examples=150, deadline=None)
def test_a_worse_turn_evicts_no_better_one(
    remembered: list[Remembered], budget: int, cosine: float, length: int
) -> None:
    newcomer = Remembered(turn(100, "q", "word " * length), at_angle(cosine))
    before = recalled(remembered, budget, fading=NO_NEIGHBOURS)[0]
    after, verdicts = recalled([*remembered, newcomer], budget, fading=NO_NEIGHBOURS)
    score = next(verdict.score for verdict in verdicts if verdict.id == "t100")
    better = [episode for episode in before if episode.score > score]
    assert {episode.id for episode in better} <= {episode.id for episode in after}


@given(st.floats(0, 300), st.floats(0, 300), st.floats(0, 400), st.floats(0, 400), st.floats(0, 1), st.floats(0, 1))
def test_freshness_falls_with_turns_and_days_and_rises_with_importance(
    turns: float, more: float, days: float, longer: float, importance: float, extra: float
) -> None:
    fresh = freshness(turns, days, importance)
    assert 0.3 - 1e-9 <= fresh <= 1 + 1e-9
    assert freshness(turns + more, days, importance) <= fresh + 1e-9
    assert freshness(turns, days + longer, importance) <= fresh + 1e-9
    assert freshness(turns, days, min(1, importance + extra)) >= fresh - 1e-9
    assert freshness(turns, days, 1) == pytest.approx(1)


def test_fading_has_no_cliff() -> None:
    steps = [freshness(turns, 0, 0) for turns in range(200)]
    assert max(one - two for one, two in pairwise(steps)) < 0.03


@given(st.integers(1, 99), st.integers(1, 99), st.floats(0.3, 1.0))
def test_of_two_alike_the_fresher_scores_no_less(one: int, two: int, cosine: float) -> None:
    old, new = sorted((one, two))
    scores = {
        verdict.first: verdict.score
        for number in (old, new)
        for verdict in recalled([Remembered(turn(number, "q", "a"), at_angle(cosine))])[1]
    }
    assert scores[new] >= scores[old]


def as_turn(each: Remembered) -> Turn:
    assert isinstance(each.what, Turn)
    return each.what
