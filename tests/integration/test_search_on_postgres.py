"""The same search on a catalog in Postgres, with the local indexes beside it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ragforge.domain.access import Clearance
from ragforge.domain.library import Progress
from ragforge.domain.retrieval import Filters
from ragforge.domain.strategy import Strategy
from ragforge.testing.postgres import TemporaryPostgres
from tests.forge import faults, fill, open_forge, prose


def test_words_and_meaning_filters_changes_and_removal(swift_path: Path, postgres: TemporaryPostgres) -> None:
    url = postgres.create()
    files = fill(swift_path / "docs", 12)
    with open_forge(swift_path / "workspace", store__database_url=url) as forge:
        forge.add(swift_path / "docs", project="p")
        found = forge.explain("Page 7", project="p")
        assert found.passages[0].name == "file0007.md" and found.degraded == () and found.context
        assert found.passages[0].ranks.keys() == {"keywords", "vectors"}
        forge.label(["file0007.md"], project="p", tags=["x"], confidentiality=Clearance.RESTRICTED)
        tagged = forge.search("Page 3", project="p", filters=Filters(tags=("x",)))
        assert {passage.name for passage in tagged.passages} == {"file0007.md"}
        files[7].write_text(prose(700))
        forge.add(files[7], project="p")
        assert forge.search("Page 700", project="p").passages[0].name == "file0007.md"
        (removal,) = forge.removing(["file0007.md"], project="p")
        assert removal.remains == () and removal.pending == ()
        assert "file0007.md" not in {passage.name for passage in forge.search("Page 700", project="p").passages}
        shutil.rmtree(swift_path / "workspace" / "indexes")
        assert forge.search("Page 3", project="p").passages[0].name == "file0003.md"
        assert faults(forge) == []
    postgres.drop(url)


def test_a_file_that_comes_at_the_last_moment_of_a_reindex_is_taken_along(
    swift_path: Path, postgres: TemporaryPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine adds it between the last look and the swap."""
    url, docs = postgres.create(), swift_path / "docs"
    came: list[str] = []
    fill(docs, 3)
    finer = Strategy(leaf_min=10, leaf_max=30, section_min=5, parent_min=40, parent_max=80)
    with (
        open_forge(swift_path / "one", store__database_url=url) as forge,
        open_forge(swift_path / "other", store__database_url=url) as other,
    ):
        forge.add(docs, project="p")

        def failpoint(name: str) -> None:
            if name == "reindex.swapping" and not came:
                came.append(name)
                (docs / "late.md").write_text(prose(77))
                other.add(docs / "late.md", project="p")

        monkeypatch.setattr("ragforge.flows.reindex.failpoint", failpoint)
        list(forge.reindexing(project="p", strategy=finer))
        assert came and forge.project("p").strategy == finer
        assert len(forge.documents(project="p")) == 4
        assert forge.search("Page 77", project="p").passages[0].name == "late.md"
    postgres.drop(url)


def test_a_machine_has_the_indexes_of_a_generation_that_another_builds(
    swift_path: Path, postgres: TemporaryPostgres
) -> None:
    """So that the swap leaves it little to do."""
    url, docs = postgres.create(), swift_path / "docs"
    fill(docs, 20)
    finer = Strategy(leaf_min=10, leaf_max=30, section_min=5, parent_min=40, parent_max=80)
    with (
        open_forge(swift_path / "one", store__database_url=url) as forge,
        open_forge(swift_path / "other", store__database_url=url) as other,
    ):
        forge.add(docs, project="p")
        neighbour = other.neighbour(serves=True)
        assert neighbour is not None and other.search("Page 3", project="p").passages
        building = forge.reindexing(project="p", strategy=finer)
        next(event for event in building if isinstance(event, Progress) and event.stage == "indexing")
        neighbour._catch_up()
        assert len(list((swift_path / "other" / "indexes").glob("*/2/*/manifest.json"))) == 2
        list(building)
        found = other.search("Page 3", project="p")
        assert found.degraded == () and found.passages[0].name == "file0003.md"
    postgres.drop(url)
