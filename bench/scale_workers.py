"""Files a second by how many workers there are: `python -m bench.scale_workers --docs FOLDER [--small]`.

Real Markdown is uploaded as jobs to a Postgres catalog, all of it in one transaction, while the workers wait. Each is
a `ragforge worker --uploads 1` with one thread for its model and a folder of its own. The clock runs from the commit
to the end of the last job; starting up does not count, and neither does sending.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.ingest import DEFAULT_DOCS
from bench.scale_machine import Meter, Server, Waits, conditions, most_memory, per
from bench.scale_processes import Processes, cpu_of, until
from ragforge import Ragforge
from ragforge.domain.library import UPLOAD, JobState
from ragforge.operate.inbox import Received

WORKERS = {"wordllama": (1, 2, 4), "minilm": (1, 2)}
"""How many at once, by the embedder: the smaller the model, the more of the time is the catalog's."""
FEW = 20
PROJECT = "bench"
_SETTLE_SECONDS = 3.0
"""After its first file a worker brings all else up to date; it must hold no lock when it is held still."""
_PATIENCE = 7_200.0

Figures = dict[str, Any]


def measure(server: Server, files: Sequence[Path], embedder: str, count: int) -> Figures:
    url = server.create()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        processes = stack.enter_context(Processes(folder, url, embedder))
        forge = stack.enter_context(processes.open())
        forge.create_project(PROJECT, embedder=embedder)
        pids = [_warm_worker(processes, forge, number) for number in range(count)]
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        received = [_received(forge, file, number) for number, file in enumerate(files)]
        sending = Meter(server=server)
        forge.accept_uploads(received, project=PROJECT)
        sent = sending.read()
        meter = Meter(cpu_of(pids), server)
        with Waits(url) as waits:
            until(lambda: not _open(forge), _PATIENCE, 0.2)
        spent, memory = meter.read(), most_memory(pids)
        chunks = _checked(forge, len(files) + count)
    server.drop(url)
    return {
        "workers": count,
        "files": len(files),
        "chunks": chunks,
        "enqueue": sent,
        **spent,
        "files_per_s": per(len(files), 1, 1 / (spent["wall_s"] or 1), 2),
        "busy_cores": round(((spent["cpu_s"] or 0) + (spent["postgres_cpu_s"] or 0)) / (spent["wall_s"] or 1), 2),
        "memory": memory,
        "sessions": waits.shares(waits.seen),
        "blocked": waits.shares(waits.blocked),
    }


def _warm_worker(processes: Processes, forge: Ragforge, number: int) -> int:
    """A worker that has taken in a file, so that all is loaded; held still, so that the next file is another's."""
    [pid] = processes.workers([f"worker{number}"])
    with forge.inbox().receive(f"warm-up-{number}.md") as receiving:
        receiving.write(f"# Warm-up {number}\n\nBefore the clock starts, each worker has loaded its model.\n".encode())
        forge.accept_uploads([receiving.keep()], project=PROJECT)
    until(lambda: not _open(forge), 300)
    time.sleep(_SETTLE_SECONDS)
    os.kill(pid, signal.SIGSTOP)
    return pid


def _received(forge: Ragforge, file: Path, number: int) -> Received:
    """A name for each: files of one name would be taken in one after the other."""
    with forge.inbox().receive(f"{number}-{file.name}") as receiving, file.open("rb") as source:
        shutil.copyfileobj(source, receiving)
        return receiving.keep()


def _open(forge: Ragforge) -> int:
    counts = forge.queue()
    return sum(counts.get((UPLOAD, str(state)), 0) for state in (JobState.QUEUED, JobState.RUNNING))


def _checked(forge: Ragforge, files: int) -> int:
    """All that was sent is there. Returns how many chunks."""
    counts = {state: number for (kind, state), number in forge.queue().items() if kind == UPLOAD}
    if counts != {str(JobState.DONE): files}:
        raise SystemExit(f"not all uploads were taken in: {counts}")
    return sum(document.chunks for document in forge.documents(project=PROJECT))


def run(docs: Path, small: bool, embedders: Sequence[str] = tuple(WORKERS)) -> Figures:
    found = sorted(path for path in docs.rglob("*") if path.is_file())
    files = found[::FEW] if small else found
    figures: Figures = {"before": conditions()}
    with Server() as server:
        for embedder in embedders:
            counts = WORKERS[embedder][: 2 if small else None]
            figures[embedder] = {str(count): measure(server, files, embedder, count) for count in counts}
    return figures | {"after": conditions()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=Path, default=DEFAULT_DOCS, help="a folder of Markdown files")
    parser.add_argument("--small", action="store_true", help="few files, to see that it works")
    parser.add_argument("--embedder", action="append", choices=WORKERS, help="one alone")
    given = parser.parse_args()
    if not given.docs.is_dir():
        raise SystemExit(f"no folder {given.docs}: name one with --docs")
    print(json.dumps(run(given.docs, given.small, given.embedder or tuple(WORKERS))))


if __name__ == "__main__":
    main()
