"""Who a request is from, and what it may reach: what every route begins with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends
from starlette.requests import HTTPConnection
from starlette.responses import Response

from ragforge.app import Ragforge
from ragforge.domain.access import Principal
from ragforge.errors import NotAllowed
from ragforge.interfaces.records import json_text, placeless

RECORDS = "application/vnd.ragforge.records+json"
"""Asks for whole records in place of the fields for people: what `ragforge.client` reads."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Caller:
    """A principal, and the workspace as far as it reaches for what was asked."""

    forge: Ragforge
    principal: Principal
    request: str
    """The id of the request: in its answer, in the log, in every call of a provider."""
    records: bool

    def shown(self, value: T, fields: Callable[[T], Any] | None = None, status: int = 200, **headers: str) -> Response:
        """A record as JSON: the fields for people, or all of it for those who ask for records."""
        return json_response(self.seen(value if self.records or fields is None else fields(value)), status, headers)

    def seen(self, value: object) -> object:
        """As this caller may see it: where things lie on the server is for its owner alone."""
        return value if self.principal.key is None else placeless(value)


def json_response(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    named = {name.replace("_", "-"): text for name, text in (headers or {}).items()}
    return Response(json_text(value).encode(), status, named, "application/json")


def caller_of(connection: HTTPConnection) -> Caller:
    """The guard has put it there before anything else was read, for the route whose row it looked at."""
    caller: Caller = connection.scope["ragforge.caller"]
    if connection.scope["route"].path != connection.scope["ragforge.route"]:
        raise NotAllowed("this path is not the one that was allowed", hint="GET /docs lists what there is")
    return caller


Called = Annotated[Caller, Depends(caller_of)]
