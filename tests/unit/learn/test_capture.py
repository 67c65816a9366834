"""Names in one spelling, words without what nobody sees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragforge.domain.lessons import EntryType, Told
from ragforge.errors import UserError
from ragforge.learn.capture import facets, filters, named, told


@pytest.mark.parametrize("name", ["Backend Developer", "backend_developer", " backend-developer", "BACKEND  developer"])
def test_one_agent_has_one_spelling(name: str) -> None:
    assert named(name, "agent_type") == "backend-developer"


@given(st.text(max_size=60))
def test_a_name_is_folded_once_and_for_all(name: str) -> None:
    folded = named(name, "agent_type")
    assert named(folded, "agent_type") == folded


def test_decisions_of_people_are_for_every_agent() -> None:
    assert facets("gate_rejection", "", "", "").agent_type == "any"
    with pytest.raises(UserError, match="agent"):
        facets("failure_solution", "", "", "")
    assert filters("Ops", "", "", "gate_approval").entry_type is EntryType.APPROVAL
    with pytest.raises(UserError):
        filters("", "", "", "rumour")


@given(st.text(max_size=200), st.text(max_size=200))
def test_what_is_kept_has_no_sign_that_nobody_sees(failure: str, solution: str) -> None:
    given = Told(failure_description=f"f {failure}", solution_steps=f"s\u200b\u202e\U000e0041 {solution}")
    try:
        kept = told(EntryType.FAILURE, given, lambda text: text)
    except UserError:
        return
    for text in (kept.failure_description, kept.solution_steps):
        assert not set(text) & set("\x00\u200b\u202e\u2066\ufeff\U000e0041\r")
        assert text == text.strip()


def test_secrets_go_through_the_mask() -> None:
    given = Told(failure_description="the key is abc", solution_steps="abc was wrong")
    kept = told(EntryType.FAILURE, given, lambda text: text.replace("abc", "[hidden]"))
    assert (kept.failure_description, kept.solution_steps) == ("the key is [hidden]", "[hidden] was wrong")
