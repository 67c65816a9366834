"""ODT -> Markdown: the text's elements turned into an HTML tree, which the shared writer knows."""

from __future__ import annotations

import zipfile

from lxml import etree  # type: ignore[import-untyped]
from lxml import html as lxml_html
from lxml.html import HtmlElement  # type: ignore[import-untyped]

from ragforge.domain.documents import Parsed, Reason
from ragforge.ingest.parse.markup import markdown
from ragforge.ingest.parse.package import part
from ragforge.ingest.parse.text import CannotParse, MarkedText

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
}
_DROPPED = {"annotation", "tracked-changes", "sequence-decls", "forms", "object", "desc", "note-citation", "bookmark"}


def read(data: bytes, archive: zipfile.ZipFile) -> Parsed:
    """The document's text with headings, lists and tables."""
    manifest = part(archive, "META-INF/manifest.xml")
    if manifest is not None and next(manifest.iter("{*}encryption-data"), None) is not None:
        raise CannotParse(Reason.ENCRYPTED, "encrypted", "save a copy without password and add that")
    content = part(archive, "content.xml")
    body = content.find(".//{*}body/{*}text") if content is not None else None
    if body is None:
        raise CannotParse(Reason.CORRUPT, "damaged: no text part", "open it in the program that made it and save it")
    meta = part(archive, "meta.xml")
    title = meta.findtext(".//{http://purl.org/dc/elements/1.1/}title") if meta is not None else None
    text = MarkedText()
    text.add(markdown(_as_html(body)))
    return Parsed(text.text, title=" ".join((title or "").split()) or None)


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
