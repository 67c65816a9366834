"""Jobs that do nothing through our own table, and through Procrastinate on the same Postgres.

`python -m bench.scale_queue [--small]`. Ours are enqueued, claimed, carried and finished by the very worker that takes
in uploads; only the work is left out. Procrastinate is installed by `make bench-peers`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from bench.scale_machine import Meter, Server, ask, conditions, per, told_by
from ragforge import Ragforge
from ragforge.domain.cancel import Cancel
from ragforge.domain.library import UPLOAD, Job, JobTerms
from ragforge.operate.access import owner
from ragforge.operate.jobs import Bell, JobRunner
from ragforge.operate.worker import Duties, Worker
from ragforge.ports import Catalog
from ragforge.settings import load
from ragforge.work import TOGETHER, together

PEER = Path(__file__).parents[1] / ".cache" / "peers" / "procrastinate" / "bin" / "python"
JOBS, FEW = 5_000, 200
BATCH = 64
"""Jobs that are enqueued in one transaction, where they are."""
_PATIENCE = 3_600.0

Figures = dict[str, Any]


class Queue:
    """Our jobs, in a catalog with one project."""

    def __init__(self, catalog: Catalog, project: str, server: Server) -> None:
        self._catalog, self._project, self._server = catalog, project, server
        self._runner = JobRunner(catalog)

    def enqueue(self, jobs: int, batch: int) -> Figures:
        def work() -> None:
            for start in range(0, jobs, batch):
                said = [_payload(number) for number in range(start, min(jobs, start + batch))]
                terms = [JobTerms(lane=f"upload:{each['name']}") for each in said]
                with self._catalog.write() as c:
                    c.jobs.enqueue(owner(), self._project, UPLOAD, said, terms)

        return self._metered(jobs, work)

    def drain(self, jobs: int, threads: int, *, batches: bool) -> Figures:
        """By so many threads of one worker, which take jobs one by one or together, as they do uploads."""
        left = threading.Semaphore(0)

        def perform(claimed: Sequence[Job], cancel: Cancel) -> Iterator[object]:
            yield from self._runner.carry(owner(), claimed, _nothing(claimed), cancel)
            left.release(len(claimed))

        def more(job: Job) -> list[Job]:
            return self._runner.claim_alike(owner(), job, TOGETHER, together(job)) if batches else []

        duties = Duties(perform, more, nullcontext, lambda projects, cancel: None, lambda: None)
        worker = Worker(self._catalog, owner(), duties, Bell(), [(UPLOAD,)] * threads)

        def work() -> None:
            worker.start()
            for _ in range(jobs):
                if not left.acquire(timeout=_PATIENCE):
                    raise SystemExit("jobs were not done in time")

        figures = self._metered(jobs, work)
        worker.stop()
        return figures

    def _metered(self, count: int, work: Callable[[], None]) -> Figures:
        meter = Meter(server=self._server)
        work()
        spent = meter.read()
        return {
            "count": count,
            "per_s": round(count / (spent["wall_s"] or 1), 1),
            "cpu_ms": per(spent["cpu_s"], count, 1e3),
            "postgres_cpu_ms": per(spent["postgres_cpu_s"], count, 1e3),
        }


def _payload(number: int) -> dict[str, Any]:
    """What an upload's job holds."""
    return {"inbox": f"{number:032x}", "name": f"page{number}.md", "size": 4_096, "sha256": "0" * 64, "labels": None}


def _nothing(jobs: Sequence[Job]) -> Generator[object, None, Sequence[object]]:
    yield from ()
    return [{} for _ in jobs]


def ours(server: Server, folder: Path, jobs: int) -> Figures:
    url, figures = server.create(), {}
    settings = load(folder / "workspace", flags={"bench": {"store.database_url": url}})
    with Ragforge.open(settings) as forge:
        project = forge.create_project("bench", embedder="wordllama").id
        queue = Queue(forge._parts.catalog, project, server)
        for threads in (1, 4):
            for batches in (False, True):
                sent = queue.enqueue(jobs, BATCH if batches else 1)
                figures["enqueue in batches" if batches else "enqueue"] = sent
                way = f"{threads} at once, {'batches' if batches else 'one by one'}"
                figures[way] = queue.drain(jobs, threads, batches=batches)
                _check(url, jobs)
    server.drop(url)
    return figures


def _check(url: str, jobs: int) -> None:
    """Every job was done; then they go, so that each way starts with as many."""
    import psycopg

    [(others, done)] = ask(url, "SELECT count(*) FILTER (WHERE state <> 'done'), count(*) FROM jobs")
    if others or done != jobs:
        raise SystemExit(f"{others} of {done} jobs were not done")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("TRUNCATE jobs")


def procrastinate(server: Server, jobs: int) -> Figures:
    if not PEER.exists():
        return {"problem": "not installed: make bench-peers installs it"}
    url = server.create()
    figures = told_by([str(PEER), "-m", "bench.scale_procrastinate", url, str(jobs)], server)
    [(done,)] = ask(url, "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'")
    if done != 3 * jobs:
        raise SystemExit(f"Procrastinate did {done} of {3 * jobs} jobs")
    server.drop(url)
    return figures


def run(small: bool) -> Figures:
    jobs, figures = FEW if small else JOBS, {"before": conditions()}
    with Server() as server, tempfile.TemporaryDirectory() as folder:
        figures["ours"] = ours(server, Path(folder), jobs)
        figures["procrastinate"] = procrastinate(server, jobs)
    return figures | {"after": conditions()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="few jobs, to see that it works")
    print(json.dumps(run(parser.parse_args().small)))


if __name__ == "__main__":
    main()
