"""A new SQLite catalog without Alembic: what the migrations made of the first one of a process is made in the next
ones. And each SQL statement is compiled once for all of them. Thousands of tests make a workspace, and most of its time
went there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.util import LRUCache

from ragforge.adapters.catalog.database import Database
from tests.proof import PROVING

migrate = Database._migrate
"""By Alembic, as outside of tests."""
_made: list[tuple[str, tuple[Any, ...]]] = []


@contextmanager
def replayed() -> Iterator[None]:
    """While this lasts; full proofs always migrate, and each of their catalogs compiles for itself."""
    with pytest.MonkeyPatch.context() as patch:
        if not PROVING:
            patch.setattr(Database, "_migrate", _migrate)
            patch.setattr(Database, "sqlite", _sharing(Database.sqlite))
        yield


# -- the schema


def _migrate(database: Database) -> None:
    if not database.is_sqlite or database.schema_version() is not None:
        migrate(database)
        return
    with database.write() as connection:
        if sa.inspect(connection).has_table("alembic_version"):  # another process was quicker
            database.migrate_on(connection)
        elif _made:
            cursor = connection.connection.cursor()
            for statement, parameters in _made:
                cursor.execute(statement, parameters)
            cursor.close()
        else:
            database.migrate_on(connection)
            _made[:] = _content(connection)  # also if another thread did meanwhile


def _content(connection: sa.Connection) -> list[tuple[str, tuple[Any, ...]]]:
    """What makes the same in an empty database: the statements as SQLite keeps them, and the rows there are."""
    kept = connection.exec_driver_sql(
        "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        " ORDER BY rowid"
    ).all()
    rows: list[tuple[str, tuple[Any, ...]]] = []
    for name in (each.name for each in kept if each.type == "table"):
        for row in connection.exec_driver_sql(f'SELECT * FROM "{name}"'):
            rows.append((f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(row))})', tuple(row)))
    return [(each.sql, ()) for each in kept] + rows


# -- the statements


class _Compiled(LRUCache[Any, Any]):
    """By everything but the engine's own dialect, which is the first part of a key: SQLite's are all alike."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(key[1:], default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key[1:], value)


_compiled = _Compiled(2_000)


def _sharing(opened: Any) -> Any:
    @wraps(opened.__func__)
    def sqlite(cls: type[Database], path: Path, busy_seconds: float) -> Database:
        database: Database = opened(path, busy_seconds)
        database.engine.update_execution_options(compiled_cache=_compiled)
        return database

    return classmethod(sqlite)
