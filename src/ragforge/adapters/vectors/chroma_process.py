"""The parent's side of the Chroma child: start it, ask it with a time limit, and tell how it ended."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, RLock, Timer
from typing import Any

from ragforge.adapters.vectors import chroma_pipe
from ragforge.adapters.vectors.chroma_child import busy_file
from ragforge.adapters.vectors.chroma_pipe import Array
from ragforge.adapters.vectors.chroma_rows import BATCH, Gone, State
from ragforge.adapters.vectors.rows import NO_KEYS, checked, not_installed, pieces
from ragforge.domain.retrieval import Allowed, Keys, Ranked, VectorRows
from ragforge.domain.tokens import Matrix, Vector
from ragforge.errors import BadVectors, Busy, IndexLost, cannot_write

_BOOT = (
    "import sys; sys.path[:0] = [path for path in sys.argv[1:] if path not in sys.path];"
    "from ragforge.adapters.vectors.chroma_child import main; main()"
)
_PASSED_ON = ("SYSTEMROOT", "TEMP", "TMP", "TMPDIR")
_TO_END_SECONDS = 10
_FULL = ("No space left on device", "disk is full")
ONE_PROCESS = "end the other process, or choose the snapshot index or a Chroma server in the settings"


class _Died(IndexLost):
    """The child ended before it answered."""

    def __init__(self, reason: str, out_of_time: bool) -> None:
        super().__init__(reason)
        self.out_of_time = out_of_time


class ChromaProcess:
    """One child, started when it is first needed and again after it died. Several indexes may share it."""

    def __init__(self, timeout: float = 120) -> None:
        self._timeout = timeout
        self._child: subprocess.Popen[bytes] | None = None
        self._left: list[subprocess.Popen[bytes]] = []
        self._one_at_a_time = RLock()

    @property
    def pid(self) -> int | None:
        """Of the running child."""
        return self._child.pid if self._child is not None else None

    def ask(
        self, operation: str, folder: Path, facts: dict[str, Any] | None = None, arrays: Sequence[Array] = ()
    ) -> tuple[dict[str, Any], list[Array]]:
        """The child's answer. Raises `IndexLost` if it died or was out of time."""
        request = {"operation": operation, "folder": str(folder), "seconds": self._timeout, **(facts or {})}
        with self._one_at_a_time:
            try:
                answer, found = self._exchange(request, arrays)
            except _Died as ending:
                if ending.out_of_time or busy_file(folder).exists():
                    raise
                answer, found = self._exchange(request, arrays)  # it had died before this question, not of it
        if "error" in answer:
            raise _error(str(answer["error"]), str(answer["message"]))
        return answer, found

    def close(self) -> None:
        """Let it end by itself, and end it if it does not."""
        with self._one_at_a_time:
            self._abandon()
            for child in self._left:
                try:
                    child.wait(_TO_END_SECONDS)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
            self._left.clear()

    def _exchange(self, request: dict[str, Any], arrays: Sequence[Array]) -> tuple[dict[str, Any], list[Array]]:
        child = self._running()
        assert child.stdin is not None and child.stdout is not None
        too_late = Event()

        def end() -> None:
            too_late.set()
            child.kill()

        limit = Timer(self._timeout, end)
        limit.daemon = True
        limit.start()
        try:
            chroma_pipe.send(child.stdin, request, arrays)
            return chroma_pipe.receive(child.stdout)
        except chroma_pipe.Closed:
            child.kill()
            self._abandon()
            code = child.wait()
            ending = f"did not answer within {self._timeout:g} s" if too_late.is_set() else _ending(code)
            raise _Died(f"the Chroma process {ending}", too_late.is_set()) from None
        except BaseException:  # the caller was interrupted: the child may finish its work, but nobody reads the answer
            self._abandon()
            raise
        finally:
            limit.cancel()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is not None and self._child.poll() is not None:
            self._abandon()
        if self._child is None:
            self._child = _start()
        return self._child

    def _abandon(self) -> None:
        """Close the pipes, which tells the child to end."""
        child, self._child = self._child, None
        if child is None:
            return
        for pipe in (child.stdin, child.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except OSError:  # what was not sent yet cannot be sent any more
                continue
        self._left.append(child)


def _start() -> subprocess.Popen[bytes]:
    from importlib.util import find_spec

    if find_spec("chromadb") is None:
        raise not_installed("Chroma", "chroma")
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return subprocess.Popen(
        [sys.executable, "-I", "-X", "utf8", "-c", _BOOT, *(path for path in sys.path if path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parent,  # Chroma takes settings from an .env file where it starts
        env={**environment, "HOME": tempfile.gettempdir(), "ANONYMIZED_TELEMETRY": "False"},
        start_new_session=True,  # Ctrl-C is for the parent
    )


def _ending(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def _error(kind: str, message: str) -> Exception:
    if kind == "busy":
        return Busy(message, hint=ONE_PROCESS)
    if kind == "bad":
        return BadVectors(message)
    if kind == "gone":
        return Gone(message)
    if any(words in message for words in _FULL):
        return cannot_write("the Chroma index", OSError(errno.ENOSPC, message))
    return IndexLost(f"Chroma cannot use its index: {message}" if kind == "failed" else message)


class RemoteRows:
    """The rows in one of the child's folders."""

    def __init__(self, process: ChromaProcess, folder: Path) -> None:
        self._process = process
        self.folder = folder

    def create(self, fingerprint: str) -> None:
        self._process.ask("create", self.folder, {"fingerprint": fingerprint})

    def state(self) -> State:
        return State.read(self._process.ask("state", self.folder)[0])

    def put(self, rows: VectorRows) -> None:
        for part in pieces(checked(rows, 0), BATCH):  # each with its own time limit
            self._process.ask("put", self.folder, arrays=(part.keys, part.documents, part.vectors))

    def remove(self, keys: Keys) -> None:
        self._process.ask("remove", self.folder, arrays=(keys,))

    def finish(self, watermark: int) -> None:
        self._process.ask("finish", self.folder, {"watermark": watermark})

    def keys(self) -> Keys:
        _, [keys] = self._process.ask("keys", self.folder)
        return keys

    def page(self, offset: int, limit: int) -> VectorRows:
        _, arrays = self._process.ask("page", self.folder, {"offset": offset, "limit": limit})
        return VectorRows(*arrays)

    def vectors(self, keys: Keys) -> tuple[Keys, Matrix]:
        _, [known, vectors] = self._process.ask("vectors", self.folder, arrays=(keys,))
        return known, vectors

    def search(self, query: Vector, k: int, allowed: Allowed) -> Ranked:
        facts = {"k": k, "filtered": allowed.documents is not None, "deny": allowed.deny}
        lists = (NO_KEYS if keys is None else keys for keys in (allowed.documents, allowed.hidden))
        _, [keys, scores] = self._process.ask("search", self.folder, facts, (query, *lists))
        return Ranked(keys, scores)

    def shut(self) -> None:
        if self._process.pid is not None:
            with suppress(IndexLost):  # a child that dies has nothing open any more
                self._process.ask("shut", self.folder)
