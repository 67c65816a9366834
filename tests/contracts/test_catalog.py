"""The catalog's contract, kept on SQLite and on Postgres."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from ragforge.adapters.catalog import tables
from ragforge.adapters.catalog.catalog import SqlCatalog
from ragforge.ports import Catalog
from ragforge.testing.contracts.catalog import CatalogContract
from ragforge.testing.postgres import TemporaryPostgres
from ragforge.testing.shelf import ManualClock


@pytest.fixture(scope="module")
def made_file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A fresh workspace's file: made once, copied for each test."""
    path = tmp_path_factory.mktemp("made") / "catalog.db"
    catalog = SqlCatalog.open(path, lambda: datetime.now(UTC))
    assert catalog.flush()
    catalog.close()
    return path.read_bytes()


@pytest.fixture(scope="module")
def database(postgres: TemporaryPostgres) -> Iterator[str]:
    """One database for all tests here; each finds it empty."""
    url = postgres.create()
    SqlCatalog.connect(url, lambda: datetime.now(UTC)).close()
    yield url
    postgres.drop(url)


class TestSqliteCatalog(CatalogContract):
    @pytest.fixture
    def catalog(self, made_file: bytes, clock: ManualClock, swift_path: Path) -> Iterator[Catalog]:
        (swift_path / "catalog.db").write_bytes(made_file)
        catalog = SqlCatalog.open(swift_path / "catalog.db", clock)
        yield catalog
        catalog.close()


class TestPostgresCatalog(CatalogContract):
    @pytest.fixture
    def catalog(self, database: str, clock: ManualClock) -> Iterator[Catalog]:
        with psycopg.connect(database) as connection:
            names = ", ".join(table.name for table in tables.metadata.sorted_tables)
            connection.execute(f"TRUNCATE {names}".encode())
        catalog = SqlCatalog.connect(database, clock)
        yield catalog
        catalog.close()
