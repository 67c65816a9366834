"""The folder of an index on disk.

    <index>/manifest.json    what the index is made of; names every file with its size and checksum
            lock             held by the process that writes
            epoch-<n>        held by every process that reads the files of that epoch
            <segment>/       rows, sorted by key; written once, then only ever removed

The manifest is swapped as a whole, by a rename: a kill leaves the old state or the new one, and files that no manifest
names, which the next writer removes.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from ragforge.adapters.locks import FileLock
from ragforge.adapters.segments.epochs import Epochs
from ragforge.adapters.segments.files import Stamp, checksum, finished, names_in, stamp_of, write_durably
from ragforge.adapters.segments.lost import lost
from ragforge.adapters.segments.manifest import SEGMENT_NAME, Facts, Manifest, Record, StoredFile
from ragforge.durable import sync
from ragforge.errors import StoreError, cannot_write
from ragforge.failpoints import failpoint

_MANIFEST = "manifest.json"
_MANIFEST_LIMIT = 1 << 28
_NEW_MANIFEST_NAME = re.compile(r"manifest-[0-9a-f]{16}")
_LOCK = "lock"
_ATTEMPTS = 100


class SegmentFolder:
    """Manifest and segments of one index. It knows files, and nothing of what is in them."""

    def __init__(self, path: Path, engine: str, fingerprint: str) -> None:
        self.path = path
        self.engine = engine
        self.fingerprint = fingerprint
        self.epochs = Epochs(path)
        self._manifest = path / _MANIFEST
        self._writer: int | None = None

    # -- reading

    def stamp(self) -> Stamp:
        """Of the manifest: another one means another state."""
        try:
            return stamp_of(self._manifest)
        except OSError as problem:
            self.lost("it has no manifest", problem)

    def read(self) -> tuple[Manifest, Stamp]:
        stamp = self.stamp()
        try:
            if stamp[0] > _MANIFEST_LIMIT:
                raise ValueError("it is too large")
            manifest = Manifest.load(self._manifest.read_bytes())
        except (OSError, ValueError, RecursionError) as problem:  # a JSON error is a ValueError
            self.lost(f"its manifest cannot be read: {problem}", problem)
        if manifest.fingerprint != self.fingerprint:
            self.lost("it was made for another model or with other settings")
        return manifest, stamp

    def stamps(self, record: Record) -> dict[str, Stamp]:
        """Of each file of a segment, by its path."""
        stamps = {}
        for file in record.files:
            path = os.path.join(self.path, record.name, file.name)
            try:
                stamps[path] = stamp_of(path)
            except OSError as problem:
                self.lost(f"{file.name} of segment {record.name} is missing", problem)
        return stamps

    def compare(self, record: Record) -> None:
        """Read a segment's files and insist on their checksums."""
        for file in record.files:
            if self._is_damaged(record, file):
                self.lost(f"{file.name} of segment {record.name} is damaged")

    def problems(self, record: Record) -> Iterator[str]:
        """What is wrong with a segment's files, in words."""
        for file in record.files:
            if not (self.path / record.name / file.name).is_file():
                yield f"{file.name} of segment {record.name} is missing"
            elif self._is_damaged(record, file):
                yield f"{file.name} of segment {record.name} is damaged"

    def _is_damaged(self, record: Record, file: StoredFile) -> bool:
        try:
            return checksum(self.path / record.name / file.name) != file.sha256
        except OSError:
            return True

    def lost(self, why: str, cause: BaseException | None = None) -> NoReturn:
        raise lost(self.engine, why) from cause

    # -- the right to write

    @contextmanager
    def writing(self, *, blocking: bool) -> Iterator[bool]:
        """The right to write; each call has a lock of its own, so that it keeps threads apart as well as processes."""
        lock = self._locked(blocking=blocking)
        if lock is None:
            yield False
            return
        self._writer = threading.get_ident()
        try:
            yield True
        finally:
            self._writer = None
            lock.release()

    def _locked(self, *, blocking: bool) -> FileLock | None:
        """Tried again whenever the folder was dropped meanwhile: another may hold the lock of the new one."""
        path = self.path / _LOCK
        for _ in range(_ATTEMPTS):
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                path.touch(0o600)
                inode = path.stat().st_ino
            except (FileNotFoundError, FileExistsError):
                continue
            except OSError as problem:
                raise cannot_write(self.path, problem) from problem
            lock = FileLock(path)
            try:
                ours = lock.acquire(blocking=blocking)
            except StoreError as problem:
                if isinstance(problem.__cause__, FileNotFoundError):
                    continue
                raise
            with suppress(FileNotFoundError):
                if path.stat().st_ino == inode:
                    return lock if ours else None
            lock.release()
        raise StoreError(f"cannot make {self.path}", hint="check that no file or link is in its place")

    @property
    def is_ours(self) -> bool:
        """Whether this thread has the right to write."""
        return self._writer == threading.get_ident()

    # -- writing

    def write(self, rows: int, fill: Callable[[Path], Facts]) -> Record:
        """A new segment, durable, that no manifest names yet."""
        draft, segment = self.path / secrets.token_hex(8), self.path / secrets.token_hex(8)
        try:
            draft.mkdir(mode=0o700)
            facts = fill(draft)
            os.rename(draft, segment)  # threads that an engine may have left behind know only its old name
            for hidden in segment.glob(".*"):  # locks and lists of an engine, which nothing needs any more
                hidden.unlink()
            files = tuple(finished(path) for path in sorted(segment.iterdir()))
            sync(segment)
            failpoint("index.segment")
        except BaseException as problem:
            for folder in (draft, segment):
                shutil.rmtree(folder, ignore_errors=True)
            if isinstance(problem, OSError):
                raise cannot_write(segment, problem) from problem
            raise
        return Record(segment.name, rows, files, facts)

    def swap(self, manifest: Manifest) -> None:
        """From now on the index is as this manifest says; what it does not name is removed."""
        new = self.path / f"manifest-{secrets.token_hex(8)}"
        try:
            sync(self.path)
            self.epochs.make(manifest.epoch)
            write_durably(new, manifest.dump())
            failpoint("index.swap")
            os.replace(new, self._manifest)
            failpoint("index.swapped")
            sync(self.path)
        except OSError as problem:
            with suppress(OSError):
                new.unlink(missing_ok=True)
            raise cannot_write(self.path, problem) from problem
        self.sweep(manifest)

    def sweep(self, manifest: Manifest) -> None:
        """Remove what the manifest does not name: what was replaced, and what a killed writer left."""
        named = {segment.name for segment in manifest.segments}
        try:
            for name in names_in(self.path):
                if SEGMENT_NAME.fullmatch(name) and name not in named:
                    shutil.rmtree(self.path / name)
                elif _NEW_MANIFEST_NAME.fullmatch(name):
                    (self.path / name).unlink(missing_ok=True)
        except OSError as problem:
            raise cannot_write(self.path, problem) from problem
        self.epochs.read_by_others(manifest.epoch)

    def discard(self, records: Sequence[Record]) -> None:
        """Remove segments that were written for a state which is not to be, unless the swap went through."""
        with suppress(OSError, ValueError):
            named = {segment.name for segment in Manifest.load(self._manifest.read_bytes()).segments}
            records = [record for record in records if record.name not in named]
        for record in records:
            shutil.rmtree(self.path / record.name, ignore_errors=True)

    def next_epoch(self) -> int:
        """Above every epoch that a manifest or a file tells of, also when the manifest is lost."""
        try:
            known = Manifest.load(self._manifest.read_bytes()).epoch
        except (OSError, ValueError, RecursionError):
            known = 0
        return max([known, *self.epochs.known()]) + 1

    # -- leaving

    def give_up(self) -> None:
        """Every reader knows from now on, and the next writer builds it anew."""
        self._manifest.unlink(missing_ok=True)

    def drop(self) -> None:
        """Remove it all, out of the way first: whoever waits to write makes a new folder, and never one half gone."""
        gone = self.path.with_name(secrets.token_hex(8))
        try:
            os.rename(self.path, gone)
            shutil.rmtree(gone)
        except FileNotFoundError:
            return
        except OSError as problem:
            raise cannot_write(self.path, problem) from problem
