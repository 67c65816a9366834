"""Qdrant beyond the contract: what lies in its folder is not trusted, and servers may misbehave."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragforge.adapters.vectors.qdrant import QdrantIndex
from ragforge.adapters.vectors.qdrant_engines import _POINT
from ragforge.domain.retrieval import VectorRows
from ragforge.errors import Busy, IndexLost, StoreError, UserError
from ragforge.testing.contracts.vectors import NONE, axis, found, rebuild, rows, write
from tests.bad_servers import always, last_request, nobody, silence


@pytest.fixture
def folder(swift_path: Path) -> Path:
    return swift_path / "index"


@pytest.fixture
def index(folder: Path, tmp_path: Path) -> Iterator[QdrantIndex]:
    index = QdrantIndex(folder, "p", "f", tmp_path)
    yield index
    index.close()


def storage(folder: Path) -> Path:
    [path] = folder.rglob("storage.sqlite")
    return path


# -- the folder


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


def test_a_planted_pickle_is_not_run(index: QdrantIndex, folder: Path, tmp_path: Path) -> None:
    """Local mode unpickles its rows; a folder from elsewhere must not run anything."""
    rebuild(index, [rows([1, 2], [axis(1), axis(2)])], 1)
    index.close()
    [(genuine,)] = closing_rows(folder, "SELECT point FROM points LIMIT 1")
    stolen = tmp_path / "stolen"
    bare = pickle.dumps(Trap(stolen), protocol=4)
    hidden = genuine[:-1] + b"0" + bare[11:]  # after a real point: popped, and the trap in its place
    for planted in (bare, hidden):
        with closing(sqlite3.connect(storage(folder))) as points:
            points.execute("UPDATE points SET point = ? WHERE rowid = 1", (planted,))
            points.commit()
        with pytest.raises(IndexLost, match="no point of this index"):
            index.pin()
        assert not stolen.exists()
    rebuild(index, [rows([3], [axis(3)])], 2)
    assert found(index.pin(), axis(3)) == [3]
    pickle.loads(hidden)  # the trap was a real one
    assert stolen.exists()


def closing_rows(folder: Path, query: str) -> list[tuple[bytes, ...]]:
    with closing(sqlite3.connect(storage(folder))) as points:
        return points.execute(query).fetchall()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    number=st.integers(1, 2**63 - 1),
    document=st.integers(0, 2**63 - 1),
    values=st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=1_100),
)
def test_every_point_of_ours_is_known(number: int, document: int, values: list[float]) -> None:
    from qdrant_client import models

    point = models.PointStruct(id=number, vector={"v": values}, payload={"document": document})
    assert _POINT.fullmatch(pickle.dumps(point))


def test_numbers_of_every_size_come_back(index: QdrantIndex) -> None:
    sizes = sorted({2**power + more for power in (1, 7, 8, 15, 16, 31, 32, 53, 62) for more in (-1, 0, 1)})
    numbers = np.array(sizes, dtype=np.int64)
    vectors = np.random.default_rng(1).normal(size=(len(numbers), 8)).astype(np.float32)
    rebuild(index, [VectorRows(numbers, numbers, vectors)], 2**62)
    index.close()
    reader = index.pin()
    assert (reader.watermark, reader.keys().tolist()) == (2**62, sizes)


def test_collections_of_others_are_refused(index: QdrantIndex, folder: Path) -> None:
    """A collection's name becomes a path."""
    rebuild(index, [rows([1], [axis(1)])], 1)
    index.close()
    meta = json.loads((folder / "meta.json").read_text())
    meta["collections"]["../../elsewhere"] = meta["collections"]["p.1"]
    (folder / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(IndexLost, match="another's"):
        index.pin()
    assert not (folder.parent / "elsewhere").exists()


@pytest.mark.parametrize("name", ["meta.json", "storage.sqlite"])
@pytest.mark.parametrize("content", [b"", b"\x00garbage", b"{}"])
def test_damaged_files_are_lost_and_built_again(index: QdrantIndex, folder: Path, name: str, content: bytes) -> None:
    rebuild(index, [rows([1], [axis(1)])], 1)
    index.close()
    [path] = folder.rglob(name)
    path.write_bytes(content)
    with pytest.raises(IndexLost):
        index.pin()
    assert index.verify()
    rebuild(index, [rows([2], [axis(2)])], 2)
    assert found(index.pin(), axis(2)) == [2]
    assert index.verify() == []


def test_a_failed_rebuild_is_no_ruin(index: QdrantIndex) -> None:
    rebuild(index, [rows([1], [axis(1)])], 1)

    def broken() -> Iterator[VectorRows]:
        yield rows([2], [axis(2)])
        raise OSError("the catalog went away")

    with index.writing(blocking=True), pytest.raises(OSError, match="catalog"):
        index.rebuild(broken(), 2)
    index.close()
    assert found(index.pin(), axis(1)) == [1]


def test_a_second_user_of_the_folder_is_told(index: QdrantIndex, folder: Path, tmp_path: Path) -> None:
    rebuild(index, [rows([1], [axis(1)])], 1)
    other = QdrantIndex(folder, "p", "f", tmp_path)
    with pytest.raises(Busy) as refused:
        other.pin()
    assert "snapshot" in refused.value.hint
    index.close()
    assert other.pin().rows == 1
    other.close()


WRITER = """
import sys
from pathlib import Path
from ragforge.adapters.vectors.qdrant import QdrantIndex
from ragforge.testing.contracts.vectors import NONE, axis, rows, write
index = QdrantIndex(Path(sys.argv[1]), "p", "f", Path(sys.argv[1]).parent)
index.pin()
print("ready", flush=True)
for number in range(2, 100_000):
    write(index, rows([number], [axis(number % 64)]), NONE, number)
"""


def test_killed_while_it_writes(index: QdrantIndex, folder: Path) -> None:
    rebuild(index, [rows([1], [axis(1)])], 1)
    index.close()
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE)
    with writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(0.3)
        writer.send_signal(signal.SIGKILL)
    try:
        reader = index.pin()
    except IndexLost as problem:
        assert "interrupted" in problem.message
        rebuild(index, [rows([1], [axis(1)])], 1)
    else:
        assert reader.keys().tolist() == list(range(1, reader.watermark + 1))
    write(index, rows([500_000], [axis(1)]), NONE, 500_000)
    assert index.verify() == []


# -- servers


def test_nobody_there_is_not_lost(tmp_path: Path) -> None:
    index = QdrantIndex(nobody(), "p", "f", tmp_path)
    with pytest.raises(StoreError) as refused:
        index.pin()
    assert not isinstance(refused.value, IndexLost)
    assert "running" in refused.value.hint
    with pytest.raises(StoreError):
        rebuild(index, [rows([1], [axis(1)])], 1)
    index.close()


def test_a_silent_server_is_not_waited_for(tmp_path: Path) -> None:
    with silence() as url:
        index = QdrantIndex(url, "p", "f", tmp_path, timeout=1)
        started = time.monotonic()
        with pytest.raises(StoreError, match="does not answer"):
            index.pin()
        assert time.monotonic() - started < 10
        index.close()


@pytest.mark.parametrize(
    ("status", "body", "lost"),
    [
        (200, "<html>hello</html>", False),
        (401, "", False),
        (503, "", False),
        (404, '{"status":{"error":"Not found: Collection `p` doesn\'t exist!"}}', True),
        (500, '{"status":{"error":"Service internal error"}}', True),
    ],
)
def test_what_a_server_says(tmp_path: Path, status: int, body: str, lost: bool) -> None:
    with always(status, body) as url:
        index = QdrantIndex(url, "p", "f", tmp_path, timeout=5)
        with pytest.raises(StoreError) as refused:
            index.pin()
        assert isinstance(refused.value, IndexLost) == lost
        index.close()


def test_the_key_goes_along(tmp_path: Path) -> None:
    with always(401) as url, pytest.warns(UserWarning, match="insecure"):
        index = QdrantIndex(url, "p", "f", tmp_path, key="secret-key")
        with pytest.raises(StoreError) as refused:
            index.pin()
        assert last_request()["api-key"] == "secret-key"
        assert "secret-key" not in refused.value.message
        index.close()


def test_an_address_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        QdrantIndex("localhost:6333", "p", "f", tmp_path)
    assert "http://" in refused.value.hint
