"""Source code, exactly as written: offsets in the text are offsets in the file."""

from __future__ import annotations

from ragforge.domain.documents import Parsed, TextKind
from ragforge.ingest.parse.plain import decode, decode_notes
from ragforge.ingest.parse.text import bounded, clean


def parse(data: bytes, name: str) -> Parsed:
    text, guessed = decode(data)
    return Parsed(bounded(clean(text)), TextKind.CODE, notes=decode_notes(guessed))
