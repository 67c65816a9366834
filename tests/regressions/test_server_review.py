"""What a review of the servers found: each could be used to stop them, or to learn what is hidden."""

from __future__ import annotations

import json
import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import anyio
import httpx
import pytest
from anyio import CapacityLimiter
from starlette.requests import Request
from starlette.responses import Response
from websockets.sync.client import connect

from ragforge import Ragforge
from ragforge.adapters.locks import FileLock
from ragforge.build import utc_now
from ragforge.client import RemoteForge
from ragforge.domain.access import Clearance, Role
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.library import Project
from ragforge.errors import NotAllowed, NotFound, UserError
from ragforge.interfaces.http import serve as serving_module
from ragforge.interfaces.http.parts import Form
from ragforge.interfaces.http.presence import worked
from ragforge.interfaces.mcp import tools
from ragforge.interfaces.records import placeless
from ragforge.operate import inbox as inbox_module
from ragforge.operate.inbox import Inbox
from ragforge.testing.postgres import TemporaryPostgres
from tests.forge import open_forge, prose
from tests.process import serve
from tests.serving import serving

FILES = "/v1/projects/p/files"


@pytest.fixture
def forge(swift_path: Path) -> Iterator[Ragforge]:
    with open_forge(swift_path / "ws") as opened:
        yield opened


@pytest.fixture
def client(forge: Ragforge) -> Iterator[httpx.Client]:
    with serving(forge) as url, httpx.Client(base_url=url, timeout=30) as opened:
        yield opened


# -- sockets


def test_no_message_of_a_socket_is_unpacked(swift_path: Path) -> None:
    """A thousand bytes could become a million, in the thread that serves everybody."""
    with open_forge(swift_path / "ws"):
        pass
    with serve(swift_path / "ws") as server:
        url = server.address.replace("http", "ws", 1)
        with connect(f"{url}/v1/projects/p/chat", compression="deflate") as socket:
            assert not socket.protocol.extensions


def test_who_talks_without_end_is_heard_slowly(client: httpx.Client) -> None:
    url = str(client.base_url).replace("http", "ws", 1)
    with connect(f"{url}/v1/projects/p/chat") as socket:
        for _ in range(50):
            socket.send('{"type": "cancel"}')
        began = time.monotonic()
        socket.send("garbage")
        assert json.loads(socket.recv(timeout=10))["event"] == "error"
        assert time.monotonic() - began > 0.3


# -- threads


def test_a_thread_keeps_its_place_until_it_has_ended() -> None:
    """Else whoever asks and hangs up, again and again, has ever more of them at work."""
    goes_on, seen = threading.Event(), []

    def work(cancel: Cancel) -> Response:
        goes_on.wait(10)
        seen.append(cancel.is_set)
        cancel.check()
        return Response()

    class Gone:
        async def receive(self) -> dict[str, Any]:
            await anyio.sleep(0.05)
            return {"type": "http.disconnect"}

    async def ask() -> None:
        threads, answers = CapacityLimiter(1), []

        async def one() -> None:
            answers.append((await worked(cast(Request, Gone()), threads, work)).status_code)

        async with anyio.create_task_group() as group:
            group.start_soon(one)
            await anyio.sleep(0.3)
            assert threads.borrowed_tokens == 1 and not answers
            goes_on.set()
        assert threads.borrowed_tokens == 0 and answers == [499] and seen == [True]

    anyio.run(ask)


def test_a_search_that_waits_for_its_turn_can_be_stopped(forge: Ragforge, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(prose(1))
    forge.add(tmp_path / "a.md", project="p")
    assert forge.search("a word", project="p")
    search, cancel, ended = forge._flows.search, Cancel(), threading.Event()
    places = 0
    while search._room.acquire(blocking=False):
        places += 1

    def wait() -> None:
        with pytest.raises(Cancelled):
            forge.search("another word", project="p", cancel=cancel)
        ended.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert not ended.wait(0.2)
    cancel.set()
    assert ended.wait(2)
    waiting.join()
    for _ in range(places):
        search._room.release()
    assert forge.search("another word", project="p")


# -- descriptors and room


def test_a_form_of_many_files_has_one_of_them_open(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path / "inbox", FileLock)
    inbox.open(set)

    def opened() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    with Form(inbox.receive, "multipart/form-data; boundary=edge") as parts:
        before = opened()
        for number in range(60):
            head = f'--edge\r\nContent-Disposition: form-data; name="file"; filename="{number}.md"\r\n\r\n'
            parts.feed(head.encode() + b"words\r\n")
        assert opened() - before <= 1
        parts.feed(b"--edge--\r\n")
        parts.finish()
        assert [each.name for each in parts.received] == [f"{number}.md" for number in range(60)]
    inbox.close()
    assert [path.name for path in (tmp_path / "inbox").iterdir()] == ["lock"]


def test_a_server_takes_the_descriptors_it_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: given.append(limits))
    for soft, hard in ((1_024, 4_096), (1_024, resource.RLIM_INFINITY), (100_000, 200_000)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, limits=(soft, hard): limits)
        serving_module.take_descriptors()
    assert given == [(4_096, 4_096), (65_536, resource.RLIM_INFINITY)]


def test_uploads_leave_room_on_the_disk(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox_module, "ROOM_BYTES", 10**18)
    answer = client.post(FILES, files={"file": ("a.md", prose(1))})
    assert answer.status_code == 507 and "free some space" in answer.json()["error"]["hint"]
    monkeypatch.undo()
    assert client.post(FILES, files={"file": ("a.md", prose(1))}).status_code == 202


def test_of_an_upload_whose_project_went_nothing_is_left(forge: Ragforge) -> None:
    """It was there when the file began to come."""
    with forge.inbox().receive("a.md") as receiving:
        receiving.write(b"words")
        received = receiving.keep()
    with pytest.raises(NotFound):
        forge.accept_uploads([received], project="gone")
    assert [path.name for path in (forge.workspace / "inbox").iterdir()] == ["lock"]


# -- what is asked


def test_a_request_of_before_of_which_a_file_was_removed(client: httpx.Client, forge: Ragforge) -> None:
    def send() -> list[dict[str, Any]]:
        files = [("file", (name, prose(number))) for number, name in enumerate(("a.md", "b.md"))]
        answer = client.post(FILES, params={"wait": 30}, files=files, headers={"Idempotency-Key": "k"})
        assert answer.status_code == 200, answer.text
        return list(answer.json()["items"])

    first = send()
    assert client.delete(f"{FILES}/a.md").status_code == 200
    again = send()
    assert again[1]["id"] == first[1]["id"] and again[0]["id"] != first[0]["id"]
    assert sorted(each.name for each in forge.documents(project="p")) == ["a.md", "b.md"]


@pytest.mark.parametrize("part", ['{"type": "text", "text": "\\ud800"}', '{"type": "\\ud800", "text": "a"}'])
def test_half_a_character_is_no_text(client: httpx.Client, part: str) -> None:
    body = f'{{"model": "ragforge/p", "messages": [{{"role": "user", "content": [{part}]}}]}}'
    answer = client.post("/v1/chat/completions", content=body, headers={"Content-Type": "application/json"})
    assert 400 <= answer.status_code < 500, answer.text


@pytest.mark.parametrize("on_server", [False, True])
def test_nul_is_found_nowhere(swift_path: Path, postgres: TemporaryPostgres, on_server: bool) -> None:
    database = {"store__database_url": postgres.create()} if on_server else {}
    with open_forge(swift_path / "ws", **database) as forge:
        for look in (
            lambda: forge.project("a\0b"),
            lambda: forge.document("a\0b", project="p"),
            lambda: forge.job("a\0b"),
            lambda: forge.conversation("a\0b", project="p"),
            lambda: forge.turns("a\0b", project="p"),
            lambda: forge.logged("a\0b", project="p"),
            lambda: forge.questions("a\0b", project="p"),
        ):
            with pytest.raises((NotFound, UserError)):
                look()
        assert "\0" not in forge.create_project("new\0one", embedder="hashing").name
        assert "\0" not in forge.rename_project("new-one", "newer\0one").name
        with serving(forge) as url, httpx.Client(base_url=url, timeout=30) as client:
            for path in ("projects/a%00b", "jobs/%00", "projects/p/files/%00", "projects/p/log/%00"):
                assert client.get(f"/v1/{path}").status_code == 404, path
            for where in ("projects/p/log", "projects/p/files", "jobs"):
                assert 400 <= client.get(f"/v1/{where}", params={"after": "\0"}).status_code < 500
            asked = {"question": "a\0b", "filters": {"files": ["\0"], "tags": ["\0"], "agent": "\0"}}
            for what in ("search", "ask", "explain", "prompt"):
                assert client.post(f"/v1/projects/p/{what}", json=asked).status_code < 500, what


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        (f"{FILES}?limt=3", "did you mean limit?"),
        ("/v1/projects?colour=red", "it takes after, limit"),
        ("/v1/projects/p?limit=3", "it takes none"),
    ],
)
def test_a_misspelt_parameter_is_refused(client: httpx.Client, path: str, hint: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.json()["error"]["hint"]) == (422, hint)


def test_only_a_whole_id_removes_a_conversation(client: httpx.Client, forge: Ragforge) -> None:
    talk = forge.begin_conversation("talk", project="p").id
    for name in ("last", talk[:8]):
        answer = client.delete(f"/v1/projects/p/conversations/{name}")
        assert answer.status_code == 422 and talk in answer.json()["error"]["hint"]
    assert client.delete(f"/v1/projects/p/conversations/{talk}").status_code == 204


def test_a_prompt_is_sent_with_the_question_it_was_made_for(client: httpx.Client) -> None:
    told = "# Chairs\n\nA chair may be returned within sixty days.\n"
    assert client.post(FILES, params={"wait": 30}, files={"file": ("a.md", told)}).status_code == 200
    mine = "How long may a chair be returned?"
    prompt = client.post("/v1/projects/p/prompt", json={"question": mine}).json()["token"]
    for question, told in (("Something else?", "made for another question"), (mine, "no model to send the prompt to")):
        answer = client.post("/v1/projects/p/ask", json={"question": question, "prompt": {"token": prompt}})
        assert answer.status_code == 422 and told in answer.text


def test_a_question_is_written_as_in_a_file(client: httpx.Client) -> None:
    assert client.post(FILES, params={"wait": 30}, files={"file": ("a.md", prose(1))}).status_code == 200
    asked = {"name": "set", "questions": [{"question": "How long?", "document": "a.md", "answer": "60 days"}]}
    assert client.post("/v1/projects/p/questions", json=asked).status_code == 200
    (question,) = client.get("/v1/projects/p/questions/set").json()["items"]
    assert question["answers"] == ["60 days"] and list(question["documents"])


def test_what_has_ended_is_not_on_its_way(client: httpx.Client) -> None:
    sent = client.post(FILES, params={"wait": 30}, files={"file": ("a.md", prose(1))}).json()
    assert sent["state"] == "done" and sent["progress"] is None


def test_on_which_machine_a_job_is_done_is_nobodys_business() -> None:
    assert placeless({"owner": "host.example/4711.123/ab12cd34"}) == {"owner": "ab12cd34"}


def test_a_project_that_another_made_meanwhile_is_taken(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with RemoteForge(str(client.base_url)) as remote:
        look, looked = remote.project, []

        def project(slug: str) -> Project:
            looked.append(slug)
            if len(looked) == 1:  # another makes it just now
                raise NotFound("no project")
            return look(slug)

        monkeypatch.setattr(remote, "project", project)
        assert remote._ensured("p") == "p"


@pytest.mark.parametrize(("url", "asked"), [("http://127.0.0.1:8600", False), ("https://docs.example.org", True)])
def test_what_the_environment_says_of_proxies_is_for_what_is_elsewhere(url: str, asked: bool) -> None:
    with RemoteForge(url) as remote:
        assert remote._http.trust_env is asked


# -- what is hidden


def test_a_marked_question_has_no_words_of_what_is_more_confidential(forge: Ragforge, tmp_path: Path) -> None:
    """A follow-up is searched with words of the answer before it, whose document others may not know of."""
    secret, open_file = tmp_path / "plan.md", tmp_path / "garden.md"
    secret.write_text("# The quokka plan\n\nThe quokka plan closes in March.\n")
    open_file.write_text("# Garden\n\nThe garden plan closes in April. Inge leads the garden.\n")
    forge.add([secret, open_file], project="p")
    forge.label(["plan.md"], project="p", confidentiality=Clearance.RESTRICTED)

    def asked_after(first: str, second: str, right: str) -> str:
        talk = forge.begin_conversation("talk", project="p").id
        forge.ask(first, project="p", conversation=talk)
        result = forge.ask(second, project="p", conversation=talk)
        assert result.account.shape.rewritten, "else there is nothing to look at"
        marked = forge.give_feedback(result.account.trace_id, False, expected=[right], project="p")
        assert marked.question is not None
        return marked.question.text

    about_plan = "When does the quokka plan close?", "And who leads it?"
    assert asked_after(*about_plan, "garden.md") == about_plan[1]
    assert "quokka" in asked_after(*about_plan, "plan.md")
    assert "garden" in asked_after("When does the garden plan close?", "And who leads it?", "garden.md")


def test_with_a_key_nobody_removes_what_counts_today(forge: Ragforge) -> None:
    access = forge.access()
    _, secret = access.create("admin", Role.ADMIN)
    principal = access.resolve(secret)
    assert principal.key is not None
    me = forge.acting(principal.scope)
    with pytest.raises(NotAllowed, match="today"):
        me.prune_log(utc_now(), project="p")
    assert me.prune_log(utc_now().replace(hour=0, minute=0, second=0, microsecond=0), project="p") == 0


# -- lists for assistants


def test_files_are_listed_page_by_page(forge: Ragforge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "_MOST_FILES", 2)
    for number in range(5):
        (tmp_path / f"{number}.md").write_text(prose(number))
        forge.add(tmp_path / f"{number}.md", project="p")
    names, after, pages = [], "", 0
    while pages == 0 or after:
        (given,) = tools.list_files(tools.Call(forge), tools.FilesArguments(project="p", after=after))
        page = cast(dict[str, Any], given)
        names += [each["name"] for each in page["files"]]
        after, pages = page["next"] or "", pages + 1
    assert names == [f"{number}.md" for number in range(5)] and pages == 3
