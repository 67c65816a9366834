"""Chroma as a vector index: embedded, in a child process of its own, or on a server.

Neither keeps a moment for its readers: a pinned reader sees what is written after it was pinned.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Protocol, TypeVar

import numpy as np

from ragforge.adapters.locks import FileLock
from ragforge.adapters.vectors.chroma_http import ChromaHttp
from ragforge.adapters.vectors.chroma_process import ONE_PROCESS, ChromaProcess, RemoteRows
from ragforge.adapters.vectors.chroma_rows import BATCH, HNSW, Gone, Rows, State
from ragforge.adapters.vectors.rows import (
    NOTHING,
    NewLock,
    WritersPlace,
    checked,
    checked_query,
    cosines,
    finds_nothing,
    is_numbered,
    lock_of_file,
    make_folder,
    scores_of,
)
from ragforge.domain.retrieval import Allowed, Keys, Ranked, Scores, VectorRows
from ragforge.domain.tokens import Matrix, Vector
from ragforge.errors import Busy, IndexLost, cannot_write

T = TypeVar("T")


class ChromaRows(Protocol):
    """Rows of one collection, wherever it is."""

    def state(self) -> State: ...
    def keys(self) -> Keys: ...
    def put(self, rows: VectorRows) -> None: ...
    def remove(self, keys: Keys) -> None: ...
    def finish(self, watermark: int) -> None: ...
    def page(self, offset: int, limit: int) -> VectorRows: ...
    def vectors(self, keys: Keys) -> tuple[Keys, Matrix]: ...
    def search(self, query: Vector, k: int, allowed: Allowed) -> Ranked: ...


class ChromaReader:
    """The rows of the collection that is current when it is asked."""

    def __init__(self, index: _ChromaIndex, state: State) -> None:
        self._index = index
        self._state = state

    @property
    def watermark(self) -> int:
        return self._state.watermark

    @property
    def rows(self) -> int:
        return self._state.rows

    def keys(self) -> Keys:
        return self._index.ask(lambda rows: rows.keys())

    def search(self, query: Vector, k: int, allowed: Allowed) -> Ranked:
        if finds_nothing(k, allowed):
            return NOTHING
        return self._index.ask(lambda rows: rows.search(query, k, allowed))

    def score(self, query: Vector, keys: Keys) -> Scores:
        known, vectors = self._index.ask(lambda rows: rows.vectors(np.unique(keys)))
        if not len(known):
            return np.full(len(keys), np.nan, dtype=np.float32)
        return scores_of(keys, known, cosines(checked_query(query, vectors.shape[1]), vectors))

    def release(self) -> None:
        """There is nothing to let go."""


class _ChromaIndex:
    """What both kinds share; they differ in where the current collection is and how another takes its place."""

    engine = "chroma"
    shared = False

    def __init__(self, fingerprint: str, new_lock: NewLock) -> None:
        self.fingerprint = fingerprint
        self._place = WritersPlace(new_lock)

    def writing(self, *, blocking: bool) -> AbstractContextManager[bool]:
        return self._place.taken(blocking=blocking)

    def pin(self) -> ChromaReader:
        self._forget()
        return ChromaReader(self, self.ask(self._state))

    def apply(self, put: VectorRows, removed: Keys, watermark: int) -> None:
        self._forget()
        rows = self._rows()
        put = checked(put, self._state(rows).dimension)
        if len(removed):
            rows.remove(removed)
        if len(put.keys):
            rows.put(put)
        rows.finish(watermark)

    def verify(self) -> list[str]:
        try:
            self._forget()
            rows = self._rows()
            state, keys = self._state(rows), rows.keys()
            found = sum(_whole(page, state.dimension) for page in _pages(rows))
        except IndexLost as problem:
            return [problem.message]
        if state.rows == len(keys) == found:
            return []
        return [f"{state.rows:,} rows were written, {len(keys):,} are listed, {found:,} have a vector"]

    def ask(self, question: Callable[[ChromaRows], T]) -> T:
        """The answer of the current collection, also if another one took its place just now."""
        try:
            return question(self._rows())
        except Gone:
            self._forget()
            return question(self._rows())

    def _state(self, rows: ChromaRows) -> State:
        state = rows.state()
        if state.fingerprint != self.fingerprint or state.watermark < 0:
            raise IndexLost("the Chroma index was made for another model or splitter")
        return state

    def _rows(self) -> ChromaRows:
        """The current collection. Raises `IndexLost` if there is none."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Another process may have put another collection in its place."""


def _pages(rows: ChromaRows) -> Iterator[VectorRows]:
    """Every row as it is stored."""
    offset = 0
    while len((page := rows.page(offset, BATCH)).keys):
        yield page
        offset += len(page.keys)


def _whole(page: VectorRows, dimension: int) -> int:
    """How many of the rows have a vector that can be used."""
    if page.vectors.shape[1] != dimension:
        return 0
    return int(np.isfinite(page.vectors).all(axis=1).sum())


class ChromaEmbedded(_ChromaIndex):
    """Chroma in a child process, on a folder that one process at a time may use.

    It forgets nothing by itself: files keep removed vectors until `erase` writes them anew.
    """

    def __init__(self, folder: Path, fingerprint: str, process: ChromaProcess | None = None) -> None:
        super().__init__(fingerprint, lock_of_file(folder / "writer.lock"))
        self._folder = folder.absolute()
        self._process = process or ChromaProcess()
        self._shared = process is not None
        self._owner: FileLock | None = None
        self._owning = Lock()

    def rebuild(self, rows: Iterable[VectorRows], watermark: int) -> None:
        self._own()
        old = self._current()
        for leftover in self._folder.glob("data-*"):
            if old is None or leftover.name.partition(".")[0] != old:
                _remove(leftover)
        new = RemoteRows(self._process, self._folder / f"data-{_number(old) + 1}")
        try:
            new.create(self.fingerprint)
            for part in rows:
                new.put(part)
            new.finish(watermark)
            _flush(new.folder)
        except BaseException:
            self._discard(new.folder)
            raise
        _write(self._folder / "current.json", json.dumps({"data": new.folder.name}))
        if old is not None:
            self._discard(self._folder / old)

    def erase(self) -> bool:
        rows = self._rows()
        state = self._state(rows)
        if state.dead:
            self.rebuild(_pages(rows), state.watermark)
        return True

    def drop(self) -> None:
        """Remove everything but the files of the locks, which other processes may wait for."""
        if self._folder.is_dir():
            self._own()
            _remove(self._folder / "current.json")
            for folder in self._folder.glob("data-*"):
                self._discard(folder)

    def close(self) -> None:
        with self._owning:
            if self._owner is None:
                return
            if not self._shared:
                self._process.close()
            elif (current := self._current()) is not None:
                RemoteRows(self._process, self._folder / current).shut()
            self._owner.release()
            self._owner = None

    def _rows(self) -> ChromaRows:
        current = self._current()
        if current is None:
            raise IndexLost("there is no Chroma index yet")
        self._own()
        return RemoteRows(self._process, self._folder / current)

    def _current(self) -> str | None:
        """The name of the folder that is in use."""
        try:
            name = json.loads((self._folder / "current.json").read_text(encoding="utf-8"))["data"]
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return name if isinstance(name, str) and re.fullmatch(r"data-\d{1,9}", name) else None

    def _own(self) -> None:
        """Be the one process that uses the folder."""
        with self._owning:
            if self._owner is not None:
                return
            make_folder(self._folder)
            lock = FileLock(self._folder / "owner.lock")
            if not lock.acquire(blocking=False):
                raise Busy(
                    "another process uses this Chroma index, and embedded it serves one at a time", hint=ONE_PROCESS
                )
            self._owner = lock

    def _discard(self, folder: Path) -> None:
        RemoteRows(self._process, folder).shut()
        _remove(folder)
        _remove(folder.with_name(folder.name + ".busy"))


def _number(name: str | None) -> int:
    return int(name.rpartition("-")[2]) if name else 0


def _remove(path: Path) -> None:
    try:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    except OSError as problem:
        raise cannot_write(path, problem) from problem


def _flush(folder: Path) -> None:
    """Make its files durable, which Chroma leaves to chance."""
    try:
        for path in folder.rglob("*"):
            if path.is_file():
                with path.open("rb+") as file:
                    os.fsync(file.fileno())
    except OSError as problem:
        raise cannot_write(folder, problem) from problem


def _write(path: Path, text: str) -> None:
    """Replace a file as a whole, durably."""
    beside = path.with_suffix(".new")
    try:
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as problem:
        raise cannot_write(path, problem) from problem


class ChromaServer(_ChromaIndex):
    """Collections on a Chroma server: an empty one with the index's name points to the current one.

    Removing is all that can be asked of a server: what stays in its files is its own matter.
    """

    shared = True

    def __init__(
        self, url: str, name: str, fingerprint: str, new_lock: NewLock, *, key: str = "", timeout: float = 30
    ) -> None:
        super().__init__(fingerprint, new_lock)
        self._name = name
        self._server = ChromaHttp(url, timeout, key)
        self._known: Rows | None = None

    def rebuild(self, rows: Iterable[VectorRows], watermark: int) -> None:
        old = self._current()
        new = f"{self._name}.{_count(old) + 1}"
        for made in self._made():
            if made != old:
                self._delete(made)
        state = State(self.fingerprint, watermark=-1, dimension=0, rows=0, dead=False)
        try:
            written = Rows(self._server.create_collection(new, asdict(state), {"hnsw": HNSW}))
            for part in rows:
                written.put(part)
            written.finish(watermark)
            self._point_to(new)
        except BaseException:
            self._delete(new)
            raise
        self._known = written
        if old is not None:
            self._delete(old)

    def erase(self) -> bool:
        return True

    def drop(self) -> None:
        self._forget()
        for name in (self._name, *self._made()):
            self._delete(name)

    def close(self) -> None:
        self._server.close()

    def _rows(self) -> ChromaRows:
        known = self._known
        if known is None:
            current = self._current()
            if current is None:
                raise IndexLost("the Chroma server has no such index yet")
            known = self._known = Rows(self._server.get_collection(current))
        return known

    def _forget(self) -> None:
        self._known = None

    def _current(self) -> str | None:
        """The name of the collection that is in use."""
        try:
            name = (self._server.get_collection(self._name).metadata or {}).get("current")
        except Gone:
            return None
        return name if isinstance(name, str) and name.startswith(f"{self._name}.") else None

    def _point_to(self, name: str) -> None:
        try:
            self._server.get_collection(self._name).modify(metadata={"current": name})
        except Gone:
            self._server.create_collection(self._name, {"current": name})

    def _made(self) -> list[str]:
        """The collections `name.<n>`: the current one, and those that whoever was killed left."""
        return [name for name in self._server.collections() if is_numbered(self._name, name)]

    def _delete(self, name: str) -> None:
        try:
            self._server.delete_collection(name)
        except Gone:
            return


def _count(name: str | None) -> int:
    last = name.rpartition(".")[2] if name else ""
    return int(last) if last.isdecimal() else 0
