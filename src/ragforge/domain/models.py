"""Models as `models ls` shows them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from ragforge.domain.generation import ModelCard

_ADDRESS = re.compile(r"\bhttps?://\S+")


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


@dataclass(frozen=True, slots=True)
class LanguageModelState:
    """What is known of one language model without calling it."""

    card: ModelCard
    used_for: tuple[str, ...]
    """What the settings name it for: `answers`, `cheap`, `balanced`, `premium`. Empty: it is there, but not chosen."""
    key_name: str
    """The variable that holds its key; empty if it needs none."""
    has_key: bool
    problem: str = ""
    """Why it cannot be used as things are; empty if nothing is known to be missing."""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class LanguageModels:
    """The language models at hand, those of the settings first, and the Ollama on its port."""

    models: tuple[LanguageModelState, ...]
    ollama_url: str
    ollama_models: int | None
    """How many it has; None if it does not answer."""

    def placeless(self) -> LanguageModels:
        """The same for those who are not to know where services are."""
        told = (replace(each, problem=_ADDRESS.sub("its address", each.problem)) for each in self.models)
        return replace(self, models=tuple(told), ollama_url="")
