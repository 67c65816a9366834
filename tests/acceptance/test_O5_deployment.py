"""`doctor --server`: whether several machines can work together, and how each of them is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.domain.library import Finding, Node
from ragforge.operate.deployment import machines
from ragforge.settings import load
from ragforge.testing.postgres import TemporaryPostgres
from tests.bad_servers import nobody
from tests.forge import open_forge


@pytest.fixture
def database(postgres: TemporaryPostgres) -> Iterator[str]:
    url = postgres.create()
    yield url
    postgres.drop(url)


def by_subject(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.subject: finding for finding in findings}


def test_O5_one_machine_alone_is_told_what_several_need(tmp_path: Path) -> None:
    with Ragforge.open(load(tmp_path / "workspace")) as forge:
        found = by_subject(forge.deployment())
    assert not found["catalog"].ok and "migrate" in found["catalog"].hint
    assert found["stored files"].warning and "store.blobs" in found["stored files"].hint


def test_O5_a_deployment_is_looked_at(tmp_path: Path, database: str) -> None:
    (tmp_path / "blobs").mkdir()
    settings = {
        "store__database_url": database,
        "store__blobs": str(tmp_path / "blobs"),
        "index__vectors": "pgvector",
        "index__keywords": "postgres",
    }
    with open_forge(tmp_path / "workspace", **settings) as forge:
        neighbour = forge.neighbour(serves=True)
        assert neighbour is not None
        neighbour._be_seen()
        found = by_subject(forge.deployment())
        assert all(finding.ok for finding in found.values()), found
        assert found["row-level security"].detail == "holds" and not found["row-level security"].warning
        assert "shared" in found["stored files"].detail
        assert found["index pgvector"].detail == found["index postgres"].detail == "answers"
        assert found["machines"].warning and "ragforge worker" in found["machines"].hint
        assert f"machine {forge._parts.node} (server)" in found
        assert list((tmp_path / "blobs").rglob("*-*/*")) == [], "what was tried out is gone"


def test_O5_a_server_that_is_away_is_named(tmp_path: Path, database: str) -> None:
    settings = {"store__database_url": database, "index__vectors": "qdrant", "index__url": nobody()}
    with open_forge(tmp_path / "workspace", **settings) as forge:
        found = by_subject(forge.deployment())
    assert not found["index qdrant"].ok and "does not answer" in found["index qdrant"].detail


def test_machines_that_are_silent_or_of_another_version_are_told() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    nodes = [
        Node("aa", "one", "server", "2", now),
        Node("bb", "two", "worker", "1", now - timedelta(seconds=30)),
        Node("cc", "three", "server", "1", now - timedelta(hours=3), behind=1_200),
    ]
    found = by_subject(list(machines(nodes, now)))
    assert found["machines"].detail == "1 serve, 1 work" and not found["machines"].warning
    assert found["versions"].warning and found["versions"].detail == "1, 2"
    assert not found["machine bb (worker)"].warning and found["machine cc (server)"].warning
    assert (
        "1,200 changes behind" in found["machine cc (server)"].detail
        and "2025-12-31 21:00" in found["machine cc (server)"].detail
    )
    assert not by_subject(list(machines([], now)))["machines"].ok
