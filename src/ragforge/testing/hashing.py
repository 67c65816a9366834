"""An embedder that costs next to nothing and needs no model: words hashed into dimensions.

For tests and for measuring everything around an embedder. It knows words, not meaning.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ragforge.domain.cancel import Cancel
from ragforge.domain.tokens import Ints, Matrix, Passage, Tokens, Vector
from ragforge.ports import EmbedderCard

_PRIME = np.uint64(0x9E3779B97F4A7C15)
_INVERSE = np.uint64(pow(int(_PRIME), -1, 1 << 64))


class HashingTokenizer:
    """Runs of letters and digits (ASCII case folded); every other visible ASCII character stands alone."""

    fingerprint = "hashing/1"

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        return [_encode(text) for text in texts]


class HashingEmbedder:
    """Counts each word, with a sign of its own, in one of the dimensions."""

    def __init__(self, dimension: int = 384) -> None:
        self._card = EmbedderCard("hashing", f"hashing/1/{dimension}", dimension, fusion_weight=0.45)
        self._dimension = dimension
        self._tokenizer = HashingTokenizer()

    @property
    def card(self) -> EmbedderCard:
        return self._card

    @property
    def tokenizer(self) -> HashingTokenizer:
        return self._tokenizer

    def embed(self, passages: Sequence[Passage], cancel: Cancel) -> Matrix:
        cancel.check()
        each = [_encode(passage.text).ids if passage.ids is None else passage.ids for passage in passages]
        counts = [len(ids) for ids in each]
        ids = np.concatenate([*each, np.zeros(0, dtype=np.int32)])
        rows = np.repeat(np.arange(len(each)), counts)
        signs = 1.0 - 2.0 * (ids & 1)
        cells = rows * self._dimension + (ids >> 1) % self._dimension
        sums = np.bincount(cells, weights=signs, minlength=len(each) * self._dimension)
        vectors = sums.astype(np.float32).reshape(len(each), self._dimension)
        vectors[~vectors.any(axis=1), 0] = 1.0  # no words, or words that cancel out
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    def embed_query(self, text: str, cancel: Cancel) -> Vector:
        vector: Vector = self.embed([Passage(text)], cancel)[0]
        return vector


_BLANK, _IN_WORD, _ALONE = range(3)
_KINDS = bytes(
    _IN_WORD if chr(code).isalnum() or code > 127 else _ALONE if chr(code).isprintable() and code != 32 else _BLANK
    for code in range(256)
)
_VALUES = bytes(0 if kind == _BLANK else ord(chr(code).lower()) % 256 for code, kind in enumerate(_KINDS))


def _classified(text: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
    """What each character is, and its number in a word's hash (nothing for a blank)."""
    if text.isascii():
        raw = text.encode()
        values = np.frombuffer(raw.translate(_VALUES), dtype=np.uint8)
        return np.frombuffer(raw.translate(_KINDS), dtype=np.uint8), values.astype(np.uint64)
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    small = np.minimum(codes, 128).astype(np.uint8).tobytes()
    values = np.frombuffer(small.translate(_VALUES), dtype=np.uint8)
    return np.frombuffer(small.translate(_KINDS), dtype=np.uint8), np.where(codes < 128, values, codes).astype(
        np.uint64
    )


def _encode(text: str) -> Tokens:
    """Every word's hash by one pass over the text: the difference of two sums, shifted to the word's place."""
    if not text:
        return Tokens(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32))
    kinds, values = _classified(text)
    begins = kinds == _IN_WORD
    begins[1:] &= ~begins[:-1]
    starts = np.flatnonzero(begins | (kinds == _ALONE))
    sums = np.zeros(len(text) + 1, dtype=np.uint64)
    np.cumsum(values * _powers(_PRIME, len(text)), out=sums[1:])
    at_starts = sums[starts]
    at_ends = np.append(at_starts[1:], sums[-1])  # what lies between two words counts nothing
    return Tokens(_mixed((at_ends - at_starts) * _powers(_INVERSE, len(text))[starts]), starts.astype(np.int32))


def _powers(base: np.uint64, count: int) -> npt.NDArray[np.uint64]:
    """1, base, base² … modulo 2^64; computed once and longer when a longer text comes."""
    known = _POWERS.get(int(base))
    if known is None or len(known) < count:
        factors = np.full(max(count, 4096), base, dtype=np.uint64)
        factors[0] = 1
        known = _POWERS[int(base)] = np.multiply.accumulate(factors)
    return known[:count]


_POWERS: dict[int, npt.NDArray[np.uint64]] = {}


def _mixed(hashes: npt.NDArray[np.uint64]) -> Ints:
    """Positive 31-bit ids whose every bit depends on the whole hash."""
    mixed = (hashes ^ (hashes >> np.uint64(32))) * _PRIME
    return (mixed >> np.uint64(33)).astype(np.int32)
