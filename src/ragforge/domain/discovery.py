"""A guided interview: what was asked, what was understood, what is assumed, and how each turn came about."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from ragforge.domain.conversation import Conversation, Turn
from ragforge.domain.documents import Locator
from ragforge.domain.generation import Usage
from ragforge.domain.prompts import PromptSection, Source
from ragforge.domain.retrieval import Degraded

UNKNOWN = -1
"""In place of the turn that met a criterion or answered a question: nobody can tell."""

BY_HAND = 0
"""In place of the turn that something came up in: a person wrote it down."""
LONGEST_ORG_CONTEXT = 6_000
"""Characters that a person may write of their organisation."""
DOCUMENT_KINDS = {"problem": "problem-brief", "solution": "product-requirements"}
"""What an interview ends in, by its mode."""


class Level(StrEnum):
    """How well an assumption is supported, and how much breaks if it is false."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Standing(StrEnum):
    """What became of an assumption."""

    OPEN = "open"
    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    SHAKEN = "shaken"
    """Something that it depends on was refuted: it is to be looked at again."""


def when(turn: int) -> str:
    """Where something came up, in words."""
    return "by hand" if turn == BY_HAND else f"turn {turn}"


@dataclass(frozen=True, slots=True)
class Cited:
    """A passage that something stands on, as a document can cite it later."""

    chunk: str
    document: str
    name: str
    locator: Locator
    checksum: str
    quote: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why an assumption is believed, or not."""

    text: str
    turn: int
    """In which it came up."""
    cited: tuple[Cited, ...] = ()
    documents: tuple[str, ...] = ()
    """Ids of documents that its words may come from, beside those it cites."""


@dataclass(frozen=True, slots=True)
class Assumption:
    """Something that is taken for true without proof."""

    id: str
    """`A1`, `A2`, …: never given twice in an interview."""
    statement: str
    confidence: Level
    impact: Level
    turn: int
    probe: str = ""
    status: Standing = Standing.OPEN
    depends_on: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    documents: tuple[str, ...] = ()
    """Ids of documents that its words may come from; it goes when one of them does."""


@dataclass(frozen=True, slots=True)
class Point:
    """A sentence of the document that grows: a person said it, or passages do."""

    id: str
    section: str
    text: str
    turn: int
    criterion: str = ""
    """`probe.criterion` that it answers."""
    cited: tuple[Cited, ...] = ()
    """Empty: it is what the person said in that turn."""
    assumption: str = ""
    """The id of the assumption that says the same, where it is not certain."""
    documents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question that was put to the person."""

    text: str
    probe: str
    criterion: str
    turn: int
    answered: int = 0
    """The turn that answered it; 0: none yet; `UNKNOWN`: the person cannot tell."""
    documents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Met:
    """A completion criterion that is met."""

    criterion: str
    """`probe.criterion`."""
    turn: int
    """Or `UNKNOWN`: the person cannot tell, and it is an open question."""


@dataclass(frozen=True, slots=True)
class Noticed:
    """A probe that was fired, or a pattern that was seen, first in this turn."""

    key: str
    mode: str
    turn: int


@dataclass(frozen=True, slots=True)
class InterviewState:
    """All that an interview knows, after a turn."""

    mode: str
    probe: str = ""
    """The one that is being asked; empty before the first turn."""
    turn: int = 0
    """The last one that is in it."""
    version: int = 0
    """As it is stored; 0: it is not yet."""
    opening: str = ""
    """What the interviewer said before the first turn."""
    offer: str = ""
    """The mode that the last turn offered to go on to."""
    fired: tuple[Noticed, ...] = ()
    patterns: tuple[Noticed, ...] = ()
    met: tuple[Met, ...] = ()
    asked: tuple[AskedQuestion, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    points: tuple[Point, ...] = ()
    synthesis: int = 0
    """The last turn that summed up."""
    numbers: tuple[int, int] = (0, 0)
    """The highest numbers that assumptions and points have had."""

    @property
    def pending(self) -> tuple[AskedQuestion, ...]:
        """What was asked last and is not answered."""
        last = max((each.turn for each in self.asked), default=0)
        return tuple(each for each in self.asked if each.turn == last and not each.answered)

    @property
    def documents(self) -> frozenset[str]:
        """Every document that something in it may hold words of."""
        entries: list[Assumption | Point | AskedQuestion] = [*self.assumptions, *self.points, *self.asked]
        held = {id for each in entries for id in each.documents}
        proofs: list[Evidence | Point] = [some for each in self.assumptions for some in each.evidence]
        return frozenset(held | {cited.document for some in (*proofs, *self.points) for cited in some.cited})


@dataclass(frozen=True, slots=True)
class StateVersion:
    """One of the states that are kept, newest first."""

    version: int
    turn: int
    made_at: datetime


@dataclass(frozen=True, slots=True)
class Interview:
    """An interview as it stands: the thread of its turns, and what it knows."""

    talk: Conversation
    state: InterviewState

    @property
    def id(self) -> str:
        return self.talk.id


def without_documents(state: InterviewState, gone: Collection[str]) -> InterviewState:
    """The state with nothing in it that may hold words of these documents; what rested on it is no longer met."""
    if state.documents.isdisjoint(gone):
        return state
    kept_points = tuple(each for each in state.points if not set(each.documents) & set(gone) and not _cites(each, gone))
    lost = {each.criterion for each in state.points} - {each.criterion for each in kept_points}
    return consistent(
        replace(
            state,
            points=kept_points,
            assumptions=tuple(
                replace(each, evidence=tuple(some for some in each.evidence if not _cites(some, gone)))
                for each in state.assumptions
                if not set(each.documents) & set(gone)
            ),
            asked=tuple(each for each in state.asked if not set(each.documents) & set(gone)),
            met=tuple(each for each in state.met if each.criterion not in lost),
        )
    )


def _cites(what: Evidence | Point, documents: Collection[str]) -> bool:
    own = what.documents if isinstance(what, Evidence) else ()
    return any(document in documents for document in (*own, *(each.document for each in what.cited)))


def without_turn(state: InterviewState, turn: int) -> InterviewState:
    """The state with nothing in it that came of a turn."""
    return consistent(
        replace(
            state,
            points=tuple(each for each in state.points if each.turn != turn),
            assumptions=tuple(_unproved(each, turn) for each in state.assumptions if each.turn != turn),
            asked=tuple(
                replace(each, answered=0) if each.answered == turn else each
                for each in state.asked
                if each.turn != turn
            ),
            met=tuple(each for each in state.met if each.turn != turn),
            fired=tuple(each for each in state.fired if each.turn != turn),
            patterns=tuple(each for each in state.patterns if each.turn != turn),
        )
    )


def _unproved(assumption: Assumption, turn: int) -> Assumption:
    """Without what a turn brought; it is open again if that alone settled it."""
    left = tuple(some for some in assumption.evidence if some.turn != turn)
    judged = assumption.status in (Standing.CONFIRMED, Standing.REFUTED)
    reopened = judged and not left and left != assumption.evidence
    return replace(assumption, evidence=left, status=Standing.OPEN if reopened else assumption.status)


def taken_back(before: InterviewState, after: InterviewState, now: InterviewState) -> InterviewState:
    """What is known without a turn: as before it, with whatever a person corrected since. No number is given twice.

    `after` is what the turn left.
    """
    hand_made = [each for each in now.assumptions if each not in after.assumptions]
    touched = {each.id for each in hand_made}
    gone = {each.id for each in after.assumptions} - {each.id for each in now.assumptions}
    olds = [each for each in before.assumptions if each.id not in touched | gone]
    new_points = [each for each in now.points if each not in after.points]
    changed = {each.id for each in new_points}
    lost = {each.id for each in after.points} - {each.id for each in now.points}
    kept_points = [each for each in before.points if each.id not in changed | lost]
    return consistent(
        replace(
            before,
            version=now.version,
            turn=now.turn,
            numbers=now.numbers,
            mode=now.mode if now.mode != after.mode else before.mode,
            assumptions=tuple(sorted((*olds, *hand_made), key=lambda each: int(each.id[1:]))),
            points=tuple(sorted((*kept_points, *new_points), key=lambda each: int(each.id[1:]))),
        )
    )


def with_turns(state: InterviewState, numbers: Mapping[int, int]) -> InterviewState:
    """The state with other numbers for its turns. What belongs to one that is not among them was written after the
    last that is."""

    def new(turn: int) -> int:
        return numbers[max(older)] if (older := [each for each in numbers if each <= turn]) else min(turn, 0)

    def moved(entries: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(replace(each, turn=new(each.turn)) for each in entries)

    return replace(
        state,
        turn=max(numbers.values(), default=0),
        synthesis=new(state.synthesis),
        fired=moved(state.fired),
        patterns=moved(state.patterns),
        met=moved(state.met),
        points=moved(state.points),
        asked=tuple(replace(each, answered=new(each.answered)) for each in moved(state.asked)),
        assumptions=tuple(replace(each, evidence=moved(each.evidence)) for each in moved(state.assumptions)),
    )


def reached(following: Callable[[str], Iterable[str]], start: str) -> Iterator[str]:
    """Everything that can be come to from one place, near and far."""
    seen, waiting = {start}, list(following(start))
    while waiting:
        if (id := waiting.pop()) not in seen:
            seen.add(id)
            yield id
            waiting += following(id)


def stand_again(assumptions: Sequence[Assumption]) -> tuple[Assumption, ...]:
    """Those that are shaken and rest on nothing refuted any more are open."""
    by_id = {each.id: each for each in assumptions}

    def falls(each: Assumption) -> bool:
        return any(by_id[id].status is Standing.REFUTED for id in reached(lambda one: by_id[one].depends_on, each.id))

    return tuple(
        replace(each, status=Standing.OPEN) if each.status is Standing.SHAKEN and not falls(each) else each
        for each in assumptions
    )


def consistent(state: InterviewState) -> InterviewState:
    """Without links to what is gone."""
    there = {each.id for each in state.assumptions}
    return replace(
        state,
        assumptions=stand_again(
            [replace(each, depends_on=tuple(id for id in each.depends_on if id in there)) for each in state.assumptions]
        ),
        points=tuple(replace(each, assumption=each.assumption * (each.assumption in there)) for each in state.points),
    )


# -- a turn


@dataclass(frozen=True, slots=True)
class Decision:
    """Phase A: what happens in this turn."""

    mode: str
    probe: str
    patterns: tuple[str, ...] = ()
    micro_synthesis: bool = False
    requires_retrieval: bool = True
    reason: str = ""
    by: str = ""
    """The model that decided; empty: rules did."""
    filler: bool = False
    """The message says nothing to go on."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a turn did to the state, in words; or what was refused, and why."""

    tool: str
    text: str
    refused: bool = False


@dataclass(frozen=True, slots=True)
class TurnAccount:
    """How a turn came about: what was decided, read, sent, changed and left out."""

    decision: Decision
    sections: tuple[PromptSection, ...] = ()
    """Of the context, in their order, with their tokens; also where no model reads it."""
    phase_a_tokens: int = 0
    phase_b_tokens: int = 0
    """All that goes to the model: context, instructions and tools."""
    sources: tuple[Source, ...] = ()
    recalled: tuple[int, ...] = ()
    """Numbers of the older turns that were brought back."""
    searches: int = 0
    """How often documents and older turns were searched."""
    changes: tuple[Change, ...] = ()
    compressed: tuple[str, ...] = ()
    """What had to be shortened to fit, in words."""
    notices: tuple[str, ...] = ()
    degraded: tuple[Degraded, ...] = ()
    model: str = ""
    """Who asked; empty: rules did."""
    usage: Usage = field(default_factory=Usage)
    timings: dict[str, float] = field(default_factory=dict)
    trace_id: str = ""


@dataclass(frozen=True, slots=True)
class InterviewTurn:
    """A turn that is stored, with the state after it."""

    interview: str
    turn: Turn
    state: InterviewState
    account: TurnAccount


# -- while a turn is on its way


@dataclass(frozen=True, slots=True)
class Decided:
    """Phase A is done."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class Gathered:
    """What was read for this turn; nothing where retrieval was skipped."""

    sources: tuple[Source, ...]
    recalled: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Changed:
    """Something was registered, or refused."""

    change: Change


@dataclass(frozen=True, slots=True)
class TurnDone:
    """All of it is stored."""

    done: InterviewTurn


InterviewEvent = Decided | Gathered | Changed | TurnDone


@dataclass(frozen=True, slots=True)
class Progression:
    """How far a probe has come."""

    key: str
    title: str
    met: int
    criteria: int
    unknown: int = 0
    """Of its criteria, those that the person cannot tell."""
    fired: bool = False
    current: bool = False
    asked_out: bool = False
    """There is nothing left to ask for what is not met."""

    @property
    def done(self) -> bool:
        return self.asked_out or self.met + self.unknown >= self.criteria
