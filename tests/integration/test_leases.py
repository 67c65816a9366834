"""Leases on one Postgres go by its clock: machines have clocks of their own, and some are wrong."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator

import pytest

from ragforge.adapters.catalog.catalog import SqlCatalog
from ragforge.domain.library import Job
from ragforge.operate.access import owner
from ragforge.testing.postgres import TemporaryPostgres
from ragforge.testing.shelf import Shelf


@pytest.fixture
def skewed(postgres: TemporaryPostgres) -> Iterator[list[SqlCatalog]]:
    """Nodes whose clocks differ: one is right, one an hour ahead, one an hour behind."""
    url = postgres.create()
    catalogs = [
        SqlCatalog.connect(url, lambda by=by: dt.datetime.now(dt.UTC) + dt.timedelta(hours=by))  # type: ignore[misc]
        for by in (0, 1, -1)
    ]
    yield catalogs
    for catalog in catalogs:
        catalog.close()
    postgres.drop(url)


def test_no_clock_of_a_node_decides_whose_a_job_is(skewed: list[SqlCatalog]) -> None:
    shelf = Shelf.create(skewed[0])
    for holder in skewed:
        with holder.write() as unit:
            unit.jobs.enqueue(owner(), shelf.id, "add", [{}])
            job = unit.jobs.claim(owner(), "holder", ("add",), 60)
            assert job is not None
        for beaten in (False, True):
            if beaten:
                with holder.write() as unit:
                    assert unit.jobs.heartbeat(owner(), [job], 60, {})
            for other in skewed:
                with other.write() as unit:
                    assert not unit.jobs.waiting(owner(), ("add",))
                    assert unit.jobs.claim(owner(), "thief", ("add",), 60) is None
                    assert unit.jobs.reap(owner()) == 0
        with holder.write() as unit:
            assert unit.jobs.holds(owner(), [job])
            unit.jobs.finish(owner(), [job])


def test_a_lease_ends_and_a_rest_too_whatever_the_clock_of_a_node_says(skewed: list[SqlCatalog]) -> None:
    shelf = Shelf.create(skewed[0])
    for holder in skewed:
        for heir in skewed:
            with holder.write() as unit:
                (job,) = unit.jobs.enqueue(owner(), shelf.id, "add", [{}])
                held = unit.jobs.claim(owner(), "late", ("add",), 0.01)
                assert held is not None
            taken = _claimed_soon(heir)
            assert (taken.id, taken.attempts) == (job.id, 2)
            with heir.write() as unit:
                unit.jobs.release(owner(), [taken], "no room", 60)
            with holder.write() as unit:
                assert not unit.jobs.waiting(owner(), ("add",))
                assert unit.jobs.claim(owner(), "early", ("add",), 60) is None
                unit.jobs.cancel(owner(), job.id)


def _claimed_soon(catalog: SqlCatalog) -> Job:
    deadline = time.monotonic() + 10
    while True:
        with catalog.write() as unit:
            if unit.jobs.waiting(owner(), ("add",)) and (job := unit.jobs.claim(owner(), "heir", ("add",), 60)):
                return job
        assert time.monotonic() < deadline
        time.sleep(0.005)
