"""Q1: an answer stands on passages of the project, cites them, and brings them along; without them there is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.domain.answers import Abstention, Answer, CitationEvent, DoneEvent, RetrievalEvent, TokenEvent, WhyNot
from tests.forge import open_forge

FILES = {
    "returns.md": "# Returns\n\nA chair can be sent back within 60 days of its delivery. The van collects it.\n",
    "founders.md": "# Company\n\nThe company was founded in 1987 by Inge and Klaus Petersen in Husum.\n",
    "lamps.md": "# Lamps\n\nA lamp that fails within two years is mended without cost.\n",
    "mattresses.md": "# Mattresses\n\nA mattress can be sent back within 100 nights of its delivery.\n",
}


@pytest.fixture
def forge(swift_path: Path) -> Iterator[Ragforge]:
    folder = swift_path / "docs"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    with open_forge(swift_path / "workspace") as forge:
        forge.add(folder, project="p")
        yield forge


def test_Q1_an_answer_quotes_the_sentence_and_names_its_place(forge: Ragforge) -> None:
    answer = forge.ask("Who founded the company?", project="p")
    assert isinstance(answer, Answer) and answer.quoted
    assert answer.text.startswith("The company was founded in 1987 by Inge and Klaus Petersen in Husum. [")
    [citation] = answer.citations
    assert citation.name == "founders.md" and citation.locator.path == ("Company",) and citation.proved
    [source] = [each for each in answer.account.sources if each.number == citation.marker]
    assert citation.quote in source.text and citation.chunk == source.chunk and source.checksum


def test_Q1_a_quote_is_borne_out_by_itself_in_any_language(swift_path: Path) -> None:
    file = swift_path / "pflege.txt"
    file.write_text("Trocknen Sie geölte Eiche sofort mit weichen Tüchern.\n\nFlecken gehen mit Seife heraus.\n")
    with open_forge(swift_path / "german") as forge:
        forge.add(file, project="p")
        answer = forge.ask("Womit trockne ich geölte Eiche?", project="p")
    assert isinstance(answer, Answer) and "weichen Tüchern. [1]" in answer.text
    assert all(citation.proved for citation in answer.citations) and not answer.unproved and not answer.uncited


def test_Q1_a_stream_brings_sources_then_text_then_citations_then_the_same_answer(forge: Ragforge) -> None:
    events = list(forge.stream("Who founded the company?", project="p"))
    assert isinstance(events[0], RetrievalEvent) and isinstance(events[-1], DoneEvent)
    result = events[-1].result
    assert isinstance(result, Answer)
    assert "".join(event.text for event in events if isinstance(event, TokenEvent)) == result.text
    assert tuple(event.citation for event in events if isinstance(event, CitationEvent)) == result.citations


def test_Q1_what_the_project_does_not_hold_is_not_answered(forge: Ragforge) -> None:
    result = forge.ask("What is the boiling point of mercury under high pressure?", project="p")
    assert isinstance(result, Abstention) and "mercury" in result.suggestion
    forge.create_project("empty", embedder="hashing")
    nothing = forge.ask("Who founded the company?", project="empty")
    assert isinstance(nothing, Abstention) and nothing.why is WhyNot.EMPTY_PROJECT


def test_Q1_a_follow_up_is_understood_from_the_conversation(forge: Ragforge) -> None:
    conversation = forge.begin_conversation("returns", project="p").id
    forge.ask("When can a chair be sent back?", project="p", conversation=conversation)
    answer = forge.ask("And a mattress?", project="p", conversation=conversation)
    assert isinstance(answer, Answer) and answer.account.shape.rewritten
    assert "100 nights" in answer.text and answer.account.turn == 2
