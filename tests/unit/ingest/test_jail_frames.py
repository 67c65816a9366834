"""Answers of children: what is sent arrives, and nothing sent can harm."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from ragforge.domain.documents import Mark, Parsed, ParseFailure, Reason, TextKind
from ragforge.ingest.jail import frames
from ragforge.ingest.parse.text import clean
from tests.proof import count

words = some.text(some.characters(exclude_categories=["Cs"]), max_size=20).map(clean)
seconds = some.none() | some.floats(0, 1e9)


@some.composite
def parsed(draw: some.DrawFn) -> Parsed:
    text = draw(words)
    mark = some.builds(
        Mark,
        some.integers(0, len(text)),
        some.none() | some.integers(0, 10_000),
        seconds,
        seconds,
        some.none() | words,
    )
    return Parsed(
        text,
        draw(some.sampled_from(TextKind)),
        tuple(sorted(draw(some.lists(mark, max_size=5)), key=lambda mark: mark.offset)),
        draw(some.none() | words),
        tuple(draw(some.lists(words, max_size=3))),
    )


failures = some.builds(ParseFailure, some.sampled_from(Reason), words, words)


@settings(max_examples=count(33, 100), deadline=None)
@given(parsed() | failures)
def test_what_is_sent_arrives(result: Parsed | ParseFailure) -> None:
    assert frames.decode(frames.encode(result)) == result


@settings(max_examples=count(33, 100), deadline=None)
@given(parsed() | failures, some.integers(0, 400), some.binary(max_size=8), some.booleans())
def test_a_changed_answer_is_read_or_refused(
    result: Parsed | ParseFailure, place: int, change: bytes, cut: bool
) -> None:
    frame = bytearray(frames.encode(result))
    frame[place : place + len(change)] = change
    try:
        decoded = frames.decode(frame[:place] if cut else frame)
    except ValueError:
        return
    assert isinstance(decoded, Parsed | ParseFailure)


@pytest.mark.parametrize(
    "facts", [b"[" * 100_000, b"3", b'{"reason": "no such"}', b'{"kind": 7}', b'{"kind": "prose", "notes": [1]}', b"{}"]
)
def test_nonsense_is_refused(facts: bytes) -> None:
    frame = frames._LENGTHS.pack(len(facts), 0, 0) + facts
    with pytest.raises(ValueError, match=r"."):
        frames.decode(frame)


def test_broken_characters_keep_their_places() -> None:
    decoded = frames.decode(frames.encode(Parsed("a\ud800b", marks=(Mark(2, page=1),))))
    assert isinstance(decoded, Parsed)
    assert (len(decoded.text), decoded.text[2]) == (3, "b")


@pytest.mark.parametrize(
    "lie",
    [
        pytest.param(Parsed("abc", marks=(Mark(2, page=1), Mark(1, page=2))), id="marks out of order"),
        pytest.param(Parsed("abc", marks=(Mark(0, start=-math.inf, end=1.0),)), id="before all time"),
        pytest.param(Parsed("abc", marks=(Mark(0, start=1.0, end=1e300),)), id="after all time"),
        pytest.param(Parsed("a\0c"), id="NUL"),
        pytest.param(Parsed("abcdefghijk"), id="longer than allowed"),
        pytest.param(Parsed("é" * 11), id="longer than allowed, not ASCII"),
    ],
)
def test_a_lie_is_refused(lie: Parsed) -> None:
    with pytest.raises(ValueError, match=r"."):
        frames.decode(frames.encode(lie), most_characters=10)


def test_length_is_counted_in_characters() -> None:
    decoded = frames.decode(frames.encode(Parsed("é" * 10)), most_characters=10)
    assert isinstance(decoded, Parsed)
    assert decoded.text == "é" * 10


def test_too_many_marks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "_MOST_MARKS", 2)
    with pytest.raises(ValueError, match="marks"):
        frames.decode(frames.encode(Parsed("abc", marks=(Mark(0, page=1),) * 3)))


def test_small_facts_can_be_stored_and_printed() -> None:
    decoded = frames.decode(frames.encode(Parsed("x", title="a\ud800\0\x1b[2Jb" + "c" * 5000, notes=("n\udcff",))))
    assert isinstance(decoded, Parsed)
    assert decoded.title is not None
    assert decoded.title.startswith("a[2Jbc")
    assert len(decoded.title) <= 1000
    assert decoded.notes == ("n",)
