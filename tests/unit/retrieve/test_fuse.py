"""Fusion: bounded, monotone, and each engine's own order where only it counts."""

from __future__ import annotations

import random
import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragforge.domain.retrieval import Candidate, Ranked, Stage
from ragforge.retrieve.fuse import (
    Legs,
    fill,
    merge,
    reciprocal_rank,
    share_above,
    share_of_best,
    share_of_range,
    weighted,
)
from tests.candidates import MANY, ranked
from tests.proof import count, record

# powers of two apart: float32 and float64 then agree on every comparison
WORDS = st.dictionaries(st.integers(0, 40), st.integers(1, 2**12).map(lambda n: n / 64), max_size=20)
MEANING = st.dictionaries(st.integers(0, 40), st.integers(-(2**12), 2**12).map(lambda n: n / 2**12), max_size=20)
ALPHA = st.floats(0, 1)


def keys(candidates: list[Candidate]) -> list[int]:
    return [each.key for each in candidates]


def ranking(scores: dict[int, float]) -> list[int]:
    return [int(key) for key in ranked(scores).keys]


@MANY
@given(WORDS, MEANING, ALPHA)
def test_every_candidate_comes_once_with_a_score_from_0_to_1_and_a_decision(
    words: dict[int, float], meaning: dict[int, float], alpha: float
) -> None:
    legs = merge(ranked(words), ranked(meaning))
    for candidates, decisions in (weighted(legs, alpha), reciprocal_rank(legs, alpha)):
        assert sorted(keys(candidates)) == sorted(words.keys() | meaning.keys())
        assert all(0 <= each.score <= 1 for each in candidates)
        assert [(each.key, each.score) for each in decisions] == [(each.key, each.score) for each in candidates]
        assert all(each.stage is Stage.FUSE and each.kept and each.reason for each in decisions)
        assert candidates == sorted(candidates, key=lambda each: (-each.score, each.key))


@MANY
@given(WORDS, MEANING)
def test_alpha_0_is_the_order_of_words_and_1_that_of_meaning(
    words: dict[int, float], meaning: dict[int, float]
) -> None:
    legs = merge(ranked(words), ranked(meaning))
    for fuse in (weighted, reciprocal_rank):
        by_words, by_meaning = keys(fuse(legs, 0)[0]), keys(fuse(legs, 1)[0])
        assert [key for key in by_words if key in words] == ranking(words)
        assert [key for key in by_meaning if key in meaning] == ranking(meaning)
        if words:  # what holds no word comes after all that do
            assert by_words[: len(words)] == ranking(words)


@MANY
@given(WORDS, MEANING, ALPHA)
def test_one_engine_alone_keeps_its_order_whatever_alpha(
    words: dict[int, float], meaning: dict[int, float], alpha: float
) -> None:
    for fuse in (weighted, reciprocal_rank):
        for absent in (None, ranked({})):
            assert keys(fuse(merge(ranked(words), absent), alpha)[0]) == ranking(words)
            assert keys(fuse(merge(absent, ranked(meaning)), alpha)[0]) == ranking(meaning)


@MANY
@given(WORDS.filter(bool), MEANING.filter(bool), ALPHA, st.data())
def test_a_better_score_never_means_a_worse_place(
    words: dict[int, float], meaning: dict[int, float], alpha: float, data: st.DataObject
) -> None:
    raised, other = data.draw(st.sampled_from([(words, meaning), (meaning, words)]))
    key = data.draw(st.sampled_from(sorted(raised)))
    higher = {**raised, key: raised[key] + data.draw(st.integers(1, 2**12)) / 2**12}

    def places(scores: dict[int, float]) -> list[int]:
        pair = (scores, other) if raised is words else (other, scores)
        return [keys(fuse(merge(*map(ranked, pair)), alpha)[0]).index(key) for fuse in (weighted, reciprocal_rank)]

    assert all(after <= before for before, after in zip(places(raised), places(higher), strict=True))


@MANY
@given(WORDS, MEANING, ALPHA, st.randoms())
def test_the_order_of_rows_does_not_matter_for_weighted_scores(
    words: dict[int, float], meaning: dict[int, float], alpha: float, chance: random.Random
) -> None:
    def shuffled(scores: dict[int, float]) -> Ranked:
        rows = list(scores.items())
        chance.shuffle(rows)
        return Ranked(np.array([k for k, _ in rows], np.int64), np.array([s for _, s in rows], np.float32))

    expected = weighted(merge(ranked(words), ranked(meaning)), alpha)[0]
    found = weighted(merge(shuffled(words), shuffled(meaning)), alpha)[0]
    assert [(each.key, each.score) for each in found] == [(each.key, each.score) for each in expected]


@MANY
@given(WORDS, MEANING)
def test_both_engines_weigh_the_same_in_the_middle(words: dict[int, float], meaning: dict[int, float]) -> None:
    there = merge(ranked(words), ranked(meaning))
    back = merge(ranked(meaning), ranked(words))
    forth = weighted(there, 0.5, share_of_range, share_of_range)[0]
    assert [(each.key, each.score) for each in forth] == [
        (each.key, each.score) for each in weighted(back, 0.5, share_of_range, share_of_range)[0]
    ]
    assert keys(reciprocal_rank(there)[0]) == keys(reciprocal_rank(back)[0])


@MANY
@given(WORDS, MEANING, ALPHA, st.data())
def test_filling_keeps_own_scores_and_places_and_takes_no_nan(
    words: dict[int, float], meaning: dict[int, float], alpha: float, data: st.DataObject
) -> None:
    legs = merge(ranked(words), ranked(meaning))
    told = st.one_of(st.just(float("nan")), st.integers(0, 64).map(lambda n: n / 64))
    missing = {key: data.draw(told) for key in legs.unknown_to_keywords}
    filled = fill(legs, keyword=np.array(list(missing.values()), np.float32))
    candidates = {each.key: each for each in weighted(filled, alpha)[0]}
    assert candidates.keys() == words.keys() | meaning.keys()
    for key, each in candidates.items():
        known = words.get(key, missing.get(key, float("nan")))
        assert each.keyword == (None if np.isnan(known) else known)
        assert each.vector == meaning.get(key)
        assert (each.keyword_rank is None) == (key not in words)


def test_a_filled_score_can_lift_what_the_other_engine_found() -> None:
    legs = merge(ranked({1: 8.0, 2: 4.0}), ranked({3: 0.9, 1: 0.5}))
    assert legs.unknown_to_keywords == [3]
    assert legs.unknown_to_vectors == [2]
    assert keys(weighted(legs, 0.5)[0]) == [1, 3, 2]
    filled = fill(legs, np.array([6.0], np.float32), np.array([0.4], np.float32))
    assert keys(weighted(filled, 0.5)[0]) == [3, 1, 2]


def test_the_reasons_say_who_found_it() -> None:
    _, decisions = weighted(merge(ranked({1: 2.0, 2: 1.0}), ranked({2: 0.5, 3: 0.4})), 0.5)
    assert {each.key: each.reason for each in decisions} == {
        1: "found by words",
        2: "found by words and by meaning",
        3: "found by meaning",
    }


@pytest.mark.parametrize(
    ("scores", "best", "spread"),
    [
        ({}, {}, {}),
        ({1: 3.0}, {1: 1.0}, {1: 1.0}),
        ({1: 2.0, 2: 2.0}, {1: 1.0, 2: 1.0}, {1: 1.0, 2: 1.0}),
        ({1: 0.0, 2: 0.0}, {1: 0.0, 2: 0.0}, {1: 1.0, 2: 1.0}),
        ({1: -0.5, 2: 0.5, 3: 0.0}, {1: 0.0, 2: 1.0, 3: 0.0}, {1: 0.0, 2: 1.0, 3: 0.5}),
        ({1: -0.5, 2: -0.25}, {1: 0.0, 2: 0.0}, {1: 0.0, 2: 1.0}),
    ],
)
def test_scales(scores: dict[int, float], best: dict[int, float], spread: dict[int, float]) -> None:
    assert share_of_best(scores) == best
    assert share_of_range(scores) == spread


def test_reciprocal_rank_is_the_published_formula() -> None:
    candidates, _ = reciprocal_rank(merge(ranked({1: 9.0, 2: 5.0}), ranked({2: 0.9, 3: 0.8})))
    plain = {1: 1 / 61, 2: 1 / 62 + 1 / 61, 3: 1 / 62}
    best = 2 / 61
    assert {each.key: each.score for each in candidates} == pytest.approx(
        {key: score / best for key, score in plain.items()}
    )


def test_nothing_found_is_nothing() -> None:
    for legs in (merge(None, None), merge(ranked({}), ranked({}))):
        assert legs == Legs((), legs.keyword, legs.vector)
        assert weighted(legs, 0.7) == ([], [])
        assert reciprocal_rank(legs) == ([], [])


def test_sixty_candidates_are_fused_in_a_fraction_of_a_millisecond() -> None:
    chance = np.random.default_rng(7)

    def found(number: int) -> Ranked:
        return Ranked(
            chance.choice(10_000, number, replace=False).astype(np.int64),
            np.sort(chance.random(number).astype(np.float32))[::-1],
        )

    pairs = [(found(20), found(40)) for _ in range(100)]

    def run() -> float:
        began = time.thread_time()
        for pair in pairs:
            legs = merge(*pair)
            words = np.zeros(len(legs.unknown_to_keywords), np.float32)
            weighted(fill(legs, words, np.zeros(len(legs.unknown_to_vectors), np.float32)), 0.7)
        return (time.thread_time() - began) / len(pairs) * 1000

    milliseconds = min(run() for _ in range(count(5, 30)))
    record("fuse", milliseconds=round(milliseconds, 3))
    assert milliseconds < 0.6  # 0.14 to 0.21 on a quiet machine


@given(st.dictionaries(st.integers(0, 99), st.floats(-1, 1), max_size=9), st.floats(0, 0.9))
def test_a_known_floor_keeps_order_and_bounds(scores: dict[int, float], floor: float) -> None:
    scaled = share_above(floor)(scores)
    assert scaled.keys() == scores.keys() and all(0 <= value <= 1.0001 for value in scaled.values())
    order = sorted(scores, key=lambda key: (scores[key], key))
    assert all(scaled[low] <= scaled[high] for low, high in pairwise(order))
