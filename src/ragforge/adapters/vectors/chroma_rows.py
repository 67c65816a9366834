"""Rows in one Chroma collection, whether Chroma runs in a child process or on a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import numpy as np

from ragforge.adapters.vectors.rows import NO_KEYS, NOTHING, best, checked, checked_query, cosines, pieces
from ragforge.domain.retrieval import Allowed, Keys, Ranked, Scores, VectorRows
from ragforge.domain.tokens import Matrix, Vector
from ragforge.errors import IndexLost

HNSW = {"space": "cosine", "ef_construction": 128, "ef_search": 256, "max_neighbors": 16}
BATCH = 1_000
_MOST_IN_FILTER = 20_000
"""SQLite, in which Chroma looks its filters up, takes 32,766 values in one statement."""
_MOST_IDS = 10_000
_SPARE = 16
"""Rows fetched beyond k, so that equal ones at the cut are told apart by their keys."""


class Gone(IndexLost):
    """There is no such collection, or no longer: another one may have taken its place."""


class Collection(Protocol):
    """What is used of Chroma's own collections."""

    metadata: Any

    def count(self) -> int: ...
    def upsert(self, *, ids: list[str], embeddings: Any, metadatas: Any) -> Any: ...
    def delete(self, *, ids: list[str]) -> Any: ...
    def modify(self, *, metadata: Any) -> Any: ...
    def get(
        self,
        *,
        ids: list[str] | None = None,
        where: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        include: Any = (),
    ) -> Any: ...
    def query(self, *, query_embeddings: Any, n_results: int, where: Any = None, include: Any = ()) -> Any: ...


@dataclass(frozen=True, slots=True)
class State:
    """What a collection's own metadata says of it."""

    fingerprint: str
    watermark: int
    dimension: int
    """0 until the first row comes."""
    rows: int
    dead: bool
    """Whether files may still hold rows that were removed or replaced."""

    @classmethod
    def read(cls, metadata: Mapping[str, Any] | None) -> State:
        try:
            known = dict(metadata or {})
            return cls(
                str(known["fingerprint"]),
                int(known["watermark"]),
                int(known["dimension"]),
                int(known["rows"]),
                bool(known["dead"]),
            )
        except (KeyError, TypeError, ValueError) as problem:
            raise IndexLost("the Chroma collection is not one of ragforge, or was never finished") from problem


class Rows:
    """Rows by chunk key; each carries its document's ordinal."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    def state(self) -> State:
        return State.read(self._collection.metadata)

    def keys(self) -> Keys:
        """Every key, ascending."""
        return np.sort(_numbers(self._collection.get(include=[])["ids"]))

    def count(self) -> int:
        return self._collection.count()

    def put(self, rows: VectorRows) -> None:
        """Put or replace rows. That a replaced one is left in a file is noted before it is."""
        state = self.state()
        rows = checked(rows, state.dimension)
        for part in pieces(rows, BATCH):
            ids = _ids(part.keys)
            if not state.dead and self._collection.get(ids=ids, include=[])["ids"]:
                state = self._note(state, dead=True)
            if state.dimension == 0:
                state = self._note(state, dimension=int(part.vectors.shape[1]))
            self._collection.upsert(
                ids=ids,
                embeddings=part.vectors,
                metadatas=[{"document": document} for document in part.documents.tolist()],
            )

    def remove(self, keys: Keys) -> None:
        state = self.state()
        for at in range(0, len(keys), _MOST_IDS):
            there = self._collection.get(ids=_ids(keys[at : at + _MOST_IDS]), include=[])["ids"]
            if there and not state.dead:
                state = self._note(state, dead=True)
            if there:
                self._collection.delete(ids=there)

    def finish(self, watermark: int) -> None:
        """Note that everything up to this change is in."""
        self._note(self.state(), watermark=watermark, rows=self.count())

    def _note(self, state: State, **changes: Any) -> State:
        new = replace(state, **changes)
        self._collection.modify(metadata=asdict(new))
        return new

    def page(self, offset: int, limit: int) -> VectorRows:
        """Some rows as they are stored."""
        found = self._collection.get(limit=limit, offset=offset, include=["embeddings", "metadatas"])
        keys = _numbers(found["ids"])
        return VectorRows(keys, _documents(found["metadatas"]), _matrix(found["embeddings"], len(keys)))

    def vectors(self, keys: Keys) -> tuple[Keys, Matrix]:
        """The vectors of those that are here, in any order."""
        found = [
            self._collection.get(ids=_ids(keys[at : at + _MOST_IDS]), include=["embeddings"])
            for at in range(0, len(keys), _MOST_IDS)
        ]
        found = [part for part in found if part["ids"]]
        if not found:
            return NO_KEYS, np.empty((0, 0), dtype=np.float32)
        return (
            np.concatenate([_numbers(part["ids"]) for part in found]),
            np.concatenate([_matrix(part["embeddings"], len(part["ids"])) for part in found]),
        )

    def search(self, query: Vector, k: int, allowed: Allowed) -> Ranked:
        """The nearest k that may be returned, from Chroma's graph where it is whole, else by looking at each."""
        dimension = self.state().dimension
        if dimension == 0:
            return NOTHING
        query = checked_query(query, dimension)
        hidden = NO_KEYS if allowed.hidden is None else allowed.hidden
        if allowed.documents is not None and len(allowed.documents) > _MOST_IN_FILTER:
            return self._sieved(query, k, allowed.documents, allowed.deny, hidden)
        found = self._nearest(query, k + len(hidden) + _SPARE, _where(allowed))
        shown = ~np.isin(found.keys, hidden)
        return best(found.keys[shown], found.scores[shown], k)

    def _sieved(self, query: Vector, k: int, documents: Keys, deny: bool, hidden: Keys) -> Ranked:
        """The nearest k by a filter too long for Chroma: more and more rows, until enough of them may be returned."""
        wanted = k + len(hidden) + _SPARE
        while True:
            found = self._nearest(query, wanted, None)
            shown = np.isin(found.documents, documents, invert=deny) & ~np.isin(found.keys, hidden)
            if shown.sum() >= k or len(found.keys) < wanted:
                return best(found.keys[shown], found.scores[shown], k)
            wanted *= 4

    def _nearest(self, query: Vector, wanted: int, where: Any) -> _Found:
        if wanted > BATCH:
            wanted = min(wanted, self.count() + 1)
        answer = self._collection.query(
            query_embeddings=query[None, :], n_results=wanted, where=where, include=["distances", "metadatas"]
        )
        [ids], [distances], [metadatas] = answer["ids"], answer["distances"], answer["metadatas"]
        if len(ids) < wanted:  # either these are all, or the graph has lost sight of some
            every = _numbers(self._collection.get(where=where, include=[])["ids"])
            if len(every) > len(ids):
                return self._exactly(query, every)
        return _Found(_numbers(ids), 1 - np.array(distances, dtype=np.float32), _documents(metadatas))

    def _exactly(self, query: Vector, keys: Keys) -> _Found:
        parts = []
        for at in range(0, len(keys), _MOST_IDS):
            part = self._collection.get(ids=_ids(keys[at : at + _MOST_IDS]), include=["embeddings", "metadatas"])
            scores = cosines(query, _matrix(part["embeddings"], len(part["ids"])))
            parts.append((_numbers(part["ids"]), scores, _documents(part["metadatas"])))
        return _Found(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """Rows that are near a query, in any order."""

    keys: Keys
    scores: Scores
    documents: Keys


def _where(allowed: Allowed) -> dict[str, Any] | None:
    if allowed.documents is None or not len(allowed.documents):
        return None
    return {"document": {"$nin" if allowed.deny else "$in": allowed.documents.tolist()}}


def _ids(keys: Keys) -> list[str]:
    return [str(key) for key in keys.tolist()]


def _numbers(ids: Sequence[str]) -> Keys:
    return np.array([int(name) for name in ids], dtype=np.int64)


def _documents(metadatas: Sequence[Mapping[str, Any]]) -> Keys:
    return np.array([row["document"] for row in metadatas], dtype=np.int64)


def _matrix(embeddings: Any, rows: int) -> Matrix:
    return np.asarray(embeddings, dtype=np.float32).reshape(rows, -1 if rows else 0)
