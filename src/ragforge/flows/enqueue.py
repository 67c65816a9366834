"""Long work that is asked for becomes jobs of the catalog; files that were sent wait in the inbox for theirs.

received, durable -> a job for each, all or none -> the bell rings -> a worker … -> ended: what was received goes
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from ragforge.domain.access import Scope
from ragforge.domain.library import UPLOAD, Job, JobState, JobTerms, Labels, Priority, Project
from ragforge.errors import Conflict, NotAllowed, Unreachable
from ragforge.ingest.accept import upload_name
from ragforge.operate.access import require_clearance
from ragforge.operate.inbox import Inbox, Received
from ragforge.operate.jobs import Bell
from ragforge.ports import Catalog

log = logging.getLogger("ragforge.inbox")

_WHOLE = ("rebuild", "reindex")
"""What is done to all of a project."""


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Asks for work in somebody's scope. What waits is looked after in the `system`'s."""

    catalog: Catalog
    inbox: Inbox
    bell: Bell
    project_for: Callable[[Scope, str], Project]
    system: Scope
    machine: str = ""
    """Whose inbox it is; empty if all machines reach it, or there is only one."""

    def __call__(
        self,
        scope: Scope,
        slug: str,
        kind: str,
        payloads: Sequence[Mapping[str, Any]],
        key: str,
        priority: Priority = Priority.NORMAL,
    ) -> list[Job]:
        """A job for each payload. The same `key` again gives the same jobs; with another request it is a conflict."""
        project = self.project_for(scope, slug).id
        if kind in _WHOLE:
            require_clearance(scope)
        digest = _digest(kind, project, payloads)
        with self.catalog.write() as c:
            before = c.jobs.asked(scope, key) if key else {}
            if any(asked != digest for _, asked in before.values()):
                raise Conflict("this key was used for another request", hint="take a new key for a new request")
            # a job goes with the file that it brought, so some may be missing
            new = {part: payload for part, payload in enumerate(payloads) if part not in before}
            terms = [JobTerms(key, part, digest, _lane(kind, payload), priority) for part, payload in new.items()]
            jobs = dict(zip(new, c.jobs.enqueue(scope, project, kind, list(new.values()), terms), strict=True))
            jobs |= {part: c.jobs.take_up(scope, job.id) for part, (job, _) in before.items()}
        self.bell.ring(kind, len(jobs))
        return [jobs[part] for part in sorted(jobs)]

    # -- files that were sent

    def open_inbox(self) -> Inbox:
        """Where uploads wait until a worker takes them in."""
        self.inbox.open(self._needed)
        return self.inbox

    def begin(self) -> None:
        """The same for a worker: where that place is away, uploads wait for it, and other work goes on."""
        try:
            self.open_inbox()
        except Unreachable as away:
            log.warning("uploads wait: %s; %s", away.message, away.hint)

    def uploads(
        self,
        scope: Scope,
        slug: str,
        files: Sequence[Received],
        labels: Labels | None,
        key: str,
        priority: Priority = Priority.NORMAL,
    ) -> list[Job]:
        """A job for each file that was received, all or none. From now on they survive everything."""
        inbox, may_be_asked = self.open_inbox(), False
        try:
            if labels is not None and labels.confidentiality > scope.clearance:
                raise NotAllowed("that is more confidential than your key reaches", hint="choose a lower one")
            inbox.sync([file.inbox for file in files])
            may_be_asked = True
            jobs = self(scope, slug, UPLOAD, [self._payload(file, labels) for file in files], key, priority)
        except BaseException as problem:
            if not (may_be_asked and isinstance(problem, Unreachable)):  # the jobs may be there: else they are swept
                for file in files:
                    inbox.remove(file.inbox)
            raise
        for file, job in zip(files, jobs, strict=True):
            if job.payload["inbox"] != file.inbox:  # it was sent before
                if not job.ended:
                    inbox.fill_in(job.payload["inbox"], file.inbox)
                inbox.remove(file.inbox)
        return jobs

    def ended(self, jobs: Sequence[Job]) -> None:
        """Without having been begun: what was received for them goes, and whoever waits for them is told."""
        self.forget(jobs)
        self.bell.end(job.id for job in jobs)

    def forget(self, jobs: Sequence[Job]) -> None:
        """Remove what was received for jobs that have ended. What was set aside stays for whoever looks into it."""
        uploads = {job.id: job.payload["inbox"] for job in jobs if "inbox" in job.payload}
        with self.catalog.read() as c:
            there = c.jobs.some(self.system, uploads)  # others went with their project, or with the file
        for id, inbox in uploads.items():
            job = there.get(id)
            if job is None or (job.ended and job.state is not JobState.QUARANTINED):
                self.inbox.remove(inbox)

    def _payload(self, file: Received, labels: Labels | None) -> dict[str, Any]:
        return {
            "inbox": file.inbox,
            "name": upload_name(file.name),
            "size": file.size,
            "sha256": file.sha256,
            "labels": said_of(labels),
            **({"machine": self.machine} if self.machine else {}),
        }

    def _needed(self) -> set[str]:
        with self.catalog.read() as c:
            return {job.payload["inbox"] for job in c.jobs.unfinished(self.system, UPLOAD)}


def said_of(labels: Labels | None) -> dict[str, Any] | None:
    """What is said of an upload, as a job keeps it; `work.labels_of` reads it again."""
    if labels is None:
        return None
    return {
        "source_type": labels.source_type,
        "tags": list(labels.tags),
        "confidentiality": labels.confidentiality.name.lower(),
    }


def _lane(kind: str, payload: Mapping[str, Any]) -> str:
    """Files of one name are taken in in their order, and a project's indexes are built one after the other."""
    if kind == UPLOAD:
        return f"upload:{payload['name']}"
    return "indexes" if kind in _WHOLE else ""


def _digest(kind: str, project: str, payloads: Sequence[Mapping[str, Any]]) -> str:
    """Of all that was asked for; where its bytes wait is no part of it."""
    asked = [{name: payload[name] for name in payload if name not in ("inbox", "machine")} for payload in payloads]
    return sha256(json.dumps([kind, project, asked], sort_keys=True).encode()).hexdigest()
