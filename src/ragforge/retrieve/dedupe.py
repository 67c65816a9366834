"""Chunks that say the same, word for word or nearly so: the best one stays.

A text is compared as the set of its shingles, every eight bytes of it without spaces and capitals. Two texts repeat
each other when they share most of the shingles that they have together, and their figures are the same: "within 30
days" is no repetition of "within 14 days". Neighbouring windows, which overlap by a fifth, are far from all that.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ragforge.domain.retrieval import Candidate, Decision, Stage, StoredPassage

if TYPE_CHECKING:
    import numpy.typing as npt

Shingles: TypeAlias = "npt.NDArray[np.uint64]"

_WIDTH = 8
"""Bytes of a shingle. They fit an integer, so nothing needs hashing."""
_SPACES = b" \t\n\r\v\f"
_FIGURES = re.compile(rb"\d+")
_SKETCH_BITS = 11
_SCATTER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(64 - _SKETCH_BITS)


def dedupe(
    candidates: Sequence[Candidate], passages: Mapping[int, StoredPassage], threshold: float
) -> tuple[list[Candidate], list[Decision]]:
    """The candidates, best first, without those that share `threshold` of their shingles with a better one.

    1 drops only what is the same but for spaces and capitals.
    """
    kept: list[Candidate] = []
    decisions: list[Decision] = []
    seen = _Seen(threshold)
    for candidate in candidates:
        passage = passages[candidate.key]
        repeats = seen.look_up_or_add(passage)
        if repeats is None:
            kept.append(candidate)
            decisions.append(Decision(Stage.DEDUPE, candidate.key, True, "repeats no better one", candidate.score))
        else:
            reason = _reason(passage, *repeats)
            decisions.append(Decision(Stage.DEDUPE, candidate.key, False, reason, candidate.score))
    return kept, decisions


class _Seen:
    """The texts kept so far."""

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._same: dict[bytes, StoredPassage] = {}
        self._texts: defaultdict[tuple[bytes, ...], list[_Text]] = defaultdict(list)
        """By their figures: texts with others do not repeat each other."""

    def look_up_or_add(self, passage: StoredPassage) -> tuple[StoredPassage, float] | None:
        """The kept text that this one repeats, and how much they share; None if it was added to them."""
        content = _normalised(passage)
        if same := self._same.get(content):
            return same, 1.0
        if self._threshold < 1:
            text, others = _Text(passage, content), self._texts[tuple(_FIGURES.findall(content))]
            if others and (alike := text.most_like(others, self._threshold)):
                return alike
            others.append(text)
        self._same[content] = passage
        return None


class _Text:
    """A text as its shingles, and a sketch of them: a bit is set for each, and many share one."""

    def __init__(self, passage: StoredPassage, content: bytes) -> None:
        self._passage = passage
        self._content = content

    @cached_property
    def _shingles(self) -> Shingles:
        count = max(0, len(self._content) - _WIDTH + 1)
        return np.ndarray(count, dtype=np.uint64, buffer=self._content, strides=(1,))

    @cached_property
    def _sketch(self) -> int:
        bits = np.zeros(1 << _SKETCH_BITS, dtype=np.uint8)
        bits[((self._shingles * _SCATTER) >> _SHIFT).view(np.int64)] = 1
        return int.from_bytes(np.packbits(bits).tobytes(), "little")

    @cached_property
    def _distinct(self) -> Shingles:
        ordered = np.sort(self._shingles)
        return ordered[np.append(ordered[1:] != ordered[:-1], True)] if len(ordered) else ordered

    def most_like(self, others: Sequence[_Text], threshold: float) -> tuple[StoredPassage, float] | None:
        """The first of those that share most with this one, if that reaches the threshold."""
        # Where texts share the threshold of their shingles, few are in one text alone, and a bit that differs needs
        # such a one. So the sketches prove of nearly all others that there is no need to look at the shingles.
        sketch, few = self._sketch, len(self._shingles) * (1 - threshold) + 1  # one more, for what rounding takes
        near = [other for other in others if (sketch ^ other._sketch).bit_count() * threshold <= few]
        shares = [(self._shares_with(other), other._passage) for other in near]
        share, passage = max(shares, key=itemgetter(0), default=(-1.0, self._passage))
        return (passage, share) if share >= threshold else None

    def _shares_with(self, other: _Text) -> float:
        """What both have, as part of what they have together."""
        both = np.concatenate((self._distinct, other._distinct))
        both.sort()
        common = int(np.count_nonzero(both[1:] == both[:-1]))
        return common / (len(both) - common) if common else 0.0


def _normalised(passage: StoredPassage) -> bytes:
    """The text under its table's header, without spaces and capitals."""
    content = (passage.header + passage.text).lower().encode(errors="surrogatepass")
    return content.translate(None, _SPACES)


def _reason(passage: StoredPassage, repeated: StoredPassage, share: float) -> str:
    elsewhere = "" if repeated.document == passage.document else f" in {repeated.name}"
    return f"repeats {repeated.chunk}{elsewhere} ({int(share * 100)} %)"
