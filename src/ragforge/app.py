"""Ragforge: one method for each thing a user can do. No logic of its own."""

from __future__ import annotations

import os
import re
import time
import unicodedata
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ragforge.build import Parts, indexed_terms, make_workspace, utc_now
from ragforge.domain.access import Clearance, Scope
from ragforge.domain.answers import Event as AnswerEvent
from ragforge.domain.answers import Result
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.conversation import Conversation
from ragforge.domain.evaluation import Comparison, ImportReport, QuestionSet, Run, RunDetails
from ragforge.domain.generation import Sampling
from ragforge.domain.library import (
    AddReport,
    Chunk,
    Document,
    FileResult,
    Finding,
    Job,
    Labels,
    Outcome,
    Progress,
    Project,
    Removal,
    Status,
)
from ragforge.domain.models import ModelState, PulledModel
from ragforge.domain.retrieval import Filters, Retrieved, Tuning
from ragforge.domain.strategy import Strategy
from ragforge.errors import NotFound, StoreError, UserError
from ragforge.flows.follow import STEP, Follow, in_full
from ragforge.flows.reconcile import Reconcile
from ragforge.ingest.walk import key_of
from ragforge.once import once
from ragforge.operate import access
from ragforge.operate.jobs import JobRunner
from ragforge.ports import Embedder, Unit
from ragforge.settings import Settings, load

if TYPE_CHECKING:
    from ragforge.domain.tokens import Vector
    from ragforge.flows.ask import Ask, Asking, Models
    from ragforge.flows.ingest import Ingest
    from ragforge.flows.remove import Remove
    from ragforge.flows.search import Search
    from ragforge.flows.sync import Sync

Event = TypeVar("Event")
Paths = Sequence[str | os.PathLike[str]]


class Ragforge:
    """A workspace: projects of documents you can ask."""

    def __init__(self, parts: Parts, scope: Scope, *, created: bool = False) -> None:
        self._parts = parts
        self._scope = scope
        self.settings = parts.settings
        self.workspace = parts.workspace
        self.created = created
        self.notices = parts.notices
        """What a person should know about what was done, such as a fallback that was taken."""

    @classmethod
    def open(
        cls,
        workspace: str | os.PathLike[str] | Settings | None = None,
        *,
        create: bool = True,
        embedders: Mapping[str, Embedder] | None = None,
    ) -> Self:
        """Open a workspace, making it if it does not exist. `embedders` adds some of your own by name."""
        settings = (
            workspace if isinstance(workspace, Settings) else load(None if workspace is None else Path(workspace))
        )
        created = make_workspace(settings.workspace, create=create)
        return cls(Parts(settings, embedders), access.owner(), created=created)

    @classmethod
    def outside(cls, settings: Settings) -> Self:
        """Without a workspace: for models alone."""
        return cls(Parts(settings), access.owner())

    def close(self) -> None:
        if "_follow" in self.__dict__:
            self._follow.finish()
        if "_search" in self.__dict__:
            self._search.close()
        self._parts.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    # -- projects

    def create_project(self, name: str, *, strategy: Strategy | None = None, embedder: str | None = None) -> Project:
        """Make a project. Its splitter and model are fixed until `reindexing`."""
        if embedder is None:
            model, notice = self._parts.new_projects_embedder()
            self.notices += [notice] if notice else []
        else:
            model = self._parts.embedder(embedder)
        strategy = strategy or self._parts.strategy()
        chunker = strategy.fingerprint(model.tokenizer.fingerprint)
        with self._parts.catalog.write() as c:
            project = c.projects.create(self._scope, name, slug_of(name), strategy, chunker, model.card)
        self._reconcile.write_state(self._scope, project.slug)
        return project

    def projects(self) -> list[Project]:
        with self._parts.catalog.read() as c:
            return c.projects.all(self._scope)

    def project(self, slug: str) -> Project:
        """A project by its slug, or by the name that gives it."""
        with self._parts.catalog.read() as c:
            return self._known(c, slug)

    def _project_for(self, scope: Scope, slug: str) -> Project:
        with self._parts.catalog.read() as c:
            return self._known(c, slug, scope)

    def _known(self, c: Unit, slug: str, scope: Scope | None = None) -> Project:
        scope = scope or self._scope
        try:
            return c.projects.get(scope, slug)
        except NotFound:
            if slug_of(slug) == slug:
                raise
            return c.projects.get(scope, slug_of(slug))

    def rename_project(self, slug: str, name: str) -> Project:
        project = self.project(slug)
        with self._parts.catalog.write() as c:
            c.projects.rename(self._scope, project.id, name, slug_of(name))
            renamed = c.projects.get(self._scope, slug_of(name))
        self._reconcile.forget_state(slug)
        self._reconcile.write_state(self._scope, renamed.slug)
        return renamed

    def remove_project(self, slug: str) -> list[Removal]:
        """Remove a project with all its files; the proofs of their deletion come back."""
        known = self.project(slug)
        with self._parts.in_flight.working(self._recover):
            removals = list(self._remove.whole_project(self._scope, known.id, known.slug))
            self._parts.drop_indexes(known.id)
            self._follow.tidy()
            self._reconcile.forget_state(known.slug)
        return removals

    def _ensure_project(self, slug: str) -> Project:
        try:
            return self.project(slug)
        except NotFound:
            name, slug = slug, slug_of(slug)
        try:
            return self.create_project(name)
        except UserError:  # perhaps another was quicker
            if any(project.slug == slug for project in self.projects()):
                return self.project(slug)
            raise

    # -- files

    def add(
        self,
        paths: str | os.PathLike[str] | Paths,
        *,
        project: str = "default",
        labels: Labels | None = None,
        retry: bool = False,
        cancel: Cancel | None = None,
    ) -> AddReport:
        """Add files and folders; returns when all are durable."""
        began = time.monotonic()
        chosen = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        events = self.adding(chosen, project=project, labels=labels, retry=retry, cancel=cancel)
        files = tuple(event for event in events if isinstance(event, FileResult))
        return AddReport(files, time.monotonic() - began)

    def adding(
        self,
        paths: Paths,
        *,
        project: str = "default",
        labels: Labels | None = None,
        retry: bool = False,
        cancel: Cancel | None = None,
    ) -> Iterator[FileResult | Progress]:
        """Like `add`, told file by file: each result is sent when it is durable."""
        cancel = cancel or Cancel()
        slug = self._ensure_project(project).slug
        events = self._ingest.add(self._scope, slug, paths, labels, cancel, retry=retry)
        yield from self._at_work("add", slug, {"paths": len(paths)}, events, cancel)

    def syncing(
        self,
        folder: str | os.PathLike[str],
        *,
        project: str = "default",
        labels: Labels | None = None,
        cancel: Cancel | None = None,
        retry: bool = False,
        dry_run: bool = False,
        allow_empty: bool = False,
    ) -> Iterator[FileResult | Progress]:
        """Mirror a folder: add what is new or changed, remove what is gone. `dry_run` only tells what would go."""
        cancel = cancel or Cancel()
        if dry_run:
            gone = self._sync.gone(self._scope, self.project(project).slug, Path(folder), allow_empty=allow_empty)
            yield from (FileResult(key, Outcome.REMOVED) for key in gone)
            return
        slug = self._ensure_project(project).slug
        events = self._sync.once(self._scope, slug, Path(folder), labels, cancel, retry=retry, allow_empty=allow_empty)
        yield from self._at_work("sync", slug, {"folder": os.fspath(folder)}, events, cancel)

    def watching(
        self,
        folder: str | os.PathLike[str],
        *,
        project: str = "default",
        labels: Labels | None = None,
        cancel: Cancel | None = None,
    ) -> Iterator[FileResult | Progress]:
        """Mirror a folder and keep doing it until `cancel` is set."""
        cancel = cancel or Cancel()
        slug = self._ensure_project(project).slug
        events = self._sync.watch(self._scope, slug, Path(folder), labels, cancel)
        yield from self._at_work("watch", slug, {"folder": os.fspath(folder)}, events, cancel)

    def documents(self, *, project: str = "default", status: Status | None = None) -> list[Document]:
        with self._parts.catalog.read() as c:
            return c.documents.all(self._scope, self._known(c, project).id, status)

    def document(self, id: str, *, project: str = "default") -> Document:
        """A document by its id, the beginning of its id, its name or its path."""
        return self.find([id], project=project)[0]

    def find(self, ids: Sequence[str], *, project: str = "default") -> list[Document]:
        """Documents by id, the beginning of an id, name or path; each once."""
        with self._parts.catalog.read() as c:
            known = self._known(c, project).id
            named = self._all_named(c, known, project, ids)
            found = {document.id: document for document in c.documents.get(self._scope, known, named)}
        return [found[name] for name in named]

    def _all_named(self, c: Unit, project: str, slug: str, ids: Sequence[str]) -> list[str]:
        """The documents' ids, each once. Those that are given whole may be very many."""
        whole = c.documents.known(self._scope, project, ids)
        return list(dict.fromkeys(id if id in whole else self._named(c, project, slug, id) for id in ids))

    def _named(self, c: Unit, project: str, slug: str, id: str) -> str:
        id = key_of(id)
        names = c.documents.find(self._scope, project, id)
        names = names or c.documents.find(self._scope, project, key_of(os.path.abspath(id)))
        if not names:
            raise NotFound(f"no file {id!r} in project {slug!r}", hint="ragforge ls shows the files and their ids")
        if len(names) > 1:
            raise UserError(f"{id!r} could be {len(names)} files", hint=f"use an id: {', '.join(sorted(names)[:5])}")
        return names[0]

    def chunks(self, id: str, *, project: str = "default") -> list[Chunk]:
        document = self.document(id, project=project)
        with self._parts.catalog.read() as c:
            return c.documents.chunks(self._scope, document.project, document.id)

    def removing(self, ids: Sequence[str], *, project: str = "default") -> Iterator[Removal]:
        """Delete documents from everything; a proof follows for each."""
        known = self.project(project)
        documents = [document.id for document in self.find(ids, project=project)]
        with self._parts.in_flight.working(self._recover):
            yield from self._remove(self._scope, known.id, known.slug, documents)
        if "_search" in self.__dict__:
            self._search.forget(known.id)

    def enable(self, ids: Sequence[str], on: bool, *, project: str = "default") -> list[Document]:
        """Turn documents ON or OFF: OFF ones stay, but are never found."""
        documents = self.find(ids, project=project)
        with self._parts.catalog.write() as c:
            known = self._known(c, project)
            c.documents.enable(self._scope, known.id, [document.id for document in documents], on)
            return c.documents.get(self._scope, known.id, [document.id for document in documents])

    def label(
        self,
        ids: Sequence[str],
        *,
        project: str = "default",
        source_type: str | None = None,
        tags: Sequence[str] | None = None,
        confidentiality: Clearance | None = None,
    ) -> list[Document]:
        """Change what is said of documents: type, tags, confidentiality."""
        documents = self.find(ids, project=project)
        with self._parts.catalog.write() as c:
            known = self._known(c, project)
            names = [document.id for document in documents]
            c.documents.label(
                self._scope, known.id, names, source_type=source_type, tags=tags, confidentiality=confidentiality
            )
            return c.documents.get(self._scope, known.id, names)

    # -- finding

    def search(
        self,
        question: str,
        *,
        project: str = "default",
        k: int | None = None,
        filters: Filters | None = None,
        tuning: Tuning | None = None,
        vector: Vector | None = None,
        context: bool = False,
        fresh: bool = False,
        cancel: Cancel | None = None,
    ) -> Retrieved:
        """Passages for a question, best first. `vector` spares embedding it, `fresh` the cache of results."""
        return self._ask(question, project, k, filters, tuning, cancel, vector=vector, context=context, fresh=fresh)

    def explain(
        self,
        question: str,
        *,
        project: str = "default",
        k: int | None = None,
        filters: Filters | None = None,
        tuning: Tuning | None = None,
        vector: Vector | None = None,
        cancel: Cancel | None = None,
    ) -> Retrieved:
        """Like `search`, with the trace of every candidate through every stage."""
        return self._ask(question, project, k, filters, tuning, cancel, vector=vector, explain=True)

    def _ask(
        self,
        question: str,
        project: str,
        k: int | None,
        filters: Filters | None,
        tuning: Tuning | None,
        cancel: Cancel | None,
        **how: Any,
    ) -> Retrieved:
        from ragforge.flows.search import Asked

        tuning = tuning or self._parts.tuning
        tuning = tuning if k is None else replace(tuning, k=k)
        asked = Asked(question, tuning, self._resolved(filters or Filters(), project), **how)
        return self._search(self._scope, project, asked, cancel or Cancel())

    def ask(self, question: str, *, project: str = "default", **how: Any) -> Result:
        """An answer with checked citations, or an abstention that says why. `how` is as for `stream`."""
        return self._ask_flow(self._scope, project, self._asking(question, how), self._models(how), _cancel(how))

    def stream(
        self,
        question: str,
        *,
        project: str = "default",
        model: str | None = None,
        conversation: str = "",
        ephemeral: bool = False,
        lock: bool = False,
        filters: Filters | None = None,
        cancel: Cancel | None = None,
    ) -> Iterator[AnswerEvent]:
        """The same as it comes: passages, decisions, tokens, citations, usage, and the result at the end.

        `model` is a name or a profile; `offline` quotes without one. In a conversation, follow-ups are understood.
        """
        how = {
            "model": model,
            "conversation": conversation,
            "ephemeral": ephemeral,
            "lock": lock,
            "filters": filters,
            "cancel": cancel,
        }
        asking, models = self._asking(question, how), self._models(how)
        return self._ask_flow.stream(self._scope, project, asking, models, _cancel(how))

    def _asking(self, question: str, how: Mapping[str, Any]) -> Asking:
        from ragforge.flows.ask import Asking

        settings = self.settings.model
        given = {name: how[name] for name in ("conversation", "ephemeral", "lock", "filters") if how.get(name)}
        return Asking(question, self.tuning(), sampling=Sampling(settings.temperature, settings.max_tokens), **given)

    def _models(self, how: Mapping[str, Any]) -> Models:
        from ragforge.flows.ask import Models

        main = self._parts.language_model(how.get("model") or "")
        return Models(main, None if main is None else self._parts.language_model("cheap"))

    def begin_conversation(self, title: str, *, project: str = "default") -> Conversation:
        """A thread whose turns are remembered."""
        with self._parts.catalog.write() as c:
            return c.conversations.begin(self._scope, self._known(c, project).id, title)

    def tuning(self) -> Tuning:
        """How passages are found unless a question says otherwise."""
        return self._parts.tuning

    def _resolved(self, filters: Filters, project: str) -> Filters:
        """Files named in a filter, by id, name or path, as their ids."""
        if not filters.documents:
            return filters
        with self._parts.catalog.read() as c:
            named = self._all_named(c, self._known(c, project).id, project, filters.documents)
        return replace(filters, documents=tuple(named))

    def rebuilding(self, *, project: str = "default", cancel: Cancel | None = None) -> Iterator[Progress]:
        """Build a project's indexes anew from the catalog alone; searches go on meanwhile."""
        known, cancel = self.project(project), cancel or Cancel()
        events = self._follow.rebuild(known.id, cancel)
        yield from self._at_work("rebuild", known.slug, {}, events, cancel)

    # -- evaluation

    def importing_questions(
        self,
        path: str | os.PathLike[str],
        *,
        project: str = "default",
        name: str = "",
        split: str = "",
        corpus: str | os.PathLike[str] | None = None,
        with_corpus: bool = True,
        documents: str | os.PathLike[str] | None = None,
        cancel: Cancel | None = None,
    ) -> Iterator[FileResult | Progress | ImportReport]:
        """Questions whose documents are known, and the documents that come with them; the report is the last event."""
        from ragforge.flows.evaluate import ImportQuestions, ImportRequest

        request = ImportRequest(
            Path(path),
            name,
            split,
            None if corpus is None else Path(corpus),
            with_corpus,
            None if documents is None else Path(documents),
        )
        questions = ImportQuestions(
            self._parts.catalog,
            lambda: self._ensure_project(project),
            self.workspace,
            lambda known, files: self.adding(files, project=known.slug, cancel=cancel),
        )
        yield from questions(self._scope, request)

    def question_sets(self, *, project: str = "default") -> list[QuestionSet]:
        with self._parts.catalog.read() as c:
            return c.evaluations.question_sets(self._scope, self._known(c, project).id)

    def evaluating(
        self,
        questions: str,
        *,
        project: str = "default",
        tuning: Tuning | None = None,
        label: str = "",
        cancel: Cancel | None = None,
    ) -> Iterator[Progress | Run]:
        """Search for every question of a set and measure what is found; the stored run is the last event."""
        from ragforge.flows.evaluate import Evaluate

        known = self.project(project)
        cancel, chosen = cancel or Cancel(), tuning or self._parts.tuning
        if chosen.alpha is None and chosen.fusion == "weighted":  # a run's record says which share was used
            with self._parts.catalog.read() as c:
                chosen = replace(chosen, alpha=c.passages.moment(self._scope, known.id).fusion_weight)

        def search(question: str) -> Retrieved:
            return self.search(question, project=known.slug, tuning=chosen, fresh=True, cancel=cancel)

        evaluate = Evaluate(self._parts.catalog, search, utc_now)
        settings = self._parts.ranking(known, chosen)
        yield from evaluate(self._scope, known.id, questions, chosen.k, settings, label, cancel)

    def evaluations(self, *, project: str = "default") -> list[Run]:
        """All runs, newest first."""
        with self._parts.catalog.read() as c:
            return c.evaluations.runs(self._scope, self._known(c, project).id)

    def evaluation(self, run: str, *, project: str = "default") -> RunDetails:
        """A run with each of its questions, by id, the beginning of its id, its label, or `last`."""
        from ragforge.flows.evaluate import Runs

        return Runs(self._parts.catalog).details(self._scope, self.project(project).id, run)

    def compare_evaluations(self, before: str, after: str, *, project: str = "default") -> Comparison:
        """How two runs over the same questions differ, and whether it could be chance."""
        from ragforge.flows.evaluate import Runs

        return Runs(self._parts.catalog).compare(self._scope, self.project(project).id, before, after)

    # -- generations

    def reindexing(
        self,
        *,
        project: str = "default",
        strategy: Strategy | None = None,
        embedder: str | None = None,
        cancel: Cancel | None = None,
    ) -> Iterator[Progress]:
        """Split and embed a project anew where its splitter or model changed; searches go on meanwhile."""
        from ragforge.flows.reindex import Reindex

        cancel = cancel or Cancel()
        known = self.project(project)
        reindex = Reindex(self._parts.catalog, self._follow, self.settings.ingest.batch_leaves)
        events = reindex(
            self._scope, known, strategy or known.strategy, self._parts.embedder(embedder or known.embedder), cancel
        )
        payload = {"strategy": (strategy or known.strategy).name, "embedder": embedder or known.embedder}
        yield from self._at_work("reindex", project, payload, events, cancel)

    def check(self, *, project: str | None = None, repair: bool = False) -> list[Finding]:
        """Compare the catalog with everything derived from it; first clear what a killed process left."""
        in_flight, reconcile = self._parts.in_flight, self._reconcile
        if in_flight.recover(self._recover):
            reconcile.sweep_vectors(self._scope)
        self._parts.catalog.flush()
        with in_flight.alone() as alone:
            stray = reconcile.stray(self._scope, alone=alone, repair=repair)
            catalog = reconcile.catalog_findings(self._scope, alone=alone, repair=repair)
        return [*catalog, *reconcile.check(self._scope, project, repair=repair), stray]

    def doctor(self) -> list[Finding]:
        """What works here, what is missing and how to get it."""
        from ragforge.ingest.jail.walls import findings, probe
        from ragforge.operate.doctor import examine

        return [
            *examine(self.workspace, self._parts.models(), self.settings.embed.model, self.settings.embed.fallback),
            *self._parts.catalog.inspect(),
            *findings(probe()),
        ]

    # -- models and jobs

    def models(self) -> list[ModelState]:
        return self._parts.models()

    def pull_model(
        self,
        name: str,
        *,
        source: Path | None = None,
        progress: Callable[[str, int, int], None] = lambda what, done, total: None,
    ) -> PulledModel:
        """Get a model's weights, verified."""
        return self._parts.pull_model(name, source, progress)

    def jobs(self, *, project: str | None = None) -> list[Job]:
        with self._parts.catalog.read() as c:
            known = None if project is None else self._known(c, project).id
            return c.jobs.all(self._scope, known)

    def cancel_job(self, id: str) -> None:
        with self._parts.catalog.write() as c:
            c.jobs.cancel(self._scope, id)

    # -- parts

    @once
    def _ingest(self) -> Ingest:
        from ragforge.flows.ingest import Batching, Ingest, Quota

        limits, ingest = self.settings.limits, self.settings.ingest
        return Ingest(
            self._parts.catalog,
            self._parts.blobs,
            self._parts.parsers,
            self._parts.embedder_of,
            Quota(limits.file_bytes, limits.project_bytes, limits.project_files),
            Batching(ingest.batch_files, ingest.batch_leaves, self.settings.jail.processes),
            self.workspace.resolve(),
        )

    @once
    def _sync(self) -> Sync:
        from ragforge.flows.sync import Sync

        return Sync(self._ingest)

    @once
    def _remove(self) -> Remove:
        from ragforge.flows.remove import Remove

        return Remove(
            self._parts.catalog,
            self._parts.blobs,
            self.workspace,
            self._follow.erase,
            self._follow.drop,
            self._reconcile.write_state,
        )

    @once
    def _reconcile(self) -> Reconcile:
        return Reconcile(self._parts.catalog, self._parts.blobs, self._follow, self.workspace)

    @once
    def _follow(self) -> Follow:
        parts = self._parts
        return Follow(parts.catalog, access.owner(), parts.indexes, indexed_terms, parts.indexes_folder, parts.engines)

    @once
    def _search(self) -> Search:
        from ragforge.flows.search import Search

        parts = self._parts
        return Search(
            parts.catalog,
            access.owner(),
            self._follow,
            parts.indexes,
            indexed_terms,
            self._project_for,
            parts.embedder_of,
            parts.reranker,
            self.settings.search.cached_questions,
        )

    @once
    def _ask_flow(self) -> Ask:
        from ragforge.assemble.assemble import load_templates
        from ragforge.flows.ask import Ask
        from ragforge.flows.keep import Keep

        parts = self._parts
        keep = Keep(parts.catalog, parts.embedder_of, lambda: parts.language_model("cheap"), utc_now, log=True)
        return Ask(
            parts.catalog,
            self._search,
            self._project_for,
            parts.embedder_of,
            lambda: load_templates(self.workspace / "templates"),
            utc_now,
            keep,
        )

    def _recover(self) -> None:
        self._reconcile.recover(self._scope)

    def _at_work(
        self, kind: str, slug: str, payload: Mapping[str, object], events: Iterator[Event], cancel: Cancel
    ) -> Iterator[Event]:
        """Run long work as a job, counted as in flight; the state file is current when it ends."""
        project = self.project(slug)
        with self._parts.in_flight.working(self._recover) as recovered:
            try:
                running = JobRunner(self._parts.catalog).run(self._scope, project.id, kind, payload, events, cancel)
                yield from self._followed(project.id, running, cancel)
            finally:
                with suppress(NotFound):  # the project may have been removed meanwhile
                    with self._parts.catalog.write() as c:
                        c.changes.prune(self._scope, project.id)
                        slug = c.projects.with_id(self._scope, project.id).slug
                    self._reconcile.write_state(self._scope, slug)
            if recovered:
                self._reconcile.sweep_vectors(self._scope)

    def _followed(self, project: str, events: Generator[Event, None, None], cancel: Cancel) -> Iterator[Event]:
        """The same events; the indexes keep up with what they bring. A search does not wait for that."""
        new, removed = 0, False
        with closing(events):
            for event in events:
                yield event
                if isinstance(event, FileResult):
                    new += event.chunks
                    removed = removed or event.outcome == Outcome.REMOVED
                if new >= STEP or (isinstance(event, Progress) and event.stage == "watching"):
                    self._keep_up(project, cancel, removed=removed)
                    new, removed = 0, False
        self._keep_up(project, cancel, removed=removed)

    def _keep_up(self, project: str, cancel: Cancel, *, removed: bool) -> None:
        """What was done is durable whatever becomes of this: an index that fails now catches up later."""
        try:
            if removed:
                self._note(
                    f"removed files are not erased yet from {place}; ragforge check finishes it"
                    for place in self._remove.clear(project, cancel)
                )
            else:
                self._follow.catch_up(project, cancel=cancel)
            self._note(self._follow.news(project))
        except NotFound:  # the project was removed meanwhile
            return
        except Cancelled:
            self._note(
                ["removed files are not erased yet: it was stopped; ragforge check finishes it"] if removed else []
            )
        except StoreError as problem:
            self._note([f"all is kept, but an index could not follow yet: {in_full(problem)}"])

    def _note(self, notices: Iterable[str]) -> None:
        """Each once, however often it comes while a folder is watched."""
        self.notices += [notice for notice in notices if notice not in self.notices]


def slug_of(name: str) -> str:
    """A project's name as it is typed: lower case, words joined by dashes."""
    folded = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", folded).strip("-")[:64]
    if not slug:
        raise UserError(f"{name!r} has no letters or digits to name a project by", hint="use letters a to z or digits")
    return slug


def _cancel(how: Mapping[str, Any]) -> Cancel:
    return how.get("cancel") or Cancel()
