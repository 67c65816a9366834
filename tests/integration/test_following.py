"""How a machine follows what others do on one Postgres, whoever comes first: its indexes, its files, its log."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragforge import Ragforge
from ragforge.domain.cancel import Cancel
from ragforge.domain.library import Progress
from ragforge.domain.retrieval import Moment
from ragforge.flows import follow
from ragforge.operate.access import owner
from ragforge.ports import EmbedderCard
from ragforge.testing.hashing import HashingEmbedder
from ragforge.testing.postgres import TemporaryPostgres
from tests.forge import SMALL, faults, fill, open_forge, places_of
from tests.indexed import execute

FINER = replace(SMALL, leaf_min=10, leaf_max=30, parent_min=40, parent_max=80)
SERVER = {"index__keywords": "postgres", "index__vectors": "pgvector"}
SECRET = "# Secret\n\nThe quokkazebu lives in the cellar.\n"


class SecondModel(HashingEmbedder):
    """Another model; `before` may do something at each call."""

    def __init__(self, before: Callable[[], None]) -> None:
        super().__init__(32)
        self.before = before

    @property
    def card(self) -> EmbedderCard:
        return EmbedderCard("hashing", "second/1", 32)

    def embed(self, *given: Any) -> Any:
        self.before()
        return super().embed(*given)


@pytest.fixture
def open_on(swift_path: Path, postgres: TemporaryPostgres) -> Iterator[Callable[..., Ragforge]]:
    """Opens the workspace of a machine; all are on one catalog."""
    url = postgres.create()
    postgres.add_vectors(url)
    opened: list[Ragforge] = []

    def open_one(name: str, *embedder: Any, **settings: object) -> Ragforge:
        opened.append(open_forge(swift_path / name, *embedder, store__database_url=url, **settings))
        return opened[-1]

    yield open_one
    for forge in opened:
        forge.close()
    postgres.drop(url)


def until(true: Callable[[], Any], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.02)


@contextmanager
def neighbour_of(forge: Ragforge) -> Iterator[None]:
    neighbour = forge.neighbour(serves=True)
    assert neighbour is not None
    neighbour.start()
    try:
        until(lambda: neighbour.standing.ready)
        yield
    finally:
        neighbour.stop()


def only(forge: Ragforge) -> str:
    """The id of the project that all tests have."""
    return forge.project("p").id


def moment(forge: Ragforge, generation: int | None = None) -> Moment:
    with forge._parts.catalog.read() as c:
        return c.passages.moment(owner(), only(forge), generation)


def segments(forge: Ragforge) -> set[str]:
    """Each has a name that no other has."""
    return {path.name for path in forge.workspace.glob("indexes/*/*/*/*") if path.is_dir()}


def epochs(forge: Ragforge) -> list[Path]:
    """Those of its keyword index that somebody reads, and the newest."""
    return list(forge.workspace.glob("indexes/*/*/keywords/epoch-*"))


def tables(forge: Ragforge) -> list[str]:
    """The current tables of indexes on the server: made anew, they have another name."""
    found = execute(forge._parts.index_server, "SELECT relation FROM ragforge_index.state ORDER BY relation")
    return [str(name) for (name,) in found]


def knows(forge: Ragforge, word: str) -> bool:
    """Whether the files of its keyword index hold the word."""
    reader = forge._parts.indexes(moment(forge)).keywords.pin()
    try:
        return bool(reader.holding([word])[word])
    finally:
        reader.release()


def summarised(forge: Ragforge) -> list[str]:
    state = json.loads((forge.workspace / "projects" / "p" / "project_state.json").read_text())
    return [each["filename"] for each in state["file_summaries"]]


def test_what_comes_while_an_index_is_built_for_the_first_time_is_followed_and_not_a_reason_to_build_again(
    open_on: Callable[..., Ragforge], swift_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs, came = fill(swift_path / "docs", 5), list[str]()
    a, b = open_on("a"), open_on("b")
    a.add(docs[:3], project="p")
    read = follow.keyword_rows

    def meanwhile(*given: Any) -> Any:
        if not came:
            came.append("once")
            for path in docs[3:]:
                a.add(path, project="p")  # and prunes what all have passed that are known to follow
        return read(*given)

    monkeypatch.setattr(follow, "keyword_rows", meanwhile)
    b._flows.follow.catch_up(only(b))
    built = segments(b)
    reader = b._parts.indexes(now := moment(b)).keywords.pin()
    reader.release()
    assert came and reader.watermark >= now.forgotten
    b._follow_others(only(b))
    assert built and built <= segments(b)
    assert b.search("Page 4", project="p").passages[0].name == "file0004.md"
    assert [each for each in faults(b) if each.subject.endswith("index")] == []


def test_an_index_that_is_being_built_counts_as_never_built(
    open_on: Callable[..., Ragforge], swift_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that died meanwhile lost nothing: there is nothing to tell of."""
    a, b = open_on("a"), open_on("b")
    a.add(fill(swift_path / "docs", 3), project="p")
    seen: list[bool] = []
    read = follow.keyword_rows

    def watching(*given: Any) -> Any:
        seen.append(b._flows.follow.is_unbuilt(moment(b)))
        return read(*given)

    monkeypatch.setattr(follow, "keyword_rows", watching)
    b._flows.follow.catch_up(only(b))
    assert seen and all(seen) and not b._flows.follow.is_unbuilt(moment(b)) and b._flows.follow.news(only(b)) == []


@pytest.mark.parametrize("first", ["catch_up", "search", "nobody"])
def test_what_was_removed_elsewhere_leaves_the_files_whoever_heard_of_it_first(
    open_on: Callable[..., Ragforge], swift_path: Path, first: str
) -> None:
    docs = fill(swift_path / "docs", 3)
    docs[0].write_text(SECRET)
    a, b = open_on("a"), open_on("b")
    a.add(docs, project="p")
    b._follow_others(only(b))
    assert knows(b, "quokkazebu") and summarised(b) == ["file0000.md", "file0001.md", "file0002.md"]
    assert next(iter(a.removing([docs[0].name], project="p"))).erased
    if first == "catch_up":  # as after an upload here
        b._upkeep([only(b)], Cancel())
    elif first == "search":
        b.search("Page 2", project="p")
    b._follow_others(only(b))
    assert not knows(b, "quokkazebu") and not places_of(b"quokkazebu", b.workspace)
    assert summarised(b) == ["file0001.md", "file0002.md"]


def test_what_was_removed_while_a_machine_was_off_leaves_its_files_when_it_is_back(
    open_on: Callable[..., Ragforge], swift_path: Path
) -> None:
    docs = fill(swift_path / "docs", 3)
    docs[0].write_text(SECRET)
    a, b = open_on("a"), open_on("b")
    a.add(docs, project="p")
    b._follow_others(only(b))
    b.close()
    assert next(iter(a.removing([docs[0].name], project="p"))).erased
    again = open_on("b")
    again.search("Page 2", project="p")
    again._follow_others(only(again))
    assert not knows(again, "quokkazebu") and summarised(again) == ["file0001.md", "file0002.md"]


def test_a_machine_whose_files_are_still_read_clears_them_a_little_later(
    open_on: Callable[..., Ragforge], swift_path: Path
) -> None:
    docs = fill(swift_path / "docs", 3)
    docs[0].write_text(SECRET)
    a, b, other = open_on("a"), open_on("b"), open_on("b")
    a.add(docs, project="p")
    with neighbour_of(b):
        reader = other._parts.indexes(moment(other)).keywords.pin()
        list(a.removing([docs[0].name], project="p"))
        until(lambda: summarised(b) == ["file0001.md", "file0002.md"])
        assert len(epochs(b)) == 2, "one is still read"
        reader.release()
        other.search("Page 2", project="p")  # it reads what is newer, and lets go
        until(lambda: len(epochs(b)) == 1)


def test_a_worker_without_indexes_forgets_what_a_removed_file_was_about(
    open_on: Callable[..., Ragforge], swift_path: Path
) -> None:
    docs = fill(swift_path / "docs", 3)
    a, worker = open_on("a"), open_on("worker")
    worker.neighbour(serves=False)
    a.add(docs[:2], project="p")
    worker._follow_others(only(worker))
    assert summarised(worker) == ["file0000.md", "file0001.md"]
    list(a.removing([docs[0].name], project="p"))
    worker._follow_others(only(worker))
    assert summarised(worker) == ["file0001.md"] and not segments(worker)


def test_indexes_on_a_server_are_erased_by_whoever_removed_and_by_nobody_who_follows(
    open_on: Callable[..., Ragforge], swift_path: Path
) -> None:
    docs = fill(swift_path / "docs", 4)
    a, b = open_on("a", **SERVER), open_on("b", **SERVER)
    a.add(docs, project="p")
    b._follow_others(only(b))
    built = tables(a)
    docs[1].write_text("# Another\n\nText about nothing at all, and a little more.\n")
    list(a._flows.ingest.add(a._scope, "p", [str(docs[1])], None, Cancel()))  # and its indexes do not follow yet
    b._follow_others(only(b))
    assert tables(a) == built, "what replaced rows leave behind goes when they are merged"
    list(a.removing([docs[0].name], project="p"))
    erased = tables(a)
    assert not set(erased) & set(built)
    b._follow_others(only(b))
    assert tables(a) == erased and [each for each in faults(b) if each.subject.endswith("index")] == []


def test_own_indexes_are_written_again_for_what_was_removed_alone(
    open_on: Callable[..., Ragforge], swift_path: Path
) -> None:
    docs = fill(swift_path / "docs", 12)
    a, b = open_on("a"), open_on("b")
    a.add(docs, project="p")
    b._follow_others(only(b))
    built = segments(b)
    docs[1].write_text("# Another\n\nText about nothing at all, and a little more.\n")
    a.add(docs[1], project="p")
    b._follow_others(only(b))
    assert built <= segments(b)
    list(a.removing([docs[0].name], project="p"))
    b._follow_others(only(b))
    assert not built & segments(b)


@pytest.mark.parametrize("engines", [{}, SERVER], ids=["own", "on a server"])
def test_the_indexes_of_an_unfinished_reindex_survive_a_removal(
    open_on: Callable[..., Ragforge], swift_path: Path, engines: dict[str, object]
) -> None:
    docs = fill(swift_path / "docs", 6)
    docs[0].write_text(SECRET)
    a, b = open_on("a", **engines), open_on("b", **engines)
    a.add(docs, project="p")
    b._follow_others(only(b))
    building = a.reindexing(project="p", strategy=FINER)
    next(event for event in building if isinstance(event, Progress) and event.stage == "indexing")
    a._flows.follow.catch_up(only(a), 2)
    b._follow_others(only(b))
    dropped: list[str] = []
    for machine in (a, b):
        for index in vars_of(machine):
            watch(index, dropped)
    list(a.removing([docs[0].name], project="p"))
    b._follow_others(only(b))
    assert dropped == []
    for machine in (a, b):
        reader = machine._parts.indexes(moment(machine, 2)).keywords.pin()
        assert not reader.holding(["quokkazebu"])["quokkazebu"]
        reader.release()
    list(building)
    b._follow_others(only(b))
    for machine in (a, b):
        assert [each for each in faults(machine) if each.subject.endswith("index")] == []
        assert machine.search("Page 3", project="p").passages[0].name == "file0003.md"


def vars_of(forge: Ragforge) -> list[Any]:
    """Both indexes of the generation that is being built."""
    indexes = forge._parts.indexes(moment(forge, 2))
    return [indexes.keywords, indexes.vectors]


def watch(index: Any, dropped: list[str]) -> None:
    """Note who drops it."""
    drop = index.drop

    def watched() -> None:
        dropped.append(index.engine)
        drop()

    index.drop = watched


def test_an_index_of_a_generation_that_was_followed_before_its_vectors_were_there_has_them_all(
    open_on: Callable[..., Ragforge], swift_path: Path
) -> None:
    """A machine looks while another embeds: what it has by then is not all there will be."""
    b: list[Ragforge] = []
    docs = fill(swift_path / "docs", 8)

    def look() -> None:
        for machine in b:
            machine._follow_others(only(machine))

    second = SecondModel(look)
    a = open_on("a", ingest__batch_leaves=8)
    b.append(open_on("b"))
    a._parts._embedders["second"] = b[0]._parts._embedders["second"] = second
    a.add(docs, project="p")
    b[0]._follow_others(only(a))
    list(a.reindexing(project="p", strategy=FINER, embedder="second"))
    b[0]._follow_others(only(a))
    for machine in (a, b[0]):
        indexes = machine._parts.indexes(now := moment(machine))
        words, meaning = indexes.keywords.pin(), indexes.vectors.pin()
        with machine._parts.catalog.read() as c:
            wanted = c.passages.keys(owner(), now)
        assert wanted == sorted(words.keys().tolist()) == sorted(meaning.keys().tolist())
        words.release()
        meaning.release()


def test_a_project_that_was_removed_or_renamed_elsewhere_leaves_nothing_here(
    open_on: Callable[..., Ragforge], swift_path: Path
) -> None:
    a, b = open_on("a"), open_on("b")
    a.create_project("kept", strategy=SMALL, embedder="hashing")
    a.add(fill(swift_path / "docs", 3), project="p")
    a.add(fill(swift_path / "docs", 3), project="kept")
    states, indexes = b.workspace / "projects", b.workspace / "indexes"
    with neighbour_of(b):
        until(lambda: (states / "p" / "project_state.json").exists())
        (states / "kept" / "context.md").write_text("We make desks.")
        gone = only(a)
        assert (indexes / gone).is_dir()
        a.remove_project("p")
        a.rename_project("kept", "Shop")
        until(lambda: not (states / "p").exists() and not (indexes / gone).exists())
        until(lambda: (states / "shop" / "project_state.json").exists() and not (states / "kept").exists())
        assert (states / "shop" / "context.md").read_text() == "We make desks."
        assert len(list(indexes.glob("*/1"))) == 1


def test_a_machine_that_was_off_meanwhile_keeps_nothing_of_a_removed_project(
    open_on: Callable[..., Ragforge], swift_path: Path
) -> None:
    a, b = open_on("a"), open_on("b")
    a.create_project("empty", strategy=SMALL, embedder="hashing")
    a.add(fill(swift_path / "docs", 3), project="p")
    b._follow_others(only(b))
    mine = b.workspace / "projects" / "not-yet"
    mine.mkdir()
    (mine / "context.md").write_text("Of a project that is to come.")
    b.close()
    gone = only(a)
    a.remove_project("p")
    again = open_on("b")
    with neighbour_of(again):
        until(lambda: not (again.workspace / "indexes" / gone).exists())
        until(lambda: not (again.workspace / "projects" / "p").exists())
        until(lambda: (again.workspace / "projects" / "empty" / "project_state.json").exists())
    assert (mine / "context.md").exists()


def test_who_has_chosen_another_engine_leaves_that_of_others_on_the_server(
    open_on: Callable[..., Ragforge], swift_path: Path
) -> None:
    """While settings change from machine to machine, each has its own choice."""
    a, b = open_on("a", **SERVER), open_on("b")
    a.add(fill(swift_path / "docs", 3), project="p")
    built = tables(a)
    list(b.rebuilding(project="p"))
    b._flows.follow.tidy()
    with a._parts.catalog.read() as c:
        followed = [c.changes.followed(owner(), only(a), engine, 1) for engine in ("postgres", "pgvector")]
    assert min(followed) >= 0
    a.search("Page 1", project="p")
    assert tables(a) == built
