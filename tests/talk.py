"""A conversation for tests: answers are what a test says, over the real protocol; time passes only when told to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.build import OFFLINE
from ragforge.domain.answers import Account, Answer
from ragforge.domain.conversation import MemoryVerdict, Turn
from ragforge.testing.model_server import ModelServer
from ragforge.testing.shelf import ManualClock
from tests.forge import open_forge

MEMORY = ("memory", "inject")
"""Stages that ask no model before the answer."""


@dataclass
class Talk:
    """One conversation with a project whose model says what it is told to say."""

    forge: Ragforge
    served: ModelServer
    clock: ManualClock
    thread: str = ""
    fillers: int = 0

    @property
    def turns(self) -> list[Turn]:
        return self.forge.turns(self.thread, project="p")

    def say(self, question: str, answer: str) -> Turn:
        """A turn, as it is kept."""
        self.served.reply = answer
        return self._turn(question, "")

    def fill(self, count: int) -> None:
        """Turns about something else, each about another thing; quoted, which is quicker."""
        for number in range(self.fillers, self.fillers + count):
            self._turn(f"Does gizmo{number} need sprocket{number}?", OFFLINE)
        self.fillers += count

    def _turn(self, question: str, model: str) -> Turn:
        result = self.forge.ask(question, project="p", conversation=self.thread, stages=MEMORY, model=model)
        assert isinstance(result, Answer), f"{question}: {result.text}"
        return self.turns[-1]

    def asked(self, question: str, model: str = "") -> Account:
        """How this question would be answered now; nothing is kept."""
        return self.forge.prompt(question, project="p", conversation=self.thread, stages=MEMORY, model=model).account

    def sent(self, question: str) -> str:
        """What the model receives of the conversation with this question; nothing is kept."""
        before = len(self.served.calls)
        self.forge.ask(question, project="p", conversation=self.thread, stages=MEMORY, ephemeral=True)
        assert len(self.served.calls) == before + 1
        return history(self.served.calls[-1].prompt)

    def verdict(self, question: str, what: str) -> MemoryVerdict:
        """What became of one turn or rollup, by its id."""
        [found] = [each for each in self.asked(question).memory if each.id == what]
        return found


def history(prompt: str) -> str:
    """Of a prompt, what it tells of the conversation."""
    _, _, told = prompt.partition("## Recent history\n")
    return re.split(r"^## (?:❖ FILES|Context|Task)$", told, maxsplit=1, flags=re.MULTILINE)[0]


def blocks(told: str, kind: str) -> dict[str, str]:
    """Of a history, the texts of `turn 4` or `earlier, turn 2`, by those names."""
    found = re.findall(rf"<data-(\w+) ({kind}[^>]*)>\n(.*?)\n</data-\1>", told, re.DOTALL)
    return {name: text for _, name, text in found}


def shelve(folder: Path, files: dict[str, str], fillers: int = 80) -> Path:
    """A workspace with these files, and one to ask fillers of."""
    (folder / "docs").mkdir()
    parts = "".join(f"gizmo{number} does need sprocket{number}.\n\n" for number in range(fillers))
    for name, text in {"parts.md": parts, **files}.items():
        (folder / "docs" / name).write_text(text)
    with open_forge(folder / "workspace") as forge:
        assert not forge.add(folder / "docs", project="p").failed
    return folder / "workspace"


@contextmanager
def talk(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, *, go_on: bool = False, **settings: object
) -> Iterator[Talk]:
    """A conversation in a workspace: a new one, or the last."""
    clock = ManualClock()
    monkeypatch.setattr("ragforge.build.utc_now", clock)
    monkeypatch.setattr("ragforge.app.utc_now", clock)
    monkeypatch.setattr("ragforge.wired.utc_now", clock)
    with ModelServer() as served:
        given = {
            "model__name": "openai-compatible:stub",
            "model__base_url": served.base_url,
            "ask__whole_project_tokens": 0,
            **settings,
        }
        with open_forge(workspace, **given) as forge:
            thread = forge.conversation("last", project="p") if go_on else forge.begin_conversation("talk", project="p")
            yield Talk(forge, served, clock, thread.id)
