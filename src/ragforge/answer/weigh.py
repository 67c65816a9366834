"""How much each word of a question tells, and how much of them a text holds."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

Groups: TypeAlias = Sequence[tuple[str, ...]]
"""A question's words, each with the terms that stand for it in the keyword index."""
TermsOf: TypeAlias = Callable[[Sequence[str]], Sequence[Sequence[str]]]
"""The terms of pieces of one text, as the keyword index would hold them; in one call, so that its language is one."""
Kin: TypeAlias = Sequence[Mapping[str, float]]
"""For each word of a question, terms that are not the word but probably mean it, and how much of it they count."""

SMALLEST = 500
"""A project of fewer chunks is weighed as a part of one with so many: in three files, a word of one file would count
half of a word that no file holds, and a question with one odd word would seem not to be covered."""
_ASKING = frozenset(
    (
        "big", "call", "compar", "deep", "describ", "differ", "exampl", "expens", "explain", "far", "fast", "get",
        "give", "happen", "heavi", "kind", "list", "long", "mani", "may", "mean", "much", "name", "need",
        "often", "old", "say", "show", "sort", "tall", "tell", "type", "want", "wide",
        "bedeutet", "gross", "heisst", "hoch", "lang", "nenn", "oft", "schwer", "teuer", "vergleich", "viel", "weit",
        "welch",
    )
)  # fmt: skip
"""Stems of words that ask rather than name what is asked about: the answer to "how heavy" is told in kilograms."""
_ASKING_COUNTS = 0.4

_RELATED, _MISSPELT = 0.6, 0.8
_SHORTEST, _SHORTEST_MISSPELT = 4, 5
_SHARED = 0.6
"""The part of the longer of two related terms that both begin with: norman and normandi, islam and islamist."""
_AROUND = ".,;:!?()[]{}\"'`“”„«»‘’¿¡"
_SENTENCE_ENDS = (".", "!", "?", ":")
_GERMAN = re.compile(
    r"\b(?:wie|wer|wo|wann|warum|wieso|welche[mnrs]?|ich|ist|sind|wird|werden|gibt|darf|kann|muss|eine[mnrs]?|für|und"
    r"|nicht)\b",
    re.IGNORECASE,
)
"""Words that English questions do not hold."""


def rarity(holding: Mapping[str, int], rows: int) -> dict[str, float]:
    """The weight of each term by the number of chunks that hold it (the IDF of BM25)."""
    known = max(rows, SMALLEST)
    return {term: math.log(1 + (known - count + 0.5) / (count + 0.5)) for term, count in holding.items()}


def weights(groups: Groups, rare: Mapping[str, float]) -> list[float]:
    """How much each word of the question tells: as much as the commonest of its terms."""
    return [
        min((rare[term] for term in group if term in rare), default=0.0) * (_ASKING_COUNTS if only_asks(group) else 1.0)
        for group in groups
    ]


def only_asks(group: Collection[str]) -> bool:
    """Whether a word asks rather than names what is asked about."""
    return not _ASKING.isdisjoint(group)


def covered(groups: Groups, weighed: Sequence[float], held: Collection[str], kin: Kin = ()) -> float:
    """The part of the question's weight whose words are held, 0 to 1; kin in a word's place count a part of it."""
    total = sum(weighed)
    if not total:
        return 0.0
    held = held if isinstance(held, frozenset) else frozenset(held)
    found = 0.0
    for place, (group, weight) in enumerate(zip(groups, weighed, strict=True)):
        if not held.isdisjoint(group):
            found += weight
        elif kin and kin[place]:
            found += weight * max((part for term, part in kin[place].items() if term in held), default=0.0)
    return found / total


def kin_of(groups: Groups, terms: Collection[str]) -> list[dict[str, float]]:
    """Which of the terms probably mean a word of the question: it is of their family, or misspelt.

    A term that is one letter off counts only where none is the word itself.
    """
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for term in terms:
        if len(term) >= _SHORTEST and term.isalpha():
            alike[term[0]].append(term)
    return [dict(_kin(group, alike, missing=all(term not in terms for term in group))) for group in groups]


def _kin(group: Sequence[str], alike: Mapping[str, Sequence[str]], *, missing: bool) -> Iterator[tuple[str, float]]:
    words = [word for word in group if len(word) >= _SHORTEST and word.isalpha()]
    for word in words:
        for term in alike.get(word[0], ()):
            shared = max(_SHORTEST, math.ceil(_SHARED * max(len(word), len(term))))
            if word[:shared] == term[:shared] and term not in group:
                yield term, _RELATED
    for word in words if missing else ():
        if len(word) >= _SHORTEST_MISSPELT:
            yield from ((term, _MISSPELT) for term in alike.get(word[0], ()) if _one_off(word, term))


def _one_off(one: str, other: str) -> bool:
    """Whether one letter more, less or other, or two that changed places, make one word of the other."""
    shorter, longer = sorted((one, other), key=len)
    if len(longer) - len(shorter) > 1 or one == other:
        return False
    at = next((place for place, letter in enumerate(shorter) if letter != longer[place]), len(shorter))
    if len(shorter) < len(longer):
        return shorter[at:] == longer[at + 1 :]
    swapped = shorter[at + 1 : at + 2] + shorter[at]
    return shorter[at + 1 :] == longer[at + 1 :] or swapped + shorter[at + 2 :] == longer[at:]


def named(question: str, groups: Groups, terms_of: TermsOf) -> list[bool]:
    """Of each word, whether it is a name, a number or a code: what a passage that answers can hardly do without."""
    if question.isupper():
        return [False] * len(groups)
    written = question.split()
    begins = [True, *(word.rstrip("\"'”»)").endswith(_SENTENCE_ENDS) for word in written)]
    bare = [word.strip(_AROUND) for word in written]
    if _GERMAN.search(question):  # there, every noun has a capital
        begins = [True] * len(begins)
    names = [word for word, first in zip(bare, begins, strict=False) if is_name(word, begins=first)]
    held = frozenset().union(*terms_of([question, *names])[1:])
    return [not held.isdisjoint(group) for group in groups]


def is_name(word: str, *, begins: bool) -> bool:
    """At the beginning of a sentence, a capital tells nothing; paths and addresses tell where, not what."""
    if "/" in word or "@" in word:
        return False
    inner = word[1:] if begins else word
    return any(sign.isupper() or sign.isdigit() for sign in inner) or word[:1].isdigit()
