"""Retention believes a clock only as far as it agrees with itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from ragforge.domain.lessons import RetentionClock
from ragforge.learn.retention import DAY, judge

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_the_first_look_is_due_and_the_next_a_day_later() -> None:
    first = judge(NOON, None)
    assert first.due and first.clock.pruned_at == NOON
    clock, due = first.clock, []
    for hour in range(1, 50):
        judged = judge(NOON + hour * HOUR, clock)
        clock = judged.clock
        due += [hour] if judged.due else []
    assert due == [24, 48]
    assert judge(NOON + 49 * HOUR, clock, asked=True).due


def test_a_jump_ahead_pauses_until_a_day_later_it_still_says_so() -> None:
    known = RetentionClock(NOON, pruned_at=NOON)
    later = NOON + timedelta(days=300)
    jumped = judge(later, known)
    assert not jumped.due and "300 days ahead" in jumped.paused
    soon = judge(later + HOUR, jumped.clock, asked=True)
    assert not soon.due and soon.paused
    assert judge(later + DAY, soon.clock).due


def test_a_jump_that_is_mended_removes_nothing() -> None:
    known = RetentionClock(NOON, pruned_at=NOON)
    wrong = judge(NOON + timedelta(days=4_000), known)
    back = judge(NOON + HOUR, wrong.clock)
    assert not wrong.due and not back.due and "went back" in back.paused
    clock = back.clock
    for hour in range(2, 60):
        judged = judge(NOON + hour * HOUR, clock)
        clock = judged.clock
        assert not judged.due or hour >= 25, "a day after it was mended"


def test_a_second_jump_while_it_is_paused_is_not_believed_either() -> None:
    paused = judge(NOON + timedelta(days=10), RetentionClock(NOON, pruned_at=NOON)).clock
    for days in (50, 300, 5_000):
        assert not judge(NOON + timedelta(days=days), paused).due
    assert judge(NOON + timedelta(days=17), paused).due, "whoever looks once a week"


def test_who_says_that_the_clock_is_right_is_believed() -> None:
    assert judge(NOON + timedelta(days=900), RetentionClock(NOON), trusted=True).due


@given(st.lists(st.integers(-10_000, 10_000), min_size=1, max_size=40))
def test_nothing_goes_in_the_first_hours_after_any_jump(hours: list[int]) -> None:
    """Whatever a clock does, what it says must have stood for a day before anything is removed by it."""
    now, clock = NOON, judge(NOON, None).clock
    for step in hours:
        before = clock.seen_at
        now += step * HOUR
        judged = judge(now, clock)
        if judged.due and now - before > DAY:
            assert clock.paused_at is not None and now - clock.paused_at >= DAY
            assert now - before <= timedelta(days=30)
        if now < before - HOUR:
            assert not judged.due
        clock = judged.clock
        assert clock.seen_at == now
