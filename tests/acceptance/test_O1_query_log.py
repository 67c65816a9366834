"""O1: every question is logged with what it took, its request id goes through every provider call, work is counted."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.build import utc_now
from ragforge.domain.answers import Abstention, Answer
from ragforge.errors import NotFound, ProviderError, UserError
from ragforge.testing.model_server import UNAUTHORIZED, ModelServer
from tests.forge import open_forge, places_of

FILES = {
    "returns.md": "# Returns\n\nA chair can be sent back within 60 days of its delivery. The van collects it.\n",
    "founders.md": "# Company\n\nThe company was founded in 1987 by Inge and Klaus Petersen in Husum.\n",
    "mattresses.md": "# Mattresses\n\nA mattress can be sent back within 100 nights of its delivery.\n",
}
QUESTION = "When can a chair be sent back?"
CANARY = "zanzibarquokka"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(reply="A chair can be sent back within 60 days [1].") as server:
        yield server


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files, and a workspace that holds them, to be copied."""
    folder = tmp_path_factory.mktemp("filled")
    (folder / "docs").mkdir()
    for name, text in FILES.items():
        (folder / "docs" / name).write_text(text)
    with open_forge(folder / "workspace") as forge:
        forge.add(folder / "docs", project="p")
    return folder


@pytest.fixture
def docs(filled: Path, swift_path: Path) -> Path:
    shutil.copytree(filled, swift_path, dirs_exist_ok=True)
    return swift_path / "docs"


@pytest.fixture
def forge(docs: Path, server: ModelServer) -> Iterator[Ragforge]:
    with served(docs, server) as forge:
        yield forge


def served(docs: Path, server: ModelServer, **settings: object) -> Ragforge:
    """A workspace whose model is the server, and whose profile `cheap` has a model of its own there."""
    names = {"model__name": "openai-compatible:stub", "model__cheap": "openai-compatible:small"}
    address = {"model__base_url": server.base_url, "ask__whole_project_tokens": 0, "model__window": 16_000}
    return open_forge(docs.parent / "workspace", **names, **address, **settings)


def test_O1_an_answer_is_logged_with_everything(forge: Ragforge, server: ModelServer) -> None:
    before = utc_now() - timedelta(seconds=1)
    talk = forge.begin_conversation("chairs", project="p").id
    answer = forge.ask(QUESTION, project="p", agent="librarian", conversation=talk)
    assert isinstance(answer, Answer)
    (entry,) = forge.query_log(project="p")
    account = answer.account
    assert (entry.kind, entry.question, entry.agent, entry.conversation) == ("answer", QUESTION, "librarian", talk)
    assert before <= entry.asked_at <= utc_now()
    assert entry.chunks == tuple((source.chunk, source.score) for source in account.sources) and entry.chunks
    assert entry.k == forge.tuning().context_chunks
    assert (entry.model, entry.profile) == ("openai-compatible:small", "cheap")
    assert entry.retrieval_ms > 0 and entry.generation_ms > 0
    assert entry.input_tokens == account.usage.input_tokens > 0
    assert entry.output_tokens == account.usage.output_tokens > 0
    assert entry.cost == account.usage.cost == Decimal(0), "a model on this machine costs nothing"
    assert (entry.error, entry.feedback, entry.note) == ("", "", "")
    document = forge.document("returns.md", project="p")
    assert entry.cited == (document.id,)
    places = forge.places([chunk for chunk, _ in entry.chunks], project="p")
    assert places[entry.chunks[0][0]].name == "returns.md"
    assert places[entry.chunks[0][0]].locator.path == ("Returns",)


def test_O1_the_request_id_goes_through_every_provider_call(forge: Ragforge, server: ModelServer) -> None:
    answer = forge.ask(QUESTION, project="p")
    (entry,) = forge.query_log(project="p")
    sent = [call.headers["x-request-id"] for call in server.calls]
    assert len(sent) > 1, "the small work before the answer is a call too"
    assert set(sent) == {entry.id} == {answer.account.trace_id}
    forge.ask(QUESTION, project="p")
    assert len({call.headers["x-request-id"] for call in server.calls}) == 2


def test_O1_a_rewritten_question_is_logged_as_typed_and_as_searched(forge: Ragforge) -> None:
    talk = forge.begin_conversation("returns", project="p").id
    for question in (QUESTION, "And a mattress?"):
        forge.ask(question, project="p", conversation=talk, model="offline")
    latest, first = forge.query_log(project="p")
    assert (first.question, first.standalone) == (QUESTION, "")
    assert latest.question == "And a mattress?" and "mattress" in latest.standalone and "sent back" in latest.standalone
    assert (latest.model, latest.input_tokens, latest.output_tokens) == ("", 0, 0)


def test_O1_abstentions_and_failures_are_logged_too(forge: Ragforge, server: ModelServer) -> None:
    nothing = forge.ask("What is the boiling point of mercury under high pressure?", project="p", model="offline")
    assert isinstance(nothing, Abstention)
    server.always = UNAUTHORIZED
    quoted = forge.ask(QUESTION, project="p")
    assert isinstance(quoted, Answer) and quoted.quoted
    locked = "Only returns.md, please: when can a chair be sent back?"
    with pytest.raises(ProviderError):  # nothing was searched, so nothing can be quoted
        forge.ask(locked, project="p", lock=True)
    failed, fallen_back, abstained = forge.query_log(project="p")
    assert (abstained.kind, abstained.error, abstained.cited) == ("abstention", "", ())
    assert fallen_back.kind == "answer" and "wants a key" in fallen_back.error and fallen_back.cited
    assert failed.kind == "error" and "wants a key" in failed.error
    assert failed.question == locked


def test_O1_the_log_can_be_switched_off(docs: Path, server: ModelServer) -> None:
    with served(docs, server, ask__log=False) as forge:
        assert isinstance(forge.ask(f"{QUESTION} {CANARY}", project="p"), Answer)
        assert forge.query_log(project="p") == []
        with pytest.raises(NotFound, match="no question in the log 'last'"):
            forge.logged("last", project="p")
    assert places_of(CANARY.encode(), docs.parent / "workspace") == []


def test_O1_an_ephemeral_question_is_in_no_log(forge: Ragforge) -> None:
    forge.ask(f"{QUESTION} {CANARY}", project="p", ephemeral=True)
    assert forge.query_log(project="p") == []


def test_O1_what_was_spent_is_summed_up(forge: Ragforge) -> None:
    for how in ({}, {"agent": "librarian"}, {"model": "premium"}, {"model": "offline"}):
        forge.ask(QUESTION, project="p", **how)  # type: ignore[arg-type]  # a dict of options
    by_model = {each.name: each for each in forge.spent(project="p")}
    assert {name: each.questions for name, each in by_model.items()} == {
        "": 1,
        "openai-compatible:small": 1,
        "openai-compatible:stub": 2,
    }
    assert by_model["openai-compatible:stub"].input_tokens > 0 and by_model[""].input_tokens == 0
    profiles = {each.name: each.questions for each in forge.spent(by="profile", project="p")}
    assert profiles == {"": 2, "cheap": 1, "premium": 1}
    agents = {each.name: each.questions for each in forge.spent(by="agent", project="p")}
    assert agents == {"": 3, "librarian": 1}
    days = forge.spent(by="day", project="p")
    assert sum(each.questions for each in days) == 4 and days[-1].name == f"{utc_now():%Y-%m-%d}"
    assert forge.spent(project="p", since=utc_now() + timedelta(minutes=1)) == []
    with pytest.raises(UserError, match="cannot sum by 'moon'"):
        forge.spent(by="moon", project="p")


def test_O1_old_questions_are_removed_without_a_trace(forge: Ragforge, docs: Path) -> None:
    forge.ask(f"{QUESTION} {CANARY}", project="p", model="offline")
    workspace = docs.parent / "workspace"
    assert places_of(CANARY.encode(), workspace)
    assert forge.prune_log(utc_now() - timedelta(days=1), project="p") == 0
    assert forge.prune_log(utc_now() + timedelta(seconds=1), project="p") == 1
    assert forge.query_log(project="p") == [] and places_of(CANARY.encode(), workspace) == []


def test_O1_files_chunks_and_calls_are_counted(docs: Path, server: ModelServer) -> None:
    shutil.rmtree(docs.parent / "workspace")
    with served(docs, server) as forge:
        assert set(forge.counters().values()) == {0}
        forge.add(docs, project="p")
        forge.add(docs, project="p")  # nothing new
        (docs / "empty.md").write_text("")
        forge.add(docs / "empty.md", project="p")
        added = forge.counters()
        assert added["files"] == 3
        assert added["chunks"] == sum(document.chunks for document in forge.documents(project="p"))
        assert added["embedding_calls"] >= 1 and added["searches"] == 0
        forge.search(QUESTION, project="p")
        searched = forge.counters()
        assert (searched["searches"], searched["embedding_calls"]) == (1, added["embedding_calls"] + 1)
        forge.ask(QUESTION, project="p")
        assert forge.counters()["provider_calls"] == len(server.calls) > 0
        list(forge.stream("What is the boiling point of mercury?", project="p", model="offline"))
        server.always = UNAUTHORIZED
        with pytest.raises(ProviderError):
            forge.ask("Only returns.md, please: when can a chair be sent back?", project="p", lock=True)
        counted = forge.counters()
        assert counted["provider_calls"] == len(server.calls), "also those that failed"
    assert (counted["answered"], counted["abstained"], counted["failed"]) == (1, 1, 1)
