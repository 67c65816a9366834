"""A paid service on the loopback, with its troubles, over real HTTP: embeddings in OpenAI's protocol, and reranking.

It stands where the outside world begins; everything up to the socket is the real thing.
"""

from __future__ import annotations

import base64
import json
import socket
import struct
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

import numpy as np

from ragforge.domain.cancel import Cancel
from ragforge.domain.tokens import Matrix, Passage
from ragforge.testing.hashing import HashingEmbedder

NORMAL = "normal"
RATE_LIMIT_SECONDS = "429, Retry-After in seconds"
RATE_LIMIT_DATE = "429, Retry-After as a date"
RATE_LIMIT_LONG = "429, Retry-After of an hour"
QUOTA = "429, insufficient_quota"
SERVER_ERROR = "500"
UNAVAILABLE = "503"
RESET = "connection reset"
STALL = "no answer"
DRIP = "an answer byte by byte"
WRONG_DIMENSION = "vectors too short"
NOT_A_NUMBER = "NaN in a vector"
ZEROS = "a vector of zeros"
WRONG_COUNT = "a vector too few"
NOT_JSON = "HTML instead of JSON"
UNAUTHORIZED = "401 that repeats the key"
BAD_REQUEST = "400 that repeats the key"
UNKNOWN_MODEL = "404"


@dataclass(frozen=True, slots=True)
class Call:
    """A request as it arrived."""

    texts: tuple[str, ...]
    body: dict[str, Any]
    authorization: str
    at: float
    path: str = ""


@dataclass
class ProviderStub:
    """Use as a context manager. `troubles` are taken one per call, in order; after the last, all is well."""

    dimension: int = 64
    troubles: deque[str] = field(default_factory=deque)
    most_texts: int = 10_000
    """A larger batch is refused."""
    most_characters: int = 10_000_000
    encodings: tuple[str, ...] = ("base64", "float")
    """The formats the service knows; asked for another, it sends floats (as Ollama does)."""
    rerank_results: str = "results"
    """What the service calls the scores of texts: `results` (Cohere, Jina) or `data` (Voyage)."""
    calls: list[Call] = field(default_factory=list)
    stall_seconds: float = 30.0

    def __enter__(self) -> ProviderStub:
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._embedder = HashingEmbedder(self.dimension)
        handler = type("Handler", (_Handler,), {"stub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
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
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def texts(self) -> list[str]:
        """Every text that came, in the order of the calls."""
        return [text for call in self.calls for text in call.texts]

    def script(self, *troubles: str) -> None:
        self.troubles.extend(troubles)

    def take(self, call: Call) -> str:
        """Note a call and say what shall happen to it."""
        with self._lock:
            self.calls.append(call)
            return self.troubles.popleft() if self.troubles else NORMAL

    def vectors(self, texts: tuple[str, ...]) -> Matrix:
        return self._embedder.embed([Passage(text) for text in texts], Cancel())

    def wait(self, seconds: float) -> bool:
        """Sleep, unless the stub is being closed."""
        return self._closing.wait(seconds)


_REFUSALS: dict[str, tuple[int, dict[str, str], dict[str, str]]] = {
    RATE_LIMIT_SECONDS: (429, {"Retry-After": "1"}, {"message": "slow down", "code": "rate_limit_exceeded"}),
    RATE_LIMIT_LONG: (429, {"Retry-After": "3600"}, {"message": "slow down", "code": "rate_limit_exceeded"}),
    QUOTA: (429, {}, {"message": "You exceeded your current quota", "code": "insufficient_quota"}),
    SERVER_ERROR: (500, {}, {"message": "internal error"}),
    UNAVAILABLE: (503, {}, {"message": "try later"}),
    UNKNOWN_MODEL: (404, {}, {"message": "no such model", "code": "model_not_found"}),
}


class _Handler(BaseHTTPRequestHandler):
    """One request to the stub."""

    stub: ProviderStub
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a test's output is its own."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reranks = self.path.endswith("/rerank")
        given = body["documents"] if reranks else body["input"]
        texts = (given,) if isinstance(given, str) else tuple(given)
        call = Call(texts, body, self.headers.get("Authorization", ""), time.monotonic(), self.path)
        trouble = self.stub.take(call)
        if trouble == RESET:
            self._reset()
        elif trouble == STALL:
            self.stub.wait(self.stub.stall_seconds)
            self.close_connection = True
        elif trouble == NOT_JSON:
            self._send(200, {"Content-Type": "text/html"}, b"<html>a proxy's page</html>")
        elif refusal := self._refusal(trouble, call):
            self._send_json(*refusal)
        elif reranks:
            self._send_scores(trouble, call)
        else:
            self._send_vectors(trouble, call)

    def _refusal(self, trouble: str, call: Call) -> tuple[int, dict[str, str], dict[str, Any]] | None:
        if trouble in _REFUSALS:
            status, headers, error = _REFUSALS[trouble]
            return status, headers, {"error": error}
        if trouble == RATE_LIMIT_DATE:
            # a date has whole seconds: two ahead is at least one
            date = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
            return 429, {"Retry-After": date}, {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}
        if trouble in (UNAUTHORIZED, BAD_REQUEST):
            message = f"wrong: {call.authorization.removeprefix('Bearer ')}"
            return (401 if trouble == UNAUTHORIZED else 400), {}, {"error": {"message": message}}
        if len(call.texts) > self.stub.most_texts:
            return 400, {}, {"error": {"message": f"too many inputs: {len(call.texts)}"}}
        if sum(map(len, call.texts)) > self.stub.most_characters:
            return 413, {}, {"error": {"message": "request entity too large"}}
        return None

    def _send_vectors(self, trouble: str, call: Call) -> None:
        vectors = self.stub.vectors(call.texts)
        if trouble == WRONG_DIMENSION:
            vectors = vectors[:, :-1]
        elif trouble == NOT_A_NUMBER:
            vectors[-1, 0] = np.nan
        elif trouble == ZEROS:
            vectors[-1] = 0
        elif trouble == WRONG_COUNT:
            vectors = vectors[:-1]
        packed = call.body.get("encoding_format") == "base64" and "base64" in self.stub.encodings
        data = [
            {"object": "embedding", "index": index, "embedding": _packed(vector) if packed else vector.tolist()}
            for index, vector in enumerate(vectors)
        ]
        tokens = sum(len(text.split()) for text in call.texts)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        answer = {"object": "list", "model": call.body["model"], "data": data, "usage": usage}
        self._send_json(200, {}, answer, drip=trouble == DRIP)

    def _send_scores(self, trouble: str, call: Call) -> None:
        """How many words of the question each text holds, best first."""
        words = set(call.body["query"].lower().split())
        shares = [len(words.intersection(text.lower().split())) / max(1, len(words)) for text in call.texts]
        results = [{"index": index, "relevance_score": share} for index, share in enumerate(shares)]
        results.sort(key=lambda result: -result["relevance_score"])
        if trouble == NOT_A_NUMBER:
            results[-1]["relevance_score"] = float("nan")
        elif trouble == WRONG_COUNT:
            results.pop()
        answer = {"model": call.body["model"], self.stub.rerank_results: results, "usage": {"total_tokens": 0}}
        self._send_json(200, {}, answer, drip=trouble == DRIP)

    def _send_json(self, status: int, headers: dict[str, str], body: dict[str, Any], *, drip: bool = False) -> None:
        self._send(status, {"Content-Type": "application/json", **headers}, json.dumps(body).encode(), drip=drip)

    def _send(self, status: int, headers: dict[str, str], body: bytes, *, drip: bool = False) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if not drip:
            self.wfile.write(body)
            return
        for start in range(len(body)):
            try:
                self.wfile.write(body[start : start + 1])
            except OSError:  # the caller lost patience
                break
            if self.stub.wait(0.05):
                break
        self.close_connection = True

    def _reset(self) -> None:
        """Close with unsent data thrown away: the peer sees a reset."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True


def _packed(vector: Matrix) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
