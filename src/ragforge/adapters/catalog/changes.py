"""How far each index has followed the change log, and how much of it is still needed."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa

from ragforge.adapters.catalog import tables as t
from ragforge.adapters.catalog.unit import Session
from ragforge.domain.access import Scope


class SqlChanges:
    def __init__(self, session: Session) -> None:
        self._session = session

    def prune(self, scope: Scope, project: str) -> int:
        """Forget what every follower has applied. The newest line stays: it tells how far the log has come."""
        row = self._session.project(scope, project)
        slowest = sa.select(sa.func.min(t.index_states.c.watermark)).where(t.index_states.c.project == row.ord)
        watermark = self._session.execute(slowest).scalar()
        last = sa.select(sa.func.max(t.changes.c.seq)).where(t.changes.c.project == row.ord)
        newest = int(self._session.execute(last).scalar() or 0)
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

    def unfollow(self, scope: Scope, project: str, generations: Collection[int], engines: Collection[str]) -> None:
        """Indexes of other generations and other engines are gone: the log need not be kept for them."""
        row = self._session.project(scope, project)
        state = t.index_states.c
        gone = state.generation.not_in(generations) | state.engine.not_in(engines)
        self._session.execute(sa.delete(t.index_states).where(state.project == row.ord, gone))
