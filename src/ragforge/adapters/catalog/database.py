"""The SQL database under the catalog: connections, transactions, schema version, and its errors made ours.

SQLite: WAL, `synchronous=FULL`, `secure_delete`, every write `BEGIN IMMEDIATE`, so one writer at a time across
processes and no lock upgrade that could fail. Postgres: plain transactions, from a pool; a server that is away is
waited for before a transaction begins, and never inside one.
"""

from __future__ import annotations

import contextlib
import errno
import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DBAPIError

from ragforge.adapters import postgres
from ragforge.adapters.locks import FileLock
from ragforge.errors import Busy, CorruptStore, DiskFull, RagforgeError, StoreError, UserError, cannot_write

HEAD = "0015"
"""The newest migration; a test compares it with the scripts."""

_UPGRADE_LOCK = 0x7261676675706772
"""Of two processes that upgrade one Postgres database, the second waits and finds it done."""

_AT_FIRST_SECONDS = 2.0
_UPGRADE_TRIES = 30

EVERY_PROJECT = "*"
_SEES_ALL = "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"

SAFE_SQLITE = (3, 51, 3)
"""Older ones can corrupt a WAL that several processes write to (the WAL-reset bug)."""


def _sqlite_module() -> Any:
    """The newer SQLite that ships as a wheel where there is one, else Python's own."""
    try:
        import pysqlite3.dbapi2 as module
    except ImportError:
        return sqlite3
    return module


class Database:
    """One database, safe to use from many threads and processes."""

    def __init__(self, engine: Engine, path: Path | None, reach_seconds: float = 0.0) -> None:
        self.engine = engine
        self.path = path
        """The SQLite file; None on Postgres."""
        self._reach_seconds = reach_seconds
        self._answered = False
        self._has_walls: bool | None = None
        """Whether row-level security holds for who we are on the server; None until we asked."""
        self._writer = threading.Lock()
        self._writing = threading.local()
        self._exclusive: FileLock | None = None

    # -- opening

    @classmethod
    def sqlite(cls, path: Path, busy_seconds: float) -> Database:
        module = _sqlite_module()
        engine = sa.create_engine(
            f"sqlite:///{path}",
            module=module,
            connect_args={"timeout": busy_seconds, "check_same_thread": False, "cached_statements": 256},
            poolclass=sa.pool.QueuePool,
            pool_size=8,
            max_overflow=64,
        )

        @event.listens_for(engine, "connect")
        def _configure(connection: Any, _record: object) -> None:
            connection.isolation_level = None  # we say BEGIN ourselves
            cursor = connection.cursor()
            for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", "foreign_keys=ON"):
                cursor.execute(f"PRAGMA {pragma}")
            cursor.execute("PRAGMA cache_size=-16000")
            cursor.close()

        @event.listens_for(engine, "begin")
        def _begin(connection: Connection) -> None:
            mode = connection.get_execution_options().get("begin", "DEFERRED")
            connection.exec_driver_sql(f"BEGIN {mode}")

        return cls(engine, path)

    @classmethod
    def postgres(cls, url: str, connections: int = 8, reach_seconds: float = 30.0) -> Database:
        return cls(postgres.engine(url, connections), None, reach_seconds)

    @property
    def is_sqlite(self) -> bool:
        return self.path is not None

    @property
    def sqlite_version(self) -> tuple[int, ...]:
        return tuple(_sqlite_module().sqlite_version_info) if self.is_sqlite else ()

    @property
    def server_version(self) -> str:
        return ".".join(map(str, (self.engine.dialect.server_version_info or ())))

    def close(self) -> None:
        self.engine.dispose()
        if self._exclusive is not None:
            self._exclusive.release()

    # -- transactions

    @contextlib.contextmanager
    def read(self, *, walled: bool = False) -> Iterator[Connection]:
        """A snapshot that stays the same until the end. `walled`: it says itself of which projects it is."""
        options = {} if self.is_sqlite else {"isolation_level": "REPEATABLE READ"}
        with self._errors(), self._connect().execution_options(**options) as connection, connection.begin():
            if not walled:
                self.enter(connection, EVERY_PROJECT)
            yield connection

    @contextlib.contextmanager
    def write(self, *, walled: bool = False) -> Iterator[Connection]:
        """All or nothing. SQLite takes one writer at a time; on Postgres those wait who touch the same rows."""
        self._claim_old_sqlite()
        with (
            self._one_per_thread(),
            self._writer if self.is_sqlite else contextlib.nullcontext(),
            self._errors(),
            self._connect().execution_options(begin="IMMEDIATE") as connection,
            connection.begin(),
        ):
            if not walled:
                self.enter(connection, EVERY_PROJECT)
            yield connection

    def enter(self, connection: Connection, projects: str) -> None:
        """Only rows of these projects are there until the transaction ends, or until this is said again."""
        if self._has_walls is None:
            self._has_walls = not self.is_sqlite and not connection.exec_driver_sql(_SEES_ALL).scalar()
        if self._has_walls:
            connection.execute(sa.select(sa.func.set_config("ragforge.projects", projects, True)))

    def _connect(self) -> Connection:
        """A server that never answered is more likely misspelt than away: that is said soon."""
        if self.is_sqlite:
            return self.engine.connect()
        patience = self._reach_seconds if self._answered else min(self._reach_seconds, _AT_FIRST_SECONDS)
        connection = postgres.connected(self.engine, patience)
        self._answered = True
        return connection

    @contextlib.contextmanager
    def _one_per_thread(self) -> Iterator[None]:
        """A second write of the same thread would wait for the first one forever."""
        if getattr(self._writing, "now", False):
            raise RuntimeError("write() inside write(): use the unit at hand")
        self._writing.now = True
        try:
            yield
        finally:
            self._writing.now = False

    def _claim_old_sqlite(self) -> None:
        """Where SQLite has the WAL-reset bug, the first process that writes keeps the place until it ends."""
        if not self.is_sqlite or self._exclusive is not None or self.sqlite_version >= SAFE_SQLITE:
            return
        assert self.path is not None
        lock = FileLock(self.path.with_name("writer.lock"))
        if not lock.acquire(blocking=False):
            raise Busy(
                f"SQLite {'.'.join(map(str, self.sqlite_version))} cannot share the workspace between writers",
                hint="end the other ragforge process, or use a Python with SQLite 3.51.3 or newer",
            )
        self._exclusive = lock

    # -- maintenance (SQLite)

    def checkpoint(self) -> bool:
        """Move the write-ahead log into the file and empty it. False while a reader still needs it."""
        if not self.is_sqlite:
            return True
        with self._errors(), self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            patience = connection.exec_driver_sql("PRAGMA busy_timeout").scalar()
            connection.exec_driver_sql("PRAGMA busy_timeout=1000")  # a reader may take its time
            busy, *_ = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
            connection.exec_driver_sql(f"PRAGMA busy_timeout={patience}")
        return not busy

    def integrity(self) -> list[str]:
        """Problems SQLite finds in its own file."""
        if not self.is_sqlite:
            return []
        with self.read() as connection:
            rows = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check")]
        return [row for row in rows if row != "ok"]

    # -- schema

    def schema_version(self) -> str | None:
        """The migration this database is at; None if it holds nothing."""
        with self.read() as connection:
            if not sa.inspect(connection).has_table("alembic_version"):
                return None
            return connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()

    def upgrade(self) -> Path | None:
        """Bring the schema to HEAD. An old SQLite workspace is backed up first; returns the backup's path."""
        version = self.schema_version()
        if version == HEAD:
            return None
        if version is not None and not version.isdecimal():
            raise self._elsewhere()
        if version is not None and version > HEAD:
            raise StoreError(
                f"the workspace was made by a newer ragforge (schema {version}, this one knows {HEAD})",
                hint="update ragforge: pip install -U ragforge",
            )
        backup = self._back_up(version) if version is not None else None
        self._migrate()
        return backup

    def _elsewhere(self) -> RagforgeError:
        """It was moved, or is being moved here: no catalog is to be found in it."""
        from ragforge.adapters.catalog.moved import refusal

        try:
            return refusal(self)
        finally:
            self.close()

    def _back_up(self, version: str) -> Path | None:
        if self.path is None:
            return None
        folder = self.path.parent / "backups"
        target = folder / f"catalog-{version}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.db"
        module = _sqlite_module()
        try:
            folder.mkdir(exist_ok=True)
            with (
                self._errors(),
                self.engine.connect() as connection,
                contextlib.closing(module.connect(target)) as copy,
            ):
                connection.connection.driver_connection.backup(copy)  # type: ignore[union-attr]
        except OSError as problem:
            raise cannot_write(target, problem) from problem
        except module.Error as problem:  # straight from the driver
            target.unlink(missing_ok=True)
            raise _translate(str(problem), target) from problem
        return target

    def _migrate(self) -> None:
        """On Postgres others may be at work: they wait while it is done, or it waits its turn; none fails for it."""
        for attempt in range(1, _UPGRADE_TRIES + 1):
            try:
                with self.write() as connection:
                    if not self.is_sqlite:
                        self._hold_off_others(connection)
                    self.migrate_on(connection)
                return
            except Busy:
                if self.is_sqlite or attempt == _UPGRADE_TRIES:
                    raise
            time.sleep(random.uniform(0.1, 0.5))  # noqa: S311 - so that two do not meet again

    def _hold_off_others(self, connection: Connection) -> None:
        """Everybody begins with the projects: who has these has no deadlock to fear for the other tables."""
        connection.exec_driver_sql("SET LOCAL lock_timeout = '2s'")
        if sa.inspect(connection).has_table("projects"):
            connection.exec_driver_sql("LOCK TABLE projects IN ACCESS EXCLUSIVE MODE")

    def migrate_on(self, connection: Connection, schema: str = "head") -> None:
        """Bring the schema to this version, inside the caller's transaction."""
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
        if not self.is_sqlite:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_UPGRADE_LOCK)))
        config.attributes["connection"] = connection
        command.upgrade(config, schema)

    # -- errors

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as problem:
            told = None if self.is_sqlite else postgres.in_our_words(problem)
            raise told or _translate(str(problem.orig), self.path) from problem
        except sa.exc.TimeoutError as problem:
            raise postgres.all_in_use() from problem
        except OSError as problem:
            if problem.errno == errno.ENOSPC:
                raise _disk_full() from problem
            raise


def _disk_full() -> DiskFull:
    return DiskFull("the disk is full; nothing was lost", hint="free some space and try again")


def _translate(text: str, path: Path | None) -> RagforgeError:
    """What the database's driver said, as a sentence with the next step."""
    where = str(path) if path else "the database"
    if "locked" in text or "busy" in text:
        return Busy("another ragforge process is writing", hint="wait for it to end, then try again")
    if "disk is full" in text or "No space left" in text:
        return _disk_full()
    if "readonly" in text or "unable to open" in text or "permission" in text.lower():
        return StoreError(f"cannot write {where}", hint="check the folder's permissions, or choose another --workspace")
    if "malformed" in text or "not a database" in text:
        return CorruptStore(
            f"{where} is damaged",
            hint="restore a backup from the workspace's backups/ folder, or export and start anew",
        )
    if "NUL (0x00)" in text:  # looked for, where SQLite just finds nothing; what is kept is made storable
        return UserError("no name or text has the character NUL", hint="leave it out")
    return StoreError(f"the catalog refused: {text.splitlines()[0] if text else 'it gave no reason'}")
