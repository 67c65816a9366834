"""The catalog's contract, kept on SQLite and on Postgres."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from ragforge.adapters.catalog import tables
from ragforge.adapters.catalog.catalog import SqlCatalog
from ragforge.adapters.catalog.database import Database
from ragforge.ports import Catalog
from ragforge.testing.contracts.catalog import CatalogContract
from ragforge.testing.postgres import TemporaryPostgres
from ragforge.testing.shelf import ManualClock


@pytest.fixture(scope="module")
def sqlite_database(memory_folder: Path | None) -> Iterator[Database]:
    with tempfile.TemporaryDirectory(dir=memory_folder) as folder:
        database = Database.sqlite(Path(folder) / "catalog.db", 30)
        database.upgrade()
        yield database
        database.close()


@pytest.fixture(scope="module")
def postgres_database(postgres: TemporaryPostgres) -> Iterator[Database]:
    url = postgres.create()
    database = Database.postgres(url)
    database.upgrade()
    yield database
    database.close()
    postgres.drop(url)


def emptied(database: Database, clock: ManualClock) -> Catalog:
    """A catalog with nothing in it. Making a new database for each test would take most of the time."""
    with database.write() as connection:
        for table in reversed(tables.metadata.sorted_tables):
            connection.execute(sa.delete(table))
    return SqlCatalog(database, clock)


class TestSqliteCatalog(CatalogContract):
    @pytest.fixture
    def catalog(self, sqlite_database: Database, clock: ManualClock) -> Catalog:
        return emptied(sqlite_database, clock)


class TestPostgresCatalog(CatalogContract):
    @pytest.fixture
    def catalog(self, postgres_database: Database, clock: ManualClock) -> Catalog:
        return emptied(postgres_database, clock)
