"""Every language model keeps the contract, in each of the protocols they speak."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ragforge.adapters.models.pydantic_ai import ServedModel
from ragforge.ports import LanguageModel
from ragforge.testing.contracts.models import LanguageModelContract, ServedToolsContract
from ragforge.testing.model_server import ModelServer


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


class TestOpenAi(LanguageModelContract, ServedToolsContract):
    @pytest.fixture
    def model(self, server: ModelServer) -> Iterator[LanguageModel]:
        model = ServedModel("openai:gpt-4.1-mini", key="sk-1", base_url=server.base_url, window=8192)
        yield model
        model.close()


class TestOpenAiThatThinks(LanguageModelContract, ServedToolsContract):
    @pytest.fixture
    def model(self, server: ModelServer) -> Iterator[LanguageModel]:
        model = ServedModel("openai:gpt-5-mini", key="sk-1", base_url=server.base_url, window=8192)
        yield model
        model.close()


class TestAnthropic(LanguageModelContract, ServedToolsContract):
    @pytest.fixture
    def model(self, server: ModelServer) -> Iterator[LanguageModel]:
        model = ServedModel("anthropic:claude-haiku-4-5", key="sk-1", base_url=server.root_url, window=8192)
        yield model
        model.close()


class TestAnthropicWithoutFormsOfItsOwn(LanguageModelContract, ServedToolsContract):
    @pytest.fixture
    def model(self, server: ModelServer) -> Iterator[LanguageModel]:
        model = ServedModel("anthropic:claude-3-haiku", key="sk-1", base_url=server.root_url, window=8192)
        yield model
        model.close()


class TestOllama(LanguageModelContract, ServedToolsContract):
    @pytest.fixture
    def model(self, server: ModelServer) -> Iterator[LanguageModel]:
        model = ServedModel("ollama:llama3.2", environment={"OLLAMA_HOST": server.host})
        yield model
        model.close()


class TestOpenAiCompatible(LanguageModelContract, ServedToolsContract):
    @pytest.fixture
    def model(self, server: ModelServer) -> Iterator[LanguageModel]:
        model = ServedModel("openai-compatible:any", base_url=server.base_url, window=8192)
        yield model
        model.close()
