"""The indexes of lessons: one pair for the whole workspace, followed by number, thrown away without loss.

Each capture is a row; in place of a document stands the number of its facets, so that filters work inside the engines.
Lessons change at checkpoints only, so there is no change log: what has a higher number than the index is read again,
and what the catalog no longer knows is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragforge.domain.access import Scope
from ragforge.domain.cancel import Cancel
from ragforge.domain.lessons import IndexedLesson, problem_text, solution_text
from ragforge.domain.library import Finding
from ragforge.domain.retrieval import Allowed, KeywordRows, QueryWords, VectorRows
from ragforge.errors import IndexLost, StoreError
from ragforge.failpoints import failpoint
from ragforge.flows.follow import Indexes, in_full, right_to_write
from ragforge.ports import Catalog, Index, IndexReader, KeywordReader, Unit

if TYPE_CHECKING:
    from ragforge.domain.retrieval import Keys
    from ragforge.domain.tokens import Vector

_STEP = 4_096
_WORDS = 8
"""Of a question, that lessons are looked for by."""
_FILTERS = 64
_STILL_READ = "another process still reads files that hold removed lessons"


@dataclass(frozen=True, slots=True)
class Lane:
    """One of the two indexes, and what its rows are made of."""

    name: str
    index: Index[Any]
    rows: Callable[[Sequence[IndexedLesson]], Any]


@dataclass(frozen=True, slots=True)
class Near:
    """Captures that may bear on a question, and how far the indexes were: what is newer was not looked at."""

    keys: tuple[int, ...]
    seq: int


class LessonIndex:
    def __init__(
        self,
        catalog: Catalog,
        scope: Scope,
        indexes: Callable[[str], Indexes],
        terms: Callable[[str], tuple[str, ...]],
        folder: Path,
    ) -> None:
        self._folder = folder
        self._catalog = catalog
        self._scope = scope
        self._indexes = indexes
        """By the fingerprint of the embedder."""
        self._terms = terms

    def exists(self) -> bool:
        """Whether there is anything on disk that may hold words of lessons."""
        return self._folder.is_dir()

    # -- reading

    def near(
        self,
        fingerprint: str,
        vector: Vector,
        words: QueryWords,
        facets: Collection[int],
        k: int,
        hidden: Collection[int] = (),
    ) -> Near:
        """The k nearest by meaning, and the k nearest by words, of these facets."""
        indexes, allowed = self._indexes(fingerprint), Allowed(_column(tuple(facets)), hidden=_keys(hidden))
        with _pinned(indexes.vectors) as vectors, _pinned(indexes.keywords) as keywords:
            found = dict.fromkeys(vectors.search(vector, k, allowed).keys.tolist())
            if words:
                found |= dict.fromkeys(keywords.search(_rarest(words, keywords), k, allowed).keys.tolist())
            return Near(tuple(found), min(vectors.watermark, keywords.watermark))

    # -- following

    def catch_up(self, fingerprint: str, cancel: Cancel | None = None, *, wait: bool = True) -> bool:
        """Bring both to what the catalog says. False if another process is at it and we did not wait."""
        done = [self._advance(lane, fingerprint, cancel or Cancel(), wait=wait) for lane in self._lanes(fingerprint)]
        return all(done)

    def _advance(self, lane: Lane, fingerprint: str, cancel: Cancel, *, wait: bool) -> bool:
        with right_to_write(lane.index, cancel, wait=wait) as mine:
            if mine:
                self._bring_up(lane, fingerprint, cancel)
            return mine

    def _bring_up(self, lane: Lane, fingerprint: str, cancel: Cancel) -> None:
        watermark, held = _state(lane)
        with self._catalog.read() as c:
            seq = c.lessons.seq(self._scope)
            if watermark is None or watermark > seq:  # lost, of another model, or of a catalog that was restored
                lane.index.rebuild(self._all(c, lane, fingerprint, cancel), seq)
                return
            if watermark == seq:
                return
            changed = list(self._since(c, fingerprint, watermark, cancel))
            wanted = c.lessons.keys(self._scope, fingerprint)
        removed = _missing(held, _keys(wanted))
        failpoint("lessons.following")
        lane.index.apply(lane.rows(changed), removed, seq)

    def _since(self, c: Unit, fingerprint: str, seq: int, cancel: Cancel) -> Iterator[IndexedLesson]:
        after = 0
        while rows := c.lessons.changed(self._scope, fingerprint, seq, after, _STEP):
            cancel.check()
            yield from rows
            after = rows[-1].key

    def _all(self, c: Unit, lane: Lane, fingerprint: str, cancel: Cancel) -> Iterator[Any]:
        after = 0
        while rows := c.lessons.changed(self._scope, fingerprint, -1, after, _STEP):
            cancel.check()
            yield lane.rows(rows)
            after = rows[-1].key

    # -- leaving, and looking after it

    def erase(self, fingerprint: str, cancel: Cancel | None = None) -> tuple[str, ...]:
        """Leave nothing of removed lessons in any file. Returns where that could not be done yet, and why."""
        left: list[str] = []
        for lane in self._lanes(fingerprint):
            try:
                with right_to_write(lane.index, cancel or Cancel()):
                    self._bring_up(lane, fingerprint, cancel or Cancel())
                    if not lane.index.erase():
                        left.append(f"{lane.name} index of lessons: {_STILL_READ}")
            except StoreError as problem:
                left.append(f"{lane.name} index of lessons: {in_full(problem)}")
        return tuple(left)

    def check(self, fingerprint: str, *, repair: bool) -> Iterator[Finding]:
        """Each against the catalog, both ways."""
        for lane in self._lanes(fingerprint):
            subject = f"lessons: {lane.name} index"
            with right_to_write(lane.index, Cancel()):
                problem = self._difference(lane, fingerprint)
                repaired = False
                if problem and repair:
                    lane.index.drop()
                    self._bring_up(lane, fingerprint, Cancel())
                    repaired = not self._difference(lane, fingerprint)
            hint = "ragforge check --repair builds it anew from the catalog"
            yield Finding(subject, not problem, problem or "as the catalog", hint if problem else "", repaired=repaired)

    def _difference(self, lane: Lane, fingerprint: str) -> str:
        if _state(lane)[0] is not None and (problems := lane.index.verify()):
            return problems[0]
        self._bring_up(lane, fingerprint, Cancel())
        with self._catalog.read() as c:
            wanted = set(c.lessons.keys(self._scope, fingerprint))
        held = set(_state(lane)[1].tolist())
        missing, extra = wanted - held, held - wanted
        return "" if not missing and not extra else f"{len(missing)} lessons missing, {len(extra)} too many"

    # -- rows

    def _lanes(self, fingerprint: str) -> tuple[Lane, Lane]:
        indexes = self._indexes(fingerprint)
        return (
            Lane("keyword", indexes.keywords, self._keyword_rows),
            Lane("vector", indexes.vectors, _vector_rows),
        )

    def _keyword_rows(self, lessons: Sequence[IndexedLesson]) -> KeywordRows:
        texts = (f"{problem_text(each.facets, each.told)}\n{solution_text(each.told)}" for each in lessons)
        return KeywordRows(*_places(lessons), tuple(self._terms(text) for text in texts))


def _vector_rows(lessons: Sequence[IndexedLesson]) -> VectorRows:
    import numpy as np

    vectors = np.frombuffer(b"".join(each.problem for each in lessons), np.float32)
    return VectorRows(*_places(lessons), vectors.reshape(len(lessons), -1) if lessons else vectors.reshape(0, 0))


def _places(lessons: Sequence[IndexedLesson]) -> tuple[Keys, Keys]:
    return _keys(each.key for each in lessons), _keys(each.facet for each in lessons)


def _state(lane: Lane) -> tuple[int | None, Keys]:
    """How far it is and what it holds; None if it cannot be trusted."""
    try:
        with _pinned(lane.index) as reader:
            return reader.watermark, reader.keys()
    except IndexLost:
        return None, _keys(())


@contextmanager
def _pinned(index: Any) -> Iterator[Any]:
    reader: IndexReader = index.pin()
    try:
        yield reader
    finally:
        reader.release()


def _rarest(words: QueryWords, keywords: KeywordReader) -> QueryWords:
    """Those that tell one lesson from another; the others would only cost time."""
    held = keywords.holding(words.terms)
    groups = sorted(words.groups, key=lambda group: sum(held[term] for term in group))
    return QueryWords(tuple(groups[:_WORDS]), words.codes)


@lru_cache(_FILTERS)
def _column(facets: tuple[int, ...]) -> Keys:
    """The very same array for the same filter: engines keep what they made of it."""
    return _keys(facets)


def _missing(held: Keys, wanted: Keys) -> Keys:
    import numpy as np

    return np.setdiff1d(held, wanted, assume_unique=True)


def _keys(values: Collection[int] | Iterator[int]) -> Keys:
    import numpy as np

    return np.fromiter(values, np.int64)
