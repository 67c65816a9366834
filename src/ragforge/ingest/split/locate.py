"""Where a piece stands: the headings, pages, times and speaker that hold for it, and its table's header."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right

from ragforge.domain.documents import Locator, Parsed
from ragforge.ingest.split.cuts import Cutter
from ragforge.ingest.split.outline import Outline

_FRAME = 6  # tokens of "[Source: ", "]" and the two an embedder adds around a text
_MAX_NAME = 64
_NAME_PIECE = re.compile(r"[A-Za-z]{1,4}|\d|[^\w\s]|_")
_MAX_HEADER = 4000  # characters; a longer table header is not repeated


class Guide:
    """Answers for one text what holds at an offset."""

    def __init__(self, parsed: Parsed, outline: Outline, cutter: Cutter, name: str, header_tokens: int) -> None:
        self._text = parsed.text
        self._marks = parsed.marks
        self._offsets = [mark.offset for mark in parsed.marks]
        self._headings = outline.headings
        self._heading_starts = [heading.start for heading in outline.headings]
        self._tables = outline.tables
        self._cutter = cutter
        self._header_tokens = header_tokens
        # A bound on the name's tokens, not a count of them: nothing is tokenised here.
        self._frame = _FRAME + min(_MAX_NAME, len(_NAME_PIECE.findall(name)) if name.isascii() else len(name))
        self._known: tuple[int, int] = (-2, 0)

    def lead(self, start: int) -> int:
        """How many tokens stand before a piece that begins at `start`: its breadcrumb and table header."""
        index = self._heading(start)
        if index != self._known[0]:
            self._known = (index, self._frame + self._path_tokens(index))
        tokens = self._known[1]
        if self._tables and (header := self._header_span(start)):
            tokens += self._cutter.count(*header)
        return tokens

    def header(self, start: int) -> str:
        """The header row and separator of the table that a piece begins inside of."""
        span = self._header_span(start) if self._tables else None
        return self._text[span[0] : span[1]] if span else ""

    def locator(self, start: int, end: int) -> Locator:
        index = self._heading(start)
        path = self._headings[index].path if index >= 0 else ()
        if not self._marks:
            return Locator(path)
        content = self._cutter.word_start(start, end)
        last = start + len(self._text[start:end].rstrip())
        held = self._marks[max(0, bisect_right(self._offsets, content) - 1) : bisect_left(self._offsets, last)]
        pages = [mark.page for mark in held if mark.page is not None]
        times = [mark for mark in held if mark.start is not None]
        ends = [mark.end if mark.end is not None else mark.start for mark in times]
        speakers = {mark.speaker for mark in held}
        return Locator(
            path,
            pages[0] if pages else None,
            pages[-1] if pages else None,
            times[0].start if times else None,
            ends[-1] if ends else None,
            speakers.pop() if len(speakers) == 1 else None,
        )

    def _heading(self, start: int) -> int:
        """The index of the heading in force; the piece at the very start may begin with blank lines."""
        return bisect_right(self._heading_starts, start or self._cutter.first) - 1

    def _path_tokens(self, index: int) -> int:
        tokens = 0
        while index >= 0:
            heading = self._headings[index]
            tokens += self._cutter.count(heading.title, heading.end) + 1
            index = heading.above
        return tokens

    def _header_span(self, start: int) -> tuple[int, int] | None:
        index = bisect_right(self._tables, (start, len(self._text), 0)) - 1
        if index < 0:
            return None
        table = self._tables[index]
        if not table.body <= start < table.end or table.body - table.start > _MAX_HEADER:
            return None
        span = table.start, table.body
        return span if self._cutter.count(*span) <= self._header_tokens else None
