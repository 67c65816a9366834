"""Questions whose documents are known, runs over them, and how two runs differ.

QuestionSet of Questions -> Run of QuestionResults, perhaps with an AnswerResult each -> Comparison of two runs
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from ragforge.domain.documents import digest
from ragforge.domain.library import Outcome
from ragforge.domain.records import LogEntry

LAST = "last"
"""How a person names the newest run."""
FEEDBACK = "feedback"
"""The set of questions whose answers were judged, by whoever asked them."""


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
    """Words that a right answer holds; any of them is enough."""
    answerable: bool = True
    """Whether the documents hold an answer. If not, the documents named are look-alikes, and none is relevant."""

    @property
    def wanted(self) -> Mapping[str, float]:
        """Grade by document, or by chunk where chunks are named. Empty: finding cannot be judged."""
        if not self.answerable:
            return {}
        judged = dict.fromkeys(self.chunks, 1.0) or self.documents
        return judged if any(grade > 0 for grade in judged.values()) else {}

    @property
    def has_answer(self) -> bool | None:
        """Whether there is an answer; None if the author says neither that nor where it stands."""
        return False if not self.answerable else True if self.wanted or self.answers else None


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


@dataclass(frozen=True, slots=True)
class Feedback:
    """An answer that a person judged."""

    entry: LogEntry
    question: Question | None
    """What it became in the set `feedback`; None if it is only marked."""


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


class AnswerKind(StrEnum):
    """What came back from a question."""

    ANSWER = "answer"
    """Written by a model."""
    QUOTE = "quote"
    """Sentences of the documents."""
    ABSTENTION = "abstention"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class CitedPassage:
    """A passage that an answer cites. Its id only, as of one that was found."""

    chunk: str
    document: str
    proved: bool
    """Whether it bears the sentence out."""
    name: str = ""
    """The document's name now; empty if it was removed since."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a model thinks of an answer: scores from 1, bad, to 5, and why."""

    relevance: int
    clarity: int
    faithfulness: int
    reasons: Mapping[str, str]
    """By the name of the score."""
    unseen: int = 0
    """Passages of the answer that the judge had no room for."""
    tokens: int = 0
    cost: float | None = None
    """In US dollars; None where no price is known."""


@dataclass(frozen=True, slots=True)
class AnswerResult:
    """What a question of a run was answered, and how good that was."""

    kind: AnswerKind
    text: str
    """The answer, the reason why there is none, or what failed. Empty if it may not be shown."""
    has_answer: bool | None
    """What the question's author says; None if nothing."""
    expected: tuple[str, ...] = ()
    cited: tuple[CitedPassage, ...] = ()
    documents: tuple[str, ...] = ()
    """Ids of all documents of which words may be in the text: it goes when one of them is removed."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    degraded: tuple[str, ...] = ()
    """Parts that were not there, such as `model`."""
    judgement: Judgement | None = None
    unjudged: str = ""
    """Why the judge said nothing, if it was asked."""

    @property
    def is_answered(self) -> bool:
        return self.kind in (AnswerKind.ANSWER, AnswerKind.QUOTE)


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """One question of a run. Without metrics it was asked, but what was found could not be judged."""

    question: str
    text: str
    wanted: tuple[Wanted, ...]
    found: tuple[FoundPassage, ...]
    metrics: Mapping[str, float]
    milliseconds: float
    degraded: tuple[str, ...] = ()
    """Parts that were not there, such as `vectors`."""
    answer: AnswerResult | None = None
    """None if the run only searched."""


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
    """Everything the results depend on: tuning, embedder, splitter, tokenizer; of answers the model and its stages."""
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
    """The median of the time that a search took."""
    metrics: Mapping[str, float]
    answers: Mapping[str, float] = field(default_factory=dict)
    """Each metric of the answers, as the mean over the questions that have it. Empty if the run only searched."""


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
    less_is_better: bool = False

    @property
    def difference(self) -> float:
        return self.after - self.before

    @property
    def significant(self) -> bool:
        return self.p < 0.05

    @property
    def improves(self) -> bool:
        return self.difference < 0 if self.less_is_better else self.difference > 0


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
class AnswerChange:
    """A question that two runs answered differently, in a word each."""

    question: str
    text: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs side by side; differences are `after` minus `before`."""

    before: Run
    after: Run
    questions: int
    """How many questions both were judged on, by what was found."""
    metrics: tuple[MetricChange, ...]
    main: str
    """The metric that tells which questions changed."""
    changed: tuple[QuestionChange, ...]
    """Most changed first."""
    notice: str = ""
    """What a person should know: questions or metrics that only one of them has."""
    answers: tuple[MetricChange, ...] = ()
    """How the answers differ, each metric over the questions where both have it."""
    changed_answers: tuple[AnswerChange, ...] = ()
    """What is worse now comes first."""
