"""Turns, citations, rollups, log entries and artifacts as tests make them: complete, and short to write."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count
from typing import Any

from ragforge.domain.citations import Citation
from ragforge.domain.conversation import Rollup, Turn
from ragforge.domain.documents import Locator
from ragforge.domain.prompts import Source
from ragforge.domain.records import Artifact, ArtifactSection, LogEntry

NOON = datetime(2030, 1, 1, 12, 0, 0, 7000, tzinfo=UTC)
MODEL = "hashing/test/4"
VECTOR = b"\x00\x01\x02\x03" * 4

_numbers = count(1)


def turn(conversation: str, question: str = "How long?", **facts: Any) -> Turn:
    """A turn that is not stored yet, so without a number."""
    return replace(Turn(f"turn-{next(_numbers)}", conversation, 0, question, "Thirty days.", NOON), **facts)


def citation(document: str, quote: str = "Thirty days.", **facts: Any) -> Citation:
    where = Locator(("Part", "Ärger"), page=3, page_end=4, start=1.5, end=2.0, speaker="Ada")
    return replace(Citation(1, "c1", document, "a.md", where, quote, 12, 15, True), **facts)


def rollup(conversation: str, first: int, last: int, **facts: Any) -> Rollup:
    made = Rollup(f"rollup-{next(_numbers)}", conversation, first, last, "Refunds", "They talked.", NOON, tokens=3)
    return replace(made, **facts)


def entry(**facts: Any) -> LogEntry:
    plain = LogEntry(f"request-{next(_numbers)}", NOON, "answer", "How long?", cost=Decimal("0.0123"))
    return replace(plain, **facts)


def source(number: int, document: str, text: str = "A passage.") -> Source:
    where = Locator(("Part", "Ärger"), page=3, page_end=4)
    return Source(number, "c1", ("c1", "c2"), document, "a.md", where, "sum", 0.5, text, 3, (("c1", 0, 4),))


def artifact(*sources: Source, **facts: Any) -> Artifact:
    """A document with one section for each source, and an open one."""
    sections = [
        ArtifactSection(f"Part {each.number}", 2, f"It says: {each.text} [{each.number}]", sources=(each.number,))
        for each in sources
    ]
    made = Artifact(
        id=f"artifact-{next(_numbers)}",
        kind="blueprint",
        title="Plan",
        made_at=NOON,
        sections=(*sections, ArtifactSection("Risks", 2, "", True, "nothing was found")),
        sources=sources,
        brief="short",
        agent="architect",
        model="extractive",
        usage={"input": 12.0},
        problems=("no section on costs",),
    )
    return replace(made, **facts)
