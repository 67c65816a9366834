"""Rules of the catalog that are read off the source, and followers that no port writes yet."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest
import sqlalchemy as sa

import ragforge
from ragforge.adapters.catalog import tables
from ragforge.adapters.catalog.artifacts import SqlArtifacts
from ragforge.adapters.catalog.catalog import SqlCatalog
from ragforge.adapters.catalog.changes import SqlChanges
from ragforge.adapters.catalog.conversations import SqlConversations
from ragforge.adapters.catalog.documents import SqlDocuments
from ragforge.adapters.catalog.embeddings import SqlEmbeddings
from ragforge.adapters.catalog.jobs import SqlJobs
from ragforge.adapters.catalog.keys import SqlAccessKeys
from ragforge.adapters.catalog.projects import SqlProjects
from ragforge.adapters.catalog.querylog import SqlQueryLog
from ragforge.adapters.catalog.texts import SqlProjectTexts
from ragforge.operate.access import owner
from ragforge.ports import (
    AccessKeys,
    Artifacts,
    Changes,
    Conversations,
    Documents,
    Embeddings,
    Jobs,
    Projects,
    ProjectTexts,
    QueryLog,
)
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


PARTS: list[tuple[type, type]] = [
    (SqlProjects, Projects),
    (SqlDocuments, Documents),
    (SqlEmbeddings, Embeddings),
    (SqlChanges, Changes),
    (SqlJobs, Jobs),
    (SqlConversations, Conversations),
    (SqlProjectTexts, ProjectTexts),
    (SqlQueryLog, QueryLog),
    (SqlArtifacts, Artifacts),
    (SqlAccessKeys, AccessKeys),
]


@pytest.mark.parametrize(("part", "port"), PARTS, ids=lambda c: c.__name__)
def test_every_function_takes_a_scope_first(part: type, port: type) -> None:
    for owner_class in (part, port):
        for name, function in vars(owner_class).items():
            if not name.startswith("_") and inspect.isfunction(function):
                first = list(inspect.signature(function).parameters)[1:2]
                assert first == ["scope"], f"{owner_class.__name__}.{name}"


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
