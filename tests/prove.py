"""`make prove`: the tests with their full counts, and docs/proof.json with date, machine and figures.

Those that are about seconds run first and alone: beside another test they would time that one. Last come the acceptance
tests on the other stacks, with their usual counts, unless arguments choose some tests.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from tests import stacks
from tests.proof import PROOF, PROVE

ROOT = Path(__file__).parents[1]
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


def main() -> int:
    began = datetime.now(UTC)
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, PROVE: "1", PROOF: folder}
        pytest = [sys.executable, "-m", "pytest", "--timeout", "3600", *sys.argv[1:]]
        runs = (["-m", "alone"], ["-m", "not alone", "-n", "2", "--dist", "worksteal"])
        codes = [subprocess.run([*pytest, *run], cwd=ROOT, env=environment, check=False).returncode for run in runs]
        figures = {path.stem: json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))}
    on_stacks = {} if sys.argv[1:] else stacks.run(stacks.EVERYTHING)
    codes += [each.code for each in on_stacks.values()]
    passed = 0 in codes and set(codes) <= {0, _NONE_CHOSEN}
    proof = {
        "date": began.strftime("%Y-%m-%d"),
        "passed": passed,
        "minutes": round((datetime.now(UTC) - began).total_seconds() / 60, 1),
        "machine": machine(),
        "figures": figures,
        "stacks": {name: {"passed": each.code == 0, "minutes": each.minutes} for name, each in on_stacks.items()},
    }
    (ROOT / "docs" / "proof.json").write_text(json.dumps(proof, indent=2) + "\n")
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main())
