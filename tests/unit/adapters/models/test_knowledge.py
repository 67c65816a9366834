"""What is known of a model without asking it: names, addresses, prices, windows, tokens."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ragforge.adapters.models import counting, ollama
from ragforge.adapters.models.names import Name, address, is_local, nearest, parse_name
from ragforge.adapters.models.prices import Listed, listed
from ragforge.adapters.models.pydantic_ai import ServedModel
from ragforge.domain.generation import Message, ModelCard, Role
from ragforge.errors import UserError
from ragforge.testing.model_server import ModelServer

OPENAI = "https://api.openai.com/v1"


def test_a_name_has_a_provider_and_a_model() -> None:
    assert parse_name("ollama:qwen3:8b") == Name("ollama", "qwen3:8b")
    assert parse_name("openai:gpt-5-mini").key_name == "OPENAI_API_KEY"
    assert parse_name("openai-compatible:x").key_name == "OPENAI_COMPATIBLE_API_KEY"
    for wrong in ("", "gpt-5", ":x", "openai:"):
        with pytest.raises(UserError, match="no language model is called"):
            parse_name(wrong)


def test_an_address_is_known_given_or_asked_for() -> None:
    assert address(Name("openai", "x"), "", {"OPENAI_BASE_URL": "http://elsewhere.example"}) == OPENAI
    assert address(Name("ollama", "x"), "", {"OLLAMA_HOST": "0.0.0.0:999"}) == "http://127.0.0.1:999/v1"
    assert address(Name("anthropic", "x"), "http://gateway.example", {}) == "http://gateway.example"
    with pytest.raises(UserError, match="needs the address"):
        address(Name("openai-compatible", "x"), "", {})


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1:1/v1", True),
        ("http://localhost:1", True),
        ("http://[::1]:1", True),
        ("http://127.0.0.1.evil.example", False),
        ("https://api.openai.com/v1", False),
        ("", False),
    ],
)
def test_local_means_this_machine(url: str, local: bool) -> None:
    assert is_local(url) is local


def test_prices_come_from_the_list() -> None:
    entry = listed(Name("openai", "gpt-4o-mini"), OPENAI)
    assert entry == Listed(Decimal("0.15"), Decimal("0.6"), 128_000)
    card = ModelCard("openai:gpt-4o-mini", entry.window, entry.input_price, entry.output_price)
    assert card.cost(1_000_000, 500_000) == Decimal("0.45")


def test_a_model_on_this_machine_costs_nothing_whatever_its_name() -> None:
    free = Listed(Decimal(0), Decimal(0))
    assert listed(Name("openai", "gpt-4o-mini"), "http://127.0.0.1:8080/v1") == free
    assert listed(Name("ollama", "gpt-4o-mini"), "http://10.0.0.7:11434/v1") == free


def test_what_nobody_knows_stays_unknown() -> None:
    assert listed(Name("openai", "no-such-model-here"), OPENAI) == Listed()
    assert listed(Name("openai-compatible", "gpt-4o-mini"), "https://host.example/v1") == Listed()
    assert listed(Name("no-such-provider", "x"), "") == Listed()
    assert ModelCard("openai-compatible:x", None).cost(10, 10) is None


def test_a_key_is_asked_for_by_the_name_of_its_variable() -> None:
    with pytest.raises(UserError, match="needs a key") as caught:
        ServedModel("anthropic:claude-haiku-4-5")
    assert "ANTHROPIC_API_KEY" in caught.value.hint


def test_ollama_lists_its_models() -> None:
    with ModelServer() as server:
        assert ollama.models(server.base_url) == ["llama3.2:latest", "qwen3:8b"]
        server.models = ()
        assert ollama.models(server.base_url) == []
    assert ollama.models(server.base_url) is None


def test_the_window_of_ollama_is_the_one_it_really_reads() -> None:
    """A model trained for 131,072 tokens is run with 4,096 unless somebody says more; the rest is dropped."""
    with ModelServer() as server:
        url = server.base_url
        assert ollama.window(url, "llama3.2", {}) == 4096
        assert ollama.window(url, "llama3.2", {"OLLAMA_CONTEXT_LENGTH": "32768"}) == 32_768
        assert ollama.window(url, "no-such-model", {}) is None
        server.running_context = 16_384
        assert ollama.window(url, "llama3.2", {}) == 16_384
        server.parameters = 'stop "<|eot|>"\nnum_ctx                        8192'
        assert ollama.window(url, "llama3.2", {}) == 8192
        server.parameters, server.running_context, server.context_length = "", 0, 2048
        assert ollama.window(url, "llama3.2", {}) == 2048
    assert ollama.window(url, "llama3.2", {}) is None


def test_a_given_window_wins() -> None:
    with ModelServer() as server:
        assert ServedModel("ollama:llama3.2", base_url=server.base_url, window=99).card.window == 99
        assert not server.lookups
        assert ServedModel("openai-compatible:x", base_url=server.base_url).card.window is None


def test_counting_is_generous() -> None:
    text = "The refund window for chairs is thirty days from delivery, see section 4.2 of the handbook. " * 20
    assert counting.count(text, "openai") >= len(text.split()) * 1.33
    assert counting.count(text, "anthropic") > counting.count(text, "openai")
    messages = [Message(Role.SYSTEM, text), Message(Role.USER, text)]
    assert counting.count_messages(messages, "openai") > 2 * counting.count(text, "openai")


def test_names_alike_are_found() -> None:
    assert nearest("gpt-5-mnii", ["gpt-5-mini", "o3", "gpt-5"])[0] == "gpt-5-mini"
