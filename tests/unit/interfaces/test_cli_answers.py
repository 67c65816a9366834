"""Answers as they are shown: places, prices, doubts, and what a terminal sees while it waits."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from decimal import Decimal

import pytest

from ragforge.domain.answers import (
    Account,
    Answer,
    Citation,
    CitationEvent,
    DecisionEvent,
    DoneEvent,
    Event,
    Evidence,
    RetrievalEvent,
    TokenEvent,
    UsageEvent,
)
from ragforge.domain.cancel import Cancelled
from ragforge.domain.documents import Locator
from ragforge.domain.generation import Usage
from ragforge.domain.prompts import InjectedFile, Injection, Shape, Source
from ragforge.domain.retrieval import Stage, Verdict
from ragforge.interfaces.cli.answers import show, source_lines, title
from ragforge.interfaces.cli.common import Common
from ragforge.interfaces.fields.answers import event_fields
from ragforge.interfaces.records import json_text
from ragforge.interfaces.words import price, spent

TEXT = "# Returns\n\n## Chairs\n\nSixty days.\n"


def source(number: int = 1, text: str = TEXT) -> Source:
    return Source(number, "c1", ("c1",), "d1", "rules.md", Locator(), "sum", 0.5, text, 9)


def citation(marker: int = 1, quote: str = "Sixty days.", **given: object) -> Citation:
    facts = {"chunk": "c1", "document": "d1", "name": "rules.md", "locator": Locator(), "proved": True} | given
    return Citation(marker=marker, quote=quote, start=0, end=3, **facts)  # type: ignore[arg-type]


def answer(*citations: Citation) -> Answer:
    account = Account("how long?", Shape("how long?", "lookup"), (source(), source(2)))
    return Answer("Sixty days [1].", citations, account)


# -- where a source stands


def test_a_place_is_written_with_headings_page_or_time() -> None:
    assert title("a.pdf", Locator(("Money", "Travel"), page=3, page_end=4)) == "a.pdf > Money > Travel, p. 3–4"
    assert title("a.vtt", Locator(start=65.0)) == "a.vtt, t=1:05"
    assert title("a\x1b[2J.md", Locator(("x\ny",))) == "a\\x1b[2J.md > x y"


def test_every_cited_place_is_listed_once_by_its_marker() -> None:
    names = {"d1": "docs/rules.md"}
    chairs, lamps, company = (Locator(path) for path in (("Returns", "Chairs"), ("Returns", "Lamps"), ("Company",)))
    cited = answer(
        citation(2, locator=company), citation(locator=chairs), citation(locator=chairs), citation(locator=lamps)
    )
    assert source_lines(cited, names, "place") == [
        "[1] docs/rules.md > Returns > Chairs",
        "[1] docs/rules.md > Returns > Lamps",
        "[2] docs/rules.md > Company",
    ]
    assert source_lines(cited, names, "page") == ["[1] [source: docs/rules.md]", "[2] [source: docs/rules.md]"]
    assert source_lines(cited, names, "chunk") == ["[1] [chunk: c1]", "[2] [chunk: c1]"]


# -- what it took


def test_prices_are_said_as_far_as_they_are_known() -> None:
    assert price(None) == "price unknown" and price(Decimal(0)) == "free"
    assert price(Decimal("0.00123")) == "$0.0012" and price(Decimal("0.00001")) == "less than $0.0001"
    usage = Usage(1204, 56, 2, Decimal("0.5"), 2.14)
    assert spent(usage) == "1,204 tokens read, 56 written in 2 calls, $0.5000, 2.1 s"


# -- as it comes


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def events(*texts: str) -> Iterator[Event]:
    yield RetrievalEvent((source(),), Shape("How long is a lamp?", "lookup", rewritten=True))
    yield from map(TokenEvent, texts)
    yield DoneEvent(answer(citation()))


def test_text_is_written_as_it_comes_and_cannot_act(capsys: pytest.CaptureFixture[str]) -> None:
    assert show(Common(), events("Sixty ", "\x1b[2J", "days.")) == answer(citation())
    assert capsys.readouterr() == ("Sixty \\x1b[2Jdays.\n", "Understood as: How long is a lamp?\n")
    show(Common(quiet=True), events("Sixty days.\n"))
    assert capsys.readouterr() == ("Sixty days.\n", "")
    show(Common(json=True), events("Sixty days.\n"))
    assert capsys.readouterr() == ("", "")


def test_what_shows_that_work_goes_on_is_gone_before_the_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    shown: list[str] = []

    def watched() -> Iterator[Event]:
        for event in events("Sixty ", "days."):
            shown.append(terminal.getvalue().rpartition("\x1b[K")[2])
            yield event

    show(Common(), watched())
    assert shown == ["Looking …", "Reading 1 passage …", "", ""]
    for quiet in (Common(quiet=True), Common(json=True)):
        monkeypatch.setattr("sys.stderr", quiet_terminal := Terminal())
        show(quiet, events("Sixty days."))
        assert quiet_terminal.getvalue() == ""
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("sys.stderr", dumb := Terminal())
    show(Common(), events())
    assert "\x1b" not in dumb.getvalue()


def test_a_stream_that_is_stopped_ends_its_line_and_is_closed(capsys: pytest.CaptureFixture[str]) -> None:
    closed: list[bool] = []

    def stopped() -> Iterator[Event]:
        try:
            yield TokenEvent("Sixty")
            raise Cancelled
        finally:
            closed.append(True)

    with pytest.raises(Cancelled):
        show(Common(), stopped())
    assert capsys.readouterr().out == "Sixty\n" and closed == [True]


def test_every_event_is_json_with_its_name_first() -> None:
    verdict = Verdict(Stage.GATE, "c1", "rules.md", Locator(page=2), False, "no bearing", 0.1)
    account = Account(
        "q", Shape("q", "lookup"), (source(),), evidence=Evidence(0.9, 0.25, {"cosine": 0.5}),
        files=(InjectedFile("d1", "a.py", Injection.PACK, "x", 1, "a.py", "2 functions"),),
        usage=Usage(1, 2, 1, Decimal("0.25"), 0.5),
    )  # fmt: skip
    all_events: tuple[Event, ...] = (
        RetrievalEvent((source(),), Shape("q", "lookup")),
        DecisionEvent(verdict),
        TokenEvent("Sixty"),
        CitationEvent(citation(proved=False, reason="not in the passage: the number 90")),
        UsageEvent(Usage(1, 2, 1, None, 0.5)),
        DoneEvent(Answer("Sixty.", (), account)),
    )
    read = [json.loads(json_text(event_fields(event))) for event in all_events]
    assert [next(iter(each)) for each in read] == ["event"] * 6
    assert [each["event"] for each in read] == ["retrieval", "decision", "token", "citation", "usage", "done"]
    assert read[1]["locator"] == {"page": 2} and read[3]["reason"] and read[4]["cost"] is None
    assert read[5]["usage"]["cost"] == 0.25 and read[5]["evidence"]["enough"] and read[5]["files"][0]["how"] == "pack"
