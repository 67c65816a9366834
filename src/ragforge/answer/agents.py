"""Agents: who speaks, with which kind of model, and what comes out.

Each is a file: a header with `profile`, `output`, `temperature` and `max_tokens`, and below it the persona. Those in
the workspace's folder `agents` add to the shipped ones, or replace them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ragforge.answer.headed import Headed, names, read
from ragforge.answer.outline import LEAST_TOKENS, MOST_TOKENS, STRUCTURED
from ragforge.domain.generation import Sampling

SHIPPED = Path(__file__).parent / "agents"
PROFILES = ("cheap", "balanced", "premium")
ANSWER = "answer"
"""The output type of agents that answer questions; every other one is a kind of document."""
_KEYS = ("profile", "output", "temperature", "max_tokens", "about")
_FREE = (0.0, 1.0)
"""The temperatures of an answer; documents keep to `STRUCTURED`."""


@dataclass(frozen=True, slots=True)
class Agent:
    """A persona with the kind of model it speaks through and the kind of text it writes."""

    name: str
    persona: str
    profile: str = "balanced"
    output: str = ANSWER
    temperature: float | None = None
    """None: as is usual for the output type."""
    max_tokens: int | None = None
    about: str = ""
    """What it is for, in one line."""

    def sampling(self, usual: Sampling) -> Sampling:
        """How it writes, where it differs from what is usual."""
        return Sampling(
            usual.temperature if self.temperature is None else self.temperature,
            usual.max_tokens if self.max_tokens is None else self.max_tokens,
            usual.stop,
        )


def agent_names(own: Path | None = None) -> list[str]:
    """Every agent there is."""
    return names(SHIPPED, own)


def agent(name: str, outputs: tuple[str, ...], own: Path | None = None) -> Agent:
    """The agent of that name. `outputs` are the kinds of documents that can be made."""
    return _agent(read(name, SHIPPED, own, _KEYS, "agent"), (ANSWER, *outputs))


def agent_for(kind: str, outputs: tuple[str, ...], own: Path | None = None) -> Agent | None:
    """The first agent, by name, that writes documents of this kind."""
    every = (agent(name, outputs, own) for name in agent_names(own))
    return next((each for each in every if each.output == kind), None)


def _agent(file: Headed, outputs: tuple[str, ...]) -> Agent:
    if not file.body:
        raise file.problem("there is no persona below the header", "write who speaks, and how, in a few sentences")
    output = file.choice("output", ANSWER, outputs)
    least, most = _FREE if output == ANSWER else STRUCTURED
    return Agent(
        file.name,
        file.body,
        file.choice("profile", "balanced", PROFILES),
        output,
        file.number("temperature", least, least, most) if "temperature" in file.header else None,
        int(file.number("max_tokens", LEAST_TOKENS, LEAST_TOKENS, MOST_TOKENS))
        if "max_tokens" in file.header
        else None,
        file.header.get("about", ""),
    )
