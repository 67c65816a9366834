"""The figures that the decisions in docs/decisions rest on, measured on this machine.

    python tools/time_choices.py

Times are the least of several tries, so that other work on the machine counts little.
"""

from __future__ import annotations

import io
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

SAMPLES = Path(__file__).parents[1] / "src" / "ragforge" / "samples"
MODULES = ("ragforge.settings", "pydantic_settings", "mammoth", "pptx", "openpyxl", "markitdown")


def least(work: Callable[[], object], tries: int = 5) -> float:
    """Seconds of the quickest try."""
    best = float("inf")
    for _ in range(tries):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best


def start(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)


def imports() -> None:
    bare = least(lambda: start("pass"))
    for module in MODULES:
        print(f"import {module:<20} {1000 * (least(partial(start, f'import {module}')) - bare):6.0f} ms")


def jailed() -> None:
    from ragforge.domain.cancel import Cancel
    from ragforge.ingest.jail.pool import Jail
    from ragforge.ports import ParseRequest

    page = b"<p>One short page.</p>"
    jail = Jail()
    try:
        jail.parse(ParseRequest("html", "page.html"), io.BytesIO(page), Cancel())
        one = least(lambda: jail.parse(ParseRequest("html", "page.html"), io.BytesIO(page), Cancel()), 50)
    finally:
        jail.close()
    print(f"a small page in a fresh, forked child   {1000 * one:6.1f} ms")
    spawned = least(lambda: start("import ragforge.ingest.parse.html"))
    print(f"starting a Python with the HTML parser  {1000 * spawned:6.1f} ms")


def scanned() -> None:
    from markdown_it import MarkdownIt

    from ragforge.ingest.split.markdown import scan

    text = (SAMPLES / "returns-and-refunds.md").read_text(encoding="utf-8") * 100
    full = MarkdownIt("commonmark").enable("table")
    ours, theirs = least(lambda: scan(text)), least(lambda: full.parse(text), 3)
    print(f"{len(text):,} characters of Markdown: our scanner {1000 * ours:.0f} ms, markdown-it {1000 * theirs:.0f} ms")


if __name__ == "__main__":
    imports()
    jailed()
    scanned()
