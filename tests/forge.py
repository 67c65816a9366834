"""A workspace for tests: opened with an embedder that costs nothing, filled with texts made from numbers."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.domain.cancel import Cancel
from ragforge.domain.library import Finding, Job
from ragforge.domain.strategy import Strategy
from ragforge.domain.tokens import Matrix, Passage
from ragforge.operate.access import owner
from ragforge.ports import Embedder
from ragforge.settings import load
from ragforge.testing.hashing import HashingEmbedder
from tests.catalogs import tables_with

SMALL = Strategy(leaf_min=20, leaf_max=40, section_min=5, parent_min=60, parent_max=120)
"""Many chunks from little text."""


class WatchedEmbedder(HashingEmbedder):
    """Remembers what it was asked to embed; `before` may wait or fail at each call."""

    def __init__(self, dimension: int = 64, before: Callable[[], None] = lambda: None) -> None:
        super().__init__(dimension)
        self.texts: list[str] = []
        self.calls = 0
        self.before = before

    def embed(self, passages: Sequence[Passage], cancel: Cancel) -> Matrix:
        self.calls += 1
        self.before()
        self.texts += [passage.text for passage in passages]
        return super().embed(passages, cancel)


def open_forge(workspace: Path, embedder: Embedder | None = None, /, **settings: object) -> Ragforge:
    """A workspace with the project `p`. Settings are written `limits__file_bytes=10`."""
    given = {name.replace("__", "."): value for name, value in settings.items()}
    embedders = {"hashing": embedder or HashingEmbedder(64)}
    forge = Ragforge.open(load(workspace, flags={"the test": given}), embedders=embedders)
    if not forge.projects():
        forge.create_project("p", strategy=SMALL, embedder="hashing")
    return forge


def prose(seed: int, sentences: int = 12) -> str:
    """Paragraphs that no other seed gives."""
    words = random.Random(seed)
    each = [" ".join(f"word{words.randrange(10_000)}" for _ in range(8)).capitalize() + "." for _ in range(sentences)]
    return f"# Page {seed}\n\n" + "\n\n".join(" ".join(each[i : i + 3]) for i in range(0, sentences, 3)) + "\n"


def fill(folder: Path, count: int, sentences: int = 12) -> list[Path]:
    """A folder of `count` different Markdown files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"file{number:04}.md" for number in range(count)]
    for number, path in enumerate(paths):
        path.write_text(prose(number, sentences))
    return paths


def text_of(forge: Ragforge, name: str, project: str = "p") -> str:
    """All that can be found of a file."""
    return "\n".join(chunk.text for chunk in forge.chunks(name, project=project))


def faults(forge: Ragforge) -> list[Finding]:
    """What `check` does not like."""
    return [finding for finding in forge.check() if not finding.ok]


def places_of(needle: bytes, folder: Path) -> list[str]:
    """The files below a folder that hold these bytes, and the tables if it is a workspace with a database."""
    found = []
    for base, _, names in os.walk(folder):
        found += [name for name in names if needle in Path(base, name).read_bytes()]
    return sorted(found) + tables_with(needle, folder)


def set_aside(forge: Ragforge, job: Job) -> Job:
    """As after five kills while it was taken in, without the rests between them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("ragforge.adapters.catalog.jobs._PAUSE_MILLISECONDS", 0)
        for _ in range(5):
            with forge._parts.catalog.write() as c:
                assert c.jobs.claim(owner(), "killed", [job.kind], 120.0, job.id)
                assert c.jobs.free(owner(), lambda worker: False) == 1
    return forge.job(job.id)
