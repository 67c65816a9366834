"""XLSX -> a heading and a Markdown table for each sheet, values as a person sees them."""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from datetime import date, datetime, time, timedelta
from typing import Any

import openpyxl  # type: ignore[import-untyped]

from ragforge.domain.documents import Parsed, TextKind
from ragforge.ingest.parse.markup import table
from ragforge.ingest.parse.package import core_title
from ragforge.ingest.parse.text import MarkedText

MAX_CELLS = 1_000_000
"""Cells read from one workbook; what is left out is said in a note."""
MAX_EMPTY_ROWS = 10_000
"""Empty rows in a row after which a sheet counts as finished: formats alone can reach to row 1,048,576."""

_DECIMALS = re.compile(r"\.(0+)")
_CURRENCY = re.compile(r"\[\$([^\]-]*)(?:-[^\]]*)?\]|\"([^\"]*)\"|([€$£¥])|\\(.)")
_SECTION_NOISE = re.compile(r"\[(?!\$)[^\]]*\]|_.|\*.")


def read(data: bytes, archive: zipfile.ZipFile) -> Parsed:
    """All sheets, hidden ones too, which are noted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # openpyxl warns of every extension it leaves out
        workbook = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
        text, notes, left = MarkedText(), [], MAX_CELLS
        for sheet in workbook.worksheets:
            if sheet.sheet_state != "visible":
                notes.append(f"hidden sheet: {sheet.title}")
            rows, used, cut = _rows(sheet, left)
            left -= used
            if cut:
                notes.append(f"sheet {sheet.title}: only its first {len(rows)} rows were read (the file is too large)")
            if any(map(any, rows)):
                text.add(f"## {sheet.title}\n\n{_sheet(rows)}\n\n")
        workbook.close()
    return Parsed(text.text, kind=TextKind.TABLE, title=core_title(archive), notes=tuple(notes))


def _rows(sheet: Any, cells: int) -> tuple[list[list[str]], int, bool]:
    """The sheet's rows, how many cells they hold, and whether some are left out."""
    sheet.reset_dimensions()
    rows: list[list[str]] = []
    used = empty = 0
    for row in sheet.iter_rows():
        values = [shown(cell.value, cell.number_format if cell.value is not None else "") for cell in row]
        empty = 0 if any(values) else empty + 1
        if used + len(values) > cells:
            return rows, used, True
        used += len(values)
        if empty == 0:
            rows.append(values)
        elif empty > MAX_EMPTY_ROWS:
            break
    return rows, used, False


def _sheet(rows: list[list[str]]) -> str:
    """Single cells above the table (a title, a remark) as lines, then the table with its header row."""
    lead: list[str] = []
    widest = max(sum(map(bool, row)) for row in rows)
    while rows and widest > 1 and sum(map(bool, rows[0])) == 1:
        lead.append(" ".join("".join(rows[0]).split()))
        rows = rows[1:]
    return "\n\n".join([*lead, table(rows)])


def shown(value: Any, number_format: str) -> str:
    """A cell's value as the sheet shows it, with dates in ISO form."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ", "seconds")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, int | float):
        return _number(value, number_format or "General")
    return str(value).strip()


def _number(value: int | float, number_format: str) -> str:
    section = _SECTION_NOISE.sub("", number_format.split(";")[0])
    literals = ["".join(filter(None, match.groups())) for match in _CURRENCY.finditer(section)]
    digits = _CURRENCY.sub("", section)
    if not set(digits) & set("0#?") or "/" in digits or "E" in digits.upper():
        return _general(value)
    decimals = _DECIMALS.search(digits)
    places = len(decimals.group(1)) if decimals else 0
    if "#" in digits.partition(".")[2]:
        places = -1
    if "%" in digits:
        value *= 100
    grouping = "," if ",0" in digits or ",#" in digits else ""
    number = _general(value) if places < 0 else f"{value:{grouping}.{places}f}"
    return _with_unit(number + ("%" if "%" in digits else ""), section, literals)


def _with_unit(number: str, section: str, literals: list[str]) -> str:
    """The number with its currency or unit, before or after it as the format says."""
    unit = "".join(literals).strip()
    if not unit or not any(character.isalnum() or character in "€$£¥°" for character in unit):
        return number
    first_digit = min(section.find(mark) for mark in "0#" if mark in section)
    match = _CURRENCY.search(section)
    return f"{unit}{number}" if match and match.start() < first_digit else f"{number} {unit}"


def _general(value: int | float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.15g}"
