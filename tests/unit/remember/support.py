"""Turns, words and vectors for the tests of memory: the real tokenizer, texts of our own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import numpy as np

from ragforge.domain.cancel import Cancel
from ragforge.domain.conversation import Episode, Rollup, Turn
from ragforge.domain.generation import Acted, Message, ModelCard, Sampling, Tool, Usage
from ragforge.domain.prompts import InjectedFile, Injection
from ragforge.domain.tokens import Vector
from ragforge.remember.words import Groups, Words, whole
from ragforge.retrieve.words import query_words, terms_of

Shaped = TypeVar("Shaped")
START = datetime(2026, 3, 1, 9, tzinfo=UTC)


def groups_of(text: str) -> Groups:
    return query_words(text, ("en",)).groups


WORDS = Words(groups_of, terms_of)


def count(text: str) -> int:
    return len(text.split())


def turn(number: int, question: str = "", answer: str = "", **more: Any) -> Turn:
    at = more.pop("asked_at", START + timedelta(minutes=number))
    return Turn(f"t{number}", "c", number, question, answer, at, tokens=count(f"{question} {answer}"), **more)


def rollup(first: int, last: int, title: str, text: str, used: int = 0) -> Rollup:
    return Rollup(f"r{first}", "c", first, last, title, text, START, count(f"{title} {text}"), used)


def episode(number: int, question: str, answer: str) -> Episode:
    said = turn(number, question, answer)
    return Episode(said.id, number, number, whole(said), said.asked_at, 0.5, count(whole(said)))


def file(name: str, text: str) -> InjectedFile:
    return InjectedFile("d", name, Injection.FULL, text, count(text), name)


def at_angle(cosine: float) -> Vector:
    """A vector with this cosine to the first axis."""
    return np.array([cosine, (1 - cosine**2) ** 0.5], dtype=np.float32)


AXIS = at_angle(1.0)


@dataclass
class Script:
    """A model that says what it was told to, or fails."""

    says: object
    asked: list[Sequence[Message]] = field(default_factory=list)

    @property
    def card(self) -> ModelCard:
        return ModelCard("script", 4_096)

    def stream(
        self, messages: Sequence[Message], sampling: Sampling, request: str, cancel: Cancel
    ) -> Iterator[str | Usage]:
        raise NotImplementedError

    def fill(
        self, messages: Sequence[Message], shape: type[Shaped], sampling: Sampling, request: str, cancel: Cancel
    ) -> tuple[Shaped, Usage]:
        self.asked.append(messages)
        if isinstance(self.says, Exception):
            raise self.says
        assert isinstance(self.says, shape)
        return self.says, Usage(10, 5, 1)

    def act(
        self, messages: Sequence[Message], tools: Sequence[Tool], sampling: Sampling, request: str, cancel: Cancel
    ) -> tuple[Acted, Usage]:
        raise NotImplementedError

    def tool_tokens(self, tools: Sequence[Tool]) -> int:
        raise NotImplementedError

    def count(self, text: str) -> int:
        return count(text)
