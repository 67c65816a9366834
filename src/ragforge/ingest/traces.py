"""What to look for after a deletion, and the search for it in every byte of the workspace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ragforge.ingest import seek

_PHRASE = 24
_VECTOR_BYTES = 64


@dataclass(frozen=True, slots=True)
class Traces:
    """Byte strings that stand only in one document: phrases of its text, pieces of its vectors."""

    phrases: tuple[bytes, ...]
    vectors: tuple[bytes, ...]


def phrases(text: str, count: int) -> Iterator[str]:
    """Phrases spread over the text, each long enough to be telling."""
    usable = max(1, len(text) - _PHRASE)
    for place in range(count):
        start = usable * place // count
        phrase = text[start : start + _PHRASE]
        if len(phrase.strip()) >= min(_PHRASE, len(text)) - 4 and phrase.strip():
            yield phrase


def vector_piece(vector: bytes) -> bytes:
    """From the middle: enough numbers that no other vector has them. Empty if they are mostly zeros."""
    middle = len(vector) // 2 // 4 * 4
    piece = vector[middle : middle + _VECTOR_BYTES]
    return piece if piece.count(0) * 2 < len(piece) else b""


@dataclass(frozen=True, slots=True)
class Scan:
    """How much was read, and in which files each document's traces were found."""

    bytes: int
    found: dict[str, tuple[str, ...]]


def scan(root: Path, traces: dict[str, Traces]) -> Scan:
    """Look for the traces in every file under `root`. Files that vanish meanwhile hold nothing.

    Another process reads them: whoever closes a file loses all locks that its process has on it, also those by which
    SQLite keeps others from the catalog.
    """
    needles = [(document, n.hex()) for document, wanted in traces.items() for n in (*wanted.phrases, *wanted.vectors)]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "utf8", seek.__file__],
        input=json.dumps({"root": os.fspath(root), "needles": needles}).encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    told = json.loads(done.stdout)
    if "problem" in told:
        raise OSError(*told["problem"])
    return Scan(told["bytes"], {document: tuple(told["found"].get(document, ())) for document in traces})
