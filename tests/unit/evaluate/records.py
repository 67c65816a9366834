"""Runs for tests, made from scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from ragforge.domain.evaluation import FoundPassage, QuestionResult, Run, RunDetails, Wanted, settings_digest
from ragforge.evaluate.metrics import means, quantile

BEGAN = datetime(2030, 1, 1, 12, tzinfo=UTC)
SETTINGS = {"k": 10, "alpha": 0.7, "reranker": "", "embedder": "minilm"}


def result(question: str, metrics: Mapping[str, float], **facts: object) -> QuestionResult:
    values: dict[str, object] = {
        "text": f"What of {question}?",
        "wanted": (Wanted(f"{question}.md", 1.0, f"id-{question}"),),
        "found": (FoundPassage(f"chunk-{question}", f"id-{question}", 0.5, f"{question}.md"),),
        "milliseconds": 2.0,
        **facts,
    }
    return QuestionResult(question=question, metrics=metrics, **values)  # type: ignore[arg-type]


def run_of(results: Sequence[QuestionResult], *, id: str = "a1b2c3d4e5f60718", label: str = "", **facts: str) -> Run:
    scored = [each.metrics for each in results if each.metrics]
    return Run(
        id=id,
        project="p",
        questions=facts.get("questions", "set"),
        digest=facts.get("digest", "d"),
        label=label,
        settings=SETTINGS,
        settings_hash=settings_digest(SETTINGS),
        started_at=BEGAN,
        ended_at=BEGAN + timedelta(seconds=5),
        asked=len(results),
        scored=len(scored),
        missing=0,
        degraded=0,
        milliseconds=quantile([each.milliseconds for each in results], 0.5),
        metrics=means(scored),
    )


def details(results: Sequence[QuestionResult], **facts: str) -> RunDetails:
    return RunDetails(run_of(results, **facts), tuple(results))


def scored(scores: Sequence[float], metric: str = "ndcg@10", **facts: str) -> RunDetails:
    """A run whose questions have these scores."""
    return details([result(f"q{number}", {metric: score}) for number, score in enumerate(scores)], **facts)
