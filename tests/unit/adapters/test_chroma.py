"""Chroma beyond the contract: its child process, its folder, and servers that misbehave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
import pytest

from ragforge.adapters.vectors.chroma import ChromaEmbedded, ChromaServer
from ragforge.adapters.vectors.chroma_http import ChromaHttp
from ragforge.adapters.vectors.chroma_process import ChromaProcess
from ragforge.adapters.vectors.chroma_rows import Rows, State
from ragforge.adapters.vectors.rows import lock_of_file
from ragforge.domain.retrieval import Allowed
from ragforge.errors import Busy, IndexLost, StoreError, Unreachable, UserError
from ragforge.testing.chroma import TemporaryChroma
from ragforge.testing.contracts.vectors import ALL, NO_ROWS, NONE, Library, axis, found, keys, rebuild, rows, write
from tests.bad_servers import always, interrupted, last_request, nobody, silence


@pytest.fixture(scope="module")
def process() -> Iterator[ChromaProcess]:
    process = ChromaProcess()
    yield process
    process.close()


@pytest.fixture(scope="module")
def server() -> Iterator[TemporaryChroma]:
    with TemporaryChroma() as server:
        yield server


@pytest.fixture
def index(swift_path: Path, process: ChromaProcess) -> Iterator[ChromaEmbedded]:
    index = ChromaEmbedded(swift_path / "index", "f", process)
    yield index
    index.close()


def gone(pid: int, seconds: float = 20) -> bool:
    """Whether the process has ended by then."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def child_of(index: ChromaEmbedded) -> int:
    pid = index._process.pid
    assert pid is not None
    return pid


# -- the child


def test_two_indexes_share_one_child(swift_path: Path, process: ChromaProcess) -> None:
    first, second = (ChromaEmbedded(swift_path / name, "f", process) for name in ("first", "second"))
    rebuild(first, [rows([1], [axis(1)])], 1)
    pid = process.pid
    rebuild(second, [rows([2], [axis(2)])], 2)
    assert process.pid == pid
    first.close()
    assert found(second.pin(), axis(1)) == [2]
    assert found(first.pin(), axis(2)) == [1]
    first.close()
    second.close()


def test_a_second_user_of_the_folder_is_told(swift_path: Path, index: ChromaEmbedded) -> None:
    rebuild(index, [rows([1], [axis(1)])], 1)
    other = ChromaEmbedded(swift_path / "index", "f")
    with pytest.raises(Busy) as refused:
        other.pin()
    assert "snapshot" in refused.value.hint
    index.close()
    assert other.pin().rows == 1
    other.close()


def test_a_child_that_hangs_is_ended(swift_path: Path) -> None:
    index = ChromaEmbedded(swift_path / "index", "f")
    rebuild(index, [rows([1], [axis(1)])], 1)
    pid = child_of(index)
    os.kill(pid, signal.SIGSTOP)
    patience, index._process._timeout = index._process._timeout, 0.5
    with pytest.raises(IndexLost, match=r"within 0\.5 s"):
        index.pin()
    assert gone(pid)
    index._process._timeout = patience
    assert found(index.pin(), axis(1)) == [1]  # it had not begun to work on the index
    index.close()


def test_an_interrupted_question_harms_nothing(swift_path: Path) -> None:
    index = ChromaEmbedded(swift_path / "index", "f")
    rebuild(index, [rows([1], [axis(1)])], 1)
    reader = index.pin()
    pid = child_of(index)
    os.kill(pid, signal.SIGSTOP)  # so that the question is surely under way
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            reader.search(axis(1), 1, ALL)
    finally:
        signal.signal(signal.SIGALRM, before)
    waking = Timer(0.5, os.kill, (pid, signal.SIGCONT))
    waking.start()
    assert found(reader, axis(1)) == [1]  # by a new child, which waited for the old one
    assert index._process.pid != pid
    index.close()
    assert gone(pid, 1)


PARENT = """
import sys, time
from pathlib import Path
from ragforge.adapters.vectors.chroma import ChromaEmbedded
from ragforge.testing.contracts.vectors import axis, rebuild, rows
index = ChromaEmbedded(Path(sys.argv[1]), "f")
rebuild(index, [rows([1], [axis(1)])], 1)
print(index._process.pid, flush=True)
time.sleep(60)
"""


def test_the_child_ends_with_its_parent(swift_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(swift_path / "index")], stdout=subprocess.PIPE)
    with parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    assert gone(child)
    index = ChromaEmbedded(swift_path / "index", "f")
    assert found(index.pin(), axis(1)) == [1]
    index.close()


if sys.platform == "linux":

    def test_the_child_is_poor_and_alone(index: ChromaEmbedded, process: ChromaProcess) -> None:
        """No network, no surroundings of ours, no file without end."""
        rebuild(index, [Library(300, 30).rows], 1)
        own = Path(f"/proc/{process.pid}")
        links = [os.readlink(link) for link in (own / "fd").iterdir()]
        sockets = {link.removeprefix("socket:[").rstrip("]") for link in links if link.startswith("socket:")}
        tables = [own / "net" / name for name in ("tcp", "tcp6", "udp", "udp6")]
        internet = {line.split()[9] for table in tables for line in table.read_text().splitlines()[1:]}
        assert sockets & internet == set()
        names = {entry.partition("=")[0] for entry in (own / "environ").read_text().split("\0") if entry}
        assert names <= {"HOME", "ANONYMIZED_TELEMETRY", "TEMP", "TMP", "TMPDIR", "LC_CTYPE"}
        [limit] = [line for line in (own / "limits").read_text().splitlines() if line.startswith("Max file size")]
        assert limit.split()[3] == str(512 << 20)


# -- the folder


def test_files_keep_removed_vectors_until_erased(swift_path: Path, index: ChromaEmbedded) -> None:
    """What makes `erase` necessary: if this fails, Chroma has learned to forget."""
    canary = (np.random.default_rng(3).choice([-1, 1], 64) / 8).astype(np.float32)
    rebuild(index, [Library(300, 30).rows], 1)
    write(index, rows([900_001], [canary]), NONE, 2)
    write(index, NO_ROWS, keys(900_001), 3)
    index.close()
    files = [path for path in swift_path.rglob("*") if path.is_file()]
    assert any(canary.tobytes() in path.read_bytes() for path in files)


def test_a_rebuild_sweeps_up_after_an_interrupted_one(swift_path: Path, index: ChromaEmbedded) -> None:
    rebuild(index, [rows([1], [axis(1)])], 1)
    leftover = swift_path / "index" / "data-7"
    leftover.mkdir()
    (leftover / "chroma.sqlite3").write_bytes(b"half of it")
    leftover.with_name("data-7.busy").touch()
    rebuild(index, [rows([2], [axis(2)])], 2)
    assert [path.name for path in (swift_path / "index").glob("data-*")] == ["data-2"]
    assert found(index.pin(), axis(2)) == [2]


def test_an_interrupted_call_makes_the_folder_suspect(swift_path: Path, index: ChromaEmbedded) -> None:
    rebuild(index, [rows([1], [axis(1)])], 1)
    index.close()
    (swift_path / "index" / "data-1.busy").touch()
    with pytest.raises(IndexLost, match="interrupted"):
        index.pin()
    rebuild(index, [rows([1], [axis(1)])], 1)
    assert found(index.pin(), axis(1)) == [1]


@pytest.mark.parametrize("pointer", ['{"data": "../elsewhere"}', '{"data": 3}', "[]", "", "\x00", '{"data": "data-9"}'])
def test_a_broken_pointer_is_no_index(swift_path: Path, index: ChromaEmbedded, pointer: str) -> None:
    folder = swift_path / "index"
    folder.mkdir()
    (folder / "current.json").write_text(pointer)
    with pytest.raises(IndexLost):
        index.pin()
    rebuild(index, [rows([1], [axis(1)])], 1)
    assert found(index.pin(), axis(1)) == [1]


# -- searching


def test_a_filter_longer_than_chroma_takes(swift_path: Path, index: ChromaEmbedded) -> None:
    library = Library()
    rebuild(index, [library.rows], 1)
    reader = index.pin()
    absent = np.arange(1_000, 41_000, dtype=np.int64)
    for allowed in (
        Allowed(np.concatenate([keys(3, 4), absent])),
        Allowed(np.concatenate([keys(3, 4), absent]), deny=True, hidden=library.keys[:50]),
        Allowed(absent),
    ):
        assert library.recall(reader, allowed, queries=5) >= 0.98


def test_rows_the_graph_lost_sight_of_are_found(server: TemporaryChroma) -> None:
    """Chroma's graph may return fewer rows than it holds; here it is made to."""
    library = Library(200, 20)
    http = ChromaHttp(server.url, 10)
    state = State("f", watermark=1, dimension=0, rows=0, dead=False)
    metadata = {"fingerprint": "f", "watermark": 1, "dimension": 0, "rows": 0, "dead": state.dead}
    collection: Any = http.create_collection("short-sighted", metadata, {"hnsw": {"space": "cosine"}})
    Rows(collection).put(library.rows)
    whole = collection.query

    def short_sighted(**request: Any) -> Any:
        answer = whole(**request)
        return {name: [found[0][:3]] if isinstance(found, list) else found for name, found in answer.items()}

    collection.query = short_sighted
    for allowed in (ALL, Allowed(keys(3, 4)), Allowed(keys(3, 4), deny=True, hidden=library.keys[:20])):
        for query in library.queries[:3]:
            exact = library.nearest(query, 10, allowed)
            assert Rows(collection).search(query, 10, allowed).keys.tolist() == exact.tolist()
    http.close()


# -- servers


def test_a_collection_that_is_not_ours_is_no_index(server: TemporaryChroma, tmp_path: Path) -> None:
    http = ChromaHttp(server.url, 10)
    http.create_collection("foreign", {"current": "foreign.1"})
    http.create_collection("foreign.1", {"made": "by someone else"})
    index = ChromaServer(server.url, "foreign", "f", lock_of_file(tmp_path / "writer.lock"))
    with pytest.raises(IndexLost):
        index.pin()
    rebuild(index, [rows([1], [axis(1)])], 1)
    assert found(index.pin(), axis(1)) == [1]
    index.close()
    http.close()


def test_a_server_keeps_no_leftovers(server: TemporaryChroma, tmp_path: Path) -> None:
    index = ChromaServer(server.url, "tidy", "f", lock_of_file(tmp_path / "writer.lock"))
    for number in range(1, 4):
        rebuild(index, [rows([number], [axis(number)])], number)
    http = ChromaHttp(server.url, 10)
    names = {str(record["name"]) for record in http.send("GET", "/collections")}
    assert {name for name in names if name.startswith("tidy")} == {"tidy", "tidy.3"}
    index.drop()
    names = {str(record["name"]) for record in http.send("GET", "/collections")}
    assert {name for name in names if name.startswith("tidy")} == set()
    index.close()
    http.close()


KILLED = """
import os, sys
from pathlib import Path
from ragforge.adapters.vectors.chroma import ChromaServer
from ragforge.adapters.vectors.rows import lock_of_file
from ragforge.testing.contracts.vectors import axis, rows
index = ChromaServer(sys.argv[1], sys.argv[2], "f", lock_of_file(Path(sys.argv[3])))
def some():
    yield rows([1], [axis(1)])
    os._exit(9)
index.rebuild(some(), 1)
"""


@pytest.mark.parametrize("built", [False, True])
def test_what_a_killed_rebuild_left_on_a_server_goes(server: TemporaryChroma, tmp_path: Path, built: bool) -> None:
    name = f"killed-{built}"
    index = ChromaServer(server.url, name, "f", lock_of_file(tmp_path / "writer.lock"))
    other = ChromaServer(server.url, f"{name}-too", "f", lock_of_file(tmp_path / "other.lock"))
    rebuild(other, [rows([1], [axis(1)])], 1)
    http = ChromaHttp(server.url, 10)
    if built:
        rebuild(index, [rows([1], [axis(1)])], 1)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, server.url, name, str(tmp_path / "writer.lock")], check=False
    )
    assert killed.returncode == 9 and f"{name}.{1 + built}" in http.collections()
    index.drop()
    assert {each for each in http.collections() if each.startswith(name)} == {f"{name}-too.1", f"{name}-too"}
    for each in (index, other):
        each.close()
    http.close()


def test_every_collection_of_a_server_is_listed(server: TemporaryChroma, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragforge.adapters.vectors.chroma_http._PAGE", 2)
    http = ChromaHttp(server.url, 10)
    wanted = {f"listed.{number}" for number in range(5)}
    for name in sorted(wanted):
        http.create_collection(name, {"made": "for a list"})
    assert wanted <= set(http.collections())
    for name in wanted:
        http.delete_collection(name)
    http.close()


def test_another_process_swaps_the_collection(server: TemporaryChroma, tmp_path: Path) -> None:
    ours, theirs = (ChromaServer(server.url, "shared", "f", lock_of_file(tmp_path / "writer.lock")) for _ in range(2))
    rebuild(ours, [rows([1], [axis(1)])], 1)
    reader = ours.pin()
    rebuild(theirs, [rows([2], [axis(2)])], 2)
    assert found(reader, axis(2)) == [2]
    assert ours.pin().watermark == 2
    write(ours, rows([3], [axis(3)]), NONE, 3)
    assert theirs.pin().keys().tolist() == [2, 3]
    ours.close()
    theirs.close()


def test_whether_all_machines_have_the_same_index(index: ChromaEmbedded, tmp_path: Path) -> None:
    remote = ChromaServer(nobody(), "p", "f", lock_of_file(tmp_path / "writer.lock"))
    assert (index.shared, remote.shared) == (False, True)


def test_nobody_there_is_not_lost(tmp_path: Path) -> None:
    index = ChromaServer(nobody(), "p", "f", lock_of_file(tmp_path / "writer.lock"))
    with pytest.raises(Unreachable) as refused:
        index.pin()
    assert "running" in refused.value.hint
    with pytest.raises(Unreachable):
        rebuild(index, [rows([1], [axis(1)])], 1)
    index.close()


def test_a_server_that_comes_back_in_a_moment_is_waited_for(tmp_path: Path) -> None:
    with TemporaryChroma() as real, interrupted(real.url, times=2) as url:
        index = ChromaServer(url, "p", "f", lock_of_file(tmp_path / "writer.lock"))
        with pytest.raises(IndexLost):  # it answered at last: there is no index yet
            index.pin()
        index.close()


def test_a_silent_server_is_not_waited_for(tmp_path: Path) -> None:
    with silence() as url:
        index = ChromaServer(url, "p", "f", lock_of_file(tmp_path / "writer.lock"), timeout=0.3)
        started = time.monotonic()
        with pytest.raises(Unreachable, match="does not answer"):
            index.pin()
        assert time.monotonic() - started < 10
        index.close()


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (404, "<html>nothing here</html>", StoreError),
        (200, "<html>hello</html>", StoreError),
        (401, '{"error":"AuthError"}', StoreError),
        (302, "", StoreError),
        (429, "", Unreachable),
        (503, "", Unreachable),
        (404, '{"error":"NotFoundError","message":"no"}', IndexLost),
        (500, '{"error":"InternalError","message":"Error finding id"}', IndexLost),
    ],
)
def test_what_a_server_says(tmp_path: Path, status: int, body: str, kind: type[StoreError]) -> None:
    with always(status, body) as url:
        index = ChromaServer(url, "p", "f", lock_of_file(tmp_path / "writer.lock"), timeout=5)
        with pytest.raises(StoreError) as refused:
            index.pin()
        assert isinstance(refused.value, kind)
        assert isinstance(refused.value, IndexLost | Unreachable) == (kind is not StoreError)
        index.close()


def test_the_key_goes_along(tmp_path: Path) -> None:
    with always(401) as url:
        index = ChromaServer(url, "p", "f", lock_of_file(tmp_path / "writer.lock"), key="secret-key")
        with pytest.raises(StoreError) as refused:
            index.pin()
        assert last_request()["X-Chroma-Token"] == "secret-key"
        assert "secret-key" not in refused.value.message
        index.close()


def test_an_address_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        ChromaServer("localhost:8000", "p", "f", lock_of_file(tmp_path / "writer.lock"))
    assert "http://" in refused.value.hint
