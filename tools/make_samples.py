"""Makes the binary sample documents out of the Markdown beside this file: DOCX, PDF and PPTX.

    python tools/make_samples.py

DOCX and PDF are written with the standard library alone. The same source gives the same files, byte for byte.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

SOURCES = Path(__file__).parent / "samples"
SAMPLES = Path(__file__).parents[1] / "src" / "ragforge" / "samples"
_DATE = (2026, 1, 1, 0, 0, 0)


# -- the source: headings, paragraphs, bullets, tables, and notes to a slide


@dataclass(frozen=True)
class Block:
    """A block of the source. `kind` is `h1` to `h3`, `p`, `li`, `table` or `note`."""

    kind: str
    text: str = ""
    rows: tuple[tuple[str, ...], ...] = ()


def blocks(source: str) -> Iterator[Block]:
    """The blocks of a text whose paragraphs are one line each."""
    rows: list[tuple[str, ...]] = []
    for line in [*source.splitlines(), ""]:
        if line.startswith("|"):
            rows.append(tuple(cell.strip() for cell in line.strip("|").split("|")))
            continue
        if rows:
            yield Block("table", rows=(rows[0], *rows[2:]))
            rows = []
        if match := re.match(r"(#{1,3}) (.+)", line):
            yield Block(f"h{len(match[1])}", match[2])
        elif line.startswith("- "):
            yield Block("li", line[2:])
        elif line.startswith("Note: "):
            yield Block("note", line[6:])
        elif line:
            yield Block("p", line)


def pack(parts: dict[str, bytes]) -> bytes:
    """A zip whose bytes depend on its parts alone."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in parts.items():
            entry = zipfile.ZipInfo(name, _DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return packed.getvalue()


# -- DOCX

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_MIME = "application/vnd.openxmlformats-officedocument.wordprocessingml"
_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_STYLES = {"h1": "Heading1", "h2": "Heading2", "h3": "Heading3", "p": "Normal", "li": "ListBullet"}


def docx(source: str) -> bytes:
    """A Word document with real styles, bullets and tables."""
    found = list(blocks(source))
    body = "".join(_word_table(block) if block.kind == "table" else _word_paragraph(block) for block in found)
    title = next(block.text for block in found if block.kind == "h1")
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/word/document.xml" ContentType="{_MIME}.document.main+xml"/>'
        f'<Override PartName="/word/styles.xml" ContentType="{_MIME}.styles+xml"/>'
        f'<Override PartName="/word/numbering.xml" ContentType="{_MIME}.numbering+xml"/>'
        '<Override PartName="/docProps/core.xml" '
        'ContentType="application/vnd.openxmlformats-package.core-properties+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
        f'<Relationship Id="rId1" Type="{_OFFICE}/officeDocument" Target="word/document.xml"/>'
        f'<Relationship Id="rId2" Type="{_PACKAGE}/relationships/metadata/core-properties" '
        'Target="docProps/core.xml"/></Relationships>',
        "docProps/core.xml": f'<cp:coreProperties xmlns:cp="{_PACKAGE}/metadata/core-properties" '
        f'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{escape(title)}</dc:title></cp:coreProperties>',
        "word/_rels/document.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
        f'<Relationship Id="rId1" Type="{_OFFICE}/styles" Target="styles.xml"/>'
        f'<Relationship Id="rId2" Type="{_OFFICE}/numbering" Target="numbering.xml"/></Relationships>',
        "word/document.xml": f'<w:document xmlns:w="{_WORD}"><w:body>{body}<w:sectPr/></w:body></w:document>',
        "word/styles.xml": _word_styles(),
        "word/numbering.xml": f'<w:numbering xmlns:w="{_WORD}"><w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0">'
        '<w:numFmt w:val="bullet"/><w:lvlText w:val="•"/></w:lvl></w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num></w:numbering>',
    }
    return pack({name: (_XML + content).encode() for name, content in parts.items()})


def _word_styles() -> str:
    sizes = {"Heading1": ("heading 1", 36), "Heading2": ("heading 2", 28), "Heading3": ("heading 3", 24)}
    headings = "".join(
        f'<w:style w:type="paragraph" w:styleId="{style}"><w:name w:val="{name}"/>'
        f'<w:pPr><w:keepNext/><w:spacing w:before="240" w:after="80"/></w:pPr>'
        f'<w:rPr><w:b/><w:sz w:val="{size}"/></w:rPr></w:style>'
        for style, (name, size) in sizes.items()
    )
    return (
        f'<w:styles xmlns:w="{_WORD}"><w:style w:type="paragraph" w:default="1" w:styleId="Normal">'
        '<w:name w:val="Normal"/><w:pPr><w:spacing w:after="120"/></w:pPr></w:style>'
        '<w:style w:type="paragraph" w:styleId="ListBullet"><w:name w:val="List Bullet"/></w:style>'
        f"{headings}</w:styles>"
    )


def _word_paragraph(block: Block) -> str:
    list_item = '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr>' if block.kind == "li" else ""
    style = f'<w:pPr><w:pStyle w:val="{_STYLES[block.kind]}"/>{list_item}</w:pPr>'
    return f"<w:p>{style}{_word_run(block.text)}</w:p>"


def _word_run(text: str, bold: bool = False) -> str:
    return f'<w:r>{"<w:rPr><w:b/></w:rPr>" if bold else ""}<w:t xml:space="preserve">{escape(text)}</w:t></w:r>'


def _word_table(block: Block) -> str:
    def row(cells: tuple[str, ...], head: bool) -> str:
        mark = "<w:trPr><w:tblHeader/></w:trPr>" if head else ""
        inner = "".join(f"<w:tc><w:tcPr/><w:p>{_word_run(cell, head)}</w:p></w:tc>" for cell in cells)
        return f"<w:tr>{mark}{inner}</w:tr>"

    return f"<w:tbl><w:tblPr/>{''.join(row(cells, place == 0) for place, cells in enumerate(block.rows))}</w:tbl><w:p/>"


# -- PDF

_WIDTH, _HEIGHT, _MARGIN = 595, 842, 64
_SIZES = {"h1": (18, 30), "h2": (13, 26), "h3": (11, 20), "p": (10, 14), "li": (10, 14), "table": (9, 13)}
"""Font size, and the room a first line takes."""
_HELVETICA = (  # widths of the characters from space to tilde, in thousandths
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556,
    556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833,
    722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556,
    556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334,
    260, 334, 584,
)  # fmt: skip


def _text_width(text: str, size: float) -> float:
    return sum(_HELVETICA[ord(c) - 32] if " " <= c <= "~" else 556 for c in text) * size / 1000


def _wrapped(text: str, size: float, width: float) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if _text_width(longer, size) > width and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


@dataclass(frozen=True)
class Bookmark:
    """A heading and where it stands."""

    title: str
    level: int
    page: int
    y: float


class PdfPages:
    """Lines of text set onto as many pages as they need."""

    def __init__(self) -> None:
        self.pages: list[list[str]] = []
        self.bookmarks: list[Bookmark] = []
        self._y = 0.0

    def room(self, needed: float) -> None:
        """Begin a new page if less than this is left."""
        if not self.pages or self._y - needed < _MARGIN:
            self.pages.append([])
            self._y = _HEIGHT - _MARGIN

    def down(self, distance: float) -> None:
        self._y -= distance

    def text(self, x: float, text: str, size: float, bold: bool = False) -> None:
        safe = re.sub(r"([\\()])", r"\\\1", text)
        self.pages[-1].append(f"BT /F{2 if bold else 1} {size} Tf {x:.1f} {self._y:.1f} Td ({safe}) Tj ET")

    def bookmark(self, title: str, level: int) -> None:
        self.bookmarks.append(Bookmark(title, level, len(self.pages) - 1, self._y))

    def rule(self) -> None:
        below = self._y - 4
        self.pages[-1].append(f"0.5 w {_MARGIN} {below:.1f} m {_WIDTH - _MARGIN} {below:.1f} l S")


def pdf(source: str) -> bytes:
    """A PDF of A4 pages with page numbers, in Helvetica, which every reader has."""
    found = list(blocks(source))
    pages = PdfPages()
    for block in found:
        if block.kind == "table":
            _pdf_table(pages, block.rows)
        else:
            _pdf_text(pages, block)
    title = next(block.text for block in found if block.kind == "h1")
    numbered = [_numbered(page, place, len(pages.pages)) for place, page in enumerate(pages.pages)]
    return _pdf_file(numbered, title, pages.bookmarks)


def _pdf_text(pages: PdfPages, block: Block) -> None:
    size, room = _SIZES[block.kind]
    indent = 12 if block.kind == "li" else 0
    heading = block.kind.startswith("h")
    pages.room(room + (60 if heading else 0))
    pages.down(room - size if heading else 4)
    if heading:
        pages.bookmark(block.text, int(block.kind[1]))
    for place, line in enumerate(_wrapped(block.text, size, _WIDTH - 2 * _MARGIN - indent)):
        pages.room(size * 1.4)
        pages.down(size * 1.4)
        if block.kind == "li" and place == 0:
            pages.text(_MARGIN, "•", size)
        pages.text(_MARGIN + indent, line, size, heading)


def _pdf_table(pages: PdfPages, rows: tuple[tuple[str, ...], ...]) -> None:
    size, line = _SIZES["table"]
    widest = [max(_text_width(cell, size) for cell in column) for column in zip(*rows, strict=True)]
    scale = min(1.6, (_WIDTH - 2 * _MARGIN) / (sum(widest) + 14 * len(widest)))
    starts = [_MARGIN + sum((width + 14) * scale for width in widest[:place]) for place in range(len(widest))]
    pages.room(3 * line)
    pages.down(8)
    for place, row in enumerate(rows):
        pages.room(line)
        pages.down(line + (4 if place == 1 else 0))
        for x, cell in zip(starts, row, strict=True):
            pages.text(x, cell, size, place == 0)
        if place == 0:
            pages.rule()
    pages.down(8)


def _numbered(page: list[str], place: int, count: int) -> bytes:
    number = f"BT /F1 8 Tf {_MARGIN} 36 Td (Page {place + 1} of {count}) Tj ET"
    return "\n".join([*page, number]).encode("cp1252")


def _outline(bookmarks: list[Bookmark], first: int) -> Iterator[bytes]:
    """The bookmarks as a tree by level; its root becomes object `first`, and they the objects after it."""
    above: list[int] = []
    parents: list[int] = []
    for number, bookmark in enumerate(bookmarks):
        above = [n for n in above if bookmarks[n].level < bookmark.level]
        parents.append(above[-1] if above else -1)
        above.append(number)
    children = {n: [c for c, parent in enumerate(parents) if parent == n] for n in range(-1, len(bookmarks))}

    def link(name: str, numbers: list[int]) -> str:
        return f"/{name} {first + 1 + numbers[0]} 0 R " if numbers else ""

    def family(number: int) -> str:
        below = children[number]
        return f"{link('First', below[:1])}{link('Last', below[-1:])}" + (f"/Count {len(below)}" if below else "")

    yield f"<< /Type /Outlines {family(-1)} >>".encode()
    for number, bookmark in enumerate(bookmarks):
        siblings = children[parents[number]]
        place = siblings.index(number)
        beside = link("Prev", siblings[max(0, place - 1) : place]) + link("Next", siblings[place + 1 : place + 2])
        goal = f"/Dest [{6 + 2 * bookmark.page} 0 R /XYZ {_MARGIN} {bookmark.y:.0f} 0]"
        parent = first + 1 + parents[number]
        text = f"<< /Title ({bookmark.title}) /Parent {parent} 0 R {beside}{family(number)} {goal} >>"
        yield text.encode("cp1252")


def _pdf_file(pages: list[bytes], title: str, bookmarks: list[Bookmark]) -> bytes:
    outline = 6 + 2 * len(pages)
    kids = " ".join(f"{6 + 2 * place} 0 R" for place in range(len(pages)))
    font = "/Type /Font /Subtype /Type1 /Encoding /WinAnsiEncoding /BaseFont"
    objects: list[bytes] = [
        f"<< /Type /Catalog /Pages 2 0 R /Outlines {outline} 0 R >>".encode(),
        f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>".encode(),
        f"<< {font} /Helvetica >>".encode(),
        f"<< {font} /Helvetica-Bold >>".encode(),
        f"<< /Title ({title}) >>".encode("cp1252"),
    ]
    for place, content in enumerate(pages):
        packed = zlib.compress(content)
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {_WIDTH} {_HEIGHT}] /Contents {7 + 2 * place} 0 R "
            "/Resources << /Font << /F1 3 0 R /F2 4 0 R >> >> >>".encode()
        )
        objects.append(f"<< /Length {len(packed)} /Filter /FlateDecode >>\nstream\n".encode() + packed + b"\nendstream")
    objects += _outline(bookmarks, outline)
    out = bytearray(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
    places: list[int] = []
    for number, content in enumerate(objects, start=1):
        places.append(len(out))
        out += f"{number} 0 obj\n".encode() + content + b"\nendobj\n"
    table = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    out += b"".join(f"{place:010} 00000 n \n".encode() for place in places)
    out += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R /Info 5 0 R >>\nstartxref\n{table}\n%%EOF\n".encode()
    return bytes(out)


# -- PPTX


def pptx(source: str) -> bytes:
    """A presentation with a slide for each second heading, its table or bullets, and the speaker's notes."""
    import datetime

    from pptx import Presentation

    presentation = Presentation()
    slide: Any = None
    for block in blocks(source):
        if block.kind == "h1":
            slide = presentation.slides.add_slide(presentation.slide_layouts[0])
            slide.shapes.title.text = presentation.core_properties.title = block.text
        elif block.kind == "p":
            slide.placeholders[1].text = block.text
        elif block.kind == "h2":
            slide = presentation.slides.add_slide(presentation.slide_layouts[1])
            slide.shapes.title.text = block.text
        elif block.kind == "note":
            slide.notes_slide.notes_text_frame.text = block.text
        elif block.kind == "li":
            frame = slide.placeholders[1].text_frame
            (frame.paragraphs[0] if not frame.text else frame.add_paragraph()).text = block.text
        else:
            _slide_table(slide, block.rows)
    presentation.core_properties.modified = datetime.datetime(*_DATE)
    saved = io.BytesIO()
    presentation.save(saved)
    with zipfile.ZipFile(saved) as archive:
        return pack({name: archive.read(name) for name in archive.namelist()})


def _slide_table(slide: Any, rows: tuple[tuple[str, ...], ...]) -> None:
    from pptx.util import Inches

    size = (Inches(0.6), Inches(1.7), Inches(8.8), Inches(0.4 * len(rows)))
    table = slide.shapes.add_table(len(rows), len(rows[0]), *size).table
    for row, cells in enumerate(rows):
        for column, cell in enumerate(cells):
            table.cell(row, column).text = cell
    body = slide.placeholders[1]
    body.left, body.top, body.width, body.height = Inches(0.6), Inches(2 + 0.4 * len(rows)), Inches(8.8), Inches(2.4)


WRITERS = {"employee-handbook": docx, "desk-sylt-datasheet": pdf, "quarterly-report-2026-q2": pptx}


def main() -> None:
    for name, write in WRITERS.items():
        target = SAMPLES / f"{name}.{write.__name__}"
        target.write_bytes(write((SOURCES / f"{name}.md").read_text(encoding="utf-8")))
        print(target.name, target.stat().st_size)


if __name__ == "__main__":
    main()
