"""G1-G7 over HTTP: interviews by keys, step by step or whole, corrected, written up; each is its caller's own."""

from __future__ import annotations

import json
import re
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import TypeAdapter

from ragforge import Ragforge
from ragforge.client import RemoteForge
from ragforge.domain.access import Clearance, KeyLimits, Role
from ragforge.domain.discovery import InterviewTurn, TurnDone
from ragforge.domain.library import Labels
from ragforge.domain.records import Artifact
from ragforge.errors import Conflict, NotAllowed, NotFound
from ragforge.interfaces.fields.discovery import InterviewTurnFields, ModeFields, StateFields, TalkFields
from ragforge.interfaces.http import streams as streams_module
from ragforge.interfaces.http.caller import RECORDS
from ragforge.interfaces.http.routes.discovery import InterviewDetails
from ragforge.interfaces.http.shapes import page_of, shape
from ragforge.interfaces.records import decode
from ragforge.testing.model_server import STALL, ModelServer
from tests.events import Sent, sent_events
from tests.forge import SMALL
from tests.served import add_files, open_served
from tests.serving import serving

FILES = {
    "returns.md": "# Returns\n\nA chair can be returned within sixty days. Returns cost 900 euros a week.\n",
    "memo.md": "# Memo of 2023\n\nThe showrooms tell customers that a chair can be returned within thirty days.\n",
}
SAYINGS = (
    "We make furniture in Hamburg, and I lead customer service. Customers are told the wrong rule about returns.",
    "About 40 tickets a week are about returns. I think most of them come from the old memo.",
    "yes",
    "Within how many days can a chair be returned?",
    "A1 is wrong: we checked, only 5 of 40 tickets mention the memo.",
)
EVENTS = {"Accept": "text/event-stream"}
ASKED = {"reply": "Forty tickets a week.", "questions": [{"text": "Who reads the memo?"}, {"text": "Who wrote it?"}]}
ORG = "A furniture maker with three showrooms."


@dataclass
class House:
    """A project on a server, with a model that is asked only where a test says so."""

    forge: Ragforge
    url: str
    model: ModelServer
    slug: str
    clients: list[httpx.Client] = field(default_factory=list)

    @property
    def at(self) -> str:
        return f"/v1/projects/{self.slug}/discovery"

    @property
    def org(self) -> str:
        return f"/v1/projects/{self.slug}/org-context"

    def key(self, role: Role = Role.EDITOR, clearance: Clearance = Clearance.INTERNAL, **limits: Any) -> str:
        reach = frozenset({self.forge.project(self.slug).id})
        how: Any = {"projects": reach, "clearance": clearance, "limits": KeyLimits(**limits)}
        return self.forge.access().create(f"a {role}", role, **how)[1]

    def client(
        self, role: Role = Role.EDITOR, clearance: Clearance = Clearance.INTERNAL, **limits: Any
    ) -> httpx.Client:
        """Somebody with a key of their own."""
        headers = {"Authorization": f"Bearer {self.key(role, clearance, **limits)}"}
        self.clients.append(httpx.Client(base_url=self.url, headers=headers, timeout=60))
        return self.clients[-1]

    def begun(self, client: httpx.Client, **asked: Any) -> str:
        """The address of a new interview."""
        return f"{self.at}/{got(client.post(self.at, json=asked), InterviewDetails, 201)['id']}"

    def asks_by_tools(self, *before: tuple[str, str]) -> None:
        """What the model does next: these calls, and it ends the turn."""
        self.model.acts.append([*before, ("ask_questions", json.dumps(ASKED))])


@pytest.fixture(scope="module")
def served(memory_folder: Path | None) -> Iterator[tuple[Ragforge, str, ModelServer]]:
    with (
        tempfile.TemporaryDirectory(dir=memory_folder) as folder,
        ModelServer() as model,
        open_served(Path(folder, "workspace"), model) as forge,
        serving(forge) as url,
    ):
        yield forge, url, model


_NUMBERS = count()


@pytest.fixture
def house(served: tuple[Ragforge, str, ModelServer], swift_path: Path) -> Iterator[House]:
    forge, url, model = served
    made = House(forge, url, model, f"house-{next(_NUMBERS)}")
    forge.create_project(made.slug, strategy=SMALL, embedder="hashing")
    add_files(forge, swift_path / "files", FILES, made.slug)
    model.calls.clear()
    model.acts.clear()
    yield made
    for each in made.clients:
        each.close()
    model.rest()


def got(response: httpx.Response, kind: Any, status: int = 200) -> Any:
    """What came back, after it was held against the schema that `/docs` shows."""
    assert response.status_code == status, response.text
    TypeAdapter(kind).validate_python(response.json(), strict=False)
    assert response.json().keys() == TypeAdapter(kind).json_schema()["properties"].keys()
    return response.json()


def error_of(response: httpx.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    error: dict[str, Any] = response.json()["error"]
    assert error["code"] and error["message"] and error["hint"]
    assert error["request_id"] == response.headers["x-request-id"]
    assert "ragforge discover" not in error["hint"], "whoever calls has no command line"
    return error


def said(client: httpx.Client, at: str, message: str, **more: Any) -> Any:
    body = {"message": message, "model": "offline", **more}
    return got(client.post(f"{at}/turns", json=body), InterviewTurnFields)


def streamed(client: httpx.Client, at: str, message: str, **more: Any) -> list[Sent]:
    body = {"message": message, "model": "offline", **more}
    with client.stream("POST", f"{at}/turns", json=body, headers=EVENTS) as response:
        assert response.status_code == 200 and response.headers["content-type"].startswith("text/event-stream")
        return list(sent_events(response))


def until(is_so: Callable[[], object], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# -- an interview


def test_G_an_interview_by_two_keys(house: House) -> None:
    editor, reader = house.client(), house.client(Role.READER)
    begun = got(editor.post(house.at, json={"title": "Returns"}), InterviewDetails, 201)
    assert (begun["title"], begun["mode"], begun["turn"], begun["probe"]) == ("Returns", "problem", 0, None)
    assert begun["opening"] and len(begun["progress"]) == 7 and begun["open_questions"]
    at = f"{house.at}/{begun['id']}"
    turns = [said(editor, at, each, turn=number) for number, each in enumerate(SAYINGS, 1)]
    assert [each["turn"]["number"] for each in turns] == [1, 2, 3, 4, 5]
    assert {each["interview"] for each in turns} == {begun["id"]}
    assert turns[2]["account"]["decision"]["filler"] and turns[2]["account"]["searches"] == 0
    assert "y days" in turns[3]["turn"]["reply"] and turns[3]["turn"]["citations"]
    assert turns[4]["state"]["assumptions"][0]["status"] == "refuted"
    now = got(editor.get(at), InterviewDetails)
    assert now["state"] == turns[4]["state"] and now["turns"] == 5 and now["assumptions"]["refuted"] == 1
    transcript = got(editor.get(f"{at}/turns", params={"limit": 2}), page_of(dict))
    assert [each["message"] for each in transcript["items"]] == list(SAYINGS[:2]) and transcript["next"]
    rest = editor.get(f"{at}/turns", params={"after": transcript["next"]}).json()
    assert [each["reply"] for each in rest["items"]] == [each["turn"]["reply"] for each in turns[2:]]
    # the other has none of it, and cannot tell it from what is not there
    assert got(reader.get(house.at), page_of(TalkFields)) == {"items": [], "next": None}
    own = house.begun(reader, title="Mine")
    assert [each["title"] for each in reader.get(house.at).json()["items"]] == ["Mine"]
    assert [each["title"] for each in editor.get(house.at).json()["items"]] == ["Returns"]
    missing, same = f"{house.at}/{'0' * 16}", {"X-Request-ID": "the-same-request"}
    for method, tail, body in (
        ("GET", "", None), ("PATCH", "", {"title": "x"}), ("DELETE", "", None), ("GET", "/turns", None),
        ("POST", "/turns", {"message": "Hello there."}), ("POST", "/undo", None), ("GET", "/versions", None),
        ("POST", "/assumptions", {"statement": "x"}), ("PATCH", "/assumptions/A1", {}),
        ("DELETE", "/assumptions/A1", None), ("POST", "/points", {"section": "impact", "text": "x"}),
        ("PATCH", "/points/P1", {}), ("DELETE", "/points/P1", None), ("PUT", "/mode", {"mode": "solution"}),
        ("GET", "/document", None),
    ):  # fmt: skip
        told = set()
        for where in (at, missing):
            for headers in (same, same | EVENTS):
                refused = reader.request(method, where + tail, headers=headers, json=body)
                error_of(refused, 404)
                told.add(refused.text.replace(where.rpartition("/")[2], ""))
        assert len(told) == 1, told
    assert got(editor.get(at), InterviewDetails) == now
    # nor does it show among what is asked there
    assert editor.get(f"/v1/projects/{house.slug}/conversations").json()["items"] == []
    assert said(reader, own, SAYINGS[1])["turn"]["number"] == 1
    assert editor.patch(at, json={"title": "Chairs"}).json()["title"] == "Chairs"
    begins = error_of(editor.delete(at[:-4]), 422)
    assert at.rpartition("/")[2] in begins["hint"]
    assert got(editor.delete(at), TalkFields)["turns"] == 5
    for gone in (editor.get(at), editor.post(f"{at}/turns", json={"message": "Hello there."}), editor.delete(at)):
        assert error_of(gone, 404)["hint"] == "POST /v1/projects/{project}/discovery begins one"


def test_G_who_may_not_write_changes_nothing_of_the_organisation(house: House) -> None:
    reader, editor, other = house.client(Role.READER), house.client(), house.client()
    at = house.begun(reader)
    turn = said(reader, at, SAYINGS[0])
    assert turn["state"]["points"] and "update_org_context" not in {each["tool"] for each in turn["account"]["changes"]}
    house.asks_by_tools(("update_org_context", json.dumps({"text": "Customers are told the wrong rule."})))
    by_model = said(reader, at, SAYINGS[1], model="", describe=True)
    refused = [each for each in by_model["account"]["changes"] if each["tool"] == "update_org_context"]
    assert refused and all(each["refused"] for each in refused)
    assert reader.get(house.org).json() == {"text": ""}
    error_of(reader.put(house.org, json={"text": ORG}), 403)
    error_of(reader.post(f"{at}/document", json={}), 403)
    # who may is asked whether they want to, and may say it by hand
    said(other, house.begun(other), SAYINGS[0], describe=False)
    assert editor.get(house.org).json() == {"text": ""}
    said(editor, house.begun(editor), SAYINGS[0])
    assert reader.get(house.org).json()["text"].startswith("We make furniture in Hamburg")
    assert editor.put(house.org, json={"text": f" {ORG}\n"}).json() == {"text": ORG} == reader.get(house.org).json()
    assert "6,000" in error_of(editor.put(house.org, json={"text": "x" * 6_001}), 422)["hint"]
    assert ORG in reader.get(house.begun(reader)).json()["opening"]


def test_G_a_context_file_of_the_owner_is_not_read_for_a_reader(house: House) -> None:
    folder = house.forge.settings.workspace / "projects" / house.slug
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "context.md").write_text(ORG)
    reader, editor = house.client(Role.READER), house.client()
    house.begun(reader)
    assert reader.get(house.org).json() == {"text": ""}
    house.begun(editor)
    assert reader.get(house.org).json() == {"text": ORG}


def test_G1_what_the_interviewer_knows_is_told(house: House) -> None:
    found = got(house.client(Role.READER).get("/v1/discovery/modes"), page_of(ModeFields))
    assert [each["name"] for each in found["items"]] == ["problem", "solution"]
    for mode in found["items"]:
        assert (len(mode["probes"]), len(mode["patterns"])) == (7, 8) and mode["document"] and mode["sections"]
        sections = {each["key"] for each in mode["sections"]}
        assert all(one["section"] in sections for probe in mode["probes"] for one in probe["criteria"])


# -- a turn


def test_G_the_steps_of_a_turn_come_in_their_order(house: House) -> None:
    client = house.client()
    at = house.begun(client)
    for number, message in enumerate(SAYINGS, 1):
        events = streamed(client, at, message, turn=number)
        names = [each.name for each in events]
        changes = [each.data for each in events if each.name == "changed"]
        assert names == ["decided", "gathered", *["changed"] * len(changes), "done"]
        done = events[-1].data
        for each in events:
            each.data.pop("event")
        TypeAdapter(InterviewTurnFields).validate_python(done, strict=False)
        assert events[0].data == done["account"]["decision"] and changes == done["account"]["changes"]
        assert done["turn"]["number"] == number
        assert re.fullmatch(r"[\w.-]+-1", events[0].id)
    assert [each["reply"] for each in client.get(f"{at}/turns").json()["items"]][-1] == done["turn"]["reply"]
    with client.stream(
        "POST", f"{at}/turns", json={"message": "yes"}, headers={"Accept": f"text/event-stream, {RECORDS}"}
    ) as response:
        where = response.headers["content-location"]
        records = list(sent_events(response))
    assert decode(TurnDone, records[-1].data["record"]).done.turn.number == 6
    with client.stream("GET", where, params={"after": "1"}) as response:
        assert [each.id for each in sent_events(response)] == [each.id for each in records[1:]]
    assert client.get(where, params={"after": str(len(records))}).status_code == 204


def test_G_whole_and_in_steps_it_is_the_same(house: House) -> None:
    client = house.client()
    whole, steps = (house.begun(client, title="Returns") for _ in range(2))
    client.put(house.org, json={"text": ORG})  # else the first of them tells it
    for message in SAYINGS:
        first, second = said(client, whole, message), streamed(client, steps, message)[-1].data
        assert first["turn"]["reply"] == second["turn"]["reply"]
        assert first["state"] == second["state"]
        assert first["account"]["decision"] == second["account"]["decision"]
    records = client.post(f"{whole}/turns", json={"message": "yes", "model": "offline"}, headers={"Accept": RECORDS})
    assert decode(InterviewTurn, records.json()).turn.number == 6


def test_G_a_wrong_number_is_a_conflict_so_that_the_same_said_twice_counts_once(house: House) -> None:
    client = house.client()
    at = house.begun(client)
    said(client, at, SAYINGS[0], turn=1)
    for wrong in (1, 3):
        for headers in ({}, EVENTS):
            body = {"message": SAYINGS[0], "model": "offline", "turn": wrong}
            refused = error_of(client.post(f"{at}/turns", json=body, headers=headers), 409)
            assert refused["code"] == "conflict" and "turn 1" in refused["message"]
    assert client.get(at).json()["turns"] == 1
    with ThreadPoolExecutor(6) as threads:
        body = {"message": SAYINGS[1], "model": "offline", "turn": 2}
        answers = list(threads.map(lambda _: client.post(f"{at}/turns", json=body).status_code, range(6)))
    assert sorted(answers) == [200, *[409] * 5]
    assert [each["number"] for each in client.get(f"{at}/turns").json()["items"]] == [1, 2]


def test_G_what_cannot_be_said_is_told_with_the_next_step(house: House) -> None:
    client = house.client()
    at = house.begun(client)
    for headers in ({}, EVENTS):
        long = error_of(client.post(f"{at}/turns", json={"message": "word " * 20_001}, headers=headers), 413)
        assert long["code"] == "too_large" and "POST /v1/projects/{project}/files" in long["hint"]
        error_of(client.post(f"{at}/turns", json={"message": "x" * 1_000_001}, headers=headers), 422)
        for body in (
            {"message": " \n"}, {"message": ""}, {}, {"message": "Hello.", "turn": -1}, {"message": "Hello.", "k": 3},
        ):  # fmt: skip
            error_of(client.post(f"{at}/turns", json=body, headers=headers), 422)
        named = {"message": "Hello there.", "model": "openai-compatible:dear"}
        error_of(client.post(f"{at}/turns", json=named, headers=headers), 403)
    for more, known in (({"probe": "lunch"}, "stakeholders"), ({"mode": "lunch"}, "solution")):
        body = {"message": "Let us go on with the next one.", "model": "offline", **more}
        assert known in error_of(client.post(f"{at}/turns", json=body), 422)["hint"]
        (last,) = [each for each in streamed(client, at, **body) if each.name not in ("decided", "gathered")]
        assert last.name == "error" and last.data["error"]["code"] == "invalid" and known in last.data["error"]["hint"]
    assert client.get(at).json()["turns"] == 0
    error_of(client.post(house.at, json={"mode": "lunch"}), 422)
    error_of(client.post(house.at, json={"title": "x" * 1_001}), 422)
    for path in (house.at, f"{at}/document", f"/v1/projects/{house.slug}/org-context"):
        error_of(client.get(path, params={"nonsense": 1}), 422)


def test_G_a_chosen_probe_and_mode_are_asked_next(house: House) -> None:
    client = house.client()
    at = house.begun(client)
    turn = said(client, at, "Let us speak about the people.", probe="stakeholders")
    assert turn["account"]["decision"]["probe"] == "stakeholders" == turn["state"]["probe"]
    turned = got(client.put(f"{at}/mode", json={"mode": "solution"}), StateFields)
    assert (turned["mode"], turned["probe"]) == ("solution", None)
    assert said(client, at, "Back to where we were.", mode="problem")["state"]["mode"] == "problem"
    assert "problem, solution" in error_of(client.put(f"{at}/mode", json={"mode": "lunch"}), 422)["hint"]


def test_G_the_request_id_reaches_the_model_and_the_log(house: House) -> None:
    client = house.client()
    at = house.begun(client)
    house.asks_by_tools()
    answer = client.post(f"{at}/turns", json={"message": SAYINGS[0]}, headers={"X-Request-ID": "my-request-1"})
    turn = got(answer, InterviewTurnFields)
    assert answer.headers["x-request-id"] == "my-request-1" and turn["account"]["trace_id"].startswith("my-request-1-")
    assert {each.headers["x-request-id"] for each in house.model.calls} == {turn["account"]["trace_id"]}
    assert "Forty tickets a week." in turn["turn"]["reply"] and turn["account"]["usage"]["calls"] >= 2
    (entry,) = client.get(f"/v1/projects/{house.slug}/log").json()["items"]
    assert entry["id"] == turn["account"]["trace_id"] and entry["kind"] == "interview"


def test_G_a_key_over_its_day_is_told_when_to_come_back(house: House) -> None:
    client = house.client(tokens_per_day=1)
    at = house.begun(client)
    house.asks_by_tools()
    assert client.post(f"{at}/turns", json={"message": SAYINGS[0]}).status_code == 200
    time.sleep(1.1)  # what was looked up is believed for a second
    for headers in ({}, EVENTS):
        refused = client.post(f"{at}/turns", json={"message": SAYINGS[1]}, headers=headers)
        assert error_of(refused, 429)["code"] == "limit" and 0 < int(refused.headers["Retry-After"]) <= 86_400
    assert client.get(house.org).status_code == 200, "what costs nothing goes on"
    other = house.client(tokens_per_day=10**9)
    house.asks_by_tools()
    assert other.post(f"{house.begun(other)}/turns", json={"message": SAYINGS[0]}).status_code == 200, "others go on"


def test_G_who_goes_away_has_not_said_it_and_the_model_is_stopped(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams_module, "ABANDONED_SECONDS", 0.3)
    client = house.client()
    at = house.begun(client)
    said(client, at, SAYINGS[0])  # what is imported once takes its time
    hung_up = house.model.disconnects
    house.model.script(STALL)
    with pytest.raises(httpx.ReadTimeout):
        client.post(f"{at}/turns", json={"message": SAYINGS[1]}, timeout=1.0)
    until(lambda: house.model.disconnects == hung_up + 1)
    house.model.script(STALL)
    with client.stream("POST", f"{at}/turns", json={"message": SAYINGS[1]}, headers=EVENTS) as response:
        where = response.headers["content-location"]
        until(lambda: house.model.at_work)
    until(lambda: house.model.disconnects == hung_up + 2)
    with client.stream("GET", where) as response:
        events = list(sent_events(response))
    assert events[-1].data["error"]["code"] == "stopped" and events[-1].data["error"]["hint"]
    house.model.script(STALL)
    with client.stream("POST", f"{at}/turns", json={"message": SAYINGS[1]}, headers=EVENTS) as response:
        until(lambda: house.model.at_work)
        assert client.delete(response.headers["content-location"]).status_code == 204
        assert list(sent_events(response))[-1].data["error"]["code"] == "stopped"
    house.model.rest()
    assert client.get(at).json()["turns"] == 1
    assert said(client, at, SAYINGS[1], turn=2)["turn"]["number"] == 2


# -- corrections


def test_G7_assumptions_and_points_are_corrected(house: House) -> None:
    client = house.client()
    at = house.begun(client)
    wrong: dict[str, Any]
    for statement, rests_on in (("Memos are read.", []), ("Readers obey.", ["A1"]), ("Training helps.", ["A2"])):
        body = {"statement": statement, "depends_on": rests_on, "impact": "high"}
        added = client.post(f"{at}/assumptions", json=body)
        assert added.status_code == 201 and added.json()["depends_on"] == rests_on and added.json()["impact"] == "high"
    circle = error_of(client.patch(f"{at}/assumptions/A1", json={"depends_on": ["A3"]}), 422)
    assert "circle" in circle["message"] and "leave out" in circle["hint"]
    error_of(client.patch(f"{at}/assumptions/A1", json={"depends_on": ["A1"]}), 422)
    error_of(client.post(f"{at}/assumptions", json={"statement": "Memos are read."}), 409)
    for wrong in ({"statement": " "}, {"statement": "x" * 401}, {"statement": "x", "impact": "grave"}, {}):
        error_of(client.post(f"{at}/assumptions", json=wrong), 422)
    for wrong in ({"status": "shaken"}, {"status": "gone"}, {"statement": ""}, {"confidence": 3}, {"depends_on": "A1"}):
        error_of(client.patch(f"{at}/assumptions/A1", json=wrong), 422)
    error_of(client.post(f"{at}/assumptions", json={"statement": "Soup is hot.", "depends_on": ["A9"]}), 404)
    state = got(client.patch(f"{at}/assumptions/A1", json={"status": "refuted", "evidence": "Seen."}), StateFields)
    assert [each["status"] for each in state["assumptions"]] == ["refuted", "shaken", "shaken"]
    assert [each["text"] for each in state["assumptions"][0]["evidence"]] == ["Seen."]
    state = got(client.delete(f"{at}/assumptions/a2"), StateFields)
    assert [(each["id"], each["depends_on"]) for each in state["assumptions"]] == [("A1", []), ("A3", [])]
    for method in ("PATCH", "DELETE"):
        error_of(client.request(method, f"{at}/assumptions/A2", json={} if method == "PATCH" else None), 404)
    point = client.post(f"{at}/points", json={"section": "impact", "text": "Forty tickets a week."})
    assert point.status_code == 201 and point.json()["section"] == "impact"
    error_of(client.post(f"{at}/points", json={"section": "impact", "text": "Forty tickets a week."}), 422)
    error_of(client.post(f"{at}/points", json={"section": "lunch", "text": "Soup."}), 422)
    assert got(client.delete(f"{at}/points/{point.json()['id']}"), StateFields)["points"] == []
    error_of(client.delete(f"{at}/points/{point.json()['id']}"), 404)


def test_G7_a_point_is_put_in_other_words_and_moved(house: House) -> None:
    client = house.client()
    at = house.begun(client)
    client.post(f"{at}/points", json={"section": "impact", "text": "Forty tickets a week."})
    client.post(f"{at}/points", json={"section": "impact", "text": "Each takes twenty minutes."})

    def told(change: dict[str, Any]) -> list[tuple[str, str, str]]:
        state = got(client.patch(f"{at}/points/p1", json=change), StateFields)
        return [(each["id"], each["section"], each["text"]) for each in state["points"]]

    other = ("P2", "impact", "Each takes twenty minutes.")
    assert told({"text": "fifty tickets\na week."}) == [("P1", "impact", "Fifty tickets a week."), other]
    assert told({"section": "goals"}) == [("P1", "goals", "Fifty tickets a week."), other]
    both = {"text": "The old memo still hangs there.", "section": "causes"}
    assert told(both) == [("P1", "causes", both["text"]), other] and told({}) == told({"text": None})
    wrong: dict[str, Any]
    for wrong in ({"text": " "}, {"text": "x" * 501}, {"section": "lunch"}, {"section": 3}, {"turn": 1}):
        error_of(client.patch(f"{at}/points/P1", json=wrong), 422)
    missing = error_of(client.patch(f"{at}/points/P9", json={"text": "Soup."}), 404)
    assert "P9" in missing["message"] and missing["hint"]
    assert [each["text"] for each in client.get(at).json()["state"]["points"]] == [both["text"], other[2]]


def test_G5_the_last_turn_is_taken_back_with_what_came_of_it(house: House) -> None:
    client = house.client()
    at = house.begun(client)
    error_of(client.post(f"{at}/undo"), 422)
    before = said(client, at, SAYINGS[0])["state"]
    said(client, at, SAYINGS[1])
    kept = client.get(f"{at}/versions", params={"limit": 1}).json()
    assert kept["items"][0]["turn"] == 2 and kept["next"]
    after = got(client.post(f"{at}/undo"), StateFields)
    assert after["points"] == before["points"] and after["assumptions"] == before["assumptions"]
    assert [each["number"] for each in client.get(f"{at}/turns").json()["items"]] == [1]
    assert said(client, at, SAYINGS[1], turn=3)["turn"]["number"] == 3, "a number is not given twice"


# -- the document


def test_G7_the_document_as_json_markdown_and_for_word(house: House) -> None:
    client, reader = house.client(), house.client(Role.READER)
    at = house.begun(client, title="Returns")
    for message in SAYINGS:
        said(client, at, message)
    made = got(client.get(f"{at}/document", params={"title": "Chairs come back"}), shape(Artifact))
    assert (made["kind"], made["title"]) == ("problem-brief", "Chairs come back")
    assert any("40 tickets a week" in each["text"] for each in made["sections"])
    other = got(client.get(f"{at}/document", params={"mode": "solution"}), shape(Artifact))
    assert other["kind"] == "product-requirements" and "Returns" in other["title"]
    markdown = client.get(f"{at}/document", params={"format": "md", "title": "Chairs come back"})
    assert markdown.headers["content-type"].startswith("text/markdown")
    assert f'filename="problem-brief-{at.rpartition("/")[2][:8]}.md"' in markdown.headers["content-disposition"]
    assert markdown.headers["x-content-type-options"] == "nosniff" and "Chairs come back" in markdown.text
    word = client.get(f"{at}/document", params={"format": "docx", "title": "Chairs come back"})
    assert "wordprocessingml" in word.headers["content-type"]
    with zipfile.ZipFile(BytesIO(word.content)) as parts:
        assert "Chairs come back" in parts.read("word/document.xml").decode()
    for wrong in ({"format": "pdf"}, {"mode": "lunch"}, {"title": "x" * 1_001}):
        error_of(client.get(f"{at}/document", params=wrong), 422)
    artifacts = f"/v1/projects/{house.slug}/artifacts"
    assert client.get(artifacts).json()["items"] == [], "reading keeps nothing"
    kept = got(client.post(f"{at}/document", json={"title": "Kept"}), shape(Artifact), 201)
    assert [each["title"] for each in reader.get(artifacts).json()["items"]] == ["Kept"], "it is for all"
    assert got(reader.get(f"{artifacts}/{kept['id']}"), shape(Artifact)) == kept


def test_G_what_is_above_a_key_is_neither_quoted_nor_in_what_others_keep(house: House, swift_path: Path) -> None:
    secret = swift_path / "plan.md"
    secret.write_text("# Falcon\n\nFalcon closes the showroom in Kiel in March.\n")
    labels = Labels(confidentiality=Clearance.RESTRICTED)
    assert not house.forge.add(secret, project=house.slug, labels=labels).failed
    asked = "When does Falcon close the showroom in Kiel?"
    low, high = house.client(), house.client(clearance=Clearance.RESTRICTED)
    hidden = said(low, house.begun(low, title="Falcon"), asked)
    assert "in March" not in json.dumps(hidden) and "plan.md" not in json.dumps(hidden)
    at = house.begun(high, title="Falcon")
    seen = said(high, at, asked)
    assert "in March" in seen["turn"]["reply"]
    house.asks_by_tools(
        ("fill_section", json.dumps({"section": "background", "points": [
            {"text": "Falcon closes the showroom in Kiel in March.", "sources": [
                each["number"] for each in seen["account"]["sources"] if each["document"] == "plan.md"
            ][:1]}
        ]}))
    )  # fmt: skip
    noted = said(high, at, asked, model="")
    assert any("in March" in each["text"] for each in noted["state"]["points"]), noted["account"]["changes"]
    kept = high.post(f"{at}/document", json={}).json()
    assert "in March" in json.dumps(kept)
    artifacts = f"/v1/projects/{house.slug}/artifacts"
    assert high.get(f"{artifacts}/{kept['id']}").status_code == 200
    for answer in (low.get(artifacts), low.get(f"{artifacts}/{kept['id']}"), low.get(house.org)):
        assert "in March" not in answer.text and "plan.md" not in answer.text


def test_G_with_the_project_everything_is_gone(house: House) -> None:
    client = house.client()
    at = house.begun(client)
    said(client, at, SAYINGS[0])
    house.forge.remove_project(house.slug)
    for path in (house.at, at, f"{at}/turns", f"{at}/document", house.org):
        error_of(client.get(path), 404)
    for headers in ({}, EVENTS):
        error_of(client.post(f"{at}/turns", json={"message": "Hello there."}, headers=headers), 404)


# -- the client


def test_G_the_client_leads_the_same_interview_with_a_key(house: House) -> None:
    """What `RemoteForge.discovery` gives is what the workspace itself gives, for five turns."""
    forge = house.forge
    forge.discovery.set_org_context(ORG, project=house.slug)
    mine = forge.discovery.begin("Returns", project=house.slug).id
    with RemoteForge(house.url, key=house.key(Role.READER)) as remote:
        theirs = remote.discovery.begin("Returns", project=house.slug).id
        for number, message in enumerate(SAYINGS, 1):
            how: Any = {"project": house.slug, "model": "offline", "turn": number}
            ours, other = forge.discovery.say(message, mine, **how), remote.discovery.say(message, theirs, **how)
            assert ours.turn.answer == other.turn.answer and ours.state == other.state
            assert ours.account.decision == other.account.decision and ours.account.changes == other.account.changes
        assert forge.discovery.progress(mine, project=house.slug) == remote.discovery.progress(
            theirs, project=house.slug
        )
        with pytest.raises(Conflict):
            remote.discovery.say("Once more.", theirs, project=house.slug, turn=1)
        with pytest.raises(NotFound, match="no interview") as problem:
            remote.discovery.get(mine, project=house.slug)
        assert problem.value.hint == "discovery.all() shows yours"
        with pytest.raises(NotAllowed):
            remote.discovery.document(theirs, project=house.slug, keep=True)
        with pytest.raises(NotAllowed):
            remote.discovery.set_org_context("Ours.", project=house.slug)
        assert remote.discovery.remove(theirs, project=house.slug).id == theirs
        with pytest.raises(NotFound) as problem:
            remote.discovery.get(project=house.slug)
        assert problem.value.hint == "discovery.begin() begins one"
