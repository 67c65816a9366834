"""From question to passages: filters, candidates, decisions, and what is found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ragforge.domain.access import Clearance
from ragforge.domain.documents import Locator

if TYPE_CHECKING:  # commands that search nothing need not load NumPy
    import numpy as np
    import numpy.typing as npt

Keys: TypeAlias = "npt.NDArray[np.int64]"
"""Chunk keys (or document ordinals) of the catalog, ascending unless said otherwise."""
Scores: TypeAlias = "npt.NDArray[np.float32]"


# -- what is asked


@dataclass(frozen=True, slots=True)
class Filters:
    """Which documents may be found. Empty fields do not restrict; several values of one field mean any of them."""

    documents: tuple[str, ...] = ()
    """Ids of documents."""
    source_types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    agent: str = ""
    """Documents tagged `agent:<name>` for this agent, and those that are for every agent."""
    confidentiality: Clearance | None = None
    """At most this confidential; never more than the caller's clearance."""
    since: datetime | None = None
    """Changed at or after this moment."""
    until: datetime | None = None
    """Changed before this moment."""

    def __post_init__(self) -> None:
        for name in ("documents", "source_types", "tags"):
            object.__setattr__(self, name, tuple(getattr(self, name)))  # a list is as good

    def __bool__(self) -> bool:
        return self != _NO_FILTERS


_NO_FILTERS = Filters()


MOST_PASSAGES = 1_000
"""That one question can bring."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """How passages are found; each stage can be changed per call."""

    k: int = 10
    keyword_candidates: int = 20
    vector_candidates: int = 40
    fusion: str = "weighted"
    """`weighted` (normalised scores) or `rrf` (reciprocal rank)."""
    alpha: float | None = None
    """Share of the vector score, 0 to 1; None: what was measured for the embedder."""
    reranker: str = ""
    """`cosine`, `cross-encoder` or `provider:model`; empty: none."""
    rerank_candidates: int = 20
    duplicates: float = 0.9
    """Chunks that share at least this part of their words' shingles are one; 1 keeps all but the identical."""
    context_chunks: int = 15
    context_tokens: int = 6_000


AGENT_TAG = "agent:"
"""Before the name of an agent that a document is meant for."""


# -- what the catalog tells


@dataclass(frozen=True, slots=True)
class Moment:
    """A project as one transaction sees it: which rows are live, and how far the change log has come."""

    project: str
    slug: str
    key: int
    generation: int
    chunks: int
    """The generation whose chunk rows are live."""
    chunker: str
    """Fingerprint of splitter and tokenizer: what the chunks depend on."""
    embedder: str
    """Fingerprint of the model whose vectors are live."""
    dimension: int | None
    fusion_weight: float
    """Share of the vector score, as measured for the model."""
    cosine_floor: float | None
    """The cosine of texts that have nothing in common, where it was measured for the model."""
    seq: int
    forgotten: int
    """The log begins after this change: an index that is behind it cannot follow."""


@dataclass(frozen=True, slots=True)
class IndexedText:
    """What a keyword index holds of a chunk."""

    key: int
    document: int
    name: str
    path: tuple[str, ...]
    header: str
    text: str


# -- what the engines are told and answer


@dataclass(frozen=True, slots=True)
class QueryWords:
    """A question as a keyword index looks for it: one group for each word, holding the terms that stand for it."""

    groups: tuple[tuple[str, ...], ...] = ()
    codes: tuple[str, ...] = ()
    """Those of the terms that name one thing, such as `err4012`: who writes one wants the passages that hold it."""

    @property
    def terms(self) -> tuple[str, ...]:
        """Every term once."""
        return tuple(dict.fromkeys(term for group in self.groups for term in group))

    def __bool__(self) -> bool:
        return bool(self.groups)


@dataclass(frozen=True, slots=True, eq=False)
class Allowed:
    """Which rows an engine may return. Applied inside the engine, before the cut to k."""

    documents: Keys | None = None
    """Document ordinals; None: all."""
    deny: bool = False
    """The documents are those that may not be returned."""
    hidden: Keys | None = None
    """Chunk keys that may not be returned: removed since the index was written, or found elsewhere."""


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """Rows an engine found, best first; equal ones by key."""

    keys: Keys
    scores: Scores

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True, slots=True, eq=False)
class VectorRows:
    """Vectors to put into an index."""

    keys: Keys
    documents: Keys
    vectors: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class KeywordRows:
    """Texts to put into an index, as the terms a search will look for."""

    keys: Keys
    documents: Keys
    terms: tuple[tuple[str, ...], ...]


# -- what the steps decide


class Stage(StrEnum):
    """Where a candidate was kept or dropped."""

    SEARCH = "search"
    FUSE = "fuse"
    RERANK = "rerank"
    DEDUPE = "dedupe"
    GATE = "gate"
    WINDOW = "window"


class Decision(NamedTuple):
    """What one stage did with one candidate, and why."""

    stage: Stage
    key: int
    kept: bool
    reason: str
    score: float


class Candidate(NamedTuple):
    """A chunk on its way through the stages. A score is None where that engine does not know the chunk."""

    key: int
    score: float
    """What it is ranked by now."""
    keyword: float | None = None
    vector: float | None = None
    keyword_rank: int | None = None
    """Place in the engine's own list, from 1; None if it was not among its candidates."""
    vector_rank: int | None = None
    rerank: float | None = None


class StoredPassage(NamedTuple):
    """A chunk as the catalog holds it, with what the later stages need of its parent."""

    key: int
    chunk: str
    document: str
    document_key: int
    name: str
    source: str
    version: str
    position: int
    section: int
    start: int
    end: int
    header: str
    locator: Locator
    tokens: int
    checksum: str
    text: str
    section_tokens: int
    section_start: int
    section_end: int


# -- what comes back


@dataclass(frozen=True, slots=True)
class Passage:
    """A found passage: where it stands, its text, and the scores that brought it here."""

    chunk: str
    document: str
    name: str
    source: str
    """Where the file came from: its path, or `upload:<name>`."""
    locator: Locator
    text: str
    header: str
    score: float
    scores: Mapping[str, float]
    ranks: Mapping[str, int]
    tokens: int
    checksum: str
    start: int
    end: int
    version: str
    project: str
    key: int = 0
    """Its number in the catalog, for later stages."""


@dataclass(frozen=True, slots=True)
class ContextBlock:
    """A parent, or a leaf where the parent does not fit, as it goes into the context; and the leaves it stands for."""

    document: str
    name: str
    locator: Locator
    text: str
    header: str
    tokens: int
    score: float
    chunks: tuple[str, ...]
    whole: bool
    """Whether it is the whole parent."""
    spans: tuple[tuple[str, int, int], ...] = ()
    """Of each chunk, where it stands in `text`."""
    best: str = ""
    """The chunk that brought it here."""
    checksum: str = ""
    """Of that chunk."""


@dataclass(frozen=True, slots=True)
class Degraded:
    """A part that was not there. What is missing, why, and what to do."""

    part: str
    """`embedder`, `vectors`, `keywords`, `reranker`."""
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A `Decision` with the chunk's id and where it stands, for people."""

    stage: Stage
    chunk: str
    document: str
    locator: Locator
    kept: bool
    reason: str
    score: float


@dataclass(frozen=True, slots=True)
class Trace:
    """How a question became passages: everything `explain` shows."""

    words: QueryWords
    """The words as the keyword index looks for them."""
    candidates: tuple[Passage, ...]
    """Every candidate, best first, also the ones that were dropped."""
    verdicts: tuple[Verdict, ...]
    near_misses: tuple[Passage, ...]
    """The best of those that were not used."""
    tuning: Tuning
    alpha: float
    watermark: int | None
    """The last change that the indexes had applied."""
    behind: int | None
    """Changes that they had not applied yet; those were searched all the same."""
    holding: Mapping[str, int] = field(default_factory=dict)
    """In how many chunks of the keyword index each term of the question occurs."""
    rows: int = 0
    """Chunks in the keyword index."""

    def of_nothing_hidden(self) -> Trace:
        """Without the figures of the indexes, which hold documents of every clearance."""
        return replace(self, watermark=None, behind=None, holding={}, rows=0)


@dataclass(frozen=True, slots=True)
class Retrieved:
    """Passages for a question, best first, with every decision. Empty `passages` means nothing was found."""

    question: str
    passages: tuple[Passage, ...]
    decisions: tuple[Decision, ...] = ()
    degraded: tuple[Degraded, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    """Milliseconds by stage."""
    cached: bool = False
    context: tuple[ContextBlock, ...] = ()
    trace: Trace | None = None
    notice: str = ""
    """Why nothing was found, or what a person should know of the result."""
