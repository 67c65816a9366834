"""Other programs reach a workspace over the Model Context Protocol: the official client, over both transports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

from ragforge import Ragforge
from ragforge.domain.access import MAY, Role
from ragforge.interfaces.cli.main import main
from ragforge.interfaces.mcp.server import listed
from ragforge.interfaces.mcp.tools import BY_NAME, TOOLS
from ragforge.settings import load
from ragforge.testing.model_server import NORMAL, STALL_MIDWAY, ModelServer
from tests.forge import prose
from tests.proof import record
from tests.served import add_files, answers, open_served
from tests.serving import serving
from tests.shell import fill_workspace

FILES = {
    "returns.md": "# Returns\n\nThe refund window is thirty days. Chairs must be unused.\n",
    "long.md": prose(7, sentences=2_000),
}
QUESTION = "How long is the refund window?"
FAILURE: Any = {
    "failure_description": "The mail server refuses the address.",
    "solution_steps": "Write it without spaces.",
}
MODES = ("auto", "legacy")
"""The protocol without sessions, and the one with a handshake that clients of before speak."""


@dataclass
class Desk:
    """A server, the model behind it, and keys for it."""

    forge: Ragforge
    model: ModelServer
    url: str
    keys: dict[str, str]

    @asynccontextmanager
    async def client(self, key: str = "reader", mode: str = "auto") -> AsyncIterator[Client]:
        headers = {"Authorization": f"Bearer {self.keys.get(key, key)}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=30) as http,
            Client(streamable_http_client(f"{self.url}/mcp", http_client=http), mode=mode) as client,
        ):
            yield client


@pytest.fixture(scope="module")
def one_desk(memory_folder: Path | None) -> Iterator[Desk]:
    with (
        tempfile.TemporaryDirectory(dir=memory_folder) as folder,
        ModelServer() as model,
        open_served(Path(folder, "workspace"), model, learn__embedder="wordllama") as forge,
    ):
        add_files(forge, Path(folder, "docs"), FILES)
        learn(forge, "p")
        other = forge.create_project("Other", embedder="hashing")
        add_files(forge, Path(folder, "more"), {"refunds.md": "# Elsewhere\n\nA refund takes nine days.\n"}, "other")
        own = frozenset({forge.project("p").id})
        made = {
            "reader": (Role.READER, None),
            "other": (Role.READER, frozenset({other.id})),
            "own": (Role.ORCHESTRATOR, own),
        }
        access = forge.access()
        keys = {name: access.create(name, role, projects=reach)[1] for name, (role, reach) in made.items()}
        with serving(forge) as url:
            yield Desk(forge, model, url, keys)


@pytest.fixture
def desk(one_desk: Desk) -> Desk:
    """For tests that change nothing in it; its model begins anew."""
    one_desk.model.rest()
    one_desk.model.reply, one_desk.model.always, one_desk.model.always_forms = ModelServer.reply, NORMAL, NORMAL
    one_desk.model.calls.clear()
    one_desk.model.disconnects = 0
    return one_desk


def learn(forge: Ragforge, project: str) -> None:
    """One pattern."""
    forge.lessons.capture_failure(project=project, agent_type="backend", **FAILURE)
    forge.lessons.checkpoint(project=project)


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def given(result: CallToolResult) -> Any:
    """What a tool gave: the same as text and as data."""
    assert not result.is_error, text_of(result)
    assert json.loads(text_of(result)) == result.structured_content
    return result.structured_content


async def until(condition: Callable[[], object]) -> None:
    with anyio.fail_after(10):
        while not condition():
            await anyio.sleep(0.02)


# -- over HTTP


@pytest.mark.parametrize("mode", MODES)
def test_the_tools_are_listed_with_their_schemas(desk: Desk, mode: str) -> None:
    async def script() -> None:
        async with desk.client(mode=mode) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert client.instructions and "data" in client.instructions
        mine = {name for name, action in TOOLS.items() if action in MAY[Role.READER]}
        assert tools.keys() == mine and TOOLS.keys() == BY_NAME.keys()
        for tool in tools.values():
            assert tool.description and tool.annotations and tool.annotations.read_only_hint
            assert tool.input_schema["type"] == "object" and tool.output_schema["type"] == "object"  # type: ignore[index]
        for name, argument in (("search", "query"), ("fetch", "id")):
            assert tools[name].input_schema["required"] == [argument]
            assert tools[name].input_schema["properties"][argument]["type"] == "string"

    anyio.run(script)


@pytest.mark.parametrize("mode", MODES)
def test_search_then_fetch_as_connectors_do(desk: Desk, mode: str) -> None:
    async def script() -> None:
        async with desk.client("own", mode) as client:
            found = given(await client.call_tool("search", {"query": QUESTION}))["results"]
            assert {"id", "title", "url"} <= found[0].keys() and found[0]["title"].startswith("returns.md")
            whole = given(await client.call_tool("fetch", {"id": found[0]["id"]}))
        assert whole.keys() == {"id", "title", "text", "url", "metadata"} and whole["id"] == found[0]["id"]
        assert whole["text"].strip() == FILES["returns.md"].strip()
        assert whole["url"] == found[0]["url"] and whole["url"].startswith(desk.url)
        assert all(isinstance(value, str) for value in whole["metadata"].values())

    anyio.run(script)


def test_a_search_goes_through_every_project_in_reach_by_rank(desk: Desk) -> None:
    async def script() -> None:
        async with desk.client("reader") as client:
            both = given(await client.call_tool("search", {"query": "refund"}))["results"]
            assert {each["project"] for each in both[:2]} == {"p", "other"}
            projects = given(await client.call_tool("list_projects", {}))["projects"]
            assert {each["project"] for each in projects} == {"other", "p"}
        async with desk.client("other") as client:
            one = given(await client.call_tool("search", {"query": "refund"}))["results"]
            assert {each["project"] for each in one} == {"other"}

    anyio.run(script)


def test_of_a_long_file_every_part_can_be_had(desk: Desk) -> None:
    async def script() -> None:
        document = desk.forge.document("long.md", project="p")
        expected, read, next_id = desk.forge.text(document.id, project="p"), "", f"p/{document.id}"
        async with desk.client("own") as client:
            while next_id:
                part = given(await client.call_tool("fetch", {"id": next_id}))
                assert len(part["text"]) <= 50_000 and part["metadata"]["part"].endswith(f"of {len(expected):,}")
                read += part["text"]
                next_id = part["metadata"].get("next", "")
            assert len(expected) > 100_000 and read == expected
            middle = given(await client.call_tool("fetch", {"id": f"p/{document.id}@90000"}))["text"]
            assert expected[88_000:89_000] in middle

    anyio.run(script)


@pytest.mark.parametrize("mode", MODES)
def test_an_answer_is_cited_and_an_abstention_is_honest(desk: Desk, mode: str) -> None:
    async def script() -> None:
        async with desk.client("own", mode) as client:
            answer = given(await client.call_tool("ask", {"question": QUESTION}))
            assert (answer["kind"], answer["text"]) == ("answer", "The refund window is thirty days [1].")
            (cited,) = answer["citations"]
            assert cited["quote"] == "The refund window is thirty days." and cited["proved"]
            assert "thirty days" in given(await client.call_tool("fetch", {"id": cited["id"]}))["text"]
            none = given(await client.call_tool("ask", {"question": "Who painted zyxwv in Tondern?", "project": "p"}))
            assert none["kind"] == "abstention" and none["why"] and none["suggestion"]
            why = given(await client.call_tool("explain", {"question": QUESTION}))
            assert why["passages"][0]["title"].startswith("returns.md") and why["timings"]
            files = given(await client.call_tool("list_files", {}))
            assert {each["name"] for each in files["files"]} == set(FILES) and files["next"] is None

    anyio.run(script)
    assert desk.forge.logged("last", project="p").question  # what is asked here is in the log too


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("search", {}, "query"),
        ("search", {"query": ""}, "query"),
        ("search", {"query": "x", "k": 3}, "k"),
        ("search", {"query": ["x"]}, "query"),
        ("ask", {"question": "x" * 100_001}, "question"),
        ("ask", {"question": QUESTION}, "which project"),
        ("ask", {"question": QUESTION, "project": "nowhere"}, "nowhere"),
        ("list_files", {"project": "nowhere"}, "nowhere"),
        ("list_files", {"project": "p", "after": "p/gone"}, "page"),
        ("fetch", {"id": "p"}, "id"),
        ("fetch", {"id": "p/nothing"}, "nothing"),
        ("fetch", {"id": "p/../../etc/passwd"}, "passwd"),
        ("drop_table", {}, "there is no tool"),
    ],
)
def test_a_mistake_is_told_to_the_model_that_made_it(
    desk: Desk, mode: str, tool: str, arguments: dict[str, object], said: str
) -> None:
    async def script() -> None:
        async with desk.client("reader", mode) as client:
            result = await client.session.call_tool(tool, arguments)
            assert isinstance(result, CallToolResult) and result.is_error and said in text_of(result)
            assert "Next: " in text_of(result)

    anyio.run(script)


def test_another_projects_key_finds_nothing_of_this_one(desk: Desk) -> None:
    document = desk.forge.document("returns.md", project="p").id

    async def script() -> None:
        async with desk.client("other") as client:
            told = [text_of(await client.call_tool("fetch", {"id": f"{project}/{document}"})) for project in ("p", "q")]
            assert told[0].replace("'p'", "'q'") == told[1] and "returns" not in told[0]
            for tool in ("ask", "explain"):
                result = await client.call_tool(tool, {"question": QUESTION, "project": "p"})
                assert result.is_error and "thirty" not in text_of(result)
            assert (await client.call_tool("list_files", {"project": "p"})).is_error

    anyio.run(script)


@pytest.mark.parametrize("mode", MODES)
def test_without_a_key_that_works_nothing_is_said(desk: Desk, mode: str) -> None:
    async def script() -> None:
        with pytest.raises((MCPError, ExceptionGroup)):
            async with desk.client("wrong", mode) as client:
                await client.list_tools()

    anyio.run(script)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accept = {"Accept": "application/json, text/event-stream"}
    with httpx.Client(base_url=desk.url, headers=accept) as plain:
        assert plain.post("/mcp", json=body).status_code == 401
        authorised = accept | {"Authorization": f"Bearer {desk.keys['reader']}"}
        assert plain.post("/mcp", json=body, headers={**authorised, "Host": "evil.example"}).status_code == 421
        assert plain.post("/mcp", json=body, headers={**authorised, "Origin": "http://evil.example"}).status_code == 403
        assert plain.get("/mcp", headers=authorised).status_code == 405
        stolen = plain.post("/mcp", json=body, headers={**authorised, "Mcp-Session-Id": "0" * 32})
        assert "mcp-session-id" not in stolen.headers  # there are no sessions to take over


@pytest.mark.parametrize("mode", MODES)
def test_twenty_calls_at_once(desk: Desk, mode: str) -> None:
    async def script() -> None:
        async with desk.client("own", mode) as client:
            said: list[str] = []

            async def call(number: int) -> None:
                if number % 2:
                    said.append(given(await client.call_tool("ask", {"question": QUESTION}))["text"])
                else:
                    found = given(await client.call_tool("search", {"query": "refund window"}))["results"]
                    said.append(found[0]["title"])

            async with anyio.create_task_group() as tasks:
                for number in range(20):
                    tasks.start_soon(call, number)
        assert len(said) == 20 and len(set(said)) == 2

    anyio.run(script)


@pytest.mark.parametrize("mode", MODES)
def test_a_call_that_is_given_up_is_not_worked_on(desk: Desk, mode: str) -> None:
    """A client of today hangs up to give up; one of before when it leaves, as nothing relates its requests."""
    desk.model.always = STALL_MIDWAY

    async def script() -> None:
        async with desk.client("own", mode) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "ask", {"question": QUESTION})
            await until(lambda: answers(desk.model))
            tasks.cancel_scope.cancel()
            if mode == "auto":
                with anyio.CancelScope(shield=True):
                    await until(lambda: desk.model.disconnects)
        await until(lambda: desk.model.disconnects)
        desk.model.always = NORMAL
        async with desk.client("own", mode) as client:
            assert given(await client.call_tool("ask", {"question": QUESTION}))["kind"] == "answer"

    anyio.run(script)
    assert desk.model.disconnects == 1


@pytest.mark.parametrize("mode", MODES)
def test_a_revoked_key_ends_a_call(desk: Desk, mode: str) -> None:
    desk.model.always = STALL_MIDWAY
    access = desk.forge.access()
    key, secret = access.create("short-lived", Role.READER, projects=frozenset({desk.forge.project("p").id}))
    took: list[float] = []

    async def script() -> None:
        with pytest.raises((MCPError, ExceptionGroup)):
            async with desk.client(secret, mode) as client, anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "ask", {"question": QUESTION})
                await until(lambda: answers(desk.model))
                await anyio.to_thread.run_sync(access.revoke, key.id)
                took.append(time.monotonic())
                await anyio.sleep(10)
        await until(lambda: desk.model.disconnects)
        took.append(time.monotonic())

    anyio.run(script)
    assert desk.model.disconnects == 1 and took[1] - took[0] < 3


def test_every_tool_has_a_row_and_gives_what_it_lists(desk: Desk) -> None:
    assert TOOLS.keys() == BY_NAME.keys()
    for name in TOOLS:
        schema = listed(name).output_schema
        assert schema is not None and set(schema["required"]) == set(schema["properties"])


# -- over standard input and output


@pytest.fixture(scope="module")
def filled(memory_folder: Path | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=memory_folder) as folder:
        workspace = fill_workspace(Path(folder), {"returns.md": FILES["returns.md"]})
        with Ragforge.open(load(workspace, flags={"the test": {"learn.embedder": "wordllama"}})) as forge:
            learn(forge, "default")
        yield workspace


def command(workspace: Path, *more: str, **env: str) -> StdioServerParameters:
    path = {"PYTHONPATH": os.pathsep.join(sys.path), "RAGFORGE_EMBED__MODEL": "wordllama"}
    path |= {"RAGFORGE_LEARN__EMBEDDER": "wordllama"}
    arguments = ["-m", "ragforge.interfaces.cli.main", "-w", str(workspace), "mcp", *more]
    return StdioServerParameters(command=sys.executable, args=arguments, env={**path, **env}, cwd=workspace)


@asynccontextmanager
async def transport(desk: Desk, filled: Path, way: str) -> AsyncIterator[Client]:
    """A client over HTTP, in one of both protocols, or of a command that it starts."""
    if way == "stdio":
        async with Client(command(filled)) as client:
            yield client
    else:
        async with desk.client("own", way) as client:
            yield client


def test_the_script_of_an_assistant_runs_over_every_transport(desk: Desk, filled: Path) -> None:
    """Every tool, and a mistake."""
    results: list[CallToolResult] = []

    async def script(client: Client, project: str) -> None:
        async def call(tool: str, **arguments: object) -> Any:
            results.append(await client.call_tool(tool, arguments))
            return given(results[-1])

        assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS.keys()
        assert project in {each["project"] for each in (await call("list_projects"))["projects"]}
        files = (await call("list_files", project=project))["files"]
        assert "returns.md" in {each["name"] for each in files}
        found = (await call("search", query=QUESTION))["results"]
        whole = await call("fetch", id=found[0]["id"])
        where = desk.url if project == "p" else "ragforge://default/"
        assert "thirty days" in whole["text"] and whole["url"].startswith(where)
        assert (await call("explain", question=QUESTION, project=project))["passages"]
        answer = await call("ask", question=QUESTION, project=project)
        assert "thirty days" in answer["text"] and answer["citations"]
        told = await call(
            "lessons_capture", entry_type="failure_solution", agent_type="api", project=project, **FAILURE
        )
        assert not told["embedded"]
        (known,) = (await call("lessons_query", task=FAILURE["failure_description"], project=project))["patterns"]
        assert known["solution"] == FAILURE["solution_steps"]
        assert (await call("record_outcome", pattern=known["id"], success=True, project=project))["success"]
        mistake = await client.call_tool("search", {"query": ""})
        assert mistake.is_error and "Next: " in text_of(mistake)

    async def over(way: str) -> None:
        async with transport(desk, filled, way) as client:
            await script(client, "default" if way == "stdio" else "p")

    ways = (*MODES, "stdio")
    for way in ways:
        anyio.run(over, way)
    failed = sum(bool(result.is_error) for result in results)
    record("mcp_client", transports=len(ways), tools=len(TOOLS), calls=len(results), failed=failed)
    assert len(results) == len(ways) * len(TOOLS) and not failed


def test_a_key_narrows_what_the_command_reaches(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Ragforge.open(filled) as forge:
        other = forge.create_project("empty", embedder="wordllama")
        key, secret = forge.access().create("narrow", Role.READER, projects=frozenset({other.id}))

    async def script() -> None:
        async with Client(command(filled, RAGFORGE_KEY=secret)) as client:
            projects = given(await client.call_tool("list_projects", {}))["projects"]
            assert [each["project"] for each in projects] == ["empty"]
            with Ragforge.open(filled) as forge:
                forge.access().revoke(key.id)
            await anyio.sleep(0.6)
            refused = await client.call_tool("list_projects", {})
            assert refused.is_error and "key" in text_of(refused)

    anyio.run(script)
    assert main(["-w", str(filled), "mcp", "--key", "rf_wrong"]) == 6
    printed = capsys.readouterr()
    assert not printed.out and "no such key" in printed.err
    assert "RAGFORGE_KEY" in printed.err and "Bearer" not in printed.err


def test_standard_output_carries_the_protocol_alone(filled: Path) -> None:
    """Also when the client sends nonsense, and when it goes away."""
    lines = [
        "not json",
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "made/up"}),
        json.dumps(
            {
                "jsonrpc": "2.0",
                "id": 2,
                "method": "initialize",
                "params": {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {},
                    "clientInfo": {"name": "a test", "version": "1"},
                },
            }
        ),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json.dumps({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "list_projects"}}),
    ]
    parameters = command(filled)
    process = subprocess.Popen(
        [parameters.command, *parameters.args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(parameters.env or {})},
    )
    assert process.stdin and process.stdout
    process.stdin.write("\n".join(lines) + "\n")
    process.stdin.flush()
    printed: list[dict[str, Any]] = []
    while not any(each.get("id") == 3 for each in printed):
        printed.append(json.loads(process.stdout.readline()))
    rest, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in rest.splitlines())
    assert all(each["jsonrpc"] == "2.0" for each in printed)


def test_ctrl_c_ends_it_at_once(filled: Path) -> None:
    parameters = command(filled)
    process = subprocess.Popen(
        [parameters.command, *parameters.args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(parameters.env or {})},
    )
    assert process.stderr
    assert "Waiting" in process.stderr.readline()
    process.send_signal(2)
    assert process.wait(5) == 130
    process.communicate()
