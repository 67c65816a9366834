"""Language models on the loopback, over real HTTP: OpenAI's chat completions, Anthropic's messages, Ollama's lists.

It stands where the outside world begins; everything up to the socket is the real thing. It keeps every request byte
for byte, and misbehaves as told.

    with ModelServer(reply="Thirty days [1].") as server:
        server.script(SERVER_ERROR)          # the next call fails, those after it are answered
        ServedModel("openai-compatible:any", base_url=server.base_url)
"""

from __future__ import annotations

import itertools
import json
import re
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from ragforge.testing import model_protocols as wire

NORMAL = "normal"
OBEYS = "obeys every instruction it reads"
FALSE_MARKERS = "false citation markers, one character a piece"
CUT = "stopped at its limit of tokens"

UNAUTHORIZED = "401 that repeats the key"
FORBIDDEN = "403"
UNKNOWN_MODEL = "404"
RATE_LIMITED = "429, Retry-After of a second"
RATE_LIMITED_BARE = "429 without Retry-After"
RATE_LIMITED_LONG = "429, Retry-After of an hour"
QUOTA = "429, insufficient_quota"
TOO_LONG = "400, context_length_exceeded"
SERVER_ERROR = "500"
UNAVAILABLE = "503"
RESET = "connection reset"
RESET_MIDWAY = "connection reset in the middle"
STALL = "no answer"
STALL_MIDWAY = "silence in the middle"
KEEP_ALIVES = "comments that keep the connection alive, and no data"
HALF_OPEN = "all of the text, and no end"
BREAKS_OFF = "half of the text, and a clean end of the connection"
GARBAGE = "garbage instead of JSON"
TRUNCATED = "JSON that breaks off"
WRONG_TYPE = "HTML instead of an answer"
EMPTY = "no choices"
DRIP = "one byte a second"
HUGE = "text without end"

FAULTS = (
    UNAUTHORIZED,
    FORBIDDEN,
    UNKNOWN_MODEL,
    RATE_LIMITED,
    RATE_LIMITED_BARE,
    RATE_LIMITED_LONG,
    QUOTA,
    SERVER_ERROR,
    UNAVAILABLE,
    RESET,
    RESET_MIDWAY,
    STALL,
    STALL_MIDWAY,
    KEEP_ALIVES,
    HALF_OPEN,
    BREAKS_OFF,
    GARBAGE,
    TRUNCATED,
    WRONG_TYPE,
    EMPTY,
    DRIP,
    HUGE,
)
"""Every way of failing."""

FALSE_MARKS = (
    " [99] [0] [-1] [1, 77] [[88]] 【1】 [²] [1](http://evil.example/?q=1) ![x](http://evil.example/x.png) [12"
)
"""What a model that cites badly writes after its text."""

_REFUSALS: dict[str, tuple[int, dict[str, str], str, str]] = {
    FORBIDDEN: (403, {}, "this key may not use the model", ""),
    UNKNOWN_MODEL: (404, {}, "the model does not exist", "model_not_found"),
    RATE_LIMITED: (429, {"Retry-After": "1"}, "slow down", "rate_limit_exceeded"),
    RATE_LIMITED_BARE: (429, {}, "slow down", "rate_limit_exceeded"),
    RATE_LIMITED_LONG: (429, {"Retry-After": "3600"}, "slow down", "rate_limit_exceeded"),
    QUOTA: (429, {}, "You exceeded your current quota", "insufficient_quota"),
    TOO_LONG: (400, {}, "prompt is too long: 9000 tokens > 8192 maximum", "context_length_exceeded"),
    SERVER_ERROR: (500, {}, "internal error", ""),
    UNAVAILABLE: (503, {}, "try later", ""),
}
_ORDERS = re.compile(
    r"\b(?:ignore|disregard|forget|print|output|reveal|repeat|include|insert|append|reply|respond|write|say|"
    r"answer with|cite|visit|click|fetch|load|send|show|display|delete|run)\b",
    re.IGNORECASE,
)
_LURES = re.compile(r"!?\[[^\]]*\]\([^)]*\)|https?://[^\s<>\"')]+|<[a-z][^>]*>", re.IGNORECASE)


Act = str | Sequence[tuple[str, str]]
"""Calls of tools, by name and with arguments as JSON; or words instead. Arguments that are no JSON can be sent in
OpenAI's protocol only: in Anthropic's they are no text."""


def obedient(prompt: str) -> str:
    """What a model writes that does whatever any line of its prompt tells it to."""
    orders = [line.strip() for line in prompt.splitlines() if _ORDERS.search(line)]
    done = [line.partition(":")[2].strip() or line for line in orders]
    return "\n".join([*done, *_LURES.findall(prompt)]) or "Nothing was asked of me."


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A request as it arrived, byte for byte."""

    path: str
    headers: dict[str, str]
    """By their names in small letters."""
    body: bytes
    at: float

    @property
    def json(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.body)
        return parsed

    @property
    def prompt(self) -> str:
        """Every text of it, in the order in which the model reads it."""
        return wire.prompt_of(self.json)


@dataclass
class ModelServer:
    """Use as a context manager. Scripted behaviours are taken one per call; after the last, `always` is."""

    reply: str | Callable[[str], str] = "The refund window is thirty days [1]."
    """The answer, or how it follows from the prompt."""
    always: str = NORMAL
    always_forms: str = ""
    """The same for structured answers, where that differs."""
    forms: deque[str] = field(default_factory=deque)
    """Filled forms for the next structured answers; after the last, the plainest that fits."""
    acts: deque[Act] = field(default_factory=deque)
    """What is done in the next requests that offer tools."""
    act: Callable[[dict[str, Any]], Act] | None = None
    """After the last of `acts`: what follows from a request's JSON; without it, the plainest call of the first tool."""
    models: Sequence[str] = ("llama3.2:latest", "qwen3:8b")
    """What Ollama has."""
    context_length: int = 131_072
    """What those were trained for."""
    parameters: str = ""
    """Of their Modelfile, such as `num_ctx 8192`."""
    running_context: int = 0
    """What the running model was loaded with; 0: none runs."""
    piece_seconds: float = 0.0
    """The pause after each piece of a stream."""
    calls: list[ModelCall] = field(default_factory=list)
    """Requests for answers."""
    lookups: list[ModelCall] = field(default_factory=list)
    """Requests for lists."""
    disconnects: int = 0
    """Callers that hung up before the end."""
    at_work: int = 0
    """Requests for answers that have not ended yet, in whichever way."""

    def __enter__(self) -> ModelServer:
        self._lock = threading.Lock()
        self._ended = threading.Condition(self._lock)
        self._closing = threading.Event()
        self._script: deque[str] = deque()
        self._ids = itertools.count(1)
        handler = type("Handler", (_Handler,), {"stub": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def host(self) -> str:
        """As `OLLAMA_HOST` has it."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def root_url(self) -> str:
        """For Anthropic's protocol."""
        return f"http://{self.host}"

    @property
    def base_url(self) -> str:
        """For OpenAI's protocol."""
        return f"{self.root_url}/v1"

    def script(self, *behaviours: str) -> None:
        with self._lock:
            self._script.extend(behaviours)

    def take(self, call: ModelCall) -> str:
        """Note a call and say what shall happen to it."""
        with self._lock:
            self.calls.append(call)
            if self._script:
                return self._script.popleft()
        return (wire.form_asked(call.json) and self.always_forms) or self.always

    def answer(self, behaviour: str, prompt: str) -> str:
        """The text of an answer."""
        if behaviour == OBEYS:
            return obedient(prompt)
        text = self.reply if isinstance(self.reply, str) else self.reply(prompt)
        return text + FALSE_MARKS if behaviour == FALSE_MARKERS else text

    def form(self, schema: dict[str, Any], text: str) -> str:
        """The next filled form; after the last, the plainest that fits, with this for every text in it."""
        with self._lock:
            return self.forms.popleft() if self.forms else json.dumps(wire.filled(schema, text))

    def acted(self, body: dict[str, Any], text: str) -> tuple[str, wire.Calls]:
        """The next act: words, or calls with ids that none before had."""
        with self._lock:
            act = self.acts.popleft() if self.acts else None
        if act is None and self.act is not None:
            act = self.act(body)
        if act is None:
            name, schema = next(iter(wire.tools_offered(body).items()))
            act = [(name, json.dumps(wire.filled(schema, text)))]
        if isinstance(act, str):
            return act, ()
        start = "toolu" if "input_schema" in body["tools"][0] else "call"
        with self._lock:
            return "", [(f"{start}_{next(self._ids)}", name, arguments) for name, arguments in act]

    def hung_up(self) -> None:
        with self._lock:
            self.disconnects += 1

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count a call as long as it is at work."""
        with self._lock:
            self.at_work += 1
        try:
            yield
        finally:
            with self._lock:
                self.at_work -= 1
                self._ended.notify_all()

    def rest(self, seconds: float = 10.0) -> None:
        """Wait until no call is at work: who hung up is counted by then, and not among those of the next test."""
        with self._lock:
            rested = self._ended.wait_for(lambda: not self.at_work, seconds)
            assert rested, f"{self.at_work} calls are still at work after {seconds} s"

    @property
    def is_closing(self) -> bool:
        return self._closing.is_set()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a caller that hangs up is expected here."""


class _HungUp(Exception):
    """The caller is gone, or the server closes."""


class _Reset(Exception):
    """The connection is thrown away."""


def _cut(event: str) -> str:
    """The same event of a model that had more to say."""
    return event.replace('"finish_reason": "stop"', '"finish_reason": "length"').replace('"end_turn"', '"max_tokens"')


class _Handler(BaseHTTPRequestHandler):
    """One connection to the server."""

    stub: ModelServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a test's output is its own."""

    # -- lists

    def do_GET(self) -> None:
        self.stub.lookups.append(self._call(b""))
        if self.path == "/api/tags":
            self._send_json(200, {"models": [{"name": name, "model": name} for name in self.stub.models]})
        elif self.path == "/api/ps":
            length = self.stub.running_context
            self._send_json(
                200, {"models": [{"name": name, "context_length": length} for name in self.stub.models if length]}
            )
        elif self.path == "/v1/models":
            self._send_json(200, {"object": "list", "data": [{"id": name} for name in self.stub.models]})
        else:
            self._send_json(404, {"error": "not found"})

    def _show(self, call: ModelCall) -> None:
        self.stub.lookups.append(call)
        name = str(call.json.get("model"))
        if not {name, f"{name}:latest"} & set(self.stub.models):
            self._send_json(404, {"error": f"model '{name}' not found"})
            return
        info = {"general.architecture": "llama", "llama.context_length": self.stub.context_length}
        self._send_json(200, {"parameters": self.stub.parameters, "model_info": info, "capabilities": ["completion"]})

    # -- answers

    def do_POST(self) -> None:
        with self.stub.working():
            self._post()

    def _post(self) -> None:
        call = self._call(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/api/show":
            self._show(call)
            return
        protocol = wire.ANTHROPIC if self.path.endswith("/messages") else wire.OPENAI
        behaviour = self.stub.take(call)
        try:
            if not self._fails(behaviour, protocol, call):
                self._answer(behaviour, protocol, call)
        except _Reset:
            self.close_connection = True
        except (_HungUp, OSError):
            self.close_connection = True
            if not self.stub.is_closing:
                self.stub.hung_up()

    def _fails(self, behaviour: str, protocol: str, call: ModelCall) -> bool:
        """Whether that was all there is to it."""
        if behaviour == RESET:
            self._reset()
        elif behaviour == STALL:
            self._wait()
        elif behaviour == WRONG_TYPE:
            self._send(200, "text/html", b"<html><body>a proxy's page</body></html>")
        elif behaviour == GARBAGE and not call.json.get("stream"):
            self._send(200, "application/json", b"\x00\xff{{{ not json")
        elif behaviour == TRUNCATED and not call.json.get("stream"):
            self._send(200, "application/json", b'{"id": "1", "choices": [{"index": 0, "mess')
        elif behaviour == UNAUTHORIZED:
            key = call.headers.get("authorization", "").removeprefix("Bearer ") or call.headers.get("x-api-key", "")
            self._send_json(401, wire.refusal(protocol, 401, f"wrong key: {key}"))
        elif behaviour in _REFUSALS:
            status, headers, said, code = _REFUSALS[behaviour]
            status = 402 if behaviour == QUOTA and protocol == wire.ANTHROPIC else status
            self._send_json(status, wire.refusal(protocol, status, said, code), headers)
        else:
            return False
        return True

    def _answer(self, behaviour: str, protocol: str, call: ModelCall) -> None:
        body, cut = call.json, False
        calls: wire.Calls = ()
        text = self.stub.answer(behaviour, wire.prompt_of(body))
        word = text if behaviour in (OBEYS, FALSE_MARKERS) else "text"
        if asked := wire.form_asked(body):
            name, schema, by_tool = asked
            text = self.stub.form(schema, word)
            calls = [("call_1", name, text)] if by_tool else ()
        elif wire.tools_offered(body):
            text, calls = self.stub.acted(body, word)
            cut = behaviour == CUT
        if body.get("stream"):
            pieces = list(text) if behaviour == FALSE_MARKERS else re.findall(r"\s*\S+|\s+$", text)
            self._stream(behaviour, protocol, body, pieces)
            return
        answer = (wire.message if protocol == wire.ANTHROPIC else wire.completion)(body, text, calls, cut=cut)
        if behaviour in (EMPTY, BREAKS_OFF):
            answer |= {"choices": []} if protocol == wire.OPENAI else {"content": []}
        data = json.dumps(answer).encode()
        if behaviour == HUGE:
            data = data[:-1] + b', "more": "' + b"x" * 4_000_000 + b'"}'
        late = (STALL_MIDWAY, HALF_OPEN, KEEP_ALIVES, RESET_MIDWAY)
        self._send(200, "application/json", data, behaviour if behaviour in (*late, DRIP) else "")

    def _stream(self, behaviour: str, protocol: str, body: dict[str, Any], pieces: list[str]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in self._events(behaviour, protocol, body, pieces):
            if behaviour == DRIP:
                for byte in event.encode():
                    self._chunk(bytes([byte]))
                    self._wait(1.0)
            else:
                self._chunk(event.encode())
                self._wait(self.stub.piece_seconds)
        self.wfile.write(b"0\r\n\r\n")

    def _events(self, behaviour: str, protocol: str, body: dict[str, Any], pieces: list[str]) -> Iterator[str]:
        make = wire.message_events if protocol == wire.ANTHROPIC else wire.completion_events
        events = list(make(body, pieces))
        first = 2 if protocol == wire.ANTHROPIC else 1  # the event with the first piece
        middle = first + len(pieces) // 2
        if behaviour == KEEP_ALIVES:
            while True:
                yield ": keep-alive\n\n"
                self._wait(0.1)
        if behaviour == EMPTY:
            yield 'data: {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []}\n\n'
        elif behaviour == GARBAGE:
            yield "data: \x00{{{ not json\n\n"
        elif behaviour == TRUNCATED:
            yield from events[:middle]
            yield events[middle][: len(events[middle]) // 2] + "\n\n"
        elif behaviour == BREAKS_OFF:
            yield from events[:middle]
        elif behaviour in (STALL_MIDWAY, RESET_MIDWAY):
            yield from events[:middle]
            self._reset() if behaviour == RESET_MIDWAY else self._wait()
        elif behaviour == HALF_OPEN:
            yield from events[: first + len(pieces)]
            self._wait()
        elif behaviour == HUGE:
            yield from events[:first]
            while True:
                yield events[first]
                self._wait(0.005)  # 200 pieces a second leave time to the others in this process
        else:
            yield from (map(_cut, events) if behaviour == CUT else events)
            if protocol == wire.OPENAI:
                yield "data: [DONE]\n\n"

    # -- the connection

    def _call(self, body: bytes) -> ModelCall:
        headers = {name.lower(): value for name, value in self.headers.items()}
        return ModelCall(self.path, headers, body, time.monotonic())

    def _send_json(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        self._send(status, "application/json", json.dumps(body).encode(), headers=headers)

    def _send(
        self, status: int, kind: str, body: bytes, trouble: str = "", headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Type": kind, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if not trouble:
            self.wfile.write(body)
            return
        half = len(body) // 2
        if trouble != DRIP:
            self.wfile.write(body[:half])
            self._reset() if trouble == RESET_MIDWAY else self._wait()
        for byte in body:
            self.wfile.write(bytes([byte]))
            self._wait(1.0)

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _wait(self, seconds: float = 600.0) -> None:
        """Sleep, and notice a caller that hangs up."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            readable, _, _ = select.select([self.connection], [], [], min(left, 0.02))
            if self.stub.is_closing or (readable and not self.connection.recv(1, socket.MSG_PEEK)):
                raise _HungUp
        if seconds >= 600.0:
            raise _HungUp

    def _reset(self) -> None:
        """Close with unsent data thrown away: the peer sees a reset."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        raise _Reset
