"""What was removed for good: written with each removal, and done again where an older backup was restored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

import sqlalchemy as sa

from ragforge.adapters.catalog import tables as t
from ragforge.adapters.catalog.unit import Session, batches, milliseconds, moment
from ragforge.domain.access import Scope
from ragforge.domain.archives import Kind, Tombstone
from ragforge.errors import NotAllowed


class SqlTombstones:
    def __init__(self, session: Session) -> None:
        self._session = session

    def all(self, scope: Scope, after: int = 0) -> list[Tombstone]:
        """Those beyond a number, in their order."""
        _require_owner(scope)
        found = sa.select(t.tombstones).where(t.tombstones.c.ord > after).order_by(t.tombstones.c.ord)
        return [
            Tombstone(row.ord, Kind(row.kind), row.id, row.sha256, moment(row.removed_at))
            for row in self._session.execute(found)
        ]

    def put(self, scope: Scope, tombstones: Sequence[Tombstone]) -> None:
        """Those of another catalog, under numbers of this one."""
        _require_owner(scope)
        for (kind, at), alike in groupby(tombstones, lambda each: (each.kind, each.removed_at)):
            _write(self._session, kind, ((each.id, each.sha256) for each in alike), milliseconds(at))


def bury(session: Session, kind: Kind, removed: Iterable[tuple[str, str]]) -> None:
    """Write down ids (and a document's sha256), in the transaction that removes them."""
    _write(session, kind, removed, session.now())


def _write(session: Session, kind: Kind, removed: Iterable[tuple[str, str]], at: int) -> None:
    """One that was removed before and came back, as an import can bring it, is written anew."""
    for some in batches(removed):
        rows = [
            {"ord": key, "kind": str(kind), "id": id, "sha256": sha256, "removed_at": at}
            for key, (id, sha256) in zip(session.keys(t.tombstones, len(some)), some, strict=True)
        ]
        known = (t.tombstones.c.kind == str(kind), t.tombstones.c.id.in_([id for id, _ in some]))
        session.execute(sa.delete(t.tombstones).where(*known))
        session.insert(t.tombstones, rows)


def _require_owner(scope: Scope) -> None:
    if not scope.owns:
        raise NotAllowed("only the workspace's owner may know what was removed", hint="ask its owner")
