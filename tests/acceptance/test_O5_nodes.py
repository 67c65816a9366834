"""Several machines on one Postgres: each has a workspace folder and indexes of its own, and follows what others do."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragforge import Ragforge
from ragforge.domain.library import JobState
from ragforge.errors import IndexLost
from ragforge.flows.follow import Indexes
from ragforge.operate.access import owner
from ragforge.operate.nodes import identity
from ragforge.ports import Index
from ragforge.settings import load
from ragforge.testing.postgres import TemporaryPostgres
from tests.forge import faults, fill, open_forge, places_of, prose
from tests.process import Serving, serve
from tests.proof import count, record
from tests.serving import serving

SECONDS = 60.0


def until(true: Callable[[], Any], seconds: float = SECONDS) -> float:
    """Wait; how long it took."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < seconds, "it did not come true"
        time.sleep(0.01)
    return time.monotonic() - began


@pytest.fixture
def database(postgres: TemporaryPostgres) -> Iterator[str]:
    url = postgres.create()
    yield url
    postgres.drop(url)


class Machines:
    """Servers, each with a folder of its own, on one database."""

    def __init__(self, folder: Path, database: str, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self.variables = {"RAGFORGE_STORE__DATABASE_URL": database, "RAGFORGE_STORE__BLOBS": str(folder / "blobs")}

    def workspace(self, name: str) -> Path:
        return self._folder / name

    def serve(self, name: str, *options: str, **variables: str) -> Serving:
        return self._stack.enter_context(
            serve(self.workspace(name), *options, variables={**self.variables, **variables})
        )

    @contextmanager
    def indexes(self, name: str) -> Iterator[Indexes]:
        """Those in its folder, opened beside the server."""
        flags = {"the test": {"store.database_url": self.variables["RAGFORGE_STORE__DATABASE_URL"]}}
        with Ragforge.open(load(self.workspace(name), flags=flags)) as forge:
            with forge._parts.catalog.read() as c:
                now = c.passages.moment(owner(), forge.project("shop").id)
            yield forge._parts.indexes(now)

    def holds(self, name: str, word: str) -> bool:
        """Whether the keyword index in its folder knows the word."""
        with self.indexes(name) as indexes:
            try:
                reader = indexes.keywords.pin()
            except IndexLost:  # it was not built yet
                return False
            try:
                return bool(reader.holding([word])[word])
            finally:
                reader.release()

    def empty(self, name: str) -> None:
        """Its indexes hold nothing, and believe that this is all there is."""
        with self.indexes(name) as indexes:
            hollow(indexes.keywords)
            hollow(indexes.vectors)

    def ready(self, name: str, **variables: str) -> tuple[Serving, httpx.Client]:
        serving = self.serve(name, **variables)
        client = self._stack.enter_context(httpx.Client(base_url=serving.address, timeout=30))
        until(lambda: client.get("/readyz").status_code == 200)
        return serving, client


def hollow(index: Index[Any]) -> None:
    with index.writing(blocking=True):
        reader = index.pin()
        reader.release()
        index.rebuild([], reader.watermark)


@pytest.fixture
def machines(tmp_path: Path, database: str) -> Iterator[Machines]:
    (tmp_path / "blobs").mkdir()
    with ExitStack() as stack:
        for name in ("a", "b"):
            Ragforge.open(load(tmp_path / name), create=True).close()
        yield Machines(tmp_path, database, stack)


def upload(client: httpx.Client, name: str, text: str) -> None:
    answer = client.post("/v1/projects/shop/files", params={"wait": 30}, files={"file": (name, text.encode())})
    assert answer.status_code == 200, answer.text


def found(client: httpx.Client, question: str) -> list[str]:
    answer = client.post("/v1/projects/shop/search", json={"question": question})
    assert answer.status_code == 200, answer.text
    assert answer.json()["degraded"] == []
    return [passage["document"] for passage in answer.json()["passages"]]


def page(number: int) -> tuple[str, str]:
    return f"page{number}.md", prose(number)


def is_found(client: httpx.Client, number: int) -> bool:
    return f"page{number}.md" in found(client, prose(number, 3))


def is_current(client: httpx.Client, workspace: Path) -> bool:
    """Whether the indexes in this folder hold all there is."""
    nodes = {node["id"]: node for node in client.get("/v1/nodes").json()["items"]}
    return bool(nodes[identity(workspace)]["behind"] == 0)


@pytest.mark.alone
def test_O5_what_one_node_acknowledged_is_found_on_the_other_and_a_stopped_one_catches_up(machines: Machines) -> None:
    _, a = machines.ready("a")
    second, b = machines.ready("b")
    assert a.post("/v1/projects", json={"name": "shop"}).status_code in (200, 201)
    found(b, "before there is anything")  # its model is loaded after this
    waited: list[float] = []
    for number in range(5):
        upload(a, *page(number))
        waited.append(until(partial(is_found, b, number), 10.0))
    record("two_nodes", files=len(waited), slowest_seconds=round(max(waited), 3))
    assert max(waited) < count(5, 1), "beside other tests it takes longer"

    second.stop(signal.SIGKILL)
    for number in range(5, 10):
        upload(a, *page(number))
    assert a.delete("/v1/projects/shop/files/page0.md").status_code in (200, 204)
    _, b = machines.ready("b")
    assert is_found(b, 7) and not is_found(b, 0)
    assert sorted(a.get("/v1/projects/shop/files").json()["items"], key=lambda f: f["name"]) == sorted(
        b.get("/v1/projects/shop/files").json()["items"], key=lambda f: f["name"]
    )


def test_O5_a_node_that_starts_says_when_its_indexes_are_there(
    machines: Machines, database: str, tmp_path: Path
) -> None:
    fill(tmp_path / "docs", 40)
    with open_forge(tmp_path / "a", store__database_url=database) as forge:
        forge.add(tmp_path / "docs", project="p")
    serving = machines.serve("b", RAGFORGE_INDEX__VECTORS="snapshot")
    with httpx.Client(base_url=serving.address, timeout=30) as client:
        until(lambda: client.get("/readyz").status_code == 200)
        assert client.get("/readyz").json()["parts"]["own indexes"] == {"ok": True, "why": "", "warning": False}
    assert list((tmp_path / "b" / "indexes").glob("*/1/*")), "it has built them for itself"


def test_O5_what_is_removed_on_one_node_leaves_the_files_of_the_other(machines: Machines, tmp_path: Path) -> None:
    _, a = machines.ready("a")
    _, b = machines.ready("b")
    a.post("/v1/projects", json={"name": "shop"})
    upload(a, "secret.md", "# Secret\n\nThe quokkazebu lives in the cellar.\n")
    upload(a, "other.md", "# Other\n\nNothing to see here but chairs.\n")
    until(lambda: machines.holds("b", "quokkazebu"))
    until(lambda: is_current(b, machines.workspace("b")))
    assert "secret.md" in found(b, "quokkazebu cellar")
    assert a.delete("/v1/projects/shop/files/secret.md").status_code in (200, 204)
    assert "secret.md" not in found(b, "quokkazebu cellar")
    until(lambda: not machines.holds("b", "quokkazebu"))
    until(lambda: not places_of(b"quokkazebu", machines.workspace("b")))


def test_O5_a_rebuild_that_is_asked_of_one_node_reaches_the_indexes_of_the_other(machines: Machines) -> None:
    _, a = machines.ready("a")
    second, b = machines.ready("b", RAGFORGE_SERVER__UPLOADS="0")  # so it is the other that does what is asked
    a.post("/v1/projects", json={"name": "shop"})
    upload(a, "cellar.md", "# Cellar\n\nThe quokkazebu lives in the cellar.\n")
    until(lambda: machines.holds("b", "quokkazebu"))
    until(lambda: is_current(b, machines.workspace("b")))
    machines.empty("b")
    assert found(b, "quokkazebu cellar") == [], "its own indexes are what it finds by"
    assert a.post("/v1/projects/shop/rebuild", params={"wait": 30}).status_code == 200
    until(lambda: machines.holds("b", "quokkazebu"))
    until(lambda: is_current(b, machines.workspace("b")))
    assert found(b, "quokkazebu cellar") == ["cellar.md"]

    second.stop(signal.SIGKILL)
    machines.empty("b")
    assert a.post("/v1/projects/shop/rebuild", params={"wait": 30}).status_code == 200
    assert not is_current(a, machines.workspace("b"))
    _, b = machines.ready("b")
    assert machines.holds("b", "quokkazebu") and found(b, "quokkazebu cellar") == ["cellar.md"]
    assert is_current(a, machines.workspace("b"))


def test_O5_a_node_answers_with_what_it_has_until_it_has_built_anew(tmp_path: Path, database: str) -> None:
    fill(tmp_path / "docs", 5)
    settings = {"store__database_url": database}
    with open_forge(tmp_path / "a", **settings) as a, open_forge(tmp_path / "b", **settings) as b:
        a.add(tmp_path / "docs", project="p")
        b.search("Page 3", project="p")
        built = made_at(b)
        list(a.rebuilding(project="p"))
        answer = b.search("Page 3", project="p", fresh=True)
        assert answer.passages[0].name == "file0003.md" and answer.degraded == () and made_at(b) == built
        b._flows.follow.follow_others(b.project("p").id)
        assert not made_at(b) & built
        built = made_at(b)
        assert not b._flows.follow.follow_others(b.project("p").id)[0] and made_at(b) == built, "once is enough"
        assert [each for each in faults(b) if each.subject.endswith("index")] == []


def test_O5_a_node_that_builds_anew_serves_and_says_so(tmp_path: Path, database: str) -> None:
    fill(tmp_path / "docs", 5)
    settings = {"store__database_url": database}
    with open_forge(tmp_path / "a", **settings) as a, open_forge(tmp_path / "b", **settings) as b:
        a.add(tmp_path / "docs", project="p")
        with serving(b) as url, httpx.Client(base_url=url, timeout=30) as client:

            def own() -> tuple[bool, str]:
                part = client.get("/readyz").json()["parts"]["own indexes"]
                return part["ok"], part["why"]

            def behind() -> int:
                return next(int(each["behind"]) for each in client.get("/v1/nodes").json()["items"])

            until(lambda: own() == (True, ""))
            built = made_at(b)
            with open_forge(tmp_path / "b", **settings) as other:
                with other._parts.catalog.read() as c:
                    now = c.passages.moment(owner(), other.project("p").id)
                with other._parts.indexes(now).keywords.writing(blocking=True):  # so that it takes a while
                    list(a.rebuilding(project="p"))
                    until(lambda: own() == (True, "catching up: 0 of 1 projects are as the catalog"))
                    assert client.get("/readyz").status_code == 200 and behind() > 0
                    answer = client.post("/v1/projects/p/search", json={"question": "Page 3"}).json()
                    assert answer["passages"][0]["document"] == "file0003.md" and answer["degraded"] == []
            until(lambda: own() == (True, "") and behind() == 0)
            assert not made_at(b) & built


def test_O5_a_worker_lets_the_servers_build_theirs_and_has_none(tmp_path: Path, database: str) -> None:
    fill(tmp_path / "docs", 5)
    settings = {"store__database_url": database}
    with open_forge(tmp_path / "a", **settings) as worker, open_forge(tmp_path / "b", **settings) as server:
        server.add(tmp_path / "docs", project="p")
        built = made_at(server)
        worker.neighbour(serves=False)
        stages = [event.stage for event in worker.rebuilding(project="p")]
        assert stages == ["servers rebuild their keyword index", "servers rebuild their vector index"]
        assert not made_at(worker)
        server._flows.follow.follow_others(server.project("p").id)
        assert not made_at(server) & built
        with server._parts.catalog.read() as c:
            now = c.passages.moment(owner(), server.project("p").id)
            assert c.changes.followed(owner(), now.project, f"tantivy@{identity(tmp_path / 'a')}", 1) == -1


def made_at(forge: Ragforge) -> set[str]:
    """The segments of its indexes: each has a name that no other has."""
    return {path.name for path in forge.workspace.glob("indexes/*/*/*/*") if path.is_dir()}


def test_O5_a_file_that_only_its_machine_reaches_is_not_lost_to_another(tmp_path: Path, database: str) -> None:
    """Nobody said where files are shared: a worker elsewhere leaves them to the machine that received them."""
    fill(tmp_path / "docs", 1)
    settings = {"store__database_url": database}
    with open_forge(tmp_path / "a", **settings) as a, open_forge(tmp_path / "b", **settings) as b:
        job = a.upload(tmp_path / "docs" / "file0000.md", project="p")
        elsewhere = b.worker(1)
        elsewhere.start()
        until(lambda: f"machine {job.payload['machine']} received them" in b.job(job.id).error)
        elsewhere.stop()
        assert b.job(job.id).state is JobState.QUEUED and b.job(job.id).attempts == 0
        worker = a.worker(1)
        worker.start()
        until(lambda: a.job(job.id).ended)
        worker.stop()
        assert a.job(job.id).state is JobState.DONE
        assert b.search("Page 0", project="p").passages[0].name == "file0000.md"
