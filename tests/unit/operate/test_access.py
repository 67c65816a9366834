"""Keys and who brings one: the same refusal for everything, believed for half a second and no longer."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragforge.adapters.catalog.catalog import SqlCatalog
from ragforge.domain.access import DEEDS, MAY, Action, Clearance, KeyLimits, Role
from ragforge.errors import NotAllowed, NotFound, Unauthenticated, UserError
from ragforge.operate.access import Access, allowed, local, owner
from ragforge.ports import Catalog, Unit
from ragforge.testing.records import entry
from ragforge.testing.shelf import ManualClock, Shelf


class Counted:
    """A catalog that counts how often it is read."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.reads = 0

    @contextmanager
    def read(self) -> Iterator[Unit]:
        self.reads += 1
        with self.catalog.read() as unit:
            yield unit

    def __getattr__(self, name: str) -> object:
        return getattr(self.catalog, name)


class Door:
    """Access with its own time."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.catalog = Counted(SqlCatalog.open(folder / "catalog.db", self.clock))
        self.seconds = 0.0
        self.access = Access(self.catalog, self.clock, lambda: self.seconds)  # type: ignore[arg-type]

    def another(self) -> Access:
        """The same keys in another process, as far as this one can tell."""
        return Access(self.catalog, self.clock, lambda: self.seconds)  # type: ignore[arg-type]

    def passes(self, key: str) -> bool:
        try:
            self.access.resolve(key)
        except Unauthenticated:
            return False
        return True


@pytest.fixture
def door(swift_path: Path) -> Iterator[Door]:
    opened = Door(swift_path)
    yield opened
    opened.catalog.catalog.close()


def test_a_key_says_who_calls_and_what_they_reach(door: Door) -> None:
    key, secret = door.access.create(
        "  the bot ", Role.EDITOR, projects=frozenset({"p"}), clearance=Clearance.CONFIDENTIAL
    )
    assert key.name == "the bot"
    who = door.access.resolve(secret)
    assert who.role is Role.EDITOR and who.key is not None and who.key.id == key.id
    scope = who.scope
    assert (scope.principal, scope.owner) == (f"key:{key.id}", key.id)
    assert (scope.projects, scope.clearance, scope.oversees) == (frozenset({"p"}), Clearance.CONFIDENTIAL, False)


@pytest.mark.parametrize("role", Role)
def test_only_who_may_manage_oversees_others(door: Door, role: Role) -> None:
    _, secret = door.access.create("k", role)
    assert door.access.resolve(secret).scope.oversees == (Action.MANAGE in MAY[role])
    assert not door.access.resolve(secret).scope.owns


def test_the_secret_is_stored_nowhere(door: Door, swift_path: Path) -> None:
    _, secret = door.access.create("k", Role.READER)
    door.catalog.catalog.flush()
    for file in swift_path.rglob("*"):
        stored = file.read_bytes() if file.is_file() else b""
        assert secret.encode() not in stored and secret[16:].encode() not in stored
    with door.catalog.read() as unit:
        (made,) = unit.keys.all(owner())
        assert unit.keys.get(owner(), made.id)[1] == sha256(secret[16:].encode()).digest()


def test_whatever_is_wrong_the_answer_is_the_same(door: Door) -> None:
    good, secret = door.access.create("k", Role.READER)
    revoked, revoked_secret = door.access.create("r", Role.ADMIN)
    _, expired_secret = door.access.create("e", Role.ADMIN, expires_at=door.clock() + timedelta(seconds=5))
    door.access.revoke(revoked.id)
    door.clock.advance(5)
    wrong = [
        "rf_",
        "x" * 100_000,
        "rf_" + "a" * 12 + "_" + "b" * 43,
        f"rf_{good.id}_{secrets.token_urlsafe(32)}",
        f"rf_{revoked.id}_{secret[16:]}",
        secret[:-1],
        secret + "\n",
        secret + "a",
        secret.upper(),
        f" {secret}",
        "rf_\ud800\x00",
        revoked_secret,
        expired_secret,
    ]
    told = set()
    for presented in wrong:
        with pytest.raises(Unauthenticated) as refused:
            door.access.resolve(presented)
        told.add((refused.value.message, refused.value.hint))
        assert presented not in refused.value.message or not presented
    assert len(told) == 1
    assert door.passes(secret)


@given(st.text(max_size=80))
def test_no_text_opens_or_breaks_it(presented: str) -> None:
    with pytest.raises(Unauthenticated):
        NOTHING.resolve(presented)


class _Empty:
    """No catalog is asked about what has not even the form of a key."""


NOTHING = Access(_Empty(), ManualClock())  # type: ignore[arg-type]


def test_what_was_resolved_is_believed_for_half_a_second(door: Door) -> None:
    key, secret = door.access.create("k", Role.READER)
    assert door.passes(secret)
    door.another().revoke(key.id)  # another process: this one does not hear of it
    before = door.catalog.reads
    door.seconds = 0.5
    assert door.passes(secret) and door.catalog.reads == before
    door.seconds = 0.51
    assert not door.passes(secret)
    assert not door.passes(secret), "it does not come back"


def test_a_revocation_here_is_known_at_once(door: Door) -> None:
    key, secret = door.access.create("k", Role.READER)
    assert door.passes(secret)
    door.access.revoke(key.id)
    assert not door.passes(secret)
    with pytest.raises(NotFound):
        door.access.revoke("gone")


def test_a_key_expires_though_it_is_believed(door: Door) -> None:
    _, secret = door.access.create("k", Role.READER, expires_at=door.clock() + timedelta(seconds=10))
    door.clock.advance(9.999)
    assert door.passes(secret)
    door.clock.advance(0.001)
    assert not door.passes(secret)


def test_wrong_keys_are_not_remembered(door: Door) -> None:
    door.access.create("k", Role.READER)
    for _ in range(50):
        assert not door.passes(f"rf_{'0' * 12}_{secrets.token_urlsafe(32)}")
    assert not door.access._believed


def test_who_is_still_who(door: Door) -> None:
    _, secret = door.access.create("k", Role.READER, expires_at=door.clock() + timedelta(seconds=10))
    who = door.access.resolve(secret)
    assert door.access.still(who) and door.access.still(local())
    assert who.key is not None
    assert not door.access.still(replace(who, key=replace(who.key, clearance=Clearance.RESTRICTED)))
    assert not door.access.still(replace(who, key=replace(who.key, id="gone")))
    door.clock.advance(10)
    assert not door.access.still(who)
    other, secret = door.access.create("k", Role.READER)
    who = door.access.resolve(secret)
    door.another().revoke(other.id)
    assert not door.access.still(who)


def test_without_keys_everybody_is_the_owner_and_with_one_nobody_else(door: Door) -> None:
    for presented in ("", "rf_nonsense"):
        assert door.access.principal(presented) == local()
    key, secret = door.another().create("k", Role.READER)
    assert door.access.principal("") == local(), "it was just looked at"
    door.seconds = 0.5
    with pytest.raises(Unauthenticated):
        door.access.principal("")
    assert door.access.principal(secret).role is Role.READER
    door.another().revoke(key.id)
    door.seconds = 10
    with pytest.raises(Unauthenticated):
        door.access.principal("")  # once there was one, everybody needs one


@pytest.mark.parametrize(
    "facts",
    [
        {"name": " "},
        {"name": "x" * 101},
        {"expires_at": datetime(2030, 1, 1)},
        {"expires_at": ManualClock()()},
        {"projects": frozenset()},
        {"limits": KeyLimits(requests_per_minute=-1)},
        {"limits": KeyLimits(concurrent=-1)},
        {"limits": KeyLimits(tokens_per_day=-1)},
        {"limits": KeyLimits(cost_per_day=Decimal("-0.01"))},
        {"limits": KeyLimits(cost_per_day=Decimal("NaN"))},
        {"limits": KeyLimits(cost_per_day=Decimal("Infinity"))},
    ],
)
def test_a_key_that_makes_no_sense_is_refused(door: Door, facts: dict[str, object]) -> None:
    with pytest.raises(UserError):
        door.access.create(**{"name": "k", "role": Role.READER} | facts)  # type: ignore[arg-type]
    assert door.access.keys() == []


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("action", Action)
def test_a_scope_is_given_for_what_the_role_may(door: Door, role: Role, action: Action) -> None:
    _, secret = door.access.create("k", role)
    who = door.access.resolve(secret)
    if action in MAY[role]:
        assert allowed(who, action) is who.scope
    else:
        with pytest.raises(NotAllowed, match=f"{role} may not {DEEDS[action]}"):
            allowed(who, action)
    assert allowed(local(), action) == owner()


def test_many_threads_at_once_see_one_truth(door: Door) -> None:
    keys = [door.access.create(f"k{number}", Role.READER) for number in range(4)]

    def come_and_go(number: int) -> set[str]:
        key, secret = keys[number % 4]
        return {door.access.resolve(secret).id, f"key:{key.id}"}

    with ThreadPoolExecutor(8) as threads:
        seen = [threads.submit(come_and_go, number) for number in range(150)]
        assert all(len(each.result()) == 1 for each in seen)
        door.access.revoke(keys[0][0].id)
        refused = [threads.submit(door.passes, keys[0][1]) for _ in range(20)]
        assert not any(each.result() for each in refused)
    assert door.passes(keys[1][1])


def test_what_was_used_today_begins_at_midnight_utc(door: Door) -> None:
    shelf = Shelf.create(door.catalog)  # type: ignore[arg-type]
    _, secret = door.access.create("k", Role.READER)
    who = door.access.resolve(secret)
    now = door.clock()
    with door.catalog.catalog.write() as unit:
        unit.log.add(who.scope, shelf.id, entry(asked_at=now, input_tokens=7, output_tokens=1, cost=Decimal("0.5")))
        unit.log.add(owner(), shelf.id, entry(asked_at=now, input_tokens=100))
    door.clock.advance(3 * 3600)
    used, left = door.access.used_today(who)
    assert (used.input_tokens, used.output_tokens, used.cost) == (7, 1, Decimal("0.5"))
    assert left == timedelta(hours=21)
    door.clock.advance(21 * 3600)
    used, left = door.access.used_today(who)
    assert used.questions == 0 and left == timedelta(days=1)
