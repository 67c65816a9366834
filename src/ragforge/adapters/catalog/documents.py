"""Documents with their sources, versions, sections and chunks."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Row

from ragforge.adapters.catalog import tables as t
from ragforge.adapters.catalog.artifacts import forget_in_artifacts
from ragforge.adapters.catalog.conversations import forget_in_turns
from ragforge.adapters.catalog.embeddings import count_known, section_of_chunk, text_of_chunk
from ragforge.adapters.catalog.evaluations import forget_in_evaluations
from ragforge.adapters.catalog.interviews import forget_in_interviews
from ragforge.adapters.catalog.jobs import forget_in_jobs
from ragforge.adapters.catalog.projects import SqlProjects, sweep_versions
from ragforge.adapters.catalog.publishing import (
    Publisher,
    drop_unseen_failures,
    drop_unused_vectors,
    log_changes,
    log_labels,
    name_by_source,
    remove_versions,
    split_rows,
)
from ragforge.adapters.catalog.tombstones import bury
from ragforge.adapters.catalog.unit import (
    Session,
    batches,
    beside,
    beyond,
    cleared,
    key_seen_by,
    locator,
    moment,
    plain_key,
    reached,
    wears,
)
from ragforge.domain.access import Clearance, Scope
from ragforge.domain.archives import Kind, StoredVersion
from ragforge.domain.cursor import Cursor
from ragforge.domain.documents import Mark, Parsed, Reason, Split, TextKind
from ragforge.domain.library import (
    Chunk,
    ChunkPlace,
    Document,
    Generation,
    KnownSource,
    Labels,
    Problem,
    Publication,
    Published,
    Removed,
    Source,
    Status,
    StoredText,
    Summary,
)
from ragforge.errors import NotAllowed, NotFound, Outdated

_ENDING = ("status", "reason", "message", "hint")
_SHOWN = ("status", "type", "mime", "size", "sha256", "title", "summary", "notes", "characters", "tokens", "chunks")


class SqlDocuments:
    def __init__(self, session: Session) -> None:
        self._session = session

    # -- sources

    def sources(self, scope: Scope, project: str, keys: Sequence[str]) -> Mapping[str, KnownSource]:
        """What is known of these paths: the bytes last seen there and how they ended."""
        row = self._session.project(scope, project)
        found: dict[str, KnownSource] = {}
        for batch in batches(keys):
            statement = (
                sa.select(t.sources, t.documents.c.id, *(t.versions.c[name] for name in _ENDING))
                .join(t.documents, t.documents.c.ord == t.sources.c.document)
                .join(t.versions, t.versions.c.ord == t.documents.c.latest)
                .where(t.sources.c.project == row.ord, t.sources.c.key.in_(batch), cleared(scope))
            )
            for r in self._session.execute(statement):
                problem = None if r.reason is None else Problem(Reason(r.reason), r.message, r.hint)
                found[r.key] = KnownSource(_source(r, scope), r.id, Status(r.status), problem)
        return found

    def source_keys(self, scope: Scope, project: str, prefix: str) -> list[str]:
        """Every known path that begins with `prefix`."""
        row = self._session.project(scope, project)
        statement = (
            sa.select(t.sources.c.key)
            .join(t.documents, t.documents.c.ord == t.sources.c.document)
            .where(t.sources.c.project == row.ord, t.sources.c.key.startswith(prefix, autoescape=True), cleared(scope))
        )
        return [key for key in self._session.execute(statement).scalars() if key.startswith(prefix)]

    def usage(self, scope: Scope, project: str) -> tuple[int, int]:
        """How many documents and how many bytes the project holds, seen by the caller or not: limits count them.

        Files that were too large to be stored are documents, but their bytes are not here.
        """
        row = self._session.project(scope, project)
        documents = sa.func.count(t.versions.c.document.distinct())
        stored = sa.func.sum(t.versions.c.size).filter(t.versions.c.blob != "")
        statement = sa.select(documents, sa.func.coalesce(stored, 0)).where(t.versions.c.project == row.ord)
        count, size = self._session.execute(statement).one()
        return int(count), int(size)

    def versions_with(self, scope: Scope, project: str, hashes: Sequence[str]) -> frozenset[str]:
        """Which of these bytes (by sha256) the project holds as text; what could not be read may be tried again."""
        row = self._session.project(scope, project)
        found: set[str] = set()
        for batch in batches(hashes):
            statement = (
                sa.select(t.versions.c.sha256)
                .join(t.documents, t.documents.c.ord == t.versions.c.document)
                .where(t.versions.c.project == row.ord, t.versions.c.sha256.in_(batch), cleared(scope))
                .where(t.versions.c.status == str(Status.READY))
            )
            found.update(self._session.execute(statement).scalars())
        return frozenset(found)

    # -- publishing and removing

    def publish(self, scope: Scope, project: str, generation: int, files: Sequence[Publication]) -> list[Published]:
        """Make the files' versions live, in the caller's transaction. Their vectors must be there."""
        row = self._session.project(scope, project)
        self._session.lock(row.ord)
        live = SqlProjects(self._session).live(scope, project)
        if live.number != generation:
            raise Outdated("the project's splitter or model changed meanwhile", hint="try again")
        self._require_vectors(row.ord, live, {text_hash for file in files for text_hash in file.hashes})
        return Publisher(self._session, row.ord, project, live).publish(self._beside(scope, row.ord, files))

    def _beside(self, scope: Scope, project: int, files: Sequence[Publication]) -> list[Publication]:
        """The files, so that none touches a document that the scope may not know of.

        Of a path that is such a document's, they become another document, as if it were not there. The same bytes
        cannot be two documents of a project, so those are refused, and the reason is not told.
        """
        if scope.sees_all:
            return list(files)
        for file in files:
            _require_clearance(scope, file.labels.confidentiality)
        for batch in batches([file.source.sha256 for file in files]):
            if self._above(scope, project, t.versions, t.versions.c.sha256, batch):
                raise NotAllowed("this file cannot be taken in", hint="ask the workspace's owner")
        keys = {file.source.key: file.source.key for file in files}
        taken = {
            key for batch in batches(keys) for key in self._above(scope, project, t.sources, t.sources.c.key, batch)
        }
        for key in taken:
            others = (beside(key, number) for number in count(1))
            keys[key] = next(
                each for each in others if not self._above(scope, project, t.sources, t.sources.c.key, [each])
            )
        return [replace(file, source=replace(file.source, key=keys[file.source.key])) for file in files]

    def _above(
        self, scope: Scope, project: int, table: sa.Table, column: sa.ColumnElement[str], values: Sequence[str]
    ) -> list[str]:
        """Those of the values that belong to documents which the scope may not know of."""
        found = (
            sa.select(column)
            .join(t.documents, t.documents.c.ord == table.c.document)
            .where(table.c.project == project, column.in_(values), ~cleared(scope))
        )
        return list(self._session.execute(found).scalars())

    def _require_vectors(self, project: int, generation: Generation, hashes: Collection[bytes]) -> None:
        if count_known(self._session, project, generation.embedder_fingerprint, hashes) < len(hashes):
            raise Outdated("vectors of these files were removed meanwhile", hint="try again")

    def remove(self, scope: Scope, project: str, document: str) -> Removed:
        """Remove a document from everything but the stored bytes, which the caller deletes after the commit."""
        row = self._session.project(scope, project)
        self._session.lock(row.ord)
        key = self._key(scope, project, document)
        found = sa.select(t.versions.c.ord, t.versions.c.blob, t.versions.c.sha256)
        versions = self._session.execute(found.where(t.versions.c.document == key).order_by(t.versions.c.ord)).all()
        removed = remove_versions(self._session, [v.ord for v in versions])
        sources = sa.select(t.sources.c.key).where(t.sources.c.document == key)
        forget_in_jobs(self._session, row.ord, [plain_key(each) for each in self._session.execute(sources).scalars()])
        self._session.execute(sa.delete(t.documents).where(t.documents.c.ord == key))
        bury(self._session, Kind.DOCUMENT, [(document, versions[-1].sha256 if versions else "")])
        forget_in_turns(self._session, row.ord, [document])
        forget_in_interviews(self._session, row.ord, [document])
        forget_in_artifacts(self._session, row.ord, [document])
        forget_in_evaluations(self._session, row.ord, [document])
        log_changes(self._session, row.ord, removed, [])
        vectors = drop_unused_vectors(self._session, row.ord, [text_hash for *_, text_hash in removed])
        return Removed(tuple(v.blob for v in versions if v.blob), len(removed), vectors)

    def remove_source(self, scope: Scope, project: str, key: str) -> Removed:
        """A path is gone; with its last source a document goes too."""
        row = self._session.project(scope, project)
        self._session.lock(row.ord)
        where = (t.sources.c.project == row.ord, t.sources.c.key == key)
        owner = (
            sa.select(t.documents.c.id, t.documents.c.ord)
            .join(t.sources, t.sources.c.document == t.documents.c.ord)
            .where(*where, cleared(scope))
        )
        document = self._session.execute(owner).one_or_none()
        if document is None:
            return Removed()
        self._session.execute(sa.delete(t.sources).where(*where))
        others = sa.select(sa.func.count()).where(t.sources.c.document == document.ord)
        if self._session.execute(others).scalar():
            name_by_source(self._session, [document.ord])
            log_labels(self._session, row.ord, [document.ord])
            return Removed(tuple(drop_unseen_failures(self._session, [document.ord])))
        return self.remove(scope, project, document.id)

    # -- reading

    def all(
        self,
        scope: Scope,
        project: str,
        status: Status | None = None,
        limit: int | None = None,
        after: Cursor | None = None,
    ) -> list[Document]:
        """In the order in which they came."""
        return self._documents(scope, project, None, status, limit, after)

    def get(self, scope: Scope, project: str, documents: Collection[str]) -> list[Document]:
        return [found for batch in batches(documents) for found in self._documents(scope, project, batch, None)]

    def known(self, scope: Scope, project: str, documents: Collection[str]) -> set[str]:
        """Those of the ids that are a document's."""
        row = self._session.project(scope, project)
        ids = sa.select(t.documents.c.id).where(_also_of(row.ord), cleared(scope))
        return {
            id
            for batch in batches(documents)
            for id in self._session.execute(ids.where(t.documents.c.id.in_(batch))).scalars()
        }

    def find(self, scope: Scope, project: str, name: str) -> list[str]:
        """Documents whose id begins with `name`, or that are called so, or that came from that path."""
        row = self._session.project(scope, project)
        by_source = sa.select(t.sources.c.document).where(
            t.sources.c.project == row.ord, wears(scope, name) | (t.sources.c.name == name)
        )
        by_id = t.documents.c.id.startswith(name, autoescape=True) if len(name) >= 4 else t.documents.c.id == name
        statement = sa.select(t.documents.c.id).where(
            t.documents.c.project == row.ord,
            cleared(scope),
            by_id | (t.documents.c.name == name) | t.documents.c.ord.in_(by_source),
        )
        return list(self._session.execute(statement).scalars())

    def _documents(
        self,
        scope: Scope,
        project: str,
        ids: Collection[str] | None,
        status: Status | None,
        limit: int | None = None,
        after: Cursor | None = None,
    ) -> list[Document]:
        row = self._session.project(scope, project)
        shown, latest = t.versions.alias("shown"), t.versions.alias("newest")
        statement = (
            sa.select(
                t.documents,
                *(shown.c[name] for name in _SHOWN),
                shown.c.id.label("version"),
                *(latest.c[name].label(f"latest_{name}") for name in ("reason", "message", "hint")),
            )
            .join(shown, shown.c.ord == sa.func.coalesce(t.documents.c.live, t.documents.c.latest))
            .join(latest, latest.c.ord == t.documents.c.latest)
            .where(cleared(scope), beyond(t.documents, after))
            .order_by(t.documents.c.ord)
        )
        if ids is None:
            statement = statement.where(t.documents.c.project == row.ord)
        else:
            statement = statement.where(t.documents.c.id.in_(list(ids)), _also_of(row.ord))
        if status is not None:
            statement = statement.where(shown.c.status == str(status))
        rows = self._session.execute(statement.limit(limit)).all()
        few = ids is not None or limit is not None
        sources = self._sources_of(scope, row.ord, [r.ord for r in rows] if few else None)
        return [_document(r, project, tuple(sources[r.ord])) for r in rows]

    def _sources_of(self, scope: Scope, project: int, documents: Sequence[int] | None) -> dict[int, list[Source]]:
        statement = sa.select(t.sources).where(t.sources.c.project == project).order_by(t.sources.c.ord)
        found: dict[int, list[Source]] = defaultdict(list)
        for batch in [None] if documents is None else batches(documents):
            some = statement if batch is None else statement.where(t.sources.c.document.in_(batch))
            for row in self._session.execute(some):
                found[row.document].append(_source(row, scope))
        return found

    def summaries(self, scope: Scope, project: str) -> list[Summary]:
        """What `project_state.json` tells of each document that can be found; light, for it is read often."""
        row = self._session.project(scope, project)
        statement = (
            sa.select(
                t.documents.c.id,
                t.documents.c.name,
                t.documents.c.created_at,
                t.versions.c.summary,
                t.versions.c.chunks,
            )
            .join(t.versions, t.versions.c.ord == t.documents.c.live)
            .where(t.documents.c.project == row.ord, cleared(scope))
            .order_by(t.documents.c.ord)
        )
        return [
            Summary(row.id, row.name, moment(row.created_at), row.summary, row.chunks)
            for row in self._session.execute(statement)
        ]

    def chunks(self, scope: Scope, project: str, document: str) -> list[Chunk]:
        """The document's leaves of the live generation, in order."""
        key = self._key(scope, project, document)
        live = SqlProjects(self._session).live(scope, project)
        statement = (
            sa.select(t.chunks, t.versions.c.id.label("version_id"), text_of_chunk().label("text"))
            .join(t.versions, t.versions.c.ord == t.chunks.c.version)
            .join(t.documents, t.documents.c.live == t.versions.c.ord)
            .join(t.sections, section_of_chunk())
            .where(t.documents.c.ord == key, t.chunks.c.generation == live.chunks)
            .order_by(t.chunks.c.position)
        )
        return [
            Chunk(
                key=r.ord,
                id=r.id,
                document=document,
                project=project,
                version=r.version_id,
                position=r.position,
                section=r.section,
                start=r.start,
                end=r.end,
                text=r.text,
                header=r.header,
                locator=locator(r),
                tokens=r.tokens,
                checksum=r.checksum,
                generation=live.number,
            )
            for r in self._session.execute(statement)
        ]

    def places(self, scope: Scope, project: str, chunks: Collection[str]) -> dict[str, ChunkPlace]:
        """Where chunks stand, by their ids; those that are gone, replaced or above the scope are left out."""
        row = self._session.project(scope, project)
        live = SqlProjects(self._session).live(scope, project)
        found: dict[str, ChunkPlace] = {}
        for batch in batches(sorted(set(chunks))):
            statement = (
                sa.select(t.chunks, t.documents.c.id.label("document_id"), t.documents.c.name)
                .join(t.documents, t.documents.c.live == t.chunks.c.version)
                .where(t.chunks.c.project == row.ord, t.chunks.c.generation == live.chunks)
                .where(t.chunks.c.id.in_(batch), cleared(scope))
            )
            found |= {r.id: ChunkPlace(r.document_id, r.name, locator(r)) for r in self._session.execute(statement)}
        return found

    def text(self, scope: Scope, project: str, document: str) -> str:
        """The live version's whole text."""
        key = self._key(scope, project, document)
        live = SqlProjects(self._session).live(scope, project)
        version = self._session.execute(sa.select(t.documents.c.live).where(t.documents.c.ord == key)).scalar()
        return self._text(version, live.chunks) if version is not None else ""

    def blob(self, scope: Scope, project: str, document: str) -> str:
        """The name of the bytes that are shown: those that could be read, else the newest; empty if none are stored."""
        key = self._key(scope, project, document)
        shown = (
            sa.select(t.versions.c.blob)
            .join(t.documents, t.versions.c.ord == sa.func.coalesce(t.documents.c.live, t.documents.c.latest))
            .where(t.documents.c.ord == key)
        )
        return str(self._session.execute(shown).scalar() or "")

    def _text(self, version: int, generation: int) -> str:
        """Sections cover the text; windows overlap, so each adds what the ones before it did not hold."""
        statement = (
            sa.select(t.sections.c.start, t.sections.c.text)
            .where(t.sections.c.version == version, t.sections.c.generation == generation)
            .order_by(t.sections.c.position)
        )
        pieces: list[str] = []
        length = 0
        for row in self._session.execute(statement):
            pieces.append(row.text[max(0, length - row.start) :])
            length = max(length, row.start + len(row.text))
        return "".join(pieces)

    def occurs_elsewhere(self, scope: Scope, project: str, document: str, phrase: str) -> bool:
        """Whether another document, of any project the scope reaches, holds these words."""
        key = self._key(scope, project, document)
        mine = sa.select(t.versions.c.ord).where(t.versions.c.document == key)
        holds = sa.func.strpos if self._session.connection.dialect.name == "postgresql" else sa.func.instr
        statement = (
            sa.select(sa.literal(1))
            .join_from(t.sections, t.versions, t.versions.c.ord == t.sections.c.version)
            .join(t.documents, t.documents.c.ord == t.versions.c.document)
            .where(t.sections.c.version.not_in(mine), holds(t.sections.c.text, phrase) > 0)
            .where(cleared(scope), reached(scope, t.documents.c.project))
            .limit(1)
        )
        return self._session.execute(statement).first() is not None

    # -- labels

    def enable(self, scope: Scope, project: str, documents: Collection[str], on: bool) -> None:
        self._update(scope, project, documents, {"enabled": on})

    def label(
        self,
        scope: Scope,
        project: str,
        documents: Collection[str],
        *,
        source_type: str | None,
        tags: Sequence[str] | None,
        confidentiality: Clearance | None,
    ) -> None:
        values: dict[str, Any] = {}
        if source_type is not None:
            values["source_type"] = source_type
        if tags is not None:
            values["tags"] = json.dumps(list(tags), ensure_ascii=False)
        if confidentiality is not None:
            _require_clearance(scope, confidentiality)
            values["confidentiality"] = int(confidentiality)
        if values:
            self._update(scope, project, documents, values)

    def _update(self, scope: Scope, project: str, documents: Collection[str], values: dict[str, Any]) -> None:
        """Change documents' attributes; the indexes of servers hear of it."""
        row = self._session.project(scope, project)
        self._session.lock(row.ord)
        keys = [self._key(scope, project, document) for document in documents]
        values["updated_at"] = self._session.now()
        for batch in batches(keys):
            self._session.execute(sa.update(t.documents).where(t.documents.c.ord.in_(batch)).values(values))
        log_labels(self._session, row.ord, keys)

    # -- a new generation

    def unsplit(
        self, scope: Scope, project: str, generation: Generation, limit: int, after: int = 0
    ) -> list[StoredText]:
        """Live versions, beyond the one with the key `after`, that have no chunks in the generation yet."""
        row = self._session.project(scope, project)
        live = SqlProjects(self._session).live(scope, project)
        has_chunks = sa.exists().where(
            t.chunks.c.version == t.versions.c.ord, t.chunks.c.generation == generation.chunks
        )
        statement = (
            sa.select(t.versions, t.documents.c.id.label("document_id"))
            .join(t.documents, t.documents.c.live == t.versions.c.ord)
            .where(t.documents.c.project == row.ord, t.versions.c.ord > after, cleared(scope), ~has_chunks)
            .order_by(t.versions.c.ord)
            .limit(limit)
        )
        return [
            StoredText(r.document_id, r.ord, r.name, self._parsed(r, live.chunks))
            for r in self._session.execute(statement)
        ]

    def _parsed(self, row: Row[Any], generation: int) -> Parsed:
        return Parsed(
            text=self._text(row.ord, generation),
            kind=TextKind(row.kind),
            marks=tuple(Mark(*mark) for mark in json.loads(row.marks)),
            title=row.title,
            notes=tuple(json.loads(row.notes)),
        )

    def put_split(
        self,
        scope: Scope,
        project: str,
        generation: Generation,
        file: StoredText,
        split: Split,
        hashes: Sequence[bytes],
    ) -> None:
        """Add a version's chunks to the generation being built. A version that left meanwhile is passed over."""
        row = self._session.project(scope, project)
        self._session.lock(row.ord)
        if SqlProjects(self._session).building(scope, project) != generation:
            raise Outdated("another splitter or model was chosen meanwhile", hint="try again")
        version = self._session.execute(sa.select(t.versions).where(t.versions.c.ord == file.version)).one_or_none()
        has = sa.select(t.chunks.c.ord).where(
            t.chunks.c.version == file.version, t.chunks.c.generation == generation.chunks
        )
        if version is None or self._session.execute(has.limit(1)).first():
            return
        sections, chunks = split_rows(
            file.parsed.text,
            split,
            hashes,
            file.version,
            generation,
            project,
            file.document,
            version.id,
        )
        sweep_versions(self._session, row.ord, [file.version])  # their ids may be the same
        for chunk, key in zip(chunks, self._session.keys(t.chunks, len(chunks)), strict=True):
            chunk.update(ord=key, project=row.ord)
        self._session.insert(t.sections, sections)
        self._session.insert(t.chunks, chunks)
        log_changes(self._session, row.ord, [], [(version.document, chunk["ord"]) for chunk in chunks])

    def announce(self, scope: Scope, project: str, chunks: Collection[int]) -> None:
        """Log chunks again: an index that has passed them may not have found their vectors."""
        row = self._session.project(scope, project)
        self._session.lock(row.ord)
        for batch in batches(chunks):
            found = (
                sa.select(t.versions.c.document, t.chunks.c.ord)
                .join(t.versions, t.versions.c.ord == t.chunks.c.version)
                .where(t.chunks.c.project == row.ord, t.chunks.c.ord.in_(batch))
            )
            log_changes(self._session, row.ord, [], [(r.document, r.ord) for r in self._session.execute(found)])

    def version(self, scope: Scope, project: str, document: str) -> StoredVersion:
        """The version that can be found, or the newest where none can."""
        key = self._key(scope, project, document)
        live = SqlProjects(self._session).live(scope, project)
        shown = sa.select(sa.func.coalesce(t.documents.c.live, t.documents.c.latest)).where(t.documents.c.ord == key)
        row = self._session.execute(sa.select(t.versions).where(t.versions.c.ord == shown.scalar_subquery())).one()
        return StoredVersion(row.blob, row.parser, row.name, self._parsed(row, live.chunks))

    def blobs(self, scope: Scope) -> Iterator[str]:
        """The names of all stored bytes that a version needs. Who saw only some would take the others for strays."""
        if scope.projects is not None:
            raise NotAllowed("stored bytes are looked after for the whole workspace", hint="ask its owner")
        return (row.blob for row in self._session.execute(sa.select(t.versions.c.blob)))

    def stored(self, scope: Scope, project: str) -> Iterator[tuple[str, str, str]]:
        """Name, sha256 and blob of every version whose bytes were stored."""
        row = self._session.project(scope, project)
        statement = (
            sa.select(t.versions.c.name, t.versions.c.sha256, t.versions.c.blob)
            .join(t.documents, t.documents.c.ord == t.versions.c.document)
            .where(t.versions.c.project == row.ord, t.versions.c.blob != "", cleared(scope))
        )
        return ((r.name, r.sha256, r.blob) for r in self._session.execute(statement))

    def _key(self, scope: Scope, project: str, document: str) -> int:
        row = self._session.project(scope, project)
        key = self._session.execute(
            sa.select(t.documents.c.ord).where(
                t.documents.c.project == row.ord,
                t.documents.c.id == document,
                cleared(scope),
            )
        ).scalar()
        if key is None:
            raise NotFound(f"no file {document!r} in this project", hint="ragforge ls shows the files and their ids")
        return int(key)


def _require_clearance(scope: Scope, confidentiality: Clearance) -> None:
    """Nobody puts a document out of their own sight."""
    if confidentiality > scope.clearance:
        raise NotAllowed(
            f"your clearance is {scope.clearance.name.lower()}, so nothing can be labelled higher",
            hint="ask the workspace's owner",
        )


def _also_of(project: int) -> sa.ColumnElement[bool]:
    """Documents of the project, where few are named: SQLite would read all of the project's if it saw the column."""
    return t.documents.c.project + 0 == project


def _source(row: Row[Any], scope: Scope) -> Source:
    return Source(key_seen_by(scope, row.key), row.name, row.size, row.mtime_ns, row.sha256)


def _document(row: Row[Any], project: str, sources: tuple[Source, ...]) -> Document:
    problem = None
    if row.latest_reason is not None:
        problem = Problem(Reason(row.latest_reason), row.latest_message, row.latest_hint)
    return Document(
        id=row.id,
        project=project,
        name=row.name,
        status=Status(row.status),
        labels=Labels(row.source_type, tuple(json.loads(row.tags)), Clearance(row.confidentiality)),
        enabled=row.enabled,
        type=row.type,
        mime=row.mime,
        size=row.size,
        sha256=row.sha256,
        version=row.version,
        title=row.title,
        summary=row.summary,
        notes=tuple(json.loads(row.notes)),
        characters=row.characters,
        tokens=row.tokens,
        chunks=row.chunks,
        problem=problem,
        sources=sources,
        created_at=moment(row.created_at),
        updated_at=moment(row.updated_at),
    )
