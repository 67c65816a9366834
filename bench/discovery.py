"""Interviews without a model, measured: how well rules understand an answer, and how long a turn takes.

python -m bench.discovery

`bench/interview_sets/answers.jsonl` holds answers of people of many trades, each with the criterion it speaks to; its
author knew the criteria and the questions, not the signals. Half of them use words that are typical of the matter, half
tell it indirectly. `filler.jsonl` holds short messages, half of them with nothing to go on.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import page
from ragforge import Ragforge
from ragforge.discover import filler as rules
from ragforge.discover import hear
from ragforge.discover.knowledge import load
from ragforge.domain.discovery import AskedQuestion, Assumption, InterviewState, Level, Point
from ragforge.flows.interview import EARS

SETS = Path(__file__).with_name("interview_sets")
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
SAMPLES = Path(__file__).parents[1] / "src" / "ragforge" / "samples"
_LAST = {
    "open": "1. Who decides whether this goes ahead?\n2. What have you seen?",
    "offer": "Shall I look up what the rules say?",
    "yesno": "The rules say 60 days. Is that still right?",
}
_TURNS = 12


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SETS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def understood() -> str:
    """Which criterion, and which section, an answer is put under: as an answer to its cluster, and out of the blue."""
    modes = load()
    figures: dict[tuple[str, str], list[tuple[bool, bool]]] = defaultdict(list)
    for row in read("answers"):
        mode = modes[row["mode"]]
        probe = mode.probes[row["criterion"].partition(".")[0]]
        cluster = next(
            (each for each in probe.clusters if any(one.ask == row["question"] for one in each.questions)),
            probe.clusters[0],
        )
        asked = tuple(AskedQuestion(each.ask, probe.key, each.criterion, 1) for each in cluster.questions)
        wanted = mode.criterion(row["criterion"])
        assert wanted is not None
        for how, state in (
            ("asked", InterviewState(mode.name, probe.key, 1, asked=asked)),
            ("out of the blue", InterviewState(mode.name)),
        ):
            points = hear.hear(row["answer"], state, mode, 2, EARS).state.points
            found = points[0] if points else None
            right = found is not None and found.criterion == row["criterion"]
            section = found is not None and found.section == wanted.section
            figures[how, "indirect" if row["hard"] else "typical"].append((right, section))
    rows = [["answers", "said", "right criterion", "right section", "number"]]
    for (how, kind), judged in sorted(figures.items()):
        shares = [f"{sum(each[place] for each in judged) / len(judged):.2f}" for place in (0, 1)]
        rows.append([kind, how, *shares, str(len(judged))])
    return page.table(rows)


def filler() -> str:
    messages = read("filler")
    right = {
        wanted: [
            rules.is_filler(each["message"], _LAST[each["after"]], EARS)
            for each in messages
            if each["filler"] is wanted
        ]
        for wanted in (True, False)
    }
    skipped, kept = sum(right[True]), len(right[False]) - sum(right[False])
    return (
        f"Of {len(right[True])} messages with nothing to go on, {skipped} skip the search; of {len(right[False])} that "
        f"say something, {kept} are searched for."
    )


def speed() -> str:
    """Processor milliseconds of a turn over the sample documents, with little and with much in the state."""
    rows = [["assumptions", "points", "turns", "ms: median", "longest"]]
    for assumptions, points in ((0, 0), (300, 380)):
        with tempfile.TemporaryDirectory() as folder, Ragforge.open(Path(folder) / "ws") as forge:
            forge.add(SAMPLES)
            interview = forge.discovery.begin("Returns")
            _fill(forge, interview.id, assumptions, points)
            took = []
            for number in range(_TURNS + 1):
                began = time.process_time()
                said = f"I think team {number} waits in {number} cases a week, as form {number} is missing."
                forge.discovery.say(said, interview.id)
                took.append((time.process_time() - began) * 1000)
            took = took[1:]  # the first one loads the models
        rows.append([str(assumptions), str(points), str(_TURNS), f"{statistics.median(took):.0f}", f"{max(took):.0f}"])
    return page.table(rows)


def _fill(forge: Ragforge, interview: str, assumptions: int, points: int) -> None:
    sections = forge.discovery.modes()["problem"].sections

    def much(state: InterviewState) -> InterviewState:
        return replace(
            state,
            assumptions=tuple(
                Assumption(
                    f"A{each}", f"Showroom {each} reads rule {each} within week {each}.", Level.LOW, Level.HIGH, 0
                )
                for each in range(1, assumptions + 1)
            ),
            points=tuple(
                Point(f"P{each}", sections[each % len(sections)].key, f"In week {each} there were {each} cases.", 0)
                for each in range(1, points + 1)
            ),
            numbers=(assumptions, points),
        )

    forge.discovery._edit(interview, "default", much)


if __name__ == "__main__":
    figures = "\n\n".join((understood(), filler(), "A turn without a model, over the sample documents:", speed()))
    print(figures)
    page.write(PAGE, figures, by="bench/discovery.py")
