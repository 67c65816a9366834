"""What an index of vectors and one of words share in Qdrant: points by key, a state, and an alias for the current ones.

A point without a vector says what its collection holds. Rows are written first, then this point: so what it tells is
in. A pinned reader sees what is written after it was pinned.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from ragforge.adapters.vectors.qdrant_engines import Layout, LocalQdrant, Qdrant, QdrantPlace, open_place
from ragforge.adapters.vectors.qdrant_files import STATE
from ragforge.adapters.vectors.rows import NewLock, WritersPlace
from ragforge.domain.retrieval import Allowed, Keys, KeywordRows, VectorRows
from ragforge.errors import IndexLost

if TYPE_CHECKING:
    import re

    from qdrant_client import models

BATCH = 250
"""Rows of one upload: Qdrant advises 64 to 256."""
_KEYS_AT_ONCE = 1_000
SPARE = 16
"""Rows fetched beyond k, so that equal ones at the cut are told apart by their keys."""


@dataclass(frozen=True, slots=True)
class State:
    """What a point without a vector says of its collection."""

    mark: str
    """A hash of the fingerprint."""
    watermark: int
    dead: bool
    """Whether files may still hold rows that were removed or replaced."""


S = TypeVar("S", bound=State)
R = TypeVar("R", VectorRows, KeywordRows)
Part = TypeVar("Part")


class Points(Generic[S]):
    """Points of one collection, or of the one behind an alias."""

    def __init__(self, qdrant: Qdrant, name: str, state: type[S]) -> None:
        self.qdrant = qdrant
        self.name = name
        self._state = state

    def state(self) -> S:
        points = self.qdrant.quickly(lambda client, seconds: client.retrieve(self.name, [STATE], timeout=seconds))
        try:
            return self._state(**(points[0].payload or {}))
        except (IndexError, TypeError) as problem:
            raise IndexLost("the Qdrant collection is not one of ragforge, or was never finished") from problem

    def note(self, state: S) -> None:
        from qdrant_client import models

        self._upsert([models.PointStruct(id=STATE, vector={}, payload=asdict(state))])

    def count(self, matching: models.Filter | None = None, *, exact: bool = True) -> int:
        """How many rows there are, or match. If exact, whatever was removed just now."""
        counted = self.qdrant.quickly(
            lambda client, seconds: client.count(self.name, count_filter=matching, exact=exact, timeout=seconds)
        )
        return counted.count - (matching is None)

    def holds(self, keys: Keys) -> bool:
        """Whether one of the keys is there."""
        return any(map(len, self._retrieved(keys, payload=False, vectors=False)))

    def put(self, parts: Iterable[Part], points_of: Callable[[Part], Sequence[models.PointStruct]]) -> None:
        """Put or replace rows, each part in one call. No key may stand in two of them."""
        self.qdrant.side_by_side(lambda part: self._upsert(points_of(part)), parts)

    def _upsert(self, points: Sequence[models.PointStruct]) -> None:
        ordering = self.qdrant.ordering
        self.qdrant.patiently(
            lambda client: client.upsert(self.name, points=list(points), wait=True, ordering=ordering)
        )

    def remove(self, keys: Keys) -> None:
        ordering = self.qdrant.ordering

        def remove(some: list[Any]) -> None:
            self.qdrant.patiently(
                lambda client: client.delete(self.name, points_selector=some, wait=True, ordering=ordering)
            )

        self.qdrant.side_by_side(remove, _lists(keys))

    def keys(self) -> Keys:
        """Every key, ascending."""
        pages = self.pages(payload=False, vectors=False)
        return np.sort(np.array([point.id for page in pages for point in page], dtype=np.int64))

    def rows(self, keys: Keys, *, payload: bool | list[str] = False, vectors: bool = False) -> list[models.Record]:
        """Those that are here."""
        return list(chain.from_iterable(self._retrieved(keys, payload=payload, vectors=vectors)))

    def _retrieved(self, keys: Keys, *, payload: bool | list[str], vectors: bool) -> list[list[models.Record]]:
        def some(ids: list[int]) -> list[models.Record]:
            return self.qdrant.quickly(
                lambda client, seconds: client.retrieve(
                    self.name, ids, with_payload=payload, with_vectors=vectors, timeout=seconds
                )
            )

        return self.qdrant.side_by_side(some, _lists(keys)) if len(keys) else []

    def pages(self, *, payload: bool | list[str], vectors: bool) -> Iterator[list[models.Record]]:
        """Every row as it is stored."""
        offset: Any = None
        while True:
            page, offset = self._page(offset, payload=payload, vectors=vectors)
            if points := [point for point in page if isinstance(point.id, int)]:
                yield points
            if offset is None:
                return

    def _page(self, offset: Any, *, payload: bool | list[str], vectors: bool) -> tuple[list[models.Record], Any]:
        return self.qdrant.patiently(
            lambda client: client.scroll(
                self.name, limit=_KEYS_AT_ONCE, offset=offset, with_payload=payload, with_vectors=vectors
            )
        )


class AliasedIndex(Generic[R, S]):
    """Rows in a collection `name.<n>` behind the alias `name`."""

    engine: str
    _known: re.Pattern[bytes]
    _kind_of_state: type[S]

    def __init__(self, place: QdrantPlace, name: str, fingerprint: str, new_lock: NewLock) -> None:
        self.fingerprint = fingerprint
        self._mark = hashlib.sha256(fingerprint.encode()).hexdigest()
        self._name = name
        self._place = WritersPlace(new_lock)
        self._qdrant = open_place(place, name, self._known)
        self._current = Points(self._qdrant, name, self._kind_of_state)

    @property
    def shared(self) -> bool:
        return self._qdrant.shared

    def writing(self, *, blocking: bool) -> AbstractContextManager[bool]:
        return self._place.taken(blocking=blocking)

    def rebuild(self, rows: Iterable[R], watermark: int) -> None:
        self._replace(lambda points: self._fill(points, rows, watermark))

    def erase(self) -> bool:
        """Write a folder's rows anew. Of a server, removing is all that can be asked."""
        state = self._state()
        if state.dead and isinstance(self._qdrant, LocalQdrant):
            self.rebuild(self._stored(), state.watermark)
        return True

    def verify(self) -> list[str]:
        try:
            return list(self._wrong(self._state()))
        except IndexLost as problem:
            return [problem.message]

    def drop(self) -> None:
        self._qdrant.drop(self._name)

    def close(self) -> None:
        self._qdrant.close()

    def _state(self) -> S:
        """What the current collection holds. Raises `IndexLost` if there is none, or one of another model."""
        state = self._current.state()
        if state.mark != self._mark:
            raise IndexLost("the Qdrant index was made for another model or splitter")
        return state

    def _replace(self, fill: Callable[[Points[S]], None]) -> None:
        """Fill a new collection beside the current one, then let it take its place."""
        self._qdrant.prepare()
        old = self._qdrant.target(self._name)
        number = int(old.rpartition(".")[2]) if old else 0
        new = f"{self._name}.{number + 1}"
        for made in self._qdrant.made_for(self._name):
            if made != old:
                self._qdrant.delete(made)
        try:
            fill(Points(self._qdrant, new, self._kind_of_state))
            self._qdrant.point(self._name, new)
        except BaseException:
            self._qdrant.delete(new)
            raise
        if old:
            self._qdrant.delete(old)

    def _fill(self, points: Points[S], rows: Iterable[R], watermark: int, beginning: S | None = None) -> None:
        parts = (part for part in rows if len(part.keys))
        first = next(parts, None)
        state = beginning or self._beginning(first)
        self._qdrant.create(points.name, self._layout(state))
        with self._qdrant.bulk(points.name):
            for part in chain([] if first is None else [first], parts):
                state = self._put(points, part, state)
            points.note(replace(state, watermark=watermark))
        self._qdrant.settle(points.name)

    def _beginning(self, first: R | None) -> S:
        """The state before the first row."""
        raise NotImplementedError

    def _layout(self, state: S) -> Layout:
        raise NotImplementedError

    def _put(self, points: Points[S], rows: R, state: S) -> S:
        raise NotImplementedError

    def _stored(self) -> Iterator[R]:
        """Every row."""
        raise NotImplementedError

    def _wrong(self, state: S) -> Iterator[str]:
        """What is wrong with the rows, in words."""
        raise NotImplementedError


def keys_of(points: Iterable[Any]) -> Keys:
    return np.array([point.id for point in points], dtype=np.int64)


def filter_of(allowed: Allowed, *also: models.Condition) -> models.Filter | None:
    """The rows that may be returned; None: all. The state is none of them: it has no vector."""
    from qdrant_client import models

    must: list[models.Condition] = list(also)
    must_not: list[models.Condition] = []
    if allowed.documents is not None and len(allowed.documents):
        listed = models.FieldCondition(key="document", match=models.MatchAny(any=allowed.documents.tolist()))
        (must_not if allowed.deny else must).append(listed)
    if allowed.hidden is not None and len(allowed.hidden):
        must_not.append(models.HasIdCondition(has_id=allowed.hidden.tolist()))
    return models.Filter(must=must, must_not=must_not) if must or must_not else None


def _lists(keys: Keys) -> list[list[int]]:
    return [keys[at : at + _KEYS_AT_ONCE].tolist() for at in range(0, len(keys), _KEYS_AT_ONCE)]
