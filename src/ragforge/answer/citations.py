"""What a marker in an answer rests on: the passage, the words in it that bear the sentence out, and what is missing.

A cited sentence is proved if all its numbers, names and negations, and most of its other words, are in the passages it
cites, with their titles and headings. That is a check of words, not of meaning: it finds what was made up.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ragforge.answer.clean import OURS
from ragforge.answer.sources import Paths, path_at, paths_in
from ragforge.answer.stream import clean
from ragforge.answer.units import Unit, units
from ragforge.answer.weigh import TermsOf
from ragforge.domain.answers import Citation, RemovedCitation
from ragforge.domain.documents import clock_time
from ragforge.domain.language import detect
from ragforge.domain.prompts import Source

_MARKER = re.compile(r"\[(\d{1,9})\]")
_MARKERS_AFTER = re.compile(
    r"(?<![.!?…。！？])([.!?…。！？]{1,8}[\"'”’»)]{0,8})([ \t]{0,8}(?:\[\d{1,9}\][ \t]?)*\[\d{1,9}\])"
)
_WORDS_HELD = 0.6
"""The part of a sentence's plain words that must be in the passage: who rephrases uses some of his own."""
_SHORTEST_WORD = 4
_CLAIM_WORDS = 3
"""A sentence of fewer words that tell something claims nothing."""
_LONGEST_QUOTE = 600
_TOLD = 6
"""Missing things that are named."""


@dataclass(frozen=True, slots=True)
class Checked:
    """An answer after its check."""

    text: str
    citations: tuple[Citation, ...]
    removed: tuple[RemovedCitation, ...]
    unproved: tuple[str, ...]
    """Sentences whose citations do not bear them out."""
    stripped: tuple[str, ...] = ()
    uncited: int = 0
    """Sentences that claim something and cite nothing."""


def check(
    text: str,
    sources: Sequence[Source],
    terms_of: TermsOf,
    allowed_links: Collection[str] = (),
    *,
    addresses: bool = True,
    question: str = "",
) -> Checked:
    """What the model wrote, cleaned as the stream was, with every marker traced to its passage.

    Where a sentence stands in a passage more than once, the one is meant whose headings the sentence or the `question`
    speaks of.
    """
    shown, passed = clean(text, sources, allowed_links, addresses=addresses)
    by_number = {source.number: source for source in sources}
    told = _told(shown, by_number)
    cited = [sentence for sentence in told if sentence.markers]
    passages = {
        number: _Passage.of(by_number[number], terms_of)
        for number in dict.fromkeys(int(match[1]) for sentence in cited for match in sentence.markers)
    }
    language = detect(shown) or "en"
    asked = frozenset(terms_of([question])[0])
    citations: list[Citation] = []
    unproved: list[str] = []
    for sentence in cited:
        claim = _Claim.of(sentence.bare, terms_of, language)
        held = [passages[number] for number in dict.fromkeys(int(match[1]) for match in sentence.markers)]
        missing = claim.missing_in(held)
        if missing:
            unproved.append(sentence.bare)
        found = {passage.source.number: _citation(claim, passage, missing, asked) for passage in held}
        citations.extend(
            replace(found[int(match[1])], start=match.start(), end=match.end()) for match in sentence.markers
        )
    citations.sort(key=lambda citation: citation.start)
    uncited = sum(not sentence.markers and sentence.claims for sentence in told)
    return Checked(shown, tuple(citations), tuple(passed.removed), tuple(unproved), tuple(passed.stripped), uncited)


def proving(terms_of: TermsOf) -> Callable[[str, Source], bool]:
    """A check of single statements, with all their sentences, against one source each; a source is read once."""
    passages: dict[Source, _Passage] = {}

    def proved(statement: str, source: Source) -> bool:
        if source not in passages:
            passages[source] = _Passage.of(source, terms_of)
        claim = _Claim.of(statement, terms_of, detect(statement) or "en")
        return not claim.missing_in([passages[source]])

    return proved


def _citation(claim: _Claim, passage: _Passage, missing: str, asked: frozenset[str]) -> Citation:
    """What a sentence rests on; where its marker stands is not known here."""
    source = passage.source
    start, end = passage.best_for(claim, asked)
    reason = missing
    if not reason and claim.terms and claim.terms.isdisjoint(passage.terms):
        reason = "nothing of the sentence is in this passage"
    return Citation(
        marker=source.number,
        chunk=_leaf(source, start, end),
        document=source.document,
        name=source.name,
        locator=replace(source.locator, path=path_at(passage.paths, start)),
        quote=source.text[start:end],
        start=0,
        end=0,
        proved=not reason,
        reason=reason,
    )


def _leaf(source: Source, start: int, end: int) -> str:
    """The chunk that holds most of a span; the best of the source's chunks if none does."""
    shared = [(min(end, last) - max(start, first), chunk) for chunk, first, last in source.spans]
    most = max(shared, key=lambda each: each[0], default=(0, ""))
    return most[1] if most[0] > 0 else source.chunk


# -- the sentences of an answer


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence of the answer without its markers, and these."""

    bare: str
    markers: tuple[re.Match[str], ...]
    claims: bool


def _told(text: str, known: Collection[int]) -> list[_Sentence]:
    """The sentences with the markers that belong to each: those inside and those that follow it on its line."""
    code = [match.span() for match in _CODE.finditer(text)]
    markers = [
        match for match in _MARKER.finditer(text) if int(match[1]) in known and not _is_inside(code, match.start())
    ]
    own = OURS.sub(_blank, text)
    masked = _MARKER.sub(_blank, _MARKERS_AFTER.sub(_full_stop_last, own))
    spans = units(masked)
    starts = [unit.start for unit in spans]
    belonging: dict[int, list[re.Match[str]]] = {}
    alone: dict[int, list[re.Match[str]]] = {}
    for match in markers:
        place = _place(text, spans, starts, match.start())
        if place is None:
            alone.setdefault(text.rfind("\n", 0, match.start()) + 1, []).append(match)
        else:
            belonging.setdefault(place, []).append(match)
    told = [
        _Sentence(_bare(masked[unit.start : unit.end]), tuple(belonging.get(place, ())), _claims(masked, unit, code))
        for place, unit in enumerate(spans)
    ]
    return told + [_Sentence(_bare(_line(own, start)), tuple(found), False) for start, found in alone.items()]


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _full_stop_last(match: re.Match[str]) -> str:
    """`so. [1]` as `so [1].`, so that the marker is in the sentence; as long as before."""
    return match[2] + match[1]


def _place(text: str, spans: Sequence[Unit], starts: Sequence[int], at: int) -> int | None:
    before = bisect_right(starts, at) - 1
    if before >= 0 and (at < spans[before].end or "\n" not in text[spans[before].end : at]):
        return before
    after = before + 1
    if after < len(spans) and "\n" not in text[at : spans[after].start]:
        return after
    return None


def _line(text: str, start: int) -> str:
    end = text.find("\n", start)
    return text[start : end if end >= 0 else len(text)]


def _bare(text: str) -> str:
    """Without markers, and without the gaps they left."""
    return re.sub(r"\s+([.,;:!?…])", r"\1", " ".join(_MARKER.sub(" ", text).split()))


_CODE = re.compile(
    r"^(`{3,}|~{3,})[^\n]*\n.*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)|(?<!`)(`+)(?!`)[^\n]*?(?<!`)\2(?!`)", re.M | re.S
)


def _is_inside(spans: Sequence[tuple[int, int]], at: int) -> bool:
    """Whether one of these spans, which are in order, holds the place."""
    place = bisect_right(spans, at, key=lambda span: span[0]) - 1
    return place >= 0 and at < spans[place][1]


def _claims(text: str, unit: Unit, code: Sequence[tuple[int, int]]) -> bool:
    shown = text[unit.start : unit.end]
    if unit.leads or shown.endswith("?") or _is_inside(code, unit.start):
        return False
    telling = [word for word in _WORD.findall(shown) if len(word) >= _SHORTEST_WORD or word.isdigit()]
    return len(telling) >= _CLAIM_WORDS


# -- what a sentence claims, and what a passage holds


@dataclass(frozen=True, slots=True)
class _Claim:
    """What must be in a passage for a sentence to be proved."""

    words: Mapping[str, frozenset[str]]
    """Each telling word with its terms."""
    names: Mapping[str, frozenset[str]]
    numbers: Mapping[str, frozenset[str]]
    """Each number as it is written, with the values it may stand for."""
    denies: bool

    @classmethod
    def of(cls, sentence: str, terms_of: TermsOf, language: str) -> _Claim:
        figures = numbers(sentence)
        names = list(dict.fromkeys(_names(sentence, language)))
        rest = _NUMBER.sub(" ", sentence)
        words = [
            word for word in dict.fromkeys(_WORD.findall(rest)) if len(word) >= _SHORTEST_WORD or not word.isascii()
        ]
        plain = [word for word in words if word not in names and word.casefold() not in _NUMBER_WORDS]
        _, *terms = map(frozenset, terms_of([sentence, *names, *plain]))
        return cls(
            dict(zip(plain, terms[len(names) :], strict=True)),
            dict(zip(names, terms, strict=False)),
            figures,
            _denies(sentence),
        )

    @property
    def terms(self) -> frozenset[str]:
        return frozenset().union(*self.words.values(), *self.names.values(), *self.numbers.values())

    def missing_in(self, passages: Sequence[_Passage]) -> str:
        """What the passages do not hold, in words; empty if they bear the sentence out."""
        terms = frozenset().union(*(passage.terms for passage in passages))
        values = frozenset().union(*(passage.values for passage in passages))
        missing = []
        if absent := [written for written, meant in self.numbers.items() if meant.isdisjoint(values)]:
            missing.append(_listed("number", absent))
        if absent := [name for name, each in self.names.items() if each and not _is_held(name, each, terms)]:
            missing.append(_listed("name", absent))
        if self.denies and not any(passage.denies for passage in passages):
            missing.append("a negation")
        telling = [word for word, each in self.words.items() if each]
        absent = [word for word in telling if self.words[word].isdisjoint(terms)]
        nothing_else = len(absent) == len(telling) and not (self.names or self.numbers)
        if absent and (nothing_else or len(absent) > max(1, (1 - _WORDS_HELD) * len(telling))):
            missing.append(_listed("word", absent))
        return f"not in the passage: {'; '.join(missing)}" if missing else ""


def _is_held(name: str, terms: frozenset[str], held: frozenset[str]) -> bool:
    """A code only as a whole, for RMA-4013 is not RMA-4012; of other names a part is enough."""
    is_code = any(sign.isdigit() for sign in name)
    return max(terms, key=len) in held if is_code else not terms.isdisjoint(held)


def _listed(what: str, found: Sequence[str]) -> str:
    more = f" and {len(found) - _TOLD} more" if len(found) > _TOLD else ""
    return f"the {what}{'s' if len(found) > 1 else ''} {', '.join(found[:_TOLD])}{more}"


@dataclass(frozen=True, slots=True)
class _Passage:
    """A source as it is compared with sentences."""

    source: Source
    spans: tuple[tuple[int, int], ...]
    held: tuple[frozenset[str], ...]
    """The terms and values of each."""
    paths: Paths
    titled: tuple[frozenset[str], ...]
    """The terms of the headings above each."""
    terms: frozenset[str]
    values: frozenset[str]
    denies: bool

    @classmethod
    def of(cls, source: Source, terms_of: TermsOf) -> _Passage:
        text = source.text
        spans = tuple((unit.start, min(unit.end, unit.start + _LONGEST_QUOTE)) for unit in units(text))
        title = " ".join((source.name, *source.locator.path))
        whole, of_title, *held = map(frozenset, terms_of([text, title, *(text[slice(*span)] for span in spans)]))
        values = _values(text) | _values(title)
        each = tuple(terms | _values(text[slice(*span)]) for terms, span in zip(held, spans, strict=True))
        paths = paths_in(source)
        above = [path_at(paths, start) for start, _ in spans]
        headings = list(dict.fromkeys(above))
        of_headings = dict(zip(headings, map(frozenset, terms_of([" ".join(path) for path in headings])), strict=True))
        titled = tuple(of_headings[path] for path in above)
        return cls(source, spans, each, paths, titled, whole | of_title, values, _denies(text))

    def best_for(self, claim: _Claim, asked: frozenset[str]) -> tuple[int, int]:
        """The sentence of the passage that shares most with the claim: numbers and names count double."""
        strong = frozenset().union(*claim.names.values(), *claim.numbers.values())
        terms = claim.terms
        sought = terms | asked
        weighed = [
            (len(terms & held) + len(strong & held), len(sought & titled))
            for held, titled in zip(self.held, self.titled, strict=True)
        ]
        if not weighed:
            return 0, min(len(self.source.text), _LONGEST_QUOTE)
        return self.spans[max(range(len(weighed)), key=lambda place: weighed[place])]


# -- names and numbers

_WORD = re.compile(r"[^\W_][\w'’-]*")
_CODE_NAME = re.compile(r"(?<![\w./-])(?=[\w./-]{0,64}\d)(?=[\w./-]{0,64}[^\W\d_])[^\W_][\w./-]{0,64}[^\W_]")
_REACH = 8
"""Characters before a word that tell whether it begins a sentence."""
_START = re.compile(r"[\"'“„(*_\s]*")


def _names(sentence: str, language: str) -> Iterable[str]:
    """Capitalised words that do not begin the sentence, and codes. German writes every noun so: there only codes."""
    yield from (match[0] for match in _CODE_NAME.finditer(sentence) if not _MEASURE.fullmatch(match[0]))
    start = _START.match(sentence)
    begin = start.end() if start else 0
    for match in _WORD.finditer(sentence):
        word = match[0]
        after_end = re.search(r"[.:!?]\s*[\"'“„(*_]*$", sentence[max(0, match.start() - _REACH) : match.start()])
        begins = match.start() <= begin or after_end is not None
        capital = word[0].isupper() and len(word) > 1
        if capital and ((language != "de" and not begins) or (word.isupper() and not word.isdigit())):
            yield word.removesuffix("'s").removesuffix("’s")


_MONTHS = {
    name: place
    for place, names in enumerate(
        (
            "january jan januar janvier enero",
            "february feb februar février febrero",
            "march mar märz mars marzo",
            "april apr avril abril",
            "may mai mayo",
            "june jun juni juin junio",
            "july jul juli juillet julio",
            "august aug août agosto",
            "september sep sept septembre septiembre",
            "october oct oktober okt octobre octubre",
            "november nov novembre noviembre",
            "december dec dezember dez décembre diciembre",
        ),
        start=1,
    )
    for name in names.split()
}
_NUMBER_WORDS = {
    word: value
    for words, values in (
        ("two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen", range(2, 16)),
        ("sixteen seventeen eighteen nineteen twenty", range(16, 21)),
        ("thirty forty fifty sixty seventy eighty ninety", range(30, 100, 10)),
        ("hundred thousand million billion dozen", (100, 1_000, 1_000_000, 1_000_000_000, 12)),
        ("zwei drei vier fünf sechs sieben acht neun zehn elf zwölf", range(2, 13)),
        ("zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig", range(20, 100, 10)),
        ("hundert tausend", (100, 1_000)),
    )
    for word, value in zip(words.split(), values, strict=True)
}
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DATE = re.compile(
    rf"""\b(?P<y>\d{{4}})-(?P<m>\d{{1,2}})-(?P<d>\d{{1,2}})\b
      | \b(?P<a>\d{{1,2}})(?P<sign>[./])(?P<b>\d{{1,2}})(?P=sign)(?P<y2>\d{{4}})\b
      | \b(?P<d3>\d{{1,2}})(?:st|nd|rd|th|\.)?\ (?:of\ |de\ )?(?P<n3>{_MONTH})\b\.?(?:,?\ (?:de\ )?(?P<y3>\d{{4}})\b)?
      | \b(?P<n4>{_MONTH})\b\.?\ (?P<d4>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\ (?P<y4>\d{{4}})\b)?""",
    re.VERBOSE | re.IGNORECASE,
)
_NUMBER = re.compile(
    r"(?<![\w.,])(?<![^\W\d_]-)\d+(?:[.,'’\u00a0\u202f]\d+)*(?:\s?(?:%|percent\b|per cent\b|prozent\b))?", re.IGNORECASE
)
_MEASURE = re.compile(r"(?<!\d)(?<!\d[.,])\d{1,20}(?:[.,]\d{1,20})*[^\W\d_]{1,3}")
_GROUPED = re.compile(r"\d{1,3}(?:([.,'’\u00a0\u202f])\d{3})(?:\1\d{3})*")
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|neither|nor|without|cannot|\w+n['’]t|nicht|kein\w*|nie|niemals|ohne|ne|pas"
    r"|jamais|sans|nunca|sin|ningun\w*|non|mai|senza|niet|geen|inte)\b|[不没無无]",
    re.IGNORECASE,
)


def numbers(text: str) -> dict[str, frozenset[str]]:
    """Each number and date as it is written, with the values it may stand for: `1,000` is 1000 or 1."""
    found: dict[str, frozenset[str]] = {}
    rest: list[str] = []
    last = 0
    for date in _DATE.finditer(text):
        found[date[0]] = _dates(date)
        rest.append(text[last : date.start()])
        last = date.end()
    rest.append(text[last:])
    plain = " ".join(rest)
    for number in _NUMBER.finditer(plain):
        found[number[0].strip()] = _meant(number[0])
    for word in re.findall(r"[^\W\d_]+", plain):
        if (value := _NUMBER_WORDS.get(word.casefold())) is not None:
            found[word] = frozenset((str(value),))
    for measure in _MEASURE.finditer(plain):
        figures = re.match(r"[\d.,]*\d", measure[0])
        if figures and measure[0] not in found:
            found[measure[0]] = _meant(figures[0])
    return found


def _values(text: str) -> frozenset[str]:
    """Everything that a number in the text may be asked by."""
    held = set().union(*numbers(text).values())
    held |= {value.removesuffix("%") for value in held}  # who says 5 may mean 5 %, not the other way round
    for date in list(held):
        if date.startswith("date:"):
            year, month, day = date.removeprefix("date:").split("-")
            held |= {f"date:-{month}-{day}", year, day} - {""}
    return frozenset(held)


def _dates(match: re.Match[str]) -> frozenset[str]:
    part = match.groupdict()
    if part["y"]:
        return frozenset((_date(part["y"], part["m"], part["d"]),))
    if part["y2"]:
        both = ((part["a"], part["b"]), (part["b"], part["a"])) if part["sign"] == "/" else ((part["a"], part["b"]),)
        return frozenset(_date(part["y2"], month, day) for day, month in both if int(month) <= 12)
    which = "3" if part["n3"] else "4"
    month = str(_MONTHS[part[f"n{which}"].casefold()])
    return frozenset((_date(part[f"y{which}"] or "", month, part[f"d{which}"]),))


def _date(year: str, month: str, day: str) -> str:
    return f"date:{year}-{int(month)}-{int(day)}"


def _meant(written: str) -> frozenset[str]:
    figures = re.match(r"[\d.,'’\u00a0\u202f]*\d", written)
    if figures is None:
        return frozenset()
    plain = figures[0]
    percent = "%" if len(written.strip()) > len(plain) else ""
    values = {_canonical(plain.replace(",", "."))} if plain.count(".") + plain.count(",") < 2 else {plain}
    if _GROUPED.fullmatch(plain):
        values.add(_canonical(re.sub(r"\D", "", plain)))
    elif re.fullmatch(r"\d{1,3}(?:,\d{3})+\.\d+", plain):
        values.add(_canonical(plain.replace(",", "")))
    elif re.fullmatch(r"\d{1,3}(?:\.\d{3})+,\d+", plain):
        values.add(_canonical(plain.replace(".", "").replace(",", ".")))
    return frozenset(value + percent for value in values)


def _canonical(figures: str) -> str:
    """Without zeros that say nothing."""
    whole, dot, part = figures.partition(".")
    part = part.rstrip("0")
    return (whole.lstrip("0") or "0") + (dot + part if part else "")


def _denies(text: str) -> bool:
    return _NEGATION.search(text) is not None


# -- formats


class CitationStyle(StrEnum):
    """How a citation is written out."""

    PAGE = "page"
    """`[source: title, page 3]`"""
    TIME = "time"
    """`[source: title, t=12:34]`"""
    CHUNK = "chunk"
    """`[chunk: id]`"""
    PLACE = "place"
    """The page or the time, whichever the document has."""


def formatted(citation: Citation, style: CitationStyle = CitationStyle.PLACE) -> str:
    """A citation written out; without page or time, where the document has none, just by its title."""
    if style is CitationStyle.CHUNK:
        return f"[chunk: {citation.chunk}]"
    locator = citation.locator
    place = ""
    if style is not CitationStyle.PAGE and locator.start is not None:
        place = f", t={clock_time(locator.start)}"
    elif style is not CitationStyle.TIME and locator.page is not None:
        place = f", page {locator.page}"
    return f"[source: {citation.name}{place}]"
