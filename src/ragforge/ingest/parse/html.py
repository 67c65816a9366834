"""HTML -> Markdown. Nothing it refers to is fetched."""

from __future__ import annotations

import re

from lxml import etree
from lxml import html as lxml_html
from lxml.html import HtmlElement

from ragforge.domain.documents import Parsed, Reason
from ragforge.ingest.parse.encoding import decode
from ragforge.ingest.parse.markup import markdown
from ragforge.ingest.parse.text import CannotParse, MarkedText

_XML_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![\d.])", re.I)


def parse(data: bytes, name: str) -> Parsed:
    """Markdown of the page, its `<title>`, and a note where the encoding was guessed or text is hidden."""
    source, guessed = decode(data)
    notes = [f"encoding guessed: {guessed}"] if guessed else []
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
    try:
        root = lxml_html.document_fromstring(source.encode("utf-8", "replace"), parser=parser, ensure_head_body=False)
    except etree.ParserError:  # nothing but white space and comments
        return lxml_html.Element("html")
    if any(entry.type == etree.ErrorTypes.ERR_RESOURCE_LIMIT for entry in parser.error_log):
        raise CannotParse(Reason.HOSTILE, "nested too deeply", "save the page anew from a browser and add it again")
    return root


def hidden_passages(root: HtmlElement) -> int:
    """How many elements with text a reader of the page would not see."""
    return sum(
        1
        for element in root.iter("*")
        if (element.get("hidden") is not None or _HIDDEN_STYLE.search(element.get("style") or ""))
        and element.tag not in ("input", "script", "style", "template")
        and "".join(element.itertext()).strip()
    )
