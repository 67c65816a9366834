"""What the parts of memory share: the words of a text, its sentences, and how a turn reads in a prompt."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from ragforge.domain.conversation import Rollup, Turn
from ragforge.domain.sentences import sentence_starts

Groups: TypeAlias = Sequence[tuple[str, ...]]
"""The telling words of a text, each with the terms that stand for it."""
Count: TypeAlias = Callable[[str], int]
"""Tokens of a text."""


class Words(NamedTuple):
    """How texts become terms; given by whoever knows the tokenizer, so that memory and search see the same words."""

    telling: Callable[[str], Groups]
    """The words that tell a text's subject, in order and once each; the first term of each is its stem."""
    terms: Callable[[Sequence[str]], Sequence[Sequence[str]]]
    """All terms of the pieces of one text."""

    def of(self, text: str) -> frozenset[str]:
        """Every term of a text."""
        return frozenset(self.terms([text])[0])

    def subject(self, text: str) -> frozenset[str]:
        """The stems of the telling words."""
        return frozenset(group[0] for group in self.telling(text))


WORD = re.compile(r"[^\W_](?:[\w.+#/@:'’-]*[\w+#])?")
"""A word, a name or a code as it is written."""
_MARKER = re.compile(r"[ \t]*(?:[-*+•>]|#{1,6}|\d{1,3}[.)])[ \t]+")
_CITATION = re.compile(r"(?<![ \t])[ \t]*\[\d{1,3}(?:, ?\d{1,3})*\]")
_FENCE = re.compile(r"[ \t]*(?:```|~~~)")
_ENDS = ".!?…。！？"


def uncited(text: str) -> str:
    """Without `[n]`: what it stood for is not in this prompt."""
    return _CITATION.sub("", text)


def sentences(text: str) -> list[str]:
    """The sentences of a text, each on a line of its own, without the marks of lists and headings."""
    found: list[str] = []
    for line in text.split("\n"):
        if _FENCE.match(line):
            continue
        start = marker.end() if (marker := _MARKER.match(line)) else 0
        borders = [start, *(at for at in sentence_starts(line, start, len(line)) if at < len(line)), len(line)]
        found += [piece for first, last in pairwise(borders) if (piece := line[first:last].strip())]
    return found


def shortened(text: str, characters: int) -> str:
    """The beginning of a text in one line, cut after a word and marked as cut."""
    flat = " ".join(text.split())
    if len(flat) <= characters:
        return flat
    return flat[:characters].rsplit(" ", 1)[0].rstrip(",;:–- ") + " …"


def closed(sentence: str) -> str:
    """A sentence that can stand before another."""
    return sentence if sentence.endswith(tuple(_ENDS)) else sentence + "."


def asked(turn: Turn) -> str:
    """The question as it can be understood."""
    return turn.standalone or turn.question


ASKED, ANSWERED = "Asked: ", "Answered: "


def whole(turn: Turn) -> str:
    """A turn as it goes into a prompt."""
    return f"{ASKED}{asked(turn).strip()}\n{ANSWERED}{uncited(turn.answer).strip()}"


def brief(turn: Turn) -> str:
    """A turn by its summary."""
    return f"{ASKED}{shortened(asked(turn), 200)}\n{ANSWERED}{turn.summary.strip()}"


def text_of(what: Turn | Rollup) -> str:
    """What is embedded and compared: all of a turn or of a rollup; of an interview's turn, what it came to."""
    if isinstance(what, Turn) and what.source == "discovery":
        return what.summary or what.question
    return f"{what.title}\n{what.text}" if isinstance(what, Rollup) else f"{asked(what)}\n{uncited(what.answer)}"
