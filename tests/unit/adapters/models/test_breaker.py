"""The breaker opens after failures in a row, says when it looks again, and closes on the first success."""

from __future__ import annotations

import pytest

from ragforge.adapters.models.breaker import Breaker, Unfinished
from ragforge.domain.cancel import Cancelled
from ragforge.errors import ProviderError


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def fail(breaker: Breaker, problem: BaseException) -> None:
    with pytest.raises(type(problem)), breaker.watch():
        raise problem


def passing() -> ProviderError:
    return ProviderError("down", retryable=True)


def is_open(breaker: Breaker) -> bool:
    try:
        with breaker.watch():
            raise Cancelled  # leaves no trace
    except ProviderError:
        return True
    except Cancelled:
        return False


def test_it_opens_after_five_failures_and_closes_after_one_success() -> None:
    clock = Clock()
    breaker = Breaker("openai:x", clock=clock)
    for _ in range(4):
        fail(breaker, passing())
    assert not is_open(breaker)
    fail(breaker, passing())
    with (
        pytest.raises(ProviderError, match="failed 5 times in a row; it is tried again in 4 s") as caught,
        breaker.watch(),
    ):
        raise AssertionError("nothing is called")
    assert caught.value.retryable
    clock.now += 4
    with breaker.watch():
        pass
    assert not is_open(breaker)
    fail(breaker, passing())
    assert not is_open(breaker)


def test_while_open_one_call_at_a_time_looks_again() -> None:
    clock = Clock()
    breaker = Breaker("openai:x", clock=clock)
    for _ in range(5):
        fail(breaker, passing())
    clock.now += 4
    with pytest.raises(ProviderError, match="down"), breaker.watch():
        assert is_open(breaker)  # for everybody else
        raise passing()
    assert is_open(breaker)
    clock.now += 4
    assert not is_open(breaker)


@pytest.mark.parametrize("problem", [ProviderError("wrong key"), Unfinished("slow", retryable=True)])
def test_an_answer_of_any_kind_shows_that_it_lives(problem: ProviderError) -> None:
    breaker = Breaker("openai:x")
    for _ in range(4):
        fail(breaker, passing())
    fail(breaker, problem)
    fail(breaker, passing())
    assert not is_open(breaker)


def test_a_cancel_says_nothing_of_the_service() -> None:
    breaker = Breaker("openai:x")
    for _ in range(4):
        fail(breaker, passing())
    fail(breaker, Cancelled())
    assert not is_open(breaker)
    fail(breaker, passing())
    assert is_open(breaker)
