"""The catalogs that tests make without Alembic are those that it makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ragforge.adapters.catalog.database import Database
from tests import schemas

_OBJECTS = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"


def _content(database: Database) -> list[Any]:
    with database.read() as connection:
        found = connection.exec_driver_sql(_OBJECTS).all()
        tables = [each.name for each in found if each.type == "table"]
        return [found, *(connection.exec_driver_sql(f'SELECT * FROM "{name}"').all() for name in tables)]


def test_a_catalog_made_without_alembic_is_as_one_made_with_it(tmp_path: Path) -> None:
    contents = []
    for number, make in enumerate([schemas._migrate, schemas._migrate, schemas.migrate]):
        database = Database.sqlite(tmp_path / f"{number}.db", 5)
        make(database)
        contents.append(_content(database))
        database.close()
    assert contents[0] == contents[1] == contents[2]
    assert any(contents[0][1:])
