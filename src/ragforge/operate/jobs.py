"""Long work as a job in the catalog: others see how far it is, can cancel it, and learn how it ended."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ragforge.domain.access import Scope
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.library import Job, Progress
from ragforge.ports import Catalog

Event = TypeVar("Event")

_LEASE_SECONDS = 120.0
_BEAT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class JobRunner:
    """Runs work under a job: a lease that is renewed while the work sends events."""

    catalog: Catalog

    def run(
        self,
        scope: Scope,
        project: str | None,
        kind: str,
        payload: Mapping[str, Any],
        events: Iterator[Event],
        cancel: Cancel,
    ) -> Iterator[Event]:
        """Pass the work's events on, keeping the job's lease and progress. A cancelled job stops the work."""
        with self.catalog.write() as c:
            job = c.jobs.enqueue(scope, project, kind, payload)
            claimed = c.jobs.claim(scope, _worker_name(), [kind], _LEASE_SECONDS, job.id)
        assert claimed is not None
        error: str | None = "stopped before its end"
        try:
            yield from self._beating(scope, claimed, events, cancel)
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

    def _beating(self, scope: Scope, job: Job, events: Iterator[Event], cancel: Cancel) -> Iterator[Event]:
        beaten = time.monotonic()
        for event in events:
            yield event
            if isinstance(event, Progress) and time.monotonic() - beaten > _BEAT_SECONDS:
                beaten = time.monotonic()
                with self.catalog.write() as c:
                    if not c.jobs.heartbeat(scope, job, _LEASE_SECONDS, event):
                        cancel.set()


def _worker_name() -> str:
    return f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(4)}"
