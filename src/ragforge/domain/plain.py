"""Records as JSON and back: the same fields on every surface, and in exports."""

from __future__ import annotations

import json
import re
import types
from collections.abc import Mapping, Set
from dataclasses import Field, fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from enum import Enum, IntEnum
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")

HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""What could move the cursor, change colours, turn the reading direction or not be encoded at all."""

INTERNAL: Mapping[str, bool] = {"internal": True}
"""Metadata of a field that no surface shows, such as a number of the catalog."""


def json_text(value: object) -> str:
    """A record as one line of JSON, readable in any script, safe on any terminal."""
    text = json.dumps(encode(value), ensure_ascii=False)
    return HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def encode(value: object) -> Any:
    """What `json.dumps` takes, and a reader understands: names of enums, moments as ISO 8601."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: encode(getattr(value, each.name)) for each in fields(value) if not is_internal(each)}
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, frozenset, set)):
        return [encode(item) for item in value]
    if isinstance(value, IntEnum):
        return value.name.lower()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    return str(value) if isinstance(value, Path) else value


def is_internal(field: Field[Any]) -> bool:
    """Whether it stays where the record was made; elsewhere it has its usual value."""
    return "internal" in field.metadata


def decode(kind: type[T], value: Any) -> T:
    """The record that `encode` was given. Raises ValueError if it is not of this kind."""
    return cast(T, _decoded(kind, value))


def _decoded(kind: Any, value: Any) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any or kind is object:
        return value
    if origin is Literal:
        return _one_of(value, inner)
    if origin in (Union, types.UnionType):
        return _first_that_fits(inner, value)
    if origin is not None:
        return _collection(origin, inner, value)
    if isinstance(kind, type) and is_dataclass(kind):
        return _record(kind, value)
    if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _named_tuple(kind, value)
    return _scalar(kind, value)


def _record(kind: Any, value: Any) -> Any:
    hints = _hints(kind)
    if not isinstance(value, Mapping) or not value.keys() <= hints.keys():
        raise ValueError(f"no {kind.__name__}")
    try:
        return kind(**{name: _decoded(hints[name], item) for name, item in value.items()})
    except TypeError:  # a field is missing
        raise ValueError(f"no whole {kind.__name__}") from None


def _named_tuple(kind: Any, value: Any) -> Any:
    """One of them is a list in JSON, like any other tuple."""
    hints, items = get_type_hints(kind), _sized(list, value)
    if len(items) != len(kind._fields):
        raise ValueError(f"no {kind.__name__}")
    return kind(*(_decoded(hints[name], item) for name, item in zip(kind._fields, items, strict=True)))


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return {name: hint for name, hint in get_type_hints(kind).items() if name in {each.name for each in fields(kind)}}


def _names(kind: Any) -> Set[str]:
    return _hints(kind).keys()


def _collection(origin: Any, inner: tuple[Any, ...], value: Any) -> Any:
    if issubclass(origin, Mapping):
        return {_decoded(inner[0], key): _decoded(inner[1], item) for key, item in _sized(dict, value).items()}
    items = _sized(list, value)
    if origin is not tuple:
        made = [_decoded(inner[0], item) for item in items]
        return made if origin is list else origin(made) if origin in (set, frozenset) else tuple(made)
    if len(inner) == 2 and inner[1] is Ellipsis:
        return tuple(_decoded(inner[0], item) for item in items)
    if len(items) != len(inner):
        raise ValueError(f"{len(items)} items, not {len(inner)}")
    return tuple(_decoded(each, item) for each, item in zip(inner, items, strict=True))


def _sized(kind: type[T], value: Any) -> T:
    if not isinstance(value, kind):
        raise ValueError(f"no {kind.__name__}")
    return value


def _scalar(kind: Any, value: Any) -> Any:
    if kind in (None, types.NoneType):
        return _one_of(value, (None,))
    if issubclass(kind, IntEnum):
        return kind[_sized(str, value).upper()] if _sized(str, value).upper() in kind.__members__ else _refuse(kind)
    if issubclass(kind, Enum):
        return kind(value)
    if kind is datetime:
        return datetime.fromisoformat(_sized(str, value))
    if kind is Decimal:
        return Decimal(str(value)) if isinstance(value, (int, float, str)) else _refuse(kind)
    if kind is Path:
        return Path(_sized(str, value))
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    return _refuse(kind)


def _first_that_fits(kinds: tuple[Any, ...], value: Any) -> Any:
    """Of several records, the one that has exactly these fields comes first."""
    exact = [kind for kind in kinds if is_dataclass(kind) and isinstance(value, dict) and _names(kind) == value.keys()]
    for kind in (*exact, *kinds):
        try:
            return _decoded(kind, value)
        except ValueError:
            continue
    return _refuse(kinds)


def _one_of(value: Any, allowed: tuple[Any, ...]) -> Any:
    if value not in allowed:
        raise ValueError(f"none of {allowed}")
    return value


def _refuse(kind: Any) -> Any:
    raise ValueError(f"no {kind}")
