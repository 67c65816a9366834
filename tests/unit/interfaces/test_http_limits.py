"""What a key may use: a bucket of requests, so many at once, and a day's tokens and money."""

from __future__ import annotations

import threading
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import anyio
import pytest

from ragforge.domain.access import AccessKey, Action, Clearance, KeyLimits, Principal, Role
from ragforge.domain.records import Spent
from ragforge.errors import OverLimit
from ragforge.interfaces.http import limits as limits_module
from ragforge.interfaces.http.limits import Limits
from ragforge.operate.access import local, owner


def somebody(limits: KeyLimits, id: str = "k") -> Principal:
    key = AccessKey(id, "n", Role.READER, None, Clearance.PUBLIC, datetime(2030, 1, 1, tzinfo=UTC), limits=limits)
    return Principal(replace(owner(), principal=f"key:{id}"), Role.READER, key)


class Meter:
    """What was used today, as the catalog would tell it."""

    def __init__(self) -> None:
        self.tokens, self.looks = 0, 0
        self.cost: Decimal | None = None
        self.left = timedelta(hours=5)
        self.thread: threading.Thread | None = None

    def __call__(self, principal: Principal) -> tuple[Spent, timedelta]:
        self.looks += 1
        self.thread = threading.current_thread()
        return Spent(principal.id, 1, self.tokens, 0, self.cost), self.left


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def sent(limits: Limits, who: Principal, action: Action = Action.READ) -> float:
    """0 if a request was let through, else how long to wait."""

    async def one() -> float:
        try:
            async with limits.holding(who, action):
                return 0.0
        except OverLimit as problem:
            return problem.retry_after

    return anyio.run(one)


def test_a_minutes_worth_comes_at_once_then_one_by_one() -> None:
    time = Time()
    limits, who = Limits(Meter(), tick=time), somebody(KeyLimits(requests_per_minute=6))
    assert [sent(limits, who) for _ in range(6)] == [0.0] * 6
    assert sent(limits, who) == pytest.approx(10)
    time.now = 9.9
    assert sent(limits, who) == pytest.approx(0.1)
    time.now = 10.0
    assert sent(limits, who) == 0.0
    assert sent(limits, who) == pytest.approx(10)
    time.now = 10_000.0
    assert [sent(limits, who) > 0 for _ in range(7)] == [False] * 6 + [True]


@pytest.mark.parametrize(
    ("given", "said"), [(KeyLimits(2), "2 requests a minute"), (KeyLimits(concurrent=1), "1 request at once")]
)
def test_a_key_is_told_the_number_it_was_given(given: KeyLimits, said: str) -> None:
    """Also by one of two processes, which gives out half of it."""
    limits, who = Limits(Meter(), share=0.5, tick=Time()), somebody(given)

    async def twice() -> None:
        async with limits.holding(who, Action.READ), limits.holding(who, Action.READ):
            pass

    with pytest.raises(OverLimit, match=f"this key may (send|have) {said}$"):
        anyio.run(twice)


def test_each_principal_has_a_bucket_of_its_own() -> None:
    limits = Limits(Meter(), tick=Time())
    one, two = (somebody(KeyLimits(1), id) for id in "ab")
    assert sent(limits, one) == 0 and sent(limits, one) > 0
    assert sent(limits, two) == 0
    assert all(sent(limits, local()) == 0 for _ in range(100)), "the owner has none"


def test_so_many_at_once() -> None:
    limits, who = Limits(Meter()), somebody(KeyLimits(concurrent=2))

    async def several() -> None:
        async with AsyncExitStack() as held:
            for _ in range(2):
                await held.enter_async_context(limits.holding(who, Action.ASK))
            with pytest.raises(OverLimit, match="2 requests at once"):
                await held.enter_async_context(limits.holding(who, Action.ASK))
        for _ in range(2):  # what is refused is not counted, what ended is given back
            async with limits.holding(who, Action.ASK):
                pass
        with pytest.raises(ZeroDivisionError):
            async with limits.holding(who, Action.ASK):
                raise ZeroDivisionError
        assert not limits._at_work

    anyio.run(several)


def test_a_key_without_a_limit_leaves_room_for_others() -> None:
    """Streams do not count: they wait for a model or for news."""
    limits, who = Limits(Meter(), usual=2), somebody(KeyLimits())

    async def several() -> None:
        async with AsyncExitStack() as held:
            streams = [await held.enter_async_context(limits.holding(who, Action.ASK)) for _ in range(2)]
            with pytest.raises(OverLimit, match="2 requests at once"):
                await held.enter_async_context(limits.holding(who, Action.ASK))
            await held.enter_async_context(limits.holding(somebody(KeyLimits(), "other"), Action.ASK))
            streams[0]()
            await held.enter_async_context(limits.holding(who, Action.ASK))
        assert not limits._at_work and not limits._streaming

    anyio.run(several)


def test_there_is_an_end_to_open_streams_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits_module, "MOST_OPEN", 3)
    limits, who = Limits(Meter(), usual=2), somebody(KeyLimits())

    async def several() -> None:
        async with AsyncExitStack() as held:
            for _ in range(3):
                streams = await held.enter_async_context(limits.holding(who, Action.ASK))
                streams()
            with pytest.raises(OverLimit, match="3 answers open"):
                await held.enter_async_context(limits.holding(who, Action.ASK))
            await held.enter_async_context(limits.holding(somebody(KeyLimits(), "other"), Action.ASK))
        await held.enter_async_context(limits.holding(who, Action.ASK))
        await held.aclose()
        assert not limits._at_work and not limits._streaming

    anyio.run(several)


def test_streams_count_where_a_key_has_a_limit() -> None:
    limits, who = Limits(Meter(), usual=5), somebody(KeyLimits(concurrent=1))

    async def several() -> None:
        async with limits.holding(who, Action.ASK) as streams:
            streams()
            with pytest.raises(OverLimit, match="1 request at once"):
                async with limits.holding(who, Action.ASK):
                    pass
        assert not limits._at_work

    anyio.run(several)


@pytest.mark.parametrize(("share", "let_through"), [(1.0, 6), (0.5, 3), (1 / 4, 1), (1 / 100, 1)])
def test_one_of_several_processes_gives_out_its_share(share: float, let_through: int) -> None:
    limits, who = Limits(Meter(), share=share, tick=Time()), somebody(KeyLimits(requests_per_minute=6, concurrent=6))
    assert [sent(limits, who) for _ in range(10)].count(0.0) == let_through


@pytest.mark.parametrize(
    ("limits", "tokens", "cost", "over"),
    [
        (KeyLimits(tokens_per_day=100), 99, None, False),
        (KeyLimits(tokens_per_day=100), 100, None, True),
        (KeyLimits(cost_per_day=Decimal("0.30")), 0, Decimal("0.29"), False),
        (KeyLimits(cost_per_day=Decimal("0.30")), 0, Decimal("0.30"), True),
        (KeyLimits(cost_per_day=Decimal("0.30")), 10**9, None, False),
        (KeyLimits(cost_per_day=Decimal(0)), 0, None, True),
        (KeyLimits(), 10**9, Decimal(10**6), False),
    ],
)
def test_a_days_share_is_used_up(limits: KeyLimits, tokens: int, cost: Decimal | None, over: bool) -> None:
    meter = Meter()
    meter.tokens, meter.cost = tokens, cost
    door, who = Limits(meter), somebody(limits)
    for action in (Action.ASK, Action.WRITE):
        assert sent(door, who, action) == (5 * 3600 if over else 0.0)
    assert sent(door, who, Action.READ) == 0.0, "what costs nothing goes on"
    assert not door._at_work


def test_the_days_figures_are_looked_up_in_a_thread_and_believed_for_a_second() -> None:
    meter, time = Meter(), Time()
    limits, who = Limits(meter, tick=time), somebody(KeyLimits(tokens_per_day=10))
    assert sent(limits, who, Action.ASK) == 0 and meter.thread is not threading.main_thread()
    meter.tokens = 10
    time.now = 1.0
    assert sent(limits, who, Action.ASK) == 0 and meter.looks == 1
    time.now = 1.01
    assert sent(limits, who, Action.ASK) > 0 and meter.looks == 2


def test_yesterdays_figures_are_not_believed_today() -> None:
    meter, time = Meter(), Time()
    meter.tokens, meter.left = 10, timedelta(seconds=0.2)
    limits, who = Limits(meter, tick=time), somebody(KeyLimits(tokens_per_day=10))
    assert sent(limits, who, Action.ASK) == pytest.approx(0.2)
    meter.tokens = 0
    time.now = 0.3
    assert sent(limits, who, Action.ASK) == 0.0
