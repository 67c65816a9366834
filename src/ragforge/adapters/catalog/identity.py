"""By what a catalog is known where it keeps files: a random number, given when it is first asked for.

It lies among the numbers that every copy takes along, so a catalog that was moved or restored is still the same. Beside
it stands which places it has claimed. A backup leaves that out: it may be restored because such a place was lost.
"""

from __future__ import annotations

import secrets

import sqlalchemy as sa

from ragforge.adapters.catalog import tables as t
from ragforge.adapters.catalog.unit import Session

_NAME = "identity of the catalog"
_CLAIM = "claim of "
IS_CLAIM = t.counters.c.name.startswith(_CLAIM)


def known_identity(session: Session) -> str:
    """Empty if nobody asked for it yet."""
    value = session.execute(sa.select(t.counters.c.value).where(t.counters.c.name == _NAME)).scalar()
    return "" if value is None else f"{value:016x}"


def identity(session: Session) -> str:
    """Of those who ask at once, all get the same."""
    session.insert_new(t.counters, [{"name": _NAME, "value": secrets.randbits(63)}])
    return known_identity(session)


def has_claimed(session: Session, place: str) -> bool:
    found = sa.select(t.counters.c.value).where(t.counters.c.name == _CLAIM + place)
    return session.execute(found).scalar() is not None


def note_claim(session: Session, place: str) -> None:
    session.insert_new(t.counters, [{"name": _CLAIM + place, "value": 1}])
