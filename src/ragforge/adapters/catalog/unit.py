"""What the catalog's parts share inside one transaction: the connection, the project's row, keys, time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import Connection, Row, Table
from sqlalchemy.exc import DBAPIError

from ragforge.adapters.catalog import tables as t
from ragforge.domain.access import Scope
from ragforge.domain.cursor import Cursor
from ragforge.domain.documents import Locator
from ragforge.domain.library import Topic
from ragforge.errors import NotFound
from ragforge.ports import Clock

Item = TypeVar("Item")


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_KEY = 2**63 - 1
CHANNEL = "ragforge"
"""What is committed is told here."""
KNOWLEDGE = "knowledge"
"""The counter that grows whenever an index of lessons must look again."""
_SERVER_NOW = "CAST(extract(epoch FROM statement_timestamp()) * 1000 AS bigint)"
SERVER_NOW: sa.ColumnElement[int] = sa.literal_column(_SERVER_NOW, sa.BigInteger)
"""Postgres' own time."""
_UPLOAD = "upload:"
_BESIDE = re.compile(rf"^({_UPLOAD})?\d+//")


def milliseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def moment(value: int) -> datetime:
    return datetime.fromtimestamp(value / 1000, UTC)


def batches(items: Iterable[Item], size: int = 500) -> Iterator[list[Item]]:
    """Lists of at most `size`: no statement takes an unbounded number of parameters."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def storable(text: str) -> str:
    """The text without what no database takes: NUL, and halves of characters."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def locator_columns(locator: Locator) -> dict[str, Any]:
    return {
        "path": json.dumps(locator.path, ensure_ascii=False) if locator.path else "[]",
        "page": locator.page,
        "page_end": locator.page_end,
        "time_start": locator.start,
        "time_end": locator.end,
        "speaker": locator.speaker,
    }


def locator(row: Row[Any]) -> Locator:
    return Locator(tuple(json.loads(row.path)), row.page, row.page_end, row.time_start, row.time_end, row.speaker)


def stored_locator(fields: Mapping[str, Any]) -> Locator:
    """One that is kept as JSON."""
    return Locator(**{**fields, "path": tuple(fields["path"])})


def cleared(scope: Scope) -> sa.ColumnElement[bool]:
    """Documents the scope may know of."""
    return t.documents.c.confidentiality <= int(scope.clearance)


def reached(scope: Scope, project: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
    """Rows of projects the scope reaches; `project` is their column."""
    if scope.projects is None:
        return sa.true()
    return project.in_(sa.select(t.projects.c.ord).where(t.projects.c.id.in_(scope.projects)))


def beyond(table: Table, after: Cursor | None, *, newest_first: bool = False) -> sa.ColumnElement[bool]:
    """Rows after the one where a page ended, in a list by age.

    If that row is gone by now, those of its moment come once more: twice is better than never.
    """
    if after is None:
        return sa.true()
    others, moment = table.alias("others").c, milliseconds(after.at)
    last = sa.select(others.ord).where(others.id == storable(after.id)).scalar_subquery()
    if newest_first:
        later = sa.select(sa.func.min(others.ord)).where(others.created_at > moment).scalar_subquery()
        return table.c.ord < sa.func.coalesce(last, later, sa.literal(LAST_KEY, sa.BigInteger))
    earlier = sa.select(sa.func.max(others.ord)).where(others.created_at < moment).scalar_subquery()
    return table.c.ord > sa.func.coalesce(last, earlier, 0)


def beside(key: str, number: int) -> str:
    """A source's key where the plain one is taken by a document above: no path and no upload has one like it."""
    head = _UPLOAD if key.startswith(_UPLOAD) else ""
    return f"{head}{number}//{key.removeprefix(head)}"


def plain_key(key: str) -> str:
    """The key that was asked for."""
    return _BESIDE.sub(r"\1", key)


def key_seen_by(scope: Scope, key: str) -> str:
    """Only who sees all documents may know that another has the same key."""
    return key if scope.sees_all else plain_key(key)


def wears(scope: Scope, key: str) -> sa.ColumnElement[bool]:
    """Sources that have this key, as the scope sees it."""
    same: sa.ColumnElement[bool] = t.sources.c.key == key
    if scope.sees_all or not key.startswith(_UPLOAD):
        return same
    name = key.removeprefix(_UPLOAD)
    return same | (t.sources.c.key.startswith(_UPLOAD) & t.sources.c.key.endswith(f"//{name}", autoescape=True))


def by_any_model() -> sa.ColumnElement[bool]:
    """True of every vector; but with the models named, their index finds a text's vectors without reading them all."""
    return t.embeddings.c.embedder.in_(sa.select(t.embedders.c.ord))


class Session:
    """One transaction's connection, with the few things every part needs."""

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        wall: Callable[[Connection, str], None] | None = None,
        *,
        by_server: bool = False,
    ) -> None:
        """`wall` tells the server of which projects the transaction is; without it, it is of all.

        `by_server`: leases go by the server's clock.
        """
        self.connection = connection
        self.execute = connection.execute
        self._clock = clock
        self._wall = wall
        self._by_server = by_server
        self._entered: frozenset[str] | bool | None = False

    @property
    def is_postgres(self) -> bool:
        return self.connection.dialect.name == "postgresql"

    def enter(self, scope: Scope) -> None:
        """What follows is done in this scope: rows of projects that it does not reach are not there."""
        if self._wall is not None and scope.projects != self._entered:
            self._wall(self.connection, "*" if scope.projects is None else ",".join(sorted(scope.projects)))
            self._entered = scope.projects

    def now(self) -> int:
        return milliseconds(self._clock())

    def lease_now(self) -> sa.ColumnElement[int]:
        """The moment by which leases are granted and judged: on a server its own, whatever time a machine has."""
        return SERVER_NOW if self._by_server else sa.literal(self.now(), sa.BigInteger)

    def quick_lease_now(self) -> tuple[str, tuple[int, ...]]:
        """The same for `quick`: how it is written in a statement, and its values."""
        return (_SERVER_NOW, ()) if self._by_server else ("?", (self.now(),))

    def keys(self, table: Table, count: int) -> range:
        """`count` new keys. They are never given twice, not even after a deletion."""
        return self.counted(table.name, count)

    def counted(self, name: str, count: int = 1) -> range:
        """The next numbers of this name. Whoever takes some keeps others from it until the transaction ends."""
        first = self._dialect_insert()(t.counters).values(name=name, value=count)
        statement = first.on_conflict_do_update(
            index_elements=[t.counters.c.name], set_={"value": t.counters.c.value + count}
        )
        last = self.execute(statement.returning(t.counters.c.value)).scalar_one()
        return range(int(last) - count + 1, int(last) + 1)

    def project(self, scope: Scope, project: str) -> Row[Any]:
        """The project's row if the scope reaches it. A foreign project and a missing one look the same."""
        row = self.execute(sa.select(t.projects).where(t.projects.c.id == project)).one_or_none()
        if row is None or not scope.reaches(project):
            raise NotFound(f"no project {project!r}", hint="ragforge project ls shows what there is")
        return row

    def project_key(self, scope: Scope, project: str) -> int:
        """The project's key, for what every question asks: without building a statement."""
        rows = self.quick("SELECT ord FROM projects WHERE id = ?", (project,)) if scope.reaches(project) else ()
        return int(rows[0][0]) if rows else int(self.project(scope, project).ord)

    def still_there(self, project: int, documents: Iterable[str]) -> set[str]:
        """Those of the ids that are a document's of this project, whoever may know of it."""
        found: set[str] = set()
        for batch in batches(sorted(set(documents))):
            ids = sa.select(t.documents.c.id).where(t.documents.c.project == project, t.documents.c.id.in_(batch))
            found |= set(self.execute(ids).scalars())
        return found

    def is_above(self, scope: Scope, project: int, document: str) -> bool:
        """Whether this is a document of the project that the scope may not know of."""
        found = sa.select(t.documents.c.ord).where(
            t.documents.c.project == project, t.documents.c.id == document, ~cleared(scope)
        )
        return self.execute(found).first() is not None

    def lock(self, project: int) -> None:
        """On Postgres, changes of one project get their numbers one transaction after the other."""
        if self.is_postgres:
            self.execute(sa.select(sa.func.pg_advisory_xact_lock(project)))

    def tell(self, topic: Topic, *news: object) -> None:
        """On Postgres, let all machines know when this is committed. Elsewhere nobody listens."""
        if self.is_postgres:
            told = sa.func.unnest(sa.literal([f"{topic} {of}" for of in news], sa.ARRAY(sa.Text)))
            self.execute(sa.select(sa.func.pg_notify(CHANNEL, told)))

    def quick(self, statement: str, values: tuple[Any, ...]) -> Sequence[Sequence[Any]]:
        """Rows of a statement as it is written, with `?` for its values, straight from the driver."""
        dialect = self.connection.dialect
        if dialect.paramstyle != "qmark":
            statement = statement.replace("?", "%s")
        errors = dialect.loaded_dbapi.Error
        cursor = self.connection.connection.cursor()
        try:
            cursor.execute(statement, values)
            return cursor.fetchall()
        except errors as problem:
            raise DBAPIError.instance(statement, values, problem, errors) from problem
        finally:
            cursor.close()

    def insert_new(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert the rows whose key is not there yet."""
        self.insert(table, rows, " ON CONFLICT DO NOTHING")

    def insert(self, table: Table, rows: Sequence[Mapping[str, Any]], suffix: str = "") -> None:
        """Insert rows that all have the same columns. Straight to the driver: a third of the time for many rows."""
        if not rows:
            return
        columns = tuple(rows[0])
        quote = self.connection.dialect.identifier_preparer.quote
        mark = "?" if self.connection.dialect.paramstyle == "qmark" else "%s"
        names, marks = ", ".join(map(quote, columns)), ", ".join([mark] * len(columns))
        values = [tuple(row[column] for column in columns) for row in rows]
        self.connection.exec_driver_sql(f"INSERT INTO {table.name} ({names}) VALUES ({marks}){suffix}", values)  # noqa: S608

    def _dialect_insert(self) -> Any:
        """The dialect's own INSERT; loading the other one would cost every command 30 ms."""
        if self.is_postgres:
            from sqlalchemy.dialects import postgresql

            return postgresql.insert
        from sqlalchemy.dialects import sqlite

        return sqlite.insert
