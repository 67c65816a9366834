"""Windows of characters and tokens: ranges, overlaps, and where they end."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.domain.documents import Mark, Split, TextKind
from ragforge.domain.strategy import Strategy
from tests.proof import count
from tests.unit.ingest.split.split_support import a_document, a_sentence, split_text, tokens_of

MANY = settings(max_examples=50, deadline=None)
NAMES = st.sampled_from(["chars", "tokens"])
SEEDS = st.integers(0, 10**9)


def assert_covers(text: str, result: Split) -> None:
    assert result.leaves[0].start == 0
    assert result.leaves[-1].end == len(text)
    assert [(section.start, section.end) for section in result.sections] == [
        (leaf.start, leaf.end) for leaf in result.leaves
    ]
    assert [leaf.section for leaf in result.leaves] == list(range(len(result.leaves)))
    for before, after in pairwise(result.leaves):
        assert before.start < after.start <= before.end < after.end
    assert all(text[leaf.start : leaf.end].strip() for leaf in result.leaves) or not text.strip()


def lengths(text: str, result: Split, name: str) -> tuple[list[int], list[int]]:
    """Sizes of the windows and of their overlaps, in the unit of the strategy."""
    tokens = tokens_of(text)

    def size(start: int, end: int) -> int:
        return tokens.count(start, end) if name == "tokens" else end - start

    sizes = [size(leaf.start, leaf.end) for leaf in result.leaves]
    return sizes, [size(after.start, before.end) for before, after in pairwise(result.leaves)]


@given(SEEDS, st.integers(1, 60), NAMES)
@MANY
def test_sizes_and_overlaps_are_in_range(seed: int, blocks: int, name: str) -> None:
    text = a_document(seed, blocks).text
    strategy = Strategy(name)
    window = strategy.window()
    result = split_text(text, strategy)
    assert_covers(text, result)
    sizes, overlaps = lengths(text.rstrip(), result, name)
    assert all(window.least <= size <= window.most for size in sizes[:-1])
    assert sizes[-1] <= window.most or text[result.leaves[-1].start :].rstrip() != text[result.leaves[-1].start :]
    assert all(window.overlap_least <= overlap <= window.overlap_most for overlap in overlaps)
    assert result == split_text(text, strategy)


@given(SEEDS, st.integers(20, 200), NAMES)
@MANY
def test_prose_windows_begin_and_end_at_sentences(seed: int, count: int, name: str) -> None:
    chance = random.Random(seed)
    text, begins = "", set()
    for _ in range(count):
        begins.add(len(text))
        text += a_sentence(chance, chance.randint(2, 9)) + chance.choice((" ", "\n", "\n\n"))
    strategy = Strategy(name)
    window, tokens = strategy.window(), tokens_of(text)
    result = split_text(text, strategy)
    assert all(leaf.end in begins or leaf.end == len(text) for leaf in result.leaves)
    for before, after in pairwise(result.leaves):
        overlaps = [tokens.count(begin, before.end) if name == "tokens" else before.end - begin for begin in begins]
        possible = any(window.overlap_least <= overlap <= window.overlap_most for overlap in overlaps)
        assert after.start in begins or not possible
        assert text[after.start - 1].isspace()


@given(st.text(alphabet=" \nab.。#|-`你", max_size=600), NAMES)
@settings(max_examples=count(50, 150), deadline=None)
def test_any_text_is_covered(text: str, name: str) -> None:
    strategy = Strategy(name, window_min=20, window_max=30, overlap_min=3, overlap_max=6)
    if text:
        assert_covers(text, split_text(text, strategy))


def test_a_heading_in_range_ends_the_window() -> None:
    text = "Plain words. " * 70 + "\n\n## Next\n\n" + "More words here. " * 100
    first = split_text(text, Strategy("chars")).leaves[0]
    assert text[first.end :].startswith("## Next")


def test_a_speaker_turn_in_range_ends_the_window() -> None:
    lines = [f"And so it went on for line {number}, as they say.\n" for number in range(60)]
    marks = tuple(
        Mark(
            sum(map(len, lines[:number])),
            start=float(number),
            end=number + 1.0,
            speaker="Ann" if number < 20 else "Bob",
        )
        for number in range(60)
    )
    text = "".join(lines)
    first = split_text(text, Strategy("chars"), TextKind.TRANSCRIPT, marks).leaves[0]
    assert first.end == marks[20].offset
    assert first.locator.speaker == "Ann"
    assert (first.locator.start, first.locator.end) == (0.0, 20.0)


@pytest.mark.parametrize("name", ["chars", "tokens"])
@pytest.mark.parametrize("unit", ["x", "a ", ".", " \n", "你", "a. "])
def test_huge_inputs_take_linear_time(unit: str, name: str) -> None:
    text = unit * (200_000 // len(unit))
    assert_covers(text, split_text(text, Strategy(name)))


def test_a_strategy_that_cannot_work_is_refused() -> None:
    with pytest.raises(ValueError, match="no strategy"):
        Strategy("lines")
    with pytest.raises(ValueError, match="overlap"):
        Strategy("chars", window_min=100, window_max=300, overlap_min=100, overlap_max=200)
    with pytest.raises(ValueError, match="leaf_min"):
        Strategy(leaf_min=600)


def test_a_change_of_any_value_is_another_fingerprint() -> None:
    prints = {
        strategy.fingerprint(tokenizer)
        for strategy in (Strategy(), Strategy("chars"), Strategy(leaf_max=450), Strategy(parent_min=900))
        for tokenizer in ("a", "b")
    }
    assert len(prints) == 8
