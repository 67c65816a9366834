"""The tables of docs/explain/scale.md, from what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench import page
from bench.scale_sizing import Assumed, measured, needs

PARTS = ("million", "workers", "nodes", "queue", "engines")

Figures = Mapping[str, Any]
UNKNOWN = "–"
"""Stands where nothing was measured yet."""


def tables(results: Figures) -> str:
    """All of them, and what they mean for a larger deployment."""
    shown = [table(name, results[name]) for name in PARTS if name in results]
    if missing := [name for name in PARTS if name not in results]:
        shown.append(f"Not measured yet: {', '.join(missing)}. `{UNKNOWN}` below stands for a figure that needs one.")
    return "\n\n".join([*shown, sizing(results)])


def table(part: str, figures: Figures) -> str:
    shown = {"million": _million, "workers": _workers, "nodes": _nodes, "queue": _queue, "engines": _engines}
    return shown[part](figures)


def figure(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _million(results: Figures) -> str:
    stores = [name for name in ("sqlite", "postgres") if name in results]
    sizes = ("tenth", "whole")
    columns = [(store, size) for store in stores for size in sizes]
    titles = {"sqlite": "SQLite", "postgres": "Postgres"}
    rows = [["", *(f"{titles[store]}, {results[store][size]['chunks']:,} chunks" for store, size in columns)]]

    def row(title: str, *path: str, scale: float = 1.0) -> None:
        rows.append([title, *(_cell(results[store][size], path, scale) for store, size in columns)])

    row("loaded: chunks/s", "load", "chunks_per_s")
    _spent_rows(row, "loaded", "load")
    _spent_rows(row, "indexes followed", "follow")
    for way, title in (("plain", "query"), ("filtered", "query, one label in a hundred")):
        row(f"{title}: ms, p50", "query", way, "wall_ms_p50")
        row(f"{title}: ms, p95", "query", way, "wall_ms_p95")
        row(f"{title}: CPU ms, p50", "query", way, "cpu_ms_p50")
        row(f"{title}: CPU ms, p95", "query", way, "cpu_ms_p95")
        row(f"{title}: CPU ms of Postgres", "query", way, "postgres_cpu_ms")
    row("memory of a process that searches, its own: MB", "query", "memory", "own", scale=1e-6)
    row("pages of mapped files, which can be taken back: MB", "query", "memory", "mapped", scale=1e-6)
    whole = [["", *(titles[store] for store in stores)]]
    for title, key in (("s on the clock", "wall_s"), ("CPU s", "cpu_s"), ("CPU s of Postgres", "postgres_cpu_s")):
        whole.append([f"both indexes rebuilt: {title}", *(_cell(results[s], ("rebuild", key)) for s in stores)])
    for what in ("catalog", "originals", "words", "vectors"):
        cells = [figure(results[s]["disk"][what] / results[s]["whole"]["chunks"]) for s in stores]
        whole.append([f"disk for a chunk, {what}: bytes", *cells])
    return (
        f"### A million chunks on one node\n\n{page.table(rows)}\n\n{page.table(whole)}\n\n{_busy(results['sqlite'])}"
    )


def _spent_rows(row: Any, title: str, key: str) -> None:
    row(f"{title}: s on the clock", key, "wall_s")
    row(f"{title}: CPU s", key, "cpu_s")
    row(f"{title}: CPU s of Postgres", key, "postgres_cpu_s")


def _workers(results: Figures) -> str:
    rows = [
        ["embedder", "workers", "files", "chunks", "files/s", "beside one", "s", "CPU s", "CPU s of Postgres", "cores"]
    ]
    notes: list[str] = []
    shares: list[str] = []
    for embedder in ("wordllama", "minilm"):
        runs = results.get(embedder, {})
        for count, run in runs.items():
            ratio = run["files_per_s"] / runs["1"]["files_per_s"]
            if count != "1":
                busy = run["busy_cores"] / runs["1"]["busy_cores"]
                shares.append(f"- {embedder}, {count}: {figure(busy)} ÷ {figure(_spent(run) / _spent(runs['1']))}")
            cells = [run["files_per_s"], ratio, run["wall_s"], run["cpu_s"], run["postgres_cpu_s"], run["busy_cores"]]
            rows.append([embedder, count, f"{run['files']:,}", f"{run['chunks']:,}", *map(figure, cells)])
            if waits := _named(run["blocked"]):
                notes.append(f"- {embedder}, {count}: {waits}")
    brought = (
        "\n".join(
            [
                "*Cores* are those kept busy by workers, their parsers and Postgres. *Beside one* is how many times as"
                " many of them are busy as with one worker, divided by how many times the CPU a file takes:",
                "",
                *shares,
            ]
        )
        if shares
        else ""
    )
    waited = (
        "\n".join(["Sessions that waited for a lock, on average, by their statement:", "", *notes]) if notes else ""
    )
    parts = (f"### Workers\n\n{page.table(rows)}", brought, waited, _busy(results))
    return "\n\n".join(part for part in parts if part)


def _spent(run: Mapping[str, Any]) -> float:
    """CPU seconds of a file, those of Postgres too."""
    return float((run["cpu_s"] + (run["postgres_cpu_s"] or 0.0)) / run["files"])


def _named(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{share:.2f} `{statement.strip()}…`" for statement, share in shares.items())


def _nodes(results: Figures) -> str:
    rows = [["servers", "clients", "queries/s", "ms, p50", "p95", "CPU ms", "of Postgres", "of the clients"]]
    for each in results["queries"]:
        keys = ("per_s", "ms_p50", "ms_p95", "cpu_ms", "postgres_cpu_ms", "client_cpu_ms")
        rows.append([str(each["servers"]), str(each["clients"]), *(figure(each[key]) for key in keys)])
    seen, embedding = results["seen"], results["embedding_cpu_ms"]
    told = (
        f"{results['chunks']:,} chunks of {results['files']:,} files, questions embedded with {results['embedder']}."
        f" One question's vector takes {figure(embedding['wordllama'])} CPU ms with wordllama,"
        f" {figure(embedding['minilm'])} with MiniLM."
        f" A server's process had {results['memory'] / 1e6:,.0f} MB in memory at most."
    )
    found = (
        f"Of {seen['uploads']} uploads that one server acknowledged, another found each after"
        f" {figure(seen['received_p50_s'])} s (p50), {figure(seen['received_worst_s'])} s (worst). Of {seen['uploads']}"
        f" others whose answer waited until they were taken in, it found each after {figure(seen['taken_in_p50_s'])} s"
        f" (p50), {figure(seen['taken_in_worst_s'])} s (worst) from then."
    )
    return "\n\n".join(("### Servers", page.table(rows), told, found, _busy(results)))


def _queue(results: Figures) -> str:
    peer = results["procrastinate"]
    rows = [["", "jobs", "jobs/s", "CPU ms of the client", "CPU ms of Postgres"]]
    for name, runs in (("ours", results["ours"]), (f"Procrastinate {peer.get('version', '')}".strip(), peer)):
        for way, run in runs.items():
            if isinstance(run, Mapping):
                keys = ("per_s", "cpu_ms", "postgres_cpu_ms")
                rows.append([f"{name}: {way}", f"{run['count']:,}", *(figure(run[key]) for key in keys)])
    if "problem" in peer:
        rows.append([f"Procrastinate: {peer['problem']}", *[UNKNOWN] * 4])
    return f"### The queue\n\n{page.table(rows)}\n\n{_busy(results)}"


def _engines(results: Figures) -> str:
    shown = []
    for size in sorted((key for key in results if key.isdecimal()), key=int):
        ways = ("all", "filter 10 %", "filter 1 %")
        head = ["build s", "CPU s", "of Postgres", "MB"]
        asked = [f"{way}: {what}" for way in ways for what in ("ms p50", "p95", "CPU ms", "of Postgres", "recall@10")]
        rows = [[f"{int(size):,} rows", *head, *asked]]
        for name, run in results[size].items():
            built = [run["build"][key] for key in ("wall_s", "cpu_s", "postgres_cpu_s")] + [run["bytes"] / 1e6]
            keys = ("ms_p50", "ms_p95", "cpu_ms", "postgres_cpu_ms", "recall@10")
            rows.append([name, *map(figure, built), *(figure(run[way].get(key)) for way in ways for key in keys)])
        shown.append(page.table(_turned(rows)))
    return "\n\n".join(["### Engines", *shown, _busy(results)])


def _turned(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Columns as rows: many figures of a few engines are easier to read that way."""
    return [list(column) for column in zip(*rows, strict=True)]


def sizing(results: Figures) -> str:
    """What a hundred million chunks and a thousand queries a second would need, as far as it was measured."""
    assumed = Assumed()
    taken = [["assumed", "value", "meaning"], *([f"`{name}`", value, why] for name, value, why in assumed.told())]
    rows = [["role", "", "many projects", "one project", "computed as"]]
    rows += [
        [need.role, need.what, _rounded(need.many), _rounded(need.one), need.how]
        for need in needs(measured(results), assumed)
    ]
    return f"### On paper\n\n{page.table(taken)}\n\n{page.table(rows)}"


def _rounded(value: float | None) -> str:
    """Two digits are more than such an extrapolation is worth."""
    if value is None:
        return UNKNOWN
    two = float(f"{value:.2g}")
    return f"{two:,.0f}" if two >= 10 else f"{two:g}"


def _cell(figures: Figures, path: Iterable[str], scale: float = 1.0) -> str:
    found: Any = figures
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return figure(None if found is None else found * scale)


def _busy(results: Figures) -> str:
    """How busy and how fast the machine was: of a loaded one, only ratios and CPU time count."""
    before, after = results["before"], results["after"]
    reference = before["reference"]
    return (
        f"Measured on {before['cores']} cores at a load of {before['load']:g} before and {after['load']:g} after;"
        f" reference {reference['python_ms']:g} / {reference['numpy_ms']:g} ms."
    )
