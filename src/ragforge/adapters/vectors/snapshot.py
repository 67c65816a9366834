"""Vectors in memory-mapped segments: an exact scan of few rows, int8 codes with exact rescoring for many."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BufferedWriter
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import simsimd

from ragforge.adapters.segments.index import SegmentIndex
from ragforge.adapters.segments.manifest import Facts, Record
from ragforge.adapters.segments.rows import Mask, Piece, Places, last_of_each, places_of
from ragforge.adapters.segments.state import SegmentReader, State
from ragforge.domain.retrieval import Allowed, Keys, Ranked, Scores, VectorRows
from ragforge.domain.tokens import Matrix, Vector
from ragforge.errors import BadVectors

Codes: TypeAlias = "npt.NDArray[np.int8]"

_FILE = "rows"
_ALIGN = 64
_BLOCK = 4_096
"""Rows that are coded and written at a time."""
_EXACT_ROWS = 4_096
"""Up to so many rows are compared exactly; more by their codes first."""
_RESCORED = 100
"""Rows with the best codes that are compared exactly, at least; measured recall@10 is above .999."""
_SCAN_SHARE = 0.4
"""From this share of eligible rows on, scanning a whole segment costs less than gathering them."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where each column of a segment's file begins."""

    keys: int
    documents: int
    scales: int
    codes: int
    vectors: int
    size: int


def _layout(rows: int, dimension: int) -> _Layout:
    starts = [0]
    for width in (8, 8, 4, dimension, 4 * dimension):
        starts.append(starts[-1] + -(-rows * width // _ALIGN) * _ALIGN)
    return _Layout(*starts)


@dataclass(frozen=True, slots=True, eq=False)
class _Segment:
    """The columns of a segment, mapped."""

    keys: Keys
    documents: Keys
    scales: Scores
    codes: Codes
    vectors: Matrix


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The rows of a segment that may be returned; no mask: all of them."""

    segment: _Segment
    mask: Mask | None
    count: int


class SnapshotIndex(SegmentIndex[VectorRows, _Segment, None]):
    """The nearest rows by scanning all that are allowed: no graph, no training, no loss under filters."""

    engine = "snapshot"
    shared = False
    cap = 65_536

    def pin(self) -> SnapshotReader:
        return SnapshotReader(self._pinned(), self._release)

    def apply(self, put: VectorRows, removed: Keys, watermark: int) -> None:
        self._apply(put, removed, watermark)

    def rebuild(self, rows: Iterable[VectorRows], watermark: int) -> None:
        self._rebuild(rows, watermark)

    def _checked(self, rows: VectorRows, known: Facts | None) -> VectorRows:
        vectors = rows.vectors.astype(np.float32, copy=False)
        if vectors.ndim != 2 or not len(rows.keys) == len(rows.documents) == len(vectors):
            raise BadVectors("there is not one vector for each row")
        if len(vectors) and known is not None and vectors.shape[1] != known["dimension"]:
            raise BadVectors(
                f"the vectors have {vectors.shape[1]:,} dimensions, those of the index {known['dimension']:,}",
                hint="the project's model has changed: ragforge reindex",
            )
        if not np.isfinite(vectors).all():
            raise BadVectors("a vector holds NaN or infinity")
        if (np.diff(rows.keys) > 0).all():
            return VectorRows(rows.keys, rows.documents, vectors)
        order = last_of_each(rows.keys)
        return VectorRows(rows.keys[order], rows.documents[order], vectors[order])

    def _part(self, rows: VectorRows, start: int, end: int) -> VectorRows:
        return VectorRows(rows.keys[start:end], rows.documents[start:end], rows.vectors[start:end])

    def _rows(self, state: State[_Segment, None]) -> list[VectorRows]:
        return [VectorRows(segment.keys, segment.documents, segment.vectors) for segment in state.segments]

    def _write(self, folder: Path, piece: Piece[VectorRows]) -> Facts:
        dimensions = {rows.vectors.shape[1] for rows in piece.sources}
        if len(dimensions) != 1:
            raise BadVectors(f"the vectors have {' and '.join(map(str, sorted(dimensions)))} dimensions")
        dimension, rows = dimensions.pop(), len(piece.keys)
        layout = _layout(rows, dimension)
        with (folder / _FILE).open("xb") as file:
            file.truncate(layout.size)
            _put(file, layout.keys, piece.keys.astype(np.int64))
            _put(file, layout.documents, piece.documents.astype(np.int64))
            for start in range(0, rows, _BLOCK):
                vectors = _gathered(piece, slice(start, start + _BLOCK))
                scales, codes = _coded(vectors)
                _put(file, layout.scales + start * 4, scales)
                _put(file, layout.codes + start * dimension, codes)
                _put(file, layout.vectors + start * dimension * 4, vectors)
        return {"dimension": dimension}

    def _open(self, folder: Path, record: Record) -> _Segment:
        rows, dimension = record.rows, record.facts.get("dimension", 0)
        layout = _layout(rows, dimension)
        with (folder / _FILE).open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if len(mapped) != layout.size or not rows or not dimension:
            raise ValueError(f"segment {record.name} is not as large as its rows")
        return _Segment(
            keys=np.frombuffer(mapped, np.int64, rows, layout.keys),
            documents=np.frombuffer(mapped, np.int64, rows, layout.documents),
            scales=np.frombuffer(mapped, np.float32, rows, layout.scales),
            codes=np.frombuffer(mapped, np.int8, rows * dimension, layout.codes).reshape(rows, dimension),
            vectors=np.frombuffer(mapped, np.float32, rows * dimension, layout.vectors).reshape(rows, dimension),
        )

    def _view(self, segments: Sequence[_Segment]) -> None:
        if len({segment.vectors.shape[1] for segment in segments}) > 1:
            raise ValueError("its segments have different dimensions")

    def _examine(self, state: State[_Segment, None]) -> Iterator[str]:
        for record, segment in zip(state.manifest.segments, state.segments, strict=True):
            for start in range(0, record.rows, _BLOCK):
                scales, codes = _coded(segment.vectors[start : start + _BLOCK])
                same = np.array_equal(codes, segment.codes[start : start + _BLOCK])
                if not same or not np.array_equal(scales, segment.scales[start : start + _BLOCK]):
                    yield f"the codes of segment {record.name} are not those of its vectors"
                    break


class SnapshotReader(SegmentReader[_Segment, None]):
    """Searches by cosine, which for vectors of unit length is their dot product."""

    def search(self, query: Vector, k: int, allowed: Allowed) -> Ranked:
        """The nearest of the rows that are allowed; no other row is ever looked at for the result."""
        query = self._checked(query)
        parts = self._parts(allowed)
        if k < 1 or not parts:
            return Ranked(np.empty(0, np.int64), np.empty(0, np.float32))
        if sum(part.count for part in parts) <= _EXACT_ROWS:
            return _best([_exact(part, query) for part in parts], k)
        chosen = _nearest_by_codes(parts, query, max(_RESCORED, 4 * k))
        return _best([(s.keys[rows], np.vecdot(s.vectors[rows], query)) for s, rows in chosen], k)

    def score(self, query: Vector, keys: Keys) -> Scores:
        """The cosine of each of these rows; NaN where there is none."""
        query = self._checked(query)
        scores = np.full(len(keys), np.nan, dtype=np.float32)
        for segment, living in zip(self._state.segments, self._state.living, strict=True):
            places, there = places_of(segment.keys, keys)
            if living is not None:
                there &= living[places]
            if there.any():
                scores[there] = np.vecdot(segment.vectors[places[there]], query)
        return scores

    def _checked(self, query: Vector) -> Vector:
        query = np.ascontiguousarray(query, dtype=np.float32)
        segments = self._state.segments
        if query.ndim != 1 or (segments and len(query) != segments[0].vectors.shape[1]):
            dimension = segments[0].vectors.shape[1] if segments else 0
            raise BadVectors(f"the query has the shape {query.shape}, the index {dimension:,} dimensions")
        if not np.isfinite(query).all():
            raise BadVectors("the query's vector holds NaN or infinity")
        return query

    def _parts(self, allowed: Allowed) -> list[_Part]:
        """The segments that hold rows which may be returned, with their masks."""
        parts = []
        for segment, eligible in zip(self._state.segments, self._state.eligible(allowed), strict=True):
            mask, count = eligible.mask, eligible.count
            if allowed.hidden is not None and len(allowed.hidden):
                places, there = places_of(segment.keys, allowed.hidden)
                if there.any():
                    mask = np.ones(len(segment.keys), np.bool_) if mask is None else mask.copy()
                    mask[places[there]] = False
                    count = int(np.count_nonzero(mask))
            if count:
                parts.append(_Part(segment, mask, count))
        return parts


def _exact(part: _Part, query: Vector) -> tuple[Keys, Scores]:
    """Keys and scores of all eligible rows. `vecdot` goes row by row: no BLAS threads, and the same sum everywhere."""
    segment, mask = part.segment, part.mask
    if mask is None:
        return segment.keys, np.vecdot(segment.vectors, query)
    if part.count >= _SCAN_SHARE * len(mask):
        return segment.keys[mask], np.vecdot(segment.vectors, query)[mask]
    rows = np.flatnonzero(mask)
    return segment.keys[rows], np.vecdot(segment.vectors[rows], query)


def _nearest_by_codes(parts: list[_Part], query: Vector, wanted: int) -> list[tuple[_Segment, Places]]:
    """The eligible rows whose codes are nearest to the query's."""
    code = _coded(query[None])[1]
    found_parts: list[npt.NDArray[np.intp]] = []
    found_rows: list[Places] = []
    found_scores: list[Scores] = []
    bar = np.float32(-np.inf)
    for number, part in enumerate(parts):
        rows, scores = _by_codes(part, code)
        better = _highest(scores, wanted) if number == 0 else np.flatnonzero(scores > bar)
        found_rows.append(better if rows is None else rows[better])
        found_scores.append(scores[better])
        found_parts.append(np.full(len(better), number))
        if sum(map(len, found_scores)) > wanted:
            pool = np.concatenate(found_scores)
            top = _highest(pool, wanted)
            found_rows, found_parts = [np.concatenate(found_rows)[top]], [np.concatenate(found_parts)[top]]
            found_scores = [pool[top]]
            bar = found_scores[0].min()
    all_parts, all_rows = np.concatenate(found_parts), np.concatenate(found_rows)
    return [(part.segment, np.sort(all_rows[all_parts == number])) for number, part in enumerate(parts)]


def _highest(scores: Scores, wanted: int) -> Places:
    """Where the highest scores stand, in any order; what is not eligible stands nowhere."""
    if len(scores) <= wanted:
        return np.flatnonzero(scores > -np.inf)
    top = np.argpartition(scores, len(scores) - wanted)[-wanted:]
    return top[scores[top] > -np.inf]


def _by_codes(part: _Part, code: Codes) -> tuple[Places | None, Scores]:
    """Scores by codes, and of which rows (None: of all, where rows that are not eligible score minus infinity)."""
    segment, mask = part.segment, part.mask
    if mask is not None and part.count < _SCAN_SHARE * len(mask):
        rows = np.flatnonzero(mask)
        return rows, _dots(segment.codes[rows], code) * segment.scales[rows]
    scores = _dots(segment.codes, code) * segment.scales
    if mask is not None:
        scores[~mask] = -np.inf
    return None, scores


def _dots(codes: Codes, code: Codes) -> Scores:
    return np.asarray(simsimd.cdist(code, codes, "dot", out_dtype="float32")).reshape(-1)


def _best(found: list[tuple[Keys, Scores]], k: int) -> Ranked:
    """The k best, equal ones by key."""
    keys = np.concatenate([some for some, _ in found])
    scores = np.concatenate([some for _, some in found]).astype(np.float32, copy=False)
    if k < len(scores):
        bar = np.partition(scores, len(scores) - k)[len(scores) - k]
        top = np.flatnonzero(scores >= bar)  # all that are equal to the last one: the keys decide among them
        keys, scores = keys[top], scores[top]
    order = np.lexsort((keys, -scores))[:k]
    return Ranked(keys[order], scores[order])


def _coded(vectors: Matrix) -> tuple[Scores, Codes]:
    """Each row as whole numbers from -127 to 127, and what to multiply them by."""
    scales = (np.abs(vectors).max(axis=1) / np.float32(127)).astype(np.float32)
    safe = np.where(scales > 0, scales, np.float32(1))
    return scales, np.rint(vectors / safe[:, None]).astype(np.int8)


def _gathered(piece: Piece[VectorRows], part: slice) -> Matrix:
    source, row = piece.source[part], piece.row[part]
    vectors = np.empty((len(row), piece.sources[0].vectors.shape[1]), dtype=np.float32)
    for number in np.unique(source):
        its = source == number
        vectors[its] = piece.sources[number].vectors[row[its]]
    return vectors


def _put(file: BufferedWriter, at: int, column: npt.NDArray[Any]) -> None:
    file.seek(at)
    file.write(np.ascontiguousarray(column).data)
