"""What the documentation says of a record is what it looks like."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from ragforge.interfaces.http.shapes import page_of, shape
from ragforge.interfaces.records import encode


class Level(IntEnum):
    LOW = 0
    HIGH = 1


class Kind(StrEnum):
    ONE = "one-kind"


@dataclass(frozen=True)
class Inner:
    level: Level
    where: Path | None


@dataclass(frozen=True)
class Record:
    """A record of every kind of field."""

    id: str
    inner: tuple[Inner, ...]
    pairs: tuple[tuple[str, float], ...]
    kind: Kind
    names: frozenset[str]
    counts: dict[str, int]
    cost: Decimal | None
    at: datetime
    anything: Any = None


RECORD = Record(
    "r",
    (Inner(Level.HIGH, Path("/x")), Inner(Level.LOW, None)),
    (("a", 0.5),),
    Kind.ONE,
    frozenset({"n"}),
    {"a": 1},
    Decimal("0.25"),
    datetime(2026, 1, 2, tzinfo=UTC),
)


def test_an_encoded_record_has_its_shape() -> None:
    adapter = TypeAdapter(shape(Record))
    assert adapter.validate_python(encode(RECORD))["inner"][0] == {"level": "high", "where": "/x"}
    schema = adapter.json_schema()
    assert set(schema["required"]) == set(encode(RECORD)), "every field is always there"
    assert schema["properties"]["cost"]["anyOf"] == [{"type": "number"}, {"type": "null"}]
    assert schema["$defs"]["Inner"]["properties"]["level"]["enum"] == ["low", "high"]
    assert schema["description"] == Record.__doc__


@pytest.mark.parametrize("change", [{"inner": [{"level": 1, "where": None}]}, {"id": None}, {"pairs": [["a"]]}])
def test_anything_else_has_not(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(shape(Record)).validate_python(encode(RECORD) | change)


def test_a_page_has_items_and_what_comes_next() -> None:
    TypeAdapter(page_of(Record)).validate_python({"items": [encode(RECORD)], "next": None})
    with pytest.raises(ValidationError):
        TypeAdapter(page_of(Record)).validate_python({"items": [encode(RECORD)]})
