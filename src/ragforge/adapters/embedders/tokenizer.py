"""Tokens of a whole text from a `tokenizer.json`, each word looked up once.

The `tokenizers` library turns 2 MB/s into tokens, and less the longer the text is. Neither of our two
vocabularies (WordPiece of BERT, BPE of Llama) has a token that reaches over a space or a newline, so a text is
cut there, and a word met before is taken from memory: the same tokens at many times the speed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from array import array
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ragforge.domain.tokens import Ints, Passage, Tokens
from ragforge.errors import NotFound
from ragforge.ports import Tokenizer

if TYPE_CHECKING:
    from tokenizers import Encoding
    from tokenizers import Tokenizer as Library

_UNITS = re.compile(r" {0,2000}[^ \n]{1,2000}| {0,2000}\n{1,2000}| {1,2000}")
"""Bounded, since the library takes 640 bytes for a token: a line of 20 MB without a space would take 13 GB."""
_UNITS_AT_A_TIME = 5_000
_REMEMBERED_UNITS = 150_000
_REMEMBERED_LENGTH = 96
_PAIR = 2 * np.dtype(np.int32).itemsize


class FileTokenizer:
    """Reads a tokenizer file at first use. Adds no special tokens, cuts nothing, pads nothing. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._known: dict[str, bytes] = {}

    @cached_property
    def fingerprint(self) -> str:
        return hashlib.sha256(self._content).hexdigest()[:16]

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        """The tokens of each text; offsets count characters."""
        return [self._encode(text) for text in texts]

    def load(self) -> None:
        """Read the file now instead of at the first call."""
        _ = self._library

    @cached_property
    def _content(self) -> bytes:
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            raise NotFound(f"no tokenizer at {self._path}", hint="ragforge models pull minilm") from None

    @cached_property
    def _begins_with_space(self) -> bool:
        """Whether the model sees a space before the text (Llama does)."""
        return '"Prepend"' in json.dumps(json.loads(self._content)["normalizer"])

    @cached_property
    def _library(self) -> Library:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # words are short: threads only warn about forks
        from tokenizers import Tokenizer, normalizers

        library = Tokenizer.from_buffer(self._content)
        library.no_truncation()
        library.no_padding()
        library.encode_special_tokens = True  # "[CLS]" in a document is five characters, not an order
        if self._begins_with_space:
            library.normalizer = normalizers.Replace(" ", "▁")
        return library

    def _encode(self, text: str) -> Tokens:
        shift = int(self._begins_with_space and bool(text))
        units = _UNITS.findall(" " + text if shift else text)
        packed = self._packed(units)
        pairs = np.frombuffer(b"".join(packed), dtype=np.int32).reshape(-1, 2)
        lengths = np.fromiter(map(len, units), dtype=np.int32, count=len(units))
        counts = np.fromiter(map(len, packed), dtype=np.int32, count=len(units)) // _PAIR
        starts = pairs[:, 1] + np.repeat(np.cumsum(lengths) - lengths - shift, counts)
        return Tokens(np.ascontiguousarray(pairs[:, 0]), _ascending(starts))

    def _packed(self, units: list[str]) -> list[bytes]:
        """Each unit's tokens. Short units are remembered; the memory starts afresh when it is full."""
        known = self._known
        fresh = self._encode_units(list(set(units).difference(known)))
        if not fresh:
            return list(map(known.__getitem__, units))
        short = {unit: packed for unit, packed in fresh.items() if len(unit) <= _REMEMBERED_LENGTH}
        with self._lock:
            if len(self._known) + len(short) > _REMEMBERED_UNITS:
                self._known = {}
            self._known.update(short)
        return [fresh[unit] if unit in fresh else known[unit] for unit in units]

    def _encode_units(self, units: list[str]) -> dict[str, bytes]:
        packed: dict[str, bytes] = {}
        for start in range(0, len(units), _UNITS_AT_A_TIME):
            some = units[start : start + _UNITS_AT_A_TIME]
            encodings = self._library.encode_batch(some, add_special_tokens=False)
            packed |= {unit: _pack(encoding) for unit, encoding in zip(some, encodings, strict=True)}
        return packed


def token_ids(passages: Sequence[Passage], tokenizer: Tokenizer) -> list[Ints]:
    """Each passage's token ids; tokenised here only where they did not come along."""
    found = iter(tokenizer.encode([passage.text for passage in passages if passage.ids is None]))
    return [next(found).ids if passage.ids is None else passage.ids for passage in passages]


def _pack(encoding: Encoding) -> bytes:
    """Pairs of token id and start, as int32."""
    starts = map(itemgetter(0), encoding.offsets)
    return array("i", chain.from_iterable(zip(encoding.ids, starts, strict=True))).tobytes()


def _ascending(starts: Ints) -> Ints:
    """Starts that never fall back, as binary search in them needs."""
    return np.maximum.accumulate(np.maximum(starts, 0), dtype=np.int32)
