"""Where to cut: the best place within a range of sizes, then the next best kind of place.

a boundary of blocks (heading, paragraph, item) in range
before a block of code that fits whole
inside the block there: a sentence, a row, a line
the nearest such place out of range
a word, when one sentence alone is too long
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ragforge.domain.sentences import cut_places
from ragforge.ingest.split.outline import CLOSER, GLUED, LINE, LINES, MIXED, NESTED, ROWS, SENTENCES, Outline

_NOT_SPACE = re.compile(r"\S")
_IDEOGRAPH = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_ELEMENT = re.compile(r"\n([ \t]*+<(?:tr|li|p|div|dt|h[1-6]|table|tbody|ul|ol|dl|section|article|details)\b)", re.I)
_LONGEST_END = 8  # characters from a full stop to the next sentence, mostly
_LONGEST_WORD = 1000
_CLOSERS = frozenset("}])`~")

Cut = tuple[int, int]
"""An offset and its rank."""


class Size(NamedTuple):
    """How long the pieces should be, in tokens; no piece under `floor` if it can be helped."""

    least: int
    most: int
    floor: int
    characters: int


class Range(NamedTuple):
    """Sizes of the piece to cut off, in tokens."""

    low: int
    high: int


class Cutter:
    """Cuts one text. Counts by bisection in the token offsets; nothing is tokenised."""

    __slots__ = ("_end", "_outline", "_text", "_tokens", "first")

    def __init__(self, text: str, outline: Outline, tokens: Sequence[int]) -> None:
        self._text = text
        self._outline = outline
        self._tokens = tokens
        self._end = len(text)
        self.first = self.word_start(0, self._end)
        """Where the text begins after leading blanks."""

    def count(self, start: int, end: int) -> int:
        """How many tokens begin in `text[start:end]`."""
        return bisect_left(self._tokens, end) - bisect_left(self._tokens, start)

    def reach(self, start: int, tokens: int) -> int:
        """The farthest offset with at most so many tokens from `start`; negative counts go back."""
        index = bisect_left(self._tokens, start) + tokens
        return self._end if index >= len(self._tokens) else self._tokens[max(index, 0)]

    def pieces(self, start: int, end: int, size: Size, lead: Callable[[int], int]) -> list[int]:
        """The starts of the pieces of `text[start:end]`; `lead(start)` tokens stand before each."""
        found = [start]
        while (cut := self._next(found[-1], end, size, lead)) < end:
            found.append(cut)
        return found

    def _next(self, start: int, end: int, size: Size, lead: Callable[[int], int]) -> int:
        rest = self.count(start, end)
        origin = start or self.first
        if rest <= size.most // 2 and end - origin <= size.characters:
            return end
        most = max(size.most - lead(start), size.most // 2)
        if rest <= most and end - origin <= size.characters:
            return end
        limit = min(self.reach(start, most), origin + size.characters, end - 1)
        ranges = _ranges(rest, most, size)
        for low, high in ranges:
            if cut := self.block(self.reach(start, low), min(self.reach(start, high), limit)):
                return cut
        low, high = (self.reach(start, tokens) for tokens in ranges[-1])
        farthest = min(high, limit)
        nearest = max(start + 1, low if low <= farthest else (start + farthest) // 2)
        return (
            self.block(nearest, farthest)
            or self._before_whole(start, farthest, end, most, size.floor)
            or self.inner(nearest, farthest)
            or self._nearest(start, nearest, farthest, limit, most, size.floor)
            or self.word_start(
                self._through_row(farthest, origin + size.characters) or self.word(nearest, farthest), end
            )
        )

    def block(self, low: int, high: int) -> int:
        """The best boundary of blocks in the range, the last of equals; 0 if there is none."""
        starts, ranks = self._outline.starts, self._outline.ranks
        first, last = bisect_left(starts, low), bisect_right(starts, high)
        if first >= last:
            return 0
        span = ranks[first:last]
        best = min(span)
        return 0 if best == GLUED else starts[first + span.rindex(best)]

    def inner(self, low: int, high: int) -> int:
        """The best place inside the blocks in the range, the last of equals; 0 if there is none."""
        return min(self.inner_cuts(low, high), key=lambda cut: (cut[1], -cut[0]), default=(0, 0))[0]

    def inner_cuts(self, low: int, high: int) -> Iterator[Cut]:
        """Every sentence, row or line that begins in the range, except at the start of its block."""
        outline = self._outline
        index = max(0, bisect_right(outline.starts, low - 1) - 1)
        while index < len(outline.starts) and outline.starts[index] <= high:
            start = outline.starts[index]
            end = outline.starts[index + 1] if index + 1 < len(outline.starts) else self._end
            grain = outline.grains[index]
            last = min(high, end - 1)
            if grain in (SENTENCES, MIXED):
                yield from self._sentences(max(start + 1, low), last)
            if grain == MIXED:
                elements = _ELEMENT.finditer(self._text, max(start, low - 1), last)
                yield from ((found.start(1), NESTED) for found in elements)
                yield from ((line, CLOSER) for line, _ in self._lines(max(start + 1, low), last, LINE))
            elif grain == LINES:
                yield from self._lines(max(start + 1, low), last, NESTED)
            elif grain == ROWS:
                yield from self._lines(max(self._second_row(start, end), low), last, LINE)
            index += 1

    def _sentences(self, low: int, high: int) -> Iterator[Cut]:
        for cut in cut_places(self._text, max(0, low - _LONGEST_END), high):
            if cut >= low and not self._text[cut].isspace():
                yield cut, LINE

    def _second_row(self, start: int, end: int) -> int:
        """The first place to cut a block of rows: a table's header keeps its first row."""
        tables = self._outline.tables
        index = bisect_left(tables, (start,))
        return 1 + (tables[index].body if index < len(tables) and tables[index].start < end else start)

    def _lines(self, low: int, high: int, after_blank: int) -> Iterator[Cut]:
        """Line starts; one after a blank line has the given rank, one that closes a block is the worst."""
        text = self._text
        at = text.find("\n", low - 1, high)
        while at >= 0:
            line = at + 1
            following = text[line : line + 100].lstrip(" \t")[:1]
            if following and following != "\n":
                blank = text[max(0, at - 100) : at].rstrip(" \t").endswith("\n")
                yield line, CLOSER if following in _CLOSERS else after_blank if blank else LINE
            at = text.find("\n", line, high)

    def _before_whole(self, start: int, farthest: int, end: int, most: int, floor: int) -> int:
        """The boundary before a block of code that the range ends in, if it fits into one piece."""
        outline = self._outline
        index = bisect_right(outline.starts, farthest) - 1
        if outline.grains[index] != LINES:
            return 0
        after = min(end, outline.starts[index + 1]) if index + 1 < len(outline.starts) else end
        while index > 0 and outline.ranks[index] == GLUED:
            index -= 1
        boundary = outline.starts[index]
        fits = boundary > start and self.count(start, boundary) >= floor and self.count(boundary, after) <= most
        return boundary if fits else 0

    def _nearest(self, start: int, nearest: int, farthest: int, limit: int, most: int, floor: int) -> int:
        """The place closest to the range that keeps every sentence whole; 0 where a word must do."""
        inner = max((cut for cut, _ in self.inner_cuts(start + 1, nearest)), default=0)
        before = max(inner, self._last_block(start, nearest))
        after = self._first(farthest + 1, limit)
        if after and (not before or self.count(start, before) < floor):
            return after
        if before and self.count(start, before) < floor:
            # What follows is longer than a piece by itself: better cut it than leave a scrap before it.
            return before if self._first(limit + 1, self.reach(before, most)) else 0
        return before

    def _first(self, low: int, high: int) -> int:
        """The first place in the range, of whatever kind; 0 if there is none."""
        starts, ranks = self._outline.starts, self._outline.ranks
        index = bisect_left(starts, low)
        while index < len(starts) and starts[index] <= high and ranks[index] == GLUED:
            index += 1
        block = starts[index] if index < len(starts) and starts[index] <= high else 0
        inner = min((cut for cut, _ in self.inner_cuts(low, high)), default=0)
        return min(block or inner, inner or block)

    def _last_block(self, low: int, high: int) -> int:
        starts, ranks = self._outline.starts, self._outline.ranks
        index = bisect_right(starts, high) - 1
        while index > 0 and starts[index] > low and ranks[index] == GLUED:
            index -= 1
        return starts[index] if index >= 0 and starts[index] > low else 0

    def _through_row(self, farthest: int, limit: int) -> int:
        """The end of the table row the range ends in: a row is only cut when it is longer than any piece may be."""
        index = bisect_right(self._outline.starts, farthest) - 1
        if self._outline.grains[index] != ROWS:
            return 0
        return self._text.find("\n", farthest, limit) + 1

    def word(self, low: int, high: int) -> int:
        """The last start of a word in the range, else its end."""
        text = self._text
        if text[high - 1].isspace() or _IDEOGRAPH.match(text, high) or _IDEOGRAPH.match(text, high - 1):
            return high
        words = text[max(low - 1, high - _LONGEST_WORD) : high].rsplit(None, 1)
        return high - len(words[1]) if len(words) == 2 else high

    def word_start(self, start: int, end: int) -> int:
        """The first offset from `start` on that is not blank; `end` if there is none."""
        found = _NOT_SPACE.search(self._text, start, end)
        return found.start() if found else end


def _ranges(rest: int, most: int, size: Size) -> list[Range]:
    """Sizes to try in order. When two pieces remain both must get a fair share."""
    least = min(size.least, most * 3 // 5)
    if rest >= least + most or rest <= most:
        return [Range(max(least, 1), most)]
    share = max(1, min((least + min(size.floor, least)) // 2, rest // 2))
    wide = Range(max(rest - most, share), min(most, rest - share))
    return [Range(max(rest - most, least), rest - least), wide] if rest >= 2 * least else [wide]
