"""Overlapping windows of characters or tokens, along the text's own boundaries where they lie in range."""

from __future__ import annotations

import re

from ragforge.domain.strategy import Window
from ragforge.ingest.split.cuts import Cutter

_WORD = re.compile(r"(?<=\s)\S")


def windows(text: str, cutter: Cutter, window: Window, *, by_tokens: bool) -> list[tuple[int, int]]:
    """Start and end of each window; together they cover the text."""
    found: list[tuple[int, int]] = []
    content_end = len(text.rstrip())
    start = 0
    while True:
        origin = start or cutter.first
        if _reach(cutter, origin, window.most, by_tokens) >= content_end:
            found.append((start, len(text)))
            return found
        end = _end(cutter, origin, window, content_end, by_tokens)
        found.append((start, end))
        start = _overlap(text, cutter, start, end, window, by_tokens)


def _reach(cutter: Cutter, start: int, amount: int, by_tokens: bool) -> int:
    return cutter.reach(start, amount) if by_tokens else start + amount


def _end(cutter: Cutter, start: int, window: Window, content_end: int, by_tokens: bool) -> int:
    low = _reach(cutter, start, window.least, by_tokens)
    high = _reach(cutter, start, window.most, by_tokens)
    # The last window should bring more than what it repeats.
    fair = min(high, max(low, _reach(cutter, content_end, -window.overlap_most, by_tokens)))
    for farthest in (fair, high):
        if end := cutter.block(low, farthest) or cutter.inner(low, farthest):
            return end
    return cutter.word_start(cutter.word(low, fair), content_end)


def _overlap(text: str, cutter: Cutter, before: int, end: int, window: Window, by_tokens: bool) -> int:
    """Where the next window begins: a sentence or block in the range of the overlap, else a word."""
    low = max(before + 1, _reach(cutter, end, -window.overlap_most, by_tokens))
    high = max(low, _reach(cutter, end, -window.overlap_least, by_tokens))
    start = cutter.block(low, high) or min((cut for cut, _ in cutter.inner_cuts(low, high)), default=0)
    if not start:
        word = _WORD.search(text, low, high + 1)
        start = word.start() if word else low
    return cutter.word_start(start, end)
