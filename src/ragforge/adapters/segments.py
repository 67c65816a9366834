"""Immutable segments in one folder under a manifest that is swapped as a whole: what both local indexes stand on.

    <index>/manifest.json    what the index is made of; names every file with its size and checksum
            lock             held by the process that writes
            epoch-<n>        held by every process that reads the files of that epoch
            <segment>/       rows, sorted by key; written once, then only ever removed

Rows that were removed stay in their segment, marked as dead in the manifest, until it is merged, rewritten or erased.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import secrets
import shutil
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Generic, NoReturn, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from ragforge.adapters.locks import FileLock
from ragforge.domain.retrieval import Allowed, Keys
from ragforge.errors import IndexLost, StoreError, cannot_write
from ragforge.failpoints import failpoint

Mask: TypeAlias = "npt.NDArray[np.bool_]"
Places: TypeAlias = "npt.NDArray[np.intp]"
Facts: TypeAlias = Mapping[str, int]

_FORMAT = 1
_MANIFEST = "manifest.json"
_LOCK = "lock"
_MANIFEST_LIMIT = 1 << 28
_HASHED_ON_OPEN = 64 << 20
"""Indexes of up to this many bytes are read and compared with their checksums whenever they are opened."""
_TIER = 4
"""More segments than this of about the same size become one."""
_DEAD_SHARE = 0.25
"""A segment with more dead rows than this is written again."""
_ATTEMPTS = 100
_FILTERS = 8
"""Masks of the document filters that were used last are kept."""

_SEGMENT_NAME = re.compile(r"[0-9a-f]{16}")
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_EPOCH_NAME = re.compile(r"epoch-(\d{1,18})")
_NEW_MANIFEST_NAME = re.compile(r"manifest-[0-9a-f]{16}")


# -- the manifest


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a segment as it was written."""

    name: str
    size: int
    sha256: str
    mtime_ns: int


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """A segment as the manifest knows it."""

    name: str
    rows: int
    files: tuple[StoredFile, ...]
    facts: Facts
    """What its engine needs to read it."""
    dead: Mask | None = None
    """Which rows were removed; None: none."""

    @property
    def living(self) -> int:
        return self.rows if self.dead is None else self.rows - int(np.count_nonzero(self.dead))


@dataclass(frozen=True, slots=True, eq=False)
class Manifest:
    """One state of an index."""

    fingerprint: str
    watermark: int
    epoch: int
    """Grows whenever files leave the index."""
    segments: tuple[Record, ...] = ()

    def dump(self) -> bytes:
        body = {
            "format": _FORMAT,
            "fingerprint": self.fingerprint,
            "watermark": self.watermark,
            "epoch": self.epoch,
            "segments": [
                {
                    "name": segment.name,
                    "rows": segment.rows,
                    "files": [[file.name, file.size, file.sha256, file.mtime_ns] for file in segment.files],
                    "facts": dict(segment.facts),
                    "dead": ""
                    if segment.dead is None
                    else base64.b64encode(np.packbits(segment.dead).tobytes()).decode(),
                }
                for segment in self.segments
            ],
        }
        return json.dumps({"manifest": body, "sha256": _checksum(body)}).encode()

    @staticmethod
    def load(data: bytes) -> Manifest:
        """Read what `dump` wrote. Raises `ValueError` for anything else, whatever it claims."""
        whole = _typed(dict, json.loads(data))
        body = _typed(dict, whole.get("manifest"))
        if body.get("format") != _FORMAT:
            raise ValueError("it has another format")
        if whole.get("sha256") != _checksum(body):
            raise ValueError("its checksum is wrong")
        segments = tuple(_record(segment) for segment in _typed(list, body.get("segments")))
        if len({segment.name for segment in segments}) != len(segments):
            raise ValueError("it names a segment twice")
        return Manifest(
            fingerprint=_typed(str, body.get("fingerprint")),
            watermark=_typed(int, body.get("watermark")),
            epoch=_natural(body.get("epoch")),
            segments=segments,
        )


def _checksum(body: object) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


_T = TypeVar("_T")


def _typed(kind: type[_T], value: object) -> _T:
    if type(value) is not kind:  # a bool is no number
        raise ValueError(f"it holds {type(value).__name__} in place of {kind.__name__}")
    return value


def _natural(value: object, limit: int = 1 << 62) -> int:
    number = _typed(int, value)
    if not 0 <= number <= limit:
        raise ValueError(f"it holds the number {number}")
    return number


def _named(pattern: re.Pattern[str], value: object) -> str:
    name = _typed(str, value)
    if not pattern.fullmatch(name):
        raise ValueError(f"it holds the name {name!r}")
    return name


def _record(value: object) -> Record:
    entry = _typed(dict, value)
    rows = _natural(entry.get("rows"), 1 << 31)
    return Record(
        name=_named(_SEGMENT_NAME, entry.get("name")),
        rows=rows,
        files=tuple(_stored_file(file) for file in _typed(list, entry.get("files"))),
        facts={_typed(str, name): _natural(fact) for name, fact in _typed(dict, entry.get("facts")).items()},
        dead=_dead(_typed(str, entry.get("dead")), rows),
    )


def _stored_file(value: object) -> StoredFile:
    entry = _typed(list, value)
    if len(entry) != 4:
        raise ValueError("it describes a file wrongly")
    name, size, sha256, mtime_ns = entry
    return StoredFile(_named(_FILE_NAME, name), _natural(size), _named(_SHA256, sha256), _natural(mtime_ns))


def _dead(text: str, rows: int) -> Mask | None:
    if not text:
        return None
    packed = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8)
    if len(packed) != (rows + 7) // 8:
        raise ValueError("it marks more rows than there are")
    return np.unpackbits(packed, count=rows).astype(np.bool_)


# -- rows on their way into a segment


class Rows(Protocol):
    """Rows by key, ascending, each key once: given by a caller, or of a segment."""

    @property
    def keys(self) -> Keys: ...
    @property
    def documents(self) -> Keys: ...


R = TypeVar("R", bound=Rows)


@dataclass(frozen=True, slots=True, eq=False)
class Piece(Generic[R]):
    """The rows of a segment to be written, sorted by key, and where each comes from."""

    keys: Keys
    documents: Keys
    sources: Sequence[R]
    source: Places
    row: Places


def pieces(sources: Sequence[R], living: Sequence[Mask | None], cap: int) -> Iterator[Piece[R]]:
    """The living rows of all sources by key, cut to segments. Of rows with the same key the last source's stays."""
    rows = [
        np.arange(len(rows.keys)) if mask is None else np.flatnonzero(mask)
        for rows, mask in zip(sources, living, strict=True)
    ]
    source = np.repeat(np.arange(len(sources)), [len(some) for some in rows])
    row = np.concatenate(rows)
    keys = np.concatenate([its.keys[some] for its, some in zip(sources, rows, strict=True)])
    documents = np.concatenate([its.documents[some] for its, some in zip(sources, rows, strict=True)])
    order = last_of_each(keys)
    for start in range(0, len(order), cap):
        part = order[start : start + cap]
        yield Piece(keys[part], documents[part], sources, source[part], row[part])


def last_of_each(keys: Keys) -> Places:
    """Where each key stands, keys ascending; where one stands several times, the last place."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    last = np.ones(len(order), dtype=np.bool_)
    last[:-1] = ordered[1:] != ordered[:-1]
    return order[last]


def places_of(keys: Keys, wanted: Keys) -> tuple[Places, Mask]:
    """For each wanted key its place in `keys` (ascending), and whether it is there."""
    if not len(keys):
        return np.zeros(len(wanted), dtype=np.intp), np.zeros(len(wanted), dtype=np.bool_)
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return places, keys[places] == wanted


def to_merge(sizes: Sequence[int], cap: int) -> list[int]:
    """Which segments become one, by their sizes: all of a tier that has grown too full, and so on upwards.

    Those of more than half the cap are left alone, so that a large index is not written again and again.
    """
    chosen: list[int] = []
    below = -1
    for limit in (512, 4_096, cap // 2):
        merged = sum(sizes[place] for place in chosen)
        tier = [place for place, size in enumerate(sizes) if below < size <= limit]
        if len(tier) + (1 if chosen and below < merged <= limit else 0) > _TIER:
            chosen += tier
        below = limit
    return sorted(chosen)


def cut(batches: Iterable[R], cap: int, part: Callable[[R, int, int], R]) -> Iterator[list[R]]:
    """Batches of any size as groups that hold `cap` rows each, the last one fewer."""
    group: list[R] = []
    held = 0
    for batch in batches:
        start = 0
        while start < len(batch.keys):
            end = min(len(batch.keys), start + cap - held)
            group.append(part(batch, start, end))
            held += end - start
            start = end
            if held == cap:
                yield group
                group, held = [], 0
    if group:
        yield group


# -- states that are being read


Stamp: TypeAlias = tuple[int, int, int, int]
"""Size, times of change (one can be set back, the other not) and inode: whether a file is the one that was opened."""


def stamp_of(path: Path | str) -> Stamp:
    stat = os.stat(path)
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino


S = TypeVar("S", bound=Rows)
"""An opened segment."""
V = TypeVar("V")


@dataclass(slots=True, eq=False)
class Opened(Generic[S]):
    """An opened segment with the stamps of its files when they were opened."""

    content: S
    stamps: dict[str, Stamp]
    verified: bool
    """Whether its files were compared with their checksums since."""


@dataclass(frozen=True, slots=True, eq=False)
class Eligible:
    """Which rows of a segment may be returned, and how many; no mask: all of them."""

    mask: Mask | None
    count: int


class Hold:
    """A process's sign that it reads files of an epoch."""

    def __init__(self, epoch: int, lock: FileLock) -> None:
        self.epoch = epoch
        self.lock = lock
        self.users = 0


class State(Generic[S, V]):
    """An index at one moment: its manifest and its opened segments. Kept while it is the newest or pinned."""

    def __init__(self, manifest: Manifest, stamp: Stamp, opened: dict[str, Opened[S]], hold: Hold) -> None:
        self.manifest = manifest
        self.stamp = stamp
        self.opened = opened
        self.hold = hold
        self.users = 0
        self.segments = [opened[record.name].content for record in manifest.segments]
        self.files = [file for segment in opened.values() for file in segment.stamps.items()]
        self.living = [_living(record) for record in manifest.segments]
        self.rows = sum(record.living for record in manifest.segments)
        self.view: V
        """What the engine made of its segments."""
        self._filters: list[tuple[Keys, bool, list[Eligible]]] = []

    def eligible(self, allowed: Allowed) -> list[Eligible]:
        """Which rows of each segment are alive and of an allowed document. Hidden rows are not looked at."""
        documents = allowed.documents
        if documents is None:
            return [Eligible(mask, r.living) for mask, r in zip(self.living, self.manifest.segments, strict=True)]
        for known, deny, masks in self._filters:  # a filter is asked for again with the very same array
            if known is documents and deny == allowed.deny:
                return masks
        masks = []
        for segment, living in zip(self.segments, self.living, strict=True):
            mask = np.isin(segment.documents, documents, invert=allowed.deny)
            if living is not None:
                mask &= living
            masks.append(Eligible(mask, int(np.count_nonzero(mask))))
        self._filters = [(documents, allowed.deny, masks), *self._filters[: _FILTERS - 1]]
        return masks

    def keys(self) -> Keys:
        """The keys of all living rows, ascending."""
        parts = [
            segment.keys if mask is None else segment.keys[mask]
            for segment, mask in zip(self.segments, self.living, strict=True)
        ]
        return np.sort(np.concatenate([*parts, np.empty(0, dtype=np.int64)]))


class SegmentReader(Generic[S, V]):
    """A pinned state: what readers of both kinds share."""

    def __init__(self, state: State[S, V], give_back: Callable[[State[S, V]], None]) -> None:
        self._state = state
        self._give_back = give_back
        self._released = False

    @property
    def watermark(self) -> int:
        return self._state.manifest.watermark

    @property
    def rows(self) -> int:
        return self._state.rows

    def keys(self) -> Keys:
        """The keys of all living rows, ascending."""
        return self._state.keys()

    def release(self) -> None:
        if not self._released:
            self._released = True
            self._give_back(self._state)


def lost(engine: str, why: object) -> IndexLost:
    hint = "it is built again from the catalog: ragforge rebuild"
    return IndexLost(f"the {engine} index cannot be used: {why}", hint=hint)


@contextmanager
def reading(engine: str) -> Iterator[None]:
    """Whatever an engine raises over its files, a panic of Rust code too, means that the index is lost."""
    try:
        yield
    except (ValueError, OSError, MemoryError, OverflowError) as problem:
        raise lost(engine, problem) from problem
    except BaseException as problem:
        if not is_panic(problem):
            raise
        raise lost(engine, problem) from problem


def is_panic(problem: BaseException) -> bool:
    """Whether Rust code gave up; its exception is no `Exception` and cannot be imported."""
    return type(problem).__name__ == "PanicException"


# -- the index


class SegmentIndex(ABC, Generic[R, S, V]):
    """An index of segments. An engine says how rows are written, opened and read."""

    engine: ClassVar[str]
    cap: ClassVar[int]
    """Rows in a segment at most."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self._folder = folder
        self._fingerprint = fingerprint
        self._manifest_path = folder / _MANIFEST
        self._guard = threading.RLock()
        self._current: State[S, V] | None = None
        self._holds: dict[int, Hold] = {}
        self._writer: int | None = None

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    # what an engine adds

    @abstractmethod
    def _write(self, folder: Path, piece: Piece[R]) -> Facts:
        """Write a segment's files into its folder."""

    @abstractmethod
    def _open(self, folder: Path, record: Record) -> S:
        """Open a segment whose files have the right sizes. Any `ValueError` or `OSError` means that it is lost."""

    @abstractmethod
    def _as_rows(self, segment: S) -> R:
        """The rows of a segment, to be copied."""

    @abstractmethod
    def _checked(self, rows: R, known: Facts | None) -> R:
        """Rows as they may be written beside a segment with these facts: sorted, each key once. Raises if wrong."""

    @abstractmethod
    def _part(self, rows: R, start: int, end: int) -> R:
        """Some of the rows."""

    @abstractmethod
    def _view(self, segments: Sequence[S]) -> V:
        """What all readers of these segments share. Any `ValueError` or `OSError` means that they are lost."""

    @abstractmethod
    def _examine(self, state: State[S, V]) -> Iterator[str]:
        """What is wrong with the content of segments whose checksums are right."""

    # reading

    def _pinned(self) -> State[S, V]:
        """The newest state, checked, with one more user; to be given back with `_release`."""
        for _ in range(_ATTEMPTS):
            stamp = self._manifest_stamp()
            with self._guard:
                state = self._current
                if state is None or state.stamp != stamp:
                    state = self._renewed()
                state.users += 1
            if self._unchanged(state):
                return state
            self._release(state)
        self._lost("its files change all the time")

    def _renewed(self) -> State[S, V]:
        """The newest state, from now on the current one."""
        old = self._current
        state = self._load(old)
        state.users += 1
        self._current = state
        if old is not None:
            self._release(old)
        return state

    def _release(self, state: State[S, V]) -> None:
        with self._guard:
            state.users -= 1
            if not state.users:
                self._let_go(state.hold)

    def _forget(self) -> None:
        """Let the current state go; the next reader opens the newest one."""
        with self._guard:
            state, self._current = self._current, None
            if state is not None:
                self._release(state)

    def _unchanged(self, state: State[S, V]) -> bool:
        """Whether every file is still the one that was opened. A map of a file that shrank must never be touched."""
        with suppress(OSError):
            if all(stamp_of(path) == stamp for path, stamp in state.files):
                return True
        with self._guard:
            if self._current is state:
                self._forget()
        return False

    def _manifest_stamp(self) -> Stamp:
        try:
            return stamp_of(self._manifest_path)
        except OSError as problem:
            self._forget()
            self._lost("it has no manifest", problem)

    def _read_manifest(self) -> tuple[Manifest, Stamp]:
        stamp = self._manifest_stamp()
        try:
            if stamp[0] > _MANIFEST_LIMIT:
                raise ValueError("it is too large")
            manifest = Manifest.load(self._manifest_path.read_bytes())
        except (OSError, ValueError, RecursionError) as problem:  # a JSON error is a ValueError
            self._lost(f"its manifest cannot be read: {problem}", problem)
        if manifest.fingerprint != self._fingerprint:
            self._lost("it was made for another model or with other settings")
        return manifest, stamp

    def _load(self, old: State[S, V] | None) -> State[S, V]:
        for _ in range(_ATTEMPTS):
            manifest, stamp = self._read_manifest()
            hold = self._take_hold(manifest.epoch)
            try:
                if self._manifest_stamp() != stamp:  # files of that epoch may be gone already
                    continue
                state: State[S, V] = State(manifest, stamp, self._open_all(manifest, old), hold)
                if old is not None and old.segments == state.segments:  # only rows died, or the watermark moved
                    state.view = old.view
                else:
                    with reading(self.engine):
                        state.view = self._view(state.segments)
                hold.users += 1
                return state
            except IndexLost:
                if self._manifest_stamp() == stamp:
                    raise
            finally:
                self._let_go(hold)
        self._lost("its manifest changes all the time")

    def _open_all(self, manifest: Manifest, old: State[S, V] | None) -> dict[str, Opened[S]]:
        known = {} if old is None else old.opened
        small = sum(file.size for segment in manifest.segments for file in segment.files) <= _HASHED_ON_OPEN
        opened = {}
        for record in manifest.segments:
            before = known.get(record.name)
            if before is not None and before.stamps == self._stamps(record):
                opened[record.name] = before
            else:
                opened[record.name] = self._open_one(record, verify=small)
        return opened

    def _open_one(self, record: Record, *, verify: bool) -> Opened[S]:
        stamps = self._stamps(record)
        for file, (size, mtime_ns, *_) in zip(record.files, stamps.values(), strict=True):
            if size != file.size:
                self._lost(f"{file.name} of segment {record.name} has {size:,} bytes in place of {file.size:,}")
            verify = verify or mtime_ns != file.mtime_ns
        if verify:
            self._compare(record)
        folder = self._folder / record.name
        with reading(self.engine):
            content = self._open(folder, record)
        if len(content.keys) != record.rows or len(content.documents) != record.rows:
            self._lost(f"segment {record.name} does not hold {record.rows:,} rows")
        return Opened(content, stamps, verified=verify)

    def _stamps(self, record: Record) -> dict[str, Stamp]:
        stamps = {}
        for file in record.files:
            path = os.path.join(self._folder, record.name, file.name)
            try:
                stamps[path] = stamp_of(path)
            except OSError as problem:
                self._lost(f"{file.name} of segment {record.name} is missing", problem)
        return stamps

    def _compare(self, record: Record) -> None:
        for file in record.files:
            if self._damaged(record, file):
                self._lost(f"{file.name} of segment {record.name} is damaged")

    def _damaged(self, record: Record, file: StoredFile) -> bool:
        try:
            return checksum(self._folder / record.name / file.name) != file.sha256
        except OSError:
            return True

    def _lost(self, why: str, cause: BaseException | None = None) -> NoReturn:
        raise lost(self.engine, why) from cause

    # epochs

    def _epoch_path(self, epoch: int) -> Path:
        return self._folder / f"epoch-{epoch}"

    def _take_hold(self, epoch: int) -> Hold:
        with self._guard:
            hold = self._holds.get(epoch)
            if hold is None:
                lock = FileLock(self._epoch_path(epoch))
                try:
                    lock.acquire(shared=True)
                except StoreError as problem:
                    self._lost(problem.message, problem)
                hold = self._holds[epoch] = Hold(epoch, lock)
            hold.users += 1
            return hold

    def _let_go(self, hold: Hold) -> None:
        with self._guard:
            hold.users -= 1
            if not hold.users:
                hold.lock.release()
                del self._holds[hold.epoch]

    def pending(self) -> bool:
        """Whether another process still reads files that have left the index."""
        assert self._writer == threading.get_ident(), "pending without the right to write"
        current = self._read_manifest()[0].epoch
        return any(self._read_by_others(epoch) for epoch in self._epochs() if epoch < current)

    def _epochs(self) -> list[int]:
        return sorted(int(match[1]) for name in _names(self._folder) if (match := _EPOCH_NAME.fullmatch(name)))

    def _read_by_others(self, epoch: int) -> bool:
        """Whether another process holds an epoch; its file is removed if no one does."""
        with self._guard:
            ours = self._holds.get(epoch)
            if ours is not None:
                ours.lock.release()
            probe = FileLock(self._epoch_path(epoch))
            free = probe.acquire(blocking=False)
            if free and ours is None:
                self._epoch_path(epoch).unlink(missing_ok=True)
            probe.release()
            if ours is not None:
                ours.lock.acquire(shared=True)
            return not free

    # writing

    @contextmanager
    def writing(self, *, blocking: bool) -> Iterator[bool]:
        """The right to write; each call has a lock of its own, so that it keeps threads apart as well as processes."""
        path = self._folder / _LOCK
        while True:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                path.touch(0o600)
                inode = path.stat().st_ino
            except FileNotFoundError:  # dropped just now
                continue
            except OSError as problem:
                raise cannot_write(self._folder, problem) from problem
            lock = FileLock(path)
            try:
                ours = lock.acquire(blocking=blocking)
            except StoreError:
                if self._folder.exists():
                    raise
                continue
            try:
                same = path.stat().st_ino == inode
            except FileNotFoundError:
                same = False
            if same:
                break
            lock.release()  # the folder was dropped while we waited: another may hold the lock of the new one
        if not ours:
            yield False
            return
        self._writer = threading.get_ident()
        try:
            yield True
        finally:
            self._writer = None
            lock.release()

    def _apply(self, put: R, removed: Keys, watermark: int) -> None:
        assert self._writer == threading.get_ident(), "apply without the right to write"
        state = self._pinned()
        try:
            records = list(state.manifest.segments)
            put = self._checked(put, records[0].facts if records else None)
            gone = np.union1d(put.keys, removed.astype(np.int64))
            records = [
                _without(record, segment.keys, gone) for record, segment in zip(records, state.segments, strict=True)
            ]
            if not len(put.keys) and records == list(state.manifest.segments):
                if watermark != state.manifest.watermark:
                    self._swap(replace(state.manifest, watermark=watermark))
                return
            sizes = [record.living for record in records]
            if len(put.keys):
                sizes.append(len(put.keys))
            merged = to_merge(sizes, self.cap)
            alone = [place for place in range(len(sizes)) if place not in merged]
            groups = [merged, *([place] for place in alone if place == len(records) or _mostly_dead(records[place]))]
            self._replace(state, records, put, groups, watermark)
        finally:
            self._release(state)

    def _replace(
        self, state: State[S, V], records: Sequence[Record], put: R | None, groups: list[list[int]], watermark: int
    ) -> None:
        """Write each group of segments as one (the place after the last means what was put), then swap."""
        leaving = {place for group in groups for place in group if place < len(records)}
        sources = [self._as_rows(segment) for segment in state.segments] + ([] if put is None else [put])
        living = [*map(_living, records), None]
        kept = [record for place, record in enumerate(records) if place not in leaving]
        new: list[Record] = []
        try:
            for place in leaving:
                if not state.opened[records[place].name].verified:
                    self._insist(records[place])
            for group in filter(None, groups):
                for piece in pieces([sources[at] for at in group], [living[at] for at in group], self.cap):
                    new.append(self._new_segment(piece))
            epoch = state.manifest.epoch + (1 if leaving else 0)
            self._swap(Manifest(self._fingerprint, watermark, epoch, (*kept, *new)))
        except BaseException:
            self._discard(new)
            raise

    def _insist(self, record: Record) -> None:
        """Damage must not be copied under a new checksum: if there is any, the whole index is given up.

        Every reader then knows, and the next writer builds it anew.
        """
        try:
            self._compare(record)
        except IndexLost:
            self._manifest_path.unlink(missing_ok=True)
            raise

    def _rebuild(self, batches: Iterable[R], watermark: int) -> None:
        assert self._writer == threading.get_ident(), "rebuild without the right to write"
        new: list[Record] = []
        keys: list[Keys] = []
        facts: Facts | None = None
        try:
            for group in cut(batches, self.cap, self._part):
                group = [self._checked(rows, facts) for rows in group]
                for piece in pieces(group, [None] * len(group), self.cap):
                    new = [_without(record, known, piece.keys) for record, known in zip(new, keys, strict=True)]
                    new.append(self._new_segment(piece))
                    keys.append(piece.keys)
                    facts = new[-1].facts
            self._swap(Manifest(self._fingerprint, watermark, self._next_epoch(), tuple(new)))
        except BaseException:
            self._discard(new)
            raise

    def _next_epoch(self) -> int:
        """Above every epoch that a manifest or a file tells of, also when the manifest is lost."""
        try:
            known = Manifest.load(self._manifest_path.read_bytes()).epoch
        except (OSError, ValueError, RecursionError):
            known = 0
        return max([known, *self._epochs()]) + 1

    def erase(self) -> bool:
        """Write every segment with dead rows again without them. False while another process reads an older state."""
        assert self._writer == threading.get_ident(), "erase without the right to write"
        state = self._pinned()
        try:
            manifest = state.manifest
            dirty = [[place] for place, record in enumerate(manifest.segments) if record.dead is not None]
            if dirty:
                self._replace(state, list(manifest.segments), None, dirty, manifest.watermark)
            else:
                self._sweep(manifest)
        finally:
            self._release(state)
        self._forget()
        return not self.pending()

    def verify(self) -> list[str]:
        """Read everything again; what is wrong, in words."""
        try:
            manifest, _ = self._read_manifest()
        except IndexLost as problem:
            return [problem.message]
        wrong = []
        for record in manifest.segments:
            for file in record.files:
                if not (self._folder / record.name / file.name).is_file():
                    wrong.append(f"{file.name} of segment {record.name} is missing")
                elif self._damaged(record, file):
                    wrong.append(f"{file.name} of segment {record.name} is damaged")
        if wrong:
            return wrong
        try:
            state = self._pinned()
        except IndexLost as problem:
            return [problem.message]
        try:
            for record, segment in zip(state.manifest.segments, state.segments, strict=True):
                if (np.diff(segment.keys) <= 0).any():
                    wrong.append(f"the keys of segment {record.name} do not ascend")
            if (np.diff(state.keys()) == 0).any():
                wrong.append("a row is there twice")
            with reading(self.engine):
                return wrong + list(self._examine(state))
        except IndexLost as problem:
            return [*wrong, problem.message]
        finally:
            self._release(state)

    def drop(self) -> None:
        """Remove the folder. Whoever reads keeps its open files; the next reader finds nothing."""
        if not self._folder.exists():
            return
        if self._writer == threading.get_ident():
            self._remove_folder()
        else:
            with self.writing(blocking=True):
                self._remove_folder()

    def _remove_folder(self) -> None:
        self._forget()
        try:
            self._manifest_path.unlink(missing_ok=True)
            shutil.rmtree(self._folder)
        except FileNotFoundError:
            return
        except OSError as problem:
            raise cannot_write(self._folder, problem) from problem

    def close(self) -> None:
        """Let the files go. Readers that are still pinned keep theirs."""
        self._forget()

    def _new_segment(self, piece: Piece[R]) -> Record:
        folder = self._folder / secrets.token_hex(8)
        try:
            folder.mkdir(mode=0o700)
            facts = self._write(folder, piece)
            files = tuple(_finished(path) for path in sorted(folder.iterdir()))
            sync(folder)
            failpoint("index.segment")
        except BaseException as problem:
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(problem, OSError):
                raise cannot_write(folder, problem) from problem
            raise
        return Record(folder.name, len(piece.keys), files, facts)

    def _swap(self, manifest: Manifest) -> None:
        new = self._folder / f"manifest-{secrets.token_hex(8)}"
        try:
            sync(self._folder)
            self._epoch_path(manifest.epoch).touch(0o600)  # by the writer, so that a reader needs no space
            write_durably(new, manifest.dump())
            failpoint("index.swap")
            os.replace(new, self._manifest_path)
            failpoint("index.swapped")
            sync(self._folder)
        except OSError as problem:
            with suppress(OSError):
                new.unlink(missing_ok=True)
            raise cannot_write(self._folder, problem) from problem
        self._sweep(manifest)

    def _sweep(self, manifest: Manifest) -> None:
        """Remove what the manifest does not name: what was replaced, and what a killed writer left."""
        named = {segment.name for segment in manifest.segments}
        try:
            for name in _names(self._folder):
                path = self._folder / name
                if _SEGMENT_NAME.fullmatch(name) and name not in named:
                    shutil.rmtree(path)
                elif _NEW_MANIFEST_NAME.fullmatch(name):
                    path.unlink(missing_ok=True)
        except OSError as problem:
            raise cannot_write(self._folder, problem) from problem
        for epoch in self._epochs():
            if epoch < manifest.epoch and epoch not in self._holds:
                self._read_by_others(epoch)

    def _discard(self, records: Sequence[Record]) -> None:
        """Remove segments that were written for a state which is not to be, unless the swap went through."""
        with suppress(OSError, ValueError):
            named = {segment.name for segment in Manifest.load(self._manifest_path.read_bytes()).segments}
            records = [record for record in records if record.name not in named]
        for record in records:
            shutil.rmtree(self._folder / record.name, ignore_errors=True)


def _living(record: Record) -> Mask | None:
    return None if record.dead is None else ~record.dead


def _mostly_dead(record: Record) -> bool:
    return record.living < (1 - _DEAD_SHARE) * record.rows


def _without(record: Record, keys: Keys, gone: Keys) -> Record:
    """The record with the rows of these keys (ascending) dead; the same object if none of them lives in it."""
    if not len(gone) or not len(keys) or gone[0] > keys[-1] or gone[-1] < keys[0]:
        return record
    places, there = places_of(keys, gone)
    places = places[there]
    if record.dead is not None:
        places = places[~record.dead[places]]
    if not len(places):
        return record
    dead = np.zeros(record.rows, dtype=np.bool_) if record.dead is None else record.dead.copy()
    dead[places] = True
    return replace(record, dead=dead)


# -- files


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Make a file's content, or the names in a folder, durable."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except PermissionError:  # Windows does not open folders
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_durably(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    _set_time(path)


def _finished(path: Path) -> StoredFile:
    """A written file as the manifest will name it, durable."""
    sync(path)
    mtime_ns = _set_time(path)
    return StoredFile(path.name, path.stat().st_size, checksum(path), mtime_ns)


def _set_time(path: Path) -> int:
    """The time now, to the nanosecond: the file system's own clock ticks too slowly to tell two writes apart."""
    now = time.time_ns()
    os.utime(path, ns=(now, now))
    return path.stat().st_mtime_ns
