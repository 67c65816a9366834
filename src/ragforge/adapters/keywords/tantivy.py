"""Words in tantivy: each of our segments is one of tantivy's, and a reader opens all of them as one index.

So tantivy itself counts rows, words and lengths over everything (BM25 with k1 = 1.2 and b = .75), while adding,
merging, erasing and swapping stay ours. Rows that were removed but not erased yet are left out of every result; they
still count in the statistics.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import tantivy
from tantivy import DocAddress, Document, Occur, Query

from ragforge.adapters.keywords.bm25 import complete_first, idf, saturation
from ragforge.adapters.segments.index import SegmentIndex
from ragforge.adapters.segments.lost import is_panic, reading
from ragforge.adapters.segments.manifest import Facts, Record
from ragforge.adapters.segments.rows import Piece, last_of_each, places_of
from ragforge.adapters.segments.state import Eligible, SegmentReader, State
from ragforge.adapters.vectors.rows import NOTHING
from ragforge.domain.retrieval import Allowed, Keys, KeywordRows, QueryWords, Ranked, Scores
from ragforge.errors import StoreError

_Clause: TypeAlias = tuple[Occur, Query]

_ROWS = "rows"
_META = "meta.json"
_VIEW = "ragforge-view-"
_VIEW_SECONDS = 60
_MEMORY = Path("/dev/shm")  # noqa: S108 - the folders in it have random names and are ours alone
_HEAP = 2_000_000_000
"""Bytes that tantivy may use before it would cut a segment of ours in two; it takes only what it needs."""
_LONGEST_TERM = 65_530
"""Bytes; tantivy leaves longer ones out."""
_BLANKS = "\t\n\v\f\r "

_SPARE = 16
"""Hits fetched beyond k at first, for rows that are hidden or removed."""
_UNFILTERED = 1_000
"""Up to so many hits are fetched and filtered here; where a filter would need more, tantivy gets it."""
_NARROW_ROWS = 50_000
_ROWS_AT_ONCE = 256
_FEW_DOCUMENTS = 300
"""So many documents are sought one by one faster than as a set."""
_NOISE = np.float32(1e-6)
"""How far sums of the same numbers may lie apart, relative to them."""
_COUNTED = 1_000
"""Words of up to so many rows are counted without the rows that were removed."""


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("words", stored=True, tokenizer_name="whitespace", index_option="freq")
    builder.add_integer_field("key", indexed=True, fast=True)
    builder.add_integer_field("document", indexed=True)
    return builder.build()


_SCHEMA = _schema()


class _Texts(Protocol):
    """A text for each row: its terms, joined by spaces."""

    def __getitem__(self, row: int, /) -> str: ...


@dataclass(frozen=True, slots=True)
class _StoredTexts:
    """Those of a segment, read from its store."""

    searcher: tantivy.Searcher
    segment: int

    def __getitem__(self, row: int, /) -> str:
        text = self.searcher.doc(DocAddress(self.segment, row)).get_first("words")
        if not isinstance(text, str):
            raise ValueError("a row has no text")
        return text


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Rows of a caller or of a segment."""

    keys: Keys
    documents: Keys
    texts: _Texts


@dataclass(frozen=True, slots=True, eq=False)
class _Segment:
    """The columns of a segment that tantivy does not give out quickly, mapped; and where the rest is."""

    keys: Keys
    documents: Keys
    folder: Path
    files: tuple[str, ...]
    """Tantivy's own, by name."""
    terms: int


class _View:
    """All segments opened as one tantivy index, in the order of their first keys."""

    def __init__(self, segments: Sequence[_Segment]) -> None:
        self.order = sorted(range(len(segments)), key=lambda place: int(segments[place].keys[0]))
        self.segments = [segments[place] for place in self.order]
        self.searcher = _open_together(self.segments) if self.segments else None
        self.rows = sum(len(segment.keys) for segment in self.segments)
        self.terms = sum(segment.terms for segment in self.segments)
        pairs = zip(self.segments, self.segments[1:], strict=False)
        self.ascending = all(first.keys[-1] < second.keys[0] for first, second in pairs)
        """Whether tantivy's order of equal hits is that of the keys."""

    def narrow(self, eligible: list[Eligible]) -> _Clause | None:
        """A clause for the documents of the eligible rows, unless they are many."""
        if sum(part.count for part in eligible) > _NARROW_ROWS:
            return None
        parts = [s.documents[part.mask] for s, part in zip(self.segments, eligible, strict=True)]
        documents = np.unique(np.concatenate(parts)).tolist()
        if len(documents) <= _FEW_DOCUMENTS:
            each = [Query.term_query(_SCHEMA, "document", number, index_option="basic") for number in documents]
            query = Query.boolean_query([(Occur.Should, one) for one in each])
        else:
            query = Query.term_set_query(_SCHEMA, "document", documents)
        return Occur.Must, Query.const_score_query(query, 0.0)


class TantivyIndex(SegmentIndex[_Rows, _Segment, _View]):
    """BM25 over the terms that our own tokenizer made."""

    engine = "tantivy"
    shared = False
    cap = 16_384

    def pin(self) -> TantivyReader:
        return TantivyReader(self._pinned(), self._release)

    def apply(self, put: KeywordRows, removed: Keys, watermark: int) -> None:
        self._apply(_joined(put), removed, watermark)

    def rebuild(self, rows: Iterable[KeywordRows], watermark: int) -> None:
        self._rebuild(map(_joined, rows), watermark)

    def _checked(self, rows: _Rows, known: Facts | None) -> _Rows:
        if (np.diff(rows.keys) > 0).all():
            return rows
        order = last_of_each(rows.keys)
        return _Rows(rows.keys[order], rows.documents[order], [rows.texts[place] for place in order])

    def _part(self, rows: _Rows, start: int, end: int) -> _Rows:
        texts = [rows.texts[place] for place in range(start, end)]
        return _Rows(rows.keys[start:end], rows.documents[start:end], texts)

    def _rows(self, state: State[_Segment, _View]) -> list[_Rows]:
        searcher, order = state.view.searcher, state.view.order
        return [
            _Rows(segment.keys, segment.documents, _StoredTexts(searcher, order.index(place)))
            for place, segment in enumerate(state.segments)
            if searcher is not None  # there is one unless there are no segments
        ]

    def _write(self, folder: Path, piece: Piece[_Rows]) -> Facts:
        with reading(self.engine):
            texts = [
                piece.sources[at].texts[row] for at, row in zip(piece.source.tolist(), piece.row.tolist(), strict=True)
            ]
        try:
            _build(folder, piece.keys.tolist(), piece.documents.tolist(), texts)
        except BaseException as problem:
            if not isinstance(problem, ValueError) and not is_panic(problem):
                raise
            full = "No space left" in str(problem)
            raise OSError(errno.ENOSPC if full else errno.EIO, str(problem)) from problem
        with (folder / _ROWS).open("xb") as file:
            file.write(piece.keys.astype(np.int64).data)
            file.write(piece.documents.astype(np.int64).data)
        return {"terms": sum(text.count(" ") + 1 for text in texts if text)}

    def _open(self, folder: Path, record: Record) -> _Segment:
        with (folder / _ROWS).open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if len(mapped) != 16 * record.rows:
            raise ValueError(f"segment {record.name} is not as large as its rows")
        return _Segment(
            keys=np.frombuffer(mapped, np.int64, record.rows),
            documents=np.frombuffer(mapped, np.int64, record.rows, 8 * record.rows),
            folder=folder,
            files=tuple(file.name for file in record.files if file.name not in (_ROWS, _META)),
            terms=record.facts.get("terms", 0),
        )

    def _view(self, segments: Sequence[_Segment]) -> _View:
        return _View(segments)

    def _examine(self, state: State[_Segment, _View]) -> Iterator[str]:
        searcher = state.view.searcher
        for number, segment in enumerate(state.view.segments):
            assert searcher is not None
            addresses = [DocAddress(number, row) for row in range(len(segment.keys))]
            if searcher.fast_field_values("key", addresses) != segment.keys.tolist():
                yield f"the rows of segment {segment.folder.name} are not in their order"


class TantivyReader(SegmentReader[_Segment, _View]):
    """Searches by BM25. Rows that hold a term of every group come first."""

    def search(self, words: QueryWords, k: int, allowed: Allowed) -> Ranked:
        groups = _groups(words)
        terms = _terms(groups)
        if k < 1 or not terms or not self.rows:
            return NOTHING
        return complete_first(
            len(groups),
            k,
            lambda: self._top(_of_every(groups), k, allowed),
            lambda: self._top([(Occur.Should, _term(term)) for term in terms], k, allowed),
        )

    def score(self, words: QueryWords, keys: Keys) -> Scores:
        """The BM25 of each of these rows, zero where no term occurs; NaN where there is no such row."""
        there = np.zeros(len(keys), dtype=np.bool_)
        for segment, living in zip(self._state.segments, self._state.living, strict=True):
            places, found = places_of(segment.keys, keys)
            there |= found if living is None else found & living[places]
        terms = _terms(_groups(words))
        scored: dict[int, float] = {}
        present = np.unique(keys[there]).tolist() if terms else []
        for start in range(0, len(present), _ROWS_AT_ONCE):
            scored |= self._scores(terms, present[start : start + _ROWS_AT_ONCE])
        scores = np.array([scored.get(key, 0.0) for key in keys.tolist()], dtype=np.float32)
        scores[~there] = np.nan
        return scores

    def score_new(self, words: QueryWords, rows: Sequence[Mapping[str, int]]) -> Scores:
        """The BM25 that rows with these terms would have here, computed as tantivy does, lengths rounded alike."""
        view, terms = self._state.view, _terms(_groups(words))
        known = max(1, view.rows)
        average = view.terms / known or 1.0
        weights = {term: idf(known, max(1, self._frequency(term))) for term in terms}
        scores = np.zeros(len(rows), dtype=np.float32)
        for place, counts in enumerate(rows):
            if held := [(weight, counts[term]) for term, weight in weights.items() if term in counts]:
                length = sum(count for term, count in counts.items() if len(term) < _LONGEST_TERM // 4)
                scores[place] = sum(weight * saturation(count, length, average) for weight, count in held)
        return scores

    def holding(self, terms: Sequence[str]) -> dict[str, int]:
        """In how many rows each term occurs. Removed rows count only for terms of very many rows, until erased."""
        return {term: self._living_frequency(_safe(term)) for term in terms}

    def terms_starting(self, prefix: str, limit: int) -> list[str]:
        """Terms that stand in the dictionary of any segment, so that a deletion can be proved."""
        searcher = self._state.view.searcher
        if searcher is None:
            return []
        with reading(TantivyIndex.engine):
            return [term for term, _ in searcher.terms_with_prefix("words", _safe(prefix), limit=limit)]

    def _frequency(self, term: str) -> int:
        searcher = self._state.view.searcher
        if searcher is None or not term:
            return 0
        with reading(TantivyIndex.engine):
            return searcher.doc_freq("words", term)

    def _living_frequency(self, term: str) -> int:
        frequency = self._frequency(term)
        if not frequency or self.rows == self._state.view.rows or frequency > _COUNTED:
            return frequency
        keys, _ = self._kept(self._hits([(Occur.Must, _term(term))], frequency), self._eligible(_ALL), None)
        return len(keys)

    def _top(self, clauses: list[_Clause], k: int, allowed: Allowed) -> Ranked:
        """The k best allowed rows that match.

        Hits are filtered here, and more are fetched while too few are left: that costs less than to have tantivy
        leave out rows. Only a filter that leaves few documents is handed over.
        """
        view, eligible = self._state.view, self._eligible(allowed)
        count = sum(part.count for part in eligible)
        if not count:
            return NOTHING
        spread = 1.0 if count == view.rows else 1.5 * view.rows / count
        limit = min(view.rows, _SPARE + int(k * spread))
        if allowed.documents is not None and limit > max(_UNFILTERED, 4 * k):
            narrow = view.narrow(eligible)
            if narrow is not None:
                # beside a filter that must hold, words that may would no longer have to: rows without any would come
                clauses = [(Occur.Must, Query.boolean_query(list(clauses))), narrow]
                limit = min(view.rows, _SPARE + k)
        while True:
            hits = self._hits(clauses, limit)
            keys, scores = _best_first(*self._kept(hits, eligible, allowed.hidden))
            if len(hits) < limit or limit == view.rows:
                break
            last = hits[-1][0]
            if len(keys) >= k and (last < scores[k - 1] * (1 - _NOISE) or (view.ascending and last == scores[k - 1])):
                break  # else rows that equal the k-th may have been cut off, and their keys may be lower
            limit = min(view.rows, 4 * limit)
        return Ranked(keys[:k], scores[:k])

    def _eligible(self, allowed: Allowed) -> list[Eligible]:
        eligible = self._state.eligible(allowed)
        return [eligible[place] for place in self._state.view.order]

    def _hits(self, clauses: list[_Clause], limit: int) -> list[tuple[float, DocAddress]]:
        searcher = self._state.view.searcher
        assert searcher is not None
        with reading(TantivyIndex.engine):
            return searcher.search(Query.boolean_query(clauses), limit=limit, count=False).hits

    def _kept(
        self, hits: list[tuple[float, DocAddress]], eligible: list[Eligible], hidden: Keys | None
    ) -> tuple[Keys, Scores]:
        """Keys and scores of the hits that may be returned."""
        columns = [(s.keys, part.mask) for s, part in zip(self._state.view.segments, eligible, strict=True)]
        keys, scores = [], []
        for score, address in hits:
            of_segment, mask = columns[address.segment_ord]
            row = address.doc
            if mask is None or mask[row]:
                keys.append(of_segment[row])
                scores.append(score)
        kept, their_scores = np.array(keys, dtype=np.int64), np.array(scores, dtype=np.float32)
        if hidden is not None and len(hidden):
            shown = ~np.isin(kept, hidden)
            kept, their_scores = kept[shown], their_scores[shown]
        return kept, their_scores

    def _scores(self, terms: Sequence[str], keys: Sequence[int]) -> dict[int, float]:
        """The scores of those of the rows that hold a term."""
        rows = [(Occur.Should, Query.term_query(_SCHEMA, "key", key, index_option="basic")) for key in keys]
        only = Query.const_score_query(Query.boolean_query(rows), 0.0)
        clauses = [(Occur.Must, only), *((Occur.Should, _term(term)) for term in terms)]
        view = self._state.view  # of a row that was replaced, older versions match too
        hits = self._hits(clauses, min(view.rows, len(keys) * len(view.segments)))
        kept, scores = self._kept(hits, self._eligible(_ALL), None)
        return dict(zip(kept.tolist(), scores.tolist(), strict=True))


def _best_first(keys: Keys, scores: Scores) -> tuple[Keys, Scores]:
    """By score, equal ones by key. tantivy adds up in any order: scores that differ by no more than that are equal."""
    order = np.argsort(-scores, kind="stable")
    keys, scores = keys[order], scores[order]
    first = np.ones(len(scores), dtype=np.bool_)
    first[1:] = scores[1:] < scores[:-1] * (1 - _NOISE)
    group = np.cumsum(first) - 1
    order = np.lexsort((keys, group))
    return keys[order], scores[first][group]


# -- queries


def _safe(term: str) -> str:
    """A term as tantivy can hold it: no blanks, valid Unicode. Empty if it cannot."""
    if term.isalnum() and len(term) < _LONGEST_TERM // 4:
        return term
    term = term.translate(_NO_BLANKS).encode(errors="replace").decode()
    return term if len(term.encode()) <= _LONGEST_TERM else ""


def _groups(words: QueryWords) -> list[tuple[str, ...]]:
    groups = (tuple(dict.fromkeys(filter(None, map(_safe, group)))) for group in words.groups)
    return list(dict.fromkeys(filter(None, groups)))


def _terms(groups: Iterable[tuple[str, ...]]) -> list[str]:
    return list(dict.fromkeys(term for group in groups for term in group))


def _term(term: str) -> Query:
    return Query.term_query(_SCHEMA, "words", term, index_option="freq")


def _any_of(terms: Iterable[str]) -> Query:
    return Query.boolean_query([(Occur.Should, _term(term)) for term in terms])


def _of_every(groups: list[tuple[str, ...]]) -> list[_Clause]:
    """Rows with a term of every group, each term scored once."""
    terms = _terms(groups)
    if sum(map(len, groups)) == len(terms):
        return [(Occur.Must, _term(group[0]) if len(group) == 1 else _any_of(group)) for group in groups]
    required = [(Occur.Must, Query.const_score_query(_any_of(group), 0.0)) for group in groups]
    return [*required, *((Occur.Should, _term(term)) for term in terms)]


# -- BM25 as tantivy computes it


# -- files


def _joined(rows: KeywordRows) -> _Rows:
    return _Rows(rows.keys, rows.documents, _texts(rows.terms))


def _texts(rows: Sequence[Sequence[str]]) -> list[str]:
    """The terms of each row as a text that tantivy will split into the very same terms."""
    texts = [" ".join(terms) for terms in rows]
    together = "\n".join(texts)  # looked at as a whole, since almost always all is well
    clean = (
        together.count(" ") == sum(map(len, rows)) - sum(map(bool, rows))
        and together.count("\n") == max(0, len(texts) - 1)
        and not any(sign in together for sign in ("  ", " \n", "\n ", "\t", "\v", "\f", "\r"))
        and together.strip(" ") == together
        and max(map(len, texts), default=0) < _LONGEST_TERM // 4
        and _is_unicode(together)
    )
    return texts if clean else [" ".join(filter(None, map(_safe, terms))) for terms in rows]


def _is_unicode(text: str) -> bool:
    """Whether it holds no lone surrogates."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _build(folder: Path, keys: list[int], documents: list[int], texts: list[str]) -> None:
    """A tantivy index of one segment, its rows in the order given."""
    index = tantivy.Index(_SCHEMA, path=str(folder))
    writer = index.writer(heap_size=_HEAP, num_threads=1)
    for key, of_document, text in zip(keys, documents, texts, strict=True):
        row = Document()
        row.add_integer("key", key)
        row.add_integer("document", of_document)
        row.add_text("words", text)
        writer.add_document(row)
    writer.commit()
    writer.wait_merging_threads()
    index.config_reader("manual")  # a new one: the first is reloaded by a thread, whenever that comes to it
    searcher = index.searcher()
    if searcher.fast_field_values("key", [DocAddress(0, row) for row in range(searcher.num_docs)]) != keys:
        raise ValueError("tantivy wrote the rows in another order")


def _open_together(segments: Sequence[_Segment]) -> tantivy.Searcher:
    """One searcher over all segments, by way of a folder that names their files and is needed only for this moment."""
    view = _make_view(segments)
    try:
        searcher = tantivy.Index.open(str(view)).searcher()
    finally:
        _remove_view(view)
    if searcher.num_segments != len(segments) or searcher.num_docs != sum(len(s.keys) for s in segments):
        raise ValueError("its segments do not hold their rows")
    firsts = searcher.fast_field_values("key", [DocAddress(number, 0) for number in range(len(segments))])
    if firsts != [int(segment.keys[0]) for segment in segments]:
        raise ValueError("its segments are not in their order")
    return searcher


def _meta(folder: Path) -> dict[str, Any]:
    """How tantivy describes a segment of ours."""
    meta = json.loads((folder / _META).read_bytes())
    if not isinstance(meta, dict) or not isinstance(meta.get("segments"), list) or len(meta["segments"]) != 1:
        raise ValueError(f"{_META} of segment {folder.name} is not as tantivy writes it")
    return meta


def _make_view(segments: Sequence[_Segment]) -> Path:
    """In memory where that can be: making and removing names on a disk would take longer than all the rest."""
    metas = [_meta(segment.folder) for segment in segments]
    meta = json.dumps({**metas[0], "segments": [part for meta in metas for part in meta["segments"]]})
    for parent in (_MEMORY, Path(tempfile.gettempdir())):
        with suppress(OSError):  # it is not there, or full
            _remove_old_views(parent)
            view = Path(tempfile.mkdtemp(prefix=_VIEW, dir=parent))
            try:
                for segment in segments:
                    for name in segment.files:
                        os.symlink(os.path.abspath(segment.folder / name), view / name)
                (view / _META).write_text(meta)
                return view
            except OSError:
                _remove_view(view)
    raise StoreError("there is no place for a temporary folder", hint=f"free some space in {tempfile.gettempdir()}")


def _remove_view(view: Path) -> None:
    """Under another name: a thread of tantivy's may still come and make a lock in it."""
    with suppress(OSError):
        shutil.rmtree(view.rename(view.with_name(_VIEW + secrets.token_hex(8))))


def _remove_old_views(parent: Path) -> None:
    """Those of processes that were killed while they opened an index."""
    for path in parent.glob(f"{_VIEW}*"):
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > _VIEW_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


_NO_BLANKS = dict.fromkeys(map(ord, _BLANKS), "_")
_ALL = Allowed()
