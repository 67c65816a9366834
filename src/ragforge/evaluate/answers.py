"""How good an answer is: pure functions of what came back and of what the question's author says.

Shares lie between 0 and 1; tokens, cost and time are what they are. A question has only the metrics that it can be
judged by: an expected answer, a mark that there is none, a citation.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum

from ragforge.domain.answers import Answer, Citation, Result, read_for
from ragforge.domain.evaluation import AnswerKind, AnswerResult, CitedPassage, Judgement, Question
from ragforge.domain.generation import Usage
from ragforge.domain.sentences import sentence_starts
from ragforge.evaluate.metrics import means_of_some

JUDGED = ("relevance", "clarity", "faithfulness")
SHARES = (
    "answered",
    "answer_hit",
    "citation_precision",
    "abstention",
    "false_answers",
    "false_abstentions",
    *JUDGED,
)
AMOUNTS = ("tokens", "cost", "answer_ms")
OPPOSITES = {"false_answers": "abstention", "false_abstentions": "answered"}
"""Shares that are better the lower they are, and the one that grows as they shrink."""
LESS_IS_BETTER = frozenset((*OPPOSITES, *AMOUNTS))
_LONGEST = 4_000
"""Characters of an answer that are kept; more is counted."""
_BEST_SCORE = 5


# -- what came back, as a run keeps it


def recorded(question: Question, result: Result, milliseconds: float) -> AnswerResult:
    """An answer or an abstention, with its metrics."""
    account = result.account
    cited: tuple[Citation, ...] = ()
    if isinstance(result, Answer):
        kind, cited = AnswerKind.QUOTE if result.quoted else AnswerKind.ANSWER, result.citations
    else:
        kind = AnswerKind.ABSTENTION
    return AnswerResult(
        kind=kind,
        text=_bounded(result.text),
        has_answer=question.has_answer,
        expected=question.answers,
        cited=_passages(cited),
        documents=read_for(result),
        metrics=_metrics(question, kind, result.text, cited) | _amounts(account.usage, milliseconds),
        degraded=tuple(dict.fromkeys(part.part for part in account.degraded)),
    )


def failed(question: Question, why: str, milliseconds: float) -> AnswerResult:
    """A question that came to nothing."""
    kind = AnswerKind.FAILED
    metrics = _metrics(question, kind, "", ()) | {"answer_ms": milliseconds}
    return AnswerResult(kind, _bounded(why), question.has_answer, question.answers, metrics=metrics)


def judged(answer: AnswerResult, judgement: Judgement, documents: Iterable[str]) -> AnswerResult:
    """The answer with what the judge thinks of it; his reasons may hold words of all documents that he saw."""
    scores = {name: (getattr(judgement, name) - 1) / (_BEST_SCORE - 1) for name in JUDGED}
    return replace(
        answer,
        judgement=judgement,
        metrics=in_order({**answer.metrics, **scores}),
        documents=tuple(dict.fromkeys((*answer.documents, *documents))),
    )


def _passages(cited: Sequence[Citation]) -> tuple[CitedPassage, ...]:
    """Each passage once; proved if it bears out any sentence that cites it."""
    proved: dict[tuple[str, str, str], bool] = {}
    for citation in cited:
        key = (citation.chunk, citation.document, citation.name)
        proved[key] = proved.get(key, False) or citation.proved
    return tuple(CitedPassage(chunk, document, held, name) for (chunk, document, name), held in proved.items())


def _bounded(text: str) -> str:
    left_out = len(text) - _LONGEST
    return f"{text[:_LONGEST]} … ({left_out:,} characters left out)" if left_out > 0 else text


# -- metrics


def in_order(metrics: Mapping[str, float]) -> dict[str, float]:
    """The same metrics, shares before amounts."""
    return {name: metrics[name] for name in (*SHARES, *AMOUNTS) if name in metrics}


def overall(answers: Sequence[AnswerResult]) -> dict[str, float]:
    """Each metric as the mean over the questions that have it; of the cost only if every price is known."""
    metrics = means_of_some([answer.metrics for answer in answers])
    if any(answer.metrics.get("tokens") and "cost" not in answer.metrics for answer in answers):
        metrics.pop("cost", None)
    return in_order(metrics)


def measurable(questions: Sequence[Question], *, with_judge: bool) -> list[str]:
    """The shares that a run over these questions can have."""
    told = {question.has_answer for question in questions}
    expects = any(question.answers for question in questions)
    known = {
        "answered": told != {False},
        "answer_hit": expects,
        "abstention": False in told,
        "false_answers": False in told,
        "false_abstentions": True in told,
        "citation_precision": True,
        **dict.fromkeys(JUDGED, with_judge),
    }
    return [name for name in SHARES if known[name]]


def _metrics(question: Question, kind: AnswerKind, text: str, cited: Sequence[Citation]) -> dict[str, float]:
    is_answered = kind in (AnswerKind.ANSWER, AnswerKind.QUOTE)
    metrics: dict[str, float] = {}
    if question.has_answer is not False:
        metrics["answered"] = float(is_answered)
    if question.answers:
        metrics["answer_hit"] = float(is_answered and is_hit(text, question.answers))
    if cited:
        sentences = cited_sentences(text, cited)
        metrics["citation_precision"] = sum(sentences) / len(sentences)
    if kind is not AnswerKind.FAILED:  # nothing came back, so nothing was decided
        if question.has_answer is False:
            metrics |= {"abstention": float(not is_answered), "false_answers": float(is_answered)}
        elif question.has_answer:
            metrics["false_abstentions"] = float(not is_answered)
    return metrics


def _amounts(usage: Usage, milliseconds: float) -> dict[str, float]:
    """What it took. Without a model nothing was spent; the cost of one without a price is not known."""
    amounts: dict[str, float] = {"tokens": usage.input_tokens + usage.output_tokens}
    if usage.cost is not None or not usage.calls:
        amounts["cost"] = float(usage.cost or 0)
    return {**amounts, "answer_ms": milliseconds}


def cited_sentences(text: str, cited: Sequence[Citation]) -> list[bool]:
    """Of each sentence that cites something, whether one of its passages bears it out."""
    bare = list(text)
    for citation in cited:  # `so. [1]` as `so.    `: what follows a sentence belongs to it
        bare[citation.start : citation.end] = " " * (citation.end - citation.start)
    shown = "".join(bare)
    lines = (match.end() for match in re.finditer("\n", shown))
    starts = sorted({0, *lines, *sentence_starts(shown, 0, len(shown))})
    proved: dict[int, bool] = {}
    for citation in cited:
        sentence = bisect_right(starts, citation.start)
        proved[sentence] = proved.get(sentence, False) or citation.proved
    return list(proved.values())


# -- the expected answer

_MARKER = re.compile(r"\[\d+\]")
_THOUSANDS = re.compile(r"(?<=\d)[,.'’\u00a0\u202f](?=\d{3}(?!\d))")
_APART = re.compile(
    "([%€$£¥°\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff])"
)
"""Signs that count, and letters of scripts that write no spaces between words, or tie endings to them."""
_SIGNS = re.compile(r"[^\w%€$£¥°+]+|_")
_ARTICLES = frozenset(("a", "an", "the"))


def is_hit(text: str, expected: Iterable[str]) -> bool:
    """Whether the text holds one of the expected answers, word by word; case, signs and articles do not count."""
    said = words_of(_MARKER.sub(" ", text))
    sought = [words_of(each) for each in expected]
    return any(_holds(said, words) or _holds(_without_articles(said), _without_articles(words)) for words in sought)


def words_of(text: str) -> list[str]:
    """The words of a text as they are compared."""
    plain = _THOUSANDS.sub("", unicodedata.normalize("NFKC", text).casefold())
    return _SIGNS.sub(" ", _APART.sub(r" \1 ", plain)).split()


def _holds(said: Sequence[str], words: Sequence[str]) -> bool:
    return bool(words) and f" {' '.join(words)} " in f" {' '.join(said)} "


def _without_articles(words: Sequence[str]) -> list[str]:
    return [word for word in words if word not in _ARTICLES]


# -- in a word


class Verdict(IntEnum):
    """What became of a question, the worst first."""

    FAILED = 0
    FALSE_ANSWER = 1
    FALSE_ABSTENTION = 2
    MISSED = 3
    """An answer without the expected words."""
    UNPROVED = 4
    """No sentence of it, or not every one, is borne out by what it cites."""
    ABSTAINED = 5
    ANSWERED = 6
    RIGHT_ABSTENTION = 7
    HIT = 8

    @property
    def words(self) -> str:
        return self.name.lower().replace("_", " ")


def verdict(answer: AnswerResult) -> Verdict:
    """By what the question's author says, as far as that goes."""
    if answer.kind is AnswerKind.FAILED:
        return Verdict.FAILED
    if not answer.is_answered:
        return {True: Verdict.FALSE_ABSTENTION, False: Verdict.RIGHT_ABSTENTION, None: Verdict.ABSTAINED}[
            answer.has_answer
        ]
    if answer.has_answer is False:
        return Verdict.FALSE_ANSWER
    if answer.metrics.get("answer_hit") == 0:
        return Verdict.MISSED
    if answer.metrics.get("citation_precision", 1) < 1:
        return Verdict.UNPROVED
    return Verdict.HIT if "answer_hit" in answer.metrics else Verdict.ANSWERED
