"""The window: budgets hold, parents come once, breadth before depth, and whatever is left out is named."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragforge.domain.documents import Locator
from ragforge.domain.retrieval import Candidate, ContextBlock, Stage, StoredPassage
from ragforge.retrieve.window import Plan, blocks, plan
from tests.candidates import MANY, by_key, in_order, stored


@dataclass
class Library:
    """Documents as the splitter leaves them, and candidates among their leaves."""

    texts: dict[str, str]
    passages: dict[int, StoredPassage]
    candidates: list[Candidate]

    def parents(self, planned: Plan) -> dict[tuple[str, int], tuple[str, str]]:
        spans = {(p.document, p.section): (p.section_start, p.section_end) for p in self.passages.values()}
        return {parent: ("", self.texts[parent[0]][slice(*spans[parent])]) for parent in planned.parents}

    def context(self, planned: Plan) -> list[ContextBlock]:
        return blocks(planned, self.parents(planned))


def tiled(document: str, first_key: int, sections: list[list[int]]) -> tuple[str, list[StoredPassage]]:
    """Sections whose leaves follow each other; each number is a leaf's words, ten characters a word."""
    text = "".join(f"{document}{number:08} " for number in range(sum(map(sum, sections))))
    leaves: list[StoredPassage] = []
    at = 0
    for section, sizes in enumerate(sections):
        span = (at, at + 10 * sum(sizes))
        for size in sizes:
            piece = text[at : at + 10 * size]
            leaves.append(
                stored(
                    first_key + len(leaves),
                    piece,
                    document=document,
                    section=section,
                    start=at,
                    tokens=size,
                    section_span=span,
                    section_tokens=sum(sizes),
                )
            )
            at += 10 * size
    return text, leaves


def windowed(document: str, first_key: int, count: int, size: int, overlap: int) -> tuple[str, list[StoredPassage]]:
    """Windows that overlap, each a section of its own."""
    text = "".join(f"{document}{number:08} " for number in range(count * size))
    starts = [number * (size - overlap) * 10 for number in range(count)]
    return text, [
        stored(first_key + number, text[at : at + 10 * size], document=document, start=at, tokens=size)
        for number, at in enumerate(starts)
    ]


@st.composite
def libraries(draw: st.DrawFn) -> Library:
    texts: dict[str, str] = {}
    leaves: list[StoredPassage] = []
    for document in "abc"[: draw(st.integers(1, 3))]:
        if draw(st.booleans()):
            sizes = st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=4), min_size=1, max_size=3)
            texts[document], own = tiled(document, len(leaves), draw(sizes))
        else:
            size = draw(st.integers(4, 20))
            overlap = draw(st.integers(0, size // 3))
            texts[document], own = windowed(document, len(leaves), draw(st.integers(1, 5)), size, overlap)
        leaves += own
    chosen = draw(st.lists(st.sampled_from(range(len(leaves))), unique=True))
    scores = sorted((draw(st.integers(0, 100)) / 100 for _ in chosen), reverse=True)
    return Library(texts, by_key(leaves), in_order(chosen, scores))


CHUNKS = st.integers(0, 12)
TOKENS = st.integers(0, 150)


@MANY
@given(libraries(), CHUNKS, TOKENS)
def test_budgets_hold_and_nothing_is_lost_without_a_word(library: Library, chunks: int, tokens: int) -> None:
    planned = plan(library.candidates, library.passages, chunks=chunks, tokens=tokens)
    context = library.context(planned)
    alone = any("stands alone" in each.reason for each in planned.decisions)
    assert len(planned.leaves) <= chunks
    assert sum(block.tokens for block in context) <= tokens or (alone and len(planned.leaves) == 1)
    assert [each.key for each in planned.decisions] == [each.key for each in library.candidates]
    assert all(each.stage is Stage.WINDOW and each.reason for each in planned.decisions)
    assert [each.key for each in planned.decisions if each.kept] == [leaf.key for leaf, _ in planned.leaves]
    if library.candidates and chunks and tokens:
        assert planned.leaves


@MANY
@given(libraries(), CHUNKS, TOKENS)
def test_each_leaf_stands_in_one_block_and_each_word_once(library: Library, chunks: int, tokens: int) -> None:
    planned = plan(library.candidates, library.passages, chunks=chunks, tokens=tokens)
    context = library.context(planned)
    assert Counter(chunk for block in context for chunk in block.chunks) == Counter(
        leaf.chunk for leaf, _ in planned.leaves
    )
    for block in context:
        assert block.text in library.texts[block.document]
        for leaf, _ in planned.leaves:
            assert leaf.chunk not in block.chunks or leaf.text in block.text
    words = Counter(word for block in context for word in block.text.split())
    assert all(times == 1 for times in words.values())


@MANY
@given(libraries(), CHUNKS, TOKENS)
def test_a_parent_comes_once_and_blocks_follow_their_best_leaf(library: Library, chunks: int, tokens: int) -> None:
    planned = plan(library.candidates, library.passages, chunks=chunks, tokens=tokens)
    context = library.context(planned)
    assert len(set(planned.parents)) == len(planned.parents)
    assert [block.score for block in context] == sorted((block.score for block in context), reverse=True)
    sections = {(leaf.document, leaf.section): leaf for leaf, _ in planned.leaves}
    for parent in planned.parents:
        _, text = library.parents(planned)[parent]
        [block] = [block for block in context if block.text == text]
        assert block.whole and block.tokens == sections[parent].section_tokens


@MANY
@given(libraries(), TOKENS)
def test_the_lowest_leave_first_where_all_need_the_same_room(library: Library, tokens: int) -> None:
    same = {key: stored(key, document=str(key), tokens=10) for key in library.passages}
    apart = in_order([each.key for each in library.candidates])
    kept = [each.kept for each in plan(apart, same, chunks=99, tokens=tokens).decisions]
    assert kept == sorted(kept, reverse=True)
    assert sum(kept) == (min(len(kept), max(tokens // 10, 1)) if tokens else 0)


@MANY
@given(libraries(), CHUNKS, TOKENS)
def test_the_order_of_the_passages_does_not_matter(library: Library, chunks: int, tokens: int) -> None:
    back = dict(reversed(library.passages.items()))
    first = plan(library.candidates, library.passages, chunks=chunks, tokens=tokens)
    assert first == plan(library.candidates, back, chunks=chunks, tokens=tokens)
    assert library.context(first) == blocks(first, dict(reversed(library.parents(first).items())))


@MANY
@given(libraries(), st.integers(1, 12))
def test_among_equals_every_file_comes_before_any_file_again(library: Library, chunks: int) -> None:
    equal = [Candidate(each.key, 0.5) for each in library.candidates]
    planned = plan(equal, library.passages, chunks=chunks, tokens=10_000)
    taken = Counter(leaf.document for leaf, _ in planned.leaves)
    there = Counter(library.passages[each.key].document for each in equal)
    for document in there:
        if taken[document] < there[document]:
            assert max(taken.values()) <= taken[document] + 1


# -- by hand


def kept(planned: Plan) -> list[int]:
    return [each.key for each in planned.decisions if each.kept]


def test_close_scores_prefer_another_file_and_distant_ones_do_not() -> None:
    leaves = [stored(1, document="a"), stored(2, document="a"), stored(3, document="b"), stored(4, document="c")]
    close = in_order([1, 2, 3, 4], [0.90, 0.88, 0.87, 0.10])
    distant = in_order([1, 2, 3, 4], [0.90, 0.88, 0.60, 0.10])
    assert kept(plan(close, by_key(leaves), chunks=2, tokens=100)) == [1, 3]
    assert kept(plan(distant, by_key(leaves), chunks=2, tokens=100)) == [1, 2]
    assert kept(plan(close, by_key(leaves), chunks=2, tokens=100, closeness=0)) == [1, 2]


def test_a_file_that_has_its_leaf_waits_in_the_next_tier_too() -> None:
    leaves = [stored(1, document="a"), stored(2, document="a"), stored(3, document="b")]
    assert kept(plan(in_order([1, 2, 3], [0.9, 0.5, 0.49]), by_key(leaves), chunks=2, tokens=100)) == [1, 3]


def test_a_parent_waits_for_the_leaves_of_equals() -> None:
    """Two close leaves of 20 in parents of 60: the room for a parent goes to the other file's leaf first."""
    _, left = tiled("a", 0, [[20, 20, 20]])
    _, right = tiled("b", 10, [[20, 20, 20]])
    passages = by_key([*left, *right])
    close, distant = in_order([0, 10, 12], [0.9, 0.89, 0.1]), in_order([0, 10, 12], [0.9, 0.5, 0.1])
    assert plan(close, passages, chunks=9, tokens=60).parents == ()
    assert kept(plan(close, passages, chunks=9, tokens=60)) == [0, 10, 12]
    assert plan(distant, passages, chunks=9, tokens=60).parents == (("a", 0),)
    assert kept(plan(distant, passages, chunks=9, tokens=60)) == [0]
    assert plan(close, passages, chunks=9, tokens=100).parents == (("a", 0),)


def test_leaves_of_a_parent_with_room_give_it_once() -> None:
    text, leaves = tiled("a", 0, [[20, 20, 20]])
    planned = plan(in_order([2, 0]), by_key(leaves), chunks=9, tokens=60)
    assert planned.parents == (("a", 0),)
    [block] = blocks(planned, {("a", 0): ("", text)})
    assert (block.text, block.chunks, block.tokens, block.whole) == (text, ("chunk0", "chunk2"), 60, True)
    assert {each.reason for each in planned.decisions} == {"in the context, its section whole"}


def test_without_room_for_the_parent_neighbours_are_joined() -> None:
    text, leaves = tiled("a", 0, [[20, 20, 20, 20]])
    planned = plan(in_order([3, 1, 0]), by_key(leaves), chunks=9, tokens=70)
    far, near = blocks(planned, {})
    assert (far.text, far.chunks) == (text[600:], ("chunk3",))
    assert (near.text, near.chunks, near.tokens, near.whole) == (text[:400], ("chunk0", "chunk1"), 40, False)
    assert "without the rest of its section (80 tokens): no room" in planned.decisions[0].reason


def test_overlapping_windows_are_joined_without_repeating() -> None:
    text, leaves = windowed("a", 0, 4, size=10, overlap=2)
    context = blocks(plan(in_order([1, 3, 0]), by_key(leaves), chunks=9, tokens=100), {})
    assert [block.chunks for block in context] == [("chunk0", "chunk1"), ("chunk3",)]
    assert context[0].text == text[:180]
    assert context[0].tokens == 18
    assert not context[0].whole and context[1].whole


def test_sections_that_meet_stay_apart() -> None:
    _, leaves = tiled("a", 0, [[20], [20]])
    context = blocks(plan(in_order([0, 1]), by_key(leaves), chunks=9, tokens=100), {})
    assert [(block.chunks, block.whole) for block in context] == [(("chunk0",), True), (("chunk1",), True)]


def test_what_does_not_fit_is_named_and_smaller_ones_still_come() -> None:
    leaves = [stored(1, tokens=30), stored(2, document="b", tokens=1_300), stored(3, document="c", tokens=20)]
    planned = plan(in_order([1, 2, 3]), by_key(leaves), chunks=9, tokens=60)
    assert kept(planned) == [1, 3]
    assert planned.decisions[1].reason == "no room: 1,270 tokens over the budget of 60"
    planned = plan(in_order([1, 2, 3]), by_key(leaves), chunks=1, tokens=6_000)
    assert planned.decisions[1].reason == "no room: over the limit of 1 chunk"


def test_a_leaf_over_the_count_may_still_be_inside_its_section() -> None:
    text, leaves = tiled("a", 0, [[20, 20]])
    planned = plan(in_order([0, 1]), by_key(leaves), chunks=1, tokens=100)
    assert planned.decisions[1].reason == "no room: over the limit of 1 chunk, but its section is there"
    assert blocks(planned, {("a", 0): ("", text)})[0].text == text


def test_if_nothing_fits_the_best_stands_alone_and_says_so() -> None:
    leaves = [stored(1, tokens=900), stored(2, document="b", tokens=800)]
    planned = plan(in_order([1, 2]), by_key(leaves), chunks=9, tokens=500)
    assert kept(planned) == [1]
    assert planned.decisions[0].reason.startswith("larger than the budget of 500 tokens")
    assert planned.decisions[1].reason == "no room: 300 tokens over the budget of 500"
    assert [block.tokens for block in blocks(planned, {})] == [900]


@pytest.mark.parametrize(("chunks", "tokens"), [(0, 100), (5, 0)])
def test_no_budget_is_no_context(chunks: int, tokens: int) -> None:
    planned = plan(in_order([1]), by_key([stored(1)]), chunks=chunks, tokens=tokens)
    assert planned.leaves == () and not planned.decisions[0].kept


def test_a_parent_that_is_gone_leaves_its_leaves() -> None:
    text, leaves = tiled("a", 0, [[20, 20]])
    planned = plan(in_order([1]), by_key(leaves), chunks=9, tokens=100)
    [block] = blocks(planned, {})
    assert planned.parents == (("a", 0),)
    assert (block.text, block.tokens, block.whole) == (text[200:], 20, False)


def test_a_block_says_where_all_of_it_stands() -> None:
    places = [
        Locator(("Guide", "Chairs"), page=3, page_end=3, speaker="Ann"),
        Locator(("Guide", "Lamps"), page=4, page_end=5, speaker="Ann"),
    ]
    _, leaves = windowed("a", 0, 2, size=10, overlap=2)
    placed = [
        stored(leaf.key, leaf.text, start=leaf.start, locator=locator, header=f"h{leaf.key}")
        for leaf, locator in zip(leaves, places, strict=True)
    ]
    [block] = blocks(plan(in_order([1, 0]), by_key(placed), chunks=9, tokens=100), {})
    assert block.locator == Locator(("Guide",), page=3, page_end=5, speaker="Ann")
    assert block.header == "h0"


def test_a_table_header_stands_only_before_what_it_heads() -> None:
    text, leaves = tiled("a", 0, [[20, 20]])
    headed = [
        stored(
            leaf.key,
            leaf.text,
            start=leaf.start,
            section=0,
            section_span=(0, 400),
            section_tokens=40,
            tokens=20,
            header=f"| header {leaf.key} |",
        )
        for leaf in leaves
    ]
    for header in ("", "| of the section |"):
        for key in (0, 1):
            planned = plan(in_order([key]), by_key(headed), chunks=9, tokens=40)
            assert [block.header for block in blocks(planned, {("a", 0): (header, text)})] == [header]
    alone = plan(in_order([1]), by_key(headed), chunks=9, tokens=20)
    assert [block.header for block in blocks(alone, {})] == ["| header 1 |"]


def test_nothing_gives_nothing() -> None:
    planned = plan([], {}, chunks=15, tokens=6_000)
    assert planned == Plan((), (), ())
    assert blocks(planned, {}) == []
