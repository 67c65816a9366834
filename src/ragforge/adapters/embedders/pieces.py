"""Text over a model's limit: embedded in overlapping pieces, kept as one vector. Nothing is cut."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ragforge.domain.tokens import Matrix, Vector


def windows(count: int, limit: int, overlap: int) -> list[tuple[int, int]]:
    """The fewest spans of `limit` that cover `count` tokens and overlap by at least `overlap`, evenly laid."""
    if count <= limit:
        return [(0, count)]
    number = math.ceil((count - overlap) / (limit - overlap))
    return [(start, start + limit) for start in np.linspace(0, count - limit, number).astype(int).tolist()]


def merge(vectors: Matrix, owners: Sequence[int], lengths: Sequence[int], count: int) -> Matrix:
    """One vector for each of `count` owners: the mean of its pieces weighed by length, of unit length."""
    if len(owners) == count:  # nothing was over the limit
        return vectors
    sums = np.zeros((count, vectors.shape[1]), dtype=np.float32)
    np.add.at(sums, np.asarray(owners), vectors * np.maximum(np.asarray(lengths, dtype=np.float32), 1)[:, None])
    return unit_length(sums)


def unit_length(vectors: Matrix) -> Matrix:
    """The vectors scaled to length one; a zero vector stays zero."""
    lengths: Vector = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
