"""Where sentences begin."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.domain.sentences import cut_places, sentence_starts
from tests.proof import count


def sentences(text: str) -> list[str]:
    cuts = [0, *sentence_starts(text, 0, len(text))]
    return [part for part in (text[a:b].strip() for a, b in zip(cuts, [*cuts[1:], len(text)], strict=True)) if part]


@pytest.mark.parametrize(
    "whole",
    [
        "Dr. Smith, Mrs. Jones and Prof. Lee came.",
        "It runs on e.g. Linux, i.e. a Unix, etc. and so on.",
        "In the U.S. market J. R. R. Tolkien sells.",
        "See No. 5, Fig. 3 and Sec. 2.1 of vol. 7.",
        "Version 1.2.3 and 3.14 at https://a.example.org/b.html?c=d are fine.",
        "1. The first item of a list",
        "Open file.txt now.",
        'He asked "why?" and (it was late!) left.',
        "On Jan. 5 the U.K. voted.",
        "Das Mietverhältnis endet zum 31. August 2026.",
        "Vom 1. bis 3. Mai und am 24. 12. 2026 ist zu.",
        "Wir wohnen im 2. Stock der Torstr. 88.",
        "Der Umsatz stieg auf 3 Mio. Euro inkl. Steuer, Tel. 030 555, gem. § 5.",
        "Hr. Weil und Fr. Berg kommen.",
        "Acme Co. pays, Heinrich VIII. regierte, och bl.a. detta.",
    ],
)
def test_stays_whole(whole: str) -> None:
    assert sentences(whole) == [whole]


@pytest.mark.parametrize(
    "parts",
    [
        ["It ends.", "Next one!", "Third?", "Fourth…", "Fifth"],
        ['He said "stop."', "Then left."],
        ["(All of it.)", "More."],
        ["The answer is no.", "Then we go."],
        ["It was in 2020.", "After that, more."],
        ["We use v1.2.", "It works."],
        ["これは文です。", "次の文です！", "「はい。」", "終わり"],
        ["lower case too.", "yes it is."],
        ["Well... maybe.", "Hm...", "No."],
        ["**Bold end.**", "Next."],
        ["هل هذا سؤال؟", "نعم."],
        ["Wir waren 31.", "Danach kam keiner."],
        ["It was a gem.", "The price is 5."],
        ["We ship on macOS.", "iOS comes later."],
    ],
)
def test_is_cut(parts: list[str]) -> None:
    assert sentences(" ".join(parts)) == parts


def test_a_line_end_alone_ends_nothing() -> None:
    assert sentences("One sentence over\ntwo lines. And\nanother.") == [
        "One sentence over\ntwo lines.",
        "And\nanother.",
    ]


def test_stored_chunks_are_cut_where_they_always_were() -> None:
    text = "Es endet zum 31. August. Acme Co. pays."
    assert [text[:cut] for cut in cut_places(text, 0, len(text))] == [
        "Es endet zum 31. ",
        "Es endet zum 31. August. ",
        "Es endet zum 31. August. Acme Co. ",
    ]


@given(st.text(alphabet="ab .!?…。\"')\n1", max_size=200))
@settings(max_examples=count(33, 100), deadline=None)
def test_starts_rise_and_follow_a_terminator(text: str) -> None:
    cuts = list(sentence_starts(text, 0, len(text)))
    assert cuts == sorted(set(cuts))
    assert all(text[:cut].rstrip()[-1:] in set(".!?…。\"')") for cut in cuts)


def test_a_long_row_of_terminators_takes_no_time() -> None:
    began = time.thread_time()
    assert list(sentence_starts("." * 50_000 + "x", 0, 50_001)) == []
    assert time.thread_time() - began < 0.5
