"""A conversation: turns, what is remembered of older ones, and how that was chosen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from ragforge.domain.citations import Citation

if TYPE_CHECKING:
    from ragforge.domain.tokens import Vector

FORGOTTEN_ANSWER = "This answer was removed: it used something that is no longer in the project."
"""What stays of an answer when a document it may hold words of is removed."""
LONGEST_TITLE = 1_000
"""Characters that a conversation's title has at most."""


class ConversationKind(StrEnum):
    """What a thread is for."""

    CHAT = "chat"
    DISCOVERY = "discovery"
    """A guided interview; what it knows is kept beside its turns."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A question and what came back, as a conversation keeps them."""

    id: str
    conversation: str
    number: int
    """From 1."""
    question: str
    """As it was typed."""
    answer: str
    asked_at: datetime
    standalone: str = ""
    """The question as it was searched for, where that differs."""
    abstained: bool = False
    summary: str = ""
    tags: tuple[str, ...] = ()
    importance: float = 0.0
    """0 to 1; what a person marked is 1 and overrides fading."""
    tokens: int = 0
    """Of question and answer."""
    documents: tuple[str, ...] = ()
    """Ids of the documents it may hold words of, those it cites first; it goes when one of them does."""
    repeats: bool = False
    """It may hold words of earlier turns too, and goes when one of them loses its answer."""
    source: str = "chat"
    """Where it came from: `chat`, `ask`, `discovery`."""
    probe: str = ""
    mode: str = ""
    rolled_into: str = ""
    """The rollup that stands for it now."""
    citations: tuple[Citation, ...] = ()
    """What its answer cites; they go with the answer."""
    trace_id: str = ""
    """Its entry in the query log, by which it can be judged; empty: it has none."""
    model: str = ""
    """Who wrote the answer; empty: no model."""
    quoted: bool = False
    """The answer is sentences of the documents as they stand."""


@dataclass(frozen=True, slots=True)
class Rollup:
    """A span of old turns as one titled summary."""

    id: str
    conversation: str
    first: int
    last: int
    title: str
    text: str
    made_at: datetime
    """When its turns were read."""
    tokens: int
    used: int = 0
    """How often it was recalled: what proves useful is promoted."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A thread of turns in one project."""

    id: str
    project: str
    title: str
    turns: int
    created_at: datetime
    updated_at: datetime
    cuts: int = 0
    """How often something was removed from it: what was made from its turns before the last time comes too late."""
    kind: ConversationKind = ConversationKind.CHAT


class Stored(NamedTuple):
    """What became of a question that was to be kept."""

    turn: int = 0
    """The number that its turn has; 0 if it became none."""
    problems: tuple[str, ...] = ()
    """What could not be done afterwards, in words; the turn is stored all the same."""


class Remembered(NamedTuple):
    """A turn or a rollup with the vector of its text, where there is one."""

    what: Turn | Rollup
    vector: Vector | None = None


@dataclass(frozen=True, slots=True)
class Episode:
    """Something older that was recalled for this question, as it goes into the prompt."""

    id: str
    first: int
    last: int
    text: str
    asked_at: datetime
    score: float
    tokens: int


@dataclass(frozen=True, slots=True)
class MemoryVerdict:
    """What was done with a remembered turn or rollup, and why."""

    id: str
    first: int
    last: int
    kept: bool
    reason: str
    score: float


@dataclass(frozen=True, slots=True)
class Conflict:
    """Something remembered says other than a file or a newer turn does; it was left out."""

    id: str
    number: int
    said: str
    against: str
    """The name of the file, or `turn 12`."""
    instead: str
    repeats: bool = False
    """It says the same, and was left out as a repetition."""
