"""Text for terminals and programs: escaping, colours, tables, JSON, messages.

Names and texts come from files and may hold anything, so nothing is printed without `plain` or `json_text`.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from ragforge.interfaces.records import HIDDEN, json_text

_HIDDEN_IN_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")

_COLOURS = {"red": "31", "green": "32", "yellow": "33", "dim": "2", "bold": "1"}


def plain(text: str) -> str:
    """One line that is safe to print: control characters become visible escapes such as `\\x1b`."""
    return HIDDEN.sub(_visible, text)


def plain_text(text: str) -> str:
    """Several lines that are safe to print: line ends and tabs stay."""
    return _HIDDEN_IN_TEXT.sub(_visible, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """A text as one safe line."""
    return plain(" ".join(text.split()))


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a file name that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def print_data(text: str = "") -> None:
    """A line of data, on stdout."""
    sys.stdout.write(text + "\n")


def print_json(value: object) -> None:
    """A line of JSON on stdout, sent at once so that a reader can follow."""
    print_data(json_text(value))
    sys.stdout.flush()


def say(text: str) -> None:
    """A message for people, on stderr."""
    sys.stdout.flush()
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def say_error(code: str, message: str, hint: str, *, as_json: bool) -> None:
    """One sentence what is wrong, one what to do next; JSON for programs."""
    if as_json:
        say(json_text({"error": {"code": code, "message": message, "hint": hint}}))
        return
    say(f"{paint('Error:', 'red', sys.stderr)} {one_line(message)}")
    if hint:
        say(f"{paint('Next:', 'bold', sys.stderr)} {plain(hint)}")


def paint(text: str, colour: str, stream: TextIO | None = None) -> str:
    """The text in a colour, if the stream is a terminal that wants colours."""
    stream = stream or sys.stdout
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if wanted and text else text


def width_of_terminal() -> int | None:
    """Columns of the terminal on stdout; None when it is a file or a pipe, where nothing is cut."""
    if os.environ.get("COLUMNS", "").isdecimal():
        return max(20, int(os.environ["COLUMNS"]))
    return max(20, shutil.get_terminal_size().columns) if sys.stdout.isatty() else None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. On a terminal it is at most `most` wide, and may be cut down to `least`, or be `dropped`."""

    title: str
    align_right: bool = False
    least: int = 0
    most: int = 0
    dropped: bool = False


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """The lines of a table, header first, fitted into `width` cells. Wide characters count as two."""
    from rich.cells import cell_len

    cells = [[plain(cell) for cell in row] for row in rows]
    widths = [
        max(cell_len(column.title), *(cell_len(row[index]) for row in cells)) if cells else cell_len(column.title)
        for index, column in enumerate(columns)
    ]
    kept = list(range(len(columns)))
    if width is not None:
        kept = _fitted(columns, widths, kept, width)
    shown = [[columns[index].title.upper() for index in kept], *([row[index] for index in kept] for row in cells)]
    return [_line(row, [(columns[index], widths[index]) for index in kept]) for row in shown]


def _fitted(columns: Sequence[Column], widths: list[int], kept: list[int], width: int) -> list[int]:
    """Cut columns that may be cut, the rightmost first; then drop those that may be dropped. Changes `widths`."""

    def excess() -> int:
        return sum(widths[i] for i in kept) + 2 * (len(kept) - 1) - width

    for index, column in enumerate(columns):
        widths[index] = min(widths[index], column.most or widths[index])
    for index in reversed(kept):
        column, over = columns[index], excess()
        if over > 0 and column.least:
            if column.dropped and widths[index] - over < column.least:
                kept = [i for i in kept if i != index]
            else:
                widths[index] = max(widths[index] - over, min(column.least, widths[index]))
    for index in reversed(kept):
        if excess() > 0 and columns[index].dropped:
            kept = [i for i in kept if i != index]
    return kept


def _line(row: Sequence[str], layout: Sequence[tuple[Column, int]]) -> str:
    from rich.cells import cell_len

    parts = []
    for cell, (column, width) in zip(row, layout, strict=True):
        text = cut(cell, width)
        padding = " " * (width - cell_len(text))
        parts.append(padding + text if column.align_right else text + padding)
    return "  ".join(parts).rstrip()


def cut(text: str, width: int) -> str:
    """The text in at most `width` cells, with an ellipsis where something is missing."""
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], colours: Sequence[str] = ()) -> None:
    """A table on stdout; `colours` may name one for each row."""
    head, *lines = table(columns, rows, width_of_terminal())
    print_data(paint(head, "bold"))
    for number, line in enumerate(lines):
        print_data(paint(line, colours[number]) if colours and colours[number] else line)


def wrapped(text: str, indent: int) -> str:
    """A long text for a terminal, broken between words, with every line but the first indented."""
    width = width_of_terminal()
    if width is None:
        return text
    import textwrap

    margin = " " * indent
    lines = textwrap.wrap(text, max(20, width - indent), break_on_hyphens=False)
    return f"\n{margin}".join(lines)
