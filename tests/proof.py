"""How hard a test tries, and the figures it leaves: small counts in `make test`, full ones in `make prove`."""

from __future__ import annotations

import json
import os
from pathlib import Path

PROVE, PROOF = "RAGFORGE_PROVE", "RAGFORGE_PROOF"
"""Variables: whether the counts are full, and the folder for figures."""
FAILED = "failed.txt"
PROVING = os.environ.get(PROVE) == "1"


def count(usual: int, proof: int) -> int:
    """How often to repeat: `usual` in every run, `proof` in `make prove`."""
    return proof if PROVING else usual


def record(name: str, **figures: object) -> None:
    """Leave figures for docs/proof.json."""
    folder = os.environ.get(PROOF)
    if folder:
        (Path(folder) / f"{name}.json").write_text(json.dumps(figures))


def note_failure(test: str) -> None:
    """Leave the name of a test that failed, so that it can be repeated alone."""
    folder = os.environ.get(PROOF)
    if folder:
        with (Path(folder) / FAILED).open("a") as names:
            names.write(f"{test}\n")
