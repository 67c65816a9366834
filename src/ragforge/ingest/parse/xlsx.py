"""XLSX -> a heading and a Markdown table for each sheet, values as a person sees them.

Reads the parts itself: openpyxl takes several times as long, and refuses a workbook for a style it does not know.
Number formats and dates are openpyxl's.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import cache

from lxml import etree
from openpyxl.styles.numbers import BUILTIN_FORMATS, is_date_format
from openpyxl.utils.datetime import CALENDAR_MAC_1904, CALENDAR_WINDOWS_1900, from_excel

from ragforge.domain.documents import Parsed, TextKind
from ragforge.ingest.parse.markup import table
from ragforge.ingest.parse.package import core_title, main_part, part, refuse_entities, resolve
from ragforge.ingest.parse.text import MarkedText

MAX_CELLS = 1_000_000
"""Cells read from one workbook; what is left out is said in a note."""
MAX_COLUMNS = 16_384

Value = str | bool | int | float | date | time | timedelta | None

_ID = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_STRICT_ID = "{http://purl.oclc.org/ooxml/officeDocument/relationships}id"
_DECIMALS = re.compile(r"\.(0+)")
_CURRENCY = re.compile(r"\[\$([^\]-]*)(?:-[^\]]*)?\]|\"([^\"]*)\"|([€$£¥])|\\(.)")
_SECTION_NOISE = re.compile(r"\[(?!\$)[^\]]{0,255}\]|_.|\*.")


@dataclass(frozen=True, slots=True)
class Book:
    """What the cells of all sheets refer to: texts, number formats by style, and where dates start."""

    strings: tuple[str, ...]
    formats: tuple[str, ...]
    epoch: datetime


@dataclass(slots=True)
class Tally:
    """What is left to read, and formulas that came without a result."""

    cells: int
    formulas: int = 0


def read(data: bytes, archive: zipfile.ZipFile) -> Parsed:
    """All sheets, hidden ones too, which are noted."""
    main = main_part(archive)
    workbook = part(archive, main)
    assert workbook is not None
    targets = _targets(archive, main)
    book = _book(archive, main, workbook)
    text, notes, tally = MarkedText(), [], Tally(MAX_CELLS)
    for sheet in workbook.iterfind(".//{*}sheets/{*}sheet"):
        name = sheet.get("name") or ""
        where = targets.get(sheet.get(_ID) or sheet.get(_STRICT_ID), "")
        if where not in archive.namelist():
            continue
        if sheet.get("state", "visible") != "visible":
            notes.append(f"hidden sheet: {name}")
        rows: list[list[str]] = []
        for row in _rows(archive, where, book, tally):
            if tally.cells < 0:
                notes.append(f"sheet {name}: only its first {len(rows)} rows were read (the file is too large)")
                break
            rows.append(row)
        if rows:
            text.add(f"## {name}\n\n{_sheet(rows)}\n\n")
    if tally.formulas:
        notes.append(f"{tally.formulas} formula{'s' if tally.formulas > 1 else ''} without a stored result")
    return Parsed(text.text, kind=TextKind.TABLE, title=core_title(archive), notes=tuple(notes))


def _targets(archive: zipfile.ZipFile, main: str) -> dict[str | None, str]:
    """The workbook's parts by relationship id."""
    folder, _, file = main.rpartition("/")
    relationships = part(archive, f"{folder}/_rels/{file}.rels".lstrip("/"))
    entries = relationships if relationships is not None else ()
    return {entry.get("Id"): resolve(main, entry.get("Target") or "") for entry in entries}


def _book(archive: zipfile.ZipFile, main: str, workbook: etree._Element) -> Book:
    texts = part(archive, resolve(main, "sharedStrings.xml"))
    styles = part(archive, resolve(main, "styles.xml"))
    properties = workbook.find("{*}workbookPr")
    starts_1904 = properties is not None and properties.get("date1904") in ("1", "true")
    return Book(
        tuple(_text(item) for item in texts.iterfind("{*}si")) if texts is not None else (),
        tuple(_formats(styles)) if styles is not None else (),
        CALENDAR_MAC_1904 if starts_1904 else CALENDAR_WINDOWS_1900,
    )


def _text(item: etree._Element) -> str:
    """The text of a rich or plain string, without the reading given for Chinese characters."""
    runs = [run.text or "" for run in item.iterfind("{*}t")] + [run.text or "" for run in item.iterfind("{*}r/{*}t")]
    return "".join(runs).strip()


def _formats(styles: etree._Element) -> Iterator[str]:
    """The number format of each cell style."""
    own = {entry.get("numFmtId"): entry.get("formatCode") or "" for entry in styles.iterfind("{*}numFmts/{*}numFmt")}
    for style in styles.iterfind("{*}cellXfs/{*}xf"):
        identity = style.get("numFmtId") or "0"
        built_in = BUILTIN_FORMATS.get(int(identity), "General") if identity.isdigit() else "General"
        yield own.get(identity, built_in)


def _rows(archive: zipfile.ZipFile, where: str, book: Book, tally: Tally) -> Iterator[list[str]]:
    """The sheet's rows that hold anything."""
    with archive.open(where) as stream:
        events = etree.iterparse(stream, tag="{*}row", resolve_entities=False, no_network=True)
        for _, row in events:
            values: list[str] = []
            for cell in row:
                column = _column(cell.get("r") or "", len(values))
                values.extend([""] * (column - len(values)))
                values.append(_value(cell, book, tally))
            tally.cells -= len(values)
            if any(values):
                yield values
            row.clear()
            while row.getprevious() is not None:
                del row.getparent()[0]
        refuse_entities(events.root)


def _column(reference: str, following: int) -> int:
    """The column of `BC12`, counted from 0; the next one where a cell does not say."""
    column = 0
    for letter in reference.rstrip("0123456789"):
        column = column * 26 + ord(letter) - 64
    return max(following, min(column, MAX_COLUMNS) - 1) if column else following


def _value(cell: etree._Element, book: Book, tally: Tally) -> str:
    kind = cell.get("t") or "n"
    parts = {child.tag.rpartition("}")[2]: child for child in cell}
    if kind == "inlineStr":
        return _text(parts["is"]) if "is" in parts else ""
    raw: str = parts["v"].text or "" if "v" in parts else ""
    if not raw:
        formula = parts["f"].text if "f" in parts else None
        tally.formulas += bool(formula)
        return f"={formula}" if formula else ""
    if kind == "s":
        return book.strings[int(raw)] if int(raw) < len(book.strings) else ""
    if kind == "b":
        return shown(raw == "1", "")
    if kind != "n":
        return raw.strip()
    style = int(cell.get("s") or 0)
    number_format = book.formats[style] if style < len(book.formats) else "General"
    return shown(_typed(raw, number_format, book.epoch), number_format)


@cache
def _is_date(number_format: str) -> bool:
    return number_format != "General" and bool(is_date_format(number_format))


def _typed(raw: str, number_format: str, epoch: datetime) -> Value:
    """A number as its format means it: a date, a time, or itself."""
    try:
        number = int(raw) if raw.lstrip("-").isdigit() else float(raw)
        if _is_date(number_format):
            moment: Value = from_excel(number, epoch, timedelta="[h" in number_format.lower())
            return moment
    except (ValueError, OverflowError):
        return raw
    return number


def _sheet(rows: list[list[str]]) -> str:
    """Single cells above the table (a title, a remark) as lines, then the table with its header row."""
    lead: list[str] = []
    widest = max(sum(map(bool, row)) for row in rows)
    while rows and widest > 1 and sum(map(bool, rows[0])) == 1:
        lead.append(" ".join("".join(rows[0]).split()))
        rows = rows[1:]
    return "\n\n".join([*lead, table(rows)])


def shown(value: Value, number_format: str) -> str:
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
    if number_format == "General":
        return _general(value)
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
    least = digits.partition(".")[0].count("0")
    width = least + places + (places > 0) if least > 1 and not grouping else 0
    number = _general(value) if places < 0 else f"{value:0{width}{grouping}.{places}f}"
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
