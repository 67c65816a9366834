"""Ours alone, on many chunks: `python -m bench.large all DATA STORE`, or `recall` for that alone.

load      chunks into the catalog and both indexes
query     CPU ms of the whole path, plain, filtered, and with changes that the indexes have not applied
recall    the ten nearest against comparing with every vector, for all chunks and behind filters
rebuild   both indexes from the catalog alone
remove    one file of a thousand chunks, with the proof that nothing of it is left
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.search_peers import common
from bench.search_peers.common import K, Passages, Query
from bench.search_peers.ragforge import PROJECT, Ours
from ragforge.domain.library import Labels
from ragforge.domain.retrieval import Filters

SHARES = {"1 %": 0.01, "10 %": 0.10}
LONG_FILE = 1_000
UNAPPLIED = 200
ASKED = 200
MOST_TO_CHANGE = 200_000
"""Of more chunks than this, none are rebuilt or removed: it is the queries that are of interest."""


def large(data: Path, store: Path) -> dict[str, Any]:
    given, asked = common.passages(data), common.queries(data)
    ours, groups = _empty(given, store), _groups(given)
    figures: dict[str, Any] = {"chunks": len(given.ids)}
    figures["load"] = _timed(lambda: _publish(ours, given, groups))
    figures["index"] = _timed(ours.catch_up)
    figures["query"] = {"plain": common.one_thread(ours.search, asked)}
    for name in SHARES:
        figures["query"][f"filter {name}"] = common.one_thread(_filtered(ours, name), asked)
    figures["recall"] = _recalls(ours, given, groups, asked)
    if len(given.ids) <= MOST_TO_CHANGE:
        figures["rebuild"] = _rebuild(ours, asked)
        figures["remove"] = _remove(ours, given.vectors.shape[1])
        ours.publish(_renamed(_some(given, range(UNAPPLIED)), "new"))
        figures["query"][f"{UNAPPLIED} changes behind"] = common.one_thread(ours.search, asked)
    figures["embedder_calls"] = ours.embedder.calls
    figures["disk_mb"] = round(sum(file.stat().st_size for file in store.rglob("*") if file.is_file()) / 1e6)
    ours.forge.close()
    return figures | _new_process(data, store)


def recall(data: Path, store: Path) -> dict[str, Any]:
    given, asked = common.passages(data), common.queries(data)
    ours, groups = _empty(given, store), _groups(given)
    _publish(ours, given, groups)
    ours.catch_up()
    found = _recalls(ours, given, groups, asked)
    ours.forge.close()
    return {"chunks": len(given.ids), "dimension": given.vectors.shape[1], "recall": found}


def _empty(given: Passages, store: Path) -> Ours:
    ours = Ours(given.vectors.shape[1])
    ours.open(store)
    ours.forge.create_project(PROJECT, embedder="given")
    return ours


def _new_process(data: Path, store: Path) -> dict[str, Any]:
    """A cold start, and what a process that only searches needs: this one also holds all that was loaded."""
    command = [sys.executable, "-m", "bench.search_peers.ragforge"]
    cold, threads = (
        json.loads(subprocess.run([*command, mode, data, store], capture_output=True, text=True, check=True).stdout)
        for mode in ("cold", "threads")
    )
    return {"cold": cold, "threads": threads}


def _groups(given: Passages) -> list[tuple[Labels, list[int]]]:
    """Chunks by the label of their document: a hundredth, a tenth, one long file, and the rest."""
    places: dict[str, list[int]] = {}
    for place, document in enumerate(given.documents):
        places.setdefault(document, []).append(place)
    names = list(places)
    np.random.default_rng(7).shuffle(names)
    groups: list[tuple[Labels, list[int]]] = []
    for tag, share in SHARES.items():
        rows: list[int] = []
        while len(rows) < share * len(given.ids):
            rows += places[names.pop()]
        groups.append((Labels(tags=(_tag(tag),)), rows))
    groups.append((Labels(), [row for name in names for row in places[name]]))
    return groups


def _publish(ours: Ours, given: Passages, groups: Sequence[tuple[Labels, list[int]]]) -> None:
    for labels, rows in groups:
        ours.publish(_some(given, rows), labels)


def _tag(share: str) -> str:
    return f"share-{share.split()[0]}"


def _some(given: Passages, rows: Iterable[int]) -> Passages:
    chosen = list(rows)
    ids, texts, documents = ([column[row] for row in chosen] for column in (given.ids, given.texts, given.documents))
    return Passages(ids, texts, given.vectors[chosen], documents)


def _renamed(given: Passages, name: str) -> Passages:
    return replace(given, documents=[name] * len(given.ids), texts=[f"{name} {text}" for text in given.texts])


def _timed(work: Callable[[], object]) -> dict[str, Any]:
    before = common.reference()
    began, cpu = time.monotonic(), time.process_time()
    work()
    wall, cpu = time.monotonic() - began, time.process_time() - cpu
    return {"wall_s": round(wall, 1), "cpu_s": round(cpu, 1), "reference": [before, common.reference()]}


def _filtered(ours: Ours, share: str) -> common.Search:
    filters = Filters(tags=(_tag(share),))

    def search(query: Query) -> list[str]:
        found = ours.forge.search(query.text, project=PROJECT, k=K, vector=query.vector, filters=filters)
        return [passage.chunk for passage in found.passages]

    return search


def _recalls(
    ours: Ours, given: Passages, groups: Sequence[tuple[Labels, list[int]]], asked: Sequence[Query]
) -> dict[str, dict[str, float]]:
    found = {"all": _recall(ours, given, np.arange(len(given.ids)), None, asked)}
    for (labels, rows), name in zip(groups, SHARES, strict=False):
        found[name] = _recall(ours, given, np.array(rows), labels.tags[0], asked)
    return found


def _recall(
    ours: Ours, given: Passages, rows: npt.NDArray[np.int64], tag: str | None, asked: Sequence[Query]
) -> dict[str, float]:
    """Of the ten nearest by meaning, how many `search` brings. A chunk as near as the tenth counts as one of them."""
    tuning = replace(ours.forge.tuning(), alpha=1.0, duplicates=1.0, k=K)
    filters = Filters(tags=(tag,)) if tag else None
    place = {text: row for row, text in enumerate(given.texts)}
    hits, filled = [], []
    for query in asked[:ASKED]:
        found = ours.forge.search(query.text, project=PROJECT, vector=query.vector, tuning=tuning, filters=filters)
        exact = given.vectors[rows] @ query.vector if tag else given.vectors @ query.vector
        tenth = np.partition(exact, -K)[-K]
        near = [given.vectors[place[passage.text]] @ query.vector for passage in found.passages]
        hits.append(float(np.mean([score >= tenth - 1e-5 for score in near])) * len(near) / K)
        filled.append(len(near) == K)
    return {
        "share": round(len(rows) / len(given.ids), 4),
        "recall@10": round(float(np.mean(hits)), 4),
        "filled": round(float(np.mean(filled)), 4),
    }


def _rebuild(ours: Ours, asked: Sequence[Query]) -> dict[str, Any]:
    before = [ours.search(query) for query in asked[:ASKED]]
    calls = ours.embedder.calls
    took = _timed(lambda: list(ours.forge.rebuilding(project=PROJECT)))
    after = [ours.search(query) for query in asked[:ASKED]]
    same = float(np.mean([len(set(old) & set(new)) / max(1, len(old)) for old, new in zip(before, after, strict=True)]))
    return {**took, "embedding_calls": ours.embedder.calls - calls, "same_top_10": round(same, 4)}


def _remove(ours: Ours, dimension: int) -> dict[str, Any]:
    """A file of a thousand chunks that no other file holds."""
    rng = np.random.default_rng(11)
    vectors = rng.standard_normal((LONG_FILE, dimension)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    texts = [
        f"Canary {number} sings of chapter {number} " + " ".join(map(str, rng.integers(0, 9999, 100)))
        for number in range(LONG_FILE)
    ]
    ours.publish(Passages([f"c{number}" for number in range(LONG_FILE)], texts, vectors, ["canary.txt"] * LONG_FILE))
    ours.catch_up()
    [document] = ours.forge.find(["canary.txt"], project=PROJECT)
    removed: list[Any] = []
    took = _timed(lambda: removed.extend(ours.forge.removing([document.id], project=PROJECT)))
    [removal] = removed
    return {**took, "chunks": removal.chunks, "erased": removal.erased}


if __name__ == "__main__":
    measure = {"all": large, "recall": recall}[sys.argv[1]]
    print(json.dumps(measure(Path(sys.argv[2]), Path(sys.argv[3]))))
