"""The best candidates in a better order: by a model that reads question and text together, or by meaning alone.

Only the first few are judged; the rest keep their places after them. Scores stay between 0 and 1 and fall along the
list, so that later steps need not know who gave them; what the reranker itself said is in `Candidate.rerank`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TypeAlias

from ragforge.domain.cancel import Cancel
from ragforge.domain.documents import breadcrumb
from ragforge.domain.retrieval import Candidate, Decision, Degraded, Stage, StoredPassage
from ragforge.errors import ProviderError, RagforgeError
from ragforge.ports import Reranker

Reranked: TypeAlias = tuple[list[Candidate], list[Decision], Degraded | None]


def rerank(
    candidates: Sequence[Candidate],
    passages: Mapping[int, StoredPassage],
    reranker: Reranker,
    question: str,
    first: int,
    cancel: Cancel,
) -> Reranked:
    """The first candidates as the reranker would have them. If it fails, all stay as they are, and it is said."""
    judged, rest = candidates[: max(0, first)], candidates[max(0, first) :]
    if not judged:
        return list(candidates), _unjudged(rest), None
    try:
        scores = reranker.score(question, [_readable(passages[each.key]) for each in judged], cancel)
        if len(scores) != len(judged) or not all(map(isfinite, scores)):
            raise ProviderError(f"{reranker.name} did not send one number for each text")
    except RagforgeError as problem:
        return list(candidates), _unjudged(candidates), Degraded("reranker", problem.message, problem.hint)
    return _reordered(judged, rest, scores, reranker.name)


def by_cosine(candidates: Sequence[Candidate], first: int) -> Reranked:
    """The first candidates by the vectors' score alone; those without one come last of them."""
    judged, rest = candidates[: max(0, first)], candidates[max(0, first) :]
    if any(each.vector is not None for each in judged):
        return _reordered(judged, rest, [each.vector for each in judged], "cosine")
    missing = Degraded("reranker", "no candidate has a cosine to be ranked by") if judged else None
    return list(candidates), _unjudged(candidates), missing


def _readable(passage: StoredPassage) -> str:
    """A leaf as it was embedded: without its headings, a text may not say what it is about."""
    return f"{breadcrumb(passage.name, passage.locator.path)}\n{passage.header}{passage.text}"


def _reordered(
    judged: Sequence[Candidate], rest: Sequence[Candidate], scores: Sequence[float | None], name: str
) -> Reranked:
    known = [score for score in scores if score is not None]
    low, high = min(known), max(known)
    floor = rest[0].score if rest else 0.0

    def rescored(candidate: Candidate, score: float | None) -> Candidate:
        share = 0.0 if score is None else (score - low) / (high - low) if high > low else 1.0
        return Candidate(
            key=candidate.key,
            score=floor + (1 - floor) * share,
            keyword=candidate.keyword,
            vector=candidate.vector,
            keyword_rank=candidate.keyword_rank,
            vector_rank=candidate.vector_rank,
            rerank=score,
        )

    places = sorted(range(len(judged)), key=lambda place: (scores[place] is None, -(scores[place] or 0.0), place))
    ordered = [rescored(judged[place], scores[place]) for place in places]
    decisions = [
        Decision(Stage.RERANK, each.key, True, f"{name} puts it {_moved(now, before)}", each.score)
        for now, (before, each) in enumerate(zip(places, ordered, strict=True))
    ]
    return [*ordered, *rest], decisions + _unjudged(rest), None


def _moved(now: int, before: int) -> str:
    if now == before:
        return f"at {now + 1}, as before"
    return f"at {now + 1}, {'up' if now < before else 'down'} from {before + 1}"


def _unjudged(candidates: Sequence[Candidate]) -> list[Decision]:
    return [Decision(Stage.RERANK, each.key, True, "not reranked", each.score) for each in candidates]
