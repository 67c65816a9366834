"""How much each key may use: requests a minute and at once, tokens and money a day."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import anyio.to_thread
from anyio import CapacityLimiter

from ragforge.domain.access import Action, KeyLimits, Principal
from ragforge.domain.records import Spent
from ragforge.errors import OverLimit
from ragforge.operate.budget import require_left
from ragforge.operate.rates import Rates, requests

MOST_OPEN = 500
"""Streams and sockets of a key that names no number of requests at once."""
_BELIEVED_SECONDS = 1.0
_SPENDS = frozenset({Action.ASK, Action.WRITE})

Used = Callable[[Principal], tuple[Spent, timedelta]]
"""What somebody used today, and how long this day still is: asked in a thread."""


@dataclass(frozen=True, slots=True)
class _Day:
    """What a key had used when it was last looked up."""

    seen: float
    used: Spent
    left: timedelta


class Limits:
    """Counts in the event loop's thread alone, so it needs no lock. The owner of a workspace has none.

    Each of several processes sees its own requests only, and gives out its `share` of what a key may have.
    """

    def __init__(
        self, used: Used, *, usual: int = 0, share: float = 1.0, tick: Callable[[], float] = time.monotonic
    ) -> None:
        self._used = used
        self._usual = usual
        """Requests at once of a key that names no number; open streams not counted."""
        self._rates = Rates(share=share, tick=tick)
        self._tick = tick
        self._at_work: Counter[str] = Counter()
        self._streaming: Counter[str] = Counter()
        self._days: dict[str, _Day] = {}
        self._lookups = CapacityLimiter(1)

    @asynccontextmanager
    async def holding(self, principal: Principal, action: Action) -> AsyncIterator[Callable[[], None]]:
        """While a request of theirs is worked on. What this yields is called when its answer streams."""
        if principal.key is None:
            yield _nothing
            return
        limits = principal.key.limits
        at_once = self._rates.part(limits.concurrent) or self._usual
        if self._streaming[principal.id] >= MOST_OPEN:
            raise OverLimit(f"this key has {MOST_OPEN} answers open that stream", hint="close some", retry_after=1.0)
        if at_once and self._at_work[principal.id] >= at_once:
            raise OverLimit(
                f"this key may have {requests(limits.concurrent or self._usual)} at once",
                hint="wait until one has ended",
                retry_after=1.0,
            )
        self._rates.spend(principal.id, limits.requests_per_minute)
        self._at_work[principal.id] += 1
        with ExitStack() as held:
            held.callback(_less, self._at_work, principal.id)
            if action in _SPENDS:
                await self._check_day(principal, limits)

            def streams() -> None:
                """It takes nobody's place any more, but there is an end to these, too."""
                held.close()
                self._streaming[principal.id] += 1
                held.callback(_less, self._streaming, principal.id)

            yield _nothing if limits.concurrent else streams

    async def again(self, principal: Principal, action: Action) -> None:
        """One more request over a connection that is held already."""
        if principal.key is None:
            return
        self._rates.spend(principal.id, principal.key.limits.requests_per_minute)
        if action in _SPENDS:
            await self._check_day(principal, principal.key.limits)

    async def _check_day(self, principal: Principal, limits: KeyLimits) -> None:
        """Refuse what may cost something once the day's share is used up, as far as is known here.

        Who asks a model is held to it more closely, by the `Budget`.
        """
        if not limits.bound_a_day:
            return
        day = self._days.get(principal.id)
        now = self._tick()
        if day is None or now - day.seen > min(_BELIEVED_SECONDS, day.left.total_seconds()):
            used, left = await anyio.to_thread.run_sync(self._used, principal, limiter=self._lookups)
            day = self._days[principal.id] = _Day(now, used, left)
        require_left(limits, day.used, day.left)


def _less(counted: Counter[str], id: str) -> None:
    counted[id] -= 1
    if not counted[id]:
        del counted[id]


def _nothing() -> None:
    """Nothing changes."""
