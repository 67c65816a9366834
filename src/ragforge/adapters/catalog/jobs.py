"""Jobs with leases. A claim raises the fence; whoever still holds an older one can no longer write."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Row

from ragforge.adapters.catalog import tables as t
from ragforge.adapters.catalog.unit import Session, moment, reached
from ragforge.domain.access import Scope
from ragforge.domain.library import FOREGROUND, Job, JobState, Progress
from ragforge.errors import NotFound

_KEPT_MILLISECONDS = 30 * 24 * 3600 * 1000
"""How long a job that ended is remembered."""

STRIKES = 3
"""A job whose worker died or failed this often is quarantined."""


class SqlJobs:
    def __init__(self, session: Session) -> None:
        self._session = session

    def enqueue(self, scope: Scope, project: str | None, kind: str, payload: Mapping[str, Any]) -> Job:
        session = self._session
        (key,) = session.keys(t.jobs, 1)
        now = session.now()
        row = {
            "ord": key,
            "id": secrets.token_hex(8),
            "project": None if project is None else session.project(scope, project).ord,
            "kind": kind,
            "payload": json.dumps(payload),
            "state": str(JobState.QUEUED),
            "attempts": 0,
            "fence": 0,
            "cancel_requested": False,
            "created_at": now,
            "updated_at": now,
        }
        session.insert(t.jobs, [row])
        return self._get(key)

    def claim(
        self, scope: Scope, owner: str, kinds: Sequence[str], lease_seconds: float, job: str | None = None
    ) -> Job | None:
        """Take the oldest waiting job of these kinds (or the named one) for a while."""
        self.reap(scope)
        waiting = sa.select(t.jobs.c.ord).where(
            t.jobs.c.state == str(JobState.QUEUED), t.jobs.c.kind.in_(kinds), _visible(scope)
        )
        if job is not None:
            waiting = waiting.where(t.jobs.c.id == job)
        waiting = waiting.order_by(t.jobs.c.ord).limit(1).with_for_update(skip_locked=True)
        key = self._session.execute(waiting).scalar()
        if key is None:
            return None
        now = self._session.now()
        self._session.execute(
            sa.update(t.jobs)
            .where(t.jobs.c.ord == key)
            .values(
                state=str(JobState.RUNNING),
                owner=owner,
                attempts=t.jobs.c.attempts + 1,
                fence=t.jobs.c.fence + 1,
                lease_until=now + int(lease_seconds * 1000),
                updated_at=now,
            )
        )
        return self._get(key)

    def heartbeat(self, scope: Scope, job: Job, lease_seconds: float, progress: Progress | None) -> bool:
        """Keep the lease and tell how far the work has come. False: stop, it was cancelled or given to another."""
        now = self._session.now()
        values: dict[str, Any] = {"lease_until": now + int(lease_seconds * 1000), "updated_at": now}
        if progress is not None:
            values["progress"] = json.dumps(asdict(progress))
        held = (*_held(job), _visible(scope), ~t.jobs.c.cancel_requested)
        result = self._session.execute(sa.update(t.jobs).where(*held).values(values))
        return bool(result.rowcount)

    def finish(self, scope: Scope, job: Job, error: str | None = None, *, retry: bool = False) -> None:
        """Close the job: done, cancelled, failed; or back in the queue until three strikes."""
        held = sa.select(t.jobs).where(*_held(job), _visible(scope)).with_for_update()
        row = self._session.execute(held).one_or_none()
        if row is None:
            return
        state = JobState.DONE
        if row.cancel_requested:
            state = JobState.CANCELLED
        elif error is not None:
            state = _after_failure(row.attempts) if retry else JobState.FAILED
        self._close([row.ord], state, error or "")

    def cancel(self, scope: Scope, job: str) -> None:
        """A waiting job ends at once; a running one is told at its next heartbeat."""
        named = sa.select(t.jobs).where(t.jobs.c.id == job, _visible(scope)).with_for_update()
        row = self._session.execute(named).one_or_none()
        if row is None:
            raise NotFound(f"no job {job!r}")
        if row.state == JobState.QUEUED:
            self._close([row.ord], JobState.CANCELLED, "")
        elif row.state == JobState.RUNNING:
            self._session.execute(sa.update(t.jobs).where(t.jobs.c.ord == row.ord).values(cancel_requested=True))

    def all(self, scope: Scope, project: str | None = None) -> list[Job]:
        statement = self._select().where(_visible(scope)).order_by(t.jobs.c.ord.desc())
        if project is not None:
            statement = statement.where(t.jobs.c.project == self._session.project(scope, project).ord)
        return [_job(row) for row in self._session.execute(statement)]

    def reap(self, scope: Scope) -> int:
        """Jobs whose worker stopped beating go back to the queue, or into quarantine after three strikes."""
        lapsed = sa.select(t.jobs).where(
            t.jobs.c.state == str(JobState.RUNNING), t.jobs.c.lease_until < self._session.now(), _visible(scope)
        )
        rows = self._session.execute(lapsed.with_for_update(skip_locked=True)).all()
        for row in rows:
            state = _after_failure(row.attempts)
            if row.cancel_requested:
                state = JobState.CANCELLED
            elif json.loads(row.payload).get(FOREGROUND):
                state = JobState.FAILED
            self._close([row.ord], state, "its process ended without a word; run the command again")
        self._forget_old(scope)
        return len(rows)

    def _forget_old(self, scope: Scope) -> None:
        ended = (JobState.DONE, JobState.FAILED, JobState.CANCELLED)
        before = self._session.now() - _KEPT_MILLISECONDS
        self._session.execute(
            sa.delete(t.jobs).where(t.jobs.c.state.in_(map(str, ended)), t.jobs.c.updated_at < before, _visible(scope))
        )

    # -- helpers

    def _close(self, keys: Sequence[int], state: JobState, error: str) -> None:
        values = {
            "state": str(state),
            "owner": None,
            "lease_until": None,
            "error": error,
            "updated_at": self._session.now(),
        }
        self._session.execute(sa.update(t.jobs).where(t.jobs.c.ord.in_(keys)).values(values))

    def _select(self) -> sa.Select[Any]:
        return sa.select(t.jobs, t.projects.c.id.label("project_id")).outerjoin(
            t.projects, t.projects.c.ord == t.jobs.c.project
        )

    def _get(self, key: int) -> Job:
        return _job(self._session.execute(self._select().where(t.jobs.c.ord == key)).one())


def _visible(scope: Scope) -> sa.ColumnElement[bool]:
    return reached(scope, t.jobs.c.project)


def _held(job: Job) -> tuple[sa.ColumnElement[bool], ...]:
    return (t.jobs.c.id == job.id, t.jobs.c.fence == job.fence, t.jobs.c.state == str(JobState.RUNNING))


def _after_failure(attempts: int) -> JobState:
    return JobState.QUARANTINED if attempts >= STRIKES else JobState.QUEUED


def _job(row: Row[Any]) -> Job:
    return Job(
        id=row.id,
        project=row.project_id,
        kind=row.kind,
        payload=json.loads(row.payload),
        state=JobState(row.state),
        attempts=row.attempts,
        fence=row.fence,
        owner=row.owner,
        progress=Progress(**json.loads(row.progress)) if row.progress else None,
        error=row.error,
        cancel_requested=row.cancel_requested,
        created_at=moment(row.created_at),
        updated_at=moment(row.updated_at),
    )
