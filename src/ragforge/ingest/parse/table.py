"""Rows and columns (.csv, .tsv) as one Markdown table, a row on each line."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Literal

from ragforge.domain.documents import Parsed, TextKind
from ragforge.ingest.parse.plain import decode, decode_notes
from ragforge.ingest.parse.text import MAX_CHARACTERS, bounded, clean, too_large

_DELIMITERS = ",;\t|"
_SAMPLE_CHARACTERS = 65_536
_SAMPLE_ROWS = 100
_LONGEST_CELL_LINES = 200
_MOST_COLUMNS = 1_000
_MOST_TITLES = 5
_BREAKS = re.compile(r"[\r\n\v\f\x85\u2028\u2029]+")
_NUMBER = re.compile(r"[-+(]?[$€£¥]?\d[\d.,'\s]*+(?:[eE][-+]?\d+)?\s*[%)]?|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}")
_YEAR = re.compile(r"(?:19|20)\d\d")
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\r?\n', re.IGNORECASE)

csv.field_size_limit(MAX_CHARACTERS)


def parse(data: bytes, name: str) -> Parsed:
    text, guessed = decode(data)
    notes = decode_notes(guessed)
    declared = _SEPARATOR_LINE.match(text)
    text = text[declared.end() :] if declared else text
    delimiter = declared[1] if declared else _delimiter(text[:_SAMPLE_CHARACTERS], name)
    quoted = _quotes_close(text, delimiter)
    if not quoted:
        notes = (*notes, "a quote is opened and never closed: quotes kept as written")
    titles, width = _shape(_rows(text, delimiter, quoted))
    parts = titles
    if width:
        parts = [*titles, _table(islice(_rows(text, delimiter, quoted), len(titles), None), width)]
    return Parsed(bounded("\n\n".join(parts)), TextKind.TABLE, title=titles[0] if titles else None, notes=notes)


def _table(rows: Iterator[list[str]], width: int) -> str:
    """The rows as a table under their own header, or under numbered columns."""
    numbered = [f"column {number}" for number in range(1, width + 1)]
    first = list(islice(rows, 2))
    if not _has_header(first):
        return markdown_table(numbered, chain(first, rows))
    header = _trimmed(first[0])
    return markdown_table([*header, *numbered[len(header) :]], chain(first[1:], rows))


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table: header, separator, one line for each row. Cells at a row's end that are empty are left out."""
    lines = [_line(header), "|" + " --- |" * max(1, len(header))]
    length = 0
    for row in rows:
        line = _line(_trimmed(row))
        length += len(line) + 1
        if length > MAX_CHARACTERS:
            raise too_large()
        lines.append(line)
    return "\n".join(lines)


def cell(value: str) -> str:
    """A cell on one line, its bars escaped."""
    return clean(" ".join(map(str.strip, _BREAKS.split(value)))).strip().replace("|", "\\|")


def _line(row: Sequence[str]) -> str:
    return "| " + " | ".join(map(cell, row)) + " |"


def _trimmed(row: Sequence[str]) -> Sequence[str]:
    end = len(row)
    while end > 1 and not row[end - 1].strip():
        end -= 1
    return row[:end]


def _rows(text: str, delimiter: str | None, quoted: bool = True) -> Iterator[list[str]]:
    """Rows that hold anything. Without a delimiter every line is one cell."""
    if delimiter is None:
        yield from ([line] for line in text.splitlines() if line.strip())
        return
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    reader = csv.reader(_lines(text), delimiter=delimiter, quoting=quoting, skipinitialspace=delimiter != "\t")
    yield from (row for row in reader if any(map(str.strip, row)))


def _lines(text: str) -> Iterator[str]:
    """Lines with their ends, made one at a time: a copy of a large file would double its memory."""
    for match in re.finditer(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+\Z", text):
        yield match[0]


def _delimiter(sample: str, name: str) -> str | None:
    """The delimiter that gives most rows the same number of cells, at least two."""
    if len(sample) == _SAMPLE_CHARACTERS:
        sample = sample[: sample.rfind("\n") + 1] or sample
    scores: dict[str, float] = {}
    for delimiter in _DELIMITERS:
        widths = Counter(map(len, islice(_rows(sample, delimiter), _SAMPLE_ROWS)))
        if not widths:
            return delimiter
        width, rows = max(((width, rows) for width, rows in widths.items()), key=lambda pair: (pair[1], pair[0]))
        wide = sum(rows for width, rows in widths.items() if width > 1)
        if wide * 2 > widths.total():
            scores[delimiter] = rows / widths.total() + min(width, 20) / 100
    if "\t" in scores and name.lower().endswith((".tsv", ".tab")):
        return "\t"
    return max(scores, key=lambda delimiter: scores[delimiter]) if scores else None


def _quotes_close(text: str, delimiter: str | None) -> bool:
    """Whether no cell runs over so many lines that a stray quote must have opened it."""
    return (
        delimiter is None
        or '"' not in text
        or all(
            value.count("\n") <= _LONGEST_CELL_LINES
            for row in _rows(text, delimiter)
            for value in row
            if len(value) > 200
        )
    )


def _shape(rows: Iterator[list[str]]) -> tuple[list[str], int]:
    """Titles above the table (rows that fill one cell among wider ones), and the number of columns below them."""
    titles: list[str] = []
    width = 0
    for row in rows:
        filled = len(_trimmed(row))
        if not width and filled == 1 < len(row) and len(titles) < _MOST_TITLES:
            titles.append(cell(row[0]))
        else:
            width = max(width, filled)
    return titles, min(width, _MOST_COLUMNS)


def _has_header(rows: list[list[str]]) -> bool:
    """A first row of nothing but numbers above another such row is data, unless its numbers are years."""
    numeric = [all(_NUMBER.fullmatch(value.strip()) for value in row if value.strip()) for row in rows]
    if not numeric or not all(numeric) or len(rows) < 2:
        return True
    return all(_YEAR.fullmatch(value.strip()) for value in rows[0] if value.strip())
