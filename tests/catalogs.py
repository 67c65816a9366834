"""A workspace's catalog in plain SQL, beside ragforge: in its file, or in its database."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from ragforge.settings import FILE_NAME, load
from ragforge.testing.postgres import seeing_all


def database_of(workspace: Path) -> str:
    """The address of a workspace's database; empty where the catalog is a file in it."""
    return load(workspace, env={}, folder=workspace).store.database_url


@contextmanager
def catalog_of(workspace: Path) -> Iterator[sa.Connection]:
    """A transaction in a workspace's catalog."""
    url = database_of(workspace)
    engine = _postgres(seeing_all(url)) if url else _sqlite(workspace / "catalog.db")
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def change(workspace: Path, statement: str, **values: object) -> None:
    """One statement, with values written `:name`."""
    with catalog_of(workspace) as catalog:
        catalog.execute(sa.text(statement), values)


def rows_of(workspace: Path) -> dict[str, list[tuple[object, ...]]]:
    """Everything that the catalog holds, by table."""
    with catalog_of(workspace) as catalog:
        names = sa.inspect(catalog).get_table_names()
        return {name: [tuple(row) for row in catalog.execute(sa.text(f'SELECT * FROM "{name}"'))] for name in names}


def tables_with(needle: bytes, workspace: Path) -> list[str]:
    """The tables of a workspace's database that hold these bytes in a row; none where the catalog is a file."""
    if not (workspace / FILE_NAME).exists() or not database_of(workspace):
        return []
    needles = (needle, _as_sent(needle))
    with catalog_of(workspace) as catalog:
        inspected = sa.inspect(catalog)
        schemas = set(inspected.get_schema_names()) - {"information_schema"}
        tables = [f'"{schema}"."{name}"' for schema in schemas for name in inspected.get_table_names(schema)]
        return [table for table in tables if any(each in _bytes_of(catalog, table) for each in needles)]


def copy_workspace(workspace: Path, to: Path) -> None:
    """The same workspace in another folder, its database too if it has one. Nobody may be at work in it."""
    shutil.copytree(workspace, to)
    if url := database_of(workspace):
        _copy_database(sa.make_url(url), sa.make_url(database_of(to)))


def _copy_database(source: sa.URL, to: sa.URL) -> None:
    engine = _postgres(to.set(database="postgres").render_as_string(hide_password=False))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as server:
        server.exec_driver_sql(f'DROP DATABASE "{to.database}"')
        server.exec_driver_sql(f'CREATE DATABASE "{to.database}" TEMPLATE "{source.database}"')


def _bytes_of(catalog: sa.Connection, table: str) -> bytes:
    """A table's rows as the server sends them: texts and bytes are in there as they are."""
    driver: Any = catalog.connection.driver_connection
    with driver.cursor().copy(f"COPY {table} TO STDOUT (FORMAT binary)".encode()) as copied:
        return b"".join(copied)


def _as_sent(needle: bytes) -> bytes:
    """Numbers of four bytes as a server sends those of a vector: the other way round."""
    return b"".join(needle[at : at + 4][::-1] for at in range(0, len(needle), 4))


def _postgres(url: str) -> sa.Engine:
    return sa.create_engine(f"postgresql+psycopg://{url.partition('://')[2]}", poolclass=sa.NullPool)


def _sqlite(path: Path) -> sa.Engine:
    import pysqlite3.dbapi2 as sqlite  # the catalog's own: two libraries in one process do not see each other's locks

    return sa.create_engine(f"sqlite:///{path}", module=sqlite, poolclass=sa.NullPool)
