"""Older turns that bear on this one: by meaning and words, rather of the same probe; told in the order of time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from ragforge.discover.fitting import Count, squeezed
from ragforge.domain.conversation import FORGOTTEN_ANSWER, Turn

if TYPE_CHECKING:
    from ragforge.domain.tokens import Vector

RECENT = 2
"""The last turns, which are always told whole, are not brought back: a turn n is older if n < current - 2."""
MOST = 3
_SAME_PROBE = 0.15
_LEAST = 0.2
"""A turn that has less to do with the message is not brought back, whatever its probe."""
_BY_MEANING = 0.7


def recalled(
    turns: Sequence[Turn],
    vectors: Mapping[str, Vector],
    query: Vector | None,
    message: str,
    number: int,
    probe: str,
    *,
    subject: Callable[[str], Collection[str]],
    cosine_floor: float | None,
) -> list[Turn]:
    """The two or three that bear most on the message of turn `number`, oldest first."""
    words = set(subject(message))
    scored: list[tuple[float, Turn]] = []
    for turn in turns:
        if turn.number >= number - RECENT or turn.answer == FORGOTTEN_ANSWER:
            continue
        said = set(subject(f"{turn.question} {turn.summary}"))
        score = len(words & said) / len(words) if words else 0.0
        if query is not None and (vector := vectors.get(turn.id)) is not None:
            floor = cosine_floor or 0.0
            near = max(0.0, (float(query @ vector) - floor) / (1 - floor))
            score = _BY_MEANING * near + (1 - _BY_MEANING) * score
        if score >= _LEAST:
            scored.append((score + _SAME_PROBE * (turn.probe == probe), turn))
    best = sorted(scored, key=lambda each: (-each[0], -each[1].number))[:MOST]
    return sorted((turn for _, turn in best), key=lambda turn: turn.number)


def labelled(turn: Turn, probes: Mapping[str, str]) -> str:
    """A whole exchange under its number and probe."""
    probe = f" (Probe: {probes.get(turn.probe, turn.probe)})" if turn.probe else ""
    return f"Turn {turn.number}{probe}:\nUser: {turn.question.strip()}\nAssistant: {turn.answer.strip()}"


def fitting(
    turns: Sequence[Turn], probes: Mapping[str, str], room: int, count: Count
) -> tuple[list[tuple[Turn, str]], list[str]]:
    """The exchanges that fit, in their order, each shortened if it must be; and what was shortened or left out."""
    told: list[tuple[Turn, str]] = []
    notes: list[str] = []
    for place, turn in enumerate(turns):
        share = room // (len(turns) - place)
        text = labelled(turn, probes)
        if (size := count(text) + 1) > share:
            label, _, rest = text.partition("\n")
            left = share - count(label) - 2
            if left < _SHORTEST:
                notes.append(f"turn {turn.number}: left out, no room")
                continue
            text = f"{label}\n{squeezed(rest, left, count)}"
            notes.append(f"turn {turn.number}: shortened from {size:,} tokens")
            size = count(text) + 1
        room -= size
        told.append((turn, text))
    return told, notes


_SHORTEST = 40
"""Tokens of an exchange; with fewer it says nothing."""
