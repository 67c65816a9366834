"""ODT, ODP, ODS -> Markdown: elements turned into an HTML tree, which the shared writer knows; sheets into tables."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator

from lxml import etree
from lxml import html as lxml_html
from lxml.html import HtmlElement

from ragforge.domain.documents import Parsed, Reason, TextKind
from ragforge.ingest.parse.markup import markdown, table
from ragforge.ingest.parse.package import part
from ragforge.ingest.parse.text import CannotParse, MarkedText

MAX_REPEATED = 20_000
"""More columns than any sheet has; more equal rows than anybody reads."""

_TAGS = {
    "p": "p",
    "list": "ul",
    "list-item": "li",
    "list-header": "li",
    "table": "table",
    "table-row": "tr",
    "table-cell": "td",
    "line-break": "br",
    "a": "a",
    "text-box": "div",
    "section": "div",
    "note-body": "div",
    "notes": "blockquote",
}
_DROPPED = {"annotation", "tracked-changes", "sequence-decls", "forms", "object", "desc", "note-citation", "bookmark"}


def read(data: bytes, archive: zipfile.ZipFile) -> Parsed:
    """A text with headings, lists and tables; a presentation by slides, a spreadsheet by sheets."""
    manifest = part(archive, "META-INF/manifest.xml")
    if manifest is not None and next(manifest.iter("{*}encryption-data"), None) is not None:
        raise CannotParse(Reason.ENCRYPTED, "encrypted", "save a copy without password and add that")
    content = part(archive, "content.xml")
    body = content.find("{*}body") if content is not None else None
    if body is None or not len(body):
        raise CannotParse(Reason.CORRUPT, "damaged: no text part", "open it in the program that made it and save it")
    meta = part(archive, "meta.xml")
    title = meta.findtext(".//{http://purl.org/dc/elements/1.1/}title") if meta is not None else None
    text = MarkedText()
    kind = TextKind.PROSE
    match etree.QName(body[0]).localname:
        case "presentation":
            for number, page in enumerate(body[0].iterfind("{*}page"), start=1):
                text.add(f"## Slide {number}\n\n{markdown(_as_html(page))}\n\n", page=number)
        case "spreadsheet":
            kind = TextKind.TABLE
            for sheet in body[0].iterfind("{*}table"):
                rows = table(list(_rows(sheet)))
                text.add(f"## {_attribute(sheet, 'name')}\n\n{rows}\n\n" if rows else "")
        case _:
            text.add(markdown(_as_html(body[0])))
    return Parsed(text.text, kind=kind, marks=text.marks, title=" ".join((title or "").split()) or None)


def _rows(sheet: etree._Element) -> Iterator[list[str]]:
    """The filled rows of a sheet. What is empty is stored as one cell or row and how often it is repeated."""
    for row in sheet.iter("{*}table-row"):
        values: list[str] = []
        for cell in row.iterchildren("{*}table-cell", "{*}covered-table-cell"):
            text = " ".join(" ".join("".join(line.itertext()) for line in cell.iterfind("{*}p")).split())
            values.extend([text] * _repeated(cell, "number-columns-repeated"))
        while values and not values[-1]:
            values.pop()
        if values:
            yield from [values] * _repeated(row, "number-rows-repeated")


def _repeated(element: etree._Element, name: str) -> int:
    value = _attribute(element, name) or "1"
    return min(int(value), MAX_REPEATED) if value.isascii() and value.isdigit() else 1


def _as_html(body: etree._Element) -> HtmlElement:
    root = lxml_html.Element("body")
    places = {body: root}
    for source in body.iterdescendants("*"):
        parent = places.get(source.getparent())
        kind = etree.QName(source).localname
        if parent is None or kind in _DROPPED:
            _append(places.get(source.getparent()), source.tail)
            continue
        places[source] = place = _element(source, kind)
        place.tail = source.tail
        parent.append(place)
    return root


def _element(source: etree._Element, kind: str) -> HtmlElement:
    if kind == "h":
        level = _attribute(source, "outline-level") or "1"
        tag = f"h{min(max(int(level), 1), 6)}" if level.isdigit() else "h1"
    else:
        tag = _TAGS.get(kind, "span")
    element = lxml_html.Element(tag)
    element.text = source.text
    if kind == "s":
        element.text = " "
    elif kind == "tab":
        element.text = "\t"
    elif kind == "a":
        element.set("href", _attribute(source, "href") or "")
    elif kind == "table-cell":
        element.set("colspan", _attribute(source, "number-columns-spanned") or "1")
        element.set("rowspan", _attribute(source, "number-rows-spanned") or "1")
    return element


def _append(place: HtmlElement | None, text: str | None) -> None:
    """Add text that follows a dropped element."""
    if place is None or not text:
        return
    if len(place):
        place[-1].tail = (place[-1].tail or "") + text
    else:
        place.text = (place.text or "") + text


def _attribute(element: etree._Element, name: str) -> str | None:
    return next((value for key, value in element.attrib.items() if etree.QName(key).localname == name), None)
