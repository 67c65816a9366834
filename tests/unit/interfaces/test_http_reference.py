"""The page of routes: all of them, nothing from elsewhere, and no text that acts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest

from ragforge.interfaces.http.policy import POLICY
from ragforge.interfaces.http.reference import page
from tests.forge import open_forge
from tests.serving import serving


class Page(HTMLParser):
    """What stands on a page: its text, its anchors, where its links lead, its elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.anchors: list[str] = []
        self.links: list[str] = []
        self.elements: set[str] = set()
        self.feed(text)
        self.text = " ".join("".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.words.append(" " if tag in ("p", "td", "li", "h2", "h3", "pre") else "")
        self.anchors += [value or "" for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "action")]
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with open_forge(tmp_path_factory.mktemp("reference") / "ws") as forge, serving(forge) as address:
        yield address


@pytest.fixture(scope="module")
def answers(address: str) -> tuple[httpx.Response, dict[str, Any]]:
    return httpx.get(f"{address}/docs", timeout=30), httpx.get(f"{address}/openapi.json", timeout=30).json()


def test_every_route_and_every_row_is_on_it(answers: tuple[httpx.Response, dict[str, Any]]) -> None:
    response, schema = answers
    told = Page(response.text)
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    routes = [(method.upper(), path, each) for path, all in schema["paths"].items() for method, each in all.items()]
    for method, path, each in routes:
        assert f"{method} {path}" in told.text
        assert all(field["name"] in told.text for field in each.get("parameters", ()))
    for method, path in POLICY:
        assert f"{method} {path.replace(':path', '')}" in told.text
    for shape in schema["components"]["schemas"].values():
        assert all(field in told.text for field in shape.get("properties", ()))
    assert "POST /v1/projects keys of the role admin Make" in told.text and "GET /v1/projects every key " in told.text
    assert "GET /healthz everybody, also without a key " in told.text
    assert "GET /metrics keys of the role admin, for all projects " in told.text
    assert "question string needed" in told.text
    asked = """curl -H "Authorization: Bearer $KEY" --json '{"question": "…"}' "$SERVER/v1/projects/PROJECT/ask\""""
    assert asked in told.text and told.text.count("curl ") == len(routes)


def test_each_route_says_in_a_line_what_it_does(answers: tuple[httpx.Response, dict[str, Any]]) -> None:
    response, schema = answers
    routes = [each for methods in schema["paths"].values() for each in methods.values()]
    summaries = [each["summary"] for each in routes]
    assert len(set(summaries)) == len(summaries)
    assert all(each["description"].startswith(each["summary"]) and " " in each["summary"] for each in routes)
    contents = Page(response.text.partition("<nav>")[2].partition("</nav>")[0]).text
    assert all(summary.replace("`", "") in contents for summary in summaries)


def test_errors_that_any_route_has_are_told_once(answers: tuple[httpx.Response, dict[str, Any]]) -> None:
    told = Page(answers[0].text)
    assert "#errors" in told.links and not [each for each in told.links if each.startswith("#error-")]
    assert {"error-401", "error-507"} <= set(told.anchors)


def test_the_bare_address_leads_to_it(address: str) -> None:
    answer = httpx.get(address)
    assert (answer.status_code, answer.headers["location"]) == (307, "docs")
    assert httpx.get(address, follow_redirects=True).url.path == "/docs"


def test_nothing_comes_from_elsewhere(answers: tuple[httpx.Response, dict[str, Any]]) -> None:
    response, _ = answers
    told = Page(response.text)
    assert not re.search(r"(?:https?:)?//\w", response.text)
    assert not told.elements & {"script", "link", "img", "iframe", "form", "object", "embed"}
    assert set(told.links) - {"openapi.json"} <= {f"#{anchor}" for anchor in told.anchors}
    assert len(set(told.anchors)) == len(told.anchors)
    rules = response.headers["content-security-policy"]
    assert rules.startswith("default-src 'none'; style-src 'sha256-") and "unsafe" not in rules


def test_no_text_acts() -> None:
    evil = "<script>alert('1')</script>\"'&"
    field = {"type": evil, "description": evil, "default": evil}
    told: dict[str, Any] = {
        "tags": [evil],
        "description": f"{evil} `{evil}`",
        "parameters": [{"name": evil, "in": "query", "required": True, "schema": field}],
        "requestBody": {"content": {evil: {"schema": {"$ref": f"#/components/schemas/{evil}"}}}},
        "responses": {"200": {"description": evil, "content": {evil: {"schema": {"enum": [evil]}}}}},
    }
    schema = {
        "info": {"title": evil, "version": evil},
        "paths": {f"/{evil}": {"post": told}},
        "components": {"schemas": {evil: {"properties": {evil: field}, "required": [evil], "description": evil}}},
    }
    shown = page(schema)
    parsed = Page(shown)
    assert "script" not in parsed.elements and "<script" not in shown
    assert parsed.text.count("<script>alert('1')</script>") >= 10
    assert json.dumps(evil)[1:-1] in parsed.text
