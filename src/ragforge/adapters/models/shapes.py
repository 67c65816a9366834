"""A dataclass as a form for a model to fill: its schema on the way out, a check on the way back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import ModelRequestParameters

Shaped = TypeVar("Shaped")

_FENCE = "```"


class Misfit(Exception):
    """An answer that is not of the shape, and in what it differs."""


@dataclass(frozen=True, slots=True)
class Form(Generic[Shaped]):
    """A shape a model is asked to fill."""

    name: str
    adapter: TypeAdapter[Shaped]
    schema: dict[str, Any]

    def parameters(self, *, native: bool) -> ModelRequestParameters:
        """As the service's own structured output where it has that, else as a tool that must be called."""
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.output import OutputObjectDefinition
        from pydantic_ai.tools import ToolDefinition

        if native:
            form = OutputObjectDefinition(self.schema, self.name)
            return ModelRequestParameters(output_mode="native", output_object=form, allow_text_output=True)
        tool = ToolDefinition(
            name=self.name, parameters_json_schema=self.schema, description="The answer.", kind="output"
        )
        return ModelRequestParameters(output_mode="tool", output_tools=[tool], allow_text_output=False)

    def said(self, response: ModelResponse) -> str:
        """The filled form as JSON, wherever in the response it is."""
        called = [call.args_as_json_str() for call in response.tool_calls if call.tool_name == self.name]
        text = called[0] if called else (response.text or "")
        bare = text.strip()
        if len(bare) < 2 * len(_FENCE) or not (bare.startswith(_FENCE) and bare.endswith(_FENCE)):
            return text
        return bare.removeprefix(_FENCE).removesuffix(_FENCE).removeprefix("json").strip()

    def read(self, said: str) -> Shaped:
        """The answer as a record. Raises `Misfit`."""
        return read(self.adapter, said)

    def feedback(self, said: str, problem: str) -> list[ModelMessage]:
        """What was answered and what is wrong with it, for one more try."""
        from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart

        ask = f"This does not fit the form: {problem}. Answer again with the whole form, and nothing else."
        return [ModelResponse(parts=[TextPart(said or "{}")]), ModelRequest(parts=[UserPromptPart(ask)])]


def read(adapter: TypeAdapter[Shaped], said: str, *, closed: bool = False) -> Shaped:
    """JSON as a record; if `closed`, with no field that the shape does not have. Raises `Misfit`."""
    from pydantic import ValidationError

    try:
        return adapter.validate_json(said, extra="forbid" if closed else None)
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise Misfit(f"{where}: {first['msg']}" if where else first["msg"]) from None


def form_of(shape: type[Shaped]) -> Form[Shaped]:
    """The form of a dataclass."""
    from pydantic import TypeAdapter

    adapter = TypeAdapter(shape)
    return Form(shape.__name__, adapter, adapter.json_schema())
