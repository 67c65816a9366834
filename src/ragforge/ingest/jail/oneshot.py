"""A child with no wall but a time limit, for systems that have no other. Only used when the user asks for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO

from ragforge.domain.cancel import Cancel
from ragforge.domain.documents import Parsed, ParseFailure
from ragforge.ingest.jail import frames
from ragforge.ingest.jail.limits import Limits
from ragforge.ingest.jail.verdict import Ending, out_of_time, too_large, verdict
from ragforge.ingest.parse import registry

if TYPE_CHECKING:  # the child does without what the ports import
    from ragforge.ports import ParseRequest

_BOOT = (
    "import sys; sys.path[:0] = [path for path in sys.argv[2:] if path not in sys.path];"
    "from ragforge.ingest.jail.oneshot import main; main(sys.argv[1])"
)
_TICK_SECONDS = 0.05
_PASSED_ON = ("SYSTEMROOT", "TEMP", "TMP")  # without these Windows starts no Python


def parse(
    request: ParseRequest,
    parser: registry.Parser,
    file: BinaryIO,
    limits: Limits,
    paths: Sequence[str],
    cancel: Cancel,
) -> Parsed | ParseFailure:
    """Parse in a spawned child that is ended after `limits.wall_seconds`."""
    task = json.dumps({"parser": request.parser, "module": parser.module, "name": request.name})
    file.seek(0)
    data: bytes | None = file.read()
    deadline = time.monotonic() + limits.wall_seconds
    process = subprocess.Popen(
        [sys.executable, "-I", "-X", "utf8", "-c", _BOOT, task, *paths],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
    )
    with process:
        try:
            while True:
                cancel.check()
                try:
                    frame, _ = process.communicate(data, timeout=_TICK_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    data = None  # already on its way
                if time.monotonic() > deadline:
                    return out_of_time(limits.wall_seconds)
        finally:
            process.kill()
    if len(frame) > limits.output_bytes:
        return too_large(limits)
    return verdict(Ending(code=process.returncode), frame, limits)


def main(task: str) -> None:
    """The child: bytes from standard input, the answer to standard output, which nobody else writes to."""
    request = json.loads(task)
    answer = os.dup(sys.stdout.fileno())
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    data = sys.stdin.buffer.read()
    registry.PARSERS[request["parser"]] = registry.Parser(request["module"])
    with os.fdopen(answer, "wb") as output:
        output.write(frames.encode(registry.run(request["parser"], data, request["name"])))
