"""Found passages for terminals and programs: where they stand, the lines that bear on the question, their fields."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import takewhile
from typing import NamedTuple

from ragforge.domain.answers import Account
from ragforge.domain.discovery import TurnAccount
from ragforge.domain.documents import Locator
from ragforge.domain.language import detect
from ragforge.domain.lessons import FoundLessons
from ragforge.domain.retrieval import Passage, Retrieved
from ragforge.interfaces.cli.common import Common
from ragforge.interfaces.cli.names import fitted, told_apart
from ragforge.interfaces.cli.output import cut, one_line, paint, plain, plain_text, say, width_of_terminal

MOST_COLUMNS = 100
"""Longer lines are hard to read, however wide the terminal is."""
_LINES = 3
_SHORT_LINE = 50
"""A line of a text that is shorter than this ends there by intent, not because a page was full."""
_ELLIPSIS = 4
"""Cells kept free for what says that text is missing before or after a line."""
_RULE = re.compile(r"[\s|:=_*+-]*")
_HEADING = re.compile(r"(#{1,6}) (.+)")
_WORD = re.compile(r"\w(?:\S*\w)?")
_ITEM = re.compile(r"#{1,6} |[-*+•] |\d{1,3}[.)] ")
_SPACELESS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U000323af]"
)


def columns() -> int:
    """How wide a passage is shown."""
    return min(width_of_terminal() or MOST_COLUMNS, MOST_COLUMNS)


# -- where a passage stands


def place(locator: Locator, width: int | None = None) -> str:
    """Page or time, and the headings; where that is too long, the outer headings go first."""
    from rich.cells import cell_len

    label = "" if locator.start is None and locator.page is None else locator.label()
    paths = [locator.path, *(("…", *locator.path[left_out:]) for left_out in range(1, len(locator.path)))]
    paths += [()] if label else []
    texts = [one_line(" · ".join(part for part in (label, " > ".join(path)) if part)) for path in paths]
    if width is None:
        return texts[0]
    return cut(next((text for text in texts if cell_len(text) <= width), texts[-1]), width) if width > 0 else ""


def files_of(passages: Iterable[Passage]) -> dict[str, str]:
    """What to call the file of each passage, by the file's id."""
    return told_apart({passage.document: (passage.name, passage.source) for passage in passages})


def heading(number: str, name: str, passage: Passage, under: Sequence[str], width: int) -> str:
    """One line: number, file, place with the headings inside the passage, and the score at the right edge."""
    from rich.cells import cell_len

    score = f"{passage.score:.2f}"
    room = width - len(number) - len(score) - 4
    name = fitted(plain(name), room)
    locator = replace(passage.locator, path=(*passage.locator.path, *under))
    where = place(locator, max(0, room - cell_len(name) - 2))
    gap = " " * (room - cell_len(name) - cell_len(where) - (2 if where else 0) + 2)
    return f"{number}  {paint(name, 'bold')}{'  ' + where if where else ''}{gap}{paint(score, 'dim')}"


# -- the lines that bear on the question


@dataclass(frozen=True, slots=True)
class _Line:
    """A line as it fits the terminal, and the lines above that it needs: its heading, the first row of its table."""

    text: str
    heads: tuple[int, ...] = ()
    in_row: bool = False
    """Whether it goes on with a row that did not fit into one line: no place to begin."""
    title: str = ""
    """Of a heading, its words."""
    level: int = 0


class Excerpt(NamedTuple):
    """Some lines of a passage, and the headings inside it that they stand under."""

    under: tuple[str, ...]
    lines: list[str]


def excerpt(text: str, path: Collection[str], question: str, width: int, lines: int = _LINES) -> Excerpt:
    """The few lines of a passage that hold most of the question's words, those painted.

    Headings in `path` stand above the passage already and are not shown again.
    """
    shown = _laid_out(plain_text(text), frozenset(map(one_line, path)), width - _ELLIPSIS)
    find = _finder(question, detect(text) or "en")
    hits = [find(line.text) for line in shown]
    windows = [_window(shown, start, lines) for start, line in enumerate(shown) if not line.in_row]
    above, best = _titled(shown, max(windows, key=lambda window: _worth(window, hits), default=[]), lines)
    painted = [_painted(shown[index].text, hits[index]) for index in best]
    if best and best[0] > (above[-1] + 1 if above else 0):
        painted[0] = f"… {painted[0]}"
    if best and best[-1] < len(shown) - 1:
        painted[-1] += " …"
    return Excerpt(tuple(shown[index].title for index in above), painted)


def whole(text: str, question: str) -> list[str]:
    """Every line of a passage as it stands, the question's words painted."""
    find = _finder(question, detect(text) or "en")
    return [_painted(line, find(line)) for line in plain_text(text).strip("\n").split("\n")]


def _window(lines: Sequence[_Line], start: int, count: int) -> list[int]:
    """So many lines from here on, and before them what tells what they are about."""
    heads = [head for head in lines[start].heads if head < start][: count - 1]
    return heads + list(range(start, min(len(lines), start + count - len(heads))))


def _titled(lines: Sequence[_Line], window: Sequence[int], count: int) -> tuple[list[int], list[int]]:
    """The headings that a window begins with, outer ones first, and its other lines with more in their place."""
    titles = list(takewhile(lambda index: lines[index].level, window[:-1]))
    above = [
        index
        for place, index in enumerate(titles)
        if all(lines[index].level < lines[later].level for later in titles[place + 1 :])
    ]
    rest = list(window[len(titles) :])
    if rest:
        rest += range(rest[-1] + 1, min(len(lines), rest[-1] + 1 + count - len(rest)))
    return above, rest


def _worth(window: Sequence[int], hits: Sequence[Sequence[Hit]]) -> tuple[int, ...]:
    """How many different words, whether it is full and in one piece, how many words in all; the earliest of equals."""
    terms = [hit.terms for index in window for hit in hits[index]]
    return len(frozenset().union(*terms)), len(window), window[0] - window[-1], len(terms), -window[-1]


def _laid_out(text: str, known: Collection[str], width: int) -> list[_Line]:
    """A text in lines that fit: paragraphs flow, rows of tables and short lines stay by themselves."""
    lines: list[_Line] = []
    heading: tuple[int, ...] = ()
    table: tuple[int, ...] = ()
    for paragraph in _paragraphs(text):
        here = (len(lines),)
        is_row = paragraph.startswith("|")
        if title := _HEADING.fullmatch(paragraph):
            if title[2] in known:
                heading = ()
                continue
            heading = here
            table = ()
            lines.append(_Line(cut(paragraph, width), heading, title=title[2], level=len(title[1])))
            continue
        if not is_row:
            table = ()
        elif not table:
            table = here
        first_row = is_row and table == here
        pieces = [cut(paragraph, width)] if first_row else _wrapped(paragraph, width)
        lines += [_Line(piece, heading + table, is_row and number > 0) for number, piece in enumerate(pieces)]
    return lines


def _paragraphs(text: str) -> Iterator[str]:
    """Lines that belong together as one. Lines that only draw, as between a table's head and body, are left out."""
    words: list[str] = []
    for line in text.split("\n"):
        bare = " ".join(line.split())
        stands_alone = bare.startswith("|") or _ITEM.match(bare) is not None
        if words and (not bare or stands_alone):
            yield " ".join(words)
            words = []
        if _RULE.fullmatch(bare):
            continue
        words.append(bare)
        if bare.startswith("|") or len(bare) < _SHORT_LINE:
            yield " ".join(words)
            words = []
    if words:
        yield " ".join(words)


def _wrapped(text: str, width: int) -> Iterator[str]:
    """Broken between words; where there are none, as in Chinese, between characters."""
    from rich.cells import cell_len, chop_cells

    line, used = "", 0
    for word in text.split(" "):
        size = cell_len(word)
        if line and used + 1 + size > width:
            yield line
            line, used = "", 0
        if size > width:
            *full, word = chop_cells(word, width)
            yield from full
            size = cell_len(word)
        line, used = (f"{line} {word}", used + 1 + size) if line else (word, size)
    if line:
        yield line


@dataclass(frozen=True, slots=True)
class Hit:
    """Where a line holds a word of the question, and the terms they have in common."""

    start: int
    end: int
    terms: frozenset[str]


@lru_cache(maxsize=8)
def _finder(question: str, language: str) -> Callable[[str], list[Hit]]:
    """Words count as the same when the keyword index would take them so, in the language of the text."""
    from ragforge.retrieve.words import query_words

    wanted = frozenset(query_words(question, (language,)).terms)

    @cache
    def in_common(word: str) -> frozenset[str]:
        return wanted.intersection(query_words(word, (language,)).terms)

    def find(line: str) -> list[Hit]:
        return [
            Hit(word.start() + start, word.start() + end, terms)
            for word in _WORD.finditer(line)
            if (terms := in_common(word[0]))
            for start, end in _spans(word[0], terms)
        ]

    return find


def _spans(word: str, terms: frozenset[str]) -> Iterator[tuple[int, int]]:
    """The word; in scripts without spaces, where it may be a whole sentence, the terms inside it."""
    if not _SPACELESS.search(word):
        yield 0, len(word)
        return
    for inside in re.finditer("|".join(map(re.escape, sorted(terms))), word, re.IGNORECASE):
        yield inside.span()


def _painted(line: str, hits: Sequence[Hit]) -> str:
    pieces, at = [], 0
    for hit in hits:
        pieces += [line[at : hit.start], paint(line[hit.start : hit.end], "bold")]
        at = hit.end
    return "".join(pieces) + line[at:]


# -- what a person should know


def remark(retrieved: Retrieved) -> str:
    """A sentence on the result as a whole; empty if there is nothing to say."""
    return one_line(retrieved.notice[:1].upper() + retrieved.notice[1:])


def warn(common: Common, *results: Retrieved | Account | FoundLessons | TurnAccount) -> None:
    """What was not there, on stderr, also with `--quiet`: the result is less than was asked for."""
    for missing in dict.fromkeys(missing for result in results for missing in result.degraded):
        say(f"{paint('Warning:', 'yellow', sys.stderr)} {one_line(missing.message)}")
        if missing.hint:
            say(f"{paint('Next:', 'bold', sys.stderr)} {one_line(common.placed(missing.hint))}")
