"""What goes to a server and comes back: addresses, bodies, patience, events, errors."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from dataclasses import asdict, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote

import httpx

from ragforge.domain.cancel import Cancel
from ragforge.domain.evaluation import Question
from ragforge.domain.library import Finding, Labels, Priority
from ragforge.domain.plain import encode
from ragforge.domain.records import Artifact
from ragforge.domain.retrieval import Tuning
from ragforge.domain.strategy import Strategy
from ragforge.errors import (
    Busy,
    Conflict,
    DiskFull,
    NotAllowed,
    NotFound,
    OverLimit,
    ProviderError,
    QuotaExceeded,
    RagforgeError,
    RateLimited,
    StoreError,
    TooLarge,
    Unauthenticated,
    UserError,
)

if TYPE_CHECKING:
    from ragforge.app import AskOptions
    from ragforge.flows.make import Export

T = TypeVar("T")

CODES: Mapping[str, type[RagforgeError]] = {
    "unauthenticated": Unauthenticated,
    "not_allowed": NotAllowed,
    "not_found": NotFound,
    "too_large": TooLarge,
    "conflict": Conflict,
    "invalid": UserError,
    "limit": OverLimit,
    "provider_rate_limited": RateLimited,
    "provider_quota": QuotaExceeded,
    "provider": ProviderError,
    "busy": Busy,
    "overloaded": Busy,
    "stopped": Busy,
    "disk_full": DiskFull,
    "store": StoreError,
}
"""What each code of the server's errors is here."""

_PROJECT = r"/v1/projects/\{project\}"
_METHODS: Mapping[str, str] = {
    "GET /v1/projects": "projects()",
    "GET /v1/jobs": "jobs()",
    rf"GET {_PROJECT}/files": "documents()",
    rf'PATCH {_PROJECT}/files/\{{file\}} with {{"enabled": true}}': "enable(…, True)",
    rf"POST {_PROJECT}/files": "add()",
    rf"GET {_PROJECT}/conversations": "conversations()",
    rf"GET {_PROJECT}/log": "query_log()",
    rf"GET {_PROJECT}/artifacts/(\S+)": r"artifact('\1')",
    rf"GET {_PROJECT}/artifacts": "artifacts()",
    rf"GET {_PROJECT}/questions": "question_sets()",
    rf"GET {_PROJECT}/evaluations": "evaluations()",
    rf'POST {_PROJECT}/evaluations with {{"questions": ("[^"]*")}}': r"evaluating(\1)",
    rf"GET {_PROJECT}/discovery": "discovery.all()",
    rf"POST {_PROJECT}/discovery": "discovery.begin()",
    rf"POST {_PROJECT}/discovery/\{{interview\}}/turns": "discovery.say()",
    rf"GET {_PROJECT}/lessons/staged": "lessons.staged()",
    rf"GET {_PROJECT}/lessons/patterns": "lessons.patterns()",
    rf"GET {_PROJECT}/lessons/patterns/\{{pattern\}}": "lessons.pattern()",
    rf"POST {_PROJECT}/lessons/checkpoints": "lessons.checkpoint()",
}
"""What the server's hints name, as patterns, and the methods that do the same."""

LONGEST_SECONDS = 120.0
"""That long work waits when its key must. Who has used up a day is told."""
_REQUEST = re.compile(r"[A-Za-z0-9._-]{8,64}")
_RENDERED = (".md", ".docx")
_FOLLOWS = "context_chunks"
_TUNED = tuple(each.name for each in fields(Tuning) if each.name != _FOLLOWS)
"""What the server takes of a tuning; the rest follows from it."""


# -- addresses and bodies


def address_of(url: str) -> str:
    """Where a server is; that its calls are below `/v1` goes without saying."""
    if not url.lower().startswith(("http://", "https://")):
        raise UserError(f"{url!r} is no address of a server", hint="begin with http:// or https://")
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


JSON = {"Content-Type": "application/json"}


def step(text: str) -> str:
    """One step of an address. A name that would lead elsewhere is nobody's."""
    if text in ("", ".", "..") or "/" in text:
        raise NotFound(f"nothing is called {text!r}", hint="write its id")
    return quote(plain(text), safe="")


def plain(text: str) -> str:
    """Half a character cannot be sent; it is replaced, as the workspace would do it."""
    return text.encode(errors="surrogatepass").decode(errors="replace")


def json_bytes(body: Mapping[str, Any]) -> bytes:
    """What is no number, such as NaN, the server refuses."""
    return plain(json.dumps(body, ensure_ascii=False)).encode()


def request_header(how: AskOptions) -> dict[str, str]:
    request = how.get("request", "")
    if request and not _REQUEST.fullmatch(request):
        raise UserError(
            f"the request cannot be called {request!r}",
            hint="use 8 to 64 letters, digits, dots, dashes and underscores",
        )
    return {"X-Request-ID": request} if request else {}


def project_at(slug: str) -> str:
    return f"/v1/projects/{step(slug.replace('/', '-'))}"  # as it is in the slug that a name gives


def file_at(project: str, id: str) -> str:
    return f"{project_at(project)}/files/{step(id)}"


def job_at(id: str) -> str:
    return f"/v1/jobs/{step(id)}"


def key_header(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key} if key else {}


def urgency(priority: Priority) -> dict[str, str]:
    return {} if priority is Priority.NORMAL else {"priority": str(priority)}


def since_fields(since: datetime | None) -> dict[str, str]:
    return {} if since is None else {"since": since.isoformat()}


def labelled(labels: Labels) -> dict[str, Any]:
    said = {"source_type": labels.source_type, "confidentiality": encode(labels.confidentiality)}
    return said | ({"tags": list(labels.tags)} if labels.tags else {})


def split_fields(strategy: Strategy | None) -> dict[str, Any] | None:
    """Sizes of zero are those that the strategy has of its own."""
    return None if strategy is None else {name: value for name, value in asdict(strategy).items() if value}


def tuning_fields(tuning: Tuning | None) -> dict[str, Any]:
    return {} if tuning is None else {name: getattr(tuning, name) for name in _TUNED}


def work_fields(payload: Mapping[str, Any]) -> dict[str, Any]:
    """What `Ragforge.enqueue` takes, as the routes take it."""
    asked = {name: value for name, value in payload.items() if name != _FOLLOWS}
    if asked.get("strategy"):
        asked["strategy"] = split_fields(Strategy(**asked["strategy"]))
    return asked


def question_fields(question: Question, named: Callable[[str], str]) -> dict[str, Any]:
    """As a line of a file of questions; `named` tells what its documents are called there."""
    grades = {named(name): grade for name, grade in question.documents.items()}
    return {
        "id": question.id,
        "question": question.text,
        "grades": grades,
        **({} if question.answerable else {"doc_ids": list(grades)}),
        "chunks": list(question.chunks),
        "answers": list(question.answers),
        "answerable": question.answerable,
    }


def exporter(rendered: Callable[[Artifact, str], bytes]) -> Export[Artifact]:
    """Writes files as `Ragforge` does, of bytes that come from the server."""
    from ragforge.flows.make import Export

    def writer(ending: str) -> Callable[[Artifact], bytes]:
        return lambda artifact: rendered(artifact, ending)

    return Export({ending: writer(ending) for ending in _RENDERED})


class WorksElsewhere(UserError, AttributeError):
    """What only the workspace itself has; for `hasattr` it is not there."""

    def __init__(self, name: str, instead: str) -> None:
        super().__init__(f"{name} works only where the workspace is", hint=instead)


# -- waiting


def patiently(cancel: Cancel, call: Callable[[], T]) -> T:
    """What the call gives, perhaps after a while that the key must wait."""
    while True:
        cancel.check()
        try:
            return call()
        except OverLimit as problem:
            if problem.retry_after > LONGEST_SECONDS:
                raise
            cancel.wait(problem.retry_after)


def unless_cancelled(cancel: Cancel, call: Callable[[], T]) -> T:
    """What the call gives, or `Cancelled` at once; the server may still finish what nobody waits for."""
    cancel.check()
    answer: Future[T] = Future()

    def work() -> None:
        try:
            answer.set_result(call())
        except BaseException as problem:
            answer.set_exception(problem)

    threading.Thread(target=work, name="ragforge-call", daemon=True).start()
    while not wait([answer], 0.05).done:
        cancel.check()
    return answer.result()


# -- what comes back


class Event(NamedTuple):
    name: str
    data: str
    id: str


def read_events(response: httpx.Response) -> Iterator[Event]:
    """Server-sent events; what is neither a name, data nor an id is passed over."""
    data: list[str] = []
    name = id = ""
    for line in response.iter_lines():
        if not line:
            if data:
                yield Event(name, "\n".join(data), id)
            name, data = "", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
        elif field == "id":
            id = value


def require_ok(response: httpx.Response) -> None:
    if response.is_success:
        return
    response.read()
    try:
        error = response.json()["error"]
    except (ValueError, KeyError, TypeError):
        error = {
            "code": "",
            "message": f"the server answered {response.status_code}",
            "hint": "is it a ragforge server?",
        }
    raise raised_there(error, response.headers.get("Retry-After"))


def findings_in(response: httpx.Response) -> list[Finding]:
    """What a server tells of its parts, whether it can work or not."""
    try:
        parts = response.json()["parts"].items()
    except (ValueError, KeyError, TypeError, AttributeError):
        require_ok(response)
        raise StoreError("the server does not tell whether it can work", hint="is it a ragforge server?") from None
    return [Finding(name, part["ok"], part["why"], warning=part.get("warning", False)) for name, part in parts]


def raised_there(error: Mapping[str, Any], retry_after: str | None = None) -> RagforgeError:
    """The error that was raised there."""
    kind = CODES.get(str(error.get("code")), RagforgeError)
    message, hint = str(error.get("message", "")), _in_methods(str(error.get("hint", "")))
    if kind is Unauthenticated:
        hint = "hand one over that works, RemoteForge(url, key=…); whoever runs the server makes them"
    seconds = float(retry_after) if retry_after and retry_after.isdigit() else 1.0
    if issubclass(kind, OverLimit):
        return kind(message, hint=hint, retry_after=seconds)
    if issubclass(kind, RateLimited):
        return kind(message, hint=hint, retry_after=seconds)
    return kind(message, hint=hint)


def _in_methods(hint: str) -> str:
    for call, method in _METHODS.items():
        hint = re.sub(rf"{call}(?![\w/{{])", method, hint)
    return hint


def unreachable(client: httpx.Client, problem: Exception) -> StoreError:
    return StoreError(
        f"the server at {client.base_url} does not answer: {problem or type(problem).__name__}",
        hint="check the address, and that ragforge serve runs there",
    )
