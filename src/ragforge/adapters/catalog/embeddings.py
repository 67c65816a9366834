"""Vectors, by model and hash of the embedded text."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import sqlalchemy as sa

from ragforge.adapters.catalog import tables as t
from ragforge.adapters.catalog.projects import embedder_key
from ragforge.adapters.catalog.unit import Session, batches, by_any_model, cleared, locator
from ragforge.domain.access import Scope
from ragforge.domain.documents import breadcrumb
from ragforge.domain.library import Generation, PendingChunk
from ragforge.domain.tokens import Matrix, Vector
from ragforge.errors import BadVectors
from ragforge.ports import EmbedderCard

_UNIT = 1e-3
"""How far a vector's length may be from one."""


class SqlEmbeddings:
    def __init__(self, session: Session) -> None:
        self._session = session

    def known(self, scope: Scope, project: str, fingerprint: str, hashes: Collection[bytes]) -> set[bytes]:
        """Which of the hashes have a vector of this model."""
        row = self._session.project(scope, project)
        found: set[bytes] = set()
        for batch in batches(hashes):
            statement = (
                sa.select(t.embeddings.c.text_hash)
                .join(t.embedders, t.embedders.c.ord == t.embeddings.c.embedder)
                .where(
                    t.embeddings.c.project == row.ord,
                    t.embedders.c.fingerprint == fingerprint,
                    t.embeddings.c.text_hash.in_(batch),
                )
            )
            found.update(self._session.execute(statement).scalars())
        return found

    def put(self, scope: Scope, project: str, card: EmbedderCard, hashes: Sequence[bytes], vectors: Matrix) -> None:
        row = self._session.project(scope, project)
        embedder = embedder_key(self._session, card)
        self._require_dimension(embedder, card, vectors)
        self._session.insert_new(
            t.embeddings,
            [
                {"project": row.ord, "embedder": embedder, "text_hash": text_hash, "vector": vector.tobytes()}
                for text_hash, vector in zip(hashes, vectors, strict=True)
            ],
        )

    def _require_dimension(self, embedder: int, card: EmbedderCard, vectors: Matrix) -> None:
        """A model's first vectors tell its dimension, for every process that comes after."""
        if not len(vectors):
            return
        dimension = int(vectors.shape[1])
        this = t.embedders.c.ord == embedder
        unknown = t.embedders.c.dimension.is_(None)
        self._session.execute(sa.update(t.embedders).where(this, unknown).values(dimension=dimension))
        expected = self._session.execute(sa.select(t.embedders.c.dimension).where(this)).scalar_one()
        if dimension != expected:
            raise BadVectors(
                f"{card.name} sent vectors of {dimension} dimensions, earlier ones had {expected}",
                hint="the model behind this name has changed: choose another with ragforge reindex --embedder",
            )

    def sample(self, scope: Scope, project: str, document: str, limit: int) -> list[bytes]:
        """Some vectors that no other document of any project has: what a proof of its deletion looks for."""
        row = self._session.project(scope, project)
        versions = (
            sa.select(t.versions.c.ord)
            .join(t.documents, t.documents.c.ord == t.versions.c.document)
            .where(t.documents.c.project == row.ord, t.documents.c.id == document, cleared(scope))
        )
        other = t.chunks.alias()
        shared = sa.exists().where(
            other.c.project.in_(sa.select(t.projects.c.ord)),
            other.c.text_hash == t.chunks.c.text_hash,
            other.c.version.not_in(versions),
        )
        own = sa.select(t.chunks.c.text_hash).where(t.chunks.c.version.in_(versions), ~shared)
        statement = (
            sa.select(t.embeddings.c.vector)
            .where(t.embeddings.c.project == row.ord, by_any_model(), t.embeddings.c.text_hash.in_(own))
            .limit(limit)
        )
        return list(self._session.execute(statement).scalars())

    def of_document(self, scope: Scope, project: str, document: str) -> list[tuple[bytes, bytes]]:
        """Hash and vector, by the live model, of each text that the document's chunks were embedded as."""
        row = self._session.project(scope, project)
        statement = (
            sa.select(t.embeddings.c.text_hash, t.embeddings.c.vector)
            .join(t.chunks, t.chunks.c.text_hash == t.embeddings.c.text_hash)
            .join(t.documents, t.documents.c.live == t.chunks.c.version)
            .join(t.generations, t.generations.c.project == t.documents.c.project)
            .where(t.documents.c.project == row.ord, t.documents.c.id == document, cleared(scope))
            .where(t.generations.c.number == row.generation, t.chunks.c.generation == t.generations.c.chunks)
            .where(t.embeddings.c.project == row.ord, t.embeddings.c.embedder == t.generations.c.embedder)
            .distinct()
        )
        return [(found.text_hash, found.vector) for found in self._session.execute(statement)]

    def put_stored(self, scope: Scope, project: str, card: EmbedderCard, vectors: Sequence[tuple[bytes, bytes]]) -> int:
        """Vectors that this model made elsewhere, where they are whole. Returns how many were taken."""
        import numpy as np

        self._session.project(scope, project)
        usable: list[tuple[bytes, Vector]] = []
        for text_hash, stored in vectors:
            vector = np.frombuffer(stored, np.float32) if len(stored) % 4 == 0 else np.empty(0, np.float32)
            if len(vector) == (card.dimension or len(vector)) and abs(float(np.linalg.norm(vector)) - 1) < _UNIT:
                usable.append((text_hash, vector))
        if usable:
            self.put(scope, project, card, [text_hash for text_hash, _ in usable], np.stack([v for _, v in usable]))
        return len(usable)

    def pending(
        self, scope: Scope, project: str, generation: Generation, limit: int, after: int = 0
    ) -> list[PendingChunk]:
        """Live chunks of the generation, beyond the one with the key `after`, that have no vector of its model yet."""
        row = self._session.project(scope, project)
        has_vector = (
            sa.exists()
            .where(
                t.embeddings.c.project == row.ord,
                t.embeddings.c.text_hash == t.chunks.c.text_hash,
                t.embeddings.c.embedder == t.embedders.c.ord,
                t.embedders.c.fingerprint == generation.embedder_fingerprint,
            )
            .correlate(t.chunks)
        )
        statement = (
            sa.select(t.chunks, t.versions.c.name, text_of_chunk().label("text"))
            .join(t.versions, t.versions.c.ord == t.chunks.c.version)
            .join(t.documents, t.documents.c.live == t.versions.c.ord)
            .join(t.sections, section_of_chunk())
            .where(t.documents.c.project == row.ord, cleared(scope))
            .where(t.chunks.c.ord > after, t.chunks.c.generation == generation.chunks, ~has_vector)
            .order_by(t.chunks.c.ord)
            .limit(limit)
        )
        return [
            PendingChunk(r.ord, breadcrumb(r.name, locator(r).path) + "\n" + r.header + r.text, r.text_hash)
            for r in self._session.execute(statement)
        ]

    def sweep(self, scope: Scope, project: str) -> int:
        """Remove vectors that no chunk uses, and those of models no generation uses, also of turns."""
        row = self._session.project(scope, project)
        self._session.lock(row.ord)  # chunks that another node is publishing cannot be seen yet
        used_models = sa.select(t.generations.c.embedder).where(t.generations.c.project == row.ord)
        talks = sa.select(t.conversations.c.ord).where(t.conversations.c.project == row.ord)
        fingerprints = sa.select(t.embedders.c.fingerprint).where(t.embedders.c.ord.in_(used_models))
        self._session.execute(
            sa.delete(t.memory_vectors).where(
                t.memory_vectors.c.conversation.in_(talks), t.memory_vectors.c.fingerprint.not_in(fingerprints)
            )
        )
        used = sa.exists().where(t.chunks.c.project == row.ord, t.chunks.c.text_hash == t.embeddings.c.text_hash)
        result = self._session.execute(
            sa.delete(t.embeddings).where(
                t.embeddings.c.project == row.ord, ~used | t.embeddings.c.embedder.not_in(used_models)
            )
        )
        return int(result.rowcount)


def section_of_chunk() -> sa.ColumnElement[bool]:
    return sa.and_(
        t.sections.c.version == t.chunks.c.version,
        t.sections.c.generation == t.chunks.c.generation,
        t.sections.c.position == t.chunks.c.section,
    )


def text_of_chunk() -> sa.ColumnElement[str]:
    """A leaf's text is a slice of its section's: it is stored once."""
    return sa.func.substr(
        t.sections.c.text, t.chunks.c.start - t.sections.c.start + 1, t.chunks.c.end - t.chunks.c.start
    )


def count_known(session: Session, project: int, fingerprint: str, hashes: Collection[bytes]) -> int:
    """How many of the hashes have a vector of this model."""
    embedder = sa.select(t.embedders.c.ord).where(t.embedders.c.fingerprint == fingerprint).scalar_subquery()
    count = 0
    for batch in batches(hashes):
        statement = sa.select(sa.func.count()).where(
            t.embeddings.c.project == project,
            t.embeddings.c.embedder == embedder,
            t.embeddings.c.text_hash.in_(batch),
        )
        count += int(session.execute(statement).scalar() or 0)
    return count
