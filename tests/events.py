"""Server-sent events as a client reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx


class Sent(NamedTuple):
    """One event as it came."""

    id: str
    name: str
    data: dict[str, Any]


def sent_events(response: httpx.Response) -> Iterator[Sent]:
    """Its events as they come; comments and the rest are checked, and left out."""
    fields: dict[str, str] = {}
    for line in response.iter_lines():
        if line:
            name, separator, value = line.partition(":")
            assert separator and name in ("", "id", "event", "data", "retry"), line
            fields[name] = value.removeprefix(" ")
            continue
        if "data" in fields:
            event = Sent(fields.get("id", ""), fields["event"], json.loads(fields["data"]))
            assert event.data["event"] == event.name if event.name != "error" else "error" in event.data
            yield event
        fields = {}
