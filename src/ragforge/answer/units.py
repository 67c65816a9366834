"""What of a text can be quoted on its own: a sentence, an item of a list, a row of a table, a few lines of code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from ragforge.domain.sentences import sentence_starts

_CODE_LINES = 12
"""A longer block of code is quoted by its lines."""

_LINE = re.compile(r"[^\n]*\n?")
_FENCE = re.compile(r"[ \t]*(?:>[ \t]?)*(`{3,}|~{3,})")
_HEADING = re.compile(r"[ \t]*#{1,6}[ \t]+\S")
_RULE = re.compile(r"[ \t]*(?:[-=*_+~][ \t]*){3,}$")
_ROW = re.compile(r"[ \t]*\|.*\|[ \t]*$")
_ROW_RULE = re.compile(r"\|?(?::?-+:?\|)*(?::?-+:?)?")
_ELSEWHERE = r"\{[*!%#].*[*!%#]\}|!\[[^\]]*\]\([^)]*\)(?:\{.*\})?"
_INCLUDES = re.compile(rf"[ \t]*(?:{_ELSEWHERE})[ \t]*$")
"""A line in place of something that is not in the text: a picture, another file."""
_DIRECTIVE = re.compile(rf"[ \t]*(?:{_ELSEWHERE}|/{{3,}}(?:[ \t].*)?|:{{3,}}.*|(?:<[^<>]+>[ \t]*)+|\[TOC\])[ \t]*$")
"""A line for the program that makes pages of the text: nobody reads it."""
_MARKER = re.compile(r"[ \t]*(?:>(?!>)[ \t]*)*(?:[-*+•‣▪][ \t]+(?:\[[ xX]\][ \t]+)?|\(?\d{1,3}[.)][ \t]+|>(?!>)[ \t]*)")
_PAIR = re.compile(r"[ \t]*[\w\"'./-]+[ \t]*[:=](?:[ \t]|$)")
_RECORD = re.compile(r"[ \t]*[\d\[<{(\"]")
_SPEAKER = re.compile(r"[^\W\d_][\w.'-]*(?: [^\W\d_][\w.'-]*){0,3}: ")
_CODE = re.compile(
    r"""[=;{}()\[\],][ \t]*$ | [ ]=[ ] | ^[ \t]*(?:>>>|\$|@|//|\#!|\"\"\")
      | ^[ \t]*(?:def|class)[ ]\w+.*[:({] | ^[ \t]*(?:import[ ][\w.]+$|from[ ][\w.]+[ ]import[ ])
      | ^[ \t]*(?:try|else|finally):$ | ^[ \t]*for[ ][\w, ]+[ ]in[ ].+:$ | ^[ \t]*with[ ].+[ ]as[ ]\w+:$
      | ^[ \t]*(?:if|elif|while|except)\b.*:$ | ^[ \t]+(?:return|raise|yield|pass|break|continue)\b
      | ^[ \t]*(?:func|fn|let|const|var)[ ]\w
    """,
    re.VERBOSE,
)
_NUMBER = re.compile(r"[ \t]*\d{1,3}[.)][ \t]+")
_STATES = re.compile(r"[\d:=|]|[.!?…,;。！？、，]\W{0,8}$|[^\x00-\u024f–—“”‘’„]")
"""Signs of a value or a sentence, or of a script whose words cannot be counted by spaces."""
_HEADING_WORDS, _TITLE_WORDS = 6, 20
_LONG = 50
"""Characters of a line that may go on in the next one."""

Span: TypeAlias = tuple[int, int]


class Unit(NamedTuple):
    """A span of the text, and those of the heading and the table header that it stands under."""

    start: int
    end: int
    above: tuple[Span, ...] = ()
    leads: bool = False
    """Whether it only announces what follows it, as a line that ends with a colon does."""
    code: bool = False
    under: tuple[Span, ...] = ()
    """Lines that announce it and are set in less deep: the keys above a value, what a list is about."""
    title: bool = False
    """Whether it only names what follows it, as the first line of a letter does, or a heading without a sign."""


def units(text: str) -> list[Unit]:
    """Every quotable span, in order and without overlap. No span begins or ends with white space."""
    found: list[Unit] = []
    heading: tuple[Span, ...] = ()
    table: tuple[Span, ...] = ()
    block: list[Span] = []
    fence = ""
    code: list[Span] = []

    def close() -> None:
        found.extend(_code(text, block, heading) if _is_code(text, block) else _sentences(text, block, heading))
        block.clear()

    for line in _LINE.finditer(text):
        start, end = line.start(), line.start() + len(line[0].rstrip())
        shown = text[start:end]
        if fence:
            if shown.strip().startswith(fence):
                found.extend(_code(text, code, heading))
                fence = ""
            elif shown.strip():
                code.append((start, end))
            continue
        first = shown.lstrip()[:1]
        if first != "|":
            table = ()
        if first.isalpha():  # most lines: none of the signs below
            block.append((start, end))
        elif opened := _FENCE.match(shown):
            close()
            fence, code = opened[1][:3], []
        elif not first or _RULE.match(shown) or _DIRECTIVE.match(shown):
            close()
        elif _HEADING.match(shown):
            close()
            heading = ((start, end),)
        elif _ROW.match(shown):
            close()
            if _is_rule(shown):
                continue
            if not table and _is_rule(_line_at(text, line.end())):
                table = ((start, end),)
            else:
                found.extend(_trimmed(text, start, end, heading + table))
        else:
            if marker := _MARKER.match(shown):
                close()
                start += marker.end()
            block.append((start, end))
    if fence:
        found.extend(_code(text, code, heading))
    close()
    return _nested(text, _titled(text, found))


def _is_rule(line: str) -> bool:
    """Whether it is the line between a table's header and its rows."""
    return "-" in line and _ROW_RULE.fullmatch(line.replace(" ", "").replace("\t", "")) is not None


def _line_at(text: str, start: int) -> str:
    return text[start : _line_end(text, start)].rstrip()


def _is_code(text: str, lines: list[Span]) -> bool:
    """Whether most of several lines look like code."""
    looks = sum(_CODE.search(text[start:end]) is not None for start, end in lines)
    return len(lines) > 1 and 2 * looks > len(lines)


def _code(text: str, lines: list[Span], above: tuple[Span, ...]) -> Iterator[Unit]:
    whole = [(lines[0][0], lines[-1][1])] if 0 < len(lines) <= _CODE_LINES else lines
    for start, end in whole:
        yield from (unit._replace(code=True) for unit in _trimmed(text, start, end, above))


def _sentences(text: str, lines: list[Span], above: tuple[Span, ...]) -> Iterator[Unit]:
    """The sentences of a paragraph. A line's end is one's end unless the line was only wrapped there."""
    begin = 0
    for place in range(len(lines)):
        if place + 1 == len(lines) or not _wrapped(text[slice(*lines[place])], text[slice(*lines[place + 1])]):
            start, end = lines[begin][0], lines[place][1]
            begin = place + 1
            borders = [start, *(at for at in sentence_starts(text, start, end) if at < end), end]
            for first, last in pairwise(borders):
                yield from _trimmed(text, first, last, above)


def _wrapped(line: str, following: str) -> bool:
    """Whether a line goes on in the next one: it is long, or the next begins in lower case; records do not go on."""
    if _SPEAKER.match(following) or any(each.match(line) and each.match(following) for each in (_PAIR, _RECORD)):
        return False
    return len(line) >= _LONG or following.lstrip()[:1].islower()


def _trimmed(text: str, start: int, end: int, above: tuple[Span, ...]) -> Iterator[Unit]:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    if any(sign.isalnum() for sign in text[start:end]):
        yield Unit(start, end, above, text[end - 1] in ":：")


def _titled(text: str, found: list[Unit]) -> list[Unit]:
    """Each unit with the title of a plain text and the line that it stands below as a heading."""
    titled: list[Unit] = []
    first: tuple[Span, ...] = ()
    last: tuple[Span, ...] = ()
    for place, unit in enumerate(found):
        if _heading(text, unit):
            titled += found[place:]  # from here on, headings have a sign
            break
        if place + 1 < len(found) and _names_what_follows(text, unit, first=not place):
            titled.append(unit._replace(above=first, title=True))
            first, last = ((unit.start, unit.end),) if not place else first, ((unit.start, unit.end),)
        else:
            titled.append(unit._replace(above=tuple(dict.fromkeys((*first, *last))) + unit.above))
    return titled


def _names_what_follows(text: str, unit: Unit, *, first: bool) -> bool:
    """Whether it is a line of a few words that states nothing, right above other text, or above all of it."""
    line, end = _line_start(text, unit.start), _line_end(text, unit.end)
    before, shown = text[line : unit.start], text[unit.start : unit.end]
    alone = not before.strip() or _NUMBER.fullmatch(before)
    if unit.code or not alone or text[unit.end : end].strip() or _STATES.search(shown):
        return False
    words = len(shown.split())
    if first and line == len(text) - len(text.lstrip()):
        return words <= _TITLE_WORDS
    follows = _line_at(text, end + 1)
    is_list = _NUMBER.match(follows) is not None and bool(before.strip())
    begins = bool(before.strip()) or not _line_before(text, line).strip()
    return words <= _HEADING_WORDS and begins and follows[:1].strip() != "" and not is_list


def _nested(text: str, found: list[Unit]) -> list[Unit]:
    """Each unit with the lines that announce it."""
    if not any(unit.leads for unit in found):
        return found
    nested: list[Unit] = []
    over: list[tuple[int, Span]] = []
    heading: Span | None = None
    for unit in found:
        if (above := _heading(text, unit)) != heading:
            heading, over = above, []
        depth = _depth(text, unit.start)
        while over and over[-1][0] >= depth and not continues(text, unit):
            over.pop()
        nested.append(unit._replace(under=tuple(span for _, span in over)) if over else unit)
        if unit.leads:
            over.append((_indent(text, unit.start), (unit.start, unit.end)))
    return nested


def _heading(text: str, unit: Unit) -> Span | None:
    """The heading, with its sign, that a unit stands under."""
    first = unit.above[:1]
    return first[0] if first and _HEADING.match(text, *first[0]) else None


def is_row(text: str, unit: Unit) -> bool:
    """Whether it is a row of a table."""
    return text[unit.start] == "|" and not unit.code


def is_item(text: str, unit: Unit) -> bool:
    """Whether it begins an item of a list."""
    before = text[_line_start(text, unit.start) : unit.start]
    return not unit.code and bool(before.strip()) and _MARKER.fullmatch(before) is not None


def items(text: str, spans: Sequence[Unit], place: int) -> list[Span]:
    """The whole list or table that a unit belongs to, item by item; nothing if it belongs to none."""
    unit = spans[place]
    if is_row(text, unit):
        return [(each.start, each.end) for each in _run(spans, place, lambda each: is_row(text, each))]
    while place and continues(text, spans[place]):
        place -= 1
    first = spans[place]
    if not is_item(text, first):
        return []
    indent = _indent(text, first.start)

    def belongs(each: Unit) -> bool:
        deep = _indent(text, each.start)
        return deep > indent or (deep == indent and (is_item(text, each) or continues(text, each)))

    found: list[Span] = []
    for each in _run(spans, place, belongs):
        if is_item(text, each) and _indent(text, each.start) == indent:
            found.append((each.start, each.end))
        elif found:
            found[-1] = (found[-1][0], each.end)
    return found


def _run(spans: Sequence[Unit], place: int, belongs: Callable[[Unit], bool]) -> Sequence[Unit]:
    """The units around a place that stand under the same lines and belong together."""
    same = spans[place].above
    first, last = place, place + 1
    while first and spans[first - 1].above == same and belongs(spans[first - 1]):
        first -= 1
    while last < len(spans) and spans[last].above == same and belongs(spans[last]):
        last += 1
    return spans[first:last]


def continues(text: str, unit: Unit) -> bool:
    """Whether it is not the first sentence of its line."""
    return any(map(str.isalpha, text[_line_start(text, unit.start) : unit.start]))


def _depth(text: str, at: int) -> int:
    """How far a unit is set in, with the marker of its item."""
    before = text[_line_start(text, at) : at]
    return len(before) if not any(map(str.isalpha, before)) else len(before) - len(before.lstrip())


def announced(text: str, spans: Sequence[Unit], place: int) -> Iterator[Unit]:
    """What a unit that ends with a colon announces: the block after a gap, or all that is set in deeper below it."""
    unit = spans[place]
    depth, rows = 0, False
    for following in spans[place + 1 :] if unit.leads else ():
        row = is_row(text, following)
        if _heading(text, following) != _heading(text, unit) or (rows and not row):
            return
        if any(map(_INCLUDES.match, text[unit.end : following.start].split("\n"))):
            return  # that was what it announced
        if row:
            rows = True
            yield following
            continue
        deep = following.start - _line_start(text, following.start)
        if not depth:
            gap = text[unit.end : following.start]
            if deep <= _indent(text, unit.start) and gap.count("\n") < 2:
                return
            depth = deep
        if deep < depth:
            return
        yield following
        if not depth:
            return


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return end if end >= 0 else len(text)


def _line_before(text: str, start: int) -> str:
    return text[_line_start(text, max(0, start - 1)) : max(0, start - 1)]


def _indent(text: str, at: int) -> int:
    line = text[_line_start(text, at) : at]
    return len(line) - len(line.lstrip())
