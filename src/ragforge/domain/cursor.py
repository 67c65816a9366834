"""Where a page of a list ended."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Cursor:
    """At the item with this id; should that be gone by now, at its moment."""

    at: datetime
    id: str

    def __str__(self) -> str:
        """As it stands in an address."""
        return urlsafe_b64encode(f"{self.at.isoformat()} {self.id}".encode()).decode().rstrip("=")

    @classmethod
    def parsed(cls, text: str) -> Cursor:
        """The same the other way round. Raises `ValueError` for what is none."""
        at, _, id = urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode().partition(" ")
        try:
            return cls(datetime.fromisoformat(at).astimezone(UTC), id)
        except OverflowError as problem:  # a time zone beyond the first or the last day
            raise ValueError(at) from problem
