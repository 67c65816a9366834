"""R3: an optional reranker orders the best anew; near-identical chunks are dropped, and the reason is kept."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.domain.cancel import Cancel
from ragforge.domain.retrieval import Retrieved, Stage, Tuning
from ragforge.errors import UserError
from ragforge.testing.hashing import HashingEmbedder
from tests.forge import open_forge
from tests.onnx_files import write_cross_encoder

POLICY = (
    "A chair can be sent back within thirty days of its delivery. The money comes back to the card that paid for it, "
    "less the cost of the journey, once the workshop has looked at the chair and found it whole."
)
FILES = {
    "policy.md": f"# Returns\n\n{POLICY}\n",
    "copy.md": f"# Returns\n\n{POLICY.replace('thirty', 'forty').replace('workshop', 'warehouse')}\n",
    "same.txt": f"# Returns\n\n{POLICY}\n\n",
    "lamps.md": "# Lamps\n\nA lamp that fails within two years is mended without cost.\n",
    "chair.md": "# Chairs\n\nChair chair chair: we make every chair by hand.\n",
}
QUESTION = "chair money back"


@pytest.fixture
def forge(swift_path: Path) -> Iterator[Ragforge]:
    folder = swift_path / "docs"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    with open_forge(swift_path / "workspace", store__models_dir=str(swift_path / "models")) as forge:
        forge.create_project("q", embedder="hashing")
        forge.add(folder, project="q")
        yield forge


def names(found: Retrieved) -> list[str]:
    return [passage.name for passage in found.passages]


def reasons(found: Retrieved, stage: Stage) -> dict[str, str]:
    assert found.trace is not None
    return {verdict.document: verdict.reason for verdict in found.trace.verdicts if verdict.stage is stage}


def test_R3_of_near_identical_chunks_the_best_stays_and_the_reason_is_kept(forge: Ragforge) -> None:
    found = forge.explain(QUESTION, project="q", tuning=Tuning(duplicates=0.7))
    alike = {"policy.md", "copy.md", "same.txt"}
    [stays] = alike.intersection(names(found))
    told = reasons(found, Stage.DEDUPE)
    [best] = [passage for passage in found.passages if passage.name == stays]
    for name in alike - {stays}:
        assert told[name].startswith(f"repeats {best.chunk} in {stays} (")
    assert {"lamps.md", "chair.md"} <= set(names(found))


def test_R3_duplicates_1_keeps_all_but_the_identical(forge: Ragforge) -> None:
    found = forge.explain(QUESTION, project="q", tuning=Tuning(duplicates=1.0))
    assert len({"policy.md", "same.txt"}.intersection(names(found))) == 1
    assert "copy.md" in names(found)
    assert sum("(100 %)" in reason for reason in reasons(found, Stage.DEDUPE).values()) == 1


def test_R3_cosine_orders_a_subset_by_meaning_alone(forge: Ragforge) -> None:
    vector = HashingEmbedder(64).embed_query("a lamp that fails within two years is mended", Cancel())
    plain = forge.search(QUESTION, project="q", vector=vector, tuning=Tuning(alpha=0.1))
    assert names(plain)[0] != "lamps.md"
    tuning = Tuning(alpha=0.1, reranker="cosine")
    found = forge.explain(QUESTION, project="q", vector=vector, tuning=tuning)
    assert names(found)[0] == "lamps.md"
    assert reasons(found, Stage.RERANK)["lamps.md"].startswith("cosine puts it at 1, up from")
    cosines = [passage.scores["vectors"] for passage in found.passages]
    assert cosines == sorted(cosines, reverse=True)


def test_R3_a_cross_encoder_in_a_local_folder_reads_question_and_text(forge: Ragforge, swift_path: Path) -> None:
    """The model counts shared words: repeating one of them helps with BM25, not here."""
    words = f"{QUESTION} a can be sent within days of its the comes to card that paid for".split()
    write_cross_encoder(swift_path / "models" / "cross-encoder", words, limit=128)
    found = forge.search(QUESTION, project="q", tuning=Tuning(alpha=0.0, reranker="cross-encoder"))
    assert found.degraded == ()
    assert names(found)[0] in ("policy.md", "copy.md", "same.txt")
    scores = [passage.scores["rerank"] for passage in found.passages]
    assert scores == sorted(scores, reverse=True) and scores[0] > scores[-1]


@pytest.mark.parametrize(
    ("reranker", "hint"), [("cross-encoder", "model.onnx"), ("cohere:rerank-v3.5", "COHERE_API_KEY")]
)
def test_R3_a_reranker_that_is_not_there_is_said_and_the_order_stays(
    forge: Ragforge, reranker: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COHERE_API_KEY", raising=False)
    found = forge.search(QUESTION, project="q", tuning=Tuning(reranker=reranker))
    assert names(found) == names(forge.search(QUESTION, project="q"))
    [missing] = found.degraded
    assert missing.part == "reranker" and hint in missing.hint


def test_R3_searches_do_not_queue_while_others_wait_for_their_reranker(forge: Ragforge) -> None:
    count = (os.cpu_count() or 2) + 2
    together = threading.Barrier(count, timeout=20)

    class Service:
        name = "cohere:slow"

        def score(self, question: str, texts: Sequence[str], cancel: Cancel) -> list[float]:
            together.wait()  # passes only when all are here at once
            return [0.5] * len(texts)

    forge._parts._rerankers["cohere:slow"] = Service()
    ask = partial(forge.search, project="q", tuning=Tuning(reranker="cohere:slow"), fresh=True)
    with ThreadPoolExecutor(count) as threads:
        assert all(not found.degraded for found in threads.map(ask, [QUESTION] * count))


@pytest.mark.parametrize("name", ["cosin", "cohere", "nobody:model", "cohere:"])
def test_R3_a_misspelt_reranker_is_refused_before_anything_is_searched(forge: Ragforge, name: str) -> None:
    with pytest.raises(UserError, match="no reranker is called") as caught:
        forge.search("words that occur nowhere", project="q", tuning=Tuning(reranker=name))
    assert "cosine, cross-encoder" in caught.value.hint
