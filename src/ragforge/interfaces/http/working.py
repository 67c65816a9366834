"""Long work over HTTP: 202 and a job at once, or 200 and what became of it for those who wait."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import anyio
import anyio.to_thread
from fastapi import Header, Query
from starlette.responses import Response

from ragforge.app import Ragforge
from ragforge.domain.library import Job, Priority
from ragforge.interfaces.http.caller import Caller
from ragforge.interfaces.http.shapes import shape

_LOOK_SECONDS = 0.5
"""How often a job is looked at that another process may be doing."""

Wait = Annotated[float, Query(ge=0, le=60, description="Seconds to wait for the end; 0: answer at once")]
IdempotencyKey = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        max_length=200,
        description="The same key with the same request gives the same job, however often it is sent",
    ),
]
Urgency = Annotated[
    Priority,
    Query(alias="priority", description="Which of your own jobs comes first; nobody is served before others by it"),
]
ACCEPTED: dict[int | str, dict[str, Any]] = {
    202: {"model": shape(Job), "description": "It will be done; `Location` tells how far it is"}
}


async def answered(caller: Caller, jobs: Sequence[Job], wait: float) -> Response:
    """The job, or the page of them; 200 once all have ended."""
    found = await until_ended(caller.forge, jobs, wait)
    value = found[0] if len(found) == 1 else {"items": found, "next": None}
    status = 200 if all(job.ended for job in found) else 202
    return caller.shown(value, status=status, Location=f"/v1/jobs/{found[0].id}")


async def until_ended(forge: Ragforge, jobs: Sequence[Job], seconds: float) -> list[Job]:
    """The jobs as they are when all have ended, when the time is over, or when the server stops.

    No thread is held meanwhile.
    """
    found = list(jobs)
    try:
        with anyio.move_on_after(seconds):
            for place, job in enumerate(jobs):
                found[place] = await _ended(forge, job)
    except asyncio.CancelledError:  # they were accepted, and whoever waits learns at least that
        if (task := asyncio.current_task()) is not None:
            task.uncancel()
    return found


async def _ended(forge: Ragforge, job: Job) -> Job:
    loop = asyncio.get_running_loop()
    while not job.ended:
        there = asyncio.Event()

        def tell(there: asyncio.Event = there) -> None:
            loop.call_soon_threadsafe(there.set)

        forget = forge.when_ended(job.id, tell)
        try:
            job = await anyio.to_thread.run_sync(forge.job, job.id)
            if not job.ended:
                with anyio.move_on_after(_LOOK_SECONDS):
                    await there.wait()
        finally:
            forget()
    return job
