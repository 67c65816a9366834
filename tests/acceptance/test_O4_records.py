"""Over HTTP: conversations, the log with its costs and marks, evaluations, and documents that are made."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docx
import httpx
import pytest
from pydantic import TypeAdapter

from ragforge import Ragforge
from ragforge.domain.conversation import Conversation, Turn
from ragforge.domain.evaluation import Comparison, Feedback, Run, RunDetails
from ragforge.domain.records import Artifact, LogEntry, Spent
from ragforge.interfaces.http.shapes import page_of, shape
from ragforge.interfaces.records import decode
from tests.forge import open_forge
from tests.served import add_files
from tests.serving import serving

ANIMALS = ("otter", "heron", "badger")
FILES = {f"{name}.md": f"# The {name}\n\nA {name} was seen at the river in spring.\n" for name in ANIMALS}
P = "/v1/projects/p"
AS_A_FILE = {"x-content-type-options": "nosniff", "content-security-policy": "sandbox"}


@pytest.fixture(scope="module")
def forge(memory_folder: Path | None) -> Iterator[Ragforge]:
    with tempfile.TemporaryDirectory(dir=memory_folder) as folder, open_forge(Path(folder, "workspace")) as forge:
        add_files(forge, Path(folder, "docs"), FILES)
        lines = [{"id": name, "question": f"Where was the {name}?", "documents": [name]} for name in ANIMALS]
        questions = Path(folder, "animals.jsonl")
        questions.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        list(forge.importing_questions(questions, project="p"))
        yield forge


@pytest.fixture(scope="module")
def client(forge: Ragforge) -> Iterator[httpx.Client]:
    with serving(forge) as url, httpx.Client(base_url=url, timeout=60) as client:
        yield client


def got(response: httpx.Response, kind: Any, status: int = 200) -> Any:
    """What came back, after it was held against the schema that `/docs` shows, and the record it stands for."""
    assert response.status_code == status, response.text
    TypeAdapter(shape(kind)).validate_python(response.json(), strict=False)
    return decode(kind, response.json())


def paged(client: httpx.Client, path: str, kind: Any, limit: int = 2, **more: Any) -> list[Any]:
    """A whole list, page by page."""
    items, after = [], ""
    while True:
        response = client.get(path, params={"limit": limit, "after": after, **more})
        assert response.status_code == 200, response.text
        TypeAdapter(page_of(kind)).validate_python(response.json(), strict=False)
        page = response.json()
        assert len(page["items"]) <= limit
        items += [decode(kind, item) for item in page["items"]]
        if page["next"] is None:
            return items
        after = page["next"]


def error_of(response: httpx.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    error: dict[str, Any] = response.json()["error"]
    assert error["code"] and error["message"] and error["request_id"] == response.headers["x-request-id"]
    return error


def test_conversations_and_their_turns(forge: Ragforge, client: httpx.Client) -> None:
    begun = [
        got(client.post(f"{P}/conversations", json={"title": title}), Conversation, 201)
        for title in ("one", "two", "three")
    ]
    assert {each.title for each in paged(client, f"{P}/conversations", Conversation)} == {"one", "two", "three"}
    thread = begun[0].id
    for name in ANIMALS:
        forge.ask(f"Where was the {name}?", project="p", conversation=thread)
    assert got(client.get(f"{P}/conversations/{thread}"), Conversation).turns == 3
    assert got(client.get(f"{P}/conversations/last"), Conversation).id == thread
    turns = paged(client, f"{P}/turns", Turn, conversation=thread)
    assert turns == forge.turns(thread, project="p") and [each.number for each in turns] == [1, 2, 3]
    assert client.patch(f"{P}/turns/{turns[1].id}", json={"importance": 0.5}).status_code == 204
    assert client.delete(f"{P}/turns/{turns[0].id}").status_code == 204
    left = forge.turns(thread, project="p")
    assert [each.question for each in left] == [each.question for each in turns[1:]] and left[0].importance == 0.5
    assert [each.document for each in left[0].citations] == [forge.document("heron.md", project="p").id]
    renamed = got(client.patch(f"{P}/conversations/{thread}", json={"title": "Animals"}), Conversation)
    assert renamed == forge.conversation(thread, project="p") and renamed.title == "Animals"
    for title in ("", " ", "x" * 1_001, None):
        error_of(client.patch(f"{P}/conversations/{thread}", json={"title": title}), 422)
    written = client.get(f"{P}/conversations/{thread}/markdown")
    assert written.text == forge.conversation_markdown(thread, project="p") and '"A heron was seen' in written.text
    assert written.text == client.get(f"{P}/conversations/last/markdown").text
    assert {name: written.headers[name] for name in AS_A_FILE} == AS_A_FILE
    assert written.headers["content-type"] == "text/markdown; charset=utf-8"
    assert written.headers["content-disposition"] == f'attachment; filename="conversation-{thread[:8]}.md"'
    assert client.delete(f"{P}/conversations/{thread}").status_code == 204
    for missing in (
        client.get(f"{P}/conversations/{thread}"),
        client.delete(f"{P}/conversations/{thread}"),
        client.get(f"{P}/conversations/{thread}/markdown"),
        client.patch(f"{P}/conversations/{thread}", json={"title": "new"}),
        client.patch(f"{P}/conversations/{begun[1].id[:6]}", json={"title": "new"}),
        client.get(f"{P}/turns", params={"conversation": thread}),
        client.delete(f"{P}/turns/{turns[0].id}"),
        client.patch(f"{P}/turns/{turns[0].id}", json={"importance": 1}),
        client.get("/v1/projects/nowhere/conversations"),
    ):
        error_of(missing, 404)
    error_of(client.patch(f"{P}/turns/{left[0].id}", json={"importance": 2}), 422)
    error_of(client.post(f"{P}/conversations", json={"titel": "x"}), 422)
    error_of(client.get(f"{P}/turns"), 422)


def test_the_log_its_marks_and_what_was_spent(forge: Ragforge, client: httpx.Client) -> None:
    answers = [forge.ask(f"Where was the {name}?", project="p") for name in ANIMALS]
    log = paged(client, f"{P}/log", LogEntry)
    assert log == forge.query_log(project="p", limit=1_000) and len(log) >= 3
    last = answers[-1].account.trace_id
    assert got(client.get(f"{P}/log/{last}"), LogEntry) == got(client.get(f"{P}/log/last"), LogEntry) == log[0]
    marked = got(client.post(f"{P}/log/{last}/feedback", json={"good": True, "note": "yes"}), Feedback)
    assert (marked.entry.feedback, marked.entry.note) == ("good", "yes") and marked.question is not None
    wrong = client.post(f"{P}/log/{last}/feedback", json={"good": False, "expected": ["nothing.md"]})
    assert "nothing.md" in error_of(wrong, 404)["message"]
    for by in ("model", "day", "agent", "profile"):
        assert paged(client, f"{P}/spent", Spent, by=by) == forge.spent(by=by, project="p")
    future = client.get(f"{P}/log", params={"since": "2199-01-01T00:00:00Z"})
    assert future.json() == {"items": [], "next": None}
    error_of(client.get(f"{P}/log", params={"since": "2199-01-01"}), 422)
    error_of(client.get(f"{P}/spent", params={"by": "weather"}), 422)
    error_of(client.get(f"{P}/log/nothing"), 404)
    for bad in ({"limit": 0}, {"limit": 1001}, {"after": "%%%"}, {"after": "AAAA"}, {"after": "é"}):
        error_of(client.get(f"{P}/log", params=bad), 422)


def test_evaluations_run_as_jobs_and_are_compared(forge: Ragforge, client: httpx.Client) -> None:
    (name,) = [each["name"] for each in client.get(f"{P}/questions").json()["items"] if each["name"] != "feedback"]
    assert [each["id"] for each in client.get(f"{P}/questions/{name}").json()["items"]] == list(ANIMALS)
    for k in (1, 2):
        asked = {"questions": name, "label": f"k{k}", "k": k}
        job = client.post(f"{P}/evaluations", json=asked, params={"wait": 30}, headers={"Idempotency-Key": f"run-{k}"})
        assert job.status_code == 200 and job.json()["state"] == "done", job.text
        again = client.post(f"{P}/evaluations", json=asked, headers={"Idempotency-Key": f"run-{k}"})
        assert again.json()["id"] == job.json()["id"] and again.headers["location"] == f"/v1/jobs/{job.json()['id']}"
    other = client.post(f"{P}/evaluations", json={"questions": name, "k": 3}, headers={"Idempotency-Key": "run-1"})
    error_of(other, 409)
    runs = paged(client, f"{P}/evaluations", Run, limit=1)
    assert [run.label for run in runs] == ["k2", "k1"] and runs == forge.evaluations(project="p")
    details = got(client.get(f"{P}/evaluations/k1"), RunDetails)
    assert details.run == runs[1] and len(details.results) == len(ANIMALS) and details.run.settings["k"] == 1
    compared = got(client.get(f"{P}/evaluations/k1/compare/k2"), Comparison)
    assert (compared.before, compared.after) == (runs[1], runs[0]) and compared.metrics
    error_of(client.get(f"{P}/evaluations/none"), 404)
    error_of(client.get(f"{P}/questions/none"), 404)
    error_of(client.post(f"{P}/evaluations", json={"questions": "none"}), 404)
    error_of(client.post(f"{P}/evaluations", json={"questions": name, "k": 0}), 422)


def test_documents_are_made_read_and_removed(forge: Ragforge, client: httpx.Client) -> None:
    asked = {"kind": "blueprint", "title": "Animals at the river", "brief": "Animals that were seen."}
    queued = client.post(f"{P}/artifacts", json=asked)
    assert queued.status_code == 202 and queued.headers["location"] == f"/v1/jobs/{queued.json()['id']}"
    job = client.post(f"{P}/artifacts", json=asked, params={"wait": 60}).json()
    assert job["state"] == "done", job
    assert len(paged(client, f"{P}/artifacts", Artifact, limit=1)) >= 1
    made = got(client.get(f"{P}/artifacts/{job['result']['artifact']}"), Artifact)
    assert made.title == "Animals at the river" and made == forge.artifact(made.id, project="p")
    text = client.get(f"{P}/artifacts/{made.id}", params={"format": "md"})
    assert text.headers["content-type"].startswith("text/markdown") and "Animals at the river" in text.text
    word = client.get(f"{P}/artifacts/{made.id}", params={"format": "docx"})
    assert any("Animals at the river" in each.text for each in docx.Document(io.BytesIO(word.content)).paragraphs)
    for download in (text, word):
        assert download.headers["content-disposition"].startswith('attachment; filename="blueprint-')
        assert download.headers["x-content-type-options"] == "nosniff"
    assert got(client.delete(f"{P}/artifacts/{made.id}"), Artifact) == made
    error_of(client.get(f"{P}/artifacts/{made.id}"), 404)
    error_of(client.delete(f"{P}/artifacts/{made.id}"), 404)
    error_of(client.post(f"{P}/artifacts", json={"kind": "poem"}), 404)
    error_of(client.post(f"{P}/artifacts", json={"kind": "blueprint", "agent": "nobody"}), 404)
    error_of(client.get(f"{P}/artifacts/last", params={"format": "pdf"}), 422)
