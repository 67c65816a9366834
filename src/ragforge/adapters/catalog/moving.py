"""A catalog's move to another database: the one that is left, and the one that is filled."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Table
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from ragforge.adapters.catalog import tables as t
from ragforge.adapters.catalog.database import HEAD, Database
from ragforge.adapters.catalog.dump import holds_nothing
from ragforge.adapters.catalog.moved import (
    END_ALL,
    MOVED,
    PATIENCE,
    UNFINISHED,
    drop_notes,
    has_tables,
    locked,
    make_notes,
    moved_notes,
    notes_of,
    put_note,
    refuse_writing,
    set_aside,
    set_version,
    take_rows_again,
    today,
)
from ragforge.domain.migration import CatalogRow, Copied, TargetState, is_same_place
from ragforge.errors import Busy, RagforgeError, StoreError, UserError
from ragforge.failpoints import failpoint
from ragforge.ports import CatalogSource, CatalogTarget

_TABLE = "table "
"""Begins the name of a note that tells how much of a table is there."""
_ROWS = 500
_NUMBERED = {"changes": "seq", "embeddings": "ord"}
"""Tables whose keys the database itself gives."""


class SqlSource:
    """A catalog that is to be left, inside a transaction in which nobody else is in it."""

    def __init__(self, database: Database, connection: Connection, address: str) -> None:
        self.address = address
        self.schema = HEAD
        self._database = database
        self._connection = connection

    @property
    def sizes(self) -> Mapping[str, int]:
        """Every table in an order in which they can be filled, and how many rows it has."""
        return {
            table.name: int(self._connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())
            for table in t.metadata.sorted_tables
        }

    def rows(self, table: str, after: int = 0, most: int | None = None) -> Iterator[CatalogRow]:
        """In the order of their keys, without the first `after` of them."""
        return _rows(self._connection, t.metadata.tables[table], after, most)

    def last_numbers(self) -> Mapping[str, int]:
        """The last key that the database gave to each table that it numbers, also if its row is gone."""
        return {table: self._last_number(table, column) for table, column in _NUMBERED.items()}

    def _last_number(self, table: str, column: str) -> int:
        source = t.metadata.tables[table]
        highest = int(self._connection.execute(sa.select(sa.func.max(source.c[column]))).scalar() or 0)
        if self._database.is_sqlite:
            given = "SELECT seq FROM sqlite_sequence WHERE name = :table"
        else:
            sequence = self._connection.execute(_sequence_of(table, column)).scalar_one()
            given = f"SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {sequence}"  # noqa: S608 - its own name
        return max(highest, int(self._connection.execute(sa.text(given), {"table": table}).scalar() or 0))

    def seal(self, target: str) -> None:
        """It opens no more when the block has ended, and says where it went; on a server it takes no row either."""
        drop_notes(self._connection)
        make_notes(self._connection, {"to": target, "at": today(), "schema": HEAD})
        set_version(self._connection, MOVED)
        if not self._database.is_sqlite:
            take_rows_again(self._connection)  # an earlier run may have sealed it
            refuse_writing(self._connection)


@contextlib.contextmanager
def leaving(database: Database, address: str, target: str) -> Iterator[CatalogSource]:
    """The catalog of this database, locked for all others. One that was sealed for the same target opens, too."""
    with locked(database):
        notes = moved_notes(database)
        is_sealed = is_same_place(notes.get("to", ""), target) and notes["schema"] == HEAD and has_tables(database)
        if not is_sealed:
            database.upgrade()  # refuses one that went elsewhere
        with database.write() as connection:
            _lock_tables(database, connection)
            yield SqlSource(database, connection, address)


class SqlTarget:
    """Where a catalog is moved to. Nobody can open it until it is finished."""

    def __init__(self, database: Database, address: str) -> None:
        self.address = address
        self._database = database

    @property
    def state(self) -> TargetState:
        if self._database.path is not None and not self._database.path.exists():
            return TargetState.EMPTY
        version = self._database.schema_version()
        if version == UNFINISHED:
            return TargetState(notes_of(self._database)["state"])
        if version == MOVED:
            return TargetState.LEFT
        with self._database.read() as connection:
            _require_ours(connection, version)
            return TargetState.EMPTY if holds_nothing(connection) else TargetState.FINISHED

    def copied(self) -> Mapping[str, Copied]:
        """What is here of each table."""
        notes = notes_of(self._database).items()
        return {name.removeprefix(_TABLE): _copied(value) for name, value in notes if name.startswith(_TABLE)}

    def told(self, name: str) -> str:
        """What was noted when it began: `workspace`, `from`, `schema`."""
        return notes_of(self._database).get(name, "")

    def begin(self, facts: Mapping[str, str]) -> None:
        """Tables that hold nothing, and a note that they are being filled, in one step."""
        state = self.state
        if state == TargetState.FINISHED:
            raise UserError("a catalog is there already", hint="make an empty database and name that")
        if state == TargetState.LEFT:
            self._make_room()
        with self._database.write() as connection:
            _remove_tables(connection)
            self._database.migrate_on(connection)
            set_version(connection, UNFINISHED)
            make_notes(connection, {**facts, "to": self.address, "at": today(), "schema": HEAD})
            put_note(connection, "state", TargetState.COPYING)

    def _make_room(self) -> None:
        if self._database.is_sqlite:
            set_aside(self._database, "")
            return
        raise UserError(
            f"the database still holds a catalog that was moved to {notes_of(self._database)['to']}",
            hint="make another database, or drop this one and make it anew",
        )

    def add(self, table: str, rows: Sequence[CatalogRow], so_far: Copied) -> None:
        """Some rows, with the note that they are here, in one step."""
        target = t.metadata.tables[table]
        with self._database.write() as connection:
            try:
                (_insert if self._database.is_sqlite else _copy)(connection, target, rows)
            except (IntegrityError, DataError) as problem:
                raise _not_taken(target, rows, problem) from problem
            failpoint("migrate.adding")
            put_note(connection, f"{_TABLE}{table}", json.dumps([so_far.rows, so_far.checksum]))

    def rows(self, table: str) -> Iterator[CatalogRow]:
        with self._database.read() as connection:
            yield from _rows(connection, t.metadata.tables[table])

    def note(self, state: TargetState) -> None:
        with self._database.write() as connection:
            put_note(connection, "state", state)

    def settle(self, last_numbers: Mapping[str, int]) -> None:
        """Keys that the database gives come after these; a server knows how its tables are filled."""
        with self._database.write() as connection:
            if self._database.is_sqlite:
                _number_file(connection, last_numbers)
                return
            for table, number in last_numbers.items():
                sequence = connection.execute(_sequence_of(table, _NUMBERED[table])).scalar_one()
                connection.execute(sa.select(sa.func.setval(sequence, max(number, 1), number > 0)))
            connection.exec_driver_sql(f"ANALYZE {', '.join(t.metadata.tables)}")

    def finish(self) -> None:
        """From now on it is a catalog like any other."""
        with self._database.write() as connection:
            drop_notes(connection)
            set_version(connection, HEAD)

    def opens_without_password(self) -> bool:
        """Whether whoever does not tell a password gets in as well: by a file of passwords, or by trust."""
        if self._database.is_sqlite:
            return True
        other = Database.postgres(self.address, 1, 0.0)
        try:
            with other.read():
                return True
        except StoreError:
            return False
        finally:
            other.close()


@contextlib.contextmanager
def filling(database: Database, address: str) -> Iterator[CatalogTarget]:
    """The place to which a catalog is moved, locked for all others."""
    with locked(database):
        yield SqlTarget(database, address)


def _lock_tables(database: Database, connection: Connection) -> None:
    """Others may read a server's tables, but not write them, until the transaction ends."""
    if database.is_sqlite:
        return
    names = ", ".join(["alembic_version", *t.metadata.tables])
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{PATIENCE:.0f}s'")
    try:
        connection.exec_driver_sql(f"LOCK TABLE {names} IN SHARE ROW EXCLUSIVE MODE")
    except DBAPIError as problem:
        if "lock timeout" not in str(problem.orig):
            raise
        raise Busy("somebody is writing in the database", hint=END_ALL) from problem


# -- rows


def _rows(connection: Connection, table: Table, after: int = 0, most: int | None = None) -> Iterator[CatalogRow]:
    floats = [place for place, column in enumerate(table.columns) if isinstance(column.type, sa.Float)]
    wanted = sa.select(table).order_by(*_key(connection, table)).offset(after).limit(most)
    with connection.execute(wanted.execution_options(yield_per=_ROWS)) as found:
        for row in found:
            yield _without_signed_zeros(row, floats) if floats else tuple(row)


def _key(connection: Connection, table: Table) -> list[sa.ColumnElement[Any]]:
    """In the same order everywhere: texts by their bytes, not as a language sorts them."""
    is_postgres = connection.dialect.name == "postgresql"
    return [
        sa.collate(column, "C") if is_postgres and isinstance(column.type, sa.Text) else column
        for column in table.primary_key.columns
    ]


def _without_signed_zeros(row: Sequence[Any], floats: Sequence[int]) -> CatalogRow:
    """SQLite keeps no sign of zero."""
    values = list(row)
    for place in floats:
        if values[place] is not None:
            values[place] += 0.0
    return tuple(values)


def _insert(connection: Connection, table: Table, rows: Sequence[CatalogRow]) -> None:
    marks = ", ".join(["?"] * len(table.columns))
    names = _names(connection, table)
    connection.exec_driver_sql(f"INSERT INTO {table.name} ({names}) VALUES ({marks})", list(rows))  # noqa: S608


def _copy(connection: Connection, table: Table, rows: Sequence[CatalogRow]) -> None:
    """As a stream, which is how a server takes many rows: into a table of this transaction, because none that
    row-level security guards takes a stream."""
    driver: Any = connection.connection.driver_connection
    errors = connection.dialect.loaded_dbapi.Error
    names = _names(connection, table)
    connection.exec_driver_sql(f"CREATE TEMPORARY TABLE arriving (LIKE {table.name}) ON COMMIT DROP")
    statement = f"COPY arriving ({names}) FROM STDIN (FORMAT BINARY)"
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types([_server_type(connection, column) for column in table.columns])
            for row in rows:
                copy.write_row(row)
    except errors as problem:
        raise DBAPIError.instance(statement, None, problem, errors) from problem
    connection.exec_driver_sql(f"INSERT INTO {table.name} ({names}) SELECT {names} FROM arriving")  # noqa: S608


def _server_type(connection: Connection, column: sa.Column[Any]) -> str:
    return str(column.type.compile(connection.dialect)).lower().replace("float", "double precision")


def _names(connection: Connection, table: Table) -> str:
    return ", ".join(connection.dialect.identifier_preparer.quote(column.name) for column in table.columns)


def _not_taken(table: Table, rows: Sequence[CatalogRow], problem: DBAPIError) -> RagforgeError:
    """Which row it is, where that can be told: text with NUL, which only SQLite takes."""
    why = str(problem.orig).splitlines()[0] if str(problem.orig) else "it gave no reason"
    for row in rows:
        if any(isinstance(value, str) and "\x00" in value for value in row):
            keys = [row[place] for place, column in enumerate(table.columns) if column.primary_key]
            why = f"the row {', '.join(map(str, keys))} has the character NUL in a text"
    return StoreError(
        f"the database does not take rows of {table.name}: {why}",
        hint="nothing was changed in the workspace: mend or remove what it is of, then try again",
    )


def _number_file(connection: Connection, last_numbers: Mapping[str, int]) -> None:
    for table, number in last_numbers.items():
        if t.metadata.tables[table].dialect_kwargs.get("sqlite_autoincrement"):
            connection.exec_driver_sql("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
            connection.exec_driver_sql("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table, number))


def _sequence_of(table: str, column: str) -> sa.Select[Any]:
    return sa.select(sa.func.pg_get_serial_sequence(table, column))


def _copied(note: str) -> Copied:
    rows, checksum = json.loads(note)
    return Copied(rows, checksum)


# -- tables


def _require_ours(connection: Connection, version: str | None) -> None:
    """Tables of the same names can be somebody else's: those are not touched."""
    there = set(sa.inspect(connection).get_table_names())
    ours = there & set(t.metadata.tables)
    if (version is None and ours) or (version is not None and not {"projects", "counters"} <= ours):
        raise UserError(
            f"the database has tables that are not ragforge's: {', '.join(sorted(ours or {'alembic_version'}))}",
            hint="make an empty database and name that",
        )


def _remove_tables(connection: Connection) -> None:
    there = set(sa.inspect(connection).get_table_names())
    for table in reversed(t.metadata.sorted_tables):
        if table.name in there:
            table.drop(connection)
    if "alembic_version" in there:
        connection.exec_driver_sql("DROP TABLE alembic_version")
    drop_notes(connection)
