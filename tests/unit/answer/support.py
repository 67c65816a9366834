"""Sources and terms for the tests of quoting and abstaining: the real tokenizer, texts of our own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragforge.answer.units import units
from ragforge.answer.weigh import rarity
from ragforge.domain.documents import Locator
from ragforge.domain.prompts import Source
from ragforge.retrieve.words import index_terms, query_words, terms_of


def source(number: int, text: str, score: float = 1.0, name: str = "", path: Sequence[str] = ()) -> Source:
    return Source(number, f"c{number}", (), f"d{number}", name, Locator(tuple(path)), "", score, text, 0)


def groups_of(question: str) -> tuple[tuple[str, ...], ...]:
    return query_words(question, ("en",)).groups


def rare(question: str, texts: Iterable[str], rows: int = 0) -> dict[str, float]:
    """As if the texts were all there is, or a part of so many."""
    held = [frozenset(index_terms(text)) for text in texts]
    terms = {term for group in groups_of(question) for term in group}
    return rarity({term: sum(term in each for each in held) for term in terms}, rows or len(held))


def sentences_of(text: str) -> tuple[frozenset[str], ...]:
    return tuple(map(frozenset, terms_of([text[unit.start : unit.end] for unit in units(text)])))
