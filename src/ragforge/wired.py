"""The flows with their parts: each is made once, whoever acts."""

from __future__ import annotations

import os
import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

from ragforge.build import Parts, indexed_terms, utc_now
from ragforge.domain.access import Scope
from ragforge.domain.library import Project
from ragforge.errors import NotFound, UserError
from ragforge.flows.follow import LESSONS, Follow
from ragforge.flows.reconcile import Reconcile
from ragforge.once import once
from ragforge.operate import access
from ragforge.operate.budget import Budget
from ragforge.operate.jobs import Bell
from ragforge.ports import Unit

if TYPE_CHECKING:
    from ragforge.domain.records import Artifact
    from ragforge.flows.ask import Ask
    from ragforge.flows.enqueue import Enqueue
    from ragforge.flows.ingest import Ingest
    from ragforge.flows.interview import Interviewer
    from ragforge.flows.keep import Keep
    from ragforge.flows.lessons import Learn
    from ragforge.flows.make import Export, Make
    from ragforge.flows.remove import Remove
    from ragforge.flows.search import Search
    from ragforge.flows.sync import Sync


_LEXICA = 4_096
"""Lessons whose words are remembered: those that are told often."""


class Flows:
    """One of each, shared by all who act on a workspace: every call says in whose scope."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.bell = Bell()

    def close(self) -> None:
        if "follow" in self.__dict__:
            self.follow.finish()
        if "search" in self.__dict__:
            self.search.close()

    def project_for(self, scope: Scope, slug: str) -> Project:
        with self.parts.catalog.read() as c:
            return known_project(c, scope, slug)

    def recover(self) -> None:
        """What a killed process left is everybody's, whoever finds it."""
        self.reconcile.recover(access.owner())

    def forget_searches(self, project: str) -> None:
        """What was found there before may not be found again."""
        if "search" in self.__dict__:
            self.search.forget(project)

    @once
    def enqueue(self) -> Enqueue:
        from ragforge.flows.enqueue import Enqueue

        parts = self.parts
        machine = "" if parts.blobs.shared else parts.node
        return Enqueue(parts.catalog, parts.inbox, self.bell, self.project_for, access.owner(), machine)

    @once
    def ingest(self) -> Ingest:
        from ragforge.flows.ingest import Batching, Ingest, Quota

        limits, ingest = self.parts.settings.limits, self.parts.settings.ingest
        return Ingest(
            self.parts.catalog,
            self.parts.blobs,
            self.parts.parsers,
            self.parts.embedder_of,
            Quota(limits.file_bytes, limits.project_bytes, limits.project_files),
            Batching(ingest.batch_files, ingest.batch_leaves, self.parts.settings.jail.processes),
            self.parts.workspace.resolve(),
            access.owner(),
        )

    @once
    def sync(self) -> Sync:
        from ragforge.flows.sync import Sync

        return Sync(self.ingest)

    @once
    def remove(self) -> Remove:
        from ragforge.flows.remove import Remove

        return Remove(
            self.parts.catalog,
            self.parts.blobs,
            self.parts.workspace,
            self.follow.erase,
            self.follow.drop,
            self.reconcile.write_state,
            access.owner(),
        )

    @once
    def reconcile(self) -> Reconcile:
        parts = self.parts
        return Reconcile(parts.catalog, parts.blobs, self.follow, parts.workspace, has_others=bool(parts.node))

    @once
    def follow(self) -> Follow:
        parts = self.parts
        return Follow(
            parts.catalog,
            access.owner(),
            parts.indexes,
            indexed_terms,
            parts.indexes_folder,
            parts.engines,
            parts.node,
        )

    @once
    def search(self) -> Search:
        from ragforge.flows.search import Search

        parts = self.parts
        return Search(
            parts.catalog,
            access.owner(),
            self.follow,
            parts.indexes,
            indexed_terms,
            self.project_for,
            parts.embedder_of,
            parts.reranker,
            self.parts.settings.search.cached_questions,
            parts.counters,
            parts.searches_at_once,
        )

    @once
    def ask(self) -> Ask:
        from ragforge.assemble.assemble import load_templates
        from ragforge.flows.ask import Ask

        parts = self.parts
        return Ask(
            parts.catalog,
            self.search,
            self.project_for,
            parts.embedder_of,
            lambda: load_templates(self.parts.workspace / "templates"),
            utc_now,
            self.keep,
        )

    @once
    def keep(self) -> Keep:
        from ragforge.flows.keep import Keep

        parts, how = self.parts, self.parts.settings.ask
        return Keep(
            parts.catalog,
            access.owner(),
            parts.embedder_of,
            utc_now,
            log=how.log,
            log_text=how.log_text,
            log_days=how.log_days,
        )

    @once
    def learn(self) -> Learn:
        from ragforge.flows.lesson_index import LessonIndex
        from ragforge.flows.lessons import Learn, Words
        from ragforge.learn.match import Lexical
        from ragforge.operate.logs import Redactor, known_secrets
        from ragforge.operate.secrets import IN_TEXTS
        from ragforge.retrieve.words import index_terms, query_words

        @lru_cache(_LEXICA)
        def lexicon(text: str) -> Lexical:
            words = query_words(text)
            return Lexical(frozenset(group[0] for group in words.groups), frozenset(words.codes))

        parts = self.parts
        return Learn(
            parts.catalog,
            access.owner(),
            parts.lessons_embedder,
            LessonIndex(
                parts.catalog, access.owner(), parts.lesson_indexes, index_terms, parts.indexes_folder / LESSONS
            ),
            Words(lexicon, query_words),
            lambda: Redactor(known_secrets(parts.settings, os.environ), IN_TEXTS),
            parts.catalog.now,
            parts.settings.learn.embedder,
        )

    @once
    def interviewer(self) -> Interviewer:
        from ragforge.discover import knowledge
        from ragforge.flows.interview import Interviewer

        parts, how = self.parts, self.parts.settings.ask
        parts.in_flight.recover(self.recover)
        return Interviewer(
            parts.catalog,
            self.search,
            self.project_for,
            parts.embedder_of,
            lambda: knowledge.load(parts.workspace / "discovery"),
            self.reconcile.org_context_file,
            self.reconcile.write_state,
            lambda: parts.in_flight.working(self.recover),
            access.owner(),
            utc_now,
            log=how.log,
            log_text=how.log_text,
        )

    @once
    def budget(self) -> Budget:
        return Budget(self.parts.catalog, utc_now)

    @once
    def make(self) -> Make:
        from ragforge.assemble.assemble import load_templates
        from ragforge.flows.make import Make

        return Make(
            self.parts.catalog,
            self.search,
            self.project_for,
            lambda: load_templates(self.parts.workspace / "templates"),
            self.export,
            utc_now,
            self.budget.check,
            log=self.parts.settings.ask.log,
            log_text=self.parts.settings.ask.log_text,
        )

    @once
    def export(self) -> Export[Artifact]:
        from ragforge.answer.artifacts import markdown
        from ragforge.flows.make import Export

        return Export({".md": lambda artifact: markdown(artifact).encode(errors="replace"), ".docx": self.parts.docx})


def known_project(c: Unit, scope: Scope, slug: str) -> Project:
    """A project by its slug, or by the name that gives it."""
    try:
        return c.projects.get(scope, slug)
    except NotFound:
        if slug_of(slug) == slug:
            raise
        return c.projects.get(scope, slug_of(slug))


def slug_of(name: str) -> str:
    """A project's name as it is typed: lower case, words joined by dashes."""
    folded = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", folded).strip("-")[:64]
    if not slug:
        raise UserError(f"{name!r} has no letters or digits to name a project by", hint="use letters a to z or digits")
    return slug
