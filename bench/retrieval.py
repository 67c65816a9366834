"""Retrieval measured side by side: `make bench-search`, or `python -m bench.retrieval quality speed large`.

    quality  nDCG@10 and recall@10 of each framework's own hybrid search, with the same MiniLM for all
    speed    CPU ms of a hybrid query, queries a second with eight threads, CPU s of a cold start; vectors given
    large    ours alone on 100,000 chunks: filters, recall, rebuild, removal
    million  ours alone on 1,000,000 chunks

Every part runs in a process of its own, with the interpreter of the framework's own environment, one after the other.
Figures are CPU time where they can be, so that other work on the machine counts little. They are kept in
docs/benchmarks.json; the tables in docs/benchmarks.md are written from that file.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from bench import data
from ragforge.evaluate.metrics import ndcg, recall

OURS = "ragforge"
PEERS = ("llamaindex", "langchain", "haystack", "txtai", "lancedb")
ROOT = Path(__file__).parents[1]
ENVIRONMENTS = ROOT / ".cache" / "peers"
RESULTS = ROOT / "docs" / "benchmarks.json"
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- figures: written by bench/retrieval.py -->", "<!-- end of figures -->"

SIZES = (10_000, 100_000)
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

Figures = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "parts", nargs="*", default=["quality", "speed", "large"], help="quality, speed, large, million"
    )
    parser.add_argument("--data", type=Path, default=data.DEFAULT_DATA, help="the folder of the shared data")
    parser.add_argument("--only", nargs="*", default=[OURS, *PEERS], help="frameworks to measure")
    parser.add_argument("--sizes", nargs="*", type=int, default=list(SIZES), help="chunks, for speed")
    parser.add_argument("--page", action="store_true", help="measure nothing, only write the page")
    arguments = parser.parse_args()
    if not arguments.page:
        if not arguments.data.is_dir():
            raise SystemExit(f"no folder {arguments.data}: name one with --data")
        for title, figures in measure(arguments.parts, arguments.data, arguments.only, arguments.sizes):
            print(f"{title}: {json.dumps(figures)}", flush=True)
            keep(title.split("/"), figures)
    write_page(kept())


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
    for part, size in (("large", SIZES[-1]), ("million", 1_000_000)):
        if part in parts:
            with tempfile.TemporaryDirectory() as store:
                folder = data.windows(shared, size)
                yield part, _run([sys.executable, "-m", "bench.large", str(folder), store], PATIENCE["large"])


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
        figures = _script(name, "speed", folder, Path(store))
        if "problem" not in figures:
            _script(name, "cold", folder, Path(store))  # so that byte code and files are cached for all alike
            figures |= _script(name, "cold", folder, Path(store))
            figures |= _script(name, "threads", folder, Path(store))
    return figures


def _script(name: str, mode: str, folder: Path, store: Path) -> Figures:
    python = Path(sys.executable) if name == OURS else ENVIRONMENTS / name / "bin" / "python"
    if not python.exists():
        return {"problem": "not installed (make bench-peers)"}
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
        return {"problem": f"not done in {seconds:.0f} s"}
    if done.returncode < 0:
        return {"problem": f"crashed ({signal.Signals(-done.returncode).name})"}
    if done.returncode != 0:
        return {"problem": (done.stderr.strip().splitlines() or ["no word why"])[-1][:200]}
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
    RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")


# -- the page


def write_page(results: Mapping[str, Any]) -> None:
    """Put the tables between the markers of the page."""
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    tables = "\n\n".join(part for part in (_quality(results), _speed(results), _large(results)) if part)
    PAGE.write_text(f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}", encoding="utf-8")


def _quality(results: Mapping[str, Any]) -> str:
    measured = results.get("quality", {})
    corpora = [corpus for corpus in data.CORPORA if corpus in measured]
    if not corpora:
        return ""
    rows = [["", *(f"{corpus}: nDCG@10" for corpus in corpora), *(f"{corpus}: recall@10" for corpus in corpora), "by"]]
    for name in (OURS, *PEERS):
        best = [_best(measured[corpus].get(name, {})) for corpus in corpora]
        ways = " / ".join(dict.fromkeys(way for way, _ in best if way))
        rows.append(
            [TITLES[name], *(_share(f, "ndcg@10") for _, f in best), *(_share(f, "recall@10") for _, f in best), ways]
        )
    for way in _ALONE:
        own = [measured[corpus].get(OURS, {}).get(way, {}) for corpus in corpora]
        rows.append(
            [f"ragforge, {way}", *(_share(f, "ndcg@10") for f in own), *(_share(f, "recall@10") for f in own), ""]
        )
    return "### Quality\n\n" + _table(rows)


def _best(ways: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """A framework's best way to fuse on a corpus. Ours is the default, not the best."""
    if "hybrid" in ways:
        return "as shipped", ways["hybrid"]
    scored = {way: figures for way, figures in ways.items() if isinstance(figures, dict)}
    if not scored:
        return str(ways.get("problem", "")), {}
    way = max(scored, key=lambda name: scored[name]["ndcg@10"])
    return way, scored[way]


def _speed(results: Mapping[str, Any]) -> str:
    measured = results.get("speed", {})
    sizes = [size for size in SIZES if str(size) in measured]
    if not sizes:
        return ""
    rows = [["", *(_heading(size, column) for size in sizes for column in ("CPU ms", "queries/s", "cold CPU s"))]]
    for name in (OURS, *PEERS):
        row = [TITLES[name]]
        for size in sizes:
            figures = measured[str(size)].get(name, {})
            row += [_number(figures.get("cpu_ms")), _threads(figures), _number(figures.get("cold_cpu_s"))]
        rows.append(row)
    return "### Speed\n\n" + _table(rows)


def _threads(figures: Mapping[str, Any]) -> str:
    if figures.get("errors"):
        return f"{figures['errors']} errors"
    return str(figures["problem"]) if "problem" in figures else _number(figures.get("qps_8_threads"))


def _heading(size: int, column: str) -> str:
    return f"{size // 1000}k: {column}"


def _large(results: Mapping[str, Any]) -> str:
    parts = [results[name] for name in ("large", "million") if "chunks" in results.get(name, {})]
    if not parts:
        return ""
    rows = [["chunks", *(f"{part['chunks']:,}" for part in parts)]]
    queries = dict.fromkeys(way for part in parts for way in part["query"])
    for way in queries:
        rows.append([f"query, {way}: CPU ms", *(_number(part["query"].get(way, {}).get("cpu_ms")) for part in parts)])
    for way in dict.fromkeys(way for part in parts for way in part["recall"]):
        rows.append([f"recall@10, {way}", *(_share(part["recall"].get(way, {}), "recall@10") for part in parts)])
    for step, title in (
        ("index", "both indexes built"),
        ("rebuild", "rebuilt"),
        ("remove", "a file of 1,000 chunks removed"),
    ):
        rows.append([f"{title}: CPU s", *(_number(part.get(step, {}).get("cpu_s")) for part in parts)])
    rows.append(["models called", *(str(part["embedder_calls"]) for part in parts)])
    rows.append(["cold start to the first result: CPU s", *(_number(part.get("cold_cpu_s")) for part in parts)])
    rows.append(["memory of a process that searched once: MB", *(_number(part.get("cold_rss_mb")) for part in parts)])
    return "### Large projects, ours alone\n\n" + _table(rows)


def _share(figures: Mapping[str, Any], key: str) -> str:
    return f"{figures[key]:.4f}" if key in figures else "–"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    main()
