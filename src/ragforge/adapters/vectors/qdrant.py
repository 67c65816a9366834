"""Qdrant as a vector index: its local mode on a folder, or a server. An alias tells which collection is current.

A pinned reader sees what is written after it was pinned. Local mode is for trying out and for tests: it looks at every
row, and serves one process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ragforge.adapters.vectors.qdrant_engines import STATE, VECTOR, LocalQdrant, QdrantServer
from ragforge.adapters.vectors.rows import (
    NOTHING,
    WritersPlace,
    best,
    checked,
    checked_query,
    cosines,
    finds_nothing,
    pieces,
    scores_of,
)
from ragforge.domain.retrieval import Allowed, Keys, Ranked, Scores, VectorRows
from ragforge.domain.tokens import Matrix, Vector
from ragforge.errors import IndexLost

if TYPE_CHECKING:
    from qdrant_client import models

_BATCH = 1_000
_SPARE = 16
"""Rows fetched beyond k, so that equal ones at the cut are told apart by their keys."""


@dataclass(frozen=True, slots=True)
class State:
    """What a point without a vector says of its collection."""

    mark: str
    """A hash of the fingerprint."""
    watermark: int
    dimension: int
    """0 until the first row comes."""
    dead: bool
    """Whether files may still hold rows that were removed or replaced."""


class QdrantReader:
    """The rows of the collection that is current when it is asked."""

    def __init__(self, collection: Collection, watermark: int, rows: int) -> None:
        self._collection = collection
        self._watermark = watermark
        self._rows = rows

    @property
    def watermark(self) -> int:
        return self._watermark

    @property
    def rows(self) -> int:
        return self._rows

    def keys(self) -> Keys:
        return self._collection.keys()

    def search(self, query: Vector, k: int, allowed: Allowed) -> Ranked:
        return NOTHING if finds_nothing(k, allowed) else self._collection.search(query, k, allowed)

    def score(self, query: Vector, keys: Keys) -> Scores:
        known, vectors = self._collection.vectors(np.unique(keys))
        if not len(known):
            return np.full(len(keys), np.nan, dtype=np.float32)
        return scores_of(keys, known, cosines(checked_query(query, vectors.shape[1]), vectors))

    def release(self) -> None:
        """There is nothing to let go."""


class QdrantIndex:
    """Rows in a collection `name.<n>` behind the alias `name`."""

    engine = "qdrant"

    def __init__(
        self,
        location: Path | str,
        name: str,
        fingerprint: str,
        lock_folder: Path,
        *,
        key: str = "",
        timeout: int = 30,
    ) -> None:
        self.fingerprint = fingerprint
        self._mark = hashlib.sha256(fingerprint.encode()).hexdigest()
        self._name = name
        self._place = WritersPlace(lock_folder / f"{name}.lock")
        self._qdrant: LocalQdrant | QdrantServer = (
            LocalQdrant(location, name) if isinstance(location, Path) else QdrantServer(location, key, timeout)
        )
        self._current = Collection(self._qdrant, name)

    def writing(self, *, blocking: bool) -> AbstractContextManager[bool]:
        return self._place.taken(blocking=blocking)

    def pin(self) -> QdrantReader:
        state = self._state()
        return QdrantReader(self._current, state.watermark, self._current.count())

    def apply(self, put: VectorRows, removed: Keys, watermark: int) -> None:
        state = self._state()
        put = checked(put, state.dimension)
        if state.dimension == 0 and len(put.keys):  # a collection is made for one dimension
            self.rebuild([put], watermark)
            return
        with self._qdrant.bulk(self._name):
            if not state.dead and self._current.holds(np.concatenate([put.keys, removed])):
                state = replace(state, dead=True)
                self._current.note(state)
            self._current.remove(removed)
            self._current.put(put)
            self._current.note(replace(state, watermark=watermark))

    def rebuild(self, rows: Iterable[VectorRows], watermark: int) -> None:
        self._qdrant.prepare()
        old = self._qdrant.target(self._name)
        number = int(old.rpartition(".")[2]) if old else 0
        new = f"{self._name}.{number + 1}"
        for leftover in (new, f"{self._name}.{number - 1}"):
            self._qdrant.delete(leftover)
        try:
            self._fill(new, rows, watermark)
            self._qdrant.point(self._name, new)
        except BaseException:
            self._qdrant.delete(new)
            raise
        if old:
            self._qdrant.delete(old)

    def _fill(self, name: str, rows: Iterable[VectorRows], watermark: int) -> None:
        parts = (part for part in rows if len(part.keys))
        first = list(islice(parts, 1))
        dimension = int(first[0].vectors.shape[1]) if first else 0
        self._qdrant.create(name, dimension or 1)
        collection = Collection(self._qdrant, name)
        with self._qdrant.bulk(name):
            for part in chain(first, parts):
                collection.put(checked(part, dimension))
            collection.note(State(self._mark, watermark, dimension, dead=False))

    def erase(self) -> bool:
        """Write a folder's rows anew. Of a server, removing is all that can be asked."""
        state = self._state()
        if state.dead and isinstance(self._qdrant, LocalQdrant):
            self.rebuild(self._current.stored(), state.watermark)
        return True

    def verify(self) -> list[str]:
        try:
            dimension, expected = self._state().dimension, self._current.count()
            parts = (part.vectors for part in self._current.stored())
            found = sum(int(np.isfinite(part).all(axis=1).sum()) for part in parts if part.shape[1] == dimension)
        except IndexLost as problem:
            return [problem.message]
        return [] if found == expected else [f"{expected:,} rows are counted, {found:,} have a vector"]

    def drop(self) -> None:
        self._qdrant.drop(self._name)

    def close(self) -> None:
        self._qdrant.close()

    def _state(self) -> State:
        """What the current collection holds. Raises `IndexLost` if there is none, or one of another model."""
        state = self._current.state()
        if state.mark != self._mark:
            raise IndexLost("the Qdrant index was made for another model or splitter")
        return state


class Collection:
    """Points of one collection, or of the one behind an alias."""

    def __init__(self, qdrant: LocalQdrant | QdrantServer, name: str) -> None:
        self._qdrant = qdrant
        self._name = name

    def state(self) -> State:
        with self._qdrant.client() as client:
            points = client.retrieve(self._name, [STATE])
        try:
            return State(**(points[0].payload or {}))
        except (IndexError, TypeError) as problem:
            raise IndexLost("the Qdrant collection is not one of ragforge, or was never finished") from problem

    def note(self, state: State) -> None:
        from qdrant_client import models

        with self._qdrant.client() as client:
            point = models.PointStruct(id=STATE, vector={}, payload=asdict(state))
            client.upsert(self._name, points=[point], wait=True)

    def count(self) -> int:
        with self._qdrant.client() as client:
            return client.count(self._name, exact=True).count - 1

    def holds(self, keys: Keys) -> bool:
        """Whether one of the keys is there."""
        for at in range(0, len(keys), _BATCH):
            with self._qdrant.client() as client:
                if client.retrieve(self._name, keys[at : at + _BATCH].tolist(), with_payload=False):
                    return True
        return False

    def put(self, rows: VectorRows) -> None:
        from qdrant_client import models

        for part in pieces(rows, _BATCH):
            batch = models.Batch(
                ids=part.keys.tolist(),
                vectors={VECTOR: part.vectors.tolist()},
                payloads=[{"document": document} for document in part.documents.tolist()],
            )
            with self._qdrant.client() as client:
                client.upsert(self._name, points=batch, wait=True)

    def remove(self, keys: Keys) -> None:
        for at in range(0, len(keys), _BATCH):
            with self._qdrant.client() as client:
                client.delete(self._name, points_selector=keys[at : at + _BATCH].tolist(), wait=True)

    def keys(self) -> Keys:
        """Every key, ascending."""
        pages = self._pages(payload=False, vectors=False)
        return np.sort(np.array([point.id for page in pages for point in page], dtype=np.int64))

    def stored(self) -> Iterator[VectorRows]:
        """Every row as it is stored."""
        for points in self._pages(payload=True, vectors=True):
            documents = [(point.payload or {})["document"] for point in points]
            yield VectorRows(_keys(points), np.array(documents, dtype=np.int64), _vectors(points))

    def vectors(self, keys: Keys) -> tuple[Keys, Matrix]:
        """The vectors of those that are here."""
        points: list[models.Record] = []
        for at in range(0, len(keys), _BATCH):
            with self._qdrant.client() as client:
                points += client.retrieve(self._name, keys[at : at + _BATCH].tolist(), with_vectors=True)
        return _keys(points), _vectors(points)

    def search(self, query: Vector, k: int, allowed: Allowed) -> Ranked:
        dimension = self.state().dimension
        if dimension == 0:
            return NOTHING
        limit = min(k, self.count()) + _SPARE
        with self._qdrant.client() as client:
            found = client.query_points(
                self._name,
                query=checked_query(query, dimension).tolist(),
                using=VECTOR,
                limit=limit,
                query_filter=_filter(allowed),
                search_params=self._qdrant.effort(limit),
                with_payload=False,
            )
        points = [point for point in found.points if isinstance(point.id, int)]
        return best(_keys(points), np.array([point.score for point in points], dtype=np.float32), k)

    def _pages(self, *, payload: bool, vectors: bool) -> Iterator[list[models.Record]]:
        offset: Any = None
        while True:
            with self._qdrant.client() as client:
                page, offset = client.scroll(
                    self._name, limit=_BATCH, offset=offset, with_payload=payload, with_vectors=vectors
                )
            if points := [point for point in page if isinstance(point.id, int)]:
                yield points
            if offset is None:
                return


def _keys(points: Iterable[Any]) -> Keys:
    return np.array([point.id for point in points], dtype=np.int64)


def _vectors(points: list[models.Record]) -> Matrix:
    vectors = [point.vector[VECTOR] for point in points if isinstance(point.vector, dict)]
    return np.array(vectors, dtype=np.float32).reshape(len(points), -1 if points else 0)


def _filter(allowed: Allowed) -> models.Filter:
    from qdrant_client import models

    must: list[models.Condition] = []
    must_not: list[models.Condition] = []
    if allowed.documents is not None and len(allowed.documents):
        listed = models.FieldCondition(key="document", match=models.MatchAny(any=allowed.documents.tolist()))
        (must_not if allowed.deny else must).append(listed)
    if allowed.hidden is not None and len(allowed.hidden):
        must_not.append(models.HasIdCondition(has_id=allowed.hidden.tolist()))
    return models.Filter(must=must, must_not=must_not)
