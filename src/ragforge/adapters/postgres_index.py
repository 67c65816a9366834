"""What both indexes in Postgres stand on: a schema of their own, numbered tables, a row that says what is current.

Rows are committed together with the state they lead to. A rebuild is one transaction that makes new tables and names
them as the current ones. A reader keeps one transaction open, so it sees one moment whatever is written; tables that it
still reads are removed later, by whoever writes next.
"""

from __future__ import annotations

import hashlib
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from ragforge.adapters.postgres import Held, PostgresServer, Sent, errors
from ragforge.adapters.vectors.rows import WritersPlace
from ragforge.domain.retrieval import Allowed, Keys, Ranked
from ragforge.errors import IndexLost, StoreError

if TYPE_CHECKING:
    import psycopg

SCHEMA = "ragforge_index"
_COPY_HEAD, _COPY_END = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
"""What stands before and after the rows of a binary COPY."""

_FORMAT = "1"
"""Of tables and state: an index of another one is built anew."""
_NAME_LENGTH = 24
_TRIES = 5
_BRIEFLY = "50ms"
_PATIENTLY = "1500ms"
"""Longer than a second, after which the server calls back a cleaning of its own that is in the way."""
_ONE_MOMENT = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;"
    "SET LOCAL jit = off;"  # compiling takes longer than any of our queries
    "SET LOCAL random_page_cost = 1.1"  # what is searched is in memory
)
_STATE = f"""
CREATE TABLE IF NOT EXISTS {SCHEMA}.state (
    kind text NOT NULL,
    name text NOT NULL,
    mark text NOT NULL,
    relation text NOT NULL,
    watermark bigint NOT NULL,
    rows bigint NOT NULL,
    dead boolean NOT NULL,
    facts jsonb NOT NULL,
    PRIMARY KEY (kind, name)
)"""

Rows = TypeVar("Rows")


@dataclass(frozen=True, slots=True)
class State:
    """What is current of an index."""

    table: str
    """The first of its tables."""
    watermark: int
    rows: int
    dead: bool
    """Whether files may still hold rows that were removed or replaced."""
    facts: Mapping[str, float]
    """What only its engine knows to read."""


def run(
    connection: psycopg.Connection[Any], statement: str, values: Mapping[str, object] | Sequence[object] | None = None
) -> psycopg.Cursor[Any]:
    """A statement of ours; planned for these very values."""
    return connection.execute(statement.encode(), values, prepare=False, binary=True)


def numbers(values: Keys) -> Sent:
    """Keys or documents as Postgres' own array: a list of Python's would be written number by number."""
    head = np.array([1, 0, 20, len(values), 1] if len(values) else [0, 0, 20], ">i4")
    body = np.empty(len(values), [("size", ">i4"), ("value", ">i8")])
    body["size"], body["value"] = 8, values
    return Sent(head.tobytes() + body.tobytes())


def ranked(found: Sequence[tuple[int, float]]) -> Ranked:
    """Keys and scores, in the order in which the server gave them."""
    keys = np.array([key for key, _ in found], np.int64)
    return Ranked(keys, np.array([score for _, score in found], np.float32))


@contextmanager
def copying(connection: psycopg.Connection[Any], table: str, columns: str, options: str) -> Iterator[psycopg.Copy]:
    """Takes rows as the server writes them itself: how many values, then each with its size before it."""
    copy = f"COPY {SCHEMA}.{table} ({columns}) FROM STDIN ({options})"
    with connection.cursor() as cursor, cursor.copy(copy.encode()) as stream:
        stream.write(_COPY_HEAD)
        yield stream
        stream.write(_COPY_END)


def filter_of(allowed: Allowed, values: dict[str, object]) -> str:
    """The rows that may be returned, as conditions that follow others; what they compare with goes into `values`."""
    conditions = ""
    if allowed.documents is not None:
        values["documents"] = numbers(allowed.documents)
        among = "<> ALL" if allowed.deny else "= ANY"
        conditions += f" AND document {among} (%(documents)s::bigint[])"
    if allowed.hidden is not None and len(allowed.hidden):
        values["hidden"] = numbers(allowed.hidden)
        conditions += " AND key <> ALL (%(hidden)s::bigint[])"
    return conditions


class Place:
    """Where one index is: its row in the table of states, its tables."""

    def __init__(self, server: PostgresServer, kind: str, name: str, fingerprint: str, parts: Sequence[str]) -> None:
        self.server = server
        self._kind = kind
        self._name = name
        self._mark = hashlib.sha256(f"{_FORMAT} {fingerprint}".encode()).hexdigest()
        self._parts = parts
        """What the names of its tables end with."""
        readable = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:_NAME_LENGTH]
        self._prefix = f"{kind}_{readable}_{hashlib.sha256(name.encode()).hexdigest()[:12]}_"

    def tables(self, table: str) -> list[str]:
        return [f"{SCHEMA}.{table}{part}" for part in self._parts]

    # -- state

    def state(self, connection: psycopg.Connection[Any], *, to_write: bool = False) -> State:
        """Raises `IndexLost` if there is none, or one of another model."""
        from psycopg.errors import UndefinedTable

        columns = "mark, relation, watermark, rows, dead, facts"
        look = f"SELECT {columns} FROM {SCHEMA}.state WHERE kind = %s AND name = %s"  # noqa: S608
        try:
            found = run(connection, look + " FOR UPDATE" * to_write, (self._kind, self._name)).fetchone()
        except UndefinedTable:
            found = None
        if found is None:
            raise IndexLost("there is no such index in the database yet")
        mark, *rest = found
        if mark != self._mark:
            raise IndexLost("the index in the database was made for another model or splitter")
        return State(*rest)

    def note(self, connection: psycopg.Connection[Any], state: State) -> None:
        from psycopg.types.json import Jsonb

        row = (self._kind, self._name, self._mark, state.table, state.watermark, state.rows, state.dead)
        changes = ", ".join(f"{c} = excluded.{c}" for c in ("mark", "relation", "watermark", "rows", "dead", "facts"))
        put = f"INSERT INTO {SCHEMA}.state VALUES ({', '.join(['%s'] * 8)})"  # noqa: S608
        run(connection, f"{put} ON CONFLICT (kind, name) DO UPDATE SET {changes}", (*row, Jsonb(dict(state.facts))))

    # -- reading

    def pin(self) -> tuple[Held, State]:
        """The state as it is now, and a connection that sees nothing newer."""
        from psycopg.errors import UndefinedTable

        for _ in range(_TRIES):
            held = self.server.hold()
            try:
                with errors():
                    held.driver.execute(_ONE_MOMENT)
                    state = self.state(held.driver)
                    # nobody can remove them from now on
                    run(held.driver, f"LOCK TABLE {', '.join(self.tables(state.table))} IN ACCESS SHARE MODE")
                return held, state
            except BaseException as problem:
                held.release()
                if not isinstance(problem.__cause__, UndefinedTable):  # replaced since the state was read
                    raise
        raise IndexLost("the index's tables are not in the database")

    # -- writing

    def prepare(self) -> None:
        """Make what is there once for all indexes."""
        from psycopg.errors import InsufficientPrivilege

        with self.server.connection() as connection:
            if self._is_prepared(connection):
                return
            run(connection, "SELECT pg_advisory_xact_lock(hashtext(%s))", (SCHEMA,))
            try:
                if run(connection, "SELECT to_regnamespace(%s)", (SCHEMA,)).fetchone() == (None,):
                    run(connection, f"CREATE SCHEMA {SCHEMA}")
                run(connection, _STATE)
                run(connection, f"CREATE SEQUENCE IF NOT EXISTS {SCHEMA}.numbers")
            except InsufficientPrivilege as problem:
                raise StoreError(
                    f"the database user may not make the schema {SCHEMA}",
                    hint=f"as the database's owner: CREATE SCHEMA {SCHEMA} AUTHORIZATION the_user",
                ) from problem

    def new_table(self, connection: psycopg.Connection[Any]) -> str:
        """A name that no table has or had."""
        [number] = run(connection, "SELECT nextval(%s::regclass)", (f"{SCHEMA}.numbers",)).fetchone() or (0,)
        return f"{self._prefix}{number}"

    def forget(self) -> None:
        with self.server.connection() as connection:
            if self._is_prepared(connection):
                drop = f"DELETE FROM {SCHEMA}.state WHERE kind = %s AND name = %s"  # noqa: S608
                run(connection, drop, (self._kind, self._name))

    def sweep(self, *, patient: bool) -> bool:
        """Remove tables that are no index's. False if one of ours is still read."""
        for first, *others in self._unused():
            ours = first.startswith(self._prefix)
            self._remove([first, *others], _PATIENTLY if ours and patient else _BRIEFLY)
        return not any(first.startswith(self._prefix) for first, *_ in self._unused())

    def _unused(self) -> list[list[str]]:
        """Tables that no state names, by what they were made for. Those of a transaction under way are not seen yet."""
        with self.server.connection() as connection:
            if not self._is_prepared(connection):
                return []
            used = f"SELECT FROM {SCHEMA}.state WHERE relname = relation OR starts_with(relname, relation || '_')"
            found = run(
                connection,
                "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind = 'r'"  # noqa: S608
                f" AND relname <> 'state' AND NOT EXISTS ({used}) ORDER BY relname",
                (SCHEMA,),
            )
            names = [name for (name,) in found]
        return [list(made) for _, made in groupby(names, lambda name: re.sub(r"_[a-z]+$", "", name))]

    def _remove(self, tables: list[str], patience: str) -> None:
        from psycopg.errors import InsufficientPrivilege, LockNotAvailable

        try:
            with self.server.connection() as connection:
                run(connection, f"SET LOCAL lock_timeout = '{patience}'")
                run(connection, f"DROP TABLE IF EXISTS {', '.join(f'{SCHEMA}.{table}' for table in tables)}")
        except StoreError as problem:
            if not isinstance(problem.__cause__, LockNotAvailable | InsufficientPrivilege):
                raise

    def _is_prepared(self, connection: psycopg.Connection[Any]) -> bool:
        return run(connection, "SELECT to_regclass(%s)", (f"{SCHEMA}.numbers",)).fetchone() != (None,)


class PostgresReader:
    """An index as it was at one moment: a transaction that is open until the release."""

    def __init__(self, place: Place, held: Held, state: State) -> None:
        self._place = place
        self._held = held
        self._state = state
        self._one_at_a_time = threading.Lock()

    @property
    def watermark(self) -> int:
        return self._state.watermark

    @property
    def rows(self) -> int:
        return self._state.rows

    @property
    def _table(self) -> str:
        return f"{SCHEMA}.{self._state.table}"

    def keys(self) -> Keys:
        found = self._ask(f"SELECT key FROM {self._table} ORDER BY key")  # noqa: S608
        return np.array([key for (key,) in found], np.int64)

    def release(self) -> None:
        self._held.release()

    def _ask(self, statement: str, values: Mapping[str, object] | None = None, settings: str = "") -> list[Any]:
        with self._one_at_a_time, reading():
            if settings:
                self._held.driver.execute(settings.encode())
            return run(self._held.driver, statement, values).fetchall()


class PostgresIndex(ABC, Generic[Rows]):
    """An index in numbered tables. An engine says what stands in them."""

    engine: ClassVar[str]
    shared: ClassVar[bool] = True
    kind: ClassVar[str]
    parts: ClassVar[tuple[str, ...]] = ("",)
    """What the names of its tables end with."""

    def __init__(self, server: PostgresServer, name: str, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        self._server = server
        self._place = Place(server, self.kind, name, fingerprint, self.parts)
        self._writers = WritersPlace(lambda: server.lock(f"{SCHEMA} {self.kind} {name}"))

    # -- what an engine adds

    @abstractmethod
    def _fill(self, connection: psycopg.Connection[Any], table: str, rows: Iterable[Rows]) -> State:
        """Make the tables and put in the rows. Returns the state but for its watermark."""

    @abstractmethod
    def _change(self, connection: psycopg.Connection[Any], state: State, put: Rows, removed: Keys) -> State | None:
        """Put and remove rows. Returns the state but for its watermark; None if the tables do not fit the rows."""

    @abstractmethod
    def _copy(self, connection: psycopg.Connection[Any], state: State, table: str) -> State:
        """Make the tables anew with the rows that are there. Returns the state."""

    @abstractmethod
    def _examine(self, connection: psycopg.Connection[Any], state: State) -> Iterator[str]:
        """Read everything; what is wrong, in words."""

    def _install(self) -> None:
        """Make sure that the server has what the engine needs."""

    def _enter(self, connection: psycopg.Connection[Any]) -> None:
        """Make what the engine needs visible in a transaction."""

    def _pinned(self) -> tuple[Held, State]:
        held, state = self._place.pin()
        with reading():
            self._enter(held.driver)
        return held, state

    # -- the port

    def writing(self, *, blocking: bool) -> AbstractContextManager[bool]:
        return self._writers.taken(blocking=blocking)

    def apply(self, put: Rows, removed: Keys, watermark: int) -> None:
        with reading(), self._server.connection() as connection:
            state = self._place.state(connection, to_write=True)
            self._enter(connection)
            changed = self._change(connection, state, put, removed)
            if changed is not None:
                self._place.note(connection, replace(changed, watermark=watermark))
        if changed is None:
            self.rebuild([put], watermark)
        elif changed.table != state.table:
            self._place.sweep(patient=False)

    def rebuild(self, rows: Iterable[Rows], watermark: int) -> None:
        self._place.prepare()
        self._install()
        with self._server.connection() as connection:
            self._enter(connection)
            state = self._fill(connection, self._place.new_table(connection), rows)
            self._place.note(connection, replace(state, watermark=watermark))
        self._place.sweep(patient=False)

    def erase(self) -> bool:
        """Write the tables anew without what was removed, and remove the old ones unless they are still read."""
        with reading(), self._server.connection() as connection:
            state = self._place.state(connection, to_write=True)
            if state.dead:
                self._enter(connection)
                copied = self._copy(connection, state, self._place.new_table(connection))
                self._place.note(connection, replace(copied, dead=False))
        return self._place.sweep(patient=True)

    def verify(self) -> list[str]:
        try:
            with reading(), self._server.connection() as connection:
                state = self._place.state(connection)
                self._enter(connection)
                return list(self._examine(connection, state))
        except IndexLost as problem:
            return [problem.message]

    def drop(self) -> None:
        self._place.forget()
        self._place.sweep(patient=True)

    def close(self) -> None:
        """The server is closed by whoever opened it."""


@contextmanager
def reading() -> Iterator[None]:
    """Tables that are not there or damaged are a lost index."""
    from psycopg.errors import DataCorrupted, IndexCorrupted, UndefinedColumn, UndefinedTable

    lost = DataCorrupted, IndexCorrupted, UndefinedColumn, UndefinedTable
    try:
        with errors():
            yield
    except StoreError as problem:
        if isinstance(problem.__cause__, lost):
            raise IndexLost("the index's tables in the database are damaged or gone") from problem
        raise
