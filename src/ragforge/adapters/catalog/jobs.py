"""Jobs with leases. A claim raises the fence; whoever still holds an older one can no longer write."""

from __future__ import annotations

import json
import secrets
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Row

from ragforge.adapters.catalog import tables as t
from ragforge.adapters.catalog.tombstones import bury
from ragforge.adapters.catalog.unit import Session, batches, beyond, moment, reached, storable
from ragforge.domain.access import Clearance, Scope
from ragforge.domain.archives import Kind
from ragforge.domain.cursor import Cursor
from ragforge.domain.library import FOREGROUND, UPLOAD, Job, JobState, JobTerms, Maker, Priority, Progress, Topic
from ragforge.errors import NotFound

KEPT_MILLISECONDS = 30 * 24 * 3600 * 1000
"""How long a job that ended is remembered."""

STRIKES = 3
"""A job that broke at this try, or a later one, is quarantined: its work said so itself."""

_PAUSE_MILLISECONDS = 1000
"""How long a job rests after its first failure; after each further one twice as long."""

_DEATHS = 5
"""So many processes may end over a job before it is set aside.

More than strikes, because nobody says whose fault it was: most are killed for another reason, or by one of the jobs
that they did at the same time.
"""

_RANKS = tuple(Priority)

_FEW = 16
"""So many are taken together even where no more are left."""

_OPEN = (str(JobState.QUEUED), str(JobState.RUNNING))
_UNFINISHED = (*_OPEN, str(JobState.QUARANTINED))
_SERVED = (JobState.DONE, JobState.FAILED)


class SqlJobs:
    def __init__(self, session: Session) -> None:
        self._session = session

    def enqueue(
        self,
        scope: Scope,
        project: str | None,
        kind: str,
        payloads: Sequence[Mapping[str, Any]],
        terms: Sequence[JobTerms] = (),
    ) -> list[Job]:
        """A job for each payload, on its own terms or the usual ones."""
        session = self._session
        owner = None if project is None else session.project(scope, project).ord
        if not payloads:
            return []
        keys, now = session.keys(t.jobs, len(payloads)), session.now()
        rows = [
            {
                "ord": key,
                "id": secrets.token_hex(8),
                "project": owner,
                "kind": kind,
                "payload": json.dumps(payload),
                "state": str(JobState.QUEUED),
                "attempts": 0,
                "fence": 0,
                "cancel_requested": False,
                "created_at": now,
                "updated_at": now,
                "principal": scope.principal,
                "storage": scope.owner,
                "clearance": int(scope.clearance),
                "lane": storable(term.lane),
                "asked_with": storable(term.key) or None,
                "part": term.part,
                "digest": term.digest,
                "rank": _RANKS.index(term.priority),
            }
            for key, payload, term in zip(keys, payloads, terms or [JobTerms()] * len(payloads), strict=True)
        ]
        session.insert(t.jobs, rows)
        session.tell(Topic.JOB, kind)
        return [job for some in batches(keys) for job in self._many(some)]

    def asked(self, scope: Scope, key: str) -> dict[int, tuple[Job, str]]:
        """The jobs that this principal asked for with this key by their part, with the digest of what was asked.

        Until the transaction ends, nobody else asks with it.
        """
        key = storable(key)
        self._session.lock(zlib.crc32(f"{scope.principal} {key}".encode()))
        statement = (
            self._select()
            .where(t.jobs.c.principal == scope.principal, t.jobs.c.asked_with == key)
            .order_by(t.jobs.c.part)
        )
        return {row.part: (_job(row), row.digest) for row in self._session.execute(statement)}

    def take_up(self, scope: Scope, job: str) -> Job:
        """What was set aside waits again, as if it had never been tried."""
        row = self._row(scope, job, lock=True)
        if row.state == JobState.QUARANTINED:
            self._close([row], JobState.QUEUED, "")
            self._session.execute(sa.update(t.jobs).where(t.jobs.c.ord == row.ord).values(attempts=0))
        return self._get(row.ord)

    def claim(
        self, scope: Scope, owner: str, kinds: Sequence[str], lease_seconds: float, job: str | None = None
    ) -> Job | None:
        """Take a waiting job of these kinds (or the named one) for a while: the first of whoever's turn it is."""
        self._take_back(scope)
        waiting = self._ready(scope, kinds)
        if job is not None:
            turns = [waiting.where(t.jobs.c.id == job)]
        else:
            turns = [waiting.where(t.jobs.c.principal == principal) for principal in self._turns(kinds)]
        for turn in turns:
            if rows := self._locked(turn, 1):
                return self._taken(rows, owner, lease_seconds)[0]
        return None

    def _turns(self, kinds: Sequence[str]) -> list[str]:
        """Who waits: first who has the fewest jobs running, was served the longest ago, has waited the longest.

        So nobody waits for all that another asked for, not even where one worker does it all. Read from indexes alone.
        """
        jobs, ended = t.jobs.c, t.jobs.alias("ended").c
        waits = sa.func.min(sa.case((jobs.state == str(JobState.QUEUED), jobs.ord)))
        running = sa.func.count(sa.case((jobs.state == str(JobState.RUNNING), 1)))
        served = [  # each the newest entry of the index
            sa.select(sa.func.max(ended.updated_at))
            .where(ended.state == str(state), ended.kind == kind, ended.principal == jobs.principal)
            .scalar_subquery()
            for state in _SERVED
            for kind in kinds
        ]
        principals = sa.select(jobs.principal, running, waits, *served)
        open_ = principals.where(jobs.state.in_(_OPEN), jobs.kind.in_(kinds)).group_by(jobs.principal)
        found = self._session.execute(open_.having(waits.is_not(None)))
        return [row[0] for row in sorted(found, key=lambda row: (row[1], max(at or 0 for at in row[3:]), row[2]))]

    def claim_alike(
        self, scope: Scope, job: Job, lease_seconds: float, limit: int, fits: Callable[[Job], bool]
    ) -> list[Job]:
        """Take more jobs of the same kind, project and principal for the worker of a claimed one. None has failed yet.

        Their priority is the same, and `fits` is asked in their order, once for each. Where few are left, some stay for
        other workers.
        """
        mine = self._row(scope, job.id)
        waiting = self._ready(scope, [job.kind]).where(
            t.jobs.c.project == mine.project,
            t.jobs.c.principal == mine.principal,
            t.jobs.c.clearance == mine.clearance,
            t.jobs.c.rank == mine.rank,
            t.jobs.c.attempts == 0,
        )
        some = sa.select(sa.func.count()).select_from(waiting.limit(2 * limit).subquery())
        left = self._session.execute(some).scalar_one()
        rows = self._locked(waiting, min(limit, max(_FEW, left // 2)))
        return self._taken([row for row in rows if fits(_job(row))], mine.owner, lease_seconds)

    def _ready(self, scope: Scope, kinds: Sequence[str]) -> sa.Select[Any]:
        """Jobs that could begin, by priority and the oldest first: those on a lane wait for those before them."""
        before = t.jobs.alias("before")
        blocked = sa.exists().where(
            t.jobs.c.lane != "",
            before.c.project == t.jobs.c.project,
            before.c.lane == t.jobs.c.lane,
            before.c.ord < t.jobs.c.ord,
            before.c.state.in_(_OPEN),
        )
        rested = t.jobs.c.lease_until.is_(None) | (t.jobs.c.lease_until <= self._session.lease_now())
        return (
            self._select()
            .where(t.jobs.c.state == str(JobState.QUEUED), t.jobs.c.kind.in_(kinds), rested, _visible(scope), ~blocked)
            .order_by(t.jobs.c.rank, t.jobs.c.ord)
        )

    def _locked(self, ready: sa.Select[Any], limit: int) -> Sequence[Row[Any]]:
        """Some of these, which nobody else is just taking."""
        return self._session.execute(ready.limit(limit).with_for_update(skip_locked=True, of=t.jobs)).all()

    def _taken(self, rows: Sequence[Row[Any]], owner: str, lease_seconds: float) -> list[Job]:
        if not rows:
            return []
        now = self._session.now()
        self._session.execute(
            sa.update(t.jobs)
            .where(_among(rows))
            .values(
                state=str(JobState.RUNNING),
                owner=owner,
                attempts=t.jobs.c.attempts + 1,
                fence=t.jobs.c.fence + 1,
                lease_until=self._session.lease_now() + int(lease_seconds * 1000),
                updated_at=now,
            )
        )
        return self._many([row.ord for row in rows])

    def waiting(self, scope: Scope, kinds: Sequence[str]) -> bool:
        """Whether a claim is worth trying: something waits, or could be taken back. Asked often, so it is quick."""
        marks, (now, values) = ", ".join("?" * len(kinds)), self._session.quick_lease_now()
        statement = (
            f"SELECT 1 FROM jobs WHERE kind IN ({marks}) AND "  # noqa: S608 - marks only
            f"(state = 'queued' AND (lease_until IS NULL OR lease_until <= {now})"
            f" OR state = 'running' AND lease_until < {now}) LIMIT 1"
        )
        return bool(self._session.quick(statement, (*kinds, *values, *values)))

    def heartbeat(
        self, scope: Scope, jobs: Sequence[Job], lease_seconds: float, progress: Mapping[str, Progress]
    ) -> bool:
        """Keep the leases and tell how far the work has come, by job. False: stop, one was cancelled or given away."""
        rows = [row for row in self._held_rows(scope, jobs) if not row.cancel_requested]
        lease = self._session.lease_now() + int(lease_seconds * 1000)
        values: dict[str, Any] = {"lease_until": lease, "updated_at": self._session.now()}
        if told := {row.ord: json.dumps(asdict(progress[row.id])) for row in rows if row.id in progress}:
            values["progress"] = _by_key(told, t.jobs.c.progress)
        self._session.execute(sa.update(t.jobs).where(_among(rows)).values(values))
        return len(rows) == len(jobs)

    def holds(self, scope: Scope, jobs: Sequence[Job]) -> bool:
        """Whether all are still whose claims these are. Until the transaction ends, nobody takes them away."""
        return len(self._held_rows(scope, jobs)) == len(jobs)

    def finish(
        self,
        scope: Scope,
        jobs: Sequence[Job],
        error: str | None = None,
        *,
        retry: bool = False,
        hint: str = "",
        results: Sequence[object] = (),
    ) -> None:
        """Close the jobs: done, with a result for each; cancelled; failed; or back in the queue until three strikes."""
        given = {job.id: result for job, result in zip(jobs, results, strict=bool(results)) if result is not None}
        done: list[Row[Any]] = []
        for row in self._held_rows(scope, jobs):
            if row.cancel_requested and (error is not None or row.id not in given):
                self._close([row], JobState.CANCELLED, row.error or error or "", hint=hint)
            elif error is None:
                done.append(row)
            elif retry and (state := _after_failure(row.attempts)) is JobState.QUEUED:
                self._close([row], state, error, hint=hint, rest=_PAUSE_MILLISECONDS << max(0, row.attempts - 1))
            else:
                self._close([row], JobState.QUARANTINED if retry else JobState.FAILED, error, hint=hint)
        self._close(done, JobState.DONE, "", results={row.ord: given[row.id] for row in done if row.id in given})

    def release(
        self, scope: Scope, jobs: Sequence[Job], error: str = "", delay_seconds: float = 0.0, hint: str = ""
    ) -> None:
        """Back to the queue, as if they had not been begun: their worker stops, or cannot work just now."""
        rows = self._held_rows(scope, jobs)
        back = [row for row in rows if not row.cancel_requested]
        for row in rows:
            if row.cancel_requested:
                self._close([row], JobState.CANCELLED, row.error)
        self._close(back, JobState.QUEUED, error, hint=hint, rest=int(delay_seconds * 1000) or None)
        never = sa.case((t.jobs.c.attempts > 0, t.jobs.c.attempts - 1), else_=0)
        self._session.execute(sa.update(t.jobs).where(_among(back)).values(attempts=never))

    def _held_rows(self, scope: Scope, jobs: Sequence[Job]) -> Sequence[Row[Any]]:
        """Locked in one order, whoever asks: a beat and the work of the same jobs would else block each other."""
        if not jobs:
            return []
        claims = sa.tuple_(t.jobs.c.id, t.jobs.c.fence).in_([(job.id, job.fence) for job in jobs])
        held = sa.select(t.jobs).where(claims, t.jobs.c.state == str(JobState.RUNNING), _visible(scope))
        return self._session.execute(held.order_by(t.jobs.c.ord).with_for_update()).all()

    def cancel(self, scope: Scope, job: str, reason: str = "") -> None:
        """A job that waits or was set aside ends at once; a running one is told at its next heartbeat."""
        self._cancel(self._row(scope, job, lock=True), reason)

    def cancel_all(self, scope: Scope, principal: str, reason: str) -> list[Job]:
        """The same with all that somebody asked for and that has not ended; they come back as they are now.

        Uploads stay: they were answered for.
        """
        theirs = (t.jobs.c.principal == principal, t.jobs.c.kind != UPLOAD)
        open_ones = sa.select(t.jobs).where(*theirs, t.jobs.c.state.in_(_OPEN), _visible(scope))
        rows = self._session.execute(open_ones.with_for_update()).all()
        for row in rows:
            self._cancel(row, reason)
        return self._many([row.ord for row in rows])

    def _cancel(self, row: Row[Any], reason: str) -> None:
        if row.state in (JobState.QUEUED, JobState.QUARANTINED):
            self._close([row], JobState.CANCELLED, reason or row.error)
        elif row.state == JobState.RUNNING:  # its reason waits where that of its end will be
            told = {"cancel_requested": True, "error": storable(reason)}
            self._session.execute(sa.update(t.jobs).where(t.jobs.c.ord == row.ord).values(told))

    def get(self, scope: Scope, job: str) -> Job:
        row = self._session.execute(self._select().where(t.jobs.c.id == job, _visible(scope))).one_or_none()
        if row is None:
            raise _missing(job)
        return _job(row)

    def some(self, scope: Scope, jobs: Collection[str]) -> dict[str, Job]:
        """Those of them that there are, by their ids."""
        these = self._select().where(t.jobs.c.id.in_(jobs), _visible(scope))
        return {row.id: _job(row) for row in self._session.execute(these)}

    def maker(self, scope: Scope, job: str) -> Maker:
        """In whose name its work is done."""
        row = self._row(scope, job)
        return Maker(row.principal, row.storage, Clearance(row.clearance))

    def all(
        self, scope: Scope, project: str | None = None, limit: int | None = None, after: Cursor | None = None
    ) -> list[Job]:
        """The newest first."""
        older = beyond(t.jobs, after, newest_first=True)
        statement = self._select().where(_visible(scope), older).order_by(t.jobs.c.ord.desc()).limit(limit)
        if project is not None:
            statement = statement.where(t.jobs.c.project == self._session.project(scope, project).ord)
        return [_job(row) for row in self._session.execute(statement)]

    def unfinished(self, scope: Scope, kind: str, project: str | None = None) -> list[Job]:
        """Those that wait, run, or were set aside: what their payload names is still needed."""
        statement = self._select().where(t.jobs.c.kind == kind, t.jobs.c.state.in_(_UNFINISHED), _visible(scope))
        if project is not None:
            statement = statement.where(t.jobs.c.project == self._session.project(scope, project).ord)
        return [_job(row) for row in self._session.execute(statement.order_by(t.jobs.c.ord))]

    def holders(self, scope: Scope) -> set[str]:
        """Whose claims run now."""
        running = sa.select(t.jobs.c.owner).where(t.jobs.c.state == str(JobState.RUNNING), _visible(scope))
        return set(self._session.execute(running.distinct()).scalars())

    def free(self, scope: Scope, is_alive: Callable[[str], bool]) -> int:
        """Take back the jobs of workers that are known to have died, without waiting for their leases to end."""
        running = sa.select(t.jobs).where(t.jobs.c.state == str(JobState.RUNNING), _visible(scope))
        rows = self._session.execute(running.with_for_update(skip_locked=True)).all()
        dead = [row for row in rows if not is_alive(row.owner)]
        self._strike(dead)
        return len(dead)

    def counts(self, scope: Scope) -> dict[tuple[str, str], int]:
        """How many there are, by kind and state."""
        kind, state = t.jobs.c.kind, t.jobs.c.state
        statement = sa.select(kind, state, sa.func.count()).where(_visible(scope)).group_by(kind, state)
        return {(row[0], row[1]): row[2] for row in self._session.execute(statement)}

    def reap(self, scope: Scope) -> int:
        """Jobs whose worker stopped beating go back to the queue, or into quarantine after five."""
        taken = self._take_back(scope)
        self._forget_old(scope)
        return taken

    def _lapsed(self, scope: Scope) -> sa.ColumnElement[bool]:
        running = t.jobs.c.state == str(JobState.RUNNING)
        return sa.and_(running, t.jobs.c.lease_until < self._session.lease_now(), _visible(scope))

    def _take_back(self, scope: Scope) -> int:
        lapsed = sa.select(t.jobs).where(self._lapsed(scope))
        rows = self._session.execute(lapsed.with_for_update(skip_locked=True)).all()
        self._strike(rows)
        return len(rows)

    def _strike(self, rows: Sequence[Row[Any]]) -> None:
        for row in rows:
            state, error = _after_failure(row.attempts, _DEATHS), "its process ended without a word"
            if row.cancel_requested:
                state, error = JobState.CANCELLED, row.error or error
            elif json.loads(row.payload).get(FOREGROUND):
                state, error = JobState.FAILED, f"{error}; run the command again"
            again = state is JobState.QUEUED and row.attempts > 1
            # then others come first: a server that is killed often would otherwise always be at the same job
            rest = _PAUSE_MILLISECONDS << 2 * (row.attempts - 1) if again else None
            self._close([row], state, error, rest=rest)

    def _forget_old(self, scope: Scope) -> None:
        ended = (JobState.DONE, JobState.FAILED, JobState.CANCELLED)
        before = self._session.now() - KEPT_MILLISECONDS
        self._session.execute(
            sa.delete(t.jobs).where(t.jobs.c.state.in_(map(str, ended)), t.jobs.c.updated_at < before, _visible(scope))
        )

    # -- helpers

    def _close(
        self,
        rows: Sequence[Row[Any]],
        state: JobState,
        error: str,
        *,
        hint: str = "",
        results: Mapping[int, object] = MappingProxyType({}),
        rest: int | None = None,
    ) -> None:
        """End jobs, or put them back; `rest` milliseconds pass before they are taken again."""
        if not rows:
            return
        now, these = self._session.now(), _among(rows)
        if state is JobState.QUARANTINED:
            hint = hint or "ask for it again with the same key, or cancel it"
        values = {
            "state": str(state),
            "owner": None,
            "lease_until": None if rest is None else self._session.lease_now() + rest,
            "progress": None,
            "error": storable(error),
            "hint": storable(hint),
            "result": _by_key({key: json.dumps(result) for key, result in results.items()}),
            "updated_at": now,
        }
        self._session.execute(sa.update(t.jobs).where(these).values(values))
        if state is JobState.QUEUED:
            self._session.tell(Topic.JOB, *{row.kind for row in rows})
        else:
            self._session.tell(Topic.ENDED, *(row.id for row in rows))
        if state is JobState.CANCELLED:
            _bury_uploads(self._session, these)

    def _row(self, scope: Scope, job: str, *, lock: bool = False) -> Row[Any]:
        named = sa.select(t.jobs).where(t.jobs.c.id == job, _visible(scope))
        row = self._session.execute(named.with_for_update() if lock else named).one_or_none()
        if row is None:
            raise _missing(job)
        return row

    def _select(self) -> sa.Select[Any]:
        return sa.select(t.jobs, t.projects.c.id.label("project_id")).outerjoin(
            t.projects, t.projects.c.ord == t.jobs.c.project
        )

    def _get(self, key: int) -> Job:
        (job,) = self._many([key])
        return job

    def _many(self, keys: Sequence[int]) -> list[Job]:
        """In their order."""
        these = self._select().where(t.jobs.c.ord.in_(keys)).order_by(t.jobs.c.ord)
        return [_job(row) for row in self._session.execute(these)]


def forget_in_jobs(session: Session, project: int, sources: Sequence[str]) -> None:
    """The uploads by which a document came name it: they go with it. An upload's lane is its source."""
    for some in batches(sources):
        its = sa.and_(t.jobs.c.project == project, t.jobs.c.lane.in_(some), t.jobs.c.state.not_in(_OPEN))
        _bury_uploads(session, its)
        session.execute(sa.delete(t.jobs).where(its))


def _bury_uploads(session: Session, jobs: sa.ColumnElement[bool]) -> None:
    """They must not be taken in where an older backup, in which they wait, is restored."""
    ids = session.execute(sa.select(t.jobs.c.id).where(jobs, t.jobs.c.kind == UPLOAD)).scalars().all()
    bury(session, Kind.UPLOAD, ((id, "") for id in ids))


def waiting_uploads() -> sa.Select[Any]:
    """Uploads that were acknowledged and are not taken in yet, as if nobody had begun with them."""
    begun = t.jobs.c.state == str(JobState.RUNNING)
    afresh = {
        "state": sa.case((begun, str(JobState.QUEUED)), else_=t.jobs.c.state),
        "attempts": t.jobs.c.attempts - sa.case((begun, 1), else_=0),
        "owner": sa.null(),
        "lease_until": sa.null(),
        "progress": sa.null(),
    }
    columns = [afresh[each.name].label(each.name) if each.name in afresh else each for each in t.jobs.c]
    return sa.select(*columns).where(
        t.jobs.c.kind == UPLOAD, t.jobs.c.state.in_(_UNFINISHED), ~t.jobs.c.cancel_requested
    )


def _visible(scope: Scope) -> sa.ColumnElement[bool]:
    """One's own; of others', those that nobody with a higher clearance asked for: they name files."""
    seen = t.jobs.c.principal == scope.principal
    if scope.oversees:
        seen = sa.or_(seen, t.jobs.c.clearance <= int(scope.clearance))
    return sa.and_(reached(scope, t.jobs.c.project), seen)


def _missing(job: str) -> NotFound:
    return NotFound(f"no job {job!r}", hint="ragforge jobs ls shows them")


def _among(rows: Sequence[Row[Any]]) -> sa.ColumnElement[bool]:
    return t.jobs.c.ord.in_([row.ord for row in rows])


def _by_key(values: Mapping[int, str], otherwise: Any = None) -> Any:
    """What each row gets, in one statement for all."""
    return sa.case(values, value=t.jobs.c.ord, else_=otherwise) if values else otherwise


def _after_failure(attempts: int, most: int = STRIKES) -> JobState:
    return JobState.QUARANTINED if attempts >= most else JobState.QUEUED


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
        principal=row.principal,
        hint=row.hint,
        result=None if row.result is None else json.loads(row.result),
        priority=_RANKS[row.rank],
    )
