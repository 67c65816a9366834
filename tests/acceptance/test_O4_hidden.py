"""What is above a key's clearance, or in a project it does not reach, shows nowhere: not in a key, a count or a set."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragforge import Ragforge
from ragforge.domain.access import Clearance, Role
from ragforge.interfaces.http.caller import RECORDS
from tests.forge import SMALL, open_forge
from tests.serving import serving

PLAN = b"# Falcon\n\nFalcon closes in March. The quokka is told in April.\n"
OPEN = b"# Garden\n\nThe heron stands in the garden pond until Monday.\n"
QUESTION = "When does Falcon close?"


@dataclass
class Place:
    """A server; in its project `p` one file is above most keys, in `q` everything is open."""

    forge: Ragforge
    url: str

    def client(
        self, role: Role, clearance: Clearance = Clearance.INTERNAL, projects: tuple[str, ...] | None = ("p", "q")
    ) -> httpx.Client:
        ids = None if projects is None else frozenset(self.forge.project(each).id for each in projects)
        _, key = self.forge.access().create("somebody", role, projects=ids, clearance=clearance)
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {key}"}, timeout=30)


def send(client: httpx.Client, name: str, content: bytes, project: str = "p", **said: str) -> dict[str, Any]:
    """The job by which a file was taken in."""
    answer = client.post(
        f"/v1/projects/{project}/files", params={"wait": 30}, files={"file": (name, content)}, data=said
    )
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@pytest.fixture(scope="module")
def place(memory_folder: Path | None) -> Iterator[Place]:
    with (
        tempfile.TemporaryDirectory(dir=memory_folder) as folder,
        open_forge(Path(folder, "workspace")) as forge,
        serving(forge) as url,
    ):
        forge.create_project("q", strategy=SMALL, embedder="hashing")
        here = Place(forge, url)
        with here.client(Role.EDITOR, Clearance.RESTRICTED) as high:
            for project in ("p", "q"):
                assert send(high, "garden.md", OPEN, project, confidentiality="public")["state"] == "done"
            assert send(high, "plan.md", PLAN, confidentiality="restricted")["state"] == "done"
        yield here


def test_a_marked_question_is_shown_to_those_who_see_its_documents(place: Place) -> None:
    with place.client(Role.EDITOR, Clearance.RESTRICTED) as high, place.client(Role.READER) as low:
        plan, garden = (high.get(f"/v1/projects/p/files/{name}.md").json()["id"] for name in ("plan", "garden"))
        asked = {QUESTION: plan, "Until when does the heron stand there?": garden}
        for question, document in asked.items():
            trace = high.post("/v1/projects/p/ask", json={"question": question}).json()["trace_id"]
            marked = high.post(f"/v1/projects/p/log/{trace}/feedback", json={"good": False, "expected": [document]})
            assert marked.status_code == 200
        trace = high.post("/v1/projects/p/ask", json={"question": "Who feeds the zeppelin?"}).json()
        assert trace["kind"] == "abstention"
        high.post(f"/v1/projects/p/log/{trace['trace_id']}/feedback", json={"good": True})
        run = high.post("/v1/projects/p/evaluations", params={"wait": 30}, json={"questions": "feedback"})
        assert run.json()["state"] == "done", run.text
        for path in ("questions/feedback", "evaluations/last", "evaluations/last/compare/last"):
            seen, hidden = (each.get(f"/v1/projects/p/{path}") for each in (high, low))
            assert seen.status_code == hidden.status_code == 200
            assert "Falcon" not in hidden.text and "zeppelin" not in hidden.text, path
            if "compare" not in path:
                assert "Falcon" in seen.text and "zeppelin" in seen.text and "heron" in hidden.text, path


def test_a_name_that_is_taken_above_is_free(place: Place) -> None:
    with place.client(Role.EDITOR) as low, place.client(Role.EDITOR, Clearance.RESTRICTED) as high:
        for text in (b"Just a plan for lunch: soup.", b"Just a plan for lunch: bread."):
            job = send(low, "plan.md", text)
            assert job["state"] == "done"
        (mine,) = [each for each in low.get("/v1/projects/p/files").json()["items"] if each["name"] == "plan.md"]
        assert [source["key"] for source in mine["sources"]] == ["upload:plan.md"]
        for name in ("plan.md", "upload:plan.md"):
            assert low.get(f"/v1/projects/p/files/{name}").json()["id"] == mine["id"]
        found = low.post("/v1/projects/p/search", json={"question": "lunch"}, headers={"Accept": RECORDS}).json()
        assert found["passages"][0]["source"] == "upload:plan.md"
        assert len({each["id"] for each in high.get("/v1/projects/p/files").json()["items"]}) == 3
        assert low.delete(f"/v1/projects/p/files/{mine['id']}").status_code == 200
        assert low.get("/v1/jobs").json()["items"] == [], "the jobs by which it came go with it"
        assert PLAN.decode().split()[1] in high.get("/v1/projects/p/files/plan.md/content").text


def test_bytes_that_are_there_above_are_refused_without_a_reason(place: Place) -> None:
    with place.client(Role.EDITOR) as low:
        job = send(low, "guess.md", PLAN)
        assert job["state"] == "failed"
        assert not any(word in f"{job['error']} {job['hint']}" for word in ("same", "bytes", "see", "exist", "another"))


def test_explain_counts_nothing_that_is_hidden(place: Place) -> None:
    """The indexes hold all documents: their figures would tell which words a hidden one holds."""
    with place.client(Role.READER) as low, place.client(Role.READER, Clearance.RESTRICTED) as high:
        for headers in ({}, {"Accept": RECORDS}):
            there, elsewhere, seen = (
                client.post(f"/v1/projects/{project}/explain", json={"question": "quokka heron"}, headers=headers)
                for client, project in ((low, "p"), (low, "q"), (high, "p"))
            )
            traces = [answer.json().get("trace", answer.json()) for answer in (there, elsewhere, seen)]
            counts = [
                {name: trace.get(name) for name in ("watermark", "behind", "holding", "rows")} for trace in traces
            ]
            assert counts[0] == counts[1]
            assert counts[2]["watermark"] > 0


def test_how_the_server_does_is_for_those_who_reach_all_of_it(place: Place) -> None:
    with place.client(Role.ADMIN) as some, place.client(Role.ADMIN, projects=None) as all_of_it:
        refused, shown = some.get("/metrics"), all_of_it.get("/metrics")
        assert (refused.status_code, shown.status_code) == (403, 200)
        assert "all projects" in refused.json()["error"]["hint"]
        assert some.get("/v1/projects/p").status_code == 200


def test_only_a_whole_id_or_a_name_changes_a_file(place: Place) -> None:
    with place.client(Role.EDITOR) as editor:
        send(editor, "note.md", b"A note of the day.", "q")
        known = editor.get("/v1/projects/q/files/note.md").json()
        begins = f"/v1/projects/q/files/{known['id'][:6]}"
        assert editor.get(begins).json() == known
        for answer in (editor.patch(begins, json={"enabled": False}), editor.delete(begins)):
            assert answer.status_code == 404 and "whole id" in answer.json()["error"]["hint"]
        assert editor.get(begins).json() == known
        assert editor.patch("/v1/projects/q/files/note.md", json={"enabled": False}).json()["enabled"] is False
        assert editor.delete(f"/v1/projects/q/files/{known['id']}").status_code == 200


def test_pages_go_on_whatever_comes_and_goes(place: Place) -> None:
    """More new jobs and questions than a page holds; and files that are removed page by page."""
    with place.client(Role.ADMIN, projects=("q",)) as me:
        for number in range(5):
            send(me, f"{number}.md", f"Number {number} of five.".encode(), "q")
            assert me.post("/v1/projects/q/ask", json={"question": f"Number {number}?"}).status_code == 200
        lists = {"/v1/jobs": {"project": "q"}, "/v1/projects/q/log": {}}
        before = {path: me.get(path, params=asked).json()["items"] for path, asked in lists.items()}
        first = {path: me.get(path, params={**asked, "limit": 2}).json() for path, asked in lists.items()}
        for number in range(5, 8):
            send(me, f"{number}.md", f"Number {number} of five.".encode(), "q")
            me.post("/v1/projects/q/ask", json={"question": f"Number {number}?"})
        for path, asked in lists.items():
            page, found = first[path], first[path]["items"]
            while page["next"]:
                page = me.get(path, params={**asked, "limit": 2, "after": page["next"]}).json()
                found += page["items"]
            assert [each["id"] for each in found] == [each["id"] for each in before[path]], path
        files = "/v1/projects/q/files"
        page = me.get(files, params={"limit": 3}).json()
        while True:
            for each in page["items"]:
                assert me.delete(f"{files}/{each['id']}").status_code == 200
            if not page["next"]:
                break
            page = me.get(files, params={"limit": 3, "after": page["next"]}).json()
        assert me.get(files).json()["items"] == []
