"""Q1: a small project goes to the model whole, and it is said; a file that is named can be cited like a passage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.domain.answers import Abstention, Answer
from ragforge.domain.retrieval import Filters
from ragforge.testing.model_server import ModelServer
from tests.forge import open_forge

FILES = {
    "returns.md": "# Returns\n\nA chair can be sent back within 60 days of its delivery. The van collects it.\n",
    "lamps.md": "# Lamps\n\nA lamp that fails within two years is mended without cost.\n",
    "shop.toml": '[server]\nport = 8125\nname = "husum"\n',
}
WHOLE = "the whole project is in the prompt: 3 files"


@pytest.fixture
def served() -> Iterator[ModelServer]:
    with ModelServer(reply="Within 60 days of its delivery [1].") as server:
        yield server


def opened(folder: Path, served: ModelServer, **settings: object) -> Ragforge:
    (folder / "docs").mkdir(exist_ok=True)
    for name, text in FILES.items():
        (folder / "docs" / name).write_text(text)
    forge = open_forge(
        folder / "workspace", model__name="openai-compatible:stub", model__base_url=served.base_url, **settings
    )
    forge.add(folder / "docs", project="p")
    return forge


def test_Q1_a_small_project_is_sent_whole_and_it_is_said(swift_path: Path, served: ModelServer) -> None:
    with opened(swift_path, served) as forge:
        answer = forge.ask("When can a chair be sent back?", project="p")
        assert isinstance(answer, Answer)
        assert any(notice.startswith(WHOLE) for notice in answer.account.notices)
        sent = served.calls[-1].prompt
        assert all(line in sent for text in FILES.values() for line in text.splitlines() if line)
        assert [citation.name for citation in answer.citations] == ["returns.md"], "the best stands first"
        foreign = forge.ask("Which enzyme splits lactose in the small intestine?", project="p")
        assert isinstance(foreign, Abstention), "whether there is enough to answer from is judged all the same"


def test_Q1_what_is_off_filtered_or_too_large_is_not_sent_whole(swift_path: Path, served: ModelServer) -> None:
    with opened(swift_path, served) as forge:
        forge.enable(["lamps.md"], on=False, project="p")
        forge.ask("When can a chair be sent back?", project="p")
        assert "mended without cost" not in served.calls[-1].prompt
        narrowed = forge.ask("When can a chair be sent back?", project="p", filters=Filters(documents=("returns.md",)))
        assert "port = 8125" not in served.calls[-1].prompt
        assert not any(notice.startswith("the whole project") for notice in narrowed.account.notices)
    with opened(swift_path, served, ask__whole_project_tokens=10) as forge:
        large = forge.ask("When can a chair be sent back?", project="p")
        assert not any(notice.startswith("the whole project") for notice in large.account.notices)


def test_Q1_a_named_file_is_cited_with_its_chunk(swift_path: Path, served: ModelServer) -> None:
    served.reply = lambda prompt: f"The port is 8125 [{prompt.split('] shop.toml')[0].rsplit('[', 1)[1]}]."
    with opened(swift_path, served, ask__whole_project_tokens=0) as forge:
        answer = forge.ask("Which port does shop.toml name?", project="p")
        chunks = {chunk.id for chunk in forge.chunks("shop.toml", project="p")}
    assert isinstance(answer, Answer) and not answer.removed and not answer.unproved
    [citation] = answer.citations
    assert citation.name == "shop.toml" and citation.chunk in chunks and "port = 8125" in citation.quote


def test_Q1_offline_a_named_file_is_where_is_looked(swift_path: Path, served: ModelServer) -> None:
    with opened(swift_path, served) as forge:
        answer = forge.ask("Which port does shop.toml name?", project="p", model="offline")
    assert isinstance(answer, Answer) and "8125" in answer.text
    assert {source.name for source in answer.account.sources} == {"shop.toml"}
