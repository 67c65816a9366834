"""Documents made from a project, section by section: what is searched, how it is written down, numbered and rendered.

Nothing is invented: what a model writes stays only where it cites a passage it was given, and a section that has none
is open, with what to add. `[n]` is numbered over the whole document, in the order of reading.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from ragforge.answer.citations import check
from ragforge.answer.clean import LINK_IN_SOURCE, links_in, noted
from ragforge.answer.outline import HEADING, SOURCES, Outline, Part, differences, fence_after
from ragforge.answer.stream import clean
from ragforge.answer.weigh import TermsOf
from ragforge.domain.answers import Citation
from ragforge.domain.discovery import DOCUMENT_KINDS
from ragforge.domain.prompts import PromptParts, Shape, Source
from ragforge.domain.records import Artifact, ArtifactSection
from ragforge.domain.sentences import sentence_starts

INTERVIEWED = frozenset(DOCUMENT_KINDS.values())
MOST_SOURCES = 10
"""Passages that one section is written from."""
_TOPIC_WORDS = 16
_UNPROVED = " (unproved)"
"""After a marker whose passage does not bear the sentence out."""
_MARKED = re.compile(rf"(?<=\]){re.escape(_UNPROVED)}")
_SHOWN = 100
"""Characters of what is wrong that are told."""
_UNDERLINE = re.compile(r"[ ]{0,3}(?:=+|-+|\*{3,}|_{3,})[ \t]*$")
_SWALLOWING = re.compile(r"^([\s>*+\d.)-]*)<(?=[?!]|(?:script|pre|style|textarea)(?:[\s>]|$))", re.IGNORECASE)
"""HTML that would take in all that follows, other sections too, up to an end that may never come."""
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+")
_ROW = re.compile(r"[ \t]*\|")
_RULE_ROW = re.compile(r"[ \t]*\|?[ \t:|-]+$")
_ENDED = re.compile(r"[.!?…。！？][\"'”’»)*_]*(?:\s*\[\d+\])+\Z")
"""A sentence, and markers after its end."""
_LINK_IN_SOURCE = re.compile(re.escape(LINK_IN_SOURCE).replace(r"\{\}", r"\d+"))
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|!&~$])")


# -- what is searched, and what a section is written from


def topic(brief: str) -> str:
    """The first words of a brief: enough to search by, where all of it would drown the question."""
    line = next((line.strip() for line in brief.splitlines() if line.strip()), "")
    return " ".join(line.split()[:_TOPIC_WORDS])


def passages_of(found: Sequence[Sequence[Source]]) -> tuple[tuple[Source, ...], tuple[str, ...]]:
    """The best passages of several searches in turn, numbered; and the names of those there is no room for."""
    unique: dict[tuple[str, str], Source] = {}
    for row in zip_longest(*found):
        for source in row:
            if source is not None:
                unique.setdefault((source.document, source.text), source)
    every = list(unique.values())
    sources = tuple(replace(source, number=number) for number, source in enumerate(every[:MOST_SOURCES], start=1))
    return sources, tuple(dict.fromkeys(source.name for source in every[MOST_SOURCES:]))


def prompt_parts(
    outline: Outline, part: Part, title: str, brief: str, persona: str, sources: tuple[Source, ...]
) -> PromptParts:
    """What a model is told in order to write one section."""
    asked = f"Write the section “{part.heading}” of the document “{title}”. {part.says}".strip()
    others = ", ".join(each.heading for each in outline.parts if each is not part)
    return PromptParts(
        task=f"{asked}\n\nWhat the document is for:\n{brief.strip()}" if brief.strip() else asked,
        shape=Shape(" ".join(part.questions), "write"),
        persona=persona,
        sources=sources,
        output=(
            "The text of this one section as Markdown: paragraphs, lists or a table, without any heading, without an "
            "introduction. Every paragraph, list item and table row ends with the numbers of its sources, as [1] or "
            f"[2][3]; what cites no source is removed. These sections are written apart: {others or 'none'}."
        ),
    )


# -- how it is written down


def tamed(text: str, heading: str) -> tuple[str, tuple[str, ...]]:
    """A section's text without headings of its own: they become bold, and code that was left open is closed.

    Also tells which headings there were, except the section's own.
    """
    lines: list[str] = []
    invented: list[str] = []
    fence = ""
    for line in text.replace("\r\n", "\n").replace("\r", "\n").strip("\n").split("\n"):
        before, fence = fence, fence_after(fence, line)
        if before or fence:
            lines.append(line)
            continue
        match = HEADING.match(line)
        if match:
            words = (match[2] or "").strip().strip("*_").strip()
            if words and words.casefold().strip(":") != heading.casefold():
                invented.append(words)
                lines += ["", f"**{words}**:", ""]
        elif not _UNDERLINE.match(line):  # else it makes a heading of the line above, or a rule
            lines.append(_SWALLOWING.sub(r"\1< ", line))
    if fence:
        lines.append(fence)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n"), tuple(invented)


@dataclass(slots=True)
class Numbering:
    """The numbers of a document's sources, given in the order in which they are first cited."""

    _numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    _sources: list[Source] = field(default_factory=list)

    def number(self, source: Source) -> int:
        key = (source.document, source.text)
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers) + 1
            where = replace(source.locator, path=tuple(map(_inert, source.locator.path)))
            self._sources.append(replace(source, number=self._numbers[key], name=_inert(source.name), locator=where))
        return self._numbers[key]

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(self._sources)


def _inert(name: str) -> str:
    """The name of a file or a heading as it can be shown: an address in it can be read, but leads nowhere."""
    for address in sorted(links_in([name]), key=len, reverse=True):
        name = name.replace(address, noted(address))
    return clean(name)[0]


@dataclass(frozen=True, slots=True)
class Settled:
    """A section's text with the document's numbers; and what was left out of it, as it cited nothing."""

    text: str
    sources: tuple[int, ...]
    left_out: tuple[str, ...] = ()
    unproved: tuple[str, ...] = ()
    """What its source does not bear out; it stays, marked as such."""
    uncited: int = 0
    """Sentences that claim something, cite nothing, and stay: a person wrote them."""


def vetted(
    text: str,
    heading: str,
    sources: Sequence[Source],
    terms_of: TermsOf,
    numbering: Numbering,
    links: Collection[str],
    *,
    addresses: bool,
    strict: bool = True,
    whole: bool = False,
) -> tuple[Settled, list[str]]:
    """A section's text that holds nothing harmful, no heading, and no marker but of its sources; and what was wrong.

    `links` are addresses that people wrote; with `addresses` also those of sources may stay.
    """
    cleaned = check(text, sources, terms_of, links, addresses=addresses)
    plain, invented = tamed(cleaned.text, heading)  # only now can nothing become a heading any more
    checked = check(plain, sources, terms_of, links, addresses=addresses)
    done = settled(checked.text, checked.citations, sources, numbering, strict=strict, whole=whole)
    wrong = [f"the heading “{each}” is not in the outline and became plain text" for each in invented]
    wrong += [f"taken out: {what}" for what in (*cleaned.stripped, *checked.stripped)]
    removed = (*cleaned.removed, *checked.removed)
    wrong += [f"the citation {each.marker} was removed: {each.reason}" for each in removed]
    wrong += [f"left out, as it cites nothing: {_short(what)}" for what in done.left_out]
    wrong += [f"not proved by its source: {_short(what)}" for what in done.unproved]
    return replace(done, uncited=checked.uncited if whole else 0), wrong


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN].rstrip()}…"


def settled(
    text: str,
    citations: Sequence[Citation],
    sources: Sequence[Source],
    numbering: Numbering,
    *,
    strict: bool = True,
    whole: bool = False,
) -> Settled:
    """Keep what cites a source, under the document's numbers. Not strict: keep all, as of a quotation.

    `whole` keeps what cites nothing, too, and still marks what is not proved: a person wrote it.
    """
    drops = strict and not whole
    by_number = {source.number: source for source in sources}
    good = sorted((each for each in citations if each.marker in by_number), key=lambda each: each.start)
    units = _units(text)
    cites = [any(start <= each.start < end for each in good) for start, end in units]
    kept = _kept([text[start:end] for start, end in units], cites) if drops else [True] * len(units)
    pieces: list[str] = []
    numbers: list[int] = []
    unproved: list[str] = []
    left_out: list[str] = []
    for (start, end), keep in zip(units, kept, strict=True):
        inside = [each for each in good if start <= each.start < end] if keep else []
        stop = (_covered_to(text, start, end, inside[-1].end) if drops and inside else end) if keep else start
        left_out.append(" ".join(text[stop:end].split()))
        at = start
        for citation in inside:
            number = numbering.number(by_number[citation.marker])
            numbers.append(number)
            doubtful = strict and not citation.proved
            pieces += [text[at : citation.start], f"[{number}]", _UNPROVED if doubtful else ""]
            unproved += [f"{' '.join(text[start:stop].split())} ({citation.reason})"] if doubtful else []
            at = citation.end
        pieces.append(text[at:stop] if stop == end else text[at:stop].rstrip() + _line_ends(text[stop:end], keep))
    joined = re.sub(r"\n{3,}", "\n\n", "".join(pieces)).strip("\n")
    return Settled(
        _LINK_IN_SOURCE.sub("[link in the source]", joined),  # its number is not the document's
        tuple(dict.fromkeys(numbers)),
        tuple(each for each in left_out if each),
        tuple(dict.fromkeys(unproved)),
    )


def _covered_to(text: str, start: int, end: int, cited: int) -> int:
    """Where the sentence with a unit's last marker ends: what follows cites nothing, unless it announces something."""
    rest = text[start:end]
    if "```" in rest or "~~~" in rest or _ROW.match(rest) or rest.rstrip("*_ \n").endswith(":"):
        return end
    if _ENDED.search(text, start, cited):
        stop = cited
    else:
        stop = next((place for place in sentence_starts(text, start, end) if place >= cited), end)
    return stop if re.search(r"\w", text[stop:end]) else end


def _line_ends(left_out: str, begun: bool) -> str:
    """What must stay of something left out, or the next paragraph would belong to what stands before."""
    ends = left_out[len(left_out.rstrip("\n")) :]
    return ends if begun else ends[1:]


def _units(text: str) -> list[tuple[int, int]]:
    """What stands or goes as one: paragraphs, list items, table rows, code. Together they are the text."""
    starts = [0]
    at, fence, after_blank = 0, "", False
    for line in text.splitlines(keepends=True):
        before, fence = fence, fence_after(fence, line.rstrip("\n"))
        opens = bool(fence) and not before
        begins = _ITEM.match(line) or _ROW.match(line) or opens or (after_blank and not line[:1].isspace())
        if begins and not before and at:
            starts.append(at)
        after_blank = not line.strip()
        at += len(line)
    return [(start, end) for start, end in zip(starts, [*starts[1:], len(text)], strict=True) if start < end]


def _kept(units: Sequence[str], cites: Sequence[bool]) -> list[bool]:
    """Units that cite; and before one that does, what announces it: a line that ends in a colon, a table's head."""
    kept = list(cites)
    for place in range(len(units) - 2, -1, -1):
        unit = units[place].strip()
        announces = unit.rstrip("*_ ").endswith(":") or unit.rstrip("*_").endswith(":")
        head = _ROW.match(unit) and (_RULE_ROW.fullmatch(unit) or _RULE_ROW.fullmatch(units[place + 1].strip()))
        if not kept[place] and (announces or head):
            kept[place] = _followed(units, kept, place) if head else kept[place + 1]
    return kept


def _followed(units: Sequence[str], kept: Sequence[bool], place: int) -> bool:
    """Whether a row of the same table, further down, is kept."""
    for unit, keep in zip(units[place + 1 :], kept[place + 1 :], strict=True):
        if not _ROW.match(unit):
            return False
        if keep:
            return True
    return False


def opened(part: Part, reason: str) -> ArtifactSection:
    """A section that nothing could be written for: why, and what would help."""
    text = f"> **Open.** {reason} To fill this section, add {part.ingest}."
    return ArtifactSection(part.heading, part.level, text, open=True, reason=f"{reason} Add {part.ingest}.")


# -- by hand


def edited(artifact: Artifact, title: str | None, texts: Mapping[int, str], terms_of: TermsOf) -> Artifact:
    """The document with these texts, by the places of their sections: checked as a model's, but nothing is left out.

    Its numbers and its sources stay, so that no other section changes.
    """
    wanted = own_outline(artifact)
    gone = {*differences(wanted, markdown(artifact))}
    sections, problems = list(artifact.sections), list(artifact.problems)
    for place, text in texts.items():
        section = sections[place]
        same = (section.text.strip(), section.shown.strip(), *([""] if section.open else []))
        if text.strip() in same:
            continue
        sections[place], told = _rewritten(section, wanted.parts[place], text, artifact.sources, terms_of)
        about = f"{section.heading}: "
        problems = [each for each in problems if not each.startswith(about)] + [f"{about}{each}" for each in told]
    changed = replace(artifact, title=artifact.title if title is None else title, sections=tuple(sections))
    wrong = differences(wanted, markdown(changed))
    return replace(changed, problems=(*(each for each in problems if each not in gone), *wrong))


def own_outline(artifact: Artifact) -> Outline:
    """The outline that a document's own sections make, whatever became of the file that they came from."""
    parts = (
        Part(each.heading, each.level, "", (), f"a document on {each.heading.lower()}") for each in artifact.sections
    )
    return Outline(artifact.kind, artifact.title, tuple(parts))


def _rewritten(
    section: ArtifactSection, part: Part, text: str, sources: Sequence[Source], terms_of: TermsOf
) -> tuple[ArtifactSection, list[str]]:
    """A section as a person wrote it, and what was wrong with that. What stood on removed files cannot be cited."""
    there = [source for source in sources if source.text]
    numbering = Numbering({(each.document, each.text): each.number for each in there}, list(there))
    plain = _MARKED.sub("", text)
    done, wrong = vetted(
        plain, section.heading, there, terms_of, numbering, links_in([plain]), addresses=True, whole=True
    )
    if not done.text.strip():
        return section if section.open else replace(opened(part, "It was emptied."), read=section.read), wrong
    cited = (source.document for source in there if source.number in done.sources)
    return (
        ArtifactSection(
            section.heading,
            section.level,
            done.text,
            sources=done.sources,
            read=tuple(dict.fromkeys((*section.read, *cited))),
            doubtful=bool(done.unproved or done.uncited),
        ),
        wrong,
    )


# -- the whole document


def markdown(artifact: Artifact) -> str:
    """The document as Markdown, with one list of its sources at the end."""
    parts = [f"**{escaped(artifact.title)}**", made_how(artifact)]
    for section in artifact.sections:
        parts += [f"{'#' * section.level} {section.heading}", section.shown]
    if artifact.sources:
        entries = (f"{source.number}. {cited(source)}" for source in artifact.sources)
        parts += [f"## {SOURCES}", "\n".join(entries)]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def made_how(artifact: Artifact) -> str:
    """One line on how the document came about."""
    quoting = (
        "in the words of an interview" if artifact.kind in INTERVIEWED else "quoting the documents, without a model"
    )
    by = f"written by {artifact.model}" if artifact.model else quoting
    empty = sum(section.open for section in artifact.sections)
    still = f"; {empty} of {len(artifact.sections)} sections open" if empty else ""
    return f"Made {artifact.made_at:%Y-%m-%d} from {_count(len(artifact.sources), 'source')}, {escaped(by)}{still}."


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def cited(source: Source) -> str:
    """A source as the list at the end names it."""
    where = source.locator.label()
    return escaped(f"{source.name}, {where}" if where else source.name)


def escaped(text: str) -> str:
    """A name or title as one line of Markdown that means nothing but itself."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
