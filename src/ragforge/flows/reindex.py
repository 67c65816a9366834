"""Another splitter or model: a new generation is built beside the live one and swapped in when it is whole.

    begin (or resume) -> split what has no chunks in it -> embed what has no vectors -> swap -> sweep the old one

Turns of conversations are embedded with it, also where nothing else changes: one may have been kept while the model did
not answer. Queries go on with the old generation until the swap. A kill at any moment loses at most one batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from ragforge.domain.access import Scope
from ragforge.domain.cancel import Cancel
from ragforge.domain.documents import Split
from ragforge.domain.library import Generation, Progress, Project, StoredText
from ragforge.domain.strategy import Strategy
from ragforge.domain.tokens import Passage
from ragforge.errors import Outdated
from ragforge.failpoints import failpoint
from ragforge.flows.follow import Follow
from ragforge.flows.recollect import recollect, unembedded
from ragforge.flows.reconcile import sweep
from ragforge.ingest.embed import passages
from ragforge.ingest.split import split
from ragforge.ports import Catalog, Embedder

_FILES = 20


@dataclass(frozen=True, slots=True)
class Reindex:
    """A project into a new generation."""

    catalog: Catalog
    follow: Follow
    leaves: int

    def __call__(
        self, scope: Scope, project: Project, strategy: Strategy, embedder: Embedder, cancel: Cancel
    ) -> Iterator[Progress]:
        began = time.monotonic()
        chunker = strategy.fingerprint(embedder.tokenizer.fingerprint)
        if (chunker, embedder.card.fingerprint) == (project.chunker, project.embedder_fingerprint):
            self._abandon(scope, project)
            yield from self._remember(scope, project, embedder, cancel)
            return
        self.follow.tidy()  # what a killed one left might have the number of the new generation
        with self.catalog.write() as c:
            total = len(c.documents.summaries(scope, project.id))
            target = c.projects.begin(scope, project.id, strategy, chunker, embedder.card)
            before = c.passages.moment(scope, project.id)
        done = embedded = turns = 0
        indexed = False
        while True:  # again for what was added meanwhile
            for count in self._split_all(scope, project, target, embedder, cancel):
                done += count
                yield Progress("splitting", done, total, 0, embedded, time.monotonic() - began, turns)
            for count in self._embed_all(scope, project, target, embedder, cancel, announce=indexed):
                embedded += count
                yield Progress("embedding", total, total, 0, embedded, time.monotonic() - began, turns)
            for count in recollect(self.catalog, scope, project.id, embedder, self.leaves, cancel):
                turns += count
                yield Progress("embedding", total, total, 0, embedded, time.monotonic() - began, turns)
            if not indexed:
                self.follow.whole(project.id, target.number)
            yield Progress("indexing", total, total, 0, embedded, time.monotonic() - began, turns)
            self.follow.catch_up(project.id, target.number, cancel=cancel)
            indexed = True
            if self._swap(scope, project, target):
                break
        self.follow.forget(before)
        sweep(self.catalog, scope, project.id)
        self.follow.tidy()
        yield Progress("done", total, total, 0, embedded, time.monotonic() - began, turns)

    def _remember(self, scope: Scope, project: Project, embedder: Embedder, cancel: Cancel) -> Iterator[Progress]:
        """Nothing changes: only turns that have no vector get one."""
        began, turns = time.monotonic(), 0
        for count in recollect(self.catalog, scope, project.id, embedder, self.leaves, cancel):
            turns += count
            yield Progress("embedding", 0, None, seconds=time.monotonic() - began, turns=turns)
        if turns:
            yield Progress("done", 0, None, seconds=time.monotonic() - began, turns=turns)

    def _abandon(self, scope: Scope, project: Project) -> None:
        """What is wanted is live: what was begun of another splitter or model is not needed."""
        with self.catalog.write() as c:
            if c.projects.building(scope, project.id) is None:
                return
            c.projects.abandon(scope, project.id)
        sweep(self.catalog, scope, project.id)
        self.follow.tidy()

    def _split_all(
        self, scope: Scope, project: Project, target: Generation, embedder: Embedder, cancel: Cancel
    ) -> Iterator[int]:
        """Split every text that has no chunks in the generation; how many at a time."""
        after = 0
        while True:
            cancel.check()
            with self.catalog.read() as c:
                texts = c.documents.unsplit(scope, project.id, target, _FILES, after)
            if not texts:
                return
            after = texts[-1].version
            self._split(scope, project, target, texts, embedder)
            yield len(texts)

    def _split(
        self, scope: Scope, project: Project, target: Generation, texts: list[StoredText], embedder: Embedder
    ) -> None:
        all_tokens = embedder.tokenizer.encode([file.parsed.text for file in texts])
        prepared: list[tuple[StoredText, Split, list[bytes]]] = []
        for file, tokens in zip(texts, all_tokens, strict=True):
            pieces = split(file.parsed, tokens, target.strategy, file.name)
            wanted = passages(file.name, file.parsed, pieces, tokens, embedder.tokenizer)
            prepared.append((file, pieces, [text_hash for text_hash, _ in wanted]))
        failpoint("reindex.splitting")
        with self.catalog.write() as c:
            for file, pieces, hashes in prepared:
                c.documents.put_split(scope, project.id, target, file, pieces, hashes)

    def _embed_all(
        self,
        scope: Scope,
        project: Project,
        target: Generation,
        embedder: Embedder,
        cancel: Cancel,
        *,
        announce: bool,
    ) -> Iterator[int]:
        """Embed every chunk that has no vector of the generation's model; how many at a time.

        `announce`: the indexes have passed these chunks without their vectors, and must hear of them again.
        """
        after = 0
        while True:
            cancel.check()
            with self.catalog.read() as c:
                pending = c.embeddings.pending(scope, project.id, target, self.leaves, after)
            if not pending:
                return
            after = pending[-1].key
            distinct = {chunk.text_hash: Passage(chunk.text) for chunk in pending}
            vectors = embedder.embed(list(distinct.values()), cancel)
            failpoint("reindex.embedding")
            with self.catalog.write() as c:
                c.embeddings.put(scope, project.id, embedder.card, list(distinct), vectors)
                if announce:
                    c.documents.announce(scope, project.id, [chunk.key for chunk in pending])
            yield len(distinct)

    def _swap(self, scope: Scope, project: Project, target: Generation) -> bool:
        """Swap if nothing was added meanwhile; on Postgres that may happen even between the look and the lock."""
        try:
            with self.catalog.write() as c:
                unsplit = c.documents.unsplit(scope, project.id, target, 1)
                if unsplit or c.embeddings.pending(scope, project.id, target, 1):
                    return False
                if any(unembedded(c, scope, project.id, target.embedder_fingerprint)):
                    return False
                failpoint("reindex.swapping")
                c.projects.swap(scope, project.id)
        except Outdated:
            with self.catalog.read() as c:
                if c.projects.building(scope, project.id) != target:
                    raise
            return False
        failpoint("reindex.swapped")
        return True
