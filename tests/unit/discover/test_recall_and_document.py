"""Older turns that are brought back, the context block, and the document that comes out."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.answer.artifacts import escaped, markdown
from ragforge.discover import document, recall
from ragforge.discover.context import context_block, format_context_block
from ragforge.domain.conversation import FORGOTTEN_ANSWER, Turn
from ragforge.domain.discovery import (
    BY_HAND,
    UNKNOWN,
    AskedQuestion,
    Assumption,
    Cited,
    Evidence,
    InterviewState,
    Level,
    Met,
    Point,
    Standing,
)
from ragforge.domain.documents import Locator
from ragforge.domain.tokens import estimated_tokens
from tests.interviews import KNOWLEDGE, MODE, turn
from tests.proof import count

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)


def subject(text: str) -> set[str]:
    return set(text.lower().split())


def brought(turns: list[Turn], message: str, number: int, probe: str = "people") -> list[int]:
    found = recall.recalled(turns, {}, None, message, number, probe, subject=subject, cosine_floor=None)
    return [each.number for each in found]


def test_G4_older_turns_come_back_in_the_order_of_time_rather_of_the_same_probe() -> None:
    turns = [
        turn(1, "memo in the showroom", "ok", "framing"),
        turn(2, "memo in the showroom", "ok", "people"),
        turn(3, "nothing of that", "ok", "people"),
        turn(4, "memo in the showroom", "ok", "impact"),
        turn(5, "memo in the showroom", "ok", "impact"),
        turn(6, "memo in the showroom", "ok", "people"),
    ]
    assert brought(turns, "the showroom memo", 7) == [1, 2, 4], "turn_number < current - 2"
    assert brought(turns, "the showroom memo", 9, "impact") == [4, 5, 6]
    assert brought(turns, "weather", 9) == []
    assert brought(turns[:2], "memo", 3) == []
    forgotten = [turn(1, "memo in the showroom", FORGOTTEN_ANSWER), *turns[1:]]
    assert 1 not in brought(forgotten, "the showroom memo", 7)


def test_G4_meaning_counts_more_than_words() -> None:
    turns = [turn(1, "alpha words", "ok"), turn(2, "beta things", "ok")]
    near, far = np.array([1, 0], np.float32), np.array([0, 1], np.float32)
    found = recall.recalled(turns, {"t1": far, "t2": near}, near, "gamma", 9, "x", subject=subject, cosine_floor=0.0)
    assert [each.number for each in found] == [2]


@given(st.lists(st.sampled_from(["memo", "rule", "cost", "week"]), min_size=1, max_size=30), st.integers(1, 40))
@settings(max_examples=count(50, 500), deadline=None)
def test_G4_never_more_than_three_never_recent_always_in_order(said: list[str], number: int) -> None:
    turns = [turn(place, text, "ok") for place, text in enumerate(said, 1)]
    found = brought(turns, "memo rule", number)
    assert len(found) <= 3 and found == sorted(found) and all(each < number - 2 for each in found)


def test_G4_exchanges_are_labelled_by_turn_and_probe() -> None:
    told, notes = recall.fitting(
        [turn(3, "They resist.", "Who?", "stakeholders")],
        {"stakeholders": "Stakeholder mapping"},
        500,
        estimated_tokens,
    )
    assert told[0][1] == "Turn 3 (Probe: Stakeholder mapping):\nUser: They resist.\nAssistant: Who?" and not notes
    _, notes = recall.fitting([turn(3, "word " * 900, "Who?")], {}, 200, estimated_tokens)
    assert notes == ["turn 3: shortened from 1,271 tokens"]


def test_G6_the_context_block_is_the_seeds() -> None:
    state = {
        "org_context": "84.51° analytics team.",
        "file_summaries": [
            {"filename": "a.docx", "uploaded_at": "", "summary": "Research of Q3.", "chunk_count": 14},
            {"filename": "b.md", "uploaded_at": "", "summary": "Notes.", "chunk_count": 1},
        ],
    }
    whole = (
        "## Organization Context\n84.51° analytics team.\n\n## Available Documents\n\n"
        "- **a.docx**: Research of Q3.\n\n- **b.md**: Notes."
    )
    assert format_context_block(state) == whole == format_context_block(state)
    assert context_block(state, 500, estimated_tokens) == (whole, "")
    assert format_context_block({"org_context": "", "file_summaries": []}) == ""


def test_G7_the_document_cites_passages_and_turns_and_tells_what_is_not_known() -> None:
    cited = Cited("c1", "d1", "report.md", Locator(page=2), "sum", "The rate rose to 6.8 percent.")
    state = InterviewState(
        "problem",
        points=(
            Point("P1", "impact", "The rate rose to 6.8 percent.", 2, "impact.frequency", (cited,), documents=("d1",)),
            Point("P2", "impact", "It costs | 13 hours [1] a week.", 2, "impact.cost", assumption="A1"),
            Point("P3", "people", "Agents suffer.", BY_HAND),
            Point("P4", "people", "So do buyers.", BY_HAND),
        ),
        assumptions=(
            Assumption("A1", "It costs | 13 hours", Level.LOW, Level.HIGH, 2, status=Standing.REFUTED,
                       evidence=(Evidence("measured: 5 hours", 3, (cited,)),)),
            Assumption("A2", "So it pays", Level.LOW, Level.HIGH, 2, status=Standing.SHAKEN, depends_on=("A1",)),
        ),
        met=(Met("impact.frequency", 2), Met("impact.cost", 2), Met("root-cause.proof", UNKNOWN)),
        asked=(AskedQuestion("What have you seen?", "root-cause", "proof", 4, UNKNOWN),),
    )  # fmt: skip
    made = document.document(
        state, MODE, KNOWLEDGE, [turn(2, "It costs | 13 hours [1] a week.", "…")], id="x", title="Brief", made_at=NOW,
        escape=escaped,
    )  # fmt: skip
    text = markdown(made)
    impact = next(each for each in made.sections if each.heading == MODE.section("impact").heading)  # type: ignore[union-attr]
    lines = impact.text.splitlines()
    assert lines[0].endswith("percent. [3]"), "after two that were written by hand"
    assert "\\[1\\]" in lines[1] and "(assumption A1, refuted)" in lines[1], "words of people are no markers"
    names = [source.name for source in made.sources]
    assert names.count("Written by hand") == 2 and "Interview, turn 2" in names and "report.md" in names
    numbers = [source.number for source in made.sources]
    assert numbers == list(range(1, len(numbers) + 1))
    assert "| A1 | It costs \\| 13 hours" in text and "| shaken | A1 |" in text
    assert "What have you seen? Nobody could tell." in text
    assert "A2 is shaken" in text
    assert sum(section.open for section in made.sections) == len(MODE.sections) - 2
    assert all(section.reason for section in made.sections if section.open)
