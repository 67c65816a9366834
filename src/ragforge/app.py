"""Ragforge: one method for each thing a user can do. No logic of its own."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from io import BufferedReader
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypedDict, TypeVar, Unpack

from ragforge.build import PROFILES, Parts, make_workspace, migration, new_place, old_workspace, take_back, utc_now
from ragforge.domain.access import Clearance, Scope
from ragforge.domain.answers import Abstention, DoneEvent, Prompted, Result
from ragforge.domain.answers import Event as AnswerEvent
from ragforge.domain.archives import BackupReport, ExportReport, ImportedProject, RestoreReport
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.conversation import LONGEST_TITLE, Conversation, ConversationKind, Rollup, Turn
from ragforge.domain.cursor import Cursor
from ragforge.domain.evaluation import Comparison, Feedback, ImportReport, Question, QuestionSet, Run, RunDetails
from ragforge.domain.generation import Estimate, Sampling
from ragforge.domain.library import (
    SERVER,
    UPLOAD,
    AddReport,
    Chunk,
    ChunkPlace,
    Document,
    FileResult,
    Finding,
    Job,
    Labels,
    Node,
    Outcome,
    OwnProgress,
    Priority,
    Progress,
    Project,
    Removal,
    Status,
)
from ragforge.domain.migration import MigrationReport
from ragforge.domain.models import LanguageModels, ModelState, PulledModel
from ragforge.domain.pending import Pending, waited
from ragforge.domain.prompts import Shaping
from ragforge.domain.records import Artifact, LogEntry, ProjectText, ProjectTextKind, Spent
from ragforge.domain.retrieval import Filters, Retrieved, Tuning
from ragforge.domain.strategy import Strategy
from ragforge.errors import NotFound, RagforgeError, StoreError, UserError
from ragforge.flows.follow import STEP, in_full
from ragforge.ingest.walk import Found, key_of
from ragforge.operate import access, telemetry
from ragforge.operate.counters import Counters
from ragforge.operate.inbox import Inbox, Received
from ragforge.operate.jobs import JobRunner
from ragforge.operate.nodes import Neighbour
from ragforge.operate.worker import Duties, Worker
from ragforge.ports import Embedder, LanguageModel, Unit
from ragforge.settings import Settings, load, reloaded
from ragforge.wired import Flows, known_project, slug_of

if TYPE_CHECKING:
    from ragforge.answer.agents import Agent
    from ragforge.answer.outline import Outline
    from ragforge.discovery import Discovery
    from ragforge.domain.tokens import Matrix, Vector
    from ragforge.flows.ask import Asking, Models
    from ragforge.flows.evaluate import Evaluate
    from ragforge.flows.make import MakeEvent
    from ragforge.lessons import Lessons

Event = TypeVar("Event")
Paths = Sequence[str | os.PathLike[str]]


LAST = "last"
_MOST_ALIKE = 100
"""Entries of the log that are looked at when the beginning of an id is given."""


class _WithId(Protocol):
    @property
    def id(self) -> str: ...


HasId = TypeVar("HasId", bound=_WithId)


class AskOptions(TypedDict, total=False):
    """How one question is answered, where that differs from the settings."""

    model: str
    """`provider:model`, a profile (`cheap`, `balanced`, `premium`), or `offline`: sentences are quoted without one."""
    agent: str
    """Whose persona, profile and sampling to use, and whose files to search: this agent's, and everyone's."""
    conversation: str
    """Its id: follow-ups are understood, and the turn is remembered."""
    history: Sequence[Turn]
    """Turns that you keep yourself, after those of the conversation or instead; `turn_of` makes them."""
    ephemeral: bool
    """Nothing is kept: no turn, no line in the log."""
    lock: bool
    """Exact File Lock: only the files that the question names."""
    stages: Collection[str]
    """Some of memory, shape, inject, gate, condense."""
    strictness: float
    filters: Filters
    tuning: Tuning
    system: str
    """More instructions, beside the persona."""
    output: str
    """What the answer should look like, in words."""
    shaping: Shaping
    """What you say of its intent, domain and headings; the rest is proposed."""
    temperature: float
    max_tokens: int
    stop: tuple[str, ...]
    prompted: Prompted
    """Send exactly this prompt, which `prompt` made and somebody may have changed."""
    request: str
    """The id of what brought the question; the trace id and every call of a provider begin with it."""
    cancel: Cancel


class Ragforge:
    """A workspace: projects of documents you can ask."""

    def __init__(self, parts: Parts, scope: Scope, *, created: bool = False, flows: Flows | None = None) -> None:
        self._parts = parts
        self._scope = scope
        self._flows = flows or Flows(parts)
        self.settings = parts.settings
        self.workspace = parts.workspace
        self.created = created
        self._in_a_job = False
        self.notices = parts.notices if flows is None else []
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

    def acting(self, scope: Scope) -> Self:
        """The same workspace in somebody's scope: what they may not reach is not there. This one still closes it."""
        return type(self)(self._parts, scope, flows=self._flows)

    def access(self) -> access.Access:
        """Keys of this workspace, and who brings one."""
        return access.Access(self._parts.catalog, utc_now, ended=self._flows.enqueue.ended)

    def close(self) -> None:
        self._flows.close()
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
        self._flows.reconcile.write_state(access.owner(), project.slug)
        return project

    def usual_strategy(self) -> Strategy:
        """How the texts of a new project are split unless it says otherwise."""
        return self._parts.strategy()

    def require_embedder(self, name: str) -> None:
        """Raises what is wrong with it, if something is."""
        self._parts.embedder(name)

    def projects(self) -> list[Project]:
        with self._parts.catalog.read() as c:
            return c.projects.all(self._scope)

    def project(self, slug: str) -> Project:
        """A project by its slug, or by the name that gives it."""
        with self._parts.catalog.read() as c:
            return self._known(c, slug)

    def _known(self, c: Unit, slug: str) -> Project:
        return known_project(c, self._scope, slug)

    def rename_project(self, slug: str, name: str) -> Project:
        project = self.project(slug)
        with self._parts.catalog.write() as c:
            c.projects.rename(self._scope, project.id, name, slug_of(name))
            renamed = c.projects.get(self._scope, slug_of(name))
        self._flows.reconcile.forget_state(project.slug, renamed.slug)
        self._flows.reconcile.write_state(access.owner(), renamed.slug)
        return renamed

    def remove_project(self, slug: str) -> list[Removal]:
        """Remove a project with all its files; the proofs of their deletion come back."""
        known = self.project(slug)
        with self._parts.catalog.read() as c:
            waiting = c.jobs.unfinished(access.owner(), UPLOAD, known.id)
        with self._parts.in_flight.working(self._flows.recover):
            removals = list(self._flows.remove.whole_project(self._scope, known.id, known.slug))
            self._flows.enqueue.forget(waiting)
            self._parts.drop_indexes(known.id)  # again: a search or a server may have healed them meanwhile
            self._flows.forget_searches(known.id)
            self._flows.reconcile.forget_state(known.slug)
            self._flows.reconcile.tidy(access.owner())
        self._note(f"lessons are not erased yet: {left}" for left in self._flows.learn.forget())
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
        events = self._flows.ingest.add(self._scope, slug, paths, labels, cancel, retry=retry)
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
            gone = self._flows.sync.gone(self._scope, self.project(project).slug, Path(folder), allow_empty=allow_empty)
            yield from (FileResult(key, Outcome.REMOVED) for key in gone)
            return
        slug = self._ensure_project(project).slug
        events = self._flows.sync.once(
            self._scope, slug, Path(folder), labels, cancel, retry=retry, allow_empty=allow_empty
        )
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
        events = self._flows.sync.watch(self._scope, slug, Path(folder), labels, cancel)
        yield from self._at_work("watch", slug, {"folder": os.fspath(folder)}, events, cancel)

    def taking_in(
        self,
        files: Sequence[Found],
        *,
        project: str,
        labels: Labels | None,
        cancel: Cancel,
        jobs: Sequence[Job] = (),
    ) -> Iterator[FileResult | Progress | OwnProgress]:
        """Files of the inbox, as jobs do it; who performs these looks after the indexes."""
        for event in self._flows.ingest.take_in(self._scope, project, files, labels, cancel, jobs=jobs):
            self._count(event)
            yield event

    def documents(
        self,
        *,
        project: str = "default",
        status: Status | None = None,
        limit: int | None = None,
        after: Cursor | None = None,
    ) -> list[Document]:
        """All, or the first so many, in the order in which they came; or those after where a page ended."""
        with self._parts.catalog.read() as c:
            return c.documents.all(self._scope, self._known(c, project).id, status, limit, after)

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
        ids = [ids] if isinstance(ids, str) else ids
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

    def content(self, id: str, *, project: str = "default") -> tuple[Document, BufferedReader]:
        """A document and its original bytes, which the caller closes."""
        document = self.document(id, project=project)
        with self._parts.catalog.read() as c:
            blob = c.documents.blob(self._scope, document.project, document.id)
        try:
            if blob:
                return document, self._parts.blobs.open(blob)
        except FileNotFoundError:  # replaced or removed just now, or lost: `check` tells
            pass
        raise NotFound(f"the bytes of {document.name!r} are not stored", hint="its text may be; see its chunks")

    def removing(self, ids: Sequence[str], *, project: str = "default") -> Iterator[Removal]:
        """Delete documents from everything; a proof follows for each."""
        known = self.project(project)
        documents = [document.id for document in self.find(ids, project=project)]
        with self._parts.in_flight.working(self._flows.recover):
            yield from self._flows.remove(self._scope, known.id, known.slug, documents)
        self._flows.forget_searches(known.id)

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
        return self._found(question, project, k, filters, tuning, cancel, vector=vector, context=context, fresh=fresh)

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
        found = self._found(question, project, k, filters, tuning, cancel, vector=vector, explain=True)
        if self._scope.sees_all or found.trace is None:
            return found
        return replace(found, trace=found.trace.of_nothing_hidden())

    def _found(
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
        with telemetry.span("search"), self._parts.counters.timed("search"):
            return self._flows.search(self._scope, project, asked, cancel or Cancel())

    def text(self, id: str, *, project: str = "default") -> str:
        """A document's whole text, as it was read."""
        document = self.document(id, project=project)
        with self._parts.catalog.read() as c:
            return c.documents.text(self._scope, document.project, document.id)

    def embedded(
        self, texts: Sequence[str], *, project: str = "default", cancel: Cancel | None = None
    ) -> tuple[Matrix, int]:
        """Vectors of texts from a project's own model, and how many tokens they have."""
        from ragforge.domain.tokens import Passage

        known = self.project(project)
        embedder = self._parts.embedder_of(known)
        tokens = sum(map(len, embedder.tokenizer.encode(texts)))
        usage = self._parts.embedding_usage(known.embedder, tokens)
        with self._spending(embedder if usage.calls else None):
            vectors = embedder.embed([Passage(text) for text in texts], cancel or Cancel())
            self._flows.keep.paid(self._scope, known.id, "vectors", known.embedder, usage)
        return vectors, tokens

    # -- answering

    def ask(self, question: str, *, project: str = "default", **how: Unpack[AskOptions]) -> Result:
        """An answer with checked citations, or an abstention that says why."""
        events = self.stream(question, project=project, **how)
        return next(event.result for event in events if isinstance(event, DoneEvent))

    def stream(self, question: str, *, project: str = "default", **how: Unpack[AskOptions]) -> Iterator[AnswerEvent]:
        """The same as it comes: passages, decisions, tokens, citations, usage, and the result at the end."""
        return waited(self.answering(question, project=project, **how))

    def answering(
        self, question: str, *, project: str = "default", **how: Unpack[AskOptions]
    ) -> Iterator[AnswerEvent | Pending]:
        """The same for a caller whose thread is not to wait: while a model thinks, there is a `Pending`."""
        asking, models, cancel = self._asked(question, project, how)
        return self._paying(
            models.main, self._counted(self._flows.ask.stream(self._scope, project, asking, models, cancel))
        )

    def prompt(self, question: str, *, project: str = "default", **how: Unpack[AskOptions]) -> Prompted:
        """Exactly what `ask` would send, with its tokens and price. Nothing is sent to answer, and nothing is kept.

        To send it, changed or not, hand it to `ask` as `prompted`.
        """
        asking, models, cancel = self._asked(question, project, how)
        with self._spending(models.main):
            return self._flows.ask.prompt(self._scope, project, asking, models, cancel)

    def _paying(
        self, model: LanguageModel | None, events: Iterator[AnswerEvent | Pending]
    ) -> Iterator[AnswerEvent | Pending]:
        with self._spending(model):
            yield from events

    def _spending(self, model: object) -> AbstractContextManager[None]:
        """While a model is asked, if there is one: only as much as whoever asks may take of it."""
        if model is None:
            return nullcontext()
        if self._in_a_job:  # one at a time, and it cannot come again later
            self._flows.budget.check(self._scope)
            return nullcontext()
        return self._flows.budget.spending(self._scope)

    def _counted(self, events: Iterator[AnswerEvent | Pending]) -> Iterator[AnswerEvent | Pending]:
        """The same events; how the question ended is counted, and how long it took."""
        began = time.perf_counter()
        try:
            for event in events:
                if isinstance(event, DoneEvent):
                    self._parts.counters.add("abstained" if isinstance(event.result, Abstention) else "answered")
                    self._parts.counters.took("ask", time.perf_counter() - began)
                    telemetry.stages("ask", event.result.account.timings, trace=event.result.account.trace_id)
                yield event
        except RagforgeError:
            self._parts.counters.add("failed")
            raise
        finally:
            if isinstance(events, Generator):  # its caller went away: the model is not to go on writing
                events.close()

    def _asked(self, question: str, project: str, how: AskOptions) -> tuple[Asking, Models, Cancel]:
        from ragforge.flows.ask import Asking, Models

        settings, ask, prompted = self.settings.model, self.settings.ask, how.get("prompted")
        if prompted is not None and prompted.account.question != question:
            raise UserError("the prompt was made for another question", hint="ask the one that it was made for")
        agent = self.agent(how["agent"]) if how.get("agent") else None
        named, main = self._chosen_model(how.get("model", ""), agent)
        filters = how.get("filters") or Filters()
        filters = replace(filters, agent=filters.agent or how.get("agent", ""))
        usual = Sampling(settings.temperature, settings.max_tokens)
        usual = agent.sampling(usual) if agent else usual
        asking = Asking(
            question,
            how.get("tuning") or self._parts.tuning,
            self._resolved(filters, project),
            Sampling(
                how.get("temperature", usual.temperature), how.get("max_tokens", usual.max_tokens), how.get("stop", ())
            ),
            frozenset(how["stages"] if "stages" in how else re.findall(r"[\w-]+", ask.stages)),
            how.get("strictness", ask.strictness),
            conversation=how.get("conversation", ""),
            history=tuple(how.get("history", ())),
            ephemeral=how.get("ephemeral", False),
            lock=how.get("lock", False),
            recent_turns=ask.recent_turns,
            memory_tokens=ask.memory_tokens,
            file_tokens=ask.file_tokens,
            whole_project_tokens=ask.whole_project_tokens,
            agent=agent.name if agent else "",
            persona="\n\n".join(filter(None, (agent.persona if agent else "", how.get("system", "")))),
            output=how.get("output", ""),
            shaping=how.get("shaping", Shaping()),
            profile=named if named in PROFILES else "",
            prompted=prompted,
            timeout_seconds=settings.timeout_seconds,
            request=how.get("request", ""),
        )
        models = Models(main, None if main is None else self._parts.language_model("cheap"))
        return asking, models, how.get("cancel") or Cancel()

    def answering_model(self, model: str = "", *, agent: str = "") -> str:
        """The name or profile of who would answer; empty: answers quote. One that cannot answer is refused."""
        named, chosen = self._chosen_model(model, self.agent(agent) if agent else None)
        return named if chosen else ""

    def _chosen_model(self, asked: str, agent: Agent | None) -> tuple[str, LanguageModel | None]:
        """The name or profile that counts, and its model. Without one answers quote, unless one was asked for."""
        usual = self.settings.model.name
        named = asked or (agent.profile if agent and usual else usual)
        model = self._parts.language_model(named)
        if model is None and asked in PROFILES:
            raise UserError(
                f"the profile {asked} has no model",
                hint=f"set model.{asked} in ragforge.toml, such as openai:gpt-5-mini, or model.name for every profile",
            )
        return named, model

    # -- conversations

    def begin_conversation(self, title: str, *, project: str = "default") -> Conversation:
        """A thread whose turns are remembered; `ask` takes its id."""
        with self._parts.catalog.write() as c:
            return c.conversations.begin(self._scope, self._known(c, project).id, title)

    def turn_of(self, result: Result) -> Turn:
        """A question and its answer as a turn, for a conversation that is kept elsewhere: `ask` takes it as history."""
        from ragforge.flows.keep import turn_of

        return turn_of(result, utc_now())

    def conversations(self, *, project: str = "default") -> list[Conversation]:
        """The last spoken in first."""
        with self._parts.catalog.read() as c:
            talks = c.conversations.all(self._scope, self._known(c, project).id)
        return [each for each in talks if each.kind is ConversationKind.CHAT]

    def conversation(self, id: str, *, project: str = "default") -> Conversation:
        """One by its id, the beginning of it, or `last`."""
        return _one_of(self.conversations(project=project), id, "conversation", "ragforge conversation ls shows them")

    def rename_conversation(self, id: str, title: str, *, project: str = "default") -> Conversation:
        """Give a conversation another title."""
        if not title.strip():
            raise UserError("the title is empty", hint="say in a few words what the conversation is about")
        if len(title) > LONGEST_TITLE:
            raise UserError(
                f"the title has {len(title):,} characters", hint=f"{LONGEST_TITLE:,} at most: a few words are enough"
            )
        with self._parts.catalog.write() as c:
            return c.conversations.rename(self._scope, self._known(c, project).id, id, title)

    def conversation_markdown(self, id: str, *, project: str = "default") -> str:
        """A conversation as a Markdown document: questions, answers, and the sources of each."""
        from ragforge.answer.transcript import markdown

        found = self.conversation(id, project=project)
        return markdown(found, self.turns(found.id, project=project))

    def turns(self, conversation: str, *, project: str = "default") -> list[Turn]:
        """Everything that was asked and answered in a conversation, in its order."""
        with self._parts.catalog.read() as c:
            return c.conversations.turns(self._scope, self._known(c, project).id, conversation)

    def rollups(self, conversation: str, *, project: str = "default") -> list[Rollup]:
        """The summaries that stand for its oldest turns."""
        with self._parts.catalog.read() as c:
            return c.conversations.rollups(self._scope, self._known(c, project).id, conversation)

    def mark_turn(self, turn: str, *, importance: float = 1.0, project: str = "default") -> None:
        """Say how much a turn matters, 0 to 1: one that matters fully is remembered however old it is."""
        if not 0 <= importance <= 1:
            raise UserError(f"the importance is {importance}", hint="give a number from 0 to 1")
        with self._parts.catalog.write() as c:
            c.conversations.update(self._scope, self._known(c, project).id, turn, importance=importance)

    def remove_turn(self, turn: str, *, project: str = "default") -> None:
        """Delete one turn for good."""
        with self._parts.catalog.write() as c:
            c.conversations.remove_turn(self._scope, self._known(c, project).id, turn)
        self._parts.catalog.flush()

    def remove_conversation(self, id: str, *, project: str = "default") -> None:
        """Delete a conversation for good: its turns, summaries and vectors."""
        with self._parts.catalog.write() as c:
            c.conversations.remove(self._scope, self._known(c, project).id, id)
        self._parts.catalog.flush()

    # -- what people write for a project

    def project_text(self, kind: ProjectTextKind, *, project: str = "default") -> ProjectText:
        """Its Hard Rules or its Project Memory as they are now."""
        with self._parts.catalog.read() as c:
            return c.texts.read(self._scope, self._known(c, project).id, kind)

    def write_project_text(self, kind: ProjectTextKind, text: str, *, project: str = "default") -> ProjectText:
        """A new version of it; the older ones stay."""
        with self._parts.catalog.write() as c:
            return c.texts.write(self._scope, self._known(c, project).id, kind, text)

    def project_text_versions(self, kind: ProjectTextKind, *, project: str = "default") -> list[ProjectText]:
        with self._parts.catalog.read() as c:
            return c.texts.versions(self._scope, self._known(c, project).id, kind)

    def text_estimate(self, text: str) -> Estimate:
        """What a text takes of every prompt that carries it: tokens and, of the model of the settings, their price."""
        from ragforge.domain.tokens import estimated_tokens

        model: LanguageModel | None = None
        with suppress(UserError):  # one that lacks its key can still not be asked, but that is said elsewhere
            model = self._parts.language_model()
        if model is None:
            return Estimate("", estimated_tokens(text) if text else 0, 0, None, None)
        card, tokens = model.card, model.count(text)
        cost = None if card.input_price is None else card.input_price * tokens / 1_000_000
        return Estimate(card.name, tokens, 0, card.window, cost)

    # -- the query log

    def query_log(
        self,
        *,
        project: str = "default",
        limit: int = 50,
        since: datetime | None = None,
        after: Cursor | None = None,
    ) -> list[LogEntry]:
        """The last questions and what they took, newest first; or those after where a page ended."""
        with self._parts.catalog.read() as c:
            return c.log.all(self._scope, self._known(c, project).id, limit, since, after=after)

    def logged(self, id: str, *, project: str = "default") -> LogEntry:
        """One question of the log by its id, the beginning of it, or `last`."""
        begins = "" if id == LAST else id
        with self._parts.catalog.read() as c:
            entries = c.log.all(self._scope, self._known(c, project).id, _MOST_ALIKE, begins=begins)
        return _one_of(entries, id, "question in the log", "ragforge log ls shows them")

    def places(self, chunks: Collection[str], *, project: str = "default") -> dict[str, ChunkPlace]:
        """File and place of chunks by their ids, such as those of the log; what is gone or replaced is left out."""
        with self._parts.catalog.read() as c:
            return c.documents.places(self._scope, self._known(c, project).id, chunks)

    def spent(self, *, by: str = "model", project: str = "default", since: datetime | None = None) -> list[Spent]:
        """Tokens and money by `model`, `profile`, `agent` or `day`."""
        with self._parts.catalog.read() as c:
            return c.log.spent(self._scope, self._known(c, project).id, by, since)

    def prune_log(self, before: datetime, *, project: str = "default") -> int:
        """Remove for good what was asked before this. Returns how many questions that were.

        With a key, nothing of today: its limits are counted from it.
        """
        with self._parts.catalog.write() as c:
            known = self._known(c, project)
            access.require_counted(self._scope, before, utc_now())
            pruned = c.log.prune(self._scope, known.id, before)
        self._parts.catalog.flush()
        return pruned

    def give_feedback(
        self, id: str, good: bool, *, note: str = "", expected: Sequence[str] = (), project: str = "default"
    ) -> Feedback:
        """Mark an answer of the log as good or bad, in place of an earlier mark.

        Where the right documents are known, the question joins the set `feedback`: of a good answer they are those it
        cites, else those that `expected` names.
        """
        from ragforge.flows.feedback import GiveFeedback

        entry, known = self.logged(id, project=project), self.project(project)
        documents = [document.id for document in self.find(expected, project=project)]
        give = GiveFeedback(self._parts.catalog)
        return give(self._scope, known.id, entry.id, good=good, note=note, expected=documents)

    def agent(self, name: str) -> Agent:
        """Who speaks, by name: of the workspace's folder `agents`, or one that comes with ragforge."""
        from ragforge.answer import agents, outline

        return agents.agent(name, outline.kinds(self.workspace / "outlines"), self.workspace / "agents")

    # -- documents made

    def making(
        self,
        kind: str,
        *,
        project: str = "default",
        brief: str = "",
        agent: str = "",
        title: str = "",
        model: str = "",
        out: str | os.PathLike[str] | None = None,
        keep: bool = True,
        cancel: Cancel | None = None,
    ) -> Iterator[MakeEvent]:
        """A document by its outline: `Planned` with tokens and price, then each section, and the whole of it at last.

        Whoever stops after `Planned` has spent nothing. `model` is as in `ask`; without one, the profile of the agent.
        """
        from ragforge.answer.agents import agent_for
        from ragforge.answer.outline import kinds, outline
        from ragforge.flows.make import MakeRequest

        outlines = self.workspace / "outlines"
        wanted = outline(kind, outlines)
        writer = self.agent(agent) if agent else agent_for(kind, kinds(outlines), self.workspace / "agents")
        named, chosen = self._chosen_model(model, writer)
        request = MakeRequest(
            wanted,
            self._parts.tuning,
            writer,
            named if named in PROFILES else "",
            brief,
            title,
            None if out is None else Path(out),
            keep,
            self.settings.model.timeout_seconds,
        )
        return self._flows.make(self._scope, project, request, chosen, cancel or Cancel())

    def document_kinds(self) -> list[Outline]:
        """What can be made: the shipped outlines, and those in the workspace's folder `outlines`."""
        from ragforge.answer.outline import kinds, outline

        folder = self.workspace / "outlines"
        return [outline(kind, folder) for kind in kinds(folder)]

    def agents(self) -> list[Agent]:
        """Who can speak: the shipped agents, and those in the workspace's folder `agents`."""
        from ragforge.answer.agents import agent_names

        return [self.agent(name) for name in agent_names(self.workspace / "agents")]

    def artifacts(self, *, project: str = "default") -> list[Artifact]:
        """The documents that were made and kept, newest first."""
        with self._parts.catalog.read() as c:
            return c.artifacts.all(self._scope, self._known(c, project).id)

    def artifact(self, id: str, *, project: str = "default") -> Artifact:
        """One by its id, the beginning of it, or `last`."""
        return _one_of(self.artifacts(project=project), id, "made document", "ragforge make ls shows what was made")

    def edit_artifact(
        self,
        id: str,
        *,
        project: str = "default",
        title: str | None = None,
        texts: Mapping[int, str] | None = None,
        was: Mapping[int, str] | None = None,
    ) -> Artifact:
        """Change its title, or texts of its sections by their places from 0; they are checked as a model's are.

        `was` is what you saw there: if it is not that any more, it is a conflict, and nothing is changed.
        """
        from ragforge.flows.edit import EditArtifact, Revision

        known = self.artifact(id, project=project)
        edit = EditArtifact(self._parts.catalog)
        return edit(self._scope, self.project(project).id, known.id, Revision(title, texts or {}, was or {}))

    def export_artifact(self, artifact: Artifact, file: str | os.PathLike[str]) -> None:
        """Write it to a file; the ending of its name says whether as Markdown or for Word."""
        self._flows.export(artifact, Path(file))

    def rendered(self, artifact: Artifact, ending: str) -> bytes:
        """The same file's bytes, by the ending of its name: `.md` or `.docx`."""
        return self._flows.export.writers[ending](artifact)

    def remove_artifacts(self, ids: Sequence[str], *, project: str = "default") -> list[Artifact]:
        """Delete made documents for good, all of these or none."""
        found = {each.id: each for each in (self.artifact(id, project=project) for id in ids)}
        with self._parts.catalog.write() as c:
            known = self._known(c, project).id
            for id in found:
                c.artifacts.remove(self._scope, known, id)
        return list(found.values())

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
        access.require_clearance(self._scope)
        events = self._flows.follow.rebuild(known.id, cancel)
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

    def questions(self, name: str, *, project: str = "default") -> list[Question]:
        """The questions of a set, in the order of their file."""
        from ragforge.flows.evaluate import Questions

        return Questions(self._parts.catalog).seen(self._scope, self.project(project).id, name)

    def evaluating(
        self,
        questions: str,
        *,
        project: str = "default",
        tuning: Tuning | None = None,
        label: str = "",
        answers: bool = False,
        model: str = "",
        judge: str | None = None,
        cancel: Cancel | None = None,
    ) -> Iterator[Progress | Run]:
        """Search for every question of a set and measure what is found; the stored run is the last event.

        With `answers` each question is also asked, by `model` as `ask` takes it, and nothing of that is kept elsewhere.
        `judge` names a model or a profile that judges the answers; empty: the profile `premium`, or who answers.
        """
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
        if answers:
            how = AskOptions(model=model, tuning=chosen, ephemeral=True, cancel=cancel)
            evaluate, more = self._answering(evaluate, known.slug, how, judge)
            settings |= more
        yield from evaluate(self._scope, known.id, questions, chosen.k, settings, label, cancel)

    def _answering(
        self, evaluate: Evaluate, project: str, how: AskOptions, judge: str | None
    ) -> tuple[Evaluate, dict[str, object]]:
        """An evaluation that asks too, and what its answers depend on."""
        from ragforge.assemble.assemble import load_templates
        from ragforge.evaluate.judge import Judge
        from ragforge.flows.evaluate import answering

        asking, models, _ = self._asked("", project, how)
        known = self.project(project).id
        opinion: Judge | None = None
        if judge is not None:
            judging = self._parts.language_model(judge or "premium") or (None if judge else models.main)
            if judging is None:
                raise UserError(
                    "there is no model that could judge", hint="name one: --judge-model, or model.name in ragforge.toml"
                )
            paid = partial(self._flows.keep.paid, self._scope, known, "judgement", judging.card.name)
            opinion = Judge(judging, asking.timeout_seconds, paid)
        texts = [self.project_text(kind, project=project) for kind in ProjectTextKind]
        settings = answering(asking, models, load_templates(self.workspace / "templates"), texts, opinion)

        def ask(text: str) -> Result:
            if opinion is not None:
                self._flows.budget.check(self._scope)
            return self.ask(text, project=project, **how)

        return replace(evaluate, ask=ask, judge=opinion), settings

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
        reindex = Reindex(self._parts.catalog, self._flows.follow, self.settings.ingest.batch_leaves)
        events = reindex(
            self._scope, known, strategy or known.strategy, self._parts.embedder(embedder or known.embedder), cancel
        )
        payload = {"strategy": (strategy or known.strategy).name, "embedder": embedder or known.embedder}
        yield from self._at_work("reindex", project, payload, events, cancel)

    def check(self, *, project: str | None = None, repair: bool = False) -> list[Finding]:
        """Compare the catalog with everything derived from it; first clear what a killed process left."""
        access.require_owner(self._scope)
        in_flight, reconcile = self._parts.in_flight, self._flows.reconcile
        if in_flight.recover(self._flows.recover):
            reconcile.sweep_vectors(self._scope)
        self._parts.catalog.flush()
        with in_flight.alone() as alone:
            stray = reconcile.stray(self._scope, alone=alone, repair=repair)
            catalog = reconcile.catalog_findings(self._scope, alone=alone, repair=repair)
        derived = [*reconcile.check(self._scope, project, repair=repair, alone=alone), *self._flows.learn.check(repair)]
        return [*catalog, *derived, stray]

    def doctor(self) -> list[Finding]:
        """What works here, what is missing and how to get it."""
        access.require_owner(self._scope)
        from ragforge.operate.doctor import answering, examine
        from ragforge.operate.ready import stored_files

        storage = self._parts.storage_probe
        return [
            *examine(self.workspace, self._parts.models(), self.settings.embed.model, self.settings.embed.fallback),
            *answering(self._parts.language_models(with_cards=False)),
            *([] if storage is None else [stored_files(storage)]),
            *self._parts.catalog.inspect(),
            *self.walls(),
        ]

    def deployment(self) -> list[Finding]:
        """Whether several machines can work together on this catalog, and how each of them is."""
        access.require_owner(self._scope)
        from ragforge.build import utc_now
        from ragforge.operate.deployment import examine

        parts = self._parts
        return list(examine(parts.catalog, self._scope, lambda: parts.blobs, parts.index_servers(), utc_now()))

    def walls(self) -> list[Finding]:
        """What keeps parsers from harm here, tried out."""
        access.require_owner(self._scope)
        from ragforge.ingest.jail.walls import findings, probe

        return findings(probe())

    # -- archives

    def backup(self, file: str | os.PathLike[str], *, cancel: Cancel | None = None) -> BackupReport:
        """Everything of this workspace, as it is now, in one file."""
        return next(event for event in self.backing_up(file, cancel=cancel) if isinstance(event, BackupReport))

    def backing_up(
        self, file: str | os.PathLike[str], *, cancel: Cancel | None = None
    ) -> Iterator[Progress | BackupReport]:
        """The same, told as it goes; the report is the last event. Others go on writing meanwhile."""
        from ragforge import __version__
        from ragforge.flows.backup import Backup
        from ragforge.operate.logs import known_secrets

        access.require_owner(self._scope)
        parts = self._parts
        secrets = known_secrets(self.settings, os.environ)
        made_by = f"ragforge {__version__}"
        backup = Backup(parts.catalog, parts.blobs, parts.inbox, self.workspace, secrets, made_by, utc_now)
        yield from backup(self._scope, Path(file), cancel or Cancel())

    @classmethod
    def restoring(
        cls,
        file: str | os.PathLike[str],
        workspace: str | os.PathLike[str] | Settings | None = None,
        *,
        replacing: bool = False,
        cancel: Cancel | None = None,
    ) -> Iterator[Progress | RestoreReport]:
        """Make a workspace of a backup; the report is the last event. It must be new or empty.

        With `replacing` it takes the place of one that is there and stays beside it; what was removed in that one since
        the backup is not brought back. Indexes are built from the catalog: no model is called.
        """
        from ragforge.flows.backup import Restore

        settings = (
            workspace if isinstance(workspace, Settings) else load(None if workspace is None else Path(workspace))
        )
        scope, cancel = access.owner(), cancel or Cancel()
        restore = Restore(
            settings.workspace,
            bool(settings.store.database_url),
            lambda folder: new_place(settings, folder),
            lambda: old_workspace(settings, scope),
        )
        for event in restore(scope, Path(file), cancel, replacing=replacing):
            if isinstance(event, RestoreReport):
                with cls.open(reloaded(settings), create=False) as forge:
                    for project in forge.projects():
                        forge._flows.keep.prune(project.id)
                    yield from forge._indexed(cancel)
            yield event

    @classmethod
    def migrating(
        cls,
        to: str,
        workspace: str | os.PathLike[str] | Settings | None = None,
        *,
        switching: bool = True,
        keep_password: bool = False,
        cancel: Cancel | None = None,
    ) -> Iterator[Progress | MigrationReport]:
        """Move the catalog to the Postgres database of this address, or back into the workspace: `sqlite`.

        The report is the last event. Nobody else may have the workspace open. Called again, it goes on where it was
        stopped. Without `switching` it is copied and verified, and the workspace goes on with the one it has.
        """
        settings = (
            workspace if isinstance(workspace, Settings) else load(None if workspace is None else Path(workspace))
        )
        make_workspace(settings.workspace, create=False)
        yield from migration(settings, to, keep_password=keep_password)(cancel or Cancel(), switching=switching)

    @classmethod
    def take_back(cls, workspace: str | os.PathLike[str] | Settings | None = None) -> str:
        """Use the catalog that the settings name again, as it was when it was moved. Returns where it had gone."""
        settings = (
            workspace if isinstance(workspace, Settings) else load(None if workspace is None else Path(workspace))
        )
        make_workspace(settings.workspace, create=False)
        return take_back(settings)

    def exporting(
        self,
        file: str | os.PathLike[str],
        *,
        project: str = "default",
        vectors: bool = True,
        cancel: Cancel | None = None,
    ) -> Iterator[Progress | ExportReport]:
        """One project as an archive that any program reads; the report is the last event."""
        from ragforge import __version__
        from ragforge.flows.transfer import Export

        access.require_owner(self._scope)
        export = Export(self._parts.catalog, self._parts.blobs, f"ragforge {__version__}", utc_now)
        yield from export(self._scope, self.project(project), Path(file), cancel or Cancel(), vectors=vectors)

    def importing(
        self, file: str | os.PathLike[str], *, project: str = "", cancel: Cancel | None = None
    ) -> Iterator[FileResult | Progress | ImportedProject]:
        """Take in what `exporting` wrote, into a project of this name or of its own; what is here already stays.

        Nothing is embedded again where the project has the same model.
        """
        from ragforge.flows import transfer
        from ragforge.operate.archive import Archive

        access.require_owner(self._scope)
        cancel = cancel or Cancel()
        with Archive(Path(file), transfer.FORMAT, transfer.VERSION) as archive:
            for done in archive.verify(cancel):
                yield Progress("verifying", done, len(archive.facts["members"]))
            slug = self._project_like(transfer.told(archive), project).slug
            take = transfer.Import(
                self._parts.catalog, self._parts.blobs, self._parts.embedder_of, self.settings.limits.file_bytes
            )
            events = take(self._scope, self.project(slug), archive, cancel)
            yield from self._at_work("import", slug, {"file": os.fspath(file)}, events, cancel)

    def _project_like(self, model: Project, name: str) -> Project:
        """The project of this name; a new one has the splitter and, where it is here, the embedder of the other."""
        try:
            return self.project(name or model.slug)
        except NotFound:
            pass
        embedder: str | None = None
        with suppress(RagforgeError):  # its weights or its key are not here
            if self._parts.embedder(model.embedder).card.fingerprint == model.embedder_fingerprint:
                embedder = model.embedder
        return self.create_project(name or model.name, strategy=model.strategy, embedder=embedder)

    def _indexed(self, cancel: Cancel) -> Iterator[Progress]:
        """What is derived from the catalog, made anew."""
        self._parts.in_flight.recover(self._flows.recover)
        for project in self.projects():
            yield from self._flows.follow.rebuild(project.id, cancel)

    def counters(self) -> dict[str, int]:
        """What was done since this was opened: files, chunks, calls, searches, and how questions ended."""
        return self._parts.counters.all()

    def measured(self) -> Counters:
        """The same with durations, and with tokens and cost by model."""
        return self._parts.counters

    def queue(self) -> dict[tuple[str, str], int]:
        """How many jobs there are, by kind and state."""
        with self._parts.catalog.read() as c:
            return c.jobs.counts(self._scope)

    def ready(self) -> list[Finding]:
        """Whether the parts that serving takes are there. Loads the embedder, so that the first question is quick."""
        from ragforge.operate.ready import ready

        parts = self._parts
        return list(
            ready(
                self.workspace,
                parts.indexes_folder,
                self.projects,
                parts.catalog.engine(),
                parts.new_projects_embedder,
                parts.storage_probe,
            )
        )

    # -- what agents learn

    @property
    def lessons(self) -> Lessons:
        """What worked in the past, and what people decided: captured, reviewed, and told to an orchestrator."""
        from ragforge.lessons import Lessons

        parts = self._parts
        return Lessons(
            self._scope,
            parts.catalog,
            self._flows.learn,
            parts.lessons_embedder,
            self._known,
            self._as_job,
            self.settings.learn.context_tokens,
        )

    # -- guided interviews

    @property
    def discovery(self) -> Discovery:
        """Interviews that end in a document: begun, led turn by turn, corrected, written up."""
        from ragforge.discovery import Discovery, Means

        settings = self.settings.model
        return Discovery(
            self._scope,
            Means(
                self._parts.catalog,
                self._flows.interviewer,
                self._known,
                self._interviewing,
                self._spending,
                self._flows.export,
                self._parts.tuning,
                Sampling(settings.temperature, settings.max_tokens),
                settings.timeout_seconds,
            ),
        )

    def _interviewing(self, asked: str) -> tuple[str, Models]:
        from ragforge.flows.ask import Models

        named, main = self._chosen_model(asked, None)
        profile = named if named in PROFILES else ""
        return profile, Models(main, None if main is None else self._parts.language_model("cheap"))

    # -- models and jobs

    def models(self) -> list[ModelState]:
        """The models that run here, and whether their weights are."""
        return self._parts.models()

    def language_models(self) -> LanguageModels:
        """The models that can write answers: what they cost and read, and what is missing. None of them is called.

        Where services are is for the owner alone.
        """
        found = self._parts.language_models()
        return found if self._scope.owns else found.placeless()

    def pull_model(
        self,
        name: str,
        *,
        source: Path | None = None,
        progress: Callable[[str, int, int], None] = lambda what, done, total: None,
    ) -> PulledModel:
        """Get a model's weights, verified."""
        return self._parts.pull_model(name, source, progress)

    def jobs(self, *, project: str | None = None, limit: int | None = None, after: Cursor | None = None) -> list[Job]:
        """All that are remembered, or the last so many, newest first; or those after where a page ended."""
        with self._parts.catalog.read() as c:
            known = None if project is None else self._known(c, project).id
            return c.jobs.all(self._scope, known, limit, after)

    def job(self, id: str) -> Job:
        """How far one is, and what became of it."""
        with self._parts.catalog.read() as c:
            return c.jobs.get(self._scope, id)

    def cancel_job(self, id: str) -> Job:
        """A job that waits or was set aside ends at once; one that runs is told within a second or two."""
        with self._parts.catalog.write() as c:
            c.jobs.cancel(self._scope, id)
            job = c.jobs.get(self._scope, id)
        self._flows.enqueue.ended([job] if job.ended else [])
        return job

    def when_ended(self, id: str, call: Callable[[], object]) -> Callable[[], None]:
        """Call when this process has ended the job, or given it back. What is returned takes that back."""
        self._flows.bell.then(id, call)
        return lambda: self._flows.bell.forget(id, call)

    # -- what others do for us

    def inbox(self) -> Inbox:
        """Where uploads wait until a worker takes them in."""
        return self._flows.enqueue.open_inbox()

    def upload(
        self,
        path: str | os.PathLike[str],
        *,
        name: str = "",
        project: str = "default",
        labels: Labels | None = None,
        key: str = "",
        priority: Priority = Priority.NORMAL,
    ) -> Job:
        """Hand a copy of a file to the workers. It is known by its name alone; the same name again replaces it."""
        self.project(project)
        with self.inbox().receive(name or os.path.basename(path)) as receiving:
            try:
                with open(path, "rb") as file:
                    while piece := file.read(1 << 20):
                        receiving.write(piece)
            except OSError as problem:
                raise NotFound(f"cannot read {os.fspath(path)}: {problem.strerror}", hint="check the path") from problem
            received = [receiving.keep()]
            (job,) = self.accept_uploads(received, project=project, labels=labels, key=key, priority=priority)
        return job

    def accept_uploads(
        self,
        files: Sequence[Received],
        *,
        project: str = "default",
        labels: Labels | None = None,
        key: str = "",
        priority: Priority = Priority.NORMAL,
    ) -> list[Job]:
        """A job for each file that was received, all or none. From now on they survive everything."""
        return self._flows.enqueue.uploads(self._scope, project, files, labels, key, priority)

    def enqueue(
        self,
        kind: str,
        payload: Mapping[str, Any],
        *,
        project: str = "default",
        key: str = "",
        priority: Priority = Priority.NORMAL,
    ) -> Job:
        """Ask for long work. The same `key` again gives the same job; with another request it is a conflict."""
        (job,) = self._flows.enqueue(self._scope, project, kind, [payload], key, priority)
        return job

    def worker(self, threads: int = 0) -> Worker:
        """Does what is asked for with `upload` and `enqueue`, in threads of its own, between `start` and `stop`."""
        from ragforge.work import KINDS

        keep_house = self._flows.learn.prune
        duties = Duties(self.perform, self._alike, self._working, self._upkeep, self._flows.enqueue.begin, keep_house)
        uploads = threads or self.settings.server.uploads
        kinds: list[tuple[str, ...]] = [(UPLOAD,)] * uploads
        if uploads:  # files do not wait for what may take an hour
            kinds.append(tuple(kind for kind in KINDS if kind != UPLOAD))
        return Worker(self._parts.catalog, access.owner(), duties, self._flows.bell, kinds)

    def neighbour(self, *, serves: bool) -> Neighbour | None:
        """Keeps this process in step with others on a Postgres catalog, between `start` and `stop`; None elsewhere.

        `serves`: questions are answered here, so the indexes that this machine has for itself are kept up too.
        """
        from ragforge import __version__
        from ragforge.work import KINDS

        parts = self._parts
        if not parts.node:
            return None
        self._flows.follow.serves = serves
        role = SERVER if serves else "worker"
        return Neighbour(
            parts.catalog,
            access.owner(),
            self._flows.bell,
            tuple(KINDS),
            role,
            parts.node,
            __version__,
            self._follow_others,
            self._settle,
        )

    def nodes(self) -> list[Node]:
        """The machines that work on the same catalog; none but on Postgres."""
        with self._parts.catalog.read() as c:
            return c.nodes.all(access.owner())

    def perform(self, jobs: Sequence[Job], cancel: Cancel) -> Iterator[object]:
        """Do claimed jobs, in the scope of who asked for them. However it ends, the catalog knows."""
        runner = JobRunner(self._parts.catalog)
        try:
            yield from runner.carry(access.owner(), jobs, self._work_of(jobs, cancel), cancel)
        finally:
            self._flows.enqueue.forget(jobs)

    def _work_of(self, jobs: Sequence[Job], cancel: Cancel) -> Generator[object, None, Sequence[object]]:
        from ragforge.work import KINDS

        first = jobs[0]
        if first.project is None:
            raise NotFound("the job belongs to no project")
        with self._parts.catalog.read() as c:
            maker = c.jobs.maker(access.owner(), first.id)
            revoked = access.revoked(c, maker, jobs)
            scope = access.on_behalf(maker, first.project)
            slug = c.projects.with_id(scope, first.project).slug
        if revoked:  # while it was being asked for
            with self._parts.catalog.write() as c:
                for job in revoked:
                    c.jobs.cancel(access.owner(), job.id, access.REVOKED)
            raise Cancelled
        forge = self.acting(scope)
        forge._in_a_job = True
        return (yield from KINDS[first.kind](forge, slug, jobs, cancel))

    def _alike(self, job: Job) -> list[Job]:
        """Uploads that are taken in together with this one: many small ones cost little more than one."""
        from ragforge.work import TOGETHER, together

        if job.kind != UPLOAD or job.attempts > 1:
            return []
        return JobRunner(self._parts.catalog).claim_alike(access.owner(), job, TOGETHER, together(job))

    # -- work

    def _at_work(
        self, kind: str, slug: str, payload: Mapping[str, object], events: Iterator[Event], cancel: Cancel
    ) -> Iterator[Event]:
        """Run long work as a job, counted as in flight; the state file is current when it ends."""
        project, runner = self.project(slug), JobRunner(self._parts.catalog)
        with self._working():
            try:
                if not self._in_a_job:
                    events = runner.run(self._scope, project.id, kind, payload, events, cancel)
                yield from self._followed(project.id, events, cancel)
            finally:
                self._write_up(project.id)

    def _as_job(
        self, kind: str, slug: str, payload: Mapping[str, object], events: Iterator[Event], cancel: Cancel
    ) -> Iterator[Event]:
        """Run long work as a job that touches no file."""
        if self._in_a_job:
            return events
        project, runner = self.project(slug), JobRunner(self._parts.catalog)
        return runner.run(self._scope, project.id, kind, payload, events, cancel)

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Counted as in flight: should this process die, the next one clears up after it."""
        with self._parts.in_flight.working(self._flows.recover) as recovered:
            yield
            if recovered:
                self._flows.reconcile.sweep_vectors(access.owner())

    def _upkeep(self, projects: Iterable[str], cancel: Cancel) -> None:
        """Bring what is derived from these projects up to date."""
        for project in projects:
            self._keep_up(project, cancel, removed=False)
            self._write_up(project)

    def _follow_others(self, project: str) -> bool:
        """What other machines did: the indexes follow, and nothing of what was removed stays in files here.

        False while something of it does: another process reads those files.
        """
        is_new, is_erased = self._flows.follow.follow_others(project)
        if is_new:
            self._write_up(project)
        return is_erased

    def _settle(self, before: Mapping[str, str], now: Mapping[str, str]) -> None:
        """Projects that others made, renamed or removed: what is derived of them here is as they are now."""
        reconcile = self._flows.reconcile
        for project, slug in before.items():
            if project not in now:
                self._parts.drop_indexes(project)
                self._flows.forget_searches(project)
            if slug not in now.values():
                reconcile.forget_state(slug, now.get(project, ""))
        reconcile.tidy(access.owner())
        for project, slug in now.items():
            if before.get(project) != slug:
                with suppress(NotFound):  # removed or renamed again just now
                    reconcile.write_state(access.owner(), slug)

    def _write_up(self, project: str) -> None:
        """The state file is current, and what every index has followed is forgotten."""
        with suppress(NotFound):  # the project may have been removed meanwhile
            with self._parts.catalog.write() as c:
                c.changes.prune(access.owner(), project)
                slug = c.projects.with_id(access.owner(), project).slug
            self._flows.reconcile.write_state(access.owner(), slug)

    def _count(self, event: object) -> None:
        if isinstance(event, FileResult):
            self._parts.counters.add("files", event.outcome == Outcome.READY)
            self._parts.counters.add("chunks", event.chunks)

    def _followed(self, project: str, events: Iterator[Event], cancel: Cancel) -> Iterator[Event]:
        """The same events; the indexes keep up with what they bring. A search does not wait for that."""
        new, removed = 0, False
        with closing(events) if isinstance(events, Generator) else nullcontext():
            for event in events:
                yield event
                self._count(event)
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
                    for place in self._flows.remove.clear(project, cancel)
                )
            else:
                self._flows.follow.catch_up(project, cancel=cancel)
            self._note(self._flows.follow.news(project))
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


def _one_of(known: Sequence[HasId], name: str, what: str, hint: str) -> HasId:
    """One of these, newest first, by its id, the beginning of it, or `last`."""
    found = list(known[:1]) if name == LAST else [each for each in known if name and each.id.startswith(name)]
    if not found:
        raise NotFound(f"no {what} {name!r}", hint=hint)
    if len(found) > 1:
        raise UserError(f"{name!r} could be {len(found)} of them", hint="write more of its id")
    return found[0]
