"""R7: the same answers from every vector index, and a change of engine costs no embedding."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragforge import Ragforge
from ragforge.domain.retrieval import Filters, Tuning
from ragforge.testing.chroma import TemporaryChroma
from tests.forge import WatchedEmbedder, faults, fill, open_forge, places_of

MEANING = Tuning(alpha=1.0, k=5)
QUESTION = "word17 word4711 word99"
CANARY = "Xylophonquartett spielt leise"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with TemporaryChroma() as chroma:
        yield chroma.url


@pytest.fixture(params=["snapshot", "chroma", "chroma server", "qdrant"])
def engine(request: pytest.FixtureRequest) -> dict[str, Any]:
    name, _, is_server = request.param.partition(" ")
    return {"index__vectors": name, "index__url": request.getfixturevalue("server") if is_server else ""}


def ask(forge: Ragforge, filters: Filters | None = None) -> list[tuple[str, object]]:
    found = forge.search(QUESTION, project="p", tuning=MEANING, filters=filters, fresh=True)
    assert found.degraded == ()
    return [(passage.chunk, pytest.approx(passage.scores["vectors"], abs=1e-4)) for passage in found.passages]


def test_R7_every_engine_gives_the_same_answers_and_a_change_of_engine_embeds_nothing(
    swift_path: Path, engine: dict[str, Any]
) -> None:
    workspace, embedder = swift_path / "workspace", WatchedEmbedder()
    fill(swift_path / "docs", 12)
    with open_forge(workspace, embedder) as forge:
        forge.add(swift_path / "docs", project="p")
        some = Filters(documents=tuple(document.id for document in forge.documents(project="p")[:2]))
        expected, expected_of_some = ask(forge), ask(forge, some)
        embedder.texts.clear()
    with open_forge(workspace, embedder, **engine) as forge:
        forge.search(QUESTION, project="p")
        forge._flows.follow.finish()
        assert ask(forge) == expected
        assert ask(forge, some) == expected_of_some and len(expected_of_some) == 5
        assert set(embedder.texts) == {QUESTION}
        assert faults(forge) == []


def test_R7_every_engine_follows_changes_and_keeps_nothing_that_was_removed(
    swift_path: Path, engine: dict[str, Any]
) -> None:
    page = fill(swift_path / "docs", 4)[2]
    with open_forge(swift_path / "workspace", **engine) as forge:
        forge.add(swift_path / "docs", project="p")
        page.write_text(f"# Canary\n\n{CANARY}.\n")
        forge.add(page, project="p")
        first = forge.search(CANARY, project="p", tuning=MEANING).passages[0]
        assert first.name == page.name and CANARY in first.text
        [document] = forge.find([page.name], project="p")
        [removal] = forge.removing([document.id], project="p")
        assert removal.erased
        assert page.name not in {each.name for each in forge.search(CANARY, project="p", tuning=MEANING).passages}
        assert faults(forge) == []
    assert places_of(CANARY.encode(), swift_path / "workspace") == []
