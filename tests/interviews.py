"""States of interviews, as random as they come, for property tests."""

from __future__ import annotations

import random
from datetime import UTC, datetime

from hypothesis import strategies as st

from ragforge.discover.knowledge import Mode, load
from ragforge.domain.conversation import Turn
from ragforge.domain.discovery import (
    UNKNOWN,
    AskedQuestion,
    Assumption,
    Evidence,
    InterviewState,
    Level,
    Met,
    Noticed,
    Point,
    Standing,
)

KNOWLEDGE = load()
MODE: Mode = KNOWLEDGE["problem"]
_TEXT = (
    "returns window showroom support ticket customer refund delay warehouse agent memo rule week month euro cost "
    "decision owner sponsor law audit système größe 漢字 naïve ✓ 4,012 https://example.org/a?b=c | `code` [1] <b>"
)
_WORDS = _TEXT.split()

words = st.lists(st.sampled_from(_WORDS), min_size=1, max_size=60).map(" ".join)
"""Text of some length."""
long_words = st.integers(0, 3_000).flatmap(
    lambda size: st.lists(st.sampled_from(_WORDS), min_size=min(size, 40), max_size=40).map(
        lambda some: " ".join(some * max(1, size // 40))
    )
)
"""Also of far more than fits anywhere."""


class Short(InterviewState):
    """A state that does not tell all of itself when a test fails: that would take longer than the test."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"a state with {len(self.assumptions)} assumptions and {len(self.points)} points"


@st.composite
def states(draw: st.DrawFn, most_assumptions: int = 300, most_points: int = 200) -> InterviewState:
    """What an interview may know: up to hundreds of assumptions and points, with texts of any length."""
    turn = draw(st.integers(0, 60))
    probe = draw(st.sampled_from(["", *MODE.probes]))
    texts = draw(st.lists(words, min_size=4, max_size=8))
    number = draw(st.integers(0, most_assumptions))
    levels, standings = list(Level), list(Standing)
    seed = random.Random(draw(st.integers(0, 2**32)))  # hypothesis would draw every choice by itself, slowly
    assumptions = tuple(
        Assumption(
            f"A{place}",
            seed.choice(texts)[:400],
            seed.choice(levels),
            seed.choice(levels),
            seed.randint(0, turn),
            seed.choice(list(MODE.probes)),
            seed.choice(standings),
            tuple(sorted({f"A{seed.randint(1, place - 1)}" for _ in range(seed.randint(0, 2))})) if place > 1 else (),
            (Evidence(seed.choice(texts), turn),) if seed.random() < 0.2 else (),
        )
        for place in range(1, number + 1)
    )
    points = tuple(
        Point(f"P{place}", seed.choice(MODE.sections).key, seed.choice(texts)[:500], seed.randint(0, turn))
        for place in range(1, draw(st.integers(0, most_points)) + 1)
    )
    met = tuple(Met(path, seed.choice((turn, UNKNOWN))) for path in MODE.paths if seed.random() < 0.5)
    asked = tuple(
        AskedQuestion(question.ask, key, question.criterion, seed.randint(0, turn), seed.choice((0, turn)))
        for key, each in MODE.probes.items()
        for cluster in each.clusters
        for question in cluster.questions
        if seed.random() < 0.3
    )
    return Short(
        MODE.name,
        probe,
        turn,
        offer=draw(st.sampled_from(["", "solution"])),
        fired=tuple(Noticed(key, MODE.name, turn) for key in MODE.probes if seed.random() < 0.5),
        patterns=tuple(Noticed(key, MODE.name, turn) for key in MODE.patterns if seed.random() < 0.4),
        met=met,
        asked=asked,
        assumptions=assumptions,
        points=points,
        numbers=(number, len(points)),
    )


def turn(number: int, question: str, answer: str, probe: str = "framing", **more: object) -> Turn:
    return Turn(
        f"t{number}",
        "c",
        number,
        question,
        answer,
        datetime(2026, 11, 17, tzinfo=UTC),
        summary=question[:200],
        source="discovery",
        probe=probe,
        mode="problem",
        **more,  # type: ignore[arg-type]
    )


@st.composite
def talks(draw: st.DrawFn) -> list[Turn]:
    """Turns of an interview, some of them very long."""
    said = draw(st.lists(long_words, min_size=1, max_size=6))
    number = draw(st.integers(0, 40))
    probes = list(MODE.probes)
    return [
        turn(each, said[each % len(said)], said[(each + 1) % len(said)], probes[each % len(probes)])
        for each in range(1, number + 1)
    ]


@st.composite
def project_states(draw: st.DrawFn, most_files: int = 200) -> dict[str, object]:
    """`project_state.json` of a project with up to so many files."""
    summaries = draw(st.lists(words, min_size=1, max_size=5))
    names = draw(st.lists(st.text("abcdefghij-_ é漢", min_size=1, max_size=90), min_size=1, max_size=5))
    return {
        "file_summaries": [
            {
                "filename": f"{names[each % len(names)]}-{each}.md",
                "uploaded_at": "2026-11-17T10:00:00",
                "summary": summaries[each % len(summaries)],
                "chunk_count": 3,
            }
            for each in range(draw(st.integers(0, most_files)))
        ],
        "org_context": draw(st.sampled_from(["", *summaries]) | long_words),
    }
