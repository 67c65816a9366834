"""Defects found by a review of the catalog, each with the case that showed it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy import event

from ragforge.adapters.catalog.catalog import SqlCatalog
from ragforge.adapters.catalog.database import Database
from ragforge.domain.access import Clearance, Scope
from ragforge.domain.documents import ParseFailure, Reason
from ragforge.domain.library import Labels
from ragforge.domain.strategy import Strategy
from ragforge.errors import BadVectors, Conflict, MissingExtra, NotAllowed, StoreError, UserError
from ragforge.operate.access import owner
from ragforge.ports import EmbedderCard, Unit
from ragforge.testing.postgres import TemporaryPostgres
from ragforge.testing.shelf import BROKEN, CARD, ManualClock, Shelf, file, hash_of, vectors

WORDS = "some words that fill two or three sections of this small document, and then a few more"


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    opened = SqlCatalog.open(tmp_path / "catalog.db", ManualClock())
    yield opened
    opened.close()


@pytest.fixture
def shelf(catalog: SqlCatalog) -> Shelf:
    return Shelf.create(catalog)


# -- what a document is labelled


def test_an_edited_copy_stays_as_confidential_as_it_was(shelf: Shelf) -> None:
    secret = Labels("contract", ("board",), Clearance.RESTRICTED)
    first, _ = shelf.publish(file("/a", WORDS, labels=secret), file("/b", WORDS, labels=secret))
    with shelf.catalog.write() as unit:
        unit.documents.enable(shelf.scope, shelf.id, [first.document], False)
    (edited,) = shelf.publish(file("/b", WORDS + " edited"))
    assert edited.document != first.document
    document = shelf.document(edited.document)
    assert document.labels == secret
    assert not document.enabled


# -- limits


def test_bytes_that_were_not_stored_use_no_room(shelf: Shelf) -> None:
    shelf.add("/a", "12345")
    huge = file("/b", "x", failure=ParseFailure(Reason.TOO_LARGE, "too large"))
    shelf.publish(replace(huge, blob="", source=replace(huge.source, size=2_000_000_000)))
    with shelf.catalog.read() as unit:
        assert unit.documents.usage(shelf.scope, shelf.id) == (2, 5)


# -- vectors


def test_a_model_cannot_change_its_dimension(shelf: Shelf) -> None:
    card = EmbedderCard("far:model", "far:model/1", None)
    with shelf.catalog.write() as unit:
        unit.embeddings.put(shelf.scope, shelf.id, card, [hash_of("a")], np.ones((1, 8), np.float32))
    with pytest.raises(BadVectors, match=r"6 dimensions.*8"), shelf.catalog.write() as unit:
        unit.embeddings.put(shelf.scope, shelf.id, card, [hash_of("b")], np.ones((1, 6), np.float32))


# -- who may


def guest(shelf: Shelf, clearance: Clearance) -> Scope:
    return replace(owner(), principal="guest", projects=frozenset({shelf.id}), clearance=clearance)


def test_a_project_is_not_removed_over_documents_one_cannot_see(shelf: Shelf) -> None:
    shelf.add("/a", WORDS)
    with pytest.raises(NotAllowed), shelf.catalog.write() as unit:
        unit.projects.remove(guest(shelf, Clearance.PUBLIC), shelf.id)
    assert shelf.texts() == {WORDS}


# -- bytes that could not be read are not "here already"


def test_bytes_that_failed_are_read_again(shelf: Shelf) -> None:
    bad = file("/a", "bytes", failure=BROKEN)
    shelf.publish(bad)
    with shelf.catalog.read() as unit:
        assert unit.documents.versions_with(shelf.scope, shelf.id, [bad.source.sha256]) == frozenset()


# -- work that grows with the whole project


def statements(catalog: SqlCatalog, work: Callable[[], object]) -> list[tuple[str, Any]]:
    seen: list[tuple[str, Any]] = []

    def note(
        _connection: object, _cursor: object, statement: str, parameters: Any, _context: object, many: bool
    ) -> None:
        seen.append((statement, parameters[0] if many else parameters))

    engine = catalog._database.engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        work()
    finally:
        event.remove(engine, "before_cursor_execute", note)
    return seen


def plan(catalog: SqlCatalog, statement: str, parameters: Any) -> list[str]:
    with catalog._database.read() as connection:
        return [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)]


def test_one_document_is_replaced_and_removed_without_reading_all(catalog: SqlCatalog, shelf: Shelf) -> None:
    shelf.publish(*(file(f"/{n}", f"{n} {WORDS}") for n in range(5)))

    def work() -> None:
        shelf.add("/1", "other words " * 5)
        document = shelf.documents()[0].id
        with catalog.read() as unit:
            unit.embeddings.sample(shelf.scope, shelf.id, document, 4)
        shelf.remove(document)

    steps = [
        (step, statement)
        for statement, parameters in statements(catalog, work)
        if "embeddings" in statement or "count(*)" in statement
        for step in plan(catalog, statement, parameters)
    ]
    whole = [
        (step, statement)
        for step, statement in steps
        if step.startswith(("SCAN sources", "MATERIALIZE"))
        or ("embeddings" in step and "text_hash" not in step and "rowid" not in step)
    ]
    assert steps
    assert whole == []


def test_no_check_compares_every_row_with_every_other(catalog: SqlCatalog, shelf: Shelf) -> None:
    shelf.add("/a", WORDS)
    for statement, parameters in statements(catalog, lambda: list(catalog.inspect())):
        if statement.startswith("SELECT"):
            steps = plan(catalog, statement, parameters)
            assert sum(step.startswith("SCAN") for step in steps) <= 1, (statement, steps)


# -- what the driver says reaches nobody as it is


@pytest.mark.parametrize("url", ["no url", "mysql://x/y", "sqlite:///other.db", "postgresql://h:port/d"])
def test_an_address_that_is_none_of_ours_is_explained(url: str) -> None:
    with pytest.raises(UserError, match="database_url"):
        Database.postgres(url)


def test_a_missing_driver_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named 'psycopg'")

    monkeypatch.setattr(sa, "create_engine", missing)
    with pytest.raises(MissingExtra):
        Database.postgres("postgresql://localhost/x")


def test_a_backup_that_cannot_be_written_is_explained(tmp_path: Path, catalog: SqlCatalog) -> None:
    (tmp_path / "backups").write_text("a file where the folder should be")
    with pytest.raises(StoreError, match="cannot write"):
        catalog._database._back_up("0001")


# -- several nodes on Postgres


@pytest.fixture
def nodes(postgres: TemporaryPostgres) -> Iterator[tuple[SqlCatalog, SqlCatalog]]:
    url = postgres.create()
    pair = tuple(SqlCatalog.connect(url, lambda: datetime.now(UTC)) for _ in range(2))
    yield pair[0], pair[1]
    for catalog in pair:
        catalog.close()
    postgres.drop(url)


def during(first: Callable[[Unit], object], second: Callable[[], object], catalog: SqlCatalog) -> list[BaseException]:
    """Run `second` on another thread while `first` has written but not committed."""
    problems: list[BaseException] = []

    def run() -> None:
        try:
            second()
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=run)
    with catalog.write() as unit:
        first(unit)
        thread.start()
        thread.join(0.5)
    thread.join(20)
    assert not thread.is_alive()
    return problems


def test_sweeping_waits_for_files_being_published(nodes: tuple[SqlCatalog, SqlCatalog]) -> None:
    one, two = nodes
    shelf = Shelf.create(one)
    new = file("/a", WORDS)
    with one.write() as unit:  # vectors that a slow model's run saved before it publishes
        unit.embeddings.put(shelf.scope, shelf.id, CARD, new.hashes, vectors(new.hashes))

    def sweep() -> None:
        with two.write() as unit:
            unit.embeddings.sweep(shelf.scope, shelf.id)

    problems = during(lambda unit: unit.documents.publish(shelf.scope, shelf.id, 1, [new]), sweep, one)
    assert problems == []
    assert shelf.faults() == []


def test_two_nodes_build_the_same_generation(nodes: tuple[SqlCatalog, SqlCatalog]) -> None:
    one, two = nodes
    shelf = Shelf.create(one)
    other = Shelf(two, shelf.project)
    shelf.add("/a", WORDS)
    problems = during(
        lambda unit: unit.projects.begin(shelf.scope, shelf.id, shelf.project.strategy, "splitter/2", CARD),
        lambda: other.begin("splitter/2", CARD),
        one,
    )
    assert problems == []
    generation = other.begin("splitter/2", CARD)

    def split(unit: Unit) -> None:
        (stored,) = unit.documents.unsplit(shelf.scope, shelf.id, generation, 5)
        again = file("/a", WORDS, size=20)
        unit.documents.put_split(shelf.scope, shelf.id, generation, stored, again.split, again.hashes)

    assert during(split, lambda: other.split(generation, 20), one) == []


def test_two_nodes_make_the_same_project(nodes: tuple[SqlCatalog, SqlCatalog]) -> None:
    one, two = nodes
    problems = during(
        lambda unit: unit.projects.create(owner(), "Demo", "demo", Strategy(), "splitter/1", CARD),
        lambda: Shelf.create(two, "demo"),
        one,
    )
    assert [type(problem) for problem in problems] == [Conflict]
