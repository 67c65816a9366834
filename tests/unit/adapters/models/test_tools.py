"""Tools as a model is told of them, and calls as weak servers make them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragforge.adapters.models.counting import count, count_messages
from ragforge.adapters.models.pydantic_ai import Patience, ServedModel
from ragforge.adapters.models.tools import results_of, tool_tokens
from ragforge.domain.cancel import Cancel
from ragforge.domain.generation import Acted, Message, Role, Sampling, Tool, ToolCall
from ragforge.testing import model_protocols as wire
from ragforge.testing.contracts.models import TOOLS, Finish, Note, Verdict
from ragforge.testing.model_server import ModelServer

QUESTION = (Message(Role.USER, "What is the refund window?"),)


@dataclass(frozen=True, slots=True)
class Nothing:
    """What a tool takes that takes nothing."""


@dataclass(frozen=True, slots=True)
class Risk:
    """What a large tool takes."""

    statement: str
    likely: Literal["low", "middle", "high"]
    harm: Literal["low", "middle", "high"]
    owner: str = ""
    answers: tuple[str, ...] = ()


RISKS = Tool("record_risk", "Record a risk, or change one: what may happen, how likely it is, what it does.", Risk)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def model(server: ModelServer) -> Iterator[ServedModel]:
    patience = Patience(idle_seconds=5, pause_seconds=0.01)
    model = ServedModel("openai-compatible:any", base_url=server.base_url, patience=patience)
    yield model
    model.close()


def act(model: ServedModel, *messages: Message, tools: tuple[Tool, ...] = TOOLS) -> Acted:
    return model.act(messages or QUESTION, tools, Sampling(), "request-1", Cancel(10))[0]


def weak(monkeypatch: pytest.MonkeyPatch, change: Callable[[dict[str, Any]], None]) -> None:
    """Make the server send every call of a tool changed."""
    strong = wire.completion

    def completion(*given: Any, **named: Any) -> dict[str, Any]:
        answer = strong(*given, **named)
        for call in answer["choices"][0]["message"]["tool_calls"]:
            change(call)
        return answer

    monkeypatch.setattr(wire, "completion", completion)


@pytest.mark.parametrize(
    "change",
    [
        lambda call: call.pop("id"),
        lambda call: call.update(id=None),
        lambda call: call.update(id=""),
        lambda call: call.update(id="call_0"),
    ],
    ids=["missing", "null", "empty", "always the same"],
)
def test_every_call_has_an_id_of_its_own(
    server: ModelServer, model: ServedModel, monkeypatch: pytest.MonkeyPatch, change: Callable[[dict[str, Any]], None]
) -> None:
    weak(monkeypatch, change)
    server.acts.extend([[("note", '{"text": "a"}'), ("note", '{"text": "b"}')], [("finish", '{"reason": "c"}')]])
    acted = act(model)
    calls = tuple(each.call for each in acted.calls)
    answers = [Message(Role.TOOL, "done", call=call) for call in calls]
    again = act(model, *QUESTION, Message(Role.ASSISTANT, "", calls), *answers)
    ids = [each.call.id for each in (*acted.calls, *again.calls)]
    assert len(ids) == len(set(ids)) == 3 and all(ids)
    assert [each.given for each in (*acted.calls, *again.calls)] == [Note("a"), Note("b"), Finish("c")]
    sent = server.calls[-1].json["messages"]
    assert [call["id"] for call in sent[1]["tool_calls"]] == [each["tool_call_id"] for each in sent[2:]] == ids[:2]


def test_arguments_may_come_as_an_object(
    server: ModelServer, model: ServedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    weak(monkeypatch, lambda call: call["function"].update(arguments={"text": "Größe"}))
    [called] = act(model).calls
    assert called.given == Note("Größe")
    assert called.call.arguments == '{"text": "Größe"}'


@pytest.mark.parametrize("arguments", ["", " ", "{}"])
def test_a_tool_that_takes_nothing_may_be_given_nothing(
    server: ModelServer, model: ServedModel, arguments: str
) -> None:
    server.acts.append([("done", arguments)])
    [called] = act(model, tools=(Tool("done", "Say that you are done.", Nothing),)).calls
    assert called.given == Nothing()


@pytest.mark.parametrize("arguments", ["no json", '{"text": "x"', "[]", '"x"', "null", '{"text": "x"} and more'])
def test_arguments_that_are_no_json_object_are_a_problem_and_can_be_sent_back(
    server: ModelServer, model: ServedModel, arguments: str
) -> None:
    server.acts.append([("note", arguments)])
    [called] = act(model).calls
    assert called.given is None and called.problem
    assert called.call.arguments == arguments
    answer = Message(Role.TOOL, f"refused: {called.problem}", call=called.call)
    act(model, *QUESTION, Message(Role.ASSISTANT, "", (called.call,)), answer)
    returned = server.calls[-1].json["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert isinstance(json.loads(returned), dict), "services refuse a talk with arguments that are none"


def test_words_beside_calls_are_kept_and_sent_back(
    server: ModelServer, model: ServedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    strong = wire.completion

    def both(*given: Any, **named: Any) -> dict[str, Any]:
        answer = strong(*given, **named)
        answer["choices"][0]["message"]["content"] = "I write that down."
        return answer

    monkeypatch.setattr(wire, "completion", both)
    acted = act(model)
    assert acted.text == "I write that down." and len(acted.calls) == 1
    call = acted.calls[0].call
    act(model, *QUESTION, Message(Role.ASSISTANT, acted.text, (call,)), Message(Role.TOOL, "done", call=call))
    assistant = server.calls[-1].json["messages"][1]
    assert assistant["content"] == acted.text and assistant["tool_calls"][0]["id"] == call.id


def test_a_result_says_whose_it_is() -> None:
    with pytest.raises(AssertionError, match="which call"):
        results_of([Message(Role.TOOL, "done")])


def test_the_server_may_decide_by_the_request(server: ModelServer, model: ServedModel) -> None:
    server.act = lambda body: [("finish", json.dumps({"reason": body["messages"][0]["content"]}))]
    server.acts.append("first this")
    assert act(model).text == "first this"
    assert act(model).calls[0].given == Finish(QUESTION[0].text)


@pytest.mark.parametrize("name", ["openai-compatible:any", "anthropic:claude-3-haiku"])
def test_the_server_tells_a_form_from_tools(server: ModelServer, name: str) -> None:
    url = server.root_url if name.startswith("anthropic") else server.base_url
    model = ServedModel(name, key="sk-1", base_url=url)
    server.acts.append("words")
    assert model.fill(QUESTION, Verdict, Sampling(), "request-1", Cancel(10))[0].intent == "text"
    one = (Tool("verdict", "Say what you think.", Verdict),)
    assert act(model, tools=one).text == "words"
    assert isinstance(act(model, tools=one).calls[0].given, Verdict)
    model.close()


def test_calls_are_counted() -> None:
    bare = [Message(Role.ASSISTANT, ""), Message(Role.TOOL, "done")]
    call = ToolCall("call_1", "note", json.dumps({"text": "word " * 100}))
    called = [Message(Role.ASSISTANT, "", (call,)), Message(Role.TOOL, "done", call=call)]
    more = count_messages(called, "openai") - count_messages(bare, "openai")
    assert more >= count(call.arguments, "openai") + count(call.name, "openai")


@given(tools=st.lists(st.sampled_from([*TOOLS, RISKS]), min_size=1, max_size=5))
def test_what_tools_take_is_not_too_low(tools: list[Tool]) -> None:
    """Whether a service reads them as they are sent, or its template prints them with many blanks."""
    from pydantic import TypeAdapter

    each = [
        {"name": tool.name, "description": tool.description, "parameters": TypeAdapter(tool.shape).json_schema()}
        for tool in tools
    ]
    for provider in ("openai", "anthropic", "ollama", "openai-compatible"):
        estimate = tool_tokens(tools, provider)
        assert estimate >= count(json.dumps(each), provider)
        assert estimate >= count(json.dumps(each, indent=4), provider)
