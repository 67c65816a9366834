"""Work that ends when nobody waits for it any more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import anyio.to_thread
from anyio import CapacityLimiter
from starlette.requests import Request
from starlette.responses import Response

from ragforge.domain.cancel import Cancel, Cancelled

_GONE = 499
"""Nobody is there to read it."""


async def unless_gone(request: Request, work: Callable[[], Awaitable[Response]]) -> Response:
    """What comes of the work, unless the caller goes away, which stops it."""
    made: list[Response] = []
    problems: list[BaseException] = []
    async with anyio.create_task_group() as group:

        async def until_gone() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()

        group.start_soon(until_gone)
        try:
            made.append(await work())
        except (Exception, Cancelled) as problem:  # the group would wrap it
            problems.append(problem)
        group.cancel_scope.cancel()
    if problems:
        raise problems[0]
    return made[0] if made else Response(status_code=_GONE)


async def worked(request: Request, threads: CapacityLimiter, work: Callable[[Cancel], Response]) -> Response:
    """The same of work in a thread that others do not need, for it may take a while."""
    cancel = Cancel()

    async def wait() -> Response:
        try:
            return await anyio.to_thread.run_sync(work, cancel, limiter=threads, abandon_on_cancel=True)
        finally:
            cancel.set()

    return await unless_gone(request, wait)
