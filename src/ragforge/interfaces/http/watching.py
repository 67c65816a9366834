"""Jobs that are watched: each is looked at for all its watchers together, and only while there are some.

All of this lives in the event loop's thread; only the looking is done in others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import cast

import anyio
import anyio.to_thread
from anyio import CapacityLimiter
from starlette.requests import HTTPConnection

from ragforge.domain.library import Job, JobState
from ragforge.errors import NotFound, StoreError
from ragforge.interfaces.http.streams import HEARTBEAT_SECONDS

LOOK_SECONDS = 0.4
AT_WORK = (JobState.QUEUED, JobState.RUNNING)

Look = Callable[[str], Awaitable[Job]]


class Watched:
    """A job as it was last seen, until it has ended or is gone."""

    def __init__(self, job: Job, look: Look) -> None:
        self.watchers = 0
        self.is_over = False
        self._job = job
        self._look = look
        self._changed = asyncio.Event()
        self._looking = asyncio.create_task(self._look_again())

    def saw(self, job: Job) -> None:
        """Said by whoever looked."""
        before, self._job = self._job, job
        if _told(before) != _told(job):
            self._tell()

    def leave(self) -> None:
        """The last watcher has gone."""
        self._looking.cancel()

    async def news(self, seen: Job) -> AsyncGenerator[Job | None]:
        """How it is, whenever that changes, to its end. None: nothing did for a while, and all is well."""
        while seen.state in AT_WORK:
            if _told(self._job) != _told(seen):
                seen = self._job
                yield seen
            elif self.is_over:
                return
            else:
                changed = self._changed
                with anyio.move_on_after(HEARTBEAT_SECONDS) as waiting:
                    await changed.wait()
                if waiting.cancelled_caught:
                    yield None

    async def _look_again(self) -> None:
        try:
            while self._job.state in AT_WORK:
                await anyio.sleep(LOOK_SECONDS)
                with suppress(StoreError):  # it passes, or the work itself will meet it
                    self.saw(await self._look(self._job.id))
        except NotFound:  # its project was removed
            pass
        finally:
            self.is_over = True
            self._tell()

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


class Watches:
    """All that are watched at a server."""

    def __init__(self, job: Callable[[str], Job], threads: CapacityLimiter) -> None:
        self._job = job
        self._threads = threads
        self._watched: dict[str, Watched] = {}

    @contextmanager
    def watching(self, job: Job) -> Iterator[Watched]:
        """A job as the watcher has just seen it: who may see it now may see what becomes of it."""
        watched = self._watched.get(job.id)
        if watched is None or watched.is_over:
            watched = self._watched[job.id] = Watched(job, self._look)
        watched.saw(job)
        watched.watchers += 1
        try:
            yield watched
        finally:
            watched.watchers -= 1
            if not watched.watchers:
                watched.leave()
                if self._watched.get(job.id) is watched:
                    del self._watched[job.id]

    async def _look(self, id: str) -> Job:
        return await anyio.to_thread.run_sync(self._job, id, limiter=self._threads)


def _told(job: Job) -> tuple[object, ...]:
    """What a watcher wants to know of; not that its worker is alive."""
    return job.state, job.progress, job.error, job.cancel_requested


def watches_of(connection: HTTPConnection) -> Watches:
    return cast(Watches, connection.app.state.watches)
