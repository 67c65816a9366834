"""Secrets are planted wherever one can come in; none of them comes out in a log, an error, a metric or a backup."""

from __future__ import annotations

import io
import logging
import secrets
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from ragforge import Ragforge
from ragforge.domain.access import Role
from ragforge.operate.logs import known_secrets, logging_to
from ragforge.testing import model_server
from ragforge.testing.model_server import ModelServer
from tests.served import add_files, open_served
from tests.serving import serving

QUESTION = "How long may the chair of Quillon be returned?"
REFUSALS = (
    model_server.UNAUTHORIZED,
    model_server.FORBIDDEN,
    model_server.UNKNOWN_MODEL,
    model_server.QUOTA,
    model_server.SERVER_ERROR,
    model_server.GARBAGE,
    model_server.RESET,
)


class Planted:
    """One of each kind, made anew for every run."""

    def __init__(self) -> None:
        self.provider = f"sk-planted-{secrets.token_hex(16)}"
        self.plain = f"quite-ordinary-{secrets.token_hex(6)}"
        self.database = f"word-{secrets.token_hex(6)}"
        self.foreign = f"rf_{secrets.token_hex(6)}_{secrets.token_urlsafe(32)}"
        self.own = ""

    def all(self) -> list[str]:
        return [self.provider, self.plain, self.database, self.foreign, self.own]


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


@pytest.mark.parametrize("messages", [False, True])
def test_no_secret_comes_out(tmp_path: Path, planted: Planted, model: ModelServer, messages: bool) -> None:
    written = io.StringIO()
    with open_served(tmp_path / "ws", model) as forge:
        in_settings = replace(
            forge.settings, store=replace(forge.settings.store, database_url=f"postgresql://me:{planted.database}@db/")
        )
        add_files(forge, tmp_path / "docs", {"chairs.md": "# Chairs of Quillon\n\nA chair may be returned.\n"})
        _, planted.own = forge.access().create("operator", Role.ADMIN)
        known = known_secrets(in_settings, {"SOMEBODYS_TOKEN": planted.plain})
        assert planted.provider in known
        with logging_to(written, "text", known, messages=messages), serving(forge) as address:
            answers = traffic(address, planted, model)
            metrics = httpx.get(f"{address}/metrics", headers={"Authorization": f"Bearer {planted.own}"}).text
            log_everything(planted)
            broken(forge, address, planted)
        forge.backup(tmp_path / "b.zip")
        list(forge.exporting(tmp_path / "e.zip", project="p"))
    for archive in ("b.zip", "e.zip"):
        with zipfile.ZipFile(tmp_path / archive) as packed:
            held = b"".join(map(packed.read, packed.namelist())).decode()
        assert "Quillon" in held
        # what a client asked is the log's; nobody told it the others
        assert not any(secret in held for secret in (set(planted.all()) - {planted.plain}))
        assert planted.own[16:] not in held
    told = written.getvalue()
    assert told.count("request=") > len(REFUSALS) and "ragforge_http_requests_total{" in metrics
    for secret in planted.all():
        assert secret not in told and secret not in metrics
    assert not any(planted.provider in answer for answer in answers)  # others were sent by the client itself
    assert "Quillon" not in told and "Quillon" not in metrics and "chairs.md" not in told + metrics


def traffic(address: str, planted: Planted, model: ModelServer) -> list[str]:
    """What a careless client and a careless provider do; the errors that come back."""
    errors = []
    own = {"Authorization": f"Bearer {planted.own}"}
    ask = f"{address}/v1/projects/p/ask"
    with httpx.Client(timeout=30) as client:

        def send(method: str, url: str, **how: object) -> None:
            answer = client.request(method, url, **how)  # type: ignore[arg-type]
            errors.append(answer.text if answer.status_code >= 400 else "")
            assert answer.status_code != 500

        for refusal in REFUSALS:
            model.script(refusal)
            send("POST", ask, json={"question": QUESTION}, headers=own)
            model.script(refusal)
            send("POST", ask, json={"question": QUESTION}, headers={**own, "Accept": "text/event-stream"})
        for headers in (
            {"Authorization": f"Bearer {planted.foreign}"},
            {"Authorization": planted.plain},
            {"X-API-Key": planted.foreign},
            {"X-Request-ID": planted.foreign, **own},
            {"Cookie": f"session={planted.plain}", "Referer": f"https://x/?key={planted.plain}", **own},
        ):
            send("GET", f"{address}/v1/projects", headers=headers)
        for name in ("key", "api_key", planted.plain):
            send("GET", f"{address}/v1/projects?{name}={planted.plain}&limit={planted.foreign}", headers=own)
        send("GET", f"{address}/v1/projects/{planted.plain}", headers=own)
        send("GET", f"{address}/{planted.foreign}", headers=own)
        send("POST", ask, json={"question": 5, "key": planted.plain, planted.foreign: 1}, headers=own)
        send("POST", ask, content=f'{{"question": "{planted.plain}', headers=own)
        send("POST", ask, json={"question": f"What is {planted.plain}?", "model": "offline"}, headers=own)
    return errors


def log_everything(planted: Planted) -> None:
    """What a library could say."""
    for name in ("httpx", "openai", "mcp", "some.library"):
        logging.getLogger(name).warning("failed with %s at postgresql://me:%s@db/", planted.provider, planted.database)


def broken(forge: Ragforge, address: str, planted: Planted) -> None:
    """A fault of ours, whose words hold a secret."""
    before = Ragforge.search
    try:

        def search(self: Ragforge, *_: object, **__: object) -> None:
            raise RuntimeError(f"{planted.own} {planted.provider} {planted.plain} {planted.database}")

        Ragforge.search = search  # type: ignore[assignment,method-assign]
        answer = httpx.post(
            f"{address}/v1/projects/p/search",
            json={"question": QUESTION},
            headers={"Authorization": f"Bearer {planted.own}"},
        )
    finally:
        Ragforge.search = before  # type: ignore[method-assign]
    assert answer.status_code == 500 and not any(secret in answer.text for secret in planted.all())
