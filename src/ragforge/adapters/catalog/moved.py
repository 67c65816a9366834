"""A catalog that was moved to another database, or is being moved: its notes, its locks, and what is left behind.

Both ends keep notes in a table of their own, and say by their schema's version that they are no catalog just now: so
neither this ragforge nor an older one opens them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Table, event

from ragforge.adapters.catalog import tables as t
from ragforge.adapters.catalog.database import HEAD, Database
from ragforge.adapters.postgres import AdvisoryLock
from ragforge.domain.migration import SQLITE, is_same_place
from ragforge.durable import sync
from ragforge.errors import Busy, RagforgeError, StoreError, Unreachable, UserError, cannot_write

MOVED, UNFINISHED = "moved", "unfinished"
"""Versions of a schema that is no catalog's: they sort after all others, so that older programs refuse them too."""
PATIENCE = 3.0
"""Seconds in which a command that is just ending may end."""
END_ALL = "end it first: ragforge serve, worker, ui, mcp and chat, and programs that use it, on every machine"
_NOTES = "ragforge_migration"
_LOCK = "ragforge migration"
_LOOK_AGAIN = 0.05


def server_end(url: str) -> Database:
    """A database on a server, whose connections are told from those of others."""
    database = Database.postgres(url, 2, PATIENCE)

    @event.listens_for(database.engine, "connect")
    def _name(connection: Any, _record: object) -> None:
        before, connection.autocommit = connection.autocommit, True
        connection.execute("SET application_name = 'ragforge migrate'")
        connection.autocommit = before

    return database


def file_end(path: Path) -> Database:
    """A database in a file that no other connection has open, as long as one of ours has."""
    database = Database.sqlite(path, PATIENCE)

    @event.listens_for(database.engine, "connect", insert=True)
    def _keep_others_out(connection: Any, _record: object) -> None:
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")  # before the file is looked at: so readers are kept out too

    return database


# -- nobody else


@contextlib.contextmanager
def locked(database: Database) -> Iterator[None]:
    """Nobody else moves a catalog from or to here, and no ragforge is connected."""
    try:
        if database.path is not None:
            try:
                if database.path.exists():
                    database.schema_version()  # the connection stays open in the pool, and its lock with it
            except Busy:
                raise Busy("somebody has the workspace open", hint=END_ALL) from None
            yield
            return
        lock = AdvisoryLock(database.engine, _LOCK)
        _require_answer(database)
        if not _soon(lambda: lock.acquire(blocking=False)):
            raise Busy("a catalog is being moved from or to this database", hint="wait for it to end, then try again")
        try:
            if not _soon(lambda: not _connected(database)):
                hosts = ", ".join(_connected(database))
                raise Busy(f"ragforge is connected to the database, from {hosts}", hint=END_ALL)
            yield
        finally:
            lock.release()
    finally:
        database.close()


def _require_answer(database: Database) -> None:
    """A server that answers, but with a refusal, is told apart from one that is away."""
    try:
        with database.read():
            pass
    except Unreachable as problem:
        _, refused, why = str(problem.__cause__).partition("FATAL: ")
        if not refused:
            raise
        raise UserError(
            f"the database server refuses: {why.splitlines()[0].strip()}",
            hint="make the database and its user first, or correct the address or its password",
        ) from problem


def _soon(is_so: Callable[[], bool]) -> bool:
    """Whether it is so within a few seconds: of a process that was killed, the server hears a little later."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_AGAIN)
    return True


def _connected(database: Database) -> list[str]:
    """The machines from which ragforge is connected, for anything else than a move."""
    others = "SELECT DISTINCT COALESCE(host(client_addr), 'this machine') FROM pg_stat_activity"
    where = "WHERE datname = current_database() AND application_name = 'ragforge'"
    with database.read() as connection:
        return sorted(connection.exec_driver_sql(f"{others} {where}").scalars())


# -- what is left behind


def went_to(database: Database) -> str:
    """Where a catalog says that it went; empty if it is still here."""
    with locked(database):
        return moved_notes(database).get("to", "")


def moved_notes(database: Database) -> Mapping[str, str]:
    """Of a catalog that went elsewhere, or of the sign that stays in its place; else none."""
    notes = notes_of(database)
    return notes if notes and database.schema_version() == MOVED else {}


def clear_away(database: Database, target: str) -> Path | None:
    """Put the file of a catalog that went to this target among the backups, and leave a sign in its place.

    Returns where it is now; None if nothing was left to do.
    """
    assert database.path is not None
    if not database.path.exists():
        _leave_sign(database.path, target)
        return None
    with locked(database):
        went, is_sign = moved_notes(database).get("to", ""), not has_tables(database)
        if went and is_sign != is_same_place(went, target):
            return set_aside(database, target)
    return None


def set_aside(database: Database, target: str) -> Path | None:
    """Put the file of a catalog that has moved among the backups; what stays in its place says where it went.

    Without a target nothing stays. Returns where it is now; None if there was only such a sign.
    """
    path = database.path
    assert path is not None
    is_sign = not has_tables(database)
    database.close()  # the write-ahead log is in the file then, and gone
    kept = None if is_sign else _free_name(path)
    try:
        if kept is None:
            path.unlink()
        else:
            kept.parent.mkdir(exist_ok=True)
            path.rename(kept)
            sync(kept.parent)
        sync(path.parent)
    except OSError as problem:
        raise cannot_write(path, problem) from problem
    if target:
        _leave_sign(path, target)
    return kept


def has_tables(database: Database) -> bool:
    """False of a sign that a catalog was here."""
    with database.read() as connection:
        return sa.inspect(connection).has_table(t.projects.name)


def _free_name(path: Path) -> Path:
    stamp, number = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}", 1
    while (kept := path.parent / "backups" / f"catalog-before-migration-{stamp}-{number}.db").exists():
        number += 1
    return kept


def _leave_sign(path: Path, target: str) -> None:
    """A catalog without tables that says where the real one is: else a new one would be made by mistake."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    sign = Database.sqlite(new, PATIENCE)
    with sign.write() as connection:
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
        connection.exec_driver_sql("INSERT INTO alembic_version VALUES (?)", (MOVED,))
        make_notes(connection, {"to": target, "at": today(), "schema": HEAD})
    sign.close()
    try:
        new.rename(path)
        sync(path.parent)
    except OSError as problem:
        raise cannot_write(path, problem) from problem


def take_back(database: Database) -> str:
    """Let a catalog that has moved be used again, as it was then. Returns where it had gone."""
    with locked(database):
        notes = moved_notes(database)
        if not notes:
            raise UserError("the catalog that the settings name has not moved", hint="ragforge doctor tells about it")
        if not has_tables(database):
            raise UserError(
                f"the catalog itself is not here: it was moved to {notes['to']}, and what it was is among the backups",
                hint="copy backups/catalog-before-migration-….db to catalog.db, then run it again",
            )
        with database.write() as connection:
            if not database.is_sqlite:
                take_rows_again(connection)
            drop_notes(connection)
            set_version(connection, notes["schema"])
        return notes["to"]


def refusal(database: Database) -> RagforgeError:
    """Why a database of such a version is not opened, and what to do."""
    notes = notes_of(database)
    target = notes.get("to", "")
    if database.schema_version() == UNFINISHED:
        return StoreError(
            f"the catalog is being moved here from {notes.get('from', 'elsewhere')}, and that is not finished",
            hint=f"ragforge migrate --to {target} goes on with it",
        )
    where = "catalog.db of the workspace" if target == SQLITE else target
    settings = (
        "take store.database_url out of the settings" if target == SQLITE else f"set store.database_url to {target}"
    )
    return StoreError(
        f"the catalog was moved from here to {where} on {notes.get('at', 'another day')}",
        hint=f"{settings}; or go on with what is here, as it was then: ragforge migrate --take-back",
    )


# -- notes


_notes_table = Table(
    _NOTES, sa.MetaData(), sa.Column("name", sa.Text, primary_key=True), sa.Column("value", sa.Text, nullable=False)
)


def notes_of(database: Database) -> dict[str, str]:
    """All of them; none in a catalog like any other."""
    if database.path is not None and not database.path.exists():
        return {}
    with database.read() as connection:
        if not sa.inspect(connection).has_table(_NOTES):
            return {}
        return {row.name: row.value for row in connection.execute(sa.select(_notes_table))}


def make_notes(connection: Connection, facts: Mapping[str, str]) -> None:
    _notes_table.create(connection)
    connection.execute(sa.insert(_notes_table), [{"name": name, "value": value} for name, value in facts.items()])


def put_note(connection: Connection, name: str, value: str) -> None:
    same = sa.update(_notes_table).where(_notes_table.c.name == name).values(value=value)
    if not connection.execute(same).rowcount:
        connection.execute(sa.insert(_notes_table), [{"name": name, "value": value}])


def drop_notes(connection: Connection) -> None:
    _notes_table.drop(connection, checkfirst=True)


def set_version(connection: Connection, version: str) -> None:
    version_table = sa.table("alembic_version", sa.column("version_num"))
    connection.execute(sa.update(version_table).values(version_num=version))


def today() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d}"


# -- writing refused


def refuse_writing(connection: Connection) -> None:
    """Whoever is connected and did not notice loses no word: it is told."""
    where = f"(SELECT value FROM {_NOTES} WHERE name = 'to')"  # noqa: S608 - a name of ours
    refuse = f"BEGIN RAISE EXCEPTION USING MESSAGE = 'it was moved to ' || {where}; END"
    connection.exec_driver_sql(f"CREATE FUNCTION {_NOTES}_refuses() RETURNS trigger LANGUAGE plpgsql AS $$ {refuse} $$")
    for table in t.metadata.tables:
        connection.exec_driver_sql(
            f"CREATE TRIGGER {_NOTES}_refuses BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {table} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION {_NOTES}_refuses()"
        )


def take_rows_again(connection: Connection) -> None:
    """Undo that."""
    connection.exec_driver_sql(f"DROP FUNCTION IF EXISTS {_NOTES}_refuses() CASCADE")
