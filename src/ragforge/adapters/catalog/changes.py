"""The change log, and how far each index has followed it."""

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
        behind = (t.projects.c.ord == row.ord, t.projects.c.forgotten < passed)
        self._session.execute(sa.update(t.projects).where(*behind).values(forgotten=passed))
        return int(result.rowcount)

    def follow(self, scope: Scope, project: str, engine: str, generation: int, fingerprint: str, seq: int) -> None:
        """An index has applied the log up to `seq`; what it has passed may be pruned."""
        row = self._session.project(scope, project)
        key = {"project": row.ord, "collection": "documents", "engine": engine, "generation": generation}
        where = [t.index_states.c[name] == value for name, value in key.items()]
        state = {"fingerprint": fingerprint, "watermark": seq, "updated_at": self._session.now()}
        if not self._session.execute(sa.update(t.index_states).where(*where).values(state)).rowcount:
            self._session.insert_new(t.index_states, [{**key, **state}])

    def followed(self, scope: Scope, project: str, engine: str, generation: int) -> int:
        """How far we were told that an index is; -1 if never."""
        row = self._session.project(scope, project)
        state = t.index_states.c
        where = (state.project == row.ord, state.engine == engine, state.generation == generation)
        watermark = self._session.execute(sa.select(state.watermark).where(*where)).scalar()
        return -1 if watermark is None else int(watermark)

    def unfollow(self, scope: Scope, project: str, keep: int) -> None:
        """Indexes of other generations than `keep` are gone."""
        row = self._session.project(scope, project)
        others = (t.index_states.c.project == row.ord, t.index_states.c.generation != keep)
        self._session.execute(sa.delete(t.index_states).where(*others))
