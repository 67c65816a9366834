"""What is wrong with a request is told in its own words."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from ragforge.interfaces.http.completions import ChatRequest, EmbeddingRequest
from ragforge.interfaces.http.requests import ChatMessage
from ragforge.interfaces.misshapen import sentence


def wrong(model: type[BaseModel], /, **given: Any) -> str:
    with pytest.raises(ValidationError) as problem:
        model(**given)
    return sentence(problem.value.errors())


def test_fields_go_by_their_names() -> None:
    assert wrong(EmbeddingRequest) == "model: this is needed; input: this is needed"
    assert wrong(EmbeddingRequest, model="m", input=["a"] * 257) == "input: List should have at most 256 items, not 257"
    assert wrong(EmbeddingRequest, model="m", input=["a", 7]) == "input.1: Input should be a valid string"
    said = [{"role": "user", "content": [{"text": "?"}]}]
    assert wrong(ChatRequest, model="m", messages=said) == "messages.0.content.0.type: this is needed"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ('{"type": "dance"}', "type: this can be 'ask', 'cancel', 'resume'"),
        ('{"question": "?"}', "type: this is needed"),
        ('{"type', "this is not JSON: EOF while parsing a string at line 1 column 6"),
    ],
)
def test_messages_of_a_socket(message: str, told: str) -> None:
    with pytest.raises(ValidationError) as problem:
        TypeAdapter(ChatMessage).validate_json(message)
    assert sentence(problem.value.errors()) == told
