"""What is known of language models before any is called: what each is for, and what it lacks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ragforge.adapters.models import states
from ragforge.domain.models import LanguageModels, LanguageModelState
from ragforge.testing.model_server import ModelServer
from tests.unit.adapters.models.test_parts import parts


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with ModelServer() as server:
        monkeypatch.setenv("OLLAMA_HOST", server.host)
        yield server


def listed(folder: Path, env: dict[str, str] | None = None, /, **model: object) -> LanguageModels:
    made = parts(folder, env or {}, **model)
    found = made.language_models()
    made.close()
    return found


def state(folder: Path, env: dict[str, str] | None = None, /, **model: object) -> LanguageModelState:
    return listed(folder, env, **model).models[0]


def test_nobody_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    for chosen in ({}, {"name": "offline"}):
        assert listed(tmp_path, **chosen) == LanguageModels((), "http://127.0.0.1:1", None)


def test_a_key_is_looked_for_under_its_name_and_not_told(tmp_path: Path, server: ModelServer) -> None:
    without = state(tmp_path, name="openai:gpt-4o-mini")
    assert (without.key_name, without.has_key) == ("OPENAI_API_KEY", False)
    assert (without.problem, without.hint) == ("it needs a key", "set OPENAI_API_KEY")
    assert without.card.window == 128_000, "the list knows it without a key"
    there = state(tmp_path, {"MINE": "sk-1"}, name="openai:gpt-4o-mini", api_key_env="MINE")
    assert (there.key_name, there.has_key, there.problem) == ("MINE", True, "")
    assert "sk-1" not in repr(there)
    assert repr(states.Access("MINE", "sk-1", "", 0)).find("sk-1") == -1


def test_a_service_without_an_address_or_with_a_wrong_name(tmp_path: Path, server: ModelServer) -> None:
    assert state(tmp_path, name="openai-compatible:x").hint == "set model.base_url"
    assert "no language model is called 'gpt-5'" in state(tmp_path, name="gpt-5").problem
    fine = state(tmp_path, name="openai-compatible:x", base_url=server.base_url, window=5000)
    assert (fine.problem, fine.key_name, fine.card.window) == ("", "", 5000)


def test_an_ollama_has_the_model_or_not(tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    found = listed(tmp_path, name="ollama:llama3.2")
    assert [model.card.name for model in found.models] == ["ollama:llama3.2", "ollama:qwen3:8b"], "each once"
    assert state(tmp_path, name="ollama:nothing").hint == "ollama pull nothing"
    elsewhere = state(tmp_path, name="ollama:llama3.2", base_url="http://127.0.0.1:1/v1")
    assert (elsewhere.problem, elsewhere.hint) == ("no Ollama answers at http://127.0.0.1:1", "ollama serve")
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    assert state(tmp_path, name="ollama:llama3.2", base_url=server.base_url).problem == ""
    assert server.calls == []


def test_the_libraries_may_be_missing(tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "_LIBRARIES", ("no_such_library",))
    missing = state(tmp_path, {"OPENAI_API_KEY": "sk-1"}, name="openai:gpt-4o-mini")
    assert missing.problem == "what openai:gpt-4o-mini needs is not installed" and "ragforge[models]" in missing.hint
