"""Tools for a model to call: their schemas on the way out, a check of every call on the way back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import count as numbers
from typing import TYPE_CHECKING, Any

from ragforge.adapters.models.counting import count
from ragforge.adapters.models.shapes import Misfit, read
from ragforge.domain.generation import AROUND, Acted, Called, Message, Tool, ToolCall

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic.json_schema import GenerateJsonSchema
    from pydantic_ai.messages import ModelRequest, ModelResponse
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.models.openai import OpenAIChatModel

_PREAMBLE = {"anthropic": 400}
"""Tokens by which a service explains to its model how tools are called, before the first of them."""
_USUAL_PREAMBLE = 250


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools of one call."""

    tools: tuple[Tool, ...]

    def parameters(self) -> ModelRequestParameters:
        """A call is demanded, softly: where a model cannot be made to, the library only offers the tools."""
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.tools import ToolDefinition

        offered = [
            ToolDefinition(name=tool.name, parameters_json_schema=_taken(tool)[1], description=tool.description)
            for tool in self.tools
        ]
        return ModelRequestParameters(function_tools=offered, allow_text_output=False)

    def read(self, response: ModelResponse, before: Sequence[Message]) -> Acted:
        """What a model did, each call checked and with an id that none `before` has."""
        calls = [ToolCall(call.tool_call_id, call.tool_name, _written(call.args)) for call in response.tool_calls]
        taken = {call.id for message in before for call in message.calls}
        return Acted(response.text or "", tuple(self._checked(call) for call in _apart(calls, taken)))

    def _checked(self, call: ToolCall) -> Called:
        by_name = {tool.name: tool for tool in self.tools}
        tool = by_name.get(call.name)
        if tool is None:
            return Called(call, problem=f"no tool is called {call.name!r}; there is " + ", ".join(by_name))
        try:
            return Called(call, given=read(_taken(tool)[0], call.arguments, closed=True))
        except Misfit as problem:
            return Called(call, problem=str(problem))


def tool_tokens(tools: Sequence[Tool], provider: str) -> int:
    """What tools take of a prompt. Templates of local models print them as indented JSON, so that is counted."""
    if not tools:
        return 0
    each = [
        {"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": schema}}
        for tool in tools
        for schema in [_taken(tool)[1]]
    ]
    printed = sum(count(json.dumps(tool, indent=2, ensure_ascii=False), provider) + AROUND for tool in each)
    return printed + _PREAMBLE.get(provider, _USUAL_PREAMBLE)


def all_said(response: ModelResponse) -> str:
    """Whatever a model wrote, words and calls."""
    calls = [f"{call.tool_name} {_written(call.args)}" for call in response.tool_calls]
    return "\n".join([response.text or "", *calls]).strip()


def reply_of(message: Message) -> ModelResponse:
    """What an assistant said and called, for a model to read again."""
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

    calls = [ToolCallPart(call.name, call.arguments, call.id) for call in message.calls]
    return ModelResponse(parts=[TextPart(message.text), *calls] if message.text or not calls else calls)


def results_of(messages: Iterable[Message]) -> ModelRequest:
    """What tools gave back, in one message: Anthropic takes the results of one step only together."""
    from pydantic_ai.messages import ModelRequest, ToolReturnPart

    results = []
    for message in messages:
        assert message.call is not None, "a tool's message says which call it answers"
        results.append(ToolReturnPart(message.call.name, message.text, message.call.id))
    return ModelRequest(parts=results)


def _written(arguments: str | dict[str, Any] | None) -> str:
    """Arguments as JSON. A tool that needs none is often called with nothing at all."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    return text.strip() or "{}"


def _apart(calls: Iterable[ToolCall], taken: set[str]) -> Iterable[ToolCall]:
    """The calls, none with the id of another: weak servers number them anew in every answer, or not at all."""
    for call in calls:
        free = call.id
        if not free or free in taken:
            free = next(name for number in numbers(1) if (name := f"call_{number}") not in taken)
        taken.add(free)
        yield ToolCall(free, call.name, call.arguments)


@lru_cache(maxsize=256)
def _taken(tool: Tool) -> tuple[TypeAdapter[Any], dict[str, Any]]:
    """What checks that which a tool takes, and its schema for a model."""
    from pydantic import TypeAdapter

    adapter: TypeAdapter[Any] = TypeAdapter(tool.shape)
    return adapter, adapter.json_schema(schema_generator=_closed())


@cache
def _closed() -> type[GenerateJsonSchema]:
    """Schemas of which a model is told that they have no more fields, without titles that only repeat names."""
    from pydantic.json_schema import GenerateJsonSchema

    class Closed(GenerateJsonSchema):
        def dataclass_schema(self, schema: Any) -> dict[str, Any]:
            closed = super().dataclass_schema(schema) | {"additionalProperties": False}
            return {name: value for name, value in closed.items() if name != "title"}

        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    return Closed


def lenient(kind: type[OpenAIChatModel]) -> type[OpenAIChatModel]:
    """The same model, that also reads calls without an id, or with arguments that are no text: imitations send such."""

    class Lenient(kind):  # type: ignore[misc, valid-type]
        def _validate_completion(self, response: Any) -> Any:
            for choice in response.choices or ():
                for call in getattr(choice.message, "tool_calls", None) or ():
                    call.id = getattr(call, "id", None) or ""
                    call.function.arguments = _written(call.function.arguments)
            return super()._validate_completion(response)

    return Lenient
