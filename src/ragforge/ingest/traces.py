"""What to look for after a deletion, and the search for it in every byte of the workspace."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

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


def scan(root: Path, traces: dict[str, Traces], skip: Sequence[str] = ()) -> Scan:
    """Look for the traces in every file under `root`. Files that vanish meanwhile hold nothing."""
    total = 0
    found: dict[str, list[str]] = {document: [] for document in traces}
    for path in _files(root, skip):
        try:
            with path.open("rb") as file:
                size = file.seek(0, 2)
                if size == 0:
                    continue
                total += size
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                    for document, wanted in traces.items():
                        if any(content.find(needle) >= 0 for needle in (*wanted.phrases, *wanted.vectors)):
                            found[document].append(path.relative_to(root).as_posix())
        except FileNotFoundError:
            continue
    return Scan(total, {document: tuple(places) for document, places in found.items()})


def _files(root: Path, skip: Sequence[str]) -> Iterable[Path]:
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.relative_to(root).parts[0] not in skip:
            yield path
