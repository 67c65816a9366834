"""`kill -9` while the catalog moves: never do two open, and the same command ends it, complete and verified."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragforge.domain.migration import SQLITE
from ragforge.errors import StoreError
from ragforge.flows import migrate
from ragforge.testing.postgres import TemporaryPostgres
from tests.faults.test_backup_kill import killed
from tests.forge import faults
from tests.moves import Rows, moved, opened, rows, small
from tests.proof import count, record

FILES = 6
POINTS = {
    "migrate.begun": "old",
    "migrate.adding": "old",
    "migrate.added": "old",
    "migrate.added@9": "old",
    "migrate.copied": "old",
    "migrate.verified": "old",
    "migrate.sealed": "none",
    "migrate.switching": "none",
    "migrate.switched": "none",
    "migrate.finished": "new",
    "migrate.cleared": "new",
}
"""Which catalog opens after a kill there."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small(tmp_path_factory.mktemp("model") / "ws", FILES)


@pytest.fixture
def workspace(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(migrate, "_BATCH_ROWS", 20)
    shutil.copytree(model, tmp_path / "ws")
    return tmp_path / "ws"


@pytest.fixture
def url(postgres: TemporaryPostgres) -> Iterator[str]:
    made = postgres.create()
    yield made
    postgres.drop(made)


def opens(workspace: Path, **given: Any) -> bool:
    """Whether the catalog opens and is whole; else it says what to do."""
    try:
        with opened(workspace, **given) as forge:
            assert len(forge.documents()) == FILES
            return True
    except StoreError as refused:
        assert "ragforge migrate" in refused.hint or "database_url" in refused.hint
        return False


def fault(monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    name, _, number = point.partition("@")
    monkeypatch.setenv("RAGFORGE_TESTING", "1")
    monkeypatch.setenv("RAGFORGE_FAILPOINT", f"{name}:kill{'@' + number if number else ''}")


def ended(to: str, workspace: Path, kept: Rows) -> None:
    """Run it again: it is complete, and a third run says so."""
    report = moved(to, workspace)
    assert report.switched
    assert rows(workspace / "catalog.db" if to == SQLITE else to) == kept
    assert moved(to, workspace).already
    with opened(workspace) as forge:
        assert len(forge.documents()) == FILES and faults(forge) == []


@pytest.mark.parametrize("point", POINTS)
def test_killed_on_the_way_to_a_server(workspace: Path, url: str, point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = rows(workspace / "catalog.db")
    fault(monkeypatch, point)
    assert killed(lambda: moved(url, workspace)), "the point was not reached"
    monkeypatch.delenv("RAGFORGE_FAILPOINT")
    usable = {"old": opens(workspace, store__database_url=""), "new": opens(workspace, store__database_url=url)}
    assert [which for which, is_usable in usable.items() if is_usable] == [POINTS[point]] * (POINTS[point] != "none")
    ended(url, workspace, rows(url) if POINTS[point] == "new" else kept)
    (file,) = (workspace / "backups").iterdir()
    assert rows(file) == kept, "the old one is kept"


@pytest.mark.parametrize("point", POINTS)
def test_killed_on_the_way_back(workspace: Path, url: str, point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = rows(workspace / "catalog.db")
    moved(url, workspace)
    fault(monkeypatch, point)
    assert killed(lambda: moved(SQLITE, workspace)), "the point was not reached"
    monkeypatch.delenv("RAGFORGE_FAILPOINT")
    usable = {"old": opens(workspace, store__database_url=url), "new": opens(workspace, store__database_url="")}
    assert [which for which, is_usable in usable.items() if is_usable] == [POINTS[point]] * (POINTS[point] != "none")
    ended(SQLITE, workspace, kept if POINTS[point] == "none" else rows(_truth(workspace, url, POINTS[point])))


def _truth(workspace: Path, url: str, which: str) -> Path | str:
    return url if which == "old" else workspace / "catalog.db"


def test_what_was_copied_before_the_kill_is_not_copied_again(
    workspace: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch, "migrate.added@12")
    assert killed(lambda: moved(url, workspace))
    monkeypatch.delenv("RAGFORGE_FAILPOINT")
    there = sum(len(each) for each in rows(url).values())
    report = moved(url, workspace)
    assert 0 < there < report.rows and report.resumed == there


def test_random_kills_of_a_move(workspace: Path, postgres: TemporaryPostgres) -> None:
    kept, dice, kills, moves, longest = rows(workspace / "catalog.db"), random.Random(5), 0, 0, 1.0
    wanted, url = count(6, 60), ""
    while kills < wanted:
        url = url or postgres.create()
        to = SQLITE if moves % 2 else url
        while killed(lambda to=to: moved(to, workspace), dice.uniform(0.02, longest)):  # type: ignore[misc]
            kills += 1
            longest = min(5.0, longest * 1.15)
        longest *= 0.7
        assert moved(to, workspace).already, "it ended by itself"
        assert rows(workspace / "catalog.db" if to == SQLITE else to) == kept
        moves += 1
        url = "" if to == SQLITE else url
    with opened(workspace) as forge:
        assert len(forge.documents()) == FILES and faults(forge) == []
    record("kill -9 of migrate", kills=kills, moves=moves, lost=0)


def test_a_full_disk_changes_nothing(workspace: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGFORGE_TESTING", "1")
    monkeypatch.setenv("RAGFORGE_FAILPOINT", "migrate.adding:enospc@3")
    with pytest.raises(StoreError, match="disk is full"):
        moved(url, workspace)
    monkeypatch.delenv("RAGFORGE_FAILPOINT")
    assert opens(workspace)
    assert moved(url, workspace).resumed > 0
