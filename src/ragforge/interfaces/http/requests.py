"""What the routes take. A field that is not named here is refused: it may be a misspelled one."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import uuid4

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from ragforge.domain.access import Clearance
from ragforge.domain.conversation import LONGEST_TITLE, Turn
from ragforge.domain.discovery import Level
from ragforge.domain.lessons import TOLD, CheckpointKind, EntryType
from ragforge.domain.library import Labels
from ragforge.domain.prompts import Shaping
from ragforge.domain.retrieval import MOST_PASSAGES, Filters, Tuning
from ragforge.domain.strategy import Strategy
from ragforge.domain.tokens import estimated_tokens
from ragforge.errors import UserError

Question = Annotated[str, Field(min_length=1, max_length=100_000)]
Confidentiality = Literal["public", "internal", "confidential", "restricted"]
Word = Annotated[str, Field(max_length=1_000)]
Share = Annotated[float, Field(ge=0, le=1)]
Candidates = Annotated[int, Field(ge=1, le=1_000)]
Reranked = Annotated[int, Field(ge=1, le=200)]
Explained = Annotated[int, Field(ge=1, le=200)]
Size = Annotated[int, Field(ge=1, le=1_000_000)]
Tag = Annotated[str, Field(min_length=1, max_length=100)]
Words = Annotated[str, Field(max_length=20_000)]
Asked = Annotated[str, Field(max_length=100_000)]
Stage = Literal["memory", "shape", "inject", "gate", "condense"]

_MOST_FIELDS = 100


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _has_few_fields(cls, sent: Any) -> Any:
        """Each field that is not known would be told, which takes a while for a million of them."""
        if isinstance(sent, dict) and len(sent) > _MOST_FIELDS:
            raise ValueError(f"more than {_MOST_FIELDS} fields")
        return sent


def with_field_texts(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of the server, with what stands below each field here. Pydantic would read that whenever a server
    starts, which takes a while and is of no use to answer."""
    shapes, below = schema["components"]["schemas"], dict(_texts())
    for kind in _kinds(Body):
        for name, told in shapes.get(kind.__name__, {}).get("properties", {}).items():
            texts = (below.get((each.__name__, name), "") for each in kind.__mro__)
            if text := next(filter(None, texts), ""):
                told["description"] = text
    return schema


def _kinds(kind: type[Body]) -> Iterator[type[Body]]:
    for each in kind.__subclasses__():
        yield each
        yield from _kinds(each)


def _texts() -> Iterator[tuple[tuple[str, str], str]]:
    """A class and its field, and the text below it."""
    for kind in ast.parse(inspect.getsource(sys.modules[__name__])).body:
        if isinstance(kind, ast.ClassDef):
            for field, text in zip(kind.body, kind.body[1:], strict=False):
                match field, text:
                    case (
                        ast.AnnAssign(target=ast.Name(name)),
                        ast.Expr(value=ast.Constant(value=str(told))),
                    ):
                        yield (kind.name, name), inspect.cleandoc(told)


class FilterFields(Body):
    """Which files may be found. What is left out does not restrict; several values mean any of them."""

    files: Annotated[list[Word], Field(max_length=1_000)] = []
    """Ids, names, or ends of paths."""
    source_types: Annotated[list[Word], Field(max_length=100)] = []
    tags: Annotated[list[Word], Field(max_length=100)] = []
    agent: Word = ""
    max_confidentiality: Confidentiality | None = None
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None

    def record(self) -> Filters:
        return Filters(
            documents=tuple(self.files),
            source_types=tuple(self.source_types),
            tags=tuple(self.tags),
            agent=self.agent,
            confidentiality=None if self.max_confidentiality is None else Clearance[self.max_confidentiality.upper()],
            since=self.since,
            until=self.until,
        )


class TuningFields(Body):
    """How passages are found, where that differs from the settings."""

    k: Annotated[int, Field(ge=1, le=MOST_PASSAGES)] | None = None
    keyword_candidates: Candidates | None = None
    vector_candidates: Candidates | None = None
    fusion: Literal["weighted", "rrf"] | None = None
    alpha: Share | None = None
    reranker: Word | None = None
    rerank_candidates: Reranked | None = None
    duplicates: Share | None = None
    context_tokens: Annotated[int, Field(ge=1, le=200_000)] | None = None

    def tuned(self, usual: Tuning) -> Tuning:
        return replace(usual, **self.changes())

    def changes(self) -> dict[str, Any]:
        names = TuningFields.model_fields.keys()
        return {name: value for name in names if (value := getattr(self, name)) is not None}


class SearchRequest(TuningFields):
    question: Question
    filters: FilterFields = FilterFields()
    context: bool = False
    """Also the passages in the order and width in which a model would read them."""
    fresh: bool = False
    """Search anew, even if the same was just asked."""


# -- questions


class ExplainedTuning(TuningFields):
    """With fewer candidates than a search may have: all of them are told."""

    keyword_candidates: Explained | None = None
    vector_candidates: Explained | None = None


class ReplayFields(ExplainedTuning):
    """Settings to compare with; those that are left out are as asked."""

    label: Word = ""


class ExplainRequest(ExplainedTuning):
    question: Question
    filters: FilterFields = FilterFields()
    conversation: Word = ""
    """As the next question of this one: its id, or `last`."""
    model: Word = ""
    """Let this model judge and condense, which may cost. Without one, rules do."""
    replays: Annotated[list[ReplayFields], Field(max_length=5, fail_fast=True)] = []


class PastTurn(Body):
    """A question and its answer, of a conversation that is kept elsewhere."""

    question: Annotated[str, Field(max_length=100_000)]
    answer: Annotated[str, Field(max_length=1_000_000)]


def past_turn(question: str, answer: str, now: datetime) -> Turn:
    """One that is not kept here."""
    return Turn(uuid4().hex, "", 1, question, answer, now, tokens=estimated_tokens(f"{question}\n{answer}"))


class PromptRequest(TuningFields):
    question: Question
    model: Word = ""
    """A profile (`cheap`, `balanced`, `premium`), a model of the settings, or `offline`; admins may name any model."""
    agent: Word = ""
    """Whose persona, profile and sampling to use, and whose files to search: this agent's, and everyone's."""
    conversation: Word = ""
    """Its id, or `last`: follow-ups are understood, and the turn is remembered."""
    history: Annotated[list[PastTurn], Field(max_length=1_000, fail_fast=True)] = []
    """Turns that you keep yourself, oldest first; after those of the conversation or instead."""
    lock: bool = False
    """Exact File Lock: only the files that the question names."""
    stages: Annotated[list[Stage], Field(max_length=10)] | None = None
    strictness: Share | None = None
    filters: FilterFields = FilterFields()
    system: Annotated[str, Field(max_length=100_000)] = ""
    """More instructions, beside the persona."""
    output: Annotated[str, Field(max_length=10_000)] = ""
    """What the answer should look like, in words."""
    intent: Word = ""
    """The kind of answer that is wanted, such as `compare` or `procedure`; empty: as the question reads."""
    domain: Word = ""
    """The field of the question in a few words; empty: as it reads."""
    headers: Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=20)] | None = None
    """The headings of the answer; an empty list: none. Null: as proposed."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    stop: Annotated[list[Annotated[str, Field(min_length=1, max_length=1_000)]], Field(max_length=16)] = []

    def shaping(self) -> Shaping:
        return Shaping(self.intent, self.domain, None if self.headers is None else tuple(self.headers))

    def turns(self) -> tuple[Turn, ...]:
        now = datetime.now(UTC)
        return tuple(past_turn(turn.question, turn.answer, now) for turn in self.history)

    def tuned_for_answer(self, usual: Tuning) -> Tuning:
        """For an answer, those passages count that it stands on."""
        tuning = self.tuned(replace(usual, k=usual.context_chunks))
        return replace(tuning, context_chunks=tuning.k)


class PromptToSend(Body):
    """What `prompt` answered, to be sent as it is or with other texts."""

    token: Annotated[str, Field(max_length=4_000_000)]
    texts: Annotated[list[Annotated[str, Field(max_length=4_000_000)]], Field(max_length=100)] | None = None
    """One for each message, sent as they are; null: those of the prompt."""


class AskRequest(PromptRequest):
    ephemeral: bool = False
    """Nothing is kept: no turn, no line in the log."""
    prompt: PromptToSend | None = None


class AskMessage(AskRequest):
    """A question over a WebSocket."""

    type: Literal["ask"]
    id: Word = ""
    """Yours; every event of the answer brings it back as `for`."""
    remember: bool = False
    """Begin a conversation with this question, in which those after it go on."""


class CancelMessage(Body):
    """Stop the answer that is being written."""

    type: Literal["cancel"]


class ResumeMessage(Body):
    """Go on with a stream after the event of this number."""

    type: Literal["resume"]
    stream: Word
    after: Annotated[int, Field(ge=0, le=1_000_000_000)] = 0


ChatMessage = Annotated[AskMessage | CancelMessage | ResumeMessage, Field(discriminator="type")]


# -- memory, the log, evaluation, documents that are made


class ConversationRequest(Body):
    title: Annotated[str, Field(max_length=LONGEST_TITLE)] = ""


class ConversationChange(Body):
    title: Annotated[str, Field(min_length=1, max_length=LONGEST_TITLE)]


class TurnChange(Body):
    importance: Share
    """1: remembered however old it is."""


class FeedbackRequest(Body):
    good: bool
    note: Annotated[str, Field(max_length=10_000)] = ""
    expected: Annotated[list[Word], Field(max_length=100)] = []
    """Of a bad answer the files that hold the right one, by id, name or path."""


class QuestionFields(Body):
    """A question, and what a good search finds for it."""

    question: Question
    id: Annotated[str, Field(min_length=1, max_length=1_000)] | None = None
    """Left out: one that its words give."""
    documents: Annotated[list[Word], Field(max_length=1_000)] = []
    """By id, name or path. An empty list says that there is no answer."""
    grades: Annotated[dict[Word, Annotated[float, Field(ge=0, le=1_000_000)]], Field(max_length=1_000)] = {}
    """How relevant documents are, where some are more than others."""
    doc_ids: Annotated[list[Word], Field(max_length=1_000)] = []
    """The same as `documents`; of a question without an answer, what it only seems to be answered by."""
    chunks: Annotated[list[Word], Field(max_length=1_000)] = []
    """Ids, where a document is too coarse."""
    answers: Annotated[list[Annotated[str, Field(max_length=10_000)]], Field(max_length=100)] = []
    """Words that a right answer holds; any of them is enough."""
    document: Word | None = None
    answer: Annotated[str, Field(max_length=10_000)] | None = None
    """One alone."""
    answerable: bool = True


class QuestionsRequest(Body):
    name: Annotated[str, Field(min_length=1, max_length=100)]
    questions: Annotated[list[QuestionFields], Field(min_length=1, max_length=10_000, fail_fast=True)]


class EvaluationRequest(TuningFields):
    questions: Word
    """The name of a set."""
    label: Word = ""
    answers: bool = False
    """Ask every question too, not only search."""
    model: Word = ""
    judge: Word | None = None
    """The model or profile that judges the answers; empty: the profile `premium`, or who answers. Null: none."""


class ArtifactRequest(Body):
    kind: Word
    """Such as blueprint, pdr, workflow, build-plan."""
    brief: Annotated[str, Field(max_length=100_000)] = ""
    title: Word = ""
    agent: Word = ""
    model: Word = ""


class SectionChange(Body):
    number: Annotated[int, Field(ge=0, le=1_000)]
    """Its place in the document, from 0."""
    text: Annotated[str, Field(max_length=100_000)]
    """As Markdown, with the numbers of the document's sources; empty: the section is open again."""
    was: Annotated[str, Field(max_length=1_000_000)] | None = None
    """The text you saw: if it is another by now, that is a conflict."""


class ArtifactChange(Body):
    """What is left out stays as it is."""

    title: Word | None = None
    sections: Annotated[list[SectionChange], Field(max_length=1_000, fail_fast=True)] = []

    def texts(self) -> dict[int, str]:
        return {each.number: each.text for each in self.sections}

    def was(self) -> dict[int, str]:
        return {each.number: each.was for each in self.sections if each.was is not None}


# -- guided interviews


class InterviewRequest(Body):
    title: Annotated[str, Field(max_length=LONGEST_TITLE)] = ""
    mode: Word = "problem"
    """The half of discovery to begin with: `problem` or `solution`."""
    describe: bool = True
    """Whether it may tell what the organisation is; of who may not write in the project, nothing is taken over."""


class SayRequest(Body):
    message: Annotated[str, Field(min_length=1, max_length=1_000_000)]
    """What the person says, at most 100,000 characters; more is a document."""
    model: Word = ""
    """A profile (`cheap`, `balanced`, `premium`), a model of the settings, or `offline`; admins may name any model."""
    probe: Word = ""
    """What the person wants to be asked about next; empty: as it comes."""
    mode: Word = ""
    """The half of discovery they want to be in."""
    describe: bool = True
    """Whether it may change what is known of the organisation; only who may write in the project changes that."""
    turn: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    """The number that this turn will have, so that the same said twice counts once; 0: whichever."""


class AssumptionRequest(Body):
    statement: Words
    confidence: Level = Level.MEDIUM
    """How well it is supported."""
    impact: Level = Level.MEDIUM
    """How much breaks if it is false."""
    depends_on: Annotated[list[Word], Field(max_length=500)] = []
    """Ids of assumptions that it rests on."""


class AssumptionChange(Body):
    """What is left out stays as it is."""

    statement: Words | None = None
    confidence: Level | None = None
    impact: Level | None = None
    status: Literal["open", "confirmed", "refuted"] | None = None
    depends_on: Annotated[list[Word], Field(max_length=500)] | None = None
    evidence: Words = ""
    """Why it is believed, or not; added to what was said before."""


class PointRequest(Body):
    section: Word
    """Its key, of either mode's document."""
    text: Words


class PointChange(Body):
    """What is left out stays as it is."""

    text: Words | None = None
    section: Word | None = None
    """Its key, of either mode's document."""


class InterviewMode(Body):
    mode: Word


class InterviewDocument(Body):
    mode: Word = ""
    """Of which half; empty: of the one it is in."""
    title: Annotated[str, Field(max_length=LONGEST_TITLE)] = ""


class OrgContext(Body):
    text: Words
    """What is known of the organisation, in at most 6,000 characters; empty: nothing any more."""


# -- lessons


class ToldFields(Body):
    """The words of a lesson; which of them it takes depends on its type."""

    task: Words = ""
    """What was being done."""
    failure_description: Words = ""
    error_message: Words = ""
    solution_steps: Words = ""
    """Of a failure: what verifiably solved it."""
    gate_type: Word = ""
    human_feedback: Words = ""
    revision_approach: Words = ""
    """Of a rejection: what was approved instead."""
    approved_approach: Words = ""
    """Of an approval at the first attempt."""
    decision_criteria: Words = ""
    """When this is the thing to try."""
    evidence: Words = ""
    """What verified it, such as the test that passes now."""

    def told(self) -> dict[str, str]:
        """What was said, by name."""
        return {name: text for name, text in self.model_dump(exclude_unset=True).items() if name in TOLD}


class ForWhom(Body):
    """Who a lesson is for; what is left out stands for all."""

    agent_type: Word = ""
    """Such as `backend`."""
    task_type: Word = ""
    technology: Word = ""

    def names(self) -> dict[str, str]:
        return {"agent_type": self.agent_type, "task_type": self.task_type, "technology": self.technology}


class LessonRequest(ForWhom, ToldFields):
    entry_type: EntryType
    verified: bool = True
    """Whether a test or a person says that it works. If not, it waits until a person approves it."""


class LessonChange(ToldFields):
    """What is left out stays as it is."""


class CheckpointRequest(Body):
    kind: CheckpointKind = CheckpointKind.MANUAL
    """What was reached."""


class LessonQuery(ForWhom):
    """Either `task`, or `failure_description` with or without its `error_message`."""

    task: Asked = ""
    """One that is about to begin."""
    failure_description: Asked = ""
    error_message: Asked = ""
    entry_type: EntryType | None = None
    """For a task: only lessons of this type. For a failure only failures are looked at."""
    limit: Annotated[int, Field(ge=1, le=5)] | None = None
    """Patterns at most: for a task up to 5, for a failure up to 3."""


class LessonContextRequest(ForWhom):
    task: Question
    failure_description: Words = ""
    """What failed on the way: the block is then of how that was solved before."""
    error_message: Words = ""
    max_tokens: Annotated[int, Field(ge=0, le=200_000)] = 0
    """Of all that is told; 0: as the settings say."""


class OutcomeRequest(Body):
    success: bool
    note: Words = ""


class PatternChange(Body):
    """A person's words for a pattern."""

    problem: Words
    solution: Words
    when_to_try: Words
    version: Annotated[int, Field(ge=1, le=2**31 - 1)]
    """The one you saw: if it is another by now, that is a conflict."""


class MergeRequest(Body):
    others: Annotated[list[Word], Field(min_length=1, max_length=1_000)]
    """Ids of patterns that tell the same; they become part of this one."""


class SplitRequest(Body):
    lessons: Annotated[list[Word], Field(min_length=1, max_length=1_000)]
    """Ids of captures that do not tell the same; they become a pattern of their own."""


class LessonRecord(ForWhom, ToldFields):
    """A lesson as `export` writes it."""

    id: Word = ""
    """One that was brought before is not brought twice."""
    entry_type: EntryType
    verified: bool = False
    captured_at: Word | None = None
    embedded_at: Word | None = None
    pattern: Annotated[dict[Word, Any], Field(max_length=20)] | None = None
    """How its pattern did there: what was rejected is left out, all else is not taken over."""


class LessonsImport(Body):
    records: Annotated[list[LessonRecord], Field(min_length=1, max_length=1_000, fail_fast=True)]


# -- projects and files


class SplitFields(Body):
    """How texts are split. Another strategy starts from its own sizes."""

    name: Literal["sections", "chars", "tokens"] | None = None
    leaf_min: Size | None = None
    leaf_max: Size | None = None
    section_min: Size | None = None
    parent_min: Size | None = None
    parent_max: Size | None = None
    window_min: Size | None = None
    window_max: Size | None = None
    overlap_min: Size | None = None
    overlap_max: Size | None = None

    def record(self, usual: Strategy) -> Strategy:
        start = usual if self.name in (None, usual.name) else Strategy(name=self.name)
        try:
            return replace(start, **self.model_dump(exclude_none=True))
        except ValueError as problem:
            raise UserError(str(problem), hint="give several sizes to move them together") from problem


class ProjectRequest(Body):
    name: Annotated[str, Field(min_length=1, max_length=200)]
    strategy: SplitFields | None = None
    embedder: Word | None = None


class ProjectChange(Body):
    """What is left out stays as it is."""

    name: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Another name, and with it another slug."""
    shares_lessons: bool | None = None
    """Whether orchestrators of other projects are told what was learnt in this one."""


class ReindexRequest(Body):
    strategy: SplitFields | None = None
    embedder: Word | None = None


class TextRequest(Body):
    text: Annotated[str, Field(max_length=4_000_000)]


class UploadFields(Body):
    """What is said of files that are sent."""

    source_type: Annotated[str, Field(min_length=1, max_length=100)] = "document"
    tags: Annotated[list[Tag], Field(max_length=100)] = []
    confidentiality: Confidentiality | None = None

    def record(self, clearance: Clearance) -> Labels:
        """As somebody with this clearance says it."""
        said, usual = self.confidentiality, Labels.unsaid(clearance).confidentiality
        return Labels(self.source_type, tuple(self.tags), usual if said is None else Clearance[said.upper()])


class FileChange(Body):
    """What is left out stays as it is."""

    enabled: bool | None = None
    """Whether it may be found."""
    source_type: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    tags: Annotated[list[Tag], Field(max_length=100)] | None = None
    confidentiality: Confidentiality | None = None

    def labels(self) -> dict[str, Any]:
        secrecy = self.confidentiality
        return {
            "source_type": self.source_type,
            "tags": self.tags,
            "confidentiality": None if secrecy is None else Clearance[secrecy.upper()],
        }
