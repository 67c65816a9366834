"""Documents that were made from a project: read, download, make and remove them."""

from __future__ import annotations

from typing import Literal

import anyio.to_thread
from fastapi import APIRouter
from starlette.responses import Response

from ragforge.domain.library import Job, Priority
from ragforge.domain.records import Artifact
from ragforge.interfaces.http.asking import check_model
from ragforge.interfaces.http.attached import MEDIA, attached
from ragforge.interfaces.http.caller import Called
from ragforge.interfaces.http.errors import ERRORS
from ragforge.interfaces.http.pages import Paged
from ragforge.interfaces.http.requests import ArtifactChange, ArtifactRequest
from ragforge.interfaces.http.routing import Route
from ragforge.interfaces.http.shapes import page_of, shape
from ragforge.interfaces.http.working import ACCEPTED, IdempotencyKey, Urgency, Wait, answered

router = APIRouter(
    prefix="/v1/projects/{project}/artifacts", tags=["documents made"], responses=ERRORS, route_class=Route
)


@router.get("", response_model=page_of(Artifact))
def artifacts(project: str, caller: Called, paging: Paged) -> Response:
    """The documents that were made and kept, newest first."""
    return caller.shown(paging.page(caller.forge.artifacts(project=project)))


@router.post("", response_model=shape(Job), responses=ACCEPTED)
async def make(
    project: str,
    asked: ArtifactRequest,
    caller: Called,
    wait: Wait = 0,
    idempotency_key: IdempotencyKey = "",
    priority: Urgency = Priority.NORMAL,
) -> Response:
    """Make a document by its outline, section by section, each from passages it cites; the job's result names it."""

    def enqueue() -> Job:
        check_model(caller, asked.model)
        payload = asked.model_dump()
        caller.forge.making(project=project, **payload)  # nothing begins yet; what cannot be made is told now
        return caller.forge.enqueue("make", payload, project=project, key=idempotency_key, priority=priority)

    return await answered(caller, [await anyio.to_thread.run_sync(enqueue)], wait)


@router.get(
    "/{artifact}",
    response_model=shape(Artifact),
    responses={200: {"content": {media: {} for media in MEDIA.values()}}},
)
def artifact(project: str, artifact: str, caller: Called, format: Literal["json", "md", "docx"] = "json") -> Response:
    """One made document by its id, the beginning of it, or `last`; with `format` as Markdown or for Word."""
    found = caller.forge.artifact(artifact, project=project)
    if format == "json":
        return caller.shown(found)
    return attached(caller.forge.rendered(found, f".{format}"), f"{found.kind}-{found.id[:8]}", format)


@router.patch("/{artifact}", response_model=shape(Artifact))
def edit(project: str, artifact: str, asked: ArtifactChange, caller: Called) -> Response:
    """Change the title or texts of sections of a made document; they are checked as a model's are.

    What was wrong with them stands in `problems`.
    """
    changed = caller.forge.edit_artifact(
        artifact, project=project, title=asked.title, texts=asked.texts(), was=asked.was()
    )
    return caller.shown(changed)


@router.delete("/{artifact}", response_model=shape(Artifact))
def remove(project: str, artifact: str, caller: Called) -> Response:
    """Delete a made document for good; what it was comes back."""
    known = caller.forge.artifact(artifact, project=project)
    (removed,) = caller.forge.remove_artifacts([known.id], project=project)
    return caller.shown(removed)
