"""What every language model keeps. Subclass, give the fixture `model`, and pytest runs it all."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any

import pytest

from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.generation import Acted, Message, Role, Sampling, Tool, Usage
from ragforge.domain.pending import waited
from ragforge.errors import ProviderError, RateLimited, TooLarge
from ragforge.ports import LanguageModel
from ragforge.testing import model_server as behaviours
from ragforge.testing.model_server import ModelServer

SAMPLING = Sampling(temperature=0.0, max_tokens=64)
MESSAGES = (
    Message(Role.SYSTEM, "You answer in one short sentence."),
    Message(Role.USER, "What is the refund window for chairs?"),
    Message(Role.ASSISTANT, "Thirty days."),
    Message(Role.USER, "And for tables?"),
)
TEXTS = (
    "The refund window for chairs is thirty days from delivery.",
    "def add(a: int, b: int) -> int:\n    return a + b\n",
    "Grüße aus Köln, façade, naïve, Ελληνικά, русский текст",
    "日本語の文書です。検索できますか？",
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A small form."""

    intent: str
    headers: tuple[str, ...]
    sure: bool


@dataclass(frozen=True, slots=True)
class Mark:
    """A part of what a tool takes."""

    word: str
    weight: int


@dataclass(frozen=True, slots=True)
class Note:
    """What a tool takes."""

    text: str
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Finish:
    """What another tool takes."""

    reason: str


TOOLS = (Tool("note", "Write down what was said.", Note), Tool("finish", "End the talk.", Finish))


def told(acted: Acted, *results: str) -> tuple[Message, ...]:
    """The next prompt: what was called, and what came of it."""
    called = tuple(each.call for each in acted.calls)
    answers = [Message(Role.TOOL, text, call=call) for text, call in zip(results, called, strict=True)]
    return (*MESSAGES, Message(Role.ASSISTANT, acted.text, called), *answers)


class LanguageModelContract:
    """Text in pieces with one usage behind it, forms and calls that fit, and an end whenever the caller wants one."""

    seconds = 30.0
    """What a call may take."""

    @pytest.fixture
    def model(self) -> Iterator[LanguageModel]:
        raise NotImplementedError

    def cancel(self) -> Cancel:
        return Cancel(self.seconds)

    def ask(self, model: LanguageModel) -> tuple[str, Usage]:
        *pieces, usage = waited(model.stream(MESSAGES, SAMPLING, "request-1", self.cancel()))
        assert isinstance(usage, Usage)
        assert all(isinstance(piece, str) and piece for piece in pieces)
        return "".join(map(str, pieces)), usage

    def test_the_card_is_known_before_a_call(self, model: LanguageModel) -> None:
        card = model.card
        assert ":" in card.name
        assert card.window is None or card.window > 0
        assert card.input_price is None or card.input_price >= 0
        assert card.output_price is None or card.output_price >= 0

    def test_text_comes_in_pieces_and_the_usage_last(self, model: LanguageModel) -> None:
        text, usage = self.ask(model)
        assert text.strip()
        assert usage.input_tokens > 0
        assert usage.output_tokens > 0
        assert usage.calls == 1
        assert 0 < usage.seconds < self.seconds

    def test_a_form_is_filled(self, model: LanguageModel) -> None:
        verdict, usage = model.fill(MESSAGES, Verdict, SAMPLING, "request-2", self.cancel())
        assert isinstance(verdict, Verdict)
        assert [type(getattr(verdict, field.name)) for field in fields(Verdict)] == [str, tuple, bool]
        assert usage.calls in (1, 2)
        assert usage.input_tokens > 0

    def test_tools_are_called_with_what_they_take(self, model: LanguageModel) -> None:
        acted, usage = model.act(MESSAGES, TOOLS, SAMPLING, "request-2", self.cancel())
        assert acted.calls
        shapes = {tool.name: tool.shape for tool in TOOLS}
        assert all(isinstance(each.given, shapes[each.call.name]) and not each.problem for each in acted.calls)
        assert usage.calls in (1, 2)
        assert usage.input_tokens > 0 and usage.output_tokens > 0
        assert 0 < usage.seconds < self.seconds
        again, _ = model.act(
            told(acted, *["refused: too short"] * len(acted.calls)), TOOLS, SAMPLING, "r", self.cancel()
        )
        ids = [each.call.id for each in (*acted.calls, *again.calls)]
        assert again.calls and all(ids) and len(set(ids)) == len(ids)

    def test_a_stream_that_is_closed_ends(self, model: LanguageModel) -> None:
        stream = waited(model.stream(MESSAGES, SAMPLING, "request-3", self.cancel()))
        assert isinstance(next(stream), str)
        stream.close()  # type: ignore[attr-defined]
        with pytest.raises(StopIteration):
            next(stream)
        assert self.ask(model)[0]

    def test_what_is_cancelled_is_never_sent(self, model: LanguageModel) -> None:
        cancel = Cancel()
        cancel.set()
        with pytest.raises(Cancelled):
            next(waited(model.stream(MESSAGES, SAMPLING, "request-4", cancel)))
        with pytest.raises(Cancelled):
            model.fill(MESSAGES, Verdict, SAMPLING, "request-5", cancel)
        with pytest.raises(Cancelled):
            model.act(MESSAGES, TOOLS, SAMPLING, "request-5", cancel)

    def test_time_that_is_over_is_a_failure_not_a_wish(self, model: LanguageModel) -> None:
        with pytest.raises(ProviderError, match="in the time given"):
            next(waited(model.stream(MESSAGES, SAMPLING, "request-4", Cancel(deadline_seconds=0))))
        with pytest.raises(ProviderError, match="in the time given"):
            model.fill(MESSAGES, Verdict, SAMPLING, "request-5", Cancel(deadline_seconds=0))
        with pytest.raises(ProviderError, match="in the time given"):
            model.act(MESSAGES, TOOLS, SAMPLING, "request-5", Cancel(deadline_seconds=0))

    def test_what_does_not_fit_is_refused(self, model: LanguageModel) -> None:
        window = model.card.window
        if window is None:
            pytest.skip("nobody knows the window of this model")
        long = [Message(Role.USER, "word " * window)]
        with pytest.raises(TooLarge, match=r"[\d,]+ more than the"):
            next(waited(model.stream(long, SAMPLING, "request-6", self.cancel())))
        with pytest.raises(TooLarge):
            model.fill(long, Verdict, SAMPLING, "request-7", self.cancel())
        with pytest.raises(TooLarge):
            model.act(long, TOOLS, SAMPLING, "request-7", self.cancel())

    def test_tools_take_their_part_of_the_window(self, model: LanguageModel) -> None:
        assert model.tool_tokens(()) == 0
        assert 0 < model.tool_tokens(TOOLS[:1]) < model.tool_tokens(TOOLS)
        window = model.card.window
        if window is None:
            pytest.skip("nobody knows the window of this model")
        room = window - SAMPLING.max_tokens - model.tool_tokens(TOOLS) // 2
        words = "word " * (room * 1_000 // model.count("word " * 1_000))
        fits_alone = [Message(Role.USER, words)]
        next(waited(model.stream(fits_alone, SAMPLING, "request-8", self.cancel())))
        with pytest.raises(TooLarge):
            model.act(fits_alone, TOOLS, SAMPLING, "request-9", self.cancel())

    def test_tokens_are_counted(self, model: LanguageModel) -> None:
        assert model.count("") == 0
        for text in TEXTS:
            assert len(text.split()) <= model.count(text) <= len(text.encode()) * 2
            assert model.count(text * 3) > model.count(text)

    def test_many_threads_are_answered(self, model: LanguageModel) -> None:
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda _: self.ask(model)[0], range(4)))
        assert all(answers)


class ServedToolsContract:
    """What only shows behind a server that does as told: give the fixtures `server`, and `model`, which calls it."""

    def act(self, model: LanguageModel, *messages: Message, seconds: float = 30.0) -> tuple[Acted, Usage]:
        return model.act(messages or MESSAGES, TOOLS, SAMPLING, "request-1", Cancel(seconds))

    def test_a_call_is_demanded_and_its_shape_is_told(self, model: LanguageModel, server: ModelServer) -> None:
        self.act(model)
        body = server.calls[-1].json
        assert body["tool_choice"] in ("required", {"type": "any"})
        functions = [tool.get("function", tool) for tool in body["tools"]]
        assert [function["name"] for function in functions] == ["note", "finish"]
        assert functions[0]["description"] == "Write down what was said."
        taken = functions[0].get("parameters") or functions[0]["input_schema"]
        assert list(taken["properties"]) == ["text", "marks"] and taken["required"] == ["text"]
        assert taken["additionalProperties"] is False

    def test_several_calls_come_at_once_and_in_order(self, model: LanguageModel, server: ModelServer) -> None:
        server.acts.append(
            [
                ("note", '{"text": "Größe 1", "marks": [{"word": "a", "weight": 2}]}'),
                ("note", '{"text": "two"}'),
                ("finish", '{"reason": "all is said"}'),
            ]
        )
        acted, usage = self.act(model)
        given = [each.given for each in acted.calls]
        assert given == [Note("Größe 1", (Mark("a", 2),)), Note("two"), Finish("all is said")]
        assert not acted.text and not any(each.problem for each in acted.calls)
        assert usage.calls == len(server.calls) == 1

    def test_results_go_back_as_the_service_wants_them(self, model: LanguageModel, server: ModelServer) -> None:
        server.acts.append([("note", '{"text": "one"}'), ("nothing", "{}")])
        acted, _ = self.act(model)
        results = ("written down", "refused: no such tool")
        self.act(model, *told(acted, *results))
        call = server.calls[-1]
        assert call.prompt.endswith("\n".join(results))
        ids = [each.call.id for each in acted.calls]
        check = _anthropic_wire if call.path.endswith("/messages") else _openai_wire
        check(call.json["messages"], ids, results)

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            ("{}", "text: Field required"),
            ('{"text": ["no text"]}', "text: Input should be a valid string"),
            ('{"text": "x", "more": 1}', "more: Unexpected keyword argument"),
            ('{"text": "x", "marks": [{"word": "a", "weight": "heavy"}]}', "marks.0.weight: Input should be a valid"),
            ('{"text": "x", "marks": [{"word": "a", "weight": 1, "more": 1}]}', "marks.0.more: Unexpected"),
        ],
    )
    def test_what_does_not_fit_is_a_problem_and_no_failure(
        self, model: LanguageModel, server: ModelServer, arguments: str, problem: str
    ) -> None:
        server.acts.append([("note", arguments), ("finish", '{"reason": "this one fits"}')])
        acted, _ = self.act(model)
        wrong, right = acted.calls
        assert wrong.given is None and wrong.problem.startswith(problem)
        assert right.given == Finish("this one fits") and not right.problem
        assert len(server.calls) == 1

    def test_a_tool_that_is_not_there_is_a_problem(self, model: LanguageModel, server: ModelServer) -> None:
        server.acts.append([("notes", '{"text": "x"}')])
        [called] = self.act(model)[0].calls
        assert called.given is None
        assert called.problem == "no tool is called 'notes'; there is note, finish"

    def test_words_instead_of_a_call_are_words(self, model: LanguageModel, server: ModelServer) -> None:
        server.acts.append("I would rather talk.")
        acted, usage = self.act(model)
        assert acted == Acted("I would rather talk.", ())
        assert usage.output_tokens > 0 and not usage.cut

    def test_a_call_that_was_cut_does_not_fit_and_the_usage_says_why(
        self, model: LanguageModel, server: ModelServer
    ) -> None:
        server.script(behaviours.CUT)
        server.acts.append([("finish", '{"reason": "whole"}'), ("note", '{"text": "a long text that has no end"}')])
        acted, usage = self.act(model)
        whole, cut = acted.calls
        assert whole.given == Finish("whole")
        assert cut.given is None and cut.problem
        assert usage.cut

    @pytest.mark.parametrize("fault", [behaviours.SERVER_ERROR, behaviours.RESET, behaviours.EMPTY])
    def test_a_passing_fault_is_tried_once_more(self, model: LanguageModel, server: ModelServer, fault: str) -> None:
        server.script(fault)
        acted, usage = self.act(model)
        assert acted.calls
        assert usage.calls == len(server.calls) == 2

    def test_nothing_said_and_nothing_called_is_no_answer(self, model: LanguageModel, server: ModelServer) -> None:
        server.acts.extend([" ", " "])
        with pytest.raises(ProviderError, match="no answer that can be read"):
            self.act(model)
        assert len(server.calls) == 2

    def test_a_service_that_asks_to_wait_for_long_is_not_waited_for(
        self, model: LanguageModel, server: ModelServer
    ) -> None:
        server.script(behaviours.RATE_LIMITED_LONG)
        with pytest.raises(RateLimited):
            self.act(model)
        assert len(server.calls) == 1

    def test_silence_ends_with_the_time(self, model: LanguageModel, server: ModelServer) -> None:
        self.act(model)  # what is imported for the first request is no part of the time
        server.script(behaviours.STALL)
        with pytest.raises(ProviderError, match="in the time given"):
            self.act(model, seconds=0.5)

    def test_what_is_too_large_is_never_sent(self, model: LanguageModel, server: ModelServer) -> None:
        assert model.card.window is not None
        with pytest.raises(TooLarge):
            self.act(model, Message(Role.USER, "word " * model.card.window))
        assert not server.calls


def _openai_wire(messages: list[dict[str, Any]], ids: list[str], results: tuple[str, ...]) -> None:
    *_, assistant, first, second = messages
    assert assistant["role"] == "assistant" and not assistant.get("content")
    assert [(call["id"], call["type"]) for call in assistant["tool_calls"]] == [(id, "function") for id in ids]
    functions = [call["function"] for call in assistant["tool_calls"]]
    assert functions == [{"name": "note", "arguments": '{"text":"one"}'}, {"name": "nothing", "arguments": "{}"}]
    for message, id, text in zip((first, second), ids, results, strict=True):
        assert message == {"role": "tool", "tool_call_id": id, "content": text}


def _anthropic_wire(messages: list[dict[str, Any]], ids: list[str], results: tuple[str, ...]) -> None:
    *_, assistant, user = messages
    assert (assistant["role"], user["role"]) == ("assistant", "user")
    uses = [(block["type"], block["id"], block["name"], block["input"]) for block in assistant["content"]]
    assert uses == [("tool_use", ids[0], "note", {"text": "one"}), ("tool_use", ids[1], "nothing", {})]
    given = [(block["type"], block["tool_use_id"], block["content"]) for block in user["content"]]
    texts = [[{"type": "text", "text": text}] for text in results]
    assert given == [("tool_result", id, text) for id, text in zip(ids, texts, strict=True)]
