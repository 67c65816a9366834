"""The files of the local embedders are read once for all who use them in this process: nearly every command of a test
opens its workspace anew, and would read and hash them again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

import pytest

from ragforge.adapters.embedders.minilm import MiniLM
from ragforge.adapters.embedders.wordllama import WordLlama
from tests.proof import PROVING


class _Shared:
    """In the place of a `cached_property`: made for the first object, and for the next ones while its file is the
    same."""

    def __init__(self, make: Callable[[Any], object], file: str) -> None:
        self._make = make
        self._file = file
        self._lock = RLock()
        self._key: object = None
        self._made: object = None

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        path = getattr(instance, self._file)
        now = path.stat()
        key = path, now.st_ino, now.st_mtime_ns, now.st_size, instance.tokenizer.fingerprint
        with self._lock:
            if key != self._key:
                self._made, self._key = self._make(instance), key
            return self._made


@contextmanager
def shared() -> Iterator[None]:
    """While this lasts; full proofs read for themselves."""
    with pytest.MonkeyPatch.context() as patch:
        if not PROVING:
            for kind, file, parts in (
                (WordLlama, "_weights_path", ("card", "_weights")),
                (MiniLM, "_model_path", ("card", "_session")),
            ):
                for part in parts:
                    patch.setattr(kind, part, _Shared(vars(kind)[part].func, file))
        yield
