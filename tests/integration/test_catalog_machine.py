"""Random histories of a project, on SQLite and on Postgres."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from ragforge.adapters.catalog.catalog import SqlCatalog
from ragforge.ports import Catalog
from ragforge.testing.contracts.catalog_machine import CatalogMachine
from ragforge.testing.postgres import TemporaryPostgres
from ragforge.testing.shelf import ManualClock


def run(machine: type[CatalogMachine], examples: int, steps: int) -> None:
    quick = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=quick)


def test_any_history_on_sqlite(swift_path: Path) -> None:
    class OnSqlite(CatalogMachine):
        def make_catalog(self) -> Catalog:
            folder = Path(tempfile.mkdtemp(dir=swift_path))
            return SqlCatalog.open(folder / "catalog.db", ManualClock())

    run(OnSqlite, 15, 12)


def test_any_history_on_postgres(postgres: TemporaryPostgres) -> None:
    made = postgres.create()
    SqlCatalog.connect(made, ManualClock()).close()

    class OnPostgres(CatalogMachine):
        def make_catalog(self) -> Catalog:
            self.url = postgres.create(made)
            return SqlCatalog.connect(self.url, ManualClock())

        def teardown(self) -> None:
            super().teardown()
            postgres.drop(self.url)

    run(OnPostgres, 4, 8)
    postgres.drop(made)
