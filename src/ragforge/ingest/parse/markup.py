"""An HTML tree -> Markdown. Shared by HTML, DOCX, EPUB and mail, which all come down to such a tree.

Written for reading and search: ATX headings, one line for each table row, links with text and target,
pictures as their alternative text, and no backslash inside words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from urllib.parse import urlsplit

from lxml import etree
from lxml.html import HtmlElement

MAX_DEPTH = 100
"""Deeper elements are flattened into their parents: no honest structure is that deep, but unclosed tags are."""
MAX_COLUMNS = 1000
LAYOUT_CHARACTERS = 1000
"""A table row longer than this with structure inside its cells is page layout."""
ROW_CHARACTERS = 200
"""A row longer than this that is alone in its table is page layout."""


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_CONTAINERS = _names(
    "address article aside body center details dd div dt fieldset figcaption figure footer form header html "
    "legend main p section summary td th tr tbody thead tfoot caption li dir menu optgroup"
)
_BLOCKS = _CONTAINERS | frozenset(_HEADINGS) | _names("blockquote dl hr ol pre table ul listing xmp plaintext")
_DROPPED = _names(
    "script style noscript template svg canvas iframe object embed head audio video map nav select textarea "
    "button datalist colgroup col"
)
_TABLE_PARTS = _names("tbody thead tfoot tr td th caption colgroup col")
_EMPHASIS = {"b": "**", "strong": "**", "i": "*", "em": "*", "del": "~~", "s": "~~", "strike": "~~"}
_CODE = {"code", "kbd", "samp", "tt"}
_BREAK = "\x00"
_SPACES = re.compile(r"[ \t\r\n\f]+")
_AROUND_BREAK = re.compile(f" *{_BREAK} *")
_LINK_SCHEMES = {"", "http", "https", "mailto", "ftp", "tel"}


def markdown(root: HtmlElement) -> str:
    """The tree as Markdown."""
    flatten(root)
    return "\n\n".join(_Writer(root).blocks(root))


def table(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with its first row as header. Every row stays on one line; empty columns are left out."""
    width = max((len(row) for row in rows), default=0)
    filled = [column for column in range(width) if any(len(row) > column and row[column] for row in rows)]
    if not filled:
        return ""
    lines = ["| " + " | ".join(_cell(row, column) for column in filled) + " |" for row in rows if any(row)]
    lines.insert(1, "|" + " --- |" * len(filled))
    return "\n".join(lines)


def _cell(row: Sequence[str], column: int) -> str:
    return " ".join(row[column].split()).replace("|", "\\|") if column < len(row) else ""


def flatten(root: HtmlElement) -> None:
    """Take the tags away from what is nested deeper than `MAX_DEPTH`, leaving the text."""
    depth = 0
    too_deep: list[HtmlElement] = []
    for event, element in etree.iterwalk(root, events=("start", "end")):
        depth += 1 if event == "start" else -1
        if event == "start" and depth > MAX_DEPTH:
            too_deep.append(element)
    for element in reversed(too_deep):
        if element.tag in _DROPPED:
            element.drop_tree()
        elif isinstance(element.tag, str):
            if element.tag in _BLOCKS or element.tag == "br":
                element.text, element.tail = " " + (element.text or ""), " " + (element.tail or "")
            element.drop_tag()


def _squeeze(text: str, line_break: str = "\n") -> str:
    return _AROUND_BREAK.sub(line_break, _SPACES.sub(" ", text)).strip()


class _Writer:
    """Walks one tree. Knows which inline elements hold blocks (`<a><div>…`), so each is visited once."""

    def __init__(self, root: HtmlElement) -> None:
        self._holds_block: set[HtmlElement] = set()
        for element in root.iter(*_BLOCKS):
            parent = element.getparent()
            while parent is not None and parent not in self._holds_block:
                self._holds_block.add(parent)
                parent = parent.getparent()
        self._cells_open = 0
        self._special: dict[str, Callable[[HtmlElement], list[str]]] = {
            "ul": self._list,
            "ol": self._list,
            "table": self._table,
            "pre": self._pre,
            "listing": self._pre,
            "xmp": self._pre,
            "plaintext": self._pre,
            "blockquote": self._quote,
            "hr": lambda _: [],
            "dd": lambda element: [": " + text for text in ["\n\n  ".join(self.blocks(element))] if text],
        }

    def blocks(self, element: HtmlElement) -> list[str]:
        """The element's content as Markdown blocks."""
        found: list[str] = []
        run: list[str] = [element.text or ""]

        def flush() -> None:
            if text := _squeeze("".join(run)):
                found.append(text)
            run.clear()

        for child in element:
            if not isinstance(child.tag, str) or child.tag in _DROPPED:
                pass
            elif child.tag in _BLOCKS:
                flush()
                found.extend(self._block(child))
            elif child in self._holds_block:
                flush()
                found.extend(self.blocks(child))
            else:
                run.append(self._inline(child, "".join(run[-1:])))
            run.append(child.tail or "")
        flush()
        return found

    def _block(self, element: HtmlElement) -> list[str]:
        level = _HEADINGS.get(element.tag)
        if level is None:
            return self._special.get(element.tag, self.blocks)(element)
        inner = " ".join(self.blocks(element)) if element in self._holds_block else _squeeze(self._text(element), " ")
        text = " ".join(inner.split()).rstrip("¶#").rstrip()
        return [f"{'#' * level} {text}"] if text else []

    def _text(self, element: HtmlElement) -> str:
        """Inline content with its marks, white space not yet squeezed."""
        pieces = [element.text or ""]
        for child in element:
            if isinstance(child.tag, str) and child.tag not in _DROPPED:
                pieces.append(self._inline(child, pieces[-1]))
            pieces.append(child.tail or "")
        return "".join(pieces)

    def _inline(self, element: HtmlElement, before: str) -> str:
        tag = element.tag
        if tag == "br":
            return _BREAK
        if tag in ("img", "area"):
            return " ".join((element.get("alt") or "").split())
        if tag == "input":
            return _input(element)
        text = self._text(element)
        if tag == "a":
            return _link(text, element.get("href") or "")
        mark = _EMPHASIS.get(tag) or ("`" if tag in _CODE and "`" not in text else "")
        inside_word = before[-1:].isalnum() or (element.tail or "")[:1].isalnum()
        if not mark or inside_word or not text.strip(" \t\r\n\f" + _BREAK) or mark in text or _BREAK in text:
            return f'"{text}"' if tag == "q" else text
        core = text.strip(" \t\r\n\f")
        start = text.index(core)
        return text[:start] + mark + core + mark + text[start + len(core) :]

    def _list(self, element: HtmlElement) -> list[str]:
        lines: list[str] = [text for text in [_squeeze(element.text or "")] if text]
        number = _number(element, "start")
        for child in element:
            marker = f"{number}. " if element.tag == "ol" else "- "
            if child.tag in ("ul", "ol"):
                marker = "  "
            elif child.tag == "li":
                number += 1
            if content := self._item(child):
                lines.append(_indent(content, marker))
            if stray := _squeeze(child.tail or ""):
                lines.append(stray)
        return ["\n".join(lines)] if lines else []

    def _item(self, child: HtmlElement) -> list[str]:
        if not isinstance(child.tag, str) or child.tag in _DROPPED:
            return []
        return self._block(child) if child.tag in _BLOCKS and child.tag != "li" else self.blocks(child)

    def _quote(self, element: HtmlElement) -> list[str]:
        text = "\n\n".join(self.blocks(element))
        return ["\n".join(f"> {line}".rstrip() for line in text.split("\n"))] if text else []

    def _pre(self, element: HtmlElement) -> list[str]:
        for line_break in element.iter("br"):
            line_break.tail = "\n" + (line_break.tail or "")
        code = "".join(element.itertext()).replace("\r\n", "\n").strip("\n")
        fence = "```" if "```" not in code else "````"
        return [f"{fence}\n{code}\n{fence}"] if code.strip() else []

    def _table(self, element: HtmlElement) -> list[str]:
        rows = [row for row in element.iter("tr") if next(row.iterancestors("table"), None) is element]
        captions = [block for caption in element.findall("caption") for block in self.blocks(caption)]
        cells = [[child for child in row if child.tag in ("td", "th")] for row in rows]
        if _has_stray_content(element, rows) or _is_layout(element, rows, cells, nested=self._cells_open > 0):
            return self.blocks(element)
        grid = _grid(cells, self._cell_text)
        if self._cells_open:
            return ["; ".join(", ".join(filter(None, row)) for row in grid)]
        text = table(grid)
        return [*captions, text] if text else captions

    def _cell_text(self, cell: HtmlElement) -> str:
        self._cells_open += 1
        text = " ".join(" ".join(self.blocks(cell)).split())
        self._cells_open -= 1
        return text


def _is_layout(element: HtmlElement, rows: list[HtmlElement], cells: list[list[HtmlElement]], nested: bool) -> bool:
    """Whether a table arranges parts of the page, instead of holding values in rows and columns."""
    filled = [[place for place, cell in enumerate(row) if _has_content(cell)] for row in cells]
    if nested:
        return sum(map(len, filled)) < 2
    if len({place for row in filled for place in row}) < 2 or element.get("role") in ("presentation", "none"):
        return True
    if len([row for row in filled if row]) < 2:  # a label and its value belong on one line
        return _length(element) > ROW_CHARACTERS or any(_has_blocks(cell) for row in cells for cell in row)
    long = [row for row in rows if _length(row) > LAYOUT_CHARACTERS]
    if any(True for row in long for _ in row.iter("table", *_HEADINGS)):
        return True
    # Lists and paragraphs stand in the cells of data tables too, but do not make up most of their text.
    return 2 * sum(_length(row) for row in long if any(map(_has_blocks, row))) > sum(map(_length, rows))


def _has_content(cell: HtmlElement) -> bool:
    return any(text.strip() for text in cell.itertext()) or any(image.get("alt") for image in cell.iter("img", "area"))


def _has_blocks(cell: HtmlElement) -> bool:
    """More than the one paragraph that any cell may hold."""
    paragraphs = [part for part in cell.iter("p", "div") if part.find("p") is None and part.find("div") is None]
    return len(paragraphs) > 1 or any(True for _ in cell.iter("ul", "ol", "pre", "blockquote", *_HEADINGS))


def _length(element: HtmlElement) -> int:
    return sum(map(len, element.itertext()))


def _has_stray_content(table_element: HtmlElement, rows: list[HtmlElement]) -> bool:
    """True for broken markup: text in a table or row, but in no cell."""
    sections = [table_element, *table_element.iterchildren("tbody", "thead", "tfoot")]
    outside = [part.text for part in sections + rows] + [child.tail for part in sections + rows for child in part]
    inside = [
        "".join(child.itertext())
        for part in sections + rows
        for child in part
        if child.tag not in _TABLE_PARTS and isinstance(child.tag, str)
    ]
    return any((text or "").strip() for text in outside + inside)


def _grid(rows: list[list[HtmlElement]], text_of: Callable[[HtmlElement], str]) -> list[list[str]]:
    """Cells by row and column. A cell over several rows is repeated in each, so that a row can stand alone."""
    grid: list[list[str]] = [[] for _ in rows]
    taken: dict[tuple[int, int], str] = {}
    for number, row in enumerate(rows):
        column = 0
        for cell in row:
            while (number, column) in taken:
                column += 1
            text = text_of(cell)
            for offset in range(min(_span(cell, "colspan"), MAX_COLUMNS - column)):
                for below in range(min(_span(cell, "rowspan"), len(rows) - number)):
                    taken[number + below, column + offset] = text if not offset else ""
            column += _span(cell, "colspan")
    for (number, column), text in sorted(taken.items()):
        grid[number].extend([""] * (column - len(grid[number])))
        grid[number].append(text)
    return grid


def _span(cell: HtmlElement, name: str) -> int:
    return max(1, min(_number(cell, name), MAX_COLUMNS))


def _number(element: HtmlElement, name: str) -> int:
    """An attribute as number; 1 where it is none."""
    value = (element.get(name) or "").strip()
    return int(value) if value.isascii() and value.isdigit() and len(value) < 6 else 1


def _indent(content: Iterable[str], marker: str) -> str:
    text = "\n".join(content)
    return marker + text.replace("\n", "\n" + " " * len(marker))


def _input(element: HtmlElement) -> str:
    if (element.get("type") or "").lower() in ("checkbox", "radio"):
        return "[x] " if element.get("checked") is not None else "[ ] "
    return ""


def _link(text: str, target: str) -> str:
    """`[text](target)`; the text alone when the target is in this document, or nothing to keep."""
    target = target.strip()
    label = _squeeze(text, " ")
    try:
        scheme = urlsplit(target).scheme.lower()
    except ValueError:
        return text
    if not label or not target or target.startswith("#") or scheme not in _LINK_SCHEMES:
        return text
    if target in (label, f"mailto:{label}"):
        return text
    target = target.replace(" ", "%20").replace("(", "%28").replace(")", "%29")
    before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    return f"{before}[{label}]({target}){after}"
