"""What a prompt takes and costs, before it is sent; and what a call did cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal

from ragforge.domain.generation import AROUND, Estimate, Message, ModelCard, Sampling, Usage
from ragforge.domain.prompts import SuperPrompt


def prompt_tokens(messages: Sequence[Message], count: Callable[[str], int]) -> int:
    """Tokens of messages as they are sent."""
    called = (f"{call.name} {call.arguments}" for message in messages for call in message.calls)
    return sum(count(message.text) + AROUND for message in messages) + sum(map(count, called)) + AROUND


def estimate(prompt: SuperPrompt, card: ModelCard, sampling: Sampling, count: Callable[[str], int]) -> Estimate:
    """Tokens by section, and the highest price: as if the model wrote all it may."""
    parts: Counter[str] = Counter()
    for section in prompt.sections:
        parts[section.name] += section.tokens
    tokens = prompt_tokens(prompt.messages, count)
    price = card.cost(tokens, sampling.max_tokens)
    return Estimate(card.name, tokens, sampling.max_tokens, card.window, price, dict(parts))


def cost(usage: Usage, card: ModelCard) -> Decimal | None:
    """What calls did cost, in US dollars; None where no price is known."""
    return card.cost(usage.input_tokens, usage.output_tokens)
