"""Words in Qdrant: BM25 as the product of sparse vectors, ranked again here from what the rows really hold.

A row's vector has one number for each term: its share of BM25 in a row of this length, by a length that was usual when
the collection was made (`reference`). A question's has the idf of each. So Qdrant finds the best rows without knowing
BM25, and by how much its score can be too low is known: by the ratio of today's usual length to that one. Rows are
fetched until none that was left out can be among the best.

The idf is ours and not Qdrant's (`modifier: idf`): that one is of each shard by itself, and counts removed rows until
a segment is written anew. In how many rows a term occurs is counted by an index of the terms themselves, which Qdrant
keeps with the rows: it cannot go astray from them, and is exact at every moment.

A term's place in the vector is a hash of 32 bits. A question's term shares it with another one of a million with a
probability of one in 4,300; then a row may be fetched in vain, but none is ranked by it: the terms of a row are in its
payload.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from ragforge.adapters.keywords.bm25 import complete_first, idf, saturation
from ragforge.adapters.segments.rows import last_of_each
from ragforge.adapters.vectors.qdrant_engines import Layout, QdrantPlace
from ragforge.adapters.vectors.qdrant_files import LONGEST_STRING, WORDS, WORDS_POINT
from ragforge.adapters.vectors.qdrant_rows import BATCH, SPARE, AliasedIndex, Points, State, filter_of
from ragforge.adapters.vectors.rows import NOTHING, NewLock, finds_nothing
from ragforge.domain.retrieval import Allowed, Keys, KeywordRows, QueryWords, Ranked, Scores

if TYPE_CHECKING:
    from qdrant_client import models

_TERMS_AT_ONCE = 100_000
"""Of one upload, as JSON some 5 MB: a server takes at most 32."""
_MOST_FETCHED = 2_000
"""Rows fetched beyond which equal ones are not told apart by their keys."""
_FETCH_MORE = 4
_NOISE = 1e-5
"""How far Qdrant's sums of 32-bit numbers may lie below ours, relative to them."""
_DRIFT = 1.25
"""When the usual length has changed by more than this, rows are written anew: else too many would be fetched."""
_REMEMBERED = 20_000
"""Terms whose frequency, or place, is kept."""


@dataclass(frozen=True, slots=True)
class WordState(State):
    """What is known of all rows together."""

    made: str
    """Another one for each collection."""
    reference: float
    """The usual length of a row by which the vectors were made; 0 until the first row comes."""
    terms: int
    """The lengths of all rows."""
    unsure: bool
    """Whether a write is under way, or was broken off: `terms` must be counted anew."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A row as its payload tells it."""

    key: int
    document: int
    length: int
    counts: Mapping[str, int]

    @classmethod
    def read(cls, point: Any) -> _Row:
        told = point.payload or {}
        counts = dict(zip(told["terms"], told["counts"], strict=True))
        return cls(point.id, told["document"], told["length"], counts)

    @classmethod
    def of(cls, key: int, document: int, terms: Iterable[str]) -> _Row:
        counts = Counter(filter(None, map(safe, terms)))
        return cls(key, document, counts.total(), counts)

    @property
    def payload(self) -> dict[str, Any]:
        terms, counts = list(self.counts), list(self.counts.values())
        return {"document": self.document, "length": self.length, "terms": terms, "counts": counts}

    def vector(self, reference: float) -> dict[int, float]:
        """Its numbers by place. Terms that share a place have the highest there, so that no row is ranked too low."""
        numbers: dict[int, float] = {}
        for term, count in self.counts.items():
            at = place_of(term)
            numbers[at] = max(numbers.get(at, 0.0), saturation(count, self.length, reference))
        return numbers


_Moment: TypeAlias = tuple[str, int, int]
"""Which collection, at which watermark, with how many rows: so long, what is known of terms stays true."""


class _Terms(Protocol):
    """Which rows hold a term."""

    def counted(self, moment: _Moment, terms: Sequence[str]) -> Mapping[str, int]:
        """In how many rows each occurs."""
        ...

    def in_all(self, moment: _Moment, groups: Sequence[tuple[str, ...]]) -> list[models.Condition]:
        """What rows fulfil that hold a term of every group."""
        ...


class _AskedTerms:
    """By a server's own index of the terms. Counts are kept while the index is at one moment."""

    def __init__(self, points: Points[WordState]) -> None:
        self._points = points
        self._lock = Lock()
        self._moment: _Moment | None = None
        self._known: dict[str, int] = {}

    def counted(self, moment: _Moment, terms: Sequence[str]) -> Mapping[str, int]:
        with self._lock:
            known = dict(self._known) if self._moment == moment else {}
        unknown = [term for term in terms if term not in known]
        if unknown:
            numbers = self._points.qdrant.side_by_side(self._count, unknown)
            known |= zip(unknown, numbers, strict=True)
            with self._lock:
                self._moment, self._known = moment, known if len(known) <= _REMEMBERED else {}
        return known

    def in_all(self, moment: _Moment, groups: Sequence[tuple[str, ...]]) -> list[models.Condition]:
        return [_holds_any(group) for group in groups]

    def _count(self, term: str) -> int:
        from qdrant_client import models

        return self._points.count(models.Filter(must=[_holds_any((term,))]))


class _ListedTerms:
    """By a list of all rows in memory: local mode has no index of terms, and would look at every row for each."""

    def __init__(self, points: Points[WordState]) -> None:
        self._points = points
        self._lock = Lock()
        self._moment: _Moment | None = None
        self._rows: Mapping[str, set[int]] = {}

    def counted(self, moment: _Moment, terms: Sequence[str]) -> Mapping[str, int]:
        rows = self._listed(moment)
        return {term: len(rows.get(term, ())) for term in terms}

    def in_all(self, moment: _Moment, groups: Sequence[tuple[str, ...]]) -> list[models.Condition]:
        from qdrant_client import models

        rows = self._listed(moment)
        each = [set[int]().union(*(rows.get(term, ()) for term in group)) for group in groups]
        complete: list[Any] = sorted(set.intersection(*each))
        return [models.HasIdCondition(has_id=complete)]

    def _listed(self, moment: _Moment) -> Mapping[str, set[int]]:
        with self._lock:
            if self._moment != moment:
                rows: defaultdict[str, set[int]] = defaultdict(set)
                for page in self._points.pages(payload=["terms"], vectors=False):
                    for point in page:
                        for term in (point.payload or {})["terms"]:
                            rows[term].add(int(point.id))
                self._moment, self._rows = moment, dict(rows)
            return self._rows


@dataclass(frozen=True, slots=True)
class _Statistics:
    """What the scores of a question depend on beside the row."""

    average: float
    holding: Mapping[str, int]
    weights: Mapping[str, float]
    """The idf of each of its terms."""

    def without_unknown(self) -> _Statistics:
        """Of the terms that occur at all."""
        return replace(self, weights={term: weight for term, weight in self.weights.items() if self.holding[term]})

    def score(self, counts: Mapping[str, int], length: int) -> float:
        held = ((weight, counts[term]) for term, weight in self.weights.items() if term in counts)
        return sum(weight * saturation(count, length, self.average) for weight, count in held)


class QdrantWordsReader:
    """Searches by BM25. Of a short question, rows that hold a term of every group come first."""

    def __init__(self, points: Points[WordState], state: WordState, rows: int, terms: _Terms) -> None:
        self._points = points
        self._state = state
        self._rows = rows
        self._terms = terms
        self._moment = (state.made, state.watermark, rows)

    @property
    def watermark(self) -> int:
        return self._state.watermark

    @property
    def rows(self) -> int:
        return self._rows

    def keys(self) -> Keys:
        return self._points.keys()

    def search(self, words: QueryWords, k: int, allowed: Allowed) -> Ranked:
        groups = _groups(words)
        if finds_nothing(k, allowed) or not groups or not self._state.reference:
            return NOTHING
        statistics = self._statistics(groups).without_unknown()
        if not statistics.weights:
            return NOTHING
        return complete_first(
            len(groups),
            k,
            lambda: self._best(statistics, k, allowed, self._terms.in_all(self._moment, groups)),
            lambda: self._best(statistics, k, allowed, ()),
        )

    def score(self, words: QueryWords, keys: Keys) -> Scores:
        statistics = self._statistics(_groups(words))
        found = map(_Row.read, self._points.rows(np.unique(keys), payload=True))
        scores = {row.key: statistics.score(row.counts, row.length) for row in found}
        return np.array([scores.get(key, np.nan) for key in keys.tolist()], dtype=np.float32)

    def score_new(self, words: QueryWords, rows: Sequence[Mapping[str, int]]) -> Scores:
        statistics = self._statistics(_groups(words))
        scores = (statistics.score(counts, sum(counts.values())) for counts in map(_safely, rows))
        return np.fromiter(scores, dtype=np.float32, count=len(rows))

    def holding(self, terms: Sequence[str]) -> dict[str, int]:
        counted = self._terms.counted(self._moment, list(dict.fromkeys(filter(None, map(safe, terms)))))
        return {term: counted.get(safe(term), 0) for term in terms}

    def terms_starting(self, prefix: str, limit: int) -> list[str]:
        """Terms that stand in any row, so that a deletion can be proved."""
        held = {
            term
            for page in self._points.pages(payload=["terms"], vectors=False)
            for point in page
            for term in (point.payload or {}).get("terms", ())
            if term.startswith(prefix)
        }
        return sorted(held)[:limit]

    def release(self) -> None:
        """There is nothing to let go."""

    def _statistics(self, groups: Iterable[tuple[str, ...]]) -> _Statistics:
        """An unknown term is taken for one that occurs once."""
        rows = max(1, self._rows)
        terms = list(dict.fromkeys(term for group in groups for term in group))
        counted = self._terms.counted(self._moment, terms)
        weights = {term: idf(rows, min(rows, max(1, counted[term]))) for term in terms}
        return _Statistics(self._state.terms / rows or 1.0, counted, weights)

    def _best(self, statistics: _Statistics, k: int, allowed: Allowed, required: Sequence[models.Condition]) -> Ranked:
        """The k best allowed rows that hold a term of the question and fulfil what is required."""
        too_low = max(1.0, statistics.average / self._state.reference) * (1 + _NOISE)
        limit, most = min(k, self._rows) + SPARE, max(_MOST_FETCHED, _FETCH_MORE * k)
        while True:
            found = self._fetched(statistics, limit, filter_of(allowed, *required))
            ranked = _ranked([_Row.read(point) for point in found], statistics)
            enough = len(ranked) >= k and found[-1].score * too_low < ranked.scores[k - 1]
            if enough or len(found) < limit or limit >= most:
                return Ranked(ranked.keys[:k], ranked.scores[:k])
            limit *= _FETCH_MORE

    def _fetched(self, statistics: _Statistics, limit: int, only: models.Filter | None) -> list[models.ScoredPoint]:
        """Rows by Qdrant's own score, best first."""
        question = _sparse(_question(statistics.weights))
        found = self._points.qdrant.quickly(
            lambda client, seconds: client.query_points(
                self._points.name,
                query=question,
                using=WORDS,
                limit=limit,
                query_filter=only,
                with_payload=True,
                timeout=seconds,
            )
        )
        return [point for point in found.points if isinstance(point.id, int)]


class QdrantWords(AliasedIndex[KeywordRows, WordState]):
    """BM25 over the terms that our own tokenizer made."""

    engine = "qdrant-words"
    _known = WORDS_POINT
    _kind_of_state = WordState

    def __init__(self, place: QdrantPlace, name: str, fingerprint: str, new_lock: NewLock) -> None:
        super().__init__(place, name, fingerprint, new_lock)
        self._terms: _Terms = (_AskedTerms if self.shared else _ListedTerms)(self._current)

    def pin(self) -> QdrantWordsReader:
        return QdrantWordsReader(self._current, self._state(), self._current.count(), self._terms)

    def apply(self, put: KeywordRows, removed: Keys, watermark: int) -> None:
        state = self._state()
        if not state.reference and len(put.keys):  # the rows tell what length is usual
            self.rebuild([put], watermark)
            return
        with self._qdrant.bulk(self._name):
            if len(put.keys) or len(removed):
                state = self._changed(state, put, removed)
            self._current.note(replace(state, watermark=watermark))
        self._renew()

    def _changed(self, state: WordState, put: KeywordRows, removed: Keys) -> WordState:
        """The state once the rows are written. That it is not sure meanwhile is noted before the first is."""
        terms = self._sum_of_lengths() if state.unsure else state.terms
        old = [_length(point) for point in self._current.rows(np.union1d(put.keys, removed), payload=["length"])]
        state = replace(state, terms=terms, dead=state.dead or bool(old))
        self._current.note(replace(state, unsure=True))
        self._current.remove(removed)
        return self._put(self._current, put, replace(state, terms=terms - sum(old), unsure=False))

    def rebuild(self, rows: Iterable[KeywordRows], watermark: int) -> None:
        super().rebuild(rows, watermark)
        self._renew()

    def _renew(self) -> None:
        """Write all rows anew if they were made for another usual length than today's."""
        state, rows = self._state(), self._current.count()
        average = state.terms / max(1, rows)
        if state.terms and not 1 / _DRIFT <= average / state.reference <= _DRIFT:
            beginning = replace(self._beginning(None), reference=average)
            self._replace(lambda points: self._fill(points, self._stored(), state.watermark, beginning))

    def _sum_of_lengths(self) -> int:
        return sum(_length(point) for page in self._current.pages(payload=["length"], vectors=False) for point in page)

    def _beginning(self, first: KeywordRows | None) -> WordState:
        usual = 0.0 if first is None else sum(map(len, first.terms)) / len(first.keys) or 1.0
        made = secrets.token_hex(8)
        return WordState(self._mark, -1, dead=False, made=made, reference=usual, terms=0, unsure=False)

    def _layout(self, state: WordState) -> Layout:
        """With an index of the terms: it counts the rows of each, and finds those that hold every word."""
        from qdrant_client import models

        keyword = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, on_disk=True)
        return Layout(
            sparse={WORDS: models.SparseVectorParams()},
            indexed={"document": models.PayloadSchemaType.INTEGER, "terms": keyword},
        )

    def _put(self, points: Points[WordState], rows: KeywordRows, state: WordState) -> WordState:
        parts = list(_parts(_each_once(rows)))
        points.put(parts, lambda part: [_point(row, state.reference) for row in part])
        return replace(state, terms=state.terms + sum(row.length for part in parts for row in part))

    def _stored(self) -> Iterator[KeywordRows]:
        for page in self._current.pages(payload=True, vectors=False):
            rows = [_Row.read(point) for point in page]
            yield KeywordRows(
                np.array([row.key for row in rows], dtype=np.int64),
                np.array([row.document for row in rows], dtype=np.int64),
                tuple(tuple(Counter(row.counts).elements()) for row in rows),
            )

    def _wrong(self, state: WordState) -> Iterator[str]:
        expected, found, terms = self._current.count(), 0, 0
        for page in self._current.pages(payload=True, vectors=True):
            found += sum(_is_whole(point, state.reference) for point in page)
            terms += sum(map(_length, page))
        if found != expected:
            yield f"{expected:,} rows are counted, {found:,} are whole"
        elif terms != state.terms and not state.unsure:
            yield f"rows of {state.terms:,} words are counted, they have {terms:,}"


# -- terms


def safe(term: str) -> str:
    """A term as Qdrant can hold it: valid Unicode, and of one that is very long the beginning and a hash."""
    if term.isalnum() and len(term) <= LONGEST_STRING // 4:
        return term
    encoded = term.encode(errors="replace")
    if len(encoded) <= LONGEST_STRING:
        return encoded.decode()
    digest = hashlib.sha256(encoded).hexdigest()
    return f"{encoded[: LONGEST_STRING - 1 - len(digest)].decode(errors='ignore')}#{digest}"


@lru_cache(_REMEMBERED)
def place_of(term: str) -> int:
    """A term's place in a sparse vector."""
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=4).digest())


def _safely(counts: Mapping[str, int]) -> Counter[str]:
    made: Counter[str] = Counter()
    for term, count in counts.items():
        if known := safe(term):
            made[known] += count
    return made


def _groups(words: QueryWords) -> list[tuple[str, ...]]:
    groups = (tuple(dict.fromkeys(filter(None, map(safe, group)))) for group in words.groups)
    return list(dict.fromkeys(filter(None, groups)))


# -- points


def _each_once(rows: KeywordRows) -> KeywordRows:
    """Each key once: the last of equal ones counts."""
    kept = last_of_each(rows.keys)
    return KeywordRows(rows.keys[kept], rows.documents[kept], tuple(rows.terms[place] for place in kept))


def _parts(rows: KeywordRows) -> Iterator[list[_Row]]:
    """Rows in parts that can be sent at once."""
    part: list[_Row] = []
    terms = 0
    for key, document, of_row in zip(rows.keys.tolist(), rows.documents.tolist(), rows.terms, strict=True):
        row = _Row.of(key, document, of_row)
        if part and (len(part) == BATCH or terms + len(row.counts) > _TERMS_AT_ONCE):
            yield part
            part, terms = [], 0
        part.append(row)
        terms += len(row.counts)
    if part:
        yield part


def _point(row: _Row, reference: float) -> models.PointStruct:
    from qdrant_client import models

    vector: dict[str, Any] = {WORDS: _sparse(row.vector(reference))} if row.counts else {}
    return models.PointStruct(id=row.key, vector=vector, payload=row.payload)


def _sparse(numbers: Mapping[int, float]) -> models.SparseVector:
    from qdrant_client import models

    places = sorted(numbers)
    return models.SparseVector(indices=places, values=[numbers[place] for place in places])


def _question(weights: Mapping[str, float]) -> dict[int, float]:
    """A question's numbers by place. Terms that share a place count together, so that no row is ranked too low."""
    numbers: dict[int, float] = {}
    for term, weight in weights.items():
        at = place_of(term)
        numbers[at] = numbers.get(at, 0.0) + weight
    return numbers


def _holds_any(terms: Sequence[str]) -> models.FieldCondition:
    from qdrant_client import models

    return models.FieldCondition(key="terms", match=models.MatchAny(any=list(terms)))


def _length(point: Any) -> int:
    return int((point.payload or {})["length"])


def _is_whole(point: Any, reference: float) -> bool:
    """Whether a row's vector is that of its terms."""
    row = _Row.read(point)
    stored = (point.vector or {}).get(WORDS)
    numbers = {} if stored is None else dict(zip(stored.indices, stored.values, strict=True))
    expected = row.vector(reference)
    return numbers.keys() == expected.keys() and all(
        math.isclose(numbers[place], number, rel_tol=_NOISE) for place, number in expected.items()
    )


def _ranked(rows: Sequence[_Row], statistics: _Statistics) -> Ranked:
    """Those that hold a term, best first, equal ones by key."""
    keys = np.array([row.key for row in rows], dtype=np.int64)
    scores = np.array([statistics.score(row.counts, row.length) for row in rows], dtype=np.float64)
    order = np.lexsort((keys, -scores))
    order = order[scores[order] > 0]
    return Ranked(keys[order], scores[order].astype(np.float32))
