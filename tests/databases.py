"""A Postgres database for every workspace, whoever opens it: this process, or a child that knows its folder alone.

It stands where the workspace's own file of settings would name it, so a test or a user may still say otherwise.
Children load this module by its path when they start, so it imports little.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psycopg import Connection

    from ragforge.settings import Given

_PREFIX = "workspace_"
_CHILD = """\
import importlib.util
import sys

spec = importlib.util.spec_from_file_location("databases_of_workspaces", {module!r})
module = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = module
spec.loader.exec_module(module)
module.Databases({template!r}, {settings!r}).install()
"""


@dataclass(frozen=True)
class Databases:
    """Databases by the path of their workspace, each made when it is first asked for."""

    template: str
    """Address of the database that each is a copy of; nobody may be connected to it."""
    settings: Mapping[str, str]
    """What else every workspace has."""
    _made: set[str] = field(default_factory=set)

    def install(self) -> None:
        """From now on, settings that this process loads name the workspace's database."""
        from ragforge import settings

        original = settings._from_toml

        def from_toml(path: Path, *, required: bool) -> dict[str, Given]:
            if required:  # a file named by a flag, not the workspace's own
                return original(path, required=required)
            values = {"store.database_url": self.of(path.parent), **self.settings}
            usual = {key: settings.Given(value, "the stack of these tests", False) for key, value in values.items()}
            return usual | original(path, required=required)

        vars(settings)["_from_toml"] = from_toml

    def write_child(self, folder: Path) -> None:
        """A folder that makes a Python with it in PYTHONPATH do the same."""
        text = _CHILD.format(module=__file__, template=self.template, settings=dict(self.settings))
        (folder / "sitecustomize.py").write_text(text, encoding="utf-8")

    def of(self, workspace: Path) -> str:
        """The address of a workspace's database, which is there now."""
        name = _name(workspace)
        if name not in self._made:
            self._make(name)
            self._made.add(name)
        return self._address(name)

    def _make(self, name: str) -> None:
        import psycopg

        with self._server() as server:
            if server.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
                return
            # another process may be quicker
            with suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
                server.execute(
                    f'CREATE DATABASE "{name}" TEMPLATE "{_database(self.template)}" STRATEGY file_copy'.encode()
                )

    def names(self) -> set[str]:
        """All that workspaces have now."""
        with self._server() as server:
            found = server.execute("SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [_PREFIX])
            return {name for (name,) in found}

    def drop(self, names: Collection[str]) -> None:
        """Remove some, whoever is still connected."""
        with self._server() as server:
            for name in names:
                server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())
                self._made.discard(name)

    def _server(self) -> Connection[Any]:
        import psycopg

        return psycopg.connect(self._address("postgres"), autocommit=True)

    def _address(self, name: str) -> str:
        place, _, options = self.template.partition("?")
        return f"{place.rsplit('/', 1)[0]}/{name}?{options}"


def _name(workspace: Path) -> str:
    return _PREFIX + hashlib.sha256(str(workspace.resolve()).encode()).hexdigest()[:20]


def _database(address: str) -> str:
    return address.partition("?")[0].rsplit("/", 1)[1]
