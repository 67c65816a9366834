"""`keys` as a person and a program use it."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import get_args

import pytest

from ragforge.build import utc_now
from ragforge.domain.access import Clearance, Role
from ragforge.interfaces.cli.keys import ClearanceName, RoleName
from tests.shell import Shell


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    made = Shell(tmp_path / "workspace", capsys)
    made.run("project", "new", "Manuals", "--embedder", "wordllama")
    return made


def test_a_key_is_printed_once_and_alone(shell: Shell) -> None:
    done = shell.run("keys", "new", "support desk", "--role", "editor", "-p", "manuals", "--expires", "30d")
    assert re.fullmatch(r"rf_[0-9a-f]{12}_[\w-]{43}\n", done.stdout)
    assert "editor of manuals, up to internal files, until" in done.stderr and "shown this once" in done.stderr
    secret = done.stdout.strip()
    assert secret not in shell.run("keys", "ls").stdout and secret not in shell.run("keys", "ls", "--json").stdout
    with shell.forge() as forge:
        who = forge.access().resolve(secret)
        assert who.scope.projects == frozenset({forge.project("manuals").id}) and who.role is Role.EDITOR
        assert who.key and who.key.expires_at
        assert timedelta(days=29, hours=23) < who.key.expires_at - utc_now() <= timedelta(days=30)


def test_a_program_gets_everything_as_json(shell: Shell) -> None:
    limits = ("--per-minute", "60", "--at-once", "4", "--tokens-per-day", "1000", "--cost-per-day", "$2.50")
    made = shell.json("keys", "new", "bot", "--clearance", "restricted", *limits, "--expires", "2999-01-01")
    assert made["key"]["limits"] == {
        "requests_per_minute": 60,
        "concurrent": 4,
        "tokens_per_day": 1000,
        "cost_per_day": 2.5,
    }
    assert made["key"]["projects"] is None and made["key"]["clearance"] == "restricted"
    assert datetime.fromisoformat(made["key"]["expires_at"]).tzinfo is not None
    (listed,) = shell.json("keys", "ls")["keys"]
    assert listed == {"key": made["key"], "state": "works", "reaches": None}
    cleared = {
        role: shell.json("keys", "new", role, "--role", role)["key"]["clearance"] for role in ("admin", "editor")
    }
    assert cleared == {"admin": "restricted", "editor": "internal"}
    with shell.forge() as forge:
        assert forge.access().resolve(made["secret"]).scope.clearance is Clearance.RESTRICTED


def test_a_key_is_revoked_by_the_beginning_of_its_id(shell: Shell) -> None:
    one, two = (shell.json("keys", "new", name) for name in ("one", "two"))
    assert one["key"]["id"] in shell.run("keys", "revoke", one["key"]["id"][:8]).stderr
    states = {each["key"]["name"]: each["state"] for each in shell.json("keys", "ls")["keys"]}
    assert states == {"one": "revoked", "two": "works"}
    assert "revoked" in shell.run("keys", "ls").stdout
    again = shell.json("keys", "revoke", one["key"]["id"])
    assert again["key"]["revoked_at"]
    with shell.forge() as forge:
        made = forge.access().keys()
        assert [key.revoked_at is None for key in made if key.id == two["key"]["id"]] == [True]


def test_a_removed_project_leaves_a_key_that_reaches_nothing(shell: Shell) -> None:
    shell.run("keys", "new", "k", "-p", "manuals")
    shell.run("project", "rm", "manuals", "--yes")
    assert "none that is left" in shell.run("keys", "ls").stdout
    assert shell.json("keys", "ls")["keys"][0]["reaches"] == []


def test_mistakes_say_what_to_do_next(shell: Shell) -> None:
    assert "There are no keys" in shell.run("keys", "ls").stderr
    assert "ragforge project ls" in shell.run("keys", "new", "k", "-p", "nowhere", code=5).stderr
    assert "in the future" in shell.run("keys", "new", "k", "--expires", "2020-01-01", code=2).stderr
    assert "2027-05-01" in shell.run("keys", "new", "k", "--expires", "soon", code=2).stderr
    assert "2.50" in shell.run("keys", "new", "k", "--cost-per-day", "much", code=2).stderr
    assert "1 to 100" in shell.run("keys", "new", " ", code=2).stderr
    assert "ragforge keys ls" in shell.run("keys", "revoke", "nothing", code=5).stderr
    shell.run("keys", "new", "k", "--role", "king", code=2)
    shell.run("keys", "new", "k", "--per-minute", "-1", code=2)
    assert shell.json("keys", "ls") == {"keys": []}
    assert "no key" in shell.run("keys", "revoke", "", code=5).stderr


def test_every_role_and_clearance_can_be_given() -> None:
    assert get_args(RoleName) == tuple(role.value for role in Role)
    assert get_args(ClearanceName) == tuple(level.name.lower() for level in Clearance)
