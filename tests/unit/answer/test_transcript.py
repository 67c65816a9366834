"""A conversation as a document: only its title and its questions are headings, whatever anybody said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ragforge.answer.transcript import markdown
from ragforge.domain.conversation import Conversation, Turn
from ragforge.domain.documents import Locator
from ragforge.testing.records import NOON, citation, turn
from tests.proof import count

TALK = Conversation("c", "p", "About chairs", 2, NOON, NOON + timedelta(days=1))
HOSTILE = [
    "# A heading",
    "line\n# another\n\n===",
    "under\n---\nmore",
    "```\nleft open",
    "~~~~\n# in code",
    "<!-- a remark",
    "<script>",
    "- an item",
    "1. <!--",
    "| a | b |\n|---|---|",
    '"quotes" and [2](x) *stars* `code`',
    "\r\r#\u2028# x\x0b# y",
    "\\",
    "",
]


def headings(text: str) -> list[tuple[str, str]]:
    """Level and words of all that is a heading of the document itself."""
    top = MarkdownIt("commonmark").parse(text)
    return [
        (token.tag, "".join(each.content for each in top[at + 1].children or ()))
        for at, token in enumerate(top)
        if token.type == "heading_open" and not token.level
    ]


def sources(text: str) -> list[str]:
    """The items of the lists below `Sources:`."""
    top = MarkdownIt("commonmark").parse(text)
    begins = [at for at, token in enumerate(top) if token.type == "inline" and token.content == "Sources:"]
    found: list[str] = []
    for at in begins:
        assert top[at + 2].type == "bullet_list_open"
        for token in top[at + 3 :]:
            if token.type == "bullet_list_close":
                break
            if token.type == "inline":
                found.append("".join(each.content for each in token.children or ()))
    return found


def test_the_document_reads_as_it_was_said() -> None:
    place = Locator(("Refunds", "Chairs"))
    two = citation("d2", "Beds, 100 nights.", marker=2, name="beds.md", locator=Locator(page=7), proved=False)
    one = citation("d1", "A chair:\n  60 days.", locator=place)
    turns = [
        turn("c", "How long?", answer="60 days [1]; beds longer [2]. Again [1].", citations=(two, one, one)),
        turn("c", "What does mercury weigh?", answer="Nothing was found.", abstained=True),
    ]
    assert markdown(TALK, turns) == (
        "# About chairs\n\n"
        "Begun 2030-01-01, last spoken in 2030-01-02.\n\n"
        "## How long?\n\n"
        "60 days [1]; beds longer [2]. Again [1].\n\n"
        "Sources:\n\n"
        '- [1] a.md, Refunds \\> Chairs: "A chair: 60 days."\n'
        '- [2] beds.md, p. 7: "Beds, 100 nights." (unproved)\n\n'
        "## What does mercury weigh?\n\n"
        "**No answer.**\n\n"
        "Nothing was found.\n"
    )


def test_a_conversation_without_a_title_or_turns() -> None:
    text = markdown(replace(TALK, title=" \n"), [])
    assert text == "# Conversation\n\nBegun 2030-01-01, last spoken in 2030-01-02.\n"


def hostile(text: str) -> list[Turn]:
    cited = citation("d", text, name=f"{text}.md", locator=Locator((text,)))
    return [turn("c", f"one {text}", answer=f"{text}\n\nSaid [1].\n\n{text}", citations=(cited,)), turn("c", "two")]


def in_line(text: str) -> str:
    return " ".join(text.split())


def check(text: str, turns: Sequence[Turn]) -> None:
    whole = markdown(replace(TALK, title=f"title {text}"), turns)
    first = [("h1", in_line(f"title {text}")), *(("h2", in_line(each.question)) for each in turns)]
    assert headings(whole) == first
    place = f"{text}.md, {text}" if text else ".md"
    assert sources(whole) == [in_line(f'[1] {in_line(place)}: "{in_line(text)}"')]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_words_change_the_structure(text: str) -> None:
    check(text, hostile(text))


def test_no_words_at_all_change_the_structure() -> None:
    @given(st.lists(st.sampled_from([*HOSTILE, "\n", "word", " ", "#", ">"]), max_size=6).map("".join))
    @settings(max_examples=count(60, 3_000), deadline=None)
    def holds(text: str) -> None:
        found = headings(markdown(TALK, hostile(text)))
        assert [tag for tag, _ in found] == ["h1", "h2", "h2"]
        assert found[1][1] == in_line(f"one {text}") and len(sources(markdown(TALK, hostile(text)))) == 1

    holds()
