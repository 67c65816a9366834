"""A Postgres server as the catalog, indexes and locks use it: connections, its errors in our words, a lock for all."""

from __future__ import annotations

import hashlib
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError

from ragforge.errors import Busy, DiskFull, MissingExtra, StoreError, Unreachable, UserError

if TYPE_CHECKING:
    import psycopg

_ALIVE = {
    "connect_timeout": 5,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "application_name": "ragforge",
}
"""A server that is gone without a word is missed within half a minute."""
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 1.0
_AWAY = ("08", "57P01", "57P02", "57P03", "53300")
"""What a server says, by code, that is stopping, starting, or has no connection left."""
_IN_THE_WAY = ("40001", "40P01", "55P03")
"""What it says when others have a lock that is needed: nothing was done, and the same again may work."""
_DISK_FULL = "53100"
_AS_MANY_AS_IT_TAKES = -1


def engine(url: str, kept: int = 8, more: int | None = None) -> sa.Engine:
    """Connections to a database that are kept and looked after; `more` when they are needed, if not said as many."""
    scheme, _, rest = url.partition("://")
    if scheme not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise _not_an_address()
    try:
        return sa.create_engine(
            f"postgresql+psycopg://{rest}",
            pool_pre_ping=True,
            pool_size=kept,
            max_overflow=kept if more is None else more,
            connect_args=_ALIVE,
        )
    except (ArgumentError, ValueError) as problem:
        raise _not_an_address() from problem
    except ImportError:
        raise MissingExtra("the Postgres driver", "postgres") from None


def _not_an_address() -> UserError:
    return UserError("store.database_url is no address of a Postgres database", hint="postgresql://USER@HOST/DATABASE")


def is_away(problem: BaseException) -> bool:
    """Whether the server, not the question, is what is wrong: asked again later it may work."""
    if isinstance(problem, DBAPIError):
        if problem.connection_invalidated or isinstance(problem.orig, TimeoutError):
            return True
        problem = problem.orig if isinstance(problem.orig, Exception) else problem
    code = getattr(problem, "sqlstate", None)
    if code is not None:
        return str(code).startswith(_AWAY)
    return type(problem).__name__ in ("OperationalError", "InterfaceError", "ConnectionTimeout")


def unreachable() -> Unreachable:
    return Unreachable(
        "the database server does not answer",
        hint="check database_url, and that the server runs and has connections left",
    )


def all_in_use() -> Busy:
    return Busy(
        "all connections to the database are in use",
        hint="try again; if it stays so, raise store.connections, and max_connections of the server",
    )


def in_our_words(problem: BaseException) -> StoreError | None:
    """What the driver or its pool raised, if it is about the server and not about the statement."""
    if isinstance(problem, sa.exc.TimeoutError):
        return all_in_use()
    if is_away(problem):
        return unreachable()
    code = getattr(problem.orig if isinstance(problem, DBAPIError) else problem, "sqlstate", None)
    if code == _DISK_FULL:
        hint = "free some space on the database server and try again"
        return DiskFull("the database server's disk is full; nothing was lost", hint=hint)
    return Busy("others were at the same rows of the database", hint="try again") if code in _IN_THE_WAY else None


@contextmanager
def errors() -> Iterator[None]:
    """What is raised inside, in our words."""
    import psycopg

    try:
        yield
    except (DBAPIError, psycopg.Error, sa.exc.TimeoutError) as problem:
        told = str(problem).splitlines()[0] if str(problem) else "it gave no reason"
        raise in_our_words(problem) or StoreError(f"the database refused: {told}") from problem


def connected(server: sa.Engine, patience: float) -> sa.Connection:
    """A connection; a server that is away is waited for. Nothing has been done yet, so trying again does no harm."""
    deadline, pause = time.monotonic() + patience, _FIRST_WAIT
    while True:
        try:
            return server.connect()
        except (DBAPIError, sa.exc.TimeoutError) as problem:
            if not (isinstance(problem, sa.exc.TimeoutError) or is_away(problem)) or time.monotonic() >= deadline:
                raise
        time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
        pause = min(pause * 2, _LONGEST_WAIT)


class PostgresServer:
    """One database for indexes; its driver's connections, straight.

    Who reads, who writes and who holds a lock have connections of their own, since each waits for the next: a writer
    has its lock first; a search reads while it waits for the catalog, which a writer may keep until it has written.
    """

    def __init__(self, url: str, connections: int = 8) -> None:
        self._readers = engine(url, connections)
        self._writers = engine(url, 1, connections - 1)
        self._locks = engine(url, 1, _AS_MANY_AS_IT_TAKES)
        for each in (self._readers, self._writers):
            sa.event.listen(each, "connect", _teach_to_send)

    @contextmanager
    def connection(self, *, autocommit: bool = False) -> Iterator[psycopg.Connection[Any]]:
        """A connection in a transaction that is committed at the end; or none, where every statement is its own."""
        with errors(), self._writers.connect() as connection:
            if autocommit:
                connection = connection.execution_options(isolation_level="AUTOCOMMIT")
            with connection.begin():
                driver: Any = connection.connection.driver_connection
                yield driver

    def hold(self) -> Held:
        """A connection that is kept for a while; what was begun on it and not committed is undone at its release."""
        with errors():
            return Held(self._readers.raw_connection())

    def lock(self, name: str) -> AdvisoryLock:
        return AdvisoryLock(self._locks, name)

    def close(self) -> None:
        for each in (self._readers, self._writers, self._locks):
            each.dispose()


@dataclass(frozen=True, slots=True)
class Sent:
    """A value that is written as the server's own type already; the statement says which: `%s::bigint[]`."""

    data: bytes


def _teach_to_send(connection: Any, _: object) -> None:
    from psycopg.adapt import Dumper
    from psycopg.pq import Format

    class SentDumper(Dumper):
        format = Format.BINARY

        def dump(self, value: Sent) -> bytes:
            return value.data

    connection.adapters.register_dumper(Sent, SentDumper)


class Held:
    """A connection that is somebody's own until the release, which comes by itself once nobody has this any more."""

    def __init__(self, pooled: sa.PoolProxiedConnection) -> None:
        self._driver: Any = pooled.driver_connection
        self._release = weakref.finalize(self, _give_back, pooled)

    @property
    def driver(self) -> psycopg.Connection[Any]:
        if not self._release.alive:
            raise StoreError("the connection was released")
        return self._driver  # type: ignore[no-any-return]

    def release(self) -> None:
        self._release()


def _give_back(pooled: sa.PoolProxiedConnection) -> None:
    with suppress(Exception):  # whatever is wrong with the connection, nobody needs it any more
        try:
            pooled.rollback()
        except Exception:
            pooled.invalidate()
        pooled.close()


class AdvisoryLock:
    """A lock between machines, kept by the server for as long as its holder's connection lives."""

    def __init__(self, server: sa.Engine, name: str) -> None:
        self._server = server
        digest = hashlib.sha256(name.encode()).digest()
        self._number = int.from_bytes(digest[:8], "big", signed=True)
        self._connection: sa.Connection | None = None
        self._lock = threading.Lock()

    def acquire(self, *, shared: bool = False, blocking: bool = True) -> bool:
        kind = "_shared" if shared else ""
        take = f"SELECT pg_{'' if blocking else 'try_'}advisory_lock{kind}({self._number})"
        with errors():
            connection = self._server.connect().execution_options(isolation_level="AUTOCOMMIT")
            try:
                taken = connection.exec_driver_sql(take).scalar()
            except BaseException:
                connection.invalidate()
                connection.close()
                raise
        if not blocking and not taken:
            connection.close()
            return False
        with self._lock:
            self._connection = connection
        return True

    def release(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is None:
            return
        with suppress(DBAPIError):  # with its connection the lock is gone too
            connection.exec_driver_sql("SELECT pg_advisory_unlock_all()")
        connection.close()
