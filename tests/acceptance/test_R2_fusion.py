"""R2: words and meaning become one list, by reciprocal rank or by a blend of normalised scores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.domain.cancel import Cancel
from ragforge.domain.retrieval import Retrieved, Stage, Tuning, Verdict
from ragforge.domain.tokens import Vector
from ragforge.testing.hashing import HashingEmbedder
from tests.forge import open_forge

FILES = {
    "words.md": "The refund window of the old harbour is a refund window like any other refund window.",
    "meaning.md": "Lanterns glow over copper meadows all night long.",
    "both.md": "A refund window for lanterns that glow over copper meadows.",
    "neither.md": "Seven grey stones lie beside the road.",
}
QUESTION = "refund window"


class Unasked(HashingEmbedder):
    """Must not be asked for the meaning of a question."""

    def embed_query(self, text: str, cancel: Cancel) -> Vector:
        raise AssertionError("words alone need no vector")


@pytest.fixture
def forge(swift_path: Path) -> Iterator[Ragforge]:
    folder = swift_path / "docs"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    with open_forge(swift_path / "workspace") as forge:
        forge.add(folder, project="p")
        yield forge


@pytest.fixture
def meaning() -> Vector:
    """The question as an embedder would see it that knows what refunds and lanterns have in common."""
    return HashingEmbedder(64).embed_query("lanterns glow over copper meadows all night long", Cancel())


def names(found: Retrieved) -> list[str]:
    return [passage.name for passage in found.passages]


def test_R2_alpha_moves_from_words_to_meaning(forge: Ragforge, meaning: Vector) -> None:
    first = {
        alpha: names(forge.search(QUESTION, project="p", vector=meaning, tuning=Tuning(alpha=alpha)))[0]
        for alpha in (0.0, 0.6, 1.0)
    }
    assert first == {0.0: "words.md", 0.6: "both.md", 1.0: "meaning.md"}


@pytest.mark.parametrize("fusion", ["weighted", "rrf"])
def test_R2_words_alone_brings_only_what_holds_one_and_needs_no_model(
    swift_path: Path, forge: Ragforge, fusion: str
) -> None:
    words = Tuning(alpha=0, fusion=fusion)
    assert names(forge.search(QUESTION, project="p", tuning=words)) == ["words.md", "both.md"]
    with open_forge(swift_path / "workspace", Unasked(64)) as other:
        assert names(other.search(QUESTION, project="p", tuning=words)) == ["words.md", "both.md"]


def test_R2_words_alone_fill_k(swift_path: Path) -> None:
    folder = swift_path / "many"
    folder.mkdir()
    for number in range(60):
        (folder / f"{number}.md").write_text(f"Refund number {number} of the window with the sign {number * 7919}.")
    with open_forge(swift_path / "workspace") as forge:
        forge.add(folder, project="p")
        found = forge.search("refund window", project="p", tuning=Tuning(alpha=0, k=50, duplicates=1))
        assert len(found.passages) == 50


def test_R2_reciprocal_rank_counts_places(forge: Ragforge, meaning: Vector) -> None:
    found = forge.search(QUESTION, project="p", vector=meaning, tuning=Tuning(fusion="rrf", alpha=0.5))
    assert names(found)[0] == "both.md"
    for passage in found.passages:
        expected = sum(61 / (60 + rank) for rank in passage.ranks.values()) / 2
        assert passage.score == pytest.approx(expected)


@pytest.mark.parametrize("fusion", ["weighted", "rrf"])
def test_R2_every_candidate_comes_once_with_both_scores_and_a_reason(
    forge: Ragforge, meaning: Vector, fusion: str
) -> None:
    found = forge.explain(QUESTION, project="p", vector=meaning, tuning=Tuning(fusion=fusion))
    assert sorted(names(found)) == sorted(FILES)
    assert all(0 <= passage.score <= 1 for passage in found.passages)
    reasons = {verdict.document: verdict.reason for verdict in _fused(found)}
    assert reasons["both.md"] == "found by words and by meaning"
    assert reasons["neither.md"] == "found by meaning"


@pytest.mark.parametrize("fusion", ["weighted", "rrf"])
@pytest.mark.parametrize("question", ["L-2511", "What is l-2511?", "lanterns glow over copper meadows, L-2511"])
def test_R2_who_writes_a_code_gets_the_passages_that_hold_it(
    swift_path: Path, meaning: Vector, question: str, fusion: str
) -> None:
    folder = swift_path / "codes"
    folder.mkdir()
    for number in range(2500, 2540):
        (folder / f"{number}.md").write_text(f"Lamp L-{number}: lanterns glow over copper meadows all night long.")
    (folder / "2511.md").write_text(f"{'Seven grey stones lie beside the long road. ' * 9}See also the sheet L-2511.")
    with open_forge(swift_path / "workspace") as forge:
        forge.add(folder, project="p")
        ask = Tuning(fusion=fusion, duplicates=1)
        found = forge.explain(question, project="p", vector=meaning, tuning=ask)
        assert names(found)[0] == "2511.md"
        first = found.passages[0]
        assert "L-2511" in first.text
        assert [v.reason for v in _fused(found) if v.chunk == first.chunk] == ["holds a code of the question"]
        assert [passage.score for passage in found.passages] == sorted((p.score for p in found.passages), reverse=True)
        (folder / "new.md").write_text("A new sheet on L-2511 that the indexes have not seen.")
        forge._flows.follow.catch_up = lambda *_, **__: True  # type: ignore[method-assign]
        forge.add(folder / "new.md", project="p")
        assert set(names(forge.search(question, project="p", vector=meaning, tuning=ask))[:2]) == {"2511.md", "new.md"}


def test_R2_a_code_that_stands_everywhere_tells_nothing(swift_path: Path, meaning: Vector) -> None:
    folder = swift_path / "codes"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number}.md").write_text(f"Norm EN-1335, part {number}: lanterns of the kind {number * 7919}.")
    (folder / "meant.md").write_text("Lanterns glow over copper meadows all night long.")
    with open_forge(swift_path / "workspace") as forge:
        forge.add(folder, project="p")
        found = forge.search("EN-1335 glow meadows", project="p", vector=meaning, tuning=Tuning(alpha=0.7))
        assert names(found)[0] == "meant.md"


def test_R2_what_one_engine_did_not_find_still_has_its_true_score(forge: Ragforge, meaning: Vector) -> None:
    """Only one candidate of each engine is asked for: the other's score of it is not zero for that."""
    tuning = Tuning(k=2, keyword_candidates=1, vector_candidates=1, alpha=0.5)
    found = {
        passage.name: passage for passage in forge.search(QUESTION, project="p", vector=meaning, tuning=tuning).passages
    }
    assert set(found) == {"words.md", "meaning.md"}
    everything = {passage.name: passage for passage in forge.search(QUESTION, project="p", vector=meaning).passages}
    for name, passage in found.items():
        assert passage.scores == pytest.approx(everything[name].scores, abs=1e-5)
        assert len(passage.ranks) == 1


def _fused(found: Retrieved) -> list[Verdict]:
    assert found.trace is not None
    return [verdict for verdict in found.trace.verdicts if verdict.stage is Stage.FUSE]
