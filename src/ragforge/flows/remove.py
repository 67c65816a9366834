"""A document leaves everything, with proof.

take traces -> one transaction (unsearchable) -> stored bytes, indexes, state file, write-ahead log -> scan every byte
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragforge.domain.access import Scope
from ragforge.domain.cancel import Cancel
from ragforge.domain.library import Document, Removal, Removed
from ragforge.errors import NotAllowed, Unreachable
from ragforge.failpoints import failpoint
from ragforge.ingest.traces import Traces, phrases, scan, vector_piece
from ragforge.ports import BlobStore, Catalog, Unit

_BATCH = 200
_TRACES = 48
"""How many byte strings one scan of the workspace looks for: all of few documents, one each of many."""
_LOG = ("catalog.db", "catalog.db-wal")
"""Files that a reader in another process may keep from being cleared."""
_LOG_IS_READ = "catalog.db-wal: another process reads the catalog"


@dataclass(frozen=True, slots=True)
class _Leaving:
    document: Document
    traces: Traces


@dataclass(frozen=True, slots=True)
class Remove:
    """Documents out of a project."""

    catalog: Catalog
    blobs: BlobStore
    workspace: Path
    erase: Callable[[str, Cancel], list[str]]
    """Clears a project's indexes of what was removed; says where that could not be done yet, and why."""
    drop_indexes: Callable[[str], object]
    write_state: Callable[[Scope, str], object]
    upkeep: Scope
    """What is derived, and what proves that words are nowhere else, is of all documents, whoever removes one."""

    def __call__(self, scope: Scope, project: str, slug: str, documents: Sequence[str]) -> Iterator[Removal]:
        """Remove documents by id, a batch in each transaction; the proof follows each batch."""
        for start in range(0, len(documents), _BATCH):
            yield from self._batch(scope, project, slug, documents[start : start + _BATCH])

    def whole_project(self, scope: Scope, project: str, slug: str) -> Iterator[Removal]:
        """Remove a project with all its documents, also those that are published meanwhile."""
        if not scope.sees_all:  # before anything of it goes
            raise NotAllowed("this needs clearance for all documents of the project", hint="ask its owner")
        self.drop_indexes(project)  # once, instead of clearing them of every batch
        while True:
            with self.catalog.write() as c:
                left = [document.id for document in c.documents.all(scope, project)]
                if not left:
                    c.projects.remove(scope, project)
                    break
            for start in range(0, len(left), _BATCH):
                yield from self._batch(scope, project, slug, left[start : start + _BATCH], erase=False)
        self.catalog.flush()

    def clear(self, project: str, cancel: Cancel) -> tuple[str, ...]:
        """Leave nothing of removed documents in indexes and log. Returns where that could not be done yet, and why."""
        return self._flushed(self.erase(project, cancel))

    def _flushed(self, pending: Sequence[str]) -> tuple[str, ...]:
        return tuple(pending) if self.catalog.flush() else (*pending, _LOG_IS_READ)

    def _batch(
        self, scope: Scope, project: str, slug: str, documents: Sequence[str], *, erase: bool = True
    ) -> Iterator[Removal]:
        with self.catalog.read() as c:
            found = c.documents.get(scope, project, documents)
            each = max(1, min(10, _TRACES // max(1, len(found))))
            leaving = [self._leaving(c, scope, document, each) for document in found[:_TRACES]]
            leaving += [_Leaving(document, Traces((), ())) for document in found[_TRACES:]]
        with self.catalog.write() as c:
            removed = [c.documents.remove(scope, project, item.document.id) for item in leaving]
        failpoint("remove.committed")
        left, away = self._without_bytes(removed)
        self.write_state(self.upkeep, slug)
        pending = self._flushed([*(self.erase(project, Cancel()) if erase else ()), *away])
        proof = scan(self.workspace, {item.document.id: item.traces for item in leaving})
        for place, (item, gone) in enumerate(zip(leaving, removed, strict=True)):
            files = proof.found[item.document.id]
            yield Removal(
                document=item.document.id,
                name=item.document.name,
                chunks=gone.chunks,
                vectors=gone.vectors,
                blobs=len(gone.blobs),
                bytes_scanned=proof.bytes,
                searched=place < _TRACES,
                remains=(*(file for file in files if not (_LOG_IS_READ in pending and file in _LOG)), *left[place]),
                pending=pending,
            )

    def _without_bytes(self, removed: Sequence[Removed]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
        """Delete stored bytes. Returns what the storage keeps of each document, and why it could not be reached."""
        left: list[tuple[str, ...]] = []
        away: dict[str, None] = {}
        for gone in removed:
            kept: dict[str, None] = {}
            for blob in gone.blobs:
                try:
                    kept[self.blobs.remove(blob)] = None
                except Unreachable as problem:  # nobody needs them now: they are found as strays
                    away[problem.message] = None
            left.append(tuple(filter(None, kept)))
        return left, tuple(away)

    def _leaving(self, c: Unit, scope: Scope, document: Document, traces: int) -> _Leaving:
        """What will prove that it is gone: words and numbers that no other document has."""
        vectors = c.embeddings.sample(scope, document.project, document.id, traces // 2)
        words = (
            phrase
            for phrase in phrases(c.documents.text(scope, document.project, document.id), traces - traces // 2)
            if not c.documents.occurs_elsewhere(self.upkeep, document.project, document.id, phrase)
        )
        return _Leaving(
            document,
            Traces(tuple(phrase.encode() for phrase in words), tuple(filter(None, map(vector_piece, vectors)))),
        )
