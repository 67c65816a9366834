"""What a model's tokens cost, by the price list that comes with `genai-prices`; nothing is downloaded."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from ragforge.adapters.models.names import COMPATIBLE, OLLAMA, Name, is_local
from ragforge.domain.generation import MILLION

_SAMPLE = 1_000
"""Tokens whose price is asked for: few, so that no price for long prompts applies."""


class Listed(NamedTuple):
    """What the list says of a model. Prices are US dollars for a million tokens; None where it says nothing."""

    input_price: Decimal | None = None
    output_price: Decimal | None = None
    window: int | None = None


def listed(name: Name, url: str) -> Listed:
    """The entry of a model. One that runs on this machine costs nothing, whatever it is called."""
    if name.provider == OLLAMA or is_local(url):
        return Listed(Decimal(0), Decimal(0))
    if name.provider == COMPATIBLE:  # somebody's service: the name tells nothing
        return Listed()
    from genai_prices import Usage, calc_price

    try:
        into, out = (
            calc_price(usage, name.model, provider_id=name.provider)
            for usage in (Usage(input_tokens=_SAMPLE), Usage(output_tokens=_SAMPLE))
        )
    except (LookupError, ValueError):
        return Listed()
    scale = MILLION // _SAMPLE
    return Listed(into.total_price * scale, out.total_price * scale, into.model.context_window)
