"""Whether a server can work: each part says so for itself. Nothing here tells paths, for anybody may ask."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from ragforge.domain.library import Finding
from ragforge.errors import RagforgeError

LEAST_FREE_BYTES = 50_000_000


def ready(
    workspace: Path,
    indexes: Path,
    read_catalog: Callable[[], object],
    engine: Finding,
    find_embedder: Callable[[], object],
) -> Iterator[Finding]:
    """The catalog and what keeps it, the folder of the indexes, the disk, the embedder."""
    yield _tried("catalog", read_catalog, "it cannot be read")
    told = f"{engine.subject}: {engine.detail}"
    yield Finding("database", True, told if engine.ok else f"{told}; {engine.hint}")
    folder = indexes if indexes.exists() else workspace
    writable = os.access(folder, os.W_OK | os.X_OK)
    yield Finding("indexes", writable, "" if writable else "their folder cannot be written")
    yield _disk(workspace)
    yield _tried("embedder", find_embedder, "the model of the settings is not here")


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
