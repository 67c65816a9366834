"""Every marker leads to words that bear its sentence out, or says what is missing."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.answer.citations import Checked, CitationStyle, check, formatted, numbers, proving
from ragforge.domain.documents import Locator
from ragforge.retrieve.words import terms_of
from tests.proof import count
from tests.unit.answer.support import source

RETURNS = (
    "# Returns\n\nDesks can be returned within 30 days of delivery. The fee is EUR 1,250.50 for pallets. "
    "Since 31 March 2024, Inga Petersen decides about exceptions. Opened lamps are not taken back. "
    "About 12 % of all chairs come back. The form is RMA-4012.\n"
)
TALK = "Klaus: We ship twenty desks a week from Flensburg to Denmark."
SOURCES = [
    replace(
        source(1, RETURNS, name="returns.pdf"),
        locator=Locator(page=3),
        spans=(("first", 0, 62), ("second", 62, len(RETURNS))),
    ),
    replace(source(2, TALK, name="standup.vtt"), locator=Locator(start=754.0, end=790.0)),
]


def checked(text: str) -> Checked:
    return check(text, SOURCES, terms_of)


@pytest.mark.parametrize(
    "sentence",
    [
        "You can return desks within 30 days [1].",
        "You can return desks within thirty days. [1]",
        "You can return desks within 30 days.[1]",
        "Pallets cost a fee of 1250.50 [1].",
        "Pallets cost a fee of 1.250,50 [1].",
        "Exceptions are decided by Inga Petersen since 2024-03-31 [1].",
        "Exceptions are decided by Petersen since March 31, 2024 [1].",
        "Exceptions are decided by Petersen since 31.03.2024 [1].",
        "Exceptions are decided since 2024 [1].",
        "Opened lamps aren't taken back [1].",
        "12 percent of the chairs come back [1].",
        "The form is called RMA-4012 [1].",
        "They ship 20 desks a week to Denmark [2].",
        "Desks can be returned within 30 days, and 20 desks a week are shipped to Denmark [1][2].",
    ],
)
def test_borne_out(sentence: str) -> None:
    result = checked(sentence)
    assert [each.reason for each in result.citations] == [""] * len(result.citations)
    assert result.citations
    assert not result.unproved
    assert result.uncited == 0


@pytest.mark.parametrize(
    ("sentence", "missing"),
    [
        ("You can return desks within 60 days [1].", "60"),
        ("You can return desks within sixty days [1].", "sixty"),
        ("Exceptions are decided by Olaf Petersen [1].", "Olaf"),
        ("The form is RMA-4013 [1].", "RMA-4013"),
        ("30 % of the desks can be returned within days of delivery [1].", "30 %"),
        ("Exceptions are decided by Petersen since 1 April 2024 [1].", "1 April 2024"),
        ("Desks are not shipped to Denmark [2].", "negation"),
        ("Sharks swim quickly through warm oceans [1].", "Sharks"),
        ("They ship 20 desks a week to Denmark [1].", "20"),
    ],
)
def test_not_borne_out(sentence: str, missing: str) -> None:
    result = checked(sentence)
    assert [each.proved for each in result.citations] == [False]
    assert missing in result.citations[0].reason
    assert len(result.unproved) == 1
    assert "[" not in result.unproved[0]


def test_a_citation_leads_to_the_words_and_to_their_chunk() -> None:
    result = checked("Returns take long. Desks go back within 30 days [1]. Inga Petersen decides about exceptions [1].")
    first, second = result.citations
    assert first.quote == "Desks can be returned within 30 days of delivery."
    assert second.quote == "Since 31 March 2024, Inga Petersen decides about exceptions."
    assert (first.chunk, second.chunk) == ("first", "second")
    assert (first.document, first.name, first.locator.page) == ("d1", "returns.pdf", 3)
    for each in result.citations:
        assert result.text[each.start : each.end] == "[1]"
        assert each.quote in RETURNS


def test_each_sentence_has_its_own_markers() -> None:
    result = checked(
        "- Desks: 30 days [1]\n- Week: 20 desks [2]\n\n[2] says: Flensburg ships desks.\n\n`a[1]` is code."
    )
    assert [each.marker for each in result.citations] == [1, 2, 2]
    assert [each.proved for each in result.citations] == [True, True, True]


def test_what_cites_nothing_is_counted() -> None:
    text = "Desks can be returned within 30 days [1]. Sharks live in warm oceans. Really? Here it is:"
    assert checked(text + "\n\n```\nsome long code\n```").uncited == 1


def test_false_markers_are_gone_and_told() -> None:
    result = checked(
        "Desks go back within 30 days [7][1]. So [source: other.pdf, page 2] and [source: returns.pdf, page 9]."
    )
    assert [each.marker for each in result.removed] == [
        "[7]",
        "[source: other.pdf, page 2]",
        "[source: returns.pdf, page 9]",
    ]
    assert result.removed[2].reason == "no source from returns.pdf has page 9"
    assert result.text == "Desks go back within 30 days [1]. So and."


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("1,000", {"1000", "1"}),
        ("1.000", {"1000", "1"}),
        ("1,250.50", {"1,250.50", "1250.5"}),
        ("1.250,50", {"1.250,50", "1250.5"}),
        ("5 %", {"5%"}),
        ("5 percent", {"5%"}),
        ("0.50", {"0.5"}),
        ("007", {"7"}),
        ("12 kg", {"12"}),
        ("12kg", {"12"}),
        ("2024-03-31", {"date:2024-3-31"}),
        ("3/4/2024", {"date:2024-4-3", "date:2024-3-4"}),
        ("31. März 2024", {"date:2024-3-31"}),
        ("May 5", {"date:-5-5"}),
        ("thirty", {"30"}),
        ("none", set()),
    ],
)
def test_numbers_in_their_forms(written: str, values: set[str]) -> None:
    assert set().union(*numbers(written).values()) == values


def test_formats() -> None:
    first, second = checked("Desks go back within 30 days [1]. They ship 20 desks a week [2].").citations
    assert formatted(first, CitationStyle.PAGE) == "[source: returns.pdf, page 3]"
    assert formatted(second, CitationStyle.TIME) == "[source: standup.vtt, t=12:34]"
    assert formatted(first, CitationStyle.CHUNK) == "[chunk: first]"
    assert formatted(second) == "[source: standup.vtt, t=12:34]"
    assert formatted(first, CitationStyle.TIME) == "[source: returns.pdf]"


def test_a_statement_is_proved_with_all_its_sentences() -> None:
    proved = proving(terms_of)
    assert proved("Desks can be returned within 30 days.", SOURCES[0])
    assert proved("Desks can be returned within 30 days. The form is RMA-4012.", SOURCES[0])
    assert not proved("Desks can be returned within 90 days. The form is RMA-4012.", SOURCES[0])
    assert not proved("Desks can be returned within 30 days.", SOURCES[1])


OFFICES = (
    "# Offices\n\n## Stockholm office\n\nThe office opens at eight. The key lies at the reception.\n\n"
    "## Bonn office\n\nThe office opens at nine. The key lies at the reception.\n"
)


@pytest.mark.parametrize(
    ("text", "question", "heading"),
    [
        ("The key lies at the reception [1].", "Where does the key of the Bonn office lie?", "Bonn office"),
        ("The key lies at the reception [1].", "Where is the key in Stockholm?", "Stockholm office"),
        ("The key of Bonn lies at the reception [1].", "", "Bonn office"),
        ("It opens at nine [1].", "When does the Stockholm office open?", "Bonn office"),
        ("The key lies at the reception [1].", "", "Stockholm office"),
    ],
)
def test_a_citation_names_the_headings_that_its_words_stand_under(text: str, question: str, heading: str) -> None:
    place = Locator(("Offices",), page=3)
    offices = replace(source(1, OFFICES, name="offices.md"), locator=place, spans=(("c", 0, len(OFFICES)),))
    (citation,) = check(text, [offices], terms_of, question=question).citations
    assert citation.locator == Locator(("Offices", heading), page=3)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Desks go back within 30 days, see https://evil.example/x [1].", "[link removed]"),
        ("See https://evil.example/x. [1]", "[link removed]"),
        ("https://evil.example/x [1]", "[link removed]"),
        ("Desks go back within 30 days ![a picture](https://evil.example/x.png) [1].", "[image removed]"),
    ],
)
def test_nobody_is_blamed_for_words_that_we_put_in(text: str, shown: str) -> None:
    result = checked(text)
    assert shown in result.text and result.stripped
    assert [each.reason for each in result.citations] == [""] and not result.unproved


def test_the_number_of_a_source_in_place_of_its_link_is_no_claim() -> None:
    linked = source(3, "Desks are sold at https://shop.example/desks all year round.")
    result = check("Desks are sold at https://shop.example/desks all year [3].", [linked], terms_of, addresses=False)
    assert "[link in source 3]" in result.text
    assert [each.reason for each in result.citations] == [""] and not result.unproved


def test_what_was_taken_out_is_no_sentence_without_a_source() -> None:
    assert checked("[Our page here](https://evil.example/x)").uncited == checked("Our page here").uncited == 0


@pytest.mark.parametrize(
    "bad",
    [
        "a",
        "A ",
        "a.b-1",
        "[1]",
        "[1] ",
        "`",
        "1,",
        "1 May ",
        "not ",
        "a. ",
        "```\n",
        "| ",
        "[1].",
        "Aa",
        ".",
        "!?",
        "1",
        '"',
        "# ",
        "1,1kg",
    ],
)
def test_long_answers_are_checked_quickly(bad: str) -> None:
    begun = time.thread_time()
    checked((bad * 50_000)[: count(20_000, 50_000)])
    assert time.thread_time() - begun < 5


words = st.sampled_from(
    [
        "Desks",
        "30",
        "days",
        ".",
        " ",
        "\n",
        "[1]",
        "[2]",
        "[9]",
        "`",
        "```\n",
        "# ",
        "- ",
        "| a |",
        "not",
        "5 %",
        "1,0",
        "é",
        "?",
        "[",
    ]
)


@settings(max_examples=count(100, 5_000), deadline=None)
@given(st.lists(words | st.text(max_size=4), max_size=30).map("".join))
def test_any_answer_can_be_checked(text: str) -> None:
    result = checked(text)
    for each in result.citations:
        assert result.text[each.start : each.end] == f"[{each.marker}]"
        given = SOURCES[each.marker - 1]
        assert each.quote in given.text
        assert each.chunk in {given.chunk, *(chunk for chunk, _, _ in given.spans)}
        assert each.proved == (not each.reason)
