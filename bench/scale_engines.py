"""Each engine alone, beside the others in one run: `python -m bench.scale_engines --data FOLDER [--small]`.

Real windows of 30 words with MiniLM's vectors go straight into the indexes. The best 40 by meaning and the best 20 by
words are asked for, of all rows and of those of some documents; every question is another one. Recall is that of the
ten nearest, beside comparing with every vector.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench import data
from bench.scale_machine import Meter, Server, conditions, folder_bytes, per, percentile, spread
from bench.search_peers import common
from bench.search_peers.common import K, Passages, Query
from ragforge.adapters.keywords.postgres import PostgresWords
from ragforge.adapters.keywords.tantivy import TantivyIndex
from ragforge.adapters.postgres import PostgresServer
from ragforge.adapters.vectors.pgvector import PgVectorIndex
from ragforge.adapters.vectors.snapshot import SnapshotIndex
from ragforge.domain.retrieval import Allowed, Keys, KeywordRows, Ranked, VectorRows
from ragforge.ports import Index
from ragforge.retrieve.words import index_terms, query_words

SIZES, FEW = (20_000, 100_000), 5_000
SHARES = {"all": 1.0, "filter 10 %": 0.1, "filter 1 %": 0.01}
NEAREST, BEST = 40, 20
"""Candidates that a search asks its two engines for."""
ASKED, FEW_ASKED = 300, 30
MOST_SECONDS = 30.0
WARM_UP = 5
_STEP = 8_192
"""Rows that an index is given at a time, as `flows.follow` does."""
_NEVER = 1 << 31

Figures = dict[str, Any]
Documents = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Engine:
    """An index, the rows it takes, and how it is asked."""

    index: Index[Any]
    rows: Callable[[], Iterator[Any]]
    find: Callable[[Any, Query, Allowed], Ranked]
    by_meaning: bool


@dataclass(frozen=True, slots=True)
class Held:
    """Rows as every index takes them."""

    passages: Passages
    documents: Documents
    terms: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, passages: Passages) -> Held:
        numbers: dict[str, int] = {}
        documents = np.array([numbers.setdefault(name, len(numbers) + 1) for name in passages.documents], np.int64)
        return cls(passages, documents, tuple(map(index_terms, passages.texts)))

    @property
    def keys(self) -> Keys:
        return np.arange(1, len(self.documents) + 1)

    def vectors(self) -> Iterator[VectorRows]:
        for some in self._steps():
            yield VectorRows(self.keys[some], self.documents[some], self.passages.vectors[some])

    def words(self) -> Iterator[KeywordRows]:
        for some in self._steps():
            yield KeywordRows(self.keys[some], self.documents[some], self.terms[some])

    def _steps(self) -> Iterator[slice]:
        for start in range(0, len(self.documents), _STEP):
            yield slice(start, start + _STEP)

    def some(self, share: float) -> Allowed:
        """Documents that together have about this share of the rows."""
        if share == 1.0:
            return Allowed()
        names = np.unique(self.documents)
        np.random.default_rng(7).shuffle(names)
        sizes = np.bincount(self.documents)[names]
        enough = int(np.searchsorted(np.cumsum(sizes), share * len(self.documents))) + 1
        return Allowed(np.sort(names[:enough]))

    def nearest(self, query: Query, allowed: Allowed) -> float:
        """The cosine of the tenth nearest of the allowed rows."""
        scores = self.passages.vectors @ query.vector
        if allowed.documents is not None:
            scores = scores[np.isin(self.documents, allowed.documents)]
        return float(np.partition(scores, -K)[-K]) if len(scores) >= K else -1.0


def engines(held: Held, folder: Path, server: PostgresServer) -> dict[str, Engine]:
    def near(reader: Any, query: Query, allowed: Allowed) -> Ranked:
        found: Ranked = reader.search(query.vector, NEAREST, allowed)
        return found

    def wordy(reader: Any, query: Query, allowed: Allowed) -> Ranked:
        found: Ranked = reader.search(query_words(query.text), BEST, allowed)
        return found

    vectors: dict[str, Index[Any]] = {
        "snapshot": SnapshotIndex(folder / "snapshot", "bench"),
        "pgvector, exact": PgVectorIndex(server, "exact", "bench", exact_rows=_NEVER),
        "pgvector, HNSW": PgVectorIndex(server, "graph", "bench", exact_rows=0),
    }
    words: dict[str, Index[Any]] = {
        "tantivy": TantivyIndex(folder / "tantivy", "bench"),
        "Postgres words": PostgresWords(server, "w", "bench"),
    }
    found = {name: Engine(index, held.vectors, near, True) for name, index in vectors.items()}
    return found | {name: Engine(index, held.words, wordy, False) for name, index in words.items()}


def measure(engine: Engine, held: Held, asked: Sequence[Query], server: Server, size: Callable[[], int]) -> Figures:
    before = size()
    meter = Meter(server=server)
    with engine.index.writing(blocking=True) as mine:
        assert mine
        engine.index.rebuild(engine.rows(), 1)
    figures: Figures = {"build": meter.read(), "bytes": size() - before}
    reader = engine.index.pin()
    try:
        for name, share in SHARES.items():
            figures[name] = _asked(engine, reader, held, held.some(share), asked, server)
    finally:
        reader.release()
        engine.index.close()
    return figures


def _asked(
    engine: Engine, reader: Any, held: Held, allowed: Allowed, asked: Sequence[Query], server: Server
) -> Figures:
    for query in asked[:WARM_UP]:
        engine.find(reader, query, allowed)
    walls: list[float] = []
    found: list[Ranked] = []
    meter = Meter(server=server)
    began = time.monotonic()
    for query in asked[WARM_UP:]:
        at = time.perf_counter()
        found.append(engine.find(reader, query, allowed))
        walls.append((time.perf_counter() - at) * 1e3)
        if time.monotonic() - began > MOST_SECONDS:
            break
    spent = meter.read()
    figures: Figures = {
        "queries": len(walls),
        **spread(walls, "ms"),
        "cpu_ms": per(spent["cpu_s"], len(walls), 1e3, 2),
        "postgres_cpu_ms": per(spent["postgres_cpu_s"], len(walls), 1e3, 2),
    }
    if engine.by_meaning:
        hits = [
            float(np.mean(ranked.scores[:K] >= held.nearest(query, allowed) - 1e-5)) * min(1.0, len(ranked) / K)
            for query, ranked in zip(asked[WARM_UP:], found, strict=False)
        ]
        figures |= {"recall@10": round(float(np.mean(hits)), 4), "worst": round(percentile(hits, 0.0), 2)}
    return figures


def run(shared: Path, small: bool) -> Figures:
    sizes, count = ((FEW,), FEW_ASKED) if small else (SIZES, ASKED)
    folder = data.short_windows(shared, sizes[-1])
    passages, asked = common.passages(folder), common.queries(folder)[: WARM_UP + count]
    figures: Figures = {"before": conditions()}
    with Server() as server:
        for size in sizes:
            held = Held.of(_first(passages, size))
            figures[str(size)] = _at(held, asked, server)
    return figures | {"after": conditions()}


def _at(held: Held, asked: Sequence[Query], server: Server) -> Figures:
    url, figures = server.create(), {}
    with tempfile.TemporaryDirectory() as folder:
        database = PostgresServer(url)
        for name, engine in engines(held, Path(folder), database).items():
            place = Path(folder)

            def size(shared: bool = engine.index.shared, place: Path = place) -> int:
                return server.database_bytes(url) if shared else folder_bytes(place)

            figures[name] = measure(engine, held, asked, server, size)
        database.close()
    server.drop(url)
    return figures


def _first(passages: Passages, count: int) -> Passages:
    ids, texts, documents = (column[:count] for column in (passages.ids, passages.texts, passages.documents))
    return Passages(ids, texts, passages.vectors[:count], documents)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=data.DEFAULT_DATA, help="the folder of the shared data")
    parser.add_argument("--small", action="store_true", help="few rows, to see that it works")
    given = parser.parse_args()
    if not given.data.is_dir():
        raise SystemExit(f"no folder {given.data}: name one with --data")
    print(json.dumps(run(given.data, given.small)))


if __name__ == "__main__":
    main()
