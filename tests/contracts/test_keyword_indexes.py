"""Every keyword index keeps the same contract."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache, partial
from itertools import count
from pathlib import Path

import pytest

from ragforge.adapters.keywords.postgres import PostgresWords, PostgresWordsReader
from ragforge.adapters.keywords.qdrant import QdrantWords, QdrantWordsReader
from ragforge.adapters.keywords.tantivy import TantivyIndex, TantivyReader
from ragforge.adapters.postgres import PostgresServer
from ragforge.adapters.vectors.qdrant_engines import QdrantPlace
from ragforge.adapters.vectors.rows import lock_of_file
from ragforge.ports import KeywordIndex, KeywordReader
from ragforge.testing.contracts.keywords import FINGERPRINT, KeywordIndexContract, OpenIndex
from ragforge.testing.postgres import TemporaryPostgres
from tests.qdrant_rest import RestQdrant, rest_qdrant

NUMBERS = count(1)


class TestTantivy(KeywordIndexContract):
    @pytest.fixture
    def folder(self, swift_path: Path) -> Path:
        return swift_path / "index"

    @pytest.fixture
    def open_index(self, folder: Path) -> OpenIndex:
        return partial(TantivyIndex, folder)

    def dictionary(self, reader: KeywordReader, beginning: str) -> list[str]:
        assert isinstance(reader, TantivyReader)
        return reader.terms_starting(beginning, 100)


def open_qdrant_words(place: QdrantPlace, name: str, lock: Path, fingerprint: str) -> QdrantWords:
    return QdrantWords(place, name, fingerprint, lock_of_file(lock))


class QdrantWordsContract(KeywordIndexContract):
    isolated = False

    def dictionary(self, reader: KeywordReader, beginning: str) -> list[str]:
        assert isinstance(reader, QdrantWordsReader)
        return reader.terms_starting(beginning, 100)


class TestQdrantLocal(QdrantWordsContract):
    @pytest.fixture
    def folder(self, swift_path: Path) -> Path:
        return swift_path / "index"

    @pytest.fixture
    def open_index(self, folder: Path, tmp_path: Path) -> OpenIndex:
        return partial(open_qdrant_words, QdrantPlace(folder), "words", tmp_path / "writer.lock")


@pytest.fixture(scope="module")
def qdrant_rest() -> Iterator[RestQdrant]:
    with rest_qdrant() as server:
        yield server


class TestQdrantOverRest(QdrantWordsContract):
    @pytest.fixture
    def place(self, qdrant_rest: RestQdrant) -> QdrantPlace:
        return QdrantPlace(qdrant_rest.url)

    @pytest.fixture
    def open_index(self, place: QdrantPlace, tmp_path: Path) -> OpenIndex:
        name = f"ragforge-test-{os.getpid()}-{next(NUMBERS)}-words"
        return partial(open_qdrant_words, place, name, tmp_path / "writer.lock")

    @pytest.fixture
    def index(self, open_index: OpenIndex) -> Iterator[KeywordIndex]:
        index = open_index(FINGERPRINT)
        yield index
        index.drop()
        index.close()


if "QDRANT_URL" in os.environ:  # there is no wheel that brings a server

    class TestQdrantServer(TestQdrantOverRest):
        @pytest.fixture(params=[False, True], ids=["rest", "grpc"])
        def place(self, request: pytest.FixtureRequest) -> QdrantPlace:
            return QdrantPlace(os.environ["QDRANT_URL"], grpc=request.param)


@cache
def database(url: str) -> PostgresServer:
    """One for all indexes of a process."""
    return PostgresServer(url)


def open_postgres_words(url: str, name: str, fingerprint: str) -> PostgresWords:
    return PostgresWords(database(url), name, fingerprint)


@pytest.fixture(scope="module")
def database_url(postgres: TemporaryPostgres) -> Iterator[str]:
    url = postgres.create()
    yield url
    database(url).close()
    postgres.drop(url)


class TestPostgres(KeywordIndexContract):
    @pytest.fixture
    def open_index(self, database_url: str) -> OpenIndex:
        return partial(open_postgres_words, database_url, f"project_{next(NUMBERS)}")

    def dictionary(self, reader: KeywordReader, beginning: str) -> list[str]:
        assert isinstance(reader, PostgresWordsReader)
        return reader.terms_starting(beginning, 100)
