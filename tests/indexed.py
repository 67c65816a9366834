"""What tests of indexes in Postgres share: a database of theirs, and a look at the bytes in its files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ragforge.adapters.postgres import PostgresServer
from ragforge.testing.postgres import TemporaryPostgres


@contextmanager
def index_database(postgres: TemporaryPostgres, connections: int = 8) -> Iterator[PostgresServer]:
    """A new database, for as long as the block, for who may also look into its files."""
    url = postgres.as_superuser(postgres.create())
    server = PostgresServer(url, connections)
    try:
        yield server
    finally:
        server.close()
        postgres.drop(url)


def execute(server: PostgresServer, statement: str, *values: object) -> list[tuple[object, ...]]:
    with server.connection() as connection:
        cursor = connection.execute(statement.encode(), values or None)
        return cursor.fetchall() if cursor.description else []


def tables(server: PostgresServer) -> list[str]:
    """The tables of indexes, current or not."""
    found = execute(
        server, "SELECT tablename FROM pg_tables WHERE schemaname = 'ragforge_index' AND tablename <> 'state'"
    )
    return sorted(str(name) for (name,) in found)


def files_with(server: PostgresServer, content: bytes) -> list[str]:
    """The files of the database that hold these bytes, all written out."""
    execute(server, "CHECKPOINT")
    found = execute(
        server,
        "SELECT name FROM (SELECT 'base/' || oid AS folder FROM pg_database WHERE datname = current_database()) f,"
        " pg_ls_dir(folder) AS name"
        " WHERE position(%s::bytea IN pg_read_binary_file(folder || '/' || name, true)) > 0",
        content,
    )
    return [str(name) for (name,) in found]
