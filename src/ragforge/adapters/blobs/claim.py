"""A place for files belongs to one catalog: two would clear away what only the other one knows.

The catalog leaves a mark in the place, and remembers that it did: where the mark is missing later, that is another
folder, the one on which a share is to be mounted, or what was in it is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Protocol

from ragforge.errors import StoreError, Unreachable

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

    def is_marked(self, name: str) -> bool:
        """Whether something still stands under the name, where the place could have gone since: a look that costs
        next to nothing."""
        ...


class Claimant(Protocol):
    """A catalog, as far as it uses the place."""

    def identity(self) -> str: ...
    def has_claimed(self, place: str) -> bool: ...
    def note_claim(self, place: str) -> None: ...


class Claim:
    """Made before something is stored or listed there. Reading needs none."""

    def __init__(self, place: str, marks: Marks, catalog: Callable[[], Claimant] | None = None) -> None:
        """`catalog` is that which uses the place; without one nothing is claimed."""
        self._place = place
        self._marks = marks
        self._catalog = catalog
        self._is_held = False
        self._lock = Lock()

    def __call__(self) -> None:
        if self._catalog is None or (self._is_held and self._marks.is_marked(MARKER)):
            return
        with self._lock:
            catalog = self._catalog()
            mine, is_known = catalog.identity(), catalog.has_claimed(self._place)
            self._require(mine, self._marked(mine, is_known) or self._marks.mark(MARKER, mine))
            if not is_known:
                catalog.note_claim(self._place)
            self._is_held = True

    def look(self) -> None:
        """Raises if it was claimed, and is not that place any more. Claims nothing."""
        if self._catalog is not None and (catalog := self._catalog()).has_claimed(self._place):
            mine = catalog.identity()
            self._require(mine, self._marked(mine, is_known=True))

    def require_free(self, identity: str) -> None:
        """Raises if it is not free for this catalog, and leaves it as it is."""
        self._require(identity, self._marked(identity, is_known=False) or identity)

    def _marked(self, mine: str, is_known: bool) -> str:
        """Whose it is, as it says itself; empty if it is nobody's yet."""
        holder = self._marks.marked(MARKER).strip()  # a person may have written it
        if is_known and not holder:
            raise Unreachable(
                f"{self._place} is not mounted, or was emptied: it has no file {MARKER}, which was left there",
                hint=f"mount it; if it was emptied or moved on purpose, write {mine} into a file {MARKER} there",
            )
        return holder

    def _require(self, mine: str, holder: str) -> None:
        if holder != mine:
            raise StoreError(
                f"{self._place} keeps the files of another catalog",
                hint=f"name another folder in store.blobs; if that catalog is gone for good, remove {MARKER} there",
            )
