"""What is sent to be read: however wrong it is, to say so takes no time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from ragforge.interfaces.http import completions, requests
from ragforge.interfaces.http.requests import AskRequest, ChatMessage, ExplainRequest, SearchRequest
from ragforge.interfaces.mcp import tools

MANY = 200_000


def kinds_of(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield base
    for each in base.__subclasses__():
        yield from kinds_of(each)


TAKEN = [kind for base in (requests.Body, completions.Taken) for kind in kinds_of(base)]


def arrays_in(schema: object) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if schema.get("type") == "array":
            yield schema
        schema = list(schema.values())
    for each in schema if isinstance(schema, list) else ():
        yield from arrays_in(each)


@pytest.mark.parametrize("kind", TAKEN, ids=lambda kind: kind.__name__)
def test_every_list_has_an_end(kind: type[BaseModel]) -> None:
    assert all("maxItems" in each for each in arrays_in(kind.model_json_schema()))


UNKNOWN = {f"field{number}": 1 for number in range(MANY)}
SOME_UNKNOWN = {f"field{number}": 1 for number in range(90)}
HOSTILE: dict[str, tuple[Any, dict[str, Any]]] = {
    "a long list": (AskRequest, {"question": "x", "stages": [1] * MANY}),
    "unknown fields": (SearchRequest, {"question": "x", **UNKNOWN}),
    "unknown fields further in": (SearchRequest, {"question": "x", "filters": UNKNOWN}),
    "some in each of many": (AskRequest, {"question": "x", "history": [SOME_UNKNOWN] * 1_000}),
    "some in each replay": (ExplainRequest, {"question": "x", "replays": [SOME_UNKNOWN] * 1_000}),
    "a message over a socket": (ChatMessage, {"type": "ask", "question": "x", **UNKNOWN}),
    "arguments of a tool": (tools.SearchArguments, {"query": "x", **UNKNOWN}),
    "parts of a message": (
        completions.ChatRequest,
        {"model": "m", "messages": [{"role": "user", "content": [{}] * MANY}]},
    ),
    "parts of many messages": (
        completions.ChatRequest,
        {"model": "m", "messages": [{"role": "user", "content": [{}] * 100}] * 5_000},
    ),
    "texts": (completions.EmbeddingRequest, {"model": "m", "input": [""] * MANY}),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_body_with_a_million_faults_is_refused_at_the_first_few(what: str) -> None:
    kind, body = HOSTILE[what]
    began = time.perf_counter()
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(kind).validate_python(body)
    assert refused.value.error_count() <= 500 and time.perf_counter() - began < 0.5
