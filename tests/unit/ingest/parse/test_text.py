"""Clean text, and text put together with its marks."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.domain.documents import Mark, Reason
from ragforge.ingest.parse import text as module
from ragforge.ingest.parse.text import CannotParse, MarkedText, bounded, clean
from tests.proof import count

TRICKY = (
    "ab é e\u0301\r\n\t\0\x0b\x7f\x85\u2028\u200b\u200c\u200d\ufe0f\ufe00\u202e\u00ad\U000e0041👩💻न्می\ud800가ᄀ\u1161"
)


@settings(max_examples=count(33, 100), deadline=None)
@given(st.one_of(st.text(), st.text(alphabet=TRICKY, max_size=30)))
def test_clean_is_idempotent(text: str) -> None:
    once = clean(text)
    assert clean(once) == once
    assert unicodedata.is_normalized("NFC", once)
    assert not any(unicodedata.category(character) == "Cc" and character not in "\n\t" for character in once)
    assert not any("\ud800" <= character <= "\udfff" for character in once)


@pytest.mark.parametrize(
    ("dirty", "expected"),
    [
        ("a\r\nb\rc\u2028d\x85e", "a\nb\nc\nd\ne"),
        ("plain\n\tcode\x00\x07", "plain\n\tcode"),
        ("igno\u200bre\u202e\U000e0041", "ignore"),
        ("e\u0301", "é"),
        ("👩\u200d💻", "👩\u200d💻"),
        ("❤\ufe0f\u200d🔥", "❤\ufe0f\u200d🔥"),
        ("a\u200db", "ab"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("x\ufe01\ufe02\U000e0101", "x"),
        ("❤\ufe0f\x1f\ufe0f\u200c\u200d\ufe0f", "❤\ufe0f"),
    ],
)
def test_clean(dirty: str, expected: str) -> None:
    assert clean(dirty) == expected


@pytest.mark.parametrize(
    "marks", ["\u0301\u0316" * 200_000, "\u0301" * 200_000 + "\u0316" * 200_000, "\u0f73" * 200_000]
)
def test_heaps_of_marks_take_no_time(marks: str) -> None:
    began = time.thread_time()
    text = clean(f"a{marks}b")
    assert time.thread_time() - began < 2
    assert (text[0], text[-1]) in (("a", "b"), ("á", "b"))
    assert len(text) < 100


def test_as_many_marks_as_a_letter_may_have_stay() -> None:
    assert unicodedata.normalize("NFD", clean("a" + "\u0301\u0316" * 15)) == "a" + "\u0316" * 15 + "\u0301" * 15
    assert clean("e\u0301" + "─" * 100) == "é" + "─" * 100


def test_marks_stand_at_the_offsets_of_cleaned_text() -> None:
    marked = MarkedText()
    marked.add("one\r\n", page=1)
    marked.add("loose\u200b\n")
    marked.add("two\n", start=1.0, end=2.0, speaker="Ann")
    assert marked.text == "one\nloose\ntwo\n"
    assert marked.marks == (Mark(0, page=1), Mark(10, start=1.0, end=2.0, speaker="Ann"))


def test_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CHARACTERS", 10)
    with pytest.raises(CannotParse) as caught:
        bounded("x" * 11)
    assert caught.value.failure.reason is Reason.TOO_LARGE
    with pytest.raises(CannotParse):
        MarkedText().add("x" * 11)
