"""A folder of real files of every kind: how each ends. `python -m bench.files --files FOLDER`.

Prints outcomes by sub-folder, every failure with its reason, the peak memory of this process (parsers run in
children of their own) and how long a second run over the unchanged folder takes.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

from ragforge import Ragforge
from ragforge.domain.library import FileResult, Outcome
from ragforge.testing.hashing import HashingEmbedder

DEFAULT_FILES = Path(__file__).parents[2] / "shared" / "data" / "files"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=Path, default=DEFAULT_FILES, help="a folder of files")
    arguments = parser.parse_args()
    root: Path = arguments.files
    if not root.is_dir():
        raise SystemExit(f"no folder {root}: name one with --files")
    with tempfile.TemporaryDirectory() as folder:
        embedders = {"hashing": HashingEmbedder()}
        with Ragforge.open(Path(folder) / "workspace", embedders=embedders) as forge:
            forge.create_project("bench", embedder="hashing")
            report = forge.add(root, project="bench")
            began = time.monotonic()
            again = forge.add(root, project="bench")
            seconds = time.monotonic() - began
            silent = [d.name for d in forge.documents(project="bench") if d.chunks == 0 and d.problem is None]
    by_kind: dict[str, Counter[str]] = defaultdict(Counter)
    for file in report.files:
        by_kind[os.path.relpath(file.path, root).split(os.sep)[0]][str(file.outcome)] += 1
    for kind, outcomes in sorted(by_kind.items()):
        print(f"{kind:<26}" + "  ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())))
    print()
    for file in report.failed:
        print(_line(file, root))
    print()
    print(f"{len(report.files)} files in {report.seconds:.1f} s: {report.count(Outcome.READY)} ready, ", end="")
    print(f"{report.count(Outcome.DUPLICATE)} duplicate, {len(report.failed)} failed; silently empty: {len(silent)}")
    print(f"again: {again.count(Outcome.UNCHANGED)} unchanged in {seconds:.2f} s")
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB")


def _line(file: FileResult, root: Path) -> str:
    return f"{os.path.relpath(file.path, root)}: {file.reason}: {file.message} ({file.hint})"


if __name__ == "__main__":
    main()
