"""How a message is heard: words, sentences, questions."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import pairwise

from ragforge.discover.knowledge import Stems
from ragforge.domain.sentences import sentence_starts


@dataclass(frozen=True, slots=True)
class Ears:
    """How texts become words; given by whoever knows the tokenizer."""

    stems: Stems
    """All terms of a text, in their order."""
    subject: Callable[[str], Collection[str]]
    """The stems of its telling words."""
    casual: Callable[[str], bool]
    """Whether it is a greeting, thanks, a bare yes."""


_MARKER = re.compile(r"[ \t]*(?:[-*+•>]|#{1,6}|\d{1,3}[.)])[ \t]+")


def statements(message: str) -> list[str]:
    """Its sentences, one by one, without the marks of lists; an item is told with the line that announces its list."""
    found: list[str] = []
    lead, announced = "", False
    for line in (*message.split("\n"), "end"):
        marker = _MARKER.match(line)
        if lead and not marker and line.strip():
            found += [] if announced else [lead]  # it announced nothing
            lead, announced = "", False
        start = marker.end() if marker else 0
        borders = [start, *(at for at in sentence_starts(line, start, len(line)) if at < len(line)), len(line)]
        pieces = [piece for first, last in pairwise(borders) if (piece := line[first:last].strip())]
        if marker and lead and pieces:
            pieces[0], announced = f"{lead} {pieces[0]}", True
        elif not marker and pieces and pieces[-1].endswith(":"):
            lead = pieces.pop()
        found += pieces
    return found[:-1]


def is_quotable(sentence: str) -> bool:
    """Whether a sentence of a document can stand by itself."""
    whole = bool(re.match(r"[A-ZÀ-Þ0-9“„]", sentence)) and "](" not in sentence and "://" not in sentence
    return whole and not asks(sentence) and 5 <= len(sentence.split()) <= 60


def asks(statement: str) -> bool:
    """Whether it is a question; “Honestly?” is none."""
    return statement.rstrip('*_ )"”').endswith("?") and len(statement.split()) > 1


def only_asks(message: str) -> bool:
    """Whether a person asks something instead of saying something."""
    said = statements(message)
    return bool(said) and all(map(asks, said))


def shorter(text: str, characters: int) -> str:
    """The beginning of a text, cut after a word and marked as cut."""
    if len(text) <= characters:
        return text
    return text[: characters - 2].rsplit(" ", 1)[0] + " …"
