"""What an Ollama on its port tells: which models it has, and how much of a prompt each really reads."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Mapping
from typing import Any

from ragforge.adapters.models.names import is_local

_DEFAULT_WINDOW = 4096
"""What Ollama reads of a prompt when nobody told it more: it drops the rest in silence."""
_MOST_BYTES = 8_000_000


def models(url: str, timeout: float = 1.0) -> list[str] | None:
    """The names of its models; None if it does not run."""
    told = _ask(url, "/api/tags", timeout).get("models")
    return None if told is None else sorted(str(each["name"]) for each in told if "name" in each)


def listed(url: str, timeout: float = 1.0) -> list[str]:
    """The models of any server that speaks OpenAI's protocol and tells them without a key."""
    return sorted(str(each["id"]) for each in _ask(url, "/v1/models", timeout).get("data") or [] if "id" in each)


def window(url: str, model: str, environment: Mapping[str, str], timeout: float = 2.0) -> int | None:
    """Tokens of prompt and answer together, as it will be run; None if Ollama does not say.

    What a model was trained for is an upper bound only: it is run with `num_ctx` of its file, else with what the
    server was told, else with Ollama's own default.
    """
    shown = _ask(url, "/api/show", timeout, {"model": model})
    info = shown.get("model_info") or {}
    trained = next((int(value) for key, value in info.items() if key.endswith(".context_length")), None)
    if own := re.search(r"^num_ctx\s+(\d+)", str(shown.get("parameters") or ""), re.MULTILINE):
        return int(own[1])
    running = _ask(url, "/api/ps", timeout).get("models", [])
    for each in running:
        if each.get("name") in (model, f"{model}:latest") and each.get("context_length"):
            return int(each["context_length"])
    if trained is None:
        return None
    told = environment.get("OLLAMA_CONTEXT_LENGTH", "")
    return min(trained, int(told) if told.isdigit() and int(told) else _DEFAULT_WINDOW)


def _ask(url: str, path: str, timeout: float, body: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What it answers as JSON; nothing if it does not run or does not make sense."""
    address = url.rstrip("/").removesuffix("/v1") + path
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"})  # noqa: S310 (guarded setting)
    # a proxy for the outside must not be asked for this machine
    handlers = [urllib.request.ProxyHandler({})] if is_local(address) else []
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=timeout) as response:
            answer = json.loads(response.read(_MOST_BYTES))
    except (OSError, ValueError):
        return {}
    return answer if isinstance(answer, dict) else {}
