"""What can befall a project's indexes behind ragforge's back, wherever they are: files, or tables of a database."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import sqlalchemy as sa

from ragforge import Ragforge
from tests.catalogs import catalog_of

PARTS = ("keywords", "vectors")
_SCHEMA = "ragforge_index"
_KINDS = {"keywords": "words", "vectors": "vectors"}
"""What the database calls them."""


def lose(forge: Ragforge, part: str) -> None:
    """One index of the only project is gone."""
    if _is_in_database(forge, part):
        with catalog_of(forge.workspace) as database:
            for table in _tables(database, part):
                database.exec_driver_sql(f"DROP TABLE {_SCHEMA}.{table}")
    else:
        shutil.rmtree(_folder(forge, part))


def lose_all(forge: Ragforge) -> None:
    """Whatever the indexes of all projects left anywhere is gone."""
    shutil.rmtree(forge.workspace / "indexes")
    if any(_is_in_database(forge, part) for part in PARTS):
        with catalog_of(forge.workspace) as database:
            database.exec_driver_sql(f"DROP SCHEMA {_SCHEMA} CASCADE")


def keep(forge: Ragforge, part: str, folder: Path) -> Callable[[], None]:
    """Copy an index as it is now. What is returned puts the copy in the place of what is there then."""
    if not _is_in_database(forge, part):
        place = _folder(forge, part)
        shutil.copytree(place, folder)
        return lambda: _put_folder_back(place, folder)
    with catalog_of(forge.workspace) as database:
        tables = _tables(database, part)
        database.exec_driver_sql("CREATE SCHEMA kept")
        database.exec_driver_sql(
            f"CREATE TABLE kept.state AS SELECT * FROM {_SCHEMA}.state WHERE kind = '{_KINDS[part]}'"
        )
        for table in tables:
            database.exec_driver_sql(f"CREATE TABLE kept.{table} (LIKE {_SCHEMA}.{table} INCLUDING ALL)")
            database.exec_driver_sql(f"INSERT INTO kept.{table} SELECT * FROM {_SCHEMA}.{table}")
    return lambda: _put_tables_back(forge, part, tables)


def _put_folder_back(place: Path, folder: Path) -> None:
    shutil.rmtree(place)
    shutil.copytree(folder, place)


def _put_tables_back(forge: Ragforge, part: str, tables: list[str]) -> None:
    lose(forge, part)
    with catalog_of(forge.workspace) as database:
        database.exec_driver_sql(f"DELETE FROM {_SCHEMA}.state WHERE kind = '{_KINDS[part]}'")
        database.exec_driver_sql(f"INSERT INTO {_SCHEMA}.state SELECT * FROM kept.state")
        for table in tables:
            database.exec_driver_sql(f"DROP TABLE IF EXISTS {_SCHEMA}.{table}")
            database.exec_driver_sql(f"ALTER TABLE kept.{table} SET SCHEMA {_SCHEMA}")


def _is_in_database(forge: Ragforge, part: str) -> bool:
    chosen = forge._parts.settings.index
    return {"keywords": chosen.keywords, "vectors": chosen.vectors}[part] in ("postgres", "pgvector")


def _folder(forge: Ragforge, part: str) -> Path:
    (folder,) = forge.workspace.glob(f"indexes/*/*/{part}")
    return folder


def _tables(database: sa.Connection, part: str) -> list[str]:
    """What the state of an index names: its tables."""
    named = (
        f"SELECT relname FROM pg_class JOIN {_SCHEMA}.state"
        " ON relname = relation OR starts_with(relname, relation || '_')"
        f" WHERE kind = :kind AND relkind = 'r' AND relnamespace = '{_SCHEMA}'::regnamespace"
    )
    found = list(database.execute(sa.text(named), {"kind": _KINDS[part]}).scalars())
    assert found, f"no tables of {part}"
    return found
