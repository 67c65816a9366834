"""Lessons measured: how well the same ones are recognised and found, and how fast among many.

python -m bench.learning [quality] [speed]

The sets of `bench/lesson_sets` were written by hand, by other authors than those of the judged set that curves are
fitted to, and none of them was used in fitting. Each group tells one lesson five times, solves the same problem in two
other ways, and has two lessons of other problems that sound alike.

retold      the same facts and names in other sentences
reworded    the same mechanism, other components, half as long or twice
free        what agents of different projects write, each in its own words
hard        written to mislead: retellings that share few words, near misses that share many
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from bench import page
from ragforge import Ragforge
from ragforge.domain.cancel import Cancel
from ragforge.domain.lessons import EntryType, Facets, Told
from ragforge.learn.calibrate import JudgedSet, judged
from ragforge.operate.access import owner
from ragforge.settings import load

SETS = Path(__file__).with_name("lesson_sets")
NAMES = ("retold", "reworded", "free", "hard")
PATTERNS = 100_000
_WORDS = 20_000
_ROUNDS = 60


@dataclass(frozen=True, slots=True)
class Quality:
    """Of a set: how many pairs of the same lesson are one pattern, and whether the right one is told."""

    merged_precision: float
    merged_recall: float
    failure_recall: float
    """Failures that are told a pattern of the same problem."""
    failure_precision: float
    """Patterns that are told for a failure and are of the same problem, or one that sounds like it."""
    task_recall: float
    task_precision: float
    lessons: int
    queries: int


def read(name: str) -> JudgedSet:
    return judged(json.loads((SETS / f"{name}.json").read_text(encoding="utf-8")))


@contextmanager
def learning(embedder: str) -> Iterator[Ragforge]:
    with tempfile.TemporaryDirectory() as folder:
        settings = load(Path(folder) / "workspace", flags={"the bench": {"learn.embedder": embedder}})
        with Ragforge.open(settings) as forge:
            forge.create_project("p", embedder="wordllama")
            assert forge.lessons.calibration().embedder == embedder, f"the weights of {embedder} are not here"
            yield forge


def quality(which: JudgedSet, embedder: str) -> Quality:
    """Everything as an orchestrator does it: captured one by one, in any order, one checkpoint, then queries."""
    with learning(embedder) as forge:
        order = list(which.lessons)
        random.Random(1).shuffle(order)
        ids: dict[str, int] = {}
        for number, each in enumerate(order):
            told: dict[str, Any] = {name: text for name, text in asdict(each.told).items() if text}
            ids[forge.lessons.capture(**_names(each.facets), project="p", **told).id] = number
        forge.lessons.checkpoint("project", project="p")
        of_pattern: dict[str, set[str]] = {}
        pattern_of: dict[int, str] = {}
        for pattern in forge.lessons.patterns(project="p"):
            for lesson in forge.lessons.pattern(pattern.id, project="p").lessons:
                pattern_of[ids[lesson.id]] = pattern.id
                of_pattern.setdefault(pattern.id, set()).add(order[ids[lesson.id]].group)
        right, merged, same = 0, 0, 0
        for one, other in combinations(range(len(order)), 2):
            is_same = order[one].solution == order[other].solution
            is_one = pattern_of[one] == pattern_of[other]
            right, merged, same = right + (is_same and is_one), merged + is_one, same + is_same
        failures = [
            (each.group, forge.lessons.query_for_failure(each.text, project="p").patterns) for each in which.failures
        ]
        tasks = [(each.group, forge.lessons.query_for_task(each.text, project="p").patterns) for each in which.tasks]
        return Quality(
            right / max(1, merged),
            right / same,
            *_told(failures, of_pattern),
            *_told(tasks, of_pattern),
            len(order),
            len(failures) + len(tasks),
        )


def _told(asked: Sequence[tuple[str, Sequence[Any]]], groups: Mapping[str, set[str]]) -> tuple[float, float]:
    """The share of questions that were told the right thing, and the share of what was told that was right."""
    told = [(group, groups[each.pattern.id]) for group, patterns in asked for each in patterns]
    found = sum(any(group in groups[each.pattern.id] for each in patterns) for group, patterns in asked)
    return found / max(1, len(asked)), sum(group in its for group, its in told) / max(1, len(told))


def _names(facets: Facets) -> dict[str, Any]:
    return {name: str(value) for name, value in asdict(facets).items()}


def speed(embedder: str, patterns: int = PATTERNS, rounds: int = _ROUNDS) -> dict[str, float]:
    """Processor time of a query among many patterns, without that of embedding the question, in milliseconds."""
    with learning(embedder) as forge:
        model = forge._parts.lessons_embedder()
        fill(forge, patterns)
        chance, cancel, spent = random.Random(3), Cancel(), dict[str, float]()
        for name, agent in (("all", ""), ("by agent", "backend")):
            questions = [" ".join(_words(chance, 14)) for _ in range(rounds + 5)]
            own: list[float] = []
            for number, question in enumerate(questions):
                began = time.process_time()
                model.embed_query(question, cancel)
                embedded = time.process_time()
                forge.lessons.query_for_failure(question, project="p", agent_type=agent)
                whole = time.process_time() - embedded
                if number >= 5:
                    own.append((whole - (embedded - began)) * 1_000)
            spent[name] = float(np.median(own))
        return spent


def fill(forge: Ragforge, patterns: int) -> None:
    """So many patterns of one capture each: words as often as in texts, vectors that are quickly made."""
    card, project = forge._parts.lessons_embedder().card, forge.project("p").id
    chance, numbers = random.Random(1), np.random.default_rng(2)
    agents, tools = ("backend", "frontend", "ops", "data"), ("python", "react", "docker", "postgres", "go")
    for start in range(0, patterns, 5_000):
        some = min(5_000, patterns - start)
        vectors = numbers.standard_normal((some, card.dimension or 64)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1)[:, None]
        with forge._parts.catalog.write() as c:
            lessons = [
                c.lessons.capture(
                    owner(),
                    project,
                    Facets(EntryType.FAILURE, agents[number % 4], "implementation", tools[number % 5]),
                    Told(
                        failure_description=" ".join(_words(chance, 30)),
                        error_message=" ".join(_words(chance, 6)),
                        solution_steps=" ".join(_words(chance, 25)),
                    ),
                    verified=True,
                )
                for number in range(some)
            ]
            rows = [
                (each.key, vector.tobytes(), vector.tobytes()) for each, vector in zip(lessons, vectors, strict=True)
            ]
            c.lessons.put_vectors(owner(), card, rows)
            for each in lessons:
                c.lessons.take_up(owner(), project, each.key, "")
    forge._flows.learn._index.catch_up(card.fingerprint)


def _words(chance: random.Random, number: int) -> list[str]:
    """A few of them often, most of them seldom."""
    return [f"w{int(_WORDS ** chance.random())}" for _ in range(number)]


def main(parts: Sequence[str]) -> None:
    figures: list[str] = []
    if not parts or "quality" in parts:
        rows = [["set", "embedder", "merged: precision", "recall", "failure told: recall", "precision",
                 "task told: recall", "precision", "lessons", "queries"]]  # fmt: skip
        for name in NAMES:
            for embedder in ("minilm", "wordllama"):
                found = quality(read(name), embedder)
                shares = [f"{value:.3f}" for value in list(asdict(found).values())[:6]]
                rows.append([name, embedder, *shares, str(found.lessons), str(found.queries)])
                print(*rows[-1])
        figures.append(page.table(rows))
    if not parts or "speed" in parts:
        spent = speed("minilm")
        told = ", ".join(f"{name} {value:.1f}" for name, value in spent.items())
        figures.append(f"A query among {PATTERNS:,} patterns, processor milliseconds beyond the embedding: {told}.")
        print(figures[-1])
    if not parts:
        page.write(Path("docs/benchmarks.md"), "\n\n".join(figures), by="bench/learning.py")


if __name__ == "__main__":
    main(sys.argv[1:])
