"""What a review of the indexes and the search found, each as it happened."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragforge import Ragforge
from ragforge.domain.cancel import Cancel
from ragforge.domain.library import FileResult
from ragforge.domain.retrieval import Filters, Moment, Tuning
from ragforge.domain.strategy import Strategy
from ragforge.domain.tokens import Matrix, Passage, Vector
from ragforge.errors import BadVectors, UserError
from ragforge.flows.follow import Follow
from ragforge.testing.hashing import HashingEmbedder
from tests.forge import faults, fill, open_forge, prose

CANARY = "xyzzyquokka"


class Other(HashingEmbedder):
    """Another model under another name; `between` runs before each call."""

    def __init__(self, between: Callable[[], None] = lambda: None) -> None:
        super().__init__(32)
        self._card = replace(self._card, name="other", fingerprint="other/32")
        self.between = between

    def embed(self, passages: Sequence[Passage], cancel: Cancel) -> Matrix:
        self.between()
        return super().embed(passages, cancel)


def with_other(workspace: Path, other: Other) -> Ragforge:
    from ragforge.settings import load

    return Ragforge.open(load(workspace), embedders={"hashing": HashingEmbedder(64), "other": other})


def moment(forge: Ragforge, generation: int | None = None) -> Moment:
    with forge._parts.catalog.read() as c:
        return c.passages.moment(forge._scope, forge.project("p").id, generation)


def test_a_file_added_while_a_model_changes_is_in_the_new_index(swift_path: Path) -> None:
    with open_forge(swift_path / "workspace") as forge:
        forge.add(fill(swift_path / "docs", 6), project="p")
    catch_up = Follow.catch_up
    with with_other(swift_path / "workspace", Other()) as forge:
        added: list[int] = []

        def catch_up_after_an_add(self: Follow, project: str, generation: int | None = None, **how: Any) -> bool:
            if generation is not None and not added:
                added.append(1)
                (swift_path / "late.md").write_text(prose(777))
                forge.add(swift_path / "late.md", project="p")
            return catch_up(self, project, generation, **how)

        Follow.catch_up = catch_up_after_an_add  # type: ignore[method-assign]
        try:
            list(forge.reindexing(project="p", embedder="other"))
        finally:
            Follow.catch_up = catch_up  # type: ignore[method-assign]
        assert added and forge.project("p").embedder == "other"
        assert forge.search("Page 777", project="p").passages[0].name == "late.md"
        assert faults(forge) == []


def begun(forge: Ragforge, strategy: Strategy) -> None:
    """A reindex that stops when its indexes are built, before the swap."""
    events = forge.reindexing(project="p", strategy=strategy)
    for event in events:
        if event.stage == "indexing":
            forge._flows.follow.catch_up(forge.project("p").id, moment(forge).generation + 1)
            break
    events.close()  # type: ignore[attr-defined]


CHARS = Strategy(name="chars", window_max=1000)


def test_a_number_that_is_given_again_brings_no_old_index(swift_path: Path) -> None:
    with open_forge(swift_path / "workspace") as forge:
        forge.add(fill(swift_path / "docs", 6), project="p")
        begun(forge, CHARS)
        list(forge.reindexing(project="p"))  # what is live is wanted: the begun one is given up
        forge.add(fill(swift_path / "more", 9)[6:], project="p")
        list(forge.reindexing(project="p", strategy=replace(CHARS, window_max=1200)))
        assert forge.search("Page 8", project="p").passages[0].name == "file0008.md"
        assert faults(forge) == []


def test_removed_text_leaves_the_index_of_an_unfinished_reindex(swift_path: Path) -> None:
    (swift_path / "secret.md").write_text(f"# Secret\n\nThe {CANARY} sleeps.\n")
    with open_forge(swift_path / "workspace") as forge:
        forge.add([swift_path / "secret.md", *fill(swift_path / "docs", 5)], project="p")
        begun(forge, CHARS)
        unfinished = forge._parts.indexes(moment(forge, 2)).keywords
        reader = unfinished.pin()
        assert reader.terms_starting(CANARY, 5)  # type: ignore[attr-defined]
        reader.release()
        (removal,) = forge.removing(["secret.md"], project="p")
        assert removal.remains == ()
        reader = unfinished.pin()
        assert reader.rows and not reader.terms_starting(CANARY, 5)  # type: ignore[attr-defined]
        reader.release()
        list(forge.reindexing(project="p", strategy=CHARS))
        assert faults(forge) == []


def test_a_retired_generation_is_not_built_again(swift_path: Path) -> None:
    with open_forge(swift_path / "workspace") as forge:
        forge.add(fill(swift_path / "docs", 4), project="p")
        before = moment(forge)
        list(forge.reindexing(project="p", strategy=CHARS))
        for lane in forge._flows.follow._lanes(before):
            assert forge._flows.follow._advance(lane, before, Cancel(), wait=True)
        forge._flows.follow.tidy()
        assert [folder.name for folder in forge.workspace.glob("indexes/*/*")] == ["2"]


def test_an_engine_that_is_not_chosen_any_more_leaves_nothing(swift_path: Path) -> None:
    with open_forge(swift_path / "workspace") as forge:
        forge.add(fill(swift_path / "docs", 3), project="p")
    with open_forge(swift_path / "workspace", index__vectors="qdrant") as forge:
        assert forge.search("Page 2", project="p").passages[0].name == "file0002.md"
        forge._flows.follow.finish()
        list(forge.removing(["file0001.md"], project="p"))
        assert not list(forge.workspace.glob("indexes/*/*/vectors"))
        assert forge.search("Page 2", project="p", fresh=True).degraded == ()


def test_a_catalog_that_was_restored_does_not_trust_a_newer_index(swift_path: Path) -> None:
    workspace = swift_path / "workspace"
    with open_forge(workspace) as forge:
        forge.add(fill(swift_path / "docs", 4), project="p")
    shutil.copy(workspace / "catalog.db", swift_path / "saved.db")
    with open_forge(workspace) as forge:
        forge.add(fill(swift_path / "lost", 9)[4:], project="p")
    for path in workspace.glob("catalog.db*"):
        path.unlink()
    shutil.copy(swift_path / "saved.db", workspace / "catalog.db")
    with open_forge(workspace) as forge:
        assert {p.name for p in forge.search("Page 2", project="p", k=20).passages} <= {
            f"file000{n}.md" for n in range(4)
        }
        for number in range(8):
            (swift_path / f"new{number}.md").write_text(prose(600 + number))
            forge.add(swift_path / f"new{number}.md", project="p")
            assert forge.search(f"Page {600 + number}", project="p").passages[0].name == f"new{number}.md"
        assert all(finding.ok for finding in forge.check() if finding.subject.endswith("index"))


def test_a_search_goes_on_while_another_writes(swift_path: Path) -> None:
    """Far behind, and the catalog is held by a writer: what is new is searched beside the indexes."""
    with open_forge(swift_path / "workspace", store__busy_seconds=0.2) as forge:
        forge.add(fill(swift_path / "docs", 5), project="p")
        forge._flows.follow.catch_up = lambda *_, **__: True  # type: ignore[method-assign]
        forge.add(fill(swift_path / "more", 200)[5:], project="p")
        del forge._flows.follow.catch_up
        with open_forge(swift_path / "workspace") as other, other._parts.catalog.write():
            found = forge.search("Page 150", project="p")
            assert found.passages[0].name == "file0150.md" and found.degraded == ()


def test_work_whose_listener_leaves_ends_before_another_may_recover(swift_path: Path) -> None:
    with open_forge(swift_path / "workspace") as forge:
        events = forge.adding(fill(swift_path / "docs", 40), project="p")
        next(event for event in events if isinstance(event, FileResult))
        events.close()  # type: ignore[attr-defined]
        assert [job.state for job in forge.jobs(project="p")] != ["running"]
        with forge._parts.in_flight.alone() as alone:
            assert alone


def test_as_many_passages_as_are_asked_for(swift_path: Path) -> None:
    with open_forge(swift_path / "workspace", search__duplicates=1.0) as forge:
        forge.add(fill(swift_path / "docs", 60), project="p")
        assert len(forge.search("Page 1 word5", project="p", k=100).passages) == 100


def test_the_pins_outlive_the_search_that_was_cancelled(swift_path: Path) -> None:
    class Stuck(HashingEmbedder):
        def embed_query(self, text: str, cancel: Cancel) -> Vector:
            cancel.set()
            cancel.check()
            raise AssertionError

    from ragforge.domain.cancel import Cancelled

    with open_forge(swift_path / "workspace", Stuck(64)) as forge:
        forge.add(fill(swift_path / "docs", 3), project="p")
        with pytest.raises(Cancelled):
            forge.search("Page 1", project="p")
        assert not forge._flows.follow._healing


def test_nothing_of_removed_text_stays_in_memory(swift_path: Path) -> None:
    (swift_path / "secret.md").write_text(f"# Secret\n\nThe {CANARY} sleeps.\n")
    with open_forge(swift_path / "workspace") as forge:
        forge.add([swift_path / "secret.md", *fill(swift_path / "docs", 3)], project="p")
        forge.search(CANARY, project="p")
        assert CANARY in repr(forge._flows.search._remembered.results._values)
        list(forge.removing(["secret.md"], project="p"))
        assert f"The {CANARY}" not in repr(forge._flows.search._remembered.results._values)


@pytest.mark.parametrize(
    ("tuning", "says"),
    [
        ({"k": 0}, "k is 0"),
        ({"k": 1_000_000}, "1 to 1,000"),
        ({"alpha": 2.0}, "alpha is 2"),
        ({"fusion": "nonsense"}, "nonsense"),
        ({"duplicates": -1.0}, "duplicates"),
        ({"keyword_candidates": -1}, "keyword_candidates"),
    ],
)
def test_settings_that_make_no_sense_are_refused(swift_path: Path, tuning: dict[str, float], says: str) -> None:
    with open_forge(swift_path / "workspace") as forge, pytest.raises(UserError, match=says):
        forge.search("oak", project="p", tuning=replace(Tuning(), **tuning))  # type: ignore[arg-type]


def test_odd_questions_vectors_and_filters(swift_path: Path) -> None:
    with open_forge(swift_path / "workspace") as forge:
        with pytest.raises(UserError, match="empty"):
            forge.search(" \n", project="p")
        forge.add(fill(swift_path / "docs", 3), project="p")
        for question in (
            "the of and",
            "🙂",
            "\x00\x1b[31m",
            'text:secret AND "x*" NEAR/2 (',
            "a" * 100_000,
            "\ud800 x",
        ):
            assert forge.search(question, project="p") is not None
        assert forge.search("Page 1", project="p", filters=Filters(tags=["x"])).passages == ()  # type: ignore[arg-type]
        for vector in (np.zeros(3, np.float32), np.full(64, np.nan, np.float32)):
            with pytest.raises(BadVectors):
                forge.search("Page 1", project="p", vector=vector)


def test_searches_at_once_build_one_search(swift_path: Path) -> None:
    with open_forge(swift_path / "workspace") as forge:
        forge.add(fill(swift_path / "docs", 3), project="p")
        threads = [threading.Thread(target=forge.search, args=("Page 1",), kwargs={"project": "p"}) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert forge.search("Page 1", project="p").cached
