"""Rules of the catalog that are read off the source, and followers that no port writes yet."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import cast, get_type_hints

import pytest
import sqlalchemy as sa

import ragforge
from ragforge.adapters.catalog import tables
from ragforge.adapters.catalog.catalog import SqlCatalog, SqlUnit
from ragforge.adapters.catalog.unit import Session
from ragforge.operate.access import owner
from ragforge.ports import Catalog, Evaluations, Passages, Tombstones, Unit
from ragforge.testing.shelf import ManualClock, Shelf

SOURCE = Path(ragforge.__file__).parent


def makes_scope(node: ast.AST) -> bool:
    """`Scope(...)`, or `replace(scope, ...)` under any name that ends so."""
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name == "replace" and node.args:
        target = ast.unparse(node.args[0]).lower()
        return target.endswith(("scope", "owner()"))
    return name == "Scope"


def test_only_the_resolver_makes_scopes() -> None:
    makers = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if "testing" not in path.parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if makes_scope(node)
    }
    assert makers == {"operate/access.py"}


UNIT = SqlUnit.__new__(SqlUnit)
UNIT._make(cast(Session, None))
PARTS: dict[str, tuple[type, type]] = {
    name: (type(getattr(UNIT, name)), get_type_hints(part.fget)["return"])
    for name, part in vars(Unit).items()
    if isinstance(part, property)
}
"""What keeps each part of a unit, and its port."""


def first_of(function: Callable[..., object]) -> list[str]:
    return list(inspect.signature(function).parameters)[1:2]


def test_every_part_is_looked_at() -> None:
    assert PARTS.keys() == vars(UNIT).keys()
    assert {Evaluations, Passages, Tombstones} <= {port for _, port in PARTS.values()}


@pytest.mark.parametrize("name", PARTS)
def test_every_function_takes_a_scope_first(name: str) -> None:
    for kept_by in PARTS[name]:
        functions = inspect.getmembers(kept_by, inspect.isfunction)
        asked = {function: first_of(code) for function, code in functions if not function.startswith("_")}
        assert asked and all(first == ["scope"] for first in asked.values()), (kept_by.__name__, asked)


@pytest.mark.parametrize("catalog", [SqlCatalog, Catalog], ids=lambda c: c.__name__)
def test_the_whole_catalog_takes_a_scope_first(catalog: type) -> None:
    for name in ("dumping", "loading"):
        assert first_of(getattr(catalog, name)) == ["scope"], name


def test_pruning_waits_for_the_slowest_follower(tmp_path: Path) -> None:
    catalog = SqlCatalog.open(tmp_path / "catalog.db", ManualClock())
    shelf = Shelf.create(catalog)
    shelf.add("/a", "some text that gives a few chunks " * 5)
    lines = shelf.changes()
    assert len(lines) > 4

    def follow(engine: str, watermark: int) -> None:
        state = tables.index_states
        row = {"project": 1, "collection": "c", "engine": engine, "generation": 1, "fingerprint": "f"}
        with catalog._database.write() as connection:
            connection.execute(sa.delete(state).where(state.c.engine == engine))
            connection.execute(sa.insert(state).values(**row, watermark=watermark, updated_at=0))

    def prune() -> int:
        with catalog.write() as unit:
            return unit.changes.prune(owner(), shelf.id)

    follow("quick", lines[-1].seq)
    follow("slow", 0)
    assert prune() == 0
    follow("slow", lines[1].seq)
    assert prune() == 2
    assert shelf.changes() == lines[2:]
    follow("slow", lines[-1].seq)
    prune()
    assert shelf.changes() == lines[-1:]
    assert shelf.last_change() == lines[-1].seq
    catalog.close()
