"""Each wall by itself, then all of them as `doctor` shows them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ragforge.ingest.jail import cell, kernel, launcher, pool
from ragforge.ingest.jail.limits import Limits
from ragforge.ingest.jail.walls import Walls, probe

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="walls of Linux")


def alone(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, timeout=30, check=False
    )


_SECCOMP = """
import fcntl, os, resource, socket, threading
from ragforge.ingest.jail import kernel, seccomp
kernel.forbid_new_privileges()
assert seccomp.forbid_calls()
def refused(act, *arguments):
    try:
        act(*arguments)
    except PermissionError:
        return True
    return False
assert refused(socket.socket), "socket"
assert refused(socket.socketpair), "socketpair"
assert refused(os.fork), "fork"
assert refused(os.execv, "/bin/true", ["true"]), "exec"
assert refused(os.kill, os.getppid(), 0), "kill"
assert refused(os.chmod, ".", 0o755), "chmod"
assert refused(os.memfd_create, "m"), "memfd"
assert refused(resource.prlimit, os.getppid(), resource.RLIMIT_CPU, (1, 1)), "limits of another process"
assert refused(os.setpriority, os.PRIO_PROCESS, os.getppid(), 19), "priority of another process"
assert refused(os.sched_setaffinity, os.getppid(), {0}), "cores of another process"
assert refused(fcntl.fcntl, os.pipe()[0], fcntl.F_SETOWN, os.getppid()), "signals by way of a pipe"
assert refused(os.utime, "."), "times"
assert resource.prlimit(0, resource.RLIMIT_CORE) == resource.getrlimit(resource.RLIMIT_CORE)
assert fcntl.fcntl(1, fcntl.F_GETFD) >= 0
thread = threading.Thread(target=print, args=("a thread runs",), kwargs={"flush": True})
thread.start()
thread.join()
os.abort()
"""


@linux_only
def test_seccomp_alone_forbids_network_and_processes_but_not_threads() -> None:
    result = alone(_SECCOMP)
    assert result.stderr == ""
    assert result.returncode == -signal.SIGABRT
    assert result.stdout == "a thread runs\n"


_NETWORK = """
import socket, sys
from ragforge.ingest.jail import kernel
if not kernel.leave_network():
    sys.exit(3)
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=2)
except OSError:
    sys.exit(0)
sys.exit(1)
"""


@linux_only
def test_the_namespace_alone_removes_the_network() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        result = alone(_NETWORK, listener.getsockname()[1])
    if result.returncode == 3:
        pytest.skip("namespaces are forbidden here")
    assert (result.returncode, result.stderr) == (0, "")


_LANDLOCK = """
import sys
from pathlib import Path
from ragforge.ingest.jail import kernel
own, canary, readable = map(Path, sys.argv[1:])
kernel.forbid_new_privileges()
ruleset = kernel.landlock_ruleset([readable], own)
kernel.landlock_enforce(ruleset)
def refused(act, *arguments):
    try:
        act(*arguments)
    except OSError:
        return True
    return False
(own / "new").write_text("mine")
(own / "new").unlink()
assert (readable / "library").read_text() == "code"
assert refused((readable / "new").write_text, "x"), "write beside the libraries"
assert refused(canary.read_text), "read"
assert refused(canary.write_text, "x"), "write"
assert refused(canary.unlink), "remove"
assert refused((own / "link").symlink_to, canary), "link"
assert refused((own / "folder").mkdir), "folder"
"""


@linux_only
def test_landlock_alone_hides_files() -> None:
    if kernel.landlock_abi() == 0:
        pytest.skip("no Landlock here")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for inside in ("own", "readable"):
            (folder / inside).mkdir()
        (folder / "readable" / "library").write_text("code")
        (folder / "canary").write_text("secret")
        result = alone(_LANDLOCK, folder / "own", folder / "canary", folder / "readable")
        assert (folder / "canary").read_text() == "secret"
    assert (result.returncode, result.stderr) == (0, "")


@linux_only
def test_all_walls_hold_here() -> None:
    walls = probe()
    assert walls.memory and walls.cpu and walls.wall
    assert walls.network and walls.secrets and walls.user and walls.processes
    assert walls.files == (kernel.landlock_abi() > 0)
    assert "rlimit" in walls.methods


def test_watched_memory_is_named() -> None:
    walls = probe(Limits(watch_memory=True))
    assert walls.memory
    assert "memory watch" in walls.methods


@pytest.mark.skipif(shutil.which("ps") is None, reason="no ps here")
def test_memory_is_seen_without_the_files_of_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    ballast = bytearray(100_000_000)
    by_files = launcher.resident_bytes(os.getpid())
    monkeypatch.setattr(cell, "LINUX", False)
    assert abs(launcher.resident_bytes(os.getpid()) - by_files) < len(ballast) / 2
    assert by_files > len(ballast)


def test_a_system_without_a_jail_has_no_walls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragforge.ingest.jail.walls.can_jail", lambda: False)
    assert pool.can_jail()
    assert probe() == Walls()
