"""The whole catalog as rows that any database takes, and back. What is derived or passes by is left out."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Table
from sqlalchemy.exc import DataError, IntegrityError

from ragforge.adapters.catalog import tables as t
from ragforge.adapters.catalog.catalog import SqlUnit
from ragforge.adapters.catalog.conversations import remove_conversation, remove_turn
from ragforge.adapters.catalog.database import HEAD, Database
from ragforge.adapters.catalog.identity import IS_CLAIM, known_identity
from ragforge.adapters.catalog.jobs import KEPT_MILLISECONDS, waiting_uploads
from ragforge.adapters.catalog.querylog import remove_questions
from ragforge.adapters.catalog.unit import Session, batches, milliseconds
from ragforge.domain.access import Scope
from ragforge.domain.archives import Kind, TableShape, Tombstone
from ragforge.domain.library import UPLOAD
from ragforge.errors import CorruptStore, StoreError, UserError
from ragforge.ports import TableRow

_PASSING = frozenset({"index_states", "nodes"})
"""How far indexes are that are built anew."""
_ROWS = 200
_IS_ID = re.compile(r"[0-9a-f]{16}")
_IS_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*-?")
_IS_INBOX = re.compile(r"[0-9a-f]{32}")
_IS_BLOB = re.compile(r"([a-z0-9]+/\d{4}-\d{2}-\d{2}/[0-9a-f]{32})?")
_PATHS: Mapping[tuple[str, str], re.Pattern[str]] = {
    ("projects", "id"): _IS_ID,
    ("projects", "slug"): _IS_SLUG,
    ("versions", "blob"): _IS_BLOB,
}
"""Values that become part of a path."""
_NOT_TAKEN_OVER: Mapping[tuple[str, str], str] = {("question_sets", "folder"): ""}
"""Where an import of questions writes their documents is for this machine to choose, not for a file."""


class SqlDump:
    """Every table as one transaction sees it. Whoever has it owns the workspace."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.schema = HEAD
        self.shapes = [_shape(table) for table in t.metadata.sorted_tables if table.name not in _PASSING]
        self.last_removal = int(connection.execute(sa.select(sa.func.max(t.tombstones.c.ord))).scalar() or 0)

    def rows(self, table: str) -> Iterator[TableRow]:
        """A few at a time, however many there are."""
        source = t.metadata.tables[table]
        binary = _shape(source).binary
        wanted = waiting_uploads() if source is t.jobs else sa.select(source)  # other work is of those who are at it
        if source is t.counters:
            wanted = wanted.where(~IS_CLAIM)
        found = self._connection.execution_options(yield_per=_ROWS).execute(
            wanted.order_by(*source.primary_key.columns)
        )
        for row in found.mappings():
            yield {**row, **{name: b64encode(row[name]).decode() for name in binary if row[name] is not None}}


class SqlLoad:
    """A catalog that is being filled for its owner; the transaction is not committed yet."""

    def __init__(self, scope: Scope, unit: SqlUnit, session: Session) -> None:
        self.unit = unit
        self._scope = scope
        self._session = session

    def identity(self) -> str:
        """By what the catalog was known when the backup was made; empty if it was not yet."""
        return known_identity(self._session)

    def remove_again(self, tombstones: Sequence[Tombstone]) -> int:
        """What the backup knows was removed before it was made: if that is in it, it had come back."""
        known = {(each.kind, each.id): each.removed_at for each in self.unit.tombstones.all(self._scope)}
        newest = {(each.kind, each.id): each for each in sorted(tombstones, key=lambda each: each.removed_at)}
        since = [each for key, each in newest.items() if key not in known or known[key] < each.removed_at]
        pruned = batches(each.id for each in since if each.kind == Kind.QUESTION)  # they can be many
        removed = sum(remove_questions(self._session, t.query_log.c.id.in_(some)) for some in pruned)
        removed += sum(self._remove(each) for each in since if each.kind != Kind.QUESTION)
        forgotten = self._forgotten(since)
        self.without_uploads(forgotten)
        removed += len(forgotten)
        self.unit.tombstones.put(self._scope, since)
        return removed

    def without_bytes(self, blobs: Collection[str]) -> None:
        for some in batches(sorted(blobs)):
            self._session.execute(sa.update(t.versions).where(t.versions.c.blob.in_(some)).values(blob=""))

    def without_uploads(self, jobs: Collection[str]) -> None:
        for some in batches(sorted(jobs)):
            self._session.execute(sa.delete(t.jobs).where(t.jobs.c.id.in_(some)))

    def _forgotten(self, since: Sequence[Tombstone]) -> list[str]:
        """Uploads that wait here and came to be documents which were removed when their jobs were no longer known, so
        that no tombstone names them: their bytes do."""
        documents = sorted((each for each in since if each.kind == Kind.DOCUMENT), key=lambda each: each.removed_at)
        removed = {each.sha256: milliseconds(each.removed_at) for each in documents}
        return [
            job.id
            for job in self._session.execute(sa.select(t.jobs))
            if job.created_at + KEPT_MILLISECONDS < removed.get(json.loads(job.payload).get("sha256"), 0)
        ]

    def _remove(self, gone: Tombstone) -> bool:
        """Remove it if it is there. A key stays and opens nothing."""
        scope, row = self._scope, self._session.execute(_buried(gone)).one_or_none()
        if row is None:
            return False
        if gone.kind == Kind.DOCUMENT:
            self.unit.documents.remove(scope, row.project_id, gone.id)
        elif gone.kind == Kind.PROJECT:
            inside = sa.select(t.documents.c.id).where(t.documents.c.project == row.ord)
            for document in self._session.execute(inside).scalars().all():
                self.unit.documents.remove(scope, gone.id, document)
            self.unit.projects.remove(scope, gone.id)
        elif gone.kind == Kind.CONVERSATION:
            remove_conversation(self._session, row.ord, gone.id)
        elif gone.kind == Kind.TURN:
            remove_turn(self._session, row)
        elif gone.kind == Kind.ARTIFACT:
            self.unit.artifacts.remove(scope, row.project_id, gone.id)
        elif gone.kind == Kind.LESSON:
            self.unit.lessons.remove(scope, row.project_id, [gone.id])
        elif gone.kind == Kind.UPLOAD:
            self.without_uploads([gone.id])
        else:
            self.unit.keys.revoke(scope, gone.id)
        return gone.kind != Kind.KEY


def _buried(gone: Tombstone) -> sa.Select[Any]:
    """The row that a tombstone is of, with its project's id where it has one."""
    table = {
        Kind.DOCUMENT: t.documents,
        Kind.PROJECT: t.projects,
        Kind.CONVERSATION: t.conversations,
        Kind.TURN: t.turns,
        Kind.ARTIFACT: t.artifacts,
        Kind.LESSON: t.knowledge_staging,
        Kind.UPLOAD: t.jobs,
        Kind.KEY: t.access_keys,
    }[gone.kind]
    if gone.kind not in (Kind.DOCUMENT, Kind.ARTIFACT, Kind.LESSON):
        return sa.select(table).where(table.c.id == gone.id)
    project = t.projects.c.id.label("project_id")
    return sa.select(table, project).join(t.projects, t.projects.c.ord == table.c.project).where(table.c.id == gone.id)


def holds_nothing(connection: Connection) -> bool:
    there = set(sa.inspect(connection).get_table_names())
    kept = ("projects", "access_keys", "tombstones")
    return not any(
        connection.execute(sa.select(sa.literal(1)).select_from(t.metadata.tables[name]).limit(1)).first()
        for name in kept
        if name in there
    )


def load(
    database: Database, session: Session, schema: str, tables: Iterable[tuple[TableShape, Iterable[TableRow]]]
) -> None:
    """Make the tables of that version, fill them, and bring them to the newest, all in one transaction."""
    if not re.fullmatch(r"\d{4}", schema):
        raise _damaged("it does not say of which version it is")
    if schema > HEAD:
        raise StoreError(
            f"the backup was made by a newer ragforge (schema {schema}, this one knows {HEAD})",
            hint="update ragforge: pip install -U ragforge",
        )
    connection = session.connection
    _clear(connection)
    database.migrate_on(connection, schema)
    known = set(sa.inspect(connection).get_table_names()) - {"alembic_version"}
    reflected = sa.MetaData()
    for shape, rows in tables:
        if shape.name not in known:
            raise _damaged(f"it holds a table {shape.name!r} that version {schema} does not have")
        table = Table(shape.name, reflected, autoload_with=connection)
        if not set(shape.columns) <= set(table.c.keys()):
            raise _damaged(f"the table {shape.name} has columns that version {schema} does not have")
        for some in batches((_checked(table, shape, row) for row in rows), _ROWS):
            try:
                session.insert(table, some)
            except (IntegrityError, DataError):
                raise _damaged(f"rows of {shape.name} contradict others") from None
    if schema != HEAD:
        database.migrate_on(connection, "head")
    _require_whole(database, connection)
    if not database.is_sqlite:
        _set_sequences(connection)


def _clear(connection: Connection) -> None:
    """An empty catalog may have tables already, perhaps of another version."""
    there = set(sa.inspect(connection).get_table_names())
    if not there:
        return
    if not holds_nothing(connection):
        raise UserError("the catalog is not empty", hint="restore into a new workspace, or an empty database")
    for table in reversed(t.metadata.sorted_tables):
        if table.name in there:
            table.drop(connection)
    if "alembic_version" in there:
        connection.exec_driver_sql("DROP TABLE alembic_version")


def _shape(table: Table) -> TableShape:
    binary = tuple(column.name for column in table.columns if isinstance(column.type, sa.LargeBinary))
    return TableShape(table.name, tuple(table.columns.keys()), binary)


def _checked(table: Table, shape: TableShape, row: TableRow) -> dict[str, Any]:
    """The row's values as the database wants them: SQLite itself would take anything."""
    if tuple(row) != shape.columns:
        raise _damaged(f"a row of {shape.name} has other columns than it should")
    values = {name: _value(table, name, value, name in shape.binary) for name, value in row.items()}
    for (of, name), pattern in _PATHS.items():
        if of == shape.name and not pattern.fullmatch(str(values.get(name, ""))):
            raise _damaged(f"{shape.name}.{name} holds what is no name")
    values |= {name: other for (of, name), other in _NOT_TAKEN_OVER.items() if of == shape.name and name in values}
    if shape.name == "jobs" and not _is_upload(values):
        raise _damaged("a job in it is no upload")
    return values


def _is_upload(job: Mapping[str, Any]) -> bool:
    try:
        payload = json.loads(job["payload"])
        return job["kind"] == UPLOAD and _IS_INBOX.fullmatch(payload["inbox"]) is not None
    except (ValueError, KeyError, TypeError):
        return False


def _value(table: Table, name: str, value: Any, binary: bool) -> Any:
    column = table.c[name]
    if value is None and column.nullable:
        return None
    if binary and isinstance(value, str):
        try:
            return b64decode(value, validate=True)
        except NotBase64:
            raise _damaged(f"{table.name}.{name} is not base64") from None
    wanted = column.type.python_type
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, wanted) or (wanted is not bool and isinstance(value, bool)):
        raise _damaged(f"{table.name}.{name} holds {type(value).__name__}, not {wanted.__name__}")
    return value


def _require_whole(database: Database, connection: Connection) -> None:
    """SQLite looks after links between rows only as they are written one by one; look again at all of them."""
    if database.is_sqlite and connection.exec_driver_sql("PRAGMA foreign_key_check").first():
        raise _damaged("rows are missing that others belong to")


def _set_sequences(connection: Connection) -> None:
    """Numbers that the server gives begin after those that came."""
    for table, column in (("changes", "seq"), ("embeddings", "ord")):
        connection.exec_driver_sql(
            f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), "  # noqa: S608 - names of ours
            f"COALESCE((SELECT MAX({column}) FROM {table}), 0) + 1, false)"
        )


def _damaged(why: str) -> CorruptStore:
    return CorruptStore(f"the backup is damaged: {why}", hint="take another backup; nothing was changed")
