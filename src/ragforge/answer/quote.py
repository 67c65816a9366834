"""Answering without a model: the sentences of the sources that answer the question best, exactly as they stand there.

Each unit of text is scored by how much of the question it covers (rare words count more, close ones more), by what
stands above and before it, by whether it holds the kind of thing that is asked for, and by how good its source is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import and_
from typing import NamedTuple

from ragforge.answer.asked import Asked, asked_for, compared, fits, wants_several
from ragforge.answer.units import Span, Unit, announced, continues, is_item, is_row, items, units
from ragforge.answer.weigh import Groups, TermsOf, covered, kin_of, named, weights
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
_RUN_IN_WORDS = 2
_ASKS = re.compile(r"[?？؟][\"'”’»)\]*_]*\Z")
_ASKED = 0.7
"""A question that holds so much of this one is this one again, and not its answer."""
_KEY = re.compile(r"[^\W\d_][^:.\n]{0,30}:[ \t]+")
_REST = re.compile(
    r"\|[ \t]*(?:else(?:where)?|(?:(?:all|any|the) )?(?:others?|rest)|default|otherwise|sonst(?:ige\w?)?|übrige\w?"
    r"|andere\w?|andernorts|autres?|ailleurs|otr[ao]s|altr[ie]|övriga|overige?)\b",
    re.IGNORECASE,
)
"""A row for whatever no other row is about."""
_ABOUT = 0.5
LIST_ITEMS, LIST_WORDS = 10, 120
"""At most so much is quoted of a list that is asked for."""
MOST_THINGS = 4
_WORDS_EACH = 30
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
    more: int = 0
    """So many items of its list are not quoted."""


_SPACELESS = re.compile("[\u3040-\u30ff\u3400-\u9fff\u0e01-\u0e4e]")
_CLAUSE = re.compile(r"(?<=[;,:–—])\s+|(?<!\s)\s+(?=[(–—])|(?<=[、，；])")


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
    over: frozenset[str]
    """Terms of the title and the lines that it stands under."""
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
    More than that is quoted of a list that is asked for, and where the same is asked about several things.
    """
    weighed = weights(groups, rare)
    ranked = sorted(candidates(question, groups, rare, sources, terms_of), key=lambda each: -each.score)
    if not ranked:
        return []
    if each_of := _about_each(question, ranked[0], groups, rare, sources, terms_of):
        return each_of
    if wants_several(question) and (listed := _listed(ranked[0], groups, weighed)):
        return listed
    return _best(question, ranked, groups, weighed, terms_of, sentences, words)


def _about_each(
    question: str,
    best: _Candidate,
    groups: Groups,
    rare: Mapping[str, float],
    sources: Sequence[Source],
    terms_of: TermsOf,
) -> list[Quoted]:
    """Of several things, the unit that tells most about each; none if one tells about several, or none about some."""
    things = compared(question)
    if not 1 < len(things) <= MOST_THINGS:
        return []
    _, *held = (frozenset(terms) for terms in terms_of([question, *things]))
    own = [terms.difference(*(other for other in held if other is not terms)) for terms in held]
    if sum(not mine.isdisjoint(best.terms) for mine in own) > 1:
        return []
    found: dict[tuple[int, int], Quoted] = {}
    for mine in own:
        others = frozenset().union(*own) - mine
        asked = [group for group in groups if others.isdisjoint(group) or not mine.isdisjoint(group)]
        about = [
            each
            for each in candidates(question, asked, rare, sources, terms_of)
            if not mine.isdisjoint(each.terms | each.over) and others.isdisjoint(each.terms | each.over)
        ]
        if not mine or not about:
            return []
        top = max(about, key=lambda each: each.score)
        text, (start, end) = top.source.text, (top.unit.start, top.unit.end)
        if word_count(text[start:end]) > _WORDS_EACH:
            start, end = _cut(text, start, end, asked, weights(asked, rare), terms_of, _WORDS_EACH)
        found[top.source.number, start] = Quoted(top.source.number, start, end, text[start:end], top.score)
    return [found[place] for place in sorted(found)]


def _listed(best: _Candidate, groups: Groups, weighed: Sequence[float]) -> list[Quoted]:
    """The items of the list that the best unit belongs to, if what the list stands under tells what it is about."""
    text = best.source.text
    about = covered(groups, weighed, best.over | best.terms if best.unit.leads else best.over)
    if about < _ABOUT or covered(groups, weighed, best.terms | best.over) > about:
        return []  # it is about something else, or this item about more than the others
    place = best.place + best.unit.leads
    spans = items(text, best.units, place) if place < len(best.units) else []
    if len(spans) < 2:
        return []
    start = end = min(spans[0][0], best.unit.start)
    if best.units[place].under:  # what announces it is quoted with it
        start = min(start, best.units[place].under[-1][0])
    shown = 0
    for _, last in spans[:LIST_ITEMS]:
        if word_count(text[start:last]) > LIST_WORDS:
            break
        end, shown = last, shown + 1
    if not shown:
        return []
    return [Quoted(best.source.number, start, end, text[start:end], best.score, len(spans) - shown)]


def _best(
    question: str,
    ranked: Sequence[_Candidate],
    groups: Groups,
    weighed: Sequence[float],
    terms_of: TermsOf,
    sentences: int,
    words: int,
) -> list[Quoted]:
    factual = asked_for(question) not in (Asked.OTHER, Asked.REASON)
    chosen: list[_Candidate] = []
    quoted: list[Quoted] = []
    room = words
    for each in ranked:
        if len(quoted) == sentences or room < 1:
            break
        if chosen and each.score < chosen[0].score - (_FOLLOWS_FACT if factual else _FOLLOWS):
            break
        if chosen and not each.features[0] and each.features[1] < chosen[0].features[1]:
            continue  # only its title has to do with the question
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
            start, end = _cut(text, start, end, groups, weighed, terms_of, room)
        chosen.append(each)
        more = _left_out(each, end) if end > each.unit.end else 0
        quoted.append(Quoted(each.source.number, start, end, text[start:end], each.score, more))
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


def _left_out(candidate: _Candidate, end: int) -> int:
    """How many items of the list that it announces come after this place."""
    following = announced(candidate.source.text, candidate.units, candidate.place)
    return sum(each.start >= end and is_item(candidate.source.text, each) for each in following)


def _cut(
    text: str, start: int, end: int, groups: Groups, weighed: Sequence[float], terms_of: TermsOf, words: int
) -> tuple[int, int]:
    """The clauses in a row that hold most of the question and are short enough; or as many words from the beginning."""
    borders = [start, *(start + cut.end() for cut in _CLAUSE.finditer(text[start:end])), end]
    pieces = [text[first:last] for first, last in pairwise(borders)]
    held = [frozenset(each) for each in terms_of(pieces)]
    best, span = -1.0, (start, start)
    for first in range(len(pieces)):
        last = first
        while last < len(pieces) and word_count(text[borders[first] : borders[last + 1]]) <= words:
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
    several = wants_several(question)
    given = frozenset().union(*groups, *terms_of([question]))
    read = [_read(source, terms_of) for source in sources[:SOURCES]]
    kin = kin_of(groups, frozenset().union(*(held for each in read for held in each.terms)))
    known = frozenset().union(*(terms for each in read for terms in (each.title, *each.terms, *each.over.values())))
    unheard = [known.isdisjoint(group) and not near for group, near in zip(groups, kin, strict=True)]
    strange = any(unheard) and any(map(and_, unheard, named(question, groups, terms_of)))
    found = []
    for source, (spans, terms, title, over) in zip(sources, read, strict=False):
        sets = [frozenset(held) for held in terms]
        alone = [covered(groups, weighed, held, kin) for held in sets]
        asks = [told >= _ASKED and _asks(source.text, unit) for unit, told in zip(spans, alone, strict=True)]
        rows_tell = any(is_row(source.text, unit) and told for unit, told in zip(spans, alone, strict=True))
        record: frozenset[str] = frozenset()  # of keys and values in one line, those before this one
        for place, unit in enumerate(spans):
            shown = source.text[unit.start : unit.end]
            before = sets[place - 1] if place else frozenset()
            record = before | record if _KEY.match(shown) and continues(source.text, unit) else frozenset()
            if unit.title or not _found(source, unit) or _is_title(source.text, spans, place):
                continue
            if asks[place] or _only_repeats(shown, sets[place], given, terms_of):
                continue
            if is_row(source.text, unit) and not alone[place] and not several and (rows_tell or not _REST.match(shown)):
                continue  # it is about another thing than the one that is asked about
            if strange and not alone[place] and not _REST.match(shown):
                continue  # only its title has to do with the question, and nothing here with the name in it
            over_it = frozenset().union(title, *(over[span] for span in (*unit.above, *unit.under)))
            features = (
                alone[place - 1] if place and asks[place - 1] else alone[place],
                covered(groups, weighed, sets[place].union(before, record, over_it), kin),
                _close(groups, pairs, terms[place]),
                fits(kind, " ".join((shown, *_header(source.text, unit))), question),
                source.score / best,
            )
            score = sum(weight * value for weight, value in zip(_WEIGHTS, features, strict=True))
            score -= _SCRAP_COSTS * _is_scrap(source.text, unit)
            found.append(_Candidate(source, spans, place, sets[place], over_it, features, score))
    return found


def _only_repeats(shown: str, held: frozenset[str], given: frozenset[str], terms_of: TermsOf) -> bool:
    """Whether it says nothing but words of the question, or they are the whole value of a key."""
    if held <= given:
        return True
    key = _KEY.match(shown)
    return key is not None and frozenset(terms_of([shown[key.end() :]])[0]) <= given


def _header(text: str, unit: Unit) -> list[str]:
    """Of a row, the names of the columns."""
    return [text[slice(*span)] for span in unit.above if text[span[0]] == "|"] if is_row(text, unit) else []


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


def _is_title(text: str, spans: Sequence[Unit], place: int) -> bool:
    """Whether it is a few words that state nothing: a heading, or one or two with a full stop that answer nothing."""
    unit = spans[place]
    shown = text[unit.start : unit.end]
    words = len(shown.split())
    if _STATES.search(shown.rstrip(":")) or unit.leads:
        return False
    if words <= _TITLE_WORDS and _is_scrap(text, unit):
        return True
    answers = place and _asks(text, spans[place - 1])
    return words <= _RUN_IN_WORDS and shown.endswith(".") and not answers


def _asks(text: str, unit: Unit) -> bool:
    return _ASKS.search(text, unit.start, unit.end) is not None


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
