"""Pages of a list: every item once, whatever the size of a page and whatever changes meanwhile."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragforge.domain.cursor import Cursor
from ragforge.errors import UserError
from ragforge.interfaces.http.pages import Paging


@dataclass(frozen=True)
class Item:
    id: str


def read(items: list[Item], limit: int) -> list[list[Item]]:
    pages, after = [], ""
    while True:
        page = Paging(limit, after).page(items)
        pages.append(list(page["items"]))
        if page["next"] is None:
            return pages
        after = page["next"]


@given(st.lists(st.text(max_size=5), unique=True, max_size=50), st.integers(1, 60))
def test_pages_make_up_the_list(ids: list[str], limit: int) -> None:
    items = [Item(id) for id in ids]
    pages = read(items, limit)
    assert [each for page in pages for each in page] == items
    assert all(len(page) == limit for page in pages[:-1]) and (len(pages) == 1 or pages[-1])


@given(st.integers(2, 30), st.integers(1, 10), st.data())
def test_what_is_new_or_removed_does_not_shift_the_rest(count: int, limit: int, data: st.DataObject) -> None:
    items = [Item(f"{number}") for number in range(count)]
    first = Paging(limit).page(items)
    if first["next"] is None:
        return
    later = [Item(f"new {number}") for number in range(data.draw(st.integers(0, 5)))] + items
    after = Paging(1_000, first["next"]).page(later)
    assert list(after["items"]) == items[limit:]
    assert Paging(1_000, first["next"]).page(items[limit:])["items"] == items[limit:], "what was seen may be removed"
    assert set(Paging(1_000, first["next"]).page(items[limit + 1 :])["items"]) <= set(items[limit:])


@given(st.text(min_size=1, max_size=40))
def test_no_cursor_breaks_it(cursor: str) -> None:
    try:
        assert Paging(10, cursor).page([Item("a")])["items"] in ([], [Item("a")])
    except UserError as problem:
        assert problem.hint


@given(st.datetimes(timezones=st.just(UTC)), st.text(max_size=20).filter(lambda text: text.isprintable()))
def test_a_cursor_is_read_as_it_was_written(at: datetime, id: str) -> None:
    paging = Paging(10, str(Cursor(at, id)))
    assert paging.after == Cursor(at, id)
    assert Paging(10).after is None


@pytest.mark.parametrize("text", ["x", "é", "MA", "0001-01-01T00:00:00+14:00 a", "9999-12-31T23:59:59-14:00 a", " a"])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    for cursor in (text, urlsafe_b64encode(text.encode()).decode()):
        with pytest.raises(UserError, match="no such page"):
            _ = Paging(10, cursor).after


@pytest.mark.parametrize("count", [0, 2, 3])
def test_a_page_of_what_comes_after(count: int) -> None:
    items = [Item(str(number)) for number in range(count)]
    page = Paging(2).page_from(items, lambda item: datetime(2026, 1, 1, tzinfo=UTC))
    assert page["items"] == items[:2]
    assert (page["next"] is None) == (count < 3)


@pytest.mark.parametrize("cursor", ["", "MA"])
def test_the_first_page_needs_no_cursor(cursor: str) -> None:
    assert Paging(5, cursor).page([Item("a")]) == {"items": [Item("a")], "next": None}
