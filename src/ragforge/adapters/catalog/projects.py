"""Projects and their generations."""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Row

from ragforge.adapters.catalog import tables as t
from ragforge.adapters.catalog.tombstones import bury
from ragforge.adapters.catalog.unit import KNOWLEDGE, Session, batches, moment, storable
from ragforge.domain.access import Clearance, Scope
from ragforge.domain.archives import Kind
from ragforge.domain.library import Generation, Op, Project, Topic
from ragforge.domain.strategy import Strategy
from ragforge.errors import Conflict, NotAllowed, NotFound, Outdated
from ragforge.ports import EmbedderCard

LIVE, BUILDING, RETIRED = "live", "building", "retired"

_NAMES = 0
"""The lock under which a project takes its name; no project has this key."""


class SqlProjects:
    def __init__(self, session: Session) -> None:
        self._session = session

    def create(
        self, scope: Scope, name: str, slug: str, strategy: Strategy, chunker: str, embedder: EmbedderCard
    ) -> Project:
        session = self._session
        _require_owner(scope)
        session.lock(_NAMES)
        if session.execute(sa.select(t.projects.c.ord).where(t.projects.c.slug == slug)).first():
            raise Conflict(f"project {slug!r} exists already", hint="choose another name")
        (key,) = session.keys(t.projects, 1)
        row = {
            "ord": key,
            "id": secrets.token_hex(8),
            "slug": slug,
            "name": storable(name),
            "generation": 1,
            "created_at": session.now(),
        }
        session.insert(t.projects, [row])
        self._insert_generation(key, 1, LIVE, 1, strategy, chunker, embedder)
        return self.get(scope, slug)

    def all(self, scope: Scope) -> list[Project]:
        rows = self._session.execute(self._with_generation().order_by(t.projects.c.slug))
        return [_project(row) for row in rows if scope.reaches(row.id)]

    def get(self, scope: Scope, slug: str) -> Project:
        row = self._session.execute(self._with_generation().where(t.projects.c.slug == slug)).one_or_none()
        if row is None or not scope.reaches(row.id):
            raise NotFound(f"no project {slug!r}", hint="ragforge project ls shows what there is")
        return _project(row)

    def with_id(self, scope: Scope, project: str) -> Project:
        return self.get(scope, self._session.project(scope, project).slug)

    def rename(self, scope: Scope, project: str, name: str, slug: str) -> None:
        row = self._session.project(scope, project)
        _require_owner(scope)
        self._session.lock(_NAMES)
        taken = sa.select(t.projects.c.ord).where(t.projects.c.slug == slug, t.projects.c.ord != row.ord)
        if self._session.execute(taken).first():
            raise Conflict(f"project {slug!r} exists already", hint="choose another name")
        renamed = sa.update(t.projects).where(t.projects.c.ord == row.ord).values(name=storable(name), slug=slug)
        self._session.execute(renamed)

    def remove(self, scope: Scope, project: str) -> None:
        row = self._session.project(scope, project)
        _require_all_documents(scope)
        self._session.lock(row.ord)
        self._session.execute(sa.delete(t.projects).where(t.projects.c.ord == row.ord))
        self._session.counted(KNOWLEDGE)  # its lessons went, too
        bury(self._session, Kind.PROJECT, [(project, "")])

    def org_context(self, scope: Scope, project: str) -> str:
        return str(self._session.project(scope, project).org_context)

    def set_org_context(self, scope: Scope, project: str, text: str) -> None:
        """What is known of the organisation; the same for all who ask about the project."""
        row = self._session.project(scope, project)
        self._session.lock(row.ord)
        changed = sa.update(t.projects).where(t.projects.c.ord == row.ord)
        self._session.execute(changed.values(org_context=storable(text)))

    # -- generations

    def live(self, scope: Scope, project: str) -> Generation:
        generation = self._generation(scope, project, LIVE)
        assert generation is not None
        return generation

    def building(self, scope: Scope, project: str) -> Generation | None:
        return self._generation(scope, project, BUILDING)

    def begin(self, scope: Scope, project: str, strategy: Strategy, chunker: str, embedder: EmbedderCard) -> Generation:
        """The generation being built with these settings: the unfinished one if it has them, else a new one."""
        row = self._session.project(scope, project)
        _require_all_documents(scope)
        self._session.lock(row.ord)
        live, building = self.live(scope, project), self.building(scope, project)
        if building and (building.chunker, building.embedder_fingerprint) == (chunker, embedder.fingerprint):
            return building
        if building:
            self.abandon(scope, project)
        number = self._next_number(row.ord)
        chunks = live.chunks if live.chunker == chunker else number
        self._insert_generation(row.ord, number, BUILDING, chunks, strategy, chunker, embedder)
        begun = self.building(scope, project)
        assert begun is not None
        return begun

    def abandon(self, scope: Scope, project: str) -> None:
        """Give up the unfinished generation; `sweep` clears its rows."""
        row = self._session.project(scope, project)
        self._session.lock(row.ord)
        self._set_state(row.ord, BUILDING, RETIRED)

    def swap(self, scope: Scope, project: str) -> None:
        """Make the finished generation the live one, in one step."""
        row = self._session.project(scope, project)
        _require_all_documents(scope)
        self._session.lock(row.ord)
        building = self.building(scope, project)
        if building is None or self._is_unfinished(row.ord, building):
            raise Outdated("files changed before the new generation was complete", hint="try again")
        self._set_state(row.ord, LIVE, RETIRED)
        self._set_state(row.ord, BUILDING, LIVE)
        self._session.execute(
            sa.update(t.projects).where(t.projects.c.ord == row.ord).values(generation=building.number)
        )
        counted = (
            sa.select(sa.func.count())
            .where(t.chunks.c.version == t.versions.c.ord, t.chunks.c.generation == building.chunks)
            .scalar_subquery()
        )
        self._session.execute(sa.update(t.versions).where(t.versions.c.project == row.ord).values(chunks=counted))
        self._session.insert(t.changes, [{"project": row.ord, "op": str(Op.GENERATION), "document": 0, "chunk": None}])
        self._session.tell(Topic.CHANGES, row.ord)

    def sweep(self, scope: Scope, project: str, limit: int) -> int:
        """Remove rows that only retired generations used, at most `limit` versions' worth. Returns how many."""
        session, row = self._session, self._session.project(scope, project)
        session.lock(row.ord)
        versions = sa.select(t.versions.c.ord).where(t.versions.c.project == row.ord)
        stale = (
            sa.select(t.sections.c.version)
            .where(t.sections.c.version.in_(versions), t.sections.c.generation.not_in(_kept(row.ord)))
            .distinct()
            .limit(limit)
        )
        found = list(session.execute(stale).scalars())
        sweep_versions(session, row.ord, found)
        if len(found) < limit:
            self._session.execute(
                sa.delete(t.generations).where(t.generations.c.project == row.ord, t.generations.c.state == RETIRED)
            )
        return len(found)

    # -- helpers

    def _is_unfinished(self, project: int, generation: Generation) -> bool:
        """Whether a live version has no chunks in the generation, or one of its chunks no vector."""
        chunks = sa.exists().where(t.chunks.c.version == t.documents.c.live, t.chunks.c.generation == generation.chunks)
        vector = sa.exists().where(
            t.embeddings.c.project == project,
            t.embeddings.c.text_hash == t.chunks.c.text_hash,
            t.embeddings.c.embedder == t.embedders.c.ord,
            t.embedders.c.fingerprint == generation.embedder_fingerprint,
        )
        unsplit = sa.select(t.documents.c.ord).where(
            t.documents.c.project == project, t.documents.c.live.is_not(None), ~chunks
        )
        unembedded = (
            sa.select(t.chunks.c.ord)
            .join(t.documents, t.documents.c.live == t.chunks.c.version)
            .where(
                t.documents.c.project == project,
                t.chunks.c.generation == generation.chunks,
                ~vector.correlate(t.chunks),
            )
        )
        return any(self._session.execute(missing.limit(1)).first() for missing in (unsplit, unembedded))

    def _with_generation(self) -> sa.Select[Any]:
        return (
            sa.select(
                t.projects,
                t.generations.c.strategy,
                t.generations.c.chunker,
                t.embedders.c.name.label("embedder"),
                t.embedders.c.fingerprint,
            )
            .join(
                t.generations,
                sa.and_(t.generations.c.project == t.projects.c.ord, t.generations.c.number == t.projects.c.generation),
            )
            .join(t.embedders, t.embedders.c.ord == t.generations.c.embedder)
        )

    def _generation(self, scope: Scope, project: str, state: str) -> Generation | None:
        key = self._session.project(scope, project).ord
        row = self._session.execute(
            sa.select(t.generations, t.embedders.c.name.label("embedder_name"), t.embedders.c.fingerprint)
            .join(t.embedders, t.embedders.c.ord == t.generations.c.embedder)
            .where(t.generations.c.project == key, t.generations.c.state == state)
        ).one_or_none()
        if row is None:
            return None
        strategy = Strategy(**json.loads(row.strategy))
        return Generation(row.number, row.chunks, strategy, row.chunker, row.embedder_name, row.fingerprint)

    def _next_number(self, project: int) -> int:
        last = sa.select(sa.func.max(t.generations.c.number)).where(t.generations.c.project == project)
        return int(self._session.execute(last).scalar() or 0) + 1

    def _set_state(self, project: int, before: str, after: str) -> None:
        where = (t.generations.c.project == project, t.generations.c.state == before)
        self._session.execute(sa.update(t.generations).where(*where).values(state=after))

    def _insert_generation(
        self, project: int, number: int, state: str, chunks: int, strategy: Strategy, chunker: str, card: EmbedderCard
    ) -> None:
        row = {
            "project": project,
            "number": number,
            "state": state,
            "chunks": chunks,
            "strategy": json.dumps(asdict(strategy)),
            "chunker": chunker,
            "embedder": embedder_key(self._session, card),
            "created_at": self._session.now(),
        }
        self._session.insert(t.generations, [row])


def _kept(project: int) -> sa.Select[int]:
    """The generations whose chunk rows are needed."""
    return sa.select(t.generations.c.chunks).where(t.generations.c.project == project, t.generations.c.state != RETIRED)


def sweep_versions(session: Session, project: int, versions: Collection[int]) -> None:
    """Remove these versions' rows that only retired generations used."""
    for batch in batches(versions):
        for table in (t.sections, t.chunks):
            session.execute(
                sa.delete(table).where(table.c.version.in_(batch), table.c.generation.not_in(_kept(project)))
            )


def _require_owner(scope: Scope) -> None:
    """Projects' names are one space: who may take one learns which are taken."""
    if scope.projects is not None:
        raise NotAllowed("only the workspace's owner names projects", hint="ask its owner")


def _require_all_documents(scope: Scope) -> None:
    """Documents the caller cannot see would drop out of a generation the caller builds, or go with the project."""
    if scope.clearance < max(Clearance):
        raise NotAllowed("this needs clearance for all documents of the project", hint="ask its owner")


def embedder_key(session: Session, card: EmbedderCard) -> int:
    """The key of an embedder's row, made on first sight."""
    known = sa.select(t.embedders.c.ord).where(t.embedders.c.fingerprint == card.fingerprint)
    key = session.execute(known).scalar()
    if key is None:
        (new,) = session.keys(t.embedders, 1)
        row = {
            "ord": new,
            "fingerprint": card.fingerprint,
            "name": card.name,
            "dimension": card.dimension,
            "fusion_weight": card.fusion_weight,
            "cosine_floor": card.cosine_floor,
        }
        session.insert_new(t.embedders, [row])  # another may have been quicker
        key = session.execute(known).scalar_one()
    return int(key)


def _project(row: Row[Any]) -> Project:
    return Project(
        id=row.id,
        slug=row.slug,
        name=row.name,
        strategy=Strategy(**json.loads(row.strategy)),
        embedder=row.embedder,
        embedder_fingerprint=row.fingerprint,
        chunker=row.chunker,
        generation=row.generation,
        created_at=moment(row.created_at),
        shares_lessons=bool(row.shares_lessons),
    )
