"""How a record looks as JSON, for the documentation of the routes: what `records.encode` gives, as types."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import Field
from typing_extensions import TypedDict

from ragforge.domain.plain import is_internal
from ragforge.domain.retrieval import Degraded

_AS_THEY_ARE = (Degraded,)
"""What `interfaces.fields` uses too: a second type of the same name would rename both in the schema."""


@cache
def shape(kind: Any) -> Any:
    """A record's type as the type of its fields: enums by their names, money as a number, every field always there."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return Union[tuple(shape(each) for each in inner)]  # noqa: UP007 - made of a tuple
    if origin is Literal:
        return kind
    if origin is not None:
        return _collection(origin, inner)
    if not isinstance(kind, type) or kind in _AS_THEY_ARE:
        return kind
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        named = {each.name: shape(hints[each.name]) for each in fields(kind) if not is_internal(each)}
        made = TypedDict(kind.__name__, named)  # type: ignore[misc]
        made.__doc__ = kind.__doc__
        return made
    if issubclass(kind, IntEnum):
        return Literal[tuple(each.name.lower() for each in kind)]
    return {Decimal: float, Path: str, object: Any}.get(kind, kind)


def _collection(origin: Any, inner: tuple[Any, ...]) -> Any:
    if issubclass(origin, Mapping):
        return dict[str, shape(inner[1])]  # type: ignore[misc]
    if origin is tuple and Ellipsis not in inner:
        any_of: Any = Union[tuple(shape(each) for each in inner)]  # noqa: UP007 - made of a tuple
        return Annotated[list[any_of], Field(min_length=len(inner), max_length=len(inner))]
    return list[shape(inner[0])]  # type: ignore[misc]


@cache
def page_of(kind: Any) -> Any:
    """A page of a list of such records."""
    fields = {"items": list[shape(kind)], "next": str | None}  # type: ignore[misc]
    made = TypedDict(f"{kind.__name__}Page", fields)  # type: ignore[misc]
    made.__doc__ = "Some of a list, and where to go on: `?after=` takes `next`; null: that was all."
    return made
