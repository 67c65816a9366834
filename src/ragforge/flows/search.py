"""A question finds its passages: the whole path, top to bottom.

pin the indexes -> one transaction of the catalog -> who may be found -> words ∥ meaning -> fuse -> rerank -> dedupe
-> cut to k -> window

What the indexes have not applied yet is searched beside them, and what was removed since is hidden inside them: so a
committed file is found at once, and a replaced one is never seen as both or neither.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ragforge.domain.access import Scope
from ragforge.domain.cancel import Cancel
from ragforge.domain.library import Project
from ragforge.domain.retrieval import (
    MOST_PASSAGES,
    Allowed,
    Candidate,
    ContextBlock,
    Decision,
    Degraded,
    Filters,
    Keys,
    Moment,
    Passage,
    QueryWords,
    Ranked,
    Retrieved,
    StoredPassage,
    Trace,
    Tuning,
    Verdict,
)
from ragforge.errors import BadVectors, IndexLost, NotFound, ProviderError, RagforgeError, StoreError, UserError
from ragforge.flows.follow import EVERYTHING, Follow, Indexes, keyword_rows, net, vector_rows
from ragforge.operate.counters import Counters
from ragforge.ports import Catalog, Embedder, KeywordReader, Reranker, Unit, VectorReader
from ragforge.retrieve import fuse
from ragforge.retrieve.cache import Recent
from ragforge.retrieve.dedupe import dedupe
from ragforge.retrieve.rerank import by_cosine, rerank
from ragforge.retrieve.search import (
    Newcomers,
    keyword_candidates,
    keyword_scores,
    vector_candidates,
    vector_scores,
    with_code_holders,
)
from ragforge.retrieve.window import blocks, plan
from ragforge.retrieve.words import LANGUAGE_MARKS, languages_in, query_words

if TYPE_CHECKING:
    from ragforge.domain.tokens import Vector
    from ragforge.flows.follow import Terms

_LISTEN_SECONDS = 0.1
"""How often a search that waits for its turn hears whether it is still wanted."""
EAGER = 512
"""So many changes behind, and a search lets the indexes catch up first if nobody else is at it."""
_FEW = 8
"""In a small project fewer are many: what words are rare is known from what the index holds. So few never matter."""
PATIENT = 2_000
"""So many, and it waits for them."""
SIDE_BY_SIDE = 50_000
"""From so many rows on, both engines are asked at once; below, handing over costs more than it saves."""
MEANT = 8_000
"""Characters of a question that its meaning is taken from."""
FUSIONS = ("weighted", "rrf")
Answer = TypeVar("Answer")
SPARE = 2
"""Candidates read beyond k at first, in case some repeat others."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and how it is to be answered."""

    question: str
    tuning: Tuning
    filters: Filters = Filters()
    vector: Vector | None = None
    """The question's vector, where the caller has it already."""
    explain: bool = False
    context: bool = False
    """Whether a context within the token budget is wanted, too."""
    fresh: bool = False
    """Not from the cache."""


@dataclass(slots=True)
class _Pins:
    """Both indexes as they are now. One that is not there says why in `degraded`."""

    moment: Moment
    keywords: KeywordReader | None = None
    vectors: VectorReader | None = None
    degraded: list[Degraded] = field(default_factory=list)
    lost: bool = False
    """Whether one must be built anew."""

    @property
    def readers(self) -> list[KeywordReader | VectorReader]:
        return [reader for reader in (self.keywords, self.vectors) if reader is not None]

    @property
    def whole(self) -> bool:
        return len(self.readers) == 2

    @property
    def watermark(self) -> int:
        return min(reader.watermark for reader in self.readers)

    @property
    def highest(self) -> int:
        return max(reader.watermark for reader in self.readers)

    @property
    def rows(self) -> int:
        return max(reader.rows for reader in self.readers)

    def release(self) -> None:
        for reader in self.readers:
            reader.release()


class _Unembedded(Exception):
    """The question has no vector yet."""


class _Behind(Exception):
    """The indexes must catch up before this search."""

    def __init__(self, changes: int) -> None:
        self.changes = changes


@dataclass(frozen=True, slots=True)
class _Remembered:
    """What questions leave behind for the next ones. Nothing here outlives the state of the catalog it was true in."""

    results: Recent[Retrieved]
    vectors: Recent[tuple[Vector | Degraded, float]] = field(default_factory=lambda: Recent(256))
    eligible: Recent[Allowed] = field(default_factory=lambda: Recent(64))
    newcomers: Recent[Newcomers] = field(default_factory=lambda: Recent(8))
    languages: Recent[tuple[str, ...]] = field(default_factory=lambda: Recent(64))
    seqs: dict[str, int] = field(default_factory=dict)

    def renew(self, now: Moment) -> None:
        """After a change, what was remembered is of no use, and may hold removed text."""
        if self.seqs.get(now.project) != now.seq:
            self.forget(now.project)
            self.seqs[now.project] = now.seq

    def forget(self, project: str) -> None:
        self.results.forget(project)
        self.newcomers.forget(project)


@dataclass(frozen=True, slots=True)
class _Means:
    """What every search works with."""

    follow: Follow
    system: Scope
    """Indexes hold all documents; what the asker may see is decided by the asker's own scope."""
    terms: Terms
    pool: ThreadPoolExecutor
    remembered: _Remembered


class Search:
    """Passages of a project for a question."""

    def __init__(
        self,
        catalog: Catalog,
        system: Scope,
        follow: Follow,
        indexes: Callable[[Moment], Indexes],
        terms: Terms,
        project: Callable[[Scope, str], Project],
        embedder_of: Callable[[Project], Embedder],
        reranker: Callable[[str], Reranker],
        cached_questions: int,
        counters: Counters,
        at_once: int,
    ) -> None:
        """`at_once`: so many searches at most hold the indexes; more wait for their turn."""
        self._catalog = catalog
        self._follow = follow
        self._indexes = indexes
        self._project = project
        self._embedder_of = embedder_of
        self._reranker = reranker
        self._counters = counters
        self._moments: dict[str, Moment] = {}
        self._projects: dict[str, Project] = {}
        self._remembered = _Remembered(Recent(cached_questions))
        self._means = _Means(follow, system, terms, ThreadPoolExecutor(8, "ragforge-search"), self._remembered)
        self._room = threading.BoundedSemaphore(at_once)

    def close(self) -> None:
        self._means.pool.shutdown()

    def __call__(self, scope: Scope, name: str, asked: Asked, cancel: Cancel) -> Retrieved:
        """Passages of the project with this name for the question."""
        began = time.perf_counter()
        _require_sense(asked)
        self._counters.add("searches")
        judge = self._judge(asked.tuning.reranker)
        project = self._projects.get(name)
        if project is None or not scope.reaches(project.id):
            project = self._looked_up(scope, name)
        patience = EAGER
        aside = 0.0
        while True:
            cancel.check()
            try:
                with ExitStack() as held:
                    held.enter_context(self._place(cancel))
                    pins = held.enter_context(self._pinned(project.id, cancel))
                    with self._catalog.read() as c:
                        now = c.passages.moment(scope, project.id)
                        if now.generation != pins.moment.generation:  # a reindex swapped just now
                            self._moments[project.id] = now
                            continue
                        if (now.slug, now.embedder) != (project.slug, project.embedder_fingerprint):
                            raise NotFound("the project is not what it was")
                        run = _Run(
                            self._means,
                            c,
                            scope,
                            project,
                            asked,
                            judge,
                            pins,
                            held.close,
                            now,
                            cancel,
                            began,
                            began + aside,
                        )
                        return self._with_news(project.id, run.answer(patience))
            except NotFound:  # renamed, removed or with another model, unless it never was
                self._moments.pop(project.id, None)
                self._projects.pop(project.slug, None)
                project = self._looked_up(scope, name)
            except _Unembedded:
                aside += self._embed(project, asked, cancel)
            except _Behind as behind:
                patience = self._after_catching_up(project.id, behind.changes, cancel)

    @contextmanager
    def _place(self, cancel: Cancel) -> Iterator[None]:
        """One of those at work, as soon as there is room; who is told to stop waits no longer."""
        while not self._room.acquire(timeout=_LISTEN_SECONDS):
            cancel.check()
        try:
            cancel.check()
            yield
        finally:
            self._room.release()

    def _looked_up(self, scope: Scope, name: str) -> Project:
        """Remembered by its slug alone: a project can be called by many names."""
        project = self._project(scope, name)
        self._projects[project.slug] = project
        return project

    def window(
        self, scope: Scope, name: str, passages: Sequence[Passage], tuning: Tuning
    ) -> tuple[tuple[ContextBlock, ...], tuple[Verdict, ...]]:
        """Found passages as a context within the token budget, and what became of each.

        Those that were replaced or removed since they were found are not in it.
        """
        project = self._project(scope, name)
        with self._catalog.read() as c:
            now = c.passages.moment(scope, project.id)
            stored = {each.key: each for each in c.passages.stored(scope, now, [each.key for each in passages])}
            left = [each for each in passages if each.key in stored and stored[each.key].chunk == each.chunk]
            candidates = [Candidate(each.key, each.score) for each in left]
            planned = plan(candidates, stored, chunks=tuning.context_chunks, tokens=tuning.context_tokens)
            found = tuple(blocks(planned, c.passages.parents(scope, now, planned.parents)))
        return found, tuple(_verdict(each, stored[each.key]) for each in planned.decisions)

    def _with_news(self, project: str, found: Retrieved) -> Retrieved:
        """A damaged index that was built anew before the answer is said once; while one is missing, that is said."""
        news = () if found.degraded else self._follow.news(project)
        return replace(found, notice="; ".join(filter(None, (found.notice, *news)))) if news else found

    def _after_catching_up(self, project: str, changes: int, cancel: Cancel) -> int:
        """How many changes may be searched beside the indexes now that they had their chance."""
        try:
            caught_up = self._follow.catch_up(project, wait=changes > PATIENT, cancel=cancel)
        except StoreError:  # a writer holds the catalog, a server is away: all of them are searched beside
            return EVERYTHING
        return EVERYTHING if caught_up else PATIENT

    def _embed(self, project: Project, asked: Asked, cancel: Cancel) -> float:
        """The question's vector, while neither an index nor the catalog is held. What fails is said in the result.

        Returns the seconds it took.
        """
        began = time.perf_counter()
        key = (project.embedder_fingerprint, asked.question)
        try:
            vector: Vector | Degraded = self._embedder_of(project).embed_query(asked.question[:MEANT], cancel)
        except RagforgeError as problem:
            vector = Degraded("embedder", f"searched by words alone: {problem.message}", problem.hint)
        took = time.perf_counter() - began
        self._remembered.vectors.put(key, (vector, took * 1000))
        return took

    def _judge(self, name: str) -> Reranker | Degraded | None:
        """Who reranks. One that exists but cannot work here is said in the result; a misspelt one is the asker's."""
        if name in ("", "cosine"):
            return None
        try:
            return self._reranker(name)
        except ProviderError as problem:
            return Degraded("reranker", f"not reranked: {problem.message}", problem.hint)

    def forget(self, project: str) -> None:
        """What is remembered of a project's texts goes."""
        self._remembered.forget(project)

    # -- the indexes

    @contextmanager
    def _pinned(self, project: str, cancel: Cancel) -> Iterator[_Pins]:
        pins = self._pin(project, cancel)
        try:
            yield pins
        finally:
            pins.release()

    def _pin(self, project: str, cancel: Cancel) -> _Pins:
        """Both indexes, or the one that works. With none, they are built before the question is answered."""
        pins = self._try_to_pin(self._moments.get(project) or self._moment(project))
        if pins.whole:
            return pins
        before, now = pins.moment, self._moment(project)
        if now.generation != before.generation:  # a reindex swapped, and the old indexes are gone
            pins.release()
            pins = self._try_to_pin(now)
        if not pins.readers or (pins.lost and self._follow.is_unbuilt(now)):
            pins.release()
            with suppress(StoreError):  # one of them may be enough
                self._follow.catch_up(project, cancel=cancel)
            pins = self._try_to_pin(now)
        if not pins.readers:
            raise StoreError(
                "neither index can be read", hint="ragforge check tells more, ragforge rebuild builds them"
            )
        if pins.lost:
            self._follow.heal_later(project)
        return pins

    def _moment(self, project: str) -> Moment:
        with self._catalog.read() as c:
            now = self._moments[project] = c.passages.moment(self._means.system, project)
        return now

    def _try_to_pin(self, moment: Moment) -> _Pins:
        indexes = self._indexes(moment)
        pins = _Pins(moment)
        try:
            pins.keywords = indexes.keywords.pin()
        except StoreError as problem:
            pins.lost |= isinstance(problem, IndexLost)
            pins.degraded.append(_missing("keywords", problem))
        try:
            pins.vectors = indexes.vectors.pin()
        except StoreError as problem:
            pins.lost |= isinstance(problem, IndexLost)
            pins.degraded.append(_missing("vectors", problem))
        return pins


class _Run:
    """One search, inside one transaction."""

    def __init__(
        self,
        means: _Means,
        c: Unit,
        scope: Scope,
        project: Project,
        asked: Asked,
        judge: Reranker | Degraded | None,
        pins: _Pins,
        let_go: Callable[[], None],
        now: Moment,
        cancel: Cancel,
        began: float,
        pinning: float,
    ) -> None:
        self._means = means
        self._remembered = means.remembered
        self._c = c
        self._scope = scope
        self._project = project
        self._asked = asked
        self._judge = judge
        self._pins = pins
        self._let_go = let_go
        """Leaves the indexes to others: nothing is asked of them any more."""
        self._now = now
        self._cancel = cancel
        self._began = began
        self._lap = time.perf_counter()
        self._timings: dict[str, float] = {"pin": (self._lap - pinning) * 1000}
        self._degraded = list(pins.degraded)
        self._stored: dict[int, StoredPassage] = {}
        self._behind = 0
        self._beside = 0
        """Chunks that the indexes do not know of yet, or not that they are gone."""
        self._holders: frozenset[int] = frozenset()
        """Candidates that hold a code of the question."""

    def answer(self, patience: int) -> Retrieved:
        """The result, from the cache if nothing changed since the same question."""
        asked, now, results = self._asked, self._now, self._remembered.results
        self._remembered.renew(now)
        key = None
        if asked.vector is None and not asked.explain and not asked.fresh:
            key = (now.project, now.generation, now.seq, self._scope.clearance, asked)
            if (known := results.get(key)) is not None:
                return replace(known, cached=True, timings={"total": _milliseconds(self._began)})
        retrieved = self._retrieve(patience)
        if key is not None and not retrieved.degraded and not self._beside:  # the indexes will know better soon
            results.put(key, retrieved)
        return retrieved

    def _retrieve(self, patience: int) -> Retrieved:
        asked, tuning = self._asked, self._asked.tuning
        new, hidden = self._since_the_indexes(patience)
        allowed = self._allowed(hidden)
        self._took("filter")
        alpha = self._alpha()
        words, query, found = self._engines(allowed, new.those(allowed), alpha)
        self._lap = time.perf_counter()
        candidates, decisions = self._fuse(words, query, found, new, alpha)
        self._took("fuse")
        holding = self._guarded("keywords", lambda: self._holding(words)) if asked.explain else None
        candidates = self._rerank(candidates, decisions)
        kept = self._distinct(candidates, decisions)
        chosen = kept[: tuning.k]
        context = self._context(kept, decisions) if asked.context or asked.explain else ()
        passages = tuple(self._passage(each) for each in chosen)
        self._took("read")
        self._timings["total"] = _milliseconds(self._began)
        return Retrieved(
            asked.question,
            passages,
            tuple(decisions),
            tuple(self._degraded),
            self._timings,
            context=context,
            trace=self._trace(words, candidates, chosen, decisions, alpha, holding or {}) if asked.explain else None,
            notice=self._remark(passages) if passages else self._nothing(words, query, allowed),
        )

    # -- what may be found

    def _since_the_indexes(self, patience: int) -> tuple[Newcomers, Keys | None]:
        """Chunks the indexes do not hold yet, and those they must not return."""
        watermark, now = self._pins.watermark, self._now
        if watermark == now.seq == self._pins.highest:
            return _NOBODY, None
        if watermark < now.forgotten or self._pins.highest > now.seq:  # pruned just now, or of another catalog
            raise _Behind(EVERYTHING)
        if patience == EAGER:
            patience = min(EAGER, max(_FEW, self._pins.rows // 4))
        changes = self._c.passages.changes(self._scope, now, watermark, patience + 1)
        if len(changes) > patience:
            raise _Behind(len(changes))
        self._behind = len(changes)
        came, went = net(changes)
        self._beside = len(came) + len(went)
        if not self._beside:
            return _NOBODY, None
        return self._newcomers(came), np.array(sorted((*came, *went)), np.int64)

    def _newcomers(self, came: Collection[int]) -> Newcomers:
        if not came:
            return _NOBODY
        means, now, c = self._means, self._now, self._c
        key = (now.project, now.generation, self._pins.watermark, now.seq)
        if (known := self._remembered.newcomers.get(key)) is None:
            words = keyword_rows(c.passages.texts_of(means.system, now, came), means.terms)
            vectors = {key: vector for key, _, vector in c.passages.vectors_of(means.system, now, came)}
            unknown = bytes(4 * (now.dimension or 0))
            meaning = vector_rows([(key, 0, vectors.get(key, unknown)) for key in words.keys.tolist()], now.dimension)
            known = Newcomers(words.keys, words.documents, tuple(map(Counter, words.terms)), meaning.vectors)
            self._remembered.newcomers.put(key, known)
        return known

    def _allowed(self, hidden: Keys | None) -> Allowed:
        """The documents the asker may find, as the shorter of allow and deny."""
        eligible, now = self._remembered.eligible, self._now
        key = (now.project, now.generation, now.seq, self._scope.clearance, self._asked.filters)
        if (allowed := eligible.get(key)) is None:
            yes, no = self._c.passages.eligible(self._scope, now, self._asked.filters)
            deny = len(no) < len(yes)
            documents = np.array(sorted(no if deny else yes), np.int64)
            allowed = Allowed(None if deny and not no else documents, deny)
            eligible.put(key, allowed)
        return allowed if hidden is None else replace(allowed, hidden=hidden)

    # -- both engines

    def _engines(
        self, allowed: Allowed, new: Newcomers, alpha: float
    ) -> tuple[QueryWords, Vector | None, tuple[Ranked | None, Ranked | None]]:
        """Words and meaning, side by side in large indexes. One without a share is asked only if the other is away."""
        words = self._guarded("keywords", self._words) or query_words(self._asked.question)
        query = self._query() if alpha > 0 else None
        if query is None or alpha == 1 or self._pins.rows < SIDE_BY_SIDE:
            found = self._by_words(words, allowed, new) if alpha < 1 else None
            near = self._by_meaning(query, allowed, new)
        else:
            pending = self._means.pool.submit(self._by_words, words, allowed, new)
            try:
                near = self._by_meaning(query, allowed, new)
            finally:
                found = pending.result()  # whatever happens: the pins must outlive it
        if found is None and near is None and alpha == 0:
            query = self._query()
            near = self._by_meaning(query, allowed, new)
        elif found is None and near is None and alpha == 1:
            found = self._by_words(words, allowed, new)
        return words, query, (found, near)

    def _by_words(self, words: QueryWords, allowed: Allowed, new: Newcomers) -> Ranked | None:
        reader, began = self._pins.keywords, time.perf_counter()
        if reader is None:
            return None
        tuning = self._asked.tuning
        k = tuning.keyword_candidates if self._alpha() > 0 else max(tuning.keyword_candidates, tuning.k + SPARE)

        def ask() -> Ranked:
            found = keyword_candidates(reader, words, k, allowed, new)
            found, self._holders = with_code_holders(reader, words, found, tuning.keyword_candidates, allowed, new)
            return found

        found = self._guarded("keywords", ask)
        self._timings["keywords"] = _milliseconds(began)
        return found

    def _by_meaning(self, query: Vector | None, allowed: Allowed, new: Newcomers) -> Ranked | None:
        reader, began = self._pins.vectors, time.perf_counter()
        if reader is None or query is None:
            return None
        tuning = self._asked.tuning
        enough = tuning.k <= tuning.keyword_candidates + tuning.vector_candidates
        k = tuning.vector_candidates if enough else tuning.k + SPARE
        found = self._guarded("vectors", lambda: vector_candidates(reader, query, k, allowed, new))
        self._timings["vectors"] = _milliseconds(began)
        return found

    def _guarded(self, part: str, ask: Callable[[], Answer]) -> Answer | None:
        """What an index answers. If it cannot, that is said, the other one's answer has to do, and it is healed."""
        try:
            return ask()
        except StoreError as problem:
            if all(missing.part != part for missing in self._degraded):
                self._degraded.append(_missing(part, problem))
            if isinstance(problem, IndexLost):
                self._means.follow.heal_later(self._now.project)
            return None

    def _words(self) -> QueryWords:
        reader = self._pins.keywords
        if reader is None:
            return query_words(self._asked.question)
        key = (self._now.project, self._now.generation, reader.watermark)
        if (languages := self._remembered.languages.get(key)) is None:
            languages = languages_in(reader.holding(LANGUAGE_MARKS))
            self._remembered.languages.put(key, languages)
        return query_words(self._asked.question, languages)

    def _query(self) -> Vector | None:
        """The question's vector; None, and it is said, if the model did not answer."""
        if self._pins.vectors is None:
            return None
        vector = self._asked.vector
        if vector is None:
            known = self._remembered.vectors.get((self._now.embedder, self._asked.question))
            if known is None:
                raise _Unembedded
            told, self._timings["embed"] = known
            if isinstance(told, Degraded):
                self._remembered.vectors.forget(self._now.embedder)  # it may answer next time
                self._degraded.append(told)
                return None
            vector = told
        if self._now.dimension is not None and vector.shape != (self._now.dimension,):
            raise BadVectors(
                f"the question's vector has the shape {vector.shape}, not {self._now.dimension} numbers",
                hint="embed the question with the project's own model",
            )
        return vector

    # -- from candidates to passages

    def _alpha(self) -> float:
        """Share of the vectors. Ranks need no measured one: each list counts the same."""
        tuning = self._asked.tuning
        if tuning.alpha is not None:
            return tuning.alpha
        return 0.5 if tuning.fusion == "rrf" else self._now.fusion_weight

    def _fuse(
        self,
        words: QueryWords,
        query: Vector | None,
        found: tuple[Ranked | None, Ranked | None],
        new: Newcomers,
        alpha: float,
    ) -> tuple[list[Candidate], list[Decision]]:
        """Each candidate once, with what both engines say of it, also of those only one of them found."""
        legs = fuse.merge(*found)
        if self._asked.tuning.fusion == "rrf":
            return fuse.reciprocal_rank(legs, alpha, holders=self._holders)
        keywords, vectors = self._pins.keywords, self._pins.vectors
        if keywords is not None and vectors is not None and query is not None and None not in found:
            unknown_words = np.array(legs.unknown_to_keywords, np.int64)
            unknown_meaning = np.array(legs.unknown_to_vectors, np.int64)
            legs = fuse.fill(
                legs,
                self._guarded("keywords", lambda: keyword_scores(keywords, words, unknown_words, new)),
                self._guarded("vectors", lambda: vector_scores(vectors, query, unknown_meaning, new)),
            )
        floor = self._now.cosine_floor
        scale = fuse.share_of_range if floor is None else fuse.share_above(floor)
        return fuse.weighted(legs, alpha, vector_scale=scale, holders=self._holders)

    def _rerank(self, candidates: list[Candidate], decisions: list[Decision]) -> list[Candidate]:
        first = self._asked.tuning.rerank_candidates
        if not self._asked.tuning.reranker or not candidates:
            return candidates
        if isinstance(self._judge, Degraded):
            self._degraded.append(self._judge)
            return candidates
        if self._judge is None:
            ranked, told, missing = by_cosine(candidates, first)
        else:
            self._read([each.key for each in candidates[:first]])
            readable = [each for each in candidates[:first] if each.key in self._stored]
            candidates, first = readable + candidates[first:], len(readable)
            self._let_go()  # a service may take its time
            ranked, told, missing = rerank(
                candidates, self._stored, self._judge, self._asked.question, first, self._cancel
            )
        decisions += told
        self._degraded += [missing] if missing else []
        self._took("rerank")
        return ranked

    def _distinct(self, candidates: Sequence[Candidate], decisions: list[Decision]) -> list[Candidate]:
        """Candidates that do not repeat each other: at least as many as are shown, if there are."""
        tuning = self._asked.tuning
        wanted = max(tuning.k, tuning.context_chunks) if self._asked.context else tuning.k
        taken = len(candidates) if self._asked.explain else wanted + SPARE
        while True:
            self._read([each.key for each in candidates[:taken]])
            present = [each for each in candidates[:taken] if each.key in self._stored]
            kept, told = dedupe(present, self._stored, tuning.duplicates)
            if len(kept) >= wanted or taken >= len(candidates):
                decisions += told
                return kept
            taken *= 2

    def _read(self, keys: Sequence[int]) -> None:
        """Texts and places of chunks. What the asker may not see is not there, whatever an index said."""
        missing = [key for key in keys if key not in self._stored]
        if missing:
            for stored in self._c.passages.stored(self._scope, self._now, missing):
                self._stored[stored.key] = stored

    def _context(self, kept: Sequence[Candidate], decisions: list[Decision]) -> tuple[ContextBlock, ...]:
        """What would go before a model: leaves with their parents, within the budget."""
        tuning = self._asked.tuning
        planned = plan(kept, self._stored, chunks=tuning.context_chunks, tokens=tuning.context_tokens)
        decisions += planned.decisions
        return tuple(blocks(planned, self._c.passages.parents(self._scope, self._now, planned.parents)))

    def _passage(self, candidate: Candidate) -> Passage:
        stored = self._stored[candidate.key]
        scores = {"keywords": candidate.keyword, "vectors": candidate.vector, "rerank": candidate.rerank}
        ranks = {"keywords": candidate.keyword_rank, "vectors": candidate.vector_rank}
        return Passage(
            chunk=stored.chunk,
            document=stored.document,
            name=stored.name,
            source=stored.source,
            locator=stored.locator,
            text=stored.text,
            header=stored.header,
            score=candidate.score,
            scores={name: score for name, score in scores.items() if score is not None},
            ranks={name: rank for name, rank in ranks.items() if rank is not None},
            tokens=stored.tokens,
            checksum=stored.checksum,
            start=stored.start,
            end=stored.end,
            version=stored.version,
            project=self._project.slug,
            key=stored.key,
        )

    # -- what is told

    def _trace(
        self,
        words: QueryWords,
        candidates: Sequence[Candidate],
        chosen: Sequence[Candidate],
        decisions: Sequence[Decision],
        alpha: float,
        holding: Mapping[str, int],
    ) -> Trace:
        used = {each.key for each in chosen}
        shown = [each for each in candidates if each.key in self._stored]
        return Trace(
            words=words,
            candidates=tuple(self._passage(each) for each in shown),
            verdicts=tuple(_verdict(each, self._stored[each.key]) for each in decisions if each.key in self._stored),
            near_misses=tuple(self._passage(each) for each in shown if each.key not in used)[:5],
            tuning=self._asked.tuning,
            alpha=alpha,
            watermark=self._pins.watermark,
            behind=self._behind,
            holding=holding,
            rows=0 if self._pins.keywords is None else self._pins.keywords.rows,
        )

    def _holding(self, words: QueryWords) -> dict[str, int]:
        return {} if self._pins.keywords is None else self._pins.keywords.holding(words.terms)

    def _nothing(self, words: QueryWords, query: Vector | None, allowed: Allowed) -> str:
        """Why nothing was found, in a sentence."""
        if allowed.documents is not None and not allowed.deny and not len(allowed.documents):
            what = "matches the filters" if self._asked.filters else "has text, is ON and is open to you"
            return f"nothing was searched: no file of the project {what}"
        if query is None:
            why = "no passage has a word of the question" if words else "the question has no words to look for"
            return f"nothing was found: {why}"
        return "nothing was found: no passage has a word or a meaning of the question"

    def _remark(self, passages: Sequence[Passage]) -> str:
        """What a person should know of the passages as a whole."""
        asked, told = self._asked, []
        if len(asked.question) > MEANT and asked.vector is None:
            told.append(f"the question is long: its meaning was taken from the first {MEANT:,} characters")
        if self._pins.keywords is not None and not any(each.scores.get("keywords") for each in passages):
            if not any(map(str.isalnum, asked.question)):  # an emoji can be looked for, but is no word
                told.append("the question has no words: these passages are by meaning alone")
            elif self._alpha() < 1:
                told.append("none of these passages holds a word of the question: they are by meaning alone")
        return "; ".join(told)

    def _took(self, stage: str) -> None:
        now = time.perf_counter()
        self._timings[stage], self._lap = (now - self._lap) * 1000, now


_NOBODY = Newcomers(np.empty(0, np.int64), np.empty(0, np.int64), (), np.empty((0, 0), np.float32))


def _verdict(decision: Decision, passage: StoredPassage) -> Verdict:
    return Verdict(
        decision.stage, passage.chunk, passage.name, passage.locator, decision.kept, decision.reason, decision.score
    )


def _missing(part: str, problem: StoreError) -> Degraded:
    other = {"keywords": "meaning", "vectors": "words"}[part]
    told = f"searched by {other} alone: {problem.message}"
    if isinstance(problem, IndexLost):
        return Degraded(part, f"{told}; it is being built anew", "ask again in a moment")
    return Degraded(part, told, problem.hint or "ragforge check tells more")


def _require_sense(asked: Asked) -> None:
    tuning = asked.tuning
    if not asked.question.strip():
        raise UserError("the question is empty", hint="ask something, such as: refund window")
    if not 1 <= tuning.k <= MOST_PASSAGES:
        raise UserError(f"k is {tuning.k:,}; it can be 1 to {MOST_PASSAGES:,}", hint="use --k 10")
    if tuning.alpha is not None and not 0 <= tuning.alpha <= 1:
        raise UserError(f"alpha is {tuning.alpha:g}; it can be 0 to 1", hint="0 is words alone, 1 meaning alone")
    if tuning.fusion not in FUSIONS:
        raise UserError(f"no fusion called {tuning.fusion!r}", hint=f"use {' or '.join(FUSIONS)}")
    if not 0 < tuning.duplicates <= 1:
        raise UserError(
            f"duplicates is {tuning.duplicates:g}; it can be above 0, to 1", hint="1 drops only the same text"
        )
    for name in ("keyword_candidates", "vector_candidates", "rerank_candidates", "context_chunks", "context_tokens"):
        if getattr(tuning, name) < 1:
            raise UserError(f"{name} is {getattr(tuning, name)}; it must be at least 1", hint=f"leave out {name}")


def _milliseconds(since: float) -> float:
    return (time.perf_counter() - since) * 1000
