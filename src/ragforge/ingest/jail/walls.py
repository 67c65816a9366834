"""Which walls hold on this machine, found by trying them from inside."""

from __future__ import annotations

import io
import json
import os
import socket
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ragforge.domain.cancel import Cancel
from ragforge.domain.documents import Parsed
from ragforge.domain.library import Finding
from ragforge.ingest.jail.limits import Limits
from ragforge.ingest.jail.pool import Jail, can_jail
from ragforge.ingest.parse.registry import Parser
from ragforge.ports import ParseRequest


@dataclass(frozen=True, slots=True)
class Walls:
    """What a parser cannot do here. `methods` names what it is held by."""

    memory: bool = False
    """It cannot take more memory than allowed."""
    cpu: bool = False
    """It cannot compute longer than allowed."""
    wall: bool = False
    """It cannot wait longer than allowed."""
    network: bool = False
    """It reaches no network."""
    files: bool = False
    """It reads no file but the one it is given and the libraries."""
    secrets: bool = False
    """It sees nothing of the environment."""
    user: bool = False
    """It is not root."""
    processes: bool = False
    """It starts no other process."""
    methods: tuple[str, ...] = ()


def probe(limits: Limits | None = None) -> Walls:
    """Send a child to try the walls. Takes about a fifth of a second."""
    if not can_jail():
        return Walls()
    from ragforge.ingest.jail.inside import network_id  # cannot be imported where there is no jail

    limits = limits or Limits()
    jail = Jail(limits, concurrency=1, parsers={"inside": Parser("ragforge.ingest.jail.inside")})
    try:
        with tempfile.NamedTemporaryFile() as secret, socket.create_server(("127.0.0.1", 0)) as listener:
            Path(secret.name).chmod(0o644)
            trial = {"memory": limits.memory_bytes, "file": secret.name, "port": listener.getsockname()[1]}
            file = io.BytesIO(json.dumps(trial).encode())
            result = jail.parse(ParseRequest("inside", "walls"), file, Cancel())
    finally:
        jail.close()
    if not isinstance(result, Parsed):
        return Walls()
    facts = json.loads(result.text)
    moved = facts["network"] != network_id()
    named = {
        "rlimit" if not limits.watch_memory else "memory watch": True,
        "Landlock": not facts["read"] and sys.platform == "linux",
        "network namespace": moved,
        "seccomp": not facts["opened_socket"],
        "own user": facts["user"] != os.geteuid(),
    }
    return Walls(
        memory=limits.watch_memory or not facts["allocated"],
        cpu=facts["cpu"] == limits.cpu_seconds,
        wall=True,
        network=not facts["connected"],
        files=not facts["read"],
        secrets=not set(facts["environment"]) & set(os.environ) - {"LC_CTYPE"},
        user=facts["user"] != 0,
        processes=not facts["forked"],
        methods=tuple(name for name, holds in named.items() if holds),
    )


def findings(walls: Walls) -> list[Finding]:
    """The walls as `doctor` shows them. Without bounds on memory and time, binary files are refused."""
    held = ", ".join(walls.methods) or "nothing"
    bounded = walls.memory and walls.cpu and walls.wall
    hint = "binary files are refused here; --unsafe-parsers reads them all the same"
    rows = [Finding("parsers: memory and time bounded", bounded, held, hint)]
    for subject, holds in (
        ("no network", walls.network),
        ("no foreign files", walls.files),
        ("no secrets", walls.secrets),
        ("not root", walls.user),
    ):
        rows.append(
            Finding(f"parsers: {subject}", holds, "holds" if holds else "does not hold", "use a newer Linux kernel")
        )
    return rows
