"""What comes back from a question: an answer whose every citation was checked, or an honest abstention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from ragforge.domain.citations import Citation as Citation
from ragforge.domain.conversation import Conflict, MemoryVerdict
from ragforge.domain.generation import Estimate, Usage
from ragforge.domain.prompts import Condensed, InjectedFile, Shape, Source, SuperPrompt
from ragforge.domain.retrieval import Degraded, Passage, Verdict


@dataclass(frozen=True, slots=True)
class RemovedCitation:
    """A marker the model wrote that stands for nothing it was given."""

    marker: str
    reason: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """How much there is to answer from, 0 to 1, and what that rests on."""

    score: float
    threshold: float
    features: Mapping[str, float] = field(default_factory=dict)

    @property
    def enough(self) -> bool:
        return self.score >= self.threshold


class WhyNot(StrEnum):
    """Why there is no answer."""

    EMPTY_PROJECT = "empty_project"
    NOTHING_FOUND = "nothing_found"
    WEAK_EVIDENCE = "weak_evidence"
    GATED = "gated"
    MODEL_SAYS = "model_says"


@dataclass(frozen=True, slots=True)
class Account:
    """How an answer came about: what the panel, `--json` and the log show."""

    question: str
    shape: Shape
    sources: tuple[Source, ...] = ()
    files: tuple[InjectedFile, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    memory: tuple[MemoryVerdict, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    degraded: tuple[Degraded, ...] = ()
    evidence: Evidence | None = None
    condensed: Condensed | None = None
    prompt: SuperPrompt | None = None
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    timings: Mapping[str, float] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    reran: bool = False
    trace_id: str = ""
    conversation: str = ""
    turn: int = 0
    cuts: int | None = None
    """`Conversation.cuts` when its turns were read; None if none were."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Text with checked citations."""

    text: str
    citations: tuple[Citation, ...]
    account: Account
    removed: tuple[RemovedCitation, ...] = ()
    unproved: tuple[str, ...] = ()
    """Sentences whose citation does not bear them out."""
    stripped: tuple[str, ...] = ()
    """Images, links and markup that were taken out, in words."""
    quoted: bool = False
    """Sentences of the documents as they stand, without a model."""
    uncited: int = 0
    """Sentences that claim something and cite nothing."""


@dataclass(frozen=True, slots=True)
class Abstention:
    """No answer: why, what comes nearest, and what would help."""

    why: WhyNot
    reason: str
    suggestion: str
    nearest: tuple[Passage, ...]
    account: Account

    @property
    def text(self) -> str:
        return f"{self.reason} {self.suggestion}".strip()


Result: TypeAlias = Answer | Abstention


def by_model(result: Result) -> bool:
    """Whether its text may have words of a model's own."""
    return not result.quoted if isinstance(result, Answer) else result.why is WhyNot.MODEL_SAYS


def read_for(result: Result) -> tuple[str, ...]:
    """The documents of which words may be in its text, those it cites first: all that a model read, or the quoted."""
    cited = [citation.document for citation in result.citations] if isinstance(result, Answer) else []
    read = [source.document for source in result.account.sources] if by_model(result) else []
    return tuple(dict.fromkeys([*cited, *read]))


@dataclass(frozen=True, slots=True)
class Prompted:
    """What a question would send, before it is sent."""

    prompt: SuperPrompt
    account: Account
    estimate: Estimate | None = None
    """None without a model."""
    abstention: Abstention | None = None
    """What would come back instead of sending it."""


# -- what a stream brings, in this order: retrieval, decision…, token…, citation…, usage, done


@dataclass(frozen=True, slots=True)
class RetrievalEvent:
    """The passages the answer will stand on."""

    sources: tuple[Source, ...]
    shape: Shape
    degraded: tuple[Degraded, ...] = ()


@dataclass(frozen=True, slots=True)
class DecisionEvent:
    """A candidate that a stage kept or dropped."""

    verdict: Verdict


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """A piece of the answer that was judged harmless."""

    text: str


@dataclass(frozen=True, slots=True)
class CitationEvent:
    citation: Citation


@dataclass(frozen=True, slots=True)
class UsageEvent:
    usage: Usage


@dataclass(frozen=True, slots=True)
class DoneEvent:
    result: Result


Event: TypeAlias = RetrievalEvent | DecisionEvent | TokenEvent | CitationEvent | UsageEvent | DoneEvent
