"""`make prove`: the tests with their full counts, and docs/proof.json with date, machine and figures.

Those that are about seconds run first and alone: beside another test they would time that one. Last come the acceptance
tests on the other stacks, with their usual counts.

It takes an hour. `make prove AGAIN=1` runs only what failed in it, puts the figures beside the others, and says which
tests it took twice.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests import stacks
from tests.proof import FAILED, PROOF, PROVE

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs" / "proof.json"
_NONE_CHOSEN = 5
"""What pytest returns if the arguments leave it no test."""


def machine() -> dict[str, object]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory),
    }


def run(tests: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """With full counts: the figures, and which failed. Of no tests in particular: of all."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, PROVE: "1", PROOF: folder}
        pytest = [sys.executable, "-m", "pytest", "--timeout", "3600", *tests]
        runs = (["-m", "alone"], ["-m", "not alone", "-n", "2"])
        codes = [subprocess.run([*pytest, *run], cwd=ROOT, env=environment, check=False).returncode for run in runs]
        figures = {path.stem: json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))}
        told = Path(folder, FAILED)
        failed = sorted(set(told.read_text().splitlines())) if told.exists() else []
    if not failed and not (0 in codes and set(codes) <= {0, _NONE_CHOSEN}):
        failed = ["pytest itself"]
    return figures, failed


def proven() -> dict[str, Any]:
    figures, failed = run([])
    on_stacks = stacks.run(stacks.EVERYTHING)
    return {
        "figures": figures,
        "stacks": {name: {"passed": each.code == 0, "minutes": each.minutes} for name, each in on_stacks.items()},
        "failed": failed,
        "taken_twice": [],
    }


def repeated(proof: Mapping[str, Any]) -> dict[str, Any]:
    """What failed, once more: tests of the usual stack by name, another stack as a whole."""
    figures, failed = run(proof["failed"]) if proof["failed"] else ({}, [])
    again = [name for name, each in proof["stacks"].items() if not each["passed"]]
    on_stacks = stacks.run(stacks.EVERYTHING, only=again)
    redone = {name: {"passed": each.code == 0, "minutes": each.minutes} for name, each in on_stacks.items()}
    return {
        "figures": dict(sorted({**proof["figures"], **figures}.items())),
        "stacks": {**proof["stacks"], **redone},
        "failed": failed,
        "taken_twice": sorted({*proof["taken_twice"], *proof["failed"], *(f"all on {name}" for name in again)}),
    }


def main() -> int:
    began = datetime.now(UTC)
    before = json.loads(FILE.read_text()) if sys.argv[1:] == ["--again"] else None
    found = proven() if before is None else repeated(before)
    minutes = (datetime.now(UTC) - began).total_seconds() / 60 + (before["minutes"] if before else 0)
    passed = not found["failed"] and all(each["passed"] for each in found["stacks"].values())
    date = began.strftime("%Y-%m-%d")
    proof = {"date": date, "passed": passed, "minutes": round(minutes, 1), "machine": machine(), **found}
    FILE.write_text(json.dumps(proof, indent=2) + "\n")
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main())
