"""K5, K6: how well the same lesson is recognised, and the right one told, on sets that nothing was fitted to."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime

import pytest

from bench.learning import quality, read, speed
from ragforge.learn import calibrate
from tests.proof import PROVING, count, record
from tools.fit_lessons import EMBEDDERS, fitted


@pytest.mark.parametrize("embedder", EMBEDDERS)
def test_K6_retold_lessons_are_merged_and_others_are_not(embedder: str) -> None:
    found = quality(read("retold"), embedder)
    assert found.merged_precision >= 0.9 and found.merged_recall >= 0.9, found
    assert found.failure_recall >= 0.9 and found.failure_precision >= 0.9, found
    record(f"retold lessons with {embedder}", **{name: round(value, 4) for name, value in asdict(found).items()})


@pytest.mark.parametrize(("name", "least"), [("reworded", 0.85), *([("free", 0.85), ("hard", 0.6)] if PROVING else [])])
def test_K6_the_more_freely_it_is_told_the_less_is_merged_but_that_is_right(name: str, least: float) -> None:
    """What is told in quite other words is left to a person: two patterns where there is one do little harm."""
    found = quality(read(name), "minilm")
    assert found.merged_precision >= least, found
    record(f"{name} lessons with minilm", **{each: round(value, 4) for each, value in asdict(found).items()})


@pytest.mark.parametrize("embedder", EMBEDDERS)
def test_K5_the_curves_that_come_with_us_are_those_of_a_fit_today(embedder: str) -> None:
    made = fitted(embedder)
    known = calibrate.known(made.fingerprint, embedder, datetime.now(UTC))
    assert known is not None, "python tools/fit_lessons.py writes it"
    for name in ("task", "failure", "problem", "lesson"):
        one, other = getattr(made, name), getattr(known, name)
        assert one.weights == pytest.approx(other.weights, rel=0.02, abs=0.05)
        assert one.offset == pytest.approx(other.offset, rel=0.02, abs=0.05)


@pytest.mark.alone
def test_K5_a_query_among_very_many_patterns_is_quick() -> None:
    """Processor time beyond that of embedding the question."""
    patterns = count(3_000, 100_000)
    spent = speed("minilm", patterns, count(20, 60))
    assert max(spent.values()) <= 10.0, spent
    record("query of lessons", patterns=patterns, **{name: round(value, 2) for name, value in spent.items()})
