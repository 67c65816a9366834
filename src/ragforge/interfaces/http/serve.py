"""A server as a process: it listens, says so, and stops when it is told to; or a supervisor of several such processes.

The first SIGTERM or Ctrl-C lets what is under way end, for a second; then it is cut off. Work that is not done goes
back to the queue. Whatever happens, the process ends within five seconds; a second signal ends it at once.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import uvicorn

from ragforge.errors import StoreError, UserError
from ragforge.interfaces.http.connections import impatient

if TYPE_CHECKING:
    from fastapi import FastAPI

NUMBER = "RAGFORGE_WORKER"
"""The variable that tells a worker which one it is, from 1 on."""
COUNT = "RAGFORGE_WORKERS"
LISTENING = "RAGFORGE_LISTENING"
"""The variable that tells a worker the descriptor of the socket that all of them share."""
SEAL = "RAGFORGE_SEAL"
"""The variable with what workers seal prompts with, so that each opens what another sealed."""
STOPPED_AT_ONCE = 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_GRACE_SECONDS = 1
"""For requests that are under way; streams do not end by themselves."""
_LONGEST_STOP_SECONDS = 4.5
_BACKLOG = 2_048
_SWITCH_SECONDS = 0.001
"""A thread that computes gives way to the event loop this often; Python's own 5 ms times the threads are too long."""
_ARENA_MAX, _ARENAS = -8, 2
"""`M_ARENA_MAX` of glibc: by default each of our threads may keep memory of its own that the others cannot use."""
_MMAP_THRESHOLD, _LARGE_BYTES = -3, 2**20
"""`M_MMAP_THRESHOLD` of glibc: larger blocks go back to the system at once. By default that grows with use to 32 MB,
and what is freed between small blocks stays."""
_TIDY_SECONDS = 10.0
_LARGEST_MESSAGE = 2**20 + 4_096
_DESCRIPTORS = 65_536
_LOOK_SECONDS = 0.1
_SETTLE_SECONDS = 3.0
_SHORT_LIFE_SECONDS = 5.0
_SHORT_LIVES = 5
"""A worker that ends so soon so often will not live longer the next time."""

log = logging.getLogger("ragforge.serve")


def listen(host: str, port: int, idle_seconds: float) -> socket.socket:
    """The socket, or an error that says what to do. Who takes nothing of what was sent for so long is cut off."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as problem:
        raise UserError(
            f"there is no address {host!r}", hint="listen on 127.0.0.1, or on 0.0.0.0 with keys"
        ) from problem
    family, kind, protocol, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sys.platform == "linux":  # a connection that is closed in good order would wait for its reader forever
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(idle_seconds * 1_000))
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as problem:
        listening.close()
        raise _cannot_listen(host, port, problem) from problem
    return listening


def _cannot_listen(host: str, port: int, problem: OSError) -> UserError:
    if problem.errno == errno.EADDRINUSE:
        return UserError(f"port {port} of {host} is taken", hint="end what listens there, or take another: --port 0")
    if problem.errno in (errno.EACCES, errno.EPERM):
        return UserError(f"port {port} is not for every user", hint="take one from 1024 on, such as --port 8600")
    if problem.errno == errno.EADDRNOTAVAIL:
        return UserError(f"{host} is no address of this machine", hint="listen on 127.0.0.1, or on 0.0.0.0 with keys")
    return UserError(f"cannot listen on {host}:{port}: {problem.strerror}", hint="choose another --host or --port")


def address_of(listening: socket.socket) -> str:
    """Where it is reached, as a URL."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Stop:
    """Hears the signals. Python runs this between two steps of the event loop, so it only does what is quick."""

    def __init__(self, ask: Callable[[], None], at_once: Callable[[], None] = lambda: None) -> None:
        self._ask = ask
        self._at_once = at_once
        self._asked = False

    def __call__(self, *_: object) -> None:
        if self._asked:
            self._at_once()
            os._exit(STOPPED_AT_ONCE)
        self._asked = True
        self._ask()
        threading.Thread(target=_end_in_time, name="ragforge-end", daemon=True).start()


def _end_in_time() -> None:
    """What holds the process up after that is in a thread that cannot be stopped; it is as safe as a kill."""
    time.sleep(_LONGEST_STOP_SECONDS)
    log.warning("stopped before all work had ended; what is left is done at the next start")
    time.sleep(_LOOK_SECONDS)
    os._exit(0)


@contextmanager
def _heard(stop: _Stop) -> Generator[None, None, None]:
    before = {number: signal.signal(number, stop) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Server(uvicorn.Server):
    """Uvicorn with our own way to stop."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._started_call = started

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        settle()
        self._started_call()


def share_memory() -> None:
    """Let all threads take memory from the same few places, and return large blocks; to be said before there are many.

    Half a minute of uploads otherwise doubles what the process holds, and none of it is in use.
    """
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(_ARENA_MAX, _ARENAS)
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)


def take_descriptors() -> None:
    """As many open files and connections as this user may have: usually fewer are given than that."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def settle() -> None:
    """What is loaded by now stays: looking through all of it for garbage would stop every thread."""
    gc.collect()
    gc.freeze()


def _look_around(app: FastAPI) -> None:
    """What takes a while is not done when somebody asks for it, nor while we start: describing the routes, trying the
    walls of parsers."""
    time.sleep(_SETTLE_SECONDS)
    app.state.reference()
    app.state.health.try_walls()
    gc.freeze()


def _give_back() -> None:
    """Return to the system what requests have left behind.

    Python looks for old garbage so seldom, with what is loaded set aside, and the C library keeps what was freed
    between things in use: a busy server would hold ever more of both.
    """
    trim: Callable[[int], object] = getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)
    looked = 0
    while True:
        time.sleep(_TIDY_SECONDS)
        if (young := gc.get_stats()[0]["collections"]) != looked:  # else hardly anything was done meanwhile
            gc.collect()
            trim(0)
            looked = young + 1


def serve(app: FastAPI, sockets: Sequence[socket.socket], started: Callable[[], None], *, head_seconds: float) -> None:
    """Answer until a signal comes, or until the supervisor is gone."""
    config = uvicorn.Config(
        app,
        http=impatient(head_seconds),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        ws_max_size=_LARGEST_MESSAGE,
        ws_per_message_deflate=False,  # a small message would unpack to a large one, in the event loop's thread
        backlog=_BACKLOG,
    )

    def begin() -> None:
        started()
        threading.Thread(target=_look_around, args=[app], name="ragforge-look", daemon=True).start()

    if NUMBER in os.environ:
        threading.Thread(target=_outlive_nobody, name="ragforge-watch", daemon=True).start()
    run(config, sockets, begin, app.state.worker.stop)


def run(
    config: uvicorn.Config,
    sockets: Sequence[socket.socket],
    started: Callable[[], None],
    stopping: Callable[[], object],
) -> None:
    """Until a signal comes; then `stopping` ends the work, while requests have their second."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    take_descriptors()

    def begin() -> None:
        started()
        threading.Thread(target=_give_back, name="ragforge-tidy", daemon=True).start()

    server = _Server(config, begin)

    def ask() -> None:
        server.should_exit = True
        threading.Thread(target=stopping, name="ragforge-stop", daemon=True).start()

    with _heard(_Stop(ask)), suppress(SystemExit):  # its own way to say that it did not start
        server.run(list(sockets))
    if not server.started:
        raise StoreError("the server did not start", hint="the lines above tell why")


def _outlive_nobody() -> None:
    """The supervisor holds the other end of our standard input: when that closes, it has ended, however it did."""
    with suppress(OSError):
        while os.read(0, 1):
            pass
    os.kill(os.getpid(), signal.SIGTERM)


@dataclass(slots=True)
class _Worker:
    number: int
    process: subprocess.Popen[bytes]
    began: float = field(default_factory=time.monotonic)
    short_lives: int = 0


class Supervisor:
    """Keeps some workers alive that share one socket, and stops all of them."""

    def __init__(self, command: Sequence[str], listening: socket.socket, count: int) -> None:
        self._command = list(command)
        self._listening = listening
        self._count = count
        self._seal = os.environ.get(SEAL) or secrets.token_hex(32)
        self._workers: list[_Worker] = []
        self._stopping = False

    def run(self, started: Callable[[], None]) -> None:
        """Until a signal comes."""
        self._workers = [_Worker(number, self._start(number)) for number in range(1, self._count + 1)]
        try:
            with _heard(_Stop(self._ask, self._kill)):
                started()
                while not self._stopping:
                    time.sleep(_LOOK_SECONDS)
                    self._workers = [self._alive(worker) for worker in self._workers]
        finally:
            self._end()

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        shared = self._listening.fileno()
        environment: Mapping[str, str] = {
            **os.environ,
            NUMBER: str(number),
            COUNT: str(self._count),
            LISTENING: str(shared),
            SEAL: self._seal,
        }
        # a session of its own, so that Ctrl-C reaches the supervisor alone; its standard input ends with us
        return subprocess.Popen(
            self._command, env=environment, stdin=subprocess.PIPE, pass_fds=[shared], start_new_session=True
        )

    def _alive(self, worker: _Worker) -> _Worker:
        """The worker, or another in its place."""
        if worker.process.poll() is None or self._stopping:
            return worker
        is_short = time.monotonic() - worker.began < _SHORT_LIFE_SECONDS
        short_lives = worker.short_lives + 1 if is_short else 0
        if short_lives >= _SHORT_LIVES:
            raise StoreError(f"worker {worker.number} ends as soon as it has begun", hint="its last lines tell why")
        log.warning("worker %d ended with %d; another takes its place", worker.number, worker.process.returncode)
        if worker.process.stdin:
            worker.process.stdin.close()
        time.sleep(_LOOK_SECONDS * short_lives)
        return _Worker(worker.number, self._start(worker.number), short_lives=short_lives)

    def _ask(self) -> None:
        self._stopping = True

    def _kill(self) -> None:
        for worker in self._workers:
            worker.process.kill()

    def _end(self) -> None:
        deadline = time.monotonic() + _LONGEST_STOP_SECONDS
        for worker in self._workers:
            worker.process.terminate()
        for worker in self._workers:
            with suppress(subprocess.TimeoutExpired):
                worker.process.wait(max(0.0, deadline - time.monotonic()))
        self._kill()
        for worker in self._workers:
            worker.process.wait()
