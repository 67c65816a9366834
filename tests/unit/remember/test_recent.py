from __future__ import annotations

import pytest

from ragforge.errors import UserError
from ragforge.remember.recent import older, recent
from tests.unit.remember.support import turn

TURNS = [turn(number, f"question {number}", "so it is") for number in range(1, 9)]


@pytest.mark.parametrize("k", [3, 4, 5])
def test_the_last_turns_come_in_order_and_as_they_are(k: int) -> None:
    found = recent(TURNS[::-1], k, budget=100)
    assert list(found.turns) == TURNS[-k:]
    assert not found.told
    assert [*older(TURNS[::-1], k), *found.turns] == TURNS


def test_a_short_conversation_is_all_recent() -> None:
    assert recent(TURNS[:2], budget=100).turns == tuple(TURNS[:2])
    assert recent([], budget=0).turns == ()
    assert older(TURNS[:2]) == ()


def test_over_budget_is_told_and_nothing_is_cut() -> None:
    found = recent(TURNS, 4, budget=12)
    assert list(found.turns) == TURNS[-4:]
    assert found.tokens == 20
    assert found.told == ("the last 4 turns take 20 tokens, 8 over their budget",)


def test_only_a_turn_that_no_window_holds_is_left_out_by_name() -> None:
    large = turn(9, "huge", "word " * 50)
    found = recent([*TURNS, large], 3, budget=100, window=40)
    assert found.turns == tuple(TURNS[-2:])
    assert found.left_out == (large,)
    assert found.told == ("turn 9 with its 51 tokens is left out: the model has room for 40",)


def test_where_the_window_cannot_hold_them_all_the_newest_stay() -> None:
    found = recent(TURNS, 4, budget=100, window=12)
    assert found.turns == tuple(TURNS[-2:])
    assert found.left_out == tuple(TURNS[-4:-2])
    assert len(found.told) == 2


@pytest.mark.parametrize("k", [0, 2, 6])
def test_other_numbers_of_turns_are_refused(k: int) -> None:
    with pytest.raises(UserError, match=f"{k} recent turns"):
        recent(TURNS, k, budget=100)
