"""What the child does with one file: raise the walls, parse, answer, end."""

from __future__ import annotations

import os
import platform
import resource
import signal
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ragforge.domain.documents import Parsed, ParseFailure, Reason
from ragforge.ingest.jail import frames, kernel, seccomp
from ragforge.ingest.jail.limits import Limits
from ragforge.ingest.jail.verdict import out_of_memory
from ragforge.ingest.parse import registry

LINUX = sys.platform == "linux"

_FILE, _ANSWER = 3, 4
_SHARED_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache")


@dataclass(frozen=True, slots=True)
class Task:
    """One file for one child."""

    parser: str
    name: str
    limits: Limits
    file: int
    answer: int
    folder: Path
    """Empty, its own, removed afterwards."""


def prepare() -> None:
    """Find out once, in the launcher, what every child needs to know."""
    open_to_all(libraries())
    kernel.may_become_nobody()
    kernel.landlock_abi()
    if seccomp.known_machine():
        seccomp.denials(platform.machine())


def run(task: Task, launcher: int) -> None:
    """Parse the task's file behind walls and write the answer. Called in a fresh child; returns when done."""
    _leave_everything_behind(task)
    _raise_walls(task, launcher)
    try:
        frame = frames.encode(_bounded(registry.run(task.parser, _read(_FILE), task.name), task.limits))
    except MemoryError:
        frame = frames.encode(out_of_memory(task.limits))
    _write(_ANSWER, frame)


def _leave_everything_behind(task: Task) -> None:
    """Own session, own folder, own descriptors, nothing else."""
    os.setsid()
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    os.chdir(task.folder)
    tempfile.tempdir = str(task.folder)
    # Both may stand where the other belongs, so they are first moved out of the way.
    file, answer = (os.dup(descriptor) for descriptor in (task.file, task.answer))
    os.dup2(file, _FILE)
    os.dup2(answer, _ANSWER)
    os.closerange(_ANSWER + 1, os.sysconf("SC_OPEN_MAX"))


def _raise_walls(task: Task, launcher: int) -> None:
    if not LINUX:
        _limit(task.limits, 0)
        return
    template = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    kernel.forbid_new_privileges()
    ruleset = kernel.landlock_ruleset(libraries(), task.folder)
    if kernel.may_become_nobody():
        kernel.become_nobody(keep_reading=ruleset is not None and not open_to_all(libraries()))
    else:
        kernel.set_capabilities(0)
    if ruleset is not None:
        kernel.landlock_enforce(ruleset)
    kernel.die_with_parent()
    if os.getppid() != launcher:
        os._exit(0)
    _limit(task.limits, template)
    if not seccomp.forbid_calls():
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))


def _limit(limits: Limits, template: int) -> None:
    if not limits.watch_memory:
        resource.setrlimit(resource.RLIMIT_AS, (template + limits.memory_bytes,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu_seconds, limits.cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits.file_size_bytes,) * 2)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits.open_files,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@cache
def libraries() -> tuple[Path, ...]:
    """Every folder Python code and shared libraries are read from."""
    own = (*sys.path, *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")))
    paths = (Path(entry).resolve() for entry in (*own, *_SHARED_LIBRARIES))
    return tuple(dict.fromkeys(path for path in paths if path.exists()))


@cache
def open_to_all(folders: tuple[Path, ...]) -> bool:
    """Whether any user can reach the folders."""
    closed = (path for folder in folders for path in (folder, *folder.parents) if path.is_dir())
    return all(path.stat().st_mode & 0o001 for path in closed)


def _read(descriptor: int) -> bytes:
    # Positioned reads: the offset is shared with the parent's file.
    pieces: list[bytes] = []
    position = 0
    while piece := os.pread(descriptor, 1 << 24, position):
        pieces.append(piece)
        position += len(piece)
    return b"".join(pieces)


def _write(descriptor: int, frame: bytes) -> None:
    view = memoryview(frame)
    while view:
        view = view[os.write(descriptor, view) :]


def _bounded(result: Parsed | ParseFailure, limits: Limits) -> Parsed | ParseFailure:
    if isinstance(result, Parsed) and len(result.text) > limits.output_characters:
        most = limits.output_characters // 1_000_000
        return ParseFailure(Reason.TOO_LARGE, f"more than {most} million characters", "split the file")
    return result
