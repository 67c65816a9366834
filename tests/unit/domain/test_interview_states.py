"""What goes out of an interview's state with a document or a turn, and what keeps its links."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ragforge.domain.discovery import UNKNOWN, InterviewState, with_turns, without_documents, without_turn
from ragforge.testing.interview_states import rich, states

DOCUMENTS = ("one", "two", "three")
any_state = states(DOCUMENTS)


def is_closed(state: InterviewState) -> bool:
    """Whether every link leads to an assumption that is there."""
    there = {each.id for each in state.assumptions}
    rests = {id for each in state.assumptions for id in each.depends_on}
    return rests | {each.assumption for each in state.points} <= {*there, ""}


@given(any_state, st.sets(st.sampled_from(DOCUMENTS)))
def test_without_documents_nothing_holds_their_words(state: InterviewState, gone: set[str]) -> None:
    left = without_documents(state, gone)
    assert left.documents.isdisjoint(gone) and left.documents <= state.documents
    assert is_closed(left) and without_documents(left, gone) == left
    assert {each.id for each in left.assumptions} <= {each.id for each in state.assumptions}
    assert (left.turn, left.version, left.numbers) == (state.turn, state.version, state.numbers)
    if state.documents.isdisjoint(gone):
        assert left == state
    one, *others = [*sorted(gone), ""]
    step_by_step = without_documents(state, {one})
    for each in others:
        step_by_step = without_documents(step_by_step, {each})
    assert step_by_step.documents == left.documents and step_by_step.points == left.points


@given(any_state, st.integers(1, 60))
def test_without_a_turn_nothing_is_of_it(state: InterviewState, turn: int) -> None:
    left = without_turn(state, turn)
    assert turn not in {each.turn for each in left.points} | {each.turn for each in left.assumptions}
    assert turn not in {number for each in left.asked for number in (each.turn, each.answered)}
    assert turn not in {some.turn for each in left.assumptions for some in each.evidence}
    assert turn not in {each.turn for each in left.met}
    assert is_closed(left) and without_turn(left, turn) == left


@given(any_state)
def test_the_same_numbers_change_nothing_but_the_last(state: InterviewState) -> None:
    numbers = {number: number for number in range(1, 61)}
    assert replace(with_turns(state, numbers), turn=state.turn) == state


def test_turns_without_gaps_keep_their_order() -> None:
    state = rich("one", "two")
    moved = with_turns(replace(state, turn=9), {1: 1, 5: 2})
    assert moved.turn == 2 and moved.synthesis == 1, "what was written after a turn that went belongs to the one before"
    assert [each.turn for each in moved.met] == [1, 1, UNKNOWN]
    assert [each.answered for each in moved.asked] == [1, UNKNOWN, 0]
    assert {some.turn for each in moved.assumptions for some in each.evidence} == {1}
    assert with_turns(state, {}).turn == 0 and {each.turn for each in with_turns(state, {}).points} == {0}
