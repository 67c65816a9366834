"""What the catalog's parts share: times and texts go in and come back as they were, or as near as a database allows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from ragforge.adapters.catalog.unit import milliseconds, moment, storable


@given(st.integers(0, 4_000_000_000_000))
def test_a_millisecond_is_not_lost(value: int) -> None:
    assert milliseconds(moment(value)) == value


def test_every_millisecond_of_a_second_comes_back() -> None:
    second = datetime(2038, 6, 20, tzinfo=UTC)  # seconds since 1970 as a float are off by one there
    moments = [second + timedelta(milliseconds=number) for number in range(1000)]
    assert [moment(milliseconds(each)) for each in moments] == moments


@given(st.text(st.characters() | st.sampled_from("\x00\ud800\udfff")))
def test_any_text_can_be_stored(text: str) -> None:
    stored = storable(text)
    assert "\x00" not in stored
    assert stored.encode().decode() == storable(stored) == stored
    if "\x00" not in text and not any("\ud800" <= character <= "\udfff" for character in text):
        assert stored == text
