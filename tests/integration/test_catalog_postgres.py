"""Several nodes on one Postgres: each has its own connections, so nothing but the database keeps them in order."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import sqlalchemy as sa

from ragforge.adapters.catalog.catalog import SqlCatalog
from ragforge.domain.conversation import FORGOTTEN_ANSWER
from ragforge.domain.library import Op
from ragforge.domain.records import ProjectTextKind
from ragforge.operate.access import owner
from ragforge.testing.postgres import TemporaryPostgres
from ragforge.testing.records import artifact, source, turn
from ragforge.testing.shelf import Shelf

NODES = 4


@pytest.fixture
def nodes(postgres: TemporaryPostgres) -> Iterator[list[SqlCatalog]]:
    url = postgres.create()
    catalogs = [SqlCatalog.connect(url, lambda: dt.datetime.now(dt.UTC)) for _ in range(NODES)]
    yield catalogs
    for catalog in catalogs:
        catalog.close()
    postgres.drop(url)


def at_once(nodes: list[SqlCatalog], work: Callable[[SqlCatalog, int], object]) -> None:
    start = threading.Barrier(len(nodes))

    def run(number: int) -> None:
        start.wait()
        work(nodes[number], number)

    with ThreadPoolExecutor(len(nodes)) as pool:
        list(pool.map(run, range(len(nodes))))


def test_first_projects_of_several_nodes(nodes: list[SqlCatalog]) -> None:
    at_once(nodes, lambda catalog, number: Shelf.create(catalog, f"p{number}"))
    with nodes[0].read() as unit:
        projects = unit.projects.all(owner())
    assert [project.slug for project in projects] == [f"p{number}" for number in range(NODES)]
    assert len({project.id for project in projects}) == NODES


def test_a_job_is_claimed_by_one_node(nodes: list[SqlCatalog]) -> None:
    shelf = Shelf.create(nodes[0])
    with nodes[0].write() as unit:
        for _ in range(12):
            unit.jobs.enqueue(owner(), shelf.id, "add", [{}])
    taken: list[str] = []

    def work(catalog: SqlCatalog, number: int) -> None:
        while True:
            with catalog.write() as unit:
                job = unit.jobs.claim(owner(), str(number), ("add",), 60)
            if job is None:
                return
            taken.append(job.id)

    at_once(nodes, work)
    assert len(taken) == len(set(taken)) == 12


def test_turns_of_several_nodes_get_numbers_of_their_own(nodes: list[SqlCatalog]) -> None:
    shelf = Shelf.create(nodes[0])
    with nodes[0].write() as unit:
        talk = unit.conversations.begin(owner(), shelf.id, "talk").id

    def speak(catalog: SqlCatalog, number: int) -> None:
        for step in range(6):
            with catalog.write() as unit:
                unit.conversations.add(owner(), shelf.id, turn(talk, f"{number}/{step}"), "", None)

    at_once(nodes, speak)
    with nodes[0].read() as unit:
        turns = unit.conversations.turns(owner(), shelf.id, talk)
    assert [said.number for said in turns] == list(range(1, 6 * NODES + 1))
    assert len({said.question for said in turns}) == 6 * NODES


def test_texts_of_several_nodes_get_versions_of_their_own(nodes: list[SqlCatalog]) -> None:
    shelf = Shelf.create(nodes[0])

    def write(catalog: SqlCatalog, number: int) -> None:
        for step in range(6):
            with catalog.write() as unit:
                unit.texts.write(owner(), shelf.id, ProjectTextKind.HARD_RULES, f"{number}/{step}")

    at_once(nodes, write)
    with nodes[0].read() as unit:
        versions = unit.texts.versions(owner(), shelf.id, ProjectTextKind.HARD_RULES)
    assert [each.version for each in versions] == list(range(6 * NODES, 0, -1))


def test_no_answer_outlives_its_document_on_another_node(nodes: list[SqlCatalog]) -> None:
    """Answers are stored while the removal of what they cite is not committed yet."""
    shelf = Shelf.create(nodes[0])
    gone = shelf.add("/gone", "goes").document
    with nodes[0].write() as unit:
        talk = unit.conversations.begin(owner(), shelf.id, "talk").id

    def answer() -> None:
        with nodes[1].write() as unit:
            unit.conversations.add(owner(), shelf.id, turn(talk, documents=(gone,)), "", None)

    def make() -> None:
        with nodes[2].write() as unit:
            unit.artifacts.put(owner(), shelf.id, artifact(source(1, gone, "secret words")))

    others = [threading.Thread(target=work) for work in (answer, make)]
    with nodes[0].write() as unit:
        unit.documents.remove(owner(), shelf.id, gone)
        for other in others:
            other.start()
        others[0].join(0.3)
    for other in others:
        other.join()
    with nodes[0].read() as unit:
        (said,) = unit.conversations.turns(owner(), shelf.id, talk)
        (made,) = unit.artifacts.all(owner(), shelf.id)
    assert said.answer == FORGOTTEN_ANSWER
    assert made.sections[0].open and "secret words" not in repr(made)


def test_nodes_publish_into_one_project(nodes: list[SqlCatalog]) -> None:
    """A follower that reads while they write misses nothing: numbers become visible in their order."""
    shelf = Shelf.create(nodes[0])
    followed: set[int] = set()
    seq = 0
    ended = threading.Event()

    def follow() -> None:
        nonlocal seq
        while True:
            last_round = ended.is_set()
            for change in shelf.changes(seq):
                seq = change.seq
                if change.chunk is not None:
                    (followed.add if change.op == Op.PUT else followed.discard)(change.chunk)
            if last_round:
                return

    def publish(catalog: SqlCatalog, number: int) -> None:
        own = replace(shelf, catalog=catalog)
        for step in range(6):
            own.add(f"/{number}/{step % 3}", f"text {number} {step} " * 5)
            own.add("/shared", f"everyone writes this one {number} {step}")
        own.remove_source(f"/{number}/0")

    follower = threading.Thread(target=follow)
    follower.start()
    at_once(nodes, publish)
    ended.set()
    follower.join()
    documents = shelf.documents()
    assert len(documents) == 2 * NODES + 1
    assert followed == {chunk.key for document in documents for chunk in shelf.chunks(document.id)}
    assert shelf.faults() == []


def test_the_last_sources_leave_at_once(nodes: list[SqlCatalog]) -> None:
    shelf = Shelf.create(nodes[0])
    for _ in range(3):
        for number in range(NODES):
            shelf.add(f"/{number}", "the same text everywhere")
        at_once(nodes, lambda catalog, number: replace(shelf, catalog=catalog).remove_source(f"/{number}"))
        assert shelf.documents() == []
        assert shelf.faults() == []


def test_rows_of_other_projects_are_not_there_whatever_is_asked_for(postgres: TemporaryPostgres) -> None:
    """A statement without its condition, as a fault of ours would be: the server shows what the scope reaches."""
    url = postgres.create()
    catalog = SqlCatalog.connect(url, lambda: dt.datetime.now(dt.UTC))
    ours, theirs = Shelf.create(catalog, "ours"), Shelf.create(catalog, "theirs")
    for shelf in (ours, theirs):
        shelf.add("/a", "Walnut chairs are returned within thirty days. " * 20)
    scope = replace(owner(), principal="eve", projects=frozenset({ours.id}))
    walled = ("documents", "versions", "sections", "chunks", "embeddings", "changes", "sources", "generations")
    with catalog.read() as unit:
        execute = unit.documents._session.execute

        def counted() -> dict[str, int]:
            return {table: int(execute(sa.text(f"SELECT count(*) FROM {table}")).scalar() or 0) for table in walled}

        assert counted() == dict.fromkeys(walled, 0), "nobody said who asks"
        unit.documents.all(scope, ours.id)
        seen = counted()
        unit.documents.all(owner(), ours.id)
        assert counted() == {table: 2 * number for table, number in seen.items()} and all(seen.values())
    with catalog.write() as unit, pytest.raises(sa.exc.DBAPIError, match="row-level security"):
        unit.documents.all(scope, ours.id)
        write = unit.documents._session.execute
        foreign = sa.text("UPDATE chunks SET project = (SELECT ord FROM projects WHERE id = :other)")
        write(foreign, {"other": theirs.id})
    catalog.close()
    postgres.drop(url)
