"""Static vectors of the installed `wordllama` package: the fast tier, always present.

Only the package's two files are read: importing it would configure the root logger and look for downloads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from ragforge.adapters.embedders.pieces import unit_length
from ragforge.adapters.embedders.tokenizer import FileTokenizer, token_ids
from ragforge.domain.cancel import Cancel
from ragforge.domain.tokens import Ints, Matrix, Passage, Vector
from ragforge.errors import NotFound
from ragforge.once import once
from ragforge.ports import EmbedderCard

DIMENSION = 256

_BEGIN = 1
_BLOCK = 4096
"""Tokens looked up at once: 4 MB of vectors."""


def package_folder() -> Path:
    """Where the package is installed."""
    spec = find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise NotFound("the package wordllama is not installed", hint="pip install --force-reinstall ragforge")
    return Path(spec.origin).parent


def tokenizer_file() -> Path:
    return package_folder() / "tokenizers" / "l2_supercat_tokenizer_config.json"


def weights_file() -> Path:
    return package_folder() / "weights" / "l2_supercat_256.safetensors"


@cache
def shared_tokenizer() -> FileTokenizer:
    """One for the whole process: what it has learned serves everybody."""
    return FileTokenizer(tokenizer_file())


class WordLlama:
    """The mean of the vectors of a text's tokens. Reads its files at first use; may be called from any thread."""

    def __init__(self) -> None:
        self._weights_path = weights_file()
        self._tokenizer = shared_tokenizer()

    @cached_property
    def card(self) -> EmbedderCard:
        with self._weights_path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
        fingerprint = f"wordllama/{digest}/{self._tokenizer.fingerprint}/mean"
        return EmbedderCard("wordllama", fingerprint, DIMENSION, languages=("en",), fusion_weight=0.45)

    @property
    def tokenizer(self) -> FileTokenizer:
        return self._tokenizer

    def embed(self, passages: Sequence[Passage], cancel: Cancel) -> Matrix:
        cancel.check()
        weights = self._weights
        sums = np.empty((len(passages), DIMENSION), dtype=np.float32)
        for row, ids in enumerate(token_ids(passages, self._tokenizer)):
            cancel.check()
            # a text without tokens gets the vector of the mark that begins every text, so none has length zero
            sums[row] = _sum(weights, ids) if len(ids) else weights[_BEGIN]
        return unit_length(sums)

    def embed_query(self, text: str, cancel: Cancel) -> Vector:
        vector: Vector = self.embed([Passage(text)], cancel)[0]
        return vector

    def load(self) -> None:
        """Read the files now instead of at the first call."""
        self._tokenizer.load()
        _ = self._weights

    @once
    def _weights(self) -> Matrix:
        from safetensors import safe_open

        with safe_open(self._weights_path, framework="np") as tensors:
            return np.ascontiguousarray(tensors.get_tensor("embedding.weight"), dtype=np.float32)


def _sum(weights: Matrix, ids: Ints) -> Vector:
    """The sum of the tokens' vectors."""
    total = np.zeros(weights.shape[1], dtype=np.float32)
    for start in range(0, len(ids), _BLOCK):
        total += weights[ids[start : start + _BLOCK]].sum(axis=0)
    return total
