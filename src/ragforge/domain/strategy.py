"""How a project's texts are split. Chosen per project; a change of any value is a new generation."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import NamedTuple

SPLITTER_VERSION = 1
"""Raise it when the same text and settings would give other pieces."""


class Window(NamedTuple):
    """The range of a window's length and of the overlap with the one before, in characters or tokens."""

    least: int
    most: int
    overlap_least: int
    overlap_most: int


WINDOWS = {"chars": Window(800, 1200, 150, 250), "tokens": Window(700, 1000, 100, 150)}


@dataclass(frozen=True, slots=True)
class Strategy:
    """`sections`: leaves inside parents, along headings. `chars`, `tokens`: overlapping windows."""

    name: str = "sections"
    # sections, in tokens
    leaf_min: int = 300
    leaf_max: int = 500
    section_min: int = 100
    parent_min: int = 1000
    parent_max: int = 2000
    # windows, in characters or tokens by name; 0 takes the default of the strategy
    window_min: int = 0
    window_max: int = 0
    overlap_min: int = 0
    overlap_max: int = 0

    def __post_init__(self) -> None:
        if self.name not in ("sections", *WINDOWS):
            raise ValueError(f"no strategy {self.name!r}: choose sections, chars or tokens")
        if not 0 < self.section_min <= self.leaf_min < self.leaf_max <= self.parent_min < self.parent_max:
            raise ValueError("sizes must rise: section_min <= leaf_min < leaf_max <= parent_min < parent_max")
        if self.name in WINDOWS:
            least, most, overlap_least, overlap_most = self.window()
            if not 0 < overlap_least <= overlap_most < least <= most:
                raise ValueError("sizes must rise: overlap_min <= overlap_max < window_min <= window_max")

    def window(self) -> Window:
        """The window's ranges, with the defaults of the strategy filled in."""
        chosen = (self.window_min, self.window_max, self.overlap_min, self.overlap_max)
        return Window(*(value or default for value, default in zip(chosen, WINDOWS[self.name], strict=True)))

    def fingerprint(self, tokenizer: str) -> str:
        return "/".join((*map(str, astuple(self)), str(SPLITTER_VERSION), tokenizer))
