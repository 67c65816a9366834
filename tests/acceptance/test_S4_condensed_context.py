"""S4: the context as Facts, Constraints and Open Issues with their sources, checked; else the passages as they are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ragforge import Ragforge
from ragforge.assemble.condense import Draft, DraftStatement
from ragforge.domain.answers import Answer
from ragforge.testing.model_server import GARBAGE, ModelServer
from tests.served import add_files, answers, form, open_served

FILES = {
    "founders.md": "# Company\n\nThe company was founded in 1987 by Inge and Klaus Petersen in Husum.\n",
    "returns.md": "# Returns\n\nA chair can be sent back within 60 days of its delivery. The van collects it.\n",
    "lamps.md": "# Lamps\n\nA lamp that fails within two years is mended without cost.\n",
    "desks.md": "# Desks\n\nA desk is delivered in three boxes, and put together by two people.\n",
}
QUESTION = "Who founded the company?"
TRUE = DraftStatement("The company was founded in 1987 by Inge and Klaus Petersen.", (1,))
FALSE = DraftStatement("The company was founded in 2051 by Elvis.", (1,))
OPEN = DraftStatement("Whether the company still belongs to them.", ())


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer(reply="Inge and Klaus Petersen founded it in 1987 [1].") as server:
        yield server


@pytest.fixture(scope="module")
def forge(server: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ragforge]:
    folder = tmp_path_factory.mktemp("condensed")
    with open_served(folder / "workspace", server) as forge:
        add_files(forge, folder / "docs", FILES)
        yield forge


def ask(forge: Ragforge, server: ModelServer, *said: str) -> tuple[Answer, str]:
    """The answer with these drafts, and the prompt of the model that wrote it."""
    server.forms.clear()
    server.forms.extend(said)
    answer = forge.ask(QUESTION, project="p", stages=["condense"], ephemeral=True)
    assert isinstance(answer, Answer) and answer.citations[0].name == "founders.md" and answer.citations[0].proved
    return answer, answers(server)[-1].prompt


def test_S4_statements_that_hold_stand_for_the_passages(forge: Ragforge, server: ModelServer) -> None:
    answer, sent = ask(forge, server, form(Draft((TRUE,), (), (OPEN,))))
    assert f"Facts:\n- {TRUE.text} [1]" in sent and f"Open Issues:\n- {OPEN.text}" in sent
    assert "[1] founders.md" in sent and FILES["founders.md"].split("\n")[2] not in sent
    assert not any("not condensed" in notice for notice in answer.account.notices)


@pytest.mark.parametrize(
    ("draft", "reason"),
    [
        (Draft((FALSE,), (), ()), "none of the 1 statements says what a source says"),
        (Draft((TRUE, FALSE, FALSE), (), ()), "only 1 of 3 statements hold"),
        (Draft((DraftStatement(TRUE.text, (9,)),), (), ()), "none of the 1 statements"),
        (Draft((DraftStatement(TRUE.text, ()),), (), ()), "none of the 1 statements"),
        (Draft((), (), (OPEN,)), "none of the 1 statements"),
        (Draft((), (), ()), "the model wrote nothing"),
    ],
)
def test_S4_a_draft_that_does_not_hold_leaves_the_passages_and_is_said(
    forge: Ragforge, server: ModelServer, draft: Draft, reason: str
) -> None:
    answer, sent = ask(forge, server, form(draft))
    assert any(f"not condensed: {reason}" in notice for notice in answer.account.notices)
    assert FILES["founders.md"].split("\n")[2] in sent and "Facts:" not in sent


def test_S4_a_draft_of_another_shape_leaves_the_passages_and_is_said(forge: Ragforge, server: ModelServer) -> None:
    for said in ('{"facts": "one"}', "no JSON at all", "[]"):
        answer, sent = ask(forge, server, said, said)
        assert any("not condensed: the model could not condense" in notice for notice in answer.account.notices)
        assert FILES["founders.md"].split("\n")[2] in sent
        assert len(answers(server)) and not answer.quoted, "a model that cannot fill forms may still write"


def test_S4_a_model_that_fails_to_condense_is_not_asked_to_answer(forge: Ragforge, server: ModelServer) -> None:
    server.forms.clear()
    server.script(GARBAGE, GARBAGE)
    before = len(answers(server))
    answer = forge.ask(QUESTION, project="p", stages=["condense"], ephemeral=True)
    assert isinstance(answer, Answer) and answer.quoted and len(answers(server)) == before


def test_S4_single_statements_that_do_not_hold_are_left_out_and_counted(forge: Ragforge, server: ModelServer) -> None:
    answer, sent = ask(forge, server, form(Draft((TRUE, FALSE), (), ())))
    assert TRUE.text in sent and "2051" not in sent
    assert any("1 of 2 statements hold; the others were left out" in notice for notice in answer.account.notices)
