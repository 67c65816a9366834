"""Captures of what agents learn, from the moment they are told until they expire."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from hashlib import sha256
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy import Row

from ragforge.adapters.catalog import tables as t
from ragforge.adapters.catalog.projects import embedder_key
from ragforge.adapters.catalog.tombstones import bury
from ragforge.adapters.catalog.unit import KNOWLEDGE, Session, batches, milliseconds, moment, storable
from ragforge.domain.access import Scope
from ragforge.domain.archives import Kind
from ragforge.domain.lessons import (
    ANY,
    TOLD,
    Calibration,
    Curve,
    EntryType,
    Facets,
    IndexedLesson,
    Lesson,
    LessonFilters,
    Measured,
    PatternState,
    Quality,
    RetentionClock,
    Told,
)
from ragforge.errors import Conflict, NotAllowed, NotFound
from ragforge.ports import EmbedderCard

LESSONS = -1
"""The lock under which lessons of all projects change, one transaction after the other: a pattern goes with its last
capture, and none may join it meanwhile. No project has this key."""
_s, _p, _f = t.knowledge_staging.c, t.knowledge_patterns.c, t.knowledge_facets.c


class SqlLessons:
    def __init__(self, session: Session) -> None:
        self._session = session

    # -- telling

    def capture(
        self, scope: Scope, project: str, facets: Facets, told: Told, *, verified: bool, key: str = ""
    ) -> Lesson:
        """Stage it. The same `key` again gives what it gave before; with other words it is a conflict."""
        session, row = self._session, self._session.project(scope, project)
        session.lock(LESSONS)
        told = Told(**{name: storable(getattr(told, name)) for name in TOLD})
        digest = sha256(json.dumps([asdict(facets), asdict(told)], sort_keys=True).encode()).hexdigest()[:32]
        if key:
            asked = (_s.project == row.ord, _s.principal == scope.principal, _s.asked_with == storable(key))
            before = session.execute(captured().where(*asked)).one_or_none()
            if before is not None:
                if before.digest != digest:  # of what was told: a person may have corrected it since
                    raise Conflict("this key was used for another lesson", hint="take a new key for a new lesson")
                return lesson_of(before)
        (number,) = session.keys(t.knowledge_staging, 1)
        quality = Quality.HIGH if facets.entry_type is EntryType.FAILURE else Quality.HIGHEST
        values = {
            "ord": number,
            "id": uuid4().hex[:16],
            "project": row.ord,
            "entry_type": str(facets.entry_type),
            "agent_type": facets.agent_type,
            "task_type": None if facets.task_type == ANY else facets.task_type,
            "technology": None if facets.technology == ANY else facets.technology,
            **{name: getattr(told, name) or None for name in TOLD},
            "quality": str(quality),
            "success_verified": verified,
            "embedded": False,
            "timestamp": session.now(),
            "principal": scope.principal,
            "asked_with": storable(key) or None,
            "digest": digest,
            "seq": 0,
        }
        session.insert(t.knowledge_staging, [values])
        return self.get(scope, project, values["id"])

    def get(self, scope: Scope, project: str, lesson: str) -> Lesson:
        return lesson_of(self._row(scope, project, lesson))

    def staged(self, scope: Scope, project: str, limit: int | None = None) -> list[Lesson]:
        """What no checkpoint has taken up yet, oldest first."""
        row = self._session.project(scope, project)
        found = captured().where(_s.project == row.ord, ~_s.embedded).order_by(_s.ord).limit(limit)
        return [lesson_of(each) for each in self._session.execute(found)]

    def change(
        self, scope: Scope, project: str, lesson: str, *, told: Told | None = None, verified: bool | None = None
    ) -> Lesson:
        """Correct or verify what is staged. What was taken up is a pattern's, and edited as that."""
        self._session.lock(LESSONS)
        known = self._row(scope, project, lesson)
        if known.embedded:
            raise Conflict("a checkpoint has taken it up", hint="edit the pattern that it is part of")
        values: dict[str, Any] = {}
        if told is not None:
            values |= {name: storable(getattr(told, name)) or None for name in TOLD}
        if verified is not None:
            values["success_verified"] = verified
        if values:
            self._session.execute(sa.update(t.knowledge_staging).where(_s.ord == known.ord).values(values))
        return self.get(scope, project, lesson)

    def remove(self, scope: Scope, project: str, lessons: Collection[str]) -> int:
        """For good, also out of patterns; a pattern goes with its last capture."""
        session, row = self._session, self._session.project(scope, project)
        session.lock(LESSONS)
        gone: list[Any] = []
        for some in batches(sorted(set(lessons))):
            found = sa.select(_s.id, _s.pattern).where(_s.project == row.ord, _s.id.in_(some))
            gone += session.execute(found).all()
        for batch in batches([each.id for each in gone]):
            session.execute(sa.delete(t.knowledge_staging).where(_s.id.in_(batch)))
        bury(session, Kind.LESSON, [(each.id, "") for each in gone])
        self._left(each.pattern for each in gone)
        return len(gone)

    def _left(self, patterns: Iterable[int | None]) -> int:
        """Captures of these patterns went: so do those that have none left, and indexes must look. How many went."""
        touched = sorted({each for each in patterns if each is not None})
        if not touched:
            return 0
        self._session.counted(KNOWLEDGE)
        return drop_empty_patterns(self._session, touched)

    def _row(self, scope: Scope, project: str, lesson: str) -> Row[Any]:
        row = self._session.project(scope, project)
        found = captured().where(_s.project == row.ord, _s.id == storable(lesson))
        known = self._session.execute(found).one_or_none()
        if known is None:
            raise NotFound(f"no lesson {lesson!r}", hint="ragforge learn staged shows what waits for a checkpoint")
        return known

    # -- checkpoints

    def pending(self, scope: Scope, project: str, limit: int) -> list[Lesson]:
        """Verified captures that no checkpoint has taken up, oldest first."""
        row = self._session.project(scope, project)
        staged = captured().where(_s.project == row.ord, ~_s.embedded, _s.success_verified)
        return [lesson_of(each) for each in self._session.execute(staged.order_by(_s.ord).limit(limit))]

    def waiting(self, scope: Scope, project: str) -> tuple[int, int]:
        """How many are pending, and how many wait until somebody verifies them."""
        row = self._session.project(scope, project)
        verified = sa.func.sum(sa.case((_s.success_verified, 1), else_=0))
        found = sa.select(sa.func.count(), verified).where(_s.project == row.ord, ~_s.embedded)
        number, pending = self._session.execute(found).one()
        return int(pending or 0), int(number) - int(pending or 0)

    def outdated(self, scope: Scope, fingerprint: str, limit: int) -> list[Lesson]:
        """Captures of all projects that were taken up, and have no vectors of this model; oldest first."""
        _require_all(scope)
        found = captured().where(_s.embedded, ~_has_vectors(fingerprint)).order_by(_s.ord).limit(limit)
        return [lesson_of(each) for each in self._session.execute(found)]

    def unchanged(self, scope: Scope, lessons: Sequence[Lesson]) -> set[int]:
        """The numbers of those that are still as they were read."""
        _require_all(scope)
        self._session.lock(LESSONS)
        told = {each.key: each.told for each in lessons}
        same: set[int] = set()
        for some in batches(sorted(told)):
            rows = self._session.execute(captured().where(_s.ord.in_(some)))
            same |= {row.ord for row in rows if _told(row) == told[row.ord]}
        return same

    def put_vectors(self, scope: Scope, card: EmbedderCard, vectors: Sequence[tuple[int, bytes, bytes]]) -> None:
        """Of captures that are still there, by their numbers: of the problem, and of the solution."""
        _require_all(scope)
        session = self._session
        session.lock(LESSONS)
        embedder = embedder_key(session, card)
        there: set[int] = set()
        for some in batches([lesson for lesson, _, _ in vectors]):
            there.update(session.execute(sa.select(_s.ord).where(_s.ord.in_(some))).scalars())
        rows = [
            {"lesson": lesson, "embedder": embedder, "problem": problem, "solution": solution}
            for lesson, problem, solution in vectors
            if lesson in there
        ]
        session.insert_new(t.knowledge_vectors, rows)
        for some in batches(sorted(there)):
            touch(session, _s.ord.in_(some))

    def take_up(self, scope: Scope, project: str, lesson: int, pattern: str) -> str:
        """Make a capture part of a pattern, or of a new one. Returns its id; empty if it was taken up before."""
        session, row = self._session, self._session.project(scope, project)
        session.lock(LESSONS)
        found = sa.select(t.knowledge_staging).where(_s.project == row.ord, _s.ord == lesson, ~_s.embedded)
        known = session.execute(found).one_or_none()
        if known is None:
            return ""
        facet, now = facet_key(session, row.ord, _facets(known)), session.now()
        if pattern:
            alike = (_p.project == row.ord, _p.id == pattern)
            number = session.execute(sa.select(_p.ord).where(*alike)).scalar()
            pattern = pattern if number is not None else ""
        if not pattern:
            pattern, number = new_pattern(session, row.ord, facet)
        session.execute(
            sa.update(t.knowledge_staging)
            .where(_s.ord == lesson)
            .values(embedded=True, embedded_at=now, facet=facet, pattern=number)
        )
        touch(session, _s.ord == lesson)
        return pattern

    # -- for queries, and for the indexes

    def share(self, scope: Scope, project: str, on: bool) -> None:
        """Whether orchestrators of other projects are told what was learnt here."""
        row = self._session.project(scope, project)
        self._session.execute(sa.update(t.projects).where(t.projects.c.ord == row.ord).values(shares_lessons=on))

    def facet(self, scope: Scope, project: str, facets: Facets) -> list[int]:
        """The number of exactly these facets of a project; none if no lesson has them."""
        row = self._session.project(scope, project)
        return list(self._session.execute(_of_facets(row.ord, facets)).scalars())

    def findable(self, scope: Scope, project: str, filters: LessonFilters) -> list[int]:
        """The numbers of all facets that may be found from a project: its own, and those of projects that share."""
        statement, values = _FINDABLE, list[Any]([self._session.project_key(scope, project)])
        wanted = [(name, getattr(filters, name)) for name in ("agent_type", "task_type", "technology")]
        for name, value in wanted:
            if value and value != ANY:
                statement += f" AND f.{name} IN (?, '{ANY}')"
                values.append(storable(value))
        if filters.entry_type is not None:
            statement += " AND f.entry_type = ?"
            values.append(str(filters.entry_type))
        return sorted(key for (key,) in self._session.quick(statement, tuple(values)))

    def indexed(self, scope: Scope, fingerprint: str, keys: Collection[int]) -> list[IndexedLesson]:
        """These captures, where they are embedded with this model."""
        _require_all(scope)
        found: list[IndexedLesson] = []
        for some in batches(sorted(keys)):
            marks = ", ".join("?" * len(some))
            rows = self._session.quick(_INDEXED.format(marks), (fingerprint, *some))
            found += [_indexed(row) for row in rows]
        return found

    def changed(self, scope: Scope, fingerprint: str, seq: int, after: int, limit: int) -> list[IndexedLesson]:
        """What changed since `seq`, in the order of the keys beyond `after`."""
        _require_all(scope)
        rows = self._session.quick(_CHANGED, (fingerprint, seq, after, limit))
        return [_indexed(row) for row in rows]

    def keys(self, scope: Scope, fingerprint: str) -> list[int]:
        """Every capture that an index should hold, ascending."""
        _require_all(scope)
        found = (
            sa.select(_s.ord)
            .join(t.knowledge_vectors, t.knowledge_vectors.c.lesson == _s.ord)
            .join(t.embedders, t.embedders.c.ord == t.knowledge_vectors.c.embedder)
            .where(t.embedders.c.fingerprint == fingerprint, _s.embedded)
            .order_by(_s.ord)
        )
        return list(self._session.execute(found).scalars())

    def of_patterns(self, scope: Scope, patterns: Collection[str]) -> list[int]:
        """The captures of these patterns, ascending."""
        found: list[int] = []
        for some in batches(sorted(set(patterns))):
            marks = ", ".join("?" * len(some))
            found += [key for (key,) in self._session.quick(_OF_PATTERNS.format(marks), tuple(some))]
        return sorted(found)

    def rejected(self, scope: Scope, project: str) -> list[int]:
        """Captures of this project's patterns that were rejected, ascending."""
        own = self._session.project_key(scope, project)
        return sorted(key for (key,) in self._session.quick(_REJECTED, (str(PatternState.REJECTED), own)))

    def hidden(self, scope: Scope) -> list[int]:
        """Captures of patterns that were rejected, ascending: indexes hold them, so that new ones are known again."""
        return sorted(key for (key,) in self._session.quick(_HIDDEN, (str(PatternState.REJECTED),)))

    def seq(self, scope: Scope) -> int:
        """How far what may be found has come."""
        rows = self._session.quick("SELECT value FROM counters WHERE name = ?", (KNOWLEDGE,))
        return int(rows[0][0]) if rows else 0

    # -- retention

    def prune(self, scope: Scope, before: datetime, limit: int) -> tuple[int, int, int]:
        """Remove what was embedded before this, at most `limit` captures: how many of them, patterns and outcomes."""
        _require_all(scope)
        session = self._session
        session.lock(LESSONS)
        aged = sa.select(_s.ord, _s.pattern).where(_s.embedded_at < milliseconds(before))
        old = session.execute(aged.order_by(_s.embedded_at).limit(limit)).all()
        for some in batches([each.ord for each in old]):
            session.execute(sa.delete(t.knowledge_staging).where(_s.ord.in_(some)))
        outcomes = session.execute(
            sa.delete(t.knowledge_outcomes).where(t.knowledge_outcomes.c.recorded_at < milliseconds(before))
        ).rowcount
        return len(old), self._left(each.pattern for each in old), int(outcomes)

    def clock(self, scope: Scope) -> RetentionClock | None:
        row = self._session.execute(sa.select(t.knowledge_clock)).one_or_none()
        if row is None:
            return None
        return RetentionClock(moment(row.seen_at), _maybe(row.paused_at), _maybe(row.pruned_at))

    def set_clock(self, scope: Scope, clock: RetentionClock) -> None:
        _require_all(scope)
        values = {
            "seen_at": milliseconds(clock.seen_at),
            "paused_at": None if clock.paused_at is None else milliseconds(clock.paused_at),
            "pruned_at": None if clock.pruned_at is None else milliseconds(clock.pruned_at),
        }
        if not self._session.execute(sa.update(t.knowledge_clock).values(values)).rowcount:
            self._session.insert_new(t.knowledge_clock, [{"number": 1, **values}])

    # -- what similarity means

    def calibration(self, scope: Scope, fingerprint: str) -> Calibration | None:
        found = (
            sa.select(t.knowledge_calibrations, t.embedders.c.name)
            .join(t.embedders, t.embedders.c.ord == t.knowledge_calibrations.c.embedder)
            .where(t.embedders.c.fingerprint == fingerprint)
        )
        row = self._session.execute(found).one_or_none()
        if row is None:
            return None
        curves = {name: Curve(tuple(each["weights"]), each["offset"]) for name, each in json.loads(row.curves).items()}
        measured = {name: Measured(**values) for name, values in json.loads(row.measured).items()}
        return Calibration(
            row.name, fingerprint, measured=measured, made_at=moment(row.made_at), data=row.data, **curves
        )

    def put_calibration(self, scope: Scope, card: EmbedderCard, calibration: Calibration) -> None:
        """In place of the one before."""
        _require_all(scope)
        embedder = embedder_key(self._session, card)
        table = t.knowledge_calibrations
        curves = {name: asdict(getattr(calibration, name)) for name in ("task", "failure", "problem", "lesson")}
        self._session.execute(sa.delete(table).where(table.c.embedder == embedder))
        self._session.insert_new(
            table,
            [
                {
                    "embedder": embedder,
                    "curves": json.dumps(curves),
                    "measured": json.dumps({name: asdict(each) for name, each in calibration.measured.items()}),
                    "data": calibration.data,
                    "made_at": milliseconds(calibration.made_at),
                }
            ],
        )


# -- rows


def touch(session: Session, *which: sa.ColumnElement[bool]) -> None:
    """An index must look at these captures again."""
    (seq,) = session.counted(KNOWLEDGE)
    session.execute(sa.update(t.knowledge_staging).where(*which).values(seq=seq))


def facet_key(session: Session, project: int, facets: Facets) -> int:
    known = _of_facets(project, facets)
    key = session.execute(known).scalar()
    if key is None:
        (new,) = session.keys(t.knowledge_facets, 1)
        session.insert_new(t.knowledge_facets, [{"ord": new, "project": project, **_facet_values(facets)}])
        key = session.execute(known).scalar_one()
    return int(key)


def _of_facets(project: int, facets: Facets) -> sa.Select[Any]:
    same = (_f[name] == value for name, value in _facet_values(facets).items())
    return sa.select(_f.ord).where(_f.project == project, *same)


def _facet_values(facets: Facets) -> dict[str, str]:
    return {name: str(value) for name, value in asdict(facets).items()}


def new_pattern(session: Session, project: int, facet: int, state: str = PatternState.LIVE) -> tuple[str, int]:
    (number,) = session.keys(t.knowledge_patterns, 1)
    id = uuid4().hex[:16]
    row = {
        "ord": number,
        "id": id,
        "project": project,
        "facet": facet,
        "state": str(state),
        "approved": False,
        "version": 1,
        "created_at": session.now(),
    }
    session.insert(t.knowledge_patterns, [row])
    return id, number


def drop_empty_patterns(session: Session, patterns: Sequence[int]) -> int:
    """Those of the patterns that have no capture left, and what only they were filtered by. How many went."""
    gone = 0
    for some in batches(patterns):
        facets = session.execute(sa.select(_p.facet).where(_p.ord.in_(some)).distinct()).scalars().all()
        held = sa.exists().where(_s.pattern == _p.ord)
        gone += int(session.execute(sa.delete(t.knowledge_patterns).where(_p.ord.in_(some), ~held)).rowcount)
        used = sa.exists().where(_p.facet == _f.ord) | sa.exists().where(_s.facet == _f.ord)
        session.execute(sa.delete(t.knowledge_facets).where(_f.ord.in_(facets), ~used))
    return gone


def captured() -> sa.Select[Any]:
    return (
        sa.select(t.knowledge_staging, t.projects.c.id.label("project_id"), _p.id.label("pattern_id"))
        .join(t.projects, t.projects.c.ord == _s.project)
        .join(t.knowledge_patterns, _p.ord == _s.pattern, isouter=True)
    )


def _has_vectors(fingerprint: str) -> sa.ColumnElement[bool]:
    model = sa.select(t.embedders.c.ord).where(t.embedders.c.fingerprint == fingerprint).scalar_subquery()
    vectors = t.knowledge_vectors.c
    return sa.exists().where(vectors.lesson == _s.ord, vectors.embedder == model)


# Every query of an orchestrator asks these: they are written out, as those of passages are.

_FINDABLE = """
SELECT f.ord FROM knowledge_facets f JOIN projects p ON p.ord = f.project WHERE (f.project = ? OR p.shares_lessons)"""

_HIDDEN = """
SELECT s.ord FROM knowledge_patterns p JOIN knowledge_staging s ON s.pattern = p.ord WHERE p.state = ?"""

_REJECTED = _HIDDEN + " AND p.project = ?"

_OF_PATTERNS = """
SELECT s.ord FROM knowledge_patterns p JOIN knowledge_staging s ON s.pattern = p.ord WHERE p.id IN ({})"""

_COLUMNS = f"""
SELECT s.ord, p.id, s.facet, s.seq, k.id, k.state, v.problem, v.solution,
       s.entry_type, s.agent_type, s.task_type, s.technology, {", ".join(f"s.{name}" for name in TOLD)}
FROM knowledge_staging s
JOIN projects p ON p.ord = s.project
JOIN knowledge_patterns k ON k.ord = s.pattern
JOIN knowledge_vectors v ON v.lesson = s.ord
    AND v.embedder = (SELECT e.ord FROM embedders e WHERE e.fingerprint = ?)
"""  # noqa: S608 - names of columns

_INDEXED = _COLUMNS + "WHERE s.ord IN ({}) ORDER BY s.ord"

_CHANGED = _COLUMNS + "WHERE s.seq > ? AND s.ord > ? ORDER BY s.ord LIMIT ?"


def _facets(row: Row[Any]) -> Facets:
    return Facets(EntryType(row.entry_type), row.agent_type, row.task_type or ANY, row.technology or ANY)


def _told(row: Row[Any]) -> Told:
    return Told(*(getattr(row, name) or "" for name in TOLD))


def lesson_of(row: Row[Any]) -> Lesson:
    return Lesson(
        id=row.id,
        project=row.project_id,
        facets=_facets(row),
        told=_told(row),
        verified=bool(row.success_verified),
        captured_at=moment(row.timestamp),
        captured_by=row.principal,
        embedded_at=_maybe(row.embedded_at),
        pattern=row.pattern_id or "",
        key=row.ord,
    )


def _indexed(row: Sequence[Any]) -> IndexedLesson:
    key, project, facet, seq, pattern, state, problem, solution, kind, agent, task_type, technology, *told = row
    return IndexedLesson(
        key=key,
        project=project,
        facet=facet,
        facets=Facets(EntryType(kind), agent, task_type or ANY, technology or ANY),
        told=Told(*(text or "" for text in told)),
        pattern=pattern,
        findable=state == str(PatternState.LIVE),
        seq=seq,
        problem=problem,
        solution=solution,
    )


def _maybe(value: int | None) -> datetime | None:
    return None if value is None else moment(value)


def _require_all(scope: Scope) -> None:
    if scope.projects is not None:
        raise NotAllowed("this is about the lessons of all projects", hint="ask the workspace's owner")
