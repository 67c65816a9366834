"""Which of the patterns that fit is likeliest to work: by what was verified, never by how new it is."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from ragforge.domain.lessons import FoundPattern, Label, Record

_Z = 1.959964
"""Of a confidence of 95 %."""
_MOST_COMMON = 5
_MODERATE = 3


def lower_bound(record: Record) -> float:
    """The share of successes that there is at least (Wilson): five of five count more than one of one."""
    n = record.successes + record.losses
    if not n:
        return 0.0
    share, z2 = record.successes / n, _Z * _Z
    spread = _Z * sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, (share + z2 / (2 * n) - spread) / (1 + z2 / n))


def label_of(record: Record) -> Label:
    if record.successes >= _MOST_COMMON:
        return Label.MOST_COMMON
    return Label.MODERATE if record.successes >= _MODERATE else Label.LESS_COMMON


def ranked(found: Sequence[FoundPattern]) -> list[FoundPattern]:
    """The most reliable first; equal ones by how well they fit, then by id, so that the order is always the same."""
    return sorted(found, key=lambda each: (-each.bound, -each.record.successes, -each.similarity, each.pattern.id))
