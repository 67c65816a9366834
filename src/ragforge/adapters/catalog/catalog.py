"""The catalog: the truth, in SQL. One class over SQLite and Postgres."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from ragforge.adapters.catalog import tables as t
from ragforge.adapters.catalog.artifacts import SqlArtifacts
from ragforge.adapters.catalog.changes import SqlChanges, SqlNodes
from ragforge.adapters.catalog.conversations import SqlConversations
from ragforge.adapters.catalog.database import SAFE_SQLITE, Database
from ragforge.adapters.catalog.documents import SqlDocuments
from ragforge.adapters.catalog.embeddings import SqlEmbeddings, section_of_chunk
from ragforge.adapters.catalog.evaluations import SqlEvaluations
from ragforge.adapters.catalog.interviews import SqlInterviews
from ragforge.adapters.catalog.jobs import SqlJobs
from ragforge.adapters.catalog.keys import SqlAccessKeys
from ragforge.adapters.catalog.lessons import SqlLessons
from ragforge.adapters.catalog.passages import SqlPassages
from ragforge.adapters.catalog.patterns import SqlPatterns
from ragforge.adapters.catalog.projects import SqlProjects
from ragforge.adapters.catalog.querylog import SqlQueryLog
from ragforge.adapters.catalog.texts import SqlProjectTexts
from ragforge.adapters.catalog.tombstones import SqlTombstones
from ragforge.adapters.catalog.unit import SERVER_NOW, Session, milliseconds, moment
from ragforge.adapters.locks import FileLock
from ragforge.domain.access import Scope
from ragforge.domain.archives import TableShape
from ragforge.domain.library import Finding
from ragforge.errors import NotAllowed
from ragforge.ports import CatalogDump, CatalogLoad, Clock, Listening, TableRow


class _Walled:
    """A part of the catalog on Postgres: the server learns of every call in whose scope it is, before it runs."""

    def __init__(self, part: object, session: Session) -> None:
        self._part = part
        self._session = session

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._part, name)

        def scoped(scope: Scope, *given: Any, **named: Any) -> Any:
            self._session.enter(scope)
            return function(scope, *given, **named)

        return scoped


class SqlUnit:
    """One transaction over all parts."""

    def __init__(self, session: Session) -> None:
        self._make(session)
        if session.is_postgres:
            for name, part in vars(self).items():
                setattr(self, name, _Walled(part, session))

    def _make(self, session: Session) -> None:
        self.projects = SqlProjects(session)
        self.documents = SqlDocuments(session)
        self.embeddings = SqlEmbeddings(session)
        self.changes = SqlChanges(session)
        self.nodes = SqlNodes(session)
        self.passages = SqlPassages(session)
        self.jobs = SqlJobs(session)
        self.evaluations = SqlEvaluations(session)
        self.conversations = SqlConversations(session)
        self.interviews = SqlInterviews(session)
        self.texts = SqlProjectTexts(session)
        self.log = SqlQueryLog(session)
        self.artifacts = SqlArtifacts(session)
        self.lessons = SqlLessons(session)
        self.patterns = SqlPatterns(session)
        self.keys = SqlAccessKeys(session)
        self.tombstones = SqlTombstones(session)


class SqlCatalog:
    def __init__(self, database: Database, clock: Clock, *, by_server: bool = False) -> None:
        """`by_server`: what machines must agree on goes by the database's clock: leases of jobs, and retention."""
        self._database = database
        self._clock = clock
        self._by_server = by_server
        self.upgraded_from: Path | None = None
        """The backup that was made when an old workspace was upgraded on opening."""

    @classmethod
    def open(cls, path: Path, clock: Clock, busy_seconds: float = 30.0) -> SqlCatalog:
        """The embedded catalog; made if missing, upgraded (after a backup) if old."""
        catalog = cls(Database.sqlite(path, busy_seconds), clock)
        lock = FileLock(path.with_name("upgrade.lock"))
        lock.acquire()
        try:
            catalog.upgraded_from = catalog._database.upgrade()
        finally:
            lock.release()
        return catalog

    @classmethod
    def unopened(cls, path: Path | None, url: str, clock: Clock) -> SqlCatalog:
        """One that is to be filled from a backup: no tables are made yet. In a file, or on a server."""
        return cls(Database.postgres(url) if path is None else Database.sqlite(path, 30.0), clock)

    @classmethod
    def connect(cls, url: str, clock: Clock, connections: int = 8, reach_seconds: float = 30.0) -> SqlCatalog:
        """A catalog on a Postgres server."""
        catalog = cls(Database.postgres(url, connections, reach_seconds), clock, by_server=True)
        catalog._database.upgrade()
        return catalog

    @contextlib.contextmanager
    def read(self) -> Iterator[SqlUnit]:
        with self._database.read(walled=True) as connection:
            yield self._unit(connection)

    @contextlib.contextmanager
    def write(self) -> Iterator[SqlUnit]:
        with self._database.write(walled=True) as connection:
            yield self._unit(connection)

    def _unit(self, connection: sa.Connection) -> SqlUnit:
        return SqlUnit(Session(connection, self._clock, self._database.enter, by_server=self._by_server))

    def now(self) -> datetime:
        """The moment for all who share the catalog: on a server its own, whatever time this machine has."""
        if not self._by_server:
            return self._clock()
        with self._database.read() as connection:
            return moment(int(connection.execute(sa.select(SERVER_NOW)).scalar_one()))

    @contextlib.contextmanager
    def dumping(self, scope: Scope) -> Iterator[CatalogDump]:
        """Every table at one moment, for a backup; others go on writing."""
        from ragforge.adapters.catalog.dump import SqlDump

        _require_owner(scope)
        with self._database.read() as connection:
            yield SqlDump(connection)

    @contextlib.contextmanager
    def loading(
        self, scope: Scope, schema: str, tables: Iterable[tuple[TableShape, Iterable[TableRow]]]
    ) -> Iterator[CatalogLoad]:
        """Fill an empty catalog from a backup, whatever version that is of; it is there when the block has ended."""
        from ragforge.adapters.catalog.dump import SqlLoad, load

        _require_owner(scope)
        with self._database.write() as connection:
            session = Session(connection, self._clock)
            load(self._database, session, schema, tables)
            yield SqlLoad(scope, SqlUnit(session), session)

    def listen(self) -> Listening | None:
        """What other machines commit, as it happens; None where there is only this one."""
        if self._database.is_sqlite:
            return None
        from ragforge.adapters.catalog.listening import PostgresListening

        return PostgresListening(self._database.engine)

    def is_empty(self) -> bool:
        """Whether nothing is in it that a restore could overwrite."""
        from ragforge.adapters.catalog.dump import holds_nothing

        with self._database.read() as connection:
            return holds_nothing(connection)

    def identity(self) -> str:
        """By what it is known wherever it goes: moved or restored, it is still the same."""
        from ragforge.adapters.catalog.identity import identity, known_identity

        with self._database.read() as connection:
            if known := known_identity(Session(connection, self._clock)):
                return known
        with self._database.write() as connection:
            return identity(Session(connection, self._clock))

    def has_claimed(self, place: str) -> bool:
        """Whether it has left its mark where files are kept: a place without it is not that one."""
        from ragforge.adapters.catalog.identity import has_claimed

        with self._database.read() as connection:
            return has_claimed(Session(connection, self._clock), place)

    def note_claim(self, place: str) -> None:
        """From now on its mark is expected there."""
        from ragforge.adapters.catalog.identity import note_claim

        with self._database.write() as connection:
            note_claim(Session(connection, self._clock), place)

    def flush(self) -> bool:
        """Leave nothing behind in the write-ahead log. False while a reader still needs it."""
        return self._database.checkpoint()

    def close(self) -> None:
        self._database.close()

    def engine(self) -> Finding:
        """What keeps the catalog, and whether all of it can be trusted."""
        if not self._database.is_sqlite:
            return Finding("database", True, "Postgres")
        version = self._database.sqlite_version
        return Finding(
            "SQLite version",
            version >= SAFE_SQLITE,
            ".".join(map(str, version)),
            "use a Python with SQLite 3.51.3 or newer; until then one process writes at a time",
        )

    def server(self) -> Iterable[Finding]:
        """Whether the server that keeps the catalog is one for several machines."""
        if self._database.is_sqlite:
            hint = "set store.database_url, or move with ragforge migrate --to postgresql://…"
            yield Finding("catalog", False, "an SQLite file, for one machine", hint)
            return
        with self._database.read() as connection:
            asked = connection.exec_driver_sql(_SERVER).one()
            here = milliseconds(self._clock())
        yield Finding("catalog", asked.version >= 140000, f"Postgres {asked.told}", "use Postgres 14 or newer")
        hint = "let ragforge connect as a user of its own, who owns its database and is no superuser"
        walled = not asked.sees_all
        told = "holds" if walled else f"does not hold: {asked.user} sees all rows"
        yield Finding("row-level security", True, told, hint, warning=not walled)
        free = asked.connections - asked.used
        hint = "raise max_connections of the server, or lower store.connections"
        told = f"{asked.used} of {asked.connections} are in use"
        yield Finding("connections", free > 10, told, hint)
        skew = abs(here - int(asked.now)) / 1000
        yield Finding("clock", skew < 5, f"{skew:.1f} s apart from the server's", "let both follow a time server")

    def inspect(self) -> Iterable[Finding]:
        """What can be wrong inside the catalog itself."""
        broken = self._database.integrity()
        yield Finding("catalog file", not broken, broken[0] if broken else "whole", "restore a backup")
        yield self.engine()
        with self._database.read() as connection:
            for subject, statement, hint in _CHECKS:
                count = int(connection.execute(statement).scalar() or 0)
                yield Finding(subject, count == 0, str(count), hint)


_SERVER = """
SELECT current_setting('server_version_num')::int AS version, current_setting('server_version') AS told,
       current_user AS "user", (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user) AS sees_all,
       current_setting('max_connections')::int AS connections, (SELECT count(*) FROM pg_stat_activity) AS used,
       (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
"""


def _require_owner(scope: Scope) -> None:
    if not scope.owns:
        raise NotAllowed("the whole catalog is for whoever owns the workspace", hint="ask its owner")


def _count(column: sa.ColumnElement[object], *where: sa.ColumnElement[bool]) -> sa.Select[int]:
    return sa.select(sa.func.count(column)).where(*where)


_live_rows = sa.and_(
    t.documents.c.live == t.versions.c.ord,
    t.generations.c.project == t.documents.c.project,
    t.generations.c.state == "live",
)

_live_chunks = sa.exists().where(
    t.chunks.c.version == t.versions.c.ord, t.chunks.c.generation == t.generations.c.chunks
)

_CHECKS: list[tuple[str, sa.Select[int], str]] = [
    (
        "ready files without chunks",
        _count(t.documents.c.ord, _live_rows, t.versions.c.status == "ready", ~_live_chunks),
        "remove them with ragforge rm and add them again",
    ),
    (
        "chunks without a section",
        _count(t.chunks.c.ord, ~sa.exists().where(section_of_chunk())),
        "remove the files with ragforge rm and add them again",
    ),
    (
        "chunks without a vector",
        _count(
            t.chunks.c.ord,
            _live_rows,
            t.chunks.c.version == t.versions.c.ord,
            t.chunks.c.generation == t.generations.c.chunks,
            ~sa.exists().where(
                t.embeddings.c.project == t.chunks.c.project,
                t.embeddings.c.text_hash == t.chunks.c.text_hash,
                t.embeddings.c.embedder == t.generations.c.embedder,
            ),
        ),
        "remove the files with ragforge rm and add them again",
    ),
    (
        "vectors without a chunk",
        _count(
            t.embeddings.c.ord,
            ~sa.exists().where(
                t.chunks.c.project == t.embeddings.c.project, t.chunks.c.text_hash == t.embeddings.c.text_hash
            ),
        ),
        "ragforge check --repair removes them",
    ),
    (
        "versions nobody shows",
        _count(
            t.versions.c.ord,
            ~sa.exists().where(
                t.documents.c.ord == t.versions.c.document,
                (t.documents.c.live == t.versions.c.ord) | (t.documents.c.latest == t.versions.c.ord),
            ),
        ),
        "ragforge check --repair removes them",
    ),
    (
        "documents without a source",
        _count(t.documents.c.ord, ~sa.exists().where(t.sources.c.document == t.documents.c.ord)),
        "remove them with ragforge rm",
    ),
    (
        "chunk counts that differ",
        _count(
            t.versions.c.ord,
            _live_rows,
            t.versions.c.chunks
            != sa.select(sa.func.count())
            .where(t.chunks.c.version == t.versions.c.ord, t.chunks.c.generation == t.generations.c.chunks)
            .scalar_subquery(),
        ),
        "remove the files with ragforge rm and add them again",
    ),
]
