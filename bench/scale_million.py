"""A million chunks on one node: `python -m bench.scale_million [--small]`. SQLite first, then Postgres.

load      made chunks with ready vectors published through the catalog's port, as ingestion does after embedding;
          queries are asked after a tenth of them, and after all
follow    both indexes brought up by the change log, from nothing
query     by a process that only searches: ms on the clock and of processors, memory of its own and of mapped files
rebuild   both indexes anew from the catalog alone
disk      catalog, original files, words, vectors
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.scale_machine import Meter, Server, added, conditions, folder_bytes, spread, told_by
from bench.scale_made import DIMENSION, IN_A_FILE, Made
from bench.search_peers.common import K, Query
from bench.search_peers.ragforge import PROJECT, Ours
from ragforge import Ragforge
from ragforge.domain.library import Labels
from ragforge.domain.retrieval import Filters
from ragforge.settings import load

CHUNKS, FEW = 1_000_000, 20_000
ASKED, FEW_ASKED = 400, 40
WARM_UP = 10
EVERY = 100
"""One batch in so many has the label that the filter asks for."""
TENTH = 10
TAG = "one-in-a-hundred"

Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """Where the catalog is; without a URL it is in the folder."""

    folder: Path
    url: str = ""

    def open(self) -> Ours:
        ours = Ours(DIMENSION)
        settings = load(self.folder / "workspace", flags={"bench": {"store.database_url": self.url}})
        ours.forge = Ragforge.open(settings, embedders={"given": ours.embedder})
        return ours


def measure(place: Place, made: Made, asked: int, server: Server | None) -> Figures:
    ours = place.open()
    ours.forge.create_project(PROJECT, embedder="given")
    figures: Figures = {"before": conditions()}
    first = made.first(made.chunks // TENTH)
    figures["tenth"] = _grown(place, ours, first, range(first.batches), asked, server)
    figures["whole"] = _grown(place, ours, made, range(first.batches, made.batches), asked, server)
    figures["rebuild"] = _metered(lambda: list(ours.forge.rebuilding(project=PROJECT)), server)
    figures["disk"] = _disk(place, ours, server)
    figures["embedder_calls"] = ours.embedder.calls
    ours.forge.close()
    return figures | {"after": conditions()}


def _grown(place: Place, ours: Ours, made: Made, batches: range, asked: int, server: Server | None) -> Figures:
    """The project after these batches too: what they took, and what a query takes now."""
    return {
        "chunks": made.chunks,
        "files": -(-made.chunks // IN_A_FILE),
        "load": _loaded(ours, made, batches, server),
        "follow": _metered(ours.catch_up, server),
        "query": _asked_elsewhere(place, made, asked, server),
    }


def _loaded(ours: Ours, made: Made, batches: range, server: Server | None) -> Figures:
    """Making the chunks does not count."""
    parts, chunks, labelled = [], 0, 0
    for number in batches:
        passages, has_label = made.batch(number), number % EVERY == 0
        chunks, labelled = chunks + len(passages.ids), labelled + len(passages.ids) * has_label
        meter = Meter(server=server)
        ours.publish(passages, Labels(tags=(TAG,) if has_label else ()))
        parts.append(meter.read())
    total = added(parts)
    return {**total, "chunks": chunks, "labelled": labelled, "chunks_per_s": round(chunks / (total["wall_s"] or 1))}


def _metered(work: Callable[[], object], server: Server | None) -> Figures:
    meter = Meter(server=server)
    work()
    return meter.read()


def _disk(place: Place, ours: Ours, server: Server | None) -> Figures:
    """Bytes; of SQLite its file as it is after all was written."""
    forge = ours.forge
    workspace, project = forge.workspace, forge.project(PROJECT)
    indexes = workspace / "indexes" / project.id / str(project.generation)
    catalog = (
        server.database_bytes(place.url)
        if server
        else sum(path.stat().st_size for path in workspace.glob("catalog.db*"))
    )
    return {
        "catalog": catalog,
        "originals": folder_bytes(workspace / "uploads"),
        "words": folder_bytes(indexes / "keywords"),
        "vectors": folder_bytes(indexes / "vectors"),
    }


# -- a process that only searches


def _asked_elsewhere(place: Place, made: Made, asked: int, server: Server | None) -> Figures:
    command = [sys.executable, "-m", "bench.scale_million", "--ask", str(asked), "--chunks", str(made.chunks)]
    return told_by([*command, "--folder", str(place.folder), "--url", place.url], server)


def ask(place: Place, made: Made, count: int) -> Iterator[Figures]:
    """In this process: what each way to ask takes, then the memory it all takes."""
    asked = made.queries(WARM_UP + count)
    ours = place.open()
    with _told_memory() as memory:
        for way, filters in (("plain", None), ("filtered", Filters(tags=(TAG,)))):
            for query in asked[:WARM_UP]:
                _search(ours, query, filters)
            yield {"begins": way}
            walls, cpus = [], []
            for query in asked[WARM_UP:]:
                began, cpu = time.perf_counter(), time.process_time()
                _search(ours, query, filters)
                walls.append((time.perf_counter() - began) * 1e3)
                cpus.append((time.process_time() - cpu) * 1e3)
            yield {"did": way, "count": len(walls), **spread(walls, "wall_ms"), **spread(cpus, "cpu_ms")}
    yield {"memory": memory}
    ours.forge.close()


def _search(ours: Ours, query: Query, filters: Filters | None) -> None:
    found = ours.forge.search(query.text, project=PROJECT, k=K, vector=query.vector, filters=filters)
    if not found.passages or found.degraded:
        raise SystemExit(f"nothing found, or not by all engines: {found.degraded}")


@contextmanager
def _told_memory() -> Iterator[dict[str, int]]:
    """Bytes in memory: what only this process has, and pages of mapped files, which the system can take back."""
    memory: dict[str, int] = {}
    before = _memory()
    yield memory
    after = _memory()
    memory |= {"own": after["RssAnon"], "mapped": after["RssFile"], "own_before": before["RssAnon"]}


def _memory() -> dict[str, int]:
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if words[0].startswith("Rss")}


def run(small: bool) -> Figures:
    made, asked = Made(FEW if small else CHUNKS), FEW_ASKED if small else ASKED
    with tempfile.TemporaryDirectory() as folder:
        figures = {"sqlite": measure(Place(Path(folder)), made, asked, None)}
    with Server() as server, tempfile.TemporaryDirectory() as folder:
        figures["postgres"] = measure(Place(Path(folder), server.create()), made, asked, server)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="few chunks, to see that it works")
    parser.add_argument("--ask", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--chunks", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--url", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.ask is None:
        print(json.dumps(run(given.small)))
        return
    for told in ask(Place(given.folder, given.url), Made(given.chunks), given.ask):
        print(json.dumps(told), flush=True)
        if "begins" in told:
            sys.stdin.readline()


if __name__ == "__main__":
    main()
