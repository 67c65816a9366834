"""Whether it is time to remove what is a year old, and whether the clock that says so can be believed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ragforge.domain.lessons import RetentionClock

YEAR = timedelta(days=365)
DAY = timedelta(days=1)
LOOK = timedelta(hours=1)
"""How often the clock is looked at."""
_LONG = timedelta(days=30)
"""Nobody looked for so long, or the clock jumped again."""
_BACK = timedelta(hours=1)
"""So far a clock may be set back: it was a little fast."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What retention may do now, and what to remember of the clock."""

    clock: RetentionClock
    due: bool
    paused: str = ""


def judge(now: datetime, known: RetentionClock | None, *, trusted: bool = False, asked: bool = False) -> Judgement:
    """A clock that jumped ahead by more than a day, or back, pauses retention until a day later it still says so.

    `trusted`: a person says that the clock is right. `asked`: now, and not only once a day.
    """
    if known is None:
        return Judgement(RetentionClock(now, pruned_at=now), due=True)
    if trusted:
        return Judgement(RetentionClock(now, pruned_at=now), due=True)
    if now < known.seen_at - _BACK:
        back = known.seen_at - now
        # what it said before was wrong, or what it says now is: time tells
        return Judgement(RetentionClock(now, now, known.pruned_at), False, f"the clock went back by {_told(back)}")
    if known.paused_at is not None:
        since = now - known.paused_at
        if since < DAY:
            return Judgement(replace(known, seen_at=now), False, "the clock jumped; it is believed a day later")
        if now - known.seen_at > _LONG:
            return Judgement(replace(known, seen_at=now, paused_at=now), False, _ahead(now - known.seen_at))
        return Judgement(RetentionClock(now, pruned_at=now), due=True)
    if now - known.seen_at > DAY:
        return Judgement(replace(known, seen_at=now, paused_at=now), False, _ahead(now - known.seen_at))
    due = asked or known.pruned_at is None or now - known.pruned_at >= DAY
    return Judgement(RetentionClock(now, pruned_at=now if due else known.pruned_at), due=due)


def _ahead(by: timedelta) -> str:
    return f"the clock is {_told(by)} ahead of when it was last seen; it is believed a day later"


def _told(by: timedelta) -> str:
    return f"{by.days:,} days" if by.days > 1 else f"{by.total_seconds() / 3600:.0f} hours"
