"""The register: circles are refused, what rests on something falls with it, and stands again with it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.discover import register
from ragforge.domain.discovery import BY_HAND, Evidence, InterviewState, Level, Standing, reached
from ragforge.errors import Conflict, NotFound, UserError
from tests.proof import count


def subject(text: str) -> set[str]:
    return set(text.split())


def added(state: InterviewState, statement: str, *depends_on: str) -> InterviewState:
    return register.registered(
        state, statement, confidence=Level.LOW, impact=Level.HIGH, probe="people", turn=1, subject=subject,
        depends_on=depends_on,
    )[0]  # fmt: skip


def chain(*links: tuple[str, ...]) -> InterviewState:
    state = InterviewState("problem")
    for place, depends_on in enumerate(links, 1):
        state = added(state, f"claim number x{place}", *depends_on)
    return state


def standing(state: InterviewState) -> str:
    return "".join(each.status[0] for each in state.assumptions)


def test_G7_what_rests_on_a_refuted_assumption_is_shaken_near_and_far() -> None:
    state = chain((), ("A1",), ("A2",), (), ("A4", "A3"))
    state, _ = register.revised(state, "A2", status=Standing.CONFIRMED)
    state, touched = register.revised(state, "a1", status=Standing.REFUTED, evidence=Evidence("measured", 3))
    assert touched == ("A2", "A3", "A5")
    assert standing(state) == "rssos"
    assert register.find(state, "A1").evidence == (Evidence("measured", 3),)
    state, touched = register.revised(state, "A1", status=Standing.OPEN)
    assert touched == ("A2", "A3", "A5") and standing(state) == "ooooo"


def test_G7_one_of_two_that_fell_is_enough() -> None:
    state = chain((), (), ("A1", "A2"))
    for id in ("A1", "A2"):
        state, _ = register.revised(state, id, status=Standing.REFUTED)
    state, touched = register.revised(state, "A1", status=Standing.CONFIRMED)
    assert touched == () and standing(state) == "crs"
    state, _ = register.revised(state, "A3", status=Standing.OPEN)
    assert standing(state) == "crs", "it still rests on what fell"
    state, _ = register.revised(state, "A3", status=Standing.CONFIRMED)
    assert standing(state) == "crc", "but a person may confirm it all the same"


def test_G7_a_new_one_on_shaken_ground_is_shaken() -> None:
    state, _ = register.revised(chain(()), "A1", status=Standing.REFUTED)
    assert standing(added(state, "something else", "A1")) == "rs"


def test_G7_circles_and_strangers_are_refused() -> None:
    state = chain((), ("A1",), ("A2",))
    with pytest.raises(UserError, match="A1 → A3 → A2 → A1"):
        register.revised(state, "A1", depends_on=["A3"])
    with pytest.raises(UserError, match="A1 → A1"):
        register.revised(state, "A1", depends_on=["A1"])
    with pytest.raises(NotFound, match="A9"):
        register.revised(state, "A1", depends_on=["A9"])
    with pytest.raises(NotFound, match="A9"):
        added(state, "new words", "A9")
    with pytest.raises(Conflict, match="A2 says the same"):
        added(state, "claim number x2")
    for bad in ("", "   ", "x" * 401):
        with pytest.raises(UserError):
            added(state, bad)
    with pytest.raises(UserError, match="can shake"):
        register.revised(state, "A1", status=Standing.SHAKEN)


def test_G7_removing_one_frees_those_that_rest_on_it_and_no_number_comes_back() -> None:
    state = register.removed(chain((), ("A1",)), "A1")
    assert [each.id for each in state.assumptions] == ["A2"] and state.assumptions[0].depends_on == ()
    assert added(state, "a third one").assumptions[-1].id == "A3"
    assert register.ranges([1, 2, 3, 7]) == "A1–A3, A7"
    assert BY_HAND == 0


@given(st.data())
@settings(max_examples=count(60, 1_000), deadline=None)
def test_G7_whatever_is_done_no_circle_comes_about_and_what_fell_is_marked(data: st.DataObject) -> None:
    state = InterviewState("problem")
    for step in range(data.draw(st.integers(1, 14))):
        ids = [each.id for each in state.assumptions]
        if not ids or data.draw(st.booleans()):
            state = added(
                state, f"claim x{step}", *data.draw(st.lists(st.sampled_from(ids), max_size=3) if ids else st.just([]))
            )
            continue
        id = data.draw(st.sampled_from(ids))
        try:
            state, _ = register.revised(
                state,
                id,
                status=data.draw(st.sampled_from([None, Standing.OPEN, Standing.CONFIRMED, Standing.REFUTED])),
                depends_on=data.draw(st.none() | st.lists(st.sampled_from(ids), max_size=3)),
            )
        except UserError as refused:
            assert "circle" in refused.message
    by_id = {each.id: each for each in state.assumptions}
    for each in state.assumptions:
        below = set(reached(lambda one: by_id[one].depends_on, each.id))
        assert each.id not in below, "no circle"
        if each.status is Standing.OPEN:
            assert not any(by_id[one].status is Standing.REFUTED for one in each.depends_on) or each.depends_on
