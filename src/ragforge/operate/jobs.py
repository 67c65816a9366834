"""Long work as a job in the catalog: others see how far it is, can cancel it, and learn how it ended."""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from ragforge.domain.access import Scope
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.library import FOREGROUND, Job, Progress
from ragforge.errors import StoreError
from ragforge.ports import Catalog

Event = TypeVar("Event")

_LEASE_SECONDS = 120.0
_BEAT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class JobRunner:
    """Runs work under a job: a lease that is renewed until the work ends."""

    catalog: Catalog

    def run(
        self,
        scope: Scope,
        project: str | None,
        kind: str,
        payload: Mapping[str, Any],
        events: Iterator[Event],
        cancel: Cancel,
    ) -> Generator[Event, None, None]:
        """Pass the work's events on, keeping the job's lease and progress. A cancelled job stops the work."""
        with self.catalog.write() as c:
            job = c.jobs.enqueue(scope, project, kind, {**payload, FOREGROUND: True})
            claimed = c.jobs.claim(scope, _worker_name(), [kind], _LEASE_SECONDS, job.id)
        assert claimed is not None
        error: str | None = "stopped before its end"
        try:
            with _Heart(self.catalog, scope, claimed, cancel) as heart:
                try:
                    for event in events:
                        if isinstance(event, Progress):
                            heart.progress = event
                        yield event
                finally:
                    if isinstance(events, Generator):  # its caller went away: the work ends before the job does
                        events.close()
            error = None
        except Cancelled:
            error = "cancelled"
            raise
        except Exception as problem:
            error = str(problem)
            raise
        finally:
            with self.catalog.write() as c:
                c.jobs.finish(scope, claimed, error)


class _Heart:
    """Beats while the work goes on, however long one step takes. Sets `cancel` when the job was taken away."""

    def __init__(self, catalog: Catalog, scope: Scope, job: Job, cancel: Cancel) -> None:
        self.progress: Progress | None = None
        self._catalog = catalog
        self._scope = scope
        self._job = job
        self._cancel = cancel
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="ragforge-job", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _beat(self) -> None:
        told, beaten = self.progress, time.monotonic()
        while not self._ended.wait(_BEAT_SECONDS):
            progress = self.progress
            if progress is told and time.monotonic() - beaten < _LEASE_SECONDS / 24:
                continue
            try:
                with self._catalog.write() as c:
                    held = c.jobs.heartbeat(self._scope, self._job, _LEASE_SECONDS, progress)
            except StoreError:  # the work itself will meet it, or it passes
                continue
            told, beaten = progress, time.monotonic()
            if not held:
                self._cancel.set()
                return


def _worker_name() -> str:
    return f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(4)}"
