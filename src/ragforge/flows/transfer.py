"""One project into an open archive, and into another workspace.

export: documents with their files, texts, chunks and vectors -> conversations, rules, questions, runs, artifacts
import: verify -> each document is published as if it had just been read, with the vectors that came -> the rest
What was imported once is not imported again: ids there follow from the ids here.
"""

from __future__ import annotations

import base64
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from ragforge.domain.access import Scope
from ragforge.domain.archives import ExportReport, ImportedProject
from ragforge.domain.cancel import Cancel
from ragforge.domain.conversation import Conversation, ConversationKind, Rollup, Turn
from ragforge.domain.discovery import LONGEST_ORG_CONTEXT, InterviewState, consistent, with_turns
from ragforge.domain.documents import Mark, Parsed, ParseFailure, Split, TextKind, digest
from ragforge.domain.evaluation import Question, QuestionResult, QuestionSet, Run
from ragforge.domain.library import Document, FileResult, Outcome, Progress, Project, Publication, Source, Status
from ragforge.domain.plain import decode, encode
from ragforge.domain.records import Artifact, ProjectText, ProjectTextKind
from ragforge.domain.tokens import Passage
from ragforge.errors import CorruptStore, NotFound, Outdated, TooLarge
from ragforge.ingest.embed import embed_missing, passages
from ragforge.ingest.split import split
from ragforge.operate.archive import Archive, Writer, writing
from ragforge.ports import BlobStore, Catalog, Clock, Embedder, Unit

FORMAT = "ragforge export"
VERSION = 1
_TRIES = 3
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Export:
    """A project as files and lines that any program reads."""

    catalog: Catalog
    blobs: BlobStore
    made_by: str
    now: Clock

    def __call__(
        self, scope: Scope, project: Project, file: Path, cancel: Cancel, *, vectors: bool
    ) -> Iterator[Progress | ExportReport]:
        file = Path(os.path.abspath(file.expanduser()))
        began = time.monotonic()
        with writing(file, cancel) as archive, self.catalog.read() as c:
            archive.add_text("README.md", _README)
            documents = c.documents.all(scope, project.id)
            records: list[dict[str, Any]] = []
            missing: list[str] = []
            for place, document in enumerate(documents):
                record, found = self._document(c, scope, archive, document)
                records.append(record)
                missing += [] if found else [document.name]
                yield Progress("files", place + 1, len(documents), seconds=time.monotonic() - began)
            archive.add_lines("documents.jsonl", records)
            archive.add_lines("chunks.jsonl", _chunks(c, scope, documents))
            if vectors:
                archive.add_lines("vectors.jsonl", _vectors(c, scope, documents))
            conversations = archive.add_lines("conversations.jsonl", _conversations(c, scope, project))
            archive.add_lines("texts.jsonl", _texts(c, scope, project.id))
            archive.add_lines("questions.jsonl", _questions(c, scope, project.id))
            archive.add_lines("runs.jsonl", _runs(c, scope, project.id))
            archive.add_lines("artifacts.jsonl", (encode(each) for each in c.artifacts.all(scope, project.id)))
            archive.facts |= {
                "format": FORMAT,
                "version": VERSION,
                "made_at": self.now().isoformat(),
                "made_by": self.made_by,
                "project": encode(project),
                "org_context": c.projects.org_context(scope, project.id),
                "missing": missing,
            }
        yield ExportReport(
            file=file,
            size=file.stat().st_size,
            project=project.slug,
            documents=len(documents),
            files=sum(bool(record["file"]) for record in records),
            conversations=conversations,
            missing=tuple(missing),
        )

    def _document(self, c: Unit, scope: Scope, archive: Writer, document: Document) -> tuple[dict[str, Any], bool]:
        """Its line; its file and its text are members of their own. False if its bytes are not there, or others."""
        version = c.documents.version(scope, document.project, document.id)
        record = encode(document) | {"parser": version.parser, "read_as": version.name, "file": "", "text": ""}
        record |= {"kind": str(version.parsed.kind), "marks": encode(version.parsed.marks)}
        found = not version.blob
        with suppress(FileNotFoundError):
            if version.blob:
                with self.blobs.open(version.blob) as file:
                    name = f"files/{document.id}-{_plain_name(document.name)}"
                    found = archive.add_file(name, file) == document.sha256
                record["file"] = name if found else ""
        if version.parsed.text:
            record["text"] = f"texts/{document.id}-{_plain_name(document.name)}.md"
            archive.add_text(record["text"], version.parsed.text)
        return record, found


def _plain_name(name: str) -> str:
    """As much of a file's name as any system takes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._")[-80:] or "file"


def _chunks(c: Unit, scope: Scope, documents: Sequence[Document]) -> Iterator[dict[str, Any]]:
    for document in documents:
        for chunk in c.documents.chunks(scope, document.project, document.id):
            yield encode(chunk)


def _vectors(c: Unit, scope: Scope, documents: Sequence[Document]) -> Iterator[dict[str, Any]]:
    for document in documents:
        for text_hash, vector in c.embeddings.of_document(scope, document.project, document.id):
            yield {"document": document.id, "text": text_hash.hex(), "vector": base64.b64encode(vector).decode()}


def _conversations(c: Unit, scope: Scope, project: Project) -> Iterator[dict[str, Any]]:
    for each in c.conversations.all(scope, project.id):
        vectors = c.conversations.vectors(scope, project.id, each.id, project.embedder_fingerprint)
        line = {
            "conversation": encode(each),
            "turns": encode(c.conversations.turns(scope, project.id, each.id)),
            "rollups": encode(c.conversations.rollups(scope, project.id, each.id)),
            "vectors": {item: base64.b64encode(vector).decode() for item, vector in vectors.items()},
        }
        if each.kind is ConversationKind.DISCOVERY:
            line["state"] = encode(c.interviews.get(scope, project.id, each.id))
        yield line


def _texts(c: Unit, scope: Scope, project: str) -> Iterator[dict[str, Any]]:
    """Every version of the rules and of the memory, oldest first."""
    for kind in ProjectTextKind:
        for text in reversed(c.texts.versions(scope, project, kind)):
            yield encode(text)


def _questions(c: Unit, scope: Scope, project: str) -> Iterator[dict[str, Any]]:
    for each in c.evaluations.question_sets(scope, project):
        yield {"set": encode(each), "questions": encode(c.evaluations.questions(scope, project, each.name))}


def _runs(c: Unit, scope: Scope, project: str) -> Iterator[dict[str, Any]]:
    """Oldest first."""
    for run in reversed(c.evaluations.runs(scope, project)):
        yield {"run": encode(run), "results": encode(c.evaluations.results(scope, project, run.id))}


# -- import


def told(archive: Archive) -> Project:
    """The project that an export is of, as it was there."""
    return _record(Project, archive.facts.get("project"))


@dataclass(slots=True)
class _Counts:
    known: set[str]
    """Bytes that are here already, read or not."""
    documents: int = 0
    unchanged: int = 0
    embedded: int = 0
    conversations: int = 0
    texts: int = 0
    question_sets: int = 0
    runs: int = 0
    artifacts: int = 0
    notices: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Import:
    """An export into one project of this workspace."""

    catalog: Catalog
    blobs: BlobStore
    embedder_of: Callable[[Project], Embedder]
    largest_file: int

    def __call__(
        self, scope: Scope, project: Project, archive: Archive, cancel: Cancel
    ) -> Iterator[FileResult | Progress | ImportedProject]:
        with self.catalog.read() as c:
            counts = _Counts({document.sha256 for document in c.documents.all(scope, project.id)})
        there, embedder = told(archive), self.embedder_of(project)
        same_model = there.embedder_fingerprint == project.embedder_fingerprint
        vectors = _Vectors(archive) if same_model and "vectors.jsonl" in archive else None
        if vectors is None:
            counts.notices.append(f"its vectors are not of {project.embedder}: texts were embedded here")
        records = list(archive.lines("documents.jsonl"))
        for place, record in enumerate(records):
            cancel.check()
            stored = vectors.of(str(record.get("id"))) if vectors else []
            yield from self._document(scope, project, embedder, archive, record, stored, counts, cancel)
            yield Progress("files", place + 1, len(records), embedded=counts.embedded)
        self._rest(scope, project, archive, self._ids(scope, project, archive, records), counts)
        yield ImportedProject(
            project=project.slug,
            documents=counts.documents,
            unchanged=counts.unchanged,
            embedded=counts.embedded,
            conversations=counts.conversations,
            texts=counts.texts,
            question_sets=counts.question_sets,
            runs=counts.runs,
            artifacts=counts.artifacts,
            notices=tuple(counts.notices),
        )

    # -- documents

    def _document(
        self,
        scope: Scope,
        project: Project,
        embedder: Embedder,
        archive: Archive,
        record: Mapping[str, Any],
        stored: Sequence[tuple[bytes, bytes]],
        counts: _Counts,
        cancel: Cancel,
    ) -> Iterator[FileResult]:
        document = _record(Document, {name: record.get(name) for name in Document.__dataclass_fields__})
        if document.sha256 in counts.known:
            counts.unchanged += 1
            yield FileResult(document.name, Outcome.UNCHANGED)
            return
        document = replace(document, sources=_sources(document, str(record.get("read_as", ""))))
        publication, wanted = self._prepared(project, embedder, archive, record, document)
        blob = self._blob(scope, archive, str(record.get("file", "")), document)
        try:
            published = self._publish(
                scope, project, embedder, replace(publication, blob=blob), wanted, stored, document, counts, cancel
            )
        except BaseException:
            if blob:
                self.blobs.remove(blob)
            raise
        counts.documents += 1
        yield FileResult(document.name, published, chunks=len(publication.split.leaves))

    def _publish(
        self,
        scope: Scope,
        project: Project,
        embedder: Embedder,
        publication: Publication,
        wanted: Mapping[bytes, Passage],
        stored: Sequence[tuple[bytes, bytes]],
        document: Document,
        counts: _Counts,
        cancel: Cancel,
    ) -> Outcome:
        usable = [(text_hash, vector) for text_hash, vector in stored if text_hash in wanted]
        for attempt in range(1, _TRIES + 1):
            with self.catalog.write() as c:
                c.embeddings.put_stored(scope, project.id, embedder.card, usable)
            missing = embed_missing(self.catalog, scope, project.id, embedder, wanted, cancel)
            for hashes, vectors in missing:
                with self.catalog.write() as c:
                    c.embeddings.put(scope, project.id, embedder.card, hashes, vectors)
                counts.embedded += len(hashes)
            files = [replace(publication, source=source) for source in document.sources]
            try:
                with self.catalog.write() as c:
                    results = c.documents.publish(scope, project.id, project.generation, files)
                    if not document.enabled:
                        c.documents.enable(scope, project.id, {result.document for result in results}, False)
                break
            except Outdated:
                if attempt == _TRIES:
                    raise
        for result in results:
            for obsolete in result.obsolete_blobs:
                if obsolete and obsolete != publication.blob:
                    self.blobs.remove(obsolete)
        return results[0].outcome

    def _prepared(
        self, project: Project, embedder: Embedder, archive: Archive, record: Mapping[str, Any], document: Document
    ) -> tuple[Publication, dict[bytes, Passage]]:
        """As if it had just been read: split by the rules of this project."""
        bare = Publication(
            source=document.sources[0],
            type=document.type,
            mime=document.mime,
            blob="",
            parser=str(record.get("parser", "")),
            labels=document.labels,
        )
        if document.status != Status.READY:
            problem = document.problem
            if problem is None:
                raise _damaged(f"{document.name} failed, and it does not say why")
            return replace(bare, failure=ParseFailure(problem.reason, problem.message, problem.hint)), {}
        name = str(record.get("text", ""))
        if name not in archive:
            raise _damaged(f"the text of {document.name} is not in it")
        parsed = Parsed(
            archive.text(name, limit=1 << 31),
            _record(TextKind, record.get("kind")),
            _record(tuple[Mark, ...], record.get("marks")),
            document.title,
            document.notes,
        )
        (tokens,) = embedder.tokenizer.encode([parsed.text])
        pieces: Split = split(parsed, tokens, project.strategy, document.sources[0].name)
        wanted = passages(document.sources[0].name, parsed, pieces, tokens, embedder.tokenizer)
        ready = replace(
            bare,
            parsed=parsed,
            split=pieces,
            hashes=tuple(text_hash for text_hash, _ in wanted),
            tokens=len(tokens),
            summary=document.summary,
        )
        return ready, dict(wanted)

    def _blob(self, scope: Scope, archive: Archive, name: str, document: Document) -> str:
        """Its original bytes, stored; empty if they are not in the archive."""
        if not name:
            return ""
        if name not in archive:
            raise _damaged(f"the file {document.name} is not in it")
        try:
            stored = self.blobs.put(scope.owner, cast(BinaryIO, _Reader(archive.pieces(name))), self.largest_file)
        except TooLarge as problem:
            raise TooLarge(f"{document.name}: {problem.message}", hint="raise limits.file_bytes") from None
        if stored.sha256 != document.sha256:
            self.blobs.remove(stored.key)
            raise _damaged(f"{document.name} is not the file that its line tells of")
        self.blobs.sync()
        return stored.key

    def _ids(
        self, scope: Scope, project: Project, archive: Archive, records: Sequence[Mapping[str, Any]]
    ) -> dict[str, str]:
        """The ids that documents and chunks have here, by those that they had there."""
        with self.catalog.read() as c:
            here = {document.sha256: document.id for document in c.documents.all(scope, project.id)}
            ids = {str(each["id"]): here[each["sha256"]] for each in records if each.get("sha256") in here}
            if told(archive).chunker != project.chunker:
                return ids
            places: dict[str, dict[int, str]] = {}
            for chunk in archive.lines("chunks.jsonl"):
                document = ids.get(str(chunk.get("document")))
                if document is None:
                    continue
                if document not in places:
                    own = c.documents.chunks(scope, project.id, document)
                    places[document] = {each.position: each.id for each in own}
                if (found := places[document].get(chunk.get("position", -1))) is not None:
                    ids[str(chunk["id"])] = found
        return ids

    # -- what people and models made of them

    def _rest(self, scope: Scope, project: Project, archive: Archive, ids: Mapping[str, str], counts: _Counts) -> None:
        def own(id: str) -> str:
            return digest("imported", project.id, id)[:16]

        def lines(name: str) -> Iterator[dict[str, Any]]:
            return (cast(dict[str, Any], _renamed(line, ids)) for line in archive.lines(name))

        for line in lines("conversations.jsonl"):
            with self.catalog.write() as c:
                counts.conversations += _talk(c, scope, project, line, own)
        with self.catalog.write() as c:
            _take_org_context(c, scope, project.id, archive.facts.get("org_context", ""), counts)
            texts = [_record(ProjectText, each) for each in lines("texts.jsonl")]
            _take_texts(c, scope, project.id, texts, counts)
            for line in lines("questions.jsonl"):
                named = _record(QuestionSet, line.get("set"))
                asked = _record(list[Question], line.get("questions"))
                # Where an import of questions writes their documents is for this machine to choose, not for a file.
                counts.question_sets += c.evaluations.put_questions(scope, project.id, named.name, "", asked)
            known = {run.id for run in c.evaluations.runs(scope, project.id)}
            for line in lines("runs.jsonl"):
                run = _record(Run, line.get("run"))
                run = replace(run, id=own(run.id), project=project.id)
                if run.id not in known:
                    c.evaluations.add_run(scope, project.id, run, _record(list[QuestionResult], line.get("results")))
                    counts.runs += 1
            made = {artifact.id for artifact in c.artifacts.all(scope, project.id)}
            for line in lines("artifacts.jsonl"):
                artifact = _record(Artifact, line)
                artifact = replace(artifact, id=own(artifact.id))
                if artifact.id not in made:
                    c.artifacts.put(scope, project.id, artifact)
                    counts.artifacts += 1


def _sources(document: Document, read_as: str) -> tuple[Source, ...]:
    """Where it came from: the name it was read under first, and all with the bytes that are in the archive."""
    if not document.sources:
        raise _damaged(f"{document.name} came from nowhere")
    ordered = sorted(document.sources, key=lambda source: source.name != read_as)
    return tuple(
        source
        if source.sha256 == document.sha256
        else replace(source, sha256=document.sha256, size=document.size, mtime_ns=0)  # newer bytes could not be read
        for source in ordered
    )


def _talk(c: Unit, scope: Scope, project: Project, line: Mapping[str, Any], own: Callable[[str], str]) -> bool:
    """A conversation with its turns and summaries. False if it is here already."""
    there = _record(Conversation, line.get("conversation"))
    with suppress(NotFound):
        c.conversations.get(scope, project.id, own(there.id))
        return False
    here = c.conversations.begin(scope, project.id, there.title, own(there.id), there.kind).id
    vectors = {
        own(item): base64.b64decode(vector) for item, vector in _record(dict[str, str], line.get("vectors")).items()
    }
    numbers: dict[int, int] = {}
    for turn in _record(list[Turn], line.get("turns")):
        moved = replace(turn, id=own(turn.id), conversation=here, rolled_into="", trace_id="")
        vector = vectors.get(moved.id)
        added = c.conversations.add(scope, project.id, moved, project.embedder_fingerprint, vector)
        numbers[turn.number] = added.number
    for rollup in _record(list[Rollup], line.get("rollups")):
        span = [numbers[number] for number in range(rollup.first, rollup.last + 1) if number in numbers]
        if span:
            moved_too = replace(rollup, id=own(rollup.id), conversation=here, first=span[0], last=span[-1])
            vector = vectors.get(moved_too.id)
            c.conversations.roll(scope, project.id, moved_too, project.embedder_fingerprint, vector)
    if there.kind is ConversationKind.DISCOVERY:  # what holds words of a document that did not come is left out
        c.interviews.put(scope, project.id, here, _state(line.get("state"), numbers))
    return True


def _state(value: Any, numbers: Mapping[int, int]) -> InterviewState:
    """What an interview knew, with the numbers that its turns have here."""
    state = _record(InterviewState, value)
    for letter, entries in (("A", state.assumptions), ("P", state.points)):
        ids = [each.id for each in entries]
        if len(set(ids)) < len(ids) or not all(re.fullmatch(rf"{letter}[1-9][0-9]{{0,5}}", id) for id in ids):
            raise _damaged(f"an interview numbers its entries {', '.join(ids[:5])}")
    highest = (max((int(each.id[1:]) for each in of), default=0) for of in (state.assumptions, state.points))
    assumed, pointed = map(max, state.numbers, highest)
    return replace(consistent(with_turns(state, numbers)), version=0, numbers=(assumed, pointed))


def _take_org_context(c: Unit, scope: Scope, project: str, theirs: object, counts: _Counts) -> None:
    """Where nothing is known of the organisation here."""
    text = _record(str, theirs)[:LONGEST_ORG_CONTEXT]
    ours = c.projects.org_context(scope, project)
    if text and not ours:
        c.projects.set_org_context(scope, project, text)
    elif text and text != ours:
        counts.notices.append("left out, because the project has its own: what is known of the organisation")


def _take_texts(c: Unit, scope: Scope, project: str, texts: Sequence[ProjectText], counts: _Counts) -> None:
    """All versions in their order, where the project has no text of that kind."""
    for kind in ProjectTextKind:
        theirs = [text.text for text in texts if text.kind == kind]
        ours = c.texts.versions(scope, project, kind)
        if not ours:
            for text in theirs:
                c.texts.write(scope, project, kind, text)
            counts.texts += len(theirs)
        elif theirs and theirs[-1] != ours[0].text:
            counts.notices.append(f"left out, because the project has its own: {kind.replace('-', ' ')}")


class _Vectors:
    """The archive's vectors, document by document, in the order of their lines."""

    def __init__(self, archive: Archive) -> None:
        self._lines = archive.lines("vectors.jsonl")
        self._next: dict[str, Any] | None = next(self._lines, None)

    def of(self, document: str) -> list[tuple[bytes, bytes]]:
        found: list[tuple[bytes, bytes]] = []
        while self._next is not None and self._next.get("document") == document:
            try:
                found.append((bytes.fromhex(self._next["text"]), base64.b64decode(self._next["vector"], validate=True)))
            except (KeyError, TypeError, ValueError):
                raise _damaged("a vector cannot be read") from None
            self._next = next(self._lines, None)
        return found


class _Reader:
    """Pieces as a file that is read to its end."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    def read(self, size: int = -1) -> bytes:
        return next(self._pieces, b"")


def _renamed(value: Any, ids: Mapping[str, str]) -> Any:
    """The same with the ids that documents and chunks have here."""
    if isinstance(value, str):
        return ids.get(value, value)
    if isinstance(value, list):
        return [_renamed(item, ids) for item in value]
    if isinstance(value, dict):
        return {ids.get(key, key): _renamed(item, ids) for key, item in value.items()}
    return value


def _record(kind: type[T], value: Any) -> T:
    try:
        return decode(kind, value)
    except (ValueError, KeyError, TypeError) as problem:
        raise _damaged(str(problem)) from None


def _damaged(why: str) -> CorruptStore:
    return CorruptStore(f"the export is damaged: {why}", hint="export the project again")


_README = """\
# A project of ragforge

`ragforge import FILE` takes it in. Without ragforge:

- `files/` holds the original files, `texts/` their texts as Markdown.
- `documents.jsonl` tells of each document its name, type, labels, where it came from, and which file and text are its.
- `chunks.jsonl` holds the pieces that are searched, `vectors.jsonl` (if it is there) the vector of each: float32
  numbers, lowest byte first, in base64.
- `conversations.jsonl` (those of who exported it; an interview with what it knows), `texts.jsonl` (rules and memory, in
  versions), `questions.jsonl`, `runs.jsonl` and `artifacts.jsonl` hold the rest, one JSON object a line.
- `manifest.json` tells the project, what is known of its organisation and, of every member, its size and sha256.
"""
