"""Whether several machines can work together here: what they share, and how each is."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from ragforge.domain.access import Scope
from ragforge.domain.library import Finding, Job, JobState, Node
from ragforge.errors import RagforgeError
from ragforge.ports import BlobStore, Catalog

_SILENT = timedelta(minutes=2)
_WAITS = timedelta(minutes=10)


def examine(
    catalog: Catalog, scope: Scope, blobs: Callable[[], BlobStore], indexes: Iterable[Finding], now: datetime
) -> Iterator[Finding]:
    """The database, the stored files, the indexes on servers, the machines, and the work that waits."""
    findings = list(catalog.server())
    yield from findings
    yield _stored(scope, blobs)
    yield from indexes
    if not findings[0].ok:
        return
    with catalog.read() as c:
        nodes, counts = c.nodes.all(scope), Counter(c.jobs.counts(scope))
        waiting = [job for kind in sorted({kind for kind, _ in counts}) for job in c.jobs.unfinished(scope, kind)]
    yield from machines(nodes, now)
    yield from work(waiting, now)


def _stored(scope: Scope, blobs: Callable[[], BlobStore]) -> Finding:
    """Something is stored, read and removed again."""
    subject, probe = "stored files", b"written by ragforge doctor"
    try:
        store = blobs()
        key = store.put(scope.owner, io.BytesIO(probe), len(probe)).key
        try:
            store.sync()
            with store.open(key) as file:
                whole = file.read() == probe
        finally:
            store.remove(key)
    except (RagforgeError, OSError) as problem:
        hint = problem.hint if isinstance(problem, RagforgeError) else "check store.blobs"
        return Finding(subject, False, str(problem), hint)
    if not store.shared:
        hint = "set store.blobs to a folder that all machines see, or to s3://BUCKET/FOLDER"
        return Finding(subject, True, "in this workspace: other machines do not see them", hint, warning=True)
    return Finding(subject, whole, "shared; written, read and removed" if whole else "not read as they were written")


def machines(nodes: Sequence[Node], now: datetime) -> Iterator[Finding]:
    """Each machine; and that somebody serves, somebody works, and all are of one version."""
    living = [node for node in nodes if now - node.seen_at < _SILENT]
    for node in nodes:
        alive = node in living
        seen = "" if alive else f", last seen {node.seen_at:%Y-%m-%d %H:%M} UTC"
        behind = f", {node.behind:,} changes behind" if node.behind else ""
        told = f"on {node.host}, version {node.version}{seen}{behind}"
        yield Finding(f"machine {node.id} ({node.role})", True, told, "is it meant to be down?", warning=not alive)
    roles = {node.role for node in living}
    hint = "start ragforge serve" if "server" not in roles else "start ragforge worker, unless servers take files in"
    told = (
        f"{sum(node.role == 'server' for node in living)} serve, {sum(node.role == 'worker' for node in living)} work"
    )
    yield Finding("machines", "server" in roles, told, hint, warning="worker" not in roles)
    versions = sorted({node.version for node in living})
    yield Finding("versions", True, ", ".join(versions) or "none", "update the others", warning=len(versions) > 1)


def work(unfinished: Sequence[Job], now: datetime) -> Iterator[Finding]:
    """What waits, for how long, and what was set aside."""
    queued = [job for job in unfinished if job.state is JobState.QUEUED]
    longest = max((now - job.updated_at for job in queued), default=timedelta())
    told = f"{len(queued):,} wait, the longest for {longest.total_seconds():.0f} s"
    yield Finding("work", True, told, "start more workers", warning=longest > _WAITS)
    aside = sum(job.state is JobState.QUARANTINED for job in unfinished)
    yield Finding("work set aside", True, f"{aside:,}", "ragforge jobs ls shows why", warning=aside > 0)
