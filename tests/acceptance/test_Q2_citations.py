"""Q2: citations by page, time or chunk; every one is checked against what was retrieved, false ones are reported."""

from __future__ import annotations

import random
import re

import pytest

from ragforge.answer.citations import CitationStyle, check, formatted
from ragforge.answer.stream import StreamFilter
from ragforge.domain.documents import Locator
from ragforge.domain.prompts import Source
from ragforge.retrieve.words import terms_of
from tests.proof import count, record

GUIDE = "Desks can be returned within 30 days of delivery. The fee is 25 euros."
TALK = "We ship twenty desks a week from Flensburg to Denmark."
SOURCES = [
    Source(1, "c-77", ("c-77",), "d1", "guide.pdf", Locator(page=3, page_end=4), "", 1.0, GUIDE, 0),
    Source(2, "c-78", ("c-78",), "d2", "standup.vtt", Locator(start=754.0, end=790.0), "", 0.9, TALK, 0),
]


@pytest.mark.parametrize(
    ("written", "style", "out"),
    [
        ("[source: guide.pdf, page 3]", CitationStyle.PAGE, "[source: guide.pdf, page 3]"),
        ("[source: guide, p. 4]", CitationStyle.PAGE, "[source: guide.pdf, page 3]"),
        ("[source: standup.vtt, t=12:34]", CitationStyle.TIME, "[source: standup.vtt, t=12:34]"),
        ("[chunk: c-77]", CitationStyle.CHUNK, "[chunk: c-77]"),
        ("[2]", CitationStyle.CHUNK, "[chunk: c-78]"),
    ],
)
def test_every_format_is_understood_and_written(written: str, style: CitationStyle, out: str) -> None:
    result = check(f"Desks are the subject {written}.", SOURCES, terms_of)
    assert not result.removed
    assert [formatted(each, style) for each in result.citations] == [out]


def test_false_citations_are_removed_and_reported() -> None:
    false = "[3] [source: guide.pdf, page 9] [source: standup.vtt, t=59:59] [chunk: c-1]"
    result = check(f"Desks can be returned within 30 days [1]{false}.", SOURCES, terms_of)
    assert result.text == "Desks can be returned within 30 days [1]."
    assert len(result.removed) == 4
    assert all(each.reason for each in result.removed)
    assert [each.proved for each in result.citations] == [True]


def test_no_false_citation_ever_reaches_the_reader() -> None:
    chance = random.Random(4)
    forms = [
        "[{}]",
        "[{}, 1]",
        "【{}】",
        "[1][{}]",
        "[source: x{}]",
        "[chunk: c-{}]",
        "[^{}]",
        "[1-{}]",
        "[Source {}]",
        "[ {} ]",
    ]
    runs = count(150, 5_000)
    shown_markers = 0
    for _ in range(runs):
        written = " ".join(f"Desks go back {chance.choice(forms).format(chance.randint(0, 99))}." for _ in range(8))
        passing = StreamFilter(SOURCES)
        shown = "".join(map(passing.feed, written)) + passing.end()
        markers = re.findall(r"\[[^\]]*\]|【[^】]*】", shown)
        shown_markers += len(markers)
        assert set(markers) <= {"[1]", "[2]"}
        assert check(written, SOURCES, terms_of).text == shown
    assert shown_markers > runs
    record("citations", answers=runs, markers=shown_markers, false_ones=0)
