"""How good an answer is: what each metric counts, and for which questions it is there at all."""

from __future__ import annotations

import string
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragforge.domain.answers import Abstention, WhyNot
from ragforge.domain.evaluation import AnswerKind, AnswerResult, CitedPassage, Judgement, Question
from ragforge.domain.generation import Usage
from ragforge.domain.retrieval import Degraded
from ragforge.evaluate.answers import (
    LESS_IS_BETTER,
    SHARES,
    Verdict,
    cited_sentences,
    failed,
    is_hit,
    judged,
    measurable,
    overall,
    recorded,
    verdict,
    words_of,
)
from tests.unit.evaluate.records import answer_of, answered

KNOWN = Question("1", "How long?", {"a.md": 1.0}, answers=("60 days", "two months"))
NONE = Question("2", "Who may park?", answerable=False)
OPEN = Question("3", "What of it?")


def abstention(why: WhyNot = WhyNot.WEAK_EVIDENCE, **facts: object) -> Abstention:
    account = replace(answer_of("").account, **facts)  # type: ignore[arg-type]
    return Abstention(why, "Not enough.", "Add files.", (), account)


def shares(answer: AnswerResult) -> dict[str, float]:
    return {name: value for name, value in answer.metrics.items() if name in SHARES}


def test_what_the_author_says_decides_what_is_measured() -> None:
    said = answer_of("It takes 60 days. [1]", quoted=True)
    assert shares(recorded(KNOWN, said, 5)) == {
        "answered": 1, "answer_hit": 1, "citation_precision": 1, "false_abstentions": 0
    }  # fmt: skip
    assert shares(recorded(NONE, said, 5)) == {"citation_precision": 1, "abstention": 0, "false_answers": 1}
    assert shares(recorded(OPEN, said, 5)) == {"answered": 1, "citation_precision": 1}
    silent = abstention()
    assert shares(recorded(KNOWN, silent, 5)) == {"answered": 0, "answer_hit": 0, "false_abstentions": 1}
    assert shares(recorded(NONE, silent, 5)) == {"abstention": 1, "false_answers": 0}
    assert shares(recorded(OPEN, silent, 5)) == {"answered": 0}


def test_what_failed_decided_nothing() -> None:
    assert shares(failed(KNOWN, "no answer came", 5)) == {"answered": 0, "answer_hit": 0}
    assert shares(failed(NONE, "no answer came", 5)) == {}
    assert failed(NONE, "no answer came", 5).text == "no answer came"


@pytest.mark.parametrize(
    ("question", "names"),
    [
        (KNOWN, {"answered", "answer_hit", "citation_precision", "false_abstentions"}),
        (NONE, {"citation_precision", "abstention", "false_answers"}),
        (OPEN, {"answered", "citation_precision"}),
    ],
)
def test_a_set_is_known_to_have_what_its_questions_can_be_judged_by(question: Question, names: set[str]) -> None:
    assert set(measurable([question], with_judge=False)) == names
    assert set(measurable([question], with_judge=True)) == names | {"relevance", "clarity", "faithfulness"}


def test_tokens_cost_and_time() -> None:
    said = answer_of("So. [1]")
    spent = replace(said, account=replace(said.account, usage=Usage(100, 20, 2, Decimal("0.003"))))
    assert recorded(OPEN, spent, 7.5).metrics.items() >= {"tokens": 120, "cost": 0.003, "answer_ms": 7.5}.items()
    free = recorded(OPEN, said, 7.5).metrics
    assert (free["tokens"], free["cost"]) == (0, 0), "no model was asked"
    unpriced = replace(said, account=replace(said.account, usage=Usage(100, 20, 2, None)))
    assert "cost" not in recorded(OPEN, unpriced, 7.5).metrics, "nobody knows what it cost"


def test_a_run_has_a_cost_only_if_every_price_is_known() -> None:
    free, paid = answered({"tokens": 0.0, "cost": 0.0}), answered({"tokens": 5.0, "cost": 0.5})
    assert overall([free, paid]) == {"tokens": 2.5, "cost": 0.25, "answer_ms": 20}
    assert "cost" not in overall([free, paid, answered({"tokens": 5.0})])
    assert overall([]) == {}


# -- what is kept


def test_what_an_answer_is_kept_with() -> None:
    account = replace(answer_of("").account, degraded=(Degraded("model", "gone"), Degraded("model", "still gone")))
    said = replace(answer_of("So [1] and so [2]. And so. [1]", 1, quoted=True), account=account)
    kept = recorded(KNOWN, said, 5)
    assert (kept.kind, kept.text, kept.expected, kept.has_answer) == (AnswerKind.QUOTE, said.text, KNOWN.answers, True)
    assert kept.cited == (CitedPassage("c1", "d1", True, "d1.md"), CitedPassage("c2", "d2", True, "d2.md"))
    assert kept.degraded == ("model",)
    assert recorded(NONE, abstention(), 5).text == "Not enough. Add files."


def test_documents_whose_words_may_be_in_the_text() -> None:
    quoted, written = answer_of("So. [2]", quoted=True), answer_of("So. [2]")
    assert recorded(OPEN, quoted, 5).documents == ("d2",)
    assert set(recorded(OPEN, written, 5).documents) == {"d1", "d2", "d3"}, "a model may use what it does not cite"
    assert recorded(OPEN, abstention(), 5).documents == (), "our own words"
    assert recorded(OPEN, abstention(WhyNot.MODEL_SAYS), 5).documents == ("d1", "d2", "d3")


def test_a_long_answer_is_cut_aloud_and_judged_whole() -> None:
    said = answer_of("word " * 2_000 + "60 days")
    kept = recorded(KNOWN, said, 5)
    assert kept.text.endswith("(6,007 characters left out)") and len(kept.text) < 4_100
    assert kept.metrics["answer_hit"] == 1


# -- citations


@pytest.mark.parametrize(
    ("text", "unproved", "expected"),
    [
        ("One thing [1]. Another [2].", (), [True, True]),
        ("One thing. [1] Another. [2]", (2,), [True, False]),
        ("Both [1] of these [2] are so.", (1,), [True]),
        ("Both are so. [1][2]", (1, 2), [False]),
        ("- A line [1]\n- Another line [2]", (1,), [False, True]),
        ("It was Dr. Smith. [1] He left.", (), [True]),
        ("Nothing is cited.", (), []),
        ("[1]", (1,), [False]),
    ],
)
def test_each_cited_sentence_counts_once(text: str, unproved: tuple[int, ...], expected: list[bool]) -> None:
    said = answer_of(text, *unproved)
    assert cited_sentences(said.text, said.citations) == expected
    precision = recorded(OPEN, said, 5).metrics.get("citation_precision")
    assert precision == (sum(expected) / len(expected) if expected else None)


@given(st.text(alphabet=string.ascii_letters + " .!?\n[]1", max_size=60))
def test_any_text_has_as_many_cited_sentences_as_markers_at_most(text: str) -> None:
    said = answer_of(text)
    assert bool(said.citations) <= len(cited_sentences(text, said.citations)) <= len(said.citations)


# -- the expected answer


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Within **60 Days** of delivery [1].", "60 days"),
        ("The Rhine flows north.", "Rhine"),
        ("Rhine [3]", "the Rhine"),
        ("It costs 1,249.00 €", "1249.00 €"),
        ("Up to 40% less", "40 %"),
        ("It was Newton’s idea", "newton"),
        ("首都は東京です。", "東京"),
        ("수도는 서울이다", "서울"),
        ("Straße 5", "STRASSE 5"),
        ("in twenty-five days", "twenty five"),
        ("written in C++ mostly", "C++"),
        ("Grade A is best", "A"),
    ],
)
def test_expected_words_are_found_however_they_are_written(said: str, expected: str) -> None:
    assert is_hit(said, ["something else", expected])


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("It was founded in 1985.", "5"),
        ("See source [60]. Days pass.", "60"),
        ("the cats", "cat"),
        ("60 long days", "60 days"),
        ("", "x"),
        ("anything", "!?"),
        ("a b", "the"),
    ],
)
def test_other_words_are_no_hit(said: str, expected: str) -> None:
    assert not is_hit(said, [expected])


@given(st.text(max_size=40), st.text(max_size=40))
def test_a_text_holds_its_own_words(before: str, expected: str) -> None:
    expected = expected.replace("[", "(")
    assert is_hit(f"{before}\n{expected}\n", [expected]) == bool(words_of(expected))


# -- in a word


def test_verdicts_from_the_worst_to_the_best() -> None:
    fates = [
        answered({}, AnswerKind.FAILED),
        answered({}, has_answer=False),
        answered({}, AnswerKind.ABSTENTION),
        answered({"answer_hit": 0.0}),
        answered({"answer_hit": 1.0, "citation_precision": 0.5}),
        answered({}, AnswerKind.ABSTENTION, has_answer=None),
        answered({}, has_answer=None),
        answered({}, AnswerKind.ABSTENTION, has_answer=False),
        answered({"answer_hit": 1.0, "citation_precision": 1.0}, AnswerKind.ANSWER),
    ]
    assert [verdict(answer) for answer in fates] == list(Verdict)
    assert verdict(fates[2]).words == "false abstention"


def test_a_judgement_becomes_shares() -> None:
    kept = recorded(OPEN, answer_of("So. [1]", quoted=True), 5)
    told = judged(kept, Judgement(5, 3, 1, {"clarity": "vague"}), ["d1", "d3"])
    assert (told.metrics["relevance"], told.metrics["clarity"], told.metrics["faithfulness"]) == (1, 0.5, 0)
    assert told.documents == ("d1", "d3"), "the reasons may hold words of all that the judge read"
    assert list(told.metrics) == sorted(
        told.metrics, key=lambda name: [*SHARES, "tokens", "cost", "answer_ms"].index(name)
    )
    assert not LESS_IS_BETTER.intersection(("relevance", "answered", "abstention"))
