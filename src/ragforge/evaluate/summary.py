"""What the terminal and the page both say of a run, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ragforge.domain.evaluation import (
    AnswerResult,
    CitedPassage,
    FoundPassage,
    QuestionResult,
    Run,
    RunDetails,
    Wanted,
)
from ragforge.domain.library import Document
from ragforge.evaluate.answers import AMOUNTS, JUDGED, Verdict, verdict
from ragforge.evaluate.metrics import main_metric, quantile

HIDDEN = "some documents are not shown: they are above your clearance, or were removed; the metrics count them"

Unsearchable = Mapping[str, str]
"""Why a document cannot be found, by its id."""


def counted(number: int, noun: str) -> str:
    """`1 question`, `3,410 questions`."""
    return f"{number:,} {noun if number == 1 else noun + 's'}"


def unsearchable(details: RunDetails, documents: Iterable[Document]) -> Unsearchable:
    """Wanted documents that the run did not find, and that no search finds as they are now."""
    missed = {
        item.found_as
        for result in details.results
        for item in result.wanted
        if item.grade > 0 and item.found_as not in {passage.document for passage in result.found}
    }
    why = {
        each.id: "switched off" if not each.enabled else "without text" if not each.chunks else "" for each in documents
    }
    return {id: reason for id, reason in why.items() if reason and id in missed}


def facts(details: RunDetails, cannot: Unsearchable) -> list[str]:
    """How many questions there were, and what a reader of the metrics should know."""
    run = details.run
    parts = [counted(run.asked, "question")]
    if run.asked != run.scored and run.scored:
        parts.append(f"{run.asked - run.scored:,} without known documents not judged")
    if run.missing:
        parts.append(f"{counted(run.missing, 'wanted document')} not in the project")
    parts += [f"{counted(number, 'wanted document')} {why}" for why, number in Counter(cannot.values()).items()]
    without = Counter(part for result in details.results for part in result.degraded)
    parts += [f"{number:,} searched without the {part}" for part, number in without.items()]
    return parts


def by_cut(metrics: Mapping[str, float]) -> tuple[list[str], dict[str, list[str]]]:
    """The cuts, and for each kind of metric its values at them; one without a cut stands under the deepest."""
    cuts = sorted({name.partition("@")[2] for name in metrics} - {""}, key=int)
    kinds: dict[str, dict[str, float]] = {}
    for name, value in metrics.items():
        kind, _, cut = name.partition("@")
        kinds.setdefault(kind, {})[cut or cuts[-1]] = value
    return cuts, {kind: [f"{at[cut]:.4f}" if cut in at else "" for cut in cuts] for kind, at in kinds.items()}


def imperfect(details: RunDetails) -> list[QuestionResult]:
    """Judged questions that could have gone better by the main metric, the worst first."""
    main = main_metric(details.run.metrics)
    judged = [result for result in details.results if result.metrics and result.metrics[main] < 1]
    return sorted(judged, key=lambda result: result.metrics[main])


def wanted_by(result: QuestionResult) -> list[Wanted]:
    """What is relevant to a question, the best first."""
    return sorted((item for item in result.wanted if item.grade > 0), key=lambda item: -item.grade)


def why_not(wanted: Wanted, cannot: Unsearchable) -> str:
    """Why a wanted document could not be found; empty if it could."""
    if wanted.found_as is None:
        return "not in the project" if wanted.name else "not shown"
    return cannot.get(wanted.found_as, "")


def why_unnamed(passage: FoundPassage | CitedPassage) -> str:
    """Why a passage has no name; empty if it has one."""
    return "" if passage.name else "removed since" if passage.document else "not shown"


def hidden(details: RunDetails) -> str:
    """A sentence if the asker may not see all that was wanted or found."""
    blank = any(
        any(not item.name for item in result.wanted)
        or any(not passage.document for passage in result.found)
        or (result.answer is not None and not result.answer.text)
        for result in details.results
    )
    return HIDDEN if blank else ""


# -- answers


def answer_facts(details: RunDetails) -> list[str]:
    """What became of the questions, and what a reader of the answers' metrics should know; empty without answers."""
    answers = [result.answer for result in details.results if result.answer]
    if not answers:
        return []
    fates = Counter(verdict(answer) for answer in answers)
    kinds = Counter(answer.kind.value for answer in answers)
    parts = [counted(kinds[kind], kind) for kind in ("answer", "quote", "abstention") if kinds[kind]]
    parts += [
        counted(fates[fate], fate.words) for fate in (Verdict.FALSE_ANSWER, Verdict.FALSE_ABSTENTION) if fates[fate]
    ]
    parts += [f"{fates[Verdict.FAILED]:,} failed"] if fates[Verdict.FAILED] else []
    without = Counter(part for answer in answers for part in answer.degraded)
    parts += [f"{number:,} answered without the {part}" for part, number in without.items()]
    parts.append(f"half within {quantile([answer.metrics['answer_ms'] for answer in answers], 0.5):,.0f} ms")
    parts += _spent("", (answer.metrics for answer in answers))
    judged = [answer.judgement for answer in answers if answer.judgement]
    unjudged = [answer.unjudged for answer in answers if answer.unjudged]
    if judged or unjudged:
        parts += _spent(
            "for the judge ",
            ({"tokens": each.tokens} | ({} if each.cost is None else {"cost": each.cost}) for each in judged),
        )
        short = sum(bool(each.unseen) for each in judged)
        parts += [f"{short:,} judged without all passages"] if short else []
        parts += [f"{len(unjudged):,} not judged ({unjudged[0]})"] if unjudged else []
    return parts


def _spent(what: str, amounts: Iterable[Mapping[str, float]]) -> list[str]:
    """`1,204 tokens, $0.0021`; nothing where no model was asked."""
    each = [amount for amount in amounts if amount.get("tokens")]
    if not each:
        return []
    tokens = f"{what}{sum(amount['tokens'] for amount in each):,.0f} tokens"
    known = all("cost" in amount for amount in each)
    return [f"{tokens} (${sum(amount['cost'] for amount in each):.4f})" if known else f"{tokens} (price unknown)"]


def amount(metric: str, value: float, *, signed: bool = False) -> str:
    """A metric of answers as people read it."""
    sign = "+" if signed else ""
    if metric == "cost":
        shown = f"${abs(value):.6f}"
        return ("-" if value < 0 else sign) + shown
    if metric == "tokens":
        return f"{value:{sign},.0f}"
    return f"{value:{sign},.1f}" if metric == "answer_ms" else f"{value:{sign}.4f}"


def telling(run: Run) -> dict[str, float]:
    """The metrics of its answers; tokens and money only if some were spent."""
    return {name: value for name, value in run.answers.items() if value or name not in AMOUNTS}


def asked_by(details: RunDetails) -> dict[str, int]:
    """How many questions each metric of the answers is the mean of."""
    return Counter(name for result in details.results if result.answer for name in result.answer.metrics)


def answered_worst(details: RunDetails) -> list[tuple[QuestionResult, AnswerResult]]:
    """Questions with their answers, the worst first; among equals, those that the judge likes least."""
    known = [(result, result.answer) for result in details.results if result.answer]
    return sorted(known, key=lambda each: (verdict(each[1]), _liking(each[1])))


def _liking(answer: AnswerResult) -> float:
    return sum(answer.metrics.get(name, 1.0) for name in JUDGED)


def scores_of(answer: AnswerResult) -> str:
    """`relevance 4, clarity 5, faithfulness 2` of 5; empty if no judge said so."""
    judgement = answer.judgement
    return ", ".join(f"{name} {getattr(judgement, name)}" for name in JUDGED) if judgement else ""


def doubts_of(answer: AnswerResult) -> list[str]:
    """The judge's reasons for scores below the best."""
    judgement = answer.judgement
    if judgement is None:
        return []
    below = [name for name in JUDGED if getattr(judgement, name) < 5 and judgement.reasons.get(name)]
    return [f"{name}: {judgement.reasons[name]}" for name in below]


# -- settings


def differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Settings that two runs do not share: name, value before, value after."""
    each = ((name, shown(before.get(name)), shown(after.get(name))) for name in dict.fromkeys((*before, *after)))
    return [(name.replace("_", " "), old, new) for name, old, new in each if old != new]


def shown(value: object) -> str:
    """A setting as people read it."""
    return "none" if value in ("", None) else str(value)
