"""Indexes follow the change log.

read what is new in the log -> take what came, drop what went, in one step -> tell the catalog how far
An index that is lost, damaged or too far behind is built anew from the catalog alone: no model is called.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragforge.domain.access import Scope
from ragforge.domain.cancel import Cancel
from ragforge.domain.library import REMOVALS, SERVER, Change, Finding, Op, Progress
from ragforge.domain.retrieval import IndexedText, KeywordRows, Moment, VectorRows
from ragforge.errors import Busy, IndexLost, NotFound, RagforgeError, StoreError
from ragforge.failpoints import failpoint
from ragforge.ports import Catalog, Index, IndexReader, KeywordIndex, Unit, VectorIndex

if TYPE_CHECKING:
    from ragforge.domain.retrieval import Keys

STEP = 8_192
"""Changes applied together, at most: their texts and terms are held meanwhile."""
EVERYTHING = 1 << 31
"""More changes than there can be."""
LESSONS = "lessons"
"""The folder of indexes that are of no project."""

_UNBUILT = -1
"""How far an index is that is being built for the first time: all that comes meanwhile is kept for it."""
_REPLACED = "not looked at: it was replaced just now"
_STILL_READ = "another process still reads files that hold removed text"
_PAUSE = 10.0
"""Seconds after which healing is tried again if it failed."""
_TRIES = 5
_LOOK_AGAIN = 0.02
"""Seconds between two looks whether another process has finished writing."""

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
        engines: Mapping[str, str],
        node: str = "",
    ) -> None:
        self._catalog = catalog
        self._scope = scope
        self._indexes = indexes
        self._terms = terms
        self._folder = folder
        """Of all projects' local indexes: `<project>/<generation>/<folder of an engine>`."""
        self._engines = engines
        """Those that are chosen, and the folder of each."""
        self._node = node
        """By what this machine is known to others on the catalog; empty where there are none."""
        self.serves = True
        """Whether questions are answered here: else no index is kept that only this machine has."""
        self._news: dict[str, list[str]] = {}
        """What happened to a project's indexes that nobody was told yet."""
        self._pause: dict[str, float] = {}
        """When healing may be tried again, where it failed."""
        self._healing: dict[str, threading.Thread] = {}
        self._lock = threading.Lock()

    # -- following

    def catch_up(
        self, project: str, generation: int | None = None, *, wait: bool = True, cancel: Cancel | None = None
    ) -> bool:
        """Apply what the indexes have not seen. False if another process is at it and we did not wait.

        One that fails does not keep the other from it.
        """
        with self._catalog.read() as c:
            now = c.passages.moment(self._scope, project, generation)
        cancel, done, problems = cancel or Cancel(), [], []
        for lane in self._lanes(now):
            if not self._keeps(lane):
                continue
            try:
                done.append(self._advance(lane, now, cancel, wait=wait))
            except StoreError as problem:
                problems.append(problem)
        if problems:
            raise problems[0]
        return all(done)

    def follow_others(self, project: str) -> tuple[bool, bool]:
        """Follow what other machines did. Whether there was something, and whether nothing removed is left in files.

        How far a machine has looked for what was removed is kept beside how far its indexes are: an upload or a search
        here may have brought those up before.
        """
        with self._catalog.read() as c:
            now = c.passages.moment(self._scope, project)
            looked = c.changes.followed(self._scope, project, self._looks_as, now.generation)
            changes = [] if looked < now.forgotten else c.passages.changes(self._scope, now, looked, STEP)
        unclear = looked < now.forgotten or len(changes) == STEP
        removed = unclear or removes(changes)
        behind = any(self._told(lane, now)[1] < now.seq for lane in self._lanes(now) if self._keeps(lane))
        left: list[str] = []
        if removed:
            self.tidy()
            left = self._erase_all(project, Cancel(), lambda lane: self.serves and not lane.index.shared)
        if behind:
            self.catch_up(project)
        for building in self._generations(project)[1:] if looked < now.seq else ():
            if unclear or any(change.renews(building.generation) for change in changes) or self._is_followed(building):
                self.catch_up(project, building.generation)  # so that little is left to do when it is swapped in
        if looked < now.seq and not left:
            self._note(now, self._looks_as, "", now.seq)
        return behind or removed, not left

    @property
    def _looks_as(self) -> str:
        """By what this process looks for what was removed: a worker in the same folder leaves indexes to the server."""
        return f"{REMOVALS}{SERVER if self.serves else 'worker'}@{self._node}"

    def _is_followed(self, now: Moment) -> bool:
        """Whether an index of the generation is kept up here."""
        return any(self._told(lane, now)[1] >= 0 for lane in self._lanes(now) if self._keeps(lane))

    def whole(self, project: str, generation: int) -> None:
        """A generation that is being built has all its vectors: its indexes are built now, on every machine.

        One that followed earlier found some vectors only, and would not hear of the others.
        """
        with self._catalog.write() as c:
            c.changes.renew(self._scope, project, generation)

    def is_unbuilt(self, now: Moment) -> bool:
        """Whether this machine has yet to build an index of a small project that others made: no loss to speak of."""
        is_small = bool(self._node) and now.seq - now.forgotten < STEP
        return is_small and any(self._told(lane, now)[1] < 0 for lane in self._lanes(now))

    def news(self, project: str) -> list[str]:
        """What became of damaged indexes, each told once."""
        with self._lock:
            return self._news.pop(project, [])

    def _keeps(self, lane: Lane) -> bool:
        """Whether this process keeps the index up."""
        return lane.index.shared or self.serves

    def _advance(self, lane: Lane, now: Moment, cancel: Cancel, *, wait: bool) -> bool:
        try:
            with self._writing(lane, now, cancel, wait=wait) as mine:
                if mine:
                    self._bring_up(lane, now, cancel)
            return mine
        except NotFound:
            return True

    @contextmanager
    def _writing(self, lane: Lane, now: Moment, cancel: Cancel, *, wait: bool = True) -> Iterator[bool]:
        """The right to write. Raises `NotFound` if the generation was retired, or its project removed, meanwhile."""
        try:
            with right_to_write(lane.index, cancel, wait=wait) as mine:
                yield mine
        except StoreError:
            self._renewed(now)  # of one that is gone, the folder was removed under us
            raise

    def _renewed(self, now: Moment) -> Moment:
        with self._catalog.read() as c:
            return c.passages.moment(self._scope, now.project, now.generation)

    def _bring_up(self, lane: Lane, now: Moment, cancel: Cancel) -> None:
        """Follow the log to its end as it is now; whoever writes on is followed next time."""
        now, told = self._told(lane, now)
        watermark, lost = self._watermark(lane)
        if watermark is not None and watermark > told:
            watermark = None  # ahead of what this catalog knows: it was restored
        while watermark is None or watermark < now.seq:
            watermark = self._step(lane, now, watermark, cancel)
            failpoint("index.applied")
            self._tell(lane, now, watermark)
        if lost and told >= 0:
            with self._lock:
                self._news.setdefault(now.project, []).append(f"{lost}; it was built anew")

    def _step(self, lane: Lane, now: Moment, watermark: int | None, cancel: Cancel) -> int:
        """Apply some of the changes there are, or build anew. Returns how far the index is then."""
        cancel.check()
        if watermark is None and self._told(lane, now)[1] < 0:
            self._tell(lane, now, _UNBUILT)  # before it reads: nobody prunes what comes meanwhile
        with self._catalog.read() as c:
            now = c.passages.moment(self._scope, now.project, now.generation)
            changes = [] if watermark is None else c.passages.changes(self._scope, now, watermark, STEP)
            is_pruned = watermark is None or watermark < now.forgotten  # what it has not seen, perhaps just now
            if is_pruned or any(change.renews(now.generation) for change in changes):
                lane.index.rebuild(self._all_rows(c, lane, now, cancel), now.seq)
                return now.seq
            came, went = net(changes)
            rows = lane.some(c, now, came)
        lane.index.apply(rows, _keys(went), changes[-1].seq)
        return changes[-1].seq

    def _all_rows(self, c: Unit, lane: Lane, now: Moment, cancel: Cancel) -> Iterator[Any]:
        after = 0
        while len((rows := lane.beyond(c, now, after)).keys):
            yield rows
            after = int(rows.keys[-1])
            cancel.check()

    def _watermark(self, lane: Lane) -> tuple[int | None, str]:
        """How far the index is; None if it cannot be trusted, and why."""
        try:
            with _pinned(lane) as reader:
                return reader.watermark, ""
        except IndexLost as problem:
            return None, problem.message

    def _told(self, lane: Lane, now: Moment) -> tuple[Moment, int]:
        """The generation as it is now, and how far the catalog was told that the index is; -1 if never."""
        with self._catalog.read() as c:
            now = c.passages.moment(self._scope, now.project, now.generation)
            return now, c.changes.followed(self._scope, now.project, self._known_as(lane.index), now.generation)

    def _known_as(self, index: Index[Any]) -> str:
        """What the catalog calls an index: that of a machine is its own."""
        return index.engine if index.shared or not self._node else f"{index.engine}@{self._node}"

    def _tell(self, lane: Lane, now: Moment, watermark: int) -> None:
        self._note(now, self._known_as(lane.index), lane.index.fingerprint, watermark)

    def _note(self, now: Moment, name: str, fingerprint: str, seq: int) -> None:
        """The catalog may prune what all have passed. It need not hear of a generation that is gone."""
        with self._catalog.write() as c:
            c.passages.moment(self._scope, now.project, now.generation)
            c.changes.follow(self._scope, now.project, name, now.generation, fingerprint, seq)

    # -- building anew

    def rebuild(self, project: str, cancel: Cancel) -> Iterator[Progress]:
        """Build both indexes of the live generation from the catalog; searches go on with the old ones.

        Other machines read in the log that they are to build theirs.
        """
        with self._catalog.write() as c:
            asked = c.changes.renew(self._scope, project) if self._node else EVERYTHING
            now = c.passages.moment(self._scope, project)
        for lane in self._lanes(now):
            if not self._keeps(lane):
                yield Progress(f"servers rebuild their {lane.name} index", 0, None)
                continue
            yield Progress(f"rebuilding {lane.name} index", 0, None)
            with self._writing(lane, now, cancel):
                if self._told(lane, now)[1] < asked:  # else another process that read the log was quicker
                    self._build(lane, now, cancel)
                with _pinned(lane) as reader:
                    rows = reader.rows
            yield Progress(f"rebuilt {lane.name} index", rows, rows, chunks=rows)
        self.tidy()

    def _build(self, lane: Lane, now: Moment, cancel: Cancel) -> None:
        self._tell(lane, now, self._step(lane, now, None, cancel))

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
            self.catch_up(project, wait=False)  # whoever writes now heals it
        except (RagforgeError, OSError):  # the next question says what is wrong
            self._pause[project] = time.monotonic() + _PAUSE

    def finish(self) -> None:
        """Wait until what is being healed is whole."""
        with self._lock:
            threads = list(self._healing.values())
        for thread in threads:
            thread.join()

    # -- leaving

    def erase(self, project: str, cancel: Cancel | None = None) -> list[str]:
        """Leave nothing of removed chunks in any index. Returns where that could not be done yet, and why."""
        return self.tidy() + self._erase_all(project, cancel or Cancel(), self._keeps)

    def _erase_all(self, project: str, cancel: Cancel, wanted: Callable[[Lane], bool]) -> list[str]:
        left: list[str] = []
        now, *unfinished = self._generations(project)
        for generation in (*unfinished, now):
            of = "" if generation is now else " of an unfinished reindex"
            for lane in filter(wanted, self._lanes(generation)):
                if why := self._erase(lane, generation, cancel, begun=generation is now):
                    left.append(f"{lane.index.engine} index{of}: {why}")
        return left

    def _erase(self, lane: Lane, now: Moment, cancel: Cancel, *, begun: bool) -> str:
        """Why removed chunks are still in its files; empty if they are not. One that nobody has `begun` may wait."""
        try:
            with self._writing(lane, now, cancel):
                if not begun and self._watermark(lane)[0] is None:
                    lane.index.drop()
                    return ""
                self._bring_up(lane, now, cancel)
                return "" if lane.index.erase() else _STILL_READ
        except NotFound:
            return ""
        except StoreError as problem:  # full disk, a server that is away: `check` tries again
            return in_full(problem)

    def drop(self, project: str) -> None:
        """Remove all indexes of a project, wherever they are."""
        for now in self._generations(project):
            self.forget(now)

    def _generations(self, project: str) -> list[Moment]:
        """The live one, and the one that is being built."""
        with self._catalog.read() as c:
            building = c.projects.building(self._scope, project)
            numbers = [None] if building is None else [None, building.number]
            return [c.passages.moment(self._scope, project, number) for number in numbers]

    def forget(self, now: Moment, cancel: Cancel | None = None) -> None:
        """A generation is gone: so are its indexes."""
        for lane in self._lanes(now):
            with right_to_write(lane.index, cancel or Cancel()):
                lane.index.drop()

    def tidy(self) -> list[str]:
        """Remove what no index uses: of projects and generations that are no more, of engines that are not chosen.

        Returns the folders that could not be removed, and why.
        """
        # before asking: one that is made meanwhile is not among them
        folders = [
            folder for project in _inside(self._folder) if project.name != LESSONS for folder in _inside(project)
        ]
        wanted: set[tuple[str, str]] = set()
        known = list(self._engines)
        if self._node:
            looks = (f"{REMOVALS}{role}" for role in (SERVER, "worker"))
            known += [f"{name}@{self._node}" for name in (*self._engines, *looks)]
        with self._catalog.write() as c:
            for project in c.projects.all(self._scope):
                both = c.projects.live(self._scope, project.id), c.projects.building(self._scope, project.id)
                numbers = [generation.number for generation in both if generation is not None]
                c.changes.unfollow(self._scope, project.id, numbers, known)
                wanted.update((project.id, str(number)) for number in numbers)
        unused = [folder for folder in folders if (folder.parent.name, folder.name) not in wanted]
        for folder in set(folders).difference(unused):
            unused += [engine for engine in _inside(folder) if engine.name not in self._engines.values()]
        left = [f"{folder.relative_to(self._folder.parent)}: {why}" for folder in unused if (why := _remove(folder))]
        for folder in _inside(self._folder):
            with suppress(OSError):  # not empty: in use
                folder.rmdir()
        return left

    # -- check

    def check(self, project: str, slug: str, *, repair: bool) -> Iterator[Finding]:
        """Each index against the catalog: its files by checksum, its rows by key, both ways."""
        with self._catalog.read() as c:
            now = c.passages.moment(self._scope, project)
        for lane in self._lanes(now):
            yield self._compare(lane, now, f"{slug}: {lane.name} index", repair=repair)

    def _compare(self, lane: Lane, now: Moment, subject: str, *, repair: bool) -> Finding:
        hint, never = "ragforge check --repair builds it anew from the catalog", Cancel()
        try:
            with self._writing(lane, now, never):
                problem = self._difference(lane, now, never)
                if problem and repair:
                    self._build(lane, now, never)
                    return Finding(subject, False, problem, hint, repaired=not self._difference(lane, now, never))
                if problem:
                    return Finding(subject, False, problem, hint)
                erased = lane.index.erase()
        except NotFound:  # a reindex swapped, or the project was removed, while we looked
            return Finding(subject, True, _REPLACED)
        except Busy as refused:
            return Finding(subject, True, refused.message, refused.hint, warning=True)
        except StoreError as refused:
            return Finding(subject, False, refused.message, refused.hint)
        return Finding(subject, True, "as the catalog" if erased else _STILL_READ, warning=not erased)

    def _difference(self, lane: Lane, now: Moment, cancel: Cancel) -> str:
        """What is wrong with the index, in words. One that was never built is built, not wrong."""
        _, told = self._told(lane, now)
        if told >= 0 and (problems := lane.index.verify()):
            return problems[0]
        self._bring_up(lane, now, cancel)
        with _pinned(lane) as reader, self._catalog.read() as c:
            held = set(reader.keys().tolist())
            now = c.passages.moment(self._scope, now.project, now.generation)
            came, went = net(c.passages.changes(self._scope, now, reader.watermark, EVERYTHING))
            wanted = set(c.passages.keys(self._scope, now))
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


@contextmanager
def right_to_write(index: Index[Any], cancel: Cancel, *, wait: bool = True) -> Iterator[bool]:
    """Waits until another process has finished, or the work is cancelled. False if we should not wait."""
    while True:
        with index.writing(blocking=False) as mine:
            if mine or not wait:
                yield mine
                return
        cancel.wait(_LOOK_AGAIN)
        cancel.check()


@contextmanager
def _pinned(lane: Lane) -> Iterator[IndexReader]:
    reader = lane.index.pin()
    try:
        yield reader
    finally:
        reader.release()


def _inside(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):  # removed just now
        return []


def _remove(folder: Path) -> str:
    """Remove a folder. Why not, if it is still there: others may be removing it, or just finishing what they write."""
    why = ""
    for _ in range(_TRIES):
        try:
            shutil.rmtree(folder) if folder.is_dir() else folder.unlink(missing_ok=True)
        except OSError as problem:
            why = problem.strerror or str(problem)
        if not folder.exists():
            return ""
    return why


def in_full(problem: RagforgeError) -> str:
    """What is wrong and the next step, inside a sentence."""
    return f"{problem.message} ({problem.hint})" if problem.hint else problem.message


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


def removes(changes: Sequence[Change]) -> bool:
    """Whether a document left in this stretch of the log: where one was replaced, chunks of it came after."""
    gone: set[int] = set()
    for change in changes:
        if change.op == Op.REMOVE:
            gone.add(change.document)
        elif change.op == Op.PUT:
            gone.discard(change.document)
    return bool(gone)


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
