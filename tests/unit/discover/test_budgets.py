"""Phase A under 2,000 tokens and Phase B within 12,000, whatever an interview holds; what is shortened is told."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ragforge.adapters.models import counting
from ragforge.discover import context, register, route, skeleton
from ragforge.discover.fitting import Count, fitted, squeezed
from ragforge.domain.conversation import Turn
from ragforge.domain.discovery import Assumption, Decision, InterviewState, Level, Point
from ragforge.domain.documents import Locator
from ragforge.domain.prompts import Source
from ragforge.domain.tokens import estimated_tokens
from tests.interviews import KNOWLEDGE, MODE, long_words, project_states, states, talks, turn
from tests.proof import count, record

SLOW = settings(
    max_examples=count(25, 400),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to make such states smaller takes minutes
)
TITLES = {key: probe.title for key, probe in MODE.probes.items()}


def by_openai(text: str) -> int:
    return counting.count(text, "openai")


messages = long_words.map(lambda text: text or "yes")
counters = st.sampled_from([estimated_tokens, by_openai])


def fence(what: str, text: str) -> str:
    return f"<data-0123456789abcdef {what}>\n{text}\n</data-0123456789abcdef>"


def sources(texts: list[str]) -> list[Source]:
    return [
        Source(number, f"c{number}", (), f"d{number}", f"file-{number}.md", Locator(path=("A", "B")), "", 1.0, text, 0)
        for number, text in enumerate(texts, 1)
    ]


def decided(state: InterviewState, patterns: int = 2, **more: Any) -> Decision:
    probe = state.probe or next(iter(MODE.probes))
    return Decision(MODE.name, probe, tuple(MODE.patterns)[:patterns], micro_synthesis=True, reason="why", **more)


def phase_b(
    state: InterviewState,
    project_state: dict[str, object],
    turns: list[Turn],
    message: str,
    passages: list[str],
    counted: Count,
    room: int = context.MOST_TOKENS,
    tools: int = 1_100,
) -> context.Assembled:
    decision = decided(state)
    base = context.floor(
        state, MODE, decision, project_state, turns, message, TITLES, room=room, tools=tools, count=counted
    )
    older = [each for each in turns if each.number < state.turn - 1][:3]
    return context.assembled(base, decision, older, sources(passages), TITLES, tools=tools, fence=fence, count=counted)


@SLOW
@given(states(), project_states(), talks(), messages, counters)
def test_G2_phase_a_stays_under_2000_tokens(
    state: InterviewState, project_state: dict[str, object], turns: list[Turn], message: str, counted: Count
) -> None:
    block, _ = context.context_block(project_state, 330, counted)
    last = turns[-1].answer if turns else MODE.opening
    sent, notes = route.messages(message, state, last, MODE, KNOWLEDGE, block, turns, counted)
    assert route.tokens(sent, counted) < 2_000
    if counted(message) > 300:
        assert any("the person says" in note for note in notes), "what is shortened is told"
    text = sent[1].text
    assert all(f"- {key}:" in text for key in MODE.probes) or any("probes" in note for note in notes)


@SLOW
@given(states(), project_states(), talks(), messages, st.lists(long_words, max_size=6), counters)
def test_G4_phase_b_stays_within_12000_tokens(
    state: InterviewState,
    project_state: dict[str, object],
    turns: list[Turn],
    message: str,
    passages: list[str],
    counted: Count,
) -> None:
    made = phase_b(state, project_state, turns, message, passages, counted)
    assert made.tokens + context.ROUNDS <= context.MOST_TOKENS
    names = [section.name for section in made.sections]
    floor = ["Core instructions", "Context block", "Assumption register", "Document skeleton", "Routing context"]
    wanted = [name for name in floor if name != "Context block" or context.format_context_block(project_state)]
    assert names[: len(wanted)] == wanted, "the floor is never cut"
    assert names[-2:] == ["Decision", "Message"]
    assert "Probe" in names
    told = next(each.text for each in made.sections if each.name == "Assumption register")
    assert numbers_in(told) >= {int(each.id[1:]) for each in state.assumptions}, "none is left out"
    skeleton_text = next(each.text for each in made.sections if each.name == "Document skeleton")
    assert all(f"{section.key} (" in skeleton_text for section in MODE.sections)
    if made.recalled:
        assert list(made.recalled) == sorted(made.recalled)


def numbers_in(text: str) -> set[int]:
    """Every assumption that a text names, also as one of a range."""
    found = {int(number) for number in re.findall(r"\bA(\d+)\b", text)}
    for first, last in re.findall(r"\bA(\d+)–A(\d+)\b", text):
        found |= set(range(int(first), int(last) + 1))
    return found


@SLOW
@given(states(), project_states(), talks(), messages, st.integers(0, 12_000), counters)
def test_G4_a_smaller_window_holds_too(
    state: InterviewState,
    project_state: dict[str, object],
    turns: list[Turn],
    message: str,
    room: int,
    counted: Count,
) -> None:
    room = max(room, context.least_room(MODE, decided(state), 1_100, counted))
    made = phase_b(state, project_state, turns, message, ["some passage"] * 4, counted, room)
    said = next(each.text for each in made.sections if each.name == "Message")
    assert message.split()[0] in said, "it reads what is said"
    assert made.tokens <= room


def test_G4_with_300_assumptions_and_200_files() -> None:
    """The worst that is promised, with texts as people write them."""
    assumptions = tuple(
        Assumption(
            f"A{number}",
            f"Showroom number {number} will read the new rule within a week if the memo of team {number} is withdrawn",
            list(Level)[number % 3],
            list(Level)[number % 2],
            number % 40,
            "people",
            depends_on=(f"A{number - 1}",) if number > 1 else (),
        )
        for number in range(1, 301)
    )
    points = tuple(
        Point(f"P{number}", MODE.sections[number % 9].key, f"In week {number} there were {number} cases.", number % 40)
        for number in range(1, 151)
    )
    state = InterviewState("problem", "people", 40, assumptions=assumptions, points=points, numbers=(300, 150))
    files = [
        {
            "filename": f"report-{number:03}-of-the-regional-warehouse.docx",
            "uploaded_at": "2026-11-17T10:00:00",
            "summary": f"Report {number} on stock, returns and complaints in region {number}, with figures by month.",
            "chunk_count": 9,
        }
        for number in range(200)
    ]
    project_state: dict[str, object] = {"file_summaries": files, "org_context": "A furniture maker in Flensburg."}
    turns = [turn(number, f"We had {number} cases. " * 20, "What happened then? " * 20) for number in range(1, 41)]
    message = "The memo was withdrawn last week, and tickets went down to ten."
    made = phase_b(state, project_state, turns, message, ["A passage of the rules. " * 60] * 4, by_openai)
    assert made.tokens <= 12_000
    said = " ".join(made.compressed)
    assert "of 300 in full" in said
    assert "files" in said
    assert made.sources, "there is still room for passages"
    assert made.recalled, "and for older turns"
    block, note = context.context_block(project_state, 330, by_openai)
    assert "of 200 files by name" in note
    sent, _ = route.messages(message, state, turns[-1].answer, MODE, KNOWLEDGE, block, turns, by_openai)
    tokens = route.tokens(sent, by_openai)
    assert tokens < 2_000
    record("discovery_budgets", phase_a=tokens, phase_b=made.tokens, assumptions=300, files=200)


@given(st.lists(long_words, max_size=30), st.integers(0, 3_000), counters)
@settings(max_examples=count(50, 400), deadline=None)
def test_what_is_fitted_fits(texts: list[str], room: int, counted: Count) -> None:
    items = [(str(place), text, text[:20]) for place, text in enumerate(texts)]
    shown = fitted(items, room, counted)
    assert sum(counted(text) for text in shown.texts.values()) <= room
    if sum(counted(text) + 1 for text in texts) <= room:
        assert list(shown.texts.values()) == texts
        assert shown.short == 0


@given(long_words, st.integers(3, 500), counters)
@settings(max_examples=count(50, 400), deadline=None)
def test_what_is_squeezed_fits_and_is_marked(text: str, room: int, counted: Count) -> None:
    short = squeezed(text, room, counted)
    assert counted(short) <= room or counted("") > room
    assert short == text or "[…]" in short or len(text.split()) < 3 or room < 12


@given(states(most_assumptions=120), st.integers(50, 4_000), counters)
@SLOW
def test_register_and_skeleton_fit_their_room(state: InterviewState, room: int, counted: Count) -> None:
    text, note = register.text(state, room, counted)
    assert counted(text) <= max(room, counted(register.counts(state)) + 8)
    assert note or all(f"{each.id} [" in text and each.statement in text for each in state.assumptions)
    told, _ = skeleton.text(state, MODE, max(room, 250), counted)
    heads = sum(counted(f"{each.key} ({each.heading}): 999 more") + 1 for each in MODE.sections)
    assert counted(told) <= max(room, 250, heads)
