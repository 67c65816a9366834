"""The last few results, for questions that are asked again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Recent(Generic[Value]):
    """Keeps the values used last, up to a number. The key holds all that a value depends on, so none is ever stale."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Value | None:
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key]

    def put(self, key: Hashable, value: Value) -> None:
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._size:
                self._values.popitem(last=False)

    def forget(self, first: object) -> None:
        """Drop what has a key that begins so."""
        with self._lock:
            for key in [key for key in self._values if isinstance(key, tuple) and key[0] == first]:
                del self._values[key]

    def __len__(self) -> int:
        return len(self._values)
