"""What is written down of questions and of documents that were made: the query log, project texts, artifacts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from ragforge.domain.prompts import Source

FORGOTTEN_SECTION = "This section was removed: it cited a document that is no longer in the project."
"""Why a section of a made document is open again when a document it cites is removed."""
FORGOTTEN_SOURCE = "(a removed document)"
"""The name of a source whose document was removed."""


class ProjectTextKind(StrEnum):
    """Two texts that people write for a project, in versions; no model writes them."""

    HARD_RULES = "hard-rules"
    PROJECT_MEMORY = "project-memory"


@dataclass(frozen=True, slots=True)
class ProjectText:
    """One version of such a text; version 0 is the empty one that every project begins with."""

    kind: ProjectTextKind
    version: int
    text: str
    written_at: datetime | None
    written_by: str = ""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One question, as the query log keeps it."""

    id: str
    """The request id that went through every provider call."""
    asked_at: datetime
    kind: str
    """`answer`, `abstention`, `search`, `document` or `error`; figures alone: `vectors`, `judgement`."""
    question: str
    standalone: str = ""
    agent: str = ""
    conversation: str = ""
    k: int = 0
    chunks: tuple[tuple[str, float], ...] = ()
    """Ids and scores of what was found."""
    cited: tuple[str, ...] = ()
    """Ids of the documents that the answer cites."""
    model: str = ""
    profile: str = ""
    retrieval_ms: float = 0.0
    generation_ms: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: Decimal | None = None
    error: str = ""
    feedback: str = ""
    """`good`, `bad` or empty."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Spent:
    """What the questions to a model, of a profile, of an agent or of a day took."""

    name: str
    questions: int
    input_tokens: int
    output_tokens: int
    cost: Decimal | None
    unpriced: int = 0
    """Questions whose model has no known price: they are not in `cost`."""


@dataclass(frozen=True, slots=True)
class ArtifactSection:
    """A part of a made document; one without evidence is open."""

    heading: str
    level: int
    text: str
    open: bool = False
    reason: str = ""
    sources: tuple[int, ...] = ()
    read: tuple[str, ...] = ()
    """Ids of the documents whose passages it was written from, whether or not it cites them."""
    doubtful: bool = False
    """Whether it holds a sentence that its sources do not bear out."""

    @property
    def shown(self) -> str:
        """Its text as Markdown; where that was removed, why."""
        return self.text or f"> **Open.** {self.reason}"


@dataclass(frozen=True, slots=True)
class Artifact:
    """A document that was made from a project: blueprint, PDR, workflow, build plan."""

    id: str
    kind: str
    title: str
    made_at: datetime
    sections: tuple[ArtifactSection, ...]
    sources: tuple[Source, ...]
    brief: str = ""
    agent: str = ""
    model: str = ""
    usage: Mapping[str, float] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    """What the outline asks for and the text does not have."""
