"""Retrieval measured side by side: `make bench-search`, or `python -m bench.retrieval quality speed large`.

    quality   nDCG@10 and recall@10 of each framework's own hybrid search, with the same MiniLM for all
    speed     CPU ms of a hybrid query, queries a second with eight threads, CPU s of a cold start; vectors given
    large     ours alone on 100,000 chunks: filters, recall, rebuild, removal
    million   ours alone on 1,000,000 chunks
    minilm    ours alone on 100,000 vectors of MiniLM: recall
    failures  ours alone on the questions it answers worst, explained in docs/explain/failures.md

Every part runs in a process of its own, with the interpreter of the framework's own environment, one after the other.
Figures are CPU time where they can be, so that other work on the machine counts little. They are kept in
docs/benchmarks.json, where a part that is measured again replaces only itself; the tables in docs/benchmarks.md are
written from that file.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from bench import data, failures, page
from ragforge.evaluate.metrics import ndcg, recall

OURS = "ragforge"
PEERS = ("llamaindex", "langchain", "haystack", "txtai", "lancedb")
ROOT = Path(__file__).parents[1]
ENVIRONMENTS = ROOT / ".cache" / "peers"
RESULTS = ROOT / "docs" / "benchmarks.json"
PAGE = ROOT / "docs" / "benchmarks.md"
FAILURES = ROOT / "docs" / "explain" / "failures.md"

PARTS = ("quality", "speed", "large", "million", "minilm", "failures")
SIZES = (10_000, 100_000)
ALONE: dict[str, tuple[str, Callable[[Path, int], Path], int]] = {
    "large": ("all", data.windows, 100_000),
    "million": ("all", data.windows, 1_000_000),
    "minilm": ("recall", data.short_windows, 100_000),
}
"""Parts with ours alone: what `bench.large` measures, and on how many chunks of which kind."""
PATIENCE = {"quality": 5_400, "speed": 1_200, "threads": 600, "cold": 600, "large": 3_600}
"""Seconds after which a framework is told to have taken too long."""
TITLES = {
    OURS: "**ragforge**",
    "llamaindex": "LlamaIndex",
    "langchain": "LangChain + Chroma",
    "haystack": "Haystack",
    "txtai": "txtai",
    "lancedb": "LanceDB",
}
_ALONE = ("words alone", "vectors alone")
_TIMES = ("cpu_ms", "cpu_s", "qps")

Figures = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["quality", "speed", "large"], help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--data", type=Path, default=data.DEFAULT_DATA, help="the folder of the shared data")
    parser.add_argument("--only", nargs="*", default=[OURS, *PEERS], help="frameworks to measure")
    parser.add_argument("--sizes", nargs="*", type=int, default=[SIZES[0]], help="chunks, for speed")
    parser.add_argument("--page", action="store_true", help="measure nothing, only write the page")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        raise SystemExit(f"no part {', '.join(sorted(unknown))}: there are {', '.join(PARTS)}")
    if not arguments.page:
        if not arguments.data.is_dir():
            raise SystemExit(f"no folder {arguments.data}: name one with --data")
        for title, figures in measure(arguments.parts, arguments.data, arguments.only, arguments.sizes):
            print(f"{title}: {json.dumps(figures)}", flush=True)
            keep(title.split("/"), figures)
        if "failures" in arguments.parts:
            page.write(FAILURES, failures.explained(arguments.data))
    page.write(PAGE, tables(kept()))


def measure(
    parts: Sequence[str], shared: Path, only: Sequence[str], sizes: Sequence[int]
) -> Iterator[tuple[str, Figures]]:
    """Each figure with its place among the results, as soon as it is there."""
    if "quality" in parts:
        for corpus in data.CORPORA:
            folder = data.corpus(shared, corpus)
            for name in only:
                yield f"quality/{corpus}/{name}", quality(name, folder)
    if "speed" in parts:
        for size in sizes:
            folder = data.windows(shared, size)
            for name in only:
                yield f"speed/{size}/{name}", speed(name, folder)
    for part, (what, cut, size) in ALONE.items():
        if part in parts:
            folder = cut(shared, size)
            with tempfile.TemporaryDirectory() as store:
                command = [sys.executable, "-m", "bench.large", what, str(folder), store]
                figures = _run(command, PATIENCE["large"])
            if "problem" in figures:  # what was measured before is worth more than that
                raise SystemExit(f"{part}: {figures['problem']}: {figures['why']}")
            yield part, figures


def quality(name: str, folder: Path) -> Figures:
    """How good each of a framework's ways to fuse is; its best one counts in the table."""
    with tempfile.TemporaryDirectory() as store:
        rankings = _script(name, "quality", folder, Path(store))
    if "problem" in rankings:
        return rankings
    grades = data.grades(folder)
    return {
        way: {
            "ndcg@10": round(fmean(ndcg(ranking[query], wanted, 10) for query, wanted in grades.items()), 4),
            "recall@10": round(fmean(recall(ranking[query], wanted, 10) for query, wanted in grades.items()), 4),
        }
        for way, ranking in rankings.items()
    }


def speed(name: str, folder: Path) -> Figures:
    with tempfile.TemporaryDirectory() as store:
        figures = {"query": _script(name, "speed", folder, Path(store))}
        if "problem" not in figures["query"]:
            _script(name, "cold", folder, Path(store))  # so that byte code and files are cached for all alike
            for mode in ("cold", "threads"):
                figures[mode] = _script(name, mode, folder, Path(store))
    return figures


def _script(name: str, mode: str, folder: Path, store: Path) -> Figures:
    python = Path(sys.executable) if name == OURS else ENVIRONMENTS / name / "bin" / "python"
    if not python.exists():
        return {"problem": "not installed", "why": "make bench-peers installs it"}
    return _run([str(python), "-m", f"bench.search_peers.{name}", mode, str(folder), str(store)], PATIENCE[mode])


def _run(command: Sequence[str], seconds: float) -> Figures:
    """What a script prints last. One thread in the numeric libraries, nothing sent anywhere."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    quiet = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    quiet |= {"ANONYMIZED_TELEMETRY": "False", "HAYSTACK_TELEMETRY_ENABLED": "False", "HF_HUB_OFFLINE": "1"}
    quiet |= {"LANCE_LOG": "error", "TOKENIZERS_PARALLELISM": "false"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=seconds, env=kept | quiet, cwd=ROOT
        )
    except subprocess.TimeoutExpired:
        return {"problem": "too slow", "why": f"not done in {seconds:,.0f} s"}
    if done.returncode < 0:
        return {"problem": "crashed", "why": f"the process ended with {signal.Signals(-done.returncode).name}"}
    if done.returncode != 0:
        return {"problem": "failed", "why": (done.stderr.strip().splitlines() or ["it did not say why"])[-1][:200]}
    figures: Figures = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


# -- what was measured


def kept() -> Figures:
    """What was measured so far, now or earlier."""
    figures: Figures = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    return figures


def keep(place: Sequence[str], figures: Figures) -> None:
    results = inner = kept()
    for key in place[:-1]:
        inner = inner.setdefault(key, {})
    inner[place[-1]] = figures
    page.replace(RESULTS, json.dumps(results, indent=1, sort_keys=True) + "\n")


# -- the page


def tables(results: Mapping[str, Any]) -> str:
    parts = (_quality(results), _speed(results), _large(results), _recall(results))
    return "\n\n".join(part for part in parts if part)


def _quality(results: Mapping[str, Any]) -> str:
    measured = results.get("quality", {})
    corpora = [corpus for corpus in data.CORPORA if corpus in measured]
    if not corpora:
        return ""
    notes = page.Notes()
    rows = [["", *(f"{corpus}: {metric}" for metric in ("nDCG@10", "recall@10") for corpus in corpora), "by"]]
    for name in (OURS, *PEERS):
        best = [_best(measured[corpus].get(name, {})) for corpus in corpora]
        ways = " / ".join(dict.fromkeys(way for way, _ in best if way))
        rows.append([TITLES[name], *_qualities(best, name, notes), ways])
    for way in _ALONE:
        own = [(way, measured[corpus].get(OURS, {}).get(way, {})) for corpus in corpora]
        rows.append([f"ragforge, {way}", *_qualities(own, OURS, notes), ""])
    return "### Quality\n\n" + page.table(rows) + notes.text


def _qualities(best: Sequence[tuple[str, Figures]], name: str, notes: page.Notes) -> list[str]:
    return [_cell(figures, metric, name, notes, _share) for metric in ("ndcg@10", "recall@10") for _, figures in best]


def _best(ways: Figures) -> tuple[str, Figures]:
    """A framework's best way to fuse on a corpus. Ours is the default, not the best."""
    if "hybrid" in ways:
        return "as shipped", ways["hybrid"]
    if "problem" in ways or not ways:
        return "", ways
    way = max(ways, key=lambda name: ways[name]["ndcg@10"])
    return way, ways[way]


def _speed(results: Mapping[str, Any]) -> str:
    measured = results.get("speed", {})
    sizes = [size for size in SIZES if str(size) in measured]
    if not sizes:
        return ""
    notes = page.Notes()
    columns = ("CPU ms", "queries/s", "cold CPU s", "reference ms")
    rows = [["", *(f"{size // 1000}k: {column}" for size in sizes for column in columns)]]
    for name in (OURS, *PEERS):
        row = [TITLES[name]]
        for size in sizes:
            query, threads, cold = (measured[str(size)].get(name, {}).get(m, {}) for m in ("query", "threads", "cold"))
            row += [
                _cell(query, "cpu_ms", name, notes),
                _cell(threads, "qps", name, notes),
                _cell(cold, "cpu_s", name, notes),
                _reference(query, threads, cold),
            ]
        rows.append(row)
    return "### Speed\n\n" + page.table(rows) + notes.text


def _large(results: Mapping[str, Any]) -> str:
    parts = [results[name] for name in ("large", "million") if name in results]
    if not parts:
        return ""
    rows = [["chunks", *(f"{part['chunks']:,}" for part in parts)]]

    def row(title: str, key: str, *where: str) -> None:
        measured = [_inside(part, where) for part in parts]
        behind = [f" ({_reference(each)})" if key in _TIMES and "reference" in each else "" for each in measured]
        rows.append([title, *(_figure(each.get(key)) + of for each, of in zip(measured, behind, strict=True))])

    ways = dict.fromkeys(way for part in parts for way in part["query"])
    for way in sorted(ways, key=lambda way: way != "plain"):
        row(f"query, {way}: CPU ms", "cpu_ms", "query", way)
    row("eight threads: queries/s", "qps", "threads")
    row("cold start to the first result: CPU s", "cpu_s", "cold")
    row("both indexes built: CPU s", "cpu_s", "index")
    row("rebuilt: CPU s", "cpu_s", "rebuild")
    row("a file of 1,000 chunks removed: CPU s", "cpu_s", "remove")
    row("models called", "embedder_calls")
    row("memory of a process that searched once: MB", "rss_mb", "cold")
    return "### Large projects, ours alone\n\n" + page.table(rows)


def _inside(figures: Figures, where: Sequence[str]) -> Figures:
    for key in where:
        figures = figures.get(key, {})
    return figures


def _recall(results: Mapping[str, Any]) -> str:
    parts = [(name, results[name]) for name in ALONE if name in results]
    if not parts:
        return ""
    shares = ("all", "10 %", "1 %")
    rows = [["vectors", "chunks", *(f"filter {share}" if "%" in share else share for share in shares), "ten found"]]
    for name, part in parts:
        found = [part["recall"][share] for share in shares]
        vectors = "MiniLM, 384" if name == "minilm" else "wordllama, 256"
        filled = min(each["filled"] for each in found)
        rows.append([vectors, f"{part['chunks']:,}", *(_share(each["recall@10"]) for each in found), f"{filled:.0%}"])
    return "### Recall@10 against comparing with every vector, ours alone\n\n" + page.table(rows)


def _cell(
    figures: Figures, key: str, name: str, notes: page.Notes, form: Callable[[float | None], str] | None = None
) -> str:
    """A figure, or a word why there is none."""
    title = TITLES[name].strip("*")
    if "problem" in figures:
        return notes.marked(figures["problem"], f"{title}: {figures['why']}.")
    if figures.get("errors"):
        return notes.marked("errors", f"{title}: {figures['errors']:,} of {figures['queries']:,} questions failed.")
    return (form or _figure)(figures.get(key))


def _reference(*measured: Figures) -> str:
    """CPU ms of the fixed work, in Python and in NumPy, on the average of all times it was done beside these."""
    references = [reference for figures in measured for reference in figures.get("reference", ())]
    if not references:
        return "–"
    return " / ".join(_figure(fmean(each[name] for each in references)) for name in ("python_ms", "numpy_ms"))


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    main()
