"""Q7: tokens and price are told before a prompt is sent, and what every call of a question took after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path

import pytest
from genai_prices import Usage as Listed
from genai_prices import calc_price

from ragforge import Ragforge
from ragforge.domain.answers import Answer, DoneEvent, UsageEvent
from ragforge.testing.model_protocols import tokens
from ragforge.testing.model_server import GARBAGE, NORMAL, STALL_MIDWAY, ModelCall, ModelServer
from tests.proof import record
from tests.served import add_files, open_served

QUESTION = "Who founded the company?"
FILES = {
    "founders.md": "# Company\n\nThe company was founded in 1987 by Inge and Klaus Petersen in Husum.\n",
    "returns.md": "# Returns\n\n"
    + "A chair can be sent back within 60 days of its delivery. The van collects it. " * 20,
    "grüße.md": "# Grüße\n\n" + "Grüße aus Köln: 日本語の文書です。検索できますか？ русский текст. " * 20,
    "code.md": "# Code\n\n```py\ndef add(a: int, b: int) -> int:\n    return a + b\n```\n" * 10,
}
MAIN, CHEAP = "openai:gpt-4.1-mini", "openai:gpt-4.1-nano"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(reply="Inge and Klaus Petersen founded it in 1987 [1].") as server:
        yield server


@pytest.fixture
def opened(server: ModelServer, swift_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Ragforge]]:
    """A workspace whose model is far away: a proxy on this machine, the server, brings the calls there."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    with ExitStack() as stack:

        def opened(**settings: object) -> Ragforge:
            far = {
                "model__name": MAIN,
                "model__base_url": "http://models.example/v1",
                "model__proxy": server.root_url,
            }
            forge = stack.enter_context(open_served(swift_path / "workspace", server, None, **{**far, **settings}))
            add_files(forge, swift_path / "docs", FILES)
            return forge

        yield opened


def priced(model: str, read: int, written: int) -> Decimal:
    """By the list itself."""
    provider, _, name = model.partition(":")
    return calc_price(Listed(input_tokens=read, output_tokens=written), name, provider_id=provider).total_price


def read_by(calls: list[ModelCall]) -> int:
    """As the server counts, and tells."""
    return sum(tokens(call.prompt) for call in calls)


def test_Q7_the_estimate_before_is_near_what_it_takes_and_never_below_its_price(
    opened: Callable[..., Ragforge], server: ModelServer
) -> None:
    forge = opened()
    factors = []
    for question in (QUESTION, "When can a chair be sent back?", "Wer schickt Grüße aus Köln?"):
        prompted = forge.prompt(question, project="p", stages=())
        told = prompted.estimate
        assert told is not None and told.model == MAIN and told.fits
        assert told.input_tokens >= sum(told.parts.values()) and set(told.parts) >= {"Context", "Task"}
        assert told.cost == priced(MAIN, told.input_tokens, told.output_tokens) > 0
        usage = forge.ask(question, project="p", prompted=prompted).account.usage
        assert usage.calls == 1 and usage.input_tokens == read_by(server.calls[-1:])
        assert usage.cost == priced(MAIN, usage.input_tokens, usage.output_tokens) <= told.cost
        factors.append(told.input_tokens / usage.input_tokens)
    assert all(1 <= factor <= 3.5 for factor in factors), factors  # the server counts words
    record("estimates", tokens_for_each_word=[round(factor, 2) for factor in factors])


def test_Q7_every_call_of_a_question_counts(opened: Callable[..., Ragforge], server: ModelServer) -> None:
    forge = opened()
    events = list(forge.stream(QUESTION, project="p"))
    done = events[-1]
    assert isinstance(done, DoneEvent)
    usage = done.result.account.usage
    assert usage.calls == len(server.calls) >= 4, "shape, gate, condense, answer"
    assert usage.input_tokens == read_by(server.calls)
    assert usage.cost == priced(MAIN, usage.input_tokens, usage.output_tokens)
    assert [event.usage for event in events if isinstance(event, UsageEvent)] == [usage]
    [logged] = forge.query_log(project="p")
    assert (logged.input_tokens, logged.output_tokens, logged.cost) == (
        usage.input_tokens,
        usage.output_tokens,
        usage.cost,
    )
    [spent] = forge.spent(project="p")
    assert (spent.name, spent.questions, spent.input_tokens, spent.cost) == (MAIN, 1, usage.input_tokens, usage.cost)


def test_Q7_each_model_has_its_own_price(opened: Callable[..., Ragforge], server: ModelServer) -> None:
    forge = opened(model__cheap=CHEAP)
    usage = forge.ask(QUESTION, project="p", stages=["gate"]).account.usage
    [gate, answer] = server.calls
    assert (gate.json["model"], answer.json["model"]) == ("gpt-4.1-nano", "gpt-4.1-mini")
    written = tokens(str(server.reply))
    both = priced(CHEAP, read_by([gate]), usage.output_tokens - written) + priced(MAIN, read_by([answer]), written)
    assert usage.calls == 2 and usage.cost == both


def test_Q7_what_was_paid_for_nothing_counts_too(opened: Callable[..., Ragforge], server: ModelServer) -> None:
    forge = opened(model__idle_seconds=0.5)
    server.forms.extend(["[]", "no form"])
    usage = forge.ask(QUESTION, project="p", stages=["condense"], ephemeral=True).account.usage
    assert usage.calls == len(server.calls) == 3 and usage.input_tokens == read_by(server.calls)
    server.script(STALL_MIDWAY)
    answer = forge.ask(QUESTION, project="p", stages=(), ephemeral=True)
    assert isinstance(answer, Answer) and not answer.quoted and answer.account.degraded
    assert answer.account.usage.calls == 1 and answer.account.usage.input_tokens >= read_by(server.calls[-1:])
    assert answer.account.usage.output_tokens >= tokens(answer.text) and answer.account.usage.cost
    server.forms.append("[]")
    server.script(NORMAL, GARBAGE)
    refused = forge.ask(QUESTION, project="p", stages=["condense"], ephemeral=True)
    assert isinstance(refused, Answer) and refused.quoted and refused.account.usage.calls >= 1


def test_Q7_a_model_on_this_machine_costs_nothing(opened: Callable[..., Ragforge], server: ModelServer) -> None:
    forge = opened(model__base_url=server.base_url, model__proxy="")
    prompted = forge.prompt(QUESTION, project="p", stages=())
    assert prompted.estimate is not None and prompted.estimate.cost == 0 and prompted.estimate.input_tokens > 100
    usage = forge.ask(QUESTION, project="p", prompted=prompted).account.usage
    assert usage.cost == 0 and usage.input_tokens > 100


def test_Q7_a_price_that_nobody_knows_is_none_not_nothing(opened: Callable[..., Ragforge]) -> None:
    forge = opened(model__name="openai-compatible:stub")
    prompted = forge.prompt(QUESTION, project="p", stages=())
    assert prompted.estimate is not None and prompted.estimate.cost is None
    answer = forge.ask(QUESTION, project="p")
    assert answer.account.usage.calls >= 4 and answer.account.usage.cost is None
    [logged] = forge.query_log(project="p")
    assert logged.cost is None and logged.input_tokens == answer.account.usage.input_tokens


def test_Q7_without_a_model_there_is_nothing_to_pay(opened: Callable[..., Ragforge], server: ModelServer) -> None:
    forge = opened()
    assert forge.prompt(QUESTION, project="p", model="offline").estimate is None
    usage = forge.ask(QUESTION, project="p", model="offline").account.usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (0, 0, 0) and not server.calls
