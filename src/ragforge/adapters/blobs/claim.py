"""A place for files belongs to one catalog: two would clear away what only the other one knows."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Protocol

from ragforge.errors import StoreError

MARKER = "ragforge-catalog"
"""What lies in the place and says whose it is."""


class Marks(Protocol):
    """A place in which something can be marked."""

    def marked(self, name: str) -> str:
        """What stands under the name; empty if nothing does."""
        ...

    def mark(self, name: str, text: str) -> str:
        """What stands under the name: the text, if nothing did. Of many who come at once, one is the first."""
        ...


class Claim:
    """Made before something is stored or listed there, once in a process. Reading needs none."""

    def __init__(self, place: str, marks: Marks, identity: Callable[[], str] | None = None) -> None:
        """`identity` tells by what the catalog is known that uses the place."""
        self._place = place
        self._marks = marks
        self._identity = identity
        self._is_held = False
        self._lock = Lock()

    def __call__(self) -> None:
        if self._is_held or self._identity is None:
            return
        with self._lock:
            if not self._is_held:
                mine = self._identity()
                self._require(mine, self._marks.marked(MARKER) or self._marks.mark(MARKER, mine))
                self._is_held = True

    def require_free(self, identity: str) -> None:
        """Raises if it is not free for this catalog, and leaves it as it is."""
        self._require(identity, self._marks.marked(MARKER) or identity)

    def _require(self, mine: str, holder: str) -> None:
        if holder != mine:
            raise StoreError(
                f"{self._place} keeps the files of another catalog",
                hint=f"name another folder in store.blobs; if that catalog is gone for good, remove {MARKER} there",
            )
