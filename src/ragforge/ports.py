"""Every protocol the steps rely on. A good port is read in ten seconds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from io import BufferedReader
from typing import Any, BinaryIO, Protocol, TypeVar

from ragforge.domain.access import Clearance, Scope
from ragforge.domain.cancel import Cancel
from ragforge.domain.documents import Parsed, ParseFailure, Split
from ragforge.domain.evaluation import Question, QuestionResult, QuestionSet, Run
from ragforge.domain.library import (
    Change,
    Chunk,
    Document,
    Finding,
    Generation,
    Job,
    KnownSource,
    PendingChunk,
    Progress,
    Project,
    Publication,
    Published,
    Removed,
    Status,
    StoredText,
    Summary,
)
from ragforge.domain.retrieval import (
    Allowed,
    Filters,
    IndexedText,
    Keys,
    KeywordRows,
    Moment,
    QueryWords,
    Ranked,
    Scores,
    StoredPassage,
    VectorRows,
)
from ragforge.domain.strategy import Strategy
from ragforge.domain.tokens import Matrix, Passage, Tokens, Vector

NewRows = TypeVar("NewRows", KeywordRows, VectorRows, contravariant=True)

Clock = Callable[[], datetime]
"""The time now, in UTC."""


@dataclass(frozen=True, slots=True)
class ParseRequest:
    """One file to parse: which parser, the name for messages, and how far it may go."""

    parser: str
    name: str


class Parsers(Protocol):
    """Bytes to Markdown, safely. Never raises for a bad file: it returns a `ParseFailure`."""

    def parse(self, request: ParseRequest, file: BinaryIO, cancel: Cancel) -> Parsed | ParseFailure: ...
    def close(self) -> None: ...


class Tokenizer(Protocol):
    """Texts to tokens with their offsets."""

    @property
    def fingerprint(self) -> str: ...
    def encode(self, texts: Sequence[str]) -> list[Tokens]: ...


@dataclass(frozen=True, slots=True)
class EmbedderCard:
    """What is known of an embedder without calling it."""

    name: str
    """As the user writes it: `minilm`, `wordllama`, `openai:text-embedding-3-small`."""
    fingerprint: str
    """Changes whenever the same text could give another vector."""
    dimension: int | None
    """None until a provider has sent its first vector."""
    languages: tuple[str, ...] | None = None
    """ISO codes the model knows; None if all."""
    fusion_weight: float = 0.7
    """Share of the vector score in hybrid search (measured)."""
    cosine_floor: float | None = None
    """The cosine at which its texts have nothing in common, where that was measured."""


class Embedder(Protocol):
    """Texts to vectors of unit length. One vector for each passage, nothing cut."""

    @property
    def card(self) -> EmbedderCard: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    def embed(self, passages: Sequence[Passage], cancel: Cancel) -> Matrix: ...
    def embed_query(self, text: str, cancel: Cancel) -> Vector: ...


# -- truth: the catalog is several small ports over one unit of work. Every function takes a `Scope`.


class Projects(Protocol):
    """Projects and their generations (splitter and model)."""

    def create(
        self, scope: Scope, name: str, slug: str, strategy: Strategy, chunker: str, embedder: EmbedderCard
    ) -> Project: ...
    def all(self, scope: Scope) -> list[Project]: ...
    def get(self, scope: Scope, slug: str) -> Project: ...
    def with_id(self, scope: Scope, project: str) -> Project: ...
    def rename(self, scope: Scope, project: str, name: str, slug: str) -> None: ...
    def remove(self, scope: Scope, project: str) -> None: ...
    def org_context(self, scope: Scope, project: str) -> str: ...
    def live(self, scope: Scope, project: str) -> Generation: ...
    def building(self, scope: Scope, project: str) -> Generation | None: ...
    def begin(
        self, scope: Scope, project: str, strategy: Strategy, chunker: str, embedder: EmbedderCard
    ) -> Generation: ...
    def abandon(self, scope: Scope, project: str) -> None: ...
    def swap(self, scope: Scope, project: str) -> None: ...
    def sweep(self, scope: Scope, project: str, limit: int) -> int: ...


class Documents(Protocol):
    """Documents with their sources, versions, sections and chunks."""

    def sources(self, scope: Scope, project: str, keys: Sequence[str]) -> Mapping[str, KnownSource]: ...
    def source_keys(self, scope: Scope, project: str, prefix: str) -> list[str]: ...
    def usage(self, scope: Scope, project: str) -> tuple[int, int]: ...
    def versions_with(self, scope: Scope, project: str, hashes: Sequence[str]) -> frozenset[str]: ...
    def publish(self, scope: Scope, project: str, generation: int, files: Sequence[Publication]) -> list[Published]: ...
    def all(self, scope: Scope, project: str, status: Status | None = None) -> list[Document]: ...
    def get(self, scope: Scope, project: str, documents: Collection[str]) -> list[Document]: ...
    def known(self, scope: Scope, project: str, documents: Collection[str]) -> set[str]: ...
    def find(self, scope: Scope, project: str, name: str) -> list[str]: ...
    def summaries(self, scope: Scope, project: str) -> list[Summary]: ...
    def chunks(self, scope: Scope, project: str, document: str) -> list[Chunk]: ...
    def text(self, scope: Scope, project: str, document: str) -> str: ...
    def remove(self, scope: Scope, project: str, document: str) -> Removed: ...
    def remove_source(self, scope: Scope, project: str, key: str) -> Removed: ...
    def enable(self, scope: Scope, project: str, documents: Collection[str], on: bool) -> None: ...
    def label(
        self,
        scope: Scope,
        project: str,
        documents: Collection[str],
        *,
        source_type: str | None,
        tags: Sequence[str] | None,
        confidentiality: Clearance | None,
    ) -> None: ...
    def occurs_elsewhere(self, scope: Scope, project: str, document: str, phrase: str) -> bool: ...
    def unsplit(
        self, scope: Scope, project: str, generation: Generation, limit: int, after: int = 0
    ) -> list[StoredText]: ...
    def announce(self, scope: Scope, project: str, chunks: Collection[int]) -> None: ...
    def put_split(
        self,
        scope: Scope,
        project: str,
        generation: Generation,
        file: StoredText,
        split: Split,
        hashes: Sequence[bytes],
    ) -> None: ...
    def blobs(self, scope: Scope) -> Iterator[str]: ...
    def stored(self, scope: Scope, project: str) -> Iterator[tuple[str, str, str]]: ...


class Embeddings(Protocol):
    """Vectors by model and hash of the embedded text; kept while a chunk uses them."""

    def known(self, scope: Scope, project: str, fingerprint: str, hashes: Collection[bytes]) -> set[bytes]: ...
    def put(self, scope: Scope, project: str, card: EmbedderCard, hashes: Sequence[bytes], vectors: Matrix) -> None: ...
    def sample(self, scope: Scope, project: str, document: str, limit: int) -> list[bytes]: ...
    def pending(
        self, scope: Scope, project: str, generation: Generation, limit: int, after: int = 0
    ) -> list[PendingChunk]: ...
    def sweep(self, scope: Scope, project: str) -> int: ...


class Changes(Protocol):
    """How far the indexes have followed what happened."""

    def prune(self, scope: Scope, project: str) -> int: ...
    def follow(self, scope: Scope, project: str, engine: str, generation: int, fingerprint: str, seq: int) -> None: ...
    def followed(self, scope: Scope, project: str, engine: str, generation: int) -> int: ...
    def unfollow(self, scope: Scope, project: str, generations: Collection[int], engines: Collection[str]) -> None: ...


class Passages(Protocol):
    """Chunks as the indexes and the search need them. A `Moment` is got with a scope, and stands for it."""

    def moment(self, scope: Scope, project: str, generation: int | None = None) -> Moment: ...
    def changes(self, scope: Scope, now: Moment, seq: int, limit: int) -> list[Change]: ...
    def texts(self, scope: Scope, now: Moment, after: int, limit: int) -> list[IndexedText]: ...
    def texts_of(self, scope: Scope, now: Moment, keys: Collection[int]) -> list[IndexedText]: ...
    def vectors(self, scope: Scope, now: Moment, after: int, limit: int) -> list[tuple[int, int, bytes]]: ...
    def vectors_of(self, scope: Scope, now: Moment, keys: Collection[int]) -> list[tuple[int, int, bytes]]: ...
    def keys(self, scope: Scope, now: Moment) -> list[int]: ...
    def eligible(self, scope: Scope, now: Moment, filters: Filters) -> tuple[list[int], list[int]]: ...
    def stored(self, scope: Scope, now: Moment, keys: Sequence[int]) -> list[StoredPassage]: ...
    def parents(
        self, scope: Scope, now: Moment, wanted: Iterable[tuple[str, int]]
    ) -> dict[tuple[str, int], tuple[str, str]]: ...


class Jobs(Protocol):
    """Long work that survives its worker."""

    def enqueue(self, scope: Scope, project: str | None, kind: str, payload: Mapping[str, Any]) -> Job: ...
    def claim(
        self, scope: Scope, owner: str, kinds: Sequence[str], lease_seconds: float, job: str | None = None
    ) -> Job | None: ...
    def heartbeat(self, scope: Scope, job: Job, lease_seconds: float, progress: Progress | None) -> bool: ...
    def finish(self, scope: Scope, job: Job, error: str | None = None, *, retry: bool = False) -> None: ...
    def cancel(self, scope: Scope, job: str) -> None: ...
    def all(self, scope: Scope, project: str | None = None) -> list[Job]: ...
    def reap(self, scope: Scope) -> int: ...


class Evaluations(Protocol):
    """Questions whose documents are known, and the runs over them. A run keeps ids, and no text of a document."""

    def put_questions(
        self, scope: Scope, project: str, name: str, folder: str, questions: Sequence[Question]
    ) -> bool: ...
    def question_sets(self, scope: Scope, project: str) -> list[QuestionSet]: ...
    def question_set(self, scope: Scope, project: str, name: str) -> QuestionSet: ...
    def questions(self, scope: Scope, project: str, name: str) -> list[Question]: ...
    def add_run(self, scope: Scope, project: str, run: Run, results: Sequence[QuestionResult]) -> None: ...
    def runs(self, scope: Scope, project: str) -> list[Run]: ...
    def results(self, scope: Scope, project: str, run: str) -> list[QuestionResult]: ...


class Unit(Protocol):
    """One transaction over all of them."""

    @property
    def projects(self) -> Projects: ...
    @property
    def documents(self) -> Documents: ...
    @property
    def embeddings(self) -> Embeddings: ...
    @property
    def changes(self) -> Changes: ...
    @property
    def passages(self) -> Passages: ...
    @property
    def jobs(self) -> Jobs: ...
    @property
    def evaluations(self) -> Evaluations: ...


class Catalog(Protocol):
    """The truth. `write()` commits or rolls back as a whole; `read()` sees one moment."""

    def read(self) -> AbstractContextManager[Unit]: ...
    def write(self) -> AbstractContextManager[Unit]: ...
    def inspect(self) -> Iterable[Finding]: ...
    def flush(self) -> bool: ...
    def close(self) -> None: ...


# -- derived: indexes that follow the change log. They hold nothing the catalog does not, and can be thrown away.


class IndexReader(Protocol):
    """An index as it was at one moment. It stays so until released, whatever is written meanwhile."""

    @property
    def watermark(self) -> int:
        """The last change that is in it."""
        ...

    @property
    def rows(self) -> int: ...
    def keys(self) -> Keys:
        """Every chunk it can return, ascending."""
        ...

    def release(self) -> None: ...


class VectorReader(IndexReader, Protocol):
    def search(self, query: Vector, k: int, allowed: Allowed) -> Ranked:
        """The rows nearest to the query by cosine. Fewer than k only if fewer are allowed."""
        ...

    def score(self, query: Vector, keys: Keys) -> Scores:
        """The cosine of each of these rows; NaN where the index does not hold one."""
        ...


class KeywordReader(IndexReader, Protocol):
    def search(self, words: QueryWords, k: int, allowed: Allowed) -> Ranked:
        """Rows that hold any of the terms, by BM25. Of a short question, those that hold every word come first."""
        ...

    def score(self, words: QueryWords, keys: Keys) -> Scores:
        """The BM25 of each of these rows, zero where no term occurs; NaN where the index does not hold one."""
        ...

    def score_new(self, words: QueryWords, rows: Sequence[Mapping[str, int]]) -> Scores:
        """The BM25 that rows with these terms, each so often, would have by the index's own statistics."""
        ...

    def holding(self, terms: Sequence[str]) -> dict[str, int]:
        """In how many rows each term occurs."""
        ...


class Index(Protocol[NewRows]):
    """What both kinds share. Any process may read; the one that holds the lock writes."""

    @property
    def engine(self) -> str:
        """`snapshot`, `tantivy`, `chroma`, `qdrant`."""
        ...

    @property
    def fingerprint(self) -> str:
        """Of everything its rows depend on; an index with another one is as good as none."""
        ...

    def writing(self, *, blocking: bool) -> AbstractContextManager[bool]:
        """The right to write, of one process at a time. False if another has it and `blocking` is not set."""
        ...

    def pin(self) -> IndexReader:
        """Its newest state. Raises `IndexLost` if there is none, or none that can be trusted."""
        ...

    def apply(self, put: NewRows, removed: Keys, watermark: int) -> None:
        """Put and remove rows, and be at `watermark`, in one step. Doing it twice changes nothing."""
        ...

    def rebuild(self, rows: Iterable[NewRows], watermark: int) -> None:
        """Build anew beside the old one, then swap."""
        ...

    def erase(self) -> bool:
        """Leave nothing of removed rows in any file. False while another process still reads an older state."""
        ...

    def verify(self) -> list[str]:
        """Read everything again; what is wrong, in words. Empty if whole."""
        ...

    def drop(self) -> None:
        """Remove it, files and all."""
        ...

    def close(self) -> None: ...


class VectorIndex(Index[VectorRows], Protocol):
    """Vectors by chunk key."""

    def pin(self) -> VectorReader: ...


class KeywordIndex(Index[KeywordRows], Protocol):
    """Words by chunk key."""

    def pin(self) -> KeywordReader: ...


class Reranker(Protocol):
    """Scores each text by how well it answers the question; higher is better."""

    @property
    def name(self) -> str: ...
    def score(self, question: str, texts: Sequence[str], cancel: Cancel) -> list[float]: ...


class BlobStore(Protocol):
    """Original bytes under opaque names."""

    def put(self, owner: str, file: BinaryIO, limit: int) -> StoredBlob: ...
    def open(self, key: str) -> BufferedReader: ...
    def remove(self, key: str) -> None: ...
    def sync(self) -> None: ...
    def names(self) -> Iterator[str]: ...


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """Bytes that were written down: where, how many, and their hash."""

    key: str
    size: int
    sha256: str


class ProcessLock(Protocol):
    """A lock between processes that dies with its holder."""

    def acquire(self, *, shared: bool = False, blocking: bool = True) -> bool: ...
    def release(self) -> None: ...
