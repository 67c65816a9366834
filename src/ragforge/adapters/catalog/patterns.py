"""Captures that tell the same, as one pattern: its words, its record, and what people say of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy import Row

from ragforge.adapters.catalog import tables as t
from ragforge.adapters.catalog.lessons import LESSONS, captured, drop_empty_patterns, lesson_of, new_pattern, touch
from ragforge.adapters.catalog.unit import Session, batches, moment, storable
from ragforge.domain.access import Scope
from ragforge.domain.lessons import (
    EntryType,
    Facets,
    Lesson,
    Outcome,
    Pattern,
    PatternState,
    Quality,
    Record,
    Words,
)
from ragforge.errors import Conflict, NotFound, UserError

_s, _p, _f, _o = t.knowledge_staging.c, t.knowledge_patterns.c, t.knowledge_facets.c, t.knowledge_outcomes.c


class SqlPatterns:
    def __init__(self, session: Session) -> None:
        self._session = session

    def all(
        self, scope: Scope, project: str, state: PatternState | None = None, limit: int | None = None, after: int = 0
    ) -> list[Pattern]:
        """Newest first; beyond the one with the number `after`, if that is given."""
        row = self._session.project(scope, project)
        found = _patterns().where(_p.project == row.ord).order_by(_p.ord.desc()).limit(limit)
        if state is not None:
            found = found.where(_p.state == str(state))
        if after:
            found = found.where(_p.ord < after)
        return self._made(self._session.execute(found).all())

    def count(self, scope: Scope, project: str) -> int:
        row = self._session.project(scope, project)
        found = sa.select(sa.func.count()).select_from(t.knowledge_patterns).where(_p.project == row.ord)
        return int(self._session.execute(found).scalar_one())

    def get(self, scope: Scope, project: str, pattern: str) -> Pattern:
        return self._made([self._row(scope, project, pattern)])[0]

    def seen_from(self, scope: Scope, project: str, patterns: Collection[str]) -> list[Pattern]:
        """Those of the patterns that are the project's, or of one that shares; none that was rejected."""
        own = self._session.project_key(scope, project)
        rows: list[Row[Any]] = []
        for some in batches(sorted(set(patterns))):
            rows += [
                row
                for row in self._session.execute(_patterns().where(_p.id.in_(some)))
                if (row.project == own or row.shares_lessons) and row.state == str(PatternState.LIVE)
            ]
        return self._made(rows)

    def lessons(self, scope: Scope, project: str, pattern: str) -> list[Lesson]:
        """Its captures, oldest first."""
        number = self._row(scope, project, pattern).ord
        found = captured().where(_s.pattern == number).order_by(_s.embedded_at, _s.ord)
        return [lesson_of(row) for row in self._session.execute(found)]

    def outcomes(self, scope: Scope, project: str, pattern: str) -> list[Outcome]:
        """What was recorded, newest first; from projects out of reach without their words."""
        number = self._row(scope, project, pattern).ord
        found = _recorded().where(_o.pattern == number).order_by(_o.ord.desc())
        return [_outcome(scope, row) for row in self._session.execute(found)]

    # -- what people say

    def judge(self, scope: Scope, project: str, pattern: str, state: PatternState, *, approved: bool) -> None:
        row = self._locked(scope, project, pattern)
        self._change(row.ord, state=str(state), approved=approved, version=row.version + 1)

    def edit(self, scope: Scope, project: str, pattern: str, words: Words, version: int) -> None:
        """Give it a person's words, in place of the version they saw."""
        row = self._locked(scope, project, pattern)
        if row.version != version:
            raise Conflict("somebody edited it meanwhile", hint="look at it again, then edit")
        said = {name: storable(getattr(words, name)) for name in ("problem", "solution", "when_to_try")}
        self._change(row.ord, version=version + 1, approved=row.state == str(PatternState.LIVE), **said)

    def merge(self, scope: Scope, project: str, into: str, others: Collection[str]) -> None:
        """All that the others stand on becomes this one's. They must be for the same agents and tasks."""
        session, target = self._session, self._locked(scope, project, into)
        for other in sorted(set(others) - {into}):
            row = self._row(scope, project, other)
            if row.facet != target.facet:
                raise UserError(
                    f"{into} and {other} are not for the same agent, task and technology",
                    hint="filters would no longer find one of them; leave them apart",
                )
            if row.state != target.state:
                raise UserError(f"one of {into} and {other} was rejected", hint="approve or reject both first")
            for table in (t.knowledge_staging, t.knowledge_outcomes):
                session.execute(sa.update(table).where(table.c.pattern == row.ord).values(pattern=target.ord))
            drop_empty_patterns(session, [row.ord])
        self._change(target.ord, version=target.version + 1)
        touch(session, _s.pattern == target.ord)

    def split(self, scope: Scope, project: str, pattern: str, lessons: Collection[str]) -> str:
        """Some of its captures become a pattern of their own. Outcomes stay: they were recorded for this one."""
        session, row = self._session, self._locked(scope, project, pattern)
        own = {lesson.id: lesson.key for lesson in self.lessons(scope, project, pattern)}
        if unknown := sorted(set(lessons) - set(own)):
            raise NotFound(f"no lesson {unknown[0]!r} in this pattern", hint="ragforge learn show lists them")
        if not lessons or len(set(lessons)) == len(own):
            raise UserError("a split leaves something on both sides", hint="name some of its lessons, not all")
        id, number = new_pattern(session, row.project, row.facet, row.state)
        self._change(row.ord, version=row.version + 1)
        moved = _s.ord.in_([own[lesson] for lesson in lessons])
        session.execute(sa.update(t.knowledge_staging).where(moved).values(pattern=number))
        touch(session, moved)
        return id

    def record(self, scope: Scope, project: str, pattern: str, *, success: bool, note: str, key: str = "") -> Outcome:
        """What came of applying it in a project. The same `key` again counts once."""
        session, row = self._session, self._session.project(scope, project)
        session.lock(LESSONS)
        if key:
            asked = (_o.project == row.ord, _o.principal == scope.principal, _o.asked_with == storable(key))
            before = session.execute(_recorded().where(*asked)).one_or_none()
            if before is not None:
                if bool(before.success) != success:  # its pattern may have been merged since
                    raise Conflict("this key was used for another outcome", hint="take a new key for a new outcome")
                return _outcome(scope, before)
        known = session.execute(sa.select(_p.ord).where(_p.id == storable(pattern), _seen_from(row.ord))).scalar()
        if known is None:
            raise _no_pattern(pattern)
        (number,) = session.keys(t.knowledge_outcomes, 1)
        values = {
            "ord": number,
            "id": uuid4().hex[:16],
            "pattern": known,
            "project": row.ord,
            "success": success,
            "note": storable(note),
            "recorded_at": session.now(),
            "principal": scope.principal,
            "asked_with": storable(key) or None,
        }
        session.insert(t.knowledge_outcomes, [values])
        return _outcome(scope, session.execute(_recorded().where(_o.ord == number)).one())

    def _change(self, number: int, **values: object) -> None:
        self._session.execute(sa.update(t.knowledge_patterns).where(_p.ord == number).values(values))

    def _locked(self, scope: Scope, project: str, pattern: str) -> Row[Any]:
        self._session.lock(LESSONS)
        return self._row(scope, project, pattern)

    def _row(self, scope: Scope, project: str, pattern: str) -> Row[Any]:
        row = self._session.project(scope, project)
        found = _patterns().where(_p.project == row.ord, _p.id == storable(pattern))
        known = self._session.execute(found).one_or_none()
        if known is None:
            raise _no_pattern(pattern)
        return known

    def _made(self, rows: Iterable[Row[Any]]) -> list[Pattern]:
        """Patterns with their words and records, in the order of the rows."""
        rows = list(rows)
        keys = [row.ord for row in rows]
        oldest: dict[int, Lesson] = {}
        figures: dict[int, tuple[Any, ...]] = {}
        outcomes: dict[int, tuple[int, int]] = {}
        for some in batches(keys):
            counted = (
                sa.select(_s.pattern, sa.func.count(), sa.func.min(_s.embedded_at), sa.func.max(_s.embedded_at))
                .where(_s.pattern.in_(some))
                .group_by(_s.pattern)
            )
            figures |= {key: tuple(rest) for key, *rest in self._session.execute(counted)}
            lost = sa.func.sum(sa.case((_o.success, 0), else_=1))
            won = sa.select(_o.pattern, sa.func.count(), lost).where(_o.pattern.in_(some)).group_by(_o.pattern)
            outcomes |= {key: (count - int(losses), int(losses)) for key, count, losses in self._session.execute(won)}
            first = sa.select(sa.func.min(_s.ord)).where(_s.pattern.in_(some)).group_by(_s.pattern)
            for row in self._session.execute(captured().where(_s.ord.in_(first))):
                oldest[row.pattern] = lesson_of(row)
        return [_pattern(row, oldest[row.ord], figures[row.ord], outcomes.get(row.ord, (0, 0))) for row in rows]


def _patterns() -> sa.Select[Any]:
    return (
        sa.select(
            t.knowledge_patterns,
            t.projects.c.id.label("project_id"),
            t.projects.c.shares_lessons,
            *(_f[name] for name in ("entry_type", "agent_type", "task_type", "technology")),
        )
        .join(t.projects, t.projects.c.ord == _p.project)
        .join(t.knowledge_facets, _f.ord == _p.facet)
    )


def _seen_from(project: int) -> sa.ColumnElement[bool]:
    sharing = sa.select(t.projects.c.ord).where(t.projects.c.shares_lessons)
    return (_p.project == project) | _p.project.in_(sharing)


def _recorded() -> sa.Select[Any]:
    return (
        sa.select(t.knowledge_outcomes, t.projects.c.id.label("project_id"), _p.id.label("pattern_id"))
        .join(t.projects, t.projects.c.ord == _o.project)
        .join(t.knowledge_patterns, _p.ord == _o.pattern)
    )


def _pattern(row: Row[Any], oldest: Lesson, figures: tuple[Any, ...], outcomes: tuple[int, int]) -> Pattern:
    captures, first, last = figures
    edited = row.problem is not None
    return Pattern(
        id=row.id,
        project=row.project_id,
        facets=Facets(EntryType(row.entry_type), row.agent_type, row.task_type, row.technology),
        words=Words(row.problem, row.solution, row.when_to_try) if edited else oldest.words,
        record=Record(captures, *outcomes),
        quality=Quality.HIGH if row.entry_type == EntryType.FAILURE else Quality.HIGHEST,
        state=PatternState(row.state),
        approved=bool(row.approved),
        edited=edited,
        version=row.version,
        first_at=moment(first),
        last_at=moment(last),
        key=row.ord,
    )


def _outcome(scope: Scope, row: Row[Any]) -> Outcome:
    within = scope.reaches(row.project_id)
    return Outcome(
        id=row.id,
        pattern=row.pattern_id,
        success=bool(row.success),
        note=row.note if within else "",
        recorded_at=moment(row.recorded_at),
        recorded_by=row.principal if within else "",
        project=row.project_id if within else "",
    )


def _no_pattern(pattern: str) -> NotFound:
    return NotFound(f"no pattern {pattern!r}", hint="ragforge learn ls shows what there is")
