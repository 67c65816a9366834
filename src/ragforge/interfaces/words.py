"""Figures in words, the same on every surface: times, counts, prices, evidence."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal

from ragforge.domain.answers import Evidence
from ragforge.domain.generation import Usage

_LEAST_PRICE = Decimal("0.0001")


def ago(moment: datetime, now: datetime | None = None) -> str:
    """How long ago, in the largest unit; after thirty days the date."""
    seconds = ((now or datetime.now(UTC)) - moment).total_seconds()
    if seconds < 60:
        return "just now"
    for unit, word, limit in ((60, "min", 3600), (3600, "h", 86400), (86400, "d", 30 * 86400)):
        if seconds < limit:
            return f"{seconds // unit:.0f} {word} ago"
    return moment.astimezone().strftime("%Y-%m-%d")


def duration(seconds: float) -> str:
    """`0.8 s`, `12.3 s`, `4 min 10 s`, `2 h 5 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours} h {minute} min" if hours else f"{minute} min {second} s"


def count(number: int, singular: str, plural: str = "") -> str:
    """`1 chunk`, `3,410 chunks`."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def spent(usage: Usage) -> str:
    """`1,204 tokens read, 56 written in 2 calls, $0.0012, 2.1 s`."""
    tokens = f"{count(usage.input_tokens, 'token')} read, {usage.output_tokens:,} written"
    return f"{tokens} in {count(usage.calls, 'call')}, {price(usage.cost)}, {duration(usage.seconds)}"


def price(cost: Decimal | None) -> str:
    """In US dollars, as far as it is known."""
    if cost is None:
        return "price unknown"
    if not cost:
        return "free"
    return f"${cost:.4f}" if cost >= _LEAST_PRICE else f"less than ${_LEAST_PRICE}"


def price_of(tokens: int, cost: Decimal | None) -> str:
    """Where no model was asked, there is nothing to pay."""
    return price(cost) if tokens else ""


def evidence_text(evidence: Evidence) -> str:
    """The score, whether it is enough, and what it rests on."""
    verdict = "enough" if evidence.enough else "too little"
    rests_on = [text(evidence.features[name]) for name, text in _FEATURES.items() if name in evidence.features]
    told = f"{evidence.score:.2f}, {verdict}: an answer needs {evidence.threshold:.2f}"
    return "; ".join((told, *rests_on))


def _share(value: float) -> str:
    return f"{abs(value) * 100:.0f} %"


_FEATURES: Mapping[str, Callable[[float], str]] = {
    "cosine": lambda value: f"the first passage is {value:.2f} near in meaning",
    "lead": lambda value: f"that is {abs(value):.2f} {'above' if value >= 0 else 'below'} the mean of the ten best",
    "apart": lambda value: (
        f"the first passage holds {_share(value)} {'more' if value >= 0 else 'less'} of the question's words than the "
        "ten best do on average"
    ),
    "sentence": lambda value: f"one sentence holds {_share(value)} of them",
    "words": lambda value: f"{count(round(math.exp(value)), 'word')} to look for",
}
"""What the evidence score rests on, in words."""
