"""`Jail`: what the rest of ragforge calls to have a file parsed."""

from __future__ import annotations

import io
import json
import os
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from ragforge.domain.cancel import Cancel
from ragforge.domain.documents import Parsed, ParseFailure, Reason
from ragforge.errors import StoreError
from ragforge.ingest.jail import oneshot
from ragforge.ingest.jail.frames import MESSAGE_LENGTH
from ragforge.ingest.jail.limits import Limits
from ragforge.ingest.jail.verdict import Ending, too_large, verdict
from ragforge.ingest.parse import registry
from ragforge.ports import ParseRequest

_BOOT = (
    "import sys; sys.path[:0] = [path for path in sys.argv[3:] if path not in sys.path];"
    "from ragforge.ingest.jail.launcher import main; main(int(sys.argv[1]), sys.argv[2])"
)
_SOURCE = str(Path(__file__).parents[3])
_TICK_SECONDS = 0.05
_LOADING_SECONDS = 60
_CLOSING_SECONDS = 5


class _LauncherGone(Exception):
    """The launcher died or no longer answers."""


@dataclass(frozen=True, slots=True, eq=False)
class _Launched:
    process: subprocess.Popen[bytes]
    control: socket.socket
    folder: Path


def can_jail() -> bool:
    """Whether memory and time of a child can be bounded on this system."""
    return hasattr(os, "fork") and hasattr(socket, "send_fds")


class Jail:
    """Parses each file in a fresh child behind walls. Safe to call from several threads."""

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        concurrency: int = 2,
        unsafe: bool = False,
        parsers: Mapping[str, registry.Parser] = registry.PARSERS,
        paths: Sequence[str] = (),
    ) -> None:
        """`unsafe` allows a child without walls where none can be raised; `paths` are searched for modules too."""
        self._limits = limits or Limits()
        self._unsafe = unsafe
        self._parsers = parsers
        self._paths = (_SOURCE, *paths)
        self._slots = threading.BoundedSemaphore(concurrency)
        self._lock = threading.Lock()
        self._launched: _Launched | None = None
        self._closed = False

    def start(self) -> None:
        """Start the launcher now, while this process is still small, rather than at the first file."""
        if can_jail():
            self._launcher()

    def parse(self, request: ParseRequest, file: BinaryIO, cancel: Cancel) -> Parsed | ParseFailure:
        parser = self._parsers[request.parser]
        if not parser.jailed:
            file.seek(0)
            return registry.run(request.parser, file.read(), request.name)
        if not can_jail() and not self._unsafe:
            return ParseFailure(
                Reason.NOT_JAILED,
                "this system cannot bound the memory and time of a parser",
                "run ragforge on Linux or macOS, or trust the files and pass --unsafe-parsers",
            )
        while not self._slots.acquire(timeout=_TICK_SECONDS):
            cancel.check()
        try:
            if not can_jail():
                return oneshot.parse(request, parser, file, self._limits, self._paths, cancel)
            with ExitStack() as stack:
                return self._parse(request, parser.module, _descriptor(file, stack), cancel)
        finally:
            self._slots.release()

    def close(self) -> None:
        """End the launcher and all children. Calls under way get a failure."""
        with self._lock:
            self._closed = True
            launched, self._launched = self._launched, None
        if launched is not None:
            _dismiss(launched)

    def _parse(self, request: ParseRequest, module: str, file: int, cancel: Cancel) -> Parsed | ParseFailure:
        message = json.dumps(
            {"parser": request.parser, "module": module, "name": request.name, "limits": asdict(self._limits)}
        ).encode()
        for _ in range(2):
            launched = self._launcher()
            if launched is None:
                return ParseFailure(Reason.CRASHED, "stopped before the file was read", "add the file again")
            try:
                return self._ask(launched, message, file, cancel)
            except _LauncherGone:
                self._discard(launched)
        return ParseFailure(Reason.CRASHED, "the process that starts parsers died", "try again; see `ragforge doctor`")

    def _ask(self, launched: _Launched, message: bytes, file: int, cancel: Cancel) -> Parsed | ParseFailure:
        """Send one request and wait for its end. Leaving early closes the line, which ends the child."""
        with ExitStack() as stack:
            answer, their_answer = (stack.enter_context(os.fdopen(end, mode, 0)) for end, mode in _pipe())
            line, their_line = (stack.enter_context(end) for end in socket.socketpair())
            try:
                with self._lock:
                    descriptors = [file, their_answer.fileno(), their_line.fileno()]
                    socket.send_fds(launched.control, [MESSAGE_LENGTH.pack(len(message))], descriptors)
                    launched.control.sendall(message)
            except OSError as problem:
                raise _LauncherGone from problem
            their_answer.close()
            their_line.close()
            return self._await(answer.fileno(), line, cancel)

    def _await(self, answer: int, line: socket.socket, cancel: Cancel) -> Parsed | ParseFailure:
        frame, ending = bytearray(), b""
        patience = time.monotonic() + self._limits.wall_seconds + _LOADING_SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(answer, selectors.EVENT_READ)
            selector.register(line, selectors.EVENT_READ)
            while selector.get_map():
                cancel.check()
                if time.monotonic() > patience:
                    raise _LauncherGone
                for key, _ in selector.select(_TICK_SECONDS):
                    piece = os.read(key.fd, 1 << 20)
                    if not piece:
                        selector.unregister(key.fileobj)
                    elif key.fd == answer:
                        frame += piece
                    else:
                        ending += piece
                if len(frame) > self._limits.output_bytes:
                    return too_large(self._limits)
        if not ending:
            raise _LauncherGone
        return verdict(Ending(**json.loads(ending)), frame, self._limits)

    def _launcher(self) -> _Launched | None:
        """The launcher, started if there is none; None once the jail is closed."""
        with self._lock:
            if self._launched is None and not self._closed:
                self._launched = _launch(self._paths)
            return self._launched

    def _discard(self, launched: _Launched) -> None:
        with self._lock:
            if self._launched is launched:
                self._launched = None
        launched.process.kill()
        _dismiss(launched)


def _launch(paths: Sequence[str]) -> _Launched:
    folder = Path(tempfile.mkdtemp(prefix="ragforge-jail-"))
    folder.chmod(0o711)  # a child that is nobody passes through to its own folder
    mine, theirs = socket.socketpair()
    try:
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-I", "-X", "utf8", "-c", _BOOT, str(theirs.fileno()), str(folder), *paths],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                cwd=folder,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C is for the parent, which then closes the jail
            )
    except OSError as problem:
        mine.close()
        shutil.rmtree(folder, ignore_errors=True)
        raise StoreError("no process for reading files could be started", hint="free some memory") from problem
    return _Launched(process, mine, folder)


def _dismiss(launched: _Launched) -> None:
    """Close the line and see the launcher out. Twice is harmless."""
    with suppress(OSError):
        launched.control.close()
    try:
        launched.process.wait(_CLOSING_SECONDS)
    except subprocess.TimeoutExpired:
        launched.process.kill()
        launched.process.wait()
    shutil.rmtree(launched.folder, ignore_errors=True)


def _pipe() -> tuple[tuple[int, str], tuple[int, str]]:
    read, write = os.pipe()
    return (read, "rb"), (write, "wb")


def _descriptor(file: BinaryIO, stack: ExitStack) -> int:
    """A descriptor the child may have: of the file itself, or of a copy if it is in memory or can be written."""
    try:
        if not file.writable():
            return file.fileno()
    except io.UnsupportedOperation:
        pass
    copy = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
    file.seek(0)
    shutil.copyfileobj(file, copy)
    copy.flush()
    return copy.fileno()
