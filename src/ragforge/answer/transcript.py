"""A conversation as a Markdown document: questions as headings, below each the answer and what it cites.

Whatever people, models and documents say, only the title and the questions make headings.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragforge.answer.artifacts import escaped, tamed
from ragforge.answer.outline import SOURCES
from ragforge.domain.citations import Citation
from ragforge.domain.conversation import Conversation, Turn

_UNTITLED = "Conversation"
_NO_ANSWER = "**No answer.**"


def markdown(conversation: Conversation, turns: Sequence[Turn]) -> str:
    """The whole of it, in its order."""
    begun = f"Begun {conversation.created_at:%Y-%m-%d}, last spoken in {conversation.updated_at:%Y-%m-%d}."
    parts = [f"# {escaped(conversation.title) or _UNTITLED}", begun]
    for turn in turns:
        parts += [
            f"## {escaped(turn.question)}",
            _NO_ANSWER if turn.abstained else "",
            tamed(turn.answer, "")[0],
            *_sources(turn.citations),
        ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _sources(citations: Sequence[Citation]) -> list[str]:
    """Every cited place with its words, once and by its marker; apart from a list that the answer may end with."""
    lines = dict.fromkeys(map(_source, sorted(citations, key=lambda each: each.marker)))
    return [f"{SOURCES}:", "\n".join(lines)] if lines else []


def _source(citation: Citation) -> str:
    place = citation.locator.label()
    where = escaped(f"{citation.name}, {place}" if place else citation.name)
    return f'- [{citation.marker}] {where}: "{escaped(citation.quote)}"' + ("" if citation.proved else " (unproved)")
