"""What a key takes of language models in a day, and that it takes no more than it may.

A question is let in while what those before it took is below the limit, and few are at work at once: so a limit is
passed by what these few take, and by no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from threading import Lock

from ragforge.domain.access import OWNER, KeyLimits, Scope
from ragforge.domain.generation import Usage
from ragforge.domain.records import Spent
from ragforge.errors import NotFound, OverLimit
from ragforge.operate.access import owner, used_today
from ragforge.ports import Catalog, Clock

AT_ONCE = 2
"""What a key whose day is limited may have at work."""
_RETRY_SECONDS = 1.0


class Budget:
    """Each process has one, for all who ask it. The owner of a workspace has no limits."""

    def __init__(self, catalog: Catalog, clock: Clock) -> None:
        self._catalog = catalog
        self._clock = clock
        self._at_work: Counter[str] = Counter()
        self._lock = Lock()

    @contextmanager
    def spending(self, scope: Scope) -> Iterator[None]:
        """While a model is asked for somebody, to the moment when what that took is written down."""
        if not self._limits(scope).bound_a_day:
            yield
            return
        with self._lock:
            if self._at_work[scope.principal] >= AT_ONCE:
                raise OverLimit(
                    f"a key with a limit of the day may ask models for {AT_ONCE} at once",
                    hint="wait until one has ended",
                    retry_after=_RETRY_SECONDS,
                )
            self._at_work[scope.principal] += 1
        try:
            self.check(scope)
            yield
        finally:
            with self._lock:
                self._at_work[scope.principal] -= 1
                if not self._at_work[scope.principal]:
                    del self._at_work[scope.principal]

    def check(self, scope: Scope, besides: Usage | None = None) -> None:
        """Refuse more once the day's share is used up; `besides` is not written down yet."""
        if not (limits := self._limits(scope)).bound_a_day:
            return
        with self._catalog.read() as c:
            used, left = used_today(c, scope.principal, self._clock())
        require_left(limits, used, left, besides)

    def _limits(self, scope: Scope) -> KeyLimits:
        if scope.principal == OWNER:
            return KeyLimits()
        try:
            with self._catalog.read() as c:
                return c.keys.get(owner(), scope.owner)[0].limits
        except NotFound:
            return KeyLimits()


def require_left(limits: KeyLimits, used: Spent, left: timedelta, besides: Usage | None = None) -> None:
    """Something of the day's share is left; `left` is how long the day still is."""
    besides = besides or Usage()
    tokens = used.input_tokens + used.output_tokens + besides.input_tokens + besides.output_tokens
    cost = (used.cost or Decimal(0)) + (besides.cost or Decimal(0))
    over = ""
    if limits.tokens_per_day and tokens >= limits.tokens_per_day:
        over = f"{limits.tokens_per_day:,} tokens"
    elif limits.cost_per_day is not None and cost >= limits.cost_per_day:
        over = f"{limits.cost_per_day} US dollars"
    if over:
        raise OverLimit(
            f"this key may use {over} a day, and has",
            hint="a new day begins at midnight, UTC",
            retry_after=left.total_seconds(),
        )
