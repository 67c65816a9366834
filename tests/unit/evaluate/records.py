"""Runs and answers for tests, made from scores and texts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from ragforge.domain.answers import Account, Answer, Citation
from ragforge.domain.documents import Locator
from ragforge.domain.evaluation import (
    AnswerKind,
    AnswerResult,
    FoundPassage,
    QuestionResult,
    Run,
    RunDetails,
    Wanted,
    settings_digest,
)
from ragforge.domain.prompts import Shape, Source
from ragforge.evaluate.answers import overall
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
        answers=overall([each.answer for each in results if each.answer]),
    )


def details(results: Sequence[QuestionResult], **facts: str) -> RunDetails:
    return RunDetails(run_of(results, **facts), tuple(results))


def scored(scores: Sequence[float], metric: str = "ndcg@10", **facts: str) -> RunDetails:
    """A run whose questions have these scores."""
    return details([result(f"q{number}", {metric: score}) for number, score in enumerate(scores)], **facts)


# -- answers


def source(number: int, text: str = "A passage.", document: str = "") -> Source:
    document = document or f"d{number}"
    return Source(number, f"c{number}", (f"c{number}",), document, f"{document}.md", Locator(), "", 0.5, text, 3)


def citation(match: re.Match[str], proved: bool) -> Citation:
    number = int(match[1])
    name = f"d{number}"
    return Citation(number, f"c{number}", name, f"{name}.md", Locator(), "", match.start(), match.end(), proved)


def answer_of(text: str, *unproved: int, sources: int = 3, **facts: object) -> Answer:
    """An answer whose markers are proved, but for those of these numbers, counted from the first."""
    cited = [
        citation(match, place not in unproved) for place, match in enumerate(re.finditer(r"\[(\d+)\]", text), start=1)
    ]
    account = Account("What?", Shape("What?", "lookup"), tuple(source(number) for number in range(1, sources + 1)))
    return Answer(text, tuple(cited), account, **facts)  # type: ignore[arg-type]


def answered(metrics: Mapping[str, float], kind: AnswerKind = AnswerKind.QUOTE, **facts: object) -> AnswerResult:
    """An answer with these metrics."""
    values: dict[str, object] = {"text": "It is so. [1]", "has_answer": True, **facts}
    return AnswerResult(kind=kind, metrics={"answer_ms": 20.0, **metrics}, **values)  # type: ignore[arg-type]
