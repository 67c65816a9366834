"""`forge.lessons`: one method for each thing an orchestrator, an agent or a reviewer can do. No logic of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from hashlib import sha256
from typing import Any

from ragforge.domain.access import Scope
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
    PatternState,
    PruneReport,
    Told,
    Words,
)
from ragforge.domain.library import Progress, Project
from ragforge.errors import NotFound, RagforgeError, UserError
from ragforge.flows.lessons import FAILURE_RESULTS, TASK_RESULTS, Learn
from ragforge.learn import capture
from ragforge.operate import access
from ragforge.ports import Catalog, Embedder, Unit

Run = Callable[[str, str, Mapping[str, object], Iterator[Any], Cancel], Iterator[Any]]


class Lessons:
    """What was learnt, in somebody's scope."""

    def __init__(
        self,
        scope: Scope,
        catalog: Catalog,
        learn: Learn,
        embedder: Callable[[], Embedder],
        known: Callable[[Unit, str], Project],
        run: Run,
        context_tokens: int,
    ) -> None:
        self._scope = scope
        self._catalog = catalog
        self._learn = learn
        self._embedder = embedder
        self._known = known
        self._run = run
        self._context_tokens = context_tokens

    def _project(self, slug: str) -> str:
        with self._catalog.read() as c:
            return self._known(c, slug).id

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

        One that nobody verified waits until a person approves it; so does whatever an agent tells, whatever it says
        of it. The same `key` again tells it once.
        """
        if unknown := sorted(set(told) - set(TOLD)):
            raise UserError(f"a lesson has no {unknown[0]}", hint=f"it takes some of {', '.join(TOLD)}")
        facets = capture.facets(entry_type, agent_type, task_type, technology)
        return self._learn.capture(
            self._scope, self._project(project), facets, Told(**told), verified=verified, key=key
        )

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
        with self._catalog.read() as c:
            return c.lessons.staged(self._scope, self._known(c, project).id, limit)

    def lesson(self, id: str, *, project: str = "default") -> Lesson:
        with self._catalog.read() as c:
            return c.lessons.get(self._scope, self._known(c, project).id, id)

    def one(self, id: str, *, project: str = "default") -> Pattern | Lesson:
        """Whichever has this id: a pattern, or a lesson."""
        with self._catalog.read() as c:
            known = self._known(c, project).id
            try:
                return c.lessons.get(self._scope, known, id)
            except NotFound:
                return c.patterns.get(self._scope, known, id)

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
        cancel, which = cancel or Cancel(), _kind(kind)
        with self._catalog.read() as c:
            known = self._known(c, project)
        events = self._learn.checkpoint(self._scope, known.id, which, cancel)
        yield from self._run("checkpoint", known.slug, {"kind": str(which)}, events, cancel)
        with suppress(RagforgeError):  # the next one does it
            self._learn.prune(cancel)

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
        filters = capture.filters(agent_type, task_type, technology, entry_type)
        limit = _limit(limit, TASK_RESULTS)
        return self._learn.for_task(self._scope, self._project(project), task, filters, limit)

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
        filters, limit = capture.filters(agent_type, task_type, technology, ""), _limit(limit, FAILURE_RESULTS)
        known = self._project(project)
        return self._learn.for_failure(self._scope, known, failure_description, error_message, filters, limit)

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
        filters = capture.filters(agent_type, task_type, technology, "")
        failure = "\n".join(filter(None, (failure_description.strip(), error_message.strip())))
        budget = max_tokens or self._context_tokens
        return self._learn.context(self._scope, self._project(project), task, failure, filters, budget)

    def record_outcome(
        self, pattern: str, success: bool, *, project: str = "default", note: str = "", key: str = ""
    ) -> Outcome:
        """What came of applying a pattern in a project. The same `key` again counts once."""
        known = self._project(project)
        return self._learn.outcome(self._scope, known, pattern, success=success, note=note, key=key)

    # -- the review desk

    def patterns(
        self, *, project: str = "default", state: str = "", limit: int | None = None, after: str = ""
    ) -> list[Pattern]:
        """All of a project, newest first; or those after the one with this id."""
        wanted = _state(state)
        with self._catalog.read() as c:
            known = self._known(c, project).id
            number = c.patterns.get(self._scope, known, after).key if after else 0
            return c.patterns.all(self._scope, known, wanted, limit, number)

    def pattern(self, id: str, *, project: str = "default") -> PatternDetails:
        """A pattern with its captures, its outcomes, and other solutions of the same problem."""
        with self._catalog.read() as c:
            known = self._known(c, project).id
            found = c.patterns.get(self._scope, known, id)
            lessons = c.patterns.lessons(self._scope, known, id)
            outcomes = c.patterns.outcomes(self._scope, known, id)
        others: Sequence[Pattern] = ()
        with suppress(RagforgeError):  # the model is not here
            others = self._learn.alternatives(self._scope, known, found, lessons)
        return PatternDetails(found, tuple(lessons), tuple(outcomes), tuple(others))

    def approve(self, id: str, *, project: str = "default") -> Pattern | Lesson:
        """Say yes: to a capture that nobody verified, or to a pattern, also one that was rejected before."""
        return self._judged(id, project, PatternState.LIVE)

    def reject(self, id: str, *, project: str = "default") -> Pattern | None:
        """Say no: a staged capture goes for good; a pattern is given to nobody, however often it is told again."""
        found = self._judged(id, project, PatternState.REJECTED)
        return found if isinstance(found, Pattern) else None

    def _judged(self, id: str, project: str, state: PatternState) -> Pattern | Lesson:
        with self._catalog.write() as c:
            known = self._known(c, project).id
            try:
                lesson = c.lessons.get(self._scope, known, id)
            except NotFound:
                c.patterns.judge(self._scope, known, id, state, approved=state is PatternState.LIVE)
                return c.patterns.get(self._scope, known, id)
            if lesson.embedded:
                raise UserError(f"{id} is part of the pattern {lesson.pattern}", hint="judge the pattern")
            if state is PatternState.LIVE:
                return c.lessons.change(self._scope, known, id, verified=True)
            c.lessons.remove(self._scope, known, [id])
        self._catalog.flush()
        return lesson

    def edit(self, id: str, words: Words, version: int, *, project: str = "default") -> Pattern:
        """Give a pattern a person's words, in place of the version they saw."""
        kept = self._learn.words(words)
        with self._catalog.write() as c:
            known = self._known(c, project).id
            c.patterns.edit(self._scope, known, id, kept, version)
            return c.patterns.get(self._scope, known, id)

    def edit_staged(self, id: str, *, project: str = "default", **told: str) -> Lesson:
        """Correct a capture that no checkpoint has taken up. What is not named stays."""
        if unknown := sorted(set(told) - set(TOLD)):
            raise UserError(f"a lesson has no {unknown[0]}", hint=f"it takes some of {', '.join(TOLD)}")
        with self._catalog.write() as c:
            known = self._known(c, project).id
            lesson = c.lessons.get(self._scope, known, id)
            kept = self._learn.told(lesson.facets.entry_type, Told(**asdict(lesson.told) | told))
            return c.lessons.change(self._scope, known, id, told=kept)

    def merge(self, into: str, others: Collection[str], *, project: str = "default") -> Pattern:
        """Make patterns one that tell the same."""
        with self._catalog.write() as c:
            known = self._known(c, project).id
            c.patterns.merge(self._scope, known, into, others)
            found = c.patterns.get(self._scope, known, into)
        self._learn.follow()
        return found

    def split(self, id: str, lessons: Collection[str], *, project: str = "default") -> Pattern:
        """Take captures out of a pattern that do not tell the same; they become one of their own."""
        with self._catalog.write() as c:
            known = self._known(c, project).id
            made = c.patterns.split(self._scope, known, id, lessons)
            found = c.patterns.get(self._scope, known, made)
        self._learn.follow()
        return found

    def remove(self, ids: Iterable[str], *, project: str = "default") -> tuple[str, ...]:
        """Delete captures, or patterns with all of theirs, for good. Returns where words may still be on disk."""
        with self._catalog.write() as c:
            known = self._known(c, project).id
            lessons: list[str] = []
            for id in ids:
                try:
                    lessons.append(c.lessons.get(self._scope, known, id).id)
                except NotFound:
                    lessons += [each.id for each in c.patterns.lessons(self._scope, known, id)]
            c.lessons.remove(self._scope, known, lessons)
        return self._learn.erase(Cancel())

    # -- settings and upkeep

    def share(self, on: bool, *, project: str = "default") -> Project:
        """Whether orchestrators of other projects are told what was learnt in this one."""
        with self._catalog.write() as c:
            c.lessons.share(self._scope, self._known(c, project).id, on)
            return self._known(c, project)

    def calibration(self) -> Calibration:
        """What similarity means for the embedder of lessons, and how well that tells."""
        return self._learn.calibration(self._embedder(), Cancel())

    def calibrate(self, *, cancel: Cancel | None = None) -> Calibration:
        """Fit it anew."""
        access.require_owner(self._scope)
        return self._learn.calibration(self._embedder(), cancel or Cancel(), anew=True)

    def prune(self, *, trust_clock: bool = False, cancel: Cancel | None = None) -> PruneReport:
        """Remove now what was embedded more than a year ago, in all projects."""
        access.require_owner(self._scope)
        return self._learn.prune(cancel or Cancel(), asked=True, trusted=trust_clock)

    # -- moving

    def exported(self, *, project: str = "default") -> Iterator[dict[str, Any]]:
        """Every lesson of a project, one record each: what was told, and how its pattern did."""
        known = self._project(project)
        with self._catalog.read() as c:
            for pattern in c.patterns.all(self._scope, known):
                for lesson in c.patterns.lessons(self._scope, known, pattern.id):
                    yield _exported(lesson, pattern)
            for lesson in c.lessons.staged(self._scope, known):
                yield _exported(lesson, None)

    def importing(self, records: Iterable[Mapping[str, Any]], *, project: str = "default") -> Iterator[Lesson]:
        """Stage lessons that `exported` wrote, or others. What is here already is given back, and not told twice.

        What a person rejected where it comes from is left out.
        """
        for number, record in enumerate(records, 1):
            try:
                told = {name: str(record[name]) for name in TOLD if record.get(name)}
                names = {name: str(record.get(name) or "") for name in ("agent_type", "task_type", "technology")}
                kind, verified = str(record["entry_type"]), record.get("verified") is True
                id, of = str(record.get("id") or ""), record.get("pattern") or {}
                if of.get("state") == PatternState.REJECTED:
                    continue  # a person said no
            except (KeyError, TypeError, AttributeError):
                raise UserError(
                    f"record {number} is no lesson", hint="each line is an object with entry_type and its fields"
                ) from None
            if id and (known := self._here(id, project)):
                yield known
                continue
            digest = sha256(json.dumps([kind, names, told], sort_keys=True).encode()).hexdigest()[:32]
            key = f"import:{id or digest}"
            yield self.capture(kind, project=project, verified=verified, key=key, **names, **told)

    def _here(self, id: str, project: str) -> Lesson | None:
        try:
            return self.lesson(id, project=project)
        except NotFound:
            return None


def _exported(lesson: Lesson, pattern: Pattern | None) -> dict[str, Any]:
    record: dict[str, Any] = {"id": lesson.id, **asdict(lesson.facets), **asdict(lesson.told)}
    record |= {"verified": lesson.verified, "captured_at": lesson.captured_at, "embedded_at": lesson.embedded_at}
    if pattern is not None:
        record["pattern"] = {
            "id": pattern.id,
            "state": pattern.state,
            "wins": pattern.record.wins,
            "losses": pattern.record.losses,
            **(asdict(pattern.words) if pattern.edited else {}),
        }
    return record


def _kind(kind: str) -> CheckpointKind:
    try:
        return CheckpointKind(kind)
    except ValueError:
        raise UserError(f"no checkpoint {kind!r}", hint=f"one of {', '.join(CheckpointKind)}") from None


def _state(state: str) -> PatternState | None:
    try:
        return PatternState(state) if state else None
    except ValueError:
        raise UserError(f"no pattern is {state!r}", hint=f"one of {', '.join(PatternState)}") from None


def _limit(limit: int, most: int) -> int:
    if not 1 <= limit <= most:
        raise UserError(f"{limit} patterns cannot be asked for", hint=f"ask for 1 to {most}")
    return limit
