"""What agents learn: they tell it, an orchestrator takes it up and asks for it, people review it.

Captures are addressed below `staged`, also when a checkpoint has taken them up; what they make up, below `patterns`.
"""

from __future__ import annotations

from dataclasses import replace
from tempfile import NamedTemporaryFile
from typing import Annotated

import anyio.to_thread
from fastapi import APIRouter, Header
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from typing_extensions import TypedDict

from ragforge.domain.lessons import (
    Calibration,
    FoundLessons,
    Lesson,
    LessonContext,
    Outcome,
    Pattern,
    PatternDetails,
    PatternState,
    Words,
)
from ragforge.domain.library import Job, Priority
from ragforge.errors import NotFound
from ragforge.interfaces import hints
from ragforge.interfaces.http.caller import Called, Caller
from ragforge.interfaces.http.errors import ERRORS
from ragforge.interfaces.http.pages import Paged
from ragforge.interfaces.http.requests import (
    CheckpointRequest,
    LessonChange,
    LessonContextRequest,
    LessonQuery,
    LessonRequest,
    LessonsImport,
    MergeRequest,
    OutcomeRequest,
    PatternChange,
    SplitRequest,
)
from ragforge.interfaces.http.routes.files import Download, attachment
from ragforge.interfaces.http.routing import Route
from ragforge.interfaces.http.shapes import page_of, shape
from ragforge.interfaces.http.streams import streams_of
from ragforge.interfaces.http.working import ACCEPTED, IdempotencyKey, Urgency, Wait, answered
from ragforge.interfaces.lessons import found_for
from ragforge.interfaces.records import json_text

router = APIRouter(prefix="/v1/projects/{project}/lessons", tags=["lessons"], responses=ERRORS, route_class=Route)

Once = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        max_length=200,
        description="The same key with the same words counts once, however often it is sent",
    ),
]
LINES = "application/jsonl"


class Erased(TypedDict):
    """Where words of what was removed may still be on disk, and why."""

    notices: list[str]


# -- telling, and what waits for a checkpoint


@router.post("", status_code=201, response_model=shape(Lesson))
def capture(project: str, told: LessonRequest, caller: Called, idempotency_key: Once = "") -> Response:
    """Tell a lesson: a failure and its solution, a rejection and the revision, or an approval at the first attempt.

    It is kept now, and found after the next checkpoint.
    """
    lesson = caller.forge.lessons.capture(
        told.entry_type,
        project=project,
        verified=told.verified,
        key=idempotency_key,
        **told.names(),
        **told.told(),
    )
    return caller.shown(lesson, status=201)


@router.get("/staged", response_model=page_of(Lesson))
def staged(project: str, caller: Called, paging: Paged) -> Response:
    """What waits for a checkpoint, oldest first; what nobody verified waits for a person, too."""
    return caller.shown(paging.page(caller.forge.lessons.staged(project=project)))


@router.get("/staged/{lesson}", response_model=shape(Lesson))
def lesson(project: str, lesson: str, caller: Called) -> Response:
    """One capture by its id, also when a checkpoint has taken it up."""
    return caller.shown(caller.forge.lessons.lesson(lesson, project=project))


@router.patch("/staged/{lesson}", response_model=shape(Lesson))
def correct(project: str, lesson: str, change: LessonChange, caller: Called) -> Response:
    """Correct a capture that no checkpoint has taken up. What is left out stays."""
    return caller.shown(caller.forge.lessons.edit_staged(lesson, project=project, **change.told()))


@router.delete("/staged/{lesson}", response_model=Erased)
def remove_lesson(project: str, lesson: str, caller: Called) -> Response:
    """Delete a capture for good, also out of its pattern, which goes with its last one."""
    known = caller.forge.lessons.lesson(lesson, project=project)
    return caller.shown({"notices": caller.forge.lessons.remove([known.id], project=project)})


@router.post("/staged/{lesson}/approve", response_model=shape(Lesson))
def verify(project: str, lesson: str, caller: Called) -> Response:
    """Say that a capture works which nobody verified: the next checkpoint takes it up."""
    known = caller.forge.lessons.lesson(lesson, project=project)
    return caller.shown(caller.forge.lessons.approve(known.id, project=project))


@router.post("/checkpoints", response_model=shape(Job), responses=ACCEPTED)
async def checkpoint(
    project: str,
    asked: CheckpointRequest,
    caller: Called,
    wait: Wait = 0,
    idempotency_key: IdempotencyKey = "",
    priority: Urgency = Priority.NORMAL,
) -> Response:
    """Take up what was told since the last checkpoint; the job's result tells what became of it."""

    def enqueue() -> Job:
        return caller.forge.enqueue(
            "checkpoint", {"kind": str(asked.kind)}, project=project, key=idempotency_key, priority=priority
        )

    return await answered(caller, [await anyio.to_thread.run_sync(enqueue)], wait)


# -- asking


@router.post("/query", response_model=shape(FoundLessons))
def query(project: str, asked: LessonQuery, caller: Called) -> Response:
    """What is known for a task that is about to begin, or how the same failure was solved before.

    The most reliable first. Of a pattern of a project that you do not reach, `project` is empty.
    """
    found = found_for(caller.forge, project, **asked.model_dump())
    return caller.shown(_found(caller, found))


@router.post("/context", response_model=shape(LessonContext))
def context(project: str, asked: LessonContextRequest, caller: Called) -> Response:
    """What an agent reads before its task: the task, and the block of what is known. `shown` are its patterns' ids."""
    told = caller.forge.lessons.context(
        asked.task,
        project=project,
        failure_description=asked.failure_description,
        error_message=asked.error_message,
        max_tokens=asked.max_tokens,
        **asked.names(),
    )
    return caller.shown(replace(told, found=_found(caller, told.found)))


@router.get("/calibration", response_model=shape(Calibration))
def calibration(project: str, caller: Called) -> Response:
    """What similarity means for the embedder of lessons, and how well that tells alike from different."""
    caller.forge.project(project)
    return caller.shown(caller.forge.lessons.calibration())


# -- the review desk


@router.get("/patterns", response_model=page_of(Pattern))
def patterns(project: str, caller: Called, paging: Paged, state: PatternState | None = None) -> Response:
    """The patterns of a project, newest first."""
    return caller.shown(paging.page(caller.forge.lessons.patterns(project=project, state=state or "")))


@router.get("/patterns/{pattern}", response_model=shape(PatternDetails))
def pattern(project: str, pattern: str, caller: Called) -> Response:
    """A pattern with its captures, its outcomes, and other solutions of the same problem."""
    found = caller.forge.lessons.pattern(pattern, project=project)
    others = tuple(_within(caller, each) for each in found.alternatives)
    return caller.shown(replace(found, alternatives=others))


@router.patch("/patterns/{pattern}", response_model=shape(Pattern))
def edit(project: str, pattern: str, change: PatternChange, caller: Called) -> Response:
    """Give a pattern a person's words, in place of the version they saw."""
    words = Words(change.problem, change.solution, change.when_to_try)
    return caller.shown(caller.forge.lessons.edit(pattern, words, change.version, project=project))


@router.delete("/patterns/{pattern}", response_model=Erased)
def remove_pattern(project: str, pattern: str, caller: Called) -> Response:
    """Delete a pattern for good, with all its captures."""
    _require_pattern(caller, project, pattern)
    return caller.shown({"notices": caller.forge.lessons.remove([pattern], project=project)})


@router.post("/patterns/{pattern}/outcomes", status_code=201, response_model=shape(Outcome))
def outcome(project: str, pattern: str, came: OutcomeRequest, caller: Called, idempotency_key: Once = "") -> Response:
    """Say what came of applying a pattern in this project; also one of a project that shares its lessons."""
    recorded = caller.forge.lessons.record_outcome(
        pattern, came.success, project=project, note=came.note, key=idempotency_key
    )
    return caller.shown(recorded, status=201)


@router.post("/patterns/{pattern}/approve", response_model=shape(Pattern))
def approve(project: str, pattern: str, caller: Called) -> Response:
    """Say yes to a pattern, also to one that was rejected before."""
    _require_pattern(caller, project, pattern)
    return caller.shown(caller.forge.lessons.approve(pattern, project=project))


@router.post("/patterns/{pattern}/reject", response_model=shape(Pattern))
def reject(project: str, pattern: str, caller: Called) -> Response:
    """Say no to a pattern: it is given to nobody, however often it is told again."""
    _require_pattern(caller, project, pattern)
    return caller.shown(caller.forge.lessons.reject(pattern, project=project))


@router.post("/patterns/{pattern}/merge", response_model=shape(Pattern))
def merge(project: str, pattern: str, asked: MergeRequest, caller: Called) -> Response:
    """Make others part of this pattern that tell the same."""
    return caller.shown(caller.forge.lessons.merge(pattern, asked.others, project=project))


@router.post("/patterns/{pattern}/split", status_code=201, response_model=shape(Pattern))
def split(project: str, pattern: str, asked: SplitRequest, caller: Called) -> Response:
    """Take captures out of a pattern that do not tell the same; the pattern that they become comes back."""
    return caller.shown(caller.forge.lessons.split(pattern, asked.lessons, project=project), status=201)


# -- moving


class Lines(Download):
    media_type = LINES


@router.get(
    "/export",
    response_class=StreamingResponse,
    responses={200: {"content": {LINES: {"schema": {"type": "string"}}}}},
)
def export(project: str, request: Request, caller: Called) -> Response:
    """Every lesson of a project as JSON Lines, to be saved: what was told, and how its pattern did."""
    known = caller.forge.project(project).slug
    headers = {
        "Content-Disposition": attachment(f"lessons-{known}.jsonl"),
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox",
    }
    with NamedTemporaryFile() as kept:  # whoever reads slowly does not hold the catalog
        for record in caller.forge.lessons.exported(project=known):
            kept.write(f"{json_text(record)}\n".encode())
        kept.flush()
        # its name goes now, its bytes when it is closed
        return Lines(open(kept.name, "rb"), headers, streams_of(request).idle_seconds)


@router.post("/import", response_model=list[shape(Lesson)])  # type: ignore[misc]
def import_lessons(project: str, asked: LessonsImport, caller: Called) -> Response:
    """Stage lessons that `export` wrote. One that was brought before is not told twice."""
    records = [each.model_dump(exclude_unset=True) for each in asked.records]
    return caller.shown(list(caller.forge.lessons.importing(records, project=project)))


# -- what a caller may see


def _found(caller: Caller, found: FoundLessons) -> FoundLessons:
    patterns = tuple(replace(each, pattern=_within(caller, each.pattern)) for each in found.patterns)
    notice = found.notice if caller.records else hints.renamed(found.notice, hints.HTTP)
    return replace(found, patterns=patterns, notice=notice)


def _within(caller: Caller, pattern: Pattern) -> Pattern:
    """Lessons may be shared with those who do not reach their project: they are not told which that is."""
    return pattern if caller.principal.scope.reaches(pattern.project) else replace(pattern, project="")


def _require_pattern(caller: Caller, project: str, id: str) -> None:
    """Ids of captures are taken by the same methods; here only patterns are meant."""
    if isinstance(caller.forge.lessons.one(id, project=project), Lesson):
        raise NotFound(f"no pattern {id!r}", hint="ragforge learn ls shows what there is")
