"""Several processes that serve one workspace: what only one of them has, the others ask of it.

Each worker has a number, and beside the address that all share a Unix socket of its own, `run/<number>.sock` in the
workspace. A stream lives in the worker that began it, and its id begins with that worker's number.
"""

from __future__ import annotations

import os
import re
import socket
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragforge.errors import StoreError, cannot_write
from ragforge.interfaces.http.serve import COUNT, NUMBER
from ragforge.interfaces.http.streams import Event, no_stream

if TYPE_CHECKING:
    import httpx

_STREAM = re.compile(r"(\d{1,4})\.[\w-]+", re.ASCII)
_STREAMS = "/v1/streams/"
_LONGEST_PATH = 100
"""Bytes that the path of a Unix socket may have everywhere."""
_CONNECT_SECONDS = 2.0
_BETWEEN_TWO = frozenset({b"connection", b"keep-alive", b"transfer-encoding", b"date", b"server", b"upgrade"})
"""Headers that are about one connection, not about the answer."""
_OF_A_BODY = frozenset({b"content-length", b"expect"})
"""A request that is passed on takes none, whatever was sent with it."""
_OF_THE_CALLER = frozenset({b"host", b"origin", b"authorization", b"x-api-key"})
"""Headers of a WebSocket by which another worker knows who asks."""
_FRAME = re.compile(r"id: \S+-(\d+)\nevent: (\w+)\ndata: ([^\n]*)")

Headers = Iterable[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Place:
    """Which worker this is, and where the others listen."""

    number: int
    count: int
    folder: Path

    @classmethod
    def of(cls, workspace: Path, environment: Mapping[str, str] = os.environ) -> Place:
        number, count = environment.get(NUMBER, "0"), environment.get(COUNT, "1")
        return cls(int(number), int(count), workspace / "run")

    def others(self) -> Iterator[int]:
        yield from (number for number in range(1, self.count + 1) if self.number and number != self.number)

    def other_with(self, stream: str) -> int | None:
        """The worker that has this stream, if it is another."""
        match = _STREAM.fullmatch(stream)
        number = int(match[1]) if match else 0
        return number if number in self.others() else None

    def socket_of(self, number: int) -> str:
        """The path by which its socket is bound and reached. One that is too long is named from inside its folder."""
        path = self.folder / f"{number}.sock"
        if len(os.fsencode(path)) <= _LONGEST_PATH:
            return str(path)
        return f"/proc/self/fd/{_opened(self.folder)}/{path.name}"

    def listen(self) -> socket.socket:
        """This worker's own socket, for this user alone."""
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            self.folder.chmod(0o700)
            path = self.socket_of(self.number)
            with suppress(FileNotFoundError):
                os.unlink(path)
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listening.bind(path)
            os.chmod(path, stat.S_IRUSR | stat.S_IWUSR)
            listening.listen(256)
        except OSError as problem:
            raise cannot_write(self.folder, problem) from problem
        return listening


_folders: dict[Path, int] = {}


def _opened(folder: Path) -> int:
    if folder not in _folders:
        _folders[folder] = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    return _folders[folder]


def is_relayed(scope: Scope) -> bool:
    """Whether another worker passed it on: then it came by the Unix socket."""
    return scope["type"] == "http" and (scope.get("server") or ("", 0))[1] is None


class Relay:
    """Passes on what is asked of another worker's stream. That worker asks for the key, as for every request."""

    def __init__(self, app: ASGIApp, place: Place) -> None:
        self._app = app
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        other = self._other(scope)
        if other is None or not await self._relayed(other, scope, receive, send):
            await self._app(scope, receive, send)

    def _other(self, scope: Scope) -> int | None:
        if scope["type"] != "http" or scope["method"] not in ("GET", "DELETE") or is_relayed(scope):
            return None
        path = str(scope["path"])
        return self._place.other_with(path.removeprefix(_STREAMS)) if path.startswith(_STREAMS) else None

    async def _relayed(self, other: int, scope: Scope, receive: Receive, send: Send) -> bool:
        """False if that worker is gone, and its streams with it: then they are missing here too."""
        target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        headers = [pair for pair in scope["headers"] if pair[0] not in _BETWEEN_TWO | _OF_A_BODY]
        async with _asked(self._place, other, scope["method"], target, headers) as answer:
            if answer is None:
                return False
            scope["ragforge.route"] = f"{_STREAMS}{{stream}}"
            scope["ragforge.request"] = answer.headers.get("x-request-id", "")
            await _pass_on(answer, receive, send)
        return True


@asynccontextmanager
async def _asked(
    place: Place, other: int, method: str, target: bytes, headers: Headers
) -> AsyncIterator[httpx.Response | None]:
    """What another worker answers, as it comes; None if that worker is gone."""
    import httpx

    transport = httpx.AsyncHTTPTransport(uds=place.socket_of(other))
    timeout = httpx.Timeout(_CONNECT_SECONDS, read=None)
    async with httpx.AsyncClient(transport=transport, timeout=timeout) as client:
        asked = client.build_request(method, httpx.URL(scheme="http", host="worker", raw_path=target))
        asked.headers = httpx.Headers(list(headers))
        try:
            answer = await client.send(asked, stream=True)
        except httpx.TransportError:
            yield None
            return
        try:
            yield answer
        finally:
            await answer.aclose()


class Elsewhere:
    """A stream that another worker has, for a WebSocket of this one. That worker asks for the key, as for a request."""

    def __init__(self, place: Place, stream: str, headers: Headers) -> None:
        self.id = stream
        self._place = place
        self._worker = place.other_with(stream) or 0
        self._target = f"{_STREAMS}{stream}"
        self._headers = [pair for pair in headers if pair[0] in _OF_THE_CALLER]

    async def batches(self, after: int) -> AsyncGenerator[list[Event]]:
        """As of a reader here. What that worker refuses is an event without a number."""
        import httpx

        async with self._asked("GET", f"?after={after}") as answer:
            if answer is None:  # its streams went with it
                raise no_stream(self.id)
            if answer.status_code >= 400:
                yield [Event(0, "error", '{"event": "error", ' + (await answer.aread()).decode()[1:])]
                return
            rest = ""
            try:
                async for text in answer.aiter_text():
                    *frames, rest = (rest + text).split("\n\n")
                    found = [match for match in map(_FRAME.fullmatch, frames) if match]
                    yield [Event(int(match[1]), match[2], match[3]) for match in found]
            except httpx.HTTPError:
                raise StoreError("the answer broke off", hint="ask again") from None

    async def stop(self) -> None:
        async with self._asked("DELETE"):
            pass

    def _asked(self, method: str, query: str = "") -> AbstractAsyncContextManager[httpx.Response | None]:
        return _asked(self._place, self._worker, method, f"{self._target}{query}".encode(), self._headers)


async def _pass_on(answer: httpx.Response, receive: Receive, send: Send) -> None:
    """The answer as it comes, until it ends or nobody reads it."""
    import httpx

    headers = [pair for pair in answer.headers.raw if pair[0].lower() not in _BETWEEN_TWO]
    await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
    async with anyio.create_task_group() as both:

        async def until_gone() -> None:
            message: Message = {"type": ""}
            while message["type"] != "http.disconnect":
                message = await receive()
            both.cancel_scope.cancel()

        both.start_soon(until_gone)
        with suppress(httpx.HTTPError):  # that worker ended: so does the stream
            async for piece in answer.aiter_raw():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        both.cancel_scope.cancel()


async def asked_of_others(place: Place, path: str, headers: Mapping[str, str]) -> dict[int, str]:
    """What each of the other workers answers to a request; those that do not in time are left out."""
    told: dict[int, str] = {}
    if place.number == 0:
        return told
    import httpx

    sent = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def ask(number: int) -> None:
        with anyio.move_on_after(_CONNECT_SECONDS), suppress(httpx.TransportError):
            async with _asked(place, number, "GET", path.encode(), sent) as answer:
                if answer is not None and answer.status_code == 200:
                    told[number] = (await answer.aread()).decode()

    async with anyio.create_task_group() as all_at_once:
        for number in place.others():
            all_at_once.start_soon(ask, number)
    return told
