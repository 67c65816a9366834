"""Locators, breadcrumbs and ids."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.domain.documents import Leaf, Locator, breadcrumb, chunk_id, clock_time, digest, lead, version_id
from tests.proof import count


@pytest.mark.parametrize(
    ("locator", "label"),
    [
        (Locator(("Refunds", "Chairs")), "Refunds > Chairs"),
        (Locator(("Refunds",), page=3, page_end=4), "p. 3–4"),
        (Locator(page=3, page_end=3), "p. 3"),
        (Locator(start=754.2, end=760, speaker="Ann"), "t=12:34"),
        (Locator(page=2, start=0.0), "t=0:00"),
        (Locator(), ""),
    ],
)
def test_a_locator_as_a_reader_would_write_it(locator: Locator, label: str) -> None:
    assert locator.label() == label


def test_times() -> None:
    assert [clock_time(s) for s in (0, 59.9, 60, 3599, 3600, 3723)] == [
        "0:00", "0:59", "1:00", "59:59", "1:00:00", "1:02:03",
    ]  # fmt: skip


def test_breadcrumbs() -> None:
    assert breadcrumb("a.md", ()) == "[Source: a.md]"
    assert breadcrumb("a.md", ("H1", "H2")) == "[Source: a.md > H1 > H2]"
    assert lead("a.md", Leaf(0, 0, 0, 1, Locator(("H1",)), 1, header="| x |\n")) == "[Source: a.md > H1]\n| x |\n"


@settings(max_examples=count(20, 60), deadline=None)
@given(st.lists(st.text(max_size=20), min_size=1, max_size=5), st.lists(st.text(max_size=20), min_size=1, max_size=5))
def test_a_digest_is_stable_and_tells_different_parts_apart(first: list[str], second: list[str]) -> None:
    safe = [
        [part.replace("\x1f", "").encode("utf-8", "ignore").decode() for part in parts] for parts in (first, second)
    ]
    one, two = (digest(*parts) for parts in safe)
    assert (one == two) == (safe[0] == safe[1])
    assert len(one) == 32 and one == digest(*safe[0])


def test_ids_depend_on_everything_that_makes_them() -> None:
    base = ("project", "document", "version", 3, "chunker")
    assert chunk_id(*base) == chunk_id(*base)
    others = [
        ("other", "document", "version", 3, "chunker"),
        ("project", "other", "version", 3, "chunker"),
        ("project", "document", "other", 3, "chunker"),
        ("project", "document", "version", 4, "chunker"),
        ("project", "document", "version", 3, "other"),
    ]
    assert len({chunk_id(*base), *(chunk_id(*other) for other in others)}) == 6
    assert len({version_id("a", "b", "c"), version_id("x", "b", "c"), version_id("a", "x", "c")}) == 3
