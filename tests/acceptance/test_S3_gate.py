"""S3: passages that do not bear on the task are dropped as strictly as asked, each with a reason; never all unsaid."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.domain.answers import Abstention, Answer, Result, WhyNot
from ragforge.domain.retrieval import Verdict
from ragforge.errors import UserError
from ragforge.testing.model_server import SERVER_ERROR, ModelServer
from tests.forge import open_forge
from tests.onnx_files import write_cross_encoder

QUESTION = "When can a chair be sent back?"
FILES = {
    "returns.md": "# Returns\n\nA chair can be sent back within 60 days of its delivery. The van collects it.\n",
    "memo.md": "# Memo\n\nFrom March a chair can be sent back within 30 days only.\n",
    "paint.md": "# Paint\n\nA chair is painted twice before it is sent to the shop.\n",
}


@pytest.fixture
def served() -> Iterator[ModelServer]:
    with ModelServer(reply="Within 60 days of its delivery [1].") as server:
        yield server


@pytest.fixture
def forge(swift_path: Path, served: ModelServer) -> Iterator[Ragforge]:
    folder = swift_path / "docs"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    settings = {
        "model__name": "openai-compatible:stub",
        "model__base_url": served.base_url,
        "ask__whole_project_tokens": 0,
        "store__models_dir": str(swift_path / "models"),
    }
    with open_forge(swift_path / "workspace", **settings) as forge:
        forge.add(folder, project="p")
        yield forge


def gated(result: Result) -> dict[str, Verdict]:
    return {verdict.document: verdict for verdict in result.account.verdicts if verdict.stage == "gate"}


def judges(served: ModelServer, passages: list[str], told: dict[str, tuple[str, float]]) -> None:
    """What the model will say of each passage, in the order in which it gets them."""
    verdicts = [
        {"number": number, "direction": told[name][0], "reason": f"of {name}", "confidence": told[name][1]}
        for number, name in enumerate(passages, 1)
    ]
    served.forms.append(json.dumps({"verdicts": verdicts}))


def test_S3_a_model_judges_and_what_does_not_bear_is_dropped_with_its_reason(
    forge: Ragforge, served: ModelServer
) -> None:
    order = [passage.name for passage in forge.search(QUESTION, project="p").passages]
    judges(
        served, order, {"returns.md": ("supports", 0.9), "memo.md": ("contradicts", 0.8), "paint.md": ("no bearing", 1)}
    )
    result = forge.ask(QUESTION, project="p", stages={"gate"})
    assert isinstance(result, Answer)
    verdicts = gated(result)
    assert {name for name, verdict in verdicts.items() if verdict.kept} == {"returns.md", "memo.md"}
    assert "no bearing: of paint.md" in verdicts["paint.md"].reason
    assert "contradicts: of memo.md" in verdicts["memo.md"].reason, "what speaks against it bears on it"
    assert {source.name for source in result.account.sources} == {"returns.md", "memo.md"}
    assert FILES["paint.md"].splitlines()[2] not in served.calls[-1].prompt


def test_S3_a_gate_that_would_empty_the_context_says_so_and_nothing_is_answered(
    forge: Ragforge, served: ModelServer
) -> None:
    order = [passage.name for passage in forge.search(QUESTION, project="p").passages]
    judges(served, order, dict.fromkeys(FILES, ("no bearing", 1)))
    result = forge.ask(QUESTION, project="p", stages={"gate"})
    assert isinstance(result, Abstention) and result.why is WhyNot.GATED and result.nearest
    assert result.reason == "No passage clearly bears on the question."
    assert any(verdict.kept for verdict in gated(result).values())


def test_S3_a_judge_that_fails_keeps_all_and_is_named(forge: Ragforge, served: ModelServer) -> None:
    served.script(SERVER_ERROR, SERVER_ERROR)
    result = forge.ask(QUESTION, project="p", stages={"gate"})
    assert all(verdict.kept for verdict in gated(result).values())
    assert {missing.part for missing in result.account.degraded} >= {"gate"}


def test_S3_strictness_is_as_asked(forge: Ragforge) -> None:
    lax = forge.ask(QUESTION, project="p", model="offline", strictness=0)
    assert all(verdict.kept for verdict in gated(lax).values())
    strict = forge.ask("When can a chair be sent back to the van?", project="p", model="offline", strictness=1)
    assert not all(verdict.kept for verdict in gated(strict).values())
    with pytest.raises(UserError, match="strictness"):
        forge.ask(QUESTION, project="p", model="offline", strictness=2)
    assert not gated(forge.ask(QUESTION, project="p", model="offline", stages=())), "a stage can be left out"


def test_S3_without_a_model_a_cross_encoder_judges_by_what_it_said_when_it_ranked(
    forge: Ragforge, swift_path: Path
) -> None:
    """This one counts shared words."""
    words = f"{QUESTION.lower()[:-1]} within 60 days of its delivery painted twice before it is to the shop".split()
    write_cross_encoder(swift_path / "models" / "cross-encoder", words, limit=128)
    tuning = replace(forge.tuning(), reranker="cross-encoder")
    answer = forge.ask(QUESTION, project="p", model="offline", tuning=tuning, strictness=1.0, stages=("gate",))
    judged = gated(answer)
    assert set(judged) == set(FILES) and all("cross-encoder" in verdict.reason for verdict in judged.values())
    assert judged["returns.md"].score > judged["paint.md"].score
