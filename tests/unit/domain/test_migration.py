"""Checksums that two databases agree on, and addresses as they are compared and shown."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragforge.domain.migration import CatalogRow, Checksum, Copied, is_same_place, is_server, without_password

VALUES = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text() | st.binary() | st.floats()
ROWS = st.lists(st.tuples(VALUES, VALUES), max_size=8)


def checksum(rows: Iterable[CatalogRow]) -> Copied:
    over = Checksum()
    for row in rows:
        over.add(row)
    return over.copied


@given(ROWS, st.integers(0, 8))
def test_a_checksum_can_be_taken_up_anywhere(rows: list[tuple[object, ...]], place: int) -> None:
    first = checksum(rows[:place])
    second = Checksum(first)
    for row in rows[place:]:
        second.add(row)
    assert second.copied == checksum(rows) and second.copied.rows == len(rows)


@given(st.lists(st.tuples(st.integers(), st.text(), st.binary()), min_size=2, max_size=6, unique=True), st.data())
def test_another_row_another_order_and_a_missing_row_are_noticed(
    rows: list[tuple[int, str, bytes]], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(rows) - 1))
    number, text, vector = rows[place]
    other = data.draw(
        st.sampled_from([(number + 1, text, vector), (number, text + "x", vector), (number, text, b"\0" + vector)])
    )
    assert checksum([*rows[:place], other, *rows[place + 1 :]]) != checksum(rows)
    assert checksum(rows[::-1]) != checksum(rows)
    assert checksum([*rows[:place], *rows[place + 1 :]]) != checksum(rows)


@pytest.mark.parametrize(
    ("one", "other"),
    [((None,), ("",)), ((0,), (False,)), ((1,), ("1",)), ((1.0,), (1,)), (("a", "b"), ("ab", "")), ((b"",), ("",))],
)
def test_values_of_other_kinds_are_others(one: tuple[object, ...], other: tuple[object, ...]) -> None:
    assert checksum([one]) != checksum([other])


def test_nothing_has_a_checksum_too() -> None:
    assert checksum([]) == Copied(0, "0" * 64)


@given(st.binary(max_size=200), st.text(max_size=50))
def test_how_large_a_row_is_counts_its_bytes(vector: bytes, text: str) -> None:
    assert Checksum().add((1, text, vector)) >= len(vector) + len(text)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://me:secret@db.example/x", "postgresql://me@db.example/x"),
        ("postgresql://me:a/b:c@db/x?sslmode=require", "postgresql://me@db/x?sslmode=require"),
        ("postgresql://me@db/x?password=secret", "postgresql://me@db/x"),
        ("postgresql://me@db/x?password=secret&sslmode=require", "postgresql://me@db/x?sslmode=require"),
        ("postgresql://postgres:@/x?host=/run/pg", "postgresql://postgres@/x?host=/run/pg"),
        ("postgresql://db:5432/x", "postgresql://db:5432/x"),
        ("sqlite", "sqlite"),
    ],
)
def test_a_password_is_not_shown(address: str, shown: str) -> None:
    assert without_password(address) == shown


def test_two_addresses_of_one_database() -> None:
    assert is_same_place("postgres://me:x@db:5432/x", "postgresql://me@db/x")
    assert is_same_place("sqlite", "sqlite")
    assert not is_same_place("postgresql://me@db/x", "postgresql://me@db/y")
    assert not is_same_place("sqlite", "postgresql://me@db/y")
    assert not is_same_place("", "postgresql://me@db/y")
    assert is_server("postgres://x/y") and not is_server("sqlite") and not is_server("postgresql")
