"""`ragforge serve` or `ragforge ui` as a process of its own, and what it wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

START_SECONDS = 60.0


class Serving:
    """A server that runs. Its log is read all the time, so that it never waits for us."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))

    def told(self, message: str) -> list[dict[str, Any]]:
        """The log's entries with this message."""
        entries = [json.loads(line) for line in list(self.lines) if line.startswith("{")]
        return [entry for entry in entries if entry["message"] == message]

    def wait_for(self, message: str, seconds: float = START_SECONDS) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while not (found := self.told(message)):
            assert self.process.poll() is None, "\n".join(self.lines[-20:])
            assert time.monotonic() < deadline, "\n".join(self.lines[-20:])
            time.sleep(0.02)
        return found[0]

    @property
    def address(self) -> str:
        return str(self.wait_for("listening")["address"])

    def stop(self, signal: int, seconds: float = 10.0) -> tuple[int, float]:
        """Send a signal and wait; the exit code and how long it took."""
        began = time.monotonic()
        self.process.send_signal(signal)
        code = self.process.wait(seconds)
        took = time.monotonic() - began
        self._reader.join(5)
        return code, took


@contextmanager
def serve(
    workspace: Path, *options: str, variables: Mapping[str, str] | None = None, what: str = "serve"
) -> Iterator[Serving]:
    """A server of this workspace on a free port, with its log as JSON."""
    usual = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    command = [sys.executable, "-m", "ragforge.interfaces.cli.main", "-w", str(workspace), what, "--port", "0"]
    given = {**usual, "RAGFORGE_EMBED__MODEL": "wordllama", **(variables or {})}
    with running([*command, "--log-format", "json", *options], given, workspace.parent) as serving:
        yield serving


@contextmanager
def running(command: Sequence[str], variables: Mapping[str, str], folder: Path) -> Iterator[Serving]:
    """A process that writes its log as JSON, until the end of the block."""
    process = subprocess.Popen(
        command,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
    )
    serving = Serving(process)
    try:
        yield serving
    finally:
        process.kill()
        process.wait()
        serving._reader.join(5)
        assert process.stderr is not None
        process.stderr.close()


def resident(pid: int) -> int:
    """Bytes of memory that a process has now."""
    (line,) = [each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("VmRSS")]
    return int(line.split()[1]) * 1024
