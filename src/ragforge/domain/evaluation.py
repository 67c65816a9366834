"""Questions whose documents are known, runs over them, and how two runs differ.

QuestionSet of Questions -> Run of QuestionResults -> Comparison of two runs
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ragforge.domain.documents import digest
from ragforge.domain.library import Outcome

LAST = "last"
"""How a person names the newest run."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and what a good search finds for it."""

    id: str
    text: str
    documents: Mapping[str, float] = field(default_factory=dict)
    """Grade by document, which is named by id, path, name, or name without its ending. Above zero is relevant."""
    chunks: tuple[str, ...] = ()
    """Ids of chunks, where a document is too coarse; they are judged instead of the documents."""
    answers: tuple[str, ...] = ()
    answerable: bool = True
    """Whether the documents hold an answer. If not, the documents named are look-alikes, and none is relevant."""

    @property
    def wanted(self) -> Mapping[str, float]:
        """Grade by document, or by chunk where chunks are named. Empty: finding cannot be judged."""
        if not self.answerable:
            return {}
        judged = dict.fromkeys(self.chunks, 1.0) or self.documents
        return judged if any(grade > 0 for grade in judged.values()) else {}


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Questions under one name, as they were last imported."""

    name: str
    project: str
    digest: str
    """Of all its questions: runs over the same ones can be compared."""
    questions: int
    judged: int
    """Questions whose documents are known."""
    folder: str
    """Where the documents that came with it were written; empty if none did."""
    created_at: datetime
    updated_at: datetime


def set_digest(questions: Sequence[Question]) -> str:
    """The same questions in the same order have the same one."""
    rows = [[q.id, q.text, dict(q.documents), q.chunks, q.answers, q.answerable] for q in questions]
    return digest(json.dumps(rows, sort_keys=True))


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import did."""

    questions: QuestionSet
    changed: bool
    """False if all of it was there already."""
    left_out: int = 0
    """Questions of a BEIR folder that its judgements do not mention."""
    documents: Mapping[Outcome, int] = field(default_factory=dict)
    """What became of the documents that came with it."""
    empty: int = 0
    """Documents that came with it and held no text."""


# -- a run


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a question's author named, and what it is in the project."""

    name: str
    grade: float
    found_as: str | None
    """The document's or chunk's id; None if the project does not hold it, or holds several that are called so."""


@dataclass(frozen=True, slots=True)
class FoundPassage:
    """A passage that a run found. Ids only: a run keeps nothing of a document's text."""

    chunk: str
    document: str
    score: float
    name: str = ""
    """The document's name now; empty if it was removed since."""


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """One question of a run. Without metrics it was asked but could not be judged."""

    question: str
    text: str
    wanted: tuple[Wanted, ...]
    found: tuple[FoundPassage, ...]
    metrics: Mapping[str, float]
    milliseconds: float
    degraded: tuple[str, ...] = ()
    """Parts that were not there, such as `vectors`."""


@dataclass(frozen=True, slots=True)
class Run:
    """All questions of a set, asked with the same settings."""

    id: str
    project: str
    questions: str
    """The set's name."""
    digest: str
    """The set's digest when it was asked."""
    label: str
    settings: Mapping[str, Any]
    """Everything the ranking depends on: tuning, embedder, splitter, tokenizer."""
    settings_hash: str
    started_at: datetime
    ended_at: datetime
    asked: int
    scored: int
    """Questions that could be judged: `metrics` are their means."""
    missing: int
    """Documents the questions want and the project does not hold. They count as not found."""
    degraded: int
    """Questions that were answered with a part missing."""
    milliseconds: float
    """The median of a question's time."""
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class RunDetails:
    """A run with each of its questions."""

    run: Run
    results: tuple[QuestionResult, ...]


def settings_digest(settings: Mapping[str, Any]) -> str:
    """Runs with the same settings have the same one."""
    return digest(json.dumps(settings, sort_keys=True))[:12]


# -- two runs


@dataclass(frozen=True, slots=True)
class MetricChange:
    """How one metric differs between two runs over the same questions."""

    metric: str
    before: float
    after: float
    wins: int
    losses: int
    ties: int
    p: float
    """How often chance alone gives at least this difference (paired randomisation test)."""
    low: float
    high: float
    """The difference's 95 % interval (bootstrap over the questions)."""

    @property
    def difference(self) -> float:
        return self.after - self.before

    @property
    def significant(self) -> bool:
        return self.p < 0.05


@dataclass(frozen=True, slots=True)
class QuestionChange:
    """A question that two runs answered differently, by the main metric."""

    question: str
    text: str
    before: float
    after: float

    @property
    def difference(self) -> float:
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs side by side; differences are `after` minus `before`."""

    before: Run
    after: Run
    questions: int
    """How many questions both were judged on."""
    metrics: tuple[MetricChange, ...]
    main: str
    """The metric that tells which questions changed."""
    changed: tuple[QuestionChange, ...]
    """Most changed first."""
    notice: str = ""
    """What a person should know: questions or metrics that only one of them has."""
