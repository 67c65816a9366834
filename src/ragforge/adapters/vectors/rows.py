"""What every vector engine needs around its own search: checks of what goes in, exact cosines, the best rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import numpy as np

from ragforge.adapters.locks import FileLock
from ragforge.adapters.segments.rows import last_of_each
from ragforge.domain.retrieval import Allowed, Keys, Ranked, Scores, VectorRows
from ragforge.domain.tokens import Matrix, Vector
from ragforge.errors import BadVectors, StoreError, cannot_write
from ragforge.ports import ProcessLock

NO_KEYS: Keys = np.empty(0, dtype=np.int64)
NOTHING = Ranked(NO_KEYS, np.empty(0, dtype=np.float32))


def checked(rows: VectorRows, dimension: int) -> VectorRows:
    """The rows, each key once, if they can be put beside those of this dimension; 0 takes any."""
    if rows.vectors.ndim != 2 or not len(rows.keys) == len(rows.documents) == len(rows.vectors):
        raise BadVectors("there must be one vector and one document for each key")
    if len(rows.keys) and dimension not in (0, rows.vectors.shape[1]):
        raise BadVectors(f"vectors of {rows.vectors.shape[1]} dimensions do not fit an index of {dimension}")
    if not np.isfinite(rows.vectors).all():
        raise BadVectors("a vector holds NaN or infinity")
    kept = last_of_each(rows.keys)
    if len(kept) == len(rows.keys):  # vectors are large: they are not copied in vain
        return rows
    return VectorRows(rows.keys[kept], rows.documents[kept], rows.vectors[kept])


def checked_query(query: Vector, dimension: int) -> Vector:
    """The query as one unit vector of this dimension."""
    if query.shape != (dimension,):
        raise BadVectors(f"a query of {query.size} dimensions does not fit an index of {dimension}")
    length = float(np.linalg.norm(query))
    if not np.isfinite(length):
        raise BadVectors("the query's vector holds NaN or infinity")
    return (query / (length or 1.0)).astype(np.float32)


def cosines(query: Vector, vectors: Matrix) -> Scores:
    """The cosine of a unit vector with each of these."""
    lengths = np.linalg.norm(vectors, axis=1)
    return ((vectors @ query) / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def scores_of(keys: Keys, known: Keys, scores: Scores) -> Scores:
    """The scores in the order of `keys`; NaN for those that are not among the known ones."""
    found = np.full(len(keys), np.nan, dtype=np.float32)
    if len(known):
        order = np.argsort(known)
        place = np.searchsorted(known, keys, sorter=order).clip(max=len(known) - 1)
        there = known[order[place]] == keys
        found[there] = scores[order[place[there]]]
    return found


def best(keys: Keys, scores: Scores, k: int) -> Ranked:
    """The k with the highest scores, equal ones by key."""
    order = np.lexsort((keys, -scores))[:k]
    return Ranked(keys[order], scores[order])


def finds_nothing(k: int, allowed: Allowed) -> bool:
    """Whether no engine needs to be asked."""
    return k <= 0 or (allowed.documents is not None and not allowed.deny and not len(allowed.documents))


def pieces(rows: VectorRows, size: int) -> Iterator[VectorRows]:
    for at in range(0, len(rows.keys), size):
        part = slice(at, at + size)
        yield VectorRows(rows.keys[part], rows.documents[part], rows.vectors[part])


NewLock = Callable[[], ProcessLock]
"""Makes the lock of whoever wants to write: a file's on one machine, the database's where several do."""


def lock_of_file(path: Path) -> NewLock:
    def new() -> ProcessLock:
        make_folder(path.parent)
        return FileLock(path)

    return new


class WritersPlace:
    """The right to write, of one thread in one process at a time."""

    def __init__(self, new_lock: NewLock) -> None:
        self._new_lock = new_lock
        self._thread = Lock()

    @contextmanager
    def taken(self, *, blocking: bool) -> Iterator[bool]:
        if not self._thread.acquire(blocking=blocking):
            yield False
            return
        try:
            lock = self._new_lock()
            ours = lock.acquire(blocking=blocking)
            try:
                yield ours
            finally:
                lock.release()
        finally:
            self._thread.release()


def is_numbered(index: str, collection: str) -> bool:
    """Whether a server's collection is one that was made for the index of this name."""
    name, _, number = collection.rpartition(".")
    return name == index and number.isdecimal()


def not_installed(engine: str, extra: str) -> StoreError:
    """An engine that cannot be used now: words are searched all the same."""
    hint = f'pip install "ragforge[{extra}]", or choose the snapshot index in the settings'
    return StoreError(f"the package of the {engine} index is not installed", hint=hint)


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise cannot_write(path, problem) from problem
