"""Procrastinate's side of `bench.scale_queue`, run in an environment of its own with a database's URL and a number.

Jobs that do nothing are deferred one by one and in batches, then done by its worker. Its tasks are coroutines, as its
documentation advises where several run at once.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import procrastinate

BATCH = 64
CONCURRENCY = (1, 4)


def payload(number: int) -> dict[str, Any]:
    """What an upload's job holds."""
    return {"inbox": f"{number:032x}", "name": f"page{number}.md", "size": 4_096, "sha256": "0" * 64, "labels": None}


def main() -> None:
    url, jobs = sys.argv[1], int(sys.argv[2])
    sender = procrastinate.App(connector=procrastinate.SyncPsycopgConnector(conninfo=url, min_size=1, max_size=1))
    take_in = sender.task(name="take_in")(_nothing)
    with sender.open():
        sender.schema_manager.apply_schema()
        one_by_one(take_in, jobs, lock=True)
        drain(url, jobs, CONCURRENCY[0], "locks, ")
        one_by_one(take_in, jobs, lock=False)
        drain(url, jobs, CONCURRENCY[0], "")
        batches(take_in, jobs)
        drain(url, jobs, CONCURRENCY[1], "")
    say(version=procrastinate.__version__)


async def _nothing(**kwargs: object) -> None:
    pass


def one_by_one(task: Any, jobs: int, *, lock: bool) -> None:
    """With a lock, those of one name would be done one after the other, as lanes do with us."""

    def work() -> None:
        for number in range(jobs):
            said = payload(number)
            (task.configure(lock=f"upload:{said['name']}") if lock else task).defer(**said)

    metered(f"defer{', locks' if lock else ''}", jobs, work)


def batches(task: Any, jobs: int) -> None:
    def work() -> None:
        for start in range(0, jobs, BATCH):
            task.batch_defer(*map(payload, range(start, min(jobs, start + BATCH))))

    metered("defer in batches", jobs, work)


def drain(url: str, jobs: int, concurrency: int, title: str) -> None:
    worker = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, max_size=concurrency + 4))
    worker.task(name="take_in")(_nothing)

    async def work() -> None:
        async with worker.open_async():
            await worker.run_worker_async(concurrency=concurrency, wait=False, install_signal_handlers=False)

    metered(f"{title}{concurrency} at once", jobs, lambda: asyncio.run(work()))


def metered(name: str, count: int, work: Callable[[], object]) -> None:
    say(begins=name)
    sys.stdin.readline()
    began, cpu = time.monotonic(), time.process_time()
    work()
    wall, cpu = time.monotonic() - began, time.process_time() - cpu
    say(did=name, count=count, per_s=round(count / wall, 1), cpu_ms=round(cpu / count * 1e3, 3))


def say(**told: object) -> None:
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
