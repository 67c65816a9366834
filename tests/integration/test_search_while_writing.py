"""Searches go on while files change: a committed file is found at once, a replaced one never as both or neither."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.domain.library import Outcome
from ragforge.domain.strategy import Strategy
from tests.forge import faults, fill, open_forge, places_of, prose
from tests.integration.test_two_processes import in_processes, in_threads
from tests.proof import count, record


def version(number: int) -> str:
    words = " ".join(f"filler{number * 31 + i}" for i in range(40))
    return f"# Versions\n\nquokkaword is here in its state state{number}x.\n\n{words}.\n"


def test_a_file_replaced_under_eight_threads_in_two_processes(swift_path: Path) -> None:
    replacements = count(20, 500)
    path, workspace = swift_path / "versions.md", swift_path / "workspace"
    path.write_text(version(0))
    with open_forge(workspace) as forge:
        forge.add([path, *fill(swift_path / "docs", 20)], project="p")
    ended = swift_path / "ended"

    def ask(forge: Ragforge, counted: list[int]) -> None:
        while not ended.exists():
            found = forge.search("quokkaword state", project="p", k=5, fresh=True)
            seen = [p.text for p in found.passages if "quokkaword" in p.text]
            assert len(seen) == 1, f"{len(seen)} versions at once"
            assert found.degraded == ()
            counted.append(1)

    def work(place: int) -> None:
        with open_forge(workspace) as forge:
            counted: list[int] = []
            if place == 0:
                writer = threading.Thread(target=replace_all, args=(forge,))
                writer.start()
            problems = in_threads(8, lambda _: ask(forge, counted))
            assert problems == [] and len(counted) > 20
            (swift_path / f"searches{place}").write_text(str(len(counted)))
            if place == 0:
                writer.join()

    def replace_all(forge: Ragforge) -> None:
        try:
            for number in range(1, replacements + 1):
                path.write_text(version(number))
                (result,) = forge.add(path, project="p").files
                assert result.outcome == Outcome.READY
        finally:
            ended.touch()

    assert in_processes(2, work) == [0, 0]
    with open_forge(workspace) as forge:
        found = forge.search("quokkaword state", project="p", k=5)
        assert f"state{replacements}x" in found.passages[0].text
        assert faults(forge) == []
    searches = sum(int((swift_path / f"searches{place}").read_text()) for place in range(2))
    record("replaced_under_search", replacements=replacements, searches=searches, both=0, neither=0)


def test_searches_while_a_reindex_swaps(swift_path: Path) -> None:
    workspace, ended = swift_path / "workspace", threading.Event()
    with open_forge(workspace) as forge:
        forge.add(fill(swift_path / "docs", 15), project="p")

        def ask(place: int) -> None:
            while not ended.is_set():
                found = forge.search(f"Page {place}", project="p", fresh=True)
                assert found.passages and found.degraded == ()
                assert len({(p.document, p.start) for p in found.passages}) == len(found.passages)

        def reindex() -> None:
            try:
                for turn in range(4):
                    list(forge.reindexing(project="p", strategy=Strategy(name="chars", window_max=1000 + turn)))
            finally:
                ended.set()

        writer = threading.Thread(target=reindex)
        writer.start()
        assert in_threads(4, ask) == []
        writer.join()
        assert len(list(workspace.glob("indexes/*/*"))) == 1, "indexes of former generations are gone"
        assert faults(forge) == []


@contextmanager
def no_index_follows(forge: Ragforge) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(forge._flows.follow, "catch_up", lambda *_, **__: True)
        yield


def test_what_came_to_a_small_project_is_ranked_as_if_it_had_been_there(swift_path: Path) -> None:
    """Words are rare or common by what the index holds: one that holds almost nothing first catches up."""
    with open_forge(swift_path / "workspace") as forge:
        docs = fill(swift_path / "docs", 12)
        forge.add(docs[0], project="p")
        with no_index_follows(forge):
            forge.add(docs, project="p")
        question = " ".join(docs[5].read_text().split()[3:7])
        first = forge.search(question, project="p")
        list(forge.rebuilding(project="p"))
        assert [each.score for each in forge.search(question, project="p", fresh=True).passages] == [
            each.score for each in first.passages
        ]


def test_what_is_ranked_beside_the_indexes_is_not_kept(swift_path: Path) -> None:
    with open_forge(swift_path / "workspace") as forge:
        forge.add(fill(swift_path / "docs", 10), project="p")
        (swift_path / "new.md").write_text("# New\n\nThe wobbegong sleeps in the harbour.\n")
        with no_index_follows(forge):
            forge.add(swift_path / "new.md", project="p")
            assert not any(forge.search("wobbegong harbour", project="p").cached for _ in range(2))
        forge._flows.follow.catch_up(forge.project("p").id)
        assert [forge.search("wobbegong harbour", project="p").cached for _ in range(2)] == [False, True]


def test_a_file_is_found_before_any_index_has_it(swift_path: Path) -> None:
    """The catalog's commit is what counts: here no index follows at all."""
    with open_forge(swift_path / "workspace") as forge:
        forge.add(fill(swift_path / "docs", 10), project="p")
        forge._flows.follow.catch_up = lambda *_, **__: True  # type: ignore[method-assign]
        (swift_path / "new.md").write_text("# New\n\nThe wobbegong sleeps in the harbour.\n")
        forge.add(swift_path / "new.md", project="p")
        found = forge.explain("wobbegong harbour", project="p")
        assert found.passages[0].name == "new.md" and found.trace is not None and found.trace.behind
        before = found.passages[0]
        del forge._flows.follow.catch_up
        forge._flows.follow.catch_up(forge.project("p").id)
        after = forge.explain("wobbegong harbour", project="p")
        assert after.trace is not None and after.trace.behind == 0
        assert after.passages[0].chunk == before.chunk
        for name, score in before.scores.items():
            assert abs(after.passages[0].scores[name] - score) < 0.02 * max(1, abs(score))


def test_removed_text_leaves_every_index_while_another_process_reads(swift_path: Path) -> None:
    workspace, canary = swift_path / "workspace", "zanzibarquokka"
    secret = swift_path / "secret.md"
    secret.write_text(prose(4242) + f"\nThe {canary} sleeps.\n")
    with open_forge(workspace) as forge:
        forge.add([secret, *fill(swift_path / "docs", 20)], project="p")
        vectors = _vectors(forge, "secret.md")
        ready, done = os.pipe(), os.pipe()
        child = os.fork()
        if not child:
            with open_forge(workspace) as other:
                other.search(canary, project="p")
                os.write(ready[1], b"1")
                os.read(done[0], 1)
                found = other.search(canary, project="p", k=20)
                os._exit(int(any(canary in p.text for p in found.passages)))
        os.read(ready[0], 1)
        assert holds_term(forge, canary)
        (removal,) = forge.removing(["secret.md"], project="p")
        assert removal.remains == ()
        assert not holds_term(forge, canary)
        for key, vector in vectors.items():
            assert places_of(vector[:64], workspace) == []
            assert key not in rows_of(forge)
        assert places_of(canary.encode(), workspace) == []
        os.write(done[1], b"1")
        assert os.waitpid(child, 0)[1] == 0
        assert all(finding.ok and not finding.warning for finding in forge.check() if "index" in finding.subject)


def _moment(forge: Ragforge):  # type: ignore[no-untyped-def]
    with forge._parts.catalog.read() as c:
        return c.passages.moment(forge._scope, forge.project("p").id)


def _vectors(forge: Ragforge, name: str) -> dict[int, bytes]:
    with forge._parts.catalog.read() as c:
        keys = [chunk.key for chunk in forge.chunks(name, project="p")]
        return {key: vector for key, _, vector in c.passages.vectors_of(forge._scope, _moment(forge), keys)}


def holds_term(forge: Ragforge, prefix: str) -> bool:
    reader = forge._parts.indexes(_moment(forge)).keywords.pin()
    try:
        return bool(reader.terms_starting(prefix, 10))  # type: ignore[attr-defined]
    finally:
        reader.release()


def rows_of(forge: Ragforge) -> set[int]:
    indexes = forge._parts.indexes(_moment(forge))
    held: set[int] = set()
    for reader in (indexes.keywords.pin(), indexes.vectors.pin()):
        held |= set(reader.keys().tolist())
        reader.release()
    return held


def test_kills_while_indexes_apply_changes(swift_path: Path) -> None:
    """Killed at a random moment or at a failpoint inside: nothing is lost, nothing is there twice."""
    kills, how = count(6, 100), random.Random(3)
    workspace, docs = swift_path / "workspace", swift_path / "docs"
    files = fill(docs, 12)
    with open_forge(workspace) as forge:
        forge.add(docs, project="p")
    points = ["index.segment", "index.swap", "index.swapped", "index.applied"]
    for number in range(kills):
        how.choice(files).write_text(prose(1000 + number))
        child = os.fork()
        if not child:
            if number % 2:
                os.environ |= {"RAGFORGE_TESTING": "1", "RAGFORGE_FAILPOINT": f"{points[number // 2 % 4]}:kill"}
            with open_forge(workspace) as forge:
                forge.add(docs, project="p")
            os._exit(0)
        if not number % 2:
            time.sleep(how.uniform(0.02, 0.35))
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with open_forge(workspace) as forge:
            forge.add(docs, project="p")
            for path in how.sample(files, 3):
                page = path.read_text().split("\n", 1)[0].removeprefix("# ")
                found = forge.search(page, project="p", k=5, fresh=True)
                assert found.passages[0].name == path.name, (number, page, json.dumps([p.name for p in found.passages]))
                texts = [p.chunk for p in found.passages]
                assert len(texts) == len(set(texts))
            assert rows_of(forge) == {
                c.key for d in forge.documents(project="p") for c in forge.chunks(d.id, project="p")
            }
    with open_forge(workspace) as forge:
        assert faults(forge) == []
    record("kills_while_indexing", kills=kills, lost=0, double=0)
