"""From settings to a language model: names, profiles, keys and addresses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ragforge.build import Parts
from ragforge.domain.cancel import Cancel
from ragforge.domain.generation import Message, Role, Sampling
from ragforge.domain.pending import waited
from ragforge.errors import UserError
from ragforge.ports import LanguageModel
from ragforge.settings import load
from ragforge.testing.model_server import ModelServer

QUESTION = (Message(Role.USER, "What is the refund window?"),)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def parts(folder: Path, env: dict[str, str], **model: object) -> Parts:
    flags = {"--set": {f"model.{name}": value for name, value in model.items()}}
    return Parts(load(folder, flags=flags, env=env, folder=folder))


def ask(model: LanguageModel | None) -> None:
    assert model is not None
    list(waited(model.stream(QUESTION, Sampling(), "request-1", Cancel(10))))


def test_without_a_name_there_is_no_model(tmp_path: Path) -> None:
    made = parts(tmp_path, {"OPENAI_API_KEY": "sk-1"})
    assert made.language_model() is None
    assert made.language_model("cheap") is None
    assert made.language_model("offline") is None


def test_profiles_name_models(tmp_path: Path) -> None:
    keys = {"OPENAI_API_KEY": "sk-1"}
    made = parts(tmp_path, keys, name="premium", cheap="openai:gpt-5-nano", premium="openai:gpt-5")
    names = {profile: made.language_model(profile) for profile in ("", "cheap", "premium", "openai:gpt-4o-mini")}
    assert {profile: model.card.name for profile, model in names.items() if model} == {
        "": "openai:gpt-5",
        "cheap": "openai:gpt-5-nano",
        "premium": "openai:gpt-5",
        "openai:gpt-4o-mini": "openai:gpt-4o-mini",
    }
    assert made.language_model() is made.language_model("premium") is made.language_model("balanced")
    assert made.language_model("offline") is None
    made.close()


def test_an_address_and_a_key_go_to_the_service_they_were_given_for(tmp_path: Path, server: ModelServer) -> None:
    keys = {"MY_KEY": "sk-mine", "ANTHROPIC_API_KEY": "sk-theirs"}
    made = parts(
        tmp_path,
        keys,
        name="openai-compatible:any",
        premium="anthropic:claude-haiku-4-5",
        base_url=server.base_url,
        api_key_env="MY_KEY",
        window=5000,
    )
    ask(made.language_model())
    assert server.calls[0].headers["authorization"] == "Bearer sk-mine"
    premium = made.language_model("premium")
    assert premium is not None
    assert premium.card.window == 200_000
    assert "127.0.0.1" not in repr(vars(premium))
    made.close()


def test_a_missing_key_and_a_wrong_name_are_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="openai:gpt-5 needs a key"):
        parts(tmp_path, {}, name="openai:gpt-5").language_model()
    with pytest.raises(UserError, match="no language model is called 'gpt-5'"):
        parts(tmp_path, {}).language_model("gpt-5")


def test_models_at_hand_are_listed(tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", server.host)
    made = parts(tmp_path, {}, name="cheap", cheap="ollama:qwen3:8b", premium="openai:gpt-5")
    found = made.language_models()
    assert (found.ollama_url, found.ollama_models) == (server.root_url, 2)
    assert {model.card.name: model.used_for for model in found.models} == {
        "ollama:qwen3:8b": ("answers", "cheap", "balanced"),
        "openai:gpt-5": ("premium",),
        "ollama:llama3.2:latest": (),
    }
