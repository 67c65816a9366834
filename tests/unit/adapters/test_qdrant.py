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
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from qdrant_client.grpc.points_pb2 import GetResponse
from qdrant_client.grpc.points_service_pb2_grpc import PointsServicer, add_PointsServicer_to_server

from ragforge.adapters.vectors.qdrant import QdrantIndex
from ragforge.adapters.vectors.qdrant_clients import CLIENTS, Address
from ragforge.adapters.vectors.qdrant_engines import QdrantPlace
from ragforge.adapters.vectors.qdrant_files import POINT
from ragforge.adapters.vectors.rows import lock_of_file
from ragforge.domain.retrieval import Allowed, VectorRows
from ragforge.errors import Busy, IndexLost, StoreError, Unreachable, UserError
from ragforge.testing.contracts.vectors import ALL, NONE, Library, axis, found, keys, rebuild, rows, write
from tests.bad_servers import always, last_request, nobody, silence
from tests.qdrant_rest import RestQdrant, rest_qdrant


@pytest.fixture
def folder(swift_path: Path) -> Path:
    return swift_path / "index"


@pytest.fixture
def index(folder: Path, tmp_path: Path) -> Iterator[QdrantIndex]:
    index = QdrantIndex(QdrantPlace(folder), "p", "f", lock_of_file(tmp_path / "writer.lock"))
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
    assert POINT.fullmatch(pickle.dumps(point))


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
    other = QdrantIndex(QdrantPlace(folder), "p", "f", lock_of_file(tmp_path / "writer.lock"))
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
from ragforge.adapters.vectors.qdrant_engines import QdrantPlace
from ragforge.adapters.vectors.rows import lock_of_file
from ragforge.testing.contracts.vectors import NONE, axis, rows, write
index = QdrantIndex(QdrantPlace(Path(sys.argv[1])), "p", "f", lock_of_file(Path(sys.argv[1]).parent / "writer.lock"))
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


def server_index(url: str, tmp_path: Path, name: str = "p", **place: Any) -> QdrantIndex:
    return QdrantIndex(QdrantPlace(url, **place), name, "f", lock_of_file(tmp_path / "writer.lock"))


@pytest.fixture
def server() -> Iterator[RestQdrant]:
    with rest_qdrant() as server:
        yield server


@pytest.fixture
def remote(server: RestQdrant, tmp_path: Path) -> Iterator[QdrantIndex]:
    index = server_index(server.url, tmp_path)
    yield index
    index.close()


def test_whether_all_machines_have_the_same_index(index: QdrantIndex, remote: QdrantIndex) -> None:
    assert (index.shared, remote.shared) == (False, True)


def test_a_collection_is_made_as_the_place_says(server: RestQdrant, tmp_path: Path) -> None:
    index = server_index(server.url, tmp_path, shards=3, replicas=2, write_consistency=2)
    rebuild(index, [rows([1], [axis(1)])], 1)
    index.close()
    [made] = server.requests("PUT", r"/collections/p\.1$")
    wanted = {"shard_number": 3, "replication_factor": 2, "write_consistency_factor": 2}
    assert {name: made.body[name] for name in wanted} == wanted


KILLED = """
import os, sys
from pathlib import Path
from ragforge.adapters.vectors.qdrant import QdrantIndex
from ragforge.adapters.vectors.qdrant_engines import QdrantPlace
from ragforge.adapters.vectors.rows import lock_of_file
from ragforge.testing.contracts.vectors import axis, rows
index = QdrantIndex(QdrantPlace(sys.argv[1]), "p", "f", lock_of_file(Path(sys.argv[2])))
def some():
    yield rows([1], [axis(1)])
    os._exit(9)
index.rebuild(some(), 1)
"""


@pytest.mark.parametrize("built", [False, True])
def test_what_a_killed_rebuild_left_on_a_server_goes(
    server: RestQdrant, remote: QdrantIndex, tmp_path: Path, built: bool
) -> None:
    other = server_index(server.url, tmp_path, "p-words")
    rebuild(other, [rows([1], [axis(1)])], 1)
    if built:
        rebuild(remote, [rows([1], [axis(1)])], 1)
    command = [sys.executable, "-c", KILLED, server.url, str(tmp_path / "writer.lock")]
    assert subprocess.run(command, check=False).returncode == 9
    assert f"p.{1 + built}" in remote._qdrant.made_for("p")
    remote.drop()
    assert (remote._qdrant.made_for("p"), remote._qdrant.made_for("p-words")) == ([], ["p-words.1"])
    assert other.pin().rows == 1
    other.close()


def test_filters_are_ready_before_the_rows_and_the_graph_is_built_after_them(
    server: RestQdrant, remote: QdrantIndex
) -> None:
    rebuild(remote, [rows([1], [axis(1)])], 1)
    steps: list[tuple[str, str, dict[str, Any]]] = [
        ("PUT", "/collections/p.1", {"hnsw_config": {"m": 0}}),
        ("PUT", "/collections/p.1/index", {"field_name": "document", "field_schema": "integer"}),
        ("PUT", "/collections/p.1/points", {}),
        ("PATCH", "/collections/p.1", {"hnsw_config": {"m": 16, "ef_construct": 128}}),
        ("POST", "/collections/aliases", {}),
    ]
    places = []
    for method, path, body in steps:
        places.append(
            next(
                place
                for place, asked in enumerate(server.asked)
                if (asked.method, asked.path) == (method, path) and body.items() <= asked.body.items()
            )
        )
    assert places == sorted(places)


def test_what_passes_is_tried_again(server: RestQdrant, remote: QdrantIndex) -> None:
    for status, path in ((503, "/points$"), (429, "/aliases$"), (502, r"/collections/p\.1$"), (504, "/index$")):
        server.fail(status, 2, path)
    rebuild(remote, [rows([1], [axis(1)])], 1)
    assert found(remote.pin(), axis(1)) == [1]


def test_a_write_whose_answer_is_lost_is_made_once(server: RestQdrant, remote: QdrantIndex) -> None:
    for path in (r"/collections/p\.1$", "/points$", "/collections/aliases$", "/points/delete$"):
        server.fail(503, 1, path, after=True)
    rebuild(remote, [rows([1, 2], [axis(1), axis(2)])], 1)
    write(remote, rows([3], [axis(3)]), keys(2), 2)
    reader = remote.pin()
    assert (reader.watermark, reader.keys().tolist()) == (2, [1, 3])
    assert remote.verify() == []


def test_a_search_is_tried_once_more_and_no_oftener(server: RestQdrant, remote: QdrantIndex) -> None:
    rebuild(remote, [rows([1], [axis(1)])], 1)
    reader = remote.pin()
    server.fail(503, 1, "/query$")
    assert found(reader, axis(1)) == [1]
    server.fail(503, 99, "/query$")
    server.asked.clear()
    started = time.monotonic()
    with pytest.raises(Unreachable):
        reader.search(axis(1), 1, ALL)
    assert len(server.requests("POST", "/query$")) == 2
    assert time.monotonic() - started < 5


def test_a_server_in_trouble_has_not_lost_the_index(server: RestQdrant, remote: QdrantIndex) -> None:
    """A cluster without enough of its nodes says 500: who would build anew then, would make it worse."""
    rebuild(remote, [rows([1], [axis(1)])], 1)
    server.fail(500, 1, "/points$")
    with pytest.raises(Unreachable):
        remote.pin()
    assert found(remote.pin(), axis(1)) == [1]


def test_one_client_serves_all_indexes_of_a_server(server: RestQdrant, tmp_path: Path) -> None:
    first, second = (server_index(server.url, tmp_path, name) for name in ("first", "second"))
    for number, index in enumerate((first, second), 1):
        rebuild(index, [rows([number], [axis(number)])], 1)
    [shared] = [one for one in CLIENTS._shared.values() if one.address.url == server.url]
    assert shared.users == 2
    first.close()
    assert found(second.pin(), axis(1)) == [2]
    second.close()
    assert shared not in CLIENTS._shared.values()
    assert found(first.pin(), axis(2)) == [1]  # a new one
    first.close()


def test_long_vectors_go_in_smaller_parts(server: RestQdrant, remote: QdrantIndex) -> None:
    vectors = np.random.default_rng(1).normal(size=(400, 3_072)).astype(np.float32)
    numbers = np.arange(1, 401, dtype=np.int64)
    rebuild(remote, [VectorRows(numbers, numbers, vectors)], 1)
    sizes = [len(asked.body["points"]) for asked in server.requests("PUT", "/points$")]
    assert sum(sizes) == 401  # and the state
    assert max(sizes) == 500_000 // 3_072


def test_a_search_that_finds_too_few_looks_at_every_row(server: RestQdrant, remote: QdrantIndex) -> None:
    library = Library()
    rebuild(remote, [library.rows], 1)
    server.asked.clear()
    reader = remote.pin()
    assert library.recall(reader, ALL, queries=3) >= 0.98
    assert not any(asked.body["params"].get("exact") for asked in server.requests("POST", "/query$"))
    few = Allowed(hidden=library.keys[4:])
    assert library.recall(reader, few, queries=1) == 1.0
    assert [asked.body["params"].get("exact") for asked in server.requests("POST", "/query$")][-2:] == [None, True]


def test_nobody_there_is_not_lost(tmp_path: Path) -> None:
    index = server_index(nobody(), tmp_path)
    with pytest.raises(Unreachable) as refused:
        index.pin()
    assert "running" in refused.value.hint
    with pytest.raises(Unreachable):
        rebuild(index, [rows([1], [axis(1)])], 1)
    index.close()


def test_a_silent_server_is_not_waited_for(tmp_path: Path) -> None:
    with silence() as url:
        index = server_index(url, tmp_path, timeout=1)
        started = time.monotonic()
        with pytest.raises(Unreachable, match="does not answer"):
            index.pin()
        assert time.monotonic() - started < 10
        index.close()


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (200, "<html>hello</html>", StoreError),
        (401, "", StoreError),
        (404, "<html>nothing here</html>", StoreError),
        (429, "", Unreachable),
        (503, "", Unreachable),
        (500, '{"status":{"error":"Service internal error"}}', Unreachable),
        (404, '{"status":{"error":"Not found: Collection `p` doesn\'t exist!"}}', IndexLost),
    ],
)
def test_what_a_server_says(tmp_path: Path, status: int, body: str, kind: type[StoreError]) -> None:
    with always(status, body) as url:
        index = server_index(url, tmp_path, timeout=5)
        with pytest.raises(StoreError) as refused:
            index.pin()
        assert isinstance(refused.value, kind)
        assert isinstance(refused.value, IndexLost | Unreachable) == (kind is not StoreError)
        index.close()


def test_the_key_goes_along(tmp_path: Path) -> None:
    with always(401) as url, pytest.warns(UserWarning, match="insecure"):
        index = server_index(url, tmp_path, key="secret-key")
        with pytest.raises(StoreError) as refused:
            index.pin()
        assert last_request()["api-key"] == "secret-key"
        assert "secret-key" not in refused.value.message
        index.close()
    assert "secret-key" not in repr(QdrantPlace("http://localhost", key="secret-key"))


@pytest.mark.parametrize("address", ["localhost:6333", "ftp://localhost", "http://", "http://localhost?grpc_port=x"])
def test_an_address_that_is_none(tmp_path: Path, address: str) -> None:
    with pytest.raises(UserError) as refused:
        server_index(address, tmp_path)
    assert "http://" in refused.value.hint


# -- gRPC


class Answers(PointsServicer):
    """Points of a server that says the same to every question for one."""

    def __init__(self, code: grpc.StatusCode | None, details: str) -> None:
        self.code, self.details = code, details
        self.asked: list[dict[str, Any]] = []

    def Get(self, request: Any, context: Any) -> Any:
        self.asked.append(dict(context.invocation_metadata()))
        if self.code is not None:
            context.abort(self.code, self.details)
        return GetResponse()


@contextmanager
def answering(code: grpc.StatusCode | None, details: str = "") -> Iterator[tuple[int, Answers]]:
    answers = Answers(code, details)
    server = grpc.server(ThreadPoolExecutor(2))
    add_PointsServicer_to_server(answers, server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port, answers
    finally:
        server.stop(None).wait()


@pytest.mark.parametrize(
    ("code", "details", "kind", "tries"),
    [
        (None, "", IndexLost, 1),
        (grpc.StatusCode.NOT_FOUND, "Not found: Collection `p` doesn't exist!", IndexLost, 1),
        (grpc.StatusCode.UNAVAILABLE, "starting", Unreachable, 2),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "slow down", Unreachable, 2),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "", Unreachable, 1),
        (grpc.StatusCode.INTERNAL, "Service internal error", Unreachable, 1),
        (grpc.StatusCode.UNAUTHENTICATED, "who are you?", StoreError, 1),
    ],
)
def test_what_a_server_says_by_grpc(
    tmp_path: Path, code: grpc.StatusCode | None, details: str, kind: type[StoreError], tries: int
) -> None:
    with answering(code, details) as (port, answers):
        index = server_index(f"http://127.0.0.1:1?grpc_port={port}", tmp_path, grpc=True, timeout=5)
        with pytest.raises(StoreError) as refused:
            index.pin()
        index.close()
    assert isinstance(refused.value, kind)
    assert isinstance(refused.value, IndexLost | Unreachable) == (kind is not StoreError)
    assert len(answers.asked) == tries


def test_nobody_there_by_grpc_is_not_lost(tmp_path: Path) -> None:
    port = nobody().rpartition(":")[2]
    index = server_index(f"http://127.0.0.1:1?grpc_port={port}", tmp_path, grpc=True, timeout=2)
    with pytest.raises(Unreachable):
        index.pin()
    index.close()


@pytest.mark.parametrize(
    ("url", "plain", "port"),
    [
        ("http://host:6333", "http://host:6333", 6334),
        ("https://host/part/", "https://host/part", 6334),
        ("http://host:6333/?grpc_port=7000", "http://host:6333", 7000),
    ],
)
def test_the_port_of_grpc_is_in_the_address(url: str, plain: str, port: int) -> None:
    address = Address.of(url, "", grpc=True, timeout=1)
    assert (address.url, address.grpc_port) == (plain, port)
