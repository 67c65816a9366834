"""The tools: what each takes, gives and does. Only those that tell of lessons change anything but the log.

`search` and `fetch` have one text argument each and the shape that assistants with connectors expect: results with
`id`, `title` and `url`, then one of them whole. An id is `<project>/<file>`, perhaps with `@<character>` to begin at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import Field
from typing_extensions import TypedDict

from ragforge.app import AskOptions, Ragforge
from ragforge.domain.access import Action
from ragforge.domain.answers import Abstention, Answer, Citation, DoneEvent
from ragforge.domain.cancel import Cancel
from ragforge.domain.cursor import Cursor
from ragforge.domain.documents import Locator
from ragforge.domain.lessons import EntryType, FoundPattern
from ragforge.domain.library import Document, Project
from ragforge.domain.pending import Pending
from ragforge.domain.retrieval import Degraded, Passage, Verdict
from ragforge.errors import NotFound, UserError
from ragforge.interfaces.http.requests import Body
from ragforge.interfaces.lessons import found_for

TOOLS: Mapping[str, Action] = {
    "search": Action.ASK,
    "fetch": Action.READ,
    "ask": Action.ASK,
    "explain": Action.ASK,
    "list_projects": Action.READ,
    "list_files": Action.READ,
    "lessons_capture": Action.CAPTURE,
    "lessons_query": Action.LEARN,
    "record_outcome": Action.LEARN,
}
"""Who may call what: a role sees the tools of its actions, and no others."""

_MOST_FOUND = 10
_MOST_TEXT = 50_000
"""Characters of a file that are given at once."""
_BEFORE = 2_000
"""Of those, how many stand before the passage that was found."""
_MOST_FILES = 200
_MOST_DROPPED = 50
_MOST_NAMED = 20
_FROM = re.compile(r"(.*/[0-9a-f]{16})@(\d{1,12})")
"""A place in a file by its id; a file's name may end like one."""


@dataclass(frozen=True, slots=True)
class Call:
    """On whose behalf a tool works, and where others find the same files."""

    forge: Ragforge
    """As far as the caller reaches."""
    address: str = ""
    """Of the server; empty where there is none."""
    request: str = ""
    cancel: Cancel = field(default_factory=Cancel)

    def url(self, project: str, document: str) -> str:
        if not self.address:
            return f"ragforge://{quote(project)}/{quote(document)}"
        return f"{self.address}/v1/projects/{quote(project)}/files/{quote(document)}/content"


# -- what the tools take


Text = Annotated[str, Field(min_length=1, max_length=100_000)]
Name = Annotated[str, Field(min_length=1, max_length=1_000)]
SomeProject = Annotated[Name | None, Field(description="A project's slug; may be left out if there is only one")]


class SearchArguments(Body):
    query: Annotated[Text, Field(description="What you want to know, in your own words")]


class FetchArguments(Body):
    id: Annotated[Name, Field(description="An id that search or list_files gave")]


class QuestionArguments(Body):
    question: Annotated[Text, Field(description="What you want to know, in your own words")]
    project: SomeProject = None


class NoArguments(Body):
    pass


class FilesArguments(Body):
    project: SomeProject = None
    after: Annotated[str, Field(max_length=1_000, description="`next` of the answer before, for more files")] = ""


Told = Annotated[str, Field(max_length=20_000)]
Facet = Annotated[str, Field(max_length=1_000)]
Agent = Annotated[Facet, Field(description="For which kind of agent, such as backend; left out: for all")]
TaskKind = Annotated[Facet, Field(description="For which kind of task; left out: for all")]
Technology = Annotated[Facet, Field(description="For which technology; left out: for all")]
Once = Annotated[str, Field(max_length=200, description="The same key again counts once")]


class CaptureArguments(Body):
    entry_type: Annotated[EntryType, Field(description="Which of the three it is; the others' fields stay empty")]
    project: SomeProject = None
    agent_type: Agent = ""
    task_type: TaskKind = ""
    technology: Technology = ""
    task: Annotated[Told, Field(description="What was being done")] = ""
    failure_description: Annotated[Told, Field(description="failure_solution: what failed")] = ""
    error_message: Annotated[Told, Field(description="failure_solution: the error as it reads")] = ""
    solution_steps: Annotated[Told, Field(description="failure_solution: what verifiably solved it")] = ""
    gate_type: Annotated[Facet, Field(description="gate_rejection, gate_approval: which gate")] = ""
    human_feedback: Annotated[Told, Field(description="gate_rejection: why a person rejected it")] = ""
    revision_approach: Annotated[Told, Field(description="gate_rejection: what they approved instead")] = ""
    approved_approach: Annotated[Told, Field(description="gate_approval: what passed at the first attempt")] = ""
    decision_criteria: Annotated[Told, Field(description="When this is the thing to try")] = ""
    evidence: Annotated[Told, Field(description="What verified it, such as the test that passes now")] = ""
    verified: Annotated[bool, Field(description="False: it waits until a person approves it")] = True
    key: Once = ""


class LessonsArguments(Body):
    task: Annotated[str, Field(max_length=100_000, description="A task that is about to begin")] = ""
    failure_description: Annotated[str, Field(max_length=100_000, description="Or: what has failed")] = ""
    error_message: Annotated[str, Field(max_length=100_000, description="With that: the error as it reads")] = ""
    project: SomeProject = None
    agent_type: Agent = ""
    task_type: TaskKind = ""
    technology: Technology = ""
    entry_type: Annotated[EntryType | None, Field(description="For a task: only lessons of this type")] = None
    limit: Annotated[int | None, Field(ge=1, le=5, description="Up to 5 for a task, 3 for a failure")] = None


class OutcomeArguments(Body):
    pattern: Annotated[Name, Field(description="The id of a pattern that lessons_query gave")]
    success: Annotated[bool, Field(description="Whether it worked")]
    note: Annotated[Told, Field(description="What came of it, in words")] = ""
    project: SomeProject = None
    key: Once = ""


# -- what they give


class FoundFields(TypedDict):
    id: str
    title: str
    url: str
    text: str
    """The passage that was found; `fetch` gives what stands around it."""
    project: str


class SearchFields(TypedDict):
    results: list[FoundFields]
    notice: str
    """What a person should know of the result, such as a part that was not there."""


class FetchFields(TypedDict):
    id: str
    title: str
    text: str
    url: str
    metadata: dict[str, str]
    """The project, the file's name and type; of a long file which part this is, and the id of what follows."""


class CitedFields(TypedDict):
    marker: int
    id: str
    title: str
    quote: str
    url: str
    proved: bool


class AnswerFields(TypedDict):
    kind: str
    """`answer`, or `abstention` if the files do not hold it."""
    text: str
    citations: list[CitedFields]
    project: str
    why: str | None
    suggestion: str | None
    notices: list[str]
    trace_id: str


class CandidateFields(TypedDict):
    id: str
    title: str
    score: float
    scores: dict[str, float]
    ranks: dict[str, int]
    text: str


class DroppedFields(TypedDict):
    title: str
    stage: str
    reason: str
    score: float


class ExplainFields(TypedDict):
    project: str
    passages: list[CandidateFields]
    dropped: list[DroppedFields]
    """Candidates that were not used, with the stage that took them out."""
    dropped_left_out: int
    timings: dict[str, float]
    notice: str


class ProjectFields(TypedDict):
    project: str
    name: str


class ProjectsFields(TypedDict):
    projects: list[ProjectFields]


class FileFields(TypedDict):
    id: str
    name: str
    status: str
    on: bool
    characters: int
    updated_at: str
    summary: str
    url: str


class FilesFields(TypedDict):
    project: str
    files: list[FileFields]
    next: str | None


class CapturedFields(TypedDict):
    id: str
    project: str
    quality: str
    verified: bool
    """If not, it waits until a person approves it."""
    embedded: bool
    """Whether a checkpoint has taken it up; until then it is not found."""


class PatternFields(TypedDict):
    id: str
    """What record_outcome takes."""
    entry_type: str
    problem: str
    solution: str
    when_to_try: str
    label: str
    successes: int
    losses: int
    quality: str
    similarity: float
    alternative_to: list[str]
    """Ids of other patterns of this answer that solve the same problem in another way."""


class LessonsFields(TypedDict):
    project: str
    patterns: list[PatternFields]
    """The most reliable first."""
    block: str
    """What an agent is told of them; empty if nothing is known."""
    notice: str


class OutcomeFields(TypedDict):
    id: str
    pattern: str
    project: str
    success: bool
    recorded_at: str


# -- what they do. Each yields what it gives, at last; before that perhaps that it waits.

Work = Iterator[Mapping[str, Any] | Pending]


def search(call: Call, asked: SearchArguments) -> Work:
    """Find passages by words and meaning in every project you reach: the best of each, then the second of each, …"""
    by_project, notices = [], []
    for project in call.forge.projects():
        call.cancel.check()
        found = call.forge.search(asked.query, project=project.slug, k=_MOST_FOUND, cancel=call.cancel)
        by_project.append([_found_fields(call, project.slug, passage) for passage in found.passages])
        notices += [f"{project.slug}: {told}" for told in _told(found.notice, found.degraded)]
    merged = [each for row in zip_longest(*by_project) for each in row if each is not None]
    fields: SearchFields = {"results": merged[:_MOST_FOUND], "notice": "; ".join(notices)}
    yield fields


def _found_fields(call: Call, project: str, passage: Passage) -> FoundFields:
    return {
        "id": f"{project}/{passage.document}@{passage.start}",
        "title": _title(passage.name, passage.locator),
        "url": call.url(project, passage.document),
        "text": passage.text,
        "project": project,
    }


def fetch(call: Call, asked: FetchArguments) -> Work:
    """Read a file that search or list_files named. Of a long one the part around the passage, and how to go on."""
    match = _FROM.fullmatch(asked.id)
    slug, _, name = (match[1] if match else asked.id).partition("/")
    if not name:
        raise UserError(f"{asked.id!r} is no id of a file", hint="use an id that search or list_files gave")
    document = call.forge.document(name, project=slug)
    text = call.forge.text(document.id, project=slug)
    project = call.forge.project(slug).slug
    start = max(0, int(match[2]) - _BEFORE) if match and len(text) > _MOST_TEXT else 0
    end = min(len(text), start + _MOST_TEXT)
    metadata = {"project": project, "file": document.name, "type": document.type}
    if start or end < len(text):
        metadata["part"] = f"characters {start:,} to {end:,} of {len(text):,}"
    if end < len(text):
        metadata["next"] = f"{project}/{document.id}@{end + _BEFORE}"
    fields: FetchFields = {
        "id": asked.id,
        "title": document.title or document.name,
        "text": text[start:end],
        "url": call.url(project, document.id),
        "metadata": metadata,
    }
    yield fields


def ask(call: Call, asked: QuestionArguments) -> Work:
    """Answer a question from a project's files, with checked citations, or say honestly that they do not hold it."""
    project = _one(call.forge, asked.project)
    how = AskOptions(request=call.request, cancel=call.cancel)
    for event in call.forge.answering(asked.question, project=project.slug, **how):
        if isinstance(event, Pending):
            yield event
        elif isinstance(event, DoneEvent):
            yield _answer_fields(call, project.slug, event.result)


def _answer_fields(call: Call, project: str, result: Answer | Abstention) -> AnswerFields:
    none = result if isinstance(result, Abstention) else None
    return {
        "kind": "abstention" if none else "answer",
        "text": result.text,
        "citations": [_cited_fields(call, project, each) for each in getattr(result, "citations", ())],
        "project": project,
        "why": str(none.why) if none else None,
        "suggestion": none.suggestion if none else None,
        "notices": [*result.account.notices, *_told("", result.account.degraded)],
        "trace_id": result.account.trace_id,
    }


def _cited_fields(call: Call, project: str, citation: Citation) -> CitedFields:
    return {
        "marker": citation.marker,
        "id": f"{project}/{citation.document}",
        "title": _title(citation.name, citation.locator),
        "quote": citation.quote,
        "url": call.url(project, citation.document),
        "proved": citation.proved,
    }


def explain(call: Call, asked: QuestionArguments) -> Work:
    """Show why passages are found for a question: their scores and ranks, and which candidates were dropped and why."""
    project = _one(call.forge, asked.project)
    found = call.forge.explain(asked.question, project=project.slug, cancel=call.cancel)
    verdicts = found.trace.verdicts if found.trace else ()
    dropped = [_dropped_fields(each) for each in verdicts if not each.kept]
    fields: ExplainFields = {
        "project": project.slug,
        "passages": [
            {
                "id": f"{project.slug}/{each.document}@{each.start}",
                "title": _title(each.name, each.locator),
                "score": each.score,
                "scores": dict(each.scores),
                "ranks": dict(each.ranks),
                "text": each.text,
            }
            for each in found.passages
        ],
        "dropped": dropped[:_MOST_DROPPED],
        "dropped_left_out": max(0, len(dropped) - _MOST_DROPPED),
        "timings": {stage: round(milliseconds, 3) for stage, milliseconds in found.timings.items()},
        "notice": "; ".join(_told(found.notice, found.degraded)),
    }
    yield fields


def _dropped_fields(verdict: Verdict) -> DroppedFields:
    return {
        "title": _title(verdict.document, verdict.locator),
        "stage": str(verdict.stage),
        "reason": verdict.reason,
        "score": verdict.score,
    }


def list_projects(call: Call, _: NoArguments) -> Work:
    """List the projects you reach."""
    fields: ProjectsFields = {"projects": [{"project": each.slug, "name": each.name} for each in call.forge.projects()]}
    yield fields


def list_files(call: Call, asked: FilesArguments) -> Work:
    """List the files of a project: their ids for fetch, how they stand, and what they are about."""
    project = _one(call.forge, asked.project).slug
    try:
        after = Cursor.parsed(asked.after) if asked.after else None
    except ValueError:
        raise UserError("there is no such page", hint="leave `after` out to begin anew") from None
    found = call.forge.documents(project=project, limit=_MOST_FILES + 1, after=after)
    shown = found[:_MOST_FILES]
    more = str(Cursor(shown[-1].created_at, shown[-1].id)) if len(found) > len(shown) else None
    fields: FilesFields = {
        "project": project,
        "files": [_file_fields(call, project, each) for each in shown],
        "next": more,
    }
    yield fields


def _file_fields(call: Call, project: str, document: Document) -> FileFields:
    return {
        "id": f"{project}/{document.id}",
        "name": document.name,
        "status": str(document.status),
        "on": document.enabled,
        "characters": document.characters,
        "updated_at": document.updated_at.isoformat(),
        "summary": document.summary,
        "url": call.url(project, document.id),
    }


def lessons_capture(call: Call, asked: CaptureArguments) -> Work:
    """Tell what was learnt: a failure and its solution, a rejection and the revision, or an approval at once."""
    project = _one(call.forge, asked.project).slug
    told = asked.model_dump(exclude_unset=True, exclude={"project", "entry_type"})
    lesson = call.forge.lessons.capture(asked.entry_type, project=project, **told)
    fields: CapturedFields = {
        "id": lesson.id,
        "project": project,
        "quality": str(lesson.quality),
        "verified": lesson.verified,
        "embedded": lesson.embedded,
    }
    yield fields


def lessons_query(call: Call, asked: LessonsArguments) -> Work:
    """Ask what worked before, for a task or a failure: patterns, and the block to put before an agent's task."""
    from ragforge.flows.lessons import told_in_context

    project = _one(call.forge, asked.project).slug
    found = found_for(call.forge, project, **asked.model_dump(exclude={"project"}))
    fields: LessonsFields = {
        "project": project,
        "patterns": [_pattern_fields(each) for each in found.patterns],
        "block": told_in_context("", found, call.forge.settings.learn.context_tokens).block,
        "notice": "; ".join(_told(found.notice, found.degraded)),
    }
    yield fields


def _pattern_fields(found: FoundPattern) -> PatternFields:
    words = found.pattern.words
    return {
        "id": found.pattern.id,
        "entry_type": str(found.pattern.facets.entry_type),
        "problem": words.problem,
        "solution": words.solution,
        "when_to_try": words.when_to_try,
        "label": str(found.label),
        "successes": found.record.successes,
        "losses": found.record.losses,
        "quality": str(found.pattern.quality),
        "similarity": round(found.similarity, 3),
        "alternative_to": list(found.alternative_to),
    }


def record_outcome(call: Call, asked: OutcomeArguments) -> Work:
    """Say what came of applying a pattern: it counts from the next query on."""
    project = _one(call.forge, asked.project).slug
    outcome = call.forge.lessons.record_outcome(
        asked.pattern, asked.success, project=project, note=asked.note, key=asked.key
    )
    fields: OutcomeFields = {
        "id": outcome.id,
        "pattern": outcome.pattern,
        "project": project,
        "success": outcome.success,
        "recorded_at": outcome.recorded_at.isoformat(),
    }
    yield fields


def _one(forge: Ragforge, given: str | None) -> Project:
    """The project that is named, or the only one there is."""
    if given:
        return forge.project(given)
    known = forge.projects()
    if not known:
        raise NotFound("there is no project yet", hint="ragforge add PATH makes one")
    if len(known) > 1:
        named = ", ".join(each.slug for each in known[:_MOST_NAMED])
        raise UserError("which project is meant?", hint=f"name one: {named}; list_projects lists them all")
    return known[0]


def _title(name: str, locator: Locator) -> str:
    return f"{name}, {place}" if (place := locator.label()) else name


def _told(notice: str, degraded: tuple[Degraded, ...]) -> list[str]:
    return [each for each in (notice, *(f"without {part.part}: {part.message}" for part in degraded)) if each]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as it is listed, and the function behind it."""

    title: str
    takes: type[Body]
    gives: Any
    work: Callable[[Call, Any], Work]
    reads: bool = True
    """Whether it changes nothing but the log."""

    @property
    def description(self) -> str:
        return " ".join((self.work.__doc__ or "").split())


BY_NAME: Mapping[str, Tool] = {
    "search": Tool("Search files", SearchArguments, SearchFields, search),
    "fetch": Tool("Read a file", FetchArguments, FetchFields, fetch),
    "ask": Tool("Ask the files", QuestionArguments, AnswerFields, ask),
    "explain": Tool("Explain a search", QuestionArguments, ExplainFields, explain),
    "list_projects": Tool("List projects", NoArguments, ProjectsFields, list_projects),
    "list_files": Tool("List files", FilesArguments, FilesFields, list_files),
    "lessons_capture": Tool("Tell a lesson", CaptureArguments, CapturedFields, lessons_capture, reads=False),
    "lessons_query": Tool("Ask for lessons", LessonsArguments, LessonsFields, lessons_query),
    "record_outcome": Tool("Say what came of a lesson", OutcomeArguments, OutcomeFields, record_outcome, reads=False),
}
