"""States of an index that are being read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from ragforge.adapters.segments.files import Stamp
from ragforge.adapters.segments.manifest import Manifest
from ragforge.adapters.segments.rows import Mask, Rows
from ragforge.domain.retrieval import Allowed, Keys

_FILTERS = 8
"""Masks of the document filters that were used last are kept."""

S = TypeVar("S", bound=Rows)
"""An opened segment."""
V = TypeVar("V")
"""What all readers of a state share."""


@dataclass(frozen=True, slots=True, eq=False)
class Opened(Generic[S]):
    """An opened segment with the stamps of its files when they were opened."""

    content: S
    stamps: dict[str, Stamp]
    verified: bool
    """Whether its files were compared with their checksums then."""


@dataclass(frozen=True, slots=True, eq=False)
class Eligible:
    """Which rows of a segment may be returned, and how many; no mask: all of them."""

    mask: Mask | None
    count: int


class State(Generic[S, V]):
    """An index at one moment: its manifest and its opened segments. Kept while it is the newest or pinned."""

    def __init__(self, manifest: Manifest, stamp: Stamp, opened: dict[str, Opened[S]]) -> None:
        self.manifest = manifest
        self.stamp = stamp
        self.opened = opened
        self.users = 0
        self.segments = [opened[record.name].content for record in manifest.segments]
        self.files = [file for segment in opened.values() for file in segment.stamps.items()]
        self.living = [record.living for record in manifest.segments]
        self.rows = sum(record.count for record in manifest.segments)
        self._all = [Eligible(mask, r.count) for mask, r in zip(self.living, manifest.segments, strict=True)]
        self.view: V
        """What the engine made of its segments."""
        self._filters: list[tuple[Keys, bool, list[Eligible]]] = []

    def eligible(self, allowed: Allowed) -> list[Eligible]:
        """Which rows of each segment are alive and of an allowed document. Hidden rows are not looked at."""
        documents = allowed.documents
        if documents is None:
            return self._all
        for known, deny, masks in self._filters:  # a filter is asked for again with the very same array
            if known is documents and deny == allowed.deny:
                return masks
        masks = []
        for segment, living in zip(self.segments, self.living, strict=True):
            mask = np.isin(segment.documents, documents, invert=allowed.deny)
            if living is not None:
                mask &= living
            masks.append(Eligible(mask, int(np.count_nonzero(mask))))
        self._filters = [(documents, allowed.deny, masks), *self._filters[: _FILTERS - 1]]
        return masks

    def keys(self) -> Keys:
        """The keys of all living rows, ascending."""
        parts = [
            segment.keys if mask is None else segment.keys[mask]
            for segment, mask in zip(self.segments, self.living, strict=True)
        ]
        return np.sort(np.concatenate([*parts, np.empty(0, dtype=np.int64)]))


class SegmentReader(Generic[S, V]):
    """A pinned state: what readers of both kinds share."""

    def __init__(self, state: State[S, V], give_back: Callable[[State[S, V]], None]) -> None:
        self._state = state
        self._give_back = give_back
        self._released = False

    @property
    def watermark(self) -> int:
        return self._state.manifest.watermark

    @property
    def rows(self) -> int:
        return self._state.rows

    def keys(self) -> Keys:
        """The keys of all living rows, ascending."""
        return self._state.keys()

    def release(self) -> None:
        if not self._released:
            self._released = True
            self._give_back(self._state)
