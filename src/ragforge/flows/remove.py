"""A document leaves everything, with proof.

take traces -> one transaction (unsearchable) -> stored bytes -> state file -> write-ahead log -> scan every byte
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragforge.domain.access import Scope
from ragforge.domain.library import Document, Removal
from ragforge.failpoints import failpoint
from ragforge.ingest.traces import Traces, phrases, scan, vector_piece
from ragforge.ports import BlobStore, Catalog, Unit

_BATCH = 200
_TRACED = 8
"""How many documents of a batch are searched for byte by byte; the catalog's own counts cover the rest."""
_LOG = ("catalog.db", "catalog.db-wal")
"""Files that a reader in another process may keep from being cleared."""


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
    write_state: Callable[[Scope, str], object]

    def __call__(self, scope: Scope, project: str, slug: str, documents: Sequence[str]) -> Iterator[Removal]:
        """Remove documents by id, a batch in each transaction; the proof follows each batch."""
        for start in range(0, len(documents), _BATCH):
            yield from self._batch(scope, project, slug, documents[start : start + _BATCH])

    def _batch(self, scope: Scope, project: str, slug: str, documents: Sequence[str]) -> Iterator[Removal]:
        with self.catalog.read() as c:
            found = c.documents.get(scope, project, documents)
            leaving = [self._leaving(c, scope, document, place) for place, document in enumerate(found)]
        with self.catalog.write() as c:
            removed = [c.documents.remove(scope, project, item.document.id) for item in leaving]
        failpoint("remove.committed")
        for gone in removed:
            for blob in gone.blobs:
                self.blobs.remove(blob)
        self.write_state(scope, slug)
        flushed = self.catalog.flush()
        proof = scan(self.workspace, {item.document.id: item.traces for item in leaving}, skip=("backups",))
        for item, gone in zip(leaving, removed, strict=True):
            places = proof.found[item.document.id]
            pending = tuple(place for place in places if not flushed and place in _LOG)
            yield Removal(
                document=item.document.id,
                name=item.document.name,
                chunks=gone.chunks,
                vectors=gone.vectors,
                blobs=len(gone.blobs),
                bytes_scanned=proof.bytes,
                remains=tuple(place for place in places if place not in pending),
                pending=pending,
            )

    def _leaving(self, c: Unit, scope: Scope, document: Document, place: int) -> _Leaving:
        """What will prove that it is gone: words and numbers that no other document has."""
        if place >= _TRACED:
            return _Leaving(document, Traces((), ()))
        vectors = c.embeddings.sample(scope, document.project, document.id, 4)
        words = (
            phrase
            for phrase in phrases(c.documents.text(scope, document.project, document.id), 6)
            if not c.documents.occurs_elsewhere(scope, document.project, document.id, phrase)
        )
        return _Leaving(
            document,
            Traces(tuple(phrase.encode() for phrase in words), tuple(filter(None, map(vector_piece, vectors)))),
        )
