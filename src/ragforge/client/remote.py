"""`RemoteForge`: one method for each of `Ragforge`'s, as a call of the server."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from io import BufferedReader
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Self, TypeVar, Unpack

import httpx

from ragforge.client.sending import Reading, batches, files_below, sent_as
from ragforge.client.wire import (
    JSON,
    LONGEST_SECONDS,
    WorksElsewhere,
    address_of,
    exporter,
    file_at,
    findings_in,
    job_at,
    json_bytes,
    key_header,
    labelled,
    patiently,
    project_at,
    question_fields,
    raised_there,
    read_events,
    request_header,
    require_ok,
    since_fields,
    split_fields,
    step,
    tuning_fields,
    unless_cancelled,
    unreachable,
    urgency,
    work_fields,
)
from ragforge.domain.access import Clearance
from ragforge.domain.answers import (
    CitationEvent,
    DecisionEvent,
    DoneEvent,
    Prompted,
    Result,
    RetrievalEvent,
    TokenEvent,
    UsageEvent,
)
from ragforge.domain.answers import Event as AnswerEvent
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.conversation import Conversation, Rollup, Turn
from ragforge.domain.cursor import Cursor
from ragforge.domain.evaluation import Comparison, Feedback, ImportReport, Question, QuestionSet, Run, RunDetails
from ragforge.domain.hosts import is_loopback
from ragforge.domain.library import (
    AddReport,
    Chunk,
    Document,
    FileResult,
    Finding,
    Job,
    JobState,
    Labels,
    Node,
    Outcome,
    Priority,
    Progress,
    Project,
    Removal,
    Status,
)
from ragforge.domain.models import LanguageModels
from ragforge.domain.pending import Pending
from ragforge.domain.plain import decode, encode
from ragforge.domain.prompts import Shaping
from ragforge.domain.records import Artifact, LogEntry, ProjectText, ProjectTextKind, Spent
from ragforge.domain.retrieval import Filters, Retrieved, Tuning
from ragforge.domain.strategy import Strategy
from ragforge.errors import (
    Conflict,
    NotFound,
    OverLimit,
    StoreError,
    UserError,
)

if TYPE_CHECKING:
    from ragforge.answer.agents import Agent
    from ragforge.answer.outline import Outline
    from ragforge.app import AskOptions, Paths
    from ragforge.client.discovery import RemoteDiscovery
    from ragforge.client.lessons import RemoteLessons
    from ragforge.domain.tokens import Vector
    from ragforge.flows.make import MakeEvent

T = TypeVar("T")

_INSTEAD: Mapping[str, tuple[str, ...]] = {
    "RemoteForge(url, key=…) is open already": ("open", "outside", "acting"),
    "upload() and add() send files": ("accept_uploads", "inbox", "taking_in"),
    "add() sends what is new or changed, removing() removes; or run ragforge sync or watch there": (
        "syncing",
        "watching",
    ),
    "enqueue() asks for work, job() tells how far it is": ("perform", "when_ended", "worker"),
    "GET /metrics tells what was done": ("counters", "measured", "queue"),
    "run ragforge check or ragforge doctor there; rebuilding() makes an index anew from here": (
        "check",
        "deployment",
        "doctor",
        "neighbour",
        "walls",
    ),
    "run ragforge backup, restore, export or import there": (
        "backing_up",
        "backup",
        "exporting",
        "importing",
        "restoring",
    ),
    "run ragforge migrate there": ("migrating", "take_back"),
    "run ragforge keys there": ("access",),
    "run ragforge models there": ("models", "pull_model"),
    "leave it to the server, which uses its settings where a call names nothing else": (
        "answering_model",
        "require_embedder",
        "usual_strategy",
    ),
    "POST /v1/embeddings gives the vectors": ("embedded",),
    "prompt() tells the tokens and the price of a question": ("text_estimate",),
    "chunks() tells the places of a file": ("places",),
}
ELSEWHERE: Mapping[str, str] = {name: instead for instead, names in _INSTEAD.items() for name in names}
"""Methods of `Ragforge` that need the workspace itself, and what to do instead."""

_RECORDS = "application/vnd.ragforge.records+json"
_EVENTS: Mapping[str, type[Any]] = {
    "retrieval": RetrievalEvent,
    "decision": DecisionEvent,
    "token": TokenEvent,
    "citation": CitationEvent,
    "usage": UsageEvent,
    "done": DoneEvent,
}
_LAST_WORDS = ("done", "error")
_ASKED_AT: Mapping[str, str] = {
    "make": "artifacts",
    "evaluate": "evaluations",
    "checkpoint": "lessons/checkpoints",
    "rebuild": "rebuild",
    "reindex": "reindex",
}
"""Where each kind of long work is asked for."""
_PAGE = 1_000
_RESUMED = 20
"""How often a stream is taken up again without an event in between, before it is given up."""
_PROMPTS = 100
"""Prompts that were made here and can still be sent."""
_WAIT_SECONDS = 1.0
"""That the server may keep an upload's answer back: most files are read by then, and need not be asked for again."""


class _Sealed(NamedTuple):
    """A prompt as the server made it, and what lets it believe that."""

    token: str
    texts: list[str]


class RemoteForge:
    """A workspace on a server: projects of documents you can ask."""

    def __init__(self, url: str, *, key: str = "", timeout: float = 300.0) -> None:
        headers = {"Accept": _RECORDS} | ({"Authorization": f"Bearer {key}"} if key else {})
        patience = httpx.Timeout(timeout, connect=10.0)
        address = httpx.URL(address_of(url))
        self._http = httpx.Client(
            base_url=address,
            headers=headers,
            timeout=patience,
            trust_env=not is_loopback(address.host),  # proxies and certificates are for what is elsewhere
        )
        self._wait = min(_WAIT_SECONDS, timeout / 2)
        self._prompts: OrderedDict[str, _Sealed] = OrderedDict()

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def __getattr__(self, name: str) -> NoReturn:
        if name in ELSEWHERE:
            raise WorksElsewhere(name, ELSEWHERE[name])
        raise AttributeError(name)

    # -- projects

    def create_project(self, name: str, *, strategy: Strategy | None = None, embedder: str | None = None) -> Project:
        """Make a project. Its splitter and model are fixed until `reindexing`."""
        body = {"name": name, "strategy": split_fields(strategy), "embedder": embedder}
        return self._one(Project, "POST", "/v1/projects", body)

    def projects(self) -> list[Project]:
        return self._all(Project, "/v1/projects")

    def project(self, slug: str) -> Project:
        """A project by its slug, or by the name that gives it."""
        return self._one(Project, "GET", project_at(slug))

    def rename_project(self, slug: str, name: str) -> Project:
        return self._one(Project, "PATCH", project_at(slug), {"name": name})

    def remove_project(self, slug: str) -> list[Removal]:
        """Remove a project with all its files; the proofs of their deletion come back."""
        return self._one(list[Removal], "DELETE", project_at(slug))

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
        """Like `add`, told file by file: each result is sent when it is durable.

        Over HTTP a file is known by its name alone, so all names must differ; what could not be read is always retried.
        """
        cancel = cancel or Cancel()
        files, unreadable = files_below(paths)
        yield from unreadable
        slug = patiently(cancel, partial(self._ensured, project))
        done = 0
        for batch in batches(files):
            send = partial(self._sent, batch, slug, labels, cancel=cancel, wait=self._wait)
            jobs = patiently(cancel, send)
            left = [job_at(job.id) for job in jobs if not job.ended]
            try:
                with self._stopping(left, cancel):
                    for job, path in zip(jobs, batch, strict=True):
                        for _ in (following := self._following(job, cancel)):
                            pass
                        done += 1
                        (result,) = decode(list[FileResult], following.ended.result)
                        yield replace(result, path=os.fspath(path))
            except GeneratorExit:
                for each in left:
                    self._stop(each)
                raise
            yield Progress("reading", done, len(files))

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
        (job,) = self._sent([Path(path)], project, labels, name=name, key=key, priority=priority)
        return job

    def _ensured(self, project: str) -> str:
        try:
            return self.project(project).slug
        except NotFound:
            pass
        try:
            return self.create_project(project).slug
        except Conflict:  # another was quicker
            return self.project(project).slug

    def _sent(
        self,
        paths: Sequence[Path],
        project: str,
        labels: Labels | None,
        *,
        name: str = "",
        key: str = "",
        priority: Priority = Priority.NORMAL,
        wait: float = 0,
        cancel: Cancel | None = None,
    ) -> list[Job]:
        """Files on their way, read piece by piece."""
        said = {} if labels is None else labelled(labels)
        with ExitStack() as opened:
            try:
                reading = [opened.enter_context(Reading(path, cancel or Cancel())) for path in paths]
                files = [
                    ("file", (name or sent_as(path), file, "application/octet-stream"))
                    for path, file in zip(paths, reading, strict=True)
                ]
            except OSError as problem:
                raise NotFound(f"cannot read {problem.filename}: {problem.strerror}", hint="check the path") from None
            answer = self._call(
                "POST",
                f"{project_at(project)}/files",
                params={"wait": wait, **urgency(priority)},
                headers=key_header(key),
                data=said,
                files=files,
            )
        return decode(list[Job], answer.get("items", [answer]))

    def documents(
        self,
        *,
        project: str = "default",
        status: Status | None = None,
        limit: int | None = None,
        after: Cursor | None = None,
    ) -> list[Document]:
        """All, or the first so many, in the order in which they came; or those after where a page ended."""
        asked = {} if status is None else {"status": str(status)}
        return self._all(Document, f"{project_at(project)}/files", asked, limit, after)

    def document(self, id: str, *, project: str = "default") -> Document:
        """A document by its id, the beginning of its id, its name or its path."""
        return self.find([id], project=project)[0]

    def find(self, ids: Sequence[str], *, project: str = "default") -> list[Document]:
        """Documents by id, the beginning of an id, name or path; each once.

        A path is one on the server, or one here: what was sent from there is known by its name.
        """
        if not ids:
            self.project(project)
        found = [self._found_document(id, project) for id in _each(ids)]
        return list({document.id: document for document in found}.values())

    def _found_document(self, id: str, project: str) -> Document:
        if "/" not in id:
            return self._one(Document, "GET", file_at(project, id))
        documents = self.documents(project=project)
        known = {source.key: document for document in documents for source in document.sources}
        path = os.path.abspath(id)
        for key in (id, path, f"upload:{sent_as(Path(path))}"):
            if key in known:
                return known[key]
        raise NotFound(f"no file {id!r} in project {project!r}", hint="documents() shows the files and their ids")

    def _named(self, ids: Sequence[str], project: str) -> list[str]:
        """The same for the server, which does not know the paths that are here."""
        return [self.document(id, project=project).id if "/" in id else id for id in _each(ids)]

    def chunks(self, id: str, *, project: str = "default") -> list[Chunk]:
        return self._all(Chunk, f"{file_at(project, self.document(id, project=project).id)}/chunks")

    def text(self, id: str, *, project: str = "default") -> str:
        """A document's whole text, as it was read."""
        path = f"{file_at(project, self.document(id, project=project).id)}/text"
        return self._answer("GET", path).text

    def content(self, id: str, *, project: str = "default") -> tuple[Document, BufferedReader]:
        """A document and its original bytes, which the caller closes."""
        document = self.document(id, project=project)
        with tempfile.NamedTemporaryFile() as kept:
            with self._reached(), self._http.stream("GET", f"{file_at(project, document.id)}/content") as response:
                require_ok(response)
                for piece in response.iter_bytes():
                    kept.write(piece)
            kept.flush()
            return document, open(kept.name, "rb")  # its name goes now, its bytes when it is closed

    def removing(self, ids: Sequence[str], *, project: str = "default") -> Iterator[Removal]:
        """Delete documents from everything; a proof follows for each."""
        for document in self.find(ids, project=project):
            yield self._one(Removal, "DELETE", file_at(project, document.id))

    def enable(self, ids: Sequence[str], on: bool, *, project: str = "default") -> list[Document]:
        """Turn documents ON or OFF: OFF ones stay, but are never found."""
        found = self.find(ids, project=project)
        return [self._one(Document, "PATCH", file_at(project, each.id), {"enabled": on}) for each in found]

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
        said = {
            "source_type": source_type,
            "tags": None if tags is None else list(tags),
            "confidentiality": encode(confidentiality),
        }
        found = self.find(ids, project=project)
        return [self._one(Document, "PATCH", file_at(project, each.id), said) for each in found]

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
        asked = self._asked(question, project, k, filters, tuning, vector) | {"context": context, "fresh": fresh}
        return self._one(Retrieved, "POST", f"{project_at(project)}/search", asked, cancel=cancel)

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
        asked = self._asked(question, project, k, filters, tuning, vector)
        return self._one(Retrieved, "POST", f"{project_at(project)}/explain", asked, cancel=cancel)

    def _asked(
        self,
        question: str,
        project: str,
        k: int | None,
        filters: Filters | None,
        tuning: Tuning | None,
        vector: object,
    ) -> dict[str, Any]:
        if vector is not None:
            raise UserError("a vector cannot be sent", hint="leave it out: the server embeds the question")
        asked = {"question": question, "filters": self._filter_fields(filters, project), **tuning_fields(tuning)}
        return asked if k is None else asked | {"k": k}

    def _filter_fields(self, filters: Filters | None, project: str) -> dict[str, Any]:
        filters = filters or Filters()
        return {
            "files": self._named(filters.documents, project),
            "source_types": list(filters.source_types),
            "tags": list(filters.tags),
            "agent": filters.agent,
            "max_confidentiality": encode(filters.confidentiality),
            "since": encode(filters.since),
            "until": encode(filters.until),
        }

    # -- answering

    def ask(self, question: str, *, project: str = "default", **how: Unpack[AskOptions]) -> Result:
        """An answer with checked citations, or an abstention that says why."""
        events = self.stream(question, project=project, **how)
        return next(event.result for event in events if isinstance(event, DoneEvent))

    def stream(self, question: str, *, project: str = "default", **how: Unpack[AskOptions]) -> Iterator[AnswerEvent]:
        """The same as it comes: passages, decisions, tokens, citations, usage, and the result at the end."""
        cancel, named = how.get("cancel") or Cancel(), request_header(how)
        cancel.check()
        body = self._question(question, project, how)
        return self._streamed(f"{project_at(project)}/ask", body, cancel, named)

    def answering(
        self, question: str, *, project: str = "default", **how: Unpack[AskOptions]
    ) -> Iterator[AnswerEvent | Pending]:
        """The same for a caller whose thread is not to wait: while a model thinks, there is a `Pending`."""
        return self.stream(question, project=project, **how)

    def prompt(self, question: str, *, project: str = "default", **how: Unpack[AskOptions]) -> Prompted:
        """Exactly what `ask` would send, with its tokens and price. Nothing is sent to answer, and nothing is kept.

        To send it, changed or not, hand it to `ask` as `prompted`.
        """
        named = request_header(how)
        body = self._question(question, project, how)
        body.pop("ephemeral", None)
        answer = self._call("POST", f"{project_at(project)}/prompt", body, cancel=how.get("cancel"), headers=named)
        token = answer.pop("token")
        prompted = decode(Prompted, answer)
        self._prompts[prompted.account.trace_id] = _Sealed(token, [m.text for m in prompted.prompt.messages])
        while len(self._prompts) > _PROMPTS:
            self._prompts.popitem(last=False)
        return prompted

    def _question(self, question: str, project: str, how: AskOptions) -> dict[str, Any]:
        """The body of a question."""
        plain = ("model", "agent", "conversation", "ephemeral", "lock", "strictness", "system", "output")
        body: dict[str, Any] = {"question": question, **tuning_fields(how.get("tuning"))}
        body |= {name: how[name] for name in (*plain, "temperature", "max_tokens") if name in how}  # type: ignore[literal-required]
        body["filters"] = self._filter_fields(how.get("filters"), project)
        body["history"] = [{"question": turn.question, "answer": turn.answer} for turn in how.get("history", ())]
        body["stop"] = list(how.get("stop", ()))
        body |= encode(how.get("shaping", Shaping()))
        if (tuning := how.get("tuning")) is not None:
            body["k"] = tuning.context_chunks  # for an answer, those passages count that it stands on
        if "stages" in how:
            body["stages"] = sorted(how["stages"])
        if (prompted := how.get("prompted")) is not None:
            body["prompt"] = self._sealed(prompted)
        return body

    def _sealed(self, prompted: Prompted) -> dict[str, Any]:
        sealed = self._prompts.get(prompted.account.trace_id)
        if sealed is None:
            raise UserError("the prompt was not made here, or too long ago", hint="make it anew with prompt()")
        texts = [message.text for message in prompted.prompt.messages]
        return {"token": sealed.token, "texts": None if texts == sealed.texts else texts}

    def _streamed(
        self,
        path: str,
        body: Mapping[str, Any],
        cancel: Cancel,
        named: Mapping[str, str],
        kinds: Mapping[str, type[Any]] = _EVENTS,
    ) -> Iterator[Any]:
        """Events of an answer. After a cut it goes on with the next one; who closes it stops the answer."""
        stream, has_ended = "", False
        try:
            for name, data, stream in self._events(path, body, cancel, named):  # noqa: B007 - it is stopped by its name
                has_ended = name in _LAST_WORDS
                if name == "error":
                    if data["error"].get("code") == "stopped" and cancel.is_set:
                        raise Cancelled
                    raise raised_there(data["error"])
                yield decode(kinds[name], data["record"])
        finally:
            if stream and not has_ended:
                self._stop(stream)

    def _events(
        self, path: str, body: Mapping[str, Any], cancel: Cancel, named: Mapping[str, str]
    ) -> Iterator[tuple[str, Any, str]]:
        """Name and data of each event, and the address of the stream, whatever becomes of the connection."""
        stream, last, cuts = "", "", 0
        headers = {**named, **JSON, "Accept": f"text/event-stream, {_RECORDS}"}
        while True:
            method, where, sent = ("GET", stream, None) if stream else ("POST", path, json_bytes(body))
            asked = {"after": last} if last else {}
            try:
                with self._http.stream(method, where, content=sent, params=asked, headers=headers) as response:
                    if response.status_code == 204:
                        return
                    require_ok(response)
                    stream = stream or response.headers.get("Content-Location", "")
                    with self._stopping([stream], cancel):
                        for event in read_events(response):
                            last, cuts = event.id or last, 0
                            yield event.name, json.loads(event.data), stream
                            if event.name in _LAST_WORDS:
                                return
            except httpx.TransportError as problem:
                cuts += 1
                if not stream or cuts > _RESUMED:
                    raise unreachable(self._http, problem) from problem
            else:
                cuts += 1  # it ended without a last word: the server stops, or somebody between us
                if cuts > _RESUMED:
                    raise StoreError("the answer broke off", hint="ask again")
            if cancel.wait(min(0.05 * 2**cuts, 2.0)):
                raise Cancelled

    @contextmanager
    def _stopping(self, paths: Sequence[str], cancel: Cancel) -> Iterator[None]:
        """While we wait for the server, it is told when the work is cancelled."""
        ended = threading.Event()

        def watch() -> None:
            left, pause = list(paths), 0.1
            while left and not ended.wait(pause):
                if cancel.is_set:
                    left, pause = [path for path in left if not self._stop(path)], 1.0

        watcher = threading.Thread(target=watch, name="ragforge-cancel", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()

    def _stop(self, path: str) -> bool:
        """Whether the server has heard it; a key that must wait is not heard yet."""
        try:
            return self._http.delete(path).status_code not in (429, 503)
        except httpx.HTTPError:  # a stream stops by itself when nobody reads it
            return False

    # -- conversations

    def begin_conversation(self, title: str, *, project: str = "default") -> Conversation:
        """A thread whose turns are remembered; `ask` takes its id."""
        return self._one(Conversation, "POST", f"{project_at(project)}/conversations", {"title": title})

    def turn_of(self, result: Result) -> Turn:
        """A question and its answer as a turn, for a conversation that is kept elsewhere: `ask` takes it as history."""
        from datetime import UTC

        from ragforge.flows.keep import turn_of

        return turn_of(result, datetime.now(UTC))

    def conversations(self, *, project: str = "default") -> list[Conversation]:
        """The last spoken in first."""
        return self._all(Conversation, f"{project_at(project)}/conversations")

    def conversation(self, id: str, *, project: str = "default") -> Conversation:
        """One by its id, the beginning of it, or `last`."""
        return self._one(Conversation, "GET", f"{project_at(project)}/conversations/{step(id)}")

    def rename_conversation(self, id: str, title: str, *, project: str = "default") -> Conversation:
        """Give a conversation another title."""
        return self._one(Conversation, "PATCH", f"{project_at(project)}/conversations/{step(id)}", {"title": title})

    def conversation_markdown(self, id: str, *, project: str = "default") -> str:
        """A conversation as a Markdown document: questions, answers, and the sources of each."""
        return self._answer("GET", f"{project_at(project)}/conversations/{step(id)}/markdown").text

    def turns(self, conversation: str, *, project: str = "default") -> list[Turn]:
        """Everything that was asked and answered in a conversation, in its order."""
        return self._all(Turn, f"{project_at(project)}/turns", {"conversation": conversation})

    def rollups(self, conversation: str, *, project: str = "default") -> list[Rollup]:
        """The summaries that stand for its oldest turns."""
        return self._all(Rollup, f"{project_at(project)}/conversations/{step(conversation)}/rollups")

    def mark_turn(self, turn: str, *, importance: float = 1.0, project: str = "default") -> None:
        """Say how much a turn matters, 0 to 1: one that matters fully is remembered however old it is."""
        self._call("PATCH", f"{project_at(project)}/turns/{step(turn)}", {"importance": importance})

    def remove_turn(self, turn: str, *, project: str = "default") -> None:
        """Delete one turn for good."""
        self._call("DELETE", f"{project_at(project)}/turns/{step(turn)}")

    def remove_conversation(self, id: str, *, project: str = "default") -> None:
        """Delete a conversation for good: its turns, summaries and vectors."""
        self._call("DELETE", f"{project_at(project)}/conversations/{step(id)}")

    # -- what people write for a project

    def project_text(self, kind: ProjectTextKind, *, project: str = "default") -> ProjectText:
        """Its Hard Rules or its Project Memory as they are now."""
        return self._one(ProjectText, "GET", f"{project_at(project)}/texts/{kind}")

    def write_project_text(self, kind: ProjectTextKind, text: str, *, project: str = "default") -> ProjectText:
        """A new version of it; the older ones stay."""
        return self._one(ProjectText, "PUT", f"{project_at(project)}/texts/{kind}", {"text": text})

    def project_text_versions(self, kind: ProjectTextKind, *, project: str = "default") -> list[ProjectText]:
        return self._all(ProjectText, f"{project_at(project)}/texts/{kind}/versions")

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
        return self._all(LogEntry, f"{project_at(project)}/log", since_fields(since), limit, after)

    def logged(self, id: str, *, project: str = "default") -> LogEntry:
        """One question of the log by its id, the beginning of it, or `last`."""
        return self._one(LogEntry, "GET", f"{project_at(project)}/log/{step(id)}")

    def spent(self, *, by: str = "model", project: str = "default", since: datetime | None = None) -> list[Spent]:
        """Tokens and money by `model`, `profile`, `agent` or `day`."""
        return self._all(Spent, f"{project_at(project)}/spent", {"by": by, **since_fields(since)})

    def prune_log(self, before: datetime, *, project: str = "default") -> int:
        """Remove for good what was asked before this. Returns how many questions that were."""
        answer = self._call("DELETE", f"{project_at(project)}/log", params={"before": before.isoformat()})
        return int(answer["removed"])

    def give_feedback(
        self, id: str, good: bool, *, note: str = "", expected: Sequence[str] = (), project: str = "default"
    ) -> Feedback:
        """Mark an answer of the log as good or bad, in place of an earlier mark.

        Where the right documents are known, the question joins the set `feedback`: of a good answer they are those it
        cites, else those that `expected` names.
        """
        body = {"good": good, "note": note, "expected": self._named(expected, project)}
        return self._one(Feedback, "POST", f"{project_at(project)}/log/{step(id)}/feedback", body)

    # -- documents made

    def document_kinds(self) -> list[Outline]:
        """What can be made: the shipped outlines, and those in the workspace's folder `outlines`."""
        from ragforge.answer.outline import Outline

        return self._all(Outline, "/v1/document-kinds")

    def agents(self) -> list[Agent]:
        """Who can speak: the shipped agents, and those in the workspace's folder `agents`."""
        from ragforge.answer.agents import Agent

        return self._all(Agent, "/v1/agents")

    def agent(self, name: str) -> Agent:
        """Who speaks, by name: of the workspace's folder `agents`, or one that comes with ragforge."""
        from ragforge.answer.agents import Agent

        return self._one(Agent, "GET", f"/v1/agents/{step(name)}")

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
        """A document by its outline: how far it is, and the whole of it at last. Over HTTP it is always kept."""
        from ragforge.flows.make import Made

        if not keep:
            raise UserError("over HTTP a document is kept", hint="remove it afterwards with remove_artifacts")
        export = exporter(partial(self._rendered, project=project))
        if out is not None:
            export.require(Path(out))
        body = {"kind": kind, "brief": brief, "agent": agent, "title": title, "model": model}
        job = self._one(Job, "POST", f"{project_at(project)}/artifacts", body)
        following = self._following(job, cancel or Cancel())
        yield from following
        artifact = self.artifact(str(following.ended.result["artifact"]), project=project)
        text = self._rendered(artifact, ".md", project).decode()
        if out is not None:
            export(artifact, Path(out))
        yield Made(artifact, text, None if out is None else Path(out))

    def artifacts(self, *, project: str = "default") -> list[Artifact]:
        """The documents that were made and kept, newest first."""
        return self._all(Artifact, f"{project_at(project)}/artifacts")

    def artifact(self, id: str, *, project: str = "default") -> Artifact:
        """One by its id, the beginning of it, or `last`."""
        return self._one(Artifact, "GET", f"{project_at(project)}/artifacts/{step(id)}")

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
        seen = was or {}
        sections = [{"number": place, "text": text, "was": seen.get(place)} for place, text in (texts or {}).items()]
        body = {"title": title, "sections": sections}
        return self._one(Artifact, "PATCH", f"{project_at(project)}/artifacts/{step(id)}", body)

    def export_artifact(self, artifact: Artifact, file: str | os.PathLike[str]) -> None:
        """Write it to a file; the ending of its name says whether as Markdown or for Word."""
        exporter(self.rendered)(artifact, Path(file))

    def rendered(self, artifact: Artifact, ending: str) -> bytes:
        """Its bytes as Markdown (`.md`) or for Word (`.docx`)."""
        for project in self.projects():
            if any(each.id == artifact.id for each in self.artifacts(project=project.slug)):
                return self._rendered(artifact, ending, project.slug)
        raise NotFound(f"no made document {artifact.id!r}", hint="it may have been removed meanwhile")

    def _rendered(self, artifact: Artifact, ending: str, project: str) -> bytes:
        path = f"{project_at(project)}/artifacts/{step(artifact.id)}"
        return self._answer("GET", path, params={"format": ending.removeprefix(".")}).content

    def remove_artifacts(self, ids: Sequence[str], *, project: str = "default") -> list[Artifact]:
        """Delete made documents for good, all of these or none."""
        found = {each.id: each for each in (self.artifact(id, project=project) for id in ids)}
        for id in found:
            self._call("DELETE", f"{project_at(project)}/artifacts/{step(id)}")
        return list(found.values())

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
        """Questions whose documents are known, and the documents that come with them; the report is the last event.

        They are read here, and documents that come with them are written here before they are sent.
        """
        from ragforge.evaluate.corpus import check_corpus, file_name, write_corpus
        from ragforge.evaluate.questions import read_questions

        file = Path(path).expanduser()
        name, reading = name or file.resolve().stem, read_questions(file, split)
        source = (Path(corpus) if corpus is not None else reading.corpus) if with_corpus else None
        outcomes: Counter[Outcome] = Counter()
        sent: dict[str, str] = {}
        empty = 0
        if source is not None:
            check_corpus(source)
            target = Path(documents or f"{name}-documents").expanduser().resolve()
            yield Progress("writing", 0, None)
            written = write_corpus(source, target)
            empty = written.empty
            for event in self.adding(written.files, project=project, cancel=cancel):
                if isinstance(event, FileResult):
                    outcomes[event.outcome] += 1
                    sent[Path(event.path).relative_to(target).as_posix()] = event.document or ""
                yield event
        lines = [question_fields(each, lambda name: sent.get(file_name(name)) or name) for each in reading.questions]
        where = f"{project_at(self._ensured(project))}/questions"
        report = self._one(ImportReport, "POST", where, {"name": name, "questions": lines})
        changed = report.changed or any(outcomes[each] for each in outcomes if each is not Outcome.UNCHANGED)
        yield replace(report, changed=changed, left_out=reading.left_out, documents=dict(outcomes), empty=empty)

    def question_sets(self, *, project: str = "default") -> list[QuestionSet]:
        return self._all(QuestionSet, f"{project_at(project)}/questions")

    def questions(self, name: str, *, project: str = "default") -> list[Question]:
        """The questions of a set, in the order of their file."""
        return self._all(Question, f"{project_at(project)}/questions/{step(name)}")

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
        body = {"questions": questions, "label": label, "answers": answers, "model": model, "judge": judge}
        job = self._one(Job, "POST", f"{project_at(project)}/evaluations", body | tuning_fields(tuning))
        following = self._following(job, cancel or Cancel())
        yield from following
        yield self.evaluation(str(following.ended.result["run"]), project=project).run

    def evaluations(self, *, project: str = "default") -> list[Run]:
        """All runs, newest first."""
        return self._all(Run, f"{project_at(project)}/evaluations")

    def evaluation(self, run: str, *, project: str = "default") -> RunDetails:
        """A run with each of its questions, by id, the beginning of its id, its label, or `last`."""
        return self._one(RunDetails, "GET", f"{project_at(project)}/evaluations/{step(run)}")

    def compare_evaluations(self, before: str, after: str, *, project: str = "default") -> Comparison:
        """How two runs over the same questions differ, and whether it could be chance."""
        path = f"{project_at(project)}/evaluations/{step(before)}/compare/{step(after)}"
        return self._one(Comparison, "GET", path)

    # -- what agents learn

    @property
    def lessons(self) -> RemoteLessons:
        """What worked in the past, and what people decided: captured, reviewed, and told to an orchestrator."""
        from ragforge.client.lessons import RemoteLessons

        return RemoteLessons(self)

    # -- guided interviews

    @property
    def discovery(self) -> RemoteDiscovery:
        """Interviews that end in a document: begun, led turn by turn, corrected, written up."""
        from ragforge.client.discovery import RemoteDiscovery

        return RemoteDiscovery(self)

    # -- generations

    def rebuilding(self, *, project: str = "default", cancel: Cancel | None = None) -> Iterator[Progress]:
        """Build a project's indexes anew from the catalog alone; searches go on meanwhile."""
        job = self._one(Job, "POST", f"{project_at(project)}/rebuild")
        yield from self._following(job, cancel or Cancel())

    def reindexing(
        self,
        *,
        project: str = "default",
        strategy: Strategy | None = None,
        embedder: str | None = None,
        cancel: Cancel | None = None,
    ) -> Iterator[Progress]:
        """Split and embed a project anew where its splitter or model changed; searches go on meanwhile."""
        body = {"strategy": split_fields(strategy), "embedder": embedder}
        job = self._one(Job, "POST", f"{project_at(project)}/reindex", body)
        yield from self._following(job, cancel or Cancel())

    # -- how the server is

    def language_models(self) -> LanguageModels:
        """The models that can write answers: what they cost and read, and what is missing. None of them is called.

        Where services are is for the owner alone.
        """
        return self._one(LanguageModels, "GET", "/v1/language-models")

    def tuning(self) -> Tuning:
        """How passages are found unless a question says otherwise."""
        return self._one(Tuning, "GET", "/v1/tuning")

    def ready(self) -> list[Finding]:
        """Whether the parts that serving takes are there, and its workers."""
        with self._reached():
            return findings_in(self._http.get("/readyz"))

    # -- jobs

    def enqueue(
        self,
        kind: str,
        payload: Mapping[str, Any],
        *,
        project: str = "default",
        key: str = "",
        priority: Priority = Priority.NORMAL,
    ) -> Job:
        """Ask for long work: make, evaluate, checkpoint, rebuild, reindex. The same `key` again gives the same job."""
        if kind not in _ASKED_AT:
            hint = f"it takes {', '.join(_ASKED_AT)}; upload() sends files"
            raise UserError(f"a server takes no job of the kind {kind!r}", hint=hint)
        where = f"{project_at(project)}/{_ASKED_AT[kind]}"
        asked = self._call("POST", where, work_fields(payload), params=urgency(priority), headers=key_header(key))
        return decode(Job, asked)

    def jobs(self, *, project: str | None = None, limit: int | None = None, after: Cursor | None = None) -> list[Job]:
        return self._all(Job, "/v1/jobs", {} if project is None else {"project": project}, limit, after)

    def job(self, id: str) -> Job:
        return self._one(Job, "GET", job_at(id))

    def nodes(self) -> list[Node]:
        return decode(list[Node], self._call("GET", "/v1/nodes")["items"])

    def cancel_job(self, id: str) -> Job:
        """A waiting job ends at once; one that runs is told within a second or two."""
        return self._one(Job, "DELETE", job_at(id))

    def _following(self, job: Job, cancel: Cancel) -> _Following:
        return _Following(self, job, cancel)

    def _job_events(self, id: str, cancel: Cancel) -> Iterator[Job]:
        """The job whenever it changes, to its end; each event is the whole of it, so a cut loses nothing."""
        path, cuts = f"{job_at(id)}/events", 0
        while True:
            try:
                with self._http.stream("GET", path, headers={"Accept": "text/event-stream"}) as response:
                    require_ok(response)
                    for event in read_events(response):
                        cuts = 0
                        told = json.loads(event.data)
                        told.pop("event")
                        yield decode(Job, told)
                        if event.name == "done":
                            return
            except OverLimit as problem:
                if problem.retry_after > LONGEST_SECONDS:
                    raise
                cancel.wait(problem.retry_after)
                continue
            except httpx.TransportError as problem:
                if cuts >= _RESUMED:
                    raise unreachable(self._http, problem) from problem
            cuts += 1
            if cuts > _RESUMED:
                raise StoreError("the server tells nothing more of the job", hint="job() asks for it again")
            time.sleep(min(0.05 * 2**cuts, 2.0))

    # -- calls

    def _one(
        self,
        kind: type[T],
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        cancel: Cancel | None = None,
    ) -> T:
        return decode(kind, self._call(method, path, body, cancel=cancel))

    def _all(
        self,
        kind: type[T],
        path: str,
        asked: Mapping[str, Any] | None = None,
        limit: int | None = None,
        after: Cursor | None = None,
    ) -> list[T]:
        """Every page of a list, or as many as hold `limit` items."""
        found: list[T] = []
        place = str(after or "")
        while limit is None or len(found) < limit:
            page = {"limit": _PAGE if limit is None else max(1, min(_PAGE, limit - len(found)))}
            answer = self._call("GET", path, params={**(asked or {}), **page, **({"after": place} if place else {})})
            found += decode(list[kind], answer["items"])  # type: ignore[valid-type]
            place = answer["next"]
            if not place:
                break
        return found

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        cancel: Cancel | None = None,
        **how: Any,
    ) -> Any:
        """What comes back as JSON. Whoever cancels does not wait for it."""
        if body is not None:
            how |= {"content": json_bytes(body), "headers": {**how.get("headers", {}), **JSON}}
        ask = partial(self._answer, method, path, **how)
        response = ask() if cancel is None else unless_cancelled(cancel, ask)
        return response.json() if response.content else None

    def _answer(self, method: str, path: str, **how: Any) -> httpx.Response:
        with self._reached():
            response = self._http.request(method, path, **how)
        require_ok(response)
        return response

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except httpx.TransportError as problem:
            raise unreachable(self._http, problem) from problem
        except UnicodeEncodeError as problem:
            raise UserError(f"{problem.object!r} cannot be sent", hint="use plain letters and digits") from problem


class _Following:
    """How far a job is, until it has ended: then `ended` is there. What failed there is raised here."""

    def __init__(self, forge: RemoteForge, job: Job, cancel: Cancel) -> None:
        self._forge = forge
        self._cancel = cancel
        self.ended = job

    def __iter__(self) -> Iterator[Progress]:
        told: Progress | None = None
        if not self.ended.ended:
            with self._forge._stopping([job_at(self.ended.id)], self._cancel):
                for job in self._forge._job_events(self.ended.id, self._cancel):
                    self.ended = job
                    if job.progress is not None and job.progress != told:
                        told = job.progress
                        yield told
        if self.ended.state == JobState.CANCELLED:
            raise Cancelled
        if self.ended.state != JobState.DONE:
            raise StoreError(self.ended.error or "the job failed", hint=self.ended.hint)


def _each(ids: Sequence[str]) -> Sequence[str]:
    """One alone is one, not its letters."""
    return [ids] if isinstance(ids, str) else ids
