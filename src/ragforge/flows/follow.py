"""Indexes follow the change log.

read what is new in the log -> take what came, drop what went, in one step -> tell the catalog how far
An index that is lost, damaged or too far behind is built anew from the catalog alone: no model is called.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragforge.domain.access import Scope
from ragforge.domain.library import Change, Finding, Op, Progress
from ragforge.domain.retrieval import IndexedText, KeywordRows, Moment, VectorRows
from ragforge.errors import Busy, IndexLost, NotFound, RagforgeError, StoreError
from ragforge.failpoints import failpoint
from ragforge.ports import Catalog, Index, KeywordIndex, Unit, VectorIndex

if TYPE_CHECKING:
    from ragforge.domain.retrieval import Keys

STEP = 8_192
"""Changes applied together, at most: their texts and terms are held meanwhile."""

_REPLACED = "not looked at: it was replaced just now"
_PAUSE = 10.0
"""Seconds after which healing is tried again if it failed."""

Terms = Callable[[IndexedText], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Indexes:
    """The two indexes of one generation of a project."""

    keywords: KeywordIndex
    vectors: VectorIndex


@dataclass(frozen=True, slots=True)
class Lane:
    """One index and how its rows are read from the catalog."""

    name: str
    index: Index[Any]
    some: Callable[[Unit, Moment, Collection[int]], Any]
    """Those of the chunks that are live."""
    beyond: Callable[[Unit, Moment, int], Any]
    """The next live chunks after a key."""


class Follow:
    """Keeps the indexes of all projects at the catalog's side."""

    def __init__(
        self,
        catalog: Catalog,
        scope: Scope,
        indexes: Callable[[Moment], Indexes],
        terms: Terms,
        folder: Path,
        engines: Collection[str],
    ) -> None:
        self._catalog = catalog
        self._scope = scope
        self._indexes = indexes
        self._terms = terms
        self._folder = folder
        """Of all projects' local indexes: `<project>/<generation>/<engine>`."""
        self._engines = frozenset(engines)
        """The folders of the engines that are chosen."""
        self._pause: dict[str, float] = {}
        """When healing may be tried again, where it failed."""
        self._healing: dict[str, threading.Thread] = {}
        self._lock = threading.Lock()

    # -- following

    def catch_up(self, project: str, generation: int | None = None, *, wait: bool = True) -> bool:
        """Apply what the indexes have not seen. False if another process is at it and we did not wait.

        One that fails does not keep the other from it.
        """
        with self._catalog.read() as c:
            now = c.passages.moment(self._scope, project, generation)
        done, problems = [], []
        for lane in self._lanes(now):
            try:
                done.append(self._advance(lane, now, wait=wait))
            except StoreError as problem:
                problems.append(problem)
        if problems:
            raise problems[0]
        return all(done)

    def _advance(self, lane: Lane, now: Moment, *, wait: bool) -> bool:
        try:
            with lane.index.writing(blocking=wait) as mine:
                if mine:
                    self._bring_up(lane, now)
            return mine
        except NotFound:  # the generation was retired, or its project removed, meanwhile
            return True
        except StoreError:
            if self._is_gone(now):  # so its folder was removed under us
                return True
            raise

    def _is_gone(self, now: Moment) -> bool:
        try:
            with self._catalog.read() as c:
                c.passages.moment(self._scope, now.project, now.generation)
        except NotFound:
            return True
        return False

    def _bring_up(self, lane: Lane, now: Moment) -> None:
        """Follow the log to its end as it is now; whoever writes on is followed next time."""
        now, told = self._told(lane, now)
        watermark = self._watermark(lane)
        if watermark is not None and not now.forgotten <= watermark <= told:
            watermark = None  # behind what was pruned, or ahead of what this catalog knows: it was restored
        while watermark is None or watermark < now.seq:
            watermark = self._step(lane, now, watermark)
            failpoint("index.applied")
        if watermark != told:
            self._tell(lane, now, watermark)

    def _step(self, lane: Lane, now: Moment, watermark: int | None) -> int:
        """Apply some changes, or build anew. Returns how far the index is then."""
        with self._catalog.read() as c:
            now = c.passages.moment(self._scope, now.project, now.generation)
            if watermark is None:
                lane.index.rebuild(self._all_rows(c, lane, now), now.seq)
                return now.seq
            changes = c.passages.changes(self._scope, now, watermark, STEP)
            if not changes:
                return now.seq
            came, went = net(changes)
            rows = lane.some(c, now, came)
        lane.index.apply(rows, _keys(went), changes[-1].seq)
        return changes[-1].seq

    def _all_rows(self, c: Unit, lane: Lane, now: Moment) -> Iterator[Any]:
        after = 0
        while len((rows := lane.beyond(c, now, after)).keys):
            yield rows
            after = int(rows.keys[-1])

    def _watermark(self, lane: Lane) -> int | None:
        """How far the index is; None if it cannot be trusted."""
        try:
            reader = lane.index.pin()
        except IndexLost:
            return None
        try:
            return reader.watermark
        finally:
            reader.release()

    def _told(self, lane: Lane, now: Moment) -> tuple[Moment, int]:
        """The generation as it is now, and how far the catalog was told that the index is; -1 if never."""
        with self._catalog.read() as c:
            now = c.passages.moment(self._scope, now.project, now.generation)
            return now, c.changes.followed(self._scope, now.project, lane.index.engine, now.generation)

    def _tell(self, lane: Lane, now: Moment, watermark: int) -> None:
        """The catalog may prune what every index has passed."""
        with self._catalog.write() as c:
            index = lane.index
            c.changes.follow(self._scope, now.project, index.engine, now.generation, index.fingerprint, watermark)

    # -- building anew

    def rebuild(self, project: str) -> Iterator[Progress]:
        """Build both indexes of the live generation from the catalog; searches go on with the old ones."""
        with self._catalog.read() as c:
            now = c.passages.moment(self._scope, project)
        for lane in self._lanes(now):
            yield Progress(f"rebuilding {lane.name} index", 0, None)
            rows = self._rebuild(lane, now)
            yield Progress(f"rebuilt {lane.name} index", rows, rows, chunks=rows)
        self.tidy()

    def _rebuild(self, lane: Lane, now: Moment) -> int:
        """Returns how many chunks it holds then."""
        with lane.index.writing(blocking=True):
            self._tell(lane, now, self._step(lane, now, None))
            reader = lane.index.pin()
            try:
                return reader.rows
            finally:
                reader.release()

    def heal_later(self, project: str) -> None:
        """Build what is lost while questions are answered with what is left. `finish` waits for it."""
        with self._lock:
            running = self._healing.get(project)
            if running is not None and (running.is_alive() or time.monotonic() < self._pause.get(project, 0)):
                return
            thread = threading.Thread(target=self._heal, args=(project,), name="ragforge-heal", daemon=True)
            self._healing[project] = thread
            thread.start()

    def _heal(self, project: str) -> None:
        try:
            self.catch_up(project)
        except (RagforgeError, OSError):  # the next question says what is wrong
            self._pause[project] = time.monotonic() + _PAUSE

    def finish(self) -> None:
        """Wait until what is being healed is whole."""
        with self._lock:
            threads = list(self._healing.values())
        for thread in threads:
            thread.join()

    # -- leaving

    def erase(self, project: str) -> list[str]:
        """Leave nothing of removed chunks in any index. Returns the engines that could not do so yet."""
        self.tidy()
        with self._catalog.read() as c:
            now = c.passages.moment(self._scope, project)
            unfinished = c.projects.building(self._scope, project)
            building = None if unfinished is None else c.passages.moment(self._scope, project, unfinished.number)
        if building is not None:
            self.forget(building)  # it is not read yet, and whoever builds it begins anew
        return [lane.index.engine for lane in self._lanes(now) if not self._erase(lane, now)]

    def _erase(self, lane: Lane, now: Moment) -> bool:
        try:
            self._advance(lane, now, wait=True)
            with lane.index.writing(blocking=True):
                return lane.index.erase()
        except StoreError:  # full disk, a server that is away: `check` tries again
            return False

    def forget(self, now: Moment) -> None:
        """A generation is gone: so are its indexes."""
        for lane in self._lanes(now):
            with lane.index.writing(blocking=True):
                lane.index.drop()

    def tidy(self) -> None:
        """Remove what no index uses: of projects and generations that are no more, of engines that are not chosen."""
        folders = list(self._folder.glob("*/*"))  # before asking: one that is made meanwhile is not among them
        with self._catalog.read() as c:
            wanted = {
                (project.id, str(generation.number))
                for project in c.projects.all(self._scope)
                for generation in (
                    c.projects.live(self._scope, project.id),
                    c.projects.building(self._scope, project.id),
                )
                if generation is not None
            }
        for folder in folders:
            if (folder.parent.name, folder.name) not in wanted:
                shutil.rmtree(folder, ignore_errors=True)
            else:
                for engine in folder.iterdir():
                    if engine.name not in self._engines:
                        shutil.rmtree(engine, ignore_errors=True)
        for folder in self._folder.glob("*"):
            with suppress(OSError):  # not empty: in use
                folder.rmdir()

    # -- check

    def check(self, project: str, slug: str, *, repair: bool) -> Iterator[Finding]:
        """Each index against the catalog: its files by checksum, its rows by key, both ways."""
        with self._catalog.read() as c:
            now = c.passages.moment(self._scope, project)
        for lane in self._lanes(now):
            yield self._compare(lane, now, f"{slug}: {lane.name} index", repair=repair)

    def _compare(self, lane: Lane, now: Moment, subject: str, *, repair: bool) -> Finding:
        hint = "ragforge check --repair builds it anew from the catalog"
        try:
            with lane.index.writing(blocking=True):
                problem = self._difference(lane, now)
                if problem and repair:
                    self._tell(lane, now, self._step(lane, now, None))
                    return Finding(subject, False, problem, hint, repaired=not self._difference(lane, now))
                if problem:
                    return Finding(subject, False, problem, hint)
                erased = lane.index.erase()
        except NotFound:  # a reindex swapped, or the project was removed, while we looked
            return Finding(subject, True, _REPLACED)
        except Busy as refused:
            return Finding(subject, True, refused.message, refused.hint, warning=True)
        except StoreError as refused:
            if self._is_gone(now):
                return Finding(subject, True, _REPLACED)
            return Finding(subject, False, refused.message, refused.hint)
        held = "another process still reads files that hold removed text"
        return Finding(subject, True, "as the catalog" if erased else held, warning=not erased)

    def _difference(self, lane: Lane, now: Moment) -> str:
        """What is wrong with the index, in words. One that was never built is built, not wrong."""
        _, told = self._told(lane, now)
        if told >= 0 and (problems := lane.index.verify()):
            return problems[0]
        self._bring_up(lane, now)
        reader = lane.index.pin()
        try:
            held = set(reader.keys().tolist())
            with self._catalog.read() as c:
                now = c.passages.moment(self._scope, now.project, now.generation)
                came, went = net(c.passages.changes(self._scope, now, reader.watermark, 1 << 31))
                wanted = set(c.passages.keys(self._scope, now))
        finally:
            reader.release()
        missing, extra = wanted - held - set(came), held - wanted - went
        return "" if not missing and not extra else f"{len(missing)} chunks missing, {len(extra)} too many"

    # -- rows

    def _lanes(self, now: Moment) -> tuple[Lane, Lane]:
        indexes = self._indexes(now)
        return (
            Lane("keyword", indexes.keywords, self._keyword_rows_of, self._keyword_rows),
            Lane("vector", indexes.vectors, self._vector_rows_of, self._vector_rows),
        )

    def _keyword_rows(self, c: Unit, now: Moment, after: int) -> KeywordRows:
        return keyword_rows(c.passages.texts(self._scope, now, after, STEP), self._terms)

    def _keyword_rows_of(self, c: Unit, now: Moment, keys: Collection[int]) -> KeywordRows:
        return keyword_rows(c.passages.texts_of(self._scope, now, keys), self._terms)

    def _vector_rows(self, c: Unit, now: Moment, after: int) -> VectorRows:
        return vector_rows(c.passages.vectors(self._scope, now, after, STEP), now.dimension)

    def _vector_rows_of(self, c: Unit, now: Moment, keys: Collection[int]) -> VectorRows:
        return vector_rows(c.passages.vectors_of(self._scope, now, keys), now.dimension)


def net(changes: Sequence[Change]) -> tuple[dict[int, int], set[int]]:
    """What a stretch of the log amounts to: chunks that came, with their documents, and chunks that went."""
    came: dict[int, int] = {}
    went: set[int] = set()
    for change in changes:
        if change.chunk is None:
            continue
        if change.op == Op.PUT:
            came[change.chunk] = change.document
            went.discard(change.chunk)
        elif change.op == Op.REMOVE:
            came.pop(change.chunk, None)
            went.add(change.chunk)
    return came, went


def keyword_rows(texts: Sequence[IndexedText], terms: Terms) -> KeywordRows:
    return KeywordRows(
        _keys(text.key for text in texts),
        _keys((text.document for text in texts), ascending=False),
        tuple(terms(text) for text in texts),
    )


def vector_rows(rows: Sequence[tuple[int, int, bytes]], dimension: int | None) -> VectorRows:
    import numpy as np

    vectors = np.frombuffer(b"".join(vector for *_, vector in rows), np.float32)
    return VectorRows(
        _keys(key for key, *_ in rows),
        _keys((document for _, document, _ in rows), ascending=False),
        vectors.reshape(len(rows), dimension or 0),
    )


def _keys(values: Collection[int] | Iterator[int], *, ascending: bool = True) -> Keys:
    import numpy as np

    return np.array(sorted(values) if ascending else list(values), np.int64)
