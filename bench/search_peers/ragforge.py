"""ragforge, run and measured like the others: the whole product, from an open workspace to passages with their text.

For quality, a folder of Markdown files is added with MiniLM, as a person would. For speed, the very chunks and vectors
that the others get are published straight into the catalog.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np

from bench.search_peers.common import K, Passages, Query, Search, run
from ragforge import Ragforge
from ragforge.domain.cancel import Cancel
from ragforge.domain.documents import Leaf, Locator, Parsed, Section, Split
from ragforge.domain.library import Labels, Publication, Source
from ragforge.domain.retrieval import Tuning
from ragforge.domain.tokens import Matrix, Passage, Vector
from ragforge.evaluate.metrics import ranked_once
from ragforge.ingest.embed import text_hash
from ragforge.ports import Embedder, EmbedderCard, Tokenizer
from ragforge.testing.hashing import HashingTokenizer

PROJECT = "bench"
_PARENT = 4
"""Leaves in a section."""
_FILES = 64
"""Files published in one transaction."""


class Given:
    """Stands where an embedder would: every vector comes with its text, none is made."""

    def __init__(self, dimension: int, weight: float = 0.45) -> None:
        self.card = EmbedderCard("given", f"given/{dimension}", dimension, fusion_weight=weight)
        self.calls = 0

    @property
    def tokenizer(self) -> Tokenizer:
        return HashingTokenizer()

    def embed(self, passages: Sequence[Passage], cancel: Cancel) -> Matrix:
        self.calls += 1
        raise NotImplementedError

    def embed_query(self, text: str, cancel: Cancel) -> Vector:
        self.calls += 1
        raise NotImplementedError


class Ours:
    """One project; chunks are published straight into its catalog, as `add` would after parsing and embedding."""

    def __init__(self, dimension: int = 256) -> None:
        self.embedder = Given(dimension)

    def open(self, store: Path) -> None:
        self.forge = Ragforge.open(store / "workspace", embedders={"given": self.embedder})

    def build(self, passages: Passages, store: Path) -> None:
        self.open(store)
        self.forge.create_project(PROJECT, embedder="given")
        self.publish(passages)
        self.catch_up()

    def catch_up(self) -> None:
        self.forge._flows.follow.catch_up(self.forge.project(PROJECT).id)

    def publish(self, passages: Passages, labels: Labels = Labels()) -> None:  # noqa: B008
        """Each document's passages as one file, everything in the catalog; the indexes have not seen it yet."""
        forge = self.forge
        project, scope = forge.project(PROJECT), forge._scope
        named = [
            (name, [place for _, place in places])
            for name, places in groupby(zip(passages.documents, range(len(passages.ids)), strict=True), lambda p: p[0])
        ]
        for start in range(0, len(named), _FILES):
            batch = named[start : start + _FILES]
            rows = [place for _, places in batch for place in places]
            files = [
                _publication(forge, project.id, name, [passages.texts[p] for p in places], labels)
                for name, places in batch
            ]
            hashes = [text_hash(passages.texts[place]) for place in rows]
            with forge._parts.catalog.write() as c:
                c.embeddings.put(scope, project.id, self.embedder.card, hashes, np.asarray(passages.vectors[rows]))
                c.documents.publish(scope, project.id, project.generation, files)

    def variants(self) -> dict[str, Search]:
        return {"hybrid": self.search}

    def search(self, query: Query) -> list[str]:
        found = self.forge.search(query.text, project=PROJECT, k=K, vector=query.vector)
        return [passage.chunk for passage in found.passages]


def _publication(forge: Ragforge, project: str, name: str, texts: Sequence[str], labels: Labels) -> Publication:
    ends = np.cumsum([len(text) + 2 for text in texts]).tolist()
    starts = [0, *ends[:-1]]
    leaves = tuple(
        Leaf(place, place // _PARENT, start, start + len(text), Locator(), len(text.split()))
        for place, (start, text) in enumerate(zip(starts, texts, strict=True))
    )
    sections = tuple(
        Section(place, inside[0].start, inside[-1].end, Locator(), sum(leaf.tokens for leaf in inside))
        for place, inside in ((at // _PARENT, leaves[at : at + _PARENT]) for at in range(0, len(leaves), _PARENT))
    )
    whole = "\n\n".join(texts)
    raw = whole.encode()
    blob = forge._parts.blobs.put(project, io.BytesIO(raw), len(raw))
    return Publication(
        source=Source(f"upload:{name}", name, blob.size, 0, blob.sha256),
        type="text",
        mime="text/plain",
        blob=blob.key,
        parser="text",
        labels=labels,
        parsed=Parsed(whole),
        split=Split(sections, leaves),
        hashes=tuple(map(text_hash, texts)),
        tokens=sum(leaf.tokens for leaf in leaves),
    )


class Remembering:
    """MiniLM, with a file of what it has embedded before: a second run costs nothing."""

    def __init__(self, inner: Embedder, file: Path) -> None:
        self.card, self.tokenizer = inner.card, inner.tokenizer
        self._inner, self._file = inner, file
        self._known: dict[bytes, Vector] = {}
        if file.exists():
            with np.load(file) as held:
                self._known = {
                    row.tobytes(): vector for row, vector in zip(held["hashes"], held["vectors"], strict=True)
                }

    def embed(self, passages: Sequence[Passage], cancel: Cancel) -> Matrix:
        hashes = [text_hash(passage.text) for passage in passages]
        new = {key: passage for key, passage in zip(hashes, passages, strict=True) if key not in self._known}
        if new:
            self._known.update(zip(new, self._inner.embed(list(new.values()), cancel), strict=True))
        return np.stack([self._known[key] for key in hashes])

    def embed_query(self, text: str, cancel: Cancel) -> Vector:
        vector: Vector = self.embed([Passage(text)], cancel)[0]
        return vector

    def save(self) -> None:
        hashes = np.frombuffer(b"".join(self._known), np.uint8).reshape(-1, 16)
        self._file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(self._file, hashes=hashes, vectors=np.stack(list(self._known.values())))


class OurFiles:
    """One project with a Markdown file for each document, read, split, embedded and searched as shipped."""

    def build(self, passages: Passages, store: Path) -> None:
        from bench.data import CACHE, minilm

        folder = store / "files"
        folder.mkdir()
        self.ids = {f"{id}.md": id for id in passages.ids}
        for name, text in zip(self.ids, passages.texts, strict=True):
            title, _, body = text.partition("\n")
            (folder / name).write_text(f"# {title}\n\n{body}\n", encoding="utf-8")
        embedder = Remembering(minilm(), CACHE / "minilm.npz")
        self.forge = Ragforge.open(store / "workspace", embedders={"minilm": embedder})
        self.forge.create_project(PROJECT, embedder="minilm")
        report = self.forge.add(folder, project=PROJECT)
        embedder.save()
        if report.failed:
            raise SystemExit(f"{len(report.failed)} files failed: {report.failed[0]}")

    def open(self, store: Path) -> None:
        raise NotImplementedError

    def variants(self) -> dict[str, Search]:
        return {
            "hybrid": self._search(lambda tuning: tuning),
            "reciprocal rank": self._search(lambda tuning: replace(tuning, fusion="rrf")),
            "words alone": self._search(lambda tuning: replace(tuning, alpha=0.0)),
            "vectors alone": self._search(lambda tuning: replace(tuning, alpha=1.0)),
        }

    def _search(self, change: Callable[[Tuning], Tuning]) -> Search:
        """Documents by their best passage; a few passages more, as some are of the same document."""
        tuning = replace(change(self.forge.tuning()), k=2 * K)

        def search(query: Query) -> list[str]:
            found = self.forge.search(query.text, project=PROJECT, vector=query.vector, tuning=tuning)
            return ranked_once(self.ids[passage.name] for passage in found.passages)

        return search


if __name__ == "__main__":
    run(OurFiles() if sys.argv[1] == "quality" else Ours())
