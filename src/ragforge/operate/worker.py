"""A worker: takes jobs from the queue and does them, a few at once, until it is stopped.

wait (a bell, or a look every half second) -> claim -> perform -> claim more … -> upkeep -> wait
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass

from ragforge.domain.access import Scope
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.library import Job
from ragforge.errors import RagforgeError
from ragforge.operate.jobs import Bell, JobRunner, may_live, worker_name
from ragforge.ports import Catalog

_LOOK_SECONDS = 0.5
_LINGER_SECONDS = 0.3
"""How long a worker that has just finished listens for more before it brings everything else up to date."""
_UPKEEP_SECONDS = 2.0
"""How long that waits at most while jobs keep coming."""
_STOP_SECONDS = 1.5
_REST_SECONDS = 1.0
_REAP_SECONDS = 60.0
_DEAD_SECONDS = 2.0
"""How often it looks whether another process of this machine has died."""

log = logging.getLogger("ragforge.worker")


@dataclass(frozen=True, slots=True)
class Duties:
    """What a worker does, as far as others know how."""

    perform: Callable[[Sequence[Job], Cancel], Iterator[object]]
    """Does claimed jobs to their end, whatever that is."""
    more: Callable[[Job], list[Job]]
    """Claims others that are done together with this one."""
    at_work: Callable[[], AbstractContextManager[object]]
    """Held while there is work: whoever dies meanwhile is cleared up after."""
    upkeep: Callable[[set[str], Cancel], None]
    """Brings what is derived from these projects up to date."""
    begin: Callable[[], object]
    """Before the first job."""
    housekeeping: Callable[[Cancel], object] = lambda cancel: None
    """Every minute or so: what is due once a day is known to it."""


class Worker:
    """Some threads that do jobs."""

    def __init__(
        self, catalog: Catalog, scope: Scope, duties: Duties, bell: Bell, kinds: Sequence[tuple[str, ...]]
    ) -> None:
        """One thread for each entry of `kinds`, which takes jobs of these kinds."""
        self._catalog = catalog
        self._scope = scope
        self._duties = duties
        self._bell = bell
        self._kinds = kinds
        self._runner = JobRunner(catalog)
        self._name = worker_name()
        self._stopping = threading.Event()
        self._cancels: set[Cancel] = set()
        self._held: dict[str, Job] = {}
        self._dirty: set[str] = set()
        self._upkept = self._looked = time.monotonic()
        self._lock = threading.Lock()
        self._keeping = threading.Lock()
        self._threads = [
            threading.Thread(
                target=self._work, args=(each, number == len(kinds) - 1), name=f"ragforge-worker-{number}", daemon=True
            )
            for number, each in enumerate(kinds)
        ]

    def start(self) -> None:
        """Take back what a dead process of this machine held, and begin."""
        self._duties.begin()
        self._free_dead()
        for thread in self._threads:
            thread.start()

    @property
    def alive(self) -> bool:
        """Whether all its threads are."""
        return all(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        """End within two seconds. What is not done goes back to the queue at once, as if it had not been begun."""
        self._stopping.set()
        for kinds in self._kinds:
            self._bell.ring(kinds[0], len(self._threads))
        with self._lock:
            for cancel in self._cancels:
                cancel.set()
        deadline = time.monotonic() + _STOP_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        with self._lock:
            left = list(self._held.values())
        if left:  # the work does not listen; files that it may still bring are refused, because it holds no job
            with suppress(RagforgeError), self._catalog.write() as c:
                c.jobs.release(self._scope, left)

    # -- a thread

    def _work(self, kinds: tuple[str, ...], keeps_house: bool) -> None:
        reaped, trouble, sure = time.monotonic(), "", True
        while not self._stopping.is_set():
            heard = self._bell.rung(kinds)
            try:
                if not sure:
                    self._take_back()
                    sure = True
                if time.monotonic() - reaped > _REAP_SECONDS:
                    reaped = time.monotonic()
                    with self._catalog.write() as c:
                        c.jobs.reap(self._scope)
                    if keeps_house:
                        with self._stoppable() as cancel, suppress(Cancelled):
                            self._duties.housekeeping(cancel)
                if jobs := self._claim(kinds):
                    self._burst(kinds, jobs)
                    if trouble:
                        log.info("a worker goes on")
                        trouble = ""
                    continue
            except Exception as problem:
                sure = False
                if type(problem).__name__ != trouble:  # a full disk may stay so for hours
                    log.exception("a worker could not go on just now")
                    trouble = type(problem).__name__
                self._stopping.wait(_REST_SECONDS)
                continue
            self._bell.wait(kinds, heard, _LOOK_SECONDS)

    def _burst(self, kinds: tuple[str, ...], jobs: list[Job]) -> None:
        """These jobs, and those that come soon after; then upkeep. It counts as one piece of work."""
        try:
            with self._duties.at_work():
                while jobs and not self._stopping.is_set():
                    doing, jobs = jobs, []
                    self._do(doing)
                    if time.monotonic() - self._upkept > _UPKEEP_SECONDS:
                        self._upkeep()
                    jobs = self._next(kinds)
                self._upkeep()
        finally:
            if jobs:
                self._give_back(jobs)

    def _next(self, kinds: tuple[str, ...]) -> list[Job]:
        deadline = time.monotonic() + _LINGER_SECONDS
        while not self._stopping.is_set():
            heard = self._bell.rung(kinds)
            if jobs := self._claim(kinds):
                return jobs
            left = deadline - time.monotonic()
            if left <= 0:
                break
            self._bell.wait(kinds, heard, left)
        return []

    def _take_back(self) -> None:
        """What this thread may have claimed when the catalog went away, without hearing of it, waits again."""
        with self._catalog.write() as c:
            c.jobs.free(self._scope, lambda owner: owner != self._own_name())

    def _free_dead(self) -> None:
        """What a process of this machine held when it died waits again, long before its leases end."""
        self._looked = time.monotonic()
        with self._catalog.read() as c:  # whoever only looks keeps nobody from writing
            if all(map(may_live, c.jobs.holders(self._scope))):
                return
        with self._catalog.write() as c:
            c.jobs.free(self._scope, may_live)

    def _own_name(self) -> str:
        return f"{self._name}.{threading.current_thread().name}"

    def _claim(self, kinds: tuple[str, ...]) -> list[Job]:
        if time.monotonic() - self._looked > _DEAD_SECONDS:
            self._free_dead()
        job = self._runner.claim(self._scope, self._own_name(), kinds)
        return [] if job is None else [job, *self._duties.more(job)]

    def _give_back(self, jobs: Sequence[Job]) -> None:
        with self._catalog.write() as c:
            c.jobs.release(self._scope, jobs)

    def _do(self, jobs: Sequence[Job]) -> None:
        with self._lock:
            self._held |= {job.id: job for job in jobs}
        try:
            with self._stoppable() as cancel, suppress(Cancelled):
                for _ in self._duties.perform(jobs, cancel):
                    pass
        finally:
            with self._lock:
                for job in jobs:
                    self._held.pop(job.id, None)
                # only now: another thread may have brought these projects up to date while this one was at it
                self._dirty |= {job.project for job in jobs if job.project is not None}
            self._bell.end(job.id for job in jobs)

    @contextmanager
    def _stoppable(self) -> Iterator[Cancel]:
        cancel = Cancel()
        with self._lock:
            self._cancels.add(cancel)
        if self._stopping.is_set():
            cancel.set()
        try:
            yield cancel
        finally:
            with self._lock:
                self._cancels.discard(cancel)

    def _upkeep(self) -> None:
        with self._keeping:
            with self._lock:
                dirty, self._dirty = self._dirty, set()
                self._upkept = time.monotonic()
            if not dirty:
                return
            try:
                with self._stoppable() as cancel:
                    self._duties.upkeep(dirty, cancel)
            except BaseException:
                with self._lock:
                    self._dirty |= dirty
                raise
