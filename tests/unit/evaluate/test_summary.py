"""What is said of a run: numbers with the right words, and why something could not be found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragforge.domain.evaluation import AnswerKind, AnswerResult, FoundPassage, Judgement, RunDetails, Wanted
from ragforge.evaluate.summary import (
    amount,
    answer_facts,
    answered_worst,
    asked_by,
    by_cut,
    counted,
    differing,
    doubts_of,
    facts,
    hidden,
    imperfect,
    scores_of,
    telling,
    unsearchable,
    wanted_by,
    why_not,
    why_unnamed,
)
from tests.unit.evaluate.records import answered, details, result, scored
from tests.unit.evaluate.test_corpus import document


@pytest.mark.parametrize(("number", "said"), [(0, "0 files"), (1, "1 file"), (2, "2 files"), (3410, "3,410 files")])
def test_numbers(number: int, said: str) -> None:
    assert counted(number, "file") == said


def one(*wanted: Wanted, found: str = "") -> RunDetails:
    passages = (FoundPassage("c", found, 0.5, f"{found}.md"),) if found else ()
    return details([result("q", {"mrr": 0.0}, wanted=wanted, found=passages)])


def test_only_wanted_documents_that_were_not_found_are_explained() -> None:
    on, off, found, unread, zero = (document(id, f"/{id}.md") for id in ("on", "off", "found", "unread", "zero"))
    run = one(*(Wanted(id, float(id != "zero"), id) for id in ("on", "off", "found", "unread", "zero")), found="found")
    documents = [
        on, replace(off, enabled=False), replace(found, enabled=False), replace(unread, chunks=0),
        replace(zero, enabled=False),
    ]  # fmt: skip
    cannot = unsearchable(run, documents)
    assert cannot == {"off": "switched off", "unread": "without text"}
    assert facts(run, cannot) == ["1 question", "1 wanted document switched off", "1 wanted document without text"]
    notes = [why_not(item, cannot) for item in run.results[0].wanted]
    assert notes == ["", "switched off", "", "without text", ""]


def test_what_a_reader_should_know() -> None:
    run = details([result("1", {"mrr": 1.0}), result("2", {}, degraded=("reranker",)), result("3", {})])
    run = replace(run, run=replace(run.run, missing=2))
    assert facts(run, {}) == [
        "3 questions",
        "2 without known documents not judged",
        "2 wanted documents not in the project",
        "1 searched without the reranker",
    ]


def test_what_is_not_cut_stands_under_the_deepest_cut() -> None:
    cuts, kinds = by_cut({"hit@10": 1.0, "hit@3": 0.5, "ndcg@3": 0.25, "mrr": 0.125})
    assert cuts == ["3", "10"]
    assert kinds == {"hit": ["0.5000", "1.0000"], "ndcg": ["0.2500", ""], "mrr": ["", "0.1250"]}


def test_the_worst_come_first_and_the_perfect_not_at_all() -> None:
    assert [r.metrics["ndcg@10"] for r in imperfect(scored([0.5, 1.0, 0.1]))] == [0.1, 0.5]
    wanted = (Wanted("low", 1.0, None), Wanted("not", 0.0, None), Wanted("high", 2.0, None))
    assert [item.name for item in wanted_by(result("q", {}, wanted=wanted))] == ["high", "low"]


def test_what_is_not_there_and_what_may_not_be_seen() -> None:
    assert why_not(Wanted("a.md", 1.0, None), {}) == "not in the project"
    assert why_not(Wanted("", 1.0, None), {}) == "not shown"
    assert why_unnamed(FoundPassage("c", "d", 0.5, "a.md")) == ""
    assert why_unnamed(FoundPassage("c", "d", 0.5)) == "removed since"
    assert why_unnamed(FoundPassage("", "", 0.0)) == "not shown"
    assert hidden(one(Wanted("a.md", 1.0, None), found="b")) == ""
    assert hidden(one(Wanted("", 1.0, None), found="b"))
    assert hidden(details([result("q", {}, found=(FoundPassage("", "", 0.0),))]))


def test_settings_that_differ() -> None:
    before, after = {"k": 10, "alpha": 0.5, "reranker": ""}, {"k": 10, "alpha": 0.0, "new_one": 0}
    assert differing(before, after) == [("alpha", "0.5", "0.0"), ("new one", "none", "0")]
    assert differing(before, before) == []


# -- answers


def answering(*answers: AnswerResult) -> RunDetails:
    return details([result(f"q{n}", {"mrr": 1.0}, answer=answer) for n, answer in enumerate(answers)])


def test_what_a_reader_of_answers_should_know() -> None:
    judgement = Judgement(4, 5, 2, {"relevance": "short", "faithfulness": "made up"}, unseen=2, tokens=300, cost=0.002)
    run = answering(
        answered({"tokens": 1_000.0, "cost": 0.01}, AnswerKind.ANSWER, judgement=judgement),
        answered({"tokens": 500.0, "cost": 0.005}, AnswerKind.ANSWER, has_answer=False, unjudged="it rests"),
        answered({"tokens": 0.0, "cost": 0.0, "answer_ms": 5.0}, degraded=("model",)),
        answered({"answer_ms": 100.0}, AnswerKind.ABSTENTION),
        answered({"answer_ms": 100.0}, AnswerKind.FAILED),
    )
    assert answer_facts(run) == [
        "2 answers",
        "1 quote",
        "1 abstention",
        "1 false answer",
        "1 false abstention",
        "1 failed",
        "1 answered without the model",
        "half within 20 ms",
        "1,500 tokens ($0.0150)",
        "for the judge 300 tokens ($0.0020)",
        "1 judged without all passages",
        "1 not judged (it rests)",
    ]
    assert answer_facts(scored([0.5])) == []
    assert answer_facts(answering(answered({"tokens": 5.0})))[-1] == "5 tokens (price unknown)"


def test_each_metric_tells_of_how_many_questions() -> None:
    run = answering(answered({"answer_hit": 1.0, "tokens": 0.0}), answered({"tokens": 0.0}))
    assert asked_by(run) == {"answer_hit": 1, "tokens": 2, "answer_ms": 2}
    assert list(telling(run.run)) == ["answer_hit", "answer_ms"], "nothing was spent"


def test_the_worst_answers_come_first_and_then_what_the_judge_likes_least() -> None:
    fine, poor = (answered({"answer_hit": 1.0, "clarity": clarity}) for clarity in (1.0, 0.2))
    missed = answered({"answer_hit": 0.0, "clarity": 1.0})
    assert [answer for _, answer in answered_worst(answering(fine, poor, missed))] == [missed, poor, fine]


def test_what_the_judge_said() -> None:
    told = answered({}, judgement=Judgement(4, 5, 2, {"relevance": "short", "clarity": "clear", "faithfulness": ""}))
    assert scores_of(told) == "relevance 4, clarity 5, faithfulness 2"
    assert doubts_of(told) == ["relevance: short"], "the best score needs no reason"
    assert (scores_of(answered({})), doubts_of(answered({}))) == ("", [])


@pytest.mark.parametrize(
    ("metric", "value", "said", "changed"),
    [
        ("answered", 0.25, "0.2500", "+0.2500"),
        ("tokens", 1_204.0, "1,204", "+1,204"),
        ("cost", 0.00125, "$0.001250", "+$0.001250"),
        ("cost", -0.00125, "-$0.001250", "-$0.001250"),
        ("answer_ms", 1_534.25, "1,534.2", "+1,534.2"),
    ],
)
def test_amounts(metric: str, value: float, said: str, changed: str) -> None:
    assert (amount(metric, value), amount(metric, value, signed=True)) == (said, changed)


def test_an_answer_that_may_not_be_seen_is_told() -> None:
    assert hidden(answering(answered({}))) == ""
    assert hidden(answering(answered({}, text="")))
