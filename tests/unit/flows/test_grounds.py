"""What a model says when its sources do not hold it, however it dresses that up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragforge.flows.grounds import SENTINEL, may_say_missing, said_missing


@pytest.mark.parametrize(
    ("said", "added"),
    [
        (SENTINEL, ""),
        (f"\n {SENTINEL}\n", ""),
        (f"**{SENTINEL}**", ""),
        (f"> {SENTINEL}.", ""),
        (f"# {SENTINEL}: only prices.", "only prices"),
        (f"“{SENTINEL}” – no file names it", "no file names it"),
        (f"- `{SENTINEL}`", ""),
        ("", None),
        ("NOT IN THE", None),
        (f"The line is {SENTINEL}.", None),
        (SENTINEL.lower(), None),
    ],
)
def test_a_model_says_that_its_sources_do_not_hold_it(said: str, added: str | None) -> None:
    assert said_missing(said) == added


@given(st.text("*_#`>\"' \n", max_size=4), st.text(max_size=10))
def test_it_can_be_told_from_the_first_letters(before: str, after: str) -> None:
    whole = f"{before}{SENTINEL}{after}"
    assert said_missing(whole) is not None
    assert all(may_say_missing(whole[:end]) for end in range(len(whole) + 1))
    assert not may_say_missing(f"{before}Note {after}")
