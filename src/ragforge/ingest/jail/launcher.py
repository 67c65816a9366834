"""A small process of one thread that holds the parsers ready and forks a fresh child for each file.

It never touches a file's bytes: descriptors pass through it to the child. A request brings three:
the file, the pipe for the answer, and a socket. On that socket it tells how the child ended; when the
other side closes it, the child is ended. When its own line to the parent closes, it ends all.
"""

from __future__ import annotations

import contextlib
import gc
import json
import mimetypes
import os
import resource
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from ragforge.ingest.jail import cell, kernel
from ragforge.ingest.jail.frames import MESSAGE_LENGTH
from ragforge.ingest.jail.limits import Limits
from ragforge.ingest.parse import registry

_DESCRIPTORS = 3
_WATCH_SECONDS = 0.05
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(slots=True)
class Child:
    """A running child and what it may use."""

    process: int
    line: socket.socket
    limits: Limits
    folder: Path
    deadline: float
    stopped: str = ""


class Launcher:
    """Serves requests until the parent is gone."""

    def __init__(self, control: socket.socket, folder: Path) -> None:
        self._control = control
        self._folder = folder
        self._children: dict[int, Child] = {}
        self._started = 0
        self._open = True
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ, self._request)
        woken, wake = socket.socketpair()
        for end in (woken, wake):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake.fileno())
        self._wake = wake
        self._selector.register(woken, selectors.EVENT_READ, lambda: self._reap(woken))

    def serve(self) -> None:
        while self._open:
            for key, _ in self._selector.select(self._patience()):
                callback: Callable[[], None] = key.data
                callback()
            self._enforce()
        for child in self._children.values():
            _end(child, "closed")

    def _patience(self) -> float | None:
        """Seconds until somebody must be looked at; None for as long as it takes."""
        running = [child for child in self._children.values() if not child.stopped]
        if not running:
            return None
        nearest = max(0.0, min(child.deadline for child in running) - time.monotonic())
        return min(nearest, _WATCH_SECONDS) if any(child.limits.watch_memory for child in running) else nearest

    def _request(self) -> None:
        message, descriptors = _receive(self._control)
        if not message:
            self._open = False
            return
        file, answer, line = descriptors
        request = json.loads(message)
        try:
            self._start(request, file, answer, socket.socket(fileno=line))
        finally:
            os.close(file)
            os.close(answer)

    def _start(self, request: dict[str, Any], file: int, answer: int, line: socket.socket) -> None:
        limits = Limits(**request["limits"])
        registry.PARSERS[request["parser"]] = registry.Parser(request["module"])
        try:
            _load(request["module"])
        except Exception as problem:  # whatever a module does when imported
            _tell(line, error=f"{type(problem).__name__}: {problem}"[:500])
            line.close()
            return
        self._started += 1
        folder = self._folder / str(self._started)
        folder.mkdir(mode=0o700)
        if cell.LINUX and kernel.may_become_nobody():
            os.chown(folder, kernel.NOBODY, kernel.NOBODY)
        task = cell.Task(request["parser"], request["name"], limits, file, answer, folder)
        launcher = os.getpid()
        process = os.fork()
        if process == 0:
            _be_child(task, launcher)
        child = Child(process, line, limits, folder, time.monotonic() + limits.wall_seconds)
        self._children[process] = child
        self._selector.register(line, selectors.EVENT_READ, lambda: self._abandoned(child))

    def _abandoned(self, child: Child) -> None:
        """The other side closed its end: nobody waits for this child any more."""
        self._selector.unregister(child.line)
        _end(child, "abandoned")

    def _enforce(self) -> None:
        for child in self._children.values():
            if child.stopped:
                continue
            if time.monotonic() >= child.deadline:
                _end(child, "wall")
            elif child.limits.watch_memory and resident_bytes(child.process) > child.limits.memory_bytes:
                _end(child, "memory")

    def _reap(self, woken: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            woken.recv(4096)
        while True:
            try:
                process, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if process == 0:
                return
            if process in self._children:
                self._finish(self._children.pop(process), os.waitstatus_to_exitcode(status), used)

    def _finish(self, child: Child, code: int, used: resource.struct_rusage) -> None:
        if child.stopped != "abandoned":
            self._selector.unregister(child.line)
        _signal(os.killpg, child)  # whatever it left running
        unit = 1024 if cell.LINUX else 1
        _tell(
            child.line,
            code=code,
            stopped=child.stopped,
            cpu=used.ru_utime + used.ru_stime,
            memory=used.ru_maxrss * unit,
        )
        child.line.close()
        _remove(child.folder)


def _be_child(task: cell.Task, launcher: int) -> None:
    """Never returns, so that no code of the launcher runs twice."""
    try:
        cell.run(task, launcher)
        os._exit(0)
    finally:
        os._exit(70)


def _load(module: str) -> None:
    if module not in sys.modules:
        import_module(module)
        gc.collect()
        gc.freeze()  # keeps the template's pages shared with the children


def _end(child: Child, why: str) -> None:
    child.stopped = why
    _signal(os.kill, child)  # it may not lead its group yet
    _signal(os.killpg, child)


def _signal(send: Callable[[int, int], None], child: Child) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        send(child.process, signal.SIGKILL)


def _tell(line: socket.socket, **facts: object) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more
        line.sendall(json.dumps(facts).encode())


def _remove(folder: Path) -> None:
    with contextlib.suppress(OSError, RecursionError):
        shutil.rmtree(folder)


def _receive(control: socket.socket) -> tuple[bytes, list[int]]:
    """One message with its descriptors; nothing when the parent is gone."""
    message, descriptors, _, _ = socket.recv_fds(control, MESSAGE_LENGTH.size, _DESCRIPTORS)
    while len(message) < MESSAGE_LENGTH.size:
        piece = control.recv(MESSAGE_LENGTH.size - len(message))
        if not piece:
            return b"", []
        message += piece
    (length,) = MESSAGE_LENGTH.unpack(message)
    body = b""
    while len(body) < length:
        piece = control.recv(length - len(body))
        if not piece:
            return b"", []
        body += piece
    return body, descriptors


def resident_bytes(process: int) -> int:
    """The memory a process holds now; 0 once it is gone."""
    try:
        if cell.LINUX:
            return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * resource.getpagesize()
        answer = subprocess.run(["ps", "-o", "rss=", "-p", str(process)], capture_output=True, text=True, check=False)
        return int(answer.stdout.strip() or 0) * 1024
    except (OSError, IndexError, ValueError):
        return 0


def main(control: int, folder: str) -> None:
    """Get ready for children, then serve."""
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))  # a template with threads cannot be forked safely
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    mimetypes.init()  # reads files that the walls hide later
    time.tzset()
    if cell.LINUX:
        kernel.leave_network()
        kernel.adopt_orphans()
        cell.prepare()
    try:
        Launcher(socket.socket(fileno=control), Path(folder)).serve()
    finally:
        _remove(Path(folder))
