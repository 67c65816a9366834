"""Messages of OpenAI's, understood as a question with its history."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragforge.interfaces.http.completions import ChatMessage, ChatRequest, Unsupported, conversed

NOW = datetime(2026, 1, 2, tzinfo=UTC)
Role = st.sampled_from(["system", "developer", "user", "assistant"])
Said = st.lists(st.tuples(Role, st.text("ab ", min_size=1, max_size=5).filter(str.strip)), max_size=12)


def messages(*said: tuple[str, str]) -> list[ChatMessage]:
    return [ChatMessage.model_validate({"role": role, "content": text}) for role, text in said]


@given(Said, st.text("ab", min_size=1, max_size=5))
def test_nothing_that_was_said_is_lost(before: list[tuple[str, str]], question: str) -> None:
    understood = conversed(messages(*before, ("user", question)), NOW)
    by_user = [text for role, text in before if role == "user"]
    by_assistant = [text for role, text in before if role == "assistant"]
    assert understood.question == question
    assert understood.system == "\n\n".join(text for role, text in before if role in ("system", "developer"))
    assert "\n\n".join(turn.question for turn in understood.history if turn.question) == "\n\n".join(by_user)
    assert [turn.answer for turn in understood.history if turn.answer] == by_assistant
    assert len({turn.id for turn in understood.history}) == len(understood.history)


def test_an_answer_belongs_to_what_was_asked_before_it() -> None:
    said = messages(
        ("assistant", "Hello!"), ("user", "a"), ("user", "b"), ("assistant", "c"), ("user", "d"), ("user", "e")
    )
    turns = [(turn.question, turn.answer) for turn in conversed(said, NOW).history]
    assert turns == [("", "Hello!"), ("a\n\nb", "c"), ("d", "")]


@pytest.mark.parametrize("said", [[], [("system", "x")], [("user", "x"), ("assistant", "y")], [("user", " \n")]])
def test_without_a_question_there_is_no_answer(said: list[tuple[str, str]]) -> None:
    with pytest.raises(Unsupported) as refused:
        conversed(messages(*said), NOW)
    assert refused.value.param == "messages"


def test_how_to_write_is_taken_over() -> None:
    said = [{"role": "user", "content": "x"}]
    asked = ChatRequest.model_validate({"model": "m", "messages": said, "max_tokens": 5, "stop": "END", "unknown": 1})
    assert asked.sampling() == {"max_tokens": 5, "stop": ("END",)}
    later = ChatRequest.model_validate(
        {"model": "m", "messages": said, "max_tokens": 5, "max_completion_tokens": 7, "temperature": 0}
    )
    assert later.sampling() == {"max_tokens": 7, "temperature": 0}
