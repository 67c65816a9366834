"""pgvector beyond the contract: the graph, dimensions, readers that stay, servers that refuse or are away."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from urllib.parse import urlsplit, urlunsplit

import numpy as np
import pytest

from ragforge.adapters.postgres import PostgresServer
from ragforge.adapters.vectors.pgvector import PgVectorIndex
from ragforge.domain.retrieval import Allowed, VectorRows
from ragforge.domain.tokens import Matrix
from ragforge.errors import BadVectors, IndexLost, StoreError, Unreachable
from ragforge.testing.contracts.vectors import ALL, NONE, Library, axis, found, keys, rebuild, rows, write
from ragforge.testing.postgres import TemporaryPostgres
from tests.bad_servers import nobody
from tests.indexed import execute, files_with, index_database, tables

NUMBERS = count(1)


@pytest.fixture(scope="module")
def server(postgres: TemporaryPostgres) -> Iterator[PostgresServer]:
    with index_database(postgres) as server:
        yield server


@pytest.fixture
def name() -> str:
    return f"p_{next(NUMBERS)}"


@pytest.fixture
def index(server: PostgresServer, name: str) -> Iterator[PgVectorIndex]:
    index = PgVectorIndex(server, name, "f")
    yield index
    index.drop()


@pytest.fixture
def graph(server: PostgresServer, name: str) -> Iterator[PgVectorIndex]:
    index = PgVectorIndex(server, name, "f", exact_rows=100)
    yield index
    index.drop()


def graphs(server: PostgresServer) -> int:
    """Those of all indexes."""
    [(number,)] = execute(
        server, "SELECT count(*) FROM pg_indexes WHERE schemaname = 'ragforge_index' AND indexdef LIKE '%USING hnsw%'"
    )
    assert isinstance(number, int)
    return number


# -- the graph


def test_few_rows_have_no_graph_and_many_have_one(server: PostgresServer, graph: PgVectorIndex) -> None:
    library = Library(300, 30)
    first, *others = library.parts(90)
    rebuild(graph, [first], 1)
    assert graphs(server) == 0
    for watermark, part in enumerate(others, 2):
        write(graph, part, NONE, watermark)
    assert graphs(server) == 1
    reader = graph.pin()
    assert (reader.rows, library.recall(reader, ALL) >= 0.98) == (300, True)
    reader.release()
    assert graph.verify() == []
    rebuild(graph, [library.rows], 9)
    assert graphs(server) == 1


def test_rows_are_found_through_the_graph(server: PostgresServer, graph: PgVectorIndex) -> None:
    rebuild(graph, [Library().rows], 1)
    for query in Library().queries:
        graph.pin().search(query, 10, ALL)

    def used() -> object:
        [(scans,)] = execute(
            server, "SELECT sum(idx_scan) FROM pg_stat_user_indexes WHERE indexrelname LIKE '%embedding%'"
        )
        return scans

    deadline = time.monotonic() + 20
    while not used() and time.monotonic() < deadline:  # what was done is counted a little later
        time.sleep(0.2)
    assert used()


def test_a_narrow_filter_still_fills_k(graph: PgVectorIndex) -> None:
    library = Library()
    rebuild(graph, [library.rows], 1)
    reader = graph.pin()
    everything = np.unique(library.documents)
    for size in (1, 5, 50, 150):
        some = everything[:: len(everything) // size][:size]
        for allowed in (Allowed(some), Allowed(np.setdiff1d(everything, some), deny=True)):
            assert library.recall(reader, allowed, k=40) >= 0.98
    assert library.recall(reader, Allowed(hidden=library.keys[: len(library.keys) - 30]), k=40) >= 0.98
    reader.release()


def test_much_at_once_goes_into_a_new_graph(server: PostgresServer, graph: PgVectorIndex) -> None:
    """To add to a graph one by one would take far longer than to build one."""
    library = Library()
    first, second = library.parts(1_000)
    rebuild(graph, [first], 1)
    before = tables(server)
    write(graph, second, first.keys[:10], 2)
    assert len(tables(server)) == 1
    assert tables(server) != before
    reader = graph.pin()
    assert reader.keys().tolist() == library.keys[10:].tolist()
    assert library.recall(reader, Allowed(hidden=library.keys[:10])) >= 0.98
    reader.release()
    assert graph.verify() == []
    joined = tables(server)
    write(graph, rows([900_001], [axis(1)]), NONE, 3)
    assert tables(server) == joined


@pytest.mark.parametrize("exact_rows", [0, 1_000])
def test_a_vector_of_zeros_scores_zero(server: PostgresServer, name: str, exact_rows: int) -> None:
    index = PgVectorIndex(server, name, "f", exact_rows=exact_rows)
    rebuild(index, [rows([1, 2, 3], [axis(1), 0 * axis(1), -axis(1)])], 1)
    write(index, rows([4], [0 * axis(1)]), NONE, 2)
    reader = index.pin()
    result = reader.search(axis(1), 10, ALL)
    assert result.keys.tolist() == [1, 2, 4, 3]
    assert result.scores.tolist() == [1, 0, 0, -1]
    assert reader.search(0 * axis(1), 10, ALL).scores.tolist() == [0, 0, 0, 0]
    assert reader.score(axis(1), keys(4, 2)).tolist() == [0, 0]
    reader.release()
    assert index.verify() == []
    index.drop()


def test_lengths_do_not_matter(index: PgVectorIndex) -> None:
    rebuild(index, [rows([1, 2], [100 * axis(1), 0.01 * (axis(1) + axis(2))])], 1)
    result = index.pin().search(5 * axis(1), 10, ALL)
    np.testing.assert_allclose(result.scores, [1, np.sqrt(0.5)], rtol=1e-6)


# -- dimensions


def wide(dimension: int, size: int = 60) -> Matrix:
    return np.random.default_rng(dimension).normal(size=(size, dimension)).astype(np.float32)


@pytest.mark.parametrize(("dimension", "has_graph"), [(1_999, True), (2_500, True), (4_500, False), (16_000, False)])
def test_wide_vectors_are_found(server: PostgresServer, name: str, dimension: int, has_graph: bool) -> None:
    index, vectors = PgVectorIndex(server, name, "f", exact_rows=10), wide(dimension)
    numbers = np.arange(1, len(vectors) + 1)
    rebuild(index, [VectorRows(numbers, numbers, vectors)], 1)
    assert graphs(server) == has_graph
    reader = index.pin()
    for place in (0, 30):
        result = reader.search(vectors[place], 5, ALL)
        assert result.keys[0] == place + 1
        exact = (vectors @ vectors[place]) / np.linalg.norm(vectors, axis=1) / np.linalg.norm(vectors[place])
        np.testing.assert_allclose(result.scores, np.sort(exact)[::-1][:5], atol=1e-5)
    reader.release()
    assert index.verify() == []
    index.drop()


def test_more_dimensions_than_there_can_be(index: PgVectorIndex) -> None:
    with pytest.raises(BadVectors, match="16,001"):
        rebuild(index, [VectorRows(keys(1), keys(1), wide(16_001, 1))], 1)
    with pytest.raises(IndexLost):
        index.pin()


# -- readers


def test_a_forgotten_reader_gives_its_connection_back(postgres: TemporaryPostgres) -> None:
    with index_database(postgres, connections=1) as server:
        index = PgVectorIndex(server, "p", "f")
        rebuild(index, [rows([1], [axis(1)])], 1)
        for _ in range(20):  # more than there are connections
            assert found(index.pin(), axis(1)) == [1]
        gc.collect()
        write(index, rows([2], [axis(2)]), NONE, 2)


def test_a_reader_is_released_as_often_as_one_likes(index: PgVectorIndex) -> None:
    rebuild(index, [rows([1], [axis(1)])], 1)
    reader = index.pin()
    reader.release()
    reader.release()
    with pytest.raises(StoreError, match="released"):
        reader.search(axis(1), 1, ALL)
    assert (reader.watermark, reader.rows) == (1, 1)


def test_what_is_read_is_removed_later(server: PostgresServer, index: PgVectorIndex) -> None:
    rebuild(index, [rows([1], [axis(1)])], 1)
    reader = index.pin()
    rebuild(index, [rows([2], [axis(2)])], 2)
    assert found(reader, axis(1)) == [1]
    assert len(tables(server)) == 2
    with index.writing(blocking=True):
        assert not index.erase()
        reader.release()
        assert index.erase()
    assert len(tables(server)) == 1


def test_a_dropped_index_that_is_read_goes_with_the_next_write_of_any(server: PostgresServer) -> None:
    dropped, other = (PgVectorIndex(server, f"p_{next(NUMBERS)}", "f") for _ in range(2))
    rebuild(dropped, [rows([1], [axis(1)])], 1)
    reader = dropped.pin()
    dropped.drop()
    assert found(reader, axis(1)) == [1]
    with pytest.raises(IndexLost):
        dropped.pin()
    reader.release()
    rebuild(other, [rows([2], [axis(2)])], 1)
    assert len(tables(server)) == 1
    other.drop()
    assert tables(server) == []


def test_a_reader_that_lost_its_connection_says_so(server: PostgresServer, index: PgVectorIndex) -> None:
    rebuild(index, [rows([1], [axis(1)])], 1)
    reader = index.pin()
    execute(server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'")
    with pytest.raises(Unreachable):
        reader.search(axis(1), 1, ALL)
    reader.release()
    assert found(index.pin(), axis(1)) == [1]


# -- removing for good


@pytest.mark.parametrize("exact_rows", [0, 1_000])
def test_nothing_of_a_removed_row_stays_in_the_files(server: PostgresServer, name: str, exact_rows: int) -> None:
    index = PgVectorIndex(server, name, "f", exact_rows=exact_rows)
    canary = (np.random.default_rng(3).choice([-1, 1], 64) / 8).astype(np.float32)  # of length 1 exactly
    rebuild(index, [Library(300, 30).rows], 1)
    write(index, rows([900_001], [canary]), NONE, 2)
    assert files_with(server, canary.tobytes())  # the search is not blind
    write(index, rows([], []), keys(900_001), 3)
    with index.writing(blocking=True):
        assert index.erase()
    assert files_with(server, canary.tobytes()) == []
    assert index.pin().rows == 300
    assert index.verify() == []
    index.drop()


# -- what is wrong


def test_a_failed_rebuild_leaves_no_table(server: PostgresServer, index: PgVectorIndex) -> None:
    def broken() -> Iterator[VectorRows]:
        yield rows([1], [axis(1)])
        raise OSError("the catalog went away")

    with pytest.raises(OSError, match="catalog"):
        index.rebuild(broken(), 1)
    assert tables(server) == []


def test_tables_that_are_gone_are_a_lost_index(server: PostgresServer, index: PgVectorIndex) -> None:
    rebuild(index, [rows([1], [axis(1)])], 1)
    [table] = tables(server)
    execute(server, f"DROP TABLE ragforge_index.{table}")
    with pytest.raises(IndexLost):
        index.pin()
    with pytest.raises(IndexLost):
        write(index, rows([2], [axis(2)]), NONE, 2)
    assert index.verify()
    rebuild(index, [rows([2], [axis(2)])], 2)
    assert found(index.pin(), axis(2)) == [2]


def test_rows_that_are_gone_are_noticed(server: PostgresServer, graph: PgVectorIndex) -> None:
    rebuild(graph, [Library(300, 30).rows], 1)
    [table] = tables(server)
    execute(server, f"DELETE FROM ragforge_index.{table} WHERE key IN (SELECT key FROM ragforge_index.{table} LIMIT 2)")
    [problem] = graph.verify()
    assert "300" in problem and "298" in problem
    execute(server, f"DROP INDEX ragforge_index.{table}_embedding_idx")
    assert any("graph" in problem for problem in graph.verify())


def test_nobody_there_is_not_lost() -> None:
    server = PostgresServer(nobody().replace("http://", "postgresql://someone@") + "/nothing")
    index = PgVectorIndex(server, "p", "f")
    with pytest.raises(Unreachable):
        index.pin()
    with pytest.raises(Unreachable):
        rebuild(index, [rows([1], [axis(1)])], 1)
    server.close()


def test_two_machines_keep_each_other_from_writing(postgres: TemporaryPostgres) -> None:
    url = postgres.as_superuser(postgres.create())
    first, second = PostgresServer(url), PostgresServer(url)
    one, other = PgVectorIndex(first, "p", "f"), PgVectorIndex(second, "p", "f")
    rebuild(one, [rows([1], [axis(1)])], 1)
    with one.writing(blocking=False) as ours:
        assert ours
        with other.writing(blocking=False) as theirs:
            assert not theirs
        with PgVectorIndex(second, "q", "f").writing(blocking=False) as another:
            assert another
    with other.writing(blocking=False) as theirs:
        assert theirs
        other.apply(rows([2], [axis(2)]), NONE, 2)
    assert one.pin().keys().tolist() == [1, 2]
    first.close()
    second.close()
    postgres.drop(url)


def test_names_of_any_kind_have_tables_of_their_own(server: PostgresServer) -> None:
    names = ["a", "A", "a.", "ä" * 300, "x" * 300, "x" * 299 + "y", 'quote"d; DROP', ""]
    indexes = [PgVectorIndex(server, name, "f") for name in names]
    for number, index in enumerate(indexes, 1):
        rebuild(index, [rows([number], [axis(number)])], number)
    assert [index.pin().keys().tolist() for index in indexes] == [[number] for number in range(1, len(names) + 1)]
    assert len(tables(server)) == len(names)
    assert max(map(len, tables(server))) <= 63 - len("_embedding_idx")  # else Postgres would cut names
    for index in indexes:
        index.drop()
    assert tables(server) == []


# -- what the server has


def test_a_user_without_rights_is_told_what_to_ask_for(postgres: TemporaryPostgres) -> None:
    url = postgres.as_superuser(postgres.create())
    parts, role = urlsplit(url), f"stranger_{os.getpid()}"
    owner = PostgresServer(url)
    execute(owner, f'CREATE ROLE "{role}" LOGIN')
    guest = PostgresServer(urlunsplit(parts._replace(netloc=f"{role}@{parts.netloc.rpartition('@')[2]}")))
    index = PgVectorIndex(guest, "p", "f")
    with pytest.raises(StoreError) as refused:
        rebuild(index, [rows([1], [axis(1)])], 1)
    assert "CREATE SCHEMA" in refused.value.hint
    execute(owner, f'CREATE SCHEMA ragforge_index AUTHORIZATION "{role}"')
    with pytest.raises(StoreError) as refused:
        rebuild(index, [rows([1], [axis(1)])], 1)
    assert "CREATE EXTENSION" in refused.value.hint
    execute(owner, "CREATE EXTENSION vector")
    rebuild(index, [rows([1], [axis(1)])], 1)
    assert found(index.pin(), axis(1)) == [1]
    guest.close()
    execute(owner, f'DROP OWNED BY "{role}"')
    execute(owner, f'DROP ROLE "{role}"')
    owner.close()
    postgres.drop(url)


def test_an_old_pgvector_is_refused(postgres: TemporaryPostgres) -> None:
    with index_database(postgres) as server:
        execute(server, "CREATE EXTENSION vector")
        execute(server, "UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'")
        with pytest.raises(StoreError, match=r"0\.7\.4") as refused:
            rebuild(PgVectorIndex(server, "p", "f"), [], 1)
        assert "ALTER EXTENSION" in refused.value.hint


def test_pgvector_may_be_in_a_schema_of_its_own(postgres: TemporaryPostgres) -> None:
    with index_database(postgres) as server:
        execute(server, 'CREATE SCHEMA "Of its own"')
        execute(server, 'CREATE EXTENSION vector SCHEMA "Of its own"')
        index = PgVectorIndex(server, "p", "f", exact_rows=0)
        rebuild(index, [rows([1, 2], [axis(1), axis(2)])], 1)
        write(index, rows([3], [axis(3)]), keys(1), 2)
        reader = index.pin()
        assert found(reader, axis(3))[0] == 3
        reader.release()
        assert index.verify() == []
        with index.writing(blocking=True):
            assert index.erase()


# -- killed

WRITER = """
import sys
from ragforge.adapters.postgres import PostgresServer
from ragforge.adapters.vectors.pgvector import PgVectorIndex
from ragforge.testing.contracts.vectors import NONE, axis, rows, write
index = PgVectorIndex(PostgresServer(sys.argv[1]), "p", "f", exact_rows=20)
print("ready", flush=True)
for number in range(2, 100_000):
    write(index, rows([number], [axis(number % 64)]), NONE, number)
"""


def test_killed_while_it_writes(postgres: TemporaryPostgres) -> None:
    url = postgres.as_superuser(postgres.create())
    server = PostgresServer(url)
    index = PgVectorIndex(server, "p", "f", exact_rows=20)
    rebuild(index, [rows([1], [axis(1)])], 1)
    writer = subprocess.Popen([sys.executable, "-c", WRITER, url], stdout=subprocess.PIPE, env=os.environ)
    with writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        deadline = time.monotonic() + 60
        while index.pin().watermark < 30 and time.monotonic() < deadline:
            time.sleep(0.05)
        writer.send_signal(signal.SIGKILL)
    write(index, rows([500_000], [axis(1)]), NONE, 500_000)  # the lock died with its holder
    reader = index.pin()
    *before, last = reader.keys().tolist()
    assert (before, last) == (list(range(1, len(before) + 1)), 500_000)
    assert len(before) >= 30
    reader.release()
    assert index.verify() == []
    server.close()
    postgres.drop(url)
