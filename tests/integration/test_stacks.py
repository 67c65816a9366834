"""What lets the acceptance tests run on a database: every workspace has one of its own, in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from ragforge import Ragforge, settings
from ragforge.testing.postgres import TemporaryPostgres
from tests.catalogs import catalog_of, change, copy_workspace, database_of, rows_of, tables_with
from tests.databases import Databases

CLI = [sys.executable, "-m", "ragforge.interfaces.cli.main"]


@pytest.fixture
def databases(postgres: TemporaryPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Databases]:
    template = postgres.create()
    children = tmp_path / "children"
    children.mkdir()
    made = Databases(template, {"embed.model": "wordllama"})
    made.write_child(children)
    monkeypatch.setenv("PYTHONPATH", str(children), prepend=os.pathsep)
    monkeypatch.setattr(settings, "_from_toml", settings._from_toml)  # to be undone
    made.install()
    before = made.names()
    yield made
    made.drop(made.names() - before)
    postgres.drop(template)


def projects(workspace: Path) -> list[str]:
    with Ragforge.open(workspace) as forge:
        return [project.slug for project in forge.projects()]


@pytest.mark.usefixtures("databases")
def test_a_workspace_has_its_database_here_and_in_children_and_no_other_has_it(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    subprocess.run([*CLI, "-w", str(one), "project", "new", "shared"], check=True, capture_output=True)
    assert projects(one) == ["shared"] and projects(other) == []
    assert not [*tmp_path.rglob("catalog.db")]
    assert database_of(one) == database_of(tmp_path / "children" / ".." / "one") != database_of(other)


@pytest.mark.usefixtures("databases")
def test_a_copied_workspace_goes_its_own_way(tmp_path: Path) -> None:
    with Ragforge.open(tmp_path / "one") as forge:
        assert forge.create_project("first").embedder == "wordllama"
    copy_workspace(tmp_path / "one", tmp_path / "two")
    change(tmp_path / "two", "UPDATE projects SET slug = :slug", slug="second")
    assert (projects(tmp_path / "one"), projects(tmp_path / "two")) == (["first"], ["second"])
    assert "first" in rows_of(tmp_path / "one")["projects"][0]
    assert tables_with(b"second", tmp_path / "two") and not tables_with(b"second", tmp_path / "one")


@pytest.mark.usefixtures("databases")
def test_whoever_opens_a_workspace_is_held_by_row_level_security(tmp_path: Path) -> None:
    with Ragforge.open(tmp_path / "one") as forge:
        project = forge.create_project("mine").id
        told = {finding.subject: finding for finding in forge.deployment()}
    assert told["row-level security"].detail == "holds" and not told["row-level security"].warning
    seen = sa.text("SELECT count(*) FROM generations")
    with catalog_of(tmp_path / "one") as catalog:
        assert catalog.execute(seen).scalar() == 1, "plain SQL of tests is for all projects"
        catalog.execute(sa.text("SELECT set_config('ragforge.projects', :other, true)"), {"other": f"not-{project}"})
        assert catalog.execute(seen).scalar() == 0


@pytest.mark.usefixtures("databases")
def test_what_is_said_elsewhere_counts_more(tmp_path: Path) -> None:
    loaded = settings.load(tmp_path, flags={"--set": {"store.database_url": "postgresql://else/where"}}, env={})
    assert loaded.store.database_url == "postgresql://else/where"
