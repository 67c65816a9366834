"""Whether a server can work: each part says so for itself. Nothing here tells paths, for anybody may ask."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ragforge.domain.library import Finding
from ragforge.errors import RagforgeError, Unreachable

LEAST_FREE_BYTES = 50_000_000
_BELIEVED_SECONDS = 10.0
_WAIT_SECONDS = 0.5
_SILENT_SECONDS = 5.0
"""After which it is said that something does not answer."""


class Probe:
    """Whether something far away answers. It is asked in a thread, for who looks cannot wait; and not at every look."""

    def __init__(self, ask: Callable[[], object]) -> None:
        """`ask` raises if it does not answer."""
        self._ask = ask
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._asked = 0.0
        self._problem: RagforgeError | OSError | None = None

    def __call__(self, seconds: float | None = None) -> RagforgeError | OSError | None:
        """What is wrong, as far as it is known after so many seconds."""
        with self._lock:
            thread = self._thread
            if thread is None or (not thread.is_alive() and time.monotonic() - self._asked > _BELIEVED_SECONDS):
                thread = self._thread = threading.Thread(target=self._try, name="ragforge-probe", daemon=True)
                self._asked = time.monotonic()
                thread.start()
        patience = _WAIT_SECONDS if seconds is None else seconds
        thread.join(max(0.0, self._asked + patience - time.monotonic()))
        if thread.is_alive() and time.monotonic() - self._asked > _SILENT_SECONDS:
            return Unreachable("no answer came yet", hint="is it up?")
        return self._problem

    def _try(self) -> None:
        problem: RagforgeError | OSError | None = None
        try:
            self._ask()
        except (RagforgeError, OSError) as found:
            problem = found
        self._problem = problem


def ready(
    workspace: Path,
    indexes: Path,
    read_catalog: Callable[[], object],
    engine: Finding,
    find_embedder: Callable[[], object],
    storage: Probe | None,
) -> Iterator[Finding]:
    """The catalog and what keeps it, the folder of the indexes, the disk, the embedder, files that machines share."""
    yield _tried("catalog", read_catalog, "it cannot be read")
    told = f"{engine.subject}: {engine.detail}"
    yield Finding("database", True, told if engine.ok else f"{told}; {engine.hint}")
    folder = indexes if indexes.exists() else workspace
    writable = os.access(folder, os.W_OK | os.X_OK)
    yield Finding("indexes", writable, "" if writable else "their folder cannot be written")
    yield _disk(workspace)
    yield _tried("embedder", find_embedder, "the model of the settings is not here")
    if storage is not None:
        away = storage() is not None
        told = "cannot be reached: questions are answered, uploads are refused, jobs wait" if away else ""
        yield Finding("stored files", True, told, warning=away)


def stored_files(storage: Probe) -> Finding:
    """The same for who owns the workspace, who may know where they are and waits for it."""
    if (problem := storage(_SILENT_SECONDS + 1)) is None:
        return Finding("stored files", True, "shared; they answer")
    hint = problem.hint if isinstance(problem, RagforgeError) else "check store.blobs"
    return Finding("stored files", False, str(problem), hint)


def _disk(workspace: Path) -> Finding:
    try:
        free = shutil.disk_usage(workspace).free
    except OSError:
        return Finding("disk", False, "the workspace is not there")
    told = f"{free / 1e6:.0f} MB are free, {LEAST_FREE_BYTES / 1e6:.0f} are needed"
    return Finding("disk", free >= LEAST_FREE_BYTES, "" if free >= LEAST_FREE_BYTES else told)


def _tried(part: str, attempt: Callable[[], object], why: str) -> Finding:
    try:
        attempt()
    except (RagforgeError, OSError):
        return Finding(part, False, why)
    return Finding(part, True, "")
