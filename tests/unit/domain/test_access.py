"""Who may do what, from the tables alone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ragforge.domain.access import DEEDS, MAY, OWNER, AccessKey, Action, Clearance, Principal, Role, Scope

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def somebody(role: Role, projects: frozenset[str] | None = None) -> Principal:
    """Who calls with a key of this role."""
    key = AccessKey("k", "a key", role, projects, Clearance.INTERNAL, NOW)
    return Principal(Scope("key:k", "o", projects, Clearance.INTERNAL), role, key)


def owner() -> Principal:
    return Principal(Scope(OWNER, "o", None, max(Clearance)), Role.READER)


@pytest.mark.parametrize(
    ("role", "tells", "asks"),
    [
        (Role.ORCHESTRATOR, True, True),
        (Role.AGENT, True, False),
        (Role.READER, False, False),
        (Role.EDITOR, False, False),
        (Role.ADMIN, False, False),
    ],
)
def test_K4_only_an_orchestrator_asks_for_lessons(role: Role, tells: bool, asks: bool) -> None:
    """An agent that has learned something tells it; what others learned, it is told by whoever leads it."""
    assert (Action.CAPTURE in MAY[role], Action.LEARN in MAY[role]) == (tells, asks)
    for projects in (None, frozenset({"p"})):
        who = somebody(role, projects)
        assert (who.may(Action.CAPTURE), who.may(Action.LEARN)) == (tells, asks)


def test_K4_the_owner_does_everything() -> None:
    assert all(owner().may(action) for action in Action)


def test_every_role_is_decided_and_every_action_has_words_and_somebody_who_may() -> None:
    assert MAY.keys() == set(Role) and DEEDS.keys() == set(Action)
    assert frozenset().union(*MAY.values()) == frozenset(Action)


def test_the_whole_server_is_for_those_who_reach_all_of_it() -> None:
    assert somebody(Role.ADMIN).may(Action.OPERATE)
    assert not somebody(Role.ADMIN, frozenset({"p"})).may(Action.OPERATE)
