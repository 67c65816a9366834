"""Long work: what is asked for, how far it is, and what became of it."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from ragforge.domain.library import Job
from ragforge.interfaces.http.caller import Called
from ragforge.interfaces.http.errors import ERRORS
from ragforge.interfaces.http.pages import Paged
from ragforge.interfaces.http.routing import Route
from ragforge.interfaces.http.shapes import page_of, shape

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], responses=ERRORS, route_class=Route)


@router.get("", response_model=page_of(Job))
def jobs(caller: Called, paging: Paged, project: str | None = None) -> Response:
    """Your jobs, newest first; admins see everybody's. They are remembered for 30 days."""
    found = caller.forge.jobs(project=project, limit=paging.most, after=paging.after)
    return caller.shown(paging.page_from(found, lambda job: job.created_at))


@router.get("/{job}", response_model=shape(Job))
def job(job: str, caller: Called) -> Response:
    """How far a job is; once it has ended, its `result`: of an upload what became of the file."""
    return caller.shown(caller.forge.job(job))


@router.delete("/{job}", response_model=shape(Job))
def cancel(job: str, caller: Called) -> Response:
    """Cancel a job: one that waits or was set aside ends at once, a running one within a few seconds.

    One that has ended stays as it is.
    """
    return caller.shown(caller.forge.cancel_job(job))
