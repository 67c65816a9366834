"""How ragforge scales: `make bench-scale`, or `python -m bench.scale million workers nodes queue engines`.

    million   a million chunks on one node, on SQLite and on Postgres: loading, following, queries, memory, disk
    workers   files a second by one, two and four workers on one Postgres
    nodes     queries a second by one, two and four servers on it, and when one finds what another acknowledged
    queue     jobs that do nothing through our own table, beside Procrastinate
    engines   pgvector, Postgres' words, snapshot and tantivy, each alone

Every part runs in a process of its own, one after the other. `--small` is quick, to see that all works: its figures are
printed and kept apart, never shown. Those of a full run are kept in docs/benchmarks.json, where a part that is measured
again replaces only itself, and written to docs/explain/scale.md. A part's raw figures are in .cache/bench/scale.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench import data, page
from bench.retrieval import ROOT, keep, kept
from bench.scale_page import PARTS, table, tables

PAGE = ROOT / "docs" / "explain" / "scale.md"
RAW = data.CACHE / "scale"
_QUIET = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

Figures = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--small", action="store_true", help="quick, to see that it works; the page stays as it is")
    parser.add_argument("--data", type=Path, default=data.DEFAULT_DATA, help="the folder of the shared data")
    parser.add_argument("--docs", type=Path, help="a folder of Markdown, for workers and nodes; else that of the data")
    parser.add_argument("--page", action="store_true", help="measure nothing, only write the page")
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        raise SystemExit(f"no part {', '.join(sorted(unknown))}: there are {', '.join(PARTS)}")
    docs = given.docs or given.data / "k8s_docs" / "docs"
    for part in () if given.page else given.parts:
        figures = measured(part, given.data, docs, small=given.small)
        save(part, figures, small=given.small)
        print(f"{table(part, figures)}\n", flush=True)
    if not given.small:
        page.write(PAGE, tables(kept().get("scale", {})), "bench/scale.py")


def measured(part: str, shared: Path, docs: Path, *, small: bool) -> Figures:
    """What the part's own process prints last."""
    where = {"workers": ["--docs", str(docs)], "nodes": ["--docs", str(docs)], "engines": ["--data", str(shared)]}
    command = [sys.executable, "-m", f"bench.scale_{part}", *where.get(part, ()), *(["--small"] if small else [])]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=False, cwd=ROOT, env={**os.environ, **_QUIET}
    )
    if done.returncode != 0:
        raise SystemExit(f"{part} failed; what was measured before is kept")
    figures: Figures = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def save(part: str, figures: Figures, *, small: bool) -> None:
    RAW.mkdir(parents=True, exist_ok=True)
    page.replace(RAW / f"{part}{'-small' if small else ''}.json", json.dumps(figures, indent=1) + "\n")
    if not small:
        keep(("scale", part), figures)


if __name__ == "__main__":
    main()
