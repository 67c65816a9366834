"""The change log: what the indexes follow."""

from __future__ import annotations

import sqlalchemy as sa

from ragforge.adapters.catalog import tables as t
from ragforge.adapters.catalog.unit import Session
from ragforge.domain.access import Scope
from ragforge.domain.library import Change, Op


class SqlChanges:
    def __init__(self, session: Session) -> None:
        self._session = session

    def since(self, scope: Scope, project: str, seq: int, limit: int) -> list[Change]:
        row = self._session.project(scope, project)
        statement = (
            sa.select(t.changes)
            .where(t.changes.c.project == row.ord, t.changes.c.seq > seq)
            .order_by(t.changes.c.seq)
            .limit(limit)
        )
        return [Change(r.seq, Op(r.op), r.document, r.chunk) for r in self._session.execute(statement)]

    def last(self, scope: Scope, project: str) -> int:
        row = self._session.project(scope, project)
        statement = sa.select(sa.func.max(t.changes.c.seq)).where(t.changes.c.project == row.ord)
        return int(self._session.execute(statement).scalar() or 0)

    def prune(self, scope: Scope, project: str) -> int:
        """Forget what every follower has applied. The newest line stays: it tells how far the log has come."""
        row = self._session.project(scope, project)
        slowest = sa.select(sa.func.min(t.index_states.c.watermark)).where(t.index_states.c.project == row.ord)
        watermark = self._session.execute(slowest).scalar()
        newest = self.last(scope, project)
        passed = newest - 1 if watermark is None else min(int(watermark), newest - 1)
        result = self._session.execute(
            sa.delete(t.changes).where(t.changes.c.project == row.ord, t.changes.c.seq <= passed)
        )
        return int(result.rowcount)
