"""What an error advises can be done by whoever hears it: on the command line, over HTTP, with the tools."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import ragforge
from ragforge import Ragforge
from ragforge.interfaces.hints import HTTP, TOOLS, told
from ragforge.interfaces.http.policy import POLICY
from ragforge.interfaces.mcp import tools
from tests.forge import open_forge
from tests.serving import serving

OPERATOR = "whoever runs the server can help: "
COMMAND = re.compile(r"ragforge [a-z]|--[a-z]")
SOURCE = Path(ragforge.__file__).parent


def hints() -> Iterator[str]:
    """All that is written as a hint outside the command line; what is filled in stands as X."""
    for file in SOURCE.rglob("*.py"):
        if file.relative_to(SOURCE).parts[:2] == ("interfaces", "cli"):
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "hint":
                yield from filter(None, map(_text, ast.walk(node.value)))


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "X" for part in node.values)  # type: ignore[misc]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def test_no_hint_sends_a_caller_to_a_command_line_it_has_not() -> None:
    written = list(hints())
    assert len(written) > 150 and sum(bool(COMMAND.search(hint)) for hint in written) > 25
    for names in (HTTP, TOOLS):
        heard = [told(hint, names) for hint in written]
        assert not [hint for hint in heard if COMMAND.search(hint) and not hint.startswith(OPERATOR)]
        assert any(hint.startswith(OPERATOR) for hint in heard)


def test_what_is_named_instead_is_there() -> None:
    calls = [re.match(r"(GET|POST|PATCH|PUT|DELETE) (\S+)", name) for name in HTTP.values()]
    for call in filter(None, calls):
        assert (call[1], re.sub(r"artifacts/.*", "artifacts/{artifact}", call[2])) in POLICY
    assert set(TOOLS.values()) <= tools.TOOLS.keys()


@pytest.mark.parametrize(
    ("hint", "over_http", "with_tools"),
    [
        ("ragforge project ls shows what there is", "GET /v1/projects shows what there is", "list_projects shows what"),
        (
            "ragforge ls shows the files and their ids",
            "GET /v1/projects/{project}/files shows the files and their ids",
            "list_files shows the files and their ids",
        ),
        ("ragforge models pull minilm", OPERATOR + "ragforge models pull", OPERATOR + "ragforge models pull"),
        ("set OPENAI_API_KEY", OPERATOR, OPERATOR),
        ("set model.name", OPERATOR, OPERATOR),
        ('pip install "ragforge[mcp]"', OPERATOR, OPERATOR),
        ("use --k 10", "use `k` 10", OPERATOR),
        ("ragforge lsof is not ours", OPERATOR + "ragforge lsof", OPERATOR + "ragforge lsof"),
        ("put the question in other words", "put the question in other words", "put the question in other words"),
        ("", "", ""),
    ],
)
def test_a_hint_in_the_words_of_an_interface(hint: str, over_http: str, with_tools: str) -> None:
    assert told(hint, HTTP).startswith(over_http) and told(hint, TOOLS).startswith(with_tools)
    assert bool(told(hint, HTTP)) == bool(hint)


@pytest.fixture
def forge(swift_path: Path) -> Iterator[Ragforge]:
    with open_forge(swift_path / "workspace") as forge:
        yield forge


def test_over_http_hints_name_calls(forge: Ragforge) -> None:
    wanted = {
        ("GET", "/v1/projects/none"): "GET /v1/projects shows",
        ("GET", "/v1/projects/p/files/none"): "GET /v1/projects/{project}/files shows",
        ("GET", "/v1/projects/p/conversations/none"): "GET /v1/projects/{project}/conversations shows",
        ("GET", "/v1/projects/p/artifacts/none"): "GET /v1/projects/{project}/artifacts shows",
        ("GET", "/v1/projects/p/log/none"): "GET /v1/projects/{project}/log shows",
        ("GET", "/v1/projects/p/evaluations/none"): "POST /v1/projects/{project}/evaluations with",
        ("GET", "/v1/projects/p/questions/none"): "GET /v1/projects/{project}/questions shows",
        ("GET", "/v1/jobs/none"): "GET /v1/jobs shows",
        ("GET", "/v1/projects/p/lessons/staged/none"): "GET /v1/projects/{project}/lessons/staged shows",
        ("GET", "/v1/projects/p/lessons/patterns/none"): "GET /v1/projects/{project}/lessons/patterns shows",
    }
    with serving(forge) as url, httpx.Client(base_url=url, timeout=30) as client:
        for (method, path), hint in wanted.items():
            answer = client.request(method, path)
            assert answer.status_code == 404 and answer.json()["error"]["hint"].startswith(hint), answer.text
        assert client.put("/v1/projects").json()["error"]["hint"].startswith("GET /docs")
        strange = client.get("/v1/projects", headers={"Host": "elsewhere.example"})
        assert strange.json()["error"]["hint"].startswith(OPERATOR + "add it to server.hosts")
        chat = {"model": "ragforge/p", "messages": [{"role": "user", "content": "Why?"}], "temperature": 9}
        assert client.post("/v1/chat/completions", json=chat).json()["error"]["hint"].startswith("GET /docs")


def test_a_body_that_does_not_say_it_is_json(forge: Ragforge) -> None:
    """The commonest slip: `curl -d` without a type."""
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    with serving(forge) as url, httpx.Client(base_url=url, timeout=30) as client:
        for headers in (form, {}):
            answer = client.post("/v1/projects/p/search", content=b'{"question": "Why?"}', headers=headers)
            error = answer.json()["error"]
            assert (answer.status_code, error["message"]) == (422, "the body does not come as JSON")
            assert error["hint"] == "send it with Content-Type: application/json, as curl --json does"
        known = client.post("/v1/projects/p/search", json=[]).json()["error"]
        assert known["message"].startswith("body") and known["hint"].startswith("GET /docs")
