"""Texts that must fit: whole where there is room, in a few words where there is less."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Count = Callable[[str], int]
"""Tokens of a text."""
Fence = Callable[[str, str], str]
"""What it is, and its text: as data that no text inside can end."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """What there was room for, by name."""

    texts: dict[str, str]
    short: int
    """How many of them are in their short form."""


def fitted(items: Sequence[tuple[str, str, str]], room: int, count: Count) -> Fitted:
    """Of (name, text, short text), the most important first: all whole if they fit, else short, the first ones whole.

    What has no room even in its short form is not among the texts: whoever asked names it in another way.
    """
    whole = [count(text) + 1 for _, text, _ in items]
    if sum(whole) <= room:
        return Fitted({name: text for name, text, _ in items}, 0)
    brief = [min(count(short) + 1, size) for (_, _, short), size in zip(items, whole, strict=True)]
    left, kept = room, 0
    while kept < len(items) and brief[kept] <= left:
        left -= brief[kept]
        kept += 1
    texts: dict[str, str] = {}
    shortened_ones = 0
    for (name, text, short), size, small in zip(items[:kept], whole, brief, strict=False):
        if size - small <= left:
            texts[name] = text
            left -= size - small
        else:
            texts[name] = short
            shortened_ones += 1
    return Fitted(texts, shortened_ones)


def shortened(text: str, words: int) -> str:
    """The first words of a text, marked as cut."""
    split = text.split()
    return " ".join(split) if len(split) <= words else " ".join(split[:words]) + " …"


def capitalised(sentence: str) -> str:
    """With a capital at its beginning; iPhone stays."""
    return sentence if sentence[1:2].isupper() else sentence[:1].upper() + sentence[1:]


def squeezed(text: str, room: int, count: Count) -> str:
    """The beginning and the end of a text within a number of tokens; what is left out in between is marked."""
    if count(text) <= room:
        return text
    words = text.split()
    low, high = 0, len(words)
    while low < high:  # the most words that fit
        middle = (low + high + 1) // 2
        if count(_ends(words, middle)) <= room:
            low = middle
        else:
            high = middle - 1
    if low:
        return _ends(words, low)
    low, high = 0, len(text)  # one word without a space may be longer than all the room
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[:middle]) <= room else (low, middle - 1)
    return text[:low]


def _ends(words: Sequence[str], kept: int) -> str:
    if kept >= len(words):
        return " ".join(words)
    tail = kept // 3
    return " ".join((*words[: kept - tail], "[…]", *(words[-tail:] if tail else ())))
