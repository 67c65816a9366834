"""`/docs`: every route on one page, made from the schema and the policy. It needs no script and no other server."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ragforge.domain.access import MAY, Action
from ragforge.interfaces.http.errors import ERRORS
from ragforge.interfaces.http.policy import POLICY, row_of

Schema = Mapping[str, Any]

_SHAPES, _ERROR = "#/components/schemas/", {"$ref": "#/components/schemas/ErrorShape"}
_OTHERS = {
    "/": "Leads to this page",
    "/docs": "This page",
    "/openapi.json": "The same for programs",
    "/v1/projects/{project}/chat": "A conversation over a WebSocket: questions in, the events of `ask` out",
    "/mcp": "The Model Context Protocol: the tools of assistants",
}
"""What the schema has no place for."""
_STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #5d646d; --line: #d9dde2; --code: #f3f5f7; --link: #0b57a4 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e3e6ea; --soft: #9aa3ad; --line: #343a41; --code: #1f242a; --link: #7db8f5; background: #15181c } }
body { margin: 0 auto; max-width: 68rem; padding: 1rem 1.5rem 6rem; color: var(--ink); font: 16px/1.5 sans-serif;
  overflow-wrap: break-word }
a { color: var(--link); text-decoration: none } a:hover { text-decoration: underline } p { margin: 0.4rem 0 }
code, pre { font: 0.875em/1.5 ui-monospace, monospace; background: var(--code); border-radius: 4px }
code { padding: 0.1em 0.3em } pre { padding: 0.6em 1em; overflow-x: auto } nav code, h3 code { all: unset }
h2 { margin-top: 3rem; border-bottom: 1px solid var(--line) } h3 { margin: 2.4rem 0 0; font-size: 1.05rem }
nav ul { columns: 28rem; padding: 0 0 0 1rem; list-style: none; margin: 0.1rem 0 0.8rem; font-size: 0.9em }
nav li { break-inside: avoid; margin-bottom: 0.4rem } nav li p { margin: 0; color: var(--soft) }
.soft, th { color: var(--soft); font-weight: 400 } td p { margin: 0 } :target { background: var(--code) }
table { display: block; overflow-x: auto; border-collapse: collapse; margin: 0.5rem 0; text-align: left }
td, th { padding: 0.25rem 1.2rem 0.25rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
"""
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_RULES = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

router = APIRouter()


@router.get("/docs", include_in_schema=False)
def docs(request: Request) -> Response:
    """The page, which is made once."""
    return HTMLResponse(request.app.state.reference(), headers={"Content-Security-Policy": _RULES})


@router.get("/", include_in_schema=False)
def front() -> Response:
    """Whoever opens the server's address in a browser is led to the page."""
    return RedirectResponse("docs")


def page(schema: Schema) -> str:
    """All of it."""
    title, version, shapes = schema["info"]["title"], schema["info"]["version"], schema["components"]["schemas"]
    groups: dict[str, list[tuple[str, str, Schema]]] = {}
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            groups.setdefault((route.get("tags") or ["other"])[0], []).append((method.upper(), path, route))
    chapters = {tag: "".join(_operation(*each, shapes) for each in routes) for tag, routes in groups.items()}
    chapters |= _last([each for routes in groups.values() for each in routes], shapes)
    contents = told = ""
    for tag, chapter in chapters.items():
        listed = "".join(_listed(*each) for each in groups.get(tag, ()))
        contents += f"{_link(tag, escape(tag))}<ul>{listed}</ul>"
        told += f"<h2 id='{_anchor(tag)}'>{escape(tag)}</h2>{chapter}"
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><h1>{escape(f'{title} {version}')}</h1>"
        "<p>Where there are keys, each request carries one. In the examples <code>$KEY</code> is yours, "
        "<code>$SERVER</code> is the address of this server, and words in capitals are to be filled in. "
        f"For programs: <a href='openapi.json'>openapi.json</a>.</p><nav>{contents}</nav>{told}</body></html>"
    )


def _listed(method: str, path: str, told: Schema) -> str:
    name, about = f"{method} {path}", _prose(told.get("summary", ""))
    return f"<li>{_link(name, _code(name))}{about}</li>"


def _operation(method: str, path: str, told: Schema, shapes: Schema) -> str:
    parameters = [
        (_code(each["name"]), each["in"], _type(each["schema"]), _about({**each["schema"], **each}, each["required"]))
        for each in told.get("parameters", ())
    ]
    bodies = [
        f"<p>Body, {_code(kind)}: {_type(body)}</p>{_fields(_resolved(body, shapes))}"
        for kind, body in _content(told.get("requestBody", {})).items()
    ]
    answers, errors = [], []
    for status, answer in sorted(told["responses"].items()):
        kinds = [f"{_code(kind)} {_type(body)}" for kind, body in _content(answer).items()]
        if _ERROR in _content(answer).values():
            errors.append(status)
        else:
            answers.append((status, "<br>".join(kinds), _about(answer)))
    return (
        f"<h3 id='{_anchor(f'{method} {path}')}'>{_link(f'{method} {path}', _code(f'{method} {path}'))}</h3>"
        f"<p class='soft'>{_who(method, path)}</p>{_prose(told.get('description', ''))}"
        f"{_table(('parameter', 'in', 'type', ''), parameters)}{''.join(bodies)}{_table(('answer', '', ''), answers)}"
        + (f"<p class='soft'>or {_link('errors', 'an error')}{_few(errors)}</p>" if errors else "")
        + f"<pre>{escape(_curl(method, path, told, shapes))}</pre>"
    )


def _few(errors: Sequence[str]) -> str:
    """Which, unless it may be any."""
    few = [_link(f"error {status}", status) for status in errors]
    return f": {', '.join(few)}" if len(few) < len(ERRORS) else ""


def _last(routes: Sequence[tuple[str, str, Schema]], shapes: Schema) -> dict[str, str]:
    """What the policy has a row for and the schema no place; all errors; all shapes."""
    told = {(method, row_of(method, path)) for method, path, _ in routes}
    left = [each for each in POLICY if (each[0], row_of(*each)) not in told]
    others = [(_code(" ".join(each)), _prose(_OTHERS.get(each[1], "")), _who(*each)) for each in left]
    answers = [answer for *_, route in routes for answer in route["responses"].items()]
    errors = {status: _about(answer) for status, answer in answers if _ERROR in _content(answer).values()}
    rows = [(f"<span id='error-{status}'>{status}</span>", errors[status]) for status in sorted(errors)]
    described = ""
    for name, shape in shapes.items():
        described += f"<h3 id='{_anchor(f'shape {name}')}'>{escape(shape.get('title', name))}</h3>{_about(shape)}"
        described += _fields(shape) or _type(shape)
    failed = f"<p>All have the shape {_type(_ERROR)}.</p>{_table(('status', ''), rows)}"
    return {"other addresses": _table(("", "", "for"), others), "errors": failed, "shapes": described}


def _fields(shape: Schema) -> str:
    fields, needed = shape.get("properties", {}), shape.get("required", ())
    rows = [(_code(name), _type(field), _about(field, name in needed)) for name, field in fields.items()]
    return _table(("field", "type", ""), rows)


def _about(field: Schema, is_needed: bool = False) -> str:
    """What it means, whether it has to be there, and what it is otherwise."""
    fact = "needed" if is_needed else f"default {json.dumps(field['default'])}" if field.get("default") else ""
    return f"{_prose(field.get('description', ''))}<span class='soft'>{escape(fact)}</span>"


def _type(schema: Schema) -> str:
    """In a few words; shapes are links."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_SHAPES)
        return _link(f"shape {name}", escape(name.split("__")[-2:][0]))  # two of one name have a module and a number
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(map(_type, choices)))
    if values := schema.get("enum", [schema["const"]] if "const" in schema else []):
        return " | ".join(escape(json.dumps(each)) for each in values)
    kind, within = schema.get("type", "anything"), schema.get("items") or schema.get("additionalProperties")
    named = "list" if kind == "array" else escape(schema.get("format") or kind)
    return f"{named} of {_type(within)}" if isinstance(within, Mapping) else named


def _curl(method: str, path: str, told: Schema, shapes: Schema) -> str:
    """With what has to be there, and nothing else."""
    asked = [each["name"] for each in told.get("parameters", ()) if each["in"] == "query" and each["required"]]
    query = "?" + "&".join(f"{name}={name.upper()}" for name in asked) if asked else ""
    content, row = _content(told.get("requestBody", {})), row_of(method, path)
    words = [f"-X {method}"] if method != ("POST" if content else "GET") else []
    words += ['-H "Authorization: Bearer $KEY"'] if row and row.action else []
    if "multipart/form-data" in content:
        words.append("-F file=@FILE")
    elif content:
        words.append(f"--json '{json.dumps(_example(next(iter(content.values())), shapes), ensure_ascii=False)}'")
    filled = re.sub(r"\{(\w+)\}", lambda found: found[1].upper(), path)
    return " ".join(["curl", *words, f'"$SERVER{filled}{query}"'])


def _example(schema: Schema, shapes: Schema) -> Any:
    whole = _resolved(schema, shapes)
    if "properties" in whole:
        return {name: _example(whole["properties"][name], shapes) for name in whole.get("required", ())}
    plain = {"integer": 1, "number": 1, "boolean": True, "object": {}}.get(whole.get("type", ""), "…")
    return [_example(whole["items"], shapes)] if "items" in whole else whole.get("enum", [plain])[0]


def _resolved(schema: Schema, shapes: Schema) -> Schema:
    """What a link leads to; the first of several."""
    if "$ref" in schema:
        return _resolved(shapes[schema["$ref"].removeprefix(_SHAPES)], shapes)
    return _resolved(choices[0], shapes) if (choices := schema.get("anyOf") or schema.get("oneOf")) else schema


def _content(told: Schema) -> dict[str, Schema]:
    return {kind: each.get("schema", {}) for kind, each in told.get("content", {}).items()}


def _who(method: str, path: str) -> str:
    if (row := row_of(method, path)) is None or row.action is None:
        return "everybody, also without a key" if row else "nobody"
    roles = [role for role, actions in MAY.items() if row.action in actions]
    if len(roles) == len(MAY):
        return "every key"
    return f"keys of the role {' or '.join(roles)}{', for all projects' if row.action is Action.OPERATE else ''}"


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _anchor(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _link(to: str, shown: str) -> str:
    return f"<a href='#{_anchor(to)}'>{shown}</a>"


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{name}</th>" for name in names)
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{top}</tr>{lines}</table>" if rows else ""


def _prose(text: str) -> str:
    """Paragraphs, with what stands between backticks as code."""
    told = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text if text != "Successful Response" else ""))
    return "".join(f"<p>{each}</p>" for each in told.split("\n\n") if each)
