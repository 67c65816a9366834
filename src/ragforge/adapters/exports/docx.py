"""A made document as a Word file: headings, lists, tables and code from its Markdown, markers that lead to the sources.

Written by hand, since so little of the format is needed. Nothing in the file points outside of it, and the same
document gives the same bytes.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from ragforge.domain.records import Artifact

if TYPE_CHECKING:
    from markdown_it.token import Token

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_EPOCH = (1980, 1, 1, 0, 0, 0)
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKER = re.compile(r"\[(\d{1,6})\]")
_DEEPEST = 8
"""Word knows nine levels of a list."""
_NUMBERED_FROM = 2
"""Lists with this number and higher ones count; the first has bullets."""


def docx(artifact: Artifact, remark: str = "") -> bytes:
    """The bytes of a .docx file; `remark` stands below the title, as Markdown."""
    body = _Body({source.number for source in artifact.sources})
    body.paragraph("Title", _run(artifact.title))
    body.markdown(remark)
    for section in artifact.sections:
        body.paragraph(f"Heading{section.level}", _run(section.heading))
        body.markdown(section.shown)
    if artifact.sources:
        body.paragraph("Heading2", _run("Sources"))
    for source in artifact.sources:
        where = source.locator.label()
        name = f"{source.name}, {where}" if where else source.name
        mark = f'<w:bookmarkStart w:id="{source.number}" w:name="source_{source.number}"/>'
        entry = f'{mark}{_run(f"[{source.number}] {name}")}<w:bookmarkEnd w:id="{source.number}"/>'
        body.paragraph("Source", entry)
    return _archive(
        {
            "[Content_Types].xml": _CONTENT_TYPES,
            "_rels/.rels": _RELATIONS,
            "word/document.xml": f'{_XML}<w:document xmlns:w="{_WORD}"><w:body>{body.xml()}</w:body></w:document>',
            "word/_rels/document.xml.rels": _DOCUMENT_RELATIONS,
            "word/styles.xml": _styles(),
            "word/numbering.xml": _numbering(body.numbered),
            "docProps/core.xml": _properties(artifact),
        }
    )


class _Body:
    """The paragraphs and tables of a document, one after the other."""

    def __init__(self, sources: set[int]) -> None:
        self._sources = sources
        self._parts: list[str] = []
        self.numbered = 0
        """Lists that count, each on its own."""

    def xml(self) -> str:
        return "".join(self._parts)

    def paragraph(self, style: str, runs: str, *, list_of: int = 0, level: int = 0) -> None:
        numbering = f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{list_of}"/></w:numPr>' if list_of else ""
        self._parts.append(f'<w:p><w:pPr><w:pStyle w:val="{style}"/>{numbering}</w:pPr>{runs}</w:p>')

    def markdown(self, text: str) -> None:
        """Append a Markdown text; what Word has no counterpart for is shown as it is written."""
        from markdown_it import MarkdownIt

        tokens = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["link", "image", "autolink"])
        self._blocks(iter(tokens.parse(text)))

    def _blocks(self, tokens: Iterator[Token]) -> None:
        lists: list[int] = []
        quoted = 0
        first = False
        """Whether the next paragraph is the first of its list item."""
        for token in tokens:
            if token.type in ("bullet_list_open", "ordered_list_open"):
                lists.append(self._list(token.type == "ordered_list_open"))
            elif token.type in ("bullet_list_close", "ordered_list_close"):
                lists.pop()
            elif token.type == "list_item_open":
                first = True
            elif token.type in ("blockquote_open", "blockquote_close"):
                quoted += 1 if token.type == "blockquote_open" else -1
            elif token.type == "table_open":
                self._table(tokens)
            elif token.type in ("fence", "code_block"):
                self._code(token.content)
            elif token.type == "inline":
                style = "ListParagraph" if lists else "Quote" if quoted else "Normal"
                level = min(len(lists) - 1, _DEEPEST)
                runs = self._inline(token.children or ())
                self.paragraph(style, runs, list_of=lists[-1] if lists and first else 0, level=level)
                first = False

    def _list(self, counts: bool) -> int:
        """The number of a list: all with bullets share one, each that counts begins anew."""
        if not counts:
            return 1
        self.numbered += 1
        return _NUMBERED_FROM + self.numbered - 1

    def _code(self, text: str) -> None:
        for line in text.rstrip("\n").split("\n"):
            self.paragraph("Code", _run(line))

    def _table(self, tokens: Iterator[Token]) -> None:
        rows: list[list[str]] = []
        for token in tokens:
            if token.type == "table_close":
                break
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "inline":
                rows[-1].append(self._inline(token.children or (), bold=len(rows) == 1))
        width = max(map(len, rows))
        grid = "<w:gridCol/>" * width
        lines = "".join(
            f"<w:tr>{''.join(_cell(cell) for cell in (*row, *[''] * (width - len(row))))}</w:tr>" for row in rows
        )
        properties = '<w:tblPr><w:tblStyle w:val="TableGrid"/><w:tblW w:w="0" w:type="auto"/></w:tblPr>'
        self._parts.append(f"<w:tbl>{properties}<w:tblGrid>{grid}</w:tblGrid>{lines}</w:tbl>")
        self.paragraph("Normal", "")  # Word wants a paragraph between tables

    def _inline(self, tokens: Sequence[Token], *, bold: bool = False) -> str:
        look = _Look(bold=bold)
        depth = {"strong": int(bold), "em": 0}
        runs: list[str] = []
        for token in tokens:
            name, _, edge = token.type.rpartition("_")
            if name in depth and edge in ("open", "close"):
                depth[name] += 1 if edge == "open" else -1
                look = _Look(bold=depth["strong"] > 0, italic=depth["em"] > 0)
            elif token.type == "code_inline":
                runs.append(_run(token.content, _Look(look.bold, look.italic, code=True)))
            elif token.type == "softbreak":
                runs.append(_run(" ", look))
            elif token.type == "hardbreak":
                runs.append("<w:r><w:br/></w:r>")
            else:
                runs.append(self._text(token.content, look))
        return "".join(runs)

    def _text(self, text: str, look: _Look) -> str:
        """A text whose markers lead to the list of sources."""
        pieces = _MARKER.split(text)
        runs = [_run(pieces[0], look)]
        for number, after in zip(pieces[1::2], pieces[2::2], strict=True):
            mark = _run(f"[{number}]", look)
            known = int(number) in self._sources
            runs.append(
                f'<w:hyperlink w:anchor="source_{number}" w:history="1">{mark}</w:hyperlink>' if known else mark
            )
            runs.append(_run(after, look))
        return "".join(runs)


@dataclass(frozen=True, slots=True)
class _Look:
    """How a run of text looks."""

    bold: bool = False
    italic: bool = False
    code: bool = False

    def xml(self) -> str:
        parts = ['<w:rStyle w:val="CodeText"/>'] if self.code else []
        parts += ["<w:b/>"] if self.bold else []
        parts += ["<w:i/>"] if self.italic else []
        return f"<w:rPr>{''.join(parts)}</w:rPr>" if parts else ""


_PLAIN = _Look()


def _run(text: str, look: _Look = _PLAIN) -> str:
    return f'<w:r>{look.xml()}<w:t xml:space="preserve">{_safe(text)}</w:t></w:r>' if text else ""


def _safe(text: str) -> str:
    """Text as XML may hold it: characters that it cannot hold are left out."""
    return escape(_NOT_XML.sub("", text))


def _cell(runs: str) -> str:
    return f'<w:tc><w:tcPr><w:tcW w:w="0" w:type="auto"/></w:tcPr><w:p>{runs}</w:p></w:tc>'


# -- the parts around the text


def _archive(parts: dict[str, str]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            member = zipfile.ZipInfo(name, _EPOCH)
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, text.encode())
    return data.getvalue()


def _part(path: str, kind: str) -> str:
    return f'<Override PartName="{path}" ContentType="application/vnd.openxmlformats-{kind}+xml"/>'


def _relation(id: str, kind: str, target: str) -> str:
    return f'<Relationship Id="{id}" Type="{kind}" Target="{target}"/>'


_CONTENT_TYPES = "".join(
    (
        f'{_XML}<Types xmlns="{_PACKAGE}/content-types">',
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>',
        _part("/word/document.xml", "officedocument.wordprocessingml.document.main"),
        _part("/word/styles.xml", "officedocument.wordprocessingml.styles"),
        _part("/word/numbering.xml", "officedocument.wordprocessingml.numbering"),
        _part("/docProps/core.xml", "package.core-properties"),
        "</Types>",
    )
)
_RELATIONS = "".join(
    (
        f'{_XML}<Relationships xmlns="{_PACKAGE}/relationships">',
        _relation("rId1", f"{_OFFICE}/officeDocument", "word/document.xml"),
        _relation("rId2", f"{_PACKAGE}/relationships/metadata/core-properties", "docProps/core.xml"),
        "</Relationships>",
    )
)
_DOCUMENT_RELATIONS = "".join(
    (
        f'{_XML}<Relationships xmlns="{_PACKAGE}/relationships">',
        _relation("rId1", f"{_OFFICE}/styles", "styles.xml"),
        _relation("rId2", f"{_OFFICE}/numbering", "numbering.xml"),
        "</Relationships>",
    )
)


def _properties(artifact: Artifact) -> str:
    made = f"{artifact.made_at:%Y-%m-%dT%H:%M:%SZ}"
    return (
        f'{_XML}<cp:coreProperties xmlns:cp="{_PACKAGE}/metadata/core-properties" '
        'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/" '
        'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">'
        f"<dc:title>{_safe(artifact.title)}</dc:title><dc:creator>ragforge</dc:creator>"
        f'<dcterms:created xsi:type="dcterms:W3CDTF">{made}</dcterms:created></cp:coreProperties>'
    )


def _style(id: str, name: str, look: str = "", spacing: str = "", *, kind: str = "paragraph", level: int = -1) -> str:
    outline = f'<w:outlineLvl w:val="{level}"/>' if level >= 0 else ""
    next_to = "<w:keepNext/>" if level >= 0 else ""
    paragraph = f"<w:pPr>{next_to}{spacing}{outline}</w:pPr>" if next_to or spacing or outline else ""
    based = '<w:basedOn w:val="Normal"/>' if kind == "paragraph" and id != "Normal" else ""
    default = ' w:default="1"' if id == "Normal" else ""
    return (
        f'<w:style w:type="{kind}"{default} w:styleId="{id}"><w:name w:val={quoteattr(name)}/>{based}<w:qFormat/>'
        f"{paragraph}{f'<w:rPr>{look}</w:rPr>' if look else ''}</w:style>"
    )


def _size(points: int) -> str:
    return f'<w:sz w:val="{2 * points}"/>'


def _space(before: int, after: int) -> str:
    return f'<w:spacing w:before="{20 * before}" w:after="{20 * after}"/>'


def _styles() -> str:
    code = '<w:rFonts w:ascii="Consolas" w:hAnsi="Consolas" w:cs="Consolas"/><w:noProof/>'
    border = "".join(
        f'<w:{side} w:val="single" w:sz="4" w:space="0" w:color="999999"/>'
        for side in ("top", "left", "bottom", "right", "insideH", "insideV")
    )
    table = f"<w:tblPr><w:tblBorders>{border}</w:tblBorders></w:tblPr>"
    parts = (
        _style("Normal", "Normal", '<w:rFonts w:ascii="Calibri" w:hAnsi="Calibri"/>' + _size(11), _space(0, 6)),
        _style("Title", "Title", f"<w:b/>{_size(24)}", _space(0, 12)),
        *(
            _style(f"Heading{n}", f"heading {n}", f"<w:b/>{_size(20 - 2 * n)}", _space(14, 4), level=n - 1)
            for n in range(1, 7)
        ),
        _style("ListParagraph", "List Paragraph", spacing=_space(0, 3) + '<w:ind w:left="720"/>'),
        _style("Quote", "Quote", "<w:i/>", _space(4, 8) + '<w:ind w:left="360"/>'),
        _style("Code", "Code", code + _size(9), _space(0, 0) + '<w:ind w:left="360"/>'),
        _style("Source", "Source", _size(10), _space(0, 3)),
        _style("CodeText", "Code Text", code, kind="character"),
        f'<w:style w:type="table" w:styleId="TableGrid"><w:name w:val="Table Grid"/>{table}</w:style>',
    )
    return f'{_XML}<w:styles xmlns:w="{_WORD}">{"".join(parts)}</w:styles>'


def _numbering(numbered: int) -> str:
    """Two looks of lists, and a number for each list that counts, so that it begins with 1."""
    looks = _look_of_list(0, "bullet", lambda level: "•◦▪"[level % 3]) + _look_of_list(
        1, "decimal", lambda level: f"%{level + 1}."
    )
    lists = '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>'
    for number in range(_NUMBERED_FROM, _NUMBERED_FROM + numbered):
        again = "".join(
            f'<w:lvlOverride w:ilvl="{level}"><w:startOverride w:val="1"/></w:lvlOverride>'
            for level in range(_DEEPEST + 1)
        )
        lists += f'<w:num w:numId="{number}"><w:abstractNumId w:val="1"/>{again}</w:num>'
    return f'{_XML}<w:numbering xmlns:w="{_WORD}">{looks}{lists}</w:numbering>'


def _look_of_list(id: int, form: str, text: Callable[[int], str]) -> str:
    levels = "".join(
        f'<w:lvl w:ilvl="{level}"><w:start w:val="1"/><w:numFmt w:val="{form}"/><w:lvlText w:val="{text(level)}"/>'
        f'<w:lvlJc w:val="left"/><w:pPr><w:ind w:left="{360 * (level + 2)}" w:hanging="360"/></w:pPr></w:lvl>'
        for level in range(_DEEPEST + 1)
    )
    return f'<w:abstractNum w:abstractNumId="{id}"><w:multiLevelType w:val="hybridMultilevel"/>{levels}</w:abstractNum>'
