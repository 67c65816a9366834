"""Work that ends when nobody waits for it any more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import anyio.to_thread
from anyio import CapacityLimiter
from starlette.requests import Request
from starlette.responses import Response

from ragforge.domain.cancel import Cancel, Cancelled

GONE = 499
"""The status of an answer that nobody is there to read."""


async def unless_gone(
    request: Request, work: Callable[[], Awaitable[Response]], stop: Callable[[], None] = lambda: None
) -> Response:
    """What comes of the work, unless the caller goes away, or may not wait any longer: that stops it."""
    made: list[Response] = []
    problems: list[BaseException] = []
    is_gone = False
    async with anyio.create_task_group() as group:

        async def until_gone() -> None:
            nonlocal is_gone
            try:
                while (await request.receive())["type"] != "http.disconnect":
                    pass
                is_gone = True
                group.cancel_scope.cancel()
            finally:
                stop()

        group.start_soon(until_gone)
        try:
            made.append(await work())
        except (Exception, Cancelled) as problem:  # the group would wrap it
            problems.append(problem)
        group.cancel_scope.cancel()
    if problems and not is_gone:
        raise problems[0]
    return made[0] if made else Response(status_code=GONE)


async def worked(request: Request, threads: CapacityLimiter, work: Callable[[Cancel], Response]) -> Response:
    """The same of work in a thread that others do not need, for it may take a while.

    A thread cannot be left: it is told to stop, and holds its place until it has. Else whoever asks and hangs up, again
    and again, would have ever more of them at work.
    """
    cancel = Cancel()

    async def wait() -> Response:
        return await anyio.to_thread.run_sync(work, cancel, limiter=threads)

    return await unless_gone(request, wait, cancel.set)
