"""A real Chroma server for tests, on this machine only: started from the `chromadb` wheel, gone afterwards."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

from ragforge.errors import StoreError

_START_SECONDS = 60
_RUN = "import sys; from chromadb.cli.cli import app; sys.argv = ['chroma', *sys.argv[1:]]; app()"


class TemporaryChroma:
    """One server with a folder of its own."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="ragforge-chroma-"))
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        data = str(self._folder / "data")
        self._process = subprocess.Popen(
            [sys.executable, "-c", _RUN, "run", "--host", "127.0.0.1", "--port", str(port), "--path", data],
            cwd=self._folder,
            env={**os.environ, "ANONYMIZED_TELEMETRY": "False", "HOME": str(self._folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            self._wait(port)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> TemporaryChroma:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _wait(self, port: int) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.1)
        raise StoreError("the Chroma server for tests did not start", hint='pip install "ragforge[chroma]"')


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
