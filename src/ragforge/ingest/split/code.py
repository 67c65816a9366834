"""Source code to an outline: definitions by indentation, in the languages people keep in folders."""

from __future__ import annotations

import io
import re

from ragforge.domain.titles import MAX_TITLE
from ragforge.ingest.split.outline import ITEM, KEY, LINES, PARAGRAPH, Outline

_LONGEST_LINE = 500  # a longer one defines nothing
_MODIFIERS = (
    r"(?:(?:export|default|declare|public|private|protected|internal|static|final|abstract|async|unsafe|const|inline"
    r"|virtual|override|open|sealed|data|partial|suspend|case|readonly|pub(?:\([^)]*\))?|extern(?:\s+\"C\")?|local"
    r"|template\s*<[^>]*>|@\w+(?:\([^)]*\))?)\s+)*"
)
_CONTAINER = re.compile(
    _MODIFIERS
    + r"(?P<word>class|struct|interface|enum|trait|impl|module|namespace|object|record|protocol|extension|mod|union)"
    + r"(?:\s+class|\s*<[^{]*?>)?\s+(?:[\w$.:<>, ]{1,100}?\s+for\s+)?(?P<name>[\w$.:]+)"
    + r"(?=\s*(?:$|[({:;<\[=,#]|//|(?:extends|implements|for|where|with)\b))"
)
_FUNCTION = re.compile(
    _MODIFIERS
    + r"(?:def|func|fn|function\*?|fun|sub|proc)\s+(?:\((?:[^)]*[^)\w])?(?P<receiver>\w++)\)\s*)?(?P<name>[\w$.:?!]+)"
    + r"\s*(?=[(<:{\[=]|$)"
)
_ASSIGNED = re.compile(
    r"(?:export\s+)?(?:const|let|var|val)\s+(?P<name>[\w$]+)\s*(?::[^=]*)?=\s*"
    r"(?:async\s*)?(?:function\b|\([^)]*\)\s*(?::[^=]*)?=>|\w+\s*=>)"
)
_TYPED = re.compile(r"(?:[\w:<>,*&\[\]~.?]+\s+){1,6}[*&]*(?P<name>~?[\w:$]+)\s*\([^;]*$")
_STATEMENT = re.compile(
    r"(?i:create\s+(?:or\s+replace\s+)?(?:\w+\s+){1,2}?(?:if\s+not\s+exists\s+)?)(?P<name>[\w.\"`]+)"
)
_SHELL = re.compile(r"(?P<name>[\w-]+)\s*\(\)\s*\{")
_METHOD = re.compile(_MODIFIERS + r"(?:get\s+|set\s+|\*\s*)?(?P<name>[\w$#]+)\s*\([^;]*\)\s*\{$")
_TYPE = re.compile(_MODIFIERS + r"(?:type|typedef|macro_rules!)\s+(?P<name>[\w$]+)")
_CONTROL = re.compile(
    r"(?:return|else|if|for|foreach|while|switch|catch|new|throw|await|yield|case|do|elif|assert|print|raise|not|and|or|in"
    r"|import|from|using|package|try|with|match)\b"
)
_OPENS_COMMENT = ("#", "//", "/*", "*", "--", "@", "[")


def scan(text: str) -> Outline:
    """The outline of a source file; the path of a piece is the definition it starts in."""
    return _Scanner(text).run()


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._outline = Outline()
        self._open: list[tuple[int, str, bool]] = []  # indent, name, whether it may hold definitions
        self._after_blank = True
        self._lead = -1  # start of the comments and decorators just above
        self._until = ""  # what ends the string or comment that goes over several lines

    def run(self) -> Outline:
        position = 0
        for line in io.StringIO(self._text):
            here, position = position, position + len(line)
            body = line.strip()
            if self._until:
                if self._until in body:
                    self._until = ""
            elif body:
                self._line(here, len(line) - len(line.lstrip()), body)
                self._until = _left_open(body)
                self._after_blank = False
            else:
                self._after_blank, self._lead = True, -1
        return self._outline

    def _line(self, here: int, indent: int, body: str) -> None:
        if not body.startswith(_OPENS_COMMENT):
            self._statement(here, indent, body)
            self._lead = -1
        elif self._lead < 0:
            self._lead = here
            self._loose(here, indent)

    def _loose(self, here: int, indent: int) -> None:
        """Comments that may turn out to belong to no definition are a place to cut all the same."""
        if self._after_blank or not self._outline.starts:
            self._outline.add(here, PARAGRAPH if indent == 0 else ITEM, LINES)

    def _statement(self, here: int, indent: int, body: str) -> None:
        opened = self._open
        while opened and (opened[-1][0] > indent or (opened[-1][0] == indent and body[0] not in "})]{")):
            opened.pop()
        if opened and not opened[-1][2]:
            return self._inner(here, indent, body)
        found = _define(body, nested=bool(opened))
        if found is None:
            return self._inner(here, indent, body)
        title, name, holds = found
        prefix = ".".join(outer for _, outer, _ in opened)
        start = here if self._lead < 0 else self._lead
        starts = self._outline.starts
        level = min(len(opened) + 1, 6)
        if starts and starts[-1] == start:
            self._outline.ranks[-1] = level
        else:
            self._outline.add(start, level, LINES)
        path = (f"{prefix}.{name}" if prefix else title)[:MAX_TITLE]
        self._outline.definition(start, here, level, (path,))
        opened.append((indent, name, holds))

    def _inner(self, here: int, indent: int, body: str) -> None:
        """A line that defines nothing: code of the module, or inside a definition."""
        if not self._after_blank and self._outline.starts:
            return
        if indent == 0 and body[0] not in "})]{":
            self._outline.add(here, KEY, LINES)
            if self._outline.headings and self._outline.headings[-1].path:
                self._outline.definition(here, here, 1, ())
        else:
            self._outline.add(here, ITEM, LINES)


def _left_open(body: str) -> str:
    """The end of the string or comment that a line begins and does not end."""
    for quote in ('"""', "'''"):
        if quote in body and body.count(quote) % 2:
            return quote
    return "*/" if "/*" in body and "*/" not in body[body.rindex("/*") :] else ""


def _define(body: str, *, nested: bool) -> tuple[str, str, bool] | None:
    """What a line defines: its title, its name, and whether definitions inside it count."""
    if len(body) > _LONGEST_LINE:
        return None
    body = " ".join(body.split())  # several patterns below would try every way to share out a long blank
    if found := _CONTAINER.match(body):
        name = found["name"].rstrip(":")
        return f"{found['word']} {name}", name, True
    if found := _FUNCTION.match(body):
        name = f"{found['receiver']}.{found['name']}" if found["receiver"] else found["name"].rstrip(":")
        return name, name, False
    if found := _ASSIGNED.match(body) or _TYPE.match(body) or _SHELL.match(body) or _STATEMENT.match(body):
        name = found["name"].strip('"`')
        return name, name, False
    if body[-1] in "{()}" and not _CONTROL.match(body):
        found = _TYPED.match(body) or (_METHOD.match(body) if nested else None)
        return (found["name"], found["name"], False) if found else None
    return None
