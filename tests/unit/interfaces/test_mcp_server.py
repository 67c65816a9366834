"""The server of the tools, without a transport: who sees which, and what is told when one fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import TextContent

from ragforge import Ragforge
from ragforge.domain.access import MAY, AccessKey, Action, Clearance, Principal, Role
from ragforge.interfaces.mcp import server
from ragforge.interfaces.mcp.server import make_server
from ragforge.interfaces.mcp.tools import TOOLS, Call
from ragforge.operate.access import local
from tests.forge import open_forge


@pytest.fixture
def forge(swift_path: Path) -> Iterator[Ragforge]:
    with open_forge(swift_path / "workspace") as forge:
        yield forge


def asked(forge: Ragforge, principal: Principal, tool: str, **arguments: Any) -> tuple[set[str], str]:
    """The names of the tools in sight, and what one of them says."""

    async def callers(_: Any) -> tuple[Principal, Call]:
        return principal, Call(forge)

    async def script() -> tuple[set[str], str]:
        async with Client(make_server(callers)) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            (content,) = (await client.call_tool(tool, arguments)).content
            assert isinstance(content, TextContent)
            return names, content.text

    return anyio.run(script)


def test_a_role_sees_and_calls_only_its_tools(forge: Ragforge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TOOLS, "list_projects", Action.MANAGE)
    key = AccessKey("0" * 12, "k", Role.READER, None, Clearance.INTERNAL, forge.project("p").created_at)
    reader = Principal(local().scope, Role.READER, key)
    names, said = asked(forge, reader, "list_projects")
    mine = {name for name, action in TOOLS.items() if action in MAY[Role.READER]}
    assert names == mine and "list_projects" not in mine and "may not make or change projects" in said
    names, said = asked(forge, local(), "list_projects")
    assert names == TOOLS.keys() and '"project": "p"' in said


def test_a_fault_of_ours_is_told_without_its_details(
    forge: Ragforge, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "json_text", lambda _: 1 / 0)
    _, said = asked(forge, local(), "list_projects")
    assert said.startswith("something went wrong here") and "division" not in said
    assert "ZeroDivisionError" in caplog.text


def test_an_empty_workspace_says_what_to_do(forge: Ragforge) -> None:
    forge.remove_project("p")
    _, said = asked(forge, local(), "ask", question="?")
    assert said.endswith("Next: whoever runs the server can help: ragforge add PATH makes one")
    assert asked(forge, local(), "search", query="x")[1] == '{"results": [], "notice": ""}'


def test_a_name_may_end_like_a_place(forge: Ragforge, tmp_path: Path) -> None:
    for name in ("b@12", "b"):
        (tmp_path / name).write_text(f"Ingrid saw the badger at {name}.\n" * 2_500)
        assert not forge.add(tmp_path / name, project="p").failed
    for id, words, begins in (
        ("p/b@12", "at b@12.", True),
        ("p/b", "at b.", True),
        (f"p/{forge.document('b@12', project='p').id}@30000", "at b@12.", False),
    ):
        said = json.loads(asked(forge, local(), "fetch", id=id)[1])
        assert words in said["text"] and ("characters 0 to" in said["metadata"]["part"]) == begins, id


def test_hints_name_tools_or_who_can_help(forge: Ragforge) -> None:
    project = forge.project("p").slug
    for tool, arguments, hint in (
        ("list_files", {"project": "none"}, "list_projects shows what there is"),
        ("ask", {"project": "none", "question": "Why?"}, "list_projects shows what there is"),
        ("fetch", {"id": f"{project}/none"}, "list_files shows the files and their ids"),
        ("explain", {"project": project, "question": " "}, "ask something"),
    ):
        _, said = asked(forge, local(), tool, **arguments)
        assert f"Next: {hint}" in said, said
