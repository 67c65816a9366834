"""`ragforge worker`: does what waits, and stops when it is told to."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.domain.library import JobState
from tests.forge import prose


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_worker_does_what_waits_until_it_is_stopped(tmp_path: Path, number: signal.Signals) -> None:
    workspace, file = tmp_path / "ws", tmp_path / "a.md"
    file.write_text(prose(1))
    with Ragforge.open(workspace) as forge:
        forge.create_project("p", embedder="wordllama")
        job = forge.upload(file, project="p")
        command = [
            sys.executable,
            "-m",
            "ragforge.interfaces.cli.main",
            "-w",
            str(workspace),
            "worker",
            "--uploads",
            "1",
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            deadline = time.monotonic() + 60
            while not forge.job(job.id).ended:
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.05)
            process.send_signal(number)
            out, err = process.communicate(timeout=30)
        assert (process.returncode, out) == (0, "")
        assert "1 upload at once" in err and "Stopping" in err
        assert forge.job(job.id).state is JobState.DONE
        assert [document.name for document in forge.documents(project="p")] == ["a.md"]
        assert [finding for finding in forge.check() if not finding.ok] == []


BROKEN = """
from ragforge.adapters.catalog.jobs import SqlJobs
def broken(self, scope, kinds):
    raise ValueError("the salary of Ms Winter, read with sk-live-1234567890abcdefghij")
SqlJobs.waiting = broken
from ragforge.interfaces.cli.main import main
main()
"""


def test_what_goes_wrong_is_told_without_words_of_documents_and_secrets(tmp_path: Path) -> None:
    Ragforge.open(tmp_path / "ws").close()
    command = [sys.executable, "-c", BROKEN, "-w", str(tmp_path / "ws"), "worker"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        told = ""
        while "could not go on" not in told:
            told += process.stderr.readline()
            assert process.poll() is None, told
        process.send_signal(signal.SIGTERM)
        told += process.communicate(timeout=30)[1]
    assert "ValueError" in told and "salary" not in told and "sk-live" not in told
    assert all(json.loads(line)["message"] for line in told.splitlines())
