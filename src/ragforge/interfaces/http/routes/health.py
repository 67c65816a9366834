"""For whoever watches over the server: whether it lives, whether it can work, and its numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import anyio.to_thread
from anyio import CapacityLimiter
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from typing_extensions import TypedDict

from ragforge.app import Ragforge
from ragforge.domain.library import Finding
from ragforge.interfaces.http.caller import json_response
from ragforge.interfaces.http.errors import ERRORS
from ragforge.interfaces.http.metrics import CONTENT_TYPE, Metrics
from ragforge.interfaces.http.routing import Route
from ragforge.interfaces.http.workers import Place, asked_of_others, is_relayed
from ragforge.operate.nodes import Neighbour

router = APIRouter(tags=["operation"], route_class=Route)

_BELIEVED_SECONDS = 1.0
_ALIVE = b'{"status":"alive"}'
_PASSED_ON = ("authorization", "x-api-key", "host", "x-request-id")


class Alive(TypedDict):
    status: str


class Part(TypedDict):
    ok: bool
    why: str
    warning: bool


class Ready(TypedDict):
    ready: bool
    parts: dict[str, Part]


class Health:
    """Looks at the parts of the server, in threads that no request can take, at most once a second."""

    def __init__(
        self,
        forge: Ragforge,
        metrics: Metrics,
        place: Place,
        workers_alive: Callable[[], bool],
        neighbour: Neighbour | None = None,
    ) -> None:
        """`workers_alive`: whether the threads that take files in are there."""
        self._forge = forge
        self._metrics = metrics
        self._place = place
        self._looking, self._counting = CapacityLimiter(1), CapacityLimiter(1)
        self._looked, self._found = -_BELIEVED_SECONDS, Ready(ready=False, parts={})
        self._workers_alive = workers_alive
        self._neighbour = neighbour
        self._walls = Finding("parsers", True, "not tried yet")

    def try_walls(self) -> None:
        """Once, and not while a server starts: a child is sent to try them."""
        missing = [wall.subject.removeprefix("parsers: ") for wall in self._forge.walls() if not wall.ok]
        self._walls = Finding("parsers", True, f"does not hold here: {', '.join(missing)}" if missing else "")

    async def ready(self) -> Ready:
        return await anyio.to_thread.run_sync(self._ready, limiter=self._looking)

    async def metrics(self, request: Request) -> str:
        """Of all workers. One that is asked by another tells of itself alone."""
        if is_relayed(request.scope):
            return await anyio.to_thread.run_sync(self._metrics.own_page, limiter=self._counting)
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        others = await asked_of_others(self._place, "/metrics", headers)
        page = partial(self._metrics.page, self._place.number, others)
        return await anyio.to_thread.run_sync(page, limiter=self._counting)

    def _ready(self) -> Ready:
        now = time.monotonic()
        if now - self._looked >= _BELIEVED_SECONDS:
            alive = self._workers_alive()
            workers = Finding("workers", alive, "" if alive else "the threads that take files in have ended")
            found = [*self._forge.ready(), self._walls, workers, *self._own_indexes()]
            parts = {part.subject: Part(ok=part.ok, why=part.detail, warning=part.warning) for part in found}
            self._found = Ready(ready=all(part.ok for part in found), parts=parts)
            self._looked = time.monotonic()
        return self._found

    def _own_indexes(self) -> Iterator[Finding]:
        """Where several machines serve, each begins once it has indexes of its own; later it says when they lag."""
        if self._neighbour is not None:
            at = self._neighbour.standing
            how_far = f"{at.followed} of {at.projects} projects are"
            told = f"catching up: {how_far} as the catalog" if at.ready else f"being built: {how_far} there"
            yield Finding("own indexes", at.ready, "" if at.is_current else told)


@router.get("/healthz", response_model=Alive)
async def healthz() -> Response:
    """Whether the server lives: it touches nothing, and waits for nothing."""
    return Response(_ALIVE, media_type="application/json", headers={"Cache-Control": "no-store"})


@router.get("/readyz", response_model=Ready, responses={503: {"model": Ready, "description": "A part is missing"}})
async def readyz(request: Request) -> Response:
    """Whether the server can work, and if not, which part is missing."""
    health: Health = request.app.state.health
    found = await health.ready()
    return json_response(found, 200 if found["ready"] else 503, {"Cache_Control": "no-store"})


@router.get("/metrics", response_class=PlainTextResponse, responses=ERRORS)
async def metrics(request: Request) -> Response:
    """The numbers of the server, in the format of Prometheus."""
    health: Health = request.app.state.health
    return Response(await health.metrics(request), media_type=CONTENT_TYPE)
