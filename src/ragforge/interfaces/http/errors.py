"""One shape for everything that goes wrong: `{"error": {"code", "message", "hint", "request_id"}}`."""

from __future__ import annotations

import logging
import math
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from typing_extensions import TypedDict

from ragforge.errors import (
    Busy,
    Conflict,
    DiskFull,
    NotAllowed,
    NotFound,
    Outdated,
    OverLimit,
    ProviderError,
    QuotaExceeded,
    RagforgeError,
    RateLimited,
    StoreError,
    TooLarge,
    Unauthenticated,
    UserError,
)
from ragforge.interfaces import hints
from ragforge.interfaces.misshapen import sentence
from ragforge.interfaces.records import json_text, without_folders


class TooSlow(RagforgeError):
    """The client sends less than it must."""


_STATUSES: dict[type[RagforgeError], tuple[int, str]] = {
    TooSlow: (408, "slow"),
    Unauthenticated: (401, "unauthenticated"),
    NotAllowed: (403, "not_allowed"),
    NotFound: (404, "not_found"),
    TooLarge: (413, "too_large"),
    Conflict: (409, "conflict"),
    UserError: (422, "invalid"),
    OverLimit: (429, "limit"),
    RateLimited: (503, "provider_rate_limited"),
    QuotaExceeded: (502, "provider_quota"),
    ProviderError: (502, "provider"),
    Outdated: (409, "conflict"),
    Busy: (503, "busy"),
    DiskFull: (507, "disk_full"),
    StoreError: (503, "store"),
    RagforgeError: (500, "error"),
}


class ErrorFields(TypedDict):
    """What went wrong, and what to do next."""

    code: str
    message: str
    hint: str
    request_id: str


class ErrorShape(TypedDict):
    error: ErrorFields


_REFERENCE = "#/components/schemas/{model}"
_SHAPE = _REFERENCE.format(model=ErrorShape.__name__)

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"description": said, "content": {"application/json": {"schema": {"$ref": _SHAPE}}}}
    for status, said in {
        400: "Not a request that can be read",
        401: "No key, or one that works no more",
        403: "The key may not do this",
        404: "Not there, or not for this key",
        408: "The request came too slowly",
        409: "Something else was done meanwhile, or with the same idempotency key",
        413: "Too large",
        421: "The server does not go by that name",
        422: "A value that is not taken",
        429: "More than the key may use for now",
        500: "A fault of the server",
        502: "A model or embedding service failed",
        503: "Too much to do, or a store is not there; try again",
        507: "The disk is full",
    }.items()
}
"""What any route may answer beside what it is for. By name: to build the shape for each of them takes a second."""

INTERNAL = ("internal", "something went wrong here", "the server's log has the request's id")
"""Code, message and hint of a fault of ours."""
TAKEN = "GET /docs tells what is taken here"
_OPENAI = ("/v1/models", "/v1/chat/", "/v1/embeddings")
"""Where clients show nothing of an error but its message."""

log = logging.getLogger("ragforge.http")


def install(app: FastAPI) -> None:
    """Whatever a route raises is told in the one shape."""
    app.add_exception_handler(RagforgeError, _failed)
    app.add_exception_handler(RequestValidationError, _misshapen)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(Exception, _broken)


def with_error_shape(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of the server, with the shape that all errors have."""
    shape = TypeAdapter(ErrorShape).json_schema(ref_template=_REFERENCE)
    schema["components"]["schemas"] |= {**shape.pop("$defs"), ErrorShape.__name__: shape}
    return schema


def status_of(problem: RagforgeError) -> tuple[int, str]:
    """The status and the code of an error: those of the nearest class that has some."""
    return next(_STATUSES[kind] for kind in type(problem).__mro__ if kind in _STATUSES)


def error_fields(code: str, message: str, hint: str, request: str, in_one: bool = False, **more: Any) -> dict[str, Any]:
    """The log tells where on the server something is wrong; the caller only what. `in_one`: the message has it all."""
    said, told = without_folders(message), without_folders(hints.told(hint, hints.HTTP))
    said = f"{said}. Next: {told}" if in_one and told else said
    return {"error": {"code": code, "message": said, "hint": told, "request_id": request, **more}}


def error_response(
    connection: HTTPConnection, status: int, code: str, message: str, hint: str = "", retry_after: float | None = None
) -> Response:
    """An answer that tells what is wrong and what to do next."""
    in_one = connection.scope.get("ragforge.route", "").startswith(_OPENAI)
    fields = error_fields(code, message, hint, request_id(connection), in_one)
    response = Response(json_text(fields), status, media_type="application/json")
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if status in (429, 503):
        response.headers["Retry-After"] = str(max(1, math.ceil(retry_after or 1)))
    return response


def failure_response(connection: HTTPConnection, problem: RagforgeError) -> Response:
    status, code = status_of(problem)
    return error_response(
        connection, status, code, problem.message, problem.hint, getattr(problem, "retry_after", None)
    )


def request_id(connection: HTTPConnection) -> str:
    """In every answer, every log line and every call of a provider."""
    return str(connection.scope.get("ragforge.request", ""))


def misshapen(request: Request, problem: RequestValidationError) -> tuple[str, str]:
    """What is not as the schema says, in a sentence, and what to do next."""
    if "json" not in request.headers.get("content-type", "") and any(
        each["loc"] == ("body",) for each in problem.errors()
    ):
        return "the body does not come as JSON", "send it with Content-Type: application/json, as curl --json does"
    return sentence(problem.errors()), TAKEN


async def _failed(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, RagforgeError)
    return failure_response(request, problem)


async def _misshapen(request: Request, problem: Exception) -> Response:
    """A body, a parameter or a header that is not as the schema says."""
    assert isinstance(problem, RequestValidationError)
    status = 400 if any(each["type"] == "json_invalid" for each in problem.errors()) else 422
    return error_response(request, status, "invalid", *misshapen(request, problem))


async def _refused(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    code = "invalid" if problem.status_code == 400 else "refused"
    return error_response(request, problem.status_code, code, str(problem.detail), TAKEN)


async def _broken(request: Request, problem: Exception) -> Response:
    return broken(request, problem)


def broken(connection: HTTPConnection, problem: Exception) -> Response:
    """A fault of ours: the log tells what it was, the caller only how to find it there."""
    log.error(
        "a request failed: %s", type(problem).__name__, exc_info=problem, extra={"request_id": request_id(connection)}
    )
    return error_response(connection, 500, *INTERNAL)
