"""How a project's texts are split. Chosen per project; a change of any value is a new generation."""

from __future__ import annotations

from dataclasses import astuple, dataclass

SPLITTER_VERSION = 1
"""Raise it when the same text and settings would give other pieces."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """`sections`: leaves inside parents, along headings. `chars`, `tokens`: overlapping windows."""

    name: str = "sections"
    # sections, in tokens
    leaf_min: int = 300
    leaf_max: int = 500
    section_min: int = 100
    parent_max: int = 2000
    # windows, in characters or tokens by name; 0 takes the default of the strategy
    window_min: int = 0
    window_max: int = 0
    overlap_min: int = 0
    overlap_max: int = 0

    def fingerprint(self, tokenizer: str) -> str:
        return "/".join((*map(str, astuple(self)), str(SPLITTER_VERSION), tokenizer))
