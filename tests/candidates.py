"""Candidates and stored passages for tests, from as little as they depend on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from hypothesis import HealthCheck, settings

from ragforge.domain.documents import Locator
from ragforge.domain.retrieval import Candidate, Ranked, StoredPassage
from tests.proof import count

MANY = settings(
    max_examples=count(60, 500),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
"""For properties: a machine at work elsewhere makes none of them false."""


def ranked(scores: Mapping[int, float]) -> Ranked:
    """What an engine would answer: best first, equal ones by key."""
    order = sorted(scores, key=lambda key: (-scores[key], key))
    return Ranked(np.array(order, np.int64), np.array([scores[key] for key in order], np.float32))


def in_order(keys: Iterable[int], scores: Sequence[float] | None = None) -> list[Candidate]:
    """Candidates best first; without scores, clearly apart."""
    keys = list(keys)
    falling = scores or [1 - place / len(keys) for place in range(len(keys))]
    return [Candidate(key, score) for key, score in zip(keys, falling, strict=True)]


def stored(
    key: int,
    text: str = "some words",
    *,
    document: str = "a",
    section: int | None = None,
    start: int = 0,
    tokens: int = 10,
    section_span: tuple[int, int] | None = None,
    section_tokens: int | None = None,
    header: str = "",
    locator: Locator | None = None,
) -> StoredPassage:
    """A leaf; unless told otherwise it is all of its section."""
    end = start + len(text)
    section_start, section_end = section_span or (start, end)
    return StoredPassage(
        key=key,
        chunk=f"chunk{key}",
        document=document,
        document_key=sum(document.encode()),
        name=f"{document}.md",
        source=f"/files/{document}.md",
        version="1",
        position=key,
        section=key if section is None else section,
        start=start,
        end=end,
        header=header,
        locator=locator or Locator(),
        tokens=tokens,
        checksum="",
        text=text,
        section_tokens=tokens if section_tokens is None else section_tokens,
        section_start=section_start,
        section_end=section_end,
    )


def by_key(passages: Iterable[StoredPassage]) -> dict[int, StoredPassage]:
    return {passage.key: passage for passage in passages}
