"""A text's tokens with their places, so that it is tokenised once and every part of it counted from that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:  # commands that touch no vector need not load NumPy
    import numpy as np
    import numpy.typing as npt

Vector: TypeAlias = "npt.NDArray[np.float32]"
Matrix: TypeAlias = "npt.NDArray[np.float32]"
Ints: TypeAlias = "npt.NDArray[np.int32]"


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """Token ids of a whole text and the character offset at which each token begins, ascending."""

    ids: Ints
    starts: Ints

    def __len__(self) -> int:
        return len(self.ids)

    def count(self, start: int, end: int) -> int:
        """How many tokens begin in `text[start:end]`."""
        low, high = self.starts.searchsorted((start, end))
        return int(high - low)


@dataclass(frozen=True, slots=True, eq=False)
class Passage:
    """A text to embed. Its token ids come along when they are known, so nothing is tokenised twice."""

    text: str
    ids: Ints | None = None


def estimated_tokens(text: str) -> int:
    """An estimate that is not too low, where no model counts."""
    return max(len(text.split()) * 7 // 5, len(text) // 4) + 1
