"""Projects: make, list, rename and remove them; build their indexes anew."""

from __future__ import annotations

from dataclasses import asdict

import anyio.to_thread
from fastapi import APIRouter
from starlette.responses import Response

from ragforge.domain.library import Job, Priority, Project, Removal
from ragforge.interfaces.http.caller import Called
from ragforge.interfaces.http.errors import ERRORS
from ragforge.interfaces.http.pages import Paged
from ragforge.interfaces.http.requests import ProjectChange, ProjectRequest, ReindexRequest
from ragforge.interfaces.http.routing import Route
from ragforge.interfaces.http.shapes import page_of, shape
from ragforge.interfaces.http.working import ACCEPTED, IdempotencyKey, Urgency, Wait, answered

router = APIRouter(prefix="/v1/projects", tags=["projects"], responses=ERRORS, route_class=Route)


@router.get("", response_model=page_of(Project))
def projects(caller: Called, paging: Paged) -> Response:
    """The projects that you reach."""
    return caller.shown(paging.page(caller.forge.projects()))


@router.post("", status_code=201, response_model=shape(Project))
def create(asked: ProjectRequest, caller: Called) -> Response:
    """Make a project. How it splits and embeds is fixed until it is reindexed."""
    strategy = asked.strategy.record(caller.forge.usual_strategy()) if asked.strategy else None
    project = caller.forge.create_project(asked.name, strategy=strategy, embedder=asked.embedder)
    return caller.shown(project, status=201, Location=f"/v1/projects/{project.slug}")


@router.get("/{project}", response_model=shape(Project))
def project(project: str, caller: Called) -> Response:
    """One project by its slug, or the name that gives it."""
    return caller.shown(caller.forge.project(project))


@router.patch("/{project}", response_model=shape(Project))
def change(project: str, asked: ProjectChange, caller: Called) -> Response:
    """Give a project another name, and with it another slug; or say whether others are told its lessons."""
    known = caller.forge.project(project)
    if asked.name is not None:
        known = caller.forge.rename_project(known.slug, asked.name)
    if asked.shares_lessons is not None:
        known = caller.forge.lessons.share(asked.shares_lessons, project=known.slug)
    return caller.shown(known)


@router.delete("/{project}", response_model=list[shape(Removal)])  # type: ignore[misc]
def remove(project: str, caller: Called) -> Response:
    """Remove a project with all its files; the proofs of their deletion come back."""
    return caller.shown(caller.forge.remove_project(caller.forge.project(project).slug))


@router.post("/{project}/rebuild", response_model=shape(Job), responses=ACCEPTED)
async def rebuild(
    project: str,
    caller: Called,
    wait: Wait = 0,
    idempotency_key: IdempotencyKey = "",
    priority: Urgency = Priority.NORMAL,
) -> Response:
    """Build the indexes of a project anew from the catalog alone; searches go on meanwhile."""
    job = await anyio.to_thread.run_sync(
        lambda: caller.forge.enqueue("rebuild", {}, project=project, key=idempotency_key, priority=priority)
    )
    return await answered(caller, [job], wait)


@router.post("/{project}/reindex", response_model=shape(Job), responses=ACCEPTED)
async def reindex(
    project: str,
    asked: ReindexRequest,
    caller: Called,
    wait: Wait = 0,
    idempotency_key: IdempotencyKey = "",
    priority: Urgency = Priority.NORMAL,
) -> Response:
    """Split or embed a project anew; it stays usable, and the new index takes over when it is complete."""

    def enqueue() -> Job:
        strategy = asked.strategy.record(caller.forge.project(project).strategy) if asked.strategy else None
        if asked.embedder is not None:
            caller.forge.require_embedder(asked.embedder)
        payload = {"strategy": asdict(strategy) if strategy else None, "embedder": asked.embedder}
        return caller.forge.enqueue("reindex", payload, project=project, key=idempotency_key, priority=priority)

    return await answered(caller, [await anyio.to_thread.run_sync(enqueue)], wait)
