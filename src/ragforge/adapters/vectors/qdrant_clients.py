"""Talking to a Qdrant server: one client for all indexes of a process, calls tried again, its errors in our words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs, urlsplit, urlunsplit

from ragforge.adapters.vectors.rows import not_installed
from ragforge.errors import IndexLost, StoreError, Unreachable, UserError
from ragforge.once import once

if TYPE_CHECKING:
    from qdrant_client import QdrantClient
    from qdrant_client.http.exceptions import UnexpectedResponse

T = TypeVar("T")
Item = TypeVar("Item")

_GRPC_PORT = 6334
_GRPC_PORT_WORD = "grpc_port"
_SIDE_BY_SIDE = 4
"""Calls at once: as many streams as Qdrant advises for an upload."""
_PASSING = frozenset({429, 502, 503, 504})
"""Statuses of a server that is overloaded, or just starting behind its proxy."""
_HTTP_OF_GRPC = {
    "NOT_FOUND": 404,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
    "RESOURCE_EXHAUSTED": 429,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "INVALID_ARGUMENT": 400,
    "ALREADY_EXISTS": 409,
}
_CHECK = "check the address and the key in the settings"
_RUNNING = "is the server running? Check the address in the settings"


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a call is tried, and for how many seconds in all new tries are begun."""

    tries: int
    seconds: float


QUICK = Patience(tries=2, seconds=2)
"""A search is better answered without this index than late."""
PATIENT = Patience(tries=4, seconds=10)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 3.0


@dataclass(frozen=True, slots=True)
class Address:
    """What one client is made for."""

    url: str
    key: str
    grpc: bool
    grpc_port: int
    timeout: int

    @classmethod
    def of(cls, url: str, key: str, *, grpc: bool, timeout: int) -> Address:
        """From `http://host:6333`; the port of gRPC, where it is another one: `http://host:6333?grpc_port=7000`."""
        parts = urlsplit(url)
        port = parse_qs(parts.query).get(_GRPC_PORT_WORD, [str(_GRPC_PORT)])[-1]
        if parts.scheme not in ("http", "https") or not parts.hostname or not port.isdecimal():
            raise UserError(f"not the address of a Qdrant server: {url}", hint="write it like http://localhost:6333")
        plain = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))
        return cls(plain, key, grpc, int(port), timeout)


class SharedClient:
    """A client and threads for calls side by side, of all indexes that are on the same server."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.users = 0

    @once
    def client(self) -> QdrantClient:
        kind, address = client_class(), self.address
        return kind(
            url=address.url,
            api_key=address.key or None,
            prefer_grpc=address.grpc,
            grpc_port=address.grpc_port,
            timeout=address.timeout,
            check_compatibility=False,
        )

    @once
    def threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(_SIDE_BY_SIDE, "ragforge-qdrant")

    def close(self) -> None:
        if (threads := self.__dict__.pop("threads", None)) is not None:
            threads.shutdown()
        if (client := self.__dict__.pop("client", None)) is not None:
            client.close()


class _Clients:
    """Those in use in this process."""

    def __init__(self) -> None:
        self._shared: dict[Address, SharedClient] = {}
        self._lock = Lock()

    def take(self, address: Address) -> SharedClient:
        with self._lock:
            shared = self._shared.setdefault(address, SharedClient(address))
            shared.users += 1
            return shared

    def give_back(self, shared: SharedClient) -> None:
        """Whoever is last closes it."""
        with self._lock:
            shared.users -= 1
            last = not shared.users
            if last:
                del self._shared[shared.address]
        if last:
            shared.close()


CLIENTS = _Clients()


class Calls:
    """Calls of one index to its server."""

    def __init__(self, address: Address) -> None:
        self._address = address

    @once
    def _shared(self) -> SharedClient:
        return CLIENTS.take(self._address)

    def quickly(self, call: Callable[[QdrantClient, int], T]) -> T:
        """For a search: with the seconds it may take, and hardly tried again."""
        seconds = min(self._address.timeout, 5)
        return self._tried(lambda client: call(client, seconds), QUICK, again_after_silence=False)

    def patiently(self, call: Callable[[QdrantClient], T]) -> T:
        """For whatever may be done twice."""
        return self._tried(call, PATIENT, again_after_silence=True)

    def side_by_side(self, work: Callable[[Item], T], items: Iterable[Item]) -> list[T]:
        return list(self._shared.threads.map(work, items))

    def close(self) -> None:
        if (shared := self.__dict__.pop("_shared", None)) is not None:
            CLIENTS.give_back(shared)

    def _tried(self, call: Callable[[QdrantClient], T], patience: Patience, *, again_after_silence: bool) -> T:
        import tenacity

        client = self._shared.client
        again = (_Away, _Silent) if again_after_silence else (_Away,)
        tries = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(again),
            wait=tenacity.wait_exponential(_FIRST_PAUSE, _LONGEST_PAUSE) + tenacity.wait_random(0, _FIRST_PAUSE),
            stop=tenacity.stop_any(
                tenacity.stop_after_attempt(patience.tries), tenacity.stop_before_delay(patience.seconds)
            ),
            reraise=True,
        )
        answer: T = tries(self._translated, call, client)
        return answer

    def _translated(self, call: Callable[[QdrantClient], T], client: QdrantClient) -> T:
        with _our_words(self._address.url):
            return call(client)


class _Away(Unreachable):
    """It may be back in a moment."""


class _Silent(Unreachable):
    """It took the call and did not answer in time."""


@contextmanager
def _our_words(url: str) -> Iterator[None]:
    """What Qdrant's client raises, as errors of ours."""
    from grpc import RpcError  # type: ignore[import-untyped]
    from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
    from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

    try:
        yield
    except UnexpectedResponse as problem:
        raise _answer_of_http(url, problem) from problem
    except ResourceExhaustedResponse as problem:
        raise _answer(url, 429, "Too Many Requests", "") from problem
    except RpcError as problem:
        raise _answer_of_grpc(url, problem) from problem
    except (ApiException, QdrantException, ValueError) as problem:
        raise _no_answer(url, getattr(problem, "source", problem)) from problem


def _answer_of_http(url: str, problem: UnexpectedResponse) -> StoreError:
    said = problem.content.decode(errors="replace")
    return _answer(url, problem.status_code or 0, problem.reason_phrase, said)


def _answer_of_grpc(url: str, problem: Any) -> StoreError:
    code = problem.code().name
    if code == "UNAVAILABLE":
        return _Away(f"the Qdrant server at {url} does not answer by gRPC", hint=_RUNNING)
    if code == "DEADLINE_EXCEEDED":
        return _Silent(f"the Qdrant server at {url} does not answer by gRPC in time", hint=_RUNNING)
    return _answer(url, _HTTP_OF_GRPC.get(code, 500), code, problem.details() or "")


def _answer(url: str, status: int, reason: str, said: str) -> StoreError:
    told = f"the Qdrant server at {url} says: {status} {reason}"
    if status == 404 and "doesn't exist" in said:  # and not just some other web server
        return IndexLost(told)
    if status in _PASSING:
        return _Away(told, hint="try again in a moment; the server is overloaded or starting")
    if status >= 500:  # a cluster without enough of its nodes says this, too: nothing is lost
        return Unreachable(told, hint="look into the server's log; ragforge rebuild builds the index anew")
    return StoreError(told, hint=_CHECK)


def _no_answer(url: str, source: Exception) -> StoreError:
    from httpx import TimeoutException, TransportError

    told = f"the Qdrant server at {url} does not answer: {type(source).__name__}"
    if isinstance(source, TimeoutException):
        return _Silent(told, hint=_RUNNING)
    if isinstance(source, TransportError):
        return _Away(told, hint=_RUNNING)
    return StoreError(f"what answers at {url} is no Qdrant server: {type(source).__name__}", hint=_CHECK)


def client_class() -> type[QdrantClient]:
    try:
        from qdrant_client import QdrantClient
    except ImportError as problem:
        raise not_installed("Qdrant", "qdrant") from problem
    return QdrantClient
