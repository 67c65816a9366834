"""What an answer rests on: answers bring it, and conversations keep it."""

from __future__ import annotations

from dataclasses import dataclass

from ragforge.domain.documents import Locator


@dataclass(frozen=True, slots=True)
class Citation:
    """A marker in the answer, and the words of the passage that bear it out."""

    marker: int
    chunk: str
    document: str
    name: str
    locator: Locator
    quote: str
    start: int
    end: int
    """Where the marker stands in the answer's text."""
    proved: bool
    """Whether the sentence's words, numbers and names are in the passage."""
    reason: str = ""
    """What is missing there, if it is not proved."""
