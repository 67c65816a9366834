"""`jobs` as a person and a program use it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ragforge.domain.library import Job, JobState, Progress
from ragforge.operate import access
from tests.forge import prose, set_aside
from tests.shell import Shell


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    made = Shell(tmp_path / "workspace", capsys)
    made.run("project", "new", "Manuals", "--embedder", "wordllama")
    return made


def sent(shell: Shell, name: str) -> Job:
    path = shell.workspace.parent / name
    path.write_text(prose(1))
    with shell.forge() as forge:
        return forge.upload(path, project="manuals")


def test_what_waits_runs_and_has_ended_is_listed(shell: Shell) -> None:
    assert "no jobs" in shell.run("jobs", "ls").stderr
    first, second = sent(shell, "one.md"), sent(shell, "two.md")
    with shell.forge() as forge, forge._parts.catalog.write() as c:
        claimed = c.jobs.claim(access.owner(), "worker", ["upload"], 60.0, first.id)
        assert claimed and c.jobs.heartbeat(access.owner(), [claimed], 60.0, {claimed.id: Progress("reading", 2, 7)})
    _, two, one, *_ = shell.run("jobs", "ls").stdout.splitlines()
    assert two.split()[:5] == [second.id[:8], "upload", "two.md", "manuals", "queued"]
    assert "reading 2/7" in one and first.id[:8] in one
    assert [job["id"] for job in shell.json("jobs", "ls", "-p", "manuals", "--limit", "1")["jobs"]] == [second.id]
    assert "newest 1" in shell.run("jobs", "ls", "--limit", "1").stderr
    shell.run("jobs", "ls", "-p", "nowhere", code=5)


def test_a_job_is_shown_with_what_became_of_it(shell: Shell) -> None:
    job = sent(shell, "one.md")
    with shell.forge() as forge:
        worker = forge.worker(1)
        worker.start()
        while not forge.job(job.id).ended:
            time.sleep(0.02)
        worker.stop()
        (document,) = forge.documents(project="manuals")
    shown = shell.run("jobs", "show", job.id[:6]).stdout
    assert "upload one.md" in shown and "done" in shown and document.id in shown and "by owner" in shown
    assert shell.json("jobs", "show", job.id)["job"]["result"][0]["outcome"] == "ready"
    assert "had ended already: done" in shell.run("jobs", "cancel", job.id).stderr


def test_a_file_that_could_not_be_read_is_not_listed_as_done_alone(shell: Shell) -> None:
    path = shell.workspace.parent / "empty.txt"
    path.write_bytes(b"")
    with shell.forge() as forge:
        job = forge.upload(path, project="manuals")
        worker = forge.worker(1)
        worker.start()
        while not forge.job(job.id).ended:
            time.sleep(0.02)
        worker.stop()
        [result] = forge.job(job.id).result
    assert f"done, failed: {result['message']}" in shell.run("jobs", "show", job.id).stdout
    assert "done, failed: " in shell.run("jobs", "ls").stdout  # the rest as far as it fits


def test_what_waits_or_was_set_aside_is_cancelled_and_its_bytes_are_gone(shell: Shell) -> None:
    waiting, aside = sent(shell, "one.md"), sent(shell, "two.md")
    with shell.forge() as forge:
        set_aside(forge, aside)
    shown = shell.run("jobs", "show", aside.id).stdout
    assert "quarantined" in shown and "ask for it again" in shown and "begun      5 times" in shown
    assert "Cancelled upload one.md" in shell.run("jobs", "cancel", waiting.id[:8]).stderr
    assert shell.json("jobs", "cancel", aside.id)["job"]["state"] == "cancelled"
    assert [path.name for path in (shell.workspace / "inbox").iterdir()] == ["lock"]


def test_one_that_runs_is_told(shell: Shell) -> None:
    job = sent(shell, "one.md")
    with shell.forge() as forge:
        with forge._parts.catalog.write() as c:
            assert c.jobs.claim(access.owner(), "worker", ["upload"], 60.0, job.id)
        assert "Cancelling upload one.md" in shell.run("jobs", "cancel", job.id).stderr
        assert forge.job(job.id).cancel_requested and forge.job(job.id).state is JobState.RUNNING
    assert "stopping" in shell.run("jobs", "ls").stdout


def test_mistakes_say_what_to_do_next(shell: Shell) -> None:
    sent(shell, "one.md")
    assert "ragforge jobs ls" in shell.run("jobs", "show", "nothing", code=5).stderr
    assert "ragforge jobs ls" in shell.run("jobs", "cancel", "", code=5).stderr
