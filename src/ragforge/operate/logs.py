"""What the servers write on stderr: one line for each event, as JSON or for people.

No secret is in it, and no text of a document or a question: an error is told by its kind and its place in the code.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import re
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal, TextIO
from urllib.parse import unquote, urlsplit

from ragforge.operate.secrets import SHAPES, SHORTEST
from ragforge.settings import Settings, read_dotenv

Form = Literal["text", "json"]

HIDDEN = "[hidden]"
_NAMED_SECRET = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|SEAL)_?\d*$")
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""What could begin a line of its own, or paint over one."""
_WAITING_LINES = 10_000
_FLUSH_SECONDS = 1.0
_TALKATIVE = ("httpx", "httpx2", "httpcore", "openai", "anthropic", "mcp", "pydantic_ai", "uvicorn", "asyncio")
_NO_NEWS = frozenset(
    {
        "Cancel %s running task(s), timeout graceful shutdown exceeded",
        "Exception in ASGI application",
        "ASGI callable returned without completing response.",
        "ASGI callable returned without completing handshake.",
    }
)
"""Uvicorn's words for what we have told with the id of the request, and for answers that nobody is there to read or
that end with their key."""


class Redactor:
    """Takes out secrets: those that are known, and what has the shape of one."""

    def __init__(self, secrets: Iterable[str] = (), also: Iterable[str] = ()) -> None:
        """`also` are more shapes of secrets."""
        known = sorted({each for each in secrets if len(each) >= SHORTEST}, key=len, reverse=True)
        self._pattern = re.compile("|".join([*map(re.escape, known), *SHAPES, *also]))

    def __call__(self, text: str) -> str:
        return self._pattern.sub(HIDDEN, text)


def known_secrets(settings: Settings, variables: Mapping[str, str]) -> list[str]:
    """Keys of the settings, the values of variables (also of the workspace's `.env`) whose names say that they are
    secret, and passwords in addresses."""
    written = [(name, value) for name, (value, _) in read_dotenv(settings.workspace / ".env").items()]
    told = [*variables.items(), *written]
    named = [value for name, value in told if _NAMED_SECRET.search(name.upper())]
    addresses = [*told, *settings.values()]
    passwords = [_password(value) for _, value in addresses if isinstance(value, str)]
    return [each for each in (*settings.secrets.values(), *named, *passwords) if each]


def _password(address: str) -> str:
    with suppress(ValueError):  # it is none
        return unquote(urlsplit(address).password or "")
    return ""


class _Lines(logging.Handler):
    """Writes from a thread of its own: a reader of stderr that stalls must not stop the server.

    Lines that find no room are counted, and that is told as soon as there is some.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._lines: queue.Queue[str | None] = queue.Queue(_WAITING_LINES)
        self._lost = 0
        self._thread = threading.Thread(target=self._write, name="ragforge-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:  # what a library hands over need not fit its own message
            line = self.format(logging.LogRecord(record.name, record.levelno, "", 0, "a broken message", (), None))
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self._lost += 1

    def close(self) -> None:
        with suppress(queue.Full):
            self._lines.put(None, timeout=_FLUSH_SECONDS)
            self._thread.join(_FLUSH_SECONDS)
        super().close()

    def _write(self) -> None:
        line: str | None = ""
        while line is not None:
            line = self._lines.get()
            lost, self._lost = self._lost, 0
            told = logging.LogRecord(__name__, logging.WARNING, "", 0, "%d lines were lost", (lost,), None)
            lines = [self.format(told)] if lost else []
            with suppress(OSError, ValueError):  # nobody reads it any more
                self._stream.write("".join(f"{each}\n" for each in (*lines, line) if each))
                self._stream.flush()


class _Formatter(logging.Formatter):
    """`fields` of a record stand beside its message."""

    def __init__(self, form: Form, redact: Redactor, *, messages: bool) -> None:
        super().__init__()
        self._form = form
        self._redact = redact
        self._messages = messages

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        level, message = record.levelname.lower(), self._redact(record.getMessage())
        fields = {name: self._safe(value) for name, value in _fields(record).items() if value not in (None, "")}
        frames = self._trace(record)
        if self._form == "json":
            told = {"time": moment, "level": level, "logger": record.name, "message": message, **fields}
            return json.dumps(told | ({"trace": frames} if frames else {}))
        named = "".join(f" {name}={_shown(value)}" for name, value in fields.items())
        below = "".join(f"\n  | {_one_line(frame)}" for frame in frames)
        return f"{moment} {level:<7} {_one_line(message)}{named}{below}"

    def _safe(self, value: object) -> object:
        return value if isinstance(value, int | float) else self._redact(str(value))

    def _trace(self, record: logging.LogRecord) -> list[str]:
        """Where it happened. What an exception says may hold text of a document, so only `messages` shows it."""
        if not record.exc_info or record.exc_info[1] is None:
            return []
        problem = record.exc_info[1]
        frames = [
            f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(problem.__traceback__)
        ]
        chain: list[str] = []
        seen: BaseException | None = problem
        while seen is not None and len(chain) < 10:
            chain.append(_kind(seen) + (f": {seen}" if self._messages else ""))
            seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
        return [self._redact(line) for line in (*frames, *chain)]


def _kind(problem: BaseException) -> str:
    name = f"{type(problem).__module__}.{type(problem).__qualname__}".removeprefix("builtins.")
    return f"{name}: {os.strerror(problem.errno)}" if isinstance(problem, OSError) and problem.errno else name


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: Mapping[str, Any] = getattr(record, "fields", {})
    request = getattr(record, "request_id", "")
    return {**({"request": request} if request else {}), **fields}


def _shown(value: object) -> str:
    text = _one_line(str(value))
    return json.dumps(text, ensure_ascii=False) if re.search(r"[\s\"=]", text) else text


def _one_line(text: str) -> str:
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode("ascii"), text)


@contextmanager
def logging_to(
    stream: TextIO, form: Form, secrets: Iterable[str] = (), *, messages: bool = False, quiet: bool = False
) -> Iterator[None]:
    """Everything that is logged goes there, also what threads and libraries have to say.

    `messages`: with the words of exceptions, which may come from documents; `quiet`: only what is wrong.
    """
    handler = _Lines(stream)
    handler.setFormatter(_Formatter(form, Redactor(secrets), messages=messages))
    root, ours = logging.getLogger(), logging.getLogger("ragforge")
    before = root.level, ours.level, sys.excepthook, threading.excepthook
    uvicorn = logging.getLogger("uvicorn.error")
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    ours.setLevel(logging.WARNING if quiet else logging.INFO)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
    uvicorn.addFilter(_is_news)
    sys.excepthook, threading.excepthook = _uncaught, _uncaught_in_thread
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root_level, our_level, sys.excepthook, threading.excepthook = before
        root.setLevel(root_level)
        ours.setLevel(our_level)
        uvicorn.removeFilter(_is_news)
        root.removeHandler(handler)
        handler.close()


def _is_news(record: logging.LogRecord) -> bool:
    return str(record.msg).strip() not in _NO_NEWS


def _uncaught(kind: type[BaseException], problem: BaseException, trace: TracebackType | None) -> None:
    logging.getLogger("ragforge").critical("an error nobody caught", exc_info=(kind, problem, trace))


def _uncaught_in_thread(caught: threading.ExceptHookArgs) -> None:
    if caught.exc_value is not None and not isinstance(caught.exc_value, SystemExit):
        problem = (caught.exc_type, caught.exc_value, caught.exc_traceback)
        logging.getLogger("ragforge").error("a thread ended with an error", exc_info=problem)
