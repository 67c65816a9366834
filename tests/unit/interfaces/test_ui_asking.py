"""Questions on their way, whatever the pages that look at them do."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from ragforge.domain.answers import Account, Answer, DoneEvent, Event, RetrievalEvent, TokenEvent
from ragforge.domain.cancel import Cancel
from ragforge.domain.prompts import Shape
from ragforge.errors import Busy, ProviderError
from ragforge.interfaces.ui.asking import Answers, Asked, Step

_SHAPE = Shape("How long?", "lookup")


def _answered(trace_id: str = "t1") -> DoneEvent:
    return DoneEvent(Answer("Sixty days.", (), Account("How long?", _SHAPE, trace_id=trace_id)))


def _ended(asked: Asked) -> Asked:
    deadline = time.monotonic() + 5
    while not asked.ended:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return asked


def test_a_page_sees_the_text_grow_and_then_the_result() -> None:
    go_on = threading.Event()

    def stream(cancel: Cancel) -> Iterator[Event]:
        yield RetrievalEvent((), _SHAPE)
        yield TokenEvent("Sixty ")
        go_on.wait(5)
        yield TokenEvent("days.")
        yield _answered()

    answers = Answers()
    asked = answers.ask("me", "How long?", "c", stream)
    deadline = time.monotonic() + 5
    while not asked.text:
        assert time.monotonic() < deadline
    assert (asked.text, asked.step, asked.result) == ("Sixty ", Step.WRITING, None)
    go_on.set()
    assert _ended(asked).step is Step.DONE
    assert asked.text == "Sixty days."
    assert answers.result("me", "t1") is asked.result


def test_nobody_sees_what_another_asked() -> None:
    answers = Answers()
    _ended(answers.ask("me", "How long?", "c", lambda cancel: iter([_answered()])))
    assert answers.latest("you", "c") is None
    assert answers.result("you", "t1") is None
    assert answers.result("me", "t1") is not None


def test_a_stopped_question_ends_without_a_result() -> None:
    def stream(cancel: Cancel) -> Iterator[Event]:
        yield TokenEvent("Six")
        while True:
            cancel.wait(5)
            yield TokenEvent("ty")

    asked = Answers().ask("me", "How long?", "c", stream)
    asked.stop()
    assert _ended(asked).step is Step.STOPPED
    assert asked.result is None


def test_what_goes_wrong_is_kept_for_the_page() -> None:
    def refuse(cancel: Cancel) -> Iterator[Event]:
        raise ProviderError("the model is away", hint="start it")

    asked = _ended(Answers().ask("me", "How long?", "c", refuse))
    assert asked.step is Step.FAILED
    assert asked.problem is not None
    assert (asked.problem.message, asked.problem.hint) == ("the model is away", "start it")


def test_a_fault_of_ours_is_told_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    def break_down(cancel: Cancel) -> Iterator[Event]:
        raise ValueError("secret words of a document")

    asked = _ended(Answers().ask("me", "How long?", "c", break_down))
    assert asked.problem is not None
    assert "secret" not in asked.problem.message + asked.problem.hint
    assert "a question failed" in caplog.text


def test_too_many_at_once_are_sent_away() -> None:
    go_on = threading.Event()

    def wait(cancel: Cancel) -> Iterator[Event]:
        go_on.wait(5)
        yield _answered()

    answers = Answers()
    asked = [answers.ask("me", "How long?", f"c{number}", wait) for number in range(16)]
    with pytest.raises(Busy):
        answers.ask("me", "How long?", "one more", wait)
    go_on.set()
    for each in asked:
        _ended(each)


def test_only_so_many_results_are_remembered() -> None:
    answers = Answers()
    for number in range(210):
        _ended(answers.ask("me", "How long?", f"c{number}", lambda cancel, n=number: iter([_answered(f"t{n}")])))  # type: ignore[misc]
    assert answers.result("me", "t5") is None
    assert answers.result("me", "t209") is not None
    assert answers.latest("me", "c5") is None
