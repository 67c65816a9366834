"""Four workers on one Postgres, killed again and again: each file is taken in exactly once."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from ragforge.domain.library import UPLOAD, Job, JobState, Outcome
from ragforge.testing.postgres import TemporaryPostgres
from tests.forge import faults, fill, open_forge
from tests.proof import PROVING, count, record

WORKERS = 4
SECONDS = 5.0
"""Between two kills; where counts are small, after some files instead, however slow the machine is."""
OPEN = (JobState.QUEUED, JobState.RUNNING)


def start(workspace: Path, database: str, blobs: Path) -> subprocess.Popen[bytes]:
    variables = {
        "RAGFORGE_STORE__DATABASE_URL": database,
        "RAGFORGE_STORE__BLOBS": str(blobs),
        "RAGFORGE_EMBED__MODEL": "wordllama",
        "RAGFORGE_EMBED__THREADS": "1",
    }
    command = [sys.executable, "-m", "ragforge.interfaces.cli.main", "-w", str(workspace), "worker", "--uploads", "1"]
    return subprocess.Popen(command, env={**os.environ, **variables}, stderr=subprocess.DEVNULL)


def waiting(jobs: list[Job]) -> int:
    return sum(job.state in OPEN for job in jobs)


@pytest.mark.alone
@pytest.mark.timeout(1800)
def test_each_file_exactly_once_though_workers_are_killed(postgres: TemporaryPostgres, tmp_path: Path) -> None:
    database, blobs = postgres.create(), tmp_path / "blobs"
    blobs.mkdir()
    files, least = fill(tmp_path / "docs", count(60, 3_000), sentences=40), count(8, 0)
    settings = {"store__database_url": database, "store__blobs": str(blobs)}
    with open_forge(tmp_path / "workspace", **settings) as forge:
        forge.create_project("shop", embedder="wordllama")
        jobs = [forge.upload(file, project="shop") for file in files]
        folders = [tmp_path / f"machine{number}" for number in range(WORKERS)]
        workers = [start(folder, database, blobs) for folder in folders]
        moments, kills, deadline = random.Random(1), 0, time.monotonic() + 1500
        try:
            left = len(jobs)
            while left:
                aim = time.monotonic() + SECONDS
                before = left
                while left and (time.monotonic() < aim if PROVING else before - left < least):
                    assert time.monotonic() < deadline
                    time.sleep(0.1)
                    left = waiting(forge.jobs(limit=len(jobs)))
                number = moments.randrange(WORKERS)
                workers[number].kill()
                workers[number].wait()
                kills += 1
                workers[number] = start(folders[number], database, blobs)
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
        ended = [job for job in forge.jobs(limit=len(jobs)) if job.kind == UPLOAD]
        assert {job.state for job in ended} == {JobState.DONE}
        outcomes = Counter(result["outcome"] for job in ended for result in job.result)
        documents = forge.documents(project="shop")
        assert sorted(document.name for document in documents) == sorted(file.name for file in files)
        assert len({document.id for document in documents}) == len(files)
        assert set(outcomes) <= {Outcome.READY, Outcome.UNCHANGED}
        assert all(forge.chunks(document.id, project="shop") for document in documents[:50])
        assert faults(forge) == []
    postgres.drop(database)
    record("workers_killed", files=len(files), workers=WORKERS, kills=kills, redone=outcomes[Outcome.UNCHANGED])
    assert kills > 0
