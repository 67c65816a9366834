"""What every peer's script shares: the data it is given, and the ways it is run.

    python -m bench.search_peers.haystack quality DATA STORE    builds, and ranks every query
    python -m bench.search_peers.haystack speed   DATA STORE    builds, and asks one after the other
    python -m bench.search_peers.haystack threads DATA STORE    opens what was built, and asks from eight threads
    python -m bench.search_peers.haystack cold    DATA STORE    opens what was built, and asks once

DATA holds `passages.jsonl`, `vectors.npy`, `queries.jsonl` and `query_vectors.npy`; passages and vectors are ready
made, so that every framework ranks the very same ones. The last line printed is JSON.

Beside each figure of speed stands a `reference`: CPU ms of the same fixed work, measured before and after it.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

CANDIDATES = 100
"""Of each engine, where the framework lets one say so."""
K = 10
WARM_UP = 5
MOST_QUERIES = 400
MOST_SECONDS = 20.0
THREADS = 8
REPEATS = 5


@dataclass(frozen=True, slots=True)
class Query:
    """A question with its vector."""

    id: str
    text: str
    vector: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Passages:
    """What is searched."""

    ids: Sequence[str]
    texts: Sequence[str]
    vectors: npt.NDArray[np.float32]
    documents: Sequence[str]
    """Of which document each is a part."""


Search = Callable[[Query], list[str]]


class Peer(Protocol):
    """One framework: indexes passages into a folder, opens that folder, and searches in its documented ways."""

    def build(self, passages: Passages, store: Path) -> None: ...
    def open(self, store: Path) -> None: ...
    def variants(self) -> dict[str, Search]:
        """Its ways to fuse, the documented default first."""
        ...


class Vectors:
    """The ready vector of a text: what stands behind each framework's own embedding interface."""

    def __init__(self) -> None:
        self._known: dict[str, npt.NDArray[np.float32]] = {}

    def learn(self, texts: Sequence[str], vectors: npt.NDArray[np.float32]) -> None:
        self._known.update(zip(texts, vectors, strict=True))

    def __getitem__(self, text: str) -> npt.NDArray[np.float32]:
        return self._known[text]


def passages(data: Path) -> Passages:
    import numpy as np

    rows = [json.loads(line) for line in (data / "passages.jsonl").open(encoding="utf-8")]
    ids, texts, documents = ([row[name] for row in rows] for name in ("id", "text", "document"))
    return Passages(ids, texts, np.load(data / "vectors.npy"), documents)


def queries(data: Path) -> list[Query]:
    import numpy as np

    rows = [json.loads(line) for line in (data / "queries.jsonl").open(encoding="utf-8")]
    vectors = np.load(data / "query_vectors.npy")
    return [Query(row["id"], row["text"], vector) for row, vector in zip(rows, vectors, strict=True)]


def first_query(data: Path) -> Query:
    """The first query alone, so that a cold start does not pay for reading the others."""
    import numpy as np

    with (data / "queries.jsonl").open(encoding="utf-8") as file:
        row = json.loads(file.readline())
    return Query(row["id"], row["text"], np.array(np.load(data / "query_vectors.npy", mmap_mode="r")[0]))


def quality(peer: Peer, data: Path, store: Path) -> dict[str, Any]:
    peer.build(passages(data), store)
    asked = queries(data)
    return {name: {query.id: search(query)[:K] for query in asked} for name, search in peer.variants().items()}


def speed(peer: Peer, data: Path, store: Path) -> dict[str, Any]:
    given, asked = passages(data), queries(data)
    began = time.process_time()
    peer.build(given, store)
    built = time.process_time() - began
    search = next(iter(peer.variants().values()))
    return {"build_cpu_s": round(built, 1), **one_thread(search, asked)}


def threads(peer: Peer, data: Path, store: Path) -> dict[str, Any]:
    asked = queries(data)
    peer.open(store)
    return many_threads(next(iter(peer.variants().values())), asked)


def one_thread(search: Search, asked: Sequence[Query]) -> dict[str, Any]:
    """CPU time of the whole process for each query: threads of the engine count too."""
    for query in asked[:WARM_UP]:
        search(query)
    times: list[float] = []
    before = reference()
    began = time.monotonic()
    for query in asked[WARM_UP : WARM_UP + MOST_QUERIES]:
        cpu = time.process_time()
        search(query)
        times.append((time.process_time() - cpu) * 1e3)
        if time.monotonic() - began > MOST_SECONDS:
            break
    times.sort()
    return {
        "queries": len(times),
        "cpu_ms": round(sum(times) / len(times), 2),
        "cpu_ms_p50": round(times[len(times) // 2], 2),
        "cpu_ms_p95": round(times[int(len(times) * 0.95)], 2),
        "reference": [before, reference()],
    }


def many_threads(search: Search, asked: Sequence[Query]) -> dict[str, Any]:
    """Queries a second with several threads in one process, every query another one; and how many failed."""
    for query in asked[:WARM_UP]:
        search(query)
    lock = threading.Lock()
    waiting: Iterator[Query] = iter(asked[WARM_UP:])
    done, failed = 0, 0
    before = reference()
    began, cpu = time.monotonic(), time.process_time()

    def work() -> None:
        nonlocal done, failed
        while time.monotonic() - began < MOST_SECONDS:
            with lock:
                query = next(waiting, None)
            if query is None:
                return
            try:
                search(query)
            except Exception:
                with lock:
                    failed += 1
            else:
                with lock:
                    done += 1

    workers = [threading.Thread(target=work) for _ in range(THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    return {
        "qps": round(done / seconds, 1),
        "queries": done + failed,
        "errors": failed,
        "cpu_ms": round(cpu / max(1, done + failed) * 1e3, 2),
        "reference": [before, reference()],
    }


def cold(peer: Peer, data: Path, store: Path) -> dict[str, Any]:
    """CPU time and memory of this process from its start to its first result."""
    query = first_query(data)
    peer.open(store)
    found = next(iter(peer.variants().values()))(query)
    seconds, memory = time.process_time(), _most_memory_mb()
    return {
        "cpu_s": round(seconds, 2),
        "rss_mb": round(memory),
        "found": len(found),
        "reference": [reference()],
    }


def _most_memory_mb() -> float:
    """Of this process alone: what `getrusage` tells begins with the memory of the process that started it."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return float(status.partition("VmHWM:")[2].split()[0]) / 1e3


def reference() -> dict[str, float]:
    """How fast the machine is just now: CPU ms of counting in plain Python, and of a product of two matrices."""
    import numpy as np

    matrix = np.random.default_rng(7).random((512, 512), dtype=np.float32)
    return {"python_ms": _cpu_ms(_count), "numpy_ms": _cpu_ms(lambda: matrix @ matrix)}


def _count() -> None:
    counts: dict[int, int] = {}
    for number in range(50_000):
        key = number * 7919 % 1009
        counts[key] = counts.get(key, 0) + 1


def _cpu_ms(work: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        began = time.process_time()
        work()
        times.append((time.process_time() - began) * 1e3)
    return round(median(times), 2)


def run(peer: Peer) -> None:
    mode, data, store = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    modes = {"quality": quality, "speed": speed, "threads": threads, "cold": cold}
    print(json.dumps(modes[mode](peer, data, store)))
