"""The flow of a move, from one file to another: batches, what is taken up again, what each state means."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from ragforge.adapters.catalog import moved, moving
from ragforge.adapters.catalog.catalog import SqlCatalog
from ragforge.build import utc_now
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.library import Progress
from ragforge.domain.migration import Checksum, MigrationReport, TargetState
from ragforge.errors import CorruptStore, StoreError, UserError
from ragforge.flows import migrate
from ragforge.flows.migrate import Migrate, Named
from tests.moves import change, rows

SOURCE, TARGET = "the old file", "the new file"
"""What they are called: a move between two files is for tests alone."""


class Stage:
    """A workspace, where its catalog is, and where it shall go."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.settings = folder, folder / "ragforge.toml"
        self.old, self.new = folder / "old.db", folder / "new.db"
        self.settings.write_text("[store]\n")
        SqlCatalog.open(self.old, utc_now).close()
        numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 207)"
        change(self.old, f"INSERT INTO tombstones {numbers} SELECT i, 'turn', 't' || i, '', i FROM n")
        change(self.old, f"INSERT INTO counters {numbers} SELECT 'c' || i, i FROM n WHERE i <= 53")

    def flow(self, *, is_target: bool = False, elsewhere: str = "", with_source: bool = True) -> Migrate:
        return Migrate(
            workspace=self.folder,
            named=Named(self.settings, TARGET, private=False, is_target=is_target, elsewhere=elsewhere),
            alone=nullcontext,
            target=lambda: moving.filling(moved.file_end(self.new), TARGET),
            source=(lambda: moving.leaving(moved.file_end(self.old), SOURCE, TARGET)) if with_source else None,
            went_to=lambda: moved.went_to(moved.file_end(self.old)),
            clear_away=lambda target: "",
        )

    def run(self, switching: bool = True, **how: Any) -> MigrationReport:
        *_, report = self.flow(**how)(Cancel(), switching=switching)
        assert isinstance(report, MigrationReport)
        return report

    def note(self, state: TargetState) -> None:
        change(self.new, f"UPDATE ragforge_migration SET value = '{state}' WHERE name = 'state'")


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr(migrate, "_BATCH_ROWS", 20)
    return Stage(tmp_path)


def test_every_row_is_there_and_only_the_new_one_opens(stage: Stage) -> None:
    kept = rows(stage.old)
    report = stage.run()
    assert rows(stage.new) == kept and report.rows == 260 and report.source == SOURCE
    assert {table.name: table.rows for table in report.tables if table.rows} == {"counters": 53, "tombstones": 207}
    assert stage.settings.read_text() == f'[store]\ndatabase_url = "{TARGET}"\n'
    SqlCatalog.open(stage.new, utc_now).close()
    with pytest.raises(StoreError, match=f"moved from here to {TARGET}"):
        SqlCatalog.open(stage.old, utc_now)


def test_batches_are_bounded_by_rows_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "_BATCH_ROWS", 20)
    batches = migrate._batches(((number,) for number in range(53)), Checksum())
    assert [len(batch) for batch in batches] == [20, 20, 13]
    monkeypatch.setattr(migrate, "_BATCH_BYTES", 250)
    long = [(1, b"x" * 60), (2, b"x" * 60), (3, b"x" * 500), (4, b"")]
    assert [len(batch) for batch in migrate._batches(iter(long), Checksum())] == [2, 1, 1]


def test_progress_counts_every_row_once(stage: Stage) -> None:
    told = [event for event in stage.flow()(Cancel()) if isinstance(event, Progress) and event.stage == "copying"]
    assert [event.done for event in told] == [20, 40, 53, *range(73, 254, 20), 260]
    assert {event.total for event in told} == {260}


def test_a_stopped_run_is_taken_up_where_it_was(stage: Stage) -> None:
    cancel = Cancel()
    with pytest.raises(Cancelled):
        for event in stage.flow()(cancel):
            if isinstance(event, Progress) and event.done >= 100:
                cancel.set()
    there = rows(stage.new)
    assert len(there["counters"]) == 53 and len(there["tombstones"]) == 60
    change(stage.old, "INSERT INTO tombstones VALUES (999, 'turn', 'later', '', 1)")
    report = stage.run()
    assert report.resumed == 113 and report.rows == 261 and rows(stage.new) == rows(stage.old)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE counters SET value = 0 WHERE name = 'c1'",
        "UPDATE tombstones SET id = 'other' WHERE ord = 207",
        "DELETE FROM tombstones WHERE ord = 100",
        "INSERT INTO counters VALUES ('a', 1)",
    ],
)
def test_a_source_that_changed_in_what_was_copied_is_copied_anew(stage: Stage, statement: str) -> None:
    stage.run(switching=False)
    change(stage.old, statement)
    report = stage.run()
    assert report.resumed == 0 and "copied anew" in report.notices[0] and rows(stage.new) == rows(stage.old)


def test_a_copy_of_another_schema_begins_anew(stage: Stage) -> None:
    stage.run(switching=False)
    change(stage.new, "UPDATE ragforge_migration SET value = '0001' WHERE name = 'schema'")
    assert stage.run().resumed == 0


def test_a_difference_is_named_and_leaves_the_old_one(stage: Stage) -> None:
    stage.run(switching=False)
    change(stage.new, "DELETE FROM tombstones WHERE ord = 9")
    change(stage.new, "UPDATE counters SET value = 0 WHERE name = 'c1'")
    with pytest.raises(CorruptStore, match=r"counters \(53 rows here, 53 there\), tombstones \(207 rows here, 206"):
        stage.run()
    SqlCatalog.open(stage.old, utc_now).close()
    assert stage.run().resumed == 0 and rows(stage.new) == rows(stage.old)


def test_an_unfinished_move_of_others_is_left_alone(stage: Stage) -> None:
    stage.run(switching=False)
    change(stage.new, "UPDATE ragforge_migration SET value = '/elsewhere' WHERE name = 'workspace'")
    with pytest.raises(UserError, match="unfinished migration of /elsewhere"):
        stage.run()


def test_killed_after_the_switch_only_the_end_is_left(stage: Stage) -> None:
    stage.run(switching=False)
    stage.note(TargetState.SWITCHING)
    report = stage.run(is_target=True, with_source=False)
    assert report.switched and not report.already and report.rows == 260 and report.source == SOURCE
    SqlCatalog.open(stage.new, utc_now).close()


def test_an_old_catalog_that_was_taken_back_is_not_forgotten(stage: Stage) -> None:
    stage.run(switching=False)
    stage.note(TargetState.SWITCHING)
    change(stage.old, "UPDATE counters SET value = 0 WHERE name = 'c1'")
    stage.run(is_target=True, elsewhere="the environment")
    assert rows(stage.new) == rows(stage.old)


def test_a_catalog_that_is_there_is_told_or_refused(stage: Stage) -> None:
    assert stage.run().switched
    again = stage.run(is_target=True)
    assert again.already and again.tables == ()
    again = stage.run(elsewhere="environment X")
    assert again.already and again.notices[0].startswith("store.database_url is still given by environment X")
    moved.take_back(moved.file_end(stage.old))
    with pytest.raises(UserError, match="not empty"):
        stage.run()


def test_without_its_source_an_unfinished_move_says_which_it_is(stage: Stage) -> None:
    stage.run(switching=False)
    with pytest.raises(UserError, match=f"from {SOURCE} is not finished"):
        stage.run(is_target=True, with_source=False)


def test_settings_that_cannot_be_read_stop_it_before_the_work(stage: Stage) -> None:
    stage.settings.write_bytes(b"\xff")
    with pytest.raises(UserError, match="cannot be read"):
        stage.run()
    assert not stage.new.exists()
