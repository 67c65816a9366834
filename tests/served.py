"""A workspace whose model is a server of `ragforge.testing`, and what that server was sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragforge import Ragforge
from ragforge.domain.generation import Message
from ragforge.ports import Embedder
from ragforge.testing.model_server import ModelCall, ModelServer
from tests.forge import open_forge

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def open_served(workspace: Path, server: ModelServer, embedder: Embedder | None = None, **settings: object) -> Ragforge:
    """Answers come from the server. Small projects too are searched, unless a setting says otherwise."""
    usual = {
        "model__name": "openai-compatible:stub",
        "model__base_url": server.base_url,
        "ask__whole_project_tokens": 0,
    }
    return open_forge(workspace, embedder, **{**usual, **settings})


def add_files(forge: Ragforge, folder: Path, files: Mapping[str, str], project: str = "p") -> None:
    """Write files as they are given, and add them."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
    assert not forge.add(folder, project=project).failed


def form(filled: DataclassInstance) -> str:
    """A form as a model sends it back."""
    return json.dumps(asdict(filled))


def received(call: ModelCall) -> list[tuple[str, str]]:
    """Who said what, as it came over the wire."""
    body = call.json
    system: Any = body.get("system", [])
    parts = [("system", system)] if isinstance(system, str) else [("system", each["text"]) for each in system]
    for message in body["messages"]:
        content = message["content"]
        texts = [content] if isinstance(content, str) else [each["text"] for each in content]
        parts += [(message["role"], text) for text in texts]
    return parts


def said(messages: tuple[Message, ...]) -> list[tuple[str, str]]:
    """The same of messages that were to be sent."""
    return [(str(message.role), message.text) for message in messages]


def answers(server: ModelServer) -> list[ModelCall]:
    """The calls that asked for an answer, not for a form."""
    return [call for call in server.calls if call.json.get("stream")]
