"""What the terminal and the page both say of a run, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ragforge.domain.evaluation import FoundPassage, QuestionResult, RunDetails, Wanted
from ragforge.domain.library import Document
from ragforge.evaluate.metrics import main_metric

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
    if run.asked != run.scored:
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


def why_unnamed(passage: FoundPassage) -> str:
    """Why a passage has no name; empty if it has one."""
    return "" if passage.name else "removed since" if passage.document else "not shown"


def hidden(details: RunDetails) -> str:
    """A sentence if the asker may not see all that was wanted or found."""
    blank = any(not item.name for result in details.results for item in result.wanted) or any(
        not passage.document for result in details.results for passage in result.found
    )
    return HIDDEN if blank else ""


def differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Settings that two runs do not share: name, value before, value after."""
    each = ((name, shown(before.get(name)), shown(after.get(name))) for name in dict.fromkeys((*before, *after)))
    return [(name.replace("_", " "), old, new) for name, old, new in each if old != new]


def shown(value: object) -> str:
    """A setting as people read it."""
    return "none" if value in ("", None) else str(value)
