"""The acceptance tests on other stacks than the embedded one: RAGFORGE_TEST_STACK names it, and nothing else differs.

`python -m tests.stacks` runs them on each, `--quick` those alone that lean most on the catalog and the indexes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from ragforge import Ragforge, settings
from ragforge.settings import load
from ragforge.testing.postgres import TemporaryPostgres
from tests.databases import Databases
from tests.proof import PROOF, PROVE

VARIABLE = "RAGFORGE_TEST_STACK"
STACKS: Mapping[str, Mapping[str, str]] = {
    "postgres": {},
    "pgvector": {"index.vectors": "pgvector", "index.keywords": "postgres"},
}
"""Beside a catalog in Postgres, the settings that each has."""
EVERYTHING = ("I", "R", "Q", "K")
QUICK = ("I3_", "I14_", "I15_", "R1_", "R4_", "R6_", "R8_", "Q1_", "Q2_citations", "K_lessons")
"""Beginnings of test files, after `test_`."""
_LONG = "test_K8_exactly_what_is_a_year_old_goes_at_any_size"
"""Left out of the quick ones: it makes thousands of rows, with several round trips each."""

NAME = os.environ.get(VARIABLE, "")
"""The stack of this process; it is read once, as tests clear the variables of this name."""
_ROOT = Path(__file__).parents[1]


# -- while tests run: registered as a plugin if a stack is named


@pytest.fixture(scope="session", autouse=True)
def _databases(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    """A server, and a database on it for each workspace that this process or a child of it opens.

    They are of a user whom row-level security holds, as the deployment's is.
    """
    server: TemporaryPostgres = request.getfixturevalue("postgres")
    databases = Databases(_template(server, tmp_path_factory.mktemp("template")), STACKS[NAME])
    children = tmp_path_factory.mktemp("children")
    databases.write_child(children)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(settings, "_from_toml", settings._from_toml)  # to be undone
        patched.setenv("PYTHONPATH", str(children), prepend=os.pathsep)
        databases.install()
        yield databases


def _template(server: TemporaryPostgres, folder: Path) -> str:
    """A database with the tables of a catalog that holds nothing."""
    url = server.create()
    if "pgvector" in STACKS[NAME].values():
        server.add_vectors(url)
    with Ragforge.open(load(folder, flags={"the test": {"store.database_url": url}}, env={}, folder=folder)) as forge:
        assert forge.projects() == []
    return url


@pytest.fixture(autouse=True)
def _own_databases(_databases: Databases) -> Iterator[None]:
    """What a test made goes with it; what a module shares was there before."""
    before = _databases.names()
    yield
    _databases.drop(_databases.names() - before)


def pytest_configure() -> None:
    if NAME not in STACKS:
        raise pytest.UsageError(f"{VARIABLE} is one of {', '.join(STACKS)}, or not set")


def pytest_runtest_setup(item: pytest.Item) -> None:
    mark = item.get_closest_marker("embedded")
    if mark is not None and _is_elsewhere(**mark.kwargs):
        (reason,) = mark.args
        pytest.skip(f"only embedded: {reason}")


def _is_elsewhere(*, part: str) -> bool:
    """Whether the catalog or the indexes are in a database."""
    return {"catalog": True, "indexes": bool(STACKS[NAME])}[part]


# -- runs


class Run(NamedTuple):
    """How the tests went on one stack."""

    code: int
    """What pytest returned."""
    minutes: float


def run(chosen: Sequence[str], more: Sequence[str] = (), only: Collection[str] = tuple(STACKS)) -> dict[str, Run]:
    """Run the files with these beginnings on each stack, with the usual counts; `more` are arguments of pytest.

    What is about seconds is left out: it is measured on the embedded stack.
    """
    files = [str(path) for path in sorted((_ROOT / "tests" / "acceptance").glob("test_*.py")) if _is_of(path, chosen)]
    command = [sys.executable, "-m", "pytest", "-m", "not alone", "-n", "3", *more, *files]
    usual = {name: value for name, value in os.environ.items() if name not in (PROVE, PROOF)}
    runs = {}
    for stack in only:
        print(f"on the stack {stack}:", flush=True)
        began = time.monotonic()
        code = subprocess.run(command, cwd=_ROOT, env={**usual, VARIABLE: stack}, check=False).returncode
        runs[stack] = Run(code, round((time.monotonic() - began) / 60, 1))
    return runs


def _is_of(path: Path, chosen: Sequence[str]) -> bool:
    return path.stem.removeprefix("test_").startswith(tuple(chosen))


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="those alone that lean most on catalog and indexes")
    given, more = arguments.parse_known_args()
    runs = run(QUICK, ["-k", f"not {_LONG}", *more]) if given.quick else run(EVERYTHING, more)
    return 0 if all(each.code == 0 for each in runs.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
