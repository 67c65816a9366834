"""Vectors for turns that have none of the project's model: kept while it did not answer, or before it was chosen.

turns and rollups without one -> a batch -> embedded -> stored where they are still as they were
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ragforge.domain.access import Scope
from ragforge.domain.cancel import Cancel
from ragforge.domain.conversation import Rollup, Turn
from ragforge.domain.tokens import Passage
from ragforge.errors import NotFound
from ragforge.failpoints import failpoint
from ragforge.ports import Catalog, Embedder, Unit
from ragforge.remember.words import text_of

if TYPE_CHECKING:
    from ragforge.domain.tokens import Vector


class Unembedded(NamedTuple):
    """A turn or a rollup without a vector."""

    conversation: str
    id: str
    text: str


def unembedded(
    c: Unit, scope: Scope, project: str, fingerprint: str, only: Collection[str] | None = None
) -> Iterator[Unembedded]:
    """What has no vector of this model, in all conversations or in those that are named and still there."""
    for talk in [each.id for each in c.conversations.all(scope, project)] if only is None else sorted(only):
        known_by = (scope, project, talk)
        with suppress(NotFound):
            if missing := c.conversations.unembedded(*known_by, fingerprint):
                known: list[Turn | Rollup] = [*c.conversations.turns(*known_by), *c.conversations.rollups(*known_by)]
                texts = {each.id: text_of(each) for each in known}
                yield from (Unembedded(talk, id, texts[id]) for id in missing)


def put_vectors(
    c: Unit, scope: Scope, project: str, fingerprint: str, found: Sequence[Unembedded], vectors: Iterable[Vector]
) -> int:
    """Store the vectors of what is still as it was; how many.

    A turn may have been removed meanwhile, or words of another that its question was rewritten with.
    """
    as_before = set(unembedded(c, scope, project, fingerprint, {each.conversation for each in found}))
    stored = [(each.id, vector) for each, vector in zip(found, vectors, strict=True) if each in as_before]
    for id, vector in stored:
        c.conversations.put_vector(scope, project, id, fingerprint, vector.tobytes())
    return len(stored)


def recollect(
    catalog: Catalog, scope: Scope, project: str, embedder: Embedder, batch: int, cancel: Cancel
) -> Iterator[int]:
    """Embed all of it; how many at a time. Each batch is stored before the next one is begun."""
    fingerprint = embedder.card.fingerprint
    while True:
        cancel.check()
        with catalog.read() as c:
            found = list(islice(unembedded(c, scope, project, fingerprint), batch))
        if not found:
            return
        vectors = embedder.embed([Passage(each.text) for each in found], cancel)
        failpoint("reindex.remembering")
        with catalog.write() as c:
            stored = put_vectors(c, scope, project, fingerprint, found, vectors)
        yield stored
