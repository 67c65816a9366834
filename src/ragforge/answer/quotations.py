"""What a section of a made document quotes where no model writes: the sentences that surely tell what is asked.

A section's question is short, and asks by a word or two: “What are the risks?”. What stands under a heading that says
just that, or in a file of that name, tells it; so does a sentence that is about the word: “The main risk is …”,
“Risks: …”. A sentence that only uses the word tells other things as often, and is not quoted.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import NamedTuple

from ragforge.answer.outline import HEADING, fence_after
from ragforge.answer.quote import Quoted
from ragforge.answer.units import announced, units
from ragforge.answer.weigh import Groups, TermsOf, covered, weights
from ragforge.domain.prompts import Source

_HALF = 0.5
_WORD = re.compile(r"[^\W\d_]+")
_ENDING = re.compile(r"(?<=...)(?:ings?|ed|es|s|e)$")
_SCRAP = 24
"""Characters below which a quotation tells nothing."""
_LONGEST_SENTENCE = 60
"""Words; what is longer is no sentence, but a table or a page that lost its lines."""
_CODE = re.compile(
    r"""^[ \t]*(?:def|class|func|fn)[ ]\w+[ ]?[(:{] | ^[ \t]*(?:import|from)[ ][\w.]+[ ]*(?:import\b|;|$)
      | ^[ \t]*[\w.\[\]]+[ ][+*/-]?=[ ] | [{};][ \t]*$ | \"{3} | ^[ \t]*@\w+[ \t]*(?:\(|$)
      | \S[ ]{3,}\S | [─-╿] | ^[ \t]*(?:<|[$][ ])
    """,
    re.VERBOSE | re.MULTILINE,
)
"""Lines of code, columns that spaces make, drawings, markup, a terminal."""
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+")
_TABLE_ROW = re.compile(r"\|[^\n]*\|")
_OWN_LINES = re.compile(r"\n(?:[ \t]*(?:[-*+•][ \t]|\d{1,9}[.)][ \t]|[|>]|#{1,6}[ \t]|`{3}|~{3})|[ \t]{6,}\S|[ \t]*\n)")
"""Where a line does not just go on with the one before."""
_LINK = re.compile(r"(?<!!)\[([^\[\]\n]+)\]\([^()\s]*\)")
"""A link in Markdown: its words stay."""
_MARKS = r"\[\d{1,9}\](?:[,; \t]*\[\d{1,9}\])*"
_FOREIGN_MARKS = re.compile(rf"(?<![ \t])[ \t]*(?:\({_MARKS}\)|{_MARKS})")
"""Notes of the document itself: here they would seem to be ours."""


# -- headings, also those of plain text

_NUMBERED = re.compile(r"[ \t]*(\d{1,3}(?:\.\d{1,3})*)[.)]?[ \t]+(?=\S)")
_UNDERLINE = re.compile(r"[ ]{0,3}(=|-){3,}[ \t]*$")
_BOLD = re.compile(r"[ \t]*(\*\*|__)([^*_]+)\1[ \t]*+:?[ \t]*$")
_NO_HEADING = re.compile(r"[ \t]*[-*+•|>`~<]|.*[.!?…,;。！？][\"'”’»)]*$")
_HEADING_WORDS = 6
_LONGEST_TITLE = 200
_BY_NUMBER, _BY_BOLD, _BY_LINE, _BY_COLON = 10, 20, 30, 40
"""Levels of headings that Markdown does not know; all of them stand below those it knows."""


class _Heading(NamedTuple):
    level: int
    words: str
    start: int
    end: int
    """Of the line; what stands below begins there."""


def _headings(text: str) -> list[_Heading]:
    """The lines that say what stands below them; lines of code are none."""
    found: list[_Heading] = []
    lines = text.split("\n")
    at, fence = 0, ""
    for place, line in enumerate(lines):
        before, fence = fence, fence_after(fence, line)
        if not (before or fence) and (known := _heading(lines, place)):
            found.append(_Heading(*known, at, at + len(line)))
        at += len(line) + 1
    return found


def _heading(lines: Sequence[str], place: int) -> tuple[int, str] | None:
    """The level and the words of a heading, if the line is one."""
    line, following = lines[place], lines[place + 1] if place + 1 < len(lines) else ""
    if match := HEADING.match(line):
        return len(match[1]), match[2] or ""
    if not line.strip() or len(line.split()) > _HEADING_WORDS:
        return None
    if match := _BOLD.match(line):
        return _BY_BOLD, match[2]
    if _NO_HEADING.match(line) or (place and lines[place - 1].strip()):
        return None
    if match := _UNDERLINE.match(following):
        return (1 if match[1] == "=" else 2), line
    if match := _NUMBERED.match(line):
        text = next((each for each in lines[place + 1 :] if each.strip()), "")
        is_item = not text or (_NUMBERED.match(text) and "." not in match[1])  # else of a list that counts
        return None if is_item else (_BY_NUMBER + match[1].count("."), line[match.end() :])
    if line.rstrip().endswith((":", "：")):
        return _BY_COLON, line
    alone = line.isupper() or (line[:1].isupper() and not following.strip() and place + 1 < len(lines))
    return (_BY_LINE, line) if alone else None


def _below(text: str, headings: Sequence[_Heading], place: int) -> tuple[int, int]:
    """What a heading says something of: all up to the next one that is not below it; after a colon, one block."""
    here = headings[place]
    end = next((each.start for each in headings[place + 1 :] if each.level <= here.level), len(text))
    if here.level == _BY_COLON and (gap := re.search(r"\S[ \t]*\n[ \t]*\n", text[here.end : end])):
        end = here.end + gap.start() + 1
    return here.end, end


# -- what bears on a question


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_EMPTY = _set(
    """a about all an and as at be biggest by current detailed final for general greatest high important in its key
    known largest level list main major more most my new of on one only or other our overall part primary product
    project section single some specific system technical that the their these this to top up with your
    aktuelle alle als am auf aus bei das dem den der des die ein eine für im in liste neue projekt projekts produkt
    system um und unser unsere von vom wichtige wichtigste wichtigsten zu zum zur
    de del des du el en et la las le les los nos notre para pour projet proyecto"""
)
"""Words that do not change what a heading is about."""
_IS = (
    r"is|are|was|were|will\ be|has\ been|have\ been|remains?|includes?|ist|sind|war|waren|wird|werden|lautet|lauten"
    r"|est|sont|es|son|sono|är|zijn"
)
_NAME = r"[^\W\d_][\w'’-]*"
_SUBJECT = re.compile(
    rf"(?:^|[;–—]\s+)((?:{_NAME}[ ]+){{1,9}}?)(?:{_IS})\b|^((?:{_NAME}[ ]+){{0,3}}{_NAME})[ ]?[:：]", re.I
)
"""What a sentence speaks of: the words before its verb, or before a colon."""
_PREDICATE = re.compile(
    rf"\b(?:{_IS})[ ]+(?:(?:still|often|very|also|now|currently|noch|sehr|oft)[ ]+)?([^\W\d_]+)", re.I
)
_PREPOSITIONS = _set(
    "about after among as at behind between by during for from in into of on over per that to under which with within "
    "without an auf aus bei der des durch für im mit nach über um von vom zu zum zur à au aux de del des du en "
    "para par pour sur"
)
_UNCERTAIN = _set(
    "although any as because before even every if no once since such there though unless until what when where whether "
    "which while who why als dass falls kein keine ob obwohl weil wenn wer wo"
)
"""Words that begin what is not simply said to be so."""
_VAGUE = _set(
    "can could do does has have may might must shall should will would kann muss soll first second third last next "
    "same it he she they this that these those dies diese dieser dieses erste letzte"
)
"""Words of what is about one case, or about something that stands elsewhere."""
_PLURAL = re.compile(r"(?<=...)(?:es|s|en|e|n)$")


@dataclass(frozen=True, slots=True)
class Sought:
    """The telling words of a question, and how much each tells in this project."""

    groups: Groups
    weighed: Sequence[float]
    forms: Sequence[frozenset[str]]
    """Of each, as it was written but for its ending; none for words beyond a to z."""
    words: frozenset[str]
    """All of the question, as they were written."""
    terms_of: TermsOf

    @classmethod
    def of(cls, question: str, groups: Groups, rare: Mapping[str, float], terms_of: TermsOf) -> Sought:
        words = [word for word in _WORD.findall(question.casefold()) if word.isascii()]
        terms = [frozenset(each) for each in terms_of(words)]
        forms = [
            frozenset(_form(word) for word, held in zip(words, terms, strict=True) if not held.isdisjoint(group))
            for group in groups
        ]
        return cls(groups, weights(groups, rare), forms, frozenset(words), terms_of)

    def held_by(self, *lines: str) -> float:
        """How much of them one of the lines holds, at most; 0 to 1."""
        return max((self._held(*each) for each in zip(lines, self.terms_of(lines), strict=True)), default=0.0)

    def is_title(self, title: str, besides: Collection[str] = ()) -> bool:
        """Whether a title, or what stands before its “and”, says these words and nothing else that tells.

        Words of which the forms are in `besides` may be there, too.
        """
        if len(title) > _LONGEST_TITLE:
            return False
        plain = " ".join(_ANCHOR.sub("", title).split())
        for piece in dict.fromkeys((plain, _AND.split(plain, maxsplit=1)[0])):
            words = _WORD.findall(piece.casefold())
            telling = (word for word in words if word not in _EMPTY and word not in self.words)
            others = (_form(word) for word in telling if not self.held_by(word))
            if self.held_by(" ".join(words)) == 1 and all(other in besides for other in others):
                return True
        return False

    def is_told_by(self, sentence: str) -> bool:
        """Whether a sentence speaks of just these words, or says of something that it is so."""
        if next(iter(_WORD.findall(sentence.casefold())), "") in _UNCERTAIN:
            return False
        for subject in _SUBJECT.finditer(sentence):
            words = (subject[1] or subject[2]).casefold().split()
            head = _head(words)
            is_named = not self.words or any(_number(head[-1]) == _number(word) for word in self.words)
            if is_named and _VAGUE.difference(self.words).isdisjoint(words) and self.is_title(" ".join(head)):
                return True
        said = (match[1] for match in _PREDICATE.finditer(sentence) if match[1].casefold() in self.words)
        return any(self.held_by(word) == 1 for word in said)

    def _held(self, line: str, terms: Iterable[str]) -> float:
        """By the stem, if the word itself is there too: objections are no objectives, though both come of object."""
        there = frozenset(map(_form, _WORD.findall(line.casefold())))
        meant = {
            term
            for group, forms in zip(self.groups, self.forms, strict=True)
            if not forms or not forms.isdisjoint(there)
            for term in group
        }
        return covered(self.groups, self.weighed, meant.intersection(terms))


_ANCHOR = re.compile(r"\{[^{}]*\}")
_AND = re.compile(r"\s+(?:and|und|et|y|och|en|&|/|[-–—])\s+|[,/]")


def _form(word: str) -> str:
    return _ENDING.sub("", word)


def _number(word: str) -> str:
    """A noun without its ending, be it one or many."""
    return _PLURAL.sub("", word)


def forms_in(text: str) -> frozenset[str]:
    """The words of a text but for their endings."""
    return frozenset(map(_form, _WORD.findall(text.casefold())))


def _head(words: Sequence[str]) -> Sequence[str]:
    """The words of a subject up to its first preposition: “the budget” of “the budget for tests”."""
    ends = (place for place, word in enumerate(words) if place and word in _PREPOSITIONS)
    return words[: next(ends, len(words))]


def focused(sources: Sequence[Source], brief: Sought) -> list[Source]:
    """Those that hold more than half of what the brief is about."""
    places = ("\n".join((source.name, *source.locator.path, source.text)) for source in sources)
    return [source for source, text in zip(sources, places, strict=True) if brief.held_by(text) > _HALF]


def telling(source: Source, sought: Sought, besides: Collection[str] = ()) -> Iterator[Quoted]:
    """What of a source tells the words: all below a title that says them, and the sentences that speak of them.

    What stands below such a title scores 1.
    """
    text = source.text
    headings = _headings(text)
    titles = (_FILE_NAME.sub(" ", source.name.rpartition(".")[0] or source.name), *source.locator.path)
    below = [_below(text, headings, n) for n, each in enumerate(headings) if sought.is_title(each.words, besides)]
    if not below and any(sought.is_title(title, besides) for title in titles):
        below = [(0, len(text))]
    is_heading, is_below = _Spans.of((each.start, each.end) for each in headings), _Spans.of(below)
    spans, told = units(text), 0
    for place, unit in enumerate(spans):
        if unit.start < told or unit.code or unit.start in is_heading:
            continue
        titled, said = unit.start in is_below, text[unit.start : unit.end]
        if titled or (_states(said) and sought.is_told_by(said)):
            told = max((each.end for each in announced(text, spans, place)), default=unit.end)
            if _is_readable(said := text[unit.start : told]):
                yield Quoted(source.number, unit.start, told, said, float(titled))


@dataclass(frozen=True, slots=True)
class _Spans:
    """Stretches of a text that do not overlap, to be asked for a place."""

    starts: Sequence[int]
    ends: Sequence[int]

    @classmethod
    def of(cls, spans: Iterable[tuple[int, int]]) -> _Spans:
        starts: list[int] = []
        ends: list[int] = []
        for start, end in sorted(spans):
            if ends and start <= ends[-1]:
                ends[-1] = max(end, ends[-1])
            else:
                starts.append(start)
                ends.append(end)
        return cls(starts, ends)

    def __contains__(self, place: int) -> bool:
        at = bisect_right(self.starts, place) - 1
        return at >= 0 and place < self.ends[at]


_FILE_NAME = re.compile(r"[-_.\s]+")


def _is_readable(text: str) -> bool:
    """Whether a quotation is no code and no page run together."""
    return not _CODE.search(text) and (len(text.split()) <= _LONGEST_SENTENCE or bool(_OWN_LINES.search(text)))


def _states(text: str) -> bool:
    """Whether a quotation tells something by itself: it is no question, no scrap, no row of a table."""
    if text.endswith(("?", "？")) or _TABLE_ROW.fullmatch(text) or len(text) < _SCRAP:
        return False
    return _is_readable(text)


def chosen(quotes: Iterable[Quoted], before: Collection[str], most: int) -> tuple[list[Quoted], int]:
    """Each quotation once, of those that the document does not hold yet; all of them if it holds every one.

    Of more than there is room for, each source gives in turn, first what stands below a title. Tells how many more
    there were.
    """
    unique: dict[str, Quoted] = {}
    for quote in quotes:
        unique.setdefault(words_of(quote), quote)
    fresh = [quote for text, quote in unique.items() if text not in before] or list(unique.values())
    by_source: dict[int, list[Quoted]] = {}
    for quote in sorted(fresh, key=lambda each: (-each.score, each.start)):
        by_source.setdefault(quote.source, []).append(quote)
    in_turn = [quote for quote in chain.from_iterable(zip_longest(*by_source.values())) if quote is not None]
    return sorted(in_turn[:most], key=lambda each: (each.source, each.start)), len(in_turn[most:])


def words_of(quote: Quoted) -> str:
    """A quotation as it can be compared with another."""
    return " ".join(quote.text.split())


# -- how it is written down


def bullets(quotes: Iterable[Quoted]) -> str:
    """Sentences of the sources as they stand there, one list item for each, with their markers."""
    return "\n".join(_bullet(quote) for quote in quotes)


def _bullet(quote: Quoted) -> str:
    text = _FOREIGN_MARKS.sub("", _LINK.sub(r"\1", quote.text.strip()))
    if _TABLE_ROW.fullmatch(text):
        text = ", ".join(cell for cell in map(str.strip, text.strip("|").split("|")) if cell)
    elif not _OWN_LINES.search(text):
        text = " ".join(text.split())  # only the lines were wrapped
    first, *rest = text.split("\n")
    fence = ""
    for line in (first, *rest):
        fence = fence_after(fence, line)
    marker = _ITEM.match(first)
    lines = [f"- {first[marker.end() :] if marker else first}"]
    lines += [f"  {line}" if line.strip() else "" for line in rest]
    if fence:  # the quotation ends inside of code
        lines.append(f"  {fence}")
    ends_code = fence or (rest and fence_after("", rest[-1]))
    return "\n".join([*lines, f"  [{quote.source}]"]) if ends_code else "\n".join(lines) + f" [{quote.source}]"
