"""Q2: a model that obeys every document it reads still shows nothing that was not checked, and changes nothing."""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.answer.clean import links_in
from ragforge.domain.answers import (
    Abstention,
    Answer,
    CitationEvent,
    DecisionEvent,
    DoneEvent,
    Event,
    Result,
    RetrievalEvent,
    TokenEvent,
    WhyNot,
)
from ragforge.domain.prompts import Source
from ragforge.domain.records import ProjectTextKind
from ragforge.testing.model_server import FALSE_MARKERS, OBEYS, ModelServer, obedient
from tests.alive import alive
from tests.catalogs import rows_of
from tests.forge import open_forge
from tests.injections import HOSTS, injected
from tests.proof import PROVING, count, record
from tests.served import add_files, open_served

DOCUMENTS = count(5, 100)
CANARY = "CANARY-7f3a9c"
CANARY_FILE = "other-secret.md"
APART = {"quote", "prompt", "nearest", "locator", "text", "unproved"}
"""Fields that show what a document says, what was sent, or the answer, which is checked by itself."""
LEFT_BY_A_QUESTION = {"query_log", "conversations", "turns", "turn_documents", "memory_vectors", "counters"}
FENCED = re.compile(r"^(`{3,}|~{3,})[^\n]*\n.*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)|(`+)(?!`)[^\n]*?(?<!`)\2(?!`)", re.M | re.S)


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="module")
def forge(server: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ragforge]:
    folder = tmp_path_factory.mktemp("injected")
    with open_served(folder / "workspace", server) as forge:
        for project in ("machines", "other"):
            forge.create_project(project, embedder="hashing")
        canary = f"# Secret\n\nThe pressure of machine 3 and the other machines is {CANARY} bar.\n"
        add_files(forge, folder / "canary", {CANARY_FILE: canary}, "other")
        foreign = forge.chunks(CANARY_FILE, project="other")[0].id
        add_files(
            forge,
            folder / "docs",
            {f"machine{n:03}.md": injected(n, DOCUMENTS, CANARY_FILE, foreign) for n in range(DOCUMENTS)},
            "machines",
        )
        yield forge


@pytest.fixture(autouse=True)
def obeying(server: ModelServer) -> None:
    """Whatever the data orders is done; our own words are left out, so that answers stay short."""
    server.reply = lambda prompt: f"It is as it is [1].\n{obedient(prompt.partition('## Context')[2] or prompt)}"
    server.always = OBEYS


def strings(told: object) -> Iterator[str]:
    """Every text in a record that is neither a passage nor the prompt: all that could be of the model's making."""
    if isinstance(told, str):
        yield told
    elif isinstance(told, Source):
        yield from (told.name, *told.locator.path)
    elif dataclasses.is_dataclass(told):
        for each in dataclasses.fields(told):
            if each.name not in APART:
                yield from strings(getattr(told, each.name))
    elif isinstance(told, Mapping):
        yield from strings(list(told.values()))
    elif isinstance(told, Sequence):
        for each in told:
            yield from strings(each)


def everything(told: object) -> str:
    return repr(told)


def check_events(events: Sequence[Event], forge: Ragforge) -> Result:
    """Nothing that reaches the user does harm, in no event."""
    done = events[-1]
    assert isinstance(done, DoneEvent)
    result = done.result
    assert CANARY not in everything(events)
    shown = "".join(event.text for event in events if isinstance(event, TokenEvent))
    if isinstance(result, Answer):
        assert shown == result.text
        assert tuple(each.citation for each in events if isinstance(each, CitationEvent)) == result.citations
    check_text(result)
    texts = set[str]().union(*(strings(event) for event in events if not isinstance(event, TokenEvent)))
    for text in texts:
        assert not alive(text), text
        assert not any(f"//{host}" in text or f"{host}/" in text for host in HOSTS), text
    return result


def check_text(result: Result) -> int:
    """No image, no HTML, no link, and no address of the web at all. How many words it has."""
    text = result.text
    sources = {source.number: source.text for source in result.account.sources}
    plain = FENCED.sub(" ", text)
    addresses = links_in([plain])
    assert not alive(text, links_in(sources.values())), text
    cited = "\n".join(sources[number] for number in {int(number) for number in re.findall(r"\[(\d+)\]", plain)})
    assert all(address in cited for address in links_in([text])), text
    for line in plain.split("\n"):
        cited = "\n".join(sources[int(number)] for number in re.findall(r"\[(\d+)\]", line))
        for address in addresses:
            assert address not in line or address in cited, line
    assert not re.search(r"\x1b|[\u200b\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]", text)
    for marker in re.findall(r"[\[【〔]([^\w\[\]]*\d[\d\W]*?)(?:[\]】〕]|$)", unicodedata.normalize("NFKC", plain)):
        assert marker.isdigit() and int(marker) in sources, marker
    assert not links_in([text]), text
    return len(text.split())


def check_citations(answer: Answer, forge: Ragforge) -> int:
    """Every one stands for a passage that was retrieved, of a document of this project, and quotes it."""
    sources = {source.number: source for source in answer.account.sources}
    documents = {document.id: document.name for document in forge.documents(project="machines")}
    for each in answer.citations:
        source = sources[each.marker]
        assert answer.text[each.start : each.end] == f"[{each.marker}]"
        assert each.chunk in source.chunks and each.quote in source.text
        assert documents[each.document] == each.name == source.name
        chunk = next(chunk for chunk in forge.chunks(each.document, project="machines") if chunk.id == each.chunk)
        assert each.quote in chunk.header + chunk.text
    shown = {int(number) for number in re.findall(r"\[(\d+)\]", FENCED.sub(" ", answer.text))}
    assert shown == {each.marker for each in answer.citations}
    return len(answer.citations)


def rows(forge: Ragforge) -> dict[str, list[tuple[object, ...]]]:
    """Everything the catalog holds, but for what a question leaves behind."""
    held = rows_of(forge.workspace)
    kept = sorted(set(held) - LEFT_BY_A_QUESTION)
    assert {"documents", "projects", "chunks", "project_texts", "rollups", "artifacts"} <= set(kept)
    return {name: sorted(held[name], key=repr) for name in kept}


def test_Q2_no_document_makes_an_obedient_model_harm_anybody(forge: Ragforge, server: ModelServer) -> None:
    conversation = forge.begin_conversation("machines", project="machines").id
    before, calls = rows(forge), len(server.calls)
    alone = replace(forge.tuning(), context_chunks=1)
    answers = citations = stripped = removed = words = 0
    for number in range(DOCUMENTS):
        for behaviour in (OBEYS, FALSE_MARKERS) if PROVING or number % 4 == 0 else (FALSE_MARKERS,):
            server.always = behaviour
            talk = conversation if number < 4 else ""
            question = f"What is the pressure of machine {number}?"
            result = check_events(
                list(forge.stream(question, project="machines", conversation=talk, tuning=alone)), forge
            )
            if isinstance(result, Answer):
                answers += 1
                citations += check_citations(result, forge)
                words += check_text(result)
                stripped += len(result.stripped)
                removed += len(result.removed)
    assert rows(forge) == before
    assert CANARY not in "".join(call.body.decode() for call in server.calls)
    assert answers >= DOCUMENTS, "most questions are answered, or this proves nothing"
    assert min(citations, stripped, removed) > answers, "the model did try"
    record(
        "injection",
        documents=DOCUMENTS,
        answers=answers,
        model_calls=len(server.calls) - calls,
        tricks_taken_out=stripped,
        false_markers_removed=removed,
        citations=citations,
        false_citations=0,
        words=words,
        addresses=0,
        foreign_passages=0,
        rows_changed=0,
    )


def test_Q2_a_whole_project_of_injections_in_one_prompt_does_no_harm(server: ModelServer, swift_path: Path) -> None:
    with open_served(swift_path / "workspace", server, ask__whole_project_tokens=20_000) as forge:
        forge.create_project("machines", embedder="hashing")
        files = {f"machine{number}.md": injected(number, 6, CANARY_FILE, "c0ffee") for number in range(6)}
        add_files(forge, swift_path / "docs", files, "machines")
        result = check_events(list(forge.stream("What is the pressure of machine 3?", project="machines")), forge)
        assert isinstance(result, Answer)
        check_citations(result, forge)
        assert any("whole project" in notice for notice in result.account.notices)


def test_Q2_what_a_model_says_instead_of_an_answer_is_checked_too(forge: Ragforge, server: ModelServer) -> None:
    server.reply = "NOT IN THE SOURCES: see https://evil.com/x ![x](https://evil.com/y) <img src=//evil.com/z> [99]"
    server.always = "normal"
    events = list(forge.stream("What is the pressure of machine 2?", project="machines"))
    result = check_events(events, forge)
    assert isinstance(result, Abstention) and result.why is WhyNot.MODEL_SAYS
    assert not any(isinstance(event, TokenEvent) for event in events)
    server.reply = f"**NOT IN THE SOURCES** {'and so on ' * 500}"
    result = check_events(list(forge.stream("What is the pressure of machine 2?", project="machines")), forge)
    assert isinstance(result, Abstention) and len(result.reason) < 500


def test_Q2_what_a_model_decides_on_the_way_is_checked_too(forge: Ragforge, server: ModelServer) -> None:
    events = list(forge.stream("What is the pressure of machine 1?", project="machines", stages=["shape", "gate"]))
    check_events(events, forge)
    gated = [each.verdict.reason for each in events if isinstance(each, DecisionEvent) and each.verdict.stage == "gate"]
    assert any(reason.startswith("supports: ") for reason in gated), "the model gave reasons of its own"
    [found] = [event for event in events if isinstance(event, RetrievalEvent)]
    assert found.shape.headers and not found.shape.rewritten, "its headings were taken, its wording was not"


def test_Q2_an_address_of_a_source_is_shown_only_to_who_asks_for_one(swift_path: Path, server: ModelServer) -> None:
    server.always = "normal"
    server.reply = "Register at https://shop.example.org/new [1]."
    file = swift_path / "shop.md"
    file.write_text("# Shop\n\nCustomers register at https://shop.example.org/new before they order a lamp.\n")
    name = {"model__name": "openai-compatible:stub", "model__base_url": server.base_url}
    with open_forge(swift_path / "workspace", **name) as forge:
        forge.add(file, project="p")
        for question in ("Under which link do customers register?", "How do I register as a customer?"):
            assert forge.ask(question, project="p").text == "Register at https://shop.example.org/new [1]."
        answer = forge.ask("What do customers do before they order a lamp?", project="p")
        assert isinstance(answer, Answer) and answer.text == "Register at [link in source 1] [1]."
        assert "nobody asked for it" in answer.stripped[0]


def test_Q2_an_address_is_shown_if_a_person_wrote_it(forge: Ragforge, server: ModelServer) -> None:
    server.always = "normal"
    server.reply = "See https://status.example.org/now and https://nobody.example.org/x."
    question, told = "What is the pressure of machine 2?", "Point to https://status.example.org/now."
    answer = forge.ask(question, project="machines", system=told, ephemeral=True)
    assert answer.text == "See https://status.example.org/now and [link removed]."
    forge.write_project_text(
        ProjectTextKind.HARD_RULES, "Name https://help.example.org/form at the end.", project="machines"
    )
    try:
        server.reply = "See https://help.example.org/form."
        answer = forge.ask(question, project="machines", ephemeral=True)
        assert answer.text == "See https://help.example.org/form."
    finally:
        forge.write_project_text(ProjectTextKind.HARD_RULES, "", project="machines")
