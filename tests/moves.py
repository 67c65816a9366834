"""A workspace that has something of everything, what is in its catalog in plain SQL, and moves of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from ragforge import Ragforge
from ragforge.adapters.catalog import tables as t
from ragforge.domain.access import Role
from ragforge.domain.migration import MigrationReport
from ragforge.domain.records import ProjectTextKind
from ragforge.operate.access import owner
from ragforge.settings import Settings, load
from ragforge.testing.postgres import seeing_all
from ragforge.testing.records import artifact, source
from tests.forge import SMALL, fill

SAMPLES = Path(__file__).parents[1] / "src" / "ragforge" / "samples"
QUESTIONS = (
    "How long can a customer return a chair?",
    "Who pays for the way back?",
    "What does the delivery to Denmark cost?",
    "How heavy is the desk Sylt?",
    "Wie pflege ich Möbel aus Eiche?",
    "What did Mara Jensen say about the weekly round?",
    "When does the warehouse close?",
    "How many days of holiday does an employee have?",
    "What was the order from Kiel worth?",
    "Is the order 26-04417 complete?",
    "FJ-200",
    "twelve screws",
)
Rows = Mapping[str, list[tuple[Any, ...]]]


def settings_of(workspace: Path, env: Mapping[str, str] | None = None, **given: object) -> Settings:
    """As a user of this folder has them; nothing of this machine counts."""
    flags = {"embed.model": "wordllama", "learn.embedder": "wordllama"}
    flags |= {name.replace("__", "."): str(value) for name, value in given.items()}
    return load(workspace, flags={"the test": flags}, env=env or {}, folder=workspace.parent)


def opened(workspace: Path, env: Mapping[str, str] | None = None, **given: object) -> Ragforge:
    return Ragforge.open(settings_of(workspace, env, **given), create=False)


def furnished(workspace: Path) -> Path:
    """Files, a conversation, an interview, lessons, a made document, rules, a key, and work that waits."""
    with Ragforge.open(settings_of(workspace)) as forge:
        forge.create_project("default", embedder="wordllama")
        assert not forge.add(SAMPLES).failed
        talk = forge.begin_conversation("returns").id
        for question in QUESTIONS[:3]:
            forge.ask(question, conversation=talk)
        interview = forge.discovery.begin("Returns").id
        forge.discovery.say("We are Nordlicht, a maker of furniture, and returns are late.", interview)
        for number in range(3):
            forge.lessons.capture_failure(
                agent_type="backend",
                failure_description=f"The API cannot reach Postgres at localhost, attempt {number}.",
                solution_steps="Use the compose service name db as host.",
            )
        forge.lessons.checkpoint("phase")
        forge.lessons.capture("gate_approval", gate_type="design", approved_approach="a queue")
        forge.write_project_text(ProjectTextKind.HARD_RULES, "Be brief. Ä ☃ 漢字")
        forge.access().create("reader", Role.READER)
        forge.enqueue("rebuild", {})
        project, document = forge.project("default").id, forge.documents()[0].id
        with forge._parts.catalog.write() as c:
            c.artifacts.put(owner(), project, artifact(source(1, document)))
        list(forge.removing(["memo-2023-returns.txt"]))
    return workspace


def small(workspace: Path, files: int = 12) -> Path:
    """Many rows, made quickly."""
    with Ragforge.open(settings_of(workspace)) as forge:
        forge.create_project("default", strategy=SMALL, embedder="wordllama")
        assert not forge.add(fill(workspace.parent / "docs", files)).failed
    return workspace


def moved(to: str, workspace: Path, env: Mapping[str, str] | None = None, **options: Any) -> MigrationReport:
    *_, report = Ragforge.migrating(to, settings_of(workspace, env), **options)
    assert isinstance(report, MigrationReport)
    return report


def rows(place: Path | str) -> Rows:
    """Every row of a catalog in a file or on a server, as the tables' types read them."""
    engine = _engine(place)
    try:
        with engine.connect() as connection:
            return {
                table.name: sorted((tuple(row) for row in connection.execute(sa.select(table))), key=repr)
                for table in t.metadata.sorted_tables
            }
    finally:
        engine.dispose()


def change(place: Path | str, statement: str) -> None:
    engine = _engine(place)
    try:
        with engine.begin() as connection:
            connection.execute(sa.text(statement))
    finally:
        engine.dispose()


def _engine(place: Path | str) -> sa.Engine:
    if isinstance(place, str):
        address = seeing_all(place).partition("://")[2]
        return sa.create_engine(f"postgresql+psycopg://{address}", poolclass=sa.NullPool)
    import pysqlite3.dbapi2 as sqlite  # the catalog's own: two libraries in one process do not see each other's locks

    return sa.create_engine(f"sqlite:///{place}", module=sqlite, poolclass=sa.NullPool)
