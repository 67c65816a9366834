"""Answering without a model: the sentences of the sources that answer the question best, exactly as they stand there.

Each unit of text is scored by how much of the question it covers (rare words count more, close ones more), by what
stands above and before it, by whether it holds the kind of thing that is asked for, and by how good its source is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from ragforge.answer.units import Span, Unit, announced, is_row, units
from ragforge.answer.weigh import Groups, TermsOf, covered, kin_of, weights
from ragforge.domain.prompts import Source

SOURCES = 5
"""So many sources are looked at."""
_NEAR = 4
"""Terms between two words of the question that still count as close."""
_LONGEST_WORD = 20
_MOST_PLACES = 32
"""Of one word in one unit."""
_TITLE_WORDS = 4
_STATES = re.compile(r"[\d:=]|[^\x00-\u024f]")
"""Signs of a value, or of a script whose words cannot be counted by spaces."""
_SENTENCE_ENDS = ".!?…:。！？\"'”»)"
_ALIKE = 0.8
"""Of two units that share so many of their terms, one is enough."""


class Quoted(NamedTuple):
    """A span of a source's text."""

    source: int
    start: int
    end: int
    text: str
    score: float


class Asked(StrEnum):
    """The kind of thing that answers."""

    NAME = "name"
    TIME = "time"
    AMOUNT = "amount"
    PLACE = "place"
    REASON = "reason"
    OTHER = "other"


_KINDS: tuple[tuple[Asked, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        (
            Asked.AMOUNT,
            r"\bhow (?:many|much|long|far|old|often|big|large|tall|high|deep|wide|fast|heavy|hot|cold|late|soon)\b"
            r"|\b(?:what|which)(?: \w+)? (?:percent\w*|number|amount|share|fraction|proportion|rate|price|cost|size"
            r"|weight|length|height|age|temperature|speed|distance|degree|population|budget|limit)\b"
            r"|\bat what\b|\bwie ?(?:viele?|lange?|oft|hoch|weit|teuer|schwer|gro(?:ß|ss))\b|\bcombien\b"
            r"|\bcu[aá]nt[oa]s?\b|\bquant[oiae]\b|\bhoeveel\b|\bhur många\b|多少|几|いくつ|いくら",
        ),
        (
            Asked.TIME,
            r"\bwhen\b|\b(?:what|which)(?: \w+)? (?:years?|centur\w+|dates?|days?|months?|decades?|times?|era|period)\b"
            r"|\b(?:until|since) when\b|\bwann\b|\bquand\b|\bcu[aá]ndo\b|\bquando\b|\bwanneer\b|\bnär\b"
            r"|何时|什么时候|いつ",
        ),
        (
            Asked.NAME,
            r"\bwho(?:m|se)?\b|\b(?:what|which)(?: \w+)? (?:person|people|man|woman|king|queen|emperor|president|leader"
            r"|author|company|organi[sz]ation|group|party|team)\b|\bwer\b|\bwem\b|\bwen\b|\bqui\b|\bqui[eé]n(?:es)?\b"
            r"|\bchi\b|\bquem\b|\bwie is\b|\bvem\b|谁|誰|だれ",
        ),
        (
            Asked.PLACE,
            r"\bwhere\b|\b(?:what|which)(?: \w+)? (?:countr\w+|cit(?:y|ies)|states?|places?|regions?|continents?|towns?"
            r"|rivers?|areas?|islands?|locations?|streets?)\b|\bwo(?:her|hin)?\b|\boù\b|\bd[oó]nde\b|\bdove\b"
            r"|\bonde\b|\bwaar\b|\bvar\b|哪里|哪儿|どこ",
        ),
        (
            Asked.REASON,
            r"\bwhy\b|\bwhat (?:caused|causes|led to|made)\b|\breasons?\b|\bwarum\b|\bwieso\b|\bpourquoi\b"
            r"|\bpor qu[eé]\b|\bperch[eé]\b|\bwaarom\b|\bvarför\b|为什么|なぜ",
        ),
    )
)
_TIMES = re.compile(
    r"\b(?:1\d{3}|20\d{2})s?\b|\b\d{1,4} ?(?:BCE?|AD|CE)\b|\b\d{1,2}(?:st|nd|rd|th)\b|\bcentur(?:y|ies)\b"
    r"|\b\d{1,2}:\d{2}\b|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b|[年月]"
    r"|\b(?:January|February|March|April|May|June|July|August|September|October|November|December|Januar|Februar"
    r"|März|Mai|Juni|Juli|Oktober|Dezember|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day)s?\b"
)
_AMOUNTS = re.compile(
    r"\d|[%€$£]|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen"
    r"|eighteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundreds?|thousands?|millions?|billions?|dozens?"
    r"|half|quarter|third|twice|double|single|several|few|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf)\b"
    r"|[一二三四五六七八九十百千万]",
    re.IGNORECASE,
)
_NAMES = re.compile(r"(?<![.!?:\n] )(?<!^)\b[^\W\d_a-z]\w*[\w'-]*")
_PLACES = re.compile(
    r"\b(?:in|at|from|near|to|of|into|across|through|towards?|im?|nach|aus|à|en|de)(?: the)? [^\W\d_a-z]\w+"
)
_REASONS = re.compile(
    r"\b(?:because|due to|since|in order to|so that|as a result|therefore|caused?|reasons?|thus|owing|led to|thanks to"
    r"|weil|denn|wegen|damit|parce que|afin|porque|perché)\b",
    re.IGNORECASE,
)
_HOLDING = {
    Asked.TIME: _TIMES,
    Asked.AMOUNT: _AMOUNTS,
    Asked.NAME: _NAMES,
    Asked.PLACE: _PLACES,
    Asked.REASON: _REASONS,
}
_WORD = re.compile(r"\w+")
_SPACELESS = re.compile("[\u3040-\u30ff\u3400-\u9fff\u0e01-\u0e4e]")
_CLAUSE = re.compile(r"(?<=[;,:–—])\s+|(?<!\s)\s+(?=[(–—])|(?<=[、，；])")


def asked_for(question: str) -> Asked:
    """What kind of thing the question asks for: the first one it names."""
    found = ((match.start(), kind) for kind, pattern in _KINDS if (match := pattern.search(question)))
    return min(found, key=lambda each: each[0], default=(0, Asked.OTHER))[1]


def word_count(text: str) -> int:
    """Words; in scripts without spaces, two characters count as one, and elsewhere at most twenty."""
    return max(len(text.split()) + len(_SPACELESS.findall(text)) // 2, len(text) // _LONGEST_WORD)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A unit of a source, and how well it answers."""

    source: Source
    units: Sequence[Unit]
    place: int
    """Among the units of its source."""
    terms: frozenset[str]
    features: tuple[float, ...]
    score: float

    @property
    def unit(self) -> Unit:
        return self.units[self.place]


_WEIGHTS = (4.4, 5.5, 1.8, 2.1, 8.4)
"""Of what the unit itself covers, what it covers with the text above and before it, close words, the fitting kind, and
the source's score beside the best one's; fitted on questions with known answers."""
_SCRAP_COSTS = 0.7
_FOLLOWS = 2.5
"""How much less a second sentence may score."""
_FOLLOWS_FACT = 1.0
"""The same after the answer to a question for a name, a time, an amount or a place."""


def quote(
    question: str,
    groups: Groups,
    rare: Mapping[str, float],
    sources: Sequence[Source],
    terms_of: TermsOf,
    *,
    sentences: int = 2,
    words: int = 60,
) -> list[Quoted]:
    """The best units, in the order of the sources: as many as that, together within so many words, none twice.

    A question for a fact gets one, unless a second is about as good. What announces a list or code is quoted with it.
    """
    ranked = sorted(candidates(question, groups, rare, sources, terms_of), key=lambda each: -each.score)
    factual = asked_for(question) not in (Asked.OTHER, Asked.REASON)
    chosen: list[_Candidate] = []
    quoted: list[Quoted] = []
    room = words
    for each in ranked:
        if len(quoted) == sentences or room < 1:
            break
        if chosen and each.score < chosen[0].score - (_FOLLOWS_FACT if factual else _FOLLOWS):
            break
        if any(_overlap(each, other, span) for other, span in zip(chosen, quoted, strict=True)):
            continue
        text = each.source.text
        if chosen and _is_scrap(text, each.unit) and not _is_scrap(chosen[0].source.text, chosen[0].unit):
            continue
        start, end = _with_announced(each, room)
        if any(span.source == each.source.number and start < span.end and span.start < end for span in quoted):
            start, end = each.unit.start, each.unit.end  # what it announces is quoted already
        if word_count(text[start:end]) > room:
            if chosen:
                continue  # another that fits is better than half of this
            start, end = _cut(text, start, end, groups, weights(groups, rare), terms_of, room)
        chosen.append(each)
        quoted.append(Quoted(each.source.number, start, end, text[start:end], each.score))
        room -= word_count(text[start:end])
    return sorted(quoted, key=lambda each: (each.source, each.start))


def _overlap(candidate: _Candidate, other: _Candidate, span: Quoted) -> bool:
    """Whether a unit repeats one that was chosen."""
    if candidate.source.number == span.source and candidate.unit.start < span.end and span.start < candidate.unit.end:
        return True
    fewer = min(len(candidate.terms), len(other.terms))
    return len(candidate.terms & other.terms) >= _ALIKE * fewer


def _with_announced(candidate: _Candidate, words: int) -> tuple[int, int]:
    """The span of a unit; with what it announces, or, of code, with what announces it, where that is short enough."""
    text, unit, place = candidate.source.text, candidate.unit, candidate.place
    start, end = unit.start, unit.end
    before = candidate.units[place - 1] if place else unit
    if unit.code and before.leads and word_count(text[before.start : end]) <= words:
        start = before.start
    for following in announced(text, candidate.units, place):
        if word_count(text[start : following.end]) > words:
            break
        end = following.end
    return start, end


def _cut(
    text: str, start: int, end: int, groups: Groups, weighed: Sequence[float], terms_of: TermsOf, words: int
) -> tuple[int, int]:
    """The clauses in a row that hold most of the question and are short enough; or as many words from the beginning."""
    borders = [start, *(start + cut.end() for cut in _CLAUSE.finditer(text[start:end])), end]
    pieces = [text[first:last] for first, last in pairwise(borders)]
    held = [frozenset(each) for each in terms_of(pieces)]
    sizes = [word_count(piece) for piece in pieces]
    best, span = -1.0, (start, start)
    for first in range(len(pieces)):
        last, size = first, 0
        while last < len(pieces) and size + sizes[last] <= words:
            size += sizes[last]
            last += 1
        if last > first:
            value = covered(groups, weighed, frozenset().union(*held[first:last]))
            if value > best:
                best, span = value, (borders[first], borders[last])
    if best <= 0:
        span = (start, _words_from(text, start, end, words))
    return span[0], span[0] + len(text[slice(*span)].rstrip())


def _words_from(text: str, start: int, end: int, words: int) -> int:
    """Where so many words from the beginning end; within one where scripts know no spaces."""
    last = start
    for word in re.finditer(r"\S+", text[start:end]):
        if word_count(text[start : start + word.end()]) > words:
            break
        last = start + word.end()
    return last if last > start else min(end, start + 2 * words - 1)


def candidates(
    question: str, groups: Groups, rare: Mapping[str, float], sources: Sequence[Source], terms_of: TermsOf
) -> list[_Candidate]:
    """Every unit of the best sources with its score, in the order of the text."""
    weighed = weights(groups, rare)
    pairs = [first + second for first, second in pairwise(weighed)]
    best = max((source.score for source in sources[:SOURCES]), default=0.0) or 1.0
    kind = asked_for(question)
    given = frozenset(_WORD.findall(question.casefold()))
    read = [_read(source, terms_of) for source in sources[:SOURCES]]
    kin = kin_of(groups, frozenset().union(*(held for each in read for held in each.terms)))
    found = []
    for source, (spans, terms, title, over) in zip(sources, read, strict=False):
        sets = [frozenset(held) for held in terms]
        for place, unit in enumerate(spans):
            if not _found(source, unit) or _is_title(source.text, unit):
                continue
            before = sets[place - 1] if place else frozenset()
            context = sets[place].union(before, title, *(over[span] for span in (*unit.above, *unit.under)))
            features = (
                covered(groups, weighed, sets[place], kin),
                covered(groups, weighed, context, kin),
                _close(groups, pairs, terms[place]),
                _fits(kind, source.text[unit.start : unit.end], given),
                source.score / best,
            )
            score = sum(weight * value for weight, value in zip(_WEIGHTS, features, strict=True))
            score -= _SCRAP_COSTS * _is_scrap(source.text, unit)
            found.append(_Candidate(source, spans, place, sets[place], features, score))
    return found


class _Read(NamedTuple):
    """A source's units with their terms, and those of its title and of the lines that units stand under."""

    units: list[Unit]
    terms: Sequence[Sequence[str]]
    title: Sequence[str]
    over: Mapping[Span, Sequence[str]]


def _read(source: Source, terms_of: TermsOf) -> _Read:
    text, spans = source.text, units(source.text)
    over = list(dict.fromkeys(span for unit in spans for span in (*unit.above, *unit.under)))
    pieces = [text[start:end] for start, end in (*over, *((unit.start, unit.end) for unit in spans))]
    title, *terms = terms_of([" ".join((source.name, *source.locator.path)), *pieces])
    return _Read(spans, terms[len(over) :], title, dict(zip(over, terms, strict=False)))


def _is_scrap(text: str, unit: Unit) -> bool:
    """Whether it is less than a sentence, and neither a row, code nor a value below its key: the subject of a mail."""
    return text[unit.end - 1] not in _SENTENCE_ENDS and not (unit.code or unit.under or is_row(text, unit))


def _is_title(text: str, unit: Unit) -> bool:
    """Whether it is a few words that state nothing."""
    shown = text[unit.start : unit.end]
    return _is_scrap(text, unit) and len(shown.split()) <= _TITLE_WORDS and not _STATES.search(shown)


def _found(source: Source, unit: Unit) -> bool:
    """Whether a unit is part of a chunk that the search found; a source may hold the text around them, too."""
    return not source.spans or any(unit.start < end and start < unit.end for _, start, end in source.spans)


def _close(groups: Groups, pairs: Sequence[float], terms: Sequence[str]) -> float:
    """How much of the question's neighbouring words are close to each other here, too."""
    if not (total := sum(pairs)):
        return 0.0
    where = [[place for place, term in enumerate(terms) if term in group][:_MOST_PLACES] for group in groups]
    near = sum(
        weight
        for weight, first, second in zip(pairs, where, where[1:], strict=False)
        if any(abs(one - other) <= _NEAR for one in first for other in second)
    )
    return near / total


def _fits(kind: Asked, text: str, given: frozenset[str]) -> float:
    """Whether the text holds what is asked for, and the question does not hold it already."""
    pattern = _HOLDING.get(kind)
    if pattern is None:
        return 0.0
    for match in pattern.finditer(text):
        if not given.issuperset(_WORD.findall(match[0].casefold())) or not match[0][0].isalnum():
            return 1.0
    return 0.0
