"""Source code to an outline: definitions by indentation, in the languages people keep in folders."""

from __future__ import annotations

import io
import re

from ragforge.ingest.split.outline import ITEM, KEY, LINES, MAX_TITLE, PARAGRAPH, Outline

_LONGEST_LINE = 500  # a longer one defines nothing
_MODIFIERS = (
    r"(?:(?:export|default|declare|public|private|protected|internal|static|final|abstract|async|unsafe|const|inline"
    r"|virtual|override|open|sealed|data|partial|suspend|case|readonly|pub(?:\([^)]*\))?|extern(?:\s+\"C\")?|local"
    r"|template\s*<[^>]*>|@\w+(?:\([^)]*\))?)\s+)*"
)
_CONTAINER = re.compile(
    _MODIFIERS
    + r"(?P<word>class|struct|interface|enum|trait|impl|module|namespace|object|record|protocol|extension|mod|union)"
    + r"(?:\s+class|\s*<[^{]*?>)?\s+(?P<name>[\w$.:]+)(?=\s*(?:$|[({:;<\[=,]|extends\b|implements\b|for\b|where\b|<|with\b|#|//))"
)
_FUNCTION = re.compile(
    _MODIFIERS + r"(?:def|func|fn|function\*?|fun|sub|proc|macro)\s+(?:\([^)]*?(?P<receiver>\w+)\)\s*)?(?P<name>[\w$.:?!]+)\s*[(<:{\[=]?"
)
_ASSIGNED = re.compile(
    r"(?:export\s+)?(?:const|let|var|val)\s+(?P<name>[\w$]+)\s*(?::[^=]*)?=\s*(?:async\s*)?(?:function\b|\([^)]*\)\s*(?::[^=]*)?=>|\w+\s*=>)"
)
_TYPED = re.compile(r"(?:[\w:<>,*&\[\]~.?]+\s+){1,6}[*&]*(?P<name>~?[\w:$]+)\s*\([^;]*$")
_STATEMENT = re.compile(r"(?i:create\s+(?:or\s+replace\s+)?(?:\w+\s+){1,2}?(?:if\s+not\s+exists\s+)?)(?P<name>[\w.\"`]+)")
_SHELL = re.compile(r"(?P<name>[\w-]+)\s*\(\)\s*\{?")
_TYPE = re.compile(_MODIFIERS + r"(?:type|typedef|macro_rules!)\s+(?P<name>[\w$]+)")
_NO_TYPE = frozenset(("return", "else", "if", "for", "while", "switch", "new", "throw", "await", "yield", "case", "do",
                      "elif", "assert", "print", "raise", "not", "and", "or", "in", "import", "from", "using", "package"))
_OPENS_COMMENT = ("#", "//", "/*", "*", "--", "@", '"""', "'''", "[")


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

    def run(self) -> Outline:
        position = 0
        for line in io.StringIO(self._text):
            here, position = position, position + len(line)
            body = line.strip()
            if not body:
                self._after_blank, self._lead = True, -1
                continue
            indent = len(line) - len(line.lstrip())
            if body.startswith(_OPENS_COMMENT):
                if self._lead < 0:
                    self._lead = here
                    self._loose(here, indent, body)
            else:
                self._statement(here, indent, body)
                self._lead = -1
            self._after_blank = False
        return self._outline

    def _loose(self, here: int, indent: int, body: str) -> None:
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
        self._outline.definition(start, here + min(len(body), len(path) + len(prefix)), level, (path,))
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


def _define(body: str, *, nested: bool) -> tuple[str, str, bool] | None:
    """What a line defines: its title, its name, and whether definitions inside it count."""
    if len(body) > _LONGEST_LINE:
        return None
    if found := _CONTAINER.match(body):
        name = found["name"].rstrip(":")
        return f"{found['word']} {name}", name, True
    if found := _FUNCTION.match(body):
        name = f"{found['receiver']}.{found['name']}" if found["receiver"] else found["name"].rstrip(":")
        return name, name, False
    if found := _ASSIGNED.match(body) or _TYPE.match(body) or _SHELL.match(body) or _STATEMENT.match(body):
        name = found["name"].strip('"`')
        return name, name, False
    if body[-1] not in ";:,\\" and (found := _TYPED.match(body)) and body.split(None, 1)[0] not in _NO_TYPE:
        return found["name"], found["name"], False
    return None
