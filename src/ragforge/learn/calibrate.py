"""What similarity means for an embedder: curves fitted to lessons that people judged.

Every embedder spreads its cosines in its own way: .45 may be a near miss for one and plainly the same for another. So
thresholds are values of a curve, the same for all, and the curve is the embedder's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from itertools import combinations
from math import log
from typing import TYPE_CHECKING, Any

from ragforge.domain.lessons import (
    TOLD,
    Calibration,
    Curve,
    EntryType,
    Facets,
    Measured,
    Told,
    problem_text,
    solution_text,
)
from ragforge.learn.match import FAILURE, SAME, TASK, Lexicon, Side, of_lessons, of_problems, side

if TYPE_CHECKING:
    from ragforge.domain.tokens import Matrix

_RIDGE = 3.0
_STEPS = 60
_SURE = 0.5
"""Of what is merged, being right counts more than finding all: a person sees what is missing, not what is wrong."""
_STRANGERS = 6
"""Lessons of other groups that each is compared with."""
_FIT = "1"
"""Changes whenever the same data would give another curve."""
_JUDGED, _KNOWN = "judged.json", "known.json"

Embed = Callable[[Sequence[str]], "Matrix"]


@dataclass(frozen=True, slots=True)
class Judged:
    """A lesson of the set, and which others it is the same as."""

    group: str
    problem: str
    """Equal in lessons of one problem."""
    solution: str
    """Equal too where they are one lesson."""
    facets: Facets
    told: Told


@dataclass(frozen=True, slots=True)
class Asked:
    """What an agent meets or is about to do, and the group whose lessons it should be told."""

    group: str
    text: str


@dataclass(frozen=True, slots=True)
class JudgedSet:
    lessons: tuple[Judged, ...]
    failures: tuple[Asked, ...]
    tasks: tuple[Asked, ...]
    digest: str


@cache
def shipped() -> JudgedSet:
    """The set that comes with this package."""
    return judged(json.loads((files("ragforge.learn") / _JUDGED).read_text("utf-8")))


def known(fingerprint: str, embedder: str, made_at: datetime) -> Calibration | None:
    """The fit that comes with this package, of embedders that do, too."""
    found = json.loads((files("ragforge.learn") / _KNOWN).read_text("utf-8")).get(fingerprint)
    if found is None or found["data"] != data():
        return None
    return Calibration(
        embedder,
        fingerprint,
        **{name: Curve(tuple(each["weights"]), each["offset"]) for name, each in found["curves"].items()},
        measured={name: Measured(**each) for name, each in found["measured"].items()},
        made_at=made_at,
        data=found["data"],
    )


def judged(groups: Sequence[Mapping[str, Any]]) -> JudgedSet:
    """A set as it is written: groups of lessons of one problem, with others that only sound alike."""
    lessons: list[Judged] = []
    failures: list[Asked] = []
    tasks: list[Asked] = []
    for group in groups:
        id, kind = group["id"], EntryType(group["entry_type"])
        facets = Facets(kind, group["agent_type"], group["task_type"], group["technology"])

        def add(told: Mapping[str, str], problem: str, solution: str, facets: Facets = facets, id: str = id) -> None:
            words = Told(**{name: told[name] for name in TOLD if name in told})
            lessons.append(Judged(id, f"{id} {problem}", f"{id} {solution}", facets, words))

        for told in group["captures"]:
            add(told, "own", "own")
        for number, told in enumerate(group["alternatives"]):
            add(told, "own", f"other {told.get('solution_id', number)}")
        for number, told in enumerate(group["near_misses"]):
            add(told, f"near {number}", f"near {number}")
        failures += [
            Asked(id, "\n".join(filter(None, (each["failure_description"], each["error_message"]))))
            for each in group["failure_queries"]
        ]
        tasks += [Asked(id, task) for task in group["task_queries"]]
    digest = sha256(json.dumps(list(groups), sort_keys=True).encode()).hexdigest()[:16]
    return JudgedSet(tuple(lessons), tuple(failures), tuple(tasks), digest)


def calibrate(
    embedder: str, fingerprint: str, embed: Embed, embed_query: Embed, lexicon: Lexicon, made_at: datetime
) -> Calibration:
    """Fit all four curves for an embedder."""
    compared = Compared(shipped(), embed, embed_query, lexicon)
    curves: dict[str, Curve] = {}
    measured: dict[str, Measured] = {}
    for name, pairs, at, beta in (
        ("lesson", compared.lessons(), SAME, _SURE),
        ("problem", compared.problems(), SAME, 1.0),
        ("failure", compared.asked(shipped().failures), FAILURE, 1.0),
        ("task", compared.asked(shipped().tasks), TASK, 1.0),
    ):
        curves[name], measured[name] = fitted(*pairs, at=at, beta=beta)
    return Calibration(embedder, fingerprint, measured=measured, made_at=made_at, data=data(), **curves)


def data() -> str:
    """What a fit of today is made from; one that was made from something else is made anew."""
    return f"{shipped().digest} fit/{_FIT}"


Pairs = tuple[Sequence[Sequence[float]], Sequence[bool]]


class Compared:
    """The lessons of a set, embedded, and every pair that is worth judging by."""

    def __init__(self, which: JudgedSet, embed: Embed, embed_query: Embed, lexicon: Lexicon) -> None:
        self._set = which
        self._embed_query = embed_query
        self._lexicon = lexicon
        texts = [problem_text(each.facets, each.told) for each in which.lessons]
        both = embed([*texts, *(solution_text(each.told) for each in which.lessons)])
        self._problems, self._solutions = both[: len(texts)], both[len(texts) :]
        self._sides: list[Side] = [side(each.facets, each.told, lexicon) for each in which.lessons]

    def lessons(self) -> Pairs:
        """Whether two lessons are one."""
        alike, same = [], []
        for one, other in self._pairs():
            alike.append(self.alike(one, other))
            same.append(self._set.lessons[one].solution == self._set.lessons[other].solution)
        return alike, same

    def alike(self, one: int, other: int) -> tuple[float, ...]:
        problem = float(self._problems[one] @ self._problems[other])
        solution = float(self._solutions[one] @ self._solutions[other])
        return of_lessons(problem, solution, self._sides[one], self._sides[other])

    def problems(self) -> Pairs:
        """Whether they are of one problem."""
        alike, same = [], []
        for one, other in self._pairs():
            cosine = float(self._problems[one] @ self._problems[other])
            alike.append(of_problems(cosine, self._sides[one].problem, self._sides[other].problem))
            same.append(self._set.lessons[one].problem == self._set.lessons[other].problem)
        return alike, same

    def asked(self, which: Sequence[Asked]) -> Pairs:
        """Whether a lesson bears on what is asked. One that is only near does not, but is no mistake either."""
        vectors = self._embed_query([each.text for each in which])
        alike, same = [], []
        for asked, vector in zip(which, vectors, strict=True):
            words = self._lexicon(asked.text)
            for number, lesson in enumerate(self._set.lessons):
                is_its = lesson.problem == f"{asked.group} own"
                if is_its or lesson.group != asked.group:
                    cosine = float(vector @ self._problems[number])
                    alike.append(of_problems(cosine, words, self._sides[number].problem))
                    same.append(is_its)
        return alike, same

    def _pairs(self) -> list[tuple[int, int]]:
        """All of one group, and some strangers of the same kind for each lesson."""
        lessons = self._set.lessons
        numbers = range(len(lessons))
        pairs = [(i, j) for i, j in combinations(numbers, 2) if lessons[i].group == lessons[j].group]
        for i in numbers:
            strangers = [
                j
                for j in numbers
                if lessons[j].group != lessons[i].group and lessons[j].facets.entry_type == lessons[i].facets.entry_type
            ]
            step = max(1, len(strangers) // _STRANGERS)
            pairs += [(i, j) for j in strangers[i % step :: step]]
        return pairs


def fitted(
    alike: Sequence[Sequence[float]], same: Sequence[bool], *, at: float, beta: float = 1.0
) -> tuple[Curve, Measured]:
    """A logistic curve, shifted so that the value which tells best (by F-beta) is `at`."""
    import numpy as np

    x, y = np.array(alike, np.float64), np.array(same, np.float64)
    weight = np.where(y == 1, 0.5 / max(1.0, y.sum()), 0.5 / max(1.0, (1 - y).sum())) * len(y)
    mean, spread = x.mean(0), x.std(0) + 1e-9
    z = np.c_[(x - mean) / spread, np.ones(len(x))]
    ridge = np.r_[np.full(x.shape[1], _RIDGE), 1e-6]
    w = np.zeros(z.shape[1])
    for _ in range(_STEPS):  # Newton's method
        p = 1 / (1 + np.exp(-np.clip(z @ w, -60, 60)))
        slope = z.T @ (weight * (p - y)) + ridge * w
        bend = (z * (weight * p * (1 - p))[:, None]).T @ z + np.diag(ridge)
        w -= np.linalg.solve(bend, slope)
    weights = w[:-1] / spread
    offset = float(w[-1] - weights @ mean)
    bar, precision, recall = _telling(x @ weights + offset, y, beta)
    curve = Curve(tuple(round(float(each), 6) for each in weights), round(offset - bar + log(at / (1 - at)), 6))
    return curve, Measured(at, round(precision, 4), round(recall, 4), len(y))


def _telling(values: Any, same: Any, beta: float) -> tuple[float, float, float]:
    """Where alike and different are told apart best, between two values; precision and recall there."""
    import numpy as np

    order = np.argsort(-values, kind="stable")
    hits = np.cumsum(same[order])
    told = np.arange(1, len(values) + 1)
    score = (1 + beta**2) * hits / (told + beta**2 * same.sum())
    place = int(score.argmax())
    after = values[order[min(place + 1, len(values) - 1)]]
    return float((values[order[place]] + after) / 2), float(hits[place] / told[place]), float(hits[place] / same.sum())
