"""A disk that fills up: the command says so, what was acknowledged stays, and it goes on when there is room again."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ragforge.domain.library import FileResult, Outcome
from ragforge.domain.strategy import Strategy
from ragforge.errors import DiskFull, RagforgeError
from tests.forge import faults, fill, open_forge

ROOT = Path(__file__).parents[2]


def in_small_disk(folder: Path, work: str, options: str) -> dict[str, object]:
    """Run a function of this module in a process that has a small file system of its own mounted at `folder`."""
    script = f"from tests.faults.test_disk_full import {work}; {work}({str(folder)!r})"
    command = f'mount -t tmpfs -o {options} none "$1" && exec "$2" -c "$3"'
    own = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", command]
    done = subprocess.run(
        [*own, "sh", str(folder), sys.executable, script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return result


def can_mount(folder: Path) -> bool:
    command = ["unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", str(folder)]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def fill_the_disk(folder: str) -> None:
    """Add until the disk is full; make room; add the rest."""
    disk, docs = Path(folder), Path(folder).parent / "docs"
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(12 << 20))
    acknowledged: set[str] = set()
    full = ""
    with open_forge(disk / "workspace", ingest__batch_files=10) as forge:
        try:
            for event in forge.adding([docs], project="p"):
                if isinstance(event, FileResult) and event.outcome is Outcome.READY:
                    acknowledged.add(event.path)
        except DiskFull as problem:
            full = f"{problem.message}|{problem.hint}"
    ballast.unlink()
    with open_forge(disk / "workspace") as forge:
        held = {source.key for document in forge.documents(project="p") for source in document.sources}
        bad = [finding.subject for finding in faults(forge)]
        report = forge.add(docs, project="p")
        after = [finding.subject for finding in faults(forge)]
        print(
            json.dumps(
                {
                    "full": full,
                    "acknowledged": len(acknowledged),
                    "lost": sorted(acknowledged - held),
                    "faults": bad + after,
                    "failed": len(report.failed),
                    "files": len(forge.documents(project="p")),
                }
            )
        )


def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if not can_mount(disk):
        pytest.skip("no file system can be mounted here")
    docs = fill(tmp_path / "docs", 250, 30)
    result = in_small_disk(disk, "fill_the_disk", "size=16m")
    assert result["full"] == "the disk is full; nothing was lost|free some space and try again"
    assert isinstance(result["acknowledged"], int) and 0 < result["acknowledged"] < len(docs)
    assert (result["lost"], result["faults"], result["failed"]) == ([], [], 0)
    assert result["files"] == len(docs)


def write_to_a_read_only_disk(folder: str) -> None:
    disk, docs = Path(folder), Path(folder).parent / "docs"
    with open_forge(disk / "workspace") as forge:
        forge.add(sorted(docs.iterdir())[:2], project="p")
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    try:
        with open_forge(disk / "workspace") as forge:
            forge.add(docs, project="p")
        told = ""
    except RagforgeError as problem:
        told = f"{problem.exit_code}|{problem.message}|{problem.hint}"
    print(json.dumps({"told": told}))


def test_a_disk_that_may_only_be_read(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if not can_mount(disk):
        pytest.skip("no file system can be mounted here")
    fill(tmp_path / "docs", 4)
    code, message, hint = str(in_small_disk(disk, "write_to_a_read_only_disk", "size=8m")["told"]).split("|")
    assert code == "8" and message.startswith("cannot write") and "permissions" in hint


@pytest.mark.parametrize(
    "name",
    ["ingest.embedded", "ingest.publishing", "reindex.splitting", "reindex.embedding", "reindex.swapping"],
)
def test_no_room_at_each_step(swift_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    docs = swift_path / "docs"
    fill(docs, 4)
    with open_forge(swift_path / "workspace") as forge:
        forge.add(docs, project="p")
        fill(docs, 8)

        def work() -> None:
            if name.startswith("ingest"):
                forge.add(docs, project="p")
            else:
                list(forge.reindexing(project="p", strategy=Strategy(name="chars")))

        monkeypatch.setenv("RAGFORGE_TESTING", "1")
        monkeypatch.setenv("RAGFORGE_FAILPOINT", f"{name}:enospc")
        monkeypatch.setattr("ragforge.failpoints._passed", {})
        with pytest.raises((DiskFull, OSError)) as refused:
            work()
        monkeypatch.delenv("RAGFORGE_FAILPOINT")
        if name in ("ingest.publishing", "reindex.swapping"):  # inside a transaction
            assert isinstance(refused.value, DiskFull)
        assert len(forge.documents(project="p")) == 4 and faults(forge) == []
        work()
        assert faults(forge) == []


def limited(work: Callable[[], None]) -> int:
    """Run in a forked process whose files may not grow beyond 300 KB. Its exit code."""
    import resource
    import signal

    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
        work()
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def test_a_file_that_may_not_grow_stops_the_run_with_a_sentence(swift_path: Path) -> None:
    words = random.Random(1)
    (swift_path / "large.md").write_text(" ".join(f"w{words.randrange(10**6)}." for _ in range(100_000)))
    with open_forge(swift_path / "workspace"):
        pass

    def add() -> None:
        with open_forge(swift_path / "workspace") as forge:
            with pytest.raises(RagforgeError) as refused:
                forge.add(swift_path / "large.md", project="p")
            assert refused.value.exit_code == 8 and refused.value.hint

    assert limited(add) == 0
    with open_forge(swift_path / "workspace") as forge:
        assert forge.documents(project="p") == []
        assert list((swift_path / "workspace" / "uploads").glob("*/*/*")) == [] and faults(forge) == []
