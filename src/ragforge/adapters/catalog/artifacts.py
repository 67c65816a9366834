"""Documents that were made from a project. One that was made from a document the scope may not know of is not there."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Row

from ragforge.adapters.catalog import tables as t
from ragforge.adapters.catalog.tombstones import bury
from ragforge.adapters.catalog.unit import (
    Session,
    batches,
    cleared,
    milliseconds,
    moment,
    storable,
    stored_locator,
)
from ragforge.domain.access import Scope
from ragforge.domain.archives import Kind
from ragforge.domain.documents import Locator
from ragforge.domain.prompts import Source
from ragforge.domain.records import FORGOTTEN_SECTION, FORGOTTEN_SOURCE, Artifact, ArtifactSection
from ragforge.errors import NotFound


class SqlArtifacts:
    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, scope: Scope, project: str, artifact: Artifact) -> Artifact:
        """Store it, in place of the one with its id. Returns what is kept.

        What stands on documents that were removed while it was made is left out.
        """
        session, row = self._session, self._session.project(scope, project)
        session.lock(row.ord)
        used = {source.document for source in artifact.sources}
        used.update(document for section in artifact.sections for document in section.read)
        used.discard("")  # what a person said is of no document
        known = session.still_there(row.ord, used)
        old = sa.select(t.artifacts.c.ord).where(t.artifacts.c.project == row.ord, t.artifacts.c.id == artifact.id)
        if session.execute(old).first():
            self._drop(scope, project, artifact.id)
        (key,) = session.keys(t.artifacts, 1)
        kept = _without(artifact, used - known)
        session.insert(t.artifacts, [{"ord": key, "project": row.ord, **_row(kept)}])
        session.insert(t.artifact_documents, [{"artifact": key, "document": document} for document in sorted(known)])
        return kept

    def get(self, scope: Scope, project: str, id: str) -> Artifact:
        return _artifact(self._visible(scope, project, id))

    def all(self, scope: Scope, project: str) -> list[Artifact]:
        """Newest first."""
        newest_first = self._seen(scope, project).order_by(t.artifacts.c.made_at.desc(), t.artifacts.c.ord.desc())
        return [_artifact(row) for row in self._session.execute(newest_first)]

    def remove(self, scope: Scope, project: str, id: str) -> None:
        self._drop(scope, project, id)
        bury(self._session, Kind.ARTIFACT, [(id, "")])

    def _drop(self, scope: Scope, project: str, id: str) -> None:
        key = self._visible(scope, project, id).ord
        self._session.execute(sa.delete(t.artifacts).where(t.artifacts.c.ord == key))

    def forget_document(self, scope: Scope, project: str, document: str) -> int:
        """Leave nothing of a document's text in artifacts, only notes. Returns how many held some."""
        session, row = self._session, self._session.project(scope, project)
        session.lock(row.ord)
        return 0 if session.is_above(scope, row.ord, document) else forget_in_artifacts(session, row.ord, [document])

    def _seen(self, scope: Scope, project: str) -> sa.Select[Any]:
        row = self._session.project(scope, project)
        above = (
            sa.select(t.artifact_documents.c.artifact)
            .join(t.documents, t.documents.c.id == t.artifact_documents.c.document)
            .where(t.artifact_documents.c.artifact == t.artifacts.c.ord, ~cleared(scope))
        )
        return sa.select(t.artifacts).where(t.artifacts.c.project == row.ord, ~sa.exists(above))

    def _visible(self, scope: Scope, project: str, id: str) -> Row[Any]:
        row = self._session.execute(self._seen(scope, project).where(t.artifacts.c.id == id)).one_or_none()
        if row is None:
            raise NotFound(f"no made document {id!r}", hint="ragforge make ls shows what there is")
        return row


def forget_in_artifacts(session: Session, project: int, documents: Sequence[str]) -> int:
    """Leave nothing of the documents' text in the project's artifacts. Returns how many held some."""
    forgotten = 0
    for some in batches(documents):
        made_from = sa.select(t.artifact_documents.c.artifact).where(t.artifact_documents.c.document.in_(some))
        found = sa.select(t.artifacts).where(t.artifacts.c.project == project, t.artifacts.c.ord.in_(made_from))
        for row in session.execute(found).all():
            kept = _row(_without(_artifact(row), frozenset(some)))
            session.execute(sa.update(t.artifacts).where(t.artifacts.c.ord == row.ord).values(kept))
            session.execute(
                sa.delete(t.artifact_documents).where(
                    t.artifact_documents.c.artifact == row.ord, t.artifact_documents.c.document.in_(some)
                )
            )
            forgotten += 1
    return forgotten


def _without(artifact: Artifact, documents: AbstractSet[str]) -> Artifact:
    """The artifact with notes in the place of what it says from these documents.

    Problems quote what a model wrote: those of every section that these documents were read for go, too.
    """
    gone = {source.number for source in artifact.sources if source.document in documents}
    touched = [each for each in artifact.sections if gone & set(each.sources) or not documents.isdisjoint(each.read)]
    if not touched and not gone:
        return artifact
    about = tuple(f"{section.heading}: " for section in touched)
    return replace(
        artifact,
        sections=tuple(_section_without(each, gone, documents) for each in artifact.sections),
        sources=tuple(_emptied(source) if source.number in gone else source for source in artifact.sources),
        problems=(*(each for each in artifact.problems if not each.startswith(about)), *_removed(gone)),
    )


def _removed(gone: Collection[int]) -> list[str]:
    numbers = ", ".join(f"[{number}]" for number in sorted(gone))
    return [f"{numbers}: the document was removed, and what cited it with it"] if gone else []


def _section_without(section: ArtifactSection, gone: Collection[int], documents: Collection[str]) -> ArtifactSection:
    """A section is open again if it cites what is gone, or may repeat it without a proof."""
    read = tuple(document for document in section.read if document not in documents)
    if not section.open and (not set(section.sources).isdisjoint(gone) or (section.doubtful and read != section.read)):
        return replace(section, text="", open=True, reason=FORGOTTEN_SECTION, sources=(), read=(), doubtful=False)
    return replace(section, read=read)


def _emptied(source: Source) -> Source:
    return replace(source, name=FORGOTTEN_SOURCE, locator=Locator(), checksum="", text="", tokens=0, spans=())


def _row(artifact: Artifact) -> dict[str, Any]:
    return {
        "id": artifact.id,
        "kind": artifact.kind,
        "title": storable(artifact.title),
        "made_at": milliseconds(artifact.made_at),
        "brief": storable(artifact.brief),
        "agent": artifact.agent,
        "model": artifact.model,
        "sections": _json([asdict(section) for section in artifact.sections]),
        "sources": _json([asdict(source) for source in artifact.sources]),
        "usage": _json(dict(artifact.usage)),
        "problems": _json(artifact.problems),
    }


def _json(value: object) -> str:
    return storable(json.dumps(value, ensure_ascii=False))


def _artifact(row: Row[Any]) -> Artifact:
    return Artifact(
        id=row.id,
        kind=row.kind,
        title=row.title,
        made_at=moment(row.made_at),
        sections=tuple(_section(each) for each in json.loads(row.sections)),
        sources=tuple(_source(each) for each in json.loads(row.sources)),
        brief=row.brief,
        agent=row.agent,
        model=row.model,
        usage=json.loads(row.usage),
        problems=tuple(json.loads(row.problems)),
    )


def _section(stored: dict[str, Any]) -> ArtifactSection:
    return ArtifactSection(**stored | {each: tuple(stored.get(each, ())) for each in ("sources", "read")})


def _source(stored: dict[str, Any]) -> Source:
    return Source(
        **stored
        | {
            "chunks": tuple(stored["chunks"]),
            "locator": stored_locator(stored["locator"]),
            "spans": tuple((chunk, start, end) for chunk, start, end in stored["spans"]),
        }
    )
