"""G: the last turns of a conversation, always and as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragforge.domain.conversation import Turn
from ragforge.errors import UserError

FEWEST, USUAL, MOST = 3, 4, 5


@dataclass(frozen=True, slots=True)
class Recent:
    """The last turns in order, what of them no window could hold, and what to tell."""

    turns: tuple[Turn, ...]
    tokens: int
    left_out: tuple[Turn, ...] = ()
    told: tuple[str, ...] = ()


def recent(turns: Sequence[Turn], k: int = USUAL, *, budget: int, window: int | None = None) -> Recent:
    """The last `k` turns, even over their budget, which is told.

    Only what `window`, the most tokens the model could read of them, cannot hold is left out by name, the newest last.
    """
    if not FEWEST <= k <= MOST:
        raise UserError(f"{k} recent turns", hint=f"between {FEWEST} and {MOST}")
    kept: list[Turn] = []
    left_out: list[Turn] = []
    tokens = 0
    for turn in reversed(_in_order(turns)[-k:]):
        if window is not None and tokens + turn.tokens > window:
            left_out.insert(0, turn)
        else:
            kept.insert(0, turn)
            tokens += turn.tokens
    told = [
        f"turn {turn.number} with its {turn.tokens:,} tokens is left out: the model has room for {window:,}"
        for turn in left_out
    ]
    if tokens > budget:
        told.append(f"the last {len(kept)} turns take {tokens:,} tokens, {tokens - budget:,} over their budget")
    return Recent(tuple(kept), tokens, tuple(left_out), tuple(told))


def older(turns: Sequence[Turn], k: int = USUAL) -> tuple[Turn, ...]:
    """The turns before the last `k`: those that may be recalled or rolled."""
    return tuple(_in_order(turns)[:-k])


def _in_order(turns: Sequence[Turn]) -> list[Turn]:
    return sorted(turns, key=lambda turn: turn.number)
