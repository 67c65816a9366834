"""Names, addresses, prefixes."""

from __future__ import annotations

import pytest

from ragforge.adapters.embedders.provider import ProviderEmbedder
from ragforge.adapters.embedders.records import model_record, ollama_address, split_name
from ragforge.errors import UserError


@pytest.mark.parametrize(
    ("environment", "address"),
    [
        ({}, "http://127.0.0.1:11434/v1"),
        ({"OLLAMA_HOST": "0.0.0.0:11500"}, "http://127.0.0.1:11500/v1"),
        ({"OLLAMA_HOST": "gpu.internal"}, "http://gpu.internal:11434/v1"),
        ({"OLLAMA_HOST": "https://gpu.internal/ollama/"}, "https://gpu.internal:443/ollama/v1"),
        ({"OLLAMA_HOST": "[::1]:11434"}, "http://[::1]:11434/v1"),
        ({"OLLAMA_HOST": "ignored", "OLLAMA_BASE_URL": "http://10.0.0.7:8080/v1"}, "http://10.0.0.7:8080/v1"),
    ],
)
def test_ollama_address(environment: dict[str, str], address: str) -> None:
    assert ollama_address(environment) == address


@pytest.mark.parametrize(
    ("model", "query", "document"),
    [
        ("intfloat/e5-small-v2", "query: ", "passage: "),
        ("multilingual-e5-large", "query: ", "passage: "),
        ("BAAI/bge-small-en-v1.5", "Represent this sentence for searching relevant passages: ", ""),
        ("nomic-embed-text:latest", "search_query: ", "search_document: "),
        ("text-embedding-3-small", "", ""),
        ("bge-m3", "", ""),
        ("something-new", "", ""),
    ],
)
def test_prefixes(model: str, query: str, document: str) -> None:
    record = model_record(model)
    assert (record.query_prefix, record.document_prefix) == (query, document)


@pytest.mark.parametrize("name", ["", "openai", "openai:", "nobody:model", ":model"])
def test_names_nobody_knows(name: str) -> None:
    with pytest.raises(UserError) as caught:
        split_name(name)
    assert "openai:MODEL" in caught.value.hint


def test_a_key_and_an_address_are_asked_for() -> None:
    with pytest.raises(UserError) as caught:
        ProviderEmbedder("openai:text-embedding-3-small")
    assert "OPENAI_API_KEY" in caught.value.hint
    with pytest.raises(UserError, match="address"):
        ProviderEmbedder("openai-compatible:model")


def test_prefixes_are_part_of_the_fingerprint() -> None:
    cards = {
        ProviderEmbedder(f"openai-compatible:{model}", base_url="http://127.0.0.1:9/v1").card.fingerprint.partition(
            "/"
        )[2]
        for model in ("e5-small", "bge-small-en", "bge-m3", "unknown")
    }
    assert len(cards) == 4


def test_nothing_is_loaded_and_nothing_shown_before_the_first_call() -> None:
    embedder = ProviderEmbedder("openai:text-embedding-3-small", key="sk-secret-value")
    assert embedder.card.dimension is None
    assert "sk-secret-value" not in repr(embedder) + repr(vars(embedder))
    embedder.close()
