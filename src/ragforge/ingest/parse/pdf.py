"""PDF -> text by page.

pdfium gives the characters in the order they were drawn, with lines guessed. It tears a cell of one
character off its row and glues such cells of different rows together, so lines are checked here against
the characters' places: what stands on one baseline ends up on one line.
"""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Iterator
from ctypes import byref, c_double
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

import pypdf
import pypdfium2 as pdfium
import pypdfium2.raw as raw
from pypdf.errors import DependencyError, PyPdfError

from ragforge.domain.documents import Parsed, Reason
from ragforge.ingest.parse.text import CannotParse, MarkedText

HYPHEN = "\ufffe"
"""What pdfium writes for a hyphen at the end of a line, whose break it takes away."""
MAX_CELL = 40
"""Characters up to which a piece of text may be a table's cell rather than a line of prose."""
PARAGRAPH_GAP = 1.4
"""Times the page's usual distance between lines, from which on a gap is one between paragraphs."""
PROBE_PAGES = 10
"""Pages on which the slow second reader looks for text before the file counts as scanned."""

_LINE_ENDS = frozenset((10, 13))
_NO_PLACE = frozenset((*_LINE_ENDS, 0, 9, 32, 0xA0))
_BLANK_LINES = re.compile(r"\n{3,}")
_LEADER = re.compile(r"(?:\s?\.){6,}")
_LIGATURES = re.compile("[\ufb00-\ufb06]")
_BROKEN_WORD = re.compile(rf"(?<!\w)(\w+)[{HYPHEN}\x02]\s*(\w+)")
_WORD = re.compile(r"\w+(?:-\w+)?")
_LOOKS_LIKE_HEADING = re.compile(r"^(?=#{1,6}\s)", re.M)
_MAKER = re.compile(r"^Microsoft (?:Word|PowerPoint|Excel) - ")


@dataclass(frozen=True, slots=True)
class Piece:
    """Text on one baseline: from `left` to `right`, at height `base`, in characters `size` high."""

    text: str
    left: float
    right: float
    base: float
    size: float
    level: bool = True
    """False for turned text, whose place says nothing about lines."""

    def is_beside(self, other: Piece) -> bool:
        return self.level and other.level and abs(self.base - other.base) <= 0.3 * min(self.size, other.size)


def parse(data: bytes, name: str) -> Parsed:
    """Text with a mark for each page, and the title from the file's metadata."""
    try:
        pages, headings, title = _read(data)
    except pdfium.PdfiumError as problem:
        if problem.err_code in (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY):
            raise _encrypted() from None
        pages, headings, title = list(_second_try(data)), {}, None
    else:
        if not any(map(_has_text, pages)) and any(map(_has_text, _second_try(data, PROBE_PAGES))):
            pages = list(_second_try(data))
    if not any(map(_has_text, pages)):
        raise CannotParse(
            Reason.NO_TEXT,
            "no text layer: needs OCR" if pages else "no pages",
            "run it through OCR (for example ocrmypdf) and add it again",
        )
    return _assemble(pages, headings, title)


def _encrypted() -> CannotParse:
    return CannotParse(Reason.ENCRYPTED, "encrypted", "save a copy without password and add that")


def _has_text(page: str) -> bool:
    return any(character.isalnum() for character in page)


def _assemble(pages: list[str], headings: dict[int, list[tuple[int, str]]], title: str | None) -> Parsed:
    repaired = _join_broken_words("\f".join(pages)).split("\f")
    text = MarkedText()
    for number, page in enumerate(repaired, start=1):
        if page.strip():
            page = _with_headings(_LOOKS_LIKE_HEADING.sub(r"\\", page), headings.get(number, []))
            text.add(page.strip() + "\n\n", page=number)
    without = sum(not _has_text(page) for page in pages)
    notes = (f"{without} of {len(pages)} pages hold no text",) if without else ()
    return Parsed(text.text, marks=text.marks, title=title, notes=notes)


def _read(data: bytes) -> tuple[list[str], dict[int, list[tuple[int, str]]], str | None]:
    """Text of each page, outline entries by page, and the title."""
    document = pdfium.PdfDocument(data)
    try:
        has_form = document.get_formtype() != raw.FORMTYPE_NONE
        if has_form:
            document.init_forms()
        pages = [_page_text(document, index, has_form) for index in range(len(document))]
        title = _MAKER.sub("", " ".join(document.get_metadata_value("Title").split()))
        return pages, _outline(document), title if title.lower() not in ("", "untitled") else None
    finally:
        document.close()


def _page_text(document: pdfium.PdfDocument, index: int, has_form: bool) -> str:
    """Text of one page; none if the page itself is broken. Filled-in form fields are part of it."""
    try:
        page = document[index]
        if has_form and page.flatten() == raw.FLATTEN_SUCCESS:
            page = document[index]
        return "\n".join(_lines(list(_pieces(page.get_textpage()))))
    except pdfium.PdfiumError:
        return ""


def _pieces(text_page: pdfium.PdfTextPage) -> Iterator[Piece]:
    """Pieces as pdfium drew and separated them, split where it glued two baselines together."""
    handle = text_page.raw
    x, y = c_double(), c_double()
    letters: list[str] = []
    places: list[float] = []
    base, size, level = 0.0, 0.0, True
    for index in range(text_page.count_chars()):
        code = raw.FPDFText_GetUnicode(handle, index)
        if code in _NO_PLACE:
            if code in _LINE_ENDS and places:
                yield Piece("".join(letters), min(places), max(places), base, size, level)
                letters, places = [], []
            elif code not in _LINE_ENDS and places:
                letters.append(" ")
            continue
        raw.FPDFText_GetCharOrigin(handle, index, byref(x), byref(y))
        if places and level and abs(y.value - base) > 0.9 * size:
            if HYPHEN in letters[-2:]:
                base = y.value
            else:
                yield Piece("".join(letters), min(places), max(places), base, size, level)
                letters, places = [], []
        if not places:
            base, (size, level) = y.value, _size_and_level(handle, index)
        letters.append(chr(code))
        places.append(x.value)
    if places:
        yield Piece("".join(letters), min(places), max(places), base, size, level)


def _size_and_level(handle: raw.FPDF_TEXTPAGE, index: int) -> tuple[float, bool]:
    """How high a character is, and whether it stands upright."""
    box = raw.FS_RECTF()
    raw.FPDFText_GetLooseCharBox(handle, index, byref(box))
    turned = abs(raw.FPDFText_GetCharAngle(handle, index)) > 0.02
    return max(1.0, abs(box.top - box.bottom)), not turned


def _lines(pieces: list[Piece]) -> list[str]:
    """Lines of a page: neighbours on one baseline joined, and columns of short cells put into rows."""
    joined: list[Piece] = []
    for piece in pieces:
        if joined and piece.is_beside(joined[-1]) and piece.left >= joined[-1].right:
            joined[-1] = replace(joined[-1], text=f"{joined[-1].text} {piece.text}", right=piece.right)
        else:
            joined.append(piece)
    rows = [piece for run in _rows(joined) for piece in run]
    gaps = [above.base - below.base for above, below in pairwise(rows) if above.base > below.base]
    wide = PARAGRAPH_GAP * median(gaps) if gaps else 0.0
    lines = [_tidy(row.text) for row in rows[:1]]
    for above, below in pairwise(rows):
        if above.level and below.level and above.base - below.base > wide:
            lines.append("")
        lines.append(_tidy(below.text))
    return lines


def _rows(pieces: list[Piece]) -> list[list[Piece]]:
    """Runs of pieces from top to bottom. A table drawn column by column becomes one run of rows."""
    runs: list[list[Piece]] = []
    for piece in pieces:
        if runs and runs[-1][-1].level and piece.level and piece.base < runs[-1][-1].base:
            runs[-1].append(piece)
        else:
            runs.append([piece])
    merged: list[list[Piece]] = []
    for run in runs:
        if merged and (rows := _side_by_side(merged[-1], run)):
            merged[-1] = rows
        else:
            merged.append(run)
    return merged


def _side_by_side(table: list[Piece], column: list[Piece]) -> list[Piece] | None:
    """The table with one more column of short cells, if each of these stands on one of its baselines."""
    if len(column) < 2 or any(len(cell.text) > MAX_CELL for cell in column):
        return None
    rows = list(table)
    for cell in column:
        places = [place for place, row in enumerate(rows) if row.is_beside(cell) and row.right < cell.left]
        if not places or len(rows[places[0]].text.rsplit("  ", 1)[-1]) > MAX_CELL:
            return None
        row = rows[places[0]]
        rows[places[0]] = replace(row, text=f"{row.text}  {cell.text}", right=cell.right)
    return rows


def _tidy(line: str) -> str:
    line = _LIGATURES.sub(lambda match: unicodedata.normalize("NFKC", match.group()), line)
    if any("\ud800" <= character <= "\udfff" for character in line):
        line = line.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    return " ".join(_LEADER.sub(" … ", line).split())


def _join_broken_words(text: str) -> str:
    """Words that were broken at the end of a line, whole again. A hyphen of their own is kept.

    It is theirs if the text writes the word so elsewhere, or knows both parts but not the whole.
    """
    if HYPHEN not in text and "\x02" not in text:
        return text
    known = {word.lower() for word in _WORD.findall(_BROKEN_WORD.sub(" ", text))}

    def join(match: re.Match[str]) -> str:
        first, second = match.groups()
        whole, hyphened = f"{first}{second}".lower(), f"{first}-{second}".lower()
        parts_known = first.lower() in known and second.lower() in known and min(len(first), len(second)) > 2
        if hyphened in known or second[0].isupper() or second[0].isdigit() or (whole not in known and parts_known):
            return f"{first}-{second}"
        return first + second

    return _BROKEN_WORD.sub(join, text).replace(HYPHEN, "-").replace("\x02", "-")


def _outline(document: pdfium.PdfDocument) -> dict[int, list[tuple[int, str]]]:
    """Outline entries by page number: their level and title."""
    found: dict[int, list[tuple[int, str]]] = {}
    for entry in document.get_toc(max_depth=6):
        target = entry.get_dest()
        index = target.get_index() if target is not None else None
        title = " ".join(entry.get_title().split())
        if index is not None and title:
            found.setdefault(index + 1, []).append((entry.level + 1, title))
    return found


def _with_headings(page: str, entries: list[tuple[int, str]]) -> str:
    """The page with a Markdown heading where a line says the same as an outline entry."""
    wanted = {_key(title): level for level, title in entries}
    lines = page.split("\n")
    for place, line in enumerate(lines):
        level = wanted.pop(_key(line), None) if wanted else None
        if level is not None:
            lines[place] = f"\n{'#' * level} {line.strip()}\n"
    return _BLANK_LINES.sub("\n\n", "\n".join(lines))


def _key(line: str) -> str:
    return "".join(character for character in line.casefold() if character.isalnum())


def _second_try(data: bytes, limit: int | None = None) -> Iterator[str]:
    """Text of each page by pypdf: slower and with cells apart, but it mends what pdfium refuses."""
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise _encrypted()
        for page in reader.pages[:limit]:
            yield _tidy_lines(page.extract_text())
    except DependencyError:
        raise _encrypted() from None
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError) as problem:
        raise CannotParse(
            Reason.CORRUPT,
            f"damaged or not really a PDF ({str(problem)[:200]})",
            "open it in the program that made it and save it again",
        ) from None


def _tidy_lines(text: str) -> str:
    return "\n".join(map(_tidy, text.splitlines()))
