"""Near-identical chunks: the better one stays, the reason names it, and nothing else is dropped."""

from __future__ import annotations

import random
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragforge.domain.retrieval import Candidate, Stage, StoredPassage
from ragforge.retrieve.dedupe import dedupe
from tests.candidates import MANY, by_key, in_order, stored
from tests.proof import count, record

_STEMS, _LETTERS = ("stone", "harbour", "lantern", "meadow", "copper"), "abcdefghijklmnopqrstuvwxyz"
WORDS = [stem + left + right for stem in _STEMS for left in "bdkx" for right in _LETTERS[::2]]
WORDS += [str(number) for number in range(4)]


def text_of(seed: int, words: int = 260) -> str:
    return " ".join(random.Random(seed).choices(WORDS[:-4], k=words))


def kept_of(texts: list[str], threshold: float = 0.9) -> list[int]:
    kept, decisions = dedupe(in_order(range(len(texts))), by_key(map(stored, range(len(texts)), texts)), threshold)
    assert [each.key for each in decisions] == list(range(len(texts)))
    assert [each.key for each in decisions if each.kept] == [each.key for each in kept]
    return [each.key for each in kept]


# -- an oracle without sketches, and texts that are near each other


def plain(text: str) -> str:
    return "".join(text.lower().split())


def shingles(text: str) -> set[bytes]:
    content = plain(text).encode()
    return {content[at : at + 8] for at in range(len(content) - 7)}


def share(left: str, right: str) -> float:
    if plain(left) == plain(right):
        return 1.0
    one, other = shingles(left), shingles(right)
    return len(one & other) / len(one | other) if one and other else 0.0


def oracle(texts: list[str], threshold: float) -> list[int]:
    kept: list[int] = []
    for key, text in enumerate(texts):
        figures = re.findall(r"\d+", plain(text))
        alike = [before for before in kept if re.findall(r"\d+", plain(texts[before])) == figures]
        if not any(share(text, texts[before]) >= threshold for before in alike):
            kept.append(key)
    return kept


@st.composite
def families(draw: st.DrawFn) -> list[str]:
    """Texts of which some are others with a few words changed, dropped or added."""
    chance = random.Random(draw(st.integers(0, 2**32)))
    texts: list[str] = []
    for _ in range(draw(st.integers(0, 8))):
        if texts and chance.random() < 0.7:
            words = chance.choice(texts).split(" ")
            for _ in range(chance.choice((0, 1, 2, 5, 20))):
                at = chance.randrange(len(words) + 1)
                words[at : at + chance.randrange(2)] = chance.choices(WORDS, k=chance.randrange(2))
            texts.append(" ".join(words))
        else:
            texts.append(" ".join(chance.choices(WORDS, k=chance.choice((0, 1, 3, 30, 120)))))
    return texts


@MANY
@given(families(), st.sampled_from([0.5, 0.8, 0.9, 0.97]))
def test_the_sketches_never_change_the_result(texts: list[str], threshold: float) -> None:
    assert kept_of(texts, threshold) == oracle(texts, threshold)


@MANY
@given(families(), st.sampled_from([0.5, 0.9, 1.0]))
def test_a_second_time_drops_nothing(texts: list[str], threshold: float) -> None:
    passages = by_key(map(stored, range(len(texts)), texts))
    kept, _ = dedupe(in_order(range(len(texts))), passages, threshold)
    again, decisions = dedupe(kept, passages, threshold)
    assert again == kept
    assert all(each.kept for each in decisions)


@MANY
@given(st.lists(st.text(max_size=30), max_size=8), st.floats(0.01, 1))
def test_any_text_can_be_compared(texts: list[str], threshold: float) -> None:
    kept = kept_of(texts, threshold)
    assert kept[:1] == list(range(len(texts)))[:1]
    for key in set(range(len(texts))) - set(kept):
        assert any(share(texts[key], texts[before]) >= threshold for before in kept if before < key)


def dropped(one: StoredPassage, other: StoredPassage, threshold: float = 0.9) -> str:
    _, decisions = dedupe([Candidate(one.key, 0.9), Candidate(other.key, 0.5)], by_key([one, other]), threshold)
    assert decisions[0].kept and decisions[0].stage is Stage.DEDUPE
    return "" if decisions[1].kept else decisions[1].reason


def test_the_reason_names_the_better_one_and_how_much_is_shared() -> None:
    text = text_of(1)
    changed = text.replace(text.split()[100], "quarry", 1)
    assert dropped(stored(1, text), stored(2, changed)) in {f"repeats chunk1 ({part} %)" for part in range(95, 100)}


def test_the_same_text_in_two_documents_is_told_with_the_name() -> None:
    text = text_of(2)
    assert dropped(stored(1, text, document="left"), stored(2, text, document="right")) == (
        "repeats chunk1 in left.md (100 %)"
    )


def test_spaces_and_capitals_make_no_difference() -> None:
    text = text_of(3)
    assert dropped(stored(1, text), stored(2, text.upper().replace(" ", "\n  ")), 1.0) == "repeats chunk1 (100 %)"


def test_at_1_only_the_identical_is_dropped() -> None:
    text = text_of(4)
    assert not dropped(stored(1, text), stored(2, text + " x"), 1.0)


@pytest.mark.parametrize("changed", range(0, 120, 10))
def test_the_threshold_is_kept_to_the_last_shingle(changed: int) -> None:
    words = text_of(9, 120).split()
    left, right = " ".join(words), " ".join([*words[:changed], "quarry", *words[changed + 1 :]])
    exactly = share(left, right)
    assert kept_of([left, right], exactly) == [0]
    assert kept_of([left, right], exactly + 1e-9) == [0, 1]


def test_the_most_alike_is_named() -> None:
    text = text_of(5)
    other = " ".join([*text.split()[:-12], *text_of(6, 12).split()])
    passages = by_key([stored(1, other), stored(2, text), stored(3, text + " end")])
    _, decisions = dedupe(in_order([1, 2, 3]), passages, 0.95)
    assert [each.kept for each in decisions] == [True, True, False]
    assert decisions[2].reason.startswith("repeats chunk2")


@pytest.mark.parametrize("overlap", [0.1, 0.2, 0.5])
def test_neighbouring_windows_are_no_duplicates(overlap: float) -> None:
    words = text_of(7, 2000).split()
    step = int(260 * (1 - overlap))
    windows = [" ".join(words[at : at + 260]) for at in range(0, len(words) - 260, step)]
    assert kept_of(windows) == list(range(len(windows)))


def test_a_short_text_inside_a_long_one_stays() -> None:
    text = text_of(8)
    assert not dropped(stored(1, text), stored(2, " ".join(text.split()[:60])))


@pytest.mark.parametrize(("left", "right"), [("yes", "no"), ("!!!", "???"), ("", "x"), ("1.5", "15"), ("東京", "京都")])
def test_short_texts_are_compared_whole(left: str, right: str) -> None:
    assert kept_of([left, right]) == [0, 1]
    assert kept_of([left, left]) == [0]


def test_the_same_rows_under_another_header_are_other_facts() -> None:
    rows = "| 1 | 2 |\n| 3 | 4 |\n"
    assert not dropped(stored(1, rows, header="| paid | owed |\n"), stored(2, rows, header="| won | lost |\n"))


def test_twenty_chunks_are_compared_in_less_than_a_millisecond() -> None:
    sets = [
        (in_order(range(20)), by_key(stored(key, text_of(1000 * turn + key)) for key in range(20)))
        for turn in range(20)
    ]

    def run() -> float:
        began = time.thread_time()
        for candidates, passages in sets:
            dedupe(candidates, passages, 0.9)
        return (time.thread_time() - began) / len(sets) * 1000

    milliseconds = min(run() for _ in range(count(5, 30)))
    record("dedupe", milliseconds=round(milliseconds, 3))
    assert milliseconds < 2  # 0.5 on a quiet machine


def test_texts_that_differ_in_a_figure_are_no_repetition() -> None:
    rules = "Goods can be sent back within {} days of their arrival if they are whole and in their box. " * 6
    assert kept_of([rules.replace("{}", days) for days in ("thirty", "thirty ", "30", "14", "30")]) == [0, 2, 3]
