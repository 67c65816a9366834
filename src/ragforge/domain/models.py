"""Models as `models ls` shows them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class PulledModel:
    """A model that is here and verified; `source` is `package`, `present`, `folder`, `hub` or `registry`."""

    name: str
    folder: Path
    source: str
    size: int


@dataclass(frozen=True, slots=True)
class ModelState:
    """What `models ls` shows of one model."""

    name: str
    kind: str
    where: Path | None
    size: int
    verified: bool
    problem: str = ""
