"""The page: whole, self-contained, and safe whatever the texts hold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.domain.evaluation import AnswerKind, CitedPassage, FoundPassage, Judgement, RunDetails, Wanted
from ragforge.evaluate.compare import compare
from ragforge.evaluate.metrics import measured
from ragforge.evaluate.report import page
from tests.unit.evaluate.records import answered, details, result, scored

EVIL = "<script>alert(1)</script><img src=x onerror='alert(2)'>\"'&{body}\u202e"
VOID = {"meta", "br", "img", "link"}


class Outline(HTMLParser):
    """What a browser would see: tags, attributes, texts; it minds that every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)


def evil_run() -> RunDetails:
    results = [
        result(
            "q1",
            {"ndcg@10": 0.2, "mrr": 0.5},
            text=EVIL,
            wanted=(Wanted(EVIL, 2.0, None), Wanted("here.md", 1.0, "d1"), Wanted("zero.md", 0.0, "d3")),
            found=(FoundPassage("c1", "d1", 0.9, EVIL), FoundPassage("c2", "d2", 0.1, "")),
            degraded=("reranker",),
        ),
        result("q2", {"ndcg@10": 1.0, "mrr": 1.0}),
        result("q3", {}),
    ]
    run = details(results, label=EVIL, questions=EVIL)
    return replace(run, run=replace(run.run, settings={"k": 10, EVIL: EVIL}, missing=1, degraded=1))


def test_texts_stay_texts() -> None:
    before = evil_run()
    after = replace(
        before, results=(replace(before.results[0], metrics={"ndcg@10": 0.9, "mrr": 0.1}), *before.results[1:])
    )
    for text in (page(before), page(after, compare(before, after))):
        outline = Outline(text)
        assert not {"script", "img", "link", "iframe", "a"} & set(outline.tags)
        assert not [name for name, _ in outline.attributes if name.startswith("on") or name in ("src", "href")]
        assert "<script>alert(1)</script>" in outline.text, "it is shown as it was written"


def test_nothing_comes_from_elsewhere() -> None:
    text = page(evil_run())
    assert re.findall(r"https?:|//[a-z]|@import|url\(", text.replace("<!doctype", "")) == []
    assert "default-src 'none'" in text
    assert "prefers-color-scheme: dark" in text and "width=device-width" in text


def test_what_it_tells() -> None:
    outline = Outline(page(evil_run()))
    told = " ".join(outline.text.split())
    for words in (
        "3 questions · 1 without known documents not judged · 1 wanted document not in the project",
        "1 searched without the reranker", "2 judged questions", "The only one that could have gone better",
        "nDCG@10", "0.600", "Questions that went worst", "not in the project", "removed since", "✓", "Settings",
    ):  # fmt: skip
        assert words in told, words
    assert "zero.md" not in told, "grade zero is not wanted"
    assert "Is it more than chance?" not in told and "not shown" not in told
    assert outline.tags.count("svg") == 3


def test_against_an_older_run() -> None:
    before = scored([0.5, 1.0, 0.2, 0.0] * 10, label="old")
    after = scored([0.7, 1.0, 0.1, 0.0] * 10, label="new")
    outline = Outline(page(after, compare(before, after)))
    told = " ".join(outline.text.split())
    for words in ("new against old", "10 better, 10 worse, 20 the same", "+0.20", "−0.10", "0.50 → 0.70"):
        assert words in told, words
    assert outline.tags.count("svg") == 4


def test_what_cannot_be_found_and_what_may_not_be_seen() -> None:
    off, unseen = Wanted("off.md", 1.0, "d1"), Wanted("", 1.0, None)
    run = details([result("q1", {"ndcg@10": 0.2}, wanted=(off, unseen), found=(FoundPassage("", "", 0.0),))])
    told = " ".join(Outline(page(run, None, {"d1": "switched off"})).text.split())
    assert "1 question · 1 wanted document switched off some documents are not shown: they are above" in told
    assert "off.md switched off" in told and "removed since" not in told and "0.00" not in told
    assert "1 judged question;" in told


def test_what_was_tried_is_told() -> None:
    before, after = scored([0.5]), scored([0.6])
    other = replace(after, run=replace(after.run, settings={**after.run.settings, "alpha": 0.2, "new_one": EVIL}))
    assert "same settings" in page(after, compare(before, after)) and "same settings" not in page(after)
    told = " ".join(Outline(page(other, compare(before, other))).text.split())
    assert f"alpha 0.7 → 0.2 · new one none → {EVIL}" in told


def test_when_all_is_well_it_says_so() -> None:
    perfect = scored([1.0, 1.0])
    assert "every question found all it wanted" in page(perfect)
    assert "No question changed." in page(perfect, compare(perfect, perfect))


@pytest.mark.parametrize("cut", [1, 10, 25])
def test_any_cut(cut: int) -> None:
    run = details([result(f"q{n}", measured(["a"], {"a": 1, "b": n}, cut)) for n in range(3)])
    assert f"Recall@{10 if cut == 25 else cut}" in page(run)


@settings(deadline=None, max_examples=12)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1e6)), min_size=1, max_size=30),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
)
def test_any_run_becomes_a_page(scores: list[tuple[float, float, float]], text: str) -> None:
    before = details([result(f"q{n}", {"ndcg@10": b}, text=text) for n, (b, _, _) in enumerate(scores)])
    after = details(
        [result(f"q{n}", {"ndcg@10": a}, text=text, milliseconds=ms) for n, (_, a, ms) in enumerate(scores)], label=text
    )
    written = page(after, compare(before, after))
    assert written.count("<svg") == written.count("</svg>")
    assert "NaN" not in written and " nan" not in written
    for width in re.findall(r'(?:width|height)="([^"]+)"', written):
        assert float(width) >= 0


# -- answers


def answering(hits: Sequence[float]) -> RunDetails:
    """A run whose first question is as evil as can be."""
    judgement = Judgement(4, 5, 1, {"relevance": EVIL, "faithfulness": EVIL}, tokens=10, cost=0.5)
    cited = (CitedPassage("c", "d", True, EVIL), CitedPassage("c2", "d2", False, ""))
    evil = answered(
        {"answer_hit": 0.0, "clarity": 0.5, "tokens": 1_000.0, "cost": 0.25},
        AnswerKind.ANSWER, text=EVIL, expected=(EVIL,), cited=cited, judgement=judgement, degraded=(EVIL,),
    )  # fmt: skip
    others = [answered({"answer_hit": hit, "tokens": 1_000.0 * hit, "cost": hit}) for hit in hits]
    failed = answered({}, AnswerKind.FAILED, text=EVIL, unjudged=EVIL)
    all = (evil, failed, *others)
    return details([result(f"q{n}", {"ndcg@10": 1.0}, answer=answer) for n, answer in enumerate(all)])


def test_texts_of_answers_stay_texts() -> None:
    before, after = answering([1.0, 0.0, 1.0]), answering([1.0, 1.0, 0.0])
    for text in (page(before), page(after, compare(before, after))):
        outline = Outline(text)
        assert not {"script", "img", "link", "iframe", "a"} & set(outline.tags)
        assert not [name for name, _ in outline.attributes if name.startswith("on") or name in ("src", "href")]
        assert re.findall(r"https?:|//[a-z]|@import|url\(", text.replace("<!doctype", "")) == []


def test_what_it_tells_of_answers() -> None:
    told = " ".join(Outline(page(answering([1.0]))).text.split())
    for words in (
        "1 answer · 1 quote · 1 failed · 1 answered without the", "half within 20 ms", "2,000 tokens ($1.2500)",
        "0.500 Answer hit", "All 3, the worst first", "missed", "expected", "judge: relevance 4, clarity 5",
        "faithfulness: <script>", "✓", "removed since", "Time per answer, ms", "Tokens 1,000 2", "Answer hit 0.5000 2",
    ):  # fmt: skip
        assert words in told, words
    assert "Answers: is it more than chance?" not in told


def test_answers_against_an_older_run() -> None:
    before, after = answering([1.0] * 30), answering([0.0] * 30)
    text = page(after, compare(before, after))
    told = " ".join(Outline(text).text.split())
    for words in ("Answers: is it more than chance?", "Answers that changed", "hit → missed", "−968", "−$0.967742"):
        assert words in told, words
    assert "<span class='worse'>−0.9677</span>" in text and "<span class='better'>−968</span>" in text


def test_a_run_of_answers_alone() -> None:
    run = details([result("q", {}, wanted=(), answer=answered({"answered": 1.0}, has_answer=None))])
    for text in (page(run), page(run, compare(run, run))):
        told = " ".join(Outline(text).text.split())
        assert "1.000 Answered" in told and "Questions that went worst" not in told and "Questions by" not in told
