"""Secrets are planted wherever one can come in; none of them comes out in a log, an error, a metric or a backup."""

from __future__ import annotations

import io
import json
import logging
import secrets
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import httpx
import pytest

from ragforge import Ragforge
from ragforge.domain.access import Role
from ragforge.operate.logs import known_secrets, logging_to
from ragforge.settings import load
from ragforge.testing import model_server
from ragforge.testing.model_server import ModelServer
from ragforge.testing.postgres import TemporaryPostgres
from tests.forge import places_of
from tests.process import serve
from tests.proof import record
from tests.served import add_files, open_served
from tests.serving import serving

QUESTION = "How long may the chair of Quillon be returned?"
CHAIRS = {"chairs.md": "# Chairs of Quillon\n\nA chair may be returned.\n"}
REFUSALS = (
    model_server.UNAUTHORIZED,
    model_server.FORBIDDEN,
    model_server.UNKNOWN_MODEL,
    model_server.QUOTA,
    model_server.SERVER_ERROR,
    model_server.GARBAGE,
    model_server.RESET,
)


@dataclass
class Planted:
    """One of each kind, made anew for every run."""

    provider: str = field(default_factory=lambda: f"sk-planted-{secrets.token_hex(16)}")
    """In the variable of the provider's key."""
    plain: str = field(default_factory=lambda: f"quite-ordinary-{secrets.token_hex(6)}")
    """In a variable whose name says that it is a secret."""
    database: str = field(default_factory=lambda: f"word-{secrets.token_hex(6)}")
    """The password of the database that holds the catalog."""
    proxy: str = field(default_factory=lambda: f"gate-{secrets.token_hex(6)}")
    """The password of the proxy on the way to the model, in the workspace's own file."""
    foreign: str = field(default_factory=lambda: f"rf_{secrets.token_hex(6)}_{secrets.token_urlsafe(32)}")
    """A key of another server."""
    own: str = ""
    """A key of this one."""
    asked: str = field(default_factory=lambda: f"harmless-{secrets.token_hex(6)}")
    """No secret, but a word of a question: the query log has it, and what the server writes has not."""

    def all(self) -> dict[str, str]:
        return {name: value for name, value in vars(self).items() if name != "asked"}

    def within(self, text: str, but: str = "") -> list[str]:
        """Which of them are in it, and not in the other."""
        found = [name for name, value in self.all().items() if value in text and value not in but]
        return found + (["own, without its id"] if self.own[16:] in text and self.own not in text else [])


@dataclass
class Answer:
    """What came back, and what of the request may be told again."""

    status: int
    told: str
    said: str


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Planted:
    planted = Planted()
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", planted.provider)
    monkeypatch.setenv("SOMEBODYS_TOKEN", planted.plain)
    return planted


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def database(postgres: TemporaryPostgres, planted: Planted) -> Iterator[str]:
    """An address with a password in it, as a database has one that is not on this machine."""
    url = postgres.create()
    user, _, place = url.removeprefix("postgresql://").partition("@")
    yield f"postgresql://{user}:{planted.database}@{place}"
    postgres.drop(url)


def write_settings(workspace: Path, planted: Planted, model: ModelServer) -> None:
    """The model's server stands for the proxy too."""
    workspace.mkdir()
    (workspace / "ragforge.toml").write_text(f'[model]\nproxy = "http://me:{planted.proxy}@{model.host}"\n')


@pytest.mark.parametrize("messages", [False, True])
def test_no_secret_comes_out(
    tmp_path: Path, planted: Planted, model: ModelServer, database: str, messages: bool
) -> None:
    written = io.StringIO()
    write_settings(tmp_path / "ws", planted, model)
    with open_served(tmp_path / "ws", model, store__database_url=database) as forge:
        add_files(forge, tmp_path / "docs", CHAIRS)
        _, planted.own = forge.access().create("operator", Role.ADMIN)
        known = known_secrets(forge.settings, {"SOMEBODYS_TOKEN": planted.plain})
        assert {planted.provider, planted.plain, planted.database} <= set(known)
        with logging_to(written, "text", known, messages=messages), serving(forge) as address:
            answers = traffic(f"{address}/v1/projects/p", planted, model)
            metrics = httpx.get(f"{address}/metrics", headers=bearer(planted.own)).text
            log_everything(planted)
            answers.append(broken(address, planted))
        forge.backup(tmp_path / "b.zip")
        list(forge.exporting(tmp_path / "e.zip", project="p"))
    archives = {name: unpacked(tmp_path / name) for name in ("b.zip", "e.zip")}
    assert all("Quillon" in held for held in archives.values())
    assert planted.asked in archives["b.zip"], "the query log is in it, and what clients said"
    log = written.getvalue()
    assert log.count("request=") > len(REFUSALS) and "ragforge_http_requests_total{" in metrics
    hits = in_answers(planted, answers)
    for place, text in {"log": log, "metrics": metrics, **archives}.items():
        hits += [f"{place}: {name}" for name in planted.within(text)]
    name = "planted_secrets_in_debug" if messages else "planted_secrets"
    record(name, planted=len(planted.all()), answers=len(answers), log_lines=log.count("\n"), hits=len(hits))
    assert not hits
    for private in ("Quillon", "chairs.md", planted.asked):
        assert private not in log and private not in metrics


def test_no_secret_comes_out_of_a_process(tmp_path: Path, planted: Planted, model: ModelServer, database: str) -> None:
    """The same of a command that is started with all of them, as an operator starts it."""
    workspace, docs = tmp_path / "ws", tmp_path / "docs"
    write_settings(workspace, planted, model)
    variables = {
        "RAGFORGE_EMBED__MODEL": "wordllama",
        "RAGFORGE_MODEL__NAME": "openai-compatible:stub",
        "RAGFORGE_MODEL__BASE_URL": model.base_url,
        "RAGFORGE_STORE__DATABASE_URL": database,
        "OPENAI_COMPATIBLE_API_KEY": planted.provider,
        "SOMEBODYS_TOKEN": planted.plain,
    }
    with Ragforge.open(load(workspace, env=variables, folder=tmp_path)) as forge:
        add_files(forge, docs, CHAIRS, project="default")
        _, planted.own = forge.access().create("operator", Role.ADMIN)
    with serve(workspace, "--debug", variables=variables) as server:
        address = server.address
        answers = traffic(f"{address}/v1/projects/default", planted, model)
        upload = f"{address}/v1/projects/default/files?wait=60&name={planted.asked}.md"
        assert httpx.post(upload, content=b"# More\n\nWords.\n", headers=bearer(planted.own), timeout=90).is_success
        metrics = httpx.get(f"{address}/metrics", headers=bearer(planted.own)).text
        command = Path(f"/proc/{server.process.pid}/cmdline").read_text()  # which everybody on the machine can read
    log = "\n".join(server.lines)
    assert "serve" in command and log.count('"request"') > len(REFUSALS) and "ragforge_http_requests_total{" in metrics
    hits = in_answers(planted, answers)
    for place, text in {"log": log, "metrics": metrics, "command line": command}.items():
        hits += [f"{place}: {name}" for name in planted.within(text)]
    for name, value in planted.all().items():
        hits += [f"{place}: {name}" for place in places_of(value.encode(), workspace) if place != "ragforge.toml"]
    record("planted_secrets_of_a_process", planted=len(planted.all()), answers=len(answers), hits=len(hits))
    assert not hits
    for private in ("Quillon", "chairs.md", planted.asked):
        assert private not in log and private not in metrics


def in_answers(planted: Planted, answers: list[Answer]) -> list[str]:
    """What a client was told that it had not said itself; a key it never hears again."""
    return [f"{name} in {answer.told[:200]}" for answer in answers for name in planted.within(answer.told, answer.said)]


def unpacked(archive: Path) -> str:
    with zipfile.ZipFile(archive) as packed:
        return b"".join(map(packed.read, packed.namelist())).decode()


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def answer_of(response: httpx.Response) -> Answer:
    """With its headers. What stands in an address, a body or a request's id may be told to whoever sent it."""
    request = response.request
    said = [unquote(str(request.url)), request.content.decode(), request.headers.get("X-Request-ID", "")]
    return Answer(response.status_code, f"{response.headers}\n{response.text}", "\n".join(said))


def traffic(project: str, planted: Planted, model: ModelServer) -> list[Answer]:
    """What a careless client and a careless provider do, and what comes back."""
    answers: list[Answer] = []
    own, ask, everything = bearer(planted.own), f"{project}/ask", project.rpartition("/")[0]
    with httpx.Client(timeout=30) as client:

        def send(method: str, url: str, **how: object) -> None:
            answers.append(answer_of(client.request(method, url, **how)))  # type: ignore[arg-type]
            assert answers[-1].status != 500

        for refusal in REFUSALS:
            model.script(refusal)
            send("POST", ask, json={"question": QUESTION}, headers=own)
            model.script(refusal)
            send("POST", ask, json={"question": QUESTION}, headers={**own, "Accept": "text/event-stream"})
        for headers in (
            bearer(planted.foreign),
            bearer(planted.provider),
            {"Authorization": planted.plain},
            {"X-API-Key": planted.foreign},
            {"X-API-Key": f"{planted.own}x"},
            {"X-Request-ID": planted.foreign, **own},
            {"X-Request-ID": planted.own[:60], **own},
            {"Cookie": f"session={planted.plain}", "Referer": f"https://x/?key={planted.plain}", **own},
        ):
            send("GET", everything, headers=headers)
        for name in ("key", "api_key", planted.plain):
            send("GET", f"{everything}?{name}={planted.plain}&limit={planted.foreign}", headers=own)
        send("GET", f"{everything}/{planted.plain}", headers=own)
        send("GET", f"{everything.removesuffix('/v1/projects')}/{planted.foreign}", headers=own)
        send("POST", ask, json={"question": 5, "key": planted.plain, planted.foreign: 1}, headers=own)
        send("POST", ask, content=f'{{"question": "{planted.plain}', headers=own)
        send("POST", ask, json={"question": f"What is {planted.asked}?", "model": "offline"}, headers=own)
        send("POST", ask, json={"question": QUESTION}, headers=own)
    assert len(model.calls) > len(REFUSALS) and all("proxy-authorization" in call.headers for call in model.calls)
    assert {answer.status for answer in answers} >= {200, 401, 404, 422}
    return answers


def log_everything(planted: Planted) -> None:
    """What a library could say."""
    for name in ("httpx", "openai", "mcp", "some.library"):
        logging.getLogger(name).warning("failed with %s at postgresql://me:%s@db/", planted.provider, planted.database)
        logging.getLogger(name).warning("no way through http://me:%s@proxy/", planted.proxy)


def broken(address: str, planted: Planted) -> Answer:
    """A fault of ours, whose words hold every secret."""
    before = Ragforge.search
    try:

        def search(self: Ragforge, *_: object, **__: object) -> None:
            raise RuntimeError(json.dumps(planted.all()))

        Ragforge.search = search  # type: ignore[assignment,method-assign]
        answer = httpx.post(f"{address}/v1/projects/p/search", json={"question": QUESTION}, headers=bearer(planted.own))
    finally:
        Ragforge.search = before  # type: ignore[method-assign]
    assert answer.status_code == 500
    return answer_of(answer)
