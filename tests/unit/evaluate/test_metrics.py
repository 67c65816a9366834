"""Metrics: values worked out by hand, and a slow plain definition on random rankings."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragforge.evaluate.metrics import (
    hit,
    main_metric,
    means,
    means_of_some,
    measured,
    ndcg,
    precision,
    quantile,
    ranked_once,
    recall,
    reciprocal_rank,
)

GRADES = {"a": 3.0, "b": 2.0, "c": 1.0, "d": 0.0}
items = st.sampled_from("abcdefgh")
rankings = st.lists(items, unique=True, max_size=8)
judgements = st.dictionaries(items, st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0]), max_size=6)
cuts = st.integers(1, 10)


def test_by_hand() -> None:
    ranking = ["x", "b", "d", "a"]
    assert recall(ranking, GRADES, 2) == pytest.approx(1 / 3)
    assert recall(ranking, GRADES, 4) == pytest.approx(2 / 3)
    assert precision(ranking, GRADES, 4) == 0.5
    assert precision(ranking, GRADES, 10) == 0.2, "places that stay empty count"
    assert (hit(ranking, GRADES, 1), hit(ranking, GRADES, 2)) == (0, 1)
    assert reciprocal_rank(ranking, GRADES) == 0.5
    # gains 0, 2, 0, 3 at discounts 1, log2 3, 2, log2 5; the best order is 3, 2, 1
    best = 3 + 2 / math.log2(3) + 1 / 2
    assert ndcg(ranking, GRADES, 10) == pytest.approx((2 / math.log2(3) + 3 / math.log2(5)) / best)
    assert ndcg(ranking, GRADES, 1) == 0
    assert ndcg(["a", "b", "c"], GRADES, 10) == 1
    assert ndcg(["a"], GRADES, 1) == 1
    assert ndcg(["b"], GRADES, 1) == pytest.approx(2 / 3), "the gain is linear, not exponential"


def test_nothing_found_or_nothing_wanted_is_zero() -> None:
    assert set(measured([], GRADES, 10).values()) == {0.0}
    assert set(measured(["a"], {}, 10).values()) == {0.0}
    assert set(measured(["d"], {"d": -1.0}, 10).values()) == {0.0}


@given(rankings, judgements, cuts)
def test_the_plain_definitions(ranking: list[str], grades: dict[str, float], k: int) -> None:
    relevant = {item for item in grades if grades[item] > 0}
    found = [item for place, item in enumerate(ranking) if place < k and item in relevant]
    assert recall(ranking, grades, k) == pytest.approx(len(found) / len(relevant) if relevant else 0)
    assert precision(ranking, grades, k) == pytest.approx(len(found) / k)
    assert hit(ranking, grades, k) == (1 if found else 0)
    places = [place for place, item in enumerate(ranking) if item in relevant]
    assert reciprocal_rank(ranking, grades) == pytest.approx(1 / (min(places) + 1) if places else 0)
    gain, best = 0.0, 0.0
    for place, item in enumerate(ranking):
        if place < k and grades.get(item, 0) > 0:
            gain += grades[item] / math.log2(place + 2)
    for place, grade in enumerate(sorted((g for g in grades.values() if g > 0), reverse=True)):
        if place < k:
            best += grade / math.log2(place + 2)
    assert ndcg(ranking, grades, k) == pytest.approx(gain / best if best else 0)


@given(rankings, judgements, cuts)
def test_laws(ranking: list[str], grades: dict[str, float], k: int) -> None:
    metrics = measured(ranking, grades, k)
    assert all(0 <= value <= 1 + 1e-12 for value in metrics.values())
    for kind in (recall, hit):
        assert kind(ranking, grades, k) <= kind(ranking, grades, k + 1), "a deeper cut finds no less"
    ideal = sorted(grades, key=lambda item: -grades[item])
    assert ndcg(ideal, grades, k) in (0, pytest.approx(1))
    junk = [f"junk{number}" for number in range(3)]
    assert ndcg([*junk, *ranking], grades, k) <= ndcg(ranking, grades, k) + 1e-12, "junk on top never helps"
    assert measured([*ranking, *junk], grades, k)["mrr"] == metrics["mrr"]


def test_names_cuts_and_means() -> None:
    names = measured(["a"], GRADES, 7)
    assert {name.partition("@")[2] for name in names} == {"", "1", "3", "5", "7"}
    assert list(measured([], {}, 1)) == ["ndcg@1", "recall@1", "precision@1", "hit@1", "mrr"]
    assert means([{"x": 1.0, "y": 1.0}, {"x": 0.0}]) == {"x": 0.5}
    assert means([]) == {} == means_of_some([])
    assert means_of_some([{"x": 1.0, "y": 1.0}, {"x": 0.0}]) == {"x": 0.5, "y": 1.0}
    assert main_metric(measured([], {}, 20)) == "ndcg@10"
    assert main_metric(measured([], {}, 5)) == "ndcg@5"
    assert (main_metric(["mrr"]), main_metric([])) == ("mrr", "")


def test_documents_stand_where_their_best_passage_does() -> None:
    assert ranked_once(["b", "a", "b", "c", "a"]) == ["b", "a", "c"]


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=30))
def test_quantiles(values: list[float]) -> None:
    assert quantile(values, 0) == min(values) and quantile(values, 1) == max(values)
    assert min(values) <= quantile(values, 0.5) <= max(values)
    assert quantile(values, 0.25) <= quantile(values, 0.75)


def test_the_median() -> None:
    assert quantile([4, 1, 3, 2], 0.5) == 2.5
    assert quantile([], 0.5) == 0
