"""What to look for after a deletion, and the search for it in every byte of the workspace."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_PHRASE = 24
_VECTOR_BYTES = 64
_PIECE = 1 << 20


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
    """Look for the traces in every file under `root`. Files that vanish meanwhile hold nothing."""
    total = 0
    found: dict[str, list[str]] = {document: [] for document in traces}
    needles = [(document, n) for document, wanted in traces.items() for n in (*wanted.phrases, *wanted.vectors)]
    for path in sorted(_files(root)):
        try:
            with path.open("rb") as file:
                size, holders = _search(file, needles)
        except FileNotFoundError:
            continue
        total += size
        for document in holders:
            found[document].append(path.relative_to(root).as_posix())
    return Scan(total, {document: tuple(places) for document, places in found.items()})


def _files(root: Path) -> Iterator[Path]:
    """Every file, also while folders come and go. One that cannot be looked into would leave a hole in the proof."""

    def refuse(problem: OSError) -> None:
        if not isinstance(problem, FileNotFoundError):
            raise problem

    for folder, _, names in os.walk(root, onerror=refuse):
        yield from (path for name in names if (path := Path(folder, name)).is_file())


def _search(file: BinaryIO, needles: Sequence[tuple[str, bytes]]) -> tuple[int, set[str]]:
    """A file's size and the documents that have a needle in it. Read, not mapped: a log may be emptied meanwhile."""
    size, holders = 0, set[str]()
    overlap = max((len(needle) for _, needle in needles), default=1) - 1
    kept = b""
    while piece := file.read(_PIECE):
        size += len(piece)
        block = kept + piece
        holders.update(document for document, needle in needles if document not in holders and needle in block)
        kept = block[max(0, len(block) - overlap) :]
    return size, holders
