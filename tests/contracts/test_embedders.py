"""Every embedder keeps the same contract."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragforge.adapters import weights
from ragforge.adapters.embedders.minilm import MiniLM
from ragforge.adapters.embedders.provider import ProviderEmbedder
from ragforge.adapters.embedders.wordllama import WordLlama
from ragforge.ports import Embedder
from ragforge.testing.contracts.embedder import EmbedderContract
from ragforge.testing.hashing import HashingEmbedder
from ragforge.testing.provider import ProviderStub


@pytest.fixture(scope="module")
def minilm() -> MiniLM:
    given = os.environ.get("RAGFORGE_MODELS")
    models = Path(given) if given else Path(__file__).parents[2] / ".cache" / "models"
    return MiniLM(weights.pull("minilm", models).folder)


@pytest.fixture(scope="module")
def wordllama() -> WordLlama:
    return WordLlama()


class TestHashing(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return HashingEmbedder()


class TestWordLlama(EmbedderContract):
    @pytest.fixture
    def embedder(self, wordllama: WordLlama) -> Embedder:
        return wordllama


class TestMiniLM(EmbedderContract):
    @pytest.fixture
    def embedder(self, minilm: MiniLM) -> Embedder:
        return minilm


class TestProvider(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Iterator[Embedder]:
        with ProviderStub() as stub:
            embedder = ProviderEmbedder("openai-compatible:some-model", base_url=stub.base_url)
            yield embedder
            embedder.close()


class TestVoyage(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Iterator[Embedder]:
        with ProviderStub(encodings=("float",)) as stub:
            embedder = ProviderEmbedder("voyage:voyage-3.5", key="pa-test", base_url=stub.base_url)
            yield embedder
            embedder.close()
