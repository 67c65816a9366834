"""A model that fills in what it was told to, and the records a prompt is made from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from ragforge.domain.cancel import Cancel
from ragforge.domain.conversation import Episode, Turn
from ragforge.domain.documents import Locator
from ragforge.domain.generation import Acted, Message, ModelCard, Sampling, Tool, Usage
from ragforge.domain.prompts import InjectedFile, Injection, Source

Shaped = TypeVar("Shaped")
THEN = datetime(2025, 1, 1, tzinfo=UTC)


@dataclass
class Scripted:
    """Says the next of its answers at each call, or raises it; counts three characters as a token."""

    says: list[object]
    window: int | None = 8_000
    asked: list[Sequence[Message]] = field(default_factory=list)

    @property
    def card(self) -> ModelCard:
        return ModelCard("scripted", self.window)

    def stream(
        self, messages: Sequence[Message], sampling: Sampling, request: str, cancel: Cancel
    ) -> Iterator[str | Usage]:
        raise NotImplementedError

    def fill(
        self, messages: Sequence[Message], shape: type[Shaped], sampling: Sampling, request: str, cancel: Cancel
    ) -> tuple[Shaped, Usage]:
        self.asked.append(messages)
        answer = self.says[len(self.asked) - 1]
        if isinstance(answer, BaseException):
            raise answer
        assert isinstance(answer, shape)
        return answer, Usage(10, 5, 1)

    def act(
        self, messages: Sequence[Message], tools: Sequence[Tool], sampling: Sampling, request: str, cancel: Cancel
    ) -> tuple[Acted, Usage]:
        raise NotImplementedError

    def tool_tokens(self, tools: Sequence[Tool]) -> int:
        raise NotImplementedError

    def count(self, text: str) -> int:
        return count(text)


def count(text: str) -> int:
    return len(text) // 3 + 1


def source(number: int, text: str, *, name: str = "", score: float = 0.5, locator: Locator | None = None) -> Source:
    return Source(
        number=number,
        chunk=f"chunk{number}",
        chunks=(f"chunk{number}",),
        document=f"document{number}",
        name=name or f"file{number}.md",
        locator=locator or Locator(),
        checksum="",
        score=score,
        text=text,
        tokens=count(text),
    )


def turn(number: int, question: str, answer: str = "So it is.") -> Turn:
    return Turn(f"turn{number}", "talk", number, question, answer, THEN)


def episode(number: int, text: str, score: float = 0.5) -> Episode:
    return Episode(f"turn{number}", number, number, text, THEN, score, count(text))


def file(name: str, text: str, how: Injection = Injection.FULL) -> InjectedFile:
    return InjectedFile(name, name, how, text, count(text), name, "3 of 9 lines" if how is Injection.PACK else "")
