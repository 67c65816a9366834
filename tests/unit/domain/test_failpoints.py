"""Failpoints fail only where and when a test asks, and never in an installation."""

from __future__ import annotations

import errno

import pytest

from ragforge import failpoints
from ragforge.errors import StoreError, UserError
from ragforge.failpoints import failpoint


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failpoints, "_passed", {})
    monkeypatch.delenv("RAGFORGE_FAILPOINT", raising=False)
    monkeypatch.setenv("RAGFORGE_TESTING", "1")


def test_without_an_order_nothing_happens() -> None:
    failpoint("here")


def test_only_at_its_name_and_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGFORGE_FAILPOINT", "here:raise@2")
    failpoint("there")
    failpoint("here")
    with pytest.raises(StoreError):
        failpoint("here")
    failpoint("here")


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGFORGE_FAILPOINT", "here:enospc")
    with pytest.raises(OSError) as refused:
        failpoint("here")
    assert refused.value.errno == errno.ENOSPC


def test_an_installation_refuses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGFORGE_FAILPOINT", "here:kill")
    monkeypatch.delenv("RAGFORGE_TESTING")
    with pytest.raises(UserError):
        failpoint("anywhere")
