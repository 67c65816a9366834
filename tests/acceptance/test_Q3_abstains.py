"""Q3: too little evidence, nothing found, or a question of another world: no answer, but why, and what would help."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.domain.answers import Abstention, Answer, TokenEvent, WhyNot
from ragforge.testing.model_server import ModelServer
from tests.forge import open_forge

FILES = {
    "returns.md": "# Returns\n\nA chair can be sent back within 60 days of its delivery. The van collects it.\n",
    "lamps.md": "# Lamps\n\nA lamp that fails within two years is mended without cost.\n",
    "old.md": "# Old\n\nThe warehouse in Tondern was closed in 2011.\n",
}
KNOWN = "When can a chair be sent back?"
FOREIGN = "Which enzyme splits lactose in the small intestine?"


@pytest.fixture
def served() -> Iterator[ModelServer]:
    with ModelServer(reply="Within 60 days of its delivery [1].") as server:
        yield server


@pytest.fixture(params=["offline", "model"])
def forge(request: pytest.FixtureRequest, swift_path: Path, served: ModelServer) -> Iterator[Ragforge]:
    folder = swift_path / "docs"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    model = {"model__name": "openai-compatible:stub", "model__base_url": served.base_url}
    with open_forge(swift_path / "workspace", **(model if request.param == "model" else {})) as forge:
        forge.add(folder, project="p")
        yield forge


def test_Q3_a_question_of_another_world_is_not_answered(forge: Ragforge, served: ModelServer) -> None:
    result = forge.ask(FOREIGN, project="p")
    assert isinstance(result, Abstention) and result.why in (WhyNot.WEAK_EVIDENCE, WhyNot.GATED, WhyNot.NOTHING_FOUND)
    assert result.reason and "lactose" in result.suggestion
    assert not [call for call in served.calls if b'"stream":true' in call.body], "nobody was asked to write an answer"
    assert isinstance(forge.ask(KNOWN, project="p"), Answer)


def test_Q3_words_that_only_ask_are_nothing_to_add_files_on(forge: Ragforge) -> None:
    for question in ("What did Napoleon say?", "Wie lange schlief Napoleon?", "Wie hoch war Napoleon?"):
        result = forge.ask(question, project="p")
        assert isinstance(result, Abstention) and "Napoleon" in result.suggestion
        assert not {"say", "lange", "hoch"} & set(result.suggestion.replace(",", " ").replace(":", " ").split())


def test_Q3_the_nearest_passages_come_along(forge: Ragforge) -> None:
    result = forge.ask("When can a Persian carpet be sent to Norway by ship?", project="p")
    assert isinstance(result, Abstention) and result.nearest[0].name == "returns.md"


def test_Q3_an_empty_project_and_one_that_is_switched_off_say_so(forge: Ragforge) -> None:
    forge.enable(list(FILES), on=False, project="p")
    result = forge.ask(KNOWN, project="p")
    assert isinstance(result, Abstention) and result.why is WhyNot.EMPTY_PROJECT and "ragforge add" in result.suggestion


def test_Q3_the_model_may_say_that_the_passages_do_not_tell(swift_path: Path) -> None:
    def declines(prompt: str) -> str:
        return "NOT IN THE SOURCES: the passages tell the time, not the price."

    (swift_path / "returns.md").write_text(FILES["returns.md"])
    with ModelServer(reply=declines) as served:
        name = {"model__name": "openai-compatible:stub", "model__base_url": served.base_url}
        with open_forge(swift_path / "workspace", **name) as forge:
            forge.add(swift_path / "returns.md", project="p")
            events = list(forge.stream("What does it cost when a chair is sent back?", project="p"))
            result = forge.ask("What does it cost when a chair is sent back?", project="p")
    assert isinstance(result, Abstention) and result.why is WhyNot.MODEL_SAYS
    assert "the passages tell the time, not the price" in result.reason
    assert not any(isinstance(event, TokenEvent) for event in events), "not even the beginning of it was shown"
