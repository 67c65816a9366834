"""What is said to a language model and what it costs: messages, requests, usage, prices."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any

MILLION = 1_000_000
"""Tokens that a price is for."""
AROUND = 8
"""Tokens around a message that say who speaks, and once more around all of them; at most."""


class Role(StrEnum):
    """Who speaks. Text of a document is never in the system's voice."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to have a tool used."""

    id: str
    """By which the result finds its call; no two of a talk have the same."""
    name: str
    arguments: str
    """JSON, as the model wrote it: not yet checked."""


@dataclass(frozen=True, slots=True)
class Message:
    """One voice in a prompt, byte for byte as it is sent.

    Services refuse a talk in which a call has no result: each of `calls` is answered by a message of its own, next.
    """

    role: Role
    text: str
    calls: tuple[ToolCall, ...] = ()
    """An assistant's message: the tools it called."""
    call: ToolCall | None = None
    """A tool's message: the call whose result `text` is."""


@dataclass(frozen=True, slots=True)
class Tool:
    """Something a model may ask us to do."""

    name: str
    description: str
    shape: type[Any]
    """A frozen dataclass: what the tool takes."""


@dataclass(frozen=True, slots=True)
class Called:
    """A call and what came of the check of it."""

    call: ToolCall
    given: Any = None
    """An instance of the tool's shape; None if the arguments do not fit it."""
    problem: str = ""
    """What is wrong with it, in words that the model can be told."""


@dataclass(frozen=True, slots=True)
class Acted:
    """One step of a model that works by tools."""

    text: str
    """What it says beside its calls, or instead of them."""
    calls: tuple[Called, ...]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a model writes."""

    temperature: float = 0.2
    max_tokens: int = 1_024
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """What calls took. Sums with `+`."""

    input_tokens: int = 0
    output_tokens: int = 0
    calls: int = 0
    cost: Decimal | None = None
    """In US dollars; None where no price is known. A local model costs 0."""
    seconds: float = 0.0
    cut: bool = False
    """The model stopped in the middle of its text: at its limit of tokens, or because it failed."""

    def __add__(self, other: Usage) -> Usage:
        costs = [each.cost for each in (self, other) if each.calls]
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.calls + other.calls,
            None if None in costs else sum((cost for cost in costs if cost is not None), Decimal(0)),
            self.seconds + other.seconds,
            self.cut or other.cut,
        )


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What is known of a language model before it is called."""

    name: str
    """As the user writes it: `openai:gpt-5-mini`, `ollama:llama3.2`, `anthropic:claude-haiku-4-5`."""
    window: int | None
    """Tokens of prompt and answer together; None if nobody told."""
    input_price: Decimal | None = None
    """US dollars for a million tokens."""
    output_price: Decimal | None = None

    def cost(self, input_tokens: int, output_tokens: int) -> Decimal | None:
        """US dollars for these tokens, or None where no price is known."""
        if self.input_price is None or self.output_price is None:
            return None
        return (self.input_price * input_tokens + self.output_price * output_tokens) / MILLION


@dataclass(frozen=True, slots=True)
class Estimate:
    """Tokens and price of a prompt before it is sent."""

    model: str
    input_tokens: int
    output_tokens: int
    """At most: what the model may write."""
    window: int | None
    cost: Decimal | None
    parts: dict[str, int] = field(default_factory=dict)
    """Tokens by section of the prompt."""

    @property
    def fits(self) -> bool:
        return self.window is None or self.input_tokens + self.output_tokens <= self.window
