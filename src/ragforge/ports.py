"""Every protocol the steps rely on. A good port is read in ten seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO, Protocol

from ragforge.domain.cancel import Cancel
from ragforge.domain.documents import Parsed, ParseFailure
from ragforge.domain.tokens import Matrix, Passage, Tokens, Vector

Clock = Callable[[], datetime]
"""The time now, in UTC."""


@dataclass(frozen=True, slots=True)
class ParseRequest:
    """One file to parse: which parser, the name for messages, and how far it may go."""

    parser: str
    name: str


class Parsers(Protocol):
    """Bytes to Markdown, safely. Never raises for a bad file: it returns a `ParseFailure`."""

    def parse(self, request: ParseRequest, file: BinaryIO, cancel: Cancel) -> Parsed | ParseFailure: ...
    def close(self) -> None: ...


class Tokenizer(Protocol):
    """Texts to tokens with their offsets."""

    @property
    def fingerprint(self) -> str: ...
    def encode(self, texts: Sequence[str]) -> list[Tokens]: ...


@dataclass(frozen=True, slots=True)
class EmbedderCard:
    """What is known of an embedder without calling it."""

    name: str
    """As the user writes it: `minilm`, `wordllama`, `openai:text-embedding-3-small`."""
    fingerprint: str
    """Changes whenever the same text could give another vector."""
    dimension: int | None
    """None until a provider has sent its first vector."""
    languages: tuple[str, ...] | None = None
    """ISO codes the model knows; None if all."""
    fusion_weight: float = 0.7
    """Share of the vector score in hybrid search (measured)."""


class Embedder(Protocol):
    """Texts to vectors of unit length. One vector for each passage, nothing cut."""

    @property
    def card(self) -> EmbedderCard: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    def embed(self, passages: Sequence[Passage], cancel: Cancel) -> Matrix: ...
    def embed_query(self, text: str, cancel: Cancel) -> Vector: ...
