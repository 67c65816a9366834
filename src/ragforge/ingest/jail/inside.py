"""A parser that tries the walls from inside: it does what a hostile file would, and tells what happened."""

from __future__ import annotations

import json
import mmap
import os
import resource
import socket
from pathlib import Path

from ragforge.domain.documents import Parsed, TextKind


def parse(data: bytes, name: str) -> Parsed:
    """`data` names the memory to ask for, a file to read and a port to reach."""
    trial = json.loads(data)
    facts = {
        "allocated": _allocates(trial["memory"]),
        "cpu": resource.getrlimit(resource.RLIMIT_CPU)[0],
        "read": _reads(trial["file"]),
        "connected": _connects(trial["port"]),
        "opened_socket": _opens_socket(),
        "forked": _forks(),
        "environment": sorted(os.environ),
        "user": os.geteuid(),
        "network": network_id(),
    }
    return Parsed(json.dumps(facts), TextKind.DATA)


def network_id() -> int:
    """The network this process lives in; 0 where there is only one."""
    try:
        return Path("/proc/self/ns/net").stat().st_ino
    except OSError:
        return 0


def _allocates(size: int) -> bool:
    try:
        mmap.mmap(-1, size).close()
    except (OSError, MemoryError):
        return False
    return True


def _reads(path: str) -> bool:
    try:
        Path(path).read_bytes()
    except OSError:
        return False
    return True


def _connects(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _opens_socket() -> bool:
    try:
        socket.socket().close()
    except OSError:
        return False
    return True


def _forks() -> bool:
    try:
        process = os.fork()
    except OSError:
        return False
    if process == 0:
        os._exit(0)
    os.waitpid(process, 0)
    return True
