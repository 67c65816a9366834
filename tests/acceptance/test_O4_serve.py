"""`ragforge serve` as its users meet it: it says where it listens, refuses open doors, and stops when it is told to."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from websockets.sync.client import ClientConnection, connect, unix_connect

from ragforge import Ragforge
from ragforge.domain.access import Role
from ragforge.domain.library import JobState
from ragforge.interfaces.http.workers import Place
from ragforge.settings import load
from ragforge.testing.model_server import DRIP, NORMAL, STALL_MIDWAY, ModelServer
from tests.events import sent_events
from tests.forge import prose
from tests.process import Serving, serve
from tests.shell import Shell, bare_environment, fill_workspace

LONGEST_STOP = 5.0
TEXT = "# Chairs\n\nA chair may be returned within 30 days of its delivery.\n"
REPLY = "A chair may be returned within 30 days [1]."
ASKED = {"question": "How long may a chair be returned?"}
EVENTS = {"Accept": "text/event-stream"}
PROJECT = "/v1/projects/default"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill_workspace(tmp_path_factory.mktemp("served"), {"chairs.md": TEXT})


def found(address: str, headers: dict[str, str] | None = None) -> int:
    answer = httpx.post(f"{address}{PROJECT}/search", json=ASKED, headers=headers, timeout=30)
    return len(answer.json()["passages"]) if answer.status_code == 200 else -answer.status_code


def asking(model: ModelServer) -> dict[str, str]:
    """The variables of a server that asks this model."""
    return {
        "RAGFORGE_MODEL__NAME": "openai-compatible:stub",
        "RAGFORGE_MODEL__BASE_URL": model.base_url,
        "OPENAI_COMPATIBLE_API_KEY": "none",
    }


# -- one process


def test_it_serves_says_so_and_stops_with_slow_clients_and_waiting_ones(workspace: Path) -> None:
    """One that has sent half of its request, one that reads nothing, one that keeps its connection."""
    with serve(workspace) as serving:
        address = serving.address
        assert httpx.get(f"{address}/healthz").json() == {"status": "alive"}
        assert found(address) == 1
        entry = serving.wait_for("request")
        assert entry["route"] == "/v1/projects/{project}/search" and entry["status"] == 200
        assert entry["principal"] == "owner" and entry["level"] == "info"
        host, port = address.removeprefix("http://").split(":")
        half = socket.create_connection((host, int(port)))
        half.sendall(b"POST /v1/projects/default/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        deaf = socket.create_connection((host, int(port)))
        deaf.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200)
        idle = socket.create_connection((host, int(port)))
        time.sleep(0.3)
        code, took = serving.stop(signal.SIGINT)
        for each in (half, deaf, idle):
            each.close()
    assert (code, json.loads(serving.lines[-1])["message"]) == (0, "stopped")
    assert took < LONGEST_STOP
    assert not any("Traceback" in line or "chair" in line.lower() for line in serving.lines)


def test_it_stops_with_open_streams_and_running_work(tmp_path: Path) -> None:
    """What is under way is cut off; a file that was being taken in goes back to the queue, and is taken in later."""
    workspace = fill_workspace(tmp_path, {"chairs.md": TEXT})
    big = "\n\n".join(prose(number, 60) for number in range(60)).encode()
    with (
        ModelServer(always=DRIP, always_forms=NORMAL) as model,
        serve(workspace, variables=asking(model)) as serving,
        httpx.Client(base_url=serving.address, timeout=30) as client,
    ):
        events = client.build_request("POST", f"{PROJECT}/ask", json=ASKED, headers=EVENTS)
        stream = client.send(events, stream=True)
        assert stream.status_code == 200 and next(stream.iter_raw())
        with connect(f"{serving.address.replace('http', 'ws')}{PROJECT}/chat") as talk:
            talk.send(json.dumps({"type": "ask", **ASKED}))
            assert json.loads(talk.recv(30))
            job = client.post(f"{PROJECT}/files?name=big.md", content=big).json()["id"]
            while (state := client.get(f"/v1/jobs/{job}").json()["state"]) == "queued":
                time.sleep(0.01)
            assert state == "running"
            code, took = serving.stop(signal.SIGTERM)
        stream.close()
    assert code == 0 and took < LONGEST_STOP
    assert not any('"level": "error"' in line or "Traceback" in line for line in serving.lines), serving.lines[-5:]
    settings = load(workspace, flags={"the test": {"embed.model": "wordllama"}})
    with Ragforge.open(settings) as forge:
        (left,) = [each for each in forge.jobs() if each.kind == "upload"]
        assert (left.state, left.attempts, left.error) == (JobState.QUEUED, 0, "")
        worker = forge.worker()
        worker.start()
        deadline = time.monotonic() + 60
        while (state := forge.job(job).state) is not JobState.DONE:
            assert state in (JobState.QUEUED, JobState.RUNNING) and time.monotonic() < deadline
            time.sleep(0.05)
        worker.stop()


def test_a_second_signal_ends_it_at_once(workspace: Path) -> None:
    with serve(workspace) as serving:
        host, port = serving.address.removeprefix("http://").split(":")
        half = socket.create_connection((host, int(port)))
        half.sendall(b"POST /v1/projects/default/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        time.sleep(0.2)
        serving.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        code, took = serving.stop(signal.SIGTERM)
        half.close()
    assert code == 130 and took < 0.5


# -- several


@dataclass
class Pair:
    """A server of two workers that asks for keys, and its model."""

    serving: Serving
    workspace: Path
    model: ModelServer
    key: dict[str, str]

    def socket_of(self, number: int) -> str:
        return Place(0, 2, self.workspace / "run").socket_of(number)

    def worker(self, number: int) -> httpx.Client:
        """One of the two, by its own socket."""
        transport = httpx.HTTPTransport(uds=self.socket_of(number))
        return httpx.Client(transport=transport, base_url="http://localhost", headers=self.key, timeout=30)

    def chat(self, number: int, **headers: str) -> ClientConnection:
        uri = f"ws://localhost{PROJECT}/chat"
        return unix_connect(self.socket_of(number), uri, additional_headers={**self.key, **headers})

    def answered(self, number: int) -> tuple[str, list[dict[str, Any]]]:
        """A stream of this worker, and the data of its events."""
        with self.worker(number) as client:
            events = list(sent_events(client.post(f"{PROJECT}/ask", json=ASKED, headers=EVENTS)))
        stream = events[0].id.rsplit("-", 1)[0]
        assert stream.startswith(f"{number}.") and events[-1].name == "done"
        return stream, [event.data for event in events]


@pytest.fixture(scope="module")
def one_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    workspace = fill_workspace(tmp_path_factory.mktemp("pair"), {"chairs.md": TEXT})
    with Ragforge.open(load(workspace)) as forge:
        _, secret = forge.access().create("operator", Role.ADMIN)
    with ModelServer() as model, serve(workspace, "--workers", "2", variables=asking(model)) as serving:
        pair = Pair(serving, workspace, model, {"Authorization": f"Bearer {secret}"})
        deadline = time.monotonic() + 60
        while not all(_is_up(pair.socket_of(number)) for number in (1, 2)):
            assert time.monotonic() < deadline and serving.process.poll() is None, serving.lines[-5:]
            time.sleep(0.05)
        yield pair
        workers = children(serving)
        code, took = serving.stop(signal.SIGTERM)
        assert code == 0 and took < LONGEST_STOP
        assert len(workers) == 2 and not any(alive(worker) for worker in workers)


@pytest.fixture
def pair(one_pair: Pair) -> Pair:
    one_pair.model.reply, one_pair.model.always, one_pair.model.always_forms = REPLY, NORMAL, NORMAL
    return one_pair


def _is_up(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        return trial.connect_ex(path) == 0


def test_workers_share_one_address_and_are_replaced(pair: Pair) -> None:
    address = pair.serving.address
    before = _searches(pair)
    assert [found(address, pair.key) for _ in range(6)] == [1] * 6
    for number in (1, 2):
        own = pair.workspace / "run" / f"{number}.sock"
        assert stat.S_IMODE(own.stat().st_mode) == 0o600 and stat.S_IMODE(own.parent.stat().st_mode) == 0o700
    assert _searches(pair) == before + 6
    os.kill(children(pair.serving)[0], signal.SIGKILL)
    pair.serving.wait_for("worker 1 ended with -9; another takes its place")
    assert [found(address, pair.key) for _ in range(4)] == [1] * 4
    while not _is_up(pair.socket_of(1)):
        time.sleep(0.05)


def _searches(pair: Pair) -> float:
    page = httpx.get(f"{pair.serving.address}/metrics", headers=pair.key, timeout=30).text
    rows = [line.split() for line in page.splitlines() if line.startswith("ragforge_searches_total{")]
    assert [name for name, _ in rows] == [f'ragforge_searches_total{{worker="{number}"}}' for number in (1, 2)]
    return sum(float(number) for _, number in rows)


def test_keys_are_needed_once_there_is_one(pair: Pair) -> None:
    address = pair.serving.address
    assert pair.serving.wait_for("listening")["keys"] is True
    assert httpx.get(f"{address}/metrics").status_code == 401
    assert httpx.get(f"{address}/healthz").status_code == 200
    while not (refused := [entry for entry in pair.serving.told("request") if entry["status"] == 401]):
        time.sleep(0.02)
    assert json.dumps(refused).count("rf_") == 0


def test_a_stream_is_found_whichever_worker_is_asked(pair: Pair) -> None:
    stream, data = pair.answered(1)
    path = f"/v1/streams/{stream}"
    with httpx.Client(base_url=pair.serving.address, headers={**pair.key, **EVENTS}, timeout=30) as client:
        again = [list(sent_events(client.get(path))) for _ in range(8)]
        assert all([event.data for event in events] == data for events in again)
        rest = list(sent_events(client.get(path, headers={"Last-Event-ID": again[0][-2].id})))
        assert [event.id for event in rest] == [again[0][-1].id]
        assert {client.get(f"/v1/streams/1.{'x' * 24}").status_code for _ in range(6)} == {404}
        assert {client.delete(path).status_code for _ in range(6)} == {204}
    routes = {entry["route"] for entry in pair.serving.told("request") if entry["route"].startswith("/v1/streams")}
    assert routes == {"/v1/streams/{stream}"}


def test_a_socket_goes_on_with_a_stream_of_another_worker(pair: Pair) -> None:
    stream, data = pair.answered(1)
    with pair.chat(2) as talk:
        for after in (0, 2):
            assert resumed(talk, stream, after) == [
                {"id": f"{stream}-{number}", **event} for number, event in enumerate(data, 1) if number > after
            ]
        (seen,) = resumed(talk, stream, len(data))
        assert seen["error"]["message"] == "that was the last event of the stream"
        (beyond,) = resumed(talk, stream, 1_000)
        assert beyond["error"]["code"] == "invalid"
        (missing,) = resumed(talk, "1." + "x" * 24)
        (not_one,) = resumed(talk, "1.x?after=1#")
        (nobodys,) = resumed(talk, "7." + "x" * 24)
        assert {each["error"]["code"] for each in (missing, not_one, nobodys)} == {"not_found"}
    with Ragforge.open(load(pair.workspace)) as forge:
        _, secret = forge.access().create("somebody else", Role.READER)
    with pair.chat(2, Authorization=f"Bearer {secret}") as talk:
        (foreign,) = resumed(talk, stream)
        assert foreign["error"]["code"] == "not_found"


def test_a_socket_follows_and_stops_what_another_worker_writes(pair: Pair) -> None:
    pair.model.always = STALL_MIDWAY
    with pair.worker(1) as client, client.stream("POST", f"{PROJECT}/ask", json=ASKED, headers=EVENTS) as first:
        stream = first.headers["content-location"].rsplit("/", 1)[1]
        with pair.chat(2) as talk:
            talk.send(json.dumps({"type": "resume", "stream": stream}))
            while json.loads(talk.recv(20))["event"] != "decision":
                pass
            talk.send(json.dumps({"type": "cancel"}))
            assert heard(talk)[-1]["error"]["code"] == "stopped"
        assert [event.name for event in sent_events(first)][-1] == "error"


def resumed(talk: ClientConnection, stream: str, after: int = 0) -> list[dict[str, Any]]:
    talk.send(json.dumps({"type": "resume", "stream": stream, "after": after}))
    return heard(talk)


def heard(talk: ClientConnection) -> list[dict[str, Any]]:
    """To the end of an answer."""
    events = [json.loads(talk.recv(20))]
    while events[-1]["event"] not in ("done", "error"):
        events.append(json.loads(talk.recv(20)))
    return events


def test_what_one_worker_sealed_another_opens(pair: Pair) -> None:
    with pair.worker(1) as first, pair.worker(2) as second:
        for maker, sender in ((first, second), (second, first)):
            made = maker.post(f"{PROJECT}/prompt", json=ASKED).json()
            answer = sender.post(f"{PROJECT}/ask", json={**ASKED, "prompt": {"token": made["token"]}})
            assert answer.status_code == 200 and answer.json()["text"] == REPLY
        changed = made["token"][:-8] + "AAAAAAAA"
        refused = second.post(f"{PROJECT}/ask", json={**ASKED, "prompt": {"token": changed}})
        assert refused.status_code == 422


class Turns(httpx2.AsyncBaseTransport):
    """Each request to the next worker, also those of one session."""

    def __init__(self, pair: Pair) -> None:
        self._workers = [httpx2.AsyncHTTPTransport(uds=pair.socket_of(number)) for number in (1, 2)]
        self.requests = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.requests += 1
        return await self._workers[self.requests % 2].handle_async_request(request)

    async def aclose(self) -> None:
        for each in self._workers:
            await each.aclose()


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_sessions_of_assistants_need_no_worker_of_their_own(pair: Pair, mode: str) -> None:
    async def session(turns: Turns) -> None:
        async with (
            httpx2.AsyncClient(transport=turns, headers=pair.key, timeout=30) as http,
            Client(streamable_http_client("http://localhost/mcp", http_client=http), mode=mode) as client,
        ):
            assert len((await client.list_tools()).tools) == 6
            for _ in range(2):
                found = await client.call_tool("search", {"query": ASKED["question"]})
                assert found.structured_content and "30 days" in found.structured_content["results"][0]["text"]
            answer = await client.call_tool("ask", ASKED)
            assert answer.structured_content and answer.structured_content["text"] == REPLY

    async def script() -> None:
        several = [Turns(pair) for _ in range(3)]
        async with anyio.create_task_group() as group:
            for turns in several:
                group.start_soon(session, turns)
        assert all(turns.requests >= 4 for turns in several)

    anyio.run(script)


def test_no_worker_outlives_its_supervisor(workspace: Path) -> None:
    with serve(workspace, "--workers", "2") as serving:
        serving.wait_for("listening")
        workers = children(serving)
        assert len(workers) == 2
        serving.stop(signal.SIGKILL)
        deadline = time.monotonic() + 4 * LONGEST_STOP  # they may have just begun to begin
        while any(alive(worker) for worker in workers):
            assert time.monotonic() < deadline, "a worker was left behind"
            time.sleep(0.05)


def children(serving: Serving) -> list[int]:
    tasks = Path(f"/proc/{serving.process.pid}/task").iterdir()
    return sorted(int(child) for task in tasks for child in (task / "children").read_text().split())


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    bare_environment(monkeypatch, tmp_path)
    return Shell(tmp_path / "ws", capsys)


def test_a_port_that_is_taken(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = shell.run("serve", "--port", str(port), code=2)
    assert f"port {port} of 127.0.0.1 is taken" in done.stderr and "--port 0" in done.stderr


def test_no_open_door(shell: Shell) -> None:
    done = shell.run("serve", "--host", "0.0.0.0", "--port", "0", code=6)
    assert "there are no keys" in done.stderr and "ragforge keys new" in done.stderr
