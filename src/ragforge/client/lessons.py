"""`RemoteForge.lessons`: one method for each of `Ragforge.lessons`, as a call of the server."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from ragforge.client.wire import WorksElsewhere, key_header, project_at, require_ok, step
from ragforge.domain.cancel import Cancel
from ragforge.domain.lessons import (
    TOLD,
    Calibration,
    CheckpointKind,
    CheckpointReport,
    EntryType,
    FoundLessons,
    Lesson,
    LessonContext,
    Outcome,
    Pattern,
    PatternDetails,
    Words,
)
from ragforge.domain.library import Job, Progress, Project
from ragforge.domain.plain import decode, encode
from ragforge.errors import NotFound, UserError
from ragforge.flows.lessons import FAILURE_RESULTS, TASK_RESULTS

if TYPE_CHECKING:
    from ragforge.client.remote import RemoteForge

ELSEWHERE: Mapping[str, str] = {
    "calibrate": "run ragforge learn calibrate there; calibration() tells what holds",
    "prune": "run ragforge learn prune there; its checkpoints do it once a day",
}
"""Methods that are for the owner of the workspace, and what to do instead."""

_RECORD = ("id", "entry_type", "agent_type", "task_type", "technology", *TOLD)
"""What is brought of a lesson that was exported."""
_AT_ONCE = 100
"""Lessons that are brought with one call."""


class RemoteLessons:
    """What was learnt, as far as the key reaches."""

    def __init__(self, forge: RemoteForge) -> None:
        self._forge = forge

    def __getattr__(self, name: str) -> NoReturn:
        if name in ELSEWHERE:
            raise WorksElsewhere(name, ELSEWHERE[name])
        raise AttributeError(name)

    # -- telling

    def capture(
        self,
        entry_type: str,
        *,
        project: str = "default",
        agent_type: str = "",
        task_type: str = "",
        technology: str = "",
        verified: bool = True,
        key: str = "",
        **told: str,
    ) -> Lesson:
        """Tell a lesson of any kind; the other three are this with names for what each takes.

        One that nobody verified waits until a person approves it. The same `key` again tells it once.
        """
        if unknown := sorted(set(told) - set(TOLD)):
            raise UserError(f"a lesson has no {unknown[0]}", hint=f"it takes some of {', '.join(TOLD)}")
        body = {"entry_type": entry_type, "agent_type": agent_type, "task_type": task_type, "technology": technology}
        sent = body | {"verified": verified} | told
        return decode(Lesson, self._forge._call("POST", _at(project), sent, headers=key_header(key)))

    def capture_failure(
        self,
        *,
        agent_type: str,
        failure_description: str,
        solution_steps: str,
        project: str = "default",
        error_message: str = "",
        task_type: str = "",
        technology: str = "",
        task: str = "",
        decision_criteria: str = "",
        evidence: str = "",
        verified: bool = True,
        key: str = "",
    ) -> Lesson:
        """A test or a task that failed, and what verifiably solved it."""
        return self.capture(
            EntryType.FAILURE,
            project=project,
            agent_type=agent_type,
            task_type=task_type,
            technology=technology,
            verified=verified,
            key=key,
            task=task,
            failure_description=failure_description,
            error_message=error_message,
            solution_steps=solution_steps,
            decision_criteria=decision_criteria,
            evidence=evidence,
        )

    def capture_rejection(
        self,
        *,
        gate_type: str,
        human_feedback: str,
        revision_approach: str,
        project: str = "default",
        agent_type: str = "",
        task_type: str = "",
        technology: str = "",
        task: str = "",
        decision_criteria: str = "",
        evidence: str = "",
        key: str = "",
    ) -> Lesson:
        """What a person rejected at a gate and why, and the revision that they approved."""
        return self.capture(
            EntryType.REJECTION,
            project=project,
            agent_type=agent_type,
            task_type=task_type,
            technology=technology,
            key=key,
            task=task,
            gate_type=gate_type,
            human_feedback=human_feedback,
            revision_approach=revision_approach,
            decision_criteria=decision_criteria,
            evidence=evidence,
        )

    def capture_approval(
        self,
        *,
        gate_type: str,
        approved_approach: str,
        project: str = "default",
        agent_type: str = "",
        task_type: str = "",
        technology: str = "",
        task: str = "",
        decision_criteria: str = "",
        evidence: str = "",
        key: str = "",
    ) -> Lesson:
        """What a person approved at the first attempt."""
        return self.capture(
            EntryType.APPROVAL,
            project=project,
            agent_type=agent_type,
            task_type=task_type,
            technology=technology,
            key=key,
            task=task,
            gate_type=gate_type,
            approved_approach=approved_approach,
            decision_criteria=decision_criteria,
            evidence=evidence,
        )

    def staged(self, *, project: str = "default", limit: int | None = None) -> list[Lesson]:
        """What waits for a checkpoint, oldest first; what nobody verified waits for a person, too."""
        return self._forge._all(Lesson, f"{_at(project)}/staged", limit=limit)

    def lesson(self, id: str, *, project: str = "default") -> Lesson:
        return self._forge._one(Lesson, "GET", _lesson_at(project, id))

    def one(self, id: str, *, project: str = "default") -> Pattern | Lesson:
        """Whichever has this id: a pattern, or a lesson."""
        try:
            return self.lesson(id, project=project)
        except NotFound:
            return self.pattern(id, project=project).pattern

    # -- checkpoints

    def checkpoint(
        self, kind: str = CheckpointKind.MANUAL, *, project: str = "default", cancel: Cancel | None = None
    ) -> CheckpointReport:
        """Embed what is staged: at the end of a phase or a project, when it is cancelled, or when asked."""
        *_, report = self.checkpointing(kind, project=project, cancel=cancel)
        assert isinstance(report, CheckpointReport)
        return report

    def checkpointing(
        self, kind: str = CheckpointKind.MANUAL, *, project: str = "default", cancel: Cancel | None = None
    ) -> Iterator[Progress | CheckpointReport]:
        """The same, told as it goes; the report is the last event."""
        cancel = cancel or Cancel()
        cancel.check()
        job = self._forge._one(Job, "POST", f"{_at(project)}/checkpoints", {"kind": kind})
        following = self._forge._following(job, cancel)
        yield from following
        yield decode(CheckpointReport, following.ended.result)

    # -- asking

    def query_for_task(
        self,
        task: str,
        *,
        project: str = "default",
        agent_type: str = "",
        task_type: str = "",
        technology: str = "",
        entry_type: str = "",
        limit: int = TASK_RESULTS,
    ) -> FoundLessons:
        """What is known for a task that is about to begin: up to five patterns, the most reliable first."""
        body = {"task": task, "agent_type": agent_type, "task_type": task_type, "technology": technology}
        asked = body | {"entry_type": entry_type or None, "limit": limit}
        return self._forge._one(FoundLessons, "POST", f"{_at(project)}/query", asked)

    def query_for_failure(
        self,
        failure_description: str,
        error_message: str = "",
        *,
        project: str = "default",
        agent_type: str = "",
        task_type: str = "",
        technology: str = "",
        limit: int = FAILURE_RESULTS,
    ) -> FoundLessons:
        """How the same failure was solved before: up to three patterns."""
        asked = {
            "failure_description": failure_description,
            "error_message": error_message,
            "agent_type": agent_type,
            "task_type": task_type,
            "technology": technology,
            "limit": limit,
        }
        return self._forge._one(FoundLessons, "POST", f"{_at(project)}/query", asked)

    def context(
        self,
        task: str,
        *,
        project: str = "default",
        failure_description: str = "",
        error_message: str = "",
        agent_type: str = "",
        task_type: str = "",
        technology: str = "",
        max_tokens: int = 0,
    ) -> LessonContext:
        """What an agent reads before its task: the task itself, and the block of what is known.

        With a failure, the block is of how that was solved before.
        """
        body = {"task": task, "failure_description": failure_description, "error_message": error_message}
        body |= {"agent_type": agent_type, "task_type": task_type, "technology": technology}
        return self._forge._one(LessonContext, "POST", f"{_at(project)}/context", body | {"max_tokens": max_tokens})

    def record_outcome(
        self, pattern: str, success: bool, *, project: str = "default", note: str = "", key: str = ""
    ) -> Outcome:
        """What came of applying a pattern in a project. The same `key` again counts once."""
        where, body = f"{_pattern_at(project, pattern)}/outcomes", {"success": success, "note": note}
        return decode(Outcome, self._forge._call("POST", where, body, headers=key_header(key)))

    # -- the review desk

    def patterns(
        self, *, project: str = "default", state: str = "", limit: int | None = None, after: str = ""
    ) -> list[Pattern]:
        """All of a project, newest first; or those after the one with this id."""
        where, asked = f"{_at(project)}/patterns", {"state": state} if state else {}
        if not after:
            return self._forge._all(Pattern, where, asked, limit)
        every = [each.id for each in self._forge._all(Pattern, where)]
        if after not in every:
            raise NotFound(f"no pattern {after!r}", hint="lessons.patterns() shows what there is")
        beyond = set(every[every.index(after) + 1 :])
        return [each for each in self._forge._all(Pattern, where, asked) if each.id in beyond][:limit]

    def pattern(self, id: str, *, project: str = "default") -> PatternDetails:
        """A pattern with its captures, its outcomes, and other solutions of the same problem."""
        return self._forge._one(PatternDetails, "GET", _pattern_at(project, id))

    def approve(self, id: str, *, project: str = "default") -> Pattern | Lesson:
        """Say yes: to a capture that nobody verified, or to a pattern, also one that was rejected before."""
        try:
            return self._forge._one(Lesson, "POST", f"{_lesson_at(project, id)}/approve")
        except NotFound:
            return self._forge._one(Pattern, "POST", f"{_pattern_at(project, id)}/approve")

    def reject(self, id: str, *, project: str = "default") -> Pattern | None:
        """Say no: a staged capture goes for good; a pattern is given to nobody, however often it is told again."""
        try:
            lesson = self.lesson(id, project=project)
        except NotFound:
            return self._forge._one(Pattern, "POST", f"{_pattern_at(project, id)}/reject")
        if lesson.embedded:
            raise UserError(f"{id} is part of the pattern {lesson.pattern}", hint="judge the pattern")
        self._forge._call("DELETE", _lesson_at(project, id))
        return None

    def edit(self, id: str, words: Words, version: int, *, project: str = "default") -> Pattern:
        """Give a pattern a person's words, in place of the version they saw."""
        return self._forge._one(Pattern, "PATCH", _pattern_at(project, id), {**encode(words), "version": version})

    def edit_staged(self, id: str, *, project: str = "default", **told: str) -> Lesson:
        """Correct a capture that no checkpoint has taken up. What is not named stays."""
        if unknown := sorted(set(told) - set(TOLD)):
            raise UserError(f"a lesson has no {unknown[0]}", hint=f"it takes some of {', '.join(TOLD)}")
        return self._forge._one(Lesson, "PATCH", _lesson_at(project, id), told)

    def merge(self, into: str, others: Collection[str], *, project: str = "default") -> Pattern:
        """Make patterns one that tell the same."""
        body = {"others": list(others)}
        return self._forge._one(Pattern, "POST", f"{_pattern_at(project, into)}/merge", body)

    def split(self, id: str, lessons: Collection[str], *, project: str = "default") -> Pattern:
        """Take captures out of a pattern that do not tell the same; they become one of their own."""
        body = {"lessons": list(lessons)}
        return self._forge._one(Pattern, "POST", f"{_pattern_at(project, id)}/split", body)

    def remove(self, ids: Iterable[str], *, project: str = "default") -> tuple[str, ...]:
        """Delete captures, or patterns with all of theirs, for good. Returns where words may still be on disk."""
        known = {each.id: each for each in (self.one(id, project=project) for id in ids)}
        where = [
            _lesson_at(project, id) if isinstance(each, Lesson) else _pattern_at(project, id)
            for id, each in known.items()
        ]
        notices = [notice for each in where for notice in self._forge._call("DELETE", each)["notices"]]
        return tuple(dict.fromkeys(notices))

    # -- settings and upkeep

    def share(self, on: bool, *, project: str = "default") -> Project:
        """Whether orchestrators of other projects are told what was learnt in this one."""
        return self._forge._one(Project, "PATCH", project_at(project), {"shares_lessons": on})

    def calibration(self) -> Calibration:
        """What similarity means for the embedder of lessons, and how well that tells."""
        for project in self._forge.projects():
            return self._forge._one(Calibration, "GET", f"{_at(project.slug)}/calibration")
        raise NotFound("there is no project yet", hint="create_project() makes one")

    # -- moving

    def exported(self, *, project: str = "default") -> Iterator[dict[str, Any]]:
        """Every lesson of a project, one record each: what was told, and how its pattern did."""
        with self._forge._reached(), self._forge._http.stream("GET", f"{_at(project)}/export") as response:
            require_ok(response)
            for line in response.iter_lines():
                yield json.loads(line)

    def importing(self, records: Iterable[Mapping[str, Any]], *, project: str = "default") -> Iterator[Lesson]:
        """Stage lessons that `exported` wrote. One that is here already is not told twice.

        What a person rejected where it comes from is left out.
        """
        batch: list[dict[str, Any]] = []
        for number, record in enumerate(records, 1):
            batch.append(_record(number, record))
            if len(batch) >= _AT_ONCE:
                yield from self._imported(batch, project)
                batch = []
        if batch:
            yield from self._imported(batch, project)

    def _imported(self, batch: list[dict[str, Any]], project: str) -> list[Lesson]:
        return decode(list[Lesson], self._forge._call("POST", f"{_at(project)}/import", {"records": batch}))


def _record(number: int, record: Mapping[str, Any]) -> dict[str, Any]:
    """A record as it is sent."""
    try:
        named = {name: str(record[name]) for name in _RECORD if record.get(name)}
        state = (record.get("pattern") or {}).get("state")  # what a person rejected there is left out
        return {
            "entry_type": record["entry_type"],
            **named,
            "verified": record.get("verified") is True,
            "pattern": {"state": str(state)} if state else None,
        }
    except (KeyError, TypeError, AttributeError):
        raise UserError(
            f"record {number} is no lesson", hint="each line is an object with entry_type and its fields"
        ) from None


def _at(project: str) -> str:
    return f"{project_at(project)}/lessons"


def _lesson_at(project: str, id: str) -> str:
    return f"{_at(project)}/staged/{step(id)}"


def _pattern_at(project: str, id: str) -> str:
    return f"{_at(project)}/patterns/{step(id)}"
