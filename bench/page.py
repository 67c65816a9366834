"""Tables and notes in Markdown, written between two marks of a page; what stands around them is written by people."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

BEGIN, END = "<!-- figures: written by {} -->", "<!-- end of figures -->"
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def write(file: Path, figures: str, by: str = "bench/retrieval.py") -> None:
    """Put figures between the marks of a page that tell who writes there."""
    begin = BEGIN.format(by)
    before, _, rest = file.read_text(encoding="utf-8").partition(begin)
    after = rest.partition(END)[2]
    replace(file, f"{before}{begin}\n\n{figures}\n\n{END}{after}")


def replace(file: Path, text: str) -> None:
    """Write a file as a whole or not at all."""
    beside = file.with_name(f"{file.name}.new")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, file)


def table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


class Notes:
    """What is said below a table, each note once, with a raised number."""

    def __init__(self) -> None:
        self._numbers: dict[str, str] = {}

    def marked(self, word: str, note: str) -> str:
        number = self._numbers.setdefault(note, str(len(self._numbers) + 1).translate(_RAISED))
        return f"{word} {number}"

    @property
    def text(self) -> str:
        return "".join(f"\n\n{number} {note}" for note, number in self._numbers.items())
