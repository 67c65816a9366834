"""R6: a part that is missing is said, and the search goes on with what is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.domain.cancel import Cancel
from ragforge.domain.retrieval import Tuning
from ragforge.domain.tokens import Vector
from ragforge.errors import ProviderError
from ragforge.testing.hashing import HashingEmbedder
from tests.forge import faults, fill, open_forge
from tests.indexes import lose, lose_all


class Failing(HashingEmbedder):
    """Embeds documents; questions fail while `down` is set."""

    down = False

    def embed_query(self, text: str, cancel: Cancel) -> Vector:
        if self.down:
            raise ProviderError("the embedding service does not answer", hint="try again later", retryable=True)
        return super().embed_query(text, cancel)


@pytest.fixture
def embedder() -> Failing:
    return Failing(64)


@pytest.fixture
def forge(swift_path: Path, embedder: Failing) -> Iterator[Ragforge]:
    fill(swift_path / "docs", 12)
    with open_forge(swift_path / "workspace", embedder) as forge:
        forge.add(swift_path / "docs", project="p")
        yield forge


def test_R6_embedder_down_means_words_alone(forge: Ragforge, embedder: Failing) -> None:
    embedder.down = True
    found = forge.search("Page 7", project="p")
    assert found.passages[0].name == "file0007.md"
    (missing,) = found.degraded
    assert missing.part == "embedder" and "words alone" in missing.message and missing.hint == "try again later"
    embedder.down = False
    assert forge.search("Page 7", project="p").degraded == (), "what was degraded is not kept"


@pytest.mark.parametrize(("part", "left"), [("keywords", "vectors"), ("vectors", "keywords")])
def test_R6_an_index_that_is_gone_is_said_and_built_anew(forge: Ragforge, part: str, left: str) -> None:
    whole = forge.search("Page 7", project="p", fresh=True)
    lose(forge, part)
    found = forge.search("Page 7", project="p", fresh=True)
    (missing,) = found.degraded
    assert missing.part == part and "being built anew" in missing.message
    assert found.passages and all(set(passage.ranks) == {left} for passage in found.passages)
    forge._flows.follow.finish()
    again = forge.search("Page 7", project="p", fresh=True)
    assert again.degraded == () and again.passages == whole.passages
    assert faults(forge) == []


@pytest.mark.parametrize(("gone", "alpha", "left"), [("keywords", 0.0, "vectors"), ("vectors", 1.0, "keywords")])
def test_R6_without_the_one_engine_that_counts_the_other_answers(
    forge: Ragforge, gone: str, alpha: float, left: str
) -> None:
    lose(forge, gone)
    found = forge.search("Page 7", project="p", tuning=Tuning(alpha=alpha), fresh=True)
    assert found.passages and {part for passage in found.passages for part in passage.ranks} == {left}
    assert [missing.part for missing in found.degraded] == [gone]


def test_R6_embedder_down_and_no_words_wanted_means_words_all_the_same(forge: Ragforge, embedder: Failing) -> None:
    embedder.down = True
    found = forge.search("Page 7", project="p", tuning=Tuning(alpha=1.0))
    assert found.passages[0].name == "file0007.md" and found.degraded[0].part == "embedder"


def test_R6_with_no_index_left_both_are_built_before_the_answer(forge: Ragforge) -> None:
    whole = forge.search("Page 7", project="p", fresh=True)
    lose_all(forge)
    found = forge.search("Page 7", project="p", fresh=True)
    assert found.degraded == () and found.passages == whole.passages


def test_R6_nothing_found_says_why(forge: Ragforge, embedder: Failing) -> None:
    forge.create_project("empty", embedder="hashing")
    assert "no file of the project has text" in forge.search("anything", project="empty").notice
    for document in forge.documents(project="p"):
        forge.enable([document.id], False, project="p")
    found = forge.search("Page 7", project="p")
    assert found.passages == () and "is ON" in found.notice
    embedder.down = True
    forge.enable(["file0001.md"], True, project="p")
    nothing = forge.search("🙂 ?!", project="p")
    assert nothing.passages == () and nothing.notice and nothing.degraded[0].part == "embedder"
