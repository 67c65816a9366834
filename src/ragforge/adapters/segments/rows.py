"""Rows on their way into segments: sorted, each key once, merged and cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from ragforge.domain.retrieval import Keys

Mask: TypeAlias = "npt.NDArray[np.bool_]"
Places: TypeAlias = "npt.NDArray[np.intp]"

_TIER = 4
"""More segments than this of about the same size become one."""


class Rows(Protocol):
    """Rows by key, ascending, each key once: given by a caller, or of a segment."""

    @property
    def keys(self) -> Keys: ...
    @property
    def documents(self) -> Keys: ...


R = TypeVar("R", bound=Rows)


@dataclass(frozen=True, slots=True, eq=False)
class Piece(Generic[R]):
    """The rows of a segment to be written, sorted by key, and where each comes from."""

    keys: Keys
    documents: Keys
    sources: Sequence[R]
    source: Places
    row: Places


def pieces(sources: Sequence[R], living: Sequence[Mask | None], cap: int) -> Iterator[Piece[R]]:
    """The living rows of all sources by key, cut to segments. Of rows with the same key the last source's stays."""
    rows = [
        np.arange(len(rows.keys)) if mask is None else np.flatnonzero(mask)
        for rows, mask in zip(sources, living, strict=True)
    ]
    source = np.repeat(np.arange(len(sources)), [len(some) for some in rows])
    row = np.concatenate(rows)
    keys = np.concatenate([its.keys[some] for its, some in zip(sources, rows, strict=True)])
    documents = np.concatenate([its.documents[some] for its, some in zip(sources, rows, strict=True)])
    order = last_of_each(keys)
    for start in range(0, len(order), cap):
        part = order[start : start + cap]
        yield Piece(keys[part], documents[part], sources, source[part], row[part])


def last_of_each(keys: Keys) -> Places:
    """Where each key stands, keys ascending; where one stands several times, the last place."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    last = np.ones(len(order), dtype=np.bool_)
    last[:-1] = ordered[1:] != ordered[:-1]
    return order[last]


def places_of(keys: Keys, wanted: Keys) -> tuple[Places, Mask]:
    """For each wanted key its place in `keys` (ascending), and whether it is there."""
    if not len(keys):
        return np.zeros(len(wanted), dtype=np.intp), np.zeros(len(wanted), dtype=np.bool_)
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return places, keys[places] == wanted


def to_merge(sizes: Sequence[int], cap: int) -> list[int]:
    """Which segments become one, by their sizes: all of a tier that has grown too full, and so on upwards.

    Those of more than half the cap are left alone, so that a large index is not written again and again.
    """
    chosen: list[int] = []
    below = -1
    for limit in (512, 4_096, cap // 2):
        merged = sum(sizes[place] for place in chosen)
        tier = [place for place, size in enumerate(sizes) if below < size <= limit]
        if len(tier) + (1 if chosen and below < merged <= limit else 0) > _TIER:
            chosen += tier
        below = limit
    return sorted(chosen)


def cut(batches: Iterable[R], cap: int, part: Callable[[R, int, int], R]) -> Iterator[list[R]]:
    """Batches of any size as groups that hold `cap` rows each, the last one fewer."""
    group: list[R] = []
    held = 0
    for batch in batches:
        start = 0
        while start < len(batch.keys):
            end = min(len(batch.keys), start + cap - held)
            group.append(part(batch, start, end))
            held += end - start
            start = end
            if held == cap:
                yield group
                group, held = [], 0
    if group:
        yield group
