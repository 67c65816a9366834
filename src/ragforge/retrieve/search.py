"""One engine asked for candidates: what its index holds, and what came since it was written, as one list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ragforge.domain.retrieval import Allowed, Keys, QueryWords, Ranked, Scores
from ragforge.ports import KeywordReader, VectorReader

if TYPE_CHECKING:
    from ragforge.domain.tokens import Matrix, Vector

_NOTHING = Ranked(np.empty(0, np.int64), np.empty(0, np.float32))


@dataclass(frozen=True, slots=True, eq=False)
class Newcomers:
    """Chunks that came since an index was written. They are scored beside it, by the same measure."""

    keys: Keys
    documents: Keys
    terms: tuple[Mapping[str, int], ...]
    """Of each, its terms and how often they occur."""
    vectors: Matrix

    def those(self, allowed: Allowed) -> Newcomers:
        """The ones that may be found."""
        if allowed.documents is None or not len(self.keys):
            return self
        keep = np.flatnonzero(np.isin(self.documents, allowed.documents, invert=allowed.deny))
        if len(keep) == len(self.keys):
            return self
        return Newcomers(
            self.keys[keep], self.documents[keep], tuple(self.terms[place] for place in keep), self.vectors[keep]
        )


def keyword_candidates(reader: KeywordReader, words: QueryWords, k: int, allowed: Allowed, new: Newcomers) -> Ranked:
    """The k best by BM25. Without a word to look for there are none."""
    if not words:
        return _NOTHING
    found = reader.search(words, k, allowed)
    if not len(new.keys):
        return found
    scores = reader.score_new(words, new.terms)
    holds = scores > 0
    return _best(found, new.keys[holds], scores[holds], k)


def with_code_holders(
    reader: KeywordReader, words: QueryWords, found: Ranked, few: int, allowed: Allowed, new: Newcomers
) -> tuple[Ranked, frozenset[int]]:
    """Candidates by words with every passage that holds a code of the question, and which those are.

    None, if they are not few: a code that stands everywhere tells no passage from another.
    """
    if not words.codes:
        return found, frozenset()
    held = keyword_candidates(reader, QueryWords((words.codes,)), few, allowed, new).keys
    if len(held) >= few:
        return found, frozenset()
    missing = np.setdiff1d(held, found.keys)
    scores = keyword_scores(reader, words, missing, new)
    more = Ranked(np.concatenate([found.keys, missing]), np.concatenate([found.scores, scores]))
    return more, frozenset(held.tolist())


def vector_candidates(reader: VectorReader, query: Vector, k: int, allowed: Allowed, new: Newcomers) -> Ranked:
    """The k nearest by cosine."""
    found = reader.search(query, k, allowed)
    return found if not len(new.keys) else _best(found, new.keys, new.vectors @ query, k)


def keyword_scores(reader: KeywordReader, words: QueryWords, keys: Keys, new: Newcomers) -> Scores:
    """The BM25 of candidates that only the other engine found; zero where none of the words occurs."""
    if not words:
        return np.zeros(len(keys), np.float32)
    scores = reader.score(words, keys)
    return _told(scores, keys, new, lambda place: reader.score_new(words, [new.terms[place]])[0])


def vector_scores(reader: VectorReader, query: Vector, keys: Keys, new: Newcomers) -> Scores:
    """The cosine of candidates that only the other engine found."""
    return _told(reader.score(query, keys), keys, new, lambda place: new.vectors[place] @ query)


def _told(scores: Scores, keys: Keys, new: Newcomers, score: Callable[[int], float]) -> Scores:
    if len(new.keys):
        places = {int(key): place for place, key in enumerate(new.keys)}
        for number, key in enumerate(keys.tolist()):
            if key in places:
                scores[number] = score(places[key])
    return scores


def _best(found: Ranked, keys: Keys, scores: Scores, k: int) -> Ranked:
    all_keys, all_scores = np.concatenate([found.keys, keys]), np.concatenate([found.scores, scores])
    order = np.lexsort((all_keys, -all_scores))[:k]
    return Ranked(all_keys[order], all_scores[order])
