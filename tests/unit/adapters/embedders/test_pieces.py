"""A text over the limit is covered whole by its pieces."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.adapters.embedders.pieces import merge, unit_length, windows
from tests.proof import count


@settings(max_examples=count(33, 100), deadline=None)
@given(count=st.integers(0, 5000), limit=st.integers(9, 600), overlap=st.integers(0, 8))
def test_windows_cover_everything_and_overlap(count: int, limit: int, overlap: int) -> None:
    spans = windows(count, limit, overlap)
    assert spans[0][0] == 0
    assert spans[-1][1] == count
    assert all(end - start <= limit for start, end in spans)
    assert all(earlier[1] - later[0] >= overlap for earlier, later in pairwise(spans))


def test_merge_weighs_by_length() -> None:
    vectors = np.array([[1, 0], [0, 1], [0, 1]], dtype=np.float32)
    merged = merge(vectors, [0, 0, 1], [3, 1, 5], 2)
    np.testing.assert_allclose(merged[0], np.array([3, 1]) / np.sqrt(10), rtol=1e-6)
    np.testing.assert_allclose(merged[1], [0, 1])


def test_unit_length_leaves_zeros_alone() -> None:
    scaled = unit_length(np.array([[3, 4], [0, 0]], dtype=np.float32))
    assert scaled.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0, 0]]
