"""Sections of a made document: quoted, tamed, numbered, and rendered so that only the outline makes headings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ragforge.answer.artifacts import (
    MOST_SOURCES,
    Numbering,
    Settled,
    edited,
    escaped,
    markdown,
    opened,
    passages_of,
    settled,
    tamed,
    topic,
)
from ragforge.answer.citations import check
from ragforge.answer.outline import Outline, Part, differences
from ragforge.domain.prompts import Source
from ragforge.domain.records import Artifact, ArtifactSection
from ragforge.retrieve.words import terms_of
from tests.proof import count
from tests.unit.answer.support import source

PART = Part("Goals", 2, "What is reached.", ("What are the goals?",), "a list of goals")
WORDS = "text known item end three one two known paragraph 1 2"
SHAPE = Outline("x", "X", (Part("Overview", 1, "", ("q",), "i"), PART))


def found(name: str, text: str) -> Source:
    return source(0, text, name=name)


def settle(text: str, *, sources: int = 3, strict: bool = True) -> Settled:
    known = [source(number, WORDS) for number in range(1, sources + 1)]
    return settled(text, check(text, known, terms_of).citations, known, Numbering(), strict=strict)


# -- what it is written from


def test_passages_come_in_turn_once_and_what_is_left_out_is_named() -> None:
    first = [found("a", "1"), found("b", "2")]
    second = [found("c", "3"), found("a", "1"), found("d", "4")]
    sources, left_out = passages_of([first, second])
    assert [(each.number, each.name) for each in sources] == [(1, "a"), (2, "c"), (3, "b"), (4, "d")]
    assert left_out == ()
    many = [found(f"f{number}", str(number)) for number in range(MOST_SOURCES + 2)]
    sources, left_out = passages_of([many])
    assert len(sources) == MOST_SOURCES
    assert left_out == (f"f{MOST_SOURCES}", f"f{MOST_SOURCES + 1}")


def test_a_brief_is_searched_by_its_first_words() -> None:
    assert topic("") == topic(" \n\n") == ""
    assert topic("\n  The portal\nand more") == "The portal"
    assert len(topic("word " * 500).split()) < 20


# -- taming


@pytest.mark.parametrize(
    ("text", "plain", "invented"),
    [
        ("## Goals\n- a", "- a", []),
        ("**x**\n# Budget\nIt is 5.", "**x**\n\n**Budget**:\n\nIt is 5.", ["Budget"]),
        ("Title\n=====\ntext\n---\nmore", "Title\ntext\nmore", []),
        ("```\n# comment\n```", "```\n# comment\n```", []),
        ("```\n# left open", "```\n# left open\n```", []),
        ("###\nx", "x", []),
        ("a\r\n# B\r\nc", "a\n\n**B**:\n\nc", ["B"]),
    ],
)
def test_headings_of_a_section_become_plain(text: str, plain: str, invented: list[str]) -> None:
    assert tamed(text, "Goals") == (plain, tuple(invented))


# -- numbering


def test_numbers_run_over_the_whole_document_in_reading_order() -> None:
    numbering = Numbering()
    sources = [source(number, f"{WORDS} {number}") for number in (1, 2, 3)]
    one, two = (
        settled(text, check(text, sources, terms_of).citations, sources, numbering)
        for text in ("text three [3] and one [1]", "text one [1], text two [2]")
    )
    assert (one.text, one.sources) == ("text three [1] and one [2]", (1, 2))
    assert (two.text, two.sources) == ("text one [2], text two [3]", (2, 3))
    assert [(each.number, each.text[-1]) for each in numbering.sources] == [(1, "3"), (2, "1"), (3, "2")]


def test_what_cites_nothing_is_left_out_and_told() -> None:
    done = settle("text known [1]\n\nInvented paragraph.\n\n- text item [2]\n- made up item\n\ntext end [3]")
    assert done.text == "text known [1]\n\n- text item [2]\n\ntext end [3]"
    assert done.left_out == ("Invented paragraph.", "- made up item")


@pytest.mark.parametrize(
    ("said", "stays", "left_out"),
    [
        ("text a [1]. Made up.", "text a [1].", ("Made up.",)),
        ("text a. [1] Made up.\n\ntext b [2]", "text a. [1]\n\ntext b [2]", ("Made up.",)),
        ("text a [1] and so on.", "text a [1] and so on.", ()),
        ("text a [1]. text b [2].", "text a [1]. text b [2].", ()),
        ("- text a [1]. Made\n  up.\n- text b [2]", "- text a [1].\n- text b [2]", ("Made up.",)),
        ("text a [1]. The parts:\n- text b [2]", "text a [1]. The parts:\n- text b [2]", ()),
        ("text a [1].**", "text a [1].**", ()),
    ],
)
def test_what_follows_the_last_marker_cites_nothing(said: str, stays: str, left_out: tuple[str, ...]) -> None:
    done = settle(said)
    assert (done.text, done.left_out) == (stays, left_out)


def test_what_announces_goes_with_what_it_announces() -> None:
    assert settle("The goals are:\n- text one [1]").text == "The goals are:\n- text one [1]"
    assert settle("The goals are:\n- invented").text == ""
    assert settle("**Phase**:\n\ntext [1]").text == "**Phase**:\n\ntext [1]"


def test_tables_keep_their_head_and_the_rows_that_cite() -> None:
    table = "| a | b |\n|---|---|\n| text x | 1 [1] |\n| made | up |\n| text y | 2 [2] |"
    assert settle(table).text == "| a | b |\n|---|---|\n| text x | 1 [1] |\n| text y | 2 [2] |"
    assert settle("| a | b |\n|---|---|\n| made | up |").text == ""


def test_what_a_source_does_not_bear_out_is_marked() -> None:
    done = settle("Elephants fly [1].")
    assert done.text == "Elephants fly [1] (unproved)."
    assert done.unproved == ("Elephants fly [1]. (not in the passage: the word Elephants)",)
    assert settle("Elephants fly [1].", strict=False).text == "Elephants fly [1]."


def test_code_needs_a_source_too() -> None:
    assert settle("```\nrm -rf\n```").text == ""
    assert settle("text so [1]:\n\n```\nmake\n[1]\n```").sources == (1,)


def test_an_open_section_tells_why_and_what_to_add() -> None:
    section = opened(PART, "Nothing was found.")
    assert section.open and section.heading == "Goals"
    assert "a list of goals" in section.text and "a list of goals" in section.reason


# -- the whole


def made(texts: Sequence[str], names: Sequence[str] = ()) -> Artifact:
    sections = [ArtifactSection(part.heading, part.level, text) for part, text in zip(SHAPE.parts, texts, strict=True)]
    sources = tuple(source(number, "t", name=name) for number, name in enumerate(names, start=1))
    return Artifact("id", "x", "A *title*", datetime(2030, 1, 2, tzinfo=UTC), tuple(sections), sources)


def test_the_document_ends_with_one_list_of_sources() -> None:
    text = markdown(made(["x [1]", "y [2]"], ["a.md", "b_[x](y)!.md"]))
    assert text.startswith(
        "**A \\*title\\***\n\nMade 2030-01-02 from 2 sources, quoting the documents, without a model."
    )
    assert text.endswith("## Sources\n\n1. a.md\n2. b\\_\\[x\\](y)\\!.md\n")
    assert differences(SHAPE, text) == []


def test_a_name_means_nothing_but_itself() -> None:
    rendered = MarkdownIt("commonmark").renderInline(escaped("a <b> [x](http://y) `c` *d*\n# e ![i](u)"))
    assert "<a" not in rendered and "<b>" not in rendered and "<img" not in rendered and "<em>" not in rendered


LINES = (
    *("# Goals", "## Prices", "text [1]", "- item [2]", "```", "~~~", "===", "---", "", "| a | b |", "|---|---|"),
    *("  # x", "> # quoted", "1. one [1]", "    # code", "#", "Overview\n===", "**b**:", "\t# tab", "````x", "-", "="),
)
MARKDOWN = st.lists(st.sampled_from(LINES), max_size=12).map("\n".join)


@pytest.mark.parametrize(
    "text",
    [
        "<?",
        "a\n<? b",
        "  <!A",
        "<!-- x",
        "<![CDATA[ x",
        "<script",
        "<PRE>x",
        "<style",
        "<textarea",
        "> <?",
        "- <?",
        "1. <!--",
    ],
)
def test_no_text_takes_in_the_sections_after_it(text: str) -> None:
    plain, _ = tamed(text, "Overview")
    whole = markdown(made([plain, "x"], ["a.md"]))
    top = MarkdownIt("commonmark").parse(whole)
    found = [top[at + 1].content for at, token in enumerate(top) if token.type == "heading_open" and not token.level]
    assert found == ["Overview", "Goals", "Sources"]


def test_no_text_makes_headings_of_its_own() -> None:
    @given(st.lists(MARKDOWN | st.text(max_size=60), min_size=2, max_size=2))
    def holds(texts: list[str]) -> None:
        done = []
        for text in texts:
            plain, _ = tamed(text, "Goals")
            done.append(settle(plain, sources=99, strict=False).text or "x")
        whole = markdown(made(done, ["a.md"]))
        top = MarkdownIt("commonmark").parse(whole)
        found = [
            top[at + 1].content for at, token in enumerate(top) if token.type == "heading_open" and not token.level
        ]
        assert found == ["Overview", "Goals", "Sources"]

    from hypothesis import settings

    settings(max_examples=count(60, 5_000), deadline=None)(holds)()


def test_settling_keeps_every_citation_and_adds_none() -> None:
    @given(MARKDOWN)
    def holds(text: str) -> None:
        done = settle(tamed(text, "Goals")[0])
        again = check(done.text, [source(number, "x") for number in range(1, 9)], terms_of)
        assert tuple(dict.fromkeys(each.marker for each in again.citations)) == done.sources

    from hypothesis import settings

    settings(max_examples=count(40, 2_000), deadline=None)(holds)()


# -- by hand


def headings_of(artifact: Artifact) -> list[str]:
    """As a reader of Markdown sees them."""
    top = MarkdownIt("commonmark").parse(markdown(artifact))
    return [top[at + 1].content for at, token in enumerate(top) if token.type == "heading_open" and not token.level]


def with_sources(*texts: str) -> Artifact:
    """A document whose sources hold known words; the first section cites the first of them."""
    sources = tuple(source(number, WORDS, name=f"{number}.md") for number in (1, 2))
    first = ArtifactSection("Overview", 1, texts[0], sources=(1,), read=("d1",))
    second = ArtifactSection("Goals", 2, texts[1])
    told = ("Overview: left out: x", "Goals: taken out: y", "embedder: none")
    return replace(made(texts), sections=(first, second), sources=sources, problems=told)


def test_a_person_may_say_what_cites_nothing() -> None:
    before = with_sources("text [1]", "item")
    after = edited(before, "Better", {0: "Mine alone and nobody else’s.\n\nKnown item [2] and text [1]."}, terms_of)
    section = after.sections[0]
    assert section.text == "Mine alone and nobody else’s.\n\nKnown item [2] and text [1]."
    assert (section.sources, section.read, section.open, section.doubtful) == ((2, 1), ("d1", "d2"), False, True)
    assert after.problems == ("Goals: taken out: y", "embedder: none"), "what spoke of the old text is gone"
    assert (after.title, after.sections[1], after.sources, after.made_at, after.id) == (
        "Better", before.sections[1], before.sources, before.made_at, before.id,
    )  # fmt: skip


def test_what_a_person_writes_is_checked_as_a_models_text_is() -> None:
    text = "# Prices\n\n<b>Elephants</b> fly [1]. ![x](http://evil.example/i) See http://mine.example/a and item [7]."
    section, *_ = (after := edited(with_sources("text [1]", "y"), None, {0: text}, terms_of)).sections
    assert section.text == (
        "**Prices**:\n\nElephants fly [1] (unproved). [image removed] See http://mine.example/a and item."
    )
    assert section.doubtful and section.sources == (1,)
    told = "\n".join(after.problems)
    for problem in ("heading “Prices” is not in", "taken out: image", "taken out: HTML b", "citation [7] was removed"):
        assert f"Overview: {problem}" in told or f"Overview: the {problem}" in told, told
    assert "Overview: not proved by its source: Elephants fly" in told
    again = edited(after, None, {0: section.text + "\n\nAnd more [2]."}, terms_of)
    assert again.sections[0].text.count("(unproved)") == 2, "the mark is set anew, not twice"
    mended = edited(again, None, {0: section.text.replace("Elephants fly", "Known text")}, terms_of)
    assert "(unproved)" not in mended.sections[0].text


def test_a_section_is_filled_and_emptied() -> None:
    before = with_sources("text [1]", "")
    before = replace(before, sections=(before.sections[0], replace(opened(PART, "Nothing."), read=("d9",))))
    filled = edited(before, None, {1: "item [2]"}, terms_of)
    assert (filled.sections[1].open, filled.sections[1].reason, filled.sections[1].sources) == (False, "", (2,))
    assert "sections open" not in markdown(filled)
    for nothing in ("", " \n\t\n", "<b></b>", "===\n"):
        emptied = edited(filled, None, {1: nothing}, terms_of).sections[1]
        assert emptied.open and emptied.reason == "It was emptied. Add a document on goals."
        assert (emptied.sources, emptied.read, emptied.doubtful) == ((), ("d9", "d2"), False)
    for same in (before.sections[1].text, f"{before.sections[1].shown}\n", "", " \n"):
        assert edited(before, None, {1: same}, terms_of) == before


def test_what_stood_on_a_removed_file_cannot_be_cited() -> None:
    before = with_sources("text [1]", "y")
    gone = replace(before, sources=(before.sources[0], replace(before.sources[1], text="", name="(removed)")))
    after = edited(gone, None, {1: "item [2], text [1]"}, terms_of)
    assert (after.sections[1].text, after.sections[1].sources) == ("item, text [1]", (1,))
    assert any("[2]" in problem for problem in after.problems)


def test_whatever_a_person_writes_the_headings_are_those_of_before() -> None:
    @given(st.lists(MARKDOWN | st.text(max_size=80), min_size=2, max_size=2))
    def holds(texts: list[str]) -> None:
        before = with_sources("text [1]", "item")
        after = edited(before, None, dict(enumerate(texts)), terms_of)
        assert headings_of(after) == headings_of(before) == ["Overview", "Goals", "Sources"]
        assert differences(SHAPE, markdown(after)) == []
        for section in after.sections:
            cited = check(section.text, after.sources, terms_of)
            assert set(section.sources) >= {each.marker for each in cited.citations} and not cited.removed
            assert section.open is (not section.sources and "> **Open.**" in section.text)
        assert edited(after, None, {}, terms_of) == after

    from hypothesis import settings

    settings(max_examples=count(60, 5_000), deadline=None)(holds)()
