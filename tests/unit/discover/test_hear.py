"""What a message says, by rules: filler, statements, assumptions, what is taken back, what is not known."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from ragforge.discover import hear, questions, route
from ragforge.discover.hear import can_be_agreed_to, is_filler
from ragforge.domain.discovery import UNKNOWN, AskedQuestion, Decision, InterviewState, Level, Standing
from ragforge.flows.interview import _EARS as EARS
from tests.interviews import KNOWLEDGE, MODE, long_words, states
from tests.proof import count

OPEN = "Noted.\n\n1. Who decides whether this is taken on?\n2. What have you seen?"
OFFER = "That was everything. Shall we go on to “Shape the solution”?"


@pytest.mark.parametrize(
    "message",
    ["yes", "continue", "ok", "Go on.", "that makes sense, move on", "next", "Sure, go ahead!", "👍", "...", "thanks",
     "Yes, that is correct", "skip this one", "nothing more to add", "weiter"],
)  # fmt: skip
def test_G3_filler_after_open_questions(message: str) -> None:
    assert is_filler(message, OPEN, EARS)


@pytest.mark.parametrize(
    "message",
    ["Karin decides.", "40 a week", "No, only the showrooms", "A1 is wrong", "I don't know", "yes, but legal must sign",
     "What does the policy say?", "ok so the memo is outdated", "continue with the costs: 600 euros a month"],
)  # fmt: skip
def test_G3_what_says_something_is_no_filler(message: str) -> None:
    assert not is_filler(message, OPEN, EARS)


@pytest.mark.parametrize("message", ["yes", "sure", "ok", "go ahead", "no"])
def test_G3_yes_to_an_offer_is_not_filler(message: str) -> None:
    assert not is_filler(message, OFFER, EARS)


@pytest.mark.parametrize(
    "answer, can",
    [
        (OFFER, True),
        (OPEN, False),
        ("Should I look up what the rules say about refunds?", True),
        ("The rules say 60 days [1]. Is that still right?", True),
        ("1. Who pays?\n2. **Would you like me to read the report?**", True),
        ("So: do you want to see the document?", True),
        ("Tell me about the last case.", False),
        ("How often does it happen? Which team is it?", False),
        ("", False),
    ],
)
def test_G3_what_can_be_agreed_to(answer: str, can: bool) -> None:
    assert can_be_agreed_to(answer) is can


def heard(message: str, state: InterviewState | None = None, turn: int = 2) -> hear.Heard:
    return hear.hear(message, state or InterviewState("problem", "impact", 1), MODE, turn, EARS)


def asking(probe: str, *criteria: str) -> InterviewState:
    asked = tuple(
        AskedQuestion(next(
            one.ask for cluster in MODE.probes[probe].clusters for one in cluster.questions if one.criterion == each
        ), probe, each, 1)
        for each in criteria
    )  # fmt: skip
    return InterviewState("problem", probe, 1, asked=asked)


def test_G7_statements_become_points_under_the_criteria_they_speak_to() -> None:
    done = heard("It costs us 13 hours a week. About 40 tickets a week are about returns. Thanks!")
    assert [(each.section, each.criterion) for each in done.state.points] == [
        ("impact", "impact.cost"), ("impact", "impact.frequency")
    ]  # fmt: skip
    assert all(not each.cited and each.turn == 2 for each in done.state.points)
    assert {each.criterion for each in done.state.met} == {"impact.cost", "impact.frequency"}
    again = heard("It costs us 13 hours a week.", done.state, 3)
    assert len(again.state.points) == 2, "nothing is written down twice"


@pytest.mark.parametrize(
    "message, confidence",
    [
        ("I guess the showrooms still use the memo.", Level.LOW),
        ("Maybe the memo is the cause of it all.", Level.LOW),
        ("I think most tickets come from the memo.", Level.MEDIUM),
        ("Customers would pay for a longer window.", Level.MEDIUM),
        ("Everyone always reads the memo first.", Level.MEDIUM),
        ("Karin Petersen decides on the budget.", None),
        ("We counted 40 tickets in the system.", None),
    ],
)
def test_G7_what_is_not_certain_is_registered(message: str, confidence: Level | None) -> None:
    state = heard(message).state
    assert [each.confidence for each in state.assumptions] == ([] if confidence is None else [confidence])
    assert [each.assumption for each in state.points] == (["A1"] if confidence else [""])


def test_G7_a_condition_rests_on_what_was_assumed_and_falls_with_it() -> None:
    state = heard("I think the showrooms still use the old memo of 2023.").state
    state = heard("If the showrooms still use the old memo, training will certainly help.", state, 3).state
    assert state.assumptions[1].depends_on == ("A1",)
    done = heard("It turned out the showrooms do not use the old memo of 2023 at all.", state, 4)
    assert [each.status for each in done.state.assumptions] == [Standing.REFUTED, Standing.SHAKEN]
    assert "A2 rests on it and is shaken" in done.changes[-1].text
    back = heard("A1 was confirmed by an audit after all.", done.state, 5)
    assert [each.status for each in back.state.assumptions] == [Standing.CONFIRMED, Standing.OPEN]


def test_G7_what_nobody_can_tell_becomes_an_open_question() -> None:
    done = heard("I don't know.", asking("root-cause", "proof", "alternatives"))
    assert {each.turn for each in done.state.met} == {UNKNOWN} and len(done.state.met) == 2
    assert all(each.answered == UNKNOWN for each in done.state.asked)
    assert route.progress(done.state, MODE)[4].unknown == 2
    later = heard("We saw it in the logs: the tests compare both.", done.state, 3)
    assert any(each.criterion == "root-cause.proof" and each.turn == 3 for each in later.state.met)


def test_G2_rules_go_through_all_probes_and_then_offer_the_other_mode() -> None:
    state, message, seen = InterviewState("problem"), "continue", []
    for turn in range(1, 60):
        decision = route.by_rules(message, state, OPEN, KNOWLEDGE, EARS)
        state = route.noticed(state, decision, turn)
        seen.append(decision.probe)
        picked = questions.chosen(state, MODE, decision, "", EARS)
        state = questions.asked(state, picked)
        if not picked:
            break
        assert len(picked) <= 3
    assert list(dict.fromkeys(seen)) == list(MODE.probes)
    assert questions.offered(state, MODE, KNOWLEDGE) == "solution"
    texts = [each.text for each in state.asked]
    assert len(texts) == len(set(texts))


def test_G2_patterns_are_seen_by_their_signals() -> None:
    pattern = MODE.patterns["regulated"]
    message = f"It is about {pattern.signals[0]} and {pattern.signals[1]}, and what {pattern.signals[2]} means."
    decision = route.by_rules(message, InterviewState("problem"), OPEN, KNOWLEDGE, EARS)
    assert "regulated" in decision.patterns


def test_G2_what_a_model_decides_is_held_against_what_there_is() -> None:
    rules = Decision("problem", "people", ("regulated",), reason="rules")
    wild = route.Routing("Probe 99", ["nonsense", "two-sided", "two-sided"], "mode 7", True, False, "because\nof " * 99)
    checked = route.checked(wild, rules, KNOWLEDGE, "short", EARS, "m")
    assert (checked.mode, checked.probe, checked.patterns, checked.by) == ("problem", "people", ("two-sided",), "m")
    assert not checked.requires_retrieval and len(checked.reason) <= 200
    told = "The showroom staff of Hamburg asked the warehouse about refunds for chairs and desks every week"
    assert route.checked(wild, rules, KNOWLEDGE, told, EARS, "m").requires_retrieval, "there is much to look for"
    filler = Decision("problem", "people", filler=True)
    sure = route.Routing("people", [], "problem", False, True, "")
    assert not route.checked(sure, filler, KNOWLEDGE, "yes", EARS, "m").requires_retrieval


@given(states(most_assumptions=20, most_points=20), long_words)
@settings(max_examples=count(40, 400), deadline=None)
def test_whatever_is_said_rules_take_it(state: InterviewState, message: str) -> None:
    done = heard(message, state, state.turn + 1)
    decision = route.by_rules(message, done.state, OPEN, KNOWLEDGE, EARS)
    assert decision.probe in KNOWLEDGE[decision.mode].probes
    after = route.noticed(done.state, decision, state.turn + 1)
    assert len(questions.chosen(after, KNOWLEDGE[decision.mode], decision, message, EARS)) <= 3
    assert len(after.points) >= len(state.points)
    assert all(len(each.text) <= 500 for each in done.state.points)
