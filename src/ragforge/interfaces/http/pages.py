"""Lists in pages: `?limit=` of them at a time, from `?after=` on, which the page before told."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Query

from ragforge.domain.cursor import Cursor
from ragforge.errors import UserError

T = TypeVar("T")


def _id(item: Any) -> str:
    return str(item.id)


class Paging:
    """Which page is wanted."""

    def __init__(
        self,
        limit: Annotated[int, Query(ge=1, le=1_000, description="Items of a page")] = 100,
        after: Annotated[str, Query(max_length=1_000, description="`next` of the page before")] = "",
    ) -> None:
        self._limit = limit
        self._after = after

    # -- of a list that is read page by page

    @property
    def most(self) -> int:
        """How many items are needed for this page, and to know whether there are more."""
        return self._limit + 1

    @property
    def after(self) -> Cursor | None:
        """Where the page before ended."""
        try:
            return Cursor.parsed(self._after) if self._after else None
        except ValueError:
            raise _no_such_page() from None

    def page_from(self, items: Sequence[T], at: Callable[[T], datetime]) -> dict[str, Any]:
        """This page: of the first `most` items that come `after` the page before."""
        shown = items[: self._limit]
        return {"items": shown, "next": str(Cursor(at(shown[-1]), _id(shown[-1]))) if len(items) > len(shown) else None}

    # -- of a list that is there as a whole

    def page(self, items: Sequence[T], name: Callable[[T], str] = _id) -> dict[str, Any]:
        """This page. Its cursor names the item to begin with, and the place of that, should it be gone by now."""
        seen, first = _decoded(self._after) if self._after else (0, "")
        names = [name(each) for each in items] if first else []
        start = names.index(first) if first in names else min(seen, len(items))
        end = start + self._limit
        return {"items": items[start:end], "next": _encoded(end, name(items[end])) if len(items) > end else None}


Paged = Annotated[Paging, Depends()]


def _encoded(seen: int, first: str) -> str:
    return base64.urlsafe_b64encode(f"{seen} {first}".encode()).decode().rstrip("=")


def _decoded(cursor: str) -> tuple[int, str]:
    try:
        seen, _, first = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode().partition(" ")
        if not (seen.isascii() and seen.isdigit() and len(seen) < 10):
            raise ValueError(seen)
        return int(seen), first
    except ValueError:
        raise _no_such_page() from None


def _no_such_page() -> UserError:
    return UserError("after: there is no such page", hint="send `next` of the page before, as it was")
