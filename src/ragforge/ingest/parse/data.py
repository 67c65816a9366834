"""JSON, JSON lines and YAML as readable lines: `key: value`, headings for the upper keys, tables for flat records.

Scalars stay as written: no number is rounded, no date or yes/no reinterpreted, no duplicate key lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import yaml

from ragforge.domain.documents import Parsed, Reason, TextKind
from ragforge.ingest.parse import transcript
from ragforge.ingest.parse.plain import decode, decode_notes
from ragforge.ingest.parse.table import markdown_table
from ragforge.ingest.parse.text import CannotParse, bounded, clean

MAX_DEPTH = 100
MAX_ALIASED = 100_000
COMMENT = "#"
_HEADING_DEPTH = 2
_SECTION_SIZE = 10
_MOST_COLUMNS = 30
_SHORT = 100
_IN_A_ROW = re.compile(r"[^\s,\[\]#](?:[^\n,\[\]#]*[^\s,\[\]#])?")
"""What can stand between brackets and commas and still be told apart."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """A mapping as written: in order, duplicates kept."""

    items: list[tuple[str, Value]]


Value = str | list["Value"] | Pairs


@dataclass(slots=True)
class _Notes:
    """What the reader noticed; each thing is said once."""

    said: dict[str, None] = field(default_factory=dict)

    def say(self, note: str) -> None:
        self.said.setdefault(note)


def parse(data: bytes, name: str) -> Parsed:
    text, guessed = decode(data)
    notes = _Notes(dict.fromkeys(decode_notes(guessed)))
    is_yaml = name.lower().endswith((".yaml", ".yml")) or text.startswith("%YAML")
    try:
        documents = list(_yaml_documents(clean(text))) if is_yaml else _json_documents(text, notes)
    except RecursionError as problem:
        raise _too_deep() from problem
    except (ValueError, yaml.YAMLError) as problem:
        kind = "YAML" if is_yaml else "JSON"
        notes.say(f"not valid {kind}: {_reason(problem)}; kept as plain text")
        return Parsed(bounded(clean(text)), TextKind.DATA, notes=tuple(notes.said))
    whole: Value = documents[0] if len(documents) == 1 else documents
    if _depth_exceeds(whole, MAX_DEPTH):
        raise _too_deep()
    special = _special(whole, tuple(notes.said))
    if special is not None:
        return special
    if not any(_words(whole)):
        raise CannotParse(Reason.EMPTY, "the file holds no text", "nothing to search in it; remove it or add text")
    return Parsed(bounded(clean(_render(documents))), TextKind.DATA, title=_title(whole), notes=tuple(notes.said))


def _too_deep() -> CannotParse:
    return CannotParse(
        Reason.HOSTILE, f"nested more than {MAX_DEPTH} levels deep", "save the file anew from the program that made it"
    )


def _reason(problem: Exception) -> str:
    """Where and what is wrong, on one line."""
    if isinstance(problem, json.JSONDecodeError):
        return f"line {problem.lineno}: {problem.msg}"
    mark = getattr(problem, "problem_mark", None)
    what = str(getattr(problem, "problem", None) or problem).split("\n")[0][:100]
    return f"line {mark.line + 1}: {what}" if mark else what


# Reading JSON


def _json_documents(text: str, notes: _Notes) -> list[Value]:
    """The one document, or one for each line."""
    text = text.lstrip("\ufeff")
    try:
        return [_json(text, notes)]
    except json.JSONDecodeError as problem:
        lines = [line for line in text.split("\n") if line.strip()]
        if problem.msg != "Extra data" or len(lines) < 2:
            raise
        return _json_lines(text, notes)


def _json_lines(text: str, notes: _Notes) -> list[Value]:
    documents: list[Value] = []
    damaged: list[int] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            documents.append(_json(line, notes))
        except json.JSONDecodeError:
            documents.append(line.strip())
            damaged.append(number)
    if len(damaged) * 2 > len(documents):
        raise ValueError("more than one value, and not one on each line")
    if damaged:
        notes.say(f"{len(damaged)} line(s) are not valid JSON, the first is line {damaged[0]}; kept as text")
    return documents


def _json(text: str, notes: _Notes) -> Value:
    def constant(word: str) -> str:
        notes.say(f"{word} is no JSON number: kept as written")
        return word

    value = json.loads(
        text,
        parse_int=str,
        parse_float=str,
        parse_constant=constant,
        object_pairs_hook=lambda items: Pairs([(key, _value(item)) for key, item in items]),
        strict=False,
    )
    return _value(value)


def _value(value: object) -> Value:
    """What the JSON reader made, with its words for nothing, yes and no as JSON writes them."""
    if isinstance(value, (str, Pairs)):
        return value
    if isinstance(value, list):
        return [_value(item) for item in value]
    return {None: "null", True: "true", False: "false"}[value]  # type: ignore[index]


# Reading YAML


@dataclass(slots=True)
class _Open:
    """A collection that is being read, and how many nodes it stands for with its aliases written out."""

    items: list[Value]
    mapping: bool
    anchor: str | None
    tag: str | None
    size: int = 1

    def close(self) -> Value:
        if not self.mapping:
            return _tagged(self.items, self.tag)
        keys, values = self.items[::2], self.items[1::2]
        return _tagged(Pairs([(_inline(key), value) for key, value in zip(keys, values, strict=True)]), self.tag)


def _yaml_documents(text: str) -> Iterator[Value]:
    """Each document, read from the parser's events: no tag is acted on, no alias grows without bound."""
    comments = _Comments(text.split("\n"))
    anchors: dict[str, tuple[Value, int]] = {}
    stack: list[_Open] = []
    aliased = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.DocumentStartEvent):
            anchors, stack = {}, [_Open([], False, None, None)]
        elif isinstance(event, yaml.DocumentEndEvent):
            yield from stack[0].items
        elif isinstance(event, yaml.CollectionStartEvent):
            stack.append(_Open([], isinstance(event, yaml.MappingStartEvent), event.anchor, event.tag))
            if len(stack) > MAX_DEPTH:
                raise _too_deep()
        elif isinstance(event, yaml.CollectionEndEvent):
            closed = stack.pop()
            _put(stack[-1], closed.close(), closed.size, closed.anchor, anchors)
        elif isinstance(event, yaml.ScalarEvent):
            words = comments.keep(event, stack[-1])
            _put(stack[-1], _tagged(words, event.tag), 1, event.anchor, anchors)
        elif isinstance(event, yaml.AliasEvent):
            value, size = anchors.get(str(event.anchor), (f"*{event.anchor}", 1))
            aliased += size
            if aliased > MAX_ALIASED:
                raise CannotParse(
                    Reason.HOSTILE, f"its aliases stand for more than {MAX_ALIASED:,} values", "write them out"
                )
            _put(stack[-1], value, size, None, anchors)


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _put(into: _Open, value: Value, size: int, anchor: str | None, anchors: dict[str, tuple[Value, int]]) -> None:
    into.items.append(value)
    into.size += size
    if anchor:
        anchors[anchor] = (value, size)


_COMMENT_LINE = re.compile(r"\s*+#++\s*+(.*\w.*)")
_COMMENT_BEHIND = re.compile(r"\s++#++\s*+(.*\w.*)")


@dataclass(slots=True)
class _Comments:
    """What people wrote beside the data; the parser's events leave it out."""

    lines: list[str]
    next_line: int = 0

    def keep(self, event: yaml.ScalarEvent, parent: _Open) -> str:
        """The scalar, with the comment behind it. Those above a key become an entry of their own."""
        start, end = event.start_mark, event.end_mark
        assert start and end
        above = [
            match[1] for line in self.lines[self.next_line : start.line] if (match := _COMMENT_LINE.fullmatch(line))
        ]
        self.next_line = max(self.next_line, end.line if end.column == 0 else end.line + 1)
        words = str(event.value)
        is_key = parent.mapping and len(parent.items) % 2 == 0
        if above and is_key:
            parent.items += [COMMENT, " ".join(above)]
        behind = above if not is_key else []
        if start.line == end.line < len(self.lines) and end.column:
            match = _COMMENT_BEHIND.fullmatch(self.lines[end.line], end.column)
            behind = [*behind, match[1]] if match else behind
        return "  # ".join([words, " ".join(behind)]) if behind else words


def _tagged(value: Value, tag: str | None) -> Value:
    """A tag of an application is kept as text."""
    if not tag or tag == "!" or tag.startswith("tag:yaml.org,2002:"):
        return value
    return f"{tag} {value}" if isinstance(value, str) else Pairs([(tag, value)])


# Looking at values


def _depth_exceeds(value: Value, limit: int) -> bool:
    """Level by level, so that looking is not itself a recursion."""
    level: list[Value] = [value]
    for _ in range(limit + 1):
        level = [inner for outer in level for inner in _inner(outer)]
        if not level:
            return False
    return True


def _inner(value: Value) -> list[Value]:
    """The collections directly in a value."""
    if isinstance(value, str):
        return []
    found = [item for _, item in value.items] if isinstance(value, Pairs) else value
    return [item for item in found if not isinstance(item, str)]


def _words(value: Value) -> Iterator[str]:
    """Everything in a value that is written, keys and scalars."""
    if isinstance(value, str):
        yield value.strip()
    elif isinstance(value, Pairs):
        for key, item in value.items:
            yield key.strip()
            yield from _words(item)
    else:
        for item in value:
            yield from _words(item)


def _plain(value: Value) -> object:
    """Dictionaries and lists, for those who look for a known shape."""
    if isinstance(value, Pairs):
        return {key: _plain(item) for key, item in value.items}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _keys(value: Value) -> set[str]:
    return {key for key, _ in value.items} if isinstance(value, Pairs) else set()


def _title(value: Value) -> str | None:
    if isinstance(value, Pairs):
        for key, item in value.items:
            if key.lower() in ("title", "name") and isinstance(item, str) and 0 < len(item) <= 200:
                return clean(item)
    return None


# Known shapes


def _special(value: Value, notes: tuple[str, ...]) -> Parsed | None:
    """A transcript or a notebook, told by its structure."""
    if {"cells", "nbformat"} <= _keys(value):
        return _notebook(_plain(value), notes)
    likely = _keys(value) & {"events", "segments", "snippets", "transcript", "captions", "cues"}
    if likely or (isinstance(value, list) and value and {"text", "start"} <= _keys(value[0])):
        cues = transcript.from_json(_plain(value))
        if cues:
            return transcript.render(cues, notes)
    return None


def _notebook(value: object, notes: tuple[str, ...]) -> Parsed | None:
    """A notebook's Markdown and code, with what the code printed."""
    cells = value.get("cells") if isinstance(value, dict) else None
    if not isinstance(cells, list):
        return None
    parts: list[str] = []
    for item in cells:
        if not isinstance(item, dict):
            continue
        source = _joined(item.get("source"))
        if not source.strip():
            continue
        parts.append(f"```\n{source}\n```" if item.get("cell_type") == "code" else source)
        outputs = item.get("outputs")
        for output in outputs if isinstance(outputs, list) else []:
            printed = _printed(output)
            if printed.strip():
                parts.append(f"```\n{printed.rstrip()}\n```")
    return Parsed(bounded(clean("\n\n".join(parts))), notes=notes)


def _printed(output: object) -> str:
    if not isinstance(output, dict):
        return ""
    shown = output.get("data")
    return _joined(output.get("text")) or (_joined(shown.get("text/plain")) if isinstance(shown, dict) else "")


def _joined(source: object) -> str:
    return "".join(map(str, source)) if isinstance(source, list) else source if isinstance(source, str) else ""


# Writing


def _render(documents: list[Value]) -> str:
    """All documents; several flat ones are a table."""
    if len(documents) == 1:
        return "\n".join(_block(documents[0], 0))
    if _is_table(documents):
        return "\n".join(_table(documents))
    return "\n\n".join("\n".join(_block(document, _HEADING_DEPTH)) for document in documents)


def _block(value: Value, depth: int) -> Iterator[str]:
    """A value as lines: mappings by key, lists by item, records as a table."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Pairs):
        yield from _mapping(value, depth)
    elif _is_table(value):
        yield from _table(value)
    else:
        for place, item in enumerate(value):
            if place and not isinstance(item, str):
                yield ""
            yield from _hung("- ", _block(item, max(depth, _HEADING_DEPTH)))


def _mapping(value: Pairs, depth: int) -> Iterator[str]:
    """Entries in their order. Sections get headings where they come last: what followed would fall under them."""
    items = list(_commented(value.items))
    sections = [_is_section(item) for _, _, item in items] if depth < _HEADING_DEPTH else []
    headed = any(sections) and all(sections[sections.index(True) :])
    if headed and not depth:  # the opening comment is about the whole, not about the first key
        opening, key, item = items[0]
        yield from opening
        items[0] = [], key, item
    for comments, key, item in items:
        if headed and _is_section(item):
            yield from ("", f"{'#' * (depth + 2)} {' '.join(key.split())}", "", *comments)
            yield from _block(item, depth + 1)
            continue
        yield from comments
        short = _inline_or_none(item)
        if short is None or "\n" in short:
            yield f"{key}:"
            yield from _indented(_block(item, max(depth + 1, _HEADING_DEPTH)) if short is None else [short])
        else:
            yield f"{key}: {short}".rstrip()


def _commented(items: list[tuple[str, Value]]) -> Iterator[tuple[list[str], str, Value]]:
    """Each entry with the lines of comment above it, which go where it goes."""
    comments: list[str] = []
    for place, (key, item) in enumerate(items, 1):
        if key == COMMENT and isinstance(item, str) and place < len(items):
            comments.append(f"{key}: {item}")
        else:
            yield comments, key, item
            comments = []


def _is_section(value: Value) -> bool:
    """Whether a value is long enough for a heading of its own."""
    return _inline_or_none(value) is None and sum(1 for _ in islice(_words(value), _SECTION_SIZE)) == _SECTION_SIZE


def _inline_or_none(value: Value) -> str | None:
    """A scalar, an empty collection or a short list of scalars, to be written behind its key."""
    if isinstance(value, str):
        return value.strip("\n")
    if isinstance(value, Pairs):
        return None if value.items else "{}"
    if not value:
        return "[]"
    if all(isinstance(item, str) and _IN_A_ROW.fullmatch(item) for item in value):
        row = _inline(value)
        return row if len(row) <= _SHORT else None
    return None


def _inline(value: Value) -> str:
    """A value on one line; a collection as a key is rare, but allowed in YAML."""
    if isinstance(value, str):
        return value
    if isinstance(value, Pairs):
        return "{" + ", ".join(f"{key}: {_inline(item)}" for key, item in value.items) + "}"
    return "[" + ", ".join(map(_inline, value)) + "]"


def _hung(lead: str, lines: Iterator[str]) -> Iterator[str]:
    """Lines behind a lead, the following ones indented as deep."""
    for block in lines:
        for line in block.split("\n"):
            yield (lead + line).rstrip() if line or lead.strip() else ""
            lead = "  "


def _indented(lines: Iterable[str]) -> Iterator[str]:
    for block in lines:
        yield from (f"  {line}".rstrip() for line in block.split("\n"))


def _is_table(values: list[Value]) -> bool:
    """Several records of scalars that share their keys for the most part."""
    if len(values) < 2:
        return False
    columns: dict[str, None] = {}
    filled = 0
    for value in values:
        if not isinstance(value, Pairs) or not value.items or len(_keys(value)) != len(value.items):
            return False
        if not all(isinstance(item, str) for _, item in value.items):
            return False
        columns.update(dict.fromkeys(key for key, _ in value.items))
        filled += len(value.items)
    return len(columns) <= _MOST_COLUMNS and filled * 2 >= len(columns) * len(values)


def _table(values: list[Value]) -> Iterator[str]:
    records = [dict(value.items) for value in values if isinstance(value, Pairs)]
    columns = list(dict.fromkeys(key for record in records for key in record))
    yield markdown_table(columns, ([str(record.get(column, "")) for column in columns] for record in records))
