"""Random histories of conversations, on SQLite."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from ragforge.adapters.catalog.catalog import SqlCatalog
from ragforge.ports import Catalog
from ragforge.testing.contracts.conversation_machine import ConversationMachine
from ragforge.testing.shelf import ManualClock
from tests.proof import count


def test_any_history_of_conversations(swift_path: Path) -> None:
    empty = swift_path / "empty.db"
    SqlCatalog.open(empty, ManualClock()).close()

    class OnSqlite(ConversationMachine):
        def make_catalog(self) -> Catalog:
            folder = Path(tempfile.mkdtemp(dir=swift_path))
            shutil.copy(empty, folder / "catalog.db")
            return SqlCatalog.open(folder / "catalog.db", ManualClock())

    quick = settings(
        max_examples=count(12, 60),
        stateful_step_count=count(25, 40),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(OnSqlite, settings=quick)
