"""What every vector index keeps. Subclass, give the fixture `open_index`, and pytest runs it all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

from ragforge.domain.retrieval import Allowed, Keys, Ranked, Scores, VectorRows
from ragforge.domain.tokens import Matrix, Vector
from ragforge.errors import IndexLost, RagforgeError
from ragforge.ports import VectorIndex, VectorReader

OpenIndex: TypeAlias = Callable[[str], VectorIndex]
"""Opens the index of this test, always the same one, with a fingerprint."""

FINGERPRINT = "model-a:64:cosine"
DIMENSION = 64


def keys(*numbers: int) -> Keys:
    return np.array(numbers, dtype=np.int64)


NONE = keys()
ALL = Allowed()


def axis(number: int) -> Vector:
    """A unit vector along one axis, so that scores are exact in any engine."""
    vector = np.zeros(DIMENSION, dtype=np.float32)
    vector[number] = 1
    return vector


def between(first: int, second: int) -> Vector:
    """A unit vector that scores .6 with one axis and .8 with another."""
    return np.float32(0.6) * axis(first) + np.float32(0.8) * axis(second)


def rows(numbers: Sequence[int], vectors: Sequence[Vector], documents: Sequence[int] | None = None) -> VectorRows:
    """Rows with these keys; each in a document of its own, key plus 1,000, unless told."""
    return VectorRows(
        keys(*numbers),
        keys(*(documents if documents is not None else [number + 1_000 for number in numbers])),
        np.stack(vectors) if vectors else np.empty((0, DIMENSION), dtype=np.float32),
    )


NO_ROWS = rows([], [])


def write(index: VectorIndex, put: VectorRows, removed: Keys, watermark: int) -> None:
    with index.writing(blocking=True) as ours:
        assert ours
        index.apply(put, removed, watermark)


def rebuild(index: VectorIndex, parts: Sequence[VectorRows], watermark: int) -> None:
    with index.writing(blocking=True) as ours:
        assert ours
        index.rebuild(iter(parts), watermark)


def found(reader: VectorReader, query: Vector, k: int = 10, allowed: Allowed = ALL) -> list[int]:
    return [int(key) for key in ranked(reader.search(query, k, allowed)).keys]


def ranked(result: Ranked) -> Ranked:
    """The result, once it is sure that it is well formed: best first, equal ones by key, no row twice."""
    assert result.keys.dtype == np.int64
    assert result.scores.dtype == np.float32
    assert result.keys.shape == result.scores.shape
    assert np.isfinite(result.scores).all()
    order = np.lexsort((result.keys, -result.scores))
    assert order.tolist() == list(range(len(result)))
    assert len(set(result.keys.tolist())) == len(result)
    return result


class Library:
    """Some rows in clusters, as real vectors are, and what an exact search of them finds."""

    def __init__(self, size: int = 2_000, documents: int = 200, seed: int = 7) -> None:
        random = np.random.default_rng(seed)
        centres = random.normal(size=(40, DIMENSION))
        spread = centres[random.integers(40, size=size)] + 0.6 * random.normal(size=(size, DIMENSION))
        self.vectors: Matrix = _unit(spread)
        self.keys: Keys = np.sort(random.choice(size * 5, size=size, replace=False).astype(np.int64) + 1)
        self.documents: Keys = random.permutation(np.arange(size, dtype=np.int64) % documents) + 1
        self.queries: Matrix = _unit(centres[:15] + 0.8 * random.normal(size=(15, DIMENSION)))

    @property
    def rows(self) -> VectorRows:
        return VectorRows(self.keys, self.documents, self.vectors)

    def parts(self, size: int) -> list[VectorRows]:
        return [
            VectorRows(self.keys[at : at + size], self.documents[at : at + size], self.vectors[at : at + size])
            for at in range(0, len(self.keys), size)
        ]

    def eligible(self, allowed: Allowed) -> Keys:
        """The keys of the rows that may be returned."""
        mask = np.ones(len(self.keys), dtype=bool)
        if allowed.documents is not None:
            mask = np.isin(self.documents, allowed.documents, invert=allowed.deny)
        if allowed.hidden is not None:
            mask &= ~np.isin(self.keys, allowed.hidden)
        return self.keys[mask]

    def nearest(self, query: Vector, k: int, allowed: Allowed) -> Keys:
        """What brute force finds, best first."""
        eligible = np.isin(self.keys, self.eligible(allowed))
        scores, eligible_keys = self.vectors[eligible] @ query, self.keys[eligible]
        return eligible_keys[np.lexsort((eligible_keys, -scores))][:k]

    def recall(self, reader: VectorReader, allowed: Allowed, k: int = 10, queries: int = 15) -> float:
        """The share of the exact top k that is found. Fails if a masked row is returned, or fewer than there are."""
        eligible, hits, wanted = self.eligible(allowed), 0, 0
        for query in self.queries[:queries]:
            got, exact = ranked(reader.search(query, k, allowed)), self.nearest(query, k, allowed)
            assert np.isin(got.keys, eligible).all(), "a masked row was returned"
            assert len(got) == len(exact), "fewer than k, though more are allowed"
            hits, wanted = hits + len(np.intersect1d(got.keys, exact)), wanted + len(exact)
        return hits / wanted if wanted else 1.0


def _unit(vectors: npt.NDArray[np.float64]) -> Matrix:
    unit: npt.NDArray[np.float64] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit.astype(np.float32)


class VectorIndexContract:
    """Rows go in and out by key, the nearest allowed ones are found, and nothing of a removed one stays."""

    isolated = False
    """Whether a pinned reader keeps its moment while others write."""

    @pytest.fixture
    def open_index(self) -> OpenIndex:
        raise NotImplementedError

    @pytest.fixture
    def folder(self) -> Path | None:
        """Where its files are, if it has files of its own."""
        return None

    def traces(self, vector: Vector) -> list[bytes]:
        """How a vector may stand in one of its files."""
        return [vector.astype("<f4").tobytes()]

    @pytest.fixture
    def index(self, open_index: OpenIndex) -> Iterator[VectorIndex]:
        index = open_index(FINGERPRINT)
        yield index
        index.close()

    # -- rows and watermark

    def test_nothing_was_built_yet(self, index: VectorIndex) -> None:
        with pytest.raises(IndexLost):
            index.pin()
        assert index.fingerprint == FINGERPRINT
        assert index.engine

    def test_an_empty_index_finds_nothing(self, index: VectorIndex) -> None:
        rebuild(index, [], 3)
        reader = index.pin()
        assert (reader.watermark, reader.rows, reader.keys().tolist()) == (3, 0, [])
        assert found(reader, axis(0)) == []
        assert found(reader, axis(0), 10, Allowed(keys(5))) == []
        assert np.isnan(reader.score(axis(0), keys(1, 2))).all()
        reader.release()
        assert index.verify() == []

    def test_rows_may_come_after_an_empty_start(self, index: VectorIndex) -> None:
        rebuild(index, [], 0)
        write(index, rows([1, 2], [axis(0), axis(1)]), NONE, 2)
        reader = index.pin()
        assert (reader.watermark, reader.rows) == (2, 2)
        assert found(reader, axis(1))[0] == 2

    def test_put_replace_and_remove(self, index: VectorIndex) -> None:
        rebuild(index, [rows([1, 2, 3], [axis(1), axis(2), axis(3)])], 1)
        for _ in range(2):  # applied twice, as after a crash: nothing changes
            write(index, rows([2, 4], [axis(12), axis(4)], [1_002, 1_004]), keys(3), 5)
            reader = index.pin()
            assert (reader.watermark, reader.rows, reader.keys().tolist()) == (5, 3, [1, 2, 4])
            assert found(reader, axis(12), 1) == [2]
            assert 3 not in found(reader, axis(3))
            scores = reader.score(axis(2), keys(1, 2, 3, 4))
            np.testing.assert_allclose(scores, [0, 0, np.nan, 0], atol=1e-4)
            reader.release()
        assert index.verify() == []

    def test_the_last_of_equal_keys_counts(self, index: VectorIndex) -> None:
        rebuild(index, [rows([3, 1, 3], [axis(1), axis(2), axis(3)], [10, 20, 30])], 1)
        write(index, rows([1, 5, 1, 3], [axis(4), axis(5), axis(6), axis(7)], [40, 50, 60, 70]), keys(1, 3), 2)
        reader = index.pin()
        assert (reader.rows, reader.keys().tolist()) == (3, [1, 3, 5])
        assert [found(reader, axis(number), 1) for number in (6, 5, 7)] == [[1], [5], [3]]
        assert found(reader, axis(6), 10, Allowed(keys(40, 10, 30))) == []

    def test_a_row_moves_to_another_document(self, index: VectorIndex) -> None:
        rebuild(index, [rows([1, 2], [axis(1), axis(2)], [10, 20])], 1)
        write(index, rows([1], [axis(1)], [30]), NONE, 2)
        reader = index.pin()
        assert found(reader, axis(1), 10, Allowed(keys(10))) == []
        assert found(reader, axis(1), 10, Allowed(keys(30))) == [1]

    def test_removing_what_is_not_there(self, index: VectorIndex) -> None:
        rebuild(index, [rows([1], [axis(1)])], 1)
        write(index, NO_ROWS, keys(7, 8, 9), 4)
        reader = index.pin()
        assert (reader.watermark, reader.keys().tolist()) == (4, [1])

    def test_the_watermark_moves_without_rows(self, index: VectorIndex) -> None:
        rebuild(index, [rows([1], [axis(1)])], 1)
        write(index, NO_ROWS, NONE, 1_234_567_890_123)
        reader = index.pin()
        assert (reader.watermark, reader.rows) == (1_234_567_890_123, 1)

    def test_every_row_may_go(self, index: VectorIndex) -> None:
        rebuild(index, [rows([1, 2], [axis(1), axis(2)])], 1)
        write(index, NO_ROWS, keys(1, 2), 2)
        reader = index.pin()
        assert (reader.rows, found(reader, axis(1))) == (0, [])
        write(index, rows([3], [axis(3)]), NONE, 3)
        assert found(index.pin(), axis(3)) == [3]

    def test_large_keys_and_documents(self, index: VectorIndex) -> None:
        big = 2**53 + 12_345  # beyond what a float holds exactly
        rebuild(index, [rows([big, big + 1], [axis(1), axis(2)], [big + 2, big + 3])], 1)
        reader = index.pin()
        assert reader.keys().tolist() == [big, big + 1]
        assert found(reader, axis(1), 10, Allowed(keys(big + 3))) == [big + 1]
        assert found(reader, axis(1), 10, Allowed(keys(big + 3), deny=True)) == [big]
        assert found(reader, axis(2), 10, Allowed(hidden=keys(big + 1))) == [big]

    # -- what is found

    def test_best_first_and_equal_ones_by_key(self, index: VectorIndex) -> None:
        vectors = [axis(1), axis(1), axis(0), between(0, 1), axis(1), axis(0), between(0, 1)]
        rebuild(index, [rows([31, 7, 19, 5, 11, 3, 23], vectors)], 1)
        result = ranked(index.pin().search(axis(1), 7, ALL))
        assert result.keys.tolist() == [7, 11, 31, 5, 23, 3, 19]
        np.testing.assert_allclose(result.scores, [1, 1, 1, 0.8, 0.8, 0, 0], atol=1e-4)

    def test_as_many_as_asked_for(self, index: VectorIndex) -> None:
        rebuild(index, [rows(range(1, 6), [axis(number) for number in range(5)])], 1)
        reader = index.pin()
        assert [len(found(reader, axis(0), k)) for k in (0, 1, 4, 5, 6, 1_000_000)] == [0, 1, 4, 5, 5, 5]
        assert found(reader, axis(3), 1) == [4]

    def test_opposite_vectors_score_below_zero(self, index: VectorIndex) -> None:
        rebuild(index, [rows([1, 2], [-axis(1), axis(2)])], 1)
        result = ranked(index.pin().search(axis(1), 2, ALL))
        assert result.keys.tolist() == [2, 1]
        np.testing.assert_allclose(result.scores, [0, -1], atol=1e-4)

    def test_filters_lose_nothing_and_let_nothing_through(self, index: VectorIndex) -> None:
        library = Library()
        rebuild(index, library.parts(700), 1)
        reader = index.pin()
        random = np.random.default_rng(1)
        two, twenty = (np.sort(random.choice(np.arange(1, 201), size, replace=False)) for size in (2, 20))
        most = np.setdiff1d(np.arange(1, 201), twenty)
        absent = keys(5_000, 5_001)
        best = np.unique(np.concatenate([library.nearest(query, 3, ALL) for query in library.queries]))
        measured = {"all": ALL, "1 %": Allowed(two), "10 %": Allowed(twenty)}
        others = {
            "1 %, denied the rest": Allowed(np.setdiff1d(np.arange(1, 201), two), deny=True),
            "10 %, denied the rest": Allowed(most, deny=True),
            "denied 1 %": Allowed(two, deny=True),
            "denied 10 %": Allowed(twenty, deny=True),
            "denied none": Allowed(NONE, deny=True),
            "none": Allowed(NONE),
            "absent": Allowed(absent),
            "denied absent": Allowed(absent, deny=True),
            "hidden best": Allowed(hidden=best),
            "1 %, hidden best": Allowed(two, hidden=best),
            "10 %, hidden best": Allowed(twenty, hidden=best),
            "denied 10 %, hidden best": Allowed(twenty, deny=True, hidden=best),
            "hidden none": Allowed(hidden=NONE),
            "hidden absent": Allowed(hidden=keys(900_001, 900_002)),
            "hidden most": Allowed(hidden=library.keys[5:]),
        }
        recall = {name: library.recall(reader, allowed) for name, allowed in measured.items()}
        recall |= {name: library.recall(reader, allowed, queries=4) for name, allowed in others.items()}
        assert {name: value for name, value in recall.items() if value < 0.98} == {}

    def test_scores_by_key_are_those_of_the_search(self, index: VectorIndex) -> None:
        library = Library(300, 30)
        rebuild(index, [library.rows], 1)
        reader = index.pin()
        for query in library.queries[:5]:
            result = reader.search(query, 40, ALL)
            np.testing.assert_allclose(reader.score(query, result.keys), result.scores, atol=1e-4)
        some = library.keys[::7][::-1]  # in any order, with one that is not there, one of them twice
        asked = np.concatenate([some, keys(999_999), some[:1]])
        scores: Scores = reader.score(library.queries[0], asked)
        assert scores.dtype == np.float32
        expected = library.vectors[::7][::-1] @ library.queries[0]
        np.testing.assert_allclose(scores, [*expected, np.nan, expected[0]], atol=1e-4)
        assert reader.score(library.queries[0], NONE).shape == (0,)

    def test_every_key_is_listed(self, index: VectorIndex) -> None:
        library = Library(1_500, 30)
        rebuild(index, library.parts(400), 1)
        reader = index.pin()
        assert reader.rows == 1_500
        listed = reader.keys()
        assert listed.dtype == np.int64
        assert listed.tolist() == library.keys.tolist()
        assert index.verify() == []

    def test_two_threads_find_the_same(self, index: VectorIndex) -> None:
        library = Library(300, 30)
        rebuild(index, [library.rows], 1)
        reader = index.pin()
        alone = [found(reader, query) for query in library.queries]
        with ThreadPoolExecutor(2) as pool:
            together = list(pool.map(lambda query: found(index.pin(), query), library.queries))
        assert together == alone

    # -- rebuilding, and readers meanwhile

    def test_a_rebuilt_index_finds_the_same(self, index: VectorIndex) -> None:
        library = Library(600, 60)
        rebuild(index, [library.rows], 1)
        reader = index.pin()
        before = [found(reader, query) for query in library.queries]
        reader.release()
        rebuild(index, library.parts(100), 2)
        reader = index.pin()
        assert (reader.watermark, reader.rows) == (2, 600)
        same = [len(set(found(reader, query)) & set(old)) for query, old in zip(library.queries, before, strict=True)]
        assert sum(same) >= 0.99 * 10 * len(before)

    def test_a_rebuild_leaves_no_old_row(self, index: VectorIndex) -> None:
        rebuild(index, [rows([1, 2], [axis(1), axis(2)])], 1)
        rebuild(index, [rows([3], [axis(3)])], 2)
        reader = index.pin()
        assert (reader.keys().tolist(), found(reader, axis(1))) == ([3], [3])

    def test_a_failed_rebuild_leaves_the_old_one(self, index: VectorIndex) -> None:
        rebuild(index, [rows([1, 2], [axis(1), axis(2)])], 7)

        def broken() -> Iterator[VectorRows]:
            yield rows([3], [axis(3)])
            raise OSError("the catalog went away")

        with index.writing(blocking=True), pytest.raises(OSError, match="catalog"):
            index.rebuild(broken(), 8)
        reader = index.pin()
        assert (reader.watermark, reader.keys().tolist()) == (7, [1, 2])
        assert found(reader, axis(2), 1) == [2]

    def test_a_pinned_reader_lives_through_writes(self, index: VectorIndex) -> None:
        rebuild(index, [rows([1, 2], [axis(1), axis(2)])], 1)
        reader = index.pin()
        write(index, rows([3], [axis(3)]), keys(2), 2)
        assert reader.watermark == 1
        assert found(reader, axis(1), 1) == [1]
        if self.isolated:
            assert found(reader, axis(2), 1) == [2]
            assert (reader.rows, reader.keys().tolist()) == (2, [1, 2])
        rebuild(index, [rows([1, 4], [axis(1), axis(4)])], 3)
        assert reader.watermark == 1
        assert found(reader, axis(1), 1) == [1]
        reader.release()
        assert found(index.pin(), axis(4), 1) == [4]

    # -- removing for good

    def test_erasing_leaves_no_trace(self, index: VectorIndex, folder: Path | None) -> None:
        canary = (np.random.default_rng(3).choice([-1, 1], DIMENSION) / 8).astype(np.float32)  # of length 1 exactly
        replaced = (np.random.default_rng(4).choice([-1, 1], DIMENSION) / 8).astype(np.float32)
        library = Library(300, 30)
        rebuild(index, [library.rows], 1)
        write(index, rows([900_001, 900_002], [canary, replaced]), NONE, 2)
        write(index, rows([900_002], [axis(5)]), keys(900_001), 3)
        with index.writing(blocking=True):
            assert index.erase()
            assert index.erase()  # and again, with nothing to do
        reader = index.pin()
        assert (reader.watermark, reader.rows) == (3, 301)
        assert 900_001 not in reader.keys().tolist()
        assert 900_001 not in found(reader, canary, 400)
        assert found(reader, axis(5), 1) == [900_002]
        assert library.recall(reader, Allowed(hidden=keys(900_002))) >= 0.98
        reader.release()
        index.close()
        if folder is not None:
            for vector in (canary, replaced):
                assert self._holding(folder, vector) == []

    def test_the_search_for_traces_is_not_blind(self, index: VectorIndex, folder: Path | None) -> None:
        if folder is None:
            return
        canary = (np.random.default_rng(3).choice([-1, 1], DIMENSION) / 8).astype(np.float32)
        rebuild(index, [rows([1, 2], [axis(1), canary])], 1)
        index.close()
        assert self._holding(folder, canary)

    def _holding(self, folder: Path, vector: Vector) -> list[Path]:
        """The files in which the vector stands."""
        traces = self.traces(vector)
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        return [path for path in files if any(trace in path.read_bytes() for trace in traces)]

    def test_a_dropped_index_is_gone(self, index: VectorIndex, folder: Path | None) -> None:
        rebuild(index, [rows([1], [axis(1)])], 1)
        with index.writing(blocking=True):
            index.drop()
        with pytest.raises(IndexLost):
            index.pin()
        if folder is not None:
            assert self._holding(folder, axis(1)) == []
        rebuild(index, [rows([2], [axis(2)])], 2)
        assert index.pin().keys().tolist() == [2]

    # -- who may use it

    def test_closing_and_opening_keeps_all(self, index: VectorIndex, open_index: OpenIndex) -> None:
        library = Library(300, 30)
        rebuild(index, [library.rows], 41)
        write(index, NO_ROWS, library.keys[:5], 42)
        index.close()
        again = open_index(FINGERPRINT)
        try:
            reader = again.pin()
            assert (reader.watermark, reader.rows) == (42, 295)
            assert reader.keys().tolist() == library.keys[5:].tolist()
            assert library.recall(reader, Allowed(hidden=library.keys[:5])) >= 0.98
            reader.release()
            assert again.verify() == []
        finally:
            again.close()

    def test_another_fingerprint_has_no_index(self, index: VectorIndex, open_index: OpenIndex) -> None:
        rebuild(index, [rows([1], [axis(1)])], 1)
        index.close()
        other = open_index("model-b:64:cosine")
        try:
            with pytest.raises(IndexLost):
                other.pin()
            rebuild(other, [rows([2], [axis(2)])], 2)
            assert other.pin().keys().tolist() == [2]
        finally:
            other.close()

    def test_one_writer_at_a_time(self, index: VectorIndex) -> None:
        rebuild(index, [], 0)

        def try_to_write() -> bool:
            with index.writing(blocking=False) as ours:
                return ours

        with ThreadPoolExecutor(1) as pool:
            with index.writing(blocking=False) as ours:
                assert ours
                assert not pool.submit(try_to_write).result()
            assert pool.submit(try_to_write).result()

    def test_vectors_of_another_dimension_are_refused(self, index: VectorIndex) -> None:
        rebuild(index, [rows([1], [axis(1)])], 1)
        short = VectorRows(keys(2), keys(2), np.ones((1, 8), dtype=np.float32))
        with pytest.raises(RagforgeError):
            write(index, short, NONE, 2)
        with pytest.raises(RagforgeError):
            index.pin().search(np.ones(8, dtype=np.float32), 3, ALL)
        reader = index.pin()
        assert (reader.watermark, reader.keys().tolist()) == (1, [1])
        assert found(reader, axis(1)) == [1]

    def test_vectors_that_are_no_numbers_are_refused(self, index: VectorIndex) -> None:
        rebuild(index, [rows([1], [axis(1)])], 1)
        for wrong in (np.nan, np.inf):
            broken = rows([2], [np.full(DIMENSION, wrong, dtype=np.float32)])
            with pytest.raises(RagforgeError):
                write(index, broken, NONE, 2)
        reader = index.pin()
        assert (reader.watermark, reader.keys().tolist()) == (1, [1])
