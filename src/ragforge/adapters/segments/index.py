"""Immutable segments under one manifest: what both local indexes stand on.

A reader pins a state and keeps its files, whatever is written meanwhile. A writer writes new segments beside the old
ones, then swaps the manifest. Rows that were removed stay in their segment, marked as dead in the manifest, until it is
merged, written again or erased.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Generic

import numpy as np

from ragforge.adapters.segments.files import Stamp, stamp_of
from ragforge.adapters.segments.folder import SegmentFolder
from ragforge.adapters.segments.lost import reading
from ragforge.adapters.segments.manifest import Facts, Manifest, Record
from ragforge.adapters.segments.rows import Piece, R, cut, pieces, to_merge
from ragforge.adapters.segments.state import Opened, S, State, V
from ragforge.domain.retrieval import Keys
from ragforge.durable import sync
from ragforge.errors import IndexLost, StoreError, cannot_write

_HASHED_ON_OPEN = 64 << 20
"""Indexes of up to this many bytes are read and compared with their checksums whenever they are opened."""
_ATTEMPTS = 100


class SegmentIndex(ABC, Generic[R, S, V]):
    """An index of segments. An engine says how rows are written, opened and read."""

    engine: ClassVar[str]
    cap: ClassVar[int]
    """Rows in a segment at most."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self._folder = SegmentFolder(folder, self.engine, fingerprint)
        self._guard = threading.RLock()
        self._current: State[S, V] | None = None

    @property
    def fingerprint(self) -> str:
        return self._folder.fingerprint

    # -- what an engine adds

    @abstractmethod
    def _write(self, folder: Path, piece: Piece[R]) -> Facts:
        """Write a segment's files into its folder. Those whose names begin with a dot do not stay."""

    @abstractmethod
    def _open(self, folder: Path, record: Record) -> S:
        """Open a segment whose files have the right sizes. Any `ValueError` or `OSError` means that it is lost."""

    @abstractmethod
    def _rows(self, state: State[S, V]) -> list[R]:
        """The rows of each segment, to be copied."""

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

    # -- reading

    def _pinned(self) -> State[S, V]:
        """The newest state, checked, with one more user; to be given back with `_release`."""
        for _ in range(_ATTEMPTS):
            stamp = self._newest()
            with self._guard:
                state = self._current
                if state is None or state.stamp != stamp:
                    state = self._renewed()
                state.users += 1
            if self._is_unchanged(state):
                return state
            self._release(state)
        self._folder.lost("its files change all the time")

    def _newest(self) -> Stamp:
        try:
            return self._folder.stamp()
        except IndexLost:
            self._forget()
            raise

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
                self._folder.epochs.let_go(state.manifest.epoch)

    def _forget(self) -> None:
        """Let the current state go; the next reader opens the newest one."""
        with self._guard:
            state, self._current = self._current, None
            if state is not None:
                self._release(state)

    def _is_unchanged(self, state: State[S, V]) -> bool:
        """Whether every file is still the one that was opened. A map of a file that shrank must never be touched."""
        with suppress(OSError):
            if all(stamp_of(path) == stamp for path, stamp in state.files):
                return True
        with self._guard:
            if self._current is state:
                self._forget()
        return False

    def _load(self, old: State[S, V] | None) -> State[S, V]:
        """The newest state, its epoch held."""
        for _ in range(_ATTEMPTS):
            manifest, stamp = self._folder.read()
            self._hold(manifest.epoch)
            try:
                if self._newest() != stamp:  # files of that epoch may be gone already
                    continue
                state = self._opened(manifest, stamp, old)
                self._hold(manifest.epoch)
                return state
            except IndexLost:
                if self._newest() == stamp:
                    raise
            finally:
                self._folder.epochs.let_go(manifest.epoch)
        self._folder.lost("its manifest changes all the time")

    def _hold(self, epoch: int) -> None:
        try:
            self._folder.epochs.hold(epoch)
        except StoreError as problem:
            self._folder.lost(problem.message, problem)

    def _opened(self, manifest: Manifest, stamp: Stamp, old: State[S, V] | None) -> State[S, V]:
        """The state that a manifest tells of. What is open already is not opened again."""
        known = {} if old is None else old.opened
        small = sum(file.size for record in manifest.segments for file in record.files) <= _HASHED_ON_OPEN
        opened = {}
        for record in manifest.segments:
            before, stamps = known.get(record.name), self._folder.stamps(record)
            if before is not None and before.stamps == stamps:
                opened[record.name] = before
            else:
                opened[record.name] = self._open_one(record, stamps, verify=small)
        state: State[S, V] = State(manifest, stamp, opened)
        if old is not None and old.segments == state.segments:  # only rows died, or the watermark moved
            state.view = old.view
        else:
            with reading(self.engine):
                state.view = self._view(state.segments)
        return state

    def _open_one(self, record: Record, stamps: dict[str, Stamp], *, verify: bool) -> Opened[S]:
        for file, (size, mtime_ns, *_) in zip(record.files, stamps.values(), strict=True):
            if size != file.size:
                self._folder.lost(f"{file.name} of segment {record.name} has {size:,} bytes in place of {file.size:,}")
            verify = verify or mtime_ns != file.mtime_ns
        if verify:
            self._folder.compare(record)
        with reading(self.engine):
            content = self._open(self._folder.path / record.name, record)
        if len(content.keys) != record.rows or len(content.documents) != record.rows:
            self._folder.lost(f"segment {record.name} does not hold {record.rows:,} rows")
        return Opened(content, stamps, verified=verify)

    def verify(self) -> list[str]:
        """Read everything again; what is wrong, in words."""
        try:
            manifest, _ = self._folder.read()
        except IndexLost as problem:
            return [problem.message]
        wrong = [problem for record in manifest.segments for problem in self._folder.problems(record)]
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

    # -- writing

    def writing(self, *, blocking: bool) -> AbstractContextManager[bool]:
        """The right to write, of one thread of one process at a time."""
        return self._folder.writing(blocking=blocking)

    def _apply(self, put: R, removed: Keys, watermark: int) -> None:
        assert self._folder.is_ours, "apply without the right to write"
        state = self._pinned()
        try:
            records = list(state.manifest.segments)
            put = self._checked(put, records[0].facts if records else None)
            gone = np.union1d(put.keys, removed.astype(np.int64))
            records = [record.without(s.keys, gone) for record, s in zip(records, state.segments, strict=True)]
            if not len(put.keys) and records == list(state.manifest.segments):
                if watermark != state.manifest.watermark:
                    self._folder.swap(replace(state.manifest, watermark=watermark))
                return
            sizes = [record.count for record in records]
            if len(put.keys):
                sizes.append(len(put.keys))
            merged = to_merge(sizes, self.cap)
            alone = [place for place in range(len(sizes)) if place not in merged]
            groups = [merged, *([place] for place in alone if place == len(records) or records[place].mostly_dead)]
            self._replace(state, records, [put], groups, watermark)
        finally:
            self._release(state)

    def _replace(
        self, state: State[S, V], records: Sequence[Record], put: list[R], groups: list[list[int]], watermark: int
    ) -> None:
        """Write each group of segments as one (the place after the last means what was put), then swap."""
        leaving = {place for group in groups for place in group if place < len(records)}
        kept = [record for place, record in enumerate(records) if place not in leaving]
        sources, living = [*self._rows(state), *put], [*(record.living for record in records), None]
        new: list[Record] = []
        try:
            for place in leaving:
                if not state.opened[records[place].name].verified:
                    self._insist(records[place])
            for group in filter(None, groups):
                for piece in pieces([sources[at] for at in group], [living[at] for at in group], self.cap):
                    new.append(self._written(piece))
            epoch = state.manifest.epoch + (1 if leaving else 0)
            self._folder.swap(Manifest(self.fingerprint, watermark, epoch, (*kept, *new)))
        except BaseException:
            self._folder.discard(new)
            raise

    def _insist(self, record: Record) -> None:
        """Damage must not be copied under a new checksum: if there is any, the whole index is given up."""
        try:
            self._folder.compare(record)
        except IndexLost:
            self._folder.give_up()
            raise

    def _rebuild(self, batches: Iterable[R], watermark: int) -> None:
        assert self._folder.is_ours, "rebuild without the right to write"
        new: list[Record] = []
        keys: list[Keys] = []
        facts: Facts | None = None
        try:
            for group in cut(batches, self.cap, self._part):
                group = [self._checked(rows, facts) for rows in group]
                for piece in pieces(group, [None] * len(group), self.cap):
                    new = [record.without(known, piece.keys) for record, known in zip(new, keys, strict=True)]
                    new.append(self._written(piece))
                    keys.append(piece.keys)
                    facts = new[-1].facts
            self._folder.swap(Manifest(self.fingerprint, watermark, self._folder.next_epoch(), tuple(new)))
        except BaseException:
            self._folder.discard(new)
            raise

    def _written(self, piece: Piece[R]) -> Record:
        return self._folder.write(len(piece.keys), partial(self._write, piece=piece))

    # -- leaving

    def erase(self) -> bool:
        """Write every segment with dead rows again without them. False while another process reads an older state."""
        assert self._folder.is_ours, "erase without the right to write"
        state = self._pinned()
        try:
            manifest = state.manifest
            dirty = [[place] for place, record in enumerate(manifest.segments) if record.dead is not None]
            if dirty:
                self._replace(state, manifest.segments, [], dirty, manifest.watermark)
            else:
                self._folder.sweep(manifest)
        finally:
            self._release(state)
        try:
            sync(self._folder.path)  # what was removed stays so when the power fails
        except OSError as problem:
            raise cannot_write(self._folder.path, problem) from problem
        self._forget()
        return not self.pending()

    def pending(self) -> bool:
        """Whether another process still reads files that have left the index."""
        assert self._folder.is_ours, "pending without the right to write"
        return self._folder.epochs.read_by_others(self._folder.read()[0].epoch)

    def drop(self) -> None:
        """Remove the folder. Whoever reads keeps its open files; the next reader finds nothing."""
        if not self._folder.path.exists():
            return
        self._forget()
        if self._folder.is_ours:
            self._folder.drop()
        else:
            with self.writing(blocking=True):
                self._folder.drop()

    def close(self) -> None:
        """Let the files go. Readers that are still pinned keep theirs."""
        self._forget()
