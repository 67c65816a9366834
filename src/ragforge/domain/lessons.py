"""What an orchestrator of agents learns: captures, the patterns they make up, and what comes of applying them.

A capture is one success that was told: a failure with the solution that was verified, a person's rejection with the
revision that was approved, or an approval at the first attempt. Captures that tell the same are one pattern.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum

from ragforge.domain.plain import INTERNAL
from ragforge.domain.retrieval import Degraded

ANY = "any"
"""An agent, a task or a technology that every filter matches."""


class EntryType(StrEnum):
    """What was learnt from."""

    FAILURE = "failure_solution"
    REJECTION = "gate_rejection"
    APPROVAL = "gate_approval"


class Quality(StrEnum):
    """How much a capture is worth."""

    HIGH = "HIGH"
    """A test or a task that succeeded in the end."""
    HIGHEST = "HIGHEST"
    """A person's decision."""


class CheckpointKind(StrEnum):
    """What is reached when lessons are embedded."""

    PHASE = "phase"
    PROJECT = "project"
    CANCELLED = "cancelled"
    MANUAL = "manual"


@dataclass(frozen=True, slots=True)
class Facets:
    """Who a lesson is for: what filters ask for, and what must be the same for captures to be one pattern."""

    entry_type: EntryType
    agent_type: str = ANY
    task_type: str = ANY
    technology: str = ANY


@dataclass(frozen=True, slots=True)
class Told:
    """The words of a capture; which of them there are depends on its type."""

    task: str = ""
    """What was being done."""
    failure_description: str = ""
    error_message: str = ""
    solution_steps: str = ""
    gate_type: str = ""
    human_feedback: str = ""
    revision_approach: str = ""
    approved_approach: str = ""
    decision_criteria: str = ""
    """When this is the thing to try."""
    evidence: str = ""
    """What verified it, such as the test that passes now."""


TOLD = tuple(each.name for each in fields(Told))


@dataclass(frozen=True, slots=True)
class Words:
    """A lesson as an agent reads it."""

    problem: str
    solution: str
    when_to_try: str


@dataclass(frozen=True, slots=True)
class Lesson:
    """A capture as it is kept."""

    id: str
    project: str
    """Its project's id."""
    facets: Facets
    told: Told
    verified: bool
    """Whether a test or a person says that it works; nothing else is ever given to an agent."""
    captured_at: datetime
    captured_by: str
    embedded_at: datetime | None = None
    """When a checkpoint took it up; it lives a year from then on."""
    pattern: str = ""
    """The id of the pattern it is part of."""
    key: int = field(default=0, metadata=INTERNAL)
    """Its number in the catalog."""

    @property
    def quality(self) -> Quality:
        return Quality.HIGH if self.facets.entry_type is EntryType.FAILURE else Quality.HIGHEST

    @property
    def embedded(self) -> bool:
        return self.embedded_at is not None

    @property
    def words(self) -> Words:
        return words_of(self.facets, self.told)


def words_of(facets: Facets, told: Told) -> Words:
    """What was told, as an agent reads it."""
    if facets.entry_type is EntryType.FAILURE:
        error = told.error_message
        shown = f" (error: {error})" if error and error not in told.failure_description else ""
        usual = f"The error reads: {error}" if error else "The same failure appears"
        return Words(told.failure_description + shown, told.solution_steps, told.decision_criteria or usual)
    about = f" of: {told.task}" if told.task else ""
    if facets.entry_type is EntryType.REJECTION:
        usual = f"Before the {told.gate_type} gate, where the same could be said"
        problem = f"Rejected at the {told.gate_type} gate{about}: {told.human_feedback}"
        return Words(problem, told.revision_approach, told.decision_criteria or usual)
    usual = f"For the {told.gate_type} gate of similar work"
    problem = f"What passes the {told.gate_type} gate{about} at the first attempt"
    return Words(problem, told.approved_approach, told.decision_criteria or usual)


def problem_text(facets: Facets, told: Told) -> str:
    """What is compared with what an agent is about to do, or has failed at."""
    if facets.entry_type is EntryType.FAILURE:
        parts = [told.task, told.failure_description, told.error_message]
    elif facets.entry_type is EntryType.REJECTION:
        parts = [told.gate_type, told.task, told.human_feedback]
    else:
        parts = [told.gate_type, told.task, told.decision_criteria, told.approved_approach]
    return "\n".join(filter(None, parts))


def solution_text(told: Told) -> str:
    """What two captures of one problem have in common, or not."""
    return told.solution_steps or told.revision_approach or told.approved_approach


@dataclass(frozen=True, slots=True)
class IndexedLesson:
    """What indexes and comparisons need of a capture."""

    key: int
    project: str
    facet: int
    """The number of its facets, in its project."""
    facets: Facets
    told: Told
    pattern: str
    findable: bool
    """Whether nobody has rejected its pattern."""
    seq: int
    problem: bytes
    """The vectors of what it is about, and of how that is solved."""
    solution: bytes


class PatternState(StrEnum):
    LIVE = "live"
    REJECTED = "rejected"
    """A person said no: it is given to nobody, and captures that tell the same do not bring it back."""


@dataclass(frozen=True, slots=True)
class Record:
    """How a solution has done: each capture is a success, and so is each outcome that was recorded as one."""

    captures: int = 0
    wins: int = 0
    losses: int = 0

    @property
    def successes(self) -> int:
        return self.captures + self.wins

    def __add__(self, other: Record) -> Record:
        return Record(self.captures + other.captures, self.wins + other.wins, self.losses + other.losses)


@dataclass(frozen=True, slots=True)
class Pattern:
    """Captures that tell the same, as one."""

    id: str
    project: str
    facets: Facets
    words: Words
    record: Record
    quality: Quality
    state: PatternState = PatternState.LIVE
    approved: bool = False
    """Whether a person has looked at it and said yes."""
    edited: bool = False
    """Whether its words are a person's, and not those of its oldest capture."""
    version: int = 1
    """Counts edits: who edits an older one is told."""
    first_at: datetime | None = None
    """When its oldest living capture was embedded."""
    last_at: datetime | None = None
    key: int = field(default=0, metadata=INTERNAL)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of applying a pattern."""

    id: str
    pattern: str
    success: bool
    note: str
    recorded_at: datetime
    recorded_by: str
    project: str = ""
    """The id of the project it was applied in."""


@dataclass(frozen=True, slots=True)
class PatternDetails:
    """A pattern with everything it stands on."""

    pattern: Pattern
    lessons: tuple[Lesson, ...]
    outcomes: tuple[Outcome, ...]
    alternatives: tuple[Pattern, ...] = ()
    """Other solutions of the same problem."""


# -- queries


@dataclass(frozen=True, slots=True)
class LessonFilters:
    """Which lessons may be found. An empty field does not restrict; `any` in a lesson matches every value."""

    agent_type: str = ""
    task_type: str = ""
    technology: str = ""
    entry_type: EntryType | None = None


class Label(StrEnum):
    """How often something worked, in words."""

    MOST_COMMON = "Most Common"
    MODERATE = "Moderate"
    LESS_COMMON = "Less Common"


@dataclass(frozen=True, slots=True)
class FoundPattern:
    """A pattern that bears on what was asked."""

    pattern: Pattern
    similarity: float
    """From 0 to 1, on the scale that the embedder's calibration gives."""
    cosine: float
    record: Record
    """With that of the same pattern in other projects."""
    bound: float
    """The share of successes that it has at least, with 95 % confidence: what it is ranked by."""
    label: Label
    also: tuple[str, ...] = ()
    """Ids of patterns of other projects that tell the same, and are counted here."""
    alternative_to: tuple[str, ...] = ()
    """Ids of other patterns of this answer that solve the same problem in another way."""


@dataclass(frozen=True, slots=True)
class LessonDecision:
    """What became of a pattern that was near enough to be looked at."""

    pattern: str
    kept: bool
    reason: str
    similarity: float


@dataclass(frozen=True, slots=True)
class FoundLessons:
    """What is known for a task or a failure, the most reliable first."""

    patterns: tuple[FoundPattern, ...]
    threshold: float
    decisions: tuple[LessonDecision, ...] = ()
    degraded: tuple[Degraded, ...] = ()
    notice: str = ""
    timings: Mapping[str, float] = field(default_factory=dict)
    """Milliseconds by stage."""


@dataclass(frozen=True, slots=True)
class LessonContext:
    """What an agent is told before its task: the task, and the block of what is known."""

    text: str
    block: str
    """Empty if nothing is known."""
    tokens: int
    shown: tuple[str, ...]
    """Ids of the patterns in the block, in their order: outcomes are recorded for these."""
    found: FoundLessons
    left_out: tuple[str, ...] = ()
    """What did not fit, in words."""


# -- checkpoints, calibration, retention


@dataclass(frozen=True, slots=True)
class CheckpointReport:
    """What a checkpoint did."""

    kind: CheckpointKind
    embedded: int
    """Captures that were taken up."""
    new_patterns: int
    merged: int
    """Captures that tell what a pattern tells already."""
    renewed: int
    """Captures of earlier checkpoints that got a vector of the model that is used now."""
    waiting: int
    """Captures that nobody has verified yet."""
    patterns: int
    """Of the project now."""
    seconds: float
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Curve:
    """From how alike two texts are in several ways, to one number between 0 and 1."""

    weights: tuple[float, ...]
    """Of what, the step that compares says."""
    offset: float


@dataclass(frozen=True, slots=True)
class Measured:
    """How well a curve tells alike from different in the pairs it was fitted to, at the value that is used."""

    at: float
    precision: float
    recall: float
    pairs: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """What similarity means for one embedder: fitted to lessons that people judged."""

    embedder: str
    fingerprint: str
    task: Curve
    """A task, and a lesson that is worth knowing for it."""
    failure: Curve
    """A failure, and a lesson of the same failure."""
    problem: Curve
    """Two lessons of one problem."""
    lesson: Curve
    """Two lessons that are one."""
    measured: Mapping[str, Measured]
    made_at: datetime
    data: str = ""
    """The digest of what it was fitted to, and of how."""


@dataclass(frozen=True, slots=True)
class RetentionClock:
    """What retention has seen of the time: it removes nothing by a clock that may be wrong."""

    seen_at: datetime
    paused_at: datetime | None = None
    pruned_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What retention removed, or why it did not."""

    lessons: int = 0
    patterns: int = 0
    outcomes: int = 0
    before: datetime | None = None
    paused: str = ""
    """Why nothing was removed; empty unless the clock cannot be trusted."""
    pending: tuple[str, ...] = ()
    """Where words of what was removed may still be on disk, and why."""
