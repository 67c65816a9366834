"""Files on their way to a server."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

from ragforge.domain.cancel import Cancel
from ragforge.domain.library import FileResult, Outcome
from ragforge.errors import UserError

if TYPE_CHECKING:
    from ragforge.app import Paths

_FILES_AT_ONCE = 16
_BYTES_AT_ONCE = 32_000_000


class Reading(FileIO):
    """A file on its way, until that is cancelled."""

    def __init__(self, path: Path, cancel: Cancel) -> None:
        super().__init__(path)
        self._cancel = cancel

    def read(self, size: int | None = -1, /) -> bytes:
        self._cancel.check()
        return super().read(-1 if size is None else size)


def sent_as(path: Path) -> str:
    """The name under which the server knows a file."""
    from ragforge.ingest.accept import upload_name

    return upload_name(path.name)


def files_below(paths: Paths) -> tuple[list[Path], list[FileResult]]:
    """The files below these paths, and what cannot be read of them."""
    from ragforge.ingest.walk import Found, find_files

    files: dict[str, Path] = {}
    bad: list[FileResult] = []
    for each in find_files(paths, Path(os.devnull)):
        if not isinstance(each, Found):
            failure = each.failure
            bad.append(
                FileResult(each.path, Outcome.FAILED, None, 0, False, failure.reason, failure.message, failure.hint)
            )
            continue
        path = Path(each.path)
        name = sent_as(path)
        if files.setdefault(name, path) != path:
            raise UserError(
                f"two files are called {name!r}: {files[name]} and {path}",
                hint="over HTTP a file is known by its name: send one of them with upload(…, name=…)",
            )
    return list(files.values()), bad


def batches(paths: Sequence[Path]) -> Iterator[list[Path]]:
    batch: list[Path] = []
    size = 0
    for path in paths:
        own = path.stat().st_size if path.exists() else 0
        if batch and (len(batch) >= _FILES_AT_ONCE or size + own > _BYTES_AT_ONCE):
            yield batch
            batch, size = [], 0
        batch.append(path)
        size += own
    if batch:
        yield batch
