"""The catalog's schema: every way to it ends at the same tables, and old data comes along."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

import ragforge.adapters.catalog.database as database_module
from ragforge import Ragforge
from ragforge.adapters.catalog import tables
from ragforge.adapters.catalog.catalog import SqlCatalog
from ragforge.adapters.catalog.database import HEAD, Database
from ragforge.domain.conversation import FORGOTTEN_ANSWER
from ragforge.domain.records import ProjectTextKind
from ragforge.errors import StoreError
from ragforge.operate.access import owner
from ragforge.testing.postgres import TemporaryPostgres
from ragforge.testing.records import artifact, entry, turn
from ragforge.testing.shelf import Shelf
from tests import schemas


@pytest.fixture(autouse=True)
def _migrated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Database, "_migrate", schemas.migrate)  # here every schema is made by Alembic


def now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def migrations() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(database_module.__file__).with_name("migrations")))
    return config


def upgrade_to(database: Database, revision: str) -> None:
    config = migrations()
    with database.write() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


@pytest.fixture
def empty_database(postgres: TemporaryPostgres) -> Iterator[str]:
    url = postgres.create()
    yield url
    postgres.drop(url)


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        database = Database.sqlite(tmp_path / "catalog.db", 5)
    else:
        database = Database.postgres(request.getfixturevalue("empty_database"))
    yield database
    database.close()


def test_head_is_the_newest_script() -> None:
    scripts = ScriptDirectory.from_config(migrations())
    assert scripts.get_heads() == [HEAD]
    revisions = [script.revision for script in scripts.walk_revisions()]
    assert revisions == sorted(revisions, reverse=True), "versions are compared as text"


def test_upgrading_gives_exactly_the_tables(database: Database) -> None:
    assert database.schema_version() is None
    assert database.upgrade() is None
    assert database.schema_version() == HEAD
    with database.read() as connection:
        # on SQLite Alembic takes an empty default for another one than ''
        options = {"compare_type": True, "compare_server_default": not database.is_sqlite}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, tables.metadata) == []
        inspector = sa.inspect(connection)
        for table in tables.metadata.sorted_tables:
            wanted = {(key.parent.name, key.column.table.name, key.ondelete) for key in table.foreign_keys}
            found = {
                (key["constrained_columns"][0], key["referred_table"], key["options"].get("ondelete"))
                for key in inspector.get_foreign_keys(table.name)
            }
            assert found == wanted, table.name


def fill_old(database: Database) -> None:
    """A project with a document, as the first schema held them."""
    rows: list[tuple[sa.Table, dict[str, object]]] = [
        (tables.projects, {"ord": 1, "id": "p", "slug": "old", "name": "Old", "generation": 1, "created_at": 1}),
        (tables.embedders, {"ord": 1, "fingerprint": "f", "name": "f", "dimension": 4}),
        (
            tables.generations,
            {
                "project": 1,
                "number": 1,
                "state": "live",
                "chunks": 1,
                "strategy": "{}",
                "chunker": "splitter/1",
                "embedder": 1,
                "created_at": 1,
            },
        ),
        (tables.counters, {"name": "projects", "value": 1}),
        (tables.counters, {"name": "embedders", "value": 1}),
        (tables.changes, {"project": 1, "op": "meta", "document": 1, "chunk": None}),
    ]
    with database.write() as connection:
        for table, row in rows:
            connection.execute(sa.insert(table).values(row))


def test_an_old_workspace_is_upgraded_beside_its_backup(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    old = Database.sqlite(path, 5)
    upgrade_to(old, "0001")
    fill_old(old)
    old.close()
    catalog = SqlCatalog.open(path, now)
    backup = catalog.upgraded_from
    assert backup is not None
    assert backup.parent == tmp_path / "backups"
    with catalog.read() as unit:
        project = unit.projects.get(owner(), "old")
        assert (project.name, project.chunker) == ("Old", "splitter/1")
        assert len(unit.passages.changes(owner(), unit.passages.moment(owner(), "p"), 0, 10)) == 1
        assert unit.jobs.all(owner()) == []
    Shelf.create(catalog, "new").add("/a", "text")
    assert all(finding.ok for finding in catalog.inspect())
    catalog.close()
    kept = Database.sqlite(backup, 5)
    assert kept.schema_version() == "0001"
    with kept.read() as connection:
        assert connection.execute(sa.select(tables.projects.c.slug)).scalars().all() == ["old"]
    kept.close()
    again = SqlCatalog.open(path, now)
    assert again.upgraded_from is None
    again.close()


def test_answers_come_to_a_catalog_that_had_none(database: Database) -> None:
    upgrade_to(database, "0004")
    fill_old(database)
    known = {"ord": 1, "project": 1, "name": "set", "digest": "d", "folder": "", "created_at": 1, "updated_at": 1}
    with database.write() as connection:
        connection.execute(sa.insert(tables.question_sets).values(known))
    backup = database.upgrade()
    assert (backup is not None) == database.is_sqlite
    assert database.schema_version() == HEAD
    catalog = SqlCatalog(database, now)
    with catalog.write() as unit:
        assert [found.name for found in unit.evaluations.question_sets(owner(), "p")] == ["set"]
        assert unit.conversations.all(owner(), "p") == []
        assert unit.artifacts.all(owner(), "p") == []
        talk = unit.conversations.begin(owner(), "p", "talk")
        assert unit.conversations.add(owner(), "p", turn(talk.id), "", None).number == 1
        unit.log.add(owner(), "p", entry(conversation=talk.id))
        unit.artifacts.put(owner(), "p", artifact())
        assert unit.texts.write(owner(), "p", ProjectTextKind.HARD_RULES, "Be brief.").version == 1
        unit.projects.remove(owner(), "p")
    with database.read() as connection:
        for table in tables.metadata.sorted_tables:
            left = connection.execute(sa.select(sa.func.count()).select_from(table)).scalar()
            assert not left or table.name in ("counters", "embedders", "tombstones"), table.name


def test_a_log_from_before_cites_nothing(database: Database) -> None:
    upgrade_to(database, "0005")
    fill_old(database)
    facts = {"ord": 1, "project": 1, "id": "q", "principal": "owner", "kind": "answer", "chunks": "[]"}
    facts |= dict.fromkeys(("asked_at", "k", "retrieval_ms", "generation_ms", "input_tokens", "output_tokens"), 1)
    texts = dict.fromkeys(("question", "standalone", "agent", "model", "profile", "error", "feedback", "note"), "")
    with database.write() as connection:
        connection.execute(sa.insert(tables.query_log).values(facts | texts))
    database.upgrade()
    with SqlCatalog(database, now).read() as unit:
        (asked,) = unit.log.all(owner(), "p", 10)
    assert (asked.id, asked.cited) == ("q", ())


def test_runs_of_a_catalog_that_knew_no_answers_come_along(database: Database) -> None:
    upgrade_to(database, "0006")
    fill_old(database)
    run = (1, "run", 1, "set", "d", "old", '{"k": 10}', "h", 1, 2, 1, 1, 0, 0, 3.5, '{"mrr": 0.5}')
    result = (1, 0, "q", "Why?", "[]", "[]", '{"mrr": 0.5}', 3.5, "[]")
    with database.write() as connection:
        mark = "?" if database.is_sqlite else "%s"
        for table, row in (("evaluation_runs", run), ("evaluation_results", result)):
            marks = ", ".join([mark] * len(row))
            connection.exec_driver_sql(f"INSERT INTO {table} VALUES ({marks})", row)
    database.upgrade()
    with SqlCatalog(database, now).read() as unit:
        (known,) = unit.evaluations.runs(owner(), "p")
        (found,) = unit.evaluations.results(owner(), "p", "run")
    assert (known.label, known.metrics, known.answers) == ("old", {"mrr": 0.5}, {})
    assert (found.text, found.metrics, found.answer) == ("Why?", {"mrr": 0.5}, None)


def test_conversations_from_before_come_along(database: Database) -> None:
    """Of their turns nobody knows what they repeat; what lost its answer still has none."""
    upgrade_to(database, "0007")
    fill_old(database)
    forgotten = "This answer was removed: it cited a document that is no longer in the project."
    talk = (1, "c", 1, "owner", "talk", 2, 1_700_000_000_000, 1, 1)
    names = (
        "ord, id, conversation, number, question, answer, asked_at, standalone, abstained, summary, tags, importance"
    )
    names += ", tokens, source, probe, mode"
    said = [
        (number, f"t{number}", 1, number, "How long?", answer, 1, "", False, "", "[]", 0.0, 1, "chat", "", "")
        for number, answer in ((1, "Thirty days."), (2, forgotten))
    ]
    mark = "?" if database.is_sqlite else "%s"
    with database.write() as connection:
        connection.exec_driver_sql(f"INSERT INTO conversations VALUES ({', '.join([mark] * len(talk))})", talk)
        for row in said:
            marks = ", ".join([mark] * len(row))
            connection.exec_driver_sql(f"INSERT INTO turns ({names}) VALUES ({marks})", row)
    database.upgrade()
    with SqlCatalog(database, now).write() as unit:
        assert unit.conversations.get(owner(), "p", "c").cuts == 0
        first, second = unit.conversations.turns(owner(), "p", "c")
        assert (first.answer, first.repeats, second.answer) == ("Thirty days.", True, FORGOTTEN_ANSWER)
        assert (first.citations, first.trace_id, first.model, first.quoted) == ((), "", "", False)
        assert unit.conversations.unembedded(owner(), "p", "c", "f") == ["t1"]
        unit.conversations.remove_turn(owner(), "p", "t1")
        assert unit.conversations.get(owner(), "p", "c").cuts == 1
        assert unit.conversations.add(owner(), "p", turn("c"), "", None).number == 3


def test_a_person_is_told_of_the_upgrade(tmp_path: Path) -> None:
    old = Database.sqlite(tmp_path / "catalog.db", 5)
    upgrade_to(old, "0001")
    old.close()
    with Ragforge.open(tmp_path) as forge:
        assert forge.projects() == []
        (notice,) = forge.notices
        assert "upgraded" in notice and str(tmp_path / "backups") in notice


def test_an_old_postgres_catalog_is_upgraded(empty_database: str) -> None:
    old = Database.postgres(empty_database)
    upgrade_to(old, "0001")
    fill_old(old)
    old.close()
    catalog = SqlCatalog.connect(empty_database, now)
    with catalog.read() as unit:
        assert unit.projects.get(owner(), "old").name == "Old"
    catalog.close()


def test_a_failed_upgrade_changes_nothing(database: Database) -> None:
    upgrade_to(database, "0001")
    fill_old(database)
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE jobs (in_the_way INTEGER)")
    with pytest.raises(StoreError):
        database.upgrade()
    assert database.schema_version() == "0001"
    with database.read() as connection:
        assert not sa.inspect(connection).has_table("index_states")
        assert connection.execute(sa.select(sa.func.count()).select_from(tables.projects)).scalar() == 1


def test_a_newer_workspace_is_refused(database: Database) -> None:
    database.upgrade()
    with database.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreError, match="newer ragforge") as refused:
        database.upgrade()
    assert "update" in refused.value.hint


def test_many_connect_to_a_new_postgres_at_once(empty_database: str) -> None:
    def create(name: str) -> None:
        catalog = SqlCatalog.connect(empty_database, now)
        Shelf.create(catalog, name).add("/a", "text")
        catalog.close()

    names = ["a", "b", "c", "d"]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(create, names))
    catalog = SqlCatalog.connect(empty_database, now)
    with catalog.read() as unit:
        assert [project.slug for project in unit.projects.all(owner())] == names
    assert all(finding.ok for finding in catalog.inspect())
    catalog.close()


def test_a_server_that_does_not_answer() -> None:
    with pytest.raises(StoreError, match="does not answer") as refused:
        SqlCatalog.connect("postgresql://nobody@127.0.0.1:1/none", now)
    assert refused.value.hint
