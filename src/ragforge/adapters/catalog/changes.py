"""How far each index has followed the change log, and how much of it is still needed; which machines there are.

An index that each machine has for itself is known as `engine@node`, one on a server as `engine`. Beside them each
machine keeps how far it has looked for what others removed, as `removals/role@node`.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

import sqlalchemy as sa

from ragforge.adapters.catalog import tables as t
from ragforge.adapters.catalog.unit import Session, moment, storable
from ragforge.domain.access import Scope
from ragforge.domain.library import REMOVALS, SERVER, Node, Op, Topic
from ragforge.errors import NotAllowed

_AWAY = timedelta(days=1) // timedelta(milliseconds=1)
"""The log is not kept for a machine that was away for so long: it builds its indexes anew when it is back."""


class SqlChanges:
    def __init__(self, session: Session) -> None:
        self._session = session

    def prune(self, scope: Scope, project: str) -> int:
        """Forget what every follower has applied. The newest line stays: it tells how far the log has come."""
        row = self._session.project(scope, project)
        away = _away(self._session.now() - _AWAY)
        newest = self._last(row.ord)  # before asking: who begins to follow meanwhile reads at least so far
        slowest = sa.select(sa.func.min(t.index_states.c.watermark)).where(t.index_states.c.project == row.ord, ~away)
        watermark = self._session.execute(slowest).scalar()
        passed = newest - 1 if watermark is None else min(int(watermark), newest - 1)
        result = self._session.execute(
            sa.delete(t.changes).where(t.changes.c.project == row.ord, t.changes.c.seq <= passed)
        )
        behind = (t.projects.c.ord == row.ord, t.projects.c.forgotten < passed)
        self._session.execute(sa.update(t.projects).where(*behind).values(forgotten=passed))
        return int(result.rowcount)

    def renew(self, scope: Scope, project: str, generation: int | None = None) -> int:
        """Every index of a generation, the live one unless another is named, is to be built anew, wherever it is.

        Returns the line that says so.
        """
        row = self._session.project(scope, project)
        self._session.lock(row.ord)
        number = row.generation if generation is None else generation
        line = {"project": row.ord, "op": str(Op.GENERATION), "document": number, "chunk": None}
        self._session.insert(t.changes, [line])
        self._session.tell(Topic.CHANGES, row.ord)
        return self._last(row.ord)

    def follow(self, scope: Scope, project: str, engine: str, generation: int, fingerprint: str, seq: int) -> None:
        """An index has applied the log up to `seq`; what it has passed may be pruned. -1: all of the log is needed."""
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
        """Indexes of other generations and other engines are gone: the log need not be kept for them.

        What other machines have is theirs. One on a server may be theirs, too, until nobody brought it up for a day.
        """
        row = self._session.project(scope, project)
        state = t.index_states.c
        nodes = {engine.partition("@")[2] for engine in engines if "@" in engine}
        theirs = sa.and_(state.engine.contains("@"), *(~state.engine.endswith(f"@{node}") for node in nodes))
        if nodes:
            is_left = (state.watermark < self._last(row.ord)) & (state.updated_at < self._session.now() - _AWAY)
            theirs |= ~state.engine.contains("@") & ~is_left
        gone = state.generation.not_in(generations) | (state.engine.not_in(engines) & ~theirs)
        self._session.execute(sa.delete(t.index_states).where(state.project == row.ord, gone))

    def newest(self, scope: Scope) -> dict[str, int]:
        """How far the log of each project has come."""
        last = sa.select(t.projects.c.id, sa.func.max(t.changes.c.seq))
        found = self._session.execute(
            last.join(t.changes, t.changes.c.project == t.projects.c.ord).group_by(t.projects.c.id)
        )
        return {project: int(seq) for project, seq in found if scope.reaches(project)}

    def _last(self, project: int) -> int:
        last = sa.select(sa.func.max(t.changes.c.seq)).where(t.changes.c.project == project)
        return int(self._session.execute(last).scalar() or 0)


class SqlNodes:
    def __init__(self, session: Session) -> None:
        self._session = session

    def seen(self, scope: Scope, id: str, host: str, role: str, version: str) -> None:
        """A machine is there, and what it does."""
        _require_owner(scope)
        its = (t.nodes.c.id == id, t.nodes.c.role == role)
        values = {"host": storable(host), "version": version, "seen_at": self._session.now()}
        if not self._session.execute(sa.update(t.nodes).where(*its).values(values)).rowcount:
            self._session.insert_new(t.nodes, [{"id": id, "role": role, **values}])

    def all(self, scope: Scope) -> list[Node]:
        """The machines that were there, whoever was seen last first."""
        _require_owner(scope)
        state, projects = t.index_states.c, t.projects.c
        newest = sa.select(sa.func.max(t.changes.c.seq)).where(t.changes.c.project == projects.ord).scalar_subquery()
        behind = (
            sa.select(sa.func.coalesce(sa.func.sum(newest - state.watermark), 0))
            .join(t.projects, sa.and_(projects.ord == state.project, projects.generation == state.generation))
            .where(state.engine.endswith("@" + t.nodes.c.id), ~state.engine.startswith(REMOVALS))
            .scalar_subquery()
        )
        rows = self._session.execute(sa.select(t.nodes, behind.label("behind")).order_by(t.nodes.c.seen_at.desc()))
        return [Node(row.id, row.host, row.role, row.version, moment(row.seen_at), int(row.behind)) for row in rows]

    def forget(self, scope: Scope) -> int:
        """Machines that were away for long, and how far their indexes were."""
        _require_owner(scope)
        lost = self._session.now() - 7 * _AWAY
        self._session.execute(sa.delete(t.index_states).where(_away(lost)))
        return int(self._session.execute(sa.delete(t.nodes).where(t.nodes.c.seen_at < lost)).rowcount)


def _away(since: int) -> sa.ColumnElement[bool]:
    """Indexes of machines that neither followed nor were seen to serve since then."""
    state = t.index_states.c
    serves = sa.and_(t.nodes.c.role == SERVER, t.nodes.c.seen_at >= since)
    seen = sa.exists().where(serves, state.engine.endswith("@" + t.nodes.c.id))
    return sa.and_(state.engine.contains("@"), state.updated_at < since, ~seen)


def _require_owner(scope: Scope) -> None:
    if not scope.owns:
        raise NotAllowed("machines are for whoever owns the workspace", hint="ask its owner")
