"""What an answer or a made document stands on: how much evidence a search brought, and the sentences that tell it."""

from __future__ import annotations

from collections.abc import Sequence

from ragforge.answer.abstain import PASSAGES, SENTENCES_OF, Heard, calibration_of, evidence
from ragforge.answer.quotations import Sought
from ragforge.answer.quote import Quoted, quote
from ragforge.answer.sources import source_of_block
from ragforge.answer.units import units
from ragforge.answer.weigh import named, rarity
from ragforge.domain.answers import Evidence
from ragforge.domain.prompts import Source
from ragforge.domain.retrieval import Passage, Retrieved, Trace
from ragforge.retrieve.words import terms_of

SENTINEL = "NOT IN THE SOURCES"
"""The line that a model writes when its sources do not hold what it was asked for."""
_AROUND_SENTINEL = " \t\r\n*_#`>\"'“-"
_AFTER_SENTINEL = _AROUND_SENTINEL + "”:.,;–—"


def may_say_missing(begun: str) -> bool:
    """Whether a text that has only begun is, or may become, one that says that its sources do not hold it."""
    return SENTINEL.startswith(begun.lstrip(_AROUND_SENTINEL)[: len(SENTINEL)])


def said_missing(text: str) -> str | None:
    """What a model adds, if anything, when it says that its sources do not hold it; None if it does not say so."""
    plain = text.lstrip(_AROUND_SENTINEL)
    return plain.removeprefix(SENTINEL).strip(_AFTER_SENTINEL) if plain.startswith(SENTINEL) else None


def traced(found: Retrieved) -> Trace:
    """How a search went; it was asked to tell."""
    assert found.trace is not None, "it was asked for"
    return found.trace


def rarity_in(found: Retrieved) -> dict[str, float]:
    """How much each term of the question tells in this project."""
    trace = traced(found)
    return rarity(trace.holding, trace.rows)


def sought_in(found: Retrieved) -> Sought:
    """The words that were searched for."""
    return Sought.of(found.question, traced(found).words.groups, rarity_in(found), terms_of)


def sources_in(found: Retrieved) -> list[Source]:
    """What was found with the rest of its sections, not numbered yet."""
    return [source_of_block(0, block) for block in found.context]


def heard(passage: Passage, *, whole: bool) -> Heard:
    """What a passage has to do with a question; with its sentences under their headings, where those are wanted."""
    text = passage.header + passage.text
    spans = units(text) if whole else []
    above = list(dict.fromkeys(span for unit in spans for span in (*unit.above, *unit.under)))
    pieces = [text[start:end] for start, end in (*above, *((unit.start, unit.end) for unit in spans))]
    parts = (passage.name, " ".join(passage.locator.path), text, *pieces)
    name, path, body, *terms = (frozenset(terms) for terms in terms_of(parts))
    over = dict(zip(above, terms, strict=False))
    sentences = (
        held.union(path, *(over[span] for span in (*unit.above, *unit.under)))
        for unit, held in zip(spans, terms[len(above) :], strict=True)
    )
    return Heard(passage.scores.get("vectors"), body.union(name, path), tuple(sentences))


def evidence_in(found: Retrieved, embedder: str) -> Evidence:
    """How much there is to answer the question from, as calibrated for the project's embedder."""
    best = [heard(each, whole=place < SENTENCES_OF) for place, each in enumerate(found.passages[:PASSAGES])]
    groups = traced(found).words.groups
    names = named(found.question, groups, terms_of)
    return evidence(groups, rarity_in(found), best, calibration_of(embedder), names)


def quotes_in(found: Retrieved, sources: Sequence[Source], *, sentences: int = 2, words: int = 60) -> list[Quoted]:
    """The sentences of the sources that tell most of what was asked, as they stand there."""
    groups = traced(found).words.groups
    return quote(found.question, groups, rarity_in(found), sources, terms_of, sentences=sentences, words=words)
