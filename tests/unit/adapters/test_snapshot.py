"""Vectors in segments: exact or by codes the answer is that of brute force, whatever was put and removed before."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragforge.adapters.vectors import snapshot
from ragforge.adapters.vectors.snapshot import SnapshotIndex, SnapshotReader
from ragforge.domain.retrieval import Allowed, Keys, Ranked, VectorRows
from ragforge.domain.tokens import Matrix, Vector
from ragforge.errors import BadVectors
from ragforge.ports import VectorIndex

DIMENSION = 48
NONE = np.empty(0, dtype=np.int64)
ALL = Allowed()


class SmallSegments(SnapshotIndex):
    """Cut early, so that few rows fill many segments."""

    cap = 100


def unit(vectors: Matrix) -> Matrix:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Matrix = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return scaled


def some_vectors(count: int, seed: int) -> Matrix:
    """In clusters, as real ones are; a few are zero."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(size=(12, DIMENSION))
    vectors = centres[random.integers(12, size=count)] + 0.7 * random.normal(size=(count, DIMENSION))
    vectors[random.random(count) < 0.01] = 0
    return unit(vectors.astype(np.float32))


class Shelf:
    """What an index should hold, and what brute force finds in it."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[int, Vector]] = {}

    def put(self, rows: VectorRows) -> VectorRows:
        for key, document, vector in zip(rows.keys.tolist(), rows.documents.tolist(), rows.vectors, strict=True):
            self.rows[key] = (document, vector)
        return rows

    def remove(self, keys: Keys) -> Keys:
        for key in keys.tolist():
            self.rows.pop(key, None)
        return keys

    def search(self, query: Vector, k: int, allowed: Allowed) -> Ranked:
        keys = np.array(sorted(self.rows), dtype=np.int64)
        documents = np.array([self.rows[key][0] for key in keys.tolist()], dtype=np.int64)
        mask = np.ones(len(keys), dtype=bool)
        if allowed.documents is not None:
            mask = np.isin(documents, allowed.documents, invert=allowed.deny)
        if allowed.hidden is not None:
            mask &= ~np.isin(keys, allowed.hidden)
        keys = keys[mask]
        vectors = np.array([self.rows[key][1] for key in keys.tolist()], np.float32).reshape(len(keys), len(query))
        scores = np.vecdot(vectors, query)
        order = np.lexsort((keys, -scores))[:k]
        return Ranked(keys[order], scores[order])


def random_rows(random: np.random.Generator, keys: Keys) -> VectorRows:
    return VectorRows(
        keys, random.integers(1, 20, size=len(keys)), some_vectors(len(keys), int(random.integers(1 << 30)))
    )


def filters(random: np.random.Generator, keys: Keys) -> list[Allowed]:
    documents = np.arange(1, 20)
    one, most = random.choice(documents, 1), np.sort(random.choice(documents, 15, replace=False))
    hidden = np.sort(random.choice(keys, len(keys) // 3, replace=False)) if len(keys) else NONE
    return [
        ALL,
        Allowed(one),
        Allowed(one, deny=True),
        Allowed(most, hidden=hidden),
        Allowed(most, deny=True, hidden=hidden),
        Allowed(hidden=hidden),
        Allowed(hidden=keys),
        Allowed(NONE),
        Allowed(NONE, deny=True),
    ]


def test_it_is_a_vector_index(tmp_path: Path) -> None:
    index: VectorIndex = SnapshotIndex(tmp_path, "f")
    assert (index.engine, index.fingerprint) == ("snapshot", "f")
    index.close()


@pytest.mark.parametrize("exact_rows", [50_000, 0], ids=["exact", "codes"])
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 30))
def test_any_history_gives_what_brute_force_finds(
    swift_path: Path, monkeypatch: pytest.MonkeyPatch, exact_rows: int, seed: int
) -> None:
    monkeypatch.setattr(snapshot, "_EXACT_ROWS", exact_rows)
    random = np.random.default_rng(seed)
    index, shelf = SmallSegments(Path(tempfile.mkdtemp(dir=swift_path)), "f"), Shelf()
    first = [random_rows(random, np.arange(start, start + 60)) for start in range(0, 300, 60)]
    with index.writing(blocking=True):
        index.rebuild([shelf.put(rows) for rows in first], 1)
        for step in range(2, 9):
            known = np.array(sorted(shelf.rows), dtype=np.int64)
            removed = random.choice(known, random.integers(0, len(known) // 4 + 1), replace=False)
            again = random.choice(known, random.integers(0, 10), replace=False) if len(known) else NONE
            new = np.arange(1_000 * step, 1_000 * step + random.integers(0, 130))
            rows = random_rows(random, random.permutation(np.union1d(again, new)))
            shelf.remove(removed)
            index.apply(shelf.put(rows), removed, step)
            if random.random() < 0.2:
                assert index.erase()
    reader = index.pin()
    keys = np.array(sorted(shelf.rows), dtype=np.int64)
    assert (reader.watermark, reader.rows, reader.keys().tolist()) == (8, len(keys), keys.tolist())
    for query in some_vectors(3, seed + 1):
        if not exact_rows and not query.any():
            continue  # every row is as near as any other, and codes do not know their keys
        for allowed in filters(random, keys):
            for k in (1, 7, 5_000):
                found, expected = reader.search(query, k, allowed), shelf.search(query, k, allowed)
                assert found.keys.tolist() == expected.keys.tolist()
                np.testing.assert_array_equal(found.scores, expected.scores)
        everything = shelf.search(query, 5_000, ALL)
        np.testing.assert_array_equal(reader.score(query, everything.keys), everything.scores)
        gone = np.setdiff1d(np.arange(9_000), keys)
        assert np.isnan(reader.score(query, gone)).all()
    reader.release()
    assert index.verify() == []
    index.close()


def test_an_answer_by_codes_is_nearly_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where far more rows are eligible than are rescored."""
    vectors, queries = some_vectors(20_000, 1), some_vectors(50, 2)
    index = SnapshotIndex(tmp_path / "i", "f")
    with index.writing(blocking=True):
        index.rebuild([VectorRows(np.arange(20_000), np.arange(20_000) // 10, vectors)], 1)
    reader = index.pin()
    thin, dense = np.arange(0, 2_000, 7), np.arange(0, 2_000, 2)
    for allowed in (ALL, Allowed(thin), Allowed(dense), Allowed(thin, deny=True), Allowed(hidden=np.arange(9_000))):
        exact = [set(reader.search(query, 10, allowed).keys.tolist()) for query in queries]
        with monkeypatch.context() as patch:
            patch.setattr(snapshot, "_EXACT_ROWS", 0)
            coded = [set(reader.search(query, 10, allowed).keys.tolist()) for query in queries]
        hits = sum(len(one & other) for one, other in zip(exact, coded, strict=True))
        assert hits >= 0.99 * 10 * len(queries)


def test_zero_vectors_score_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.zeros((4, DIMENSION), dtype=np.float32)
    vectors[1, 0], vectors[2, 0] = 1, -1
    index = SnapshotIndex(tmp_path / "i", "f")
    with index.writing(blocking=True):
        index.rebuild([VectorRows(np.arange(4), np.arange(4), vectors)], 1)
    for exact_rows in (50_000, 0):
        monkeypatch.setattr(snapshot, "_EXACT_ROWS", exact_rows)
        found = index.pin().search(vectors[1], 10, ALL)
        assert (found.keys.tolist(), found.scores.tolist()) == ([1, 0, 3, 2], [1, 0, 0, -1])
        assert index.pin().search(vectors[0], 10, ALL).keys.tolist() == [0, 1, 2, 3]


def test_a_mask_is_kept_for_the_same_filter_only(tmp_path: Path) -> None:
    """The same array means the same filter; one that is equal, or denied, is another."""
    index = SnapshotIndex(tmp_path / "i", "f")
    with index.writing(blocking=True):
        index.rebuild([VectorRows(np.arange(20), np.arange(20), some_vectors(20, 3))], 1)
    reader, query = index.pin(), some_vectors(1, 4)[0]
    documents = np.array([3, 4, 5])
    for _ in range(2):
        assert sorted(reader.search(query, 20, Allowed(documents)).keys.tolist()) == [3, 4, 5]
        assert len(reader.search(query, 20, Allowed(documents, deny=True))) == 17
    for number in range(30):  # more filters than are kept
        assert reader.search(query, 20, Allowed(np.array([number % 20]))).keys.tolist() == [number % 20]
    with index.writing(blocking=True):
        index.apply(VectorRows(np.array([3]), np.array([9]), some_vectors(1, 5)), np.array([4]), 2)
    assert reader.search(query, 20, Allowed(documents)).keys.size == 3
    assert index.pin().search(query, 20, Allowed(documents)).keys.tolist() == [5]


@pytest.mark.parametrize(
    "query",
    [np.zeros(3, np.float32), np.zeros((1, DIMENSION), np.float32), np.full(DIMENSION, np.nan, np.float32)],
    ids=["short", "a matrix", "not a number"],
)
def test_a_query_that_cannot_be_compared(tmp_path: Path, query: Vector) -> None:
    index = SnapshotIndex(tmp_path / "i", "f")
    with index.writing(blocking=True):
        index.rebuild([VectorRows(np.arange(4), np.arange(4), some_vectors(4, 1))], 1)
    reader: SnapshotReader = index.pin()
    with pytest.raises(BadVectors):
        reader.search(query, 3, ALL)
    with pytest.raises(BadVectors):
        reader.score(query, np.arange(3))


def test_rows_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    index = SnapshotIndex(tmp_path / "i", "f")
    wide = VectorRows(np.arange(2), np.arange(2), some_vectors(2, 1))
    narrow = VectorRows(np.arange(2, 4), np.arange(2), some_vectors(2, 1)[:, :8])
    uneven = VectorRows(np.arange(3), np.arange(3), some_vectors(2, 1))
    with index.writing(blocking=True):
        for batches in ([wide, narrow], [uneven]):
            with pytest.raises(BadVectors):
                index.rebuild(batches, 1)
        index.rebuild([wide], 1)
        with pytest.raises(BadVectors, match="48"):
            index.apply(narrow, NONE, 2)
        index.apply(VectorRows(NONE, NONE, np.empty((0, 0), np.float32)), np.arange(2), 2)
        index.apply(narrow, NONE, 3)  # an empty index takes any dimension
    assert index.pin().keys().tolist() == [2, 3]
    assert [path.name for path in (tmp_path / "i").iterdir() if path.is_dir()] != []


def test_rows_of_one_rebuild_may_come_twice(tmp_path: Path) -> None:
    """The later one counts, in the same segment or in another."""
    index, shelf = SmallSegments(tmp_path / "i", "f"), Shelf()
    batches = [
        VectorRows(np.array([5, 3, 3]), np.array([1, 2, 3]), some_vectors(3, 1)),
        VectorRows(np.arange(10, 200), np.arange(190), some_vectors(190, 2)),
        VectorRows(np.array([150, 3, 12]), np.array([7, 8, 9]), some_vectors(3, 3)),
    ]
    with index.writing(blocking=True):
        index.rebuild([shelf.put(rows) for rows in batches], 1)
    reader, query = index.pin(), some_vectors(1, 4)[0]
    assert reader.keys().tolist() == sorted(shelf.rows)
    assert reader.search(query, 300, ALL).keys.tolist() == shelf.search(query, 300, ALL).keys.tolist()
    assert sorted(reader.search(query, 9, Allowed(np.array([8]))).keys.tolist()) == [3, 18]
    assert index.verify() == []
