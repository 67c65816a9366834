"""HTML -> Markdown. Nothing it refers to is fetched."""

from __future__ import annotations

import codecs
import re

from lxml import etree
from lxml import html as lxml_html
from lxml.html import HtmlElement

from ragforge.domain.documents import Parsed, Reason
from ragforge.ingest.parse.markup import markdown
from ragforge.ingest.parse.text import CannotParse, MarkedText

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_DECLARED = re.compile(
    rb"""<(?:meta\b[^>]{0,200}?charset|\?xml\b[^>]{0,200}?encoding)\s*=\s*["']?\s*([\w.:-]{1,40})""", re.I
)
_XML_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![\d.])", re.I)
_LATIN = {"ascii", "iso8859-1", "cp1252"}


def parse(data: bytes, name: str) -> Parsed:
    """Markdown of the page, its `<title>`, and a note where the encoding was guessed or text is hidden."""
    source, notes = decode(data)
    root = tree(source)
    title = " ".join((root.findtext(".//title") or "").split()) or None
    hidden = hidden_passages(root)
    if hidden:
        notes.append(f"{hidden} hidden passage{'s' if hidden > 1 else ''}")
    text = MarkedText()
    text.add(markdown(root))
    return Parsed(text.text, title=title, notes=tuple(notes))


def tree(source: str) -> HtmlElement:
    """The parsed page; broken markup is mended as a browser would."""
    source = _XML_DECLARATION.sub("", source).replace("\x00", "")
    parser = lxml_html.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    if not source.strip():
        return lxml_html.Element("html")
    root = lxml_html.document_fromstring(source.encode("utf-8", "replace"), parser=parser, ensure_head_body=False)
    if any(entry.type == etree.ErrorTypes.ERR_RESOURCE_LIMIT for entry in parser.error_log):
        raise CannotParse(Reason.HOSTILE, "nested too deeply", "save the page anew from a browser and add it again")
    return root


def decode(data: bytes) -> tuple[str, list[str]]:
    """Text by byte order mark, declared charset, UTF-8, and at last a guess, which is noted."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace"), []
    if data[:200].count(0) > len(data[:200]) // 3:
        encoding = "utf-16-le" if data[1:200:2].count(0) > data[:200:2].count(0) else "utf-16-be"
        return data.decode(encoding, "replace"), [f"encoding guessed: {encoding}"]
    declared = _declared(data)
    for encoding in ["utf-8", declared] if declared in _LATIN else [declared, "utf-8"]:
        try:
            return data.decode(encoding), []
        except UnicodeDecodeError:
            continue
    if declared not in _LATIN and declared != "utf-8" and data.decode(declared, "replace").count("\ufffd") < 10:
        return data.decode(declared, "replace"), [f"some bytes are not {declared} as declared"]
    return data.decode("cp1252", "replace"), ["encoding guessed: cp1252"]


def _declared(data: bytes) -> str:
    """The codec the page names for itself, UTF-8 without one. Latin-1 means cp1252, as in every browser."""
    match = _DECLARED.search(data[:4096])
    try:
        found = codecs.lookup(match.group(1).decode()).name if match else "utf-8"
    except LookupError:
        return "utf-8"
    if found.startswith("utf-16") or found.startswith("utf-32"):
        return "utf-8"
    return "cp1252" if found in _LATIN else found


def hidden_passages(root: HtmlElement) -> int:
    """How many elements with text a reader of the page would not see."""
    return sum(
        1
        for element in root.iter("*")
        if (element.get("hidden") is not None or _HIDDEN_STYLE.search(element.get("style") or ""))
        and element.tag not in ("input", "script", "style", "template")
        and "".join(element.itertext()).strip()
    )
