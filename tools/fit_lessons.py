"""Fit what similarity means for the embedders that come with ragforge, and write it beside the judged lessons.

python tools/fit_lessons.py
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path

from ragforge import Ragforge
from ragforge.domain.lessons import Calibration
from ragforge.learn import calibrate
from ragforge.settings import load

FILE = Path(calibrate.__file__).with_name("known.json")
EMBEDDERS = ("minilm", "wordllama")


def fitted(embedder: str) -> Calibration:
    with tempfile.TemporaryDirectory() as folder:
        settings = load(Path(folder) / "workspace", flags={"this tool": {"learn.embedder": embedder}})
        with Ragforge.open(settings) as forge:
            return forge.lessons.calibrate()


def main() -> None:
    known = {}
    for embedder in EMBEDDERS:
        made = fitted(embedder)
        assert made.embedder == embedder, f"the weights of {embedder} are not here"
        known[made.fingerprint] = {
            "embedder": embedder,
            "curves": {name: asdict(getattr(made, name)) for name in ("task", "failure", "problem", "lesson")},
            "measured": {name: asdict(each) for name, each in made.measured.items()},
            "data": made.data,
        }
        print(embedder, {name: (each.precision, each.recall) for name, each in made.measured.items()})
    FILE.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
