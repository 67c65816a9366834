"""Tokens and price of a prompt before the call, and the price of a call after it."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ragforge.assemble.estimate import cost, estimate
from ragforge.domain.generation import AROUND, Message, ModelCard, Role, Sampling, Usage
from ragforge.domain.prompts import PromptSection, SuperPrompt

PROMPT = SuperPrompt(
    (Message(Role.SYSTEM, "one two"), Message(Role.USER, "three four five")),
    (
        PromptSection("Instructions", "one two", 2),
        PromptSection("Task", "three", 1),
        PromptSection("Task", "four five", 2),
    ),
    "marker",
)
CARD = ModelCard("openai:some", 100, Decimal("0.25"), Decimal("2"))


def words(text: str) -> int:
    return len(text.split())


def test_tokens_by_section_and_the_highest_price() -> None:
    told = estimate(PROMPT, CARD, Sampling(max_tokens=50), words)
    assert told.input_tokens == 5 + 3 * AROUND == 29
    assert told.parts == {"Instructions": 2, "Task": 3}
    assert told.cost == (Decimal("0.25") * 29 + Decimal(2) * 50) / 1_000_000
    assert (told.model, told.output_tokens, told.window, told.fits) == ("openai:some", 50, 100, True)


@pytest.mark.parametrize(("window", "fits"), [(79, True), (78, False), (None, True)])
def test_whether_prompt_and_answer_fit(window: int | None, fits: bool) -> None:
    assert estimate(PROMPT, ModelCard("m", window), Sampling(max_tokens=50), words).fits is fits


def test_after_the_call() -> None:
    assert cost(Usage(1_000_000, 500_000, 3), CARD) == Decimal("1.25")
    assert cost(Usage(10, 10, 1), ModelCard("ollama:llama", 8, Decimal(0), Decimal(0))) == 0


@pytest.mark.parametrize("prices", [(None, None), (Decimal(1), None), (None, Decimal(1))])
def test_no_price_is_not_free(prices: tuple[Decimal | None, Decimal | None]) -> None:
    card = ModelCard("who:knows", None, *prices)
    assert cost(Usage(10, 10, 1), card) is None
    assert estimate(PROMPT, card, Sampling(), words).cost is None
