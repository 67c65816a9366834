"""Markdown to an outline, line by line: what CommonMark calls blocks, as far as cuts depend on them.

Most lines go on with a paragraph and are passed after one look at their first character.
"""

from __future__ import annotations

import io
import re

from ragforge.domain.titles import plain_title
from ragforge.ingest.split.outline import (
    ITEM,
    LINES,
    MAX_HEADINGS,
    MIXED,
    NESTED,
    PARAGRAPH,
    ROWS,
    SENTENCES,
    Outline,
    Table,
)

# What the line before left open.
_NOTHING, _PARAGRAPH, _TABLE, _FENCE, _HTML = range(5)

_SPECIAL = frozenset("#`~<-=|:+*_>0123456789")
_NO_PARAGRAPH = frozenset(("", "#", "`", "~", "<", "-", "*", "_", "+"))
_LONGEST_SETEXT = 300  # a longer paragraph over a ruled line is no heading, whatever the syntax says
_LONGEST_LINE = 2000  # of a line that is matched against a whole-line pattern

_FENCE_MARK = re.compile(r"(`{3,}|~{3,})([^\n]{0,200})")
_ITEM_MARK = re.compile(r"(?:[-+*]|(\d{1,9})[.)])(?=[ \t]|$)")
_RULE = re.compile(r"([-*_])(?:[ \t]*\1){2,}$")
_UNDERLINE = re.compile(r"(?:=+|-+)$")
_TABLE_RULE = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?$")
_FRONT_MATTER = re.compile(
    r"---[ \t]*\n(?=(?:#.*\n){0,50}[\w\"'-]+[ \t]*:)(?:(?!---|\.\.\.).*\n){0,500}(?:---|\.\.\.)[ \t]*(?:\n|\Z)"
)

_HTML_ENDS = (
    (
        re.compile(r"<(?:script|pre|style|textarea)(?=[\s>]|$)", re.I),
        re.compile(r"</(?:script|pre|style|textarea)>", re.I),
    ),
    (re.compile(r"<!--"), re.compile(r"-->")),
    (re.compile(r"<\?"), re.compile(r"\?>")),
    (re.compile(r"<!\[CDATA\["), re.compile(r"\]\]>")),
    (re.compile(r"<![A-Za-z]"), re.compile(r">")),
)
_HTML_BLOCK = re.compile(
    r"</?(?:address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|dialog|dir|div"
    r"|dl|dt|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|hr|html|iframe|legend|li|link"
    r"|main|menu|menuitem|nav|noframes|ol|optgroup|option|p|param|search|section|summary|table|tbody|td|tfoot|th"
    r"|thead|title|tr|track|ul)(?=[\s>]|/>|$)",
    re.I,
)
_HTML_ALONE = re.compile(
    r"<(?:/[A-Za-z][\w-]*\s*|[A-Za-z][\w-]*(?:\s+[\w:.@-]+(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s\"'=<>`]+))?)*\s*/?)>$"
)


def scan(text: str, grain: int = SENTENCES) -> Outline:
    """The outline of a Markdown text; `grain` says how its paragraphs may be cut."""
    return _Scanner(text, grain).run()


class _Scanner:
    def __init__(self, text: str, grain: int) -> None:
        self._text = text
        self._grain = grain
        self._outline = Outline()
        self._state = _NOTHING
        self._position = 0  # end of the current line
        self._previous = 0  # start of the line before
        self._paragraph = 0  # start of the open paragraph
        self._quoted = False  # the open paragraph is a block quote
        self._items: list[int] = []  # columns at which the content of the open list items begins
        self._bare_item_end = -1  # end of the list item without text just before: a blank line ends it
        self._code_end = -1  # end of the indented code just before
        self._fence = ("", 0, 0)  # its character, its length, the column of its list item
        self._html_end: re.Pattern[str] | None = None
        self._table = (0, 0)

    def run(self) -> Outline:
        lines = io.StringIO(self._text)
        self._skip_front_matter(lines)
        for line in lines:
            here = self._position
            self._position = here + len(line)
            body = line.strip()
            if self._state >= _FENCE:
                self._go_on(line, body, here)
            elif not body:
                self._close(here)
                if self._bare_item_end == here:
                    self._items.pop()
            elif not self._state or body[0] in _SPECIAL:
                self._begin(line, body, here)
            self._previous = here
        self._close(self._position)
        return self._outline

    def _skip_front_matter(self, lines: io.StringIO) -> None:
        if found := _FRONT_MATTER.match(self._text):
            self._outline.add(0, PARAGRAPH, LINES)
            self._position = found.end()
            lines.seek(found.end())

    def _close(self, here: int) -> None:
        """End the open paragraph, table or fence."""
        if self._state == _TABLE:
            self._outline.tables.append(Table(*self._table, here))
        self._state = _NOTHING

    def _go_on(self, line: str, body: str, here: int) -> None:
        """One more line of fenced code or HTML, or the line that ends it."""
        if self._state == _HTML:
            if self._html_end.search(line) if self._html_end else not body:
                self._state = _NOTHING
            return
        character, length, column = self._fence
        if not body:
            return
        if column and _indent(line) < column:  # its list item has ended, and the fence with it
            self._state = _NOTHING
            self._begin(line, body, here)
        elif body[0] == character and len(body) >= length and not body.strip(character) and _indent(line) < column + 4:
            self._state = _NOTHING

    def _begin(self, line: str, body: str, here: int) -> None:
        """A line that may begin a block; else it begins or goes on with a paragraph."""
        indent = _indent(line)
        items, goes_on = self._items, self._state != _NOTHING
        kept = items.copy() if items and indent < items[-1] else items
        while items and indent < items[-1]:
            items.pop()
        left = kept is not items
        inside = indent - (items[-1] if items else 0)
        if inside >= 4:
            begun = self._state != _PARAGRAPH and self._indented_code(here)
        elif body[0] == "#":
            begun = self._atx(body, here)
        elif body[0] in "`~":
            begun = self._open_fence(body, here, indent - inside)
        elif body[0] == "<":
            begun = self._open_html(body, here)
        elif body[0] == ">":
            begun = self._quote(body, here)
        else:
            begun = self._ruled(body, here, left) or self._item(body, here, indent, left)
        if not begun:
            if not goes_on:
                self._open_paragraph(here)
            elif left:  # a lazy line goes on with the item's paragraph
                items[:] = kept

    def _open_paragraph(self, here: int) -> None:
        self._close(here)
        self._outline.add(here, PARAGRAPH, self._grain)
        self._paragraph, self._quoted, self._state = here, False, _PARAGRAPH

    def _quote(self, body: str, here: int) -> bool:
        """A line of a block quote; what is quoted is not looked into beyond whether it is a paragraph."""
        if not (self._quoted and self._state == _PARAGRAPH):
            self._open_paragraph(here)
            self._quoted = True
        if body.lstrip("> \t")[:1] in _NO_PARAGRAPH:
            self._state = _NOTHING
        return True

    def _indented_code(self, here: int) -> bool:
        self._close(here)
        if self._code_end != here:
            self._outline.add(here, PARAGRAPH, MIXED)
        self._code_end = self._position
        return True

    def _atx(self, body: str, here: int) -> bool:
        rest = body.lstrip("#")
        level = len(body) - len(rest)
        if level > 6 or (rest and rest[0] not in " \t"):
            return False
        self._close(here)
        title = rest.strip()
        bare = title.rstrip("#")
        if not bare or bare[-1] in " \t":
            title = bare
        self._heading(here, level, title)
        return True

    def _heading(self, start: int, level: int, title: str) -> None:
        if self._items or len(self._outline.headings) >= MAX_HEADINGS:  # one in a list item governs nothing
            self._outline.add(start, PARAGRAPH, self._grain)
        else:
            self._outline.heading(start, self._position, level, plain_title(title))
        self._state = _NOTHING

    def _open_fence(self, body: str, here: int, column: int) -> bool:
        fence = _fence_length(body)
        if not fence:
            return False
        self._close(here)
        self._outline.add(here, PARAGRAPH, LINES)
        self._fence, self._state = (body[0], fence, column), _FENCE
        return True

    def _open_html(self, body: str, here: int) -> bool:
        end: re.Pattern[str] | None = None
        for begin, until in _HTML_ENDS:
            if found := begin.match(body):
                end = until
                if until.search(body, found.end() if until.pattern == ">" else 2):
                    self._open_paragraph(here)
                    self._state = _NOTHING
                    return True
                break
        else:
            alone = not self._state and len(body) < _LONGEST_LINE and _HTML_ALONE.match(body)
            if not alone and not _HTML_BLOCK.match(body):
                return False
        self._open_paragraph(here)
        self._outline.grains[-1] = MIXED
        self._html_end, self._state = end, _HTML
        return True

    def _ruled(self, body: str, here: int, left_item: bool) -> bool:
        """An underlined heading, a table's separator, or a rule."""
        if len(body) > _LONGEST_LINE:
            return False
        if self._state == _PARAGRAPH and not left_item:
            if not self._quoted and _UNDERLINE.match(body):
                return self._setext(body, here)
            if "|" in body and _TABLE_RULE.match(body) and "|" in self._text[self._previous : here]:
                return self._open_table()
        if body[0] in "-*_" and _RULE.match(body):
            self._close(here)
            return True
        return False

    def _setext(self, body: str, here: int) -> bool:
        start = self._paragraph
        if self._items or here - start > _LONGEST_SETEXT:
            self._close(here)
            return True
        self._outline.drop_last()
        self._heading(start, 1 if body[0] == "=" else 2, self._text[start:here])
        return True

    def _open_table(self) -> bool:
        """The line before was a table's header."""
        if self._paragraph == self._previous:
            self._outline.grains[-1] = ROWS
        else:
            self._outline.add(self._previous, PARAGRAPH, ROWS)
        self._table, self._state = (self._previous, self._position), _TABLE
        return True

    def _item(self, body: str, here: int, indent: int, left_item: bool) -> bool:
        """A list item. In the middle of a paragraph only some markers count as one."""
        found = _ITEM_MARK.match(body)
        if found is None:
            return False
        content = body[found.end() :].lstrip()
        in_text = self._state == _PARAGRAPH and not self._quoted and not left_item
        if in_text and (not content or found[1] not in (None, "1")):
            return False
        self._close(here)
        self._outline.add(here, NESTED if self._items else ITEM, self._grain)
        spaces = len(body) - len(content) - found.end()
        column = indent + found.end() + (spaces if content and spaces <= 4 else 1)
        self._items.append(column)
        if not content:
            self._bare_item_end = self._position
        elif fence := _fence_length(content):
            self._fence, self._state = (content[0], fence, column), _FENCE
        elif content[0] != "#":
            self._paragraph, self._quoted, self._state = here, False, _PARAGRAPH
        return True


def _fence_length(body: str) -> int:
    """The length of the fence that a line opens, or 0."""
    found = _FENCE_MARK.match(body)
    return 0 if found is None or (body[0] == "`" and "`" in found[2]) else len(found[1])


def _indent(line: str) -> int:
    """The column at which a line's text begins."""
    blank = line[: len(line) - len(line.lstrip())]
    return len(blank.expandtabs(4)) if "\t" in blank else len(blank)
