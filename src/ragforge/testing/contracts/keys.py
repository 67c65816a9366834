"""What every catalog keeps of keys: all but their secrets, for whoever owns the workspace and nobody else."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from ragforge.domain.access import AccessKey, Clearance, KeyLimits, Role
from ragforge.errors import NotAllowed, NotFound
from ragforge.operate.access import owner
from ragforge.ports import Catalog
from ragforge.testing.contracts.shelves import ShelfContract
from ragforge.testing.shelf import ManualClock, Shelf

MADE = datetime(2030, 1, 1, 12, tzinfo=UTC)
DIGEST = bytes(range(32))


def key(id: str, **facts: object) -> AccessKey:
    usual: dict[str, object] = {"role": Role.READER, "projects": None, "clearance": Clearance.INTERNAL}
    return AccessKey(**{"id": id, "name": "somebody", "created_at": MADE} | usual | facts)  # type: ignore[arg-type]


def put(catalog: Catalog, *keys: AccessKey) -> None:
    with catalog.write() as unit:
        for each in keys:
            unit.keys.add(owner(), each, DIGEST)


class AccessKeysContract(ShelfContract):
    """Keys come back as they were made, and a revoked one stays revoked."""

    def test_a_key_comes_back_as_it_was(self, catalog: Catalog) -> None:
        full = key(
            "a" * 12,
            name="Zoë's \U0001f511",
            role=Role.ORCHESTRATOR,
            projects=frozenset({"p2", "p1"}),
            clearance=Clearance.RESTRICTED,
            expires_at=MADE + timedelta(days=30, milliseconds=1),
            limits=KeyLimits(60, 4, 3_000_000_000, Decimal("12.000000000001")),
        )
        bare = key("b" * 12, name="nul \x00")
        put(catalog, full, bare)
        with catalog.read() as unit:
            assert unit.keys.get(owner(), full.id) == (full, DIGEST)
            assert unit.keys.get(owner(), bare.id) == (replace(bare, name="nul \ufffd"), DIGEST)
            with pytest.raises(NotFound, match="no key 'gone'"):
                unit.keys.get(owner(), "gone")

    @pytest.mark.parametrize("role", Role)
    @pytest.mark.parametrize("clearance", Clearance)
    def test_every_role_and_clearance_is_kept(self, catalog: Catalog, role: Role, clearance: Clearance) -> None:
        made = key("a" * 12, role=role, clearance=clearance)
        put(catalog, made)
        with catalog.read() as unit:
            assert unit.keys.get(owner(), made.id)[0] == made

    def test_the_newest_come_first(self, catalog: Catalog) -> None:
        keys = [key(f"{number:012}", created_at=MADE + timedelta(milliseconds=number)) for number in (2, 0, 3, 1)]
        put(catalog, *keys)
        with catalog.read() as unit:
            assert unit.keys.all(owner()) == sorted(keys, key=lambda each: each.created_at, reverse=True)

    def test_a_key_is_revoked_once(self, catalog: Catalog, clock: ManualClock) -> None:
        made, other = key("a" * 12), key("b" * 12)
        put(catalog, made, other)
        then = clock()
        with catalog.write() as unit:
            assert unit.keys.revoke(owner(), made.id) == replace(made, revoked_at=then)
        clock.advance(60)
        with catalog.write() as unit:
            assert unit.keys.revoke(owner(), made.id) == replace(made, revoked_at=then)
            with pytest.raises(NotFound):
                unit.keys.revoke(owner(), "gone")
        with catalog.read() as unit:
            assert {each.id: each.revoked_at for each in unit.keys.all(owner())} == {made.id: then, other.id: None}

    def test_they_are_the_owners(self, catalog: Catalog, shelf: Shelf) -> None:
        made = key("a" * 12)
        put(catalog, made)
        for guest in (
            replace(owner(), projects=frozenset({shelf.id})),
            replace(owner(), projects=frozenset()),
            replace(owner(), principal="key:other", oversees=False),
        ):
            with catalog.write() as unit:
                for reach in (
                    lambda unit=unit, guest=guest: unit.keys.get(guest, made.id),
                    lambda unit=unit, guest=guest: unit.keys.all(guest),
                    lambda unit=unit, guest=guest: unit.keys.revoke(guest, made.id),
                    lambda unit=unit, guest=guest: unit.keys.add(guest, key("c" * 12), DIGEST),
                ):
                    with pytest.raises(NotAllowed):
                        reach()
        with catalog.read() as unit:
            assert unit.keys.all(owner()) == [made]

    def test_a_projects_end_leaves_its_keys(self, catalog: Catalog, shelf: Shelf) -> None:
        made = key("a" * 12, projects=frozenset({shelf.id}))
        put(catalog, made)
        with catalog.write() as unit:
            unit.projects.remove(owner(), shelf.id)
        with catalog.read() as unit:
            assert unit.keys.get(owner(), made.id)[0] == made
