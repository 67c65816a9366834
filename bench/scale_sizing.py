"""From what was measured to what a larger deployment needs: arithmetic alone, with every assumption in one place.

Nothing here is measured. A figure that rests on one that was not measured yet is None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

GB = 1e9


def _assume(value: float, why: str, form: str = "{:,g}") -> Any:
    return field(default=value, metadata={"why": why, "form": form})


@dataclass(frozen=True, slots=True)
class Assumed:
    """What is wanted, and what is taken to be so without having been measured here."""

    chunks: float = _assume(100e6, "chunks in all projects together", "{:,.0f}")
    queries_per_s: float = _assume(1_000, "searches a second at the busiest time, all over HTTP and none repeated")
    project_chunks: float = _assume(100e3, "chunks in a project, where there are many projects", "{:,.0f}")
    days: float = _assume(7, "days in which all of it is taken in for the first time")
    load: float = _assume(0.6, "of each processor is planned for; the rest is for peaks and for a machine that fails")
    hot: float = _assume(0.1, "of all projects are asked in the same hour: so much of indexes and catalog is in memory")
    room: float = _assume(2.0, "times the disk that is filled: rebuilds beside the old, write-ahead log, growth")
    machine_cores: float = _assume(16, "processors in one machine")
    copies: float = _assume(2, "machines of each role, at least")

    def told(self) -> list[tuple[str, str, str]]:
        """Name, value and meaning of each."""
        return [
            (each.name, each.metadata["form"].format(getattr(self, each.name)), each.metadata["why"])
            for each in fields(self)
        ]


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures that a deployment is computed from; None where a part was not measured yet."""

    http_ms: float | None
    """CPU of a server for a search over HTTP, with the small embedder, in a project of `http_chunks`."""
    http_chunks: float | None
    small_embedding_ms: float | None
    embedding_ms: float | None
    """CPU of one question's vector, with wordllama and with MiniLM."""
    growth_ms: float | None
    """CPU that a search takes more for each further chunk of its project."""
    postgres_ms: float | None
    """CPU of Postgres for a search."""
    server_bytes: float | None
    """Memory of a server's process."""
    worker_bytes: float | None
    worker_s: float | None
    """CPU of a worker for a chunk, with MiniLM."""
    worker_postgres_s: float | None
    catalog_bytes: float | None
    original_bytes: float | None
    words_bytes: float | None
    vectors_bytes: float | None
    """Disk for a chunk."""
    graph_rows: float | None
    graph_ms: float | None
    graph_bytes: float | None
    """Of a pgvector graph with so many rows: CPU for a search, disk for a row."""
    words_growth_ms: float | None
    """CPU that tantivy takes more for each further row."""
    follow_s: float | None
    """CPU of a server to bring its own two indexes up by a chunk."""


def measured(results: Mapping[str, Any]) -> Measured:
    """Read them from the results of `bench.scale`."""
    whole, tenth = (_at(results, "million", "postgres", name) or {} for name in ("whole", "tenth"))
    disk, chunks = _at(results, "million", "postgres", "disk") or {}, whole.get("chunks")
    asked = max(_at(results, "nodes", "queries") or [{}], key=lambda each: float(each.get("per_s", 0)))
    worker = _at(results, "workers", "minilm", "1") or {}
    sizes = sorted((int(key) for key in results.get("engines", {}) if key.isdecimal()), reverse=True)
    rows = sizes[0] if sizes else None
    graph = _at(results, "engines", str(rows), "pgvector, HNSW") or {}
    words = [(size, _at(results, "engines", str(size), "tantivy", "all", "cpu_ms")) for size in sizes[:2]]
    return Measured(
        http_ms=asked.get("cpu_ms"),
        http_chunks=_at(results, "nodes", "chunks"),
        small_embedding_ms=_at(results, "nodes", "embedding_cpu_ms", "wordllama"),
        embedding_ms=_at(results, "nodes", "embedding_cpu_ms", "minilm"),
        growth_ms=_slope(*((each.get("chunks"), _at(each, "query", "plain", "cpu_ms")) for each in (whole, tenth))),
        postgres_ms=asked.get("postgres_cpu_ms"),
        server_bytes=_at(results, "nodes", "memory"),
        worker_bytes=worker.get("memory"),
        worker_s=_over(worker.get("cpu_s"), worker.get("chunks")),
        worker_postgres_s=_over(worker.get("postgres_cpu_s"), worker.get("chunks")),
        catalog_bytes=_over(disk.get("catalog"), chunks),
        original_bytes=_over(disk.get("originals"), chunks),
        words_bytes=_over(disk.get("words"), chunks),
        vectors_bytes=_over(disk.get("vectors"), chunks),
        graph_rows=rows,
        graph_ms=_at(graph, "all", "postgres_cpu_ms"),
        graph_bytes=_over(graph.get("bytes"), rows),
        words_growth_ms=_slope(*words) if len(words) == 2 else None,
        follow_s=_over(_at(whole, "follow", "cpu_s"), _at(whole, "load", "chunks")),
    )


def _at(results: Mapping[str, Any], *path: str) -> Any:
    found: Any = results
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _over(total: float | None, count: float | None) -> float | None:
    return None if total is None or not count else total / count


def _slope(larger: tuple[float | None, float | None], smaller: tuple[float | None, float | None]) -> float | None:
    """How much more for each further row, from two sizes with their figures; never less."""
    (many, last), (few, first) = larger, smaller
    if many is None or few is None or last is None or first is None:
        return None
    return max(0.0, last - first) / (many - few)


# -- what is needed


@dataclass(frozen=True, slots=True)
class Need:
    """One line of the table: a role, what of it, how much in each of the two shapes, and how that is computed."""

    role: str
    what: str
    many: float | None
    """With many projects, whose indexes are files on every server."""
    one: float | None
    """With all chunks in one project, its vectors in a graph on a vector server."""
    how: str


def needs(m: Measured, a: Assumed) -> list[Need]:
    many_ms, one_ms = search_ms(m, a.project_chunks), _one_project_ms(m, a)
    rate = a.chunks / (a.days * 86_400)
    index_bytes = _sum(m.words_bytes, m.vectors_bytes)
    both = _twice
    return [
        Need("search", "CPU ms of a server", many_ms, one_ms, _HOW_MANY + "; one project: growth of words"),
        Need("API", "cores", _cores(many_ms, a), _cores(one_ms, a), "queries/s × CPU ms ÷ 1000 ÷ load"),
        Need(
            "API",
            "cores of each, to follow the first load",
            _times(m.follow_s, rate / a.load),
            None,
            "chunks ÷ days × CPU s of a server to index a chunk ÷ load; one project: not measured apart",
        ),
        Need("API", "machines", _machines(many_ms, a), _machines(one_ms, a), "cores ÷ cores of a machine, and copies"),
        Need(
            "API",
            "memory of each, GB",
            _sum(_times(m.server_bytes, 1 / GB), _times(index_bytes, a.hot * a.chunks / GB)),
            _sum(_times(m.server_bytes, 1 / GB), _times(m.words_bytes, a.chunks / GB)),
            "a process + hot × chunks × bytes of both indexes; one project: all of its words",
        ),
        Need(
            "API",
            "disk of each, GB",
            _times(index_bytes, a.room * a.chunks / GB),
            _times(m.words_bytes, a.room * a.chunks / GB),
            "chunks × bytes of the indexes that are files × room",
        ),
        Need("workers", "cores", *both(_times(m.worker_s, rate / a.load)), "chunks ÷ days × CPU s of a chunk ÷ load"),
        Need("workers", "memory for each core, GB", *both(_times(m.worker_bytes, 1 / GB)), "a worker's process"),
        Need(
            "Postgres",
            "cores",
            *both(
                _sum(
                    _times(m.postgres_ms, a.queries_per_s / 1000 / a.load),
                    _times(m.worker_postgres_s, rate / a.load),
                )
            ),
            "(queries/s × CPU ms of Postgres ÷ 1000 + chunks/s × its CPU s) ÷ load",
        ),
        Need("Postgres", "memory, GB", *both(_times(m.catalog_bytes, a.hot * a.chunks / GB)), "hot × catalog"),
        Need("Postgres", "disk, GB", *both(_times(m.catalog_bytes, a.room * a.chunks / GB)), "chunks × bytes × room"),
        Need("vector server", "cores", 0.0, _cores(_graph_ms(m, a), a), "graph's CPU ms × log growth"),
        Need("vector server", "memory, GB", 0.0, _times(m.graph_bytes, a.chunks / GB), "chunks × bytes of a row"),
        Need("vector server", "disk, GB", 0.0, _times(m.graph_bytes, a.room * a.chunks / GB), "the same × room"),
        Need("originals", "disk, GB", *both(_times(m.original_bytes, a.chunks / GB)), "chunks × bytes of their text"),
    ]


_HOW_MANY = "over HTTP − small embedder + MiniLM + growth × (chunks of the project − chunks measured)"


def search_ms(m: Measured, chunks: float) -> float | None:
    """CPU of a server for one search in a project of so many chunks whose indexes are its own files."""
    if m.growth_ms is None or m.http_chunks is None:
        return None
    return _sum(_base_ms(m), m.growth_ms * max(0.0, chunks - m.http_chunks))


def _base_ms(m: Measured) -> float | None:
    if m.small_embedding_ms is None:
        return None
    return _sum(m.http_ms, -m.small_embedding_ms, m.embedding_ms)


def _one_project_ms(m: Measured, a: Assumed) -> float | None:
    """Words are still searched by the server itself."""
    if m.http_chunks is None:
        return None
    return _sum(_base_ms(m), _times(m.words_growth_ms, max(0.0, a.chunks - m.http_chunks)))


def _graph_ms(m: Measured, a: Assumed) -> float | None:
    if m.graph_rows is None:
        return None
    return _times(m.graph_ms, math.log(a.chunks) / math.log(m.graph_rows))


def _cores(ms: float | None, a: Assumed) -> float | None:
    return _times(ms, a.queries_per_s / 1000 / a.load)


def _machines(ms: float | None, a: Assumed) -> float | None:
    cores = _cores(ms, a)
    return None if cores is None else max(a.copies, math.ceil(cores / a.machine_cores))


def _twice(value: float | None) -> tuple[float | None, float | None]:
    return value, value


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _sum(*values: float | None) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
