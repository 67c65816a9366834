"""Every vector index keeps the same contract."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from ragforge.adapters.vectors.chroma import ChromaEmbedded, ChromaServer
from ragforge.adapters.vectors.chroma_process import ChromaProcess
from ragforge.adapters.vectors.qdrant import QdrantIndex
from ragforge.adapters.vectors.snapshot import SnapshotIndex
from ragforge.domain.tokens import Vector
from ragforge.ports import VectorIndex
from ragforge.testing.chroma import TemporaryChroma
from ragforge.testing.contracts.vectors import FINGERPRINT, OpenIndex, VectorIndexContract

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
        name = f"project-{next(NUMBERS)}"
        return lambda fingerprint: ChromaServer(chroma_server.url, name, fingerprint, tmp_path)


class QdrantServerContract(VectorIndexContract):
    @pytest.fixture
    def open_index(self, tmp_path: Path) -> OpenIndex:
        name = f"ragforge-test-{os.getpid()}-{next(NUMBERS)}"
        return lambda fingerprint: QdrantIndex(os.environ["QDRANT_URL"], name, fingerprint, tmp_path)

    @pytest.fixture
    def index(self, open_index: OpenIndex) -> Iterator[VectorIndex]:
        index = open_index(FINGERPRINT)
        yield index
        index.drop()
        index.close()


if "QDRANT_URL" in os.environ:  # there is no wheel that brings a server

    class TestQdrantServer(QdrantServerContract):
        pass


class TestQdrantLocal(VectorIndexContract):
    @pytest.fixture
    def folder(self, swift_path: Path) -> Path:
        return swift_path / "index"

    @pytest.fixture
    def open_index(self, folder: Path, tmp_path: Path) -> OpenIndex:
        return lambda fingerprint: QdrantIndex(folder, "project", fingerprint, tmp_path)

    def traces(self, vector: Vector) -> list[bytes]:
        return [b"".join(b"G" + struct.pack(">d", number) for number in vector.tolist())]
