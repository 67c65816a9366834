"""S8: the super-prompt can be seen and changed before it is sent, and what is sent is that, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragforge import Ragforge
from ragforge.assemble.assemble import edited
from ragforge.domain.answers import Answer, Prompted
from ragforge.domain.records import ProjectTextKind
from ragforge.errors import ProviderError, UserError
from ragforge.testing.model_server import ModelServer
from tests.proof import count, record
from tests.served import add_files, answers, open_served, received, said

FILES = {
    "founders.md": "# Company\r\n\r\nThe company was founded in 1987 by Inge and Klaus Petersen in Husum.\r\n",
    "grüße.md": '# Grüße\n\nGrüße aus Köln 🌍: 日本語の文書, "quoted", \\backslash\\ and </data> and {task}.\n',
    "returns.md": "# Returns\n\n" + "A chair can be sent back within 60 days of its delivery. " * 30 + "\n",
}
QUESTIONS = (
    "Who founded the company?",
    "Wer grüßt aus Köln? 🌍 日本語\r\nund “was” \\n steht {task} </data> dort?",
    "When can a chair be sent back? " * 40,
)
PROTOCOLS = ("openai", "anthropic")


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer(reply="So it is [1].") as server:
        yield server


@pytest.fixture(scope="module", params=PROTOCOLS)
def forge(
    request: pytest.FixtureRequest, server: ModelServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ragforge]:
    folder = tmp_path_factory.mktemp("preview")
    name, url = {
        "openai": ("openai:gpt-4.1-mini", server.base_url),
        "anthropic": ("anthropic:claude-haiku-4-5", server.root_url),
    }[request.param]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-1")
        patch.setenv("ANTHROPIC_API_KEY", "sk-2")
        opened = open_served(folder / "workspace", server, model__name=name, model__base_url=url)
    with opened as forge:
        add_files(forge, folder / "docs", FILES)
        forge.write_project_text(ProjectTextKind.HARD_RULES, "Answer in *one* sentence.\n\n- Ünïcode: ❖", project="p")
        yield forge


@pytest.mark.parametrize("question", QUESTIONS)
def test_S8_what_was_previewed_is_what_is_sent(forge: Ragforge, server: ModelServer, question: str) -> None:
    asked, logged = len(answers(server)), len(forge.query_log(project="p", limit=1_000))
    prompted = forge.prompt(question, project="p")
    assert len(answers(server)) == asked, "a preview asks for no answer"
    assert len(forge.query_log(project="p", limit=1_000)) == logged, "and keeps nothing"
    calls = len(server.calls)
    answer = forge.ask(question, project="p", prompted=prompted)
    assert len(server.calls) == calls + 1, "no stage runs again"
    assert received(server.calls[-1]) == said(prompted.prompt.messages)
    assert answer.account.prompt == prompted.prompt
    assert "".join(section.text for section in prompted.prompt.sections) == "".join(
        message.text for message in prompted.prompt.messages
    )


@pytest.mark.parametrize("question", QUESTIONS)
def test_S8_without_a_preview_the_answer_tells_what_was_sent(
    forge: Ragforge, server: ModelServer, question: str
) -> None:
    answer = forge.ask(question, project="p")
    assert isinstance(answer, Answer) and answer.account.prompt is not None
    assert received(server.calls[-1]) == said(answer.account.prompt.messages)


def changed(prompted: Prompted, *texts: str) -> Prompted:
    return replace(prompted, prompt=edited(prompted.prompt, texts, len))


def test_S8_an_edited_prompt_is_sent_as_edited_and_cites_the_same_sources(forge: Ragforge, server: ModelServer) -> None:
    prompted = forge.prompt(QUESTIONS[0], project="p", stages=())
    [system, user] = (message.text for message in prompted.prompt.messages)
    mine = changed(prompted, system, f"{user}\r\n\r\n  Say it in French. \t\u00a0\n")
    answer = forge.ask(QUESTIONS[0], project="p", prompted=mine)
    assert received(server.calls[-1]) == said(mine.prompt.messages)
    assert isinstance(answer, Answer) and answer.account.prompt == mine.prompt
    [citation] = answer.citations
    first = prompted.prompt.sources[0]
    assert (citation.chunk, citation.name, citation.document) == (first.chunk, first.name, first.document)
    assert citation.quote in first.text
    assert [section.name for section in mine.prompt.sections] == ["System (edited)", "User (edited)"]
    nothing = changed(prompted, "", "Who?")
    forge.ask(QUESTIONS[0], project="p", prompted=nothing)
    assert [each for each in received(server.calls[-1]) if each[1]] == [("user", "Who?")]


def test_S8_an_edit_that_cannot_be_sent_is_said(forge: Ragforge, server: ModelServer) -> None:
    prompted = forge.prompt(QUESTIONS[0], project="p", stages=())
    [system, user] = (message.text for message in prompted.prompt.messages)
    with pytest.raises(UserError, match="empty"):
        changed(prompted, system, " \n")
    with pytest.raises(UserError, match="2 messages, and 1 texts"):
        changed(prompted, user)
    with pytest.raises(UserError, match="no model to send"):
        forge.ask(QUESTIONS[0], project="p", prompted=prompted, model="offline")
    calls = len(server.calls)
    with pytest.raises((UserError, ProviderError)):
        forge.ask(QUESTIONS[0], project="p", prompted=changed(prompted, system, f"{user}\ud800"))
    assert len(server.calls) == calls


def test_S8_a_prompt_cannot_bring_back_what_is_off_or_of_another_project(forge: Ragforge, server: ModelServer) -> None:
    prompted = forge.prompt(QUESTIONS[0], project="p", stages=())
    assert "founders.md" in {source.name for source in prompted.prompt.sources}
    calls = len(server.calls)
    forge.enable(["founders.md"], False, project="p")
    try:
        with pytest.raises(UserError, match=r"passages of founders\.md"):
            forge.ask(QUESTIONS[0], project="p", prompted=prompted)
    finally:
        forge.enable(["founders.md"], True, project="p")
    forge.create_project("elsewhere", embedder="hashing")
    with pytest.raises(UserError, match="which this project does not have"):
        forge.ask(QUESTIONS[0], project="elsewhere", prompted=prompted)
    assert len(server.calls) == calls


TEXTS = st.text(min_size=1, max_size=300) | st.sampled_from(
    ["\r\n", "\u2028", "\x00\x07", "{task}", '"\\', "🌍" * 50, " "]
)


@pytest.fixture(scope="module")
def prompted(forge: Ragforge) -> Prompted:
    return forge.prompt(QUESTIONS[0], project="p", stages=())


@settings(max_examples=count(15, 500), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=TEXTS, middle=TEXTS, after=TEXTS, whole=st.booleans(), place=st.integers(0, 3_000))
def test_S8_any_edit_arrives_letter_for_letter(
    forge: Ragforge,
    server: ModelServer,
    prompted: Prompted,
    before: str,
    middle: str,
    after: str,
    whole: bool,
    place: int,
) -> None:
    [system, user] = (message.text for message in prompted.prompt.messages)
    mine = changed(
        prompted,
        before + after if whole else before + system[place:] + after,
        f"x{middle}" if whole else user[:place] + middle + user[place:],
    )
    answer = forge.ask(QUESTIONS[0], project="p", prompted=mine, ephemeral=True)
    assert received(server.calls[-1]) == said(mine.prompt.messages)
    assert answer.account.prompt == mine.prompt
    record("preview_is_sent", protocols=len(PROTOCOLS), edits=count(15, 500), differences=0)


@settings(max_examples=count(10, 200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(question=TEXTS, persona=TEXTS, output=TEXTS)
def test_S8_any_question_arrives_as_its_preview_shows_it(
    forge: Ragforge, server: ModelServer, question: str, persona: str, output: str
) -> None:
    asked = f"Who founded the company? {question}"
    prompted = forge.prompt(asked, project="p", stages=(), system=persona, output=output)
    forge.ask(asked, project="p", prompted=prompted, ephemeral=True)
    assert received(server.calls[-1]) == said(prompted.prompt.messages)
