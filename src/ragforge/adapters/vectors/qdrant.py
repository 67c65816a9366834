"""Qdrant as a vector index: its local mode on a folder, or a server. An alias tells which collection is current.

Local mode is for trying out and for tests: it looks at every row, and serves one process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ragforge.adapters.vectors.qdrant_engines import Layout
from ragforge.adapters.vectors.qdrant_files import POINT, VECTOR
from ragforge.adapters.vectors.qdrant_rows import BATCH, SPARE, AliasedIndex, Points, State, filter_of, keys_of
from ragforge.adapters.vectors.rows import (
    NOTHING,
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

if TYPE_CHECKING:
    from qdrant_client import models

_FEW_ROWS, _FEW = 20_000, 0.1
"""So many rows, or this share of all, are looked at one by one: the graph is not made for them, and may find others
than the nearest."""
_NUMBERS_AT_ONCE = 500_000
"""Of one upload, as JSON some 10 MB: a server takes at most 32."""


@dataclass(frozen=True, slots=True)
class VectorState(State):
    """A collection is made for one dimension."""

    dimension: int
    """0 until the first row comes."""


class QdrantReader:
    """The rows of the collection that is current when it is asked."""

    def __init__(self, points: Points[VectorState], state: VectorState, rows: int) -> None:
        self._points = points
        self._state = state
        self._rows = rows

    @property
    def watermark(self) -> int:
        return self._state.watermark

    @property
    def rows(self) -> int:
        return self._rows

    def keys(self) -> Keys:
        return self._points.keys()

    def search(self, query: Vector, k: int, allowed: Allowed) -> Ranked:
        """By Qdrant's graph; where few rows are allowed, or it leads to fewer than k, by looking at each that is."""
        wanted = min(k, self._rows)
        if finds_nothing(wanted, allowed) or not self._state.dimension:
            return NOTHING
        unit = checked_query(query, self._state.dimension).tolist()
        limit = wanted + SPARE
        effort = self._points.qdrant.effort(limit)
        found: list[models.ScoredPoint] = []
        if effort is not None:
            if not self._is_narrow(allowed):
                found = self._nearest(unit, limit, allowed, effort)
            effort = effort.model_copy(update={"exact": True})
        if len(found) < wanted:
            found = self._nearest(unit, limit, allowed, effort)
        return best(keys_of(found), np.array([point.score for point in found], dtype=np.float32), k)

    def score(self, query: Vector, keys: Keys) -> Scores:
        known = self._points.rows(np.unique(keys), vectors=True)
        if not known:
            return np.full(len(keys), np.nan, dtype=np.float32)
        vectors = _vectors(known)
        return scores_of(keys, keys_of(known), cosines(checked_query(query, vectors.shape[1]), vectors))

    def release(self) -> None:
        """There is nothing to let go."""

    def _is_narrow(self, allowed: Allowed) -> bool:
        """Whether so few rows are allowed that hardly one of the graph's links leads from one of them to another."""
        if allowed.documents is None:
            return False
        few = max(_FEW_ROWS, int(_FEW * self._rows))
        return self._points.count(filter_of(replace(allowed, hidden=None)), exact=False) <= few

    def _nearest(
        self, query: list[float], limit: int, allowed: Allowed, effort: models.SearchParams | None
    ) -> list[models.ScoredPoint]:
        found = self._points.qdrant.quickly(
            lambda client, seconds: client.query_points(
                self._points.name,
                query=query,
                using=VECTOR,
                limit=limit,
                query_filter=filter_of(allowed),
                search_params=effort,
                with_payload=False,
                timeout=seconds,
            )
        )
        return [point for point in found.points if isinstance(point.id, int)]


class QdrantIndex(AliasedIndex[VectorRows, VectorState]):
    """Vectors by cosine."""

    engine = "qdrant"
    _known = POINT
    _kind_of_state = VectorState

    def pin(self) -> QdrantReader:
        return QdrantReader(self._current, self._state(), self._current.count())

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
            state = self._put(self._current, put, state)
            self._current.note(replace(state, watermark=watermark))

    def _beginning(self, first: VectorRows | None) -> VectorState:
        dimension = 0 if first is None else int(first.vectors.shape[1])
        return VectorState(self._mark, watermark=-1, dead=False, dimension=dimension)

    def _layout(self, state: VectorState) -> Layout:
        """With an index of the documents, so that a narrow filter still fills k."""
        from qdrant_client import models

        params = models.VectorParams(size=state.dimension or 1, distance=models.Distance.COSINE)
        return Layout(vectors={VECTOR: params}, indexed={"document": models.PayloadSchemaType.INTEGER})

    def _put(self, points: Points[VectorState], rows: VectorRows, state: VectorState) -> VectorState:
        rows = checked(rows, state.dimension)
        size = max(1, min(BATCH, _NUMBERS_AT_ONCE // max(1, state.dimension)))
        points.put(pieces(rows, size), _points)
        return state

    def _stored(self) -> Iterator[VectorRows]:
        for points in self._current.pages(payload=True, vectors=True):
            documents = [(point.payload or {})["document"] for point in points]
            yield VectorRows(keys_of(points), np.array(documents, dtype=np.int64), _vectors(points))

    def _wrong(self, state: VectorState) -> Iterator[str]:
        expected = self._current.count()
        parts = (part.vectors for part in self._stored())
        found = sum(int(np.isfinite(part).all(axis=1).sum()) for part in parts if part.shape[1] == state.dimension)
        if found != expected:
            yield f"{expected:,} rows are counted, {found:,} have a vector"


def _points(rows: VectorRows) -> list[models.PointStruct]:
    from qdrant_client import models

    return [
        models.PointStruct(id=key, vector={VECTOR: vector}, payload={"document": document})
        for key, document, vector in zip(
            rows.keys.tolist(), rows.documents.tolist(), rows.vectors.tolist(), strict=True
        )
    ]


def _vectors(points: Sequence[Any]) -> Matrix:
    vectors = [point.vector[VECTOR] for point in points if isinstance(point.vector, dict)]
    return np.array(vectors, dtype=np.float32).reshape(len(points), -1 if points else 0)
