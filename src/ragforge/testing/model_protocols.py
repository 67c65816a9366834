"""What OpenAI's, Anthropic's and Ollama's services send, as plain data: the wire side of `model_server`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

Json = dict[str, Any]
Calls = Sequence[tuple[str, str, str]]
"""Calls of tools: id, name, and arguments as JSON."""
OPENAI = "openai"
ANTHROPIC = "anthropic"
FORM = "The answer."
"""How the one tool describes itself that is a form to be filled, and nothing to be done."""
_CREATED = 1_760_000_000


def prompt_of(body: Json) -> str:
    """Every text of a request, in the order in which the model reads it."""
    system = body.get("system", "")
    texts = [system] if isinstance(system, str) else [part.get("text", "") for part in system]
    for message in body.get("messages", []):
        content = message.get("content") or ""
        texts.extend(_texts(content))
    return "\n".join(text for text in texts if text)


def _texts(content: str | list[Json]) -> list[str]:
    """The texts of a message, with those of the results of tools among them."""
    if isinstance(content, str):
        return [content]
    return [text for part in content for text in [part.get("text", ""), *_texts(part.get("content") or "")]]


def form_asked(body: Json) -> tuple[str, Json, bool] | None:
    """The form to fill, if one is asked for: its name, its schema, and whether as a call of a tool."""
    if (wanted := body.get("response_format", {})).get("type") == "json_schema":
        return wanted["json_schema"].get("name", "form"), wanted["json_schema"]["schema"], False
    output = body.get("output_config", {}).get("format") or body.get("output_format") or {}
    if "schema" in output:
        return "form", output["schema"], False
    for name, schema, description in _tools(body):
        if description == FORM:
            return name, schema, True
    return None


def tools_offered(body: Json) -> dict[str, Json]:
    """The schemas of the tools to work with, by name; a form is none of them."""
    return {name: schema for name, schema, description in _tools(body) if description != FORM}


def _tools(body: Json) -> Iterator[tuple[str, Json, str]]:
    for tool in body.get("tools", []):
        function = tool.get("function", tool)
        schema = function.get("parameters") or function.get("input_schema") or {}
        yield function["name"], schema, function.get("description", "")


def filled(schema: Json, text: str = "text", root: Json | None = None) -> Any:
    """The plainest value that fits a schema, with `text` for every text."""
    root = schema if root is None else root
    if "$ref" in schema:
        return filled(root["$defs"][schema["$ref"].rpartition("/")[2]], text, root)
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return filled(schema[key][0], text, root)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object")
    if kind == "object":
        return {name: filled(each, text, root) for name, each in schema.get("properties", {}).items()}
    if kind == "array":
        items = schema.get("prefixItems") or [schema.get("items", {"type": "string"})]
        return [filled(each, text, root) for each in items]
    return {"string": text, "integer": 1, "number": 0.5, "boolean": True}.get(kind)


def tokens(text: str) -> int:
    return max(1, len(text.split()))


def _all(text: str, calls: Calls) -> str:
    return " ".join([text, *(f"{name} {arguments}" for _, name, arguments in calls)])


def _half(text: str) -> str:
    return text[: len(text) // 2]


# -- OpenAI


def completion(body: Json, text: str, calls: Calls = (), *, cut: bool = False) -> Json:
    """A whole chat completion: a text, or calls of tools. One that is cut ends in the middle of its last word."""
    message: Json = {"role": "assistant", "content": _half(text) if cut else text}
    if calls:
        written = [arguments for _, _, arguments in calls]
        written[-1] = _half(written[-1]) if cut else written[-1]
        made = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for (id, name, _), arguments in zip(calls, written, strict=True)
        ]
        message = {"role": "assistant", "content": None, "tool_calls": made}
    reason = "length" if cut else "tool_calls" if calls else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": _CREATED,
        "model": body.get("model", ""),
        "choices": [choice],
        "usage": _openai_usage(body, _all(text, calls)),
    }


def completion_events(body: Json, pieces: Sequence[str]) -> Iterator[str]:
    """The server-sent events of a streamed chat completion, without the `[DONE]` at the end."""
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": _CREATED, "model": body.get("model", "")}
    deltas: list[tuple[Json, str | None]] = [({"role": "assistant", "content": ""}, None)]
    deltas += [({"content": piece}, None) for piece in pieces]
    deltas.append(({}, "stop"))
    for delta, reason in deltas:
        yield _event({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
    if body.get("stream_options", {}).get("include_usage"):
        yield _event({**base, "choices": [], "usage": _openai_usage(body, "".join(pieces))})


def _openai_usage(body: Json, text: str) -> Json:
    into, out = tokens(prompt_of(body)), tokens(text)
    return {"prompt_tokens": into, "completion_tokens": out, "total_tokens": into + out}


# -- Anthropic


def message(body: Json, text: str, calls: Calls = (), *, cut: bool = False) -> Json:
    """A whole message: a text, or uses of tools. Of a use that is cut the arguments are missing."""
    blocks: list[Json] = [{"type": "text", "text": _half(text) if cut else text}]
    if calls:
        blocks = [{"type": "tool_use", "id": id, "name": name, "input": json.loads(given)} for id, name, given in calls]
        blocks[-1] |= {"input": {}} if cut else {}
    usage = {"input_tokens": tokens(prompt_of(body)), "output_tokens": tokens(_all(text, calls))}
    reason = "max_tokens" if cut else "tool_use" if calls else "end_turn"
    return {**_message(body), "content": blocks, "stop_reason": reason, "usage": usage}


def message_events(body: Json, pieces: Sequence[str]) -> Iterator[str]:
    """The server-sent events of a streamed message."""
    usage = {"input_tokens": tokens(prompt_of(body)), "output_tokens": 1}
    yield _named("message_start", {"message": {**_message(body), "usage": usage}})
    yield _named("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}})
    for piece in pieces:
        yield _named("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": piece}})
    yield _named("content_block_stop", {"index": 0})
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    yield _named("message_delta", {"delta": end, "usage": {"output_tokens": tokens("".join(pieces))}})
    yield _named("message_stop", {})


def _message(body: Json) -> Json:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", ""),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _named(kind: str, body: Json) -> str:
    return f"event: {kind}\n" + _event({"type": kind, **body})


def _event(body: Json) -> str:
    return f"data: {json.dumps(body)}\n\n"


# -- errors


def refusal(protocol: str, status: int, said: str, code: str = "") -> Json:
    """An error in the service's own words."""
    if protocol == ANTHROPIC:
        kinds = {
            400: "invalid_request_error",
            401: "authentication_error",
            402: "billing_error",
            403: "permission_error",
            404: "not_found_error",
            429: "rate_limit_error",
        }
        return {"type": "error", "error": {"type": kinds.get(status, "api_error"), "message": said}}
    kind = "insufficient_quota" if code == "insufficient_quota" else "error"
    return {"error": {"message": said, "type": kind, "code": code or None, "param": None}}
