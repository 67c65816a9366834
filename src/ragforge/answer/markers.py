"""The markers a model writes for its sources, in any of their forms, and the numbers they stand for."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from ragforge.answer.clean import find_link, look_alikes, noted
from ragforge.domain.answers import RemovedCitation
from ragforge.domain.prompts import Source

LONGEST = 200
"""Characters between the brackets of a marker."""
BRACKETS = dict(zip("[【［〔〖〘〚⟦⟬⁅❲⦋⦗﹝⸨", "]】］〕〗〙〛⟧⟭⁆❳⦌⦘﹞⸩", strict=True))
"""Signs that open a marker, or look as if they did, and those that close it."""
_WIDEST_RANGE = 50
_DASH = "-‐‑‒–—−"
_PREFIX = (
    r"(?:(?:sources?|src|refs?|references?|docs?|documents?|passages?|quellen?|context|cit(?:e[ds]?|ations?)|notes?"
    r"|footnotes?|see|siehe|no|nr)\b\.?\s*[:#]?\s*)?"
)
_LIST = rf"[\^#]?\d{{1,9}}(?:\s*(?:[,;&+/]|and|und|[{_DASH}])\s*[\^#]?\d{{1,9}})*"
_WHERE = rf"[,;:]?\s*(?:pp?|pages?|s|seiten?|sections?|sec|chapters?|ch|lines?|§|at|t)\b\.?\s*=?\s*[\d.:{_DASH}]+"
_NUMBERS = re.compile(rf"\s*{_PREFIX}(?P<list>[{_DASH}]?{_LIST})\s*(?:†.*|{_WHERE}|[:|]\s*[^\W\d].*)?\s*", re.I)
_DECORATION = re.compile(r"[*_~`\\]+")
_RANGE = re.compile(rf"[\^#]?(\d+)(?:\s*[{_DASH}]\s*[\^#]?(\d+))?")
_CHUNK = re.compile(r"\s*chunks?(?:[ _-]?id)?\s*[:=]\s*(?P<ids>\S.*?)\s*", re.I)
_SOURCE = re.compile(
    r"\s*(?:source|src|quelle)\s*:\s*(?P<name>\S.*?)\s*"
    r"(?:,\s*(?:(?:pages?|pp?\.?|seite|s\.)\s*=?\s*(?P<page>\d{1,6})(?:\s*[-–]\s*\d{1,6})?"
    r"|(?:t\s*=|time\s*=?|at)\s*(?P<time>\d{1,3}(?::\d{2}){1,2})))?\s*",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Marker:
    """What a pair of brackets stands for: numbers of sources, and what was in it that stands for none."""

    numbers: tuple[int, ...] = ()
    removed: tuple[RemovedCitation, ...] = ()

    @property
    def text(self) -> str:
        """As it is shown."""
        return "".join(f"[{number}]" for number in self.numbers)


@dataclass(frozen=True, slots=True)
class Known:
    """The sources by everything they may be called."""

    numbers: frozenset[int]
    chunks: dict[str, int]
    names: dict[str, tuple[Source, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, sources: Sequence[Source]) -> Known:
        chunks: dict[str, int] = {}
        names: dict[str, tuple[Source, ...]] = {}
        for source in sources:
            for chunk in (source.chunk, *source.chunks):
                chunks.setdefault(chunk, source.number)
            for name in dict.fromkeys(_names(source.name)):
                names[name] = (*names.get(name, ()), source)
        return cls(frozenset(source.number for source in sources), chunks, names)


def _names(name: str) -> tuple[str, ...]:
    """A file by its path, its last part, and that without the ending."""
    path = PurePath(name.casefold())
    return name.casefold(), path.name, path.stem


def marker(inside: str, known: Known) -> Marker | None:
    """What the text between two brackets stands for; None: it is no marker."""
    if numbers := _NUMBERS.fullmatch(_undecorated(inside)):
        return _numbered(numbers["list"], inside, known)
    if chunk := _CHUNK.fullmatch(inside):
        return _chunks(chunk["ids"], known)
    if source := _SOURCE.fullmatch(inside):
        return _named(source, inside, known)
    return None


def _undecorated(inside: str) -> str:
    """What a reader sees in it: without emphasis and escapes, digits of every kind as digits."""
    plain = unicodedata.normalize("NFKD", inside.translate(look_alikes()))
    return _DECORATION.sub("", "".join(sign for sign in plain if not unicodedata.combining(sign)))


def _removed(inside: str, reason: str) -> RemovedCitation:
    """A marker as it can be told without harm."""
    alive = "<" in inside or any(find_link(word) >= 0 for word in inside.split())
    return RemovedCitation(f"[{noted(inside) if alive else inside.strip()}]", reason)


def _numbered(listed: str, inside: str, known: Known) -> Marker:
    if listed[0] in _DASH:
        return Marker((), (_removed(inside, "no source has a number below one"),))
    found: dict[int, None] = {}
    removed: list[RemovedCitation] = []
    for each in _RANGE.finditer(listed):
        first, last = int(each[1]), int(each[2] or each[1])
        if not 0 <= last - first < _WIDEST_RANGE:
            removed.append(_removed(inside, f"{each[0]} is no range of sources"))
            continue
        for number in range(first, last + 1):
            if number in known.numbers:
                found[number] = None
            else:
                removed.append(RemovedCitation(f"[{number}]", f"there is no source {number}"))
    return Marker(tuple(found), tuple(removed))


def _chunks(ids: str, known: Known) -> Marker:
    found: dict[int, None] = {}
    removed: list[RemovedCitation] = []
    for each in re.split(r"\s*[,;]\s*", ids):
        if each in known.chunks:
            found[known.chunks[each]] = None
        else:
            removed.append(_removed(f"chunk: {each}", "no chunk with this id was retrieved"))
    return Marker(tuple(found), tuple(removed))


def _named(match: re.Match[str], inside: str, known: Known) -> Marker:
    name = match["name"].strip("\"'“”").casefold()
    called = known.names.get(name, ())
    page, time = match["page"], match["time"]
    fitting = [
        source
        for source in called
        if (page is None or _has_page(source, int(page))) and (time is None or _has_time(source, _seconds(time)))
    ]
    if fitting:
        return Marker((fitting[0].number,))
    if called:
        reason = f"no source from {called[0].name} has " + (f"page {page}" if page else f"the time {time}")
    else:
        reason = "no source has this name"
    return Marker((), (_removed(inside, reason),))


def _has_page(source: Source, page: int) -> bool:
    first = source.locator.page
    return first is not None and first <= page <= (source.locator.page_end or first)


def _has_time(source: Source, seconds: int) -> bool:
    start = source.locator.start
    return start is not None and int(start) <= seconds <= (start if source.locator.end is None else source.locator.end)


def _seconds(clock: str) -> int:
    total = 0
    for part in clock.split(":"):
        total = total * 60 + int(part)
    return total
