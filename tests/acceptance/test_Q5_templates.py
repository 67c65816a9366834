"""Q5: the prompt's template is a file that a user can replace; one that cannot be used is said, with its line."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.domain.answers import Answer
from ragforge.domain.records import ProjectTextKind
from ragforge.errors import TooLarge, UserError
from ragforge.testing.model_server import ModelServer
from tests.served import add_files, answers, open_served, received

QUESTION = "Who founded the company?"
FILES = {
    "founders.md": "# Company\n\nThe company was founded in 1987 by Inge and Klaus Petersen in Husum.\n",
    "lamps.md": "# Lamps\n\nA lamp that fails within two years is mended without cost. {task} {persona}\n",
}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(reply="Inge and Klaus Petersen [1].") as server:
        yield server


@pytest.fixture
def forge(server: ModelServer, swift_path: Path) -> Iterator[Ragforge]:
    with open_served(swift_path / "workspace", server) as forge:
        add_files(forge, swift_path / "docs", FILES)
        yield forge


def template(forge: Ragforge, name: str, text: str | bytes) -> Path:
    path = forge.workspace / "templates" / f"{name}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def ours(name: str) -> str:
    return (files("ragforge.assemble") / "templates" / f"{name}.md").read_text(encoding="utf-8")


def test_Q5_a_file_of_the_workspace_replaces_the_template(forge: Ragforge, server: ModelServer) -> None:
    mine = "Du bist höflich.\r\n{persona}\r\n{hard_rules}\r\n{project_memory}\r\nDaten: {marker}. Sonst: {sentinel}\r\n"
    written = template(forge, "system", mine)
    forge.write_project_text(ProjectTextKind.HARD_RULES, "Be brief. {task}", project="p")
    answer = forge.ask(QUESTION, project="p", stages=())
    assert isinstance(answer, Answer) and answer.citations
    [(_, system), (_, user)] = received(answers(server)[-1])
    assert system.startswith("Du bist höflich.\n## Hard Rules\n\nBe brief. {task}\nDaten: ")
    assert "{persona}" not in system and "{task} {persona}" in user, "what documents hold is never filled in"
    written.unlink()
    forge.ask(QUESTION, project="p", stages=())
    assert "You answer from the data that comes with the task" in answers(server)[-1].prompt


@pytest.mark.parametrize(
    ("name", "text", "said", "hint"),
    [
        ("system", ours("system").replace("{marker}", "x"), "has no {marker}", "on a line of its own"),
        ("system", ours("system").replace("{hard_rules}", ""), "has no {hard_rules}", "on a line of its own"),
        ("system", ours("system") + "\n{question}\n", "{question} is not known", "known here: {persona}"),
        ("system", ours("system") + "\n{task}\n", "{task} belongs into user.md", "known here"),
        ("user", ours("user") + "\n{task}\n", "{task} stands there 2 times", "leave one of them"),
        ("user", "{history}\n{task}\n{files}\n{context}\n{format}\n", "line 2: {task} stands before {files}", "fixed"),
        ("user", b"\xff\xfe\x00", "cannot be read", "UTF-8"),
        ("sytem", "hello", "is no template", "call it system.md or user.md"),
    ],
)
def test_Q5_a_template_that_cannot_be_used_is_a_clear_error(
    forge: Ragforge, server: ModelServer, name: str, text: str | bytes, said: str, hint: str
) -> None:
    template(forge, name, text)
    for act in (forge.ask, forge.prompt):
        with pytest.raises(UserError) as caught:
            act(QUESTION, project="p")
        assert said in caught.value.message and hint in caught.value.hint
        assert f"{name}.md" in caught.value.message
    assert not server.calls, "it is said before a model is paid"
    assert isinstance(forge.ask(QUESTION, project="p", model="offline"), Answer), "quotes need no template"


def test_Q5_a_template_without_end_is_refused(forge: Ragforge) -> None:
    template(forge, "user", "x" * 100_000)
    with pytest.raises(TooLarge, match="larger than"):
        forge.ask(QUESTION, project="p", stages=())
