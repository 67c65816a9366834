"""Sections and leaves of Markdown: nothing lost, sizes, and what must never be cut."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.domain.documents import Leaf, Mark, Parsed, Section, Split, TextKind, lead
from ragforge.domain.strategy import Strategy
from ragforge.ingest.split import split
from tests.proof import count
from tests.unit.ingest.split.split_support import a_document, a_sentence, assert_tiles, split_text, tokens_of

SMALL = Strategy(leaf_min=30, leaf_max=80, section_min=10, parent_min=150, parent_max=300)
MANY = settings(max_examples=50, deadline=None)
KINDS = st.sampled_from(list(TextKind))
SNIPPETS = st.sampled_from(
    (
        *(
            "# A\n",
            "## B b\n",
            "Title\n===\n",
            "one two. ",
            "three! four? ",
            "\n",
            "\n\n",
            "    code\n",
            "```\n",
            "~~~\n",
        ),
        *("- item\n", "1. x\n", "| a | b |\n", "|--|--|\n", "<!-- ", " -->\n", "<div>\n", "---\n", "> q\n", "x" * 90),
        *(
            " ",
            "\t",
            "。",
            "你好",
            "…",
            "def f(x):\n",
            "class A:\n",
            "  key: value\n",
            "}\n",
            '"k": 1,\n',
            "Ann: hello\n",
        ),
        *("\u3000", "\u00a0", "word " * 40, "w" * 9000),
    )
)
SOUP = st.lists(SNIPPETS, max_size=60).map("".join)
SEEDS = st.integers(0, 10**9)


def pieces_of(result: Split) -> list[Leaf | Section]:
    return [*result.sections, *result.leaves]


def cut_offsets(result: Split) -> set[int]:
    return {piece.start for piece in pieces_of(result)}


@given(SOUP, KINDS)
@settings(max_examples=count(50, 150), deadline=None)
def test_any_text_of_any_kind_is_tiled_without_loss(text: str, kind: TextKind) -> None:
    result = split_text(text, SMALL, kind)
    if not text:
        assert result == Split()
    else:
        assert_tiles(text, result)
    assert result == split_text(text, SMALL, kind)


@given(st.text(max_size=400), KINDS)
@MANY
def test_arbitrary_characters_are_tiled(text: str, kind: TextKind) -> None:
    result = split_text(text, Strategy(leaf_min=3, leaf_max=8, section_min=2, parent_min=12, parent_max=24), kind)
    if text:
        assert_tiles(text, result)


@given(SEEDS, st.integers(1, 40))
@MANY
def test_limits_hold_and_leaves_are_of_use(seed: int, blocks: int) -> None:
    document = a_document(seed, blocks)
    result = split_text(document.text)
    assert_tiles(document.text, result)
    assert all(leaf.tokens <= 500 for leaf in result.leaves)
    assert all(section.tokens <= 2000 for section in result.sections)
    if len(result.leaves) > 1:
        assert all(leaf.tokens >= 100 for leaf in result.leaves)
    if len(result.sections) > 1:
        assert all(section.tokens >= 100 for section in result.sections)


@given(SEEDS, st.integers(1, 40))
@MANY
def test_no_sentence_row_or_heading_is_cut(seed: int, blocks: int) -> None:
    document = a_document(seed, blocks)
    cuts = cut_offsets(split_text(document.text))
    for start, end in [*document.sentences, *document.rows]:
        assert not any(start < cut < end for cut in cuts), document.text[start:end]
    for start, _ in document.headings:
        heading_end = document.text.index("\n\n", start) + 2
        assert not any(start < cut <= heading_end and document.text[cut] != "#" for cut in cuts)


@given(SEEDS, st.integers(1, 40))
@MANY
def test_locator_holds_the_headings_in_force(seed: int, blocks: int) -> None:
    document = a_document(seed, blocks)
    result = split_text(document.text, SMALL)
    for piece in pieces_of(result):
        assert piece.locator.path == document.path_at(piece.start)


@given(SEEDS, st.integers(1, 40))
@MANY
def test_a_piece_that_starts_inside_a_table_repeats_its_header(seed: int, blocks: int) -> None:
    document = a_document(seed, blocks)
    for strategy in (Strategy(), SMALL, Strategy("chars")):
        result = split_text(document.text, strategy)
        for piece in pieces_of(result):
            inside = [header for body, end, header in document.tables if body <= piece.start < end]
            assert piece.header == (inside[0] if inside else "")


@given(SEEDS, st.integers(1, 30))
@MANY
def test_code_that_fits_stays_whole_else_is_cut_at_line_ends(seed: int, blocks: int) -> None:
    document = a_document(seed, blocks)
    cuts = cut_offsets(split_text(document.text))
    for start, end in document.fences:
        inside = [cut for cut in cuts if start < cut < end]
        assert all(document.text[cut - 1] == "\n" for cut in inside)
        assert all(not document.text.startswith("```", cut) for cut in inside)


@given(SEEDS, st.integers(2, 8))
@MANY
def test_a_sentence_longer_than_a_leaf_is_cut_between_words_only(seed: int, count: int) -> None:
    chance = random.Random(seed)
    text = " ".join(a_sentence(chance, chance.choice((3, 20, 700, 1500))) for _ in range(count))
    result = split_text(text)
    assert_tiles(text, result)
    assert all(leaf.tokens <= 500 for leaf in result.leaves)
    assert all(text[cut - 1].isspace() for cut in cut_offsets(result) if cut)


@given(SEEDS, st.integers(1, 12), st.integers(1, 40))
@MANY
def test_pages_point_back(seed: int, pages: int, sentences: int) -> None:
    chance = random.Random(seed)
    text, marks, pages_of = "", [], []
    for page in range(1, pages + 1):
        marks.append(Mark(len(text), page=page))
        for _ in range(chance.randint(1, sentences)):
            text += a_sentence(chance, 15) + chance.choice((" ", "\n", "\n\n"))
        text += "\n\n"
        pages_of.append((marks[-1].offset, len(text), page))
    for strategy in (Strategy(), SMALL, Strategy("chars"), Strategy("tokens")):
        for piece in split_text(text, strategy, marks=tuple(marks)).leaves:
            shown = [
                page for start, end, page in pages_of if text[max(start, piece.start) : min(end, piece.end)].strip()
            ]
            assert (piece.locator.page, piece.locator.page_end) == (shown[0], shown[-1])


def test_a_small_document_is_one_section_and_one_leaf() -> None:
    text = "\n\n# Refunds\n\nPaid within 14 days.\n"
    result = split_text(text)
    assert [(leaf.start, leaf.end, leaf.locator.path) for leaf in result.leaves] == [(0, len(text), ("Refunds",))]
    assert len(result.sections) == 1


@pytest.mark.parametrize("text", [" ", "\n\n", "\t\n \u3000"])
def test_a_blank_text_is_one_blank_leaf(text: str) -> None:
    assert_tiles(text, split_text(text))
    assert len(split_text(text).leaves) == 1


def prose(tokens: int) -> str:
    return " ".join(["Seven plain words make one short sentence."] * (tokens // 9)) + "\n\n"


def starts_with(text: str, result: Split) -> list[str]:
    return [text[section.start : section.end].split("\n")[0] for section in result.sections]


def test_a_subtree_that_fits_is_one_parent_and_a_larger_one_is_taken_apart() -> None:
    text = f"# Book\n\n## One\n\n{prose(800)}### One a\n\n{prose(800)}## Two\n\n{prose(1900)}"
    text += f"## Three\n\n{prose(1200)}### Three a\n\n{prose(1200)}"
    result = split_text(text)
    assert starts_with(text, result) == ["# Book", "## Two", "## Three", "### Three a"]
    assert [section.locator.path for section in result.sections][-1] == ("Book", "Three", "Three a")


def test_small_siblings_are_joined_until_a_parent_is_large_enough() -> None:
    text = "# Book\n\n" + "".join(f"## Part {number}\n\n{prose(270)}" for number in range(16))
    result = split_text(text)
    assert all(1000 <= section.tokens <= 2000 for section in result.sections)
    assert all(text.startswith("#", section.start) for section in result.sections)


def test_a_long_section_without_headings_is_cut_at_paragraphs() -> None:
    text = "# Book\n\n" + prose(110) * 45
    result = split_text(text)
    assert all(1000 <= section.tokens <= 2000 for section in result.sections)
    assert all(text[section.start - 2 : section.start] == "\n\n" for section in result.sections[1:])


def test_a_scrap_joins_its_next_sibling_and_the_last_one_the_sibling_before() -> None:
    text = "# Book\n\n## Scrap\n\nTiny.\n\n## Two\n\n" + prose(1900) + "## Three\n\n" + prose(1500) + "## End\n\nBye.\n"
    assert starts_with(text, split_text(text)) == ["# Book", "## Three"]


def test_a_list_is_cut_between_items_and_headings_are_preferred() -> None:
    items = "".join(f"- Item {number} says something. It goes on a while here.\n" for number in range(60))
    result = split_text(items)
    assert all(items.startswith("- Item", leaf.start) for leaf in result.leaves)
    assert len(result.leaves) > 1
    text = prose(330) + "## Break here\n\n" + prose(200)
    assert [leaf.start for leaf in split_text(text).leaves] == [0, text.index("## Break")]


def test_code_of_fitting_size_is_moved_whole_into_the_next_leaf() -> None:
    fence = "```\n" + "call(one, two)\n" * 50 + "```\n\n"
    text = prose(250) + fence + prose(400)
    assert any(leaf.start == text.index("```") for leaf in split_text(text).leaves)


def test_long_code_is_cut_at_blank_lines_where_it_can() -> None:
    fence = "```\n" + ("call(one, two)\n" * 9 + "\n") * 20 + "```\n"
    result = split_text(fence)
    assert len(result.leaves) > 1
    assert all(fence[leaf.start - 2 : leaf.start] == "\n\n" for leaf in result.leaves[1:])


def test_a_row_longer_than_a_leaf_stays_whole_until_it_is_longer_than_any_leaf_may_be() -> None:
    head = "| a | b |\n|---|---|\n"
    row = "| x | " + "word " * 700 + "|\n"
    text = head + row * 3
    assert [text[leaf.start : leaf.end] for leaf in split_text(text).leaves] == [head + row, row, row]
    endless = head + "| x | " + "word " * 5000 + "|\n"
    assert all(leaf.end - leaf.start <= 8000 for leaf in split_text(endless).leaves)


def test_an_enormous_table_header_is_not_repeated() -> None:
    text = "| " + "name | " * 400 + "\n|" + "---|" * 400 + "\n" + ("| " + "1 | " * 400 + "\n") * 5
    result = split_text(text)
    assert len(result.leaves) > 3
    assert all(leaf.header == "" for leaf in result.leaves)


@pytest.mark.parametrize(
    "unit", ["x", "a ", "# h\n", "- a\n", "|a|b|\n", "```\n", "a.\n\n", ".", " \n", "你", "<b>", "=\n"]
)
def test_huge_inputs_take_linear_time_and_bounded_pieces(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    result = split_text(text)
    assert_tiles_of_huge(text, result)


def assert_tiles_of_huge(text: str, result: Split) -> None:
    assert result.leaves[0].start == 0
    assert result.leaves[-1].end == len(text)
    assert all(a.end == b.start for a, b in pairwise(result.leaves))
    if text.strip():
        assert all(len(text[leaf.start : leaf.end].strip()) <= 8000 for leaf in result.leaves)


@given(
    SEEDS,
    st.integers(1, 40),
    st.sampled_from(["note.md", "a-b_c-d.md", "2024-01-31 minutes (final).docx", "日本語.md"]),
)
@MANY
def test_a_leaf_fits_together_with_its_lead(seed: int, blocks: int, name: str) -> None:
    text = a_document(seed, blocks).text
    for leaf in split(Parsed(text), tokens_of(text), Strategy(), name).leaves:
        assert len(tokens_of(lead(name, leaf))) + leaf.tokens <= 500


def test_many_long_headings_leave_room_for_text() -> None:
    heading = "A rather long heading of many words indeed " * 20
    text = "".join(f"{'#' * level} {heading}\n\n" for level in range(1, 7)) + prose(3000)
    assert all(leaf.tokens >= 100 for leaf in split_text(text).leaves)


def test_indented_prose_is_cut_at_sentences() -> None:
    text = "    Eight plain words make\n    one short sentence here.\n" * 200
    assert all(text[: leaf.start].rstrip().endswith(".") for leaf in split_text(text).leaves[1:])
