"""`--fail-under METRIC=VALUE`: the least that a metric of a run must reach."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ragforge.domain.evaluation import Question, Run
from ragforge.errors import UserError
from ragforge.evaluate.answers import AMOUNTS, JUDGED, OPPOSITES, SHARES, measurable
from ragforge.evaluate.metrics import measured
from ragforge.interfaces.cli.output import paint, plain, print_data


@dataclass(frozen=True, slots=True)
class Gate:
    """The least a metric must reach."""

    metric: str
    least: float

    @classmethod
    def parse(cls, text: str) -> Gate:
        metric, _, value = text.partition("=")
        try:
            least = float(value)
        except ValueError:
            least = math.nan
        metric = metric.strip().lower().replace("-", "_")
        if math.isnan(least):
            raise UserError(f"--fail-under {plain(text)} has no number", hint="write --fail-under ndcg@10=0.7")
        if not 0 <= least <= 1:
            part = least / 100 if 1 < least <= 100 else 0.7
            hint = f"write --fail-under {plain(metric)}={part:g}"
            raise UserError(f"--fail-under {plain(text)}: metrics lie between 0 and 1", hint=hint)
        return cls(metric, least)

    def result(self, run: Run) -> dict[str, Any]:
        """Whether it is met. A metric that no question turned out to have is not."""
        value = {**run.metrics, **run.answers}.get(self.metric)
        met = value is not None and value >= self.least
        return {"metric": self.metric, "least": self.least, "value": value, "met": met}


def require_metrics(
    gates: Sequence[Gate], k: int, name: str, questions: Sequence[Question], *, answers: bool, judge: bool
) -> None:
    """Gates are of metrics that such a run has, and that are better the higher they are."""
    found = list(measured([], {}, k))
    shares = [share for share in measurable(questions, with_judge=judge) if share not in OPPOSITES] if answers else []
    known = [*(found if any(question.wanted for question in questions) else []), *shares]
    for gate in gates:
        if gate.metric in known:
            continue
        if reason := _refusal(gate, name, answers=answers, judge=judge):
            raise UserError(reason[0], hint=reason[1])
        kind, _, cut = gate.metric.partition("@")
        is_cut = f"{kind}@1" in known and re.fullmatch("[1-9][0-9]*", cut)
        other = f"--k {cut} measures {gate.metric}; " if is_cut else ""
        raise UserError(
            f"a run with k {k} has no metric {plain(gate.metric)!r}", hint=f"{other}use one of: {', '.join(known)}"
        )


def _refusal(gate: Gate, name: str, *, answers: bool, judge: bool) -> tuple[str, str] | None:
    """Why a metric of answers is not there, and what to do; None if it is none."""
    metric = gate.metric
    if opposite := OPPOSITES.get(metric):
        return f"{metric} is better the lower it is", f"write --fail-under {opposite}={1 - gate.least:g}"
    if metric in AMOUNTS:
        return f"{metric} is no share, and better the lower it is", "ragforge eval compare tells how it changed"
    if metric not in SHARES:
        return None
    if not answers:
        return f"{metric} is a metric of answers", "add --answers"
    if metric in JUDGED and not judge:
        return f"{metric} is the opinion of a judge", "add --judge"
    wanted = {"abstention": '"answerable": false', "answer_hit": '"answers"'}.get(metric, '"documents"')
    return f"no question of {plain(name)} can be judged by {metric}", f"give it questions with {wanted}"


def print_gate(result: dict[str, Any]) -> None:
    mark = paint("✓", "green") if result["met"] else paint("✗", "red")
    if result["value"] is None:
        print_data(f"{mark} {result['metric']} could not be measured on any question")
        return
    relation = "reaches" if result["met"] else "is under"
    print_data(f"{mark} {result['metric']} {result['value']:.4f} {relation} {result['least']:g}")
