"""Vectors in Postgres, by pgvector: few rows are all looked at, many through a graph (HNSW).

Rows are stored with length one, so that the inner product is the cosine; one of length zero stays as it is and scores
zero, and the graph holds it like any other.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from ragforge.adapters.postgres import PostgresServer, Sent
from ragforge.adapters.postgres_index import (
    SCHEMA,
    PostgresIndex,
    PostgresReader,
    State,
    copying,
    filter_of,
    numbers,
    ranked,
    run,
)
from ragforge.adapters.vectors.rows import NOTHING, best, checked, checked_query, finds_nothing, pieces, scores_of
from ragforge.domain.retrieval import Allowed, Keys, Ranked, Scores, VectorRows
from ragforge.domain.tokens import Matrix, Vector
from ragforge.errors import BadVectors, IndexLost, StoreError

if TYPE_CHECKING:
    import psycopg

_COLUMNS = "key, document, embedding"
_BATCH = 4_096
"""Rows that are written at a time."""
_MOST_DIMENSIONS = 16_000
_INLINE_DIMENSIONS = 1_900
"""Vectors up to this stand in the row itself: a scan that fetches each from elsewhere takes several times as long."""
_GRAPH_DIMENSIONS = 2_000
_HALF_DIMENSIONS = 4_000
"""Above the first a graph is made of numbers of half the size, and above this there can be none."""
_LINKS, _CANDIDATES = 16, 128
"""Of each row in the graph, and looked at to choose them."""
_BREADTH = 100
"""Rows that a search of the graph keeps in view and brings, at least: the nearest allowed ones may come late."""
_MOST_BREADTH = 1_000
"""As many as pgvector allows; who asks for more gets an exact scan."""
_SPARE = 16
"""Rows fetched beyond k, so that equal ones at the cut are told apart by their keys."""
_LEAP = 45
"""A row reached through the graph costs as much as so many in a scan (measured)."""
_BULK = 8
"""To add a row to a graph takes as long as so many take in building one (measured)."""
_MEMORY_KB = 2 << 20
"""A graph of more than this is built on the disk."""
_OUT_OF_SPACE = ("53100", "53200")
_OLDEST = 0, 8


class PgVectorReader(PostgresReader):
    """The nearest rows by cosine."""

    def search(self, query: Vector, k: int, allowed: Allowed) -> Ranked:
        dimension = int(self._state.facts["dimension"])
        if finds_nothing(k, allowed) or not dimension:
            return NOTHING
        asked = _sent(checked_query(query, dimension))
        wanted = max(_BREADTH, min(k, self.rows) + _SPARE)
        if self._state.facts["graph"] and wanted <= _MOST_BREADTH and not self._is_narrow(allowed, wanted):
            found = self._through_graph(asked, wanted, allowed)
            if len(found) >= min(k, self.rows):
                return best(found.keys, found.scores, k)
        return self._exact(asked, k, allowed)

    def score(self, query: Vector, keys: Keys) -> Scores:
        dimension = int(self._state.facts["dimension"])
        if not dimension or not len(keys):
            return np.full(len(keys), np.nan, np.float32)
        asked = _sent(checked_query(query, dimension))
        values = {"asked": asked, "keys": numbers(np.unique(keys))}
        found = self._ask(
            f"SELECT key, -(embedding <#> %(asked)s::vector)"  # noqa: S608
            f" FROM {self._table} WHERE key = ANY (%(keys)s::bigint[])",
            values,
        )
        known = ranked(found)
        return scores_of(keys, known.keys, known.scores)

    def _exact(self, asked: Sent, k: int, allowed: Allowed) -> Ranked:
        values: dict[str, object] = {"asked": asked, "limit": k}
        # no graph is made for this expression, so none is used
        found = self._ask(
            f"SELECT key, -(embedding <#> %(asked)s::vector) AS score FROM {self._table}"  # noqa: S608
            f" WHERE true{filter_of(allowed, values)} ORDER BY score DESC, key LIMIT %(limit)s",
            values,
        )
        return ranked(found)

    def _through_graph(self, asked: Sent, wanted: int, allowed: Allowed) -> Ranked:
        """Rows by the graph, which is walked on until enough allowed ones are found; compared exactly afterwards."""
        values: dict[str, object] = {"asked": asked, "limit": wanted}
        distance = _distance(int(self._state.facts["dimension"]), "%(asked)s::vector")
        nearest = (
            f"SELECT key, embedding FROM {self._table}"  # noqa: S608
            f" WHERE true{filter_of(allowed, values)} ORDER BY {distance} LIMIT %(limit)s"
        )
        found = self._ask(
            f"SELECT key, -(embedding <#> %(asked)s::vector) AS score FROM ({nearest}) nearest",  # noqa: S608
            values,
            settings=(
                f"SET LOCAL hnsw.ef_search = {wanted};"
                # in strict order, a row that is met after farther ones is dropped: at a filter of 10 % every fourth
                "SET LOCAL hnsw.iterative_scan = relaxed_order;"
                f"SET LOCAL hnsw.max_scan_tuples = {min(max(20_000, self.rows), 2**31 - 1)}"
            ),
        )
        return ranked(found)

    def _is_narrow(self, allowed: Allowed, wanted: int) -> bool:
        """Whether so few rows are allowed that looking at each costs less than finding them in the graph."""
        if allowed.documents is None:
            return False
        few = math.isqrt(_LEAP * wanted * self.rows)
        limit = self.rows - few if allowed.deny else few
        if limit <= 0:
            return True
        values = {"documents": numbers(allowed.documents), "limit": limit}
        [(count,)] = self._ask(
            f"SELECT count(*) FROM (SELECT FROM {self._table}"  # noqa: S608
            " WHERE document = ANY (%(documents)s::bigint[]) LIMIT %(limit)s) listed",
            values,
        )
        return bool(count >= limit) if allowed.deny else bool(count < limit)


class PgVectorIndex(PostgresIndex[VectorRows]):
    """Rows with a vector each; above `exact_rows` of them with a graph."""

    engine = "pgvector"
    kind = "vectors"

    def __init__(self, server: PostgresServer, name: str, fingerprint: str, *, exact_rows: int = 20_000) -> None:
        super().__init__(server, name, fingerprint)
        self._exact_rows = exact_rows

    def pin(self) -> PgVectorReader:
        return PgVectorReader(self._place, *self._pinned())

    def _install(self) -> None:
        with self._server.connection() as connection:
            version = _extension(connection)
            if version is None:
                _make_extension(connection)
            elif tuple(map(int, version.split(".")[:2])) < _OLDEST:
                raise StoreError(
                    f"pgvector {version} in the database is too old",
                    hint="install pgvector 0.8 or newer on the server, then: ALTER EXTENSION vector UPDATE",
                )

    def _enter(self, connection: psycopg.Connection[Any]) -> None:
        if _extension(connection) is None:
            raise IndexLost("pgvector is no longer in the database")

    def _fill(self, connection: psycopg.Connection[Any], table: str, rows: Iterable[VectorRows]) -> State:
        parts = (checked(part, 0) for part in rows if len(part.keys))
        first = list(islice(parts, 1))
        dimension = int(first[0].vectors.shape[1]) if first else 0
        _make_table(connection, table, dimension)
        count = 0
        with copying(connection, table, _COLUMNS, "FORMAT binary, FREEZE") as copy:
            for part in chain(first, parts):
                _send(copy, checked(part, dimension))
                count += len(part.keys)
        return self._finished(connection, State(table, 0, count, dead=False, facts={"dimension": dimension}))

    def _change(
        self, connection: psycopg.Connection[Any], state: State, put: VectorRows, removed: Keys
    ) -> State | None:
        dimension = int(state.facts["dimension"])
        put = checked(put, dimension)
        if not dimension and len(put.keys):  # a table is made for one dimension
            return None
        if state.facts["graph"] and len(put.keys) * _BULK > state.rows:
            return self._joined(connection, state, put, removed)
        values = {"keys": numbers(np.union1d(put.keys, removed))}
        delete = f"DELETE FROM {SCHEMA}.{state.table} WHERE key = ANY (%(keys)s::bigint[])"  # noqa: S608
        gone = run(connection, delete, values).rowcount
        if len(put.keys):
            with copying(connection, state.table, _COLUMNS, "FORMAT binary") as copy:
                _send(copy, put)
        changed = replace(state, rows=state.rows - gone + len(put.keys), dead=state.dead or gone > 0)
        return changed if changed.facts["graph"] else self._with_graph(connection, changed)

    def _joined(self, connection: psycopg.Connection[Any], state: State, put: VectorRows, removed: Keys) -> State:
        """Rows old and new in a table of their own: one graph for all takes less than so many more rows in the old."""
        table = self._place.new_table(connection)
        _make_table(connection, table, int(state.facts["dimension"]))
        values = {"keys": numbers(np.union1d(put.keys, removed))}
        kept = f"SELECT * FROM {SCHEMA}.{state.table} WHERE key <> ALL (%(keys)s::bigint[]) ORDER BY key"  # noqa: S608
        count = run(connection, f"INSERT INTO {SCHEMA}.{table} {kept}", values).rowcount
        with copying(connection, table, _COLUMNS, "FORMAT binary") as copy:
            _send(copy, put)
        return self._finished(connection, replace(state, table=table, rows=count + len(put.keys), dead=False))

    def _copy(self, connection: psycopg.Connection[Any], state: State, table: str) -> State:
        _make_table(connection, table, int(state.facts["dimension"]))
        run(connection, f"INSERT INTO {SCHEMA}.{table} SELECT * FROM {SCHEMA}.{state.table} ORDER BY key")  # noqa: S608
        return self._finished(connection, replace(state, table=table))

    def _finished(self, connection: psycopg.Connection[Any], state: State) -> State:
        """With what makes a full table quick to search."""
        run(connection, f"ALTER TABLE {SCHEMA}.{state.table} ADD PRIMARY KEY (key)")
        run(connection, f"CREATE INDEX ON {SCHEMA}.{state.table} (document)")
        run(connection, f"ANALYZE {SCHEMA}.{state.table} (key, document)")
        return self._with_graph(connection, state)

    def _with_graph(self, connection: psycopg.Connection[Any], state: State) -> State:
        dimension = int(state.facts["dimension"])
        wanted = state.rows > self._exact_rows and 0 < dimension <= _HALF_DIMENSIONS
        if wanted:
            _make_graph(connection, state.table, dimension, state.rows)
        return replace(state, facts={"dimension": dimension, "graph": int(wanted)})

    def _examine(self, connection: psycopg.Connection[Any], state: State) -> Iterator[str]:
        whole = f"vector_dims(embedding) = {int(state.facts['dimension'])} AND vector_norm(embedding) < 'infinity'"
        look = f"SELECT count(*), count(*) FILTER (WHERE {whole}) FROM {SCHEMA}.{state.table}"  # noqa: S608
        [(count, sound)] = run(connection, look).fetchall()
        if count != state.rows:
            yield f"{state.rows:,} rows are counted, {count:,} are there"
        if sound != count:
            yield f"{count - sound:,} rows have no vector that can be used"
        graphs = "SELECT count(*) FROM pg_index WHERE indrelid = %s::regclass AND indisvalid AND NOT indisprimary"
        [(valid,)] = run(connection, graphs, (f"{SCHEMA}.{state.table}",)).fetchall()
        if valid != 1 + state.facts["graph"]:
            yield "the graph of the vectors is missing"


# -- the server's side


def _extension(connection: psycopg.Connection[Any]) -> str | None:
    """The version of pgvector in this database, if it is there; its types and operators are seen from now on."""
    found = run(
        connection,
        "SELECT extversion, set_config('search_path', quote_ident(nspname), true)"
        " FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'vector'",
    ).fetchone()
    return None if found is None else str(found[0])


def _make_extension(connection: psycopg.Connection[Any]) -> None:
    from psycopg.errors import InsufficientPrivilege

    if run(connection, "SELECT FROM pg_available_extensions WHERE name = 'vector'").fetchone() is None:
        raise StoreError(
            "the database server has no pgvector",
            hint="install pgvector 0.8 or newer on it, or choose another index.vectors in the settings",
        )
    run(connection, "SELECT pg_advisory_xact_lock(hashtext('vector'))")
    try:
        run(connection, "CREATE EXTENSION IF NOT EXISTS vector")
    except InsufficientPrivilege as problem:
        raise StoreError(
            "the database user may not add pgvector to the database",
            hint="as an administrator of the database: CREATE EXTENSION vector",
        ) from problem


def _make_table(connection: psycopg.Connection[Any], table: str, dimension: int) -> None:
    if dimension > _MOST_DIMENSIONS:
        raise BadVectors(f"vectors of {dimension:,} dimensions are more than pgvector holds: {_MOST_DIMENSIONS:,}")
    storage = "PLAIN" if dimension <= _INLINE_DIMENSIONS else "EXTERNAL"
    run(
        connection,
        f"CREATE TABLE {SCHEMA}.{table} (key bigint NOT NULL, document bigint NOT NULL,"
        f" embedding vector({dimension or 1}) STORAGE {storage} NOT NULL)",
    )


def _make_graph(connection: psycopg.Connection[Any], table: str, dimension: int, rows: int) -> None:
    """In memory where it fits, by several processes if the server lets their shared memory be so large."""
    from psycopg import OperationalError

    operators = "vector_ip_ops" if dimension <= _GRAPH_DIMENSIONS else "halfvec_ip_ops"
    indexed = "embedding" if dimension <= _GRAPH_DIMENSIONS else f"(embedding::halfvec({dimension}))"
    needed = rows * (4 * dimension + 24 * _LINKS + 200) // 1024
    memory = f"SET LOCAL maintenance_work_mem = '{max(64 << 10, min(_MEMORY_KB, needed * 5 // 4))}kB'"
    make = (
        f"CREATE INDEX ON {SCHEMA}.{table} USING hnsw ({indexed} {operators})"
        f" WITH (m = {_LINKS}, ef_construction = {_CANDIDATES})"
    )
    try:
        with connection.transaction():
            connection.execute(f"{memory};{make}".encode())
    except OperationalError as problem:
        if problem.sqlstate not in _OUT_OF_SPACE:
            raise
        with connection.transaction():
            connection.execute(f"{memory};SET LOCAL max_parallel_maintenance_workers = 0;{make}".encode())


def _distance(dimension: int, asked: str) -> str:
    """As the graph was made: else it would not be used."""
    if dimension <= _GRAPH_DIMENSIONS:
        return f"embedding <#> {asked}"
    return f"embedding::halfvec({dimension}) <#> {asked}::halfvec({dimension})"


# -- rows on their way


def _send(copy: psycopg.Copy, rows: VectorRows) -> None:
    """As the server writes them itself: sizes before values, the highest byte first."""
    for part in pieces(rows, _BATCH):
        dimension = part.vectors.shape[1]
        records = np.zeros(
            len(part.keys),
            [
                ("fields", ">i2"),
                ("key_size", ">i4"),
                ("key", ">i8"),
                ("document_size", ">i4"),
                ("document", ">i8"),
                ("size", ">i4"),
                ("dimension", ">i2"),
                ("unused", ">i2"),
                ("numbers", ">f4", (dimension,)),
            ],
        )
        records["fields"], records["key_size"], records["document_size"] = 3, 8, 8
        records["key"], records["document"] = part.keys, part.documents
        records["size"], records["dimension"] = 4 + 4 * dimension, dimension
        records["numbers"] = _unit(part.vectors)
        copy.write(records.tobytes())


def _unit(vectors: Matrix) -> Matrix:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def _sent(query: Vector) -> Sent:
    return Sent(struct.pack(">hh", len(query), 0) + query.astype(">f4").tobytes())
