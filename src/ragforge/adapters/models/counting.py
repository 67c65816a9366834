"""How many tokens a text has for a model whose own tokenizer is not at hand."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from ragforge.adapters.embedders.wordllama import shared_tokenizer
from ragforge.adapters.models.names import COMPATIBLE, OLLAMA
from ragforge.domain.generation import AROUND, Message

_GENEROUS = {"anthropic": 1.35}
"""Providers whose tokens are shorter than those of a Llama vocabulary."""
_FOREIGN = {OLLAMA: 0.75, COMPATIBLE: 0.75}
"""Tokens more for each letter beyond ASCII: small models that learned English cut other languages finer."""


def count(text: str, provider: str) -> int:
    """Counted with a Llama vocabulary of 32k tokens: smaller than those in use now, so it counts a little more."""
    if not text:
        return 0
    [tokens] = shared_tokenizer().encode([text])
    foreign = 0 if text.isascii() else sum(letter > "\x7f" for letter in text)
    return ceil(len(tokens) * _GENEROUS.get(provider, 1.0) + foreign * _FOREIGN.get(provider, 0.0))


def count_messages(messages: Sequence[Message], provider: str) -> int:
    """Tokens of a whole prompt, with the marks between its messages and around the calls in them."""
    return sum(count(message.text, provider) + _calls(message, provider) + AROUND for message in messages) + AROUND


def _calls(message: Message, provider: str) -> int:
    """Tokens of what a message calls, or of the call that it is the result of: services repeat its id and name."""
    made = sum(count(f"{call.id} {call.name} {call.arguments}", provider) + AROUND for call in message.calls)
    return made + (count(f"{message.call.id} {message.call.name}", provider) if message.call else 0)
