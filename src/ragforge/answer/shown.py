"""Quotations as people read them: a row of a table with the names of its columns, a list as a list, code as code.

Nothing is said that is not in the source; what was left out at the ends of a long sentence shows as an ellipsis.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from textwrap import dedent
from typing import NamedTuple

from ragforge.answer.quote import Quoted
from ragforge.answer.units import Span, Unit, continues, is_item, is_row, units
from ragforge.domain.prompts import Source

_LINK = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\s]*\)(?:\{[^{}\n]*\})?")
_MARKS = r"\[\d{1,9}\](?:[,; \t]*\[\d{1,9}\])*"
_FOREIGN_MARKS = re.compile(rf"(?<![ \t])[ \t]*(?:\({_MARKS}\)|{_MARKS})")
"""Notes of the document itself: here they would seem to be ours."""
_STRONG = re.compile(r"(?<![\w*_])(\*{1,3}|_{1,3})(?=\S)([^*_\n]+?)(?<=\S)\1(?![\w*_])")
_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)
_CELL = re.compile(r"(?<!\\)\|")
_KEY = re.compile(r"[^.!?\n]{1,40}:")
"""A line that is the name of what is set in below it."""
_CLAIM = 3
"""A sentence of fewer words, such as a yes, needs no marker of its own."""


class _Part(NamedTuple):
    """A unit, as far as it is quoted."""

    text: str
    unit: Unit
    start: int
    end: int

    @property
    def quoted(self) -> str:
        return self.text[self.start : self.end]

    @property
    def is_whole(self) -> bool:
        return self.start == self.unit.start and self.end == self.unit.end


def shown(quotes: Sequence[Quoted], sources: Sequence[Source]) -> str:
    """The quotations as one answer, in paragraphs, each with the marker of its source."""
    texts = {source.number: source.text for source in sources}
    paragraphs: list[tuple[Quoted, list[_Part]]] = []
    for quote in quotes:
        parts = list(_parts(texts[quote.source], quote))
        if paragraphs and paragraphs[-1][0].source == quote.source and _goes_on(paragraphs[-1][1][-1], parts[0]):
            paragraphs[-1][1].extend(parts)
        else:
            paragraphs.append((quote, parts))
    return "\n\n".join(_paragraph(parts, f"[{quote.source}]") + _more(quote) for quote, parts in paragraphs)


def _more(quote: Quoted) -> str:
    return f"\n- … and {quote.more} more" if quote.more else ""


def _parts(text: str, quote: Quoted) -> Iterator[_Part]:
    for unit in units(text):
        if unit.start < quote.end and quote.start < unit.end:
            yield _Part(text, unit, max(unit.start, quote.start), min(unit.end, quote.end))


def _goes_on(part: _Part, following: _Part) -> bool:
    """Whether two sentences stand next to each other."""
    both = (part, following)
    if part.unit.leads or any(each.unit.code or is_row(each.text, each.unit) for each in both):
        return False
    return part.text[part.end : following.start] in (" ", "\n")


def _paragraph(parts: Sequence[_Part], marker: str) -> str:
    first, *rest = parts
    if first.unit.leads and rest and rest[0].unit.code:
        return f"{_line(first)} {marker}\n{_fenced(rest)}"
    if first.unit.leads and rest and all(map(_is_item, rest)):
        return "\n".join((_line(first), *_bullets(rest, marker)))
    if first.unit.code and "\n" in first.quoted:
        return f"{_fenced(parts)}\n{marker}"
    if _begins_item(first) and any(map(_begins_item, rest)):
        return "\n".join(_bullets(parts, marker))
    lines = [_line(part) for part in parts]
    return " ".join(f"{line} {marker}" if len(line.split()) >= _CLAIM or line is lines[-1] else line for line in lines)


def _bullets(parts: Sequence[_Part], marker: str) -> list[str]:
    """One for each item, with all its sentences."""
    lines: list[str] = []
    for part in parts:
        said = f"{_line(part, inside=True)} {marker}"
        if lines and continues(part.text, part.unit):
            lines[-1] += f" {said}"
        else:
            lines.append(f"- {said}")
    return lines


def _begins_item(part: _Part) -> bool:
    return is_row(part.text, part.unit) or is_item(part.text, part.unit)


def _is_item(part: _Part) -> bool:
    """Whether it is an item of a list, a row, or set in."""
    return is_row(part.text, part.unit) or part.text[part.text.rfind("\n", 0, part.start) + 1 : part.start] != ""


def _line(part: _Part, *, inside: bool = False) -> str:
    """A unit in one line; with the keys it is set under, unless those are shown."""
    if part.unit.code:
        return f"`{' '.join(part.quoted.split())}`"
    if is_row(part.text, part.unit):
        return _row(part)
    words = f"{'' if part.start == part.unit.start else '… '}{_prose(part.quoted)}"
    words += "" if part.end == part.unit.end else " …"
    keys = [] if inside else [part.text[slice(*span)] for span in part.unit.under]
    return " ".join((*(key for key in keys if _KEY.fullmatch(key)), words))


def _row(part: _Part) -> str:
    """The cells of a row, each after the name of its column."""
    cells = _cells(part.quoted)
    header = next((span for span in reversed(part.unit.above) if part.text[span[0]] == "|"), None)
    if header is None or not part.is_whole:
        return ", ".join(filter(None, cells)) + ("" if part.is_whole else " …")
    names = _cells(part.text[slice(*header)])
    names += [""] * (len(cells) - len(names))
    return "; ".join(f"{name}: {cell}" if name else cell for name, cell in zip(names, cells, strict=False) if cell)


def _cells(row: str) -> list[str]:
    return [_prose(cell).replace("\\|", "|") for cell in _CELL.split(row.strip().strip("|"))]


def _fenced(parts: Sequence[_Part]) -> str:
    lines = [_with_indent(part.text, (part.start, part.end)) for part in parts]
    return f"```\n{dedent(chr(10).join(lines))}\n```"


def _with_indent(text: str, span: Span) -> str:
    begin = text.rfind("\n", 0, span[0]) + 1
    return text[begin if not text[begin : span[0]].strip() else span[0] : span[1]]


def _prose(text: str) -> str:
    """Without links, notes and emphasis of the document's own, in one line; what is code stays as it is."""
    pieces = text.split("`")
    pieces[::2] = [
        _STRONG.sub(r"\2", _FOREIGN_MARKS.sub("", _LINK.sub(r"\1", _BREAK.sub(" ", piece)))) for piece in pieces[::2]
    ]
    return " ".join("`".join(pieces).split())
