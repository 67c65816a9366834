"""What is ranked first is what was verified most."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from ragforge.domain.lessons import (
    EntryType,
    Facets,
    FoundPattern,
    Label,
    Pattern,
    Quality,
    Record,
    Words,
)
from ragforge.learn.rank import label_of, lower_bound, ranked

records = st.builds(Record, st.integers(0, 200), st.integers(0, 200), st.integers(0, 200))


def found(id: str, record: Record, similarity: float = 0.8, words: Words | None = None) -> FoundPattern:
    words = words or Words("a problem", "a solution", "sometimes")
    pattern = Pattern(id, "p", Facets(EntryType.FAILURE), words, record, Quality.HIGH)
    return FoundPattern(pattern, similarity, 0.5, record, lower_bound(record), label_of(record))


@given(records)
def test_the_bound_is_below_the_share_and_within_its_limits(record: Record) -> None:
    tried = record.successes + record.losses
    bound = lower_bound(record)
    assert 0.0 <= bound <= 1.0
    assert bound <= (record.successes / tried if tried else 0.0) + 1e-12


@given(records)
def test_a_success_lifts_it_and_a_loss_lowers_it(record: Record) -> None:
    assert lower_bound(replace(record, wins=record.wins + 1)) >= lower_bound(record)
    assert lower_bound(replace(record, losses=record.losses + 1)) <= lower_bound(record)


def test_five_of_five_count_more_than_one_of_one_and_than_five_of_ten() -> None:
    assert lower_bound(Record(5)) > lower_bound(Record(1)) > lower_bound(Record(1, losses=1))
    assert lower_bound(Record(5)) > lower_bound(Record(5, losses=5))
    assert round(lower_bound(Record(5)), 3) == 0.566 and round(lower_bound(Record(1)), 3) == 0.207


def test_labels_are_those_of_the_decision() -> None:
    labels = [label_of(Record(number)) for number in range(7)]
    assert labels == [Label.LESS_COMMON] * 3 + [Label.MODERATE] * 2 + [Label.MOST_COMMON] * 2


@given(st.lists(st.tuples(records, st.floats(0, 1)), max_size=8), st.randoms())
def test_the_order_does_not_depend_on_how_they_came(given: list[tuple[Record, float]], chance: Random) -> None:
    patterns = [found(f"{number:02}", record, fit) for number, (record, fit) in enumerate(given)]
    shuffled = list(patterns)
    chance.shuffle(shuffled)
    order = ranked(shuffled)
    assert order == ranked(patterns)
    assert all(one.bound >= other.bound for one, other in pairwise(order))
