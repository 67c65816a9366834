"""Questions on their way, whatever the pages that look at them do."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from ragforge.domain.answers import Account, Answer, DoneEvent, Event, RetrievalEvent, TokenEvent
from ragforge.domain.cancel import Cancel
from ragforge.domain.conversation import Turn
from ragforge.domain.discovery import (
    Decided,
    Decision,
    Gathered,
    InterviewEvent,
    InterviewState,
    InterviewTurn,
    TurnAccount,
    TurnDone,
)
from ragforge.domain.prompts import Shape
from ragforge.errors import Busy, OverLimit, ProviderError
from ragforge.interfaces.ui.asking import Answers, Asked, Said, Step

_SHAPE = Shape("How long?", "lookup")


def _answered(turn: int = 1, conversation: str = "c") -> DoneEvent:
    return DoneEvent(Answer("Sixty days.", (), Account("How long?", _SHAPE, conversation=conversation, turn=turn)))


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
    assert answers.result("me", "c", 1) is asked.result


def test_nobody_sees_what_another_asked() -> None:
    answers = Answers()
    _ended(answers.ask("me", "How long?", "c", lambda cancel: iter([_answered()])))
    assert answers.latest("you", "c") is None
    assert answers.result("you", "c", 1) is None
    assert answers.result("me", "c", 1) is not None


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


class _Waiting:
    """Questions that go on until they are let."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def stream(self, cancel: Cancel) -> Iterator[Event]:
        self.go_on.wait(5)
        yield _answered()


def test_too_many_at_once_are_sent_away() -> None:
    waiting, answers = _Waiting(), Answers()
    asked = [answers.ask("me", "How long?", f"c{number}", waiting.stream) for number in range(16)]
    with pytest.raises(Busy):
        answers.ask("me", "How long?", "one more", waiting.stream)
    waiting.go_on.set()
    for each in asked:
        _ended(each)
    _ended(answers.ask("me", "How long?", "one more", waiting.stream))


def test_a_conversation_takes_one_question_at_a_time() -> None:
    """Else nobody could see or stop the one before."""
    waiting, answers = _Waiting(), Answers()
    first = answers.ask("me", "How long?", "c", waiting.stream)
    with pytest.raises(Busy, match="in this conversation"):
        answers.ask("me", "And how much?", "c", waiting.stream)
    assert answers.latest("me", "c") is first
    waiting.go_on.set()
    _ended(first)
    _ended(answers.ask("me", "And how much?", "c", waiting.stream))


def test_a_key_that_may_ask_one_at_once_asks_one_at_once() -> None:
    waiting, answers = _Waiting(), Answers()
    first = answers.ask("me", "How long?", "c1", waiting.stream, at_once=1)
    with pytest.raises(OverLimit):
        answers.ask("me", "How long?", "c2", waiting.stream, at_once=1)
    other = answers.ask("you", "How long?", "c2", waiting.stream, at_once=1)
    waiting.go_on.set()
    _ended(first)
    _ended(other)


def test_it_stops_when_whoever_asked_may_not_go_on() -> None:
    holds = [True]

    def stream(cancel: Cancel) -> Iterator[Event]:
        yield TokenEvent("Six")
        holds[0] = False
        yield TokenEvent("ty")
        yield _answered()

    asked = _ended(Answers().ask("me", "How long?", "c", stream, may_go_on=lambda: holds[0]))
    assert asked.step is Step.STOPPED
    assert asked.result is None


def test_only_so_many_results_are_remembered() -> None:
    answers = Answers()
    for number in range(210):

        def stream(cancel: Cancel, number: int = number) -> Iterator[Event]:
            yield _answered(number + 1)

        _ended(answers.ask("me", "How long?", f"c{number}", stream))
    assert answers.result("me", "c", 6) is None
    assert answers.result("me", "c", 210) is not None
    assert answers.latest("me", "c5") is None


def test_what_is_not_kept_is_not_remembered_either() -> None:
    answers = Answers()
    asked = _ended(answers.ask("me", "How long?", "private-1", lambda cancel: iter([_answered(1, "")])))
    assert asked.result is not None
    assert answers.result("me", "", 1) is None
    answers.forget("me", "private-1")
    assert answers.latest("me", "private-1") is None


def _said(interview: str = "i", number: int = 1) -> TurnDone:
    turn = Turn("t", interview, number, "Yes", "And then?", datetime.now(UTC), documents=("d",))
    return TurnDone(InterviewTurn(interview, turn, InterviewState("problem"), TurnAccount(Decision("problem", "x"))))


def test_what_is_said_in_an_interview_is_followed_step_by_step() -> None:
    go_on = threading.Event()

    def stream(cancel: Cancel) -> Iterator[InterviewEvent]:
        yield Decided(Decision("problem", "framing"))
        go_on.wait(5)
        yield Gathered((), ())
        yield _said()

    answers, said = Answers(), Said("Yes", "i", 1)
    answers.begin("me", said, stream)
    deadline = time.monotonic() + 5
    while said.step is Step.LOOKING:
        assert time.monotonic() < deadline
    assert said.step is Step.READING and not said.came
    with pytest.raises(Busy):
        answers.begin("me", Said("No", "i", 1), stream)
    go_on.set()
    assert _ended(said).step is Step.DONE
    assert answers.said("me", "i", 1) is said.done
    assert answers.said("you", "i", 1) is None and answers.result("me", "i", 1) is None
    answers.forget_document("d")
    assert answers.said("me", "i", 1) is None and answers.latest("me", "i") is None
