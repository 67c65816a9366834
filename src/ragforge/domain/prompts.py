"""The super-prompt: what each stage put in, in the order of authority, and the exact messages."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ragforge.domain.conversation import Episode, Turn
from ragforge.domain.documents import Locator
from ragforge.domain.generation import Message


@dataclass(frozen=True, slots=True)
class Source:
    """A numbered passage of the context: what `[n]` stands for."""

    number: int
    chunk: str
    """The best of its chunks."""
    chunks: tuple[str, ...]
    document: str
    name: str
    locator: Locator
    checksum: str
    score: float
    text: str
    tokens: int
    spans: tuple[tuple[str, int, int], ...] = ()
    """Of each chunk, where it stands in `text`."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A2: what is asked, of which field, and how the answer should look."""

    standalone: str
    """The question as it can be understood without the conversation."""
    intent: str
    """`lookup`, `explain`, `compare`, `list`, `procedure`, `decide`, `write`, `code`, `chat`."""
    domain: str = ""
    headers: tuple[str, ...] = ()
    rewritten: bool = False
    reason: str = ""
    """Why it was rewritten, or left as it is."""
    casual: bool = False
    """Says nothing to look for, such as thanks; retrieval is skipped."""


@dataclass(frozen=True, slots=True)
class Shaping:
    """A2 by hand: what a person says of the shape, which no proposal changes. What is left out is as proposed."""

    intent: str = ""
    domain: str = ""
    headers: tuple[str, ...] | None = None
    """None: as proposed; empty: none."""


class Injection(StrEnum):
    """How a named file is in the prompt."""

    FULL = "full"
    PACK = "pack"
    NARROWS = "narrows"
    """Not code or config: retrieval is narrowed to it instead."""


@dataclass(frozen=True, slots=True)
class InjectedFile:
    """A1: a file the prompt names."""

    document: str
    name: str
    how: Injection
    text: str
    tokens: int
    named_as: str
    """The words of the prompt that name it."""
    left_out: str = ""
    """What a pack leaves out, in words."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence of condensed context with the sources it stands on."""

    text: str
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Condensed:
    """A4: `S_ctx`."""

    facts: tuple[Statement, ...]
    constraints: tuple[Statement, ...] = ()
    open_issues: tuple[Statement, ...] = ()


@dataclass(frozen=True, slots=True)
class PromptParts:
    """Everything a super-prompt is made from, before it is text."""

    task: str
    shape: Shape
    persona: str = ""
    hard_rules: str = ""
    project_memory: str = ""
    files: tuple[InjectedFile, ...] = ()
    condensed: Condensed | None = None
    sources: tuple[Source, ...] = ()
    recent: tuple[Turn, ...] = ()
    episodes: tuple[Episode, ...] = ()
    output: str = ""
    """What the answer should look like, in words; empty: a plain answer."""


@dataclass(frozen=True, slots=True)
class PromptSection:
    """One part of the finished prompt, as the preview shows it."""

    name: str
    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class SuperPrompt:
    """Byte for byte what is sent."""

    messages: tuple[Message, ...]
    sections: tuple[PromptSection, ...]
    marker: str
    """The random fence around everything that is data."""
    sources: tuple[Source, ...] = ()
    left_out: tuple[str, ...] = ()
    """What did not fit, by name."""
    hidden: tuple[str, ...] = ()
    """Characters that nobody sees and that were taken out, in words."""
