"""What a model's name says: its provider, the variable of its key, its address, and whether it runs on this machine."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from ragforge.adapters.embedders.records import ollama_address
from ragforge.domain.hosts import is_loopback
from ragforge.errors import UserError

COMPATIBLE = "openai-compatible"
OLLAMA = "ollama"
_OTHER_KEYS = {"google": "GEMINI_API_KEY", "huggingface": "HF_TOKEN", "together": "TOGETHER_API_KEY"}
_KEYLESS = (OLLAMA, COMPATIBLE)


@dataclass(frozen=True, slots=True)
class Name:
    """`provider:model`, taken apart."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}"

    @property
    def key_name(self) -> str:
        """The variable that holds the key."""
        return _OTHER_KEYS.get(self.provider) or f"{self.provider.upper().replace('-', '_')}_API_KEY"

    @property
    def needs_key(self) -> bool:
        return self.provider not in _KEYLESS


def parse_name(text: str) -> Name:
    """`provider:model` as its parts."""
    provider, _, model = text.strip().partition(":")
    if not provider or not model:
        raise UserError(
            f"no language model is called {text!r}",
            hint="write provider:model, such as openai:gpt-5-mini, anthropic:claude-haiku-4-5 or ollama:llama3.2",
        )
    return Name(provider, model)


_ADDRESSES = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}
"""Said aloud, so that no variable of theirs sends a key elsewhere."""


def address(name: Name, base_url: str, environment: Mapping[str, str]) -> str:
    """Where the service listens; empty: only Pydantic AI knows."""
    if name.provider == OLLAMA:
        return base_url or ollama_address(environment)
    if name.provider == COMPATIBLE and not base_url:
        raise UserError(f"{name} needs the address of its service", hint="set model.base_url")
    return base_url or _ADDRESSES.get(name.provider, "")


def is_local(url: str) -> bool:
    """Whether an address is on this machine."""
    return is_loopback(urlsplit(url).hostname or "")


def nearest(model: str, known: list[str], most: int = 3) -> list[str]:
    """The known names most like this one."""
    return difflib.get_close_matches(model, known, n=most, cutoff=0.4)
