"""E: what older turns and rollups say to this question, chosen by topic and freshness within a budget.

    score = topic x freshness          kept from a floor on, best first, while there is room

Topic is how near the text is to the question. Freshness halves every so many turns, and again when much time has
passed, but never reaches zero: what is clearly on topic comes back however old it is. Importance lifts freshness; what
a person marked is kept before everything else. Neighbours of what is kept already count a little less, so that the
budget is not spent on one stretch of the conversation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from ragforge.domain.conversation import Episode, MemoryVerdict, Remembered, Rollup, Turn
from ragforge.remember.rollup import importance_of
from ragforge.remember.words import Count, Groups, Words, brief, text_of, whole

if TYPE_CHECKING:
    from ragforge.domain.tokens import Vector

_SECONDS_OF_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Fading:
    """How memory fades.

    Measured with MiniLM on conversations of five topics in turn, coming back to each: of the turns on the question's
    own topic 78 % are recalled by vectors and 57 % by words, of the others 2 % by either.
    """

    half_life: float = 24.0
    """Turns after which freshness has halved."""
    days: float = 30.0
    """Days after which it has halved once more; the first day does not count."""
    least: float = 0.3
    """Freshness of the oldest."""
    floor: float = 0.25
    """The score from which something is recalled."""
    cosine: tuple[float, float] = (0.15, 0.6)
    """Above the embedder's own floor: from unrelated to plainly on topic."""
    words: tuple[float, float] = (0.0, 0.5)
    """The same for the share of the question's words, where there is no vector."""
    near: int = 2
    """Turns within which two are neighbours."""
    neighbour: float = 0.85
    """What the score of a neighbour counts."""
    whole: int = 250
    """Tokens up to which a turn is recalled as it is; a longer one by its summary."""


USUAL = Fading()


@dataclass(frozen=True, slots=True)
class _Candidate:
    what: Turn | Rollup
    first: int
    last: int
    at: datetime
    topic: float
    freshness: float
    marked: bool
    ago: str

    @property
    def score(self) -> float:
        return 1.0 if self.marked else self.topic * self.freshness


def recall(
    remembered: Sequence[Remembered],
    question_vector: Vector | None,
    question_terms: Groups,
    now: datetime,
    budget: int,
    *,
    turn: int,
    words: Words,
    count: Count,
    cosine_floor: float | None = None,
    fading: Fading = USUAL,
) -> tuple[tuple[Episode, ...], tuple[MemoryVerdict, ...]]:
    """What is recalled for the question that becomes turn `turn`, and a verdict on everything; both in their order.

    `remembered` are the turns before the recent ones, and the rollups. Vectors count only where the embedder's
    `cosine_floor` is known; elsewhere the question's words decide.
    """
    titles = {each.what.id: each.what.title for each in remembered if isinstance(each.what, Rollup)}
    verdicts: list[MemoryVerdict] = []
    candidates: list[_Candidate] = []
    for each in remembered:
        refused, topic = _set_aside(each.what, titles), 0.0
        if not refused and not _marked(each.what):
            topic = _topic(each, question_vector, question_terms, words, cosine_floor, fading)
        candidate = _candidate(each.what, topic, now, turn, fading)
        if refused := refused or _refused(candidate, fading):
            verdicts.append(_verdict(candidate, False, refused))
        else:
            candidates.append(candidate)
    episodes: list[Episode] = []
    for candidate in _in_order(candidates, episodes, fading):
        left = budget - sum(episode.tokens for episode in episodes)
        forms = [(text, count(text)) for text in _forms(candidate.what)]
        text, tokens = _fitting(forms, left, fading)
        if tokens > left:
            verdicts.append(_verdict(candidate, False, f"no room: {tokens - left:,} tokens over"))
            continue
        why = "marked important" if candidate.marked else "on topic"
        how = ", as its summary" if text != forms[0][0] else ""
        verdicts.append(_verdict(candidate, True, f"{why}, {candidate.ago}{how}"))
        episodes.append(
            Episode(candidate.what.id, candidate.first, candidate.last, text, candidate.at, candidate.score, tokens)
        )
    return (
        tuple(sorted(episodes, key=lambda each: (each.first, each.id))),
        tuple(sorted(verdicts, key=lambda each: (each.first, each.id))),
    )


# -- scores


def freshness(turns: float, days: float, importance: float, fading: Fading = USUAL) -> float:
    """1 for what was just said, falling smoothly to the least; importance lifts it."""
    passed = max(0.0, turns) / fading.half_life + max(0.0, days - 1) / fading.days
    faded: float = fading.least + (1 - fading.least) * 0.5**passed
    return faded + (1 - faded) * min(1.0, max(0.0, importance))


def _topic(
    each: Remembered,
    question: Vector | None,
    groups: Groups,
    words: Words,
    cosine_floor: float | None,
    fading: Fading,
) -> float:
    """0 for something else, 1 for plainly the same."""
    if question is not None and each.vector is not None and cosine_floor is not None:
        return _share(float(question @ each.vector) - cosine_floor, fading.cosine)
    if not groups:
        return 0.0
    held = words.of(text_of(each.what))
    return _share(sum(not held.isdisjoint(group) for group in groups) / len(groups), fading.words)


def _share(value: float, span: tuple[float, float]) -> float:
    low, high = span
    return min(1.0, max(0.0, (value - low) / (high - low)))


def _candidate(what: Turn | Rollup, topic: float, now: datetime, turn: int, fading: Fading) -> _Candidate:
    first, last, at, importance = (
        (what.first, what.last, what.made_at, importance_of(what))
        if isinstance(what, Rollup)
        else (what.number, what.number, what.asked_at, what.importance)
    )
    turns, days = max(0, turn - last), max(0.0, (now - at).total_seconds() / _SECONDS_OF_DAY)
    fresh = freshness(turns, days, importance, fading)
    return _Candidate(what, first, last, at, topic, fresh, _marked(what), _ago(turns, days))


def _marked(what: Turn | Rollup) -> bool:
    return isinstance(what, Turn) and what.importance >= 1


def _ago(turns: int, days: float) -> str:
    told = f"{turns} turn{'' if turns == 1 else 's'}"
    return f"{told} and {days:.0f} days ago" if days >= 2 else f"{told} ago"


def _set_aside(what: Turn | Rollup, titles: Mapping[str, str]) -> str:
    """Why something is not looked at; empty if it is."""
    if isinstance(what, Rollup) or _marked(what):
        return ""
    if what.rolled_into in titles:
        return f"in the summary “{titles[what.rolled_into]}”"
    return "no answer was found then" if what.abstained else ""


def _refused(candidate: _Candidate, fading: Fading) -> str:
    """Why it is no candidate; empty if it is one."""
    if candidate.score >= fading.floor:
        return ""
    return "off topic" if candidate.topic < fading.floor else f"faded: {candidate.ago}"


def _verdict(candidate: _Candidate, kept: bool, reason: str) -> MemoryVerdict:
    return MemoryVerdict(candidate.what.id, candidate.first, candidate.last, kept, reason, candidate.score)


# -- room


def _in_order(candidates: Iterable[_Candidate], kept: Sequence[Episode], fading: Fading) -> Iterator[_Candidate]:
    """What is marked, newest first; then the best, where a neighbour of what is kept by then counts less."""

    def place(each: _Candidate) -> tuple[float, int, str]:
        beside = not each.marked and any(_gap(each, episode) <= fading.near for episode in kept)
        return -each.score * (fading.neighbour if beside else 1.0), -each.last, each.what.id

    queue = [(place(each), number, each) for number, each in enumerate(candidates)]
    heapify(queue)
    while queue:
        known, number, best = heappop(queue)
        # What is kept only grows, so a place can only have become worse: looking at the first one is enough.
        if (place_now := place(best)) == known:
            yield best
        else:
            heappush(queue, (place_now, number, best))


def _gap(one: _Candidate, other: Episode) -> int:
    return max(one.first, other.first) - min(one.last, other.last)


def _forms(what: Turn | Rollup) -> list[str]:
    """The texts that can stand for it, the fullest first."""
    if isinstance(what, Rollup):
        return [text_of(what)]
    return [whole(what), brief(what)] if what.summary else [whole(what)]


def _fitting(forms: Sequence[tuple[str, int]], left: int, fading: Fading) -> tuple[str, int]:
    """The fullest that is short enough and fits; else the shortest."""
    for text, tokens in forms:
        if tokens <= min(left, fading.whole):
            return text, tokens
    return min(forms, key=lambda form: form[1])
