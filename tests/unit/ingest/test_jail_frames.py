"""Answers of children: what is sent arrives, and nothing sent can harm."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from ragforge.domain.documents import Mark, Parsed, ParseFailure, Reason, TextKind
from ragforge.ingest.jail import frames

words = some.text(some.characters(exclude_categories=["Cs"]), max_size=20)
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
        tuple(draw(some.lists(mark, max_size=5))),
        draw(some.none() | words),
        tuple(draw(some.lists(words, max_size=3))),
    )


failures = some.builds(ParseFailure, some.sampled_from(Reason), words, words)


@settings(max_examples=100, deadline=None)
@given(parsed() | failures)
def test_what_is_sent_arrives(result: Parsed | ParseFailure) -> None:
    assert frames.decode(frames.encode(result)) == result


@settings(max_examples=100, deadline=None)
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
