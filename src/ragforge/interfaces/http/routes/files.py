"""Files of a project: send, list, read, switch, label, download and remove them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from io import BufferedReader
from typing import Annotated, Any, Union
from urllib.parse import quote

import anyio.to_thread
from fastapi import APIRouter, Query, Request
from pydantic import ValidationError
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from ragforge.domain.access import Clearance
from ragforge.domain.library import Chunk, Document, Job, Labels, Priority, Removal, Status
from ragforge.errors import NotFound, UserError
from ragforge.interfaces.http.caller import Called, Caller
from ragforge.interfaces.http.errors import ERRORS
from ragforge.interfaces.http.pages import Paged
from ragforge.interfaces.http.parts import Form, Parts, Raw
from ragforge.interfaces.http.requests import FileChange, UploadFields
from ragforge.interfaces.http.routing import Route
from ragforge.interfaces.http.shapes import page_of, shape
from ragforge.interfaces.http.streams import streams_of, while_there
from ragforge.interfaces.http.working import IdempotencyKey, Urgency, Wait, answered
from ragforge.interfaces.misshapen import sentence

router = APIRouter(prefix="/v1/projects/{project}/files", tags=["files"], responses=ERRORS, route_class=Route)

_AS_DATA = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
"""What documents say is for programs; no browser shows, runs or keeps it."""
_PIECE = 1 << 20
"""Bytes that are written at a time."""
_JOBS: Any = Union[shape(Job), page_of(Job)]  # noqa: UP007 - made at run time
_LABELS = {
    "source_type": {"type": "string"},
    "tags": {"type": "array", "items": {"type": "string"}},
    "confidentiality": {"enum": [each.name.lower() for each in Clearance]},
}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "file": {"type": "array", "items": {"type": "string", "format": "binary"}},
                        **_LABELS,
                    },
                    "required": ["file"],
                },
                "encoding": {"file": {"contentType": "application/octet-stream"}},
            },
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


@router.get("", response_model=page_of(Document))
def files(project: str, caller: Called, paging: Paged, status: Status | None = None) -> Response:
    """The files, in the order in which they came; `status` shows only those that are ready, failed or quarantined."""
    found = caller.forge.documents(project=project, status=status, limit=paging.most, after=paging.after)
    return caller.shown(paging.page_from(found, lambda document: document.created_at))


@router.post(
    "",
    response_model=_JOBS,
    responses={202: {"model": _JOBS, "description": "Received for good; a job for each file"}},
    openapi_extra=_BODY,
)
async def upload(
    project: str,
    request: Request,
    caller: Called,
    name: Annotated[str, Query(max_length=1_000, description="The file's name, where the body is the file")] = "",
    wait: Wait = 0,
    idempotency_key: IdempotencyKey = "",
    priority: Urgency = Priority.NORMAL,
) -> Response:
    """Send files as a form (field `file`, also several), or one as the body itself with its `name`.

    Each is known by its name: the same name with other bytes replaces it. What is answered for is never lost.
    """
    await _in_thread(caller.forge.project, project)
    inbox = await _in_thread(caller.forge.inbox)
    content_type = request.headers.get("content-type", "")
    is_form = content_type.lower().startswith("multipart/")
    if not is_form and not name:
        raise UserError("the file has no name", hint="send a form, or the bytes with ?name=…")
    try:
        with Form(inbox.receive, content_type) if is_form else Raw(inbox.receive, name) as parts:
            await _received(request, parts)
            labels = labels_of(parts.fields, caller.principal.scope.clearance)
            parts.accepted = True  # from here on the engine knows which of them are needed
            jobs = await _in_thread(
                lambda: caller.forge.accept_uploads(
                    parts.received, project=project, labels=labels, key=idempotency_key, priority=priority
                )
            )
    except ClientDisconnect:
        return Response(status_code=400)  # nobody reads it
    return await answered(caller, jobs, wait)


async def _received(request: Request, parts: Parts) -> None:
    """A thread writes while the loop goes on; few bytes are held at a time."""
    held: list[bytes] = []
    size = 0
    async for piece in request.stream():
        held.append(piece)
        size += len(piece)
        if size >= _PIECE:
            await _in_thread(parts.feed, b"".join(held))
            held, size = [], 0
    await _in_thread(_finished, parts, b"".join(held))


def _finished(parts: Parts, rest: bytes) -> None:
    if rest:
        parts.feed(rest)
    parts.finish()


_in_thread = anyio.to_thread.run_sync


def labels_of(fields: Mapping[str, Sequence[str]], clearance: Clearance) -> Labels | None:
    """What a form says of its files; None if nothing."""
    if not fields:
        return None
    single = {name: values[-1] for name, values in fields.items() if name != "tags"}
    tags = [tag.strip() for value in fields.get("tags", ()) for tag in value.split(",")]
    given: dict[str, Any] = single | ({"tags": [tag for tag in tags if tag]} if "tags" in fields else {})
    try:
        return UploadFields(**given).record(clearance)
    except ValidationError as problem:
        told = sentence(problem.errors())
        raise UserError(told, hint="a form takes file, source_type, tags and confidentiality") from None


@router.get("/{file}", response_model=shape(Document))
def file(project: str, file: str, caller: Called) -> Response:
    """One file by its id, the beginning of its id, or its name."""
    return caller.shown(caller.forge.document(file, project=project))


@router.patch("/{file}", response_model=shape(Document))
def change(project: str, file: str, asked: FileChange, caller: Called) -> Response:
    """Switch a file ON or OFF, or change what is said of it, by its whole id or its name. What is left out stays."""
    id = _named(caller, project, file)
    said = {name: value for name, value in asked.labels().items() if value is not None}
    if said:
        caller.forge.label([id], project=project, **said)
    if asked.enabled is not None:
        caller.forge.enable([id], asked.enabled, project=project)
    return caller.shown(caller.forge.document(id, project=project))


@router.delete("/{file}", response_model=shape(Removal))
def remove(project: str, file: str, caller: Called) -> Response:
    """Delete a file from everything, by its whole id or its name; the proof comes back."""
    (removal,) = caller.forge.removing([_named(caller, project, file)], project=project)
    return caller.shown(removal)


def _named(caller: Caller, project: str, file: str) -> str:
    """The id of a file that is to be changed: the beginning of one may be meant for another."""
    document = caller.forge.document(file, project=project)
    keys = (source.key for source in document.sources)
    if file not in (document.id, document.name, *keys, *(source.name for source in document.sources)):
        hint = "to change or remove a file, write its whole id or its name"
        raise NotFound(f"no file {file!r} in project {project!r}", hint=hint)
    return document.id


@router.get("/{file}/chunks", response_model=page_of(Chunk))
def chunks(project: str, file: str, caller: Called, paging: Paged) -> Response:
    """The text of a file as it is searched, piece by piece."""
    return caller.shown(paging.page(caller.forge.chunks(file, project=project)))


@router.get("/{file}/text", response_class=PlainTextResponse)
def text(project: str, file: str, caller: Called) -> Response:
    """The whole text of a file, as it was read."""
    return PlainTextResponse(caller.forge.text(file, project=project), headers=_AS_DATA)


@router.get(
    "/{file}/content",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}},
)
def content(project: str, file: str, request: Request, caller: Called) -> Response:
    """The bytes of a file as they were sent, to be saved: no browser shows or runs them."""
    document, opened = caller.forge.content(file, project=project)
    headers = {
        **_AS_DATA,
        "Content-Disposition": attachment(document.name),
        "ETag": f'"{document.sha256}"',
    }
    return Download(opened, headers, streams_of(request).idle_seconds)


class Download(StreamingResponse):
    """A file to one who reads it; however it ends, the file is closed."""

    media_type = "application/octet-stream"

    def __init__(self, file: BufferedReader, headers: Mapping[str, str], idle_seconds: float) -> None:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        super().__init__(iter(partial(file.read, _PIECE // 4), b""), headers={**headers, "Content-Length": str(size)})
        self._file = file
        self._idle_seconds = idle_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._file:
            await while_there(self, receive, send, self._idle_seconds)


def attachment(name: str) -> str:
    """A header that every client reads: plain ASCII, and beside it the name as it is (RFC 5987)."""
    plain = re.sub(r"[^A-Za-z0-9 ._()+-]", "_", name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
