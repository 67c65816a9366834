"""Where things lie on the server is for its owner: whoever calls with a key sees names, and no folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ragforge import Ragforge
from ragforge.domain.access import Clearance, Role
from ragforge.errors import cannot_write
from ragforge.interfaces.http.errors import error_fields
from ragforge.interfaces.records import placeless, without_folders
from tests.forge import open_forge
from tests.served import add_files
from tests.serving import serving

P = "/v1/projects/p"
BEIR = {
    "queries.jsonl": '{"_id": "q1", "text": "Where is the heron?"}\n',
    "corpus.jsonl": '{"_id": "d1", "title": "Heron", "text": "The heron is at the river."}\n',
    "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\n",
}


@pytest.fixture
def forge(swift_path: Path) -> Iterator[Ragforge]:
    with open_forge(swift_path / "workspace") as opened:
        add_files(
            opened, swift_path / "some files", {"a/plan.md": "# One\n\nFirst.\n", "b/plan.md": "# Two\n\nNext.\n"}
        )
        list(opened.syncing(swift_path / "some files", project="p"))
        for name, text in BEIR.items():
            (swift_path / "beir" / name).parent.mkdir(parents=True, exist_ok=True)
            (swift_path / "beir" / name).write_text(text)
        corpus = swift_path / "corpus"
        list(opened.importing_questions(swift_path / "beir", project="p", name="beir", documents=corpus))
        yield opened


def test_O4_whoever_has_a_key_sees_no_folder_of_the_server(forge: Ragforge, swift_path: Path) -> None:
    _, secret = forge.access().create("admin", Role.ADMIN, clearance=Clearance.RESTRICTED)
    file = forge.documents(project="p")[0].id
    jobs = [job.id for job in forge.jobs()]
    places = ["files", f"files/{file}", "questions", "questions/beir", "log", "conversations"]
    question = {"question": "What does plan.md say?"}
    with serving(forge) as url, httpx.Client(base_url=url, headers={"X-API-Key": secret}, timeout=60) as client:
        seen = [client.get(f"{P}/{place}") for place in places]
        seen += [client.get("/v1/jobs"), client.get("/readyz"), *(client.get(f"/v1/jobs/{job}") for job in jobs)]
        seen += [client.get(f"/v1/jobs/{jobs[0]}/events")]
        records = {"Accept": "application/vnd.ragforge.records+json"}
        events = {"Accept": "text/event-stream"}
        for headers in ({}, records, events):
            seen.append(client.post(f"{P}/ask", json=question, headers=headers))
        seen += [client.post(f"{P}/{how}", json=question) for how in ("search", "explain", "prompt")]
    for answer in seen:
        assert answer.status_code == 200, answer.text
        assert str(swift_path) not in answer.text and "some files/" not in answer.text, answer.text
    assert [source["key"] for each in seen[0].json()["items"] for source in each["sources"]][:2] == ["plan.md"] * 2
    assert "may mean plan.md, plan.md" in seen[-4].text, "else nothing was hidden there"
    assert "some files" in seen[6].text, "the last name of a folder stays"


def test_O4_the_owner_sees_all_of_it(forge: Ragforge, swift_path: Path) -> None:
    with serving(forge) as url, httpx.Client(base_url=url, timeout=60) as client:
        assert str(swift_path) in client.get(f"{P}/files").text


def test_O4_an_error_tells_no_folder() -> None:
    problem = cannot_write("/srv/ragforge/inbox/0a1b", PermissionError(13, "Permission denied"))
    told = error_fields("store", problem.message, "look at /srv/my papers/x or GET /v1/projects/p/files", "1")["error"]
    assert told["message"] == "cannot write 0a1b: Permission denied"
    assert "look at x" in told["hint"] and told["hint"].endswith("GET /v1/projects/p/files")


@pytest.mark.parametrize(
    "text",
    [
        "GET /docs lists them",
        "http://127.0.0.1:80/a/b",
        "text/plain and a/b/c",
        "either/or",
        "no file '../../etc/x'",
        "GET /v1/projects/{project}/lessons/patterns",
    ],
)
def test_O4_what_is_no_path_of_the_server_stays(text: str) -> None:
    assert without_folders(text) == text


def test_O4_words_of_documents_and_people_stay() -> None:
    said = {"text": "see /etc/hosts/x", "question": "what is /etc/hosts/x?", "items": [{"key": "upload:a.md"}]}
    assert placeless(said) == said
