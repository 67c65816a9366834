"""The query log. It keeps questions, figures and ids, and nothing of a document's text.

Everybody sees their own questions and what those took. Who oversees a project sees the sums of all, and everybody's
questions if no document is above them: a question may tell what its answer told.
"""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Row

from ragforge.adapters.catalog import tables as t
from ragforge.adapters.catalog.conversations import holding_above
from ragforge.adapters.catalog.evaluations import as_typed
from ragforge.adapters.catalog.tombstones import bury
from ragforge.adapters.catalog.unit import LAST_KEY, Session, milliseconds, moment, reached, storable
from ragforge.domain.access import Scope
from ragforge.domain.archives import Kind
from ragforge.domain.cursor import Cursor
from ragforge.domain.generation import Usage
from ragforge.domain.records import LogEntry, Spent
from ragforge.errors import NotFound, UserError

_UNITS_PER_DOLLAR = Decimal(10) ** 12
_DAY = 86_400_000

_GROUPS: dict[str, sa.ColumnElement[Any]] = {
    "model": t.query_log.c.model,
    "profile": t.query_log.c.profile,
    "agent": t.query_log.c.agent,
    "day": t.query_log.c.asked_at // sa.literal_column(str(_DAY), sa.BigInteger),
}


class SqlQueryLog:
    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, scope: Scope, project: str, entry: LogEntry) -> None:
        """Write an entry down; the same one again changes nothing. A conversation that is gone is left empty."""
        session, row = self._session, self._session.project(scope, project)
        session.lock(row.ord)
        conversation = sa.select(t.conversations.c.ord).where(
            t.conversations.c.project == row.ord,
            t.conversations.c.principal == scope.principal,
            t.conversations.c.id == entry.conversation,
        )
        (key,) = session.keys(t.query_log, 1)
        place = {"ord": key, "project": row.ord, "principal": scope.principal}
        link = {"conversation": session.execute(conversation).scalar_one_or_none()}
        session.insert_new(t.query_log, [place | link | _row(entry)])

    def all(
        self,
        scope: Scope,
        project: str,
        limit: int,
        since: datetime | None = None,
        begins: str = "",
        after: Cursor | None = None,
    ) -> list[LogEntry]:
        """The newest entries, newest first; `begins` is how their ids begin."""
        newest_first = (
            self._seen(scope, project, since)
            .where(t.query_log.c.id.startswith(begins, autoescape=True), *_before(after))
            .order_by(t.query_log.c.asked_at.desc(), t.query_log.c.ord.desc())
        )
        return [_entry(row) for row in self._session.execute(newest_first.limit(limit))]

    def get(self, scope: Scope, project: str, id: str) -> LogEntry:
        row = self._session.execute(self._seen(scope, project).where(t.query_log.c.id == id)).one_or_none()
        if row is None:
            raise NotFound(f"no question {id!r} in the log", hint="it may have been pruned, or the log was off")
        return _entry(row)

    def mark(self, scope: Scope, project: str, id: str, feedback: str, note: str) -> None:
        """What a person thought of the answer, in place of an earlier mark."""
        if feedback not in ("good", "bad", ""):
            raise UserError(f"feedback {feedback!r} is not known", hint="good, bad, or empty to take it back")
        row = self._session.project(scope, project)
        self.get(scope, project, id)
        self._session.execute(
            sa.update(t.query_log)
            .where(t.query_log.c.project == row.ord, t.query_log.c.id == id)
            .values(feedback=feedback, note=storable(note))
        )

    def charge(self, scope: Scope, project: str, id: str, usage: Usage) -> None:
        """Add what calls took that were made for a question after it was written down."""
        row, entry = self._session.project(scope, project), self.get(scope, project, id)
        asked = int(entry.input_tokens + entry.output_tokens > 0)
        total = Usage(entry.input_tokens, entry.output_tokens, asked, entry.cost) + usage
        self._session.execute(
            sa.update(t.query_log)
            .where(t.query_log.c.project == row.ord, t.query_log.c.id == id)
            .values(input_tokens=total.input_tokens, output_tokens=total.output_tokens, cost=_units(total.cost))
        )

    def spent(self, scope: Scope, project: str, by: str, since: datetime | None = None) -> list[Spent]:
        """Sums by `model`, `profile`, `agent` or `day` (in UTC), in the order of their names."""
        row = self._session.project(scope, project)
        whose = sa.true() if scope.oversees else t.query_log.c.principal == scope.principal
        group = _GROUPS.get(by)
        if group is None:
            raise UserError(f"cannot sum by {by!r}", hint=f"choose one of {', '.join(_GROUPS)}")
        sums = _sums(group.label("name")).where(t.query_log.c.project == row.ord, whose, *_from(since)).group_by(group)
        found = [
            _spent(moment(int(each.name) * _DAY).date().isoformat() if by == "day" else each.name, each)
            for each in self._session.execute(sums)
        ]
        return sorted(found, key=lambda spent: spent.name)

    def used(self, scope: Scope, principal: str, since: datetime) -> Spent:
        """What all questions of one principal took, in every project that the scope reaches."""
        log = t.query_log.c
        whose = sa.true() if scope.oversees else log.principal == scope.principal
        sums = _sums().where(log.principal == principal, whose, reached(scope, log.project), *_from(since))
        return _spent(principal, self._session.execute(sums).one())

    def prune(self, scope: Scope, project: str, before: datetime, *, marked: bool = True) -> int:
        """Remove entries older than this, of those the scope sees; with or without the `marked`. Returns how many.

        Those without go by a rule, which holds where a backup is restored, too: nothing needs to be written down.
        """
        old = self._seen(scope, project).where(t.query_log.c.asked_at < milliseconds(before))
        pruned = t.query_log.c.ord.in_(old.with_only_columns(t.query_log.c.ord))
        if marked:
            return remove_questions(self._session, pruned)
        return self._session.execute(sa.delete(t.query_log).where(pruned, t.query_log.c.feedback == "")).rowcount

    def _seen(self, scope: Scope, project: str, since: datetime | None = None) -> sa.Select[Any]:
        row = self._session.project(scope, project)
        anybodys = scope.oversees and scope.sees_all
        standalone: sa.ColumnElement[str] = t.query_log.c.standalone
        if not scope.sees_all:  # it may be rewritten with words of an answer that is withheld
            above = holding_above(scope, t.turns.c.conversation == t.query_log.c.conversation).exists()
            standalone = sa.case((above, ""), else_=standalone)
        others = [column for column in t.query_log.c if column.name != "standalone"]
        return (
            sa.select(*others, standalone.label("standalone"), t.conversations.c.id.label("in_conversation"))
            .select_from(t.query_log)
            .outerjoin(t.conversations, t.conversations.c.ord == t.query_log.c.conversation)
            .where(
                t.query_log.c.project == row.ord,
                sa.true() if anybodys else t.query_log.c.principal == scope.principal,
                *_from(since),
            )
        )


def remove_questions(session: Session, which: sa.ColumnElement[bool]) -> int:
    """Remove entries for good. Returns how many."""
    ids = session.execute(sa.select(t.query_log.c.id).where(which)).scalars().all()
    as_typed(session, which)  # after this nobody would know what a question was rewritten from
    session.execute(sa.delete(t.query_log).where(which))
    bury(session, Kind.QUESTION, ((id, "") for id in ids))
    return len(ids)


def _sums(*named: sa.ColumnElement[Any]) -> sa.Select[Any]:
    log = t.query_log.c
    unpriced = sa.and_(log.cost.is_(None), log.input_tokens + log.output_tokens > 0)
    return sa.select(
        *named,
        sa.func.count().label("questions"),
        sa.func.sum(log.input_tokens).label("input_tokens"),
        sa.func.sum(log.output_tokens).label("output_tokens"),
        sa.func.sum(log.cost).label("cost"),
        sa.func.sum(sa.case((unpriced, 1), else_=0)).label("unpriced"),
    )


def _spent(name: str, row: Row[Any]) -> Spent:
    """Sums over nothing are NULL."""
    tokens = (int(row.input_tokens or 0), int(row.output_tokens or 0))
    return Spent(name, row.questions, *tokens, _dollars(row.cost), int(row.unpriced or 0))


def _from(since: datetime | None) -> list[sa.ColumnElement[bool]]:
    return [] if since is None else [t.query_log.c.asked_at >= milliseconds(since)]


def _before(after: Cursor | None) -> list[sa.ColumnElement[bool]]:
    """Where an entry is gone by now, others of its moment come once more."""
    if after is None:
        return []
    log, others, moment = t.query_log.c, t.query_log.alias("others").c, milliseconds(after.at)
    last = sa.select(others.ord).where(others.id == storable(after.id)).scalar_subquery()
    rest = log.ord < sa.func.coalesce(last, sa.literal(LAST_KEY, sa.BigInteger))
    return [log.asked_at <= moment, sa.or_(log.asked_at < moment, rest)]


def _dollars(units: int | None) -> Decimal | None:
    return None if units is None else Decimal(int(units)) / _UNITS_PER_DOLLAR


def _units(dollars: Decimal | None) -> int | None:
    return None if dollars is None else int((dollars * _UNITS_PER_DOLLAR).to_integral_value())


def _row(entry: LogEntry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "asked_at": milliseconds(entry.asked_at),
        "kind": entry.kind,
        "question": storable(entry.question),
        "standalone": storable(entry.standalone),
        "agent": entry.agent,
        "k": entry.k,
        "chunks": json.dumps(entry.chunks),
        "cited": json.dumps(entry.cited),
        "model": entry.model,
        "profile": entry.profile,
        "retrieval_ms": entry.retrieval_ms,
        "generation_ms": entry.generation_ms,
        "input_tokens": entry.input_tokens,
        "output_tokens": entry.output_tokens,
        "cost": _units(entry.cost),
        "error": storable(entry.error),
        "feedback": entry.feedback,
        "note": storable(entry.note),
    }


def _entry(row: Row[Any]) -> LogEntry:
    return LogEntry(
        id=row.id,
        asked_at=moment(row.asked_at),
        kind=row.kind,
        question=row.question,
        standalone=row.standalone,
        agent=row.agent,
        conversation=row.in_conversation or "",
        k=row.k,
        chunks=tuple((chunk, score) for chunk, score in json.loads(row.chunks)),
        cited=tuple(json.loads(row.cited)),
        model=row.model,
        profile=row.profile,
        retrieval_ms=row.retrieval_ms,
        generation_ms=row.generation_ms,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        cost=_dollars(row.cost),
        error=row.error,
        feedback=row.feedback,
        note=row.note,
    )
