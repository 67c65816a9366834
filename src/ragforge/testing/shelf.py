"""A project in a catalog, driven the way the flows drive it: what the catalog's suites are written with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b, sha256
from itertools import count

import numpy as np

from ragforge.domain.access import Clearance, Scope
from ragforge.domain.documents import Leaf, Locator, Parsed, ParseFailure, Reason, Section, Split, lead
from ragforge.domain.library import (
    Change,
    Chunk,
    Document,
    Generation,
    Labels,
    Outcome,
    Project,
    Publication,
    Published,
    Removed,
    Source,
)
from ragforge.domain.strategy import Strategy
from ragforge.domain.tokens import Matrix
from ragforge.operate.access import owner
from ragforge.ports import Catalog, EmbedderCard, Unit

CARD = EmbedderCard("hashing", "hashing/test/4", 4)
OTHER_CARD = EmbedderCard("other", "other/test/4", 4)
BROKEN = ParseFailure(Reason.CORRUPT, "the file is damaged", "open it and save it again")
CRASHED = ParseFailure(Reason.CRASHED, "the parser ended", "try again")

_blobs = count(1)


def scope_of(*projects: str, clearance: Clearance = Clearance.RESTRICTED) -> Scope:
    """A caller who reaches these projects only."""
    return replace(owner(), principal="guest", owner="guest", projects=frozenset(projects), clearance=clearance)


class ManualClock:
    """Time that passes only when told to."""

    def __init__(self) -> None:
        self._now = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)


def windows(text: str, size: int, overlap: int = 0) -> Split:
    """Sections of `size` characters, each sharing `overlap` with the one before; a leaf for each half."""
    sections: list[Section] = []
    leaves: list[Leaf] = []
    start = 0
    while start < len(text):
        end = min(start + size, len(text))
        where = Locator(("Part", str(len(sections) + 1)), page=len(sections) + 1)
        sections.append(Section(len(sections), start, end, where, end - start))
        middle = (start + end + 1) // 2
        for low, high in ((start, middle), (middle, end)):
            if low < high:
                leaves.append(Leaf(len(leaves), len(sections) - 1, low, high, where, high - low))
        start = end if end == len(text) else end - overlap
    return Split(tuple(sections), tuple(leaves))


def text_hash(name: str, leaf: Leaf, text: str) -> bytes:
    """Hash of what is embedded of a leaf."""
    return hash_of(lead(name, leaf) + text[leaf.start : leaf.end])


def hash_of(embedded: str) -> bytes:
    return blake2b(embedded.encode(), digest_size=16).digest()


def vectors(hashes: Sequence[bytes]) -> Matrix:
    """A vector for each hash, always the same one."""
    words = [np.frombuffer(blake2b(h, digest_size=16).digest(), np.uint32) for h in hashes]
    return np.array(words, np.float32).reshape(len(hashes), 4) / np.float32(2**32)


def file(
    key: str,
    text: str = "",
    *,
    failure: ParseFailure | None = None,
    name: str = "",
    labels: Labels | None = None,
    size: int = 40,
    overlap: int = 0,
) -> Publication:
    """A file read and split. Its bytes are its text, so equal texts are equal bytes; its stored bytes are new."""
    data = text.encode()
    source = Source(key, name or key.rsplit("/", 1)[-1], len(data), 1, sha256(data).hexdigest())
    publication = Publication(
        source, "markdown", "text/markdown", f"blob-{next(_blobs)}", "markdown/1", labels or Labels(), failure
    )
    return publication if failure is not None else split_into(publication, Parsed(text, title="Title"), size, overlap)


def split_into(publication: Publication, parsed: Parsed, size: int, overlap: int = 0) -> Publication:
    split = windows(parsed.text, size, overlap)
    hashes = tuple(text_hash(publication.source.name, leaf, parsed.text) for leaf in split.leaves)
    return replace(publication, parsed=parsed, split=split, hashes=hashes, tokens=len(parsed.text), summary="summary")


@dataclass
class Shelf:
    """One project, and everything a test does with it."""

    catalog: Catalog
    project: Project
    card: EmbedderCard = CARD
    scope: Scope = field(default_factory=owner)

    @classmethod
    def create(cls, catalog: Catalog, name: str = "demo") -> Shelf:
        with catalog.write() as unit:
            return cls(catalog, unit.projects.create(owner(), name.title(), name, Strategy(), "splitter/1", CARD))

    @property
    def id(self) -> str:
        return self.project.id

    # -- writing

    def publish(self, *files: Publication) -> list[Published]:
        with self.catalog.write() as unit:
            return self.publish_in(unit, *files)

    def publish_in(self, unit: Unit, *files: Publication) -> list[Published]:
        hashes = [text_hash for file in files for text_hash in file.hashes]
        unit.embeddings.put(self.scope, self.id, self.card, hashes, vectors(hashes))
        return unit.documents.publish(self.scope, self.id, unit.projects.live(self.scope, self.id).number, files)

    def add(self, key: str, text: str, failure: ParseFailure | None = None) -> Published:
        (published,) = self.publish(file(key, text, failure=failure))
        return published

    def outcomes(self, *files: Publication) -> list[Outcome]:
        return [published.outcome for published in self.publish(*files)]

    def remove(self, document: str) -> Removed:
        with self.catalog.write() as unit:
            return unit.documents.remove(self.scope, self.id, document)

    def remove_source(self, key: str) -> Removed:
        with self.catalog.write() as unit:
            return unit.documents.remove_source(self.scope, self.id, key)

    # -- a new generation, in the steps the flows take

    def begin(self, chunker: str, card: EmbedderCard) -> Generation:
        with self.catalog.write() as unit:
            return unit.projects.begin(self.scope, self.id, Strategy(), chunker, card)

    def split(self, generation: Generation, size: int, limit: int = 100) -> int:
        """Split up to `limit` files for the generation; returns how many there were."""
        with self.catalog.write() as unit:
            found = unit.documents.unsplit(self.scope, self.id, generation, limit)
            for stored in found:
                publication = split_into(file("/" + stored.name, name=stored.name), stored.parsed, size)
                unit.documents.put_split(self.scope, self.id, generation, stored, publication.split, publication.hashes)
        return len(found)

    def embed(self, generation: Generation, card: EmbedderCard) -> int:
        with self.catalog.write() as unit:
            found = unit.embeddings.pending(self.scope, self.id, generation, 1000)
            hashes = [hash_of(chunk.text) for chunk in found]
            unit.embeddings.put(self.scope, self.id, card, hashes, vectors(hashes))
        return len(found)

    def swap(self, card: EmbedderCard) -> None:
        with self.catalog.write() as unit:
            unit.projects.swap(self.scope, self.id)
        self.card = card

    def sweep(self) -> None:
        with self.catalog.write() as unit:
            while unit.projects.sweep(self.scope, self.id, 100):
                pass
            unit.embeddings.sweep(self.scope, self.id)

    def reindex(self, chunker: str, card: EmbedderCard, size: int) -> Generation:
        generation = self.begin(chunker, card)
        self.split(generation, size)
        self.embed(generation, card)
        self.swap(card)
        self.sweep()
        return generation

    # -- reading

    def live(self) -> Generation:
        with self.catalog.read() as unit:
            return unit.projects.live(self.scope, self.id)

    def documents(self) -> list[Document]:
        with self.catalog.read() as unit:
            return unit.documents.all(self.scope, self.id)

    def document(self, document: str) -> Document:
        with self.catalog.read() as unit:
            (found,) = unit.documents.get(self.scope, self.id, [document])
        return found

    def chunks(self, document: str) -> list[Chunk]:
        with self.catalog.read() as unit:
            return unit.documents.chunks(self.scope, self.id, document)

    def text(self, document: str) -> str:
        with self.catalog.read() as unit:
            return unit.documents.text(self.scope, self.id, document)

    def texts(self) -> set[str]:
        return {self.text(document.id) for document in self.documents()}

    def changes(self, since: int = 0) -> list[Change]:
        with self.catalog.read() as unit:
            return unit.passages.changes(self.scope, unit.passages.moment(self.scope, self.id), since, 100_000)

    def last_change(self) -> int:
        with self.catalog.read() as unit:
            return unit.passages.moment(self.scope, self.id).seq

    def known(self, hashes: Sequence[bytes], card: EmbedderCard | None = None) -> set[bytes]:
        with self.catalog.read() as unit:
            return unit.embeddings.known(self.scope, self.id, (card or self.card).fingerprint, hashes)

    def faults(self) -> list[str]:
        return [f"{finding.subject}: {finding.detail}" for finding in self.catalog.inspect() if not finding.ok]
