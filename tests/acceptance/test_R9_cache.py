"""R9: a question asked again comes from the cache, until anything in the project changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.domain.access import Clearance
from ragforge.domain.retrieval import Filters
from tests.forge import fill, open_forge, prose

CHANGES: dict[str, Callable[[Ragforge, Path], object]] = {
    "add": lambda forge, docs: forge.add(fill(docs / "more", 4)[3], project="p"),
    "replace": lambda forge, docs: (
        (docs / "file0001.md").write_text(prose(77)),
        forge.add(docs / "file0001.md", project="p"),
    ),
    "remove": lambda forge, docs: list(forge.removing(["file0001.md"], project="p")),
    "off": lambda forge, docs: forge.enable(["file0001.md"], False, project="p"),
    "label": lambda forge, docs: forge.label(["file0001.md"], project="p", tags=["x"]),
    "reindex": lambda forge, docs: list(
        forge.reindexing(project="p", strategy=replace(forge.project("p").strategy, leaf_max=50))
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_R9_any_change_empties_it(swift_path: Path, change: str) -> None:
    fill(swift_path / "docs", 3)
    with open_forge(swift_path / "workspace") as forge:
        forge.add(swift_path / "docs", project="p")
        first = forge.search("Page 1", project="p")
        again = forge.search("Page 1", project="p")
        assert not first.cached and again.cached and again.passages == first.passages
        CHANGES[change](forge, swift_path / "docs")
        assert not forge.search("Page 1", project="p").cached
        assert forge.search("Page 1", project="p").cached


def test_R9_another_process_s_change_empties_it_too(swift_path: Path) -> None:
    fill(swift_path / "docs", 3)
    with open_forge(swift_path / "workspace") as forge, open_forge(swift_path / "workspace") as other:
        forge.add(swift_path / "docs", project="p")
        forge.search("Page 1", project="p")
        other.add(fill(swift_path / "more", 6)[5], project="p")
        found = forge.search("Page 5", project="p")
        assert found.passages[0].name == "file0005.md"
        assert not forge.search("Page 1", project="p").cached


def test_R9_what_differs_is_not_shared(swift_path: Path) -> None:
    fill(swift_path / "docs", 3)
    with open_forge(swift_path / "workspace") as forge:
        forge.add(swift_path / "docs", project="p")
        forge.search("Page 1", project="p")
        assert not forge.search("Page 2", project="p").cached
        assert not forge.search("Page 1", project="p", k=3).cached
        assert not forge.search("Page 1", project="p", filters=Filters(tags=("x",))).cached
        assert not forge.search("Page 1", project="p", fresh=True).cached
        reader = Ragforge(forge._parts, replace(forge._scope, clearance=Clearance.PUBLIC))
        assert reader.search("Page 1", project="p").passages == ()
