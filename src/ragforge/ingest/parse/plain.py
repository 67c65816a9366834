"""Plain text in any encoding."""

from __future__ import annotations

from ragforge.domain.documents import Parsed
from ragforge.ingest.parse.encoding import decode
from ragforge.ingest.parse.text import bounded, clean

__all__ = ["decode", "decode_notes", "parse"]


def parse(data: bytes, name: str) -> Parsed:
    text, guessed = decode(data)
    return Parsed(bounded(clean(text)), notes=decode_notes(guessed))


def decode_notes(guessed: str | None) -> tuple[str, ...]:
    """The note that goes with a guessed encoding."""
    return (f"encoding guessed: {guessed}",) if guessed else ()
