"""Which tables Postgres itself keeps apart by project: a new one is named here, or has a policy."""

from __future__ import annotations

import datetime as dt

import psycopg

from ragforge.adapters.catalog.catalog import SqlCatalog
from ragforge.testing.postgres import TemporaryPostgres

OF_NO_PROJECT = {"access_keys", "alembic_version", "counters", "embedders", "nodes", "projects", "tombstones"}
OF_ALL_PROJECTS = {
    "knowledge_calibrations",
    "knowledge_clock",
    "knowledge_facets",
    "knowledge_outcomes",
    "knowledge_patterns",
    "knowledge_staging",
    "knowledge_vectors",
}
"""Lessons: sharing them is what they are for."""


def test_every_table_of_projects_has_a_policy(postgres: TemporaryPostgres) -> None:
    url = postgres.create()
    SqlCatalog.connect(url, lambda: dt.datetime.now(dt.UTC)).close()
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
            " AND NOT (relrowsecurity AND relforcerowsecurity"
            " AND EXISTS (SELECT FROM pg_policy WHERE polrelid = pg_class.oid))"
        ).fetchall()
    assert {name for (name,) in found} == OF_NO_PROJECT | OF_ALL_PROJECTS
    postgres.drop(url)
