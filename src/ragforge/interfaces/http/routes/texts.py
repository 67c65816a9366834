"""What people write for a project: its Hard Rules and its Project Memory, in versions."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from ragforge.domain.records import ProjectText, ProjectTextKind
from ragforge.interfaces.http.caller import Called
from ragforge.interfaces.http.errors import ERRORS
from ragforge.interfaces.http.pages import Paged
from ragforge.interfaces.http.requests import TextRequest
from ragforge.interfaces.http.routing import Route
from ragforge.interfaces.http.shapes import page_of, shape

router = APIRouter(prefix="/v1/projects/{project}/texts/{kind}", tags=["projects"], responses=ERRORS, route_class=Route)


@router.get("", response_model=shape(ProjectText))
def read(project: str, kind: ProjectTextKind, caller: Called) -> Response:
    """A text of the project as it is now; version 0 is the empty one that every project begins with."""
    return caller.shown(caller.forge.project_text(kind, project=project))


@router.put("", response_model=shape(ProjectText))
def write(project: str, kind: ProjectTextKind, asked: TextRequest, caller: Called) -> Response:
    """Write a new version of a text; the older ones stay."""
    return caller.shown(caller.forge.write_project_text(kind, asked.text, project=project))


@router.get("/versions", response_model=page_of(ProjectText))
def versions(project: str, kind: ProjectTextKind, caller: Called, paging: Paged) -> Response:
    """All versions of a text that were written, newest first."""
    found = caller.forge.project_text_versions(kind, project=project)
    return caller.shown(paging.page(found, lambda each: str(each.version)))
