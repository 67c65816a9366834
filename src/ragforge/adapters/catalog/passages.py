"""Chunks as the indexes and the search need them: in bulk, by key, and only those of the live generation."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Row

from ragforge.adapters.catalog import tables as t
from ragforge.adapters.catalog.embeddings import section_of_chunk, text_of_chunk
from ragforge.adapters.catalog.unit import Session, batches, cleared, key_seen_by, milliseconds
from ragforge.domain.access import Clearance, Scope
from ragforge.domain.documents import Locator
from ragforge.domain.library import Change, Op
from ragforge.domain.retrieval import AGENT_TAG, Filters, IndexedText, Moment, StoredPassage
from ragforge.errors import NotAllowed, NotFound


class SqlPassages:
    def __init__(self, session: Session) -> None:
        self._session = session

    def moment(self, scope: Scope, project: str, generation: int | None = None) -> Moment:
        """What a search needs to know of the project now, in one statement: every question asks it.

        The live generation unless another is named.
        """
        rows = self._session.quick(_MOMENT, (generation, project))
        if not rows or not scope.reaches(project):
            raise NotFound(f"no project {project!r}", hint="ragforge project ls shows what there is")
        return Moment(project, *rows[0])

    def changes(self, scope: Scope, now: Moment, seq: int, limit: int) -> list[Change]:
        """What happened after `seq`, oldest first."""
        _require(scope, now)
        return [Change(seq, Op(op), *rest) for seq, op, *rest in self._session.quick(_CHANGES, (now.key, seq, limit))]

    # -- for the indexes

    def texts(self, scope: Scope, now: Moment, after: int, limit: int) -> list[IndexedText]:
        """Live chunks beyond the key `after`, in the order of their keys."""
        _require_all(scope, now)
        statement = self._texts(now).where(t.chunks.c.ord > after).order_by(t.chunks.c.ord).limit(limit)
        return [_indexed_text(row) for row in self._session.execute(statement)]

    def texts_of(self, scope: Scope, now: Moment, keys: Collection[int]) -> list[IndexedText]:
        """Those of the chunks that are live, in the order of their keys."""
        _require_all(scope, now)
        return [
            _indexed_text(row)
            for batch in batches(sorted(keys))
            for row in self._session.execute(self._texts(now).where(t.chunks.c.ord.in_(batch)).order_by(t.chunks.c.ord))
        ]

    def _texts(self, now: Moment) -> sa.Select[Any]:
        return (
            sa.select(
                t.chunks.c.ord,
                t.documents.c.ord.label("document"),
                t.versions.c.name,
                t.chunks.c.path,
                t.chunks.c.header,
                text_of_chunk().label("text"),
            )
            .join(t.versions, t.versions.c.ord == t.chunks.c.version)
            .join(t.documents, t.documents.c.live == t.versions.c.ord)
            .join(t.sections, section_of_chunk())
            .where(t.chunks.c.project == now.key, t.chunks.c.generation == now.chunks)
        )

    def vectors(self, scope: Scope, now: Moment, after: int, limit: int) -> list[tuple[int, int, bytes]]:
        """(chunk, document, vector) of live chunks beyond the key `after`, in the order of their keys."""
        _require_all(scope, now)
        statement = self._vectors(now).where(t.chunks.c.ord > after).order_by(t.chunks.c.ord).limit(limit)
        return [(row.ord, row.document, row.vector) for row in self._session.execute(statement)]

    def vectors_of(self, scope: Scope, now: Moment, keys: Collection[int]) -> list[tuple[int, int, bytes]]:
        _require_all(scope, now)
        return [
            (row.ord, row.document, row.vector)
            for batch in batches(sorted(keys))
            for row in self._session.execute(
                self._vectors(now).where(t.chunks.c.ord.in_(batch)).order_by(t.chunks.c.ord)
            )
        ]

    def _vectors(self, now: Moment) -> sa.Select[Any]:
        model = sa.select(t.embedders.c.ord).where(t.embedders.c.fingerprint == now.embedder).scalar_subquery()
        return (
            sa.select(t.chunks.c.ord, t.documents.c.ord.label("document"), t.embeddings.c.vector)
            .join(t.documents, t.documents.c.live == t.chunks.c.version)
            .join(
                t.embeddings,
                sa.and_(
                    t.embeddings.c.project == now.key,
                    t.embeddings.c.embedder == model,
                    t.embeddings.c.text_hash == t.chunks.c.text_hash,
                ),
            )
            .where(t.chunks.c.project == now.key, t.chunks.c.generation == now.chunks)
        )

    def keys(self, scope: Scope, now: Moment) -> list[int]:
        """Every chunk an index should hold, ascending."""
        _require_all(scope, now)
        statement = (
            sa.select(t.chunks.c.ord)
            .join(t.documents, t.documents.c.live == t.chunks.c.version)
            .where(t.chunks.c.project == now.key, t.chunks.c.generation == now.chunks)
            .order_by(t.chunks.c.ord)
        )
        return list(self._session.execute(statement).scalars())

    # -- for a search

    def eligible(self, scope: Scope, now: Moment, filters: Filters) -> tuple[list[int], list[int]]:
        """Ordinals of the documents that may be found, and of those that may not; ascending."""
        _require(scope, now)
        documents = t.documents.c
        allowed = sa.and_(documents.enabled, cleared(scope), *_conditions(filters))
        columns = (documents.ord, documents.id, documents.source_type, documents.tags)
        statement = sa.select(*columns, allowed.label("allowed")).where(
            documents.project == now.key, documents.live.is_not(None)
        )
        suits = _judge(filters)
        yes: list[int] = []
        no: list[int] = []
        for ord, id, source_type, tags, is_allowed in self._session.execute(statement):
            (yes if is_allowed and suits(id, source_type, tags) else no).append(ord)
        return sorted(yes), sorted(no)  # most often they come so, and then it costs nothing

    def stored(self, scope: Scope, now: Moment, keys: Sequence[int]) -> list[StoredPassage]:
        """The chunks' texts and places. What the scope may not see, or what is not live, is not there."""
        _require(scope, now)
        found: list[StoredPassage] = []
        statement = _STORED_ON_POSTGRES if self._session.is_postgres else _STORED
        for batch in batches(keys):
            marks = ", ".join("?" * len(batch))
            given = (*batch, now.chunks, now.key, int(scope.clearance))
            found += [_stored(row) for row in self._session.quick(statement.format(marks), given)]
        if not scope.sees_all:
            found = [each._replace(source=key_seen_by(scope, each.source)) for each in found]
        return found

    def parents(
        self, scope: Scope, now: Moment, wanted: Iterable[tuple[str, int]]
    ) -> dict[tuple[str, int], tuple[str, str]]:
        """Sections by their document's id and their position: the header of the table one begins in, and its text."""
        _require(scope, now)
        found: dict[tuple[str, int], tuple[str, str]] = {}
        for document, position in wanted:
            statement = (
                sa.select(t.sections.c.header, t.sections.c.text)
                .join(t.documents, t.documents.c.live == t.sections.c.version)
                .where(t.documents.c.id == document, t.documents.c.project == now.key, cleared(scope))
                .where(t.sections.c.generation == now.chunks, t.sections.c.position == position)
            )
            if (row := self._session.execute(statement).one_or_none()) is not None:
                found[document, position] = row.header, row.text
        return found


# Every question asks these: they are written out, for building and compiling them would take as long as running them.

_MOMENT = """
SELECT p.slug, p.ord, g.number, g.chunks, g.chunker, e.fingerprint, e.dimension, e.fusion_weight, e.cosine_floor,
       COALESCE((SELECT MAX(c.seq) FROM changes c WHERE c.project = p.ord), 0), p.forgotten
FROM projects p
JOIN generations g ON g.project = p.ord AND g.number = COALESCE(CAST(? AS INTEGER), p.generation)
JOIN embedders e ON e.ord = g.embedder
WHERE p.id = ? AND g.state <> 'retired'
"""

_CHANGES = "SELECT seq, op, document, chunk FROM changes WHERE project = ? AND seq > ? ORDER BY seq LIMIT ?"

_STORED = """
SELECT c.ord, c.id, d.id, d.ord, d.name,
       (SELECT o.key FROM sources o WHERE o.document = d.ord ORDER BY o.name <> d.name, o.ord LIMIT 1),
       v.id, c.position, c.section, c.start, c."end", c.header,
       c.path, c.page, c.page_end, c.time_start, c.time_end, c.speaker, c.tokens, c.checksum,
       substr(s.text, c.start - s.start + 1, c."end" - c.start), s.tokens, s.start, s.start + length(s.text)
FROM chunks c
JOIN versions v ON v.ord = c.version
JOIN documents d ON d.live = v.ord AND d.ord = v.document
JOIN sections s ON s.version = c.version AND s.generation = c.generation AND s.position = c.section
WHERE c.ord IN ({}) AND c.generation = ? AND d.project = ? AND d.enabled AND d.confidentiality <= ?
"""

_STORED_ON_POSTGRES = _STORED.replace(
    "FROM chunks c\n", "FROM (SELECT * FROM chunks WHERE ord IN ({}) AND generation = ? OFFSET 0) c\n"
).replace("WHERE c.ord IN ({}) AND c.generation = ? AND ", "WHERE ")
"""The few chunks first: while it has no statistics of a table, it would begin with all documents of the project."""


def _require(scope: Scope, now: Moment) -> None:
    if not scope.reaches(now.project):
        raise NotFound(f"no project {now.project!r}", hint="ragforge project ls shows what there is")


def _require_all(scope: Scope, now: Moment) -> None:
    """An index holds every document; what a caller may see of it is decided at each search."""
    _require(scope, now)
    if scope.clearance < max(Clearance):
        raise NotAllowed("this needs clearance for all documents of the project", hint="ask its owner")


def _conditions(filters: Filters) -> list[sa.ColumnElement[bool]]:
    """What SQL decides; lists of any length are left to `_judge`."""
    documents = t.documents.c
    conditions: list[sa.ColumnElement[bool]] = []
    if filters.confidentiality is not None:
        conditions.append(documents.confidentiality <= int(filters.confidentiality))
    if filters.since is not None:
        conditions.append(documents.updated_at >= _milliseconds(filters.since))
    if filters.until is not None:
        conditions.append(documents.updated_at < _milliseconds(filters.until))
    return conditions


def _milliseconds(moment: datetime) -> int:
    """A moment without a time zone is meant in UTC."""
    return milliseconds(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _judge(filters: Filters) -> Callable[[str, str, str], bool]:
    """Whether a document with this id, source type and these tags may be found."""
    documents, source_types, tags = map(frozenset, (filters.documents, filters.source_types, filters.tags))

    def suits(id: str, source_type: str, stored: str) -> bool:
        if (documents and id not in documents) or (source_types and source_type not in source_types):
            return False
        if not tags and not filters.agent:
            return True
        its = set(json.loads(stored))
        if tags and its.isdisjoint(tags):
            return False
        agents = {tag for tag in its if tag.startswith(AGENT_TAG)}
        return not filters.agent or not agents or AGENT_TAG + filters.agent in agents

    return suits


def _indexed_text(row: Row[Any]) -> IndexedText:
    return IndexedText(row.ord, row.document, row.name, tuple(json.loads(row.path)), row.header, row.text)


def _stored(row: Sequence[Any]) -> StoredPassage:
    path = tuple(json.loads(row[12])) if row[12] != "[]" else ()
    return StoredPassage._make((*row[:12], Locator(path, *row[13:18]), *row[18:]))
