"""RTF: text with its letters right, paragraphs, and table rows on one line."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragforge.domain.documents import ParseFailure, Reason
from ragforge.ingest.parse import registry
from ragforge.ingest.parse.rtf import parse
from ragforge.ingest.parse.text import clean
from tests.proof import count

HEAD = (
    rb"{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0\fswiss Arial;}{\f1\fcharset204 Arial Cyr;}}"
    rb"{\colortbl;\red0\green0\blue0;}{\stylesheet{\s1 heading 1;}}{\info{\title Price list}{\author A}}"
)


def rtf(body: bytes) -> bytes:
    return HEAD + body + b"}"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (rb"K\'e4se f\'fcr 5 \'80", "Käse für 5 €"),
        (rb"K\u228?se \uc0\u8364 and \u-10179 \u-8704 ", "Käse €and 😀"),
        (rb"{\f1 \'cc\'ee\'f1\'ea\'e2\'e0} \f0 ende", "Москва ende"),
        (rb"\{braces\} and \\ back", "{braces} and \\ back"),
        (rb"one\par two\line three", "one\n\ntwo\nthree"),
        (rb"a\emdash b \ldblquote q\rdblquote ", "a—b “q”"),
        (rb"{\*\unknown hidden stuff}seen{\pict 89504e47}", "seen"),
        (rb'{\field{\*\fldinst HYPERLINK "http://e.org"}{\fldrslt link}} end', "link end"),
        (rb"broken\r\nline".replace(rb"\r\n", b"\r\n"), "brokenline"),
    ],
)
def test_text(body: bytes, text: str) -> None:
    assert parse(rtf(body), "a.rtf").text == text


def test_table_rows_stand_on_one_line() -> None:
    row = rb"\trowd\cellx1000\cellx2000\pard\intbl Oak\par %s\cell 4\par 0\cell\row "
    body = rb"before\par " + row % b"chair" + row % b"table" + rb"\pard after\par"
    assert (
        parse(rtf(body), "a.rtf").text == "before\n\n| Oak chair | 4 0 |\n| --- | --- |\n| Oak table | 4 0 |\n\nafter"
    )


def test_title_and_hidden_text() -> None:
    parsed = parse(rtf(rb"seen {\v obey me} end"), "a.rtf")
    assert parsed.title == "Price list"
    assert parsed.notes == ("1 hidden passage",)


def test_binary_data_is_skipped() -> None:
    assert parse(rtf(rb"{\pict\bin5 }}}}\}seen"), "a.rtf").text == "seen"


def test_what_is_no_rtf_says_so() -> None:
    failure = registry.run("rtf", b"plain words", "a.rtf")
    assert isinstance(failure, ParseFailure)
    assert failure.reason is Reason.CORRUPT


@settings(max_examples=count(33, 100), deadline=None)
@example("\ufe00")
@given(
    st.text(
        st.characters(min_codepoint=32, max_codepoint=0xFFFD, exclude_categories=("Cs", "Cc", "Cf", "Zs", "Zl", "Zp")),
        min_size=1,
    )
)
def test_any_text_that_can_be_seen_comes_back(text: str) -> None:
    text = unicodedata.normalize("NFC", text)
    escaped = "".join(f"\\u{(ord(c) + 32768) % 65536 - 32768}?" if not c.isalnum() or ord(c) > 127 else c for c in text)
    assert parse(rtf(escaped.encode()), "a.rtf").text == clean(text)
