"""Every vector index keeps the same contract."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from ragforge.adapters.postgres import PostgresServer
from ragforge.adapters.vectors.chroma import ChromaEmbedded, ChromaServer
from ragforge.adapters.vectors.chroma_process import ChromaProcess
from ragforge.adapters.vectors.pgvector import PgVectorIndex
from ragforge.adapters.vectors.qdrant import QdrantIndex
from ragforge.adapters.vectors.qdrant_engines import QdrantPlace
from ragforge.adapters.vectors.rows import lock_of_file
from ragforge.adapters.vectors.snapshot import SnapshotIndex
from ragforge.domain.tokens import Vector
from ragforge.ports import VectorIndex
from ragforge.testing.chroma import TemporaryChroma
from ragforge.testing.contracts.vectors import FINGERPRINT, OpenIndex, VectorIndexContract
from ragforge.testing.postgres import TemporaryPostgres
from tests.qdrant_rest import RestQdrant, rest_qdrant

NUMBERS = count(1)


@pytest.fixture(scope="module")
def chroma_process() -> Iterator[ChromaProcess]:
    process = ChromaProcess()
    yield process
    process.close()


@pytest.fixture(scope="module")
def chroma_server() -> Iterator[TemporaryChroma]:
    with TemporaryChroma() as server:
        yield server


class TestSnapshot(VectorIndexContract):
    isolated = True

    @pytest.fixture
    def folder(self, swift_path: Path) -> Path:
        return swift_path / "index"

    @pytest.fixture
    def open_index(self, folder: Path) -> OpenIndex:
        return lambda fingerprint: SnapshotIndex(folder, fingerprint)


class TestChromaEmbedded(VectorIndexContract):
    @pytest.fixture
    def folder(self, swift_path: Path) -> Path:
        return swift_path / "index"

    @pytest.fixture
    def open_index(self, folder: Path, chroma_process: ChromaProcess) -> OpenIndex:
        return lambda fingerprint: ChromaEmbedded(folder, fingerprint, chroma_process)


class TestChromaServer(VectorIndexContract):
    @pytest.fixture
    def open_index(self, chroma_server: TemporaryChroma, tmp_path: Path) -> OpenIndex:
        name, new_lock = f"project-{next(NUMBERS)}", lock_of_file(tmp_path / "writer.lock")
        return lambda fingerprint: ChromaServer(chroma_server.url, name, fingerprint, new_lock)


@pytest.fixture(scope="module")
def qdrant_rest() -> Iterator[RestQdrant]:
    with rest_qdrant() as server:
        yield server


class TestQdrantOverRest(VectorIndexContract):
    @pytest.fixture
    def place(self, qdrant_rest: RestQdrant) -> QdrantPlace:
        return QdrantPlace(qdrant_rest.url)

    @pytest.fixture
    def open_index(self, place: QdrantPlace, tmp_path: Path) -> OpenIndex:
        name, new_lock = f"ragforge-test-{os.getpid()}-{next(NUMBERS)}", lock_of_file(tmp_path / "writer.lock")
        return lambda fingerprint: QdrantIndex(place, name, fingerprint, new_lock)

    @pytest.fixture
    def index(self, open_index: OpenIndex) -> Iterator[VectorIndex]:
        index = open_index(FINGERPRINT)
        yield index
        index.drop()
        index.close()


if "QDRANT_URL" in os.environ:  # there is no wheel that brings a server

    class TestQdrantServer(TestQdrantOverRest):
        @pytest.fixture(params=[False, True], ids=["rest", "grpc"])
        def place(self, request: pytest.FixtureRequest) -> QdrantPlace:
            return QdrantPlace(os.environ["QDRANT_URL"], grpc=request.param)


class TestQdrantLocal(VectorIndexContract):
    @pytest.fixture
    def folder(self, swift_path: Path) -> Path:
        return swift_path / "index"

    @pytest.fixture
    def open_index(self, folder: Path, tmp_path: Path) -> OpenIndex:
        place, new_lock = QdrantPlace(folder), lock_of_file(tmp_path / "writer.lock")
        return lambda fingerprint: QdrantIndex(place, "project", fingerprint, new_lock)

    def traces(self, vector: Vector) -> list[bytes]:
        return [b"".join(b"G" + struct.pack(">d", number) for number in vector.tolist())]


@pytest.fixture(scope="module")
def database(postgres: TemporaryPostgres) -> Iterator[PostgresServer]:
    url = postgres.create()
    postgres.add_vectors(url)
    server = PostgresServer(url)
    yield server
    server.close()
    postgres.drop(url)


class TestPgVectorExact(VectorIndexContract):
    isolated = True

    @pytest.fixture
    def open_index(self, database: PostgresServer) -> OpenIndex:
        name = f"project_{next(NUMBERS)}"
        return lambda fingerprint: PgVectorIndex(database, name, fingerprint)


class TestPgVectorGraph(VectorIndexContract):
    isolated = True

    @pytest.fixture
    def open_index(self, database: PostgresServer) -> OpenIndex:
        name = f"project_{next(NUMBERS)}"
        return lambda fingerprint: PgVectorIndex(database, name, fingerprint, exact_rows=0)
