"""The catalog moves to Postgres and back: nothing is lost or doubled, and there is one truth at every moment."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from ragforge import Ragforge
from ragforge.adapters.catalog.database import Database
from ragforge.domain.migration import SQLITE, MigrationReport, without_password
from ragforge.errors import Busy, CorruptStore, NotFound, StoreError, UserError
from ragforge.interfaces.cli.main import main
from ragforge.testing.postgres import TemporaryPostgres, seeing_all
from tests.forge import faults
from tests.moves import QUESTIONS, change, furnished, moved, opened, rows, settings_of, small
from tests.shell import Shell, bare_environment

VARIABLE = "RAGFORGE_STORE__DATABASE_URL"


@pytest.fixture
def url(postgres: TemporaryPostgres) -> Iterator[str]:
    made = postgres.create()
    yield made
    postgres.drop(made)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return small(tmp_path / "ws", 4)


def found(forge: Ragforge) -> list[list[tuple[str, str, float, object]]]:
    """What is found for every question: which passages, in which order, with which scores."""
    return [
        [(each.chunk, each.text, each.score, each.ranks) for each in forge.search(question, k=20).passages]
        for question in QUESTIONS
    ]


def seen(forge: Ragforge) -> dict[str, object]:
    """All that a person sees."""
    talks, interviews = forge.conversations(), forge.discovery.all()
    return {
        "documents": forge.documents(),
        "chunks": {each.id: forge.chunks(each.id) for each in forge.documents()},
        "conversations": talks,
        "turns": [forge.turns(each.id) for each in talks],
        "interviews": [forge.discovery.get(each.id) for each in interviews],
        "said": [forge.discovery.turns(each.id) for each in interviews],
        "patterns": forge.lessons.patterns(),
        "staged": forge.lessons.staged(),
        "artifacts": forge.artifacts(),
        "keys": forge.access().keys(),
        "log": forge.query_log(),
        "jobs": forge.jobs(),
    }


# -- there and back


def test_there_and_back_every_row_and_every_search_result_is_the_same(tmp_path: Path, url: str) -> None:
    workspace = furnished(tmp_path / "ws")
    with opened(workspace) as forge:
        before, shown = found(forge), seen(forge)
        assert all(before) and all(shown.values())
    settings, kept = (workspace / "ragforge.toml").read_text(), rows(workspace / "catalog.db")

    there = moved(url, workspace)
    assert rows(url) == kept
    assert {table.name: table.rows for table in there.tables} == {name: len(each) for name, each in kept.items()}
    assert without_password(url) in (workspace / "ragforge.toml").read_text()
    back = moved(SQLITE, workspace)
    assert back.tables == there.tables, "counts and checksums"
    assert rows(workspace / "catalog.db") == kept
    assert (workspace / "ragforge.toml").read_text() == settings
    with opened(workspace) as forge:
        assert found(forge) == before and seen(forge) == shown
        assert faults(forge) == []


def test_the_moved_workspace_is_used_like_any_other(tmp_path: Path, url: str, postgres: TemporaryPostgres) -> None:
    workspace = furnished(tmp_path / "ws")
    with opened(workspace) as forge:
        before, shown = found(forge), seen(forge)
    moved(url, workspace)
    for place, number in ((SQLITE, 1), (postgres.create(), 2)):
        new = tmp_path / f"new{number}.md"
        with opened(workspace) as forge:
            assert found(forge) == before and seen(forge) == shown
            new.write_text(f"# New {number}\n\nThe {number}st of all parrots is blue.\n")
            assert not forge.add(new).failed, "keys that are given now are new"
            assert forge.search("parrots", k=1).passages[0].name == new.name
            list(forge.removing([new.name]))
            assert faults(forge) == []
            shown = seen(forge)
        moved(place, workspace)
    with opened(workspace) as forge:
        assert found(forge) == before and faults(forge) == []


def test_numbers_that_the_database_gave_are_not_given_again(workspace: Path, url: str) -> None:
    change(workspace / "catalog.db", "UPDATE sqlite_sequence SET seq = 9000 WHERE name = 'changes'")
    moved(url, workspace)
    with psycopg.connect(seeing_all(url)) as connection:
        assert connection.execute("SELECT nextval(pg_get_serial_sequence('changes', 'seq'))").fetchone() == (9001,)
        highest = connection.execute("SELECT MAX(ord) FROM embeddings").fetchone()
        given = connection.execute("SELECT nextval(pg_get_serial_sequence('embeddings', 'ord'))").fetchone()
        assert highest and given and given[0] == highest[0] + 1
    moved(SQLITE, workspace)
    with opened(workspace) as forge:
        forge.add(_file(workspace.parent, "later"))
    assert min(seq for seq, *_ in rows(workspace / "catalog.db")["changes"][-1:]) > 9001


def test_from_one_server_to_another(workspace: Path, url: str, postgres: TemporaryPostgres) -> None:
    kept, other = rows(workspace / "catalog.db"), postgres.create()
    moved(url, workspace)
    report = moved(other, workspace)
    assert report.source == without_password(url) and rows(other) == kept
    with pytest.raises(StoreError, match="moved from here"), opened(workspace, store__database_url=url) as forge:
        forge.projects()
    with pytest.raises(StoreError) as refused, opened(workspace, store__database_url="") as forge:
        forge.projects()
    assert without_password(other) in refused.value.message, "what is left in the folder knows of both moves"


def test_an_empty_workspace_moves_too(tmp_path: Path, url: str) -> None:
    with Ragforge.open(settings_of(tmp_path / "ws")):
        pass
    assert moved(url, tmp_path / "ws").rows == 0
    with opened(tmp_path / "ws") as forge:
        forge.add(_file(tmp_path, "first"))
    assert rows(url)["documents"]


def _file(folder: Path, name: str) -> Path:
    path = folder / f"{name}.md"
    path.write_text(f"# {name}\n\nThis is the file {name}, which tells of {name}.\n")
    return path


# -- one truth


def test_the_old_catalog_is_kept_and_says_where_it_went(workspace: Path, url: str) -> None:
    kept = rows(workspace / "catalog.db")
    report = moved(url, workspace)
    (file,) = (workspace / "backups").iterdir()
    assert report.kept == str(file) and rows(file) == kept
    with pytest.raises(StoreError) as refused, opened(workspace, store__database_url="") as forge:
        forge.projects()
    assert without_password(url) in refused.value.message and "--take-back" in refused.value.hint
    file.replace(workspace / "catalog.db")
    with pytest.raises(StoreError, match="moved from here"), opened(workspace, store__database_url="") as forge:
        forge.projects()


def test_tables_on_a_server_that_were_left_take_no_row(workspace: Path, url: str) -> None:
    moved(url, workspace)
    report = moved(SQLITE, workspace)
    assert report.kept == without_password(url)
    all_of_it = seeing_all(url)
    for statement in ("DELETE FROM turns", "UPDATE counters SET value = 0", "TRUNCATE query_log"):
        with (
            pytest.raises(psycopg.errors.RaiseException, match="moved to sqlite"),
            psycopg.connect(all_of_it) as connection,
        ):
            connection.execute(statement)
    with pytest.raises(StoreError) as refused, opened(workspace, {VARIABLE: url}) as forge:
        forge.projects()
    assert "catalog.db of the workspace" in refused.value.message
    with pytest.raises(UserError, match="still holds a catalog that was moved to sqlite"):
        moved(url, workspace)


def test_a_catalog_that_was_left_can_be_taken_back(workspace: Path, url: str) -> None:
    kept = rows(workspace / "catalog.db")
    moved(url, workspace)
    with opened(workspace) as forge:
        forge.add(_file(workspace.parent, "later"))
    with pytest.raises(UserError, match="has not moved"):
        Ragforge.take_back(settings_of(workspace))
    with pytest.raises(UserError, match="among the backups"):
        Ragforge.take_back(settings_of(workspace, store__database_url=""))
    (file,) = (workspace / "backups").iterdir()
    file.replace(workspace / "catalog.db")
    assert Ragforge.take_back(settings_of(workspace, store__database_url="")) == without_password(url)
    assert rows(workspace / "catalog.db") == kept
    with opened(workspace, store__database_url="") as forge:
        assert "later.md" not in {document.name for document in forge.documents()}
        assert {finding.subject for finding in faults(forge)} == {
            "default: project_state.json",
            "stored files nobody needs",
        }
        forge.check(repair=True)
        assert faults(forge) == [], "the indexes, which had followed the other, need no repair"


def test_a_catalog_that_went_elsewhere_is_not_looked_for_here(workspace: Path, url: str) -> None:
    moved(url, workspace)
    with pytest.raises(UserError, match="moved from there to postgresql") as refused:
        list(Ragforge.migrating(SQLITE, settings_of(workspace, store__database_url="")))
    assert "store.database_url" in refused.value.hint


def test_a_catalog_on_a_server_can_be_taken_back(workspace: Path, url: str) -> None:
    moved(url, workspace)
    moved(SQLITE, workspace)
    assert Ragforge.take_back(settings_of(workspace, {VARIABLE: url})) == SQLITE
    with opened(workspace, {VARIABLE: url}) as forge:
        forge.add(_file(workspace.parent, "later"))
        assert len(forge.documents()) == 5 and faults(forge) == []


# -- nobody else


def test_nobody_may_have_the_workspace_open(workspace: Path, url: str) -> None:
    with opened(workspace) as forge:
        forge.projects()
        with pytest.raises(Busy, match="has the workspace open") as refused:
            moved(url, workspace)
        assert "mcp" in refused.value.hint
        with forge._parts.in_flight.working(lambda: None), pytest.raises(Busy, match="at work"):
            moved(url, workspace)
        forge.inbox()
        with pytest.raises(Busy, match="at work"):
            moved(url, workspace)
    moved(url, workspace)
    with opened(workspace) as forge:
        forge.projects()
        with pytest.raises(Busy, match="connected to the database, from this machine"):
            moved(SQLITE, workspace)
    moved(SQLITE, workspace)


def test_who_opens_the_workspace_meanwhile_is_told_to_wait(workspace: Path, url: str) -> None:
    events = Ragforge.migrating(url, settings_of(workspace))
    next(events)
    with pytest.raises(Busy), opened(workspace, store__busy_seconds=0.2) as forge:
        forge.projects()
    with pytest.raises(StoreError, match="not finished"), opened(workspace, {VARIABLE: url}) as forge:
        forge.projects()
    *_, report = events
    assert isinstance(report, MigrationReport) and report.switched


# -- the place where it goes


def test_only_an_empty_database_is_filled(workspace: Path, url: str, tmp_path: Path) -> None:
    with opened(workspace, {VARIABLE: url}) as forge:
        assert forge.projects() == [], "its tables are made, and hold nothing"
    moved(url, workspace)
    other = small(tmp_path / "other" / "ws", 2)
    with pytest.raises(UserError, match="it is not empty"):
        moved(url, other)
    with opened(other) as forge:
        assert len(forge.documents()) == 2


def test_tables_of_others_are_not_touched(workspace: Path, url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE projects (id int)")
    with pytest.raises(UserError, match="not ragforge's: projects"):
        moved(url, workspace)
    with psycopg.connect(url) as connection:
        connection.execute("DROP TABLE projects")
        connection.execute("CREATE TABLE alembic_version (version_num text)")
        connection.execute("INSERT INTO alembic_version VALUES ('1a2b3c')")
    with pytest.raises(UserError, match="not ragforge's: alembic_version"):
        moved(url, workspace)
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT * FROM alembic_version").fetchall() == [("1a2b3c",)]


def test_an_unfinished_move_of_another_workspace_is_left_alone(workspace: Path, url: str, tmp_path: Path) -> None:
    moved(url, workspace, switching=False)
    with pytest.raises(UserError, match="unfinished migration of") as refused:
        moved(url, small(tmp_path / "other" / "ws", 1))
    assert str(workspace) in refused.value.message
    assert moved(url, workspace).resumed


def test_a_catalog_in_the_folder_is_not_overwritten(workspace: Path, url: str) -> None:
    moved(url, workspace)
    (workspace / "catalog.db").unlink()
    with Ragforge.open(settings_of(workspace.parent / "another")) as forge:
        forge.create_project("default", embedder="wordllama")
    (workspace.parent / "another" / "catalog.db").rename(workspace / "catalog.db")
    with pytest.raises(UserError, match="holds a catalog"):
        moved(SQLITE, workspace)


@pytest.mark.parametrize("address", ["mysql://root@localhost/x", "somewhere", "postgresql"])
def test_other_places_are_refused(workspace: Path, address: str) -> None:
    with pytest.raises(UserError, match="Postgres database or to sqlite"):
        moved(address, workspace)


def test_a_server_that_is_away_is_told(workspace: Path) -> None:
    with pytest.raises(StoreError, match="does not answer"):
        moved("postgresql://nobody@127.0.0.1:9/nothing", workspace)
    with opened(workspace) as forge:
        assert len(forge.documents()) == 4


def test_a_server_that_refuses_says_why(workspace: Path, url: str) -> None:
    with pytest.raises(UserError, match='the database server refuses: database "nothing" does not exist'):
        moved(url.replace(url.split("?")[0].rsplit("/", 1)[1], "nothing", 1), workspace)
    with pytest.raises(UserError, match='role "nobody" does not exist'):
        moved(f"postgresql://nobody@{url.partition('@')[2]}", workspace)


def test_an_older_catalog_is_upgraded_on_the_way(tmp_path: Path, url: str) -> None:
    with Ragforge.open(settings_of(tmp_path / "ws")):
        pass
    database = Database.sqlite(tmp_path / "ws" / "catalog.db", 1.0)
    with database.write() as connection:
        database.migrate_on(connection, "0010")
        connection.exec_driver_sql("INSERT INTO counters VALUES ('kept', 7)")
    database.close()
    moved(url, tmp_path / "ws")
    assert ("kept", 7) in rows(url)["counters"]
    assert [path.name[:12] for path in (tmp_path / "ws" / "backups").iterdir()].count("catalog-0010") == 1


def test_a_folder_that_is_no_workspace_is_none_afterwards(tmp_path: Path, url: str) -> None:
    with pytest.raises(NotFound):
        moved(url, tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_indexes_in_the_database_are_not_left_without_one(workspace: Path, url: str) -> None:
    moved(url, workspace)
    settings = settings_of(workspace, index__vectors="pgvector")
    with pytest.raises(UserError, match="indexes are in the database") as refused:
        list(Ragforge.migrating(SQLITE, settings))
    assert "index.database_url" in refused.value.hint


# -- again


def test_a_second_run_says_that_it_is_done(workspace: Path, url: str) -> None:
    first = moved(url, workspace)
    again = moved(url, workspace)
    assert again.already and not first.already and not again.tables
    assert len(list((workspace / "backups").iterdir())) == 1
    assert moved(SQLITE, workspace).switched
    assert moved(SQLITE, workspace).already


def test_copied_but_not_used(workspace: Path, url: str) -> None:
    report = moved(url, workspace, switching=False)
    assert not report.switched and report.rows and rows(url) == rows(workspace / "catalog.db")
    with pytest.raises(StoreError, match="not finished") as refused, opened(workspace, {VARIABLE: url}) as forge:
        forge.projects()
    assert "ragforge migrate --to" in refused.value.hint
    after = moved(url, workspace)
    assert after.resumed == after.rows == report.rows and after.tables == report.tables, "nothing is copied again"


def test_what_was_changed_since_is_noticed_and_copied_anew(workspace: Path, url: str) -> None:
    moved(url, workspace, switching=False)
    with opened(workspace) as forge:
        forge.enable([forge.documents()[0].id], False)
    kept = rows(workspace / "catalog.db")
    report = moved(url, workspace)
    assert report.resumed == 0 and "used since" in report.notices[0]
    assert rows(url) == kept


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE chunks SET tokens = tokens + 1 WHERE ord = (SELECT MAX(ord) FROM chunks)",
        "DELETE FROM embeddings WHERE ord = (SELECT MIN(ord) FROM embeddings)",
        "INSERT INTO counters VALUES ('zzz', 1)",
    ],
)
def test_a_difference_stops_it_and_the_next_run_begins_anew(workspace: Path, url: str, damage: str) -> None:
    kept = rows(workspace / "catalog.db")
    moved(url, workspace, switching=False)
    change(url, damage)
    table = damage.split()[1 if damage.startswith("UPDATE") else 2]
    with pytest.raises(CorruptStore, match=f"not the same: {table}"):
        moved(url, workspace)
    with opened(workspace) as forge:
        assert len(forge.documents()) == 4, "the old one is the truth"
    assert moved(url, workspace).resumed == 0
    assert all(rows(url)[name] == kept[name] for name in ("chunks", "embeddings", "documents"))


def test_a_row_that_no_server_takes_is_named(workspace: Path, url: str) -> None:
    change(workspace / "catalog.db", "UPDATE documents SET name = 'a' || char(0) || 'b' WHERE ord = 2")
    with pytest.raises(StoreError, match="rows of documents: the row 2 has the character NUL"):
        moved(url, workspace)


# -- settings


@contextmanager
def with_password(server: TemporaryPostgres, url: str) -> Iterator[str]:
    """The same database, which asks for a password."""
    name = url.split("?")[0].rsplit("/", 1)[1]
    with psycopg.connect(server.as_superuser(url), autocommit=True) as connection:
        ((file,),) = connection.execute("SHOW hba_file").fetchall()
        connection.execute("DROP ROLE IF EXISTS mover")
        connection.execute("CREATE ROLE mover SUPERUSER LOGIN PASSWORD 'hunter2/x'")
        rules = Path(file).read_text()
        Path(file).write_text(f'local "{name}" mover scram-sha-256\n{rules}')
        connection.execute("SELECT pg_reload_conf()")
        try:
            yield f"postgresql://mover:{quote('hunter2/x', safe='')}@{url.partition('@')[2]}"
        finally:
            Path(file).write_text(rules)
            connection.execute("SELECT pg_reload_conf()")
            connection.execute("DROP OWNED BY mover")
            connection.execute("DROP ROLE mover")


def test_no_password_is_written_unless_that_is_asked_for(
    workspace: Path, url: str, postgres: TemporaryPostgres
) -> None:
    file = workspace / "ragforge.toml"
    with with_password(postgres, url) as secret:
        report = moved(secret, workspace)
        assert "hunter2" not in file.read_text() and "hunter2" not in repr(report)
        assert VARIABLE in report.notices[0] and "pgpass" in report.notices[0]
        with pytest.raises(StoreError), opened(workspace, store__reach_seconds=0) as forge:
            forge.projects()
        with opened(workspace, {VARIABLE: secret}) as forge:
            assert len(forge.documents()) == 4
        moved(SQLITE, workspace, {VARIABLE: secret})
        with psycopg.connect(postgres.as_superuser(url), autocommit=True) as connection:
            connection.execute("DROP OWNED BY mover CASCADE")
        moved(secret, workspace, keep_password=True)
        assert "hunter2" in file.read_text() and stat.S_IMODE(file.stat().st_mode) == 0o600
        with opened(workspace) as forge:
            assert len(forge.documents()) == 4
        moved(SQLITE, workspace)


def test_the_environment_that_still_names_the_old_one_is_told(workspace: Path, url: str) -> None:
    moved(url, workspace)
    report = moved(SQLITE, workspace, {VARIABLE: url})
    assert "still given by environment RAGFORGE_STORE__DATABASE_URL" in report.notices[0]
    again = moved(SQLITE, workspace, {VARIABLE: url})
    assert again.already and again.notices == report.notices
    with opened(workspace) as forge:
        assert len(forge.documents()) == 4


def test_the_environment_may_name_the_new_one_before(workspace: Path, url: str) -> None:
    kept = rows(workspace / "catalog.db")
    report = moved(url, workspace, {VARIABLE: url})
    assert report.source == SQLITE and report.notices == () and rows(url) == kept
    with opened(workspace, {VARIABLE: url}) as forge:
        assert len(forge.documents()) == 4
    assert moved(url, workspace, {VARIABLE: url}).already


def test_settings_that_a_program_cannot_change_stop_it_before_the_work(workspace: Path, url: str) -> None:
    (workspace / "ragforge.toml").write_text('store = { busy_seconds = 5 }\n[search]\nk = 7 # "x"\n')
    with pytest.raises(UserError, match="not written as a program can change it"):
        moved(url, workspace)
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)


def test_settings_that_cannot_be_written_stop_it_before_the_work(workspace: Path, url: str) -> None:
    (workspace / ".ragforge.toml.new").mkdir()
    with pytest.raises(StoreError, match="cannot write"):
        moved(url, workspace)
    with opened(workspace) as forge:
        assert len(forge.documents()) == 4


# -- the command


def test_the_command_shows_what_it_did(
    workspace: Path, url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bare_environment(monkeypatch, workspace.parent)
    shell = Shell(workspace, capsys)
    done = shell.run("migrate", "--to", url)
    head, *lines = done.stdout.splitlines()
    assert head.split() == ["TABLE", "ROWS", "SHA-256"]
    assert {line.split()[0] for line in lines} >= {"documents", "chunks", "embeddings", "counters"}
    assert all(len(line.split()[2]) == 64 for line in lines)
    assert "verified" in done.stderr and "catalog-before-migration" in done.stderr
    assert "already" in shell.run("migrate", "--to", url).stderr
    assert len(shell.json("ls")["documents"]) == 4
    told = shell.json("migrate", "--to", "sqlite")
    assert told["migration"]["switched"] and told["rows"] == sum(each["rows"] for each in told["migration"]["tables"])
    assert told["migration"]["source"] == without_password(url)


def test_the_command_refuses_with_a_next_step(
    workspace: Path, url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bare_environment(monkeypatch, workspace.parent)
    shell = Shell(workspace, capsys)
    shell.run("migrate", code=2)
    shell.run("migrate", "--to", "sqlite", "--take-back", code=2)
    shell.run("migrate", "--to", url, "--no-switch")
    refused = shell.run("--set", f"store.database_url={url}", "ls", code=8)
    assert f"ragforge migrate -w {workspace} --to" in refused.stderr
    shell.run("migrate", "--to", url)
    error = json.loads(shell.run("--set", "store.database_url=", "--json", "ls", code=8).stderr)["error"]
    assert "moved from here" in error["message"] and "--take-back" in error["hint"]
    assert main(["-w", str(workspace / "nothing"), "migrate", "--to", url]) == 5
