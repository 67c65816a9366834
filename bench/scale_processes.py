"""ragforge's own processes on one Postgres: workers and servers, each with a folder of its own, as other machines have.

Original files and uploads are in one folder that all of them reach.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.error import HTTPError
from urllib.request import urlopen

from bench.scale_machine import cpu_of_trees
from ragforge import Ragforge
from ragforge.settings import load

_START_SECONDS = 120.0
_QUIET = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Processes:
    """Those of one database; all are gone afterwards."""

    def __init__(self, folder: Path, url: str, embedder: str) -> None:
        self._folder = folder
        self._started: list[subprocess.Popen[bytes]] = []
        self._workers = 0
        self.variables = {
            "RAGFORGE_STORE__DATABASE_URL": url,
            "RAGFORGE_STORE__BLOBS": str(folder / "blobs"),
            "RAGFORGE_EMBED__MODEL": embedder,
            "RAGFORGE_EMBED__THREADS": "1",
            **_QUIET,
        }
        (folder / "blobs").mkdir(parents=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._started:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self._started:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def open(self, name: str = "own") -> Ragforge:
        """The same catalog in this process."""
        return Ragforge.open(load(self._folder / name, env={**os.environ, **self.variables}))

    def workers(self, names: Sequence[str]) -> list[int]:
        """`ragforge worker --uploads 1`, one of each name; all of them listen."""
        pids = [self._start(name, "worker", "--uploads", "1").pid for name in names]
        with self.open() as forge:
            self._workers += len(names)
            until(lambda: sum(node.role == "worker" for node in forge.nodes()) >= self._workers, _START_SECONDS)
        return pids

    def servers(self, names: Sequence[str]) -> dict[int, str]:
        """`ragforge serve` that takes in no uploads itself, one of each name: addresses by process. All are ready."""
        servers = dict(map(self._server, names))
        for address in servers.values():
            until(partial(_is_ready, address), _START_SECONDS)
        return servers

    def _server(self, name: str) -> tuple[int, str]:
        with self.open(name):
            pass
        log = self._folder / f"{name}.log"
        process = self._start(
            name, "serve", "--port", "0", "--log-format", "json", variables={"RAGFORGE_SERVER__UPLOADS": "0"}, log=log
        )
        until(lambda: bool(_address(log)) or process.poll() is not None, _START_SECONDS)
        if not (address := _address(log)):
            raise SystemExit(f"a server did not start:\n{log.read_text()[-2000:]}")
        return process.pid, address

    def _start(
        self, name: str, *command: str, variables: Mapping[str, str] | None = None, log: Path | None = None
    ) -> subprocess.Popen[bytes]:
        whole = [sys.executable, "-m", "ragforge.interfaces.cli.main", "-w", str(self._folder / name), *command]
        told = (log or self._folder / f"{name}.log").open("ab")
        with told:
            process = subprocess.Popen(
                whole,
                env={**os.environ, **self.variables, **(variables or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=told,
                cwd=self._folder,
            )
        self._started.append(process)
        return process


def _is_ready(address: str) -> bool:
    """Whether its indexes hold what the catalog holds."""
    try:
        with urlopen(f"{address}/readyz", timeout=10) as answer:
            told = json.load(answer)
    except HTTPError:
        return False
    return not told["parts"]["own indexes"]["why"]


def _address(log: Path) -> str:
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    told = (json.loads(line) for line in lines if line.startswith("{"))
    return next((str(entry["address"]) for entry in told if entry["message"] == "listening"), "")


def until(true: Callable[[], bool], seconds: float, pause: float = 0.05) -> float:
    """Wait; how long it took."""
    began = time.monotonic()
    while not true():
        if time.monotonic() - began > seconds:
            raise SystemExit(f"it did not come true in {seconds:,.0f} s")
        time.sleep(pause)
    return time.monotonic() - began


def cpu_of(pids: list[int]) -> Callable[[], float]:
    return lambda: cpu_of_trees(pids)
