"""Keys of those who may call a server: for the owner of the workspace, and nobody else."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Row

from ragforge.adapters.catalog import tables as t
from ragforge.adapters.catalog.tombstones import bury
from ragforge.adapters.catalog.unit import Session, milliseconds, moment, storable
from ragforge.domain.access import AccessKey, Clearance, KeyLimits, Role, Scope
from ragforge.domain.archives import Kind
from ragforge.errors import NotAllowed, NotFound


class SqlAccessKeys:
    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, scope: Scope, key: AccessKey, digest: bytes) -> None:
        _require_owner(scope)
        facts = {
            "id": key.id,
            "name": storable(key.name),
            "digest": digest,
            "role": str(key.role),
            "projects": None if key.projects is None else json.dumps(sorted(key.projects)),
            "clearance": int(key.clearance),
            "limits": json.dumps(asdict(key.limits), default=str),
            "created_at": milliseconds(key.created_at),
            "expires_at": _stored(key.expires_at),
            "revoked_at": _stored(key.revoked_at),
        }
        self._session.insert(t.access_keys, [facts])

    def get(self, scope: Scope, id: str) -> tuple[AccessKey, bytes]:
        """The key and the digest of its secret."""
        _require_owner(scope)
        row = self._session.execute(sa.select(t.access_keys).where(t.access_keys.c.id == id)).one_or_none()
        if row is None:
            raise NotFound(f"no key {id!r}", hint="ragforge keys ls")
        return _key(row), row.digest

    def all(self, scope: Scope) -> list[AccessKey]:
        """Newest first."""
        _require_owner(scope)
        newest_first = sa.select(t.access_keys).order_by(t.access_keys.c.created_at.desc(), t.access_keys.c.id)
        return [_key(row) for row in self._session.execute(newest_first)]

    def revoke(self, scope: Scope, id: str) -> AccessKey:
        """Once revoked, it stays so from that moment."""
        self.get(scope, id)
        now = sa.func.coalesce(t.access_keys.c.revoked_at, self._session.now())
        self._session.execute(sa.update(t.access_keys).where(t.access_keys.c.id == id).values(revoked_at=now))
        bury(self._session, Kind.KEY, [(id, "")])
        return self.get(scope, id)[0]


def _require_owner(scope: Scope) -> None:
    if not scope.owns:
        raise NotAllowed("keys belong to whoever owns the workspace", hint="use the command line of the server")


def _stored(value: datetime | None) -> int | None:
    return None if value is None else milliseconds(value)


def _key(row: Row[Any]) -> AccessKey:
    limits = json.loads(row.limits)
    cost = limits.pop("cost_per_day")
    return AccessKey(
        id=row.id,
        name=row.name,
        role=Role(row.role),
        projects=None if row.projects is None else frozenset(json.loads(row.projects)),
        clearance=Clearance(row.clearance),
        created_at=moment(row.created_at),
        expires_at=None if row.expires_at is None else moment(row.expires_at),
        revoked_at=None if row.revoked_at is None else moment(row.revoked_at),
        limits=KeyLimits(**limits, cost_per_day=None if cost is None else Decimal(cost)),
    )
