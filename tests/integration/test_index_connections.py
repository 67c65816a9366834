"""Few connections to the database of the indexes, and many who want one: nobody keeps one while waiting for another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from threading import Barrier

import pytest

from ragforge import Ragforge
from ragforge.adapters.keywords.postgres import PostgresWords, PostgresWordsReader
from ragforge.adapters.postgres import PostgresServer
from ragforge.adapters.vectors.pgvector import PgVectorIndex
from ragforge.domain.cancel import Cancel
from ragforge.domain.retrieval import Tuning
from ragforge.errors import Busy
from ragforge.testing.contracts.vectors import NONE, axis, rebuild, rows
from ragforge.testing.postgres import TemporaryPostgres
from tests.forge import fill, open_forge

SOON = 20.0
"""Seconds; a wait for a connection that does not come takes 30."""


@pytest.fixture
def url(postgres: TemporaryPostgres) -> Iterator[str]:
    url = postgres.create()
    postgres.add_vectors(url)
    yield url
    postgres.drop(url)


def opened(folder: Path, url: str, connections: int) -> Ragforge:
    """A workspace with both indexes in the database, and its catalog in a file."""
    settings = {"index__keywords": "postgres", "index__vectors": "pgvector", "index__database_url": url}
    forge = open_forge(folder / "workspace", store__connections=connections, **settings)
    forge.add(fill(folder / "docs", 3), project="p")
    return forge


def together(monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    """Searches pin their words only once so many have, or a second has passed."""
    pinned, pin, deadline = 0, PostgresWords.pin, time.monotonic() + 1

    def pin_with_others(index: PostgresWords) -> PostgresWordsReader:
        nonlocal pinned
        reader = pin(index)
        pinned += 1
        while pinned < many and time.monotonic() < deadline:
            time.sleep(0.01)
        return reader

    monkeypatch.setattr(PostgresWords, "pin", pin_with_others)


@pytest.mark.parametrize("connections", [1, 2])
def test_more_searches_at_once_than_there_are_connections(
    swift_path: Path, url: str, monkeypatch: pytest.MonkeyPatch, connections: int
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    with opened(swift_path, url, connections) as forge, ThreadPoolExecutor(8) as pool:
        together(monkeypatch, 2 * connections)
        began = time.monotonic()
        found = list(pool.map(partial(forge.search, project="p", fresh=True), [f"Page {n % 3}" for n in range(8)]))
        assert time.monotonic() - began < SOON
    assert [each.degraded for each in found] == [()] * 8
    assert [each.passages[0].name for each in found] == [f"file{n % 3:04}.md" for n in range(8)]


def test_who_waits_for_a_reranker_keeps_no_connection(swift_path: Path, url: str) -> None:
    all_here = Barrier(4)

    class Service:
        name = "slow"

        def score(self, question: str, texts: Sequence[str], cancel: Cancel) -> list[float]:
            all_here.wait(SOON)
            return [1.0] * len(texts)

    with opened(swift_path, url, 1) as forge, ThreadPoolExecutor(4) as pool:
        forge._parts._rerankers["cohere:slow"] = Service()
        ask: Callable[[str], object] = partial(forge.explain, project="p", tuning=Tuning(reranker="cohere:slow"))
        asked = [pool.submit(ask, f"Page {number % 3}") for number in range(3)]
        all_here.wait(SOON)
        for each in asked:
            each.result(SOON)
        found = forge.explain("Page 1", project="p")
    assert found.trace is not None and found.trace.holding["1"] and found.degraded == ()


def test_writers_and_readers_do_not_wait_for_each_other(url: str) -> None:
    both_may_write = Barrier(2)
    with closing(PostgresServer(url, 1)) as server, ThreadPoolExecutor(2) as pool, ExitStack() as pinned:
        one, other = (PgVectorIndex(server, name, "f") for name in ("one", "other"))
        for index in (one, other):
            rebuild(index, [rows([1], [axis(1)])], 1)
            pinned.callback(index.pin().release)

        def write(index: PgVectorIndex) -> None:
            with index.writing(blocking=True):
                both_may_write.wait(SOON)
                index.apply(rows([2], [axis(2)]), NONE, 2)

        began = time.monotonic()
        list(pool.map(write, [one, other]))
        assert time.monotonic() - began < SOON
        pinned.close()
        assert one.pin().watermark == 2


def test_no_connection_left_is_not_a_server_that_is_away(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(PostgresServer(url, 1)) as server:
        monkeypatch.setattr(server._readers.pool, "_timeout", 0.1)
        held = [server.hold(), server.hold()]
        with pytest.raises(Busy, match="all connections") as told:
            server.hold()
        assert "store.connections" in told.value.hint
        for each in held:
            each.release()
        server.hold().release()


def test_as_many_searches_at_once_as_processors_where_indexes_are_files(
    swift_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    with open_forge(swift_path / "workspace", store__connections=1) as forge:
        assert forge._parts.searches_at_once == 16
