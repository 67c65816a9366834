"""XML -> Markdown: what has a title becomes a section, mixed text a paragraph, the rest `name: value` lines."""

from __future__ import annotations

import html.entities
import re
from collections.abc import Iterator

from lxml import etree

from ragforge.domain.documents import Parsed, Reason
from ragforge.ingest.parse.encoding import decode
from ragforge.ingest.parse.html import tree
from ragforge.ingest.parse.markup import markdown
from ragforge.ingest.parse.package import refuse_entities
from ragforge.ingest.parse.text import CannotParse, MarkedText

_TITLES = frozenset(("title", "heading", "head", "name", "label"))
_PARAGRAPHS = frozenset(("p", "para", "simpara", "paragraph", "text", "programlisting", "screen", "literallayout"))
_ENCODED_HTML = re.compile(r"</\w+>|<br\b|<p>|<img\b", re.I)
_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_MAX_LEVEL = 6


def parse(data: bytes, name: str) -> Parsed:
    """Every text and attribute of the document, in order, under its name."""
    root, notes = _root(data)
    text = MarkedText()
    text.add(_tidy("\n".join(_lines(root, 1, 0))))
    return Parsed(text.text, title=_title(root) or next(filter(None, map(_title, root)), None), notes=notes)


def _root(data: bytes) -> tuple[etree._Element, tuple[str, ...]]:
    """The tree. What is not well-formed is read as far as it goes, and noted."""
    notes: tuple[str, ...] = ()
    try:
        root = etree.fromstring(data, _parser())
    except etree.XMLSyntaxError as problem:
        source, _ = decode(data)
        root = etree.fromstring(_DECLARATION.sub("", source).encode(), _parser(recover=True))
        notes = ("not well-formed XML: parts may be missing",)
        if root is None or not "".join(root.itertext()).strip():
            raise CannotParse(
                Reason.CORRUPT, f"not well-formed XML ({problem.msg})", "save it anew from the program that made it"
            ) from None
    refuse_entities(root)
    return root, notes


def _parser(recover: bool = False) -> etree.XMLParser:
    return etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
        recover=recover,
        encoding="utf-8" if recover else None,
    )


def _lines(element: etree._Element, level: int, depth: int) -> Iterator[str]:
    """An element as lines: `level` counts headings above it, `depth` how far it is indented below the last one."""
    name = _name(element)
    indent = "  " * depth
    attributes = _attributes(element)
    children = [child for child in element if isinstance(child.tag, str)]
    if not children or _is_mixed(element) or (depth and _holds_paragraphs_only(children)):
        yield from _leaf(element, name, indent, attributes)
        return
    title = _title(element)
    if title:
        yield f"\n{'#' * min(level, _MAX_LEVEL)} {title}\n"
        if attributes:
            yield attributes + "\n"
        below, depth = level + 1, 0
    else:
        if element.getparent() is not None:
            yield f"{indent}- {name}{f' ({attributes})' if attributes else ''}"
            depth += 1
        elif attributes:
            yield attributes + "\n"
        below = level
    for child in children:
        if not (title and _is_title(child)):
            yield from _lines(child, below, depth)


def _leaf(element: etree._Element, name: str, indent: str, attributes: str) -> Iterator[str]:
    text = _text(element)
    if name in _PARAGRAPHS and text:
        yield f"\n{text}\n"
        return
    described = f"{name} ({attributes})" if attributes else name
    if not text:
        if attributes:
            yield f"{indent}- {described}"
    elif "\n" in text:
        yield f"{indent}- {described}:\n\n{text}\n"
    else:
        yield f"{indent}- {described}: {text}"


def _text(element: etree._Element) -> str:
    """All text in the element on one line; as Markdown where it is HTML in disguise, as in feeds."""
    pieces = []
    for node in element.iter():
        if node.tag is etree.Entity:
            pieces.append(chr(html.entities.name2codepoint.get(node.name, 0xFFFD)))
        elif isinstance(node.tag, str):
            pieces.append(node.text or "")
        if node is not element:
            pieces.append((" " if _is_paragraph(node) else "") + (node.tail or ""))
    text = "".join(pieces)
    if _ENCODED_HTML.search(text):
        return markdown(tree(text))
    return " ".join(text.split())


def _is_mixed(element: etree._Element) -> bool:
    """True for text with elements in it: `<para>Press <key>Enter</key>.</para>`."""
    return bool((element.text or "").strip()) or any((child.tail or "").strip() for child in element)


def _holds_paragraphs_only(children: list[etree._Element]) -> bool:
    """True for the items of a list: `<listitem><para>…</para></listitem>`."""
    return all(_is_paragraph(child) and not len(child) for child in children)


def _is_paragraph(element: etree._Element) -> bool:
    return isinstance(element.tag, str) and _name(element) in _PARAGRAPHS


def _is_title(element: etree._Element) -> bool:
    return isinstance(element.tag, str) and _name(element).lower() in _TITLES


def _title(element: etree._Element) -> str | None:
    """The text of the child that names the element."""
    for child in element:
        if _is_title(child):
            title = _text(child)
            return title if title and len(title) <= 200 and "\n" not in title else None
    return None


def _name(element: etree._Element) -> str:
    return _local(element.tag)


def _local(name: str) -> str:
    """A name without namespace or prefix; what is mended may keep a prefix nobody declared."""
    return name.rpartition("}")[2].rpartition(":")[2]


def _attributes(element: etree._Element) -> str:
    return ", ".join(
        f"{_local(key)}: {' '.join(value.split())}" for key, value in element.attrib.items() if value.strip()
    )


def _tidy(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", text).strip()
