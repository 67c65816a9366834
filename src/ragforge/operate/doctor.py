"""What works here, what is missing, and how to get it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ragforge.domain.library import Finding
from ragforge.domain.models import LanguageModels, ModelState

_EXTRAS = {"models": "pydantic_ai", "postgres": "psycopg"}
_ROOM = 1_000_000_000


def examine(
    workspace: Path, models: Sequence[ModelState], wanted: str, fallback: str = "wordllama"
) -> Iterator[Finding]:
    """The machine and the installation; the catalog and the jail report for themselves."""
    yield Finding(
        "Python", sys.version_info >= (3, 11), ".".join(map(str, sys.version_info[:3])), "install Python 3.11"
    )
    writable = os.access(workspace, os.W_OK)
    yield Finding("workspace", writable, str(workspace), "change its permissions or choose another --workspace")
    free = shutil.disk_usage(workspace).free
    yield Finding("free disk space", free > _ROOM, f"{free / 1e9:.1f} GB", "free some space")
    verified = {model.name for model in models if model.verified}
    yield from (_model(model, wanted, fallback if fallback in verified else "") for model in models)
    for extra, module in _EXTRAS.items():
        there = importlib.util.find_spec(module) is not None
        yield Finding(
            f"extra {extra}", True, "installed" if there else f'not installed: pip install "ragforge[{extra}]"'
        )


def answering(found: LanguageModels) -> Iterator[Finding]:
    """Who writes answers, and whether what that takes is here. None of the models was called."""
    chosen = [model for model in found.models if model.used_for]
    if not chosen:
        yield Finding("language model", True, "none: answers quote the documents; model.name names one")
    for model in chosen:
        subject, key = f"language model {model.card.name}", f"; {model.key_name} is set" if model.key_name else ""
        if model.problem:
            yield Finding(subject, False, model.problem, model.hint)
        else:
            yield Finding(subject, True, f"for {', '.join(model.used_for)}{key}")
    has = found.ollama_models
    told = "does not answer" if has is None else f"answers with {has} model{'s' * (has != 1)}"
    needed = any(model.card.name.startswith("ollama:") for model in chosen)
    needless = ", and is not needed" if has is None and not needed else ""
    yield Finding("Ollama", True, f"{told} at {found.ollama_url}{needless}")


def _model(model: ModelState, wanted: str, fallback: str) -> Finding:
    """A model that is wanted but missing is a fault, or a warning where another takes its place."""
    subject, hint = f"model {model.name}", f"ragforge models pull {model.name}"
    if model.verified:
        return Finding(subject, True, str(model.where))
    if model.name != wanted:
        return Finding(subject, True, "not here, and not needed")
    if fallback:
        return Finding(subject, True, f"{model.problem}; new projects use {fallback}", hint, warning=True)
    return Finding(subject, False, model.problem, hint)
