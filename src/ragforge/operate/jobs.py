"""Long work as a job in the catalog: others see how far it is, can cancel it, and learn how it ended."""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from ragforge.domain.access import Scope
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.library import FOREGROUND, Job, OwnProgress, Progress
from ragforge.errors import Busy, DiskFull, Outdated, ProviderError, RagforgeError, StoreError, Unreachable
from ragforge.ports import Catalog

Event = TypeVar("Event")

_LEASE_SECONDS = 120.0
_BEAT_SECONDS = 1.0
_WAIT_SECONDS = 5.0
"""How long a job rests that could not be done just now, through no fault of its own."""
STOPPED = "stopped before its end"
_BOOT = Path("/proc/sys/kernel/random/boot_id")


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
        """Work that a person waits for. Its events are passed on; a cancelled job stops it."""
        with self.catalog.write() as c:
            c.jobs.reap(scope)
            (job,) = c.jobs.enqueue(scope, project, kind, [{**payload, FOREGROUND: True}])
            claimed = c.jobs.claim(scope, worker_name(), [kind], _LEASE_SECONDS, job.id)
        assert claimed is not None
        problem: BaseException | None = None
        try:
            yield from self._told(scope, [claimed], events, cancel)
        except BaseException as raised:
            problem = raised
            raise
        finally:
            with self.catalog.write() as c:
                c.jobs.finish(scope, [claimed], None if problem is None else _reason(problem), hint=_hint(problem))

    def claim(self, scope: Scope, worker: str, kinds: Sequence[str]) -> Job | None:
        """A job that waits, if there is one."""
        with self.catalog.read() as c:  # whoever only looks keeps nobody from writing
            if not c.jobs.waiting(scope, kinds):
                return None
        with self.catalog.write() as c:
            return c.jobs.claim(scope, worker, kinds, _LEASE_SECONDS)

    def claim_alike(self, scope: Scope, job: Job, limit: int, fits: Callable[[Job], bool]) -> list[Job]:
        """More of the same kind for the same worker."""
        with self.catalog.write() as c:
            return c.jobs.claim_alike(scope, job, _LEASE_SECONDS, limit, fits)

    def carry(
        self, scope: Scope, jobs: Sequence[Job], work: Generator[Event, None, Sequence[object]], cancel: Cancel
    ) -> Generator[Event, None, None]:
        """Do the work of claimed jobs, which gives a result for each. Whatever happens, it ends in the catalog.

        done; failed; back in the queue: with a strike if the work broke, without one if it was stopped, or if there
        is no room or no service just now. Only a stop is raised. A result that is `Busy` puts its job back alone.
        """
        results: Sequence[object] = ()
        problem: BaseException | None = None
        try:
            results = yield from self._told(scope, jobs, work, cancel)
        except (Cancelled, GeneratorExit) as stop:
            problem = stop
            raise
        except Exception as raised:
            problem = raised
        finally:
            self._end(scope, jobs, results, problem)

    def _end(self, scope: Scope, jobs: Sequence[Job], results: Sequence[object], problem: BaseException | None) -> None:
        """As long as the claim holds, a catalog that is away is waited for: to say it twice does no harm."""
        deadline = time.monotonic() + _LEASE_SECONDS
        while True:
            try:
                return self._say_end(scope, jobs, results, problem)
            except Unreachable:
                if time.monotonic() > deadline:
                    raise

    def _say_end(
        self, scope: Scope, jobs: Sequence[Job], results: Sequence[object], problem: BaseException | None
    ) -> None:
        if problem is None:
            self._say_done(scope, jobs, results)
            return
        with self.catalog.write() as c:
            if isinstance(problem, Cancelled | GeneratorExit):
                c.jobs.release(scope, jobs)
            elif _is_passing(problem):
                c.jobs.release(scope, jobs, _reason(problem), _WAIT_SECONDS, _hint(problem))
            else:
                retry = _is_worth_a_try(problem) or len(jobs) > 1  # next time each alone, to see whose fault it is
                c.jobs.finish(scope, jobs, _reason(problem), retry=retry, hint=_hint(problem))

    def _say_done(self, scope: Scope, jobs: Sequence[Job], results: Sequence[object]) -> None:
        """Some may have to wait all the same: each for a reason of its own, so nobody else with it."""
        done: list[tuple[Job, object]] = []
        waiting: dict[tuple[str, str], list[Job]] = {}
        for job, result in zip(jobs, results, strict=True):
            if isinstance(result, Busy):
                waiting.setdefault((result.message, result.hint), []).append(job)
            else:
                done.append((job, result))
        with self.catalog.write() as c:
            c.jobs.finish(scope, [job for job, _ in done], results=[result for _, result in done])
        for (message, hint), those in waiting.items():  # one after the other, as all who lock jobs lock them in order
            with self.catalog.write() as c:
                c.jobs.release(scope, those, message, _WAIT_SECONDS, hint)

    def _told(
        self, scope: Scope, jobs: Sequence[Job], events: Iterator[Event], cancel: Cancel
    ) -> Generator[Event, None, Any]:
        """The events, while the leases are kept; and what a generator returns."""
        with _Heart(self.catalog, scope, jobs, cancel) as heart:
            try:
                while True:
                    try:
                        event = next(events)
                    except StopIteration as end:
                        return end.value
                    heart.hear(event)
                    yield event
            finally:
                if isinstance(events, Generator):  # its caller went away: the work ends before the job does
                    events.close()


def _is_passing(problem: BaseException) -> bool:
    """Nobody's fault, and likely gone soon: what was accepted must not be given up for it."""
    return isinstance(problem, Busy | DiskFull | Outdated | Unreachable)


def _is_worth_a_try(problem: BaseException) -> bool:
    if isinstance(problem, ProviderError):
        return problem.retryable
    return isinstance(problem, StoreError) or not isinstance(problem, RagforgeError)


def _reason(problem: BaseException) -> str:
    if isinstance(problem, Cancelled):
        return "cancelled"
    if isinstance(problem, GeneratorExit):
        return STOPPED
    return str(problem) or type(problem).__name__


def _hint(problem: BaseException | None) -> str:
    return problem.hint if isinstance(problem, RagforgeError) else ""


class _Heart:
    """Beats while the work goes on, however long one step takes. Sets `cancel` when a job was taken away."""

    def __init__(self, catalog: Catalog, scope: Scope, jobs: Sequence[Job], cancel: Cancel) -> None:
        self._common: Progress | None = None
        self._own: dict[str, Progress] = {}
        self._catalog = catalog
        self._scope = scope
        self._jobs = jobs
        self._cancel = cancel
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="ragforge-job", daemon=True)

    def hear(self, event: object) -> None:
        """What the next beat tells: of each job how far it is, or how far all of them are."""
        if isinstance(event, Progress):
            self._common = event
        elif isinstance(event, OwnProgress):
            self._own[event.of] = event.progress

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _progress(self) -> dict[str, Progress]:
        own, common = self._own, self._common
        return dict(own) if common is None else {job.id: own.get(job.id, common) for job in self._jobs}

    def _beat(self) -> None:
        told, beaten = self._progress(), time.monotonic()
        while not self._ended.wait(_BEAT_SECONDS):
            progress = self._progress()
            if progress == told and time.monotonic() - beaten < _LEASE_SECONDS / 24 and not self._is_unwanted():
                continue
            try:
                with self._catalog.write() as c:
                    held = c.jobs.heartbeat(self._scope, self._jobs, _LEASE_SECONDS, progress)
            except StoreError:  # the work itself will meet it, or it passes
                continue
            told, beaten = progress, time.monotonic()
            if not held:
                self._cancel.set()
                return

    def _is_unwanted(self) -> bool:
        """Whether somebody has cancelled one of them: a look costs less than a beat."""
        try:
            with self._catalog.read() as c:
                found = c.jobs.some(self._scope, [job.id for job in self._jobs])
        except RagforgeError:  # not to be read now: the beat tells
            return True
        return len(found) < len(self._jobs) or any(job.cancel_requested for job in found.values())


class Bell:
    """Tells the threads of this process at once what others learn by looking: that there is work, and that it ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sleeping: dict[tuple[str, ...], threading.Condition] = {}
        self._rung: Counter[str] = Counter()
        self._waiting: dict[str, list[Callable[[], object]]] = {}

    def ring(self, kind: str, jobs: int = 1) -> None:
        """There is work for so many; whoever sleeps on looks for itself before long."""
        with self._lock:
            self._rung[kind] += 1
            for kinds, sleeping in self._sleeping.items():
                if kind in kinds:
                    sleeping.notify(jobs)

    def rung(self, kinds: tuple[str, ...]) -> int:
        """How often it was rung for work of these kinds."""
        return sum(self._rung[kind] for kind in kinds)

    def wait(self, kinds: tuple[str, ...], heard: int, seconds: float) -> None:
        """Until it is rung more often than was heard before, or the time is over."""
        with self._lock:
            sleeping = self._sleeping.setdefault(kinds, threading.Condition(self._lock))
            sleeping.wait_for(lambda: self.rung(kinds) != heard, seconds)

    def then(self, job: str, call: Callable[[], object]) -> None:
        """Call when the job has ended."""
        with self._lock:
            self._waiting.setdefault(job, []).append(call)

    def forget(self, job: str, call: Callable[[], object]) -> None:
        with self._lock:
            calls = self._waiting.get(job, [])
            if call in calls:
                calls.remove(call)
            if not calls:
                self._waiting.pop(job, None)

    def end(self, jobs: Iterable[str]) -> None:
        with self._lock:
            calls = [call for job in jobs for call in self._waiting.pop(job, [])]
        for call in calls:
            call()


def worker_name() -> str:
    """Host, place, process and a word of one's own: enough to know later whether it still lives."""
    pid = os.getpid()
    return f"{socket.gethostname()}/{_place()}/{pid}.{_began(pid)}/{secrets.token_hex(4)}"


def may_live(worker: str) -> bool:
    """False only if it is known to be dead: a process that could be seen here and is no more, or is another by now.

    Of all others, in another container or on another machine, whatever that is called, only their lease tells.
    """
    _, _, rest = worker.partition("/")
    place, _, rest = rest.partition("/")
    pid, _, began = rest.partition("/")[0].partition(".")
    if not place or place != _place() or not pid.isdecimal():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        return True
    return _began(int(pid)) in ("", began)


def _place() -> str:
    """Where numbers of processes mean the same: this start of the system, and the namespace of this process.

    Empty where that is not to be known: without /proc, or with one that shows another namespace.
    """
    try:
        if os.readlink("/proc/self") != str(os.getpid()):
            return ""
        return f"{_BOOT.read_text().strip()}:{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def _began(pid: int) -> str:
    """When a process began, as far as the system tells: numbers of processes are given again."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "ended" if state in "ZX" else rest[18]  # one that nobody has asked after yet still has its number
    except (OSError, ValueError, IndexError):
        return ""
