"""The Model Context Protocol over HTTP. Its library is large: it is loaded when the first client comes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup, TaskStatus
from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ragforge.domain.access import Principal
from ragforge.errors import MissingExtra
from ragforge.interfaces.http.caller import Called, caller_of

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from ragforge.interfaces.mcp.tools import Call

router = APIRouter(tags=["MCP"])


@router.post("/mcp", include_in_schema=False)
async def mcp(request: Request, caller: Called) -> Response:
    """Tools for other programs: search, fetch, ask, explain, lists of projects and files, lessons."""
    host: Host = request.app.state.mcp
    return _Handed(await host.manager())


@asynccontextmanager
async def hosting(app: FastAPI) -> AsyncIterator[None]:
    """While a server runs: what its MCP clients need."""
    async with anyio.create_task_group() as tasks:
        app.state.mcp = Host(tasks)
        yield
        tasks.cancel_scope.cancel()


class Host:
    """Starts what answers MCP clients when the first of them comes."""

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._starting = anyio.Lock()
        self._manager: StreamableHTTPSessionManager | None = None

    async def manager(self) -> StreamableHTTPSessionManager:
        async with self._starting:
            if self._manager is None:
                made = await anyio.to_thread.run_sync(_make)
                await self._tasks.start(_run, made)
                self._manager = made
        return self._manager


def _make() -> StreamableHTTPSessionManager:
    try:
        from ragforge.interfaces.mcp.server import make_server, manager
    except ModuleNotFoundError:
        raise MissingExtra("The server for assistants", "mcp") from None
    return manager(make_server(_caller))


async def _run(manager: StreamableHTTPSessionManager, *, task_status: TaskStatus[None]) -> None:
    async with manager.run():
        task_status.started()
        await anyio.sleep_forever()


async def _caller(request: Any) -> tuple[Principal, Call]:
    """Whoever the guard let in with this request."""
    from ragforge.interfaces.mcp.tools import Call

    caller = caller_of(request)
    return caller.principal, Call(caller.forge, str(request.base_url).rstrip("/"), caller.request)


class _Handed(Response):
    """An answer that is left to the protocol's library."""

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        super().__init__()
        self._manager = manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._manager.handle_request(scope, receive, send)
