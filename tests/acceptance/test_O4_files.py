"""O4: projects, files, texts and jobs over HTTP, as a client meets them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragforge import Ragforge
from ragforge.domain.access import Clearance, Role
from tests.forge import WatchedEmbedder, faults, open_forge, places_of, prose, text_of
from tests.proof import count
from tests.serving import serving


@pytest.fixture
def embedder() -> WatchedEmbedder:
    return WatchedEmbedder()


@pytest.fixture
def forge(swift_path: Path, embedder: WatchedEmbedder) -> Iterator[Ragforge]:
    with open_forge(swift_path / "workspace", embedder, embed__model="hashing") as opened:
        yield opened


@pytest.fixture
def url(forge: Ragforge) -> Iterator[str]:
    with serving(forge) as address:
        yield address


@pytest.fixture
def client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=30) as opened:
        yield opened


FILES = "/v1/projects/p/files"


def sent(client: httpx.Client, name: str, text: str, **headers: str) -> dict[str, Any]:
    """The job of one file, when it has ended."""
    answer = client.post(FILES, files={"file": (name, text)}, params={"wait": 30}, headers=headers)
    assert answer.status_code == 200, answer.text
    job: dict[str, Any] = answer.json()
    assert job["state"] == "done", job
    return job


# -- projects


def test_a_project_is_made_listed_renamed_and_removed(client: httpx.Client, forge: Ragforge) -> None:
    made = client.post("/v1/projects", json={"name": "Garden Chairs", "embedder": "hashing"})
    assert (made.status_code, made.headers["location"]) == (201, "/v1/projects/garden-chairs")
    assert [each["slug"] for each in client.get("/v1/projects").json()["items"]] == ["garden-chairs", "p"]
    first = client.get("/v1/projects", params={"limit": 1}).json()
    rest = client.get("/v1/projects", params={"limit": 1, "after": first["next"]}).json()
    assert [page["items"][0]["slug"] for page in (first, rest)] == ["garden-chairs", "p"] and rest["next"] is None
    renamed = client.patch("/v1/projects/garden-chairs", json={"name": "Tables"}).json()
    assert (renamed["slug"], renamed["id"]) == ("tables", made.json()["id"])
    client.post("/v1/projects/tables/files", files={"file": ("a.md", prose(1))}, params={"wait": 30})
    (proof,) = client.delete("/v1/projects/tables").json()
    assert (proof["name"], proof["remains"]) == ("a.md", [])
    assert client.get("/v1/projects/tables").status_code == 404
    assert faults(forge) == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "p"}, 409),
        ({"name": ""}, 422),
        ({"name": "…"}, 422),
        ({"name": "x", "colour": "red"}, 422),
        ({"name": "x", "embedder": "unheard-of"}, 422),
        ({"name": "x", "strategy": {"name": "none"}}, 422),
        ({"name": "x", "strategy": {"leaf_min": 900}}, 422),
    ],
)
def test_what_is_no_project_is_refused(client: httpx.Client, body: dict[str, Any], status: int) -> None:
    answer = client.post("/v1/projects", json=body)
    code = "conflict" if status == 409 else "invalid"
    assert answer.status_code == status and answer.json()["error"]["code"] == code, answer.text


def test_rules_are_written_in_versions(client: httpx.Client) -> None:
    path = "/v1/projects/p/texts/hard-rules"
    assert client.get(path).json()["version"] == 0
    for text in ("Be kind.", "Be brief."):
        assert client.put(path, json={"text": text}).json()["text"] == text
    assert [each["text"] for each in client.get(f"{path}/versions").json()["items"]] == ["Be brief.", "Be kind."]
    assert client.get("/v1/projects/p/texts/poems").status_code == 422


# -- files


def test_an_upload_is_a_job_at_once_and_a_file_soon_after(client: httpx.Client, forge: Ragforge) -> None:
    answer = client.post(FILES, files={"file": ("a.md", prose(1))}, data={"tags": "x, y", "source_type": "memo"})
    assert answer.status_code == 202
    job = answer.json()
    assert answer.headers["location"] == f"/v1/jobs/{job['id']}" and job["state"] in ("queued", "running", "done")
    deadline = time.monotonic() + 20
    while client.get(f"/v1/jobs/{job['id']}").json()["state"] != "done":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    (result,) = client.get(f"/v1/jobs/{job['id']}").json()["result"]
    document = client.get(f"{FILES}/{result['document']}").json()
    assert (document["name"], document["status"], result["outcome"]) == ("a.md", "ready", "ready")
    assert document["labels"] == {"source_type": "memo", "tags": ["x", "y"], "confidentiality": "internal"}
    found = client.post("/v1/projects/p/search", json={"question": text_of(forge, "a.md")[:60]}).json()["passages"]
    assert found[0]["document"] == "a.md", "it is found as soon as its job is done"


def test_several_files_are_several_jobs_or_none(client: httpx.Client, forge: Ragforge) -> None:
    files = [("file", (f"{number}.md", prose(number))) for number in range(5)]
    answer = client.post(FILES, files=files, params={"wait": 30})
    assert answer.status_code == 200
    assert [job["result"][0]["path"] for job in answer.json()["items"]] == [f"{number}.md" for number in range(5)]
    before = len(forge.jobs())
    refused = client.post(FILES, files=files, data={"confidentiality": "cosmic"})
    assert refused.status_code == 422 and len(forge.jobs()) == before


def test_a_body_can_be_the_file(client: httpx.Client) -> None:
    answer = client.post(FILES, content=prose(1).encode(), params={"name": "raw.md", "wait": 30})
    assert answer.json()["result"][0]["outcome"] == "ready"


def test_64_identical_uploads_at_once_are_one_document(url: str, forge: Ragforge, embedder: WatchedEmbedder) -> None:
    text, answers = prose(5), []

    def send() -> None:
        files = {"file": ("same.md", text)}
        answers.append(httpx.post(f"{url}{FILES}", files=files, params={"wait": 60}, timeout=90))

    threads = [threading.Thread(target=send) for _ in range(count(24, 64))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    outcomes = [answer.json()["result"][0]["outcome"] for answer in answers]
    assert outcomes.count("ready") == 1 and set(outcomes) == {"ready", "unchanged"}
    (document,) = forge.documents(project="p")
    assert len(embedder.texts) == document.chunks
    assert faults(forge) == []


def test_the_same_name_with_other_bytes_replaces(client: httpx.Client, forge: Ragforge) -> None:
    first, second = sent(client, "a.md", prose(1)), sent(client, "a.md", prose(2))
    assert first["result"][0]["document"] == second["result"][0]["document"] and second["result"][0]["replaced"]
    assert "Page 2" in text_of(forge, "a.md")
    assert client.get(f"{FILES}/a.md/content").text == prose(2)


def test_files_are_listed_in_pages_and_by_status(client: httpx.Client) -> None:
    files = [("file", (f"{number}.md", prose(number))) for number in range(7)]
    client.post(FILES, files=[*files, ("file", ("bad.pdf", b"%PDF-1.4 no"))], params={"wait": 30})
    names, after = [], ""
    while after is not None:
        page = client.get(FILES, params={"limit": 3, "after": after}).json()
        names += [each["name"] for each in page["items"]]
        after = page["next"]
    assert sorted(names) == sorted([*(f"{number}.md" for number in range(7)), "bad.pdf"])
    failed = client.get(FILES, params={"status": "failed"}).json()["items"]
    assert [each["name"] for each in failed] == ["bad.pdf"] and failed[0]["problem"]["hint"]
    assert client.get(FILES, params={"limit": 0}).status_code == 422
    assert client.get(FILES, params={"after": "nonsense"}).status_code == 422
    assert client.get(FILES, params={"status": "lost"}).status_code == 422


def test_files_are_switched_labelled_and_removed_with_proof(client: httpx.Client, forge: Ragforge) -> None:
    id = sent(client, "a.md", prose(1))["result"][0]["document"]
    changed = client.patch(
        f"{FILES}/{id}", json={"enabled": False, "tags": ["old"], "confidentiality": "public"}
    ).json()
    assert changed["enabled"] is False
    assert changed["labels"] == {"source_type": "document", "tags": ["old"], "confidentiality": "public"}
    assert client.patch(f"{FILES}/{id}", json={"colour": "red"}).status_code == 422
    proof = client.delete(f"{FILES}/{id}").json()
    assert (proof["document"], proof["remains"], proof["pending"]) == (id, [], [])
    for call in (client.get, client.delete):
        assert call(f"{FILES}/{id}").status_code == 404
    assert faults(forge) == []


def test_of_a_removed_file_not_even_the_name_of_its_upload_is_left(client: httpx.Client, forge: Ragforge) -> None:
    id = sent(client, "Quarterly-Zebra.md", prose(1))["result"][0]["document"]
    sent(client, "other.md", prose(2))
    assert client.delete(f"{FILES}/{id}").json()["remains"] == []
    forge._parts.catalog.flush()
    assert places_of(b"Quarterly-Zebra", forge.workspace) == []
    assert [job.payload["name"] for job in forge.jobs()] == ["other.md"]


def test_a_download_is_the_bytes_and_nothing_that_a_browser_would_run(client: httpx.Client) -> None:
    page = "<html><script>alert(1)</script>words of a page</html>"
    client.post(FILES, files={"file": ('Übersicht "1".html', page)}, params={"wait": 30})
    (document,) = client.get(FILES).json()["items"]
    answer = client.get(f"{FILES}/{document['id']}/content")
    assert answer.text == page
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]
    disposition = answer.headers["content-disposition"]
    assert disposition.startswith("attachment; ") and "filename*=UTF-8''%C3%9Cbersicht" in disposition
    assert "\n" not in disposition and disposition.count('"') == 2


def test_chunks_come_in_pages(client: httpx.Client, forge: Ragforge) -> None:
    sent(client, "a.md", prose(1, 60))
    texts, after = [], ""
    while after is not None:
        page = client.get(f"{FILES}/a.md/chunks", params={"limit": 2, "after": after}).json()
        texts += [each["text"] for each in page["items"]]
        after = page["next"]
    assert texts == [chunk.text for chunk in forge.chunks("a.md", project="p")] and len(texts) > 4


# -- jobs


def test_an_idempotency_key_makes_one_job(client: httpx.Client, forge: Ragforge) -> None:
    first, again = (sent(client, "a.md", prose(1), **{"Idempotency-Key": "k1"}) for _ in range(2))
    assert first == again and len(forge.jobs()) == 1
    for files in ({"file": ("b.md", prose(1))}, {"file": ("a.md", prose(2))}):
        answer = client.post(FILES, files=files, headers={"Idempotency-Key": "k1"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "conflict")
    rebuilt = [client.post("/v1/projects/p/rebuild", headers={"Idempotency-Key": "k2"}).json() for _ in range(2)]
    assert rebuilt[0]["id"] == rebuilt[1]["id"]
    assert client.post(FILES, files={"file": ("a.md", "x")}, headers={"Idempotency-Key": "k" * 300}).status_code == 422


def test_what_is_urgent_is_taken_in_before_what_was_sent_earlier(swift_path: Path, embedder: WatchedEmbedder) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def before() -> None:
        begun.set()
        go_on.wait(20)

    embedder.before = before
    settings = {"embed__model": "hashing", "server__uploads": 1}
    with (
        open_forge(swift_path / "workspace", embedder, **settings) as forge,
        serving(forge) as url,
        httpx.Client(base_url=url, timeout=30) as client,
    ):
        client.post(FILES, files={"file": ("busy.md", prose(0))})
        assert begun.wait(10)
        for number, priority in enumerate(("low", "normal", "high"), 1):
            file = {"file": (f"{priority}.md", prose(number))}
            answer = client.post(FILES, files=file, params={"priority": priority})
            assert (answer.status_code, answer.json()["priority"]) == (202, priority)
        go_on.set()
        client.post(FILES, files={"file": ("last.md", prose(4))}, params={"wait": 30, "priority": "low"})
        names = [document["name"] for document in client.get(FILES).json()["items"]]
        assert client.post("/v1/projects/p/rebuild", params={"priority": "soon"}).status_code == 422
    assert names.index("high.md") < names.index("normal.md") < names.index("low.md")


def test_indexes_are_built_anew_while_somebody_waits_or_not(client: httpx.Client, forge: Ragforge) -> None:
    sent(client, "a.md", prose(1))
    rebuilt = client.post("/v1/projects/p/rebuild", params={"wait": 30})
    assert (rebuilt.status_code, rebuilt.json()["state"]) == (200, "done")
    changed = client.post("/v1/projects/p/reindex", params={"wait": 30}, json={"strategy": {"name": "chars"}})
    assert changed.json()["result"] == {"project": "p", "generation": 2}, changed.text
    assert client.get("/v1/projects/p").json()["strategy"]["name"] == "chars"
    assert client.post("/v1/projects/p/reindex", json={"embedder": "unheard-of"}).status_code == 422
    jobs = client.get("/v1/jobs", params={"project": "p", "limit": 2}).json()
    assert [job["kind"] for job in jobs["items"]] == ["reindex", "rebuild"] and jobs["next"]
    assert client.post("/v1/projects/p/rebuild", params={"wait": 61}).status_code == 422


def test_a_job_can_be_cancelled(client: httpx.Client, embedder: WatchedEmbedder) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def before() -> None:
        begun.set()
        go_on.wait(20)

    embedder.before = before
    client.post(FILES, files={"file": ("a.md", prose(1))})
    assert begun.wait(10)
    second = client.post(FILES, files={"file": ("a.md", prose(2))}).json()
    assert client.delete(f"/v1/jobs/{second['id']}").json()["state"] == "cancelled"
    go_on.set()
    assert client.delete("/v1/jobs/0123456789abcdef").status_code == 404


def test_waiting_holds_no_thread(url: str, client: httpx.Client, embedder: WatchedEmbedder) -> None:
    go_on = threading.Event()

    def before() -> None:
        go_on.wait(30)

    embedder.before = before
    threads = [
        threading.Thread(
            target=lambda n=n: httpx.post(
                f"{url}{FILES}", files={"file": (f"{n}.md", prose(n))}, params={"wait": 30}, timeout=60
            )
        )
        for n in range(20)
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    began = time.monotonic()
    assert client.get(FILES).status_code == 200
    assert time.monotonic() - began < 2, "twenty who wait are more than there are threads"
    go_on.set()
    for thread in threads:
        thread.join()


# -- who may


def test_keys_reach_their_project_and_clearance_only(forge: Ragforge, client: httpx.Client) -> None:
    sent(client, "open.md", prose(1))
    client.post(
        FILES, files={"file": ("secret.md", prose(2))}, data={"confidentiality": "restricted"}, params={"wait": 30}
    )
    secret = forge.document("secret.md", project="p").id
    other = forge.create_project("other", embedder="hashing").id
    keys = forge.access()
    editor = keys.create("e", Role.EDITOR, projects=frozenset({forge.project("p").id}))[1]
    stranger = keys.create("s", Role.EDITOR, projects=frozenset({other}))[1]
    reader = keys.create("r", Role.READER, projects=frozenset({forge.project("p").id}), clearance=Clearance.PUBLIC)[1]
    time.sleep(0.6)  # that there are no keys is believed for half a second

    def call(key: str, method: str, path: str, **how: Any) -> int:
        return client.request(method, path, headers={"Authorization": f"Bearer {key}"}, **how).status_code

    upload = {"files": {"file": ("mine.md", prose(3))}, "params": {"wait": 30}}
    assert call(editor, "POST", FILES, **upload) == 200
    assert call(editor, "POST", FILES, data={"confidentiality": "restricted"}, **upload) == 403
    assert call(reader, "POST", FILES, **upload) == 403
    assert call(stranger, "POST", FILES, **upload) == 404
    for path in (f"{FILES}/{secret}", f"{FILES}/{secret}/content", f"{FILES}/{secret}/chunks"):
        assert call(editor, "GET", path) == 404
    assert call(editor, "DELETE", f"{FILES}/{secret}") == 404
    assert call(reader, "GET", f"{FILES}/open.md") == 404
    assert call(stranger, "GET", FILES) == 404
    assert call(editor, "POST", "/v1/projects", json={"name": "x"}) == 403
    theirs = forge.jobs(limit=1)[0]
    assert theirs.principal.startswith("key:") and call(editor, "GET", f"/v1/jobs/{theirs.id}") == 200
    for key in (stranger, reader):
        assert call(key, "GET", f"/v1/jobs/{theirs.id}") == 404
    blobs = {path.parts[-3] for path in (forge.workspace / "uploads").glob("*/*/*")}
    assert blobs == {"owner", theirs.principal.removeprefix("key:")}
    assert forge.document(secret, project="p").name == "secret.md"
