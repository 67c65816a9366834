"""What a section of a made document quotes where no model writes: the sentences that surely tell what is asked.

A section's question is short, and asks by a word or two: “What are the risks?”. What stands under such a heading, or in
a file of that name, tells it; so does a sentence that states something with these words. Nothing else is quoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragforge.answer.outline import fence_after, headings
from ragforge.answer.quote import Quoted
from ragforge.answer.weigh import Groups, TermsOf, covered, weights
from ragforge.domain.prompts import Source

ENOUGH = 0.5
"""Evidence that a section needs: the questions of an outline are short, and hold common words."""
_HALF = 0.5
_TITLE_WORDS = 4
"""So many words more than twice those of the question a title may have: a longer one is about other things, too."""
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
_FOREIGN_MARKS = re.compile(rf"[ \t]*(?:\({_MARKS}\)|{_MARKS})")
"""Notes of the document itself: here they would seem to be ours."""


# -- what bears on a question


@dataclass(frozen=True, slots=True)
class Sought:
    """The telling words of a question, and how much each tells in this project."""

    groups: Groups
    weighed: Sequence[float]
    forms: Sequence[frozenset[str]]
    """Of each, as it was written but for its ending; none for words beyond a to z."""
    terms_of: TermsOf

    @classmethod
    def of(cls, question: str, groups: Groups, rare: Mapping[str, float], terms_of: TermsOf) -> Sought:
        words = [word for word in _WORD.findall(question.casefold()) if word.isascii()]
        terms = [frozenset(each) for each in terms_of(words)]
        forms = [
            frozenset(_form(word) for word, held in zip(words, terms, strict=True) if not held.isdisjoint(group))
            for group in groups
        ]
        return cls(groups, weights(groups, rare), forms, terms_of)

    def held_by(self, *lines: str) -> float:
        """How much of them one of the lines holds, at most; 0 to 1."""
        return max((self._held(*each) for each in zip(lines, self.terms_of(lines), strict=True)), default=0.0)

    def is_title(self, *titles: str) -> bool:
        """Whether one of the titles is about the words, all of them."""
        return self.held_by(*filter(self.may_title, titles)) == 1

    def may_title(self, title: str) -> bool:
        """Whether a title is short enough to be about these words and little else."""
        return len(_WORD.findall(title)) <= 2 * len(self.groups) + _TITLE_WORDS

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


def _form(word: str) -> str:
    return _ENDING.sub("", word)


def titled(sources: Sequence[Source], sought: Sought) -> list[Source]:
    """Those whose heading or file's name holds all the words: what stands below “Risks” tells the risks."""
    return [
        source
        for source in sources
        if sought.is_title(source.name, *source.locator.path, *(heading for _, heading, _ in headings(source.text)))
    ]


def focused(sources: Sequence[Source], brief: Sought) -> list[Source]:
    """Those that hold at least half of what the brief is about; all of them if none does."""
    places = ("\n".join((source.name, *source.locator.path, source.text)) for source in sources)
    about = [source for source, text in zip(sources, places, strict=True) if brief.held_by(text) >= _HALF]
    return about or list(sources)


def telling(quotes: Iterable[Quoted], source: Source, sought: Sought) -> Iterator[Quoted]:
    """Those quotations that state something and hold at least half of the words, or stand under a title that does.

    A row of a table alone states little: it needs the title.
    """
    for quote in quotes:
        text = quote.text.strip()
        if not _states(text):
            continue
        above = [heading for _, heading, _ in headings(source.text[: quote.start])][-1:] or source.locator.path[-1:]
        titles = [title for title in (source.name, *above) if sought.may_title(title)]
        lines = titles if _TABLE_ROW.fullmatch(text) else [" ".join((*titles, text))]
        if sought.held_by(*lines) >= _HALF:
            yield quote


def _states(text: str) -> bool:
    """Whether a quotation tells something by itself: it is no question, no code, no scrap, no page run together."""
    if text.endswith(("?", "？")) or _CODE.search(text):
        return False
    return len(text) >= _SCRAP and (len(text.split()) <= _LONGEST_SENTENCE or bool(_OWN_LINES.search(text)))


def new_quotes(quotes: Iterable[Quoted], before: set[str]) -> list[Quoted]:
    """Each quotation once, and those that the document does not hold yet; all of them if it holds every one."""
    unique: dict[str, Quoted] = {}
    for quote in quotes:
        unique.setdefault(" ".join(quote.text.split()), quote)
    fresh = [quote for text, quote in unique.items() if text not in before]
    before.update(unique)
    return fresh or list(unique.values())


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
