"""Q4 over HTTP: SSE and WebSocket bring the same events, resumable; unread ones end; many at once hold no thread."""

from __future__ import annotations

import json
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from ragforge import Ragforge
from ragforge.adapters.catalog.jobs import SqlJobs
from ragforge.domain.access import KeyLimits, Role, Scope
from ragforge.domain.answers import DoneEvent, Event, Prompted, RetrievalEvent, TokenEvent, UsageEvent
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.library import Job
from ragforge.domain.retrieval import Filters, Retrieved, Tuning
from ragforge.interfaces.explaining import explain_all
from ragforge.interfaces.fields.answers import event_fields
from ragforge.interfaces.fields.explained import ExplainedSearch
from ragforge.interfaces.http import asking
from ragforge.interfaces.http import streams as streams_module
from ragforge.interfaces.http.app import create_app
from ragforge.interfaces.http.streams import Streams
from ragforge.interfaces.records import decode
from ragforge.testing.model_server import BREAKS_OFF, NORMAL, RESET_MIDWAY, STALL, STALL_MIDWAY, ModelServer
from tests.events import Sent, sent_events
from tests.proof import count, record
from tests.served import add_files, answers, open_served, received
from tests.serving import listening_to

QUESTION = "How long can a chair be returned?"
FILES = {
    "rules.md": "# Returns\n\nA chair may be returned within sixty days. The refund goes to the card that paid.\n",
    "lamps.md": "# Lamps\n\nA lamp may be returned within thirty days, if it was never lit.\n",
}
REPLY = "A chair may be returned within sixty days [1]. The refund goes to the card that paid [1]."
ORDER = ["retrieval", "decision", "token", "citation", "usage", "done"]
EVENTS = {"Accept": "text/event-stream"}
ASK = "/v1/projects/p/ask"


@dataclass
class Served:
    """A server, its workspace, and its model."""

    url: str
    forge: Ragforge
    model: ModelServer
    client: httpx.Client
    streams: Streams

    def calm(self) -> None:
        """As it was, for the next test."""
        until(lambda: not len(self.streams), 10)
        model = self.model
        model.rest()
        model.reply, model.always, model.piece_seconds, model.disconnects = REPLY, NORMAL, 0.0, 0
        model.always_forms = ""
        model.calls.clear()
        self.forge.prune_log(datetime.now(UTC) + timedelta(days=1), project="p")

    def socket(self, project: str = "p", **headers: str) -> ClientConnection:
        return connect(
            f"{self.url.replace('http', 'ws')}/v1/projects/{project}/chat", additional_headers=headers, max_size=None
        )

    def key(self, role: Role = Role.READER, limits: KeyLimits | None = None) -> dict[str, str]:
        _, secret = self.forge.access().create(role, role, limits=limits)
        return {"Authorization": f"Bearer {secret}"}


@contextmanager
def _serving(folder: Path) -> Iterator[Served]:
    with (
        ModelServer(reply=REPLY) as model,
        open_served(folder / "ws", model, ask__stages="inject", server__idle_seconds=1.0) as forge,
    ):
        add_files(forge, folder / "files", FILES)
        app = create_app(forge)
        with listening_to(app) as url, httpx.Client(base_url=url, timeout=20) as client:
            yield Served(url, forge, model, client, app.state.streams)


@pytest.fixture(scope="module")
def open_server(memory_folder: Path | None) -> Iterator[Served]:
    with tempfile.TemporaryDirectory(dir=memory_folder) as folder, _serving(Path(folder)) as served:
        yield served


@pytest.fixture(scope="module")
def keyed_server(memory_folder: Path | None) -> Iterator[Served]:
    with tempfile.TemporaryDirectory(dir=memory_folder) as folder, _serving(Path(folder)) as served:
        served.key(Role.ADMIN)
        time.sleep(0.6)  # the server has seen that there are keys now
        yield served


@pytest.fixture
def served(open_server: Served) -> Iterator[Served]:
    """Without keys: everybody is the owner."""
    yield open_server
    open_server.calm()


@pytest.fixture
def keyed(keyed_server: Served) -> Iterator[Served]:
    """Where everybody needs a key."""
    yield keyed_server
    keyed_server.calm()


def until(is_so: Callable[[], object], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)


def read(served: Served, **headers: str) -> list[Sent]:
    with served.client.stream("POST", ASK, json={"question": QUESTION}, headers={**EVENTS, **headers}) as response:
        assert response.status_code == 200, response.read()
        return list(sent_events(response))


def names_of(events: list[Sent]) -> list[str]:
    return list(dict.fromkeys(event.name for event in events))


# -- the events


def test_Q4_the_same_answer_at_once_and_as_events(served: Served) -> None:
    whole = served.client.post(ASK, json={"question": QUESTION}).json()
    with served.client.stream("POST", ASK, json={"question": QUESTION}, headers=EVENTS) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store" and response.headers["x-accel-buffering"] == "no"
        stream = response.headers["content-location"].removeprefix("/v1/streams/")
        events = list(sent_events(response))
    assert names_of(events) == ORDER and [event.id for event in events] == [
        f"{stream}-{number}" for number in range(1, len(events) + 1)
    ]
    done = events[-1].data
    assert "".join(event.data["text"] for event in events if event.name == "token") == done["text"] == REPLY
    changing = ("event", "trace_id", "timings", "usage")
    assert {key: done[key] for key in done if key not in changing} == {
        key: whole[key] for key in whole if key not in changing
    }
    assert whole["kind"] == "answer" and len(whole["citations"]) == 2


def test_Q4_the_request_id_reaches_the_model_and_the_log(served: Served) -> None:
    for _ in range(2):  # the same id again is another question
        done = read(served, **{"X-Request-ID": "my-request-1"})[-1].data
        assert answers(served.model)[-1].headers["x-request-id"] == done["trace_id"]
        assert done["trace_id"].startswith("my-request-1-")
    assert len({entry.id for entry in served.forge.query_log(project="p")}) == 2


def test_Q4_how_it_is_answered_is_the_askers(served: Served) -> None:
    body = {
        "question": QUESTION, "history": [{"question": "How long for a lamp?", "answer": "A lamp: thirty days."}],
        "system": "Speak like a pirate.", "output": "one limerick", "temperature": 0.7, "max_tokens": 77,
        "stop": ["END"], "stages": ["memory"], "k": 1, "filters": {"files": ["rules.md"]}, "ephemeral": True,
    }  # fmt: skip
    answer = served.client.post(ASK, json=body).json()
    sent = answers(served.model)[-1].json
    assert (sent["temperature"], sent["max_tokens"], sent["stop"]) == (0.7, 77, ["END"])
    system, user = (message["content"] for message in sent["messages"])
    assert "pirate" in system and "limerick" in user and "A lamp: thirty days." in user and "never lit" not in user
    assert {source["document"] for source in answer["sources"]} == {"rules.md"}
    assert served.forge.query_log(project="p") == []


def test_Q4_what_is_wrong_is_said_before_or_at_the_end(served: Served) -> None:
    for body, status in (
        ({"question": "  "}, 422), ({}, 422), ({"question": "q", "stages": ["nap"]}, 422),
        ({"question": "q", "hm": 1}, 422),
        ({"question": "q", "conversation": "0" * 32}, 404), ({"question": "q", "filters": {"files": ["none.md"]}}, 404),
    ):  # fmt: skip
        for headers in ({}, EVENTS):
            refused = served.client.post(ASK, json=body, headers=headers)
            assert refused.status_code == status and set(refused.json()["error"]) >= {"code", "hint", "request_id"}, (
                body
            )
    assert served.client.post("/v1/projects/none/ask", json={"question": "q"}, headers=EVENTS).status_code == 404
    with served.client.stream("POST", ASK, json={"question": QUESTION, "lock": True}, headers=EVENTS) as response:
        [event] = sent_events(response)
    assert event.name == "error" and event.data["error"]["code"] == "invalid" and event.data["error"]["request_id"]


# -- going on


def test_Q4_a_stream_is_read_again_from_any_place_while_it_runs_and_after(served: Served) -> None:
    served.model.piece_seconds = 0.05
    with served.client.stream("POST", ASK, json={"question": QUESTION}, headers=EVENTS) as response:
        where = response.headers["content-location"]
        seen = []
        for event in sent_events(response):
            seen.append(event)
            if sum(each.name == "token" for each in seen) == 3:
                break
    with served.client.stream("GET", where, headers={"Last-Event-ID": seen[-1].id}) as response:
        rest = list(sent_events(response))
    assert names_of(seen + rest) == ORDER and served.model.disconnects == 0 and len(served.model.calls) == 1
    with served.client.stream("GET", where) as response:
        everything = list(sent_events(response))
    assert everything == seen + rest and rest[-1].data["text"] == REPLY
    number = len(everything)
    assert served.client.get(where, params={"after": str(number)}).status_code == 204
    assert served.client.get(where, params={"after": everything[-1].id}).status_code == 204
    for wrong, status in (("99", 422), ("x", 422), ("other-1", 422), ("-1", 422), ("1e1", 422), ("٣", 422)):
        assert served.client.get(where, params={"after": wrong}).status_code == status, wrong


def test_Q4_when_nobody_reads_the_model_is_stopped(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_module, "ABANDONED_SECONDS", 0.5)
    served.model.piece_seconds = 0.2
    with served.client.stream("POST", ASK, json={"question": QUESTION}, headers=EVENTS) as response:
        where = response.headers["content-location"]
        next(event for event in sent_events(response) if event.name == "token")
    went = time.monotonic()
    until(lambda: served.model.disconnects)
    assert time.monotonic() - went >= 0.4
    with served.client.stream("GET", where) as response:
        events = list(sent_events(response))
    assert events[-1].name == "error" and events[-1].data["error"]["code"] == "stopped"
    [entry] = served.forge.query_log(project="p")
    assert entry.kind == "error" and entry.input_tokens > 0  # it was paid


def test_Q4_a_caller_who_wants_it_whole_and_goes_away_stops_the_model(served: Served) -> None:
    served.client.post(ASK, json={"question": QUESTION}).raise_for_status()
    served.model.piece_seconds = 0.3
    with pytest.raises(httpx.ReadTimeout):
        served.client.post(ASK, json={"question": QUESTION}, timeout=1.5)
    until(lambda: served.model.disconnects == 1, 2)


@pytest.mark.parametrize("stage", ["shape", "answer"])
def test_Q4_a_stream_can_be_stopped_whatever_the_model_does(served: Served, stage: str) -> None:
    served.model.script(STALL if stage == "shape" else STALL_MIDWAY)
    body = {"question": QUESTION, "stages": [stage] if stage == "shape" else []}
    with served.client.stream("POST", ASK, json=body, headers=EVENTS) as response:
        where = response.headers["content-location"]
        until(lambda: served.model.calls)
        asked = time.monotonic()
        assert httpx.delete(served.url + where).status_code == 204
        events = list(sent_events(response))
    assert events[-1].data["error"]["code"] == "stopped" and time.monotonic() - asked < 2
    until(lambda: served.model.disconnects == 1)
    assert httpx.delete(served.url + where).status_code == 204  # again does no harm


def test_Q4_streams_are_their_askers_alone(keyed: Served) -> None:
    mine, others = keyed.key(), keyed.key(Role.ADMIN)
    with keyed.client.stream("POST", ASK, json={"question": QUESTION}, headers={**EVENTS, **mine}) as response:
        where = response.headers["content-location"]
        list(sent_events(response))
    missing = where[:-4] + "0000"
    for method in ("GET", "DELETE"):
        told = {}
        for path in (where, missing):
            refused = keyed.client.request(method, path, headers={**others, "X-Request-ID": "same-request"})
            assert refused.status_code == 404
            told[path] = refused.text.replace(path.rsplit("/", 1)[1], "")
        assert told[where] == told[missing]
        assert keyed.client.request(method, where).status_code == 401
    assert keyed.client.get(where, headers=mine).status_code == 200


def test_Q4_a_revoked_key_ends_its_stream_and_the_model_within_a_second(keyed: Served) -> None:
    key, secret = keyed.forge.access().create("k", Role.READER)
    keyed.model.piece_seconds = 0.3
    headers = {**EVENTS, "Authorization": f"Bearer {secret}"}
    with keyed.client.stream("POST", ASK, json={"question": QUESTION}, headers=headers) as response:
        events = sent_events(response)
        next(event for event in events if event.name == "token")
        keyed.forge.access().revoke(key.id)
        revoked = time.monotonic()
        assert list(events)[-1].data["error"]["code"] == "unauthenticated"
    until(lambda: keyed.model.disconnects == 1)
    assert time.monotonic() - revoked < 1.5


def test_Q4_a_reader_who_reads_nothing_is_dropped(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_module, "ABANDONED_SECONDS", 0.3)
    served.model.reply = f"{'w' * 20_000} " * 1_000  # more than all buffers on the way take
    body = json.dumps({"question": QUESTION, "max_tokens": 1_000_000}).encode()
    host, port = served.url.removeprefix("http://").split(":")
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        slow.connect((host, int(port)))
        slow.sendall(
            f"POST {ASK} HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        until(lambda: served.model.disconnects, 15)  # idle_seconds, then nobody reads


@pytest.mark.parametrize("fault", [RESET_MIDWAY, BREAKS_OFF])
def test_Q4_an_answer_that_the_model_breaks_off_says_so_and_is_counted(keyed: Served, fault: str) -> None:
    keyed.model.reply, keyed.model.always = REPLY * 20, fault
    _, secret = keyed.forge.access().create("k", Role.READER)
    events = read(keyed, Authorization=f"Bearer {secret}")
    spent, _ = keyed.forge.access().used_today(keyed.forge.access().principal(secret))
    done = events[-1].data
    assert names_of(events)[-1] == "done" and done["citations"] and done["degraded"][0]["part"] == "model"
    assert "the model stopped in the middle of its answer" in done["notices"]
    said = "".join(event.data["text"] for event in events if event.name == "token")
    assert 0 < len(said) < len(REPLY * 20) and spent.input_tokens and spent.output_tokens


def test_Q4_a_fault_of_ours_in_a_stream_is_its_last_event(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(event: Event) -> Any:
        return 1 / 0 if isinstance(event, DoneEvent) else event_fields(event)

    monkeypatch.setattr(asking, "event_fields", told)
    events = read(served)
    assert names_of(events) == [*ORDER[:-1], "error"] and events[-1].data["error"]["code"] == "internal"


# -- prompts that are sent


def test_Q4_what_prompt_showed_is_sent_byte_for_byte_or_as_it_was_changed(served: Served) -> None:
    shown = served.client.post("/v1/projects/p/prompt", json={"question": QUESTION}).json()
    texts = [message["text"] for message in shown["messages"]]
    assert shown["estimate"]["input_tokens"] > 0 and not answers(served.model)
    ask = {"question": QUESTION, "prompt": {"token": shown["token"]}}
    answer = served.client.post(ASK, json=ask).json()
    assert [text for _, text in received(answers(served.model)[-1])] == texts and answer["text"] == REPLY
    changed = [texts[0], texts[1] + "\n\nP.S. Kürze bitte ❤ \n"]
    served.client.post(ASK, json={**ask, "prompt": {"token": shown["token"], "texts": changed}})
    assert [text for _, text in received(answers(served.model)[-1])] == changed
    headers = {"Accept": "application/vnd.ragforge.records+json"}
    whole = served.client.post("/v1/projects/p/prompt", json={"question": QUESTION}, headers=headers).json()
    assert whole.pop("token") and decode(Prompted, whole).prompt.messages[1].text.count(QUESTION) == 1


def test_Q4_a_prompt_that_was_not_made_here_for_the_caller_is_not_sent(keyed: Served) -> None:
    other, reader = keyed.key(), keyed.key()
    token = keyed.client.post("/v1/projects/p/prompt", json={"question": QUESTION}, headers=other).json()["token"]
    theirs = keyed.client.post("/v1/projects/p/prompt", json={"question": QUESTION}, headers=reader).json()["token"]
    for wrong in (token, theirs[:-8] + "AAAAAAA=", "", "ä", "A" * 100):
        body = {"question": QUESTION, "prompt": {"token": wrong}}
        refused = keyed.client.post(ASK, json=body, headers=reader)
        assert refused.status_code == 422 and "not made here" in refused.json()["error"]["message"], wrong[:20]
    body = {"question": QUESTION, "prompt": {"token": theirs, "texts": ["only one"]}}
    assert keyed.client.post(ASK, json=body, headers=reader).status_code == 422
    assert not answers(keyed.model)


def test_Q4_what_a_prompt_took_is_counted_once(keyed: Served) -> None:
    key = keyed.key()
    body = {"question": QUESTION, "stages": ["shape"]}
    shown = keyed.client.post("/v1/projects/p/prompt", json=body, headers=key).json()
    sent = keyed.client.post(ASK, json={**body, "prompt": {"token": shown["token"]}}, headers=key).json()
    assert shown["usage"]["calls"] == 1 and sent["usage"]["calls"] == 1 and len(keyed.model.calls) == 2
    entries = keyed.forge.query_log(project="p")
    assert sum(entry.input_tokens for entry in entries) == sum(each["usage"]["input_tokens"] for each in (shown, sent))


def test_Q4_readers_do_not_choose_what_is_paid_for(keyed: Served) -> None:
    reader, admin = keyed.key(), keyed.key(Role.ADMIN)
    named = {"question": QUESTION, "model": "openai-compatible:dear"}
    for path in ("ask", "prompt", "explain"):
        assert keyed.client.post(f"/v1/projects/p/{path}", json=named, headers=reader).status_code == 403
        assert keyed.client.post(f"/v1/projects/p/{path}", json=named, headers=admin).status_code == 200
    assert keyed.model.calls[-1].json["model"] == "dear"
    for model in ("cheap", "offline", "openai-compatible:stub", ""):
        answer = keyed.client.post(ASK, json={"question": QUESTION, "model": model}, headers=reader)
        assert answer.status_code == 200 and answer.json()["quoted"] == (model == "offline")
    dear = {"question": QUESTION, "reranker": "cohere:rerank-dear"}
    for path in ("search", "ask", "prompt", "explain"):
        assert keyed.client.post(f"/v1/projects/p/{path}", json=dear, headers=reader).status_code == 403
    replay = {"question": QUESTION, "replays": [{"reranker": "cohere:rerank-dear"}]}
    assert keyed.client.post("/v1/projects/p/explain", json=replay, headers=reader).status_code == 403


def test_Q4_explain_tells_every_candidate_and_what_would_come_of_it(served: Served) -> None:
    body = {"question": QUESTION, "replays": [{"label": "by words", "alpha": 0.0}, {"k": 1}]}
    told = served.client.post("/v1/projects/p/explain", json=body).json()
    assert [each["settings"] for each in (told, *told["replays"])] == ["as asked", "by words", ""]
    assert {each["document"] for each in told["candidates"]} == set(FILES) and told["answer"]["kind"] == "answer"
    assert all(each["verdicts"] for each in told["candidates"]) and len(told["replays"][1]["passages"]) == 1
    assert not served.model.calls


def test_Q4_no_more_is_explained_than_can_be_told_soon(served: Served) -> None:
    too_many: list[dict[str, Any]] = [{"replays": [{}] * 6}, {"vector_candidates": 201}]
    for body in (*too_many, {"replays": [{"keyword_candidates": 201}]}):
        refused = served.client.post("/v1/projects/p/explain", json={"question": QUESTION, **body})
        assert refused.status_code == 422 and refused.json()["error"]["message"]


def test_Q4_an_explanation_that_nobody_waits_for_ends(served: Served) -> None:
    cancel = Cancel()
    told: list[str] = []

    class Told(ExplainedSearch):
        @classmethod
        def of(cls, label: str, retrieved: Retrieved) -> Self:
            told.append(label)
            if label == "last":
                cancel.set()
            return super().of(label, retrieved)

    changes = [(label, {"k": 1}) for label in ("first", "last", "never")]
    how: dict[str, Any] = {"filters": Filters(), "tuning": Tuning(), "kind": Told, "changes": changes}
    with pytest.raises(Cancelled):
        explain_all(served.forge, QUESTION, "p", cancel=cancel, **how)
    assert told == ["first", "last"]


def test_Q4_whole_records_come_as_events_to_those_who_ask_for_them(served: Served) -> None:
    events = read(served, Accept="text/event-stream, application/vnd.ragforge.records+json")
    kinds = {"retrieval": RetrievalEvent, "token": TokenEvent, "usage": UsageEvent, "done": DoneEvent}
    records: list[Any] = [decode(kinds[event.name], event.data["record"]) for event in events if event.name in kinds]
    assert isinstance(records[-1], DoneEvent) and records[-1].result.text == REPLY
    assert records[-1].result.account.trace_id and isinstance(records[0], RetrievalEvent)


# -- jobs


def test_Q4_the_progress_of_a_job_is_told_until_it_ends(served: Served) -> None:
    job = served.client.post("/v1/projects/p/rebuild").json()["id"]
    with served.client.stream("GET", f"/v1/jobs/{job}/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = list(sent_events(response))
    *before, last = events
    assert {event.name for event in before} <= {"progress"} and last.name == "done"
    assert (last.data["id"], last.data["state"]) == (job, "done")
    with served.client.stream("GET", f"/v1/jobs/{job}/events") as response:  # one that has ended says so
        assert [event.name for event in sent_events(response)] == ["done"]
    assert served.client.get("/v1/jobs/none/events").status_code == 404


def test_Q4_a_job_is_looked_at_once_for_all_its_watchers(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    job = served.forge.enqueue("nobody-does-this", {}, project="p").id
    get, looks, watchers = SqlJobs.get, 0, 12

    def counted(self: SqlJobs, scope: Scope, id: str) -> Job:
        nonlocal looks
        looks += id == job
        return get(self, scope, id)

    monkeypatch.setattr(SqlJobs, "get", counted)
    there = threading.Barrier(watchers + 1)

    def watched(_: int) -> list[str]:
        with served.client.stream("GET", f"/v1/jobs/{job}/events") as response:
            events = sent_events(response)
            names = [next(events).name]
            there.wait(30)
            return [*names, *(event.name for event in events)]

    with ThreadPoolExecutor(watchers) as threads:
        told = threads.map(watched, range(watchers))
        there.wait(30)
        looks, began = 0, time.monotonic()
        time.sleep(1.0)
        seen, took = looks, time.monotonic() - began
        served.forge.cancel_job(job)
        assert list(told) == [["progress", "done"]] * watchers
    assert 1 <= seen <= took / 0.4 + 1
    looks = 0
    time.sleep(1.0)
    assert looks == 0, "nobody watches any more"


# -- a WebSocket


def heard(socket: ClientConnection, *last: str) -> list[dict[str, Any]]:
    """Events up to the first of these."""
    events: list[dict[str, Any]] = []
    while not events or events[-1]["event"] not in last:
        events.append(json.loads(socket.recv(timeout=10)))
    return events


def say(socket: ClientConnection, type: str, **fields: object) -> None:
    socket.send(json.dumps({"type": type, **fields}))


def test_Q4_a_websocket_brings_the_same_events(served: Served) -> None:
    by_sse = read(served)
    with served.socket() as socket:
        say(socket, "ask", question=QUESTION, id="first")
        events = heard(socket, "done")
        stream = events[0]["id"].rsplit("-", 1)[0]
        assert [event.pop("id") for event in events] == [f"{stream}-{n}" for n in range(1, len(events) + 1)]
        assert {event.pop("for") for event in events} == {"first"}
        same = [event.data for event in by_sse]
        assert [event["event"] for event in events] == [event["event"] for event in same]
        assert events[:-2] == same[:-2] and events[-1]["text"] == same[-1]["text"]
        say(socket, "resume", stream=stream, after=len(events) - 1)
        assert heard(socket, "done") == [events[-1] | {"id": f"{stream}-{len(events)}"}]
        for name, after, code in ((stream, len(events), "invalid"), (stream, 999, "invalid"), ("none", 0, "not_found")):
            say(socket, "resume", stream=name, after=after)
            assert heard(socket, "error")[-1]["error"]["code"] == code
        say(socket, "ask", question=QUESTION)
        assert heard(socket, "done")[-1]["text"] == REPLY


def test_Q4_a_socket_answers_one_question_at_a_time_and_can_be_told_to_stop(served: Served) -> None:
    served.model.piece_seconds = 0.2
    with served.socket() as socket:
        say(socket, "cancel")  # nothing to stop does no harm
        say(socket, "ask", question=QUESTION)
        heard(socket, "token")
        say(socket, "ask", question=QUESTION, id="second")
        busy = next(event for event in heard(socket, "error") if event["event"] == "error")
        assert (busy["error"]["code"], busy["for"]) == ("busy", "second")
        say(socket, "cancel")
        assert heard(socket, "error")[-1]["error"]["code"] == "stopped"
        until(lambda: served.model.disconnects == 1)
        say(socket, "ask", question=QUESTION)
        say(socket, "cancel")  # before anything was said
        assert heard(socket, "error")[-1]["error"]["code"] == "stopped"
        time.sleep(0.3)  # the model may have been called just before, and hears of it now
        until(lambda: served.model.disconnects == len(served.model.calls))
        served.model.piece_seconds = 0.0
        say(socket, "ask", question=QUESTION)
        assert heard(socket, "done")[-1]["text"] == REPLY


def test_Q4_a_socket_goes_on_in_its_conversation_if_asked(served: Served) -> None:
    with served.socket() as socket:
        say(socket, "ask", question=QUESTION)
        assert heard(socket, "done")[-1]["conversation"] is None
        say(socket, "ask", question=QUESTION, remember=True)
        id = heard(socket, "done")[-1]["conversation"]
        say(socket, "ask", question="And how long a lamp?")
        assert heard(socket, "done")[-1]["conversation"] == id
    [conversation] = served.forge.conversations(project="p")
    assert conversation.id == id and conversation.title == QUESTION
    assert len(served.forge.turns(id, project="p")) == 2


@pytest.mark.parametrize(
    "garbage",
    [
        "", "no JSON", "null", "[]", "[" * 100_000, '{"type": "nap"}', '{"type": "ask"}', '{"question": "q"}',
        '{"type": "ask", "question": 1}', '{"type": "ask", "question": "q", "hm": 1}', "x" * 1_000_001, b"bytes", b"",
        '{"type": "ask", "question": "\\ud800"}', '{"type": "resume"}',
        '{"type": "resume", "stream": "s", "after": -1}',
    ],
    ids=lambda garbage: repr(garbage)[:30],
)  # fmt: skip
def test_Q4_garbage_is_answered_and_too_much_of_it_closes_the_socket(served: Served, garbage: str | bytes) -> None:
    with served.socket() as socket:
        for _ in range(4):
            socket.send(garbage)
            told = heard(socket, "error")[-1]["error"]
            assert told["code"] == "invalid" and told["message"] and told["hint"]
        say(socket, "ask", question=QUESTION)
        assert heard(socket, "done")[-1]["text"] == REPLY
        socket.send(garbage)
        with pytest.raises(ConnectionClosed) as closed:
            heard(socket, "never")
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008


def test_Q4_a_socket_that_goes_away_stops_the_model_but_may_come_back(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams_module, "ABANDONED_SECONDS", 1.0)
    served.model.piece_seconds = 0.1
    with served.socket() as socket:
        say(socket, "ask", question=QUESTION)
        seen = heard(socket, "token")
    stream, number = seen[-1]["id"].rsplit("-", 1)
    with served.socket() as socket:
        say(socket, "resume", stream=stream, after=int(number))
        rest = heard(socket, "done")
        assert [event["id"] for event in seen + rest] == [f"{stream}-{n}" for n in range(1, len(seen + rest) + 1)]
        assert rest[-1]["text"] == REPLY  # all of it: the model was not stopped
        before = served.model.disconnects  # a client may hang up as soon as it has the last word
        say(socket, "ask", question=QUESTION)
        heard(socket, "token")
    until(lambda: served.model.disconnects == before + 1)


def test_Q4_a_socket_that_reads_nothing_is_left_and_others_go_on(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams_module, "ABANDONED_SECONDS", 0.3)
    served.model.reply = f"{'w' * 20_000} " * 1_000  # more than all buffers on the way take
    host, port = served.url.removeprefix("http://").split(":")
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    slow.connect((host, int(port)))
    uri = f"{served.url.replace('http', 'ws')}/v1/projects/p/chat"
    with connect(uri, sock=slow, max_queue=1, max_size=None, compression=None, close_timeout=0.1) as deaf:
        say(deaf, "ask", question=QUESTION, max_tokens=1_000_000)
        heard(deaf, "token")
        served.model.reply = REPLY
        assert names_of(read(served))[-1] == "done"
        until(lambda: served.model.disconnects == 1, 15)  # idle_seconds, then nobody reads
        until(lambda: not len(served.streams) and not served.streams.threads.borrowed_tokens)


def test_Q4_a_socket_is_refused_before_it_is_open(served: Served, keyed: Served) -> None:
    with pytest.raises(InvalidStatus) as refused:
        served.socket("none")
    assert refused.value.response.status_code == 404 and b'"code": "not_found"' in refused.value.response.body
    with pytest.raises(InvalidStatus) as refused:
        keyed.socket()
    assert refused.value.response.status_code == 401
    with keyed.socket(**keyed.key(limits=KeyLimits(requests_per_minute=3))) as socket:  # each question is a request
        for last in ("done", "done", "error"):
            say(socket, "ask", question=QUESTION)
            told = heard(socket, last)[-1]
        assert told["error"]["code"] == "limit"


def test_Q4_a_revoked_key_closes_its_socket_within_a_second(keyed: Served) -> None:
    key, secret = keyed.forge.access().create("k", Role.READER)
    keyed.model.piece_seconds = 0.3
    with keyed.socket(Authorization=f"Bearer {secret}") as socket:
        say(socket, "ask", question=QUESTION)
        heard(socket, "token")
        keyed.forge.access().revoke(key.id)
        revoked = time.monotonic()
        with pytest.raises(ConnectionClosed):
            heard(socket, "never")
    until(lambda: keyed.model.disconnects == 1)
    assert time.monotonic() - revoked < 1.5


def test_Q4_silence_is_filled(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    from ragforge.interfaces.http.routes import chat

    monkeypatch.setattr(streams_module, "ABANDONED_SECONDS", 0.3)
    monkeypatch.setattr(streams_module, "HEARTBEAT_SECONDS", 0.2)
    monkeypatch.setattr(chat, "HEARTBEAT_SECONDS", 0.2)
    served.model.script(STALL_MIDWAY)
    with served.client.stream("POST", ASK, json={"question": QUESTION}, headers=EVENTS) as response:
        lines = response.iter_lines()
        assert next(lines) == "retry: 1000"
        assert next(line for line in lines if line.startswith(":"))
    with served.socket() as socket:
        assert heard(socket, "ping") == [{"event": "ping"}]


# -- many


def test_Q4_open_streams_hold_no_thread_each_and_searches_stay_quick(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They wait for a model that has stopped in the middle of its answer."""
    monkeypatch.setattr(streams_module, "ABANDONED_SECONDS", 0.5)
    many = count(60, 250)
    served.model.always = STALL_MIDWAY
    served.client.post("/v1/projects/p/search", json={"question": QUESTION}).raise_for_status()
    open_now: list[int] = []
    over = threading.Event()

    def hold(_: int) -> None:
        asked = {"question": QUESTION}
        with httpx.stream("POST", served.url + ASK, json=asked, headers=EVENTS, timeout=60) as response:
            next(event for event in sent_events(response) if event.name == "token")
            open_now.append(1)
            over.wait(60)

    with ThreadPoolExecutor(many) as pool:
        held = [pool.submit(hold, number) for number in range(many)]
        until(lambda: len(open_now) == many or any(each.done() for each in held), 60)
        assert len(open_now) == many, [each.exception() for each in held if each.done()]
        workers = [thread.name for thread in threading.enumerate() if "AnyIO" in thread.name]
        took = []
        for number in range(20):
            began = time.perf_counter()
            body = {"question": f"{QUESTION} {number}"}
            served.client.post("/v1/projects/p/search", json=body).raise_for_status()
            took.append((time.perf_counter() - began) * 1000)
        over.set()
    figures = {"streams": many, "threads": len(workers), "search_ms": round(statistics.median(took), 1)}
    record("open_streams", **figures)
    assert len(workers) <= 8 + 16 + 8, workers  # the pools, however many streams
    assert statistics.median(took) < 250


def test_Q4_small_work_of_a_slow_model_keeps_nobody_from_searching(served: Served) -> None:
    """More streams than there are threads wait for a model that does not even say what the question means."""
    served.model.always_forms = STALL
    body, threads = {"question": QUESTION, "stages": ["shape"]}, int(served.streams.threads.total_tokens)
    begun: list[str] = []
    with ThreadPoolExecutor(threads) as pool:

        def hold(_: int) -> str:
            with httpx.stream("POST", served.url + ASK, json=body, headers=EVENTS, timeout=60) as response:
                begun.append(response.headers["content-location"])
                return [event.name for event in sent_events(response)][-1]

        held = [pool.submit(hold, number) for number in range(threads)]
        until(lambda: len(served.model.calls) == threads, 20)
        began = time.perf_counter()
        served.client.post("/v1/projects/p/search", json={"question": "What may be lit?"}).raise_for_status()
        assert time.perf_counter() - began < 1
        for stream in begun:
            assert served.client.delete(stream).status_code == 204
        assert [each.result(10) for each in held] == ["error"] * threads
    until(lambda: served.model.disconnects == threads)
