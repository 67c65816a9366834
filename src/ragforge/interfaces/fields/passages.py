"""Passages and their places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from typing_extensions import TypedDict

from ragforge.domain.documents import Locator
from ragforge.domain.retrieval import ContextBlock, Degraded, Passage, Retrieved


class LocatorFields(TypedDict, total=False):
    """What is known of a place: the headings, the page, the time in seconds, who speaks."""

    path: list[str]
    page: int
    page_end: int
    time: float
    time_end: float
    speaker: str


class PassageFields(TypedDict):
    chunk_id: str
    document_id: str
    document: str
    source: str
    locator: LocatorFields
    score: float
    text: str
    scores: Mapping[str, float]
    ranks: Mapping[str, int]
    header: str
    tokens: int
    checksum: str


class BlockFields(TypedDict):
    document_id: str
    document: str
    locator: LocatorFields
    score: float
    text: str
    header: str
    tokens: int
    chunk_ids: tuple[str, ...]
    whole: bool


class RetrievedFields(TypedDict):
    passages: list[PassageFields]
    degraded: tuple[Degraded, ...]
    timings: dict[str, float]
    """In milliseconds, by stage."""
    notice: str


def locator_fields(locator: Locator) -> LocatorFields:
    fields = {
        "path": list(locator.path) or None,
        "page": locator.page,
        "page_end": locator.page_end,
        "time": locator.start,
        "time_end": locator.end,
        "speaker": locator.speaker,
    }
    return cast(LocatorFields, {name: value for name, value in fields.items() if value is not None})


def passage_fields(passage: Passage) -> PassageFields:
    return {
        "chunk_id": passage.chunk,
        "document_id": passage.document,
        "document": passage.name,
        "source": passage.source,
        "locator": locator_fields(passage.locator),
        "score": passage.score,
        "text": passage.text,
        "scores": passage.scores,
        "ranks": passage.ranks,
        "header": passage.header,
        "tokens": passage.tokens,
        "checksum": passage.checksum,
    }


def block_fields(block: ContextBlock) -> BlockFields:
    return {
        "document_id": block.document,
        "document": block.name,
        "locator": locator_fields(block.locator),
        "score": block.score,
        "text": block.text,
        "header": block.header,
        "tokens": block.tokens,
        "chunk_ids": block.chunks,
        "whole": block.whole,
    }


def retrieved_fields(retrieved: Retrieved) -> RetrievedFields:
    return {
        "passages": [passage_fields(passage) for passage in retrieved.passages],
        "degraded": retrieved.degraded,
        "timings": {stage: round(milliseconds, 3) for stage, milliseconds in retrieved.timings.items()},
        "notice": retrieved.notice,
    }
