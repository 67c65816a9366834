"""The process in which embedded Chroma runs: it may crash, hang or fill the disk, and only it does.

It reads requests from standard input, answers on standard output, and ends when its parent does. While it works on a
folder a file beside it says so: a call that never came back leaves that file, and the folder is not trusted again.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ragforge.adapters.locks import FileLock
from ragforge.adapters.vectors import chroma_pipe
from ragforge.adapters.vectors.chroma_pipe import Array
from ragforge.adapters.vectors.chroma_rows import HNSW, Gone, Rows, State
from ragforge.domain.retrieval import Allowed, VectorRows
from ragforge.errors import BadVectors, Busy, IndexLost, RagforgeError

LOCK = "engine.lock"
_COLLECTION = "rows"
_LEAST_FILE_LIMIT = 512 << 20
_TIMES_THE_VECTORS = 8
_PATIENCE_SECONDS = 5.0
"""For the child of a process that was killed: it ends after the call it works on."""

Facts = dict[str, Any]
Answer = tuple[Facts, list[Array]]


def busy_file(folder: Path) -> Path:
    """What lies beside a folder while a call works on it."""
    return folder.with_name(folder.name + ".busy")


def main() -> None:
    """Answer until the parent closes the pipe; what Chroma prints goes nowhere."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(nowhere, number)
    child = Child()
    try:
        while True:
            facts, arrays = chroma_pipe.receive(requests)
            _end_after(2 * facts["seconds"] + 1)  # the parent does, if it lives
            answer = _answer(child, facts, arrays)
            _end_after(0)
            chroma_pipe.send(answers, *answer)
    except chroma_pipe.Closed:
        child.close()


def _answer(child: Child, facts: Facts, arrays: list[Array]) -> Answer:
    try:
        return child.answer(facts["operation"], Path(facts["folder"]), facts, arrays)
    except RagforgeError as problem:
        return {"error": _KINDS.get(type(problem), "lost"), "message": problem.message}, []
    except Exception as problem:  # whatever Chroma raises: the parent decides what that means
        return {"error": "failed", "message": f"{type(problem).__name__}: {problem}"[:1_000]}, []


_KINDS: dict[type[RagforgeError], str] = {Busy: "busy", BadVectors: "bad", Gone: "gone"}


class Child:
    """Chroma's folders that are open here. Several indexes may share one child."""

    def __init__(self) -> None:
        self._open: dict[Path, tuple[Any, Rows]] = {}
        self._locks: dict[Path, FileLock] = {}
        self._limit = 0
        self._allow(0, 0)

    def answer(self, operation: str, folder: Path, facts: Facts, arrays: list[Array]) -> Answer:
        if operation == "shut":
            return self._shut(folder)
        self._own(folder.parent)
        busy = busy_file(folder)
        if busy.exists():
            raise IndexLost("Chroma was interrupted while it worked on this index")
        busy.touch()
        try:
            if operation == "create":
                answer = self._create(folder, facts["fingerprint"])
            else:
                rows = self._rows(folder)
                if operation == "put":
                    self._allow(rows.count() + len(arrays[0]), arrays[2].shape[1])
                answer = _OPERATIONS[operation](rows, facts, arrays)
        except RagforgeError:  # our own words: Chroma did nothing wrong
            busy.unlink(missing_ok=True)
            raise
        busy.unlink(missing_ok=True)
        return answer

    def close(self) -> None:
        for folder in list(self._open):
            self._shut(folder)

    def _own(self, parent: Path) -> None:
        """Be the only process that works on these folders."""
        if parent in self._locks:
            return
        lock = FileLock(parent / LOCK)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not lock.acquire(blocking=False):
            if time.monotonic() > deadline:
                raise Busy("another process works on this index")
            time.sleep(0.05)
        self._locks[parent] = lock

    def _create(self, folder: Path, fingerprint: str) -> Answer:
        client = _client(folder)
        state = State(fingerprint, watermark=-1, dimension=0, rows=0, dead=False)
        collection = client.create_collection(
            _COLLECTION, metadata=asdict(state), embedding_function=None, configuration={"hnsw": HNSW}
        )
        self._open[folder] = client, Rows(collection)
        return {}, []

    def _rows(self, folder: Path) -> Rows:
        if folder not in self._open:
            if not folder.is_dir():  # Chroma would make an empty one
                raise Gone("there is no Chroma index")
            client = _client(folder)
            rows = Rows(client.get_collection(_COLLECTION, embedding_function=None))
            self._open[folder] = client, rows
            state = rows.state()
            self._allow(state.rows, state.dimension)
        return self._open[folder][1]

    def _shut(self, folder: Path) -> Answer:
        """Close the folder, and let others work beside it once no other there is open."""
        if folder in self._open:
            self._open.pop(folder)[0].close()
        if all(other.parent != folder.parent for other in self._open) and folder.parent in self._locks:
            self._locks.pop(folder.parent).release()
        return {}, []

    def _allow(self, rows: int, dimension: int) -> None:
        """No file may grow far beyond what its rows need: a damaged graph was seen to write 247 GB."""
        limit = max(_LEAST_FILE_LIMIT, _TIMES_THE_VECTORS * rows * dimension * 4)
        if limit > self._limit:
            self._limit = limit
            _limit_files(limit)


def _state(rows: Rows, facts: Facts, arrays: list[Array]) -> Answer:
    return asdict(rows.state()), []


def _put(rows: Rows, facts: Facts, arrays: list[Array]) -> Answer:
    rows.put(VectorRows(*arrays))
    return {}, []


def _remove(rows: Rows, facts: Facts, arrays: list[Array]) -> Answer:
    rows.remove(*arrays)
    return {}, []


def _finish(rows: Rows, facts: Facts, arrays: list[Array]) -> Answer:
    rows.finish(facts["watermark"])
    return {}, []


def _keys(rows: Rows, facts: Facts, arrays: list[Array]) -> Answer:
    return {}, [rows.keys()]


def _page(rows: Rows, facts: Facts, arrays: list[Array]) -> Answer:
    page = rows.page(facts["offset"], facts["limit"])
    return {}, [page.keys, page.documents, page.vectors]


def _vectors(rows: Rows, facts: Facts, arrays: list[Array]) -> Answer:
    return {}, list(rows.vectors(*arrays))


def _search(rows: Rows, facts: Facts, arrays: list[Array]) -> Answer:
    query, documents, hidden = arrays
    allowed = Allowed(documents if facts["filtered"] else None, facts["deny"], hidden)
    found = rows.search(query, facts["k"], allowed)
    return {}, [found.keys, found.scores]


_OPERATIONS: dict[str, Callable[[Rows, Facts, list[Array]], Answer]] = {
    "state": _state,
    "put": _put,
    "remove": _remove,
    "finish": _finish,
    "keys": _keys,
    "page": _page,
    "vectors": _vectors,
    "search": _search,
}


def _client(folder: Path) -> Any:
    import chromadb
    from chromadb.config import Settings

    return chromadb.PersistentClient(str(folder), settings=Settings(anonymized_telemetry=False))


def _limit_files(limit: int) -> None:
    if sys.platform == "win32":  # there is no such limit there
        return
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _end_after(seconds: float) -> None:
    """End the process if it still works then, even inside Chroma; 0: never mind."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_REAL, seconds)
