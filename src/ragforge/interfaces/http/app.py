"""The HTTP server. Every route is thin: parse, authorise, call Ragforge, format.

A request passes the observer (log, numbers, overload), the relay to other workers, the rules for web pages elsewhere,
the guard (ids, names, keys, limits), then the reader of bodies, then its route.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import anyio.to_thread
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute, APIWebSocketRoute
from fastapi.telemetry import TelemetryConfig
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

import ragforge
from ragforge.app import Ragforge
from ragforge.errors import NotAllowed
from ragforge.interfaces.http import errors, reference
from ragforge.interfaces.http.asking import Seals
from ragforge.interfaces.http.body import Bodies
from ragforge.interfaces.http.door import refuse_open_door
from ragforge.interfaces.http.guard import Guard, Names
from ragforge.interfaces.http.limits import Limits
from ragforge.interfaces.http.metrics import Metrics
from ragforge.interfaces.http.observe import Observe
from ragforge.interfaces.http.policy import POLICY, WS, undecided
from ragforge.interfaces.http.requests import with_field_texts
from ragforge.interfaces.http.routes import ROUTERS, mcp
from ragforge.interfaces.http.routes.health import Health
from ragforge.interfaces.http.routing import Route
from ragforge.interfaces.http.streams import Streams
from ragforge.interfaces.http.watching import Watches
from ragforge.interfaces.http.workers import Place, Relay

_LOCAL = ("localhost", "127.0.0.1", "[::1]")
_FROM_PAGES = ["Authorization", "Idempotency-Key", "Last-Event-ID", "X-API-Key", "X-Request-ID"]
_TO_PAGES = ["Content-Location", "Location", "Retry-After", "X-Request-ID"]
"""Headers, beside the usual ones, of requests by web pages of `server.origins` and of the answers to them."""
_UNTOLD: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}
"""The framework would tell bodies and what exceptions say; ours tells neither."""


def create_app(forge: Ragforge) -> FastAPI:
    """A server for one workspace, which it neither opens nor closes."""
    server, access = forge.settings.server, forge.access()
    refuse_open_door(access, server.host)
    if missing := undecided(routes_of(ROUTERS)):
        raise NotAllowed(f"nobody decided who may call {', '.join(missing)}", hint="add a row to POLICY")
    names = Names((*_LOCAL, server.host, *server.hosts.split()), server.origins.split())
    metrics, place = Metrics(forge), Place.of(forge.workspace)
    limits = Limits(access.used_today, usual=max(1, server.waiting // 2), share=1 / place.count)
    guard = Middleware(Guard, forge=forge, access=access, names=names, limits=limits)
    observe = Middleware(Observe, metrics=metrics, waiting=server.waiting)
    relay = Middleware(Relay, place=place)
    pages = Middleware(
        CORSMiddleware,
        allow_origins=[origin.lower().rstrip("/") for origin in server.origins.split()],
        allow_methods=sorted({method for method, _ in POLICY} - {WS}),
        allow_headers=_FROM_PAGES,
        expose_headers=_TO_PAGES,
    )

    streams = Streams(2 * server.threads, server.events_seconds, server.idle_seconds)

    bodies = Middleware(Bodies, largest=server.body_bytes, idle_seconds=server.idle_seconds)
    worker, neighbour = forge.worker(), forge.neighbour(serves=True)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = server.threads
        await anyio.to_thread.run_sync(worker.start)
        if neighbour is not None:
            neighbour.start()
        try:
            async with mcp.hosting(app), streams.hosted():
                yield
        finally:
            if neighbour is not None:
                await anyio.to_thread.run_sync(neighbour.stop)
            await anyio.to_thread.run_sync(worker.stop)

    app = routed(middleware=[observe, relay, pages, guard, bodies], lifespan=lifespan)
    app.state.streams, app.state.seals = streams, Seals()
    app.state.watches = Watches(forge.job, streams.lookups)
    app.state.worker, app.state.place = worker, place
    app.state.reference = cache(lambda: reference.page(app.openapi()))
    app.openapi = cache(schema)  # type: ignore[method-assign]
    app.state.health = Health(forge, metrics, place, lambda: worker.alive, neighbour)
    return app


def routed(**parts: Any) -> FastAPI:
    """The routes; the parts make a server of them."""
    app = _empty(**parts)
    for router in ROUTERS:
        app.include_router(router)
    errors.install(app)
    return app


def schema() -> dict[str, Any]:
    """What the routes say of themselves, as OpenAPI."""
    app = _empty()
    for route in (route for router in ROUTERS for route in router.routes):
        told = route.described() if isinstance(route, Route) else route
        if isinstance(told, APIRoute):
            told.summary = re.split(r"[.:;]\s", f"{told.description} ")[0]
        app.router.routes.append(told)
    return with_field_texts(errors.with_error_shape(app.openapi()))


def _empty(**parts: Any) -> FastAPI:
    return FastAPI(
        title="ragforge",
        version=ragforge.__version__,
        summary="Documents you can ask: passages, cited answers, honest abstentions.",
        docs_url=None,
        redoc_url=None,
        telemetry=_UNTOLD,
        **parts,
    )


def routes_of(routers: tuple[APIRouter, ...]) -> Iterator[tuple[str, str]]:
    """Method and path of every route."""
    for route in (route for router in routers for route in router.routes):
        if isinstance(route, APIRoute):
            yield from ((method, route.path) for method in sorted(route.methods or ()))
        elif isinstance(route, APIWebSocketRoute):
            yield WS, route.path
