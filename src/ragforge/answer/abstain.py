"""Is there enough to answer from? A score from 0 to 1 by what the search found, calibrated for each embedder.

    cosine    of the passage that came first
    lead      how far that stands above the mean of the ten best, at most `_LEAD`
    apart     how much more of the question's weight the first passage holds than the ten do on average
    sentence  how much of it one sentence of the first three holds, under its headings
    missing   how much of the question's names and numbers each of the first three lacks, at least
    words     the logarithm of the number of the question's words

Where the answer is not there, passages on the same subject each hold some of the words, and none stands out. Words of
the same family and misspelt ones count in part. The highest cosine, BM25 over its ideal, the gap to the second passage,
what all passages cover together, close words and the kind of thing that is asked for add nothing to these six. The
cosine of the best sentence would add a little, and take twice as long as embedding the question.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragforge.answer.weigh import Groups, covered, kin_of, weights
from ragforge.domain.answers import Evidence

PASSAGES = 10
"""So many of the best passages are looked at. Those that a small project does not have hold nothing."""
SENTENCES_OF = 3
"""Of so many, also each sentence."""
_LEAD = 0.15
"""More is not better: in small projects the other passages are about something else altogether."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What a passage has to do with the question."""

    cosine: float | None
    """None: it was searched by words alone."""
    terms: frozenset[str]
    """Of its text, its file's name and its headings."""
    sentences: tuple[frozenset[str], ...] = ()
    """The terms of each; wanted of the first three passages."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Weights of the features, fitted on questions whose answer is there, and the same after it was removed."""

    weights: Mapping[str, float]
    constant: float
    threshold: float = 0.25


MINILM = Calibration({"cosine": 4.1, "lead": 3.0, "apart": 4.4, "sentence": 4.3, "missing": -1.5, "words": 0.58}, -6.6)
WORDLLAMA = Calibration(
    {"cosine": 1.9, "lead": 4.0, "apart": 4.2, "sentence": 4.8, "missing": -1.7, "words": 0.69}, -5.8
)
WORDS_ALONE = Calibration({"apart": 3.8, "sentence": 5.9, "missing": -2.0, "words": 1.1}, -5.8)
"""For every other model, for a question in a language that the model does not know, and where there are no vectors."""
_FITTED = {"minilm": MINILM, "wordllama": WORDLLAMA}


def calibration_of(embedder: str) -> Calibration:
    """By the name on the embedder's card."""
    return _FITTED.get(embedder, WORDS_ALONE)


def evidence(
    groups: Groups,
    rare: Mapping[str, float],
    passages: Sequence[Heard],
    calibration: Calibration,
    named: Sequence[bool] = (),
) -> Evidence:
    """How much there is to answer from: nothing without passages, and by words alone if the first has no cosine."""
    if not passages:
        return Evidence(0.0, calibration.threshold)
    values = features(groups, rare, passages, named)
    used = calibration if calibration.weights.keys() <= values.keys() else WORDS_ALONE
    total = used.constant + sum(weight * values[name] for name, weight in used.weights.items())
    return Evidence(1 / (1 + math.exp(-total)), calibration.threshold, values)


def features(
    groups: Groups, rare: Mapping[str, float], passages: Sequence[Heard], named: Sequence[bool] = ()
) -> dict[str, float]:
    """What the score rests on."""
    weighed = weights(groups, rare)
    best = passages[:PASSAGES]
    kin = kin_of(groups, frozenset().union(*(passage.terms for passage in best)))
    names = [weight if is_name else 0.0 for weight, is_name in zip(weighed, named, strict=False)]
    held = [covered(groups, weighed, passage.terms, kin) for passage in best]
    missing = (
        min(1 - covered(groups, names, passage.terms, kin) for passage in best[:SENTENCES_OF]) if any(names) else 0.0
    )
    sentences = [sentence for passage in best[:SENTENCES_OF] for sentence in passage.sentences]
    values = {
        "apart": held[0] - sum(held) / PASSAGES,
        "sentence": max((covered(groups, weighed, each, kin) for each in sentences), default=0.0),
        "missing": missing,
        "words": math.log(max(1, len(groups))),
    }
    first = best[0].cosine
    if first is not None:
        mean = sum(passage.cosine or 0.0 for passage in best) / PASSAGES
        values |= {"cosine": first, "lead": min(first - mean, _LEAD)}
    return values
