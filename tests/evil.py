"""A parser that does what its file tells it to: what a parser library would do once a hostile file owns it."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from ragforge.domain.documents import Mark, Parsed, TextKind

MARKED = Parsed(
    "héllo wörld 🌍 and more",
    TextKind.TRANSCRIPT,
    (Mark(0, page=1), Mark(6, start=0.5, end=1.5, speaker="Ann"), Mark(9, start=2.0, speaker="Bob")),
    "A title",
    ("a note",),
)
_FORKS = 50


def hello(argument: str) -> str:
    return f"hello {argument}"


def marked(argument: str) -> Parsed:
    return MARKED


def allocate(argument: str) -> str:
    return f"took {len(bytearray(int(argument)))}"


def grow(argument: str) -> str:
    """Touches memory little by little, in a way that no MemoryError of Python's own can stop early."""
    held = []
    while True:
        held.append(b"x" * 10_000_000)
        time.sleep(0.005)


def native_abort(argument: str) -> str:
    os.abort()


def segfault(argument: str) -> str:
    return ctypes.string_at(0).decode()


def spin(argument: str) -> str:
    while True:
        pass


def spin_stubbornly(argument: str) -> str:
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    return spin(argument)


def sleep(argument: str) -> str:
    time.sleep(float(argument))
    return "rested"


def read(argument: str) -> str:
    return Path(argument).read_text()


def write(argument: str) -> str:
    Path(argument).write_text("was here")
    return "written"


def write_temporary(argument: str) -> str:
    """Writes until it may not."""
    written = 0
    with Path("large").open("wb", buffering=0) as file:
        try:
            while written < int(argument):
                written += file.write(b"\0" * 1_000_000)
        except OSError:
            pass
    return f"wrote {written}"


def overwrite_input(argument: str) -> str:
    os.pwrite(3, b"overwritten", 0)
    return "done"


def connect(argument: str) -> str:
    socket.create_connection(("127.0.0.1", int(argument)), timeout=2).close()
    return "connected"


def fork_bomb(argument: str) -> str:
    """Leaves children behind in sessions of their own."""
    for _ in range(_FORKS):
        if os.fork() == 0:
            os.setsid()
            time.sleep(60)
            os._exit(0)
    return "forked"


def execute(argument: str) -> str:
    os.execv("/bin/sh", ["sh", "-c", "true"])


def kill_launcher(argument: str) -> str:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)
    return "alive"


def chmod(argument: str) -> str:
    os.chmod(argument, 0o777)
    return "changed"


def noise(argument: str) -> str:
    print("NOISE on stdout")
    print("NOISE on stderr", file=sys.stderr)
    os.write(1, b"NOISE\n")
    os.write(2, b"NOISE\n")
    return f"input: {sys.stdin.read()!r}"


def long_text(argument: str) -> str:
    return "x" * int(argument)


def lie(argument: str) -> str:
    """Answers by itself, past every check of ours: far more than is allowed, or nonsense."""
    if argument == "nonsense":
        os.write(4, b"\xff" * 100)
        os._exit(0)
    while True:
        os.write(4, b"\0" * 65_536)


def surroundings(argument: str) -> str:
    threads = []
    for _ in range(3):
        threads.append(threading.Thread(target=time.sleep, args=(0.01,)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    return f"environment {sorted(os.environ)} folder {os.listdir('.')}"


def remember(argument: str) -> str:
    """Tells whether an earlier file left something in this module."""
    seen: str = globals().get("_seen", "nothing")
    globals()["_seen"] = argument
    return f"before: {seen}"


def parse(data: bytes, name: str) -> Parsed:
    """The first word of the file is the deed, the rest its argument."""
    deed, _, argument = data.decode().partition(" ")
    act: Callable[[str], str | Parsed] = globals()[deed]
    result = act(argument)
    return result if isinstance(result, Parsed) else Parsed(result)
