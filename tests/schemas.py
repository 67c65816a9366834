"""The schema of a new SQLite catalog without Alembic: what the migrations did to the first one of a process is done to
the next ones, statement by statement. Thousands of tests make a workspace, and most of its time went there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from ragforge.adapters.catalog.database import Database
from tests.proof import PROVING

migrate = Database._migrate
"""By Alembic, as outside of tests."""
_done: list[tuple[str, Any]] = []


@contextmanager
def replayed() -> Iterator[None]:
    """While this lasts; full proofs always migrate."""
    with pytest.MonkeyPatch.context() as patch:
        if not PROVING:
            patch.setattr(Database, "_migrate", _migrate)
        yield


def _migrate(database: Database) -> None:
    if not database.is_sqlite or database.schema_version() is not None:
        migrate(database)
        return
    with database.write() as connection:
        if sa.inspect(connection).has_table("alembic_version"):  # another process was quicker
            database.migrate_on(connection)
        elif _done:
            for statement, parameters in _done:
                connection.exec_driver_sql(statement, parameters)
        else:
            _done[:] = _recorded(database, connection)  # also if another thread did meanwhile


def _recorded(database: Database, connection: sa.Connection) -> list[tuple[str, Any]]:
    """Migrate, and say what changed the database."""
    found: list[tuple[str, Any]] = []

    def heard(_: object, cursor: object, statement: str, parameters: Any, *rest: object) -> None:
        if not statement.lstrip().upper().startswith(("SELECT", "PRAGMA")):
            found.append((statement, parameters))

    sa.event.listen(connection, "before_cursor_execute", heard)
    database.migrate_on(connection)
    sa.event.remove(connection, "before_cursor_execute", heard)
    return found
