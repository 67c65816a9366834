"""States of interviews as tests make them: one that holds some of everything, and random ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from ragforge.domain.discovery import (
    UNKNOWN,
    AskedQuestion,
    Assumption,
    Cited,
    Evidence,
    InterviewState,
    Level,
    Met,
    Noticed,
    Point,
    Standing,
)
from ragforge.domain.documents import Locator

WHERE = Locator(("Part", "Ärger"), page=3, page_end=4, start=1.5, end=2.0, speaker="Ada")


def cited(document: str, quote: str = "Thirty days.") -> Cited:
    return Cited("c1", document, "a.md", WHERE, "sum", quote)


def assumption(number: int, **facts: Any) -> Assumption:
    plain = Assumption(f"A{number}", f"Claim {number}.", Level.MEDIUM, Level.HIGH, 1, "framing")
    return replace(plain, **facts)


def point(number: int, **facts: Any) -> Point:
    return replace(Point(f"P{number}", "problem", f"Sentence {number}.", 1), **facts)


def rich(kept: str, gone: str, word: str = "secret") -> InterviewState:
    """After two turns: entries of no document, of one that stays, and of one that may go, with its word."""
    return InterviewState(
        "problem",
        "people",
        2,
        offer="solution",
        fired=(Noticed("framing", "problem", 1), Noticed("people", "problem", 2)),
        patterns=(Noticed("two-sided", "problem", 2),),
        met=(Met("framing.who", 1), Met("framing.why", 2), Met("people.who", UNKNOWN)),
        asked=(
            AskedQuestion("Who are you?", "framing", "who", 1, 2),
            AskedQuestion(f"What of the {word}?", "framing", "why", 1, UNKNOWN, (kept, gone)),
            AskedQuestion("Who else?", "people", "who", 2, documents=(kept,)),
        ),
        assumptions=(
            assumption(1, evidence=(Evidence("They said so.", 1), Evidence(f"{word}.", 2, (cited(gone, word),)))),
            assumption(2, statement=f"The {word} is true.", documents=(gone,), turn=2),
            assumption(
                3,
                status=Standing.SHAKEN,
                depends_on=("A1", "A2"),
                evidence=(Evidence("“30” days\nor \\ so", 2, (cited(kept),)),),
                documents=(kept,),
            ),
        ),
        points=(
            point(1, criterion="framing.who"),
            point(2, text=f"It is {word}.", criterion="framing.why", cited=(cited(gone, word),), documents=(gone,)),
            point(3, turn=2, cited=(cited(kept),), documents=(kept,), assumption="A2"),
            point(4, turn=2, text="Größe 👩‍👩‍👧 日本語", assumption="A3"),
        ),
        synthesis=2,
        numbers=(3, 4),
    )  # fmt: skip


_TEXTS = st.text(max_size=30)
_TURNS = st.integers(0, 60)


@st.composite
def states(draw: st.DrawFn, documents: Sequence[str] = ()) -> InterviewState:
    """Whatever can be told of an interview, with links to assumptions that are there, and to these documents."""
    held = st.lists(st.sampled_from(documents), max_size=2, unique=True).map(tuple) if documents else st.just(())
    numbers = st.none() | st.integers(0, 9_999)
    seconds = st.none() | st.floats(0, 1e6, allow_nan=False)
    where = st.builds(
        Locator,
        st.lists(_TEXTS, max_size=2).map(tuple),
        numbers,
        numbers,
        seconds,
        seconds,
        st.none() | _TEXTS,
    )
    passage = st.builds(Cited, _TEXTS, st.sampled_from(documents), _TEXTS, where, _TEXTS, _TEXTS) if documents else None
    passages = st.just(()) if passage is None else st.lists(passage, max_size=2).map(tuple)
    ids = [f"A{number}" for number in range(1, draw(st.integers(0, 4)) + 1)]
    linked = st.sampled_from(["", *ids])
    assumptions = tuple(
        draw(
            st.builds(
                Assumption,
                st.just(id),
                _TEXTS,
                st.sampled_from(Level),
                st.sampled_from(Level),
                _TURNS,
                _TEXTS,
                st.sampled_from(Standing),
                st.lists(st.sampled_from(ids), max_size=2, unique=True).map(tuple),
                st.lists(st.builds(Evidence, _TEXTS, _TURNS, passages), max_size=2).map(tuple),
                held,
            )
        )
        for id in ids
    )
    points = st.builds(Point, _TEXTS, _TEXTS, _TEXTS, _TURNS, _TEXTS, passages, linked, held)
    asked = st.builds(AskedQuestion, _TEXTS, _TEXTS, _TEXTS, _TURNS, st.just(UNKNOWN) | _TURNS, held)
    noticed = st.lists(st.builds(Noticed, _TEXTS, _TEXTS, _TURNS), max_size=2).map(tuple)
    return InterviewState(
        draw(_TEXTS),
        draw(_TEXTS),
        draw(_TURNS),
        offer=draw(_TEXTS),
        fired=draw(noticed),
        patterns=draw(noticed),
        met=draw(st.lists(st.builds(Met, _TEXTS, st.just(UNKNOWN) | _TURNS), max_size=3).map(tuple)),
        asked=draw(st.lists(asked, max_size=3).map(tuple)),
        assumptions=assumptions,
        points=draw(st.lists(points, max_size=4).map(tuple)),
        synthesis=draw(_TURNS),
        numbers=(draw(_TURNS), draw(_TURNS)),
    )
