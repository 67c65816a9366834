"""Publishing files in one transaction: new versions become live, old ones leave, the change log hears of both.

Rows are collected first and written in a few large statements; the rules are in `_publish_one`.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import sqlalchemy as sa

from ragforge.adapters.catalog import tables as t
from ragforge.adapters.catalog.artifacts import forget_in_artifacts
from ragforge.adapters.catalog.conversations import forget_in_turns
from ragforge.adapters.catalog.evaluations import forget_in_evaluations
from ragforge.adapters.catalog.interviews import forget_in_interviews
from ragforge.adapters.catalog.unit import Session, batches, by_any_model, locator_columns
from ragforge.domain.documents import Parsed, Reason, Split, chunk_id, version_id
from ragforge.domain.library import Generation, Labels, Op, Outcome, Publication, Published, Status, Topic
from ragforge.errors import Outdated

STRIKES = 3
"""A file that broke its parser this often is quarantined."""

_ATTRIBUTES = ("source_type", "tags", "confidentiality", "enabled")

_STRIKE_REASONS = frozenset({Reason.TIMEOUT, Reason.MEMORY, Reason.CRASHED})


@dataclass(slots=True)
class _Document:
    key: int
    id: str
    live: int | None
    latest: int | None
    sources: int
    attributes: dict[str, Any]
    """What people said of it."""


@dataclass(slots=True)
class _Version:
    key: int
    document: int
    sha256: str
    status: str
    attempts: int
    blob: str


@dataclass(slots=True)
class _Rows:
    """What the transaction will write."""

    versions: dict[int, dict[str, Any]] = field(default_factory=dict)
    sections: list[dict[str, Any]] = field(default_factory=list)
    chunks: list[dict[str, Any]] = field(default_factory=list)
    puts: list[tuple[int, int]] = field(default_factory=list)
    unused_hashes: list[bytes] = field(default_factory=list)
    gone_versions: list[int] = field(default_factory=list)
    gone_documents: list[int] = field(default_factory=list)
    documents: dict[int, dict[str, Any]] = field(default_factory=dict)
    sources: dict[str, dict[str, Any]] = field(default_factory=dict)


class Publisher:
    """One batch of files into one project, inside the caller's transaction."""

    def __init__(self, session: Session, project: int, project_id: str, generation: Generation) -> None:
        self._session = session
        self._project = project
        self._project_id = project_id
        self._generation = generation
        self._now = session.now()
        self._rows = _Rows()
        self._documents: dict[int, _Document] = {}
        self._versions: dict[str, _Version] = {}
        self._version_of_key: dict[int, _Version] = {}
        self._sources: dict[str, int] = {}
        self._left: list[int] = []
        self._seen_again: list[int] = []

    def publish(self, files: Sequence[Publication]) -> list[Published]:
        self._load(files)
        self._document_keys = iter(self._session.keys(t.documents, len(files)))
        self._version_keys = iter(self._session.keys(t.versions, len(files)))
        self._chunk_keys = iter(self._session.keys(t.chunks, sum(len(f.split.leaves) for f in files)))
        published = [self._publish_one(file) for file in files]
        unseen = self._write()
        if unseen:
            published[-1] = replace(published[-1], obsolete_blobs=(*published[-1].obsolete_blobs, *unseen))
        return published

    # -- what is there already

    def _load(self, files: Sequence[Publication]) -> None:
        self._sources = self._known_sources([f.source.key for f in files])
        self._add_versions(t.versions.c.sha256, [f.source.sha256 for f in files])
        owners = set(self._sources.values()) | {v.document for v in self._versions.values()}
        count = sa.select(sa.func.count()).where(t.sources.c.document == t.documents.c.ord).scalar_subquery()
        for batch in batches(owners):
            statement = sa.select(t.documents, count.label("n")).where(t.documents.c.ord.in_(batch))
            for row in self._session.execute(statement):
                said = {name: row._mapping[name] for name in _ATTRIBUTES}
                self._documents[row.ord] = _Document(row.ord, row.id, row.live, row.latest, row.n, said)
        held = {key for d in self._documents.values() for key in (d.live, d.latest) if key is not None}
        self._add_versions(t.versions.c.ord, held)

    def _known_sources(self, keys: Sequence[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for batch in batches(keys):
            statement = sa.select(t.sources.c.key, t.sources.c.document).where(
                t.sources.c.project == self._project, t.sources.c.key.in_(batch)
            )
            found.update((row.key, row.document) for row in self._session.execute(statement))
        return found

    def _add_versions(self, column: sa.ColumnElement[Any], values: Collection[Any]) -> None:
        for batch in batches(values):
            statement = sa.select(t.versions).where(t.versions.c.project == self._project, column.in_(batch))
            for row in self._session.execute(statement):
                version = _Version(row.ord, row.document, row.sha256, row.status, row.attempts, row.blob)
                self._versions[version.sha256] = self._version_of_key[version.key] = version

    # -- the rules

    def _publish_one(self, file: Publication) -> Published:
        owner = self._sources.get(file.source.key)
        known = self._versions.get(file.source.sha256)
        if known is not None and not self._supersedes(file, known):
            return self._join(file, known, owner)
        return self._replace(file, known, owner)

    def _supersedes(self, file: Publication, known: _Version) -> bool:
        """The same bytes again count only if they were read this time and not before, or as one more strike."""
        return known.status != Status.READY and known.blob != file.blob

    def _join(self, file: Publication, known: _Version, owner: int | None) -> Published:
        """The bytes are here already: the file is one more source of their document."""
        document = self._documents[known.document]
        obsolete = [file.blob] if file.blob != known.blob else []
        outcome = Outcome.UNCHANGED
        if owner != document.key:
            outcome = Outcome.DUPLICATE
            document.sources += 1
            obsolete += self._leave(owner)
        self._put_source(file, document)
        self._rows.unused_hashes += file.hashes  # embedded under this file's name, which is not the document's
        self._seen_again.append(document.key)
        return Published(document.id, outcome, owner not in (None, document.key), tuple(obsolete))

    def _replace(self, file: Publication, known: _Version | None, owner: int | None) -> Published:
        """New bytes: a new version of the file's own document, or a new document."""
        if file.failure is None and not file.split.leaves:
            raise Outdated("the bytes this file shared were removed meanwhile", hint="try again")
        obsolete: list[str] = []
        if known is not None:
            document = self._documents[known.document]
            if owner != document.key:
                document.sources += 1
                obsolete += self._leave(owner)
        elif owner is not None and self._documents[owner].sources == 1:
            document = self._documents[owner]
        else:
            document = self._new_document(file, owner)
            obsolete += self._leave(owner)
        replaced = document.live is not None
        obsolete += self._set_version(file, document, known)
        self._put_source(file, document)
        outcome = Outcome.READY
        if file.failure is not None:
            quarantined = self._versions[file.source.sha256].status == Status.QUARANTINED
            outcome = Outcome.QUARANTINED if quarantined else Outcome.FAILED
        return Published(document.id, outcome, replaced, tuple(obsolete))

    def _leave(self, owner: int | None) -> list[str]:
        """A source goes elsewhere; a document without sources goes. Returns blobs that are no longer needed."""
        if owner is None:
            return []
        document = self._documents[owner]
        document.sources -= 1
        if document.sources:
            self._left.append(owner)
            return []
        obsolete = [self._drop(key) for key in {document.live, document.latest} if key is not None]
        self._rows.gone_documents.append(document.key)
        return obsolete

    def _set_version(self, file: Publication, document: _Document, known: _Version | None) -> list[str]:
        """Insert the version and drop those it replaces. A failed one leaves the readable one in place."""
        failed = file.failure is not None
        replaced = {document.latest} if failed else {document.live, document.latest}
        if failed:
            replaced.discard(document.live)
        obsolete = [self._drop(key) for key in replaced if key is not None]
        version = self._new_version(file, document, (known.attempts if known else 0) + 1)
        document.latest = version.key
        if not failed:
            document.live = version.key
            self._add_split(version.key, document, file)
        self._rows.documents[document.key] = {
            **self._rows.documents.get(document.key, {}),
            "b_ord": document.key,
            "live": document.live,
            "latest": document.latest,
            "updated_at": self._now,
        }
        return obsolete

    def _drop(self, key: int) -> str:
        version = self._version_of_key[key]
        if self._rows.versions.pop(key, None) is None:
            self._rows.gone_versions.append(key)
        else:  # it came with this very batch
            self._take_back(key)
        if self._versions.get(version.sha256) is version:
            del self._versions[version.sha256]
        return version.blob

    def _take_back(self, version: int) -> None:
        rows = self._rows
        gone = {row["ord"] for row in rows.chunks if row["version"] == version}
        rows.unused_hashes += [row["text_hash"] for row in rows.chunks if row["version"] == version]
        rows.sections = [row for row in rows.sections if row["version"] != version]
        rows.chunks = [row for row in rows.chunks if row["version"] != version]
        rows.puts = [(document, chunk) for document, chunk in rows.puts if chunk not in gone]

    # -- rows

    def _new_document(self, file: Publication, owner: int | None) -> _Document:
        """A document for new bytes. What was said of the one its path leaves still holds: an edit opens nothing."""
        said = _attributes(file.labels) if owner is None else self._documents[owner].attributes
        document = _Document(next(self._document_keys), secrets.token_hex(8), None, None, 1, said)
        self._documents[document.key] = document
        self._rows.documents[document.key] = {
            "ord": document.key,
            "id": document.id,
            "project": self._project,
            "name": file.source.name,
            **said,
            "created_at": self._now,
        }
        return document

    def _put_source(self, file: Publication, document: _Document) -> None:
        self._sources[file.source.key] = document.key
        self._rows.sources[file.source.key] = {
            "project": self._project,
            "document": document.key,
            "key": file.source.key,
            "name": file.source.name,
            "size": file.source.size,
            "mtime_ns": file.source.mtime_ns,
            "sha256": file.source.sha256,
        }

    def _new_version(self, file: Publication, document: _Document, attempts: int) -> _Version:
        failure = file.failure
        status = Status.READY
        if failure is not None:
            struck_out = attempts >= STRIKES and failure.reason in _STRIKE_REASONS
            status = Status.QUARANTINED if struck_out else Status.FAILED
        version = _Version(next(self._version_keys), document.key, file.source.sha256, status, attempts, file.blob)
        self._versions[version.sha256] = self._version_of_key[version.key] = version
        self._rows.versions[version.key] = {
            "ord": version.key,
            "id": version_id(file.source.sha256, file.parser, file.source.name),
            "project": self._project,
            "document": document.key,
            "sha256": file.source.sha256,
            "size": file.source.size,
            "type": file.type,
            "mime": file.mime,
            "blob": file.blob,
            "parser": file.parser,
            "name": file.source.name,
            "status": str(status),
            "reason": None if failure is None else str(failure.reason),
            "message": "" if failure is None else failure.message,
            "hint": "" if failure is None else failure.hint,
            "attempts": attempts,
            "notes": json.dumps(file.parsed.notes, ensure_ascii=False),
            "title": file.parsed.title,
            "summary": file.summary,
            "kind": str(file.parsed.kind),
            "marks": pack_marks(file.parsed),
            "characters": len(file.parsed.text),
            "tokens": file.tokens,
            "chunks": len(file.split.leaves),
            "created_at": self._now,
        }
        return version

    def _add_split(self, version: int, document: _Document, file: Publication) -> None:
        identity = version_id(file.source.sha256, file.parser, file.source.name)
        sections, chunks = split_rows(
            file.parsed.text,
            file.split,
            file.hashes,
            version,
            self._generation,
            self._project_id,
            document.id,
            identity,
        )
        for row in chunks:
            row["ord"] = next(self._chunk_keys)
            row["project"] = self._project
            self._rows.puts.append((document.key, row["ord"]))
        self._rows.sections += sections
        self._rows.chunks += chunks

    # -- writing

    def _write(self) -> list[str]:
        """Write it all. Returns the blobs of failed versions that no path shows any more."""
        session, rows = self._session, self._rows
        removed = remove_versions(session, rows.gone_versions)
        inserts = [row for row in rows.documents.values() if "ord" in row]
        session.insert(t.documents, [{k: v for k, v in row.items() if k != "b_ord"} for row in inserts])
        session.insert(t.versions, list(rows.versions.values()))
        session.insert(t.sections, rows.sections)
        session.insert(t.chunks, rows.chunks)
        updates = [row for row in rows.documents.values() if "ord" not in row]
        if updates:
            statement = sa.update(t.documents).where(t.documents.c.ord == sa.bindparam("b_ord"))
            values: dict[str, Any] = {name: sa.bindparam(f"b_{name}") for name in ("live", "latest", "updated_at")}
            session.execute(
                statement.values(values), [{f"b_{k.removeprefix('b_')}": v for k, v in row.items()} for row in updates]
            )
        self._write_sources()
        if rows.gone_documents:
            session.execute(sa.delete(t.documents).where(t.documents.c.ord.in_(rows.gone_documents)))
            gone = [self._documents[key].id for key in rows.gone_documents]
            forget_in_turns(session, self._project, gone)
            forget_in_interviews(session, self._project, gone)
            forget_in_artifacts(session, self._project, gone)
            forget_in_evaluations(session, self._project, gone)
        name_by_source(session, self._left)
        log_changes(session, self._project, removed, rows.puts)
        log_labels(session, self._project, {*(row["b_ord"] for row in updates), *self._left})
        drop_unused_vectors(session, self._project, [*rows.unused_hashes, *(text_hash for *_, text_hash in removed)])
        return drop_unseen_failures(session, {*self._left, *self._seen_again})

    def _write_sources(self) -> None:
        session, rows = self._session, list(self._rows.sources.values())
        for batch in batches([row["key"] for row in rows]):
            session.execute(
                sa.delete(t.sources).where(t.sources.c.project == self._project, t.sources.c.key.in_(batch))
            )
        for row, key in zip(rows, session.keys(t.sources, len(rows)), strict=True):
            row["ord"] = key
        session.insert(t.sources, rows)


def _attributes(labels: Labels) -> dict[str, Any]:
    return {
        "source_type": labels.source_type,
        "tags": json.dumps(labels.tags, ensure_ascii=False),
        "confidentiality": int(labels.confidentiality),
        "enabled": True,
    }


def split_rows(
    text: str,
    split: Split,
    hashes: Sequence[bytes],
    version: int,
    generation: Generation,
    project: str,
    document: str,
    identity: str,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of a version's sections and chunks (the chunks still without their keys and project)."""
    sections = [
        {
            "version": version,
            "generation": generation.chunks,
            "position": section.position,
            "start": section.start,
            "text": text[section.start : section.end],
            "header": section.header,
            **locator_columns(section.locator),
            "tokens": section.tokens,
        }
        for section in split.sections
    ]
    chunks = [
        {
            "id": chunk_id(project, document, identity, leaf.position, generation.chunker),
            "version": version,
            "generation": generation.chunks,
            "position": leaf.position,
            "section": leaf.section,
            "start": leaf.start,
            "end": leaf.end,
            "header": leaf.header,
            **locator_columns(leaf.locator),
            "tokens": leaf.tokens,
            "checksum": checksum(text[leaf.start : leaf.end]),
            "text_hash": text_hash,
        }
        for leaf, text_hash in zip(split.leaves, hashes, strict=True)
    ]
    return sections, chunks


def checksum(text: str) -> str:
    """A chunk's checksum, by which a reader proves that its text is the one that was stored."""
    return blake2b(text.encode(), digest_size=16).hexdigest()


def pack_marks(parsed: Parsed) -> str:
    return json.dumps([[m.offset, m.page, m.start, m.end, m.speaker] for m in parsed.marks], ensure_ascii=False)


def remove_versions(session: Session, versions: Collection[int]) -> list[tuple[int, int, bytes]]:
    """Delete versions with their sections and chunks. Returns (document, chunk, text hash) of what went."""
    removed: list[tuple[int, int, bytes]] = []
    for batch in batches(versions):
        found = (
            sa.select(t.versions.c.document, t.chunks.c.ord, t.chunks.c.text_hash)
            .join(t.versions, t.versions.c.ord == t.chunks.c.version)
            .where(t.chunks.c.version.in_(batch))
        )
        removed += [(row.document, row.ord, row.text_hash) for row in session.execute(found)]
        session.execute(sa.delete(t.versions).where(t.versions.c.ord.in_(batch)))
    return removed


def log_changes(
    session: Session, project: int, removed: Sequence[tuple[int, int, bytes]], puts: Sequence[tuple[int, int]]
) -> None:
    """Append to the change log: first what went, then what came."""
    rows = [(Op.REMOVE, document, chunk) for document, chunk, _ in removed]
    rows += [(Op.PUT, document, chunk) for document, chunk in puts]
    session.insert(t.changes, [{"project": project, "op": str(o), "document": d, "chunk": c} for o, d, c in rows])
    if rows:
        session.tell(Topic.CHANGES, project)


def log_labels(session: Session, project: int, documents: Collection[int]) -> None:
    """What is said of documents changed: their name, their labels, when they changed."""
    rows = [{"project": project, "op": str(Op.META), "document": key, "chunk": None} for key in sorted(documents)]
    session.insert(t.changes, rows)
    if rows:
        session.tell(Topic.CHANGES, project)


def drop_unused_vectors(session: Session, project: int, hashes: Collection[bytes]) -> int:
    """A vector goes with the last chunk that uses it."""
    dropped = 0
    used = sa.exists().where(t.chunks.c.project == project, t.chunks.c.text_hash == t.embeddings.c.text_hash)
    for batch in batches(set(hashes)):
        result = session.execute(
            sa.delete(t.embeddings).where(
                t.embeddings.c.project == project, by_any_model(), t.embeddings.c.text_hash.in_(batch), ~used
            )
        )
        dropped += int(result.rowcount)
    return dropped


def name_by_source(session: Session, documents: Collection[int]) -> None:
    """A document whose naming source left takes the name of the oldest one it still has."""
    named = sa.exists().where(t.sources.c.document == t.documents.c.ord, t.sources.c.name == t.documents.c.name)
    oldest = (
        sa.select(t.sources.c.name)
        .where(t.sources.c.document == t.documents.c.ord)
        .order_by(t.sources.c.ord)
        .limit(1)
        .scalar_subquery()
    )
    for batch in batches(documents):
        session.execute(sa.update(t.documents).where(t.documents.c.ord.in_(batch), ~named).values(name=oldest))


def drop_unseen_failures(session: Session, documents: Collection[int]) -> list[str]:
    """Bytes that could not be read leave with the last path that has them, where an older text is live."""
    blobs: list[str] = []
    has_path = sa.exists().where(
        t.sources.c.document == t.versions.c.document, t.sources.c.sha256 == t.versions.c.sha256
    )
    for batch in batches(documents):
        unseen = (
            sa.select(t.versions.c.ord, t.versions.c.blob, t.versions.c.document)
            .join(t.documents, t.documents.c.latest == t.versions.c.ord)
            .where(t.documents.c.ord.in_(batch), t.documents.c.live != t.documents.c.latest, ~has_path)
        )
        rows = session.execute(unseen).all()
        owners = [row.document for row in rows]
        session.execute(sa.update(t.documents).where(t.documents.c.ord.in_(owners)).values(latest=t.documents.c.live))
        remove_versions(session, [row.ord for row in rows])
        blobs += [row.blob for row in rows if row.blob]
    return blobs
