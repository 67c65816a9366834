"""What the catalog holds: projects, documents, their sources and versions, chunks, changes, jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from ragforge.domain.access import Clearance
from ragforge.domain.documents import Locator, Parsed, ParseFailure, Reason, Split
from ragforge.domain.strategy import Strategy


@dataclass(frozen=True, slots=True)
class Project:
    """A folder of documents you can ask."""

    id: str
    slug: str
    name: str
    strategy: Strategy
    embedder: str
    """The embedder's name; its vectors carry `embedder_fingerprint`."""
    embedder_fingerprint: str
    chunker: str
    """Fingerprint of strategy and tokenizer: what the chunk ids depend on."""
    generation: int
    """Counts changes of splitter or model; only rows of this generation are visible."""
    created_at: datetime
    shares_lessons: bool = False
    """Whether what was learnt here is told to orchestrators of other projects, too."""


class Status(StrEnum):
    """Where a document stands. READY means: at least one chunk can be found."""

    READY = "ready"
    FAILED = "failed"
    QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True)
class Labels:
    """What a person says of a file; filters use it."""

    source_type: str = "document"
    tags: tuple[str, ...] = ()
    confidentiality: Clearance = Clearance.INTERNAL

    @classmethod
    def unsaid(cls, clearance: Clearance) -> Labels:
        """Of a file of which nobody said anything: no more secret than what its bringer may see."""
        return cls(confidentiality=min(cls().confidentiality, clearance))


@dataclass(frozen=True, slots=True)
class Source:
    """Where a document's bytes were found: the same bytes may have several."""

    key: str
    """Absolute path of a file, or `upload:<name>`."""
    name: str
    size: int
    mtime_ns: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Problem:
    """Why the newest bytes of a document could not be read."""

    reason: Reason
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class KnownSource:
    """A path that was read before, its document, and how its newest bytes ended."""

    source: Source
    document: str
    status: Status
    problem: Problem | None


@dataclass(frozen=True, slots=True)
class Document:
    """A file as the project knows it."""

    id: str
    project: str
    name: str
    status: Status
    labels: Labels
    enabled: bool
    type: str
    mime: str
    size: int
    sha256: str
    version: str
    title: str | None
    summary: str
    notes: tuple[str, ...]
    characters: int
    tokens: int
    chunks: int
    problem: Problem | None
    """Set when failed; also on a ready document whose newest bytes could not be read (the older text stays)."""
    sources: tuple[Source, ...]
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Summary:
    """A document in one paragraph."""

    document: str
    name: str
    created_at: datetime
    text: str
    chunks: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A leaf as it is stored, with its text and its parent's id."""

    key: int
    """Its number in this catalog: what the indexes know it by. Given once, never again."""
    id: str
    document: str
    project: str
    version: str
    position: int
    section: int
    start: int
    end: int
    text: str
    header: str
    locator: Locator
    tokens: int
    checksum: str
    generation: int


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """Whose a chunk is, and where in it it stands."""

    document: str
    name: str
    locator: Locator


class Op(StrEnum):
    """What happened to a chunk or a document; the indexes follow these."""

    PUT = "put"
    REMOVE = "remove"
    META = "meta"
    GENERATION = "generation"
    """Another generation is live; or the one whose number is in `document` is built anew, wherever it is."""


@dataclass(frozen=True, slots=True)
class Change:
    """One line of the change log."""

    seq: int
    op: Op
    document: int
    """The document's ordinal: what the indexes filter by."""
    chunk: int | None
    """The chunk's key."""

    def renews(self, generation: int) -> bool:
        """Whether an index of this generation that has not come so far is to be built anew."""
        return self.op == Op.GENERATION and self.document == generation


class Outcome(StrEnum):
    """What `add` did with a file."""

    READY = "ready"
    UNCHANGED = "unchanged"
    DUPLICATE = "duplicate"
    REMOVED = "removed"
    FAILED = "failed"
    QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True)
class FileResult:
    """One file's end, sent when it is durable."""

    path: str
    outcome: Outcome
    document: str | None = None
    chunks: int = 0
    replaced: bool = False
    reason: Reason | None = None
    message: str = ""
    hint: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """How far long work has come."""

    stage: str
    done: int
    total: int | None
    chunks: int = 0
    embedded: int = 0
    seconds: float = 0.0
    turns: int = 0
    """Of conversations: those that were given a vector; a summary of some counts as one."""


@dataclass(frozen=True, slots=True)
class OwnProgress:
    """How far one of several has come that are worked on together: a file by its path, a job by its id."""

    of: str
    progress: Progress


@dataclass(frozen=True, slots=True)
class AddReport:
    """What became of all files of one `add`."""

    files: tuple[FileResult, ...]
    seconds: float

    def count(self, *outcomes: Outcome) -> int:
        return sum(file.outcome in outcomes for file in self.files)

    @property
    def failed(self) -> tuple[FileResult, ...]:
        return tuple(f for f in self.files if f.outcome in (Outcome.FAILED, Outcome.QUARANTINED))


@dataclass(frozen=True, slots=True)
class Removal:
    """Proof that a document is gone: what was removed, and what a scan of the workspace still found."""

    document: str
    name: str
    chunks: int
    vectors: int
    blobs: int
    bytes_scanned: int
    searched: bool
    """Whether its words and vectors were looked for; of very many removed at once only some are."""
    remains: tuple[str, ...]
    """Places where words of the document were still found; empty means erased."""
    pending: tuple[str, ...] = ()
    """Where it could not be erased yet, and why; `check` finishes it."""

    @property
    def erased(self) -> bool:
        return self.searched and not self.remains and not self.pending


class Topic(StrEnum):
    """What is told when it is committed."""

    CHANGES = "changes"
    """Documents of a project changed."""
    JOB = "job"
    """Work of a kind waits."""
    ENDED = "ended"
    """A job has ended."""


class News(NamedTuple):
    """Something that was committed, perhaps on another machine."""

    topic: Topic
    of: str
    """The key of the project, the kind of the work, or the id of the job."""


SERVER = "server"
"""The role of a machine that answers questions, and keeps its own indexes up for it."""
REMOVALS = "removals/"
"""How the name begins by which a machine follows the log for what was removed, beside those of its indexes."""


@dataclass(frozen=True, slots=True)
class Node:
    """A machine that works on the catalog: a workspace folder of its own, and what is done there."""

    id: str
    host: str
    role: str
    """`server` or `worker`."""
    version: str
    seen_at: datetime
    behind: int = 0
    """Changes of documents that indexes of its own have yet to follow."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing `check` or `doctor` looked at."""

    subject: str
    ok: bool
    detail: str
    hint: str = ""
    repaired: bool = False
    warning: bool = False
    """It works, but not as well as it could."""


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    QUARANTINED = "quarantined"


UPLOAD = "upload"
"""The kind of a job that takes in a file of the inbox."""
FOREGROUND = "foreground"
"""In a job's payload: a person waits for it. If its process dies, nobody takes it up but the person."""


class Priority(StrEnum):
    """Which of one's own jobs come first, in this order. Others' turns do not change by it."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class Job:
    """Long work that survives its worker. `fence` grows with each claim; a late writer's is refused."""

    id: str
    project: str | None
    kind: str
    payload: Mapping[str, Any]
    state: JobState
    attempts: int
    fence: int
    owner: str | None
    progress: Progress | None
    error: str
    cancel_requested: bool
    created_at: datetime
    updated_at: datetime
    principal: str = "owner"
    """Who asked for it; its work is done as if they did it themselves."""
    hint: str = ""
    """After an error: what to do next."""
    result: Any = None
    """What became of it: of an upload a list of `FileResult`, else the names of what was made."""
    priority: Priority = Priority.NORMAL

    @property
    def ended(self) -> bool:
        return self.state in ENDED


ENDED = (JobState.DONE, JobState.FAILED, JobState.CANCELLED, JobState.QUARANTINED)


@dataclass(frozen=True, slots=True)
class JobTerms:
    """How a job is asked for: once for each key, and one after the other on a lane."""

    key: str = ""
    """Whoever sends the same again gets the same job."""
    part: int = 0
    """Of several jobs with one key."""
    digest: str = ""
    """Of all that was asked for: with the same key it must be the same."""
    lane: str = ""
    """A job waits for those before it on the same lane of its project."""
    priority: Priority = Priority.NORMAL


@dataclass(frozen=True, slots=True)
class Maker:
    """Who asked for a job, as far as its work needs it."""

    principal: str
    storage: str
    """Under which their uploads are stored."""
    clearance: Clearance


@dataclass(frozen=True, slots=True)
class Publication:
    """One file, read and split, ready to become the live version of its document. Or the reason why not."""

    source: Source
    type: str
    mime: str
    blob: str
    parser: str
    labels: Labels
    failure: ParseFailure | None = None
    parsed: Parsed = Parsed("")
    split: Split = Split()
    hashes: tuple[bytes, ...] = ()
    """Hash of each leaf's embedded text, in the leaves' order."""
    tokens: int = 0
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Published:
    """What publishing a file did, and which stored bytes are no longer needed."""

    document: str
    outcome: Outcome
    replaced: bool = False
    obsolete_blobs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Removed:
    """What left the catalog with a document, and the stored bytes that are no longer needed."""

    blobs: tuple[str, ...] = ()
    chunks: int = 0
    vectors: int = 0


@dataclass(frozen=True, slots=True)
class Generation:
    """A splitter and a model; the project's chunks and vectors are of its live one."""

    number: int
    chunks: int
    """The generation whose chunk rows it uses: a change of model alone keeps them."""
    strategy: Strategy
    chunker: str
    embedder: str
    embedder_fingerprint: str


@dataclass(frozen=True, slots=True)
class StoredText:
    """A live version's text as it was parsed, for splitting it anew."""

    document: str
    version: int
    name: str
    parsed: Parsed


@dataclass(frozen=True, slots=True)
class PendingChunk:
    """A chunk that has no vector of the wanted model yet."""

    key: int
    text: str
    text_hash: bytes
