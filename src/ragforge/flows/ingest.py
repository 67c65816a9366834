"""A folder's way into the catalog. Read this first.

    find -> (unchanged? done) -> accept -> parse -> split -> [batch] -> embed -> publish -> forget old bytes

Files are read ahead by a few threads while the batch before them is embedded and published. A file's result is
sent when it is durable. One bad file becomes a failure and stops nothing; an error of the store or of a provider
stops the run, and what was published before it stays.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from ragforge.domain.access import Scope
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.documents import Parsed, ParseFailure, Reason
from ragforge.domain.language import foreign_to
from ragforge.domain.library import (
    FileResult,
    Job,
    KnownSource,
    Labels,
    Outcome,
    OwnProgress,
    Progress,
    Project,
    Publication,
    Published,
    Status,
)
from ragforge.domain.sizes import size_text
from ragforge.domain.tokens import Matrix, Passage
from ragforge.errors import Outdated, Unreachable, cannot_write
from ragforge.failpoints import failpoint
from ragforge.ingest.accept import Accepted, accept
from ragforge.ingest.embed import embed_all, passages, without_vectors
from ragforge.ingest.jail.prechecks import precheck
from ragforge.ingest.parse import registry
from ragforge.ingest.split import split
from ragforge.ingest.summarise import summarise
from ragforge.ingest.walk import Found, Unreadable, find_files, why_unreadable
from ragforge.ports import BlobStore, Catalog, Embedder, ParseRequest, Parsers

_TRIES = 3
_READ_AHEAD = 16
_READ_AHEAD_BYTES = 4_000_000
_FLUSH_SECONDS = 2.0
_SAVE_SECONDS = 5.0
_STAGES = ("reading", "embedding")
"""Of one file, in their order."""


@dataclass(frozen=True, slots=True)
class Read:
    """A file that was read: stored, and parsed or not. `parsed` is None when its bytes are here already."""

    path: str
    accepted: Accepted
    parsed: Parsed | ParseFailure | None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A file ready to be published, with the passages whose vectors it needs."""

    read: Read
    publication: Publication
    passages: dict[bytes, Passage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Batching:
    """How much goes into one transaction, and how much is embedded at a time."""

    files: int = 500
    leaves: int = 256
    threads: int = 2


@dataclass(frozen=True, slots=True)
class Quota:
    """How large files and projects may become."""

    file_bytes: int
    project_bytes: int
    project_files: int


@dataclass(frozen=True, slots=True)
class Ingest:
    """Files into one project: the parts it needs, and the path through them."""

    catalog: Catalog
    blobs: BlobStore
    parsers: Parsers
    embedder_of: Callable[[Project], Embedder]
    quota: Quota
    batching: Batching
    workspace: Path
    upkeep: Scope
    """Stored bytes are looked after for the whole workspace."""

    def add(
        self,
        scope: Scope,
        slug: str,
        paths: Sequence[str | os.PathLike[str]],
        labels: Labels | None,
        cancel: Cancel,
        *,
        retry: bool = False,
    ) -> Iterator[FileResult | Progress]:
        """Add the files under `paths`; those whose size and time are known are not read.

        Labels that are given hold for all of them, also for those that are here already.
        """
        found = list(find_files(paths, self.workspace))
        yield from (_failed(f.path, f.failure) for f in found if isinstance(f, Unreadable))
        files = list({f.path: f for f in found if isinstance(f, Found)}.values())
        with closing(self.take_in(scope, slug, files, labels, cancel, retry=retry)) as events:
            for event in events:
                if not isinstance(event, OwnProgress):  # nobody waits for one file alone
                    yield event

    def take_in(
        self,
        scope: Scope,
        slug: str,
        files: Sequence[Found],
        labels: Labels | None,
        cancel: Cancel,
        *,
        retry: bool = False,
        jobs: Sequence[Job] = (),
    ) -> Generator[FileResult | Progress | OwnProgress, None, None]:
        """The same for files that are found already, each once. For `jobs` it also tells how far each file is.

        Whoever does it for these and holds them no longer comes too late: then nothing is published.
        """
        run = _Run(self, scope, slug, labels, cancel, retry=retry, jobs=jobs)
        run.total = len(files)
        yield from run.settle(files)
        for file in run.changed:
            yield from run.step(file.shown, "reading", 0, 1)
        yield run.progress("reading")
        try:
            for item in run.read_ahead(run.changed):
                yield from run.take(item)
            yield from run.flush()
            run.sweep()
        finally:
            run.forget_batch()

    # -- the steps of one file

    def read(self, scope: Scope, project: Project, found: Found, cancel: Cancel, *, known: bool, retry: bool) -> Read:
        """Accept and parse. Raises OSError if the file cannot be opened."""
        accepted = accept(found, scope.owner, self.blobs, self.quota.file_bytes)
        if accepted.failure is not None:
            return Read(found.shown, accepted, accepted.failure)
        costly = known or registry.PARSERS[accepted.type.parser].jailed
        if costly and not retry:  # perhaps touched but not changed, or a copy of another file
            with self.catalog.read() as c:
                if c.documents.versions_with(scope, project.id, [accepted.source.sha256]):
                    return Read(found.shown, accepted, None)
        return Read(found.shown, accepted, self.parse(accepted, cancel))

    def parse(self, accepted: Accepted, cancel: Cancel) -> Parsed | ParseFailure:
        """Bytes to text: plain text here, everything else in the jail after its pre-checks."""
        parser, name = accepted.type.parser, accepted.source.name
        with self.blobs.open(accepted.blob) as file:
            if not registry.PARSERS[parser].jailed:
                return registry.run(parser, file.read(), name)
            refused = precheck(file, accepted.source.size, accepted.type.name)
            if refused is not None:
                return refused
            file.seek(0)
            return self.parsers.parse(ParseRequest(parser, name), file, cancel)

    def prepare(self, read: Read, project: Project, embedder: Embedder, labels: Labels) -> Prepared:
        """Split the text and name the vectors it needs."""
        accepted = read.accepted
        bare = Publication(
            source=accepted.source,
            type=accepted.type.name,
            mime=accepted.type.mime,
            blob=accepted.blob,
            parser=registry.fingerprint(accepted.type.parser) if accepted.type.parser else "",
            labels=labels,
        )
        if read.parsed is None:
            return Prepared(read, bare)
        if isinstance(read.parsed, ParseFailure):
            return Prepared(read, replace(bare, failure=read.parsed))
        parsed = _noting_language(read.parsed, embedder)
        (tokens,) = embedder.tokenizer.encode([parsed.text])
        pieces = split(parsed, tokens, project.strategy, accepted.source.name)
        wanted = passages(accepted.source.name, parsed, pieces, tokens, embedder.tokenizer)
        publication = replace(
            bare,
            parsed=parsed,
            split=pieces,
            hashes=tuple(text_hash for text_hash, _ in wanted),
            tokens=len(tokens),
            summary=summarise(parsed),
        )
        return Prepared(read, publication, dict(wanted))


class _Run:
    """One `add`: what is known of the project, how far it has come, and the batch being filled."""

    def __init__(
        self,
        ingest: Ingest,
        scope: Scope,
        slug: str,
        labels: Labels | None,
        cancel: Cancel,
        *,
        retry: bool,
        jobs: Sequence[Job],
    ) -> None:
        self._ingest = ingest
        self._scope = scope
        self._labels = labels
        self._said = labels or Labels.unsaid(scope.clearance)
        self._cancel = cancel
        self._retry = retry
        self._jobs = jobs
        self.total = self.done = self._chunks = self._embedded = 0
        self._began = time.monotonic()
        self._batch: list[Prepared] = []
        self._batch_began = self._began
        self._known: Mapping[str, KnownSource] = {}
        self._counting = threading.Lock()
        self._outdated = False
        self._told: dict[str, tuple[int, float]] = {}
        """How far each file is: its stage, and the part of that."""
        self.changed: list[Found] = []
        with ingest.catalog.read() as c:
            self._project = c.projects.get(scope, slug)
            self._files, self._bytes = c.documents.usage(scope, self._project.id)
        self._embedder = ingest.embedder_of(self._project)

    def _refresh(self) -> None:
        """The project as it is now: its splitter, model or name changed."""
        self._outdated = True
        with self._ingest.catalog.read() as c:
            self._project = c.projects.with_id(self._scope, self._project.id)
        self._embedder = self._ingest.embedder_of(self._project)

    def progress(self, stage: str) -> Progress:
        seconds = time.monotonic() - self._began
        return Progress(stage, self.done, self.total, self._chunks, self._embedded, seconds)

    def step(self, path: str, stage: str, done: int, total: int) -> Iterator[OwnProgress]:
        """How far one file is, for the job that brings it. It never goes back, also where a file is split anew."""
        at = (_STAGES.index(stage), done / total)
        if self._jobs and (path not in self._told or at > self._told[path]):
            self._told[path] = at
            yield OwnProgress(path, Progress(stage, done, total, seconds=time.monotonic() - self._began))

    def settle(self, files: Sequence[Found]) -> Iterator[FileResult]:
        """Results of the files that are as they were when they were last read; the others are `changed`."""
        with self._ingest.catalog.read() as c:
            self._known = c.documents.sources(self._scope, self._project.id, [file.key for file in files])
        same: list[tuple[Found, KnownSource]] = []
        for file in files:
            known = self._known.get(file.key)
            if known is None or not self._is_settled(file, known):
                self.changed.append(file)
            else:
                same.append((file, known))
        self._label({known.document for _, known in same})
        for file, known in same:
            self.done += 1
            yield _still(file.shown, known)

    def _is_settled(self, file: Found, known: KnownSource) -> bool:
        unchanged = (known.source.size, known.source.mtime_ns) == (file.size, file.mtime_ns)
        return unchanged and not (self._retry and known.problem is not None)

    def _label(self, documents: Collection[str]) -> None:
        labels = self._labels
        if labels is None or not documents:
            return
        with self._ingest.catalog.write() as c:
            c.documents.label(
                self._scope,
                self._project.id,
                documents,
                source_type=labels.source_type,
                tags=labels.tags,
                confidentiality=labels.confidentiality,
            )

    def sweep(self) -> None:
        """Vectors made for rules that changed meanwhile are of no use."""
        if self._outdated:
            with self._ingest.catalog.write() as c:
                c.embeddings.sweep(self._scope, self._project.id)

    # -- reading ahead

    def read_ahead(self, files: Sequence[Found]) -> Iterator[Prepared | FileResult]:
        """Files read and split by a few threads, in order, a bounded number of files and bytes ahead of their use."""
        window: deque[tuple[int, Future[Prepared | FileResult]]] = deque()
        ahead = 0
        with ThreadPoolExecutor(self._ingest.batching.threads, "ragforge-read") as threads:
            try:
                for file in files:
                    self._cancel.check()
                    while window and (len(window) >= _READ_AHEAD or ahead + file.size > _READ_AHEAD_BYTES):
                        size, future = window.popleft()
                        ahead -= size
                        yield future.result()
                    ahead += file.size
                    window.append((file.size, threads.submit(self._read, file)))
                while window:
                    yield window.popleft()[1].result()
            finally:
                self._forget(future for _, future in window)

    def _read(self, file: Found) -> Prepared | FileResult:
        self._cancel.check()
        if (over := self._over_quota(file)) is not None:
            return _failed(file.shown, over)
        try:
            known = file.key in self._known
            read = self._ingest.read(self._scope, self._project, file, self._cancel, known=known, retry=self._retry)
        except OSError as problem:
            if problem.errno == errno.ENOSPC:
                raise cannot_write(self._ingest.workspace, problem) from problem
            return _failed(file.shown, why_unreadable(problem))
        return self._ingest.prepare(read, self._project, self._embedder, self._said)

    def _over_quota(self, file: Found) -> ParseFailure | None:
        """Count the file in, unless the project would become too large. What is refused takes no room."""
        quota, known = self._ingest.quota, self._known.get(file.key)
        if file.size > quota.file_bytes:
            return None
        with self._counting:
            files = self._files + (known is None)
            size = self._bytes + file.size - (known.source.size if known else 0)
            if files > quota.project_files:
                return _full(f"{quota.project_files:,} files", "limits.project_files")
            if size > quota.project_bytes:
                return _full(size_text(quota.project_bytes), "limits.project_bytes")
            self._files, self._bytes = files, size
        return None

    def _forget(self, window: Iterable[Future[Prepared | FileResult]]) -> None:
        """The run ends early: bytes that were stored ahead are not needed."""
        for future in window:
            if not future.cancel() and future.exception() is None:
                item = future.result()
                if isinstance(item, Prepared):
                    self._drop([item.publication.blob])

    def forget_batch(self) -> None:
        """The same for files that waited to be published."""
        self._drop_unpublished(self._batch)

    # -- publishing

    def take(self, item: Prepared | FileResult) -> Iterator[FileResult | Progress | OwnProgress]:
        """Add a file to the batch; publish the batch when it is full or has waited long enough."""
        if isinstance(item, FileResult):
            self.done += 1
            yield item
            return
        yield from self.step(item.read.path, "reading", 1, 1)
        limits = self._ingest.batching
        if len(item.publication.hashes) >= limits.leaves:  # the small ones before it need not wait for a large one
            yield from self.flush()
        if not self._batch:
            self._batch_began = time.monotonic()
        self._batch.append(item)
        leaves = sum(len(prepared.publication.hashes) for prepared in self._batch)
        waited = time.monotonic() - self._batch_began
        if leaves >= limits.leaves or len(self._batch) >= limits.files or waited > _FLUSH_SECONDS:
            yield from self.flush()

    def flush(self) -> Iterator[FileResult | Progress | OwnProgress]:
        """Embed what is missing, then make the whole batch live in one transaction."""
        batch, self._batch = self._batch, []
        if not batch:
            return
        try:
            for attempt in range(1, _TRIES + 1):
                try:
                    batch = self._without_copies(batch)
                    published = yield from self._publish(batch)
                    break
                except Outdated:
                    if attempt == _TRIES:
                        raise
                    self._refresh()
                    batch = [self._again(prepared) for prepared in batch]
                except Unreachable:  # the server went in the middle: committed or not, the same again does no harm
                    if attempt == _TRIES:
                        raise
        except BaseException:
            self._drop_unpublished(batch)
            raise
        self._label({result.document for result in published})
        failpoint("ingest.published")
        self._drop([blob for result in published for blob in result.obsolete_blobs])
        for prepared, result in zip(batch, published, strict=True):
            self.done += 1
            self._chunks += len(prepared.publication.hashes)
            yield _result(prepared, result)
        yield self.progress("reading")

    def _without_copies(self, batch: list[Prepared]) -> list[Prepared]:
        """Files whose bytes are here already, or came earlier in the batch, need no vectors of their own."""
        hashes = [prepared.read.accepted.source.sha256 for prepared in batch]
        with self._ingest.catalog.read() as c:
            held = set(c.documents.versions_with(self._scope, self._project.id, hashes))
        kept: list[Prepared] = []
        for prepared, sha256 in zip(batch, hashes, strict=True):
            if isinstance(prepared.read.parsed, Parsed) and not self._retry:
                if sha256 in held:
                    copy = replace(prepared.read, parsed=None)
                    prepared = self._ingest.prepare(copy, self._project, self._embedder, self._said)
                held.add(sha256)
            kept.append(prepared)
        return kept

    def _publish(self, batch: Sequence[Prepared]) -> Generator[Progress | OwnProgress, None, list[Published]]:
        ingest, scope, project, card = self._ingest, self._scope, self._project, self._embedder.card
        wanted = {text_hash: passage for prepared in batch for text_hash, passage in prepared.passages.items()}
        unsaved: list[tuple[list[bytes], Matrix]] = []
        saved = time.monotonic()
        try:
            yield self.progress("embedding")
            missing = without_vectors(ingest.catalog, scope, project.id, self._embedder, wanted)
            shares = _Shares(batch if self._jobs else (), missing)
            yield from self._steps(shares)
            for vectors in embed_all(self._embedder, missing, self._cancel):
                unsaved.append(vectors)
                self._embedded += len(vectors[0])
                shares.count(vectors[0])
                yield from self._steps(shares)
                yield self.progress("embedding")
                if time.monotonic() - saved > _SAVE_SECONDS:  # so that a kill loses little of a slow model's work
                    self._save(unsaved)
                    unsaved, saved = [], time.monotonic()
            ingest.blobs.sync()
            failpoint("ingest.embedded")
            with ingest.catalog.write() as c:
                if not c.jobs.holds(ingest.upkeep, self._jobs):
                    unsaved = []  # whoever holds them now has vectors of their own
                    raise Cancelled
                for hashes, matrix in unsaved:
                    c.embeddings.put(scope, project.id, card, hashes, matrix)
                failpoint("ingest.publishing")
                return c.documents.publish(scope, project.id, project.generation, [item.publication for item in batch])
        except BaseException:
            self._save(unsaved)  # perhaps paid for: the next try need not embed them again
            raise

    def _steps(self, shares: _Shares) -> Iterator[OwnProgress]:
        for path, done, total in shares.now():
            yield from self.step(path, "embedding", done, total)

    def _save(self, batches: Sequence[tuple[list[bytes], Matrix]]) -> None:
        if not batches:
            return
        with self._ingest.catalog.write() as c:
            for hashes, matrix in batches:
                c.embeddings.put(self._scope, self._project.id, self._embedder.card, hashes, matrix)

    def _again(self, prepared: Prepared) -> Prepared:
        """The project changed while the file waited: read and split it by the new rules."""
        read = prepared.read
        if read.parsed is None:
            read = replace(read, parsed=self._ingest.parse(read.accepted, self._cancel))
        return self._ingest.prepare(read, self._project, self._embedder, self._said)

    def _drop_unpublished(self, batch: Iterable[Prepared]) -> None:
        """The work stopped, perhaps just after its commit: bytes that a version needs stay, whoever's it is."""
        batch = list(batch)
        if not batch:
            return
        with self._ingest.catalog.read() as c:
            needed = set(c.documents.blobs(self._ingest.upkeep))
        self._drop(prepared.publication.blob for prepared in batch if prepared.publication.blob not in needed)

    def _drop(self, blobs: Iterable[str]) -> None:
        for blob in blobs:
            if blob:
                self._ingest.blobs.remove(blob)


class _Shares:
    """How many of its own leaves have their vectors, of each file of a batch."""

    def __init__(self, batch: Sequence[Prepared], missing: Collection[bytes]) -> None:
        self._leaves = {each.read.path: len(each.publication.hashes) for each in batch if each.publication.hashes}
        self._left: Counter[str] = Counter()
        self._files: dict[bytes, list[str]] = {}
        for each in batch:
            for text_hash in filter(missing.__contains__, each.publication.hashes):
                self._left[each.read.path] += 1
                self._files.setdefault(text_hash, []).append(each.read.path)

    def count(self, embedded: Iterable[bytes]) -> None:
        """Each of these once."""
        for text_hash in embedded:
            self._left.subtract(self._files.get(text_hash, ()))

    def now(self) -> Iterator[tuple[str, int, int]]:
        """Each file, how many of its leaves have theirs, and how many it has."""
        for path, leaves in self._leaves.items():
            yield path, leaves - self._left[path], leaves


def _noting_language(parsed: Parsed, embedder: Embedder) -> Parsed:
    """Say so when the model does not know the text's language: keywords then carry the search."""
    language = foreign_to(embedder.card.languages, parsed.text)
    if language is None:
        return parsed
    note = f"the text seems to be {language}, which {embedder.card.name} does not know; keywords carry its search"
    return replace(parsed, notes=(*parsed.notes, note))


def _full(what: str, setting: str) -> ParseFailure:
    hint = f"remove files, make another project, or raise {setting}"
    return ParseFailure(Reason.TOO_LARGE, f"the project is full: {what}", hint)


def _still(path: str, known: KnownSource) -> FileResult:
    """A file that was not read again: it is as it was, also when it could not be read then."""
    problem = known.problem
    if problem is None:
        return FileResult(path, Outcome.UNCHANGED, known.document)
    outcome = Outcome.QUARANTINED if known.status is Status.QUARANTINED else Outcome.FAILED
    return FileResult(path, outcome, known.document, reason=problem.reason, message=problem.message, hint=problem.hint)


def _failed(path: str, failure: ParseFailure) -> FileResult:
    return FileResult(path, Outcome.FAILED, reason=failure.reason, message=failure.message, hint=failure.hint)


def _result(prepared: Prepared, published: Published) -> FileResult:
    failure = prepared.publication.failure
    return FileResult(
        prepared.read.path,
        published.outcome,
        published.document,
        chunks=len(prepared.publication.hashes),
        replaced=published.replaced,
        reason=failure.reason if failure else None,
        message=failure.message if failure else "",
        hint=failure.hint if failure else "",
        notes=prepared.publication.parsed.notes,
    )
