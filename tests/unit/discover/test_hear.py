"""What a message says, by rules: filler, statements, assumptions, what is taken back, what is not known."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from ragforge.discover import hear, questions, route
from ragforge.discover.filler import can_be_agreed_to, is_filler
from ragforge.domain.discovery import UNKNOWN, AskedQuestion, Decision, InterviewState, Level, Standing
from ragforge.flows.interview import EARS
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
    passing = heard("It costs us 13 hours a week.", InterviewState("problem", "people", 1)).state
    assert passing.points and not heard("Costs are high in Aarhus.", InterviewState("problem", "people", 1)).state.met
    asked = heard("About 40 tickets a week.", asking("impact", "frequency"))
    assert [each.criterion for each in asked.state.met] == ["impact.frequency"]
    again = heard("It costs us 13 hours a week.", done.state, 3)
    assert len(again.state.points) == 2, "nothing is written down twice"


@pytest.mark.parametrize(
    "message, confidence",
    [
        ("I guess the showrooms still use the memo.", Level.LOW),
        ("Maybe the memo is the cause of it all.", Level.LOW),
        ("I think most tickets come from the memo.", Level.MEDIUM),
        ("Customers would pay for a longer window.", Level.MEDIUM),
        ("My theory is that double handling is the cause.", Level.MEDIUM),
        ("My gut says it is 20 percent.", Level.LOW),
        ("Ich glaube, die Läden nutzen noch das alte Memo.", Level.MEDIUM),
        ("If reloading breaks them, better packaging won't help.", Level.MEDIUM),
        ("Mara talked to maybe five of them in May.", None),
        ("We never change the shop system in December.", None),
        ("Customers expect a refund in 3 days.", None),
        ("Everyone always reads the memo first.", None),
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


@pytest.mark.parametrize(
    "message, status",
    [
        ("A1 is wrong.", "r"), ("a1 is wrong: we checked.", "r"), ("A1 is not correct.", "r"), ("A1 isn't true.", "r"),
        ("A1 turned out to be false.", "r"), ("A1 no longer holds.", "r"),
        ("A1 is right, we checked the scans.", "c"), ("A1 is confirmed.", "c"), ("A1 holds.", "c"),
        ("A1 is not wrong.", "c"),
        ("A1 is not an assumption, it's just a fact.", "c"),
        ("A1 might be wrong.", "o"), ("A1 is not confirmed yet.", "o"), ("I don't know whether A1 is true.", "o"),
        ("The A1 motorway is certain to be closed.", "o"), ("As planned, A1 holds the key to Berlin.", "o"),
    ],
)  # fmt: skip
def test_G7_what_is_said_of_an_assumption_is_judged_by_its_clause(message: str, status: str) -> None:
    state = heard("I think the showrooms still use the old memo of 2023.").state
    after = heard(message, state, 3).state
    assert after.assumptions[0].status[0] == status


def test_G7_two_verdicts_in_one_sentence() -> None:
    state = heard("I think the memo is old. I guess agents are tired of calls.").state
    after = heard("A1 is true but A2 is wrong.", state, 3).state
    assert [each.status[0] for each in after.assumptions] == ["c", "r"]


@pytest.mark.parametrize(
    "message",
    ["The return rules are unclear to our customers.", "Our agents are not sure which window applies to chairs.",
     "Nobody knows who owns the returns policy.", "We can't say no to Amazon.",
     "Our customers don't get refunds in time.", "Agents do not understand the old memo.",
     "The customer calls once more after two days.", "They repeat that every Monday to 40 agents.",
     "We know who decides: Karin Petersen.", "We decided how refunds are paid in May.",
     "I know what agents do by hand.", "No agents are trained for returns.", "No one.",
     "So many people call on Mondays.",
     "We told customers that the window is 30 days.", "Thanks to the new carrier, damage fell by half.",
     "Repeat customers complain most of all.", "You could return a chair within 30 days before March."],
)  # fmt: skip
def test_G7_facts_that_sound_like_not_knowing_are_facts(message: str) -> None:
    assert not is_filler(message, OPEN, EARS)
    done = heard(message, asking("root-cause", "proof"))
    assert [each.text for each in done.state.points] == [message]
    assert not [each for each in done.state.met if each.turn == UNKNOWN]


@pytest.mark.parametrize(
    "message, kept",
    [("I don't know, maybe 40 a week.", "Maybe 40 a week."),
     ("Not sure, but I think Karin decides.", "I think Karin decides."),
     ("I don't know the exact number but it was 40 last week.", "It was 40 last week.")],
)  # fmt: skip
def test_G7_a_guess_after_not_knowing_is_kept_as_a_guess(message: str, kept: str) -> None:
    done = heard(message, asking("impact", "frequency"))
    assert [each.text for each in done.state.points] == [kept]
    assert [each.confidence for each in done.state.assumptions] == [Level.LOW]


@pytest.mark.parametrize(
    "message", ["Dr. Okafor.", "The CFO.", "Karin Petersen decides.", "- Support\n- Warehouse", "everyone"]
)
def test_G7_a_short_answer_to_a_question_is_its_answer(message: str) -> None:
    done = heard(message, asking("stakeholders", "decider"))
    assert done.state.points and done.state.points[0].criterion == "stakeholders.decider"


def test_G7_what_the_person_would_like_to_know_is_an_open_question() -> None:
    done = heard("I'm not sure whether swaps should need approval at all.", asking("impact", "frequency"))
    assert done.state.asked[-1].text == "I'm not sure whether swaps should need approval at all."
    assert done.state.asked[-1].answered == UNKNOWN and not done.state.points and not done.state.met


@pytest.mark.parametrize(
    "message", ["I already told you that.", "You never asked me about the workaround.", "Thanks, good question!",
                "Tell me about the returns portal please.", "Go back to the previous question."],
)  # fmt: skip
def test_G7_talk_about_the_talk_is_no_point(message: str) -> None:
    assert not heard(message, asking("impact", "frequency")).state.points


def test_G7_who_corrects_himself_is_corrected() -> None:
    done = heard("The last integration took 7 months. Sorry, 9 months.", asking("impact", "frequency"))
    assert [each.text for each in done.state.points] == ["9 months (before: “The last integration took 7 months.”)"]
    later = heard("I need to correct myself, the last integration took 11 months.", done.state, 4)
    assert [each.text[:39] for each in later.state.points] == ["The last integration took 11 months (be"]


@pytest.mark.parametrize(
    "message",
    ["Wait times are three hours on Mondays.", "Sorry customers get a voucher.", "This is wrong for our agents."],
)
def test_G7_what_only_begins_like_a_correction_corrects_nothing(message: str) -> None:
    done = heard(f"We had 40 tickets last week. {message}", asking("impact", "frequency"))
    assert [each.text for each in done.state.points] == ["We had 40 tickets last week.", message]


def test_G7_a_list_is_told_with_what_announces_it_and_a_label_decides() -> None:
    done = heard("There are two groups:\n- online customers\n- showroom customers", asking("people", "segments"))
    assert [each.text for each in done.state.points] == [
        "There are two groups: online customers", "There are two groups: showroom customers"
    ]  # fmt: skip
    told = hear.hear("Risks: union veto and a late interface.", InterviewState("solution", "outcome", 1),
                     KNOWLEDGE["solution"], 2, EARS)  # fmt: skip
    assert told.state.points[0].section == "risks"


def test_G7_what_rests_on_what_is_said_in_one_breath() -> None:
    done = heard("If nurses swap shifts, managers would save hours. That assumes that the union agrees to swaps.")
    first, second = done.state.assumptions
    assert second.statement == "The union agrees to swaps." and first.depends_on == (second.id,)


def test_G7_a_very_long_message_does_not_fill_the_register() -> None:
    done = heard(" ".join(f"Team {n} waits for form {n}." for n in range(400)))
    assert len(done.state.points) == hear.MOST_STATEMENTS
    assert done.changes[-1].refused and "370 more sentences" in done.changes[-1].text
