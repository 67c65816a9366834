"""`RemoteForge` does over HTTP what `Ragforge` does here: the same tests, the same signatures, the same errors."""

from __future__ import annotations

import inspect
import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ragforge import Ragforge, client
from ragforge.app import AskOptions
from ragforge.assemble.assemble import edited
from ragforge.client import CODES, ELSEWHERE, RemoteForge, lessons
from ragforge.client.discovery import RemoteDiscovery
from ragforge.client.lessons import RemoteLessons
from ragforge.discovery import Discovery
from ragforge.domain.access import Clearance, KeyLimits, Role
from ragforge.domain.answers import Abstention, Answer, DoneEvent, RetrievalEvent, TokenEvent
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.cursor import Cursor
from ragforge.domain.discovery import Changed, Decided, Gathered, Standing, TurnDone
from ragforge.domain.evaluation import Question, Run
from ragforge.domain.lessons import CheckpointReport, Lesson, Pattern, Words
from ragforge.domain.library import FileResult, Job, JobState, Labels, Outcome, Priority, Progress, Status
from ragforge.domain.plain import encode
from ragforge.domain.prompts import Shaping
from ragforge.domain.records import ProjectTextKind
from ragforge.domain.retrieval import Filters, Tuning
from ragforge.domain.tokens import Matrix, Passage, estimated_tokens
from ragforge.errors import (
    Busy,
    Conflict,
    NotAllowed,
    NotFound,
    OverLimit,
    StoreError,
    Unauthenticated,
    UserError,
)
from ragforge.flows.make import Made
from ragforge.lessons import Lessons
from ragforge.operate.access import owner
from ragforge.testing.hashing import HashingEmbedder
from ragforge.testing.model_server import NORMAL, ModelServer
from tests.forge import SMALL, WatchedEmbedder, fill, open_forge
from tests.serving import listening_to, serving

CHAIRS = "# Chairs\n\nA chair can be returned within 45 days. The Fjord chair is made of smoked oak.\n"
DESKS = "# Desks\n\nA desk is delivered within 12 days. The Sylt desk carries 120 kilograms.\n"
QUESTION = "Within how many days can a chair be returned?"

Either = Any
"""`Ragforge` or `RemoteForge`: what a caller sees of both is the same."""


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Ragforge]:
    """The workspace itself."""
    with open_forge(tmp_path / "ws", learn__embedder="wordllama") as forge:
        docs = tmp_path / "docs"
        docs.mkdir()
        (docs / "chairs.md").write_text(CHAIRS)
        (docs / "desks.md").write_text(DESKS)
        yield forge


@pytest.fixture(params=["here", "remote"])
def forge(request: pytest.FixtureRequest, here: Ragforge) -> Iterator[Either]:
    if request.param == "here":
        worker = here.worker()
        worker.start()
        yield here
        worker.stop()
        return
    with serving(here) as url, RemoteForge(url) as remote:
        yield remote


@pytest.fixture
def filled(forge: Either, tmp_path: Path) -> Either:
    report = forge.add(tmp_path / "docs", project="p")
    assert [file.outcome for file in report.files] == [Outcome.READY] * 2
    return forge


# -- no method is forgotten

PARTS = {"lessons", "discovery"}
"""Properties that have methods of their own."""


def public(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


def test_every_method_of_ragforge_is_there_or_refused() -> None:
    assert public(RemoteForge) | ELSEWHERE.keys() == public(Ragforge)
    assert not public(RemoteForge) & ELSEWHERE.keys()
    with RemoteForge("http://127.0.0.1:1") as remote:
        for name, instead in ELSEWHERE.items():
            with pytest.raises(UserError, match="where the workspace is") as problem:
                getattr(remote, name)
            assert problem.value.hint == instead != ""
            assert not hasattr(remote, name)
        with pytest.raises(AttributeError):
            _ = remote.nothing_of_the_kind


def test_every_method_of_lessons_is_there_or_refused() -> None:
    refused = lessons.ELSEWHERE
    assert public(RemoteLessons) | refused.keys() == public(Lessons)
    assert not public(RemoteLessons) & refused.keys()
    with RemoteForge("http://127.0.0.1:1") as remote:
        for name, instead in refused.items():
            with pytest.raises(UserError, match="where the workspace is") as problem:
                getattr(remote.lessons, name)
            assert problem.value.hint == instead != ""
            assert not hasattr(remote.lessons, name)


def test_every_method_of_discovery_is_there() -> None:
    assert public(RemoteDiscovery) == public(Discovery)


def test_the_signatures_are_the_same() -> None:
    for theirs, ours in ((RemoteForge, Ragforge), (RemoteLessons, Lessons), (RemoteDiscovery, Discovery)):
        for name in sorted(public(theirs) - PARTS):
            assert inspect.signature(getattr(theirs, name)) == inspect.signature(getattr(ours, name)), name


def test_every_method_is_tried_here() -> None:
    source = Path(__file__).read_text()
    used = set(re.findall(r"\b(?:forge|filled|remote)\.(\w+)\(", source))
    assert public(RemoteForge) - PARTS <= used
    assert public(RemoteLessons) <= set(re.findall(r"\b(?:known|told)\.(\w+)\(", source))
    assert public(RemoteDiscovery) <= set(re.findall(r"\bdesk\.(\w+)\(", source))


def test_every_option_of_a_question_is_known() -> None:
    source = "".join(inspect.getsource(each) for each in (client.remote, client.wire))
    assert [name for name in AskOptions.__annotations__ if f'"{name}"' not in source] == []


def test_every_code_is_an_error_here() -> None:
    from ragforge.interfaces.http.errors import _STATUSES

    told = {code: kind for kind, (_, code) in reversed(_STATUSES.items())} | {"overloaded": Busy, "stopped": Busy}
    for code, kind in CODES.items():
        assert issubclass(told[code], kind) or issubclass(kind, told[code]), code
    assert set(told) - set(CODES) == {"error", "slow"}


# -- the same for both


def test_projects(forge: Either) -> None:
    made = forge.create_project("My Desk", strategy=SMALL, embedder="hashing")
    assert (made.slug, made.strategy) == ("my-desk", SMALL)
    assert forge.project("my-desk") == forge.project("My Desk") == made
    renamed = forge.rename_project("my-desk", "Other")
    assert [each.slug for each in forge.projects()] == ["other", "p"] and renamed.id == made.id
    assert forge.remove_project("other") == []
    for work in (forge.project, forge.remove_project):
        with pytest.raises(NotFound) as problem:
            work("other")
        assert problem.value.message == "no project 'other'" and problem.value.hint
    with pytest.raises(UserError, match="exists already"):
        forge.create_project("p", embedder="hashing")
    assert forge.create_project("Either/Or", embedder="hashing") == forge.project("Either/Or")


def test_files(filled: Either, tmp_path: Path) -> None:
    chairs, desks = sorted(filled.documents(project="p"), key=lambda document: document.name)
    assert filled.documents(project="p", status=Status.FAILED) == []
    (first,) = filled.documents(project="p", limit=1)
    (second,) = filled.documents(project="p", after=Cursor(first.created_at, first.id))
    assert {first.id, second.id} == {chairs.id, desks.id}
    assert filled.document(chairs.id, project="p") == filled.document("chairs.md", project="p") == chairs
    assert filled.document(chairs.sources[0].key, project="p") == chairs
    assert filled.document(str(tmp_path / "docs" / "chairs.md"), project="p") == chairs
    only = Filters(documents=(str(tmp_path / "docs" / "desks.md"),))
    assert {passage.name for passage in filled.search(QUESTION, project="p", filters=only).passages} == {"desks.md"}
    assert filled.find([desks.id[:8], "chairs.md", desks.id], project="p") == [desks, chairs]
    assert filled.find("chairs.md", project="p") == [chairs]
    with pytest.raises(NotFound, match=r"zzz\.md"):
        filled.find("zzz.md", project="p")
    assert "".join(chunk.text for chunk in filled.chunks("chairs.md", project="p")).strip() in CHAIRS
    assert filled.text("chairs.md", project="p").strip() == CHAIRS.strip()
    document, opened = filled.content("desks.md", project="p")
    with opened:
        assert (document, opened.read().decode()) == (desks, DESKS)
    (off,) = filled.enable([chairs.id], False, project="p")
    assert not off.enabled
    (told,) = filled.label([chairs.id], project="p", tags=["wood"], confidentiality=Clearance.CONFIDENTIAL)
    assert told.labels == Labels(tags=("wood",), confidentiality=Clearance.CONFIDENTIAL)
    (gone,) = filled.removing([chairs.id], project="p")
    assert gone.document == chairs.id and gone.erased
    for work in (
        lambda: filled.document(chairs.id, project="p"),
        lambda: list(filled.removing([chairs.id], project="p")),
        lambda: filled.enable(["/no/such"], True, project="p"),
        lambda: filled.text(chairs.id, project="p"),
        lambda: filled.document(".", project="p"),
        lambda: filled.find([], project="none"),
    ):
        with pytest.raises(NotFound):
            work()


def test_adding(forge: Either, tmp_path: Path) -> None:
    (tmp_path / "docs" / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    events = list(forge.adding([tmp_path / "docs", tmp_path / "none"], project="p", labels=Labels(tags=("a", "b"))))
    results = {Path(event.path).name: event for event in events if isinstance(event, FileResult)}
    assert {name: result.outcome for name, result in results.items()} == {
        "broken.pdf": Outcome.FAILED, "chairs.md": Outcome.READY, "desks.md": Outcome.READY, "none": Outcome.FAILED,
    }  # fmt: skip
    assert results["chairs.md"].path == str(tmp_path / "docs" / "chairs.md") and results["chairs.md"].chunks == 1
    assert results["broken.pdf"].reason and results["broken.pdf"].message
    assert any(isinstance(event, Progress) for event in events)
    assert {document.labels.tags for document in forge.documents(project="p")} == {("a", "b")}
    again = forge.add(tmp_path / "docs" / "chairs.md", project="p")
    assert [file.outcome for file in again.files] == [Outcome.UNCHANGED]
    (tmp_path / "docs" / "chairs.md").write_text(CHAIRS + "\nAnd more.\n")
    assert forge.add([tmp_path / "docs" / "chairs.md"], project="p").files[0].replaced


def test_uploads_and_jobs(forge: Either, tmp_path: Path) -> None:
    job = forge.upload(tmp_path / "docs" / "chairs.md", name="seats.md", project="p", key="once", priority=Priority.LOW)
    assert job.priority is Priority.LOW
    assert forge.upload(tmp_path / "docs" / "chairs.md", name="seats.md", project="p", key="once").id == job.id
    deadline = time.monotonic() + 20
    while not (ended := forge.job(job.id)).ended:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert ended.state == JobState.DONE
    assert [document.name for document in forge.documents(project="p")] == ["seats.md"]
    assert job.id in {each.id for each in forge.jobs(project="p")}
    assert forge.nodes() == [], "there are others on Postgres alone"
    assert forge.cancel_job(job.id).state == JobState.DONE
    with pytest.raises(NotFound):
        forge.job("nothing")
    with pytest.raises(NotFound):
        forge.upload(tmp_path / "none.md", project="p")


def test_searching(filled: Either) -> None:
    found = filled.search(QUESTION, project="p", k=1, context=True)
    assert [passage.name for passage in found.passages] == ["chairs.md"]
    only = Filters(documents=("desks.md",), since=datetime(2020, 1, 1, tzinfo=UTC))
    found = filled.search(QUESTION, project="p", filters=only, tuning=Tuning(k=3, fusion="rrf"), fresh=True)
    assert {passage.name for passage in found.passages} == {"desks.md"}
    told = filled.explain(QUESTION, project="p", k=2)
    assert told.trace is not None and len(told.passages) == 2
    assert len(filled.search(QUESTION, project="p", k=1_000).passages) == 2
    with pytest.raises(UserError, match=r"1,?000"):
        filled.search(QUESTION, project="p", k=1_001)
    assert filled.search(QUESTION + " \ud800", project="p", k=1).passages[0].name == "chairs.md"
    cancel = Cancel()
    cancel.set()
    for work in (filled.search, filled.explain, filled.prompt):
        with pytest.raises(Cancelled):
            work(QUESTION, project="p", cancel=cancel)
    with pytest.raises(NotFound):
        filled.search(QUESTION, project="none")


def test_both_find_the_same(here: Ragforge, tmp_path: Path) -> None:
    here.add(tmp_path / "docs", project="p")
    with serving(here) as url, RemoteForge(url) as remote:
        for ask in ("search", "explain"):
            mine, theirs = (getattr(each, ask)(QUESTION, project="p") for each in (here, remote))
            assert replace(mine, timings={}, cached=False) == replace(theirs, timings={}, cached=False)


def test_asking(filled: Either) -> None:
    answer = filled.ask(QUESTION, project="p")
    assert isinstance(answer, Answer) and "45 days" in answer.text and answer.citations[0].document
    talk = filled.begin_conversation("chairs", project="p")
    events = list(filled.stream(QUESTION, project="p", conversation=talk.id))
    assert isinstance(events[0], RetrievalEvent) and isinstance(events[-1], DoneEvent)
    assert "".join(event.text for event in events if isinstance(event, TokenEvent)) == events[-1].result.text
    assert any(isinstance(event, DoneEvent) for event in filled.answering(QUESTION, project="p", ephemeral=True))
    nothing = filled.ask("Who won the lottery of Uruguay?", project="p", stages=("gate",), strictness=0.9)
    assert isinstance(nothing, Abstention) and nothing.reason
    again = filled.ask("And of what is it made?", project="p", history=[filled.turn_of(answer)], ephemeral=True)
    assert again.account.question == "And of what is it made?"
    filled.mark_turn(filled.turns(talk.id, project="p")[0].id, importance=0.5, project="p")
    (turn,) = filled.turns(talk.id, project="p")
    with pytest.raises(UserError):
        filled.mark_turn(turn.id, importance=float("nan"), project="p")
    assert filled.rollups(talk.id, project="p") == []
    named = filled.ask(QUESTION, project="p", request="my-request-1", ephemeral=True)
    assert named.account.trace_id.startswith("my-request-1")
    assert turn.importance == 0.5 and "45 days" in turn.answer
    result = events[-1].result
    assert (
        isinstance(result, Answer)
        and turn.citations == result.citations
        and "45 days" in turn.citations[0].quote
        and turn.quoted
    )
    assert filled.give_feedback(turn.trace_id, True, project="p").entry.id == result.account.trace_id == turn.trace_id
    renamed = filled.rename_conversation(talk.id, "Stühle # 2", project="p")
    assert renamed == filled.conversation(talk.id, project="p") and renamed.title == "Stühle # 2"
    for title in ("", "  ", "x" * 1_001):
        with pytest.raises(UserError) as refused:
            filled.rename_conversation(talk.id, title, project="p")
        assert refused.value.hint
    written = filled.conversation_markdown("last", project="p")
    assert written.startswith("# Stühle \\# 2\n\n") and f"## {QUESTION}\n\n{turn.answer}\n" in written
    assert '- [1] chairs.md, Chairs: "A chair can be returned within 45 days."' in written
    assert filled.conversation("last", project="p").id == talk.id == filled.conversations(project="p")[0].id
    filled.remove_turn(turn.id, project="p")
    assert filled.turns(talk.id, project="p") == []

    def renamed_so(name: str, project: str) -> None:
        filled.rename_conversation(name, "new", project=project)

    for work in (
        filled.remove_turn,
        filled.remove_conversation,
        filled.conversation,
        filled.conversation_markdown,
        filled.rollups,
        renamed_so,
    ):
        for name in ("", ".", "..", "../..", "none"):
            with pytest.raises(NotFound):
                work(name, project="p")
    filled.remove_conversation(talk.id, project="p")
    assert filled.conversations(project="p") == []
    with pytest.raises(NotFound):
        filled.conversation(talk.id, project="p")
    with pytest.raises(UserError):
        filled.ask(" ", project="p")
    said = Shaping("compare", "seats", ("Days", "Oak"))
    told = filled.prompt(QUESTION, project="p", shaping=said).account.shape
    assert Shaping(told.intent, told.domain, told.headers) == said
    with pytest.raises(UserError, match="no intent is called"):
        filled.ask(QUESTION, project="p", shaping=Shaping("nonsense"))
    with pytest.raises(NotFound):
        filled.ask(QUESTION, project="none")


def test_prompts(here: Ragforge, tmp_path: Path) -> None:
    with (
        ModelServer(reply="Within 45 days [1].") as model,
        open_forge(
            tmp_path / "asked", None, model__name="openai-compatible:stub", model__base_url=model.base_url
        ) as forge,
    ):
        forge.add(tmp_path / "docs", project="p")
        with serving(forge) as url, RemoteForge(url) as remote:
            for each in (forge, remote):
                prompted = each.prompt(QUESTION, project="p", system="Be kind.")
                assert prompted.estimate is not None and "Be kind." in prompted.prompt.messages[0].text
                assert "45 days" in each.ask(QUESTION, project="p", prompted=prompted, system="Be kind.").text
                texts = [message.text + "\nAnswer in one sentence." for message in prompted.prompt.messages]
                changed = replace(prompted, prompt=edited(prompted.prompt, texts, estimated_tokens))
                model.script(NORMAL)
                calls = len(model.calls)
                each.ask(QUESTION, project="p", prompted=changed, system="Be kind.")
                assert "Answer in one sentence." in str(model.calls[calls:])
            with pytest.raises(UserError, match="not made here"):
                remote.ask(QUESTION, project="p", prompted=forge.prompt(QUESTION, project="p"))


def test_texts_and_the_log(filled: Either) -> None:
    kind = ProjectTextKind.HARD_RULES
    assert filled.project_text(kind, project="p").version == 0
    for text in ("Be brief.", "Be brief and kind."):
        assert filled.write_project_text(kind, text, project="p").text == text
    assert [each.version for each in filled.project_text_versions(kind, project="p")] == [2, 1]
    before = datetime.now(UTC) - timedelta(minutes=1)
    answer = filled.ask(QUESTION, project="p")
    for number in range(3):
        filled.ask(f"What is made of oak number {number}?", project="p")
    assert len(filled.query_log(project="p", limit=2)) == 2
    assert len(filled.query_log(project="p", since=before)) == 4
    assert filled.query_log(project="p", since=datetime.now(UTC) + timedelta(days=1)) == []
    entry = filled.logged(answer.account.trace_id, project="p")
    assert entry.question == QUESTION
    assert filled.give_feedback(entry.id, True, note="right", project="p").entry.feedback == "good"
    assert filled.spent(by="day", project="p", since=before)[0].questions == 4
    (named,) = filled.question_sets(project="p")
    assert named.name == "feedback"
    assert [question.text for question in filled.questions("feedback", project="p")] == [QUESTION]
    run = list(filled.evaluating("feedback", project="p", label="first"))[-1]
    assert isinstance(run, Run) and run.asked == 1
    *_, other = filled.evaluating("feedback", project="p", tuning=Tuning(k=1), label="second")
    assert [each.id for each in filled.evaluations(project="p")] == [other.id, run.id]
    assert filled.evaluation("first", project="p").run == run
    assert filled.compare_evaluations("first", "second", project="p").questions == 1
    with pytest.raises(NotFound):
        list(filled.evaluating("none", project="p"))
    assert filled.prune_log(before, project="p") == 0
    assert filled.prune_log(datetime.now(UTC) + timedelta(minutes=1), project="p") == 4
    assert filled.query_log(project="p") == []


def test_questions_are_brought(filled: Either, tmp_path: Path) -> None:
    own = tmp_path / "own.jsonl"
    lines = [
        {"question": QUESTION, "grades": {"chairs.md": 2}, "answers": ["45"]},
        {"question": "Who made the moon?", "doc_ids": ["desks.md"], "answerable": False},
    ]
    own.write_text("".join(json.dumps(line) + "\n" for line in lines))
    *_, report = filled.importing_questions(own, project="p")
    assert (report.questions.name, report.questions.questions, report.changed) == ("own", 2, True)
    first, second = filled.questions("own", project="p")
    assert (first.text, list(first.documents.values()), first.answers) == (QUESTION, [2.0], ("45",))
    assert not second.answerable and list(second.documents) == ["desks.md"]
    *_, again = filled.importing_questions(own, project="p", name="own")
    assert not again.changed
    own.write_text('{"question": ""}\n')
    with pytest.raises(UserError, match="line 1"):
        list(filled.importing_questions(own, project="p"))


def test_documents_come_with_their_questions(forge: Either, tmp_path: Path) -> None:
    beir = tmp_path / "beir"
    beir.mkdir()
    (beir / "corpus.jsonl").write_text(
        json.dumps({"_id": "shop/seats", "title": "Chairs", "text": CHAIRS})
        + "\n"
        + json.dumps({"_id": "shop/empty", "text": ""})
    )
    (beir / "queries.jsonl").write_text(json.dumps({"_id": "1", "text": QUESTION}) + "\n" + '{"_id": "2", "text": "x"}')
    (beir / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n1\tshop/seats\t1\n")
    *events, report = forge.importing_questions(beir, project="p", documents=tmp_path / "written")
    assert [event.outcome for event in events if isinstance(event, FileResult)] == [Outcome.READY]
    assert (report.left_out, report.empty, report.documents) == (1, 1, {Outcome.READY: 1})
    *_, run = forge.evaluating("beir", project="p")
    assert run.missing == 0 and run.metrics["recall@10"] == 1.0


def test_documents_made(filled: Either, tmp_path: Path) -> None:
    out = tmp_path / "made.md"
    made = list(filled.making("blueprint", project="p", brief="Chairs and desks", out=out))[-1]
    assert isinstance(made, Made) and made.text == out.read_text()
    assert filled.artifacts(project="p") == [made.artifact] == [filled.artifact("last", project="p")]
    assert filled.rendered(made.artifact, ".docx")[:2] == b"PK"
    filled.export_artifact(made.artifact, tmp_path / "again.md")
    assert (tmp_path / "again.md").read_text() == made.text
    seen = made.artifact.sections[0].text
    changed = filled.edit_artifact(
        "last", project="p", title="Seats", texts={0: "A chair is light [1].\n\n# Own"}, was={0: seen}
    )
    assert (changed.id, changed.title, changed.sections[1:]) == (made.artifact.id, "Seats", made.artifact.sections[1:])
    assert changed.sections[0].text.startswith("A chair is light") and changed.sections[0].text.endswith("**Own**:")
    with pytest.raises(Conflict, match="changed meanwhile"):
        filled.edit_artifact("last", project="p", texts={0: "Mine"}, was={0: seen})
    with pytest.raises(UserError, match="has no section 99"):
        filled.edit_artifact("last", project="p", texts={99: "Mine"})
    assert filled.artifacts(project="p") == [changed]
    assert filled.remove_artifacts([made.artifact.id[:10]], project="p") == [changed]
    assert filled.artifacts(project="p") == []
    with pytest.raises((NotFound, UserError)):
        list(filled.making("nonsense", project="p"))
    for out in (tmp_path / "made.pdf", tmp_path / "none" / "made.md"):
        with pytest.raises(UserError):
            list(filled.making("blueprint", project="p", out=out))
        with pytest.raises(UserError):
            filled.export_artifact(made.artifact, out)
    assert filled.artifacts(project="p") == []
    assert "blueprint" in {outline.kind for outline in filled.document_kinds()}
    (architect,) = [agent for agent in filled.agents() if agent.name == "architect"]
    assert filled.agent("architect") == architect and architect.persona
    with pytest.raises(NotFound):
        filled.agent("nobody")


MAIL: Any = {
    "failure_description": "The mail server refuses the address.",
    "solution_steps": "Write it without spaces.",
}
SOAP: Any = {"failure_description": "The soap slips.", "solution_steps": "Dry it first."}


def test_lessons_are_told_and_asked_for(forge: Either) -> None:
    told: Lessons = forge.lessons
    failed = told.capture_failure(project="p", agent_type="backend", key="once", **MAIL)
    assert told.capture_failure(project="p", agent_type="backend", key="once", **MAIL).id == failed.id
    rejected = told.capture_rejection(
        project="p", gate_type="design", human_feedback="No plan.", revision_approach="One."
    )
    approved = told.capture_approval(project="p", gate_type="release", approved_approach="Canary first.")
    waiting = told.capture("failure_solution", project="p", agent_type="backend", verified=False, **SOAP)
    ids = [each.id for each in (failed, rejected, approved, waiting)]
    assert [each.id for each in told.staged(project="p")] == ids
    assert [each.id for each in told.staged(project="p", limit=2)] == ids[:2]
    corrected = told.edit_staged(waiting.id, project="p", evidence="seen")
    assert corrected.told == replace(waiting.told, evidence="seen")
    assert told.lesson(waiting.id, project="p").told == corrected.told
    *_, report = told.checkpointing("phase", project="p")
    assert isinstance(report, CheckpointReport) and (report.kind, report.embedded, report.waiting) == ("phase", 3, 1)
    verified = told.approve(waiting.id, project="p")
    assert isinstance(verified, Lesson) and verified.verified
    assert told.checkpoint(project="p").embedded == 1
    pattern = told.lesson(failed.id, project="p").pattern
    (found,) = told.query_for_failure(MAIL["failure_description"], project="p", agent_type="backend").patterns
    assert (found.pattern.id, found.pattern.project) == (pattern, forge.project("p").id)
    assert [
        each.pattern.id for each in told.query_for_task(MAIL["failure_description"], project="p", limit=1).patterns
    ] == [pattern]
    context = told.context(MAIL["failure_description"], project="p")
    assert pattern in context.shown and MAIL["solution_steps"] in context.block
    came = told.record_outcome(pattern, True, project="p", note="it did", key="once")
    assert told.record_outcome(pattern, True, project="p", note="it did", key="once") == came
    assert told.pattern(pattern, project="p").outcomes == (came,)
    assert told.calibration().embedder == "wordllama"
    assert told.share(True, project="p").shares_lessons and not told.share(False, project="p").shares_lessons
    wrong: list[tuple[type[Exception], Any]] = [
        (UserError, lambda: told.capture("gossip", project="p")),
        (UserError, lambda: told.capture("failure_solution", project="p", nonsense="x")),
        (UserError, lambda: told.capture_approval(project="p", gate_type="", approved_approach="")),
        (UserError, lambda: told.query_for_task(" ", project="p")),
        (UserError, lambda: told.query_for_failure("x", project="p", limit=4)),
        (UserError, lambda: told.checkpoint("lunch", project="p")),
        (UserError, lambda: told.reject(failed.id, project="p")),
        (UserError, lambda: told.approve(failed.id, project="p")),
        (UserError, lambda: told.patterns(project="p", state="odd")),
        (Conflict, lambda: told.edit_staged(failed.id, project="p", evidence="late")),
        (Conflict, lambda: told.capture_failure(project="p", agent_type="backend", key="once", **SOAP)),
        (NotFound, lambda: told.record_outcome("nothing", True, project="p")),
        (NotFound, lambda: told.remove(["nothing"], project="p")),
        (NotFound, lambda: told.reject("nothing", project="p")),
        (NotFound, lambda: told.patterns(project="p", after="nothing")),
        (NotFound, lambda: told.staged(project="none")),
        (NotFound, lambda: list(told.exported(project="none"))),
    ]
    for kind, work in wrong:
        with pytest.raises(kind) as problem:
            work()
        assert getattr(problem.value, "hint", "")


def test_lessons_are_reviewed_and_moved(forge: Either) -> None:
    known: Lessons = forge.lessons
    for solution in ("Ask the server twice.", "Write the letter by hand, slowly.", "Buy a new engine and wait."):
        known.capture_failure(project="p", agent_type="backend", **MAIL | {"solution_steps": solution})
    known.checkpoint(project="p")
    first, second, third = known.patterns(project="p")
    assert [each.id for each in known.patterns(project="p", limit=1)] == [first.id]
    assert [each.id for each in known.patterns(project="p", after=first.id)] == [second.id, third.id]
    assert [each.id for each in known.patterns(project="p", after=first.id, limit=1)] == [second.id]
    merged = known.merge(first.id, [second.id], project="p")
    assert merged.record.successes == 2
    lesson = known.pattern(first.id, project="p").lessons[0]
    apart = known.split(first.id, [lesson.id], project="p")
    assert {each.id for each in known.patterns(project="p")} == {first.id, third.id, apart.id}
    words = Words("It is refused", "Without spaces", "Always")
    version = known.pattern(first.id, project="p").pattern.version
    assert known.edit(first.id, words, version, project="p").words == words
    with pytest.raises(Conflict):
        known.edit(first.id, words, 1, project="p")
    assert known.one(apart.id, project="p") == apart and isinstance(known.one(lesson.id, project="p"), Lesson)
    rejected = known.reject(third.id, project="p")
    assert isinstance(rejected, Pattern) and rejected.state == "rejected"
    assert [each.id for each in known.patterns(project="p", state="rejected", after=apart.id)] == [third.id]
    approved = known.approve(third.id, project="p")
    assert isinstance(approved, Pattern) and approved.approved
    odd = known.capture_failure(project="p", agent_type="backend", verified=False, **SOAP)
    records = list(known.exported(project="p"))
    assert [record["id"] for record in records if "pattern" not in record] == [odd.id] and len(records) == 4
    assert known.reject(odd.id, project="p") is None
    assert known.remove([third.id, lesson.id], project="p") == ()
    assert [each.id for each in known.patterns(project="p")] == [first.id]
    forge.create_project("q", embedder="hashing")
    for _ in range(2):
        assert len(list(known.importing(records, project="q"))) == 4
    assert [each.told for each in known.staged(project="q")] == [
        replace(odd.told, **{name: record[name] for name in asdict(odd.told)}) for record in records
    ]
    plain = [{"entry_type": "gate_approval", "gate_type": "g", "approved_approach": f"{n}"} for n in range(150)]
    assert len({each.id for each in known.importing(plain, project="q")}) == 150
    bad: Any
    for bad in ([{}], ["x"]):
        with pytest.raises(UserError, match="record 1 is no lesson"):
            list(known.importing(bad, project="q"))


def test_what_a_person_rejected_is_not_brought_elsewhere(forge: Either) -> None:
    known: Lessons = forge.lessons
    known.capture_failure(project="p", agent_type="backend", **MAIL)
    known.checkpoint(project="p")
    (pattern,) = known.patterns(project="p")
    known.reject(pattern.id, project="p")
    records = list(known.exported(project="p"))
    forge.create_project("q", embedder="hashing")
    assert len(records) == 1 and list(known.importing(records, project="q")) == []
    assert known.staged(project="q") == []


def test_both_know_the_same(here: Ragforge) -> None:
    here.lessons.capture_failure(project="p", agent_type="backend", **MAIL)
    here.lessons.capture_failure(project="p", agent_type="any", **SOAP)
    here.lessons.checkpoint(project="p")
    with serving(here) as url, RemoteForge(url) as remote:
        mine: Either = here.lessons
        for each in here.lessons.patterns(project="p"):
            assert encode(mine.pattern(each.id, project="p")) == encode(remote.lessons.pattern(each.id, project="p"))
        for ask in ("query_for_task", "query_for_failure", "context"):
            found = [
                encode(getattr(each, ask)(MAIL["failure_description"], project="p")) for each in (mine, remote.lessons)
            ]
            for each in found:
                each.get("found", each).pop("timings")
            assert found[0] == found[1]
        assert encode(list(mine.exported(project="p"))) == list(remote.lessons.exported(project="p"))
        assert mine.calibration() == remote.lessons.calibration()
        job = remote.enqueue("checkpoint", {"kind": "phase"}, project="p", key="once")
        assert remote.enqueue("checkpoint", {"kind": "phase"}, project="p", key="once").id == job.id


SAYINGS = (
    "We make furniture in Hamburg, and I lead customer service. Chairs come back because people read the wrong rule.",
    "About 40 returns a week are about chairs. I think most of them come from the old leaflet in the shops.",
    "yes",
    "Within how many days can a chair be returned?",
    "A1 is wrong: we looked, only 5 of 40 mention the leaflet.",
)


def test_interviews(filled: Either, tmp_path: Path) -> None:
    desk: Discovery = filled.discovery
    begun = desk.begin("  Returns  of chairs ", project="p")
    assert (begun.talk.title, begun.state.mode, begun.state.turn) == ("Returns of chairs", "problem", 0)
    id = begun.id
    assert desk.get(id, project="p") == desk.get(id[:8], project="p") == desk.get(project="p")
    assert desk.get(id, project="p").state == begun.state
    assert desk.opening(id, project="p") == desk.modes()["problem"].opening
    events = list(desk.saying(SAYINGS[0], project="p", turn=1))
    order = [type(event) for event in events]
    assert order == [Decided, Gathered, *[Changed] * (len(order) - 3), TurnDone] and Changed in order
    assert desk.org_context(project="p").startswith("We make furniture")
    said = [desk.say(each, id, project="p", request="my-request-1") for each in SAYINGS[1:3]]
    assert [each.turn.number for each in said] == [2, 3] and said[0].account.trace_id.startswith("my-request-1")
    assert said[1].account.decision.filler and said[0].state.assumptions
    assert [each.question for each in desk.turns(id, project="p")] == list(SAYINGS[:3])
    assert desk.get(id, project="p").state == said[1].state
    chosen = desk.say("Ask me about that.", id, project="p", mode="problem", probe="impact")
    assert chosen.account.decision.probe == "impact" and desk.undo(id, project="p").probe == said[1].state.probe
    assert desk.versions(id, project="p")[0].turn == 4 == desk.get(id, project="p").state.turn
    assert {each.key for each in desk.progress(id, project="p")} == set(desk.modes()["problem"].probes)
    assert desk.open_questions(id, project="p") and [each.id for each in desk.all(project="p")] == [id]
    added = desk.add_assumption("Shops still hand it out.", id, project="p", confidence=" Low", impact="high")
    rests = desk.add_assumption("New leaflets end it.", id, project="p", depends_on=[added.id.lower()])
    assert (str(added.confidence), rests.depends_on) == ("low", (added.id,))
    state = desk.revise_assumption(added.id, id, project="p", status="Refuted", evidence="None was seen.")
    assert [each.status for each in state.assumptions[-2:]] == [Standing.REFUTED, Standing.SHAKEN]
    assert state.assumptions[-2].evidence[-1].text == "None was seen."
    assert rests.id not in {each.id for each in desk.remove_assumption(rests.id, id, project="p").assumptions}
    point = desk.add_point("impact", "Forty chairs a week.", id, project="p")
    moved = desk.revise_point(point.id.lower(), id, project="p", section="causes").points[-1]
    worded = desk.revise_point(point.id, id, project="p", text="fifty chairs a week.").points[-1]
    assert (moved.id, moved.section, moved.text) == (point.id, "causes", "Forty chairs a week.")
    assert (worded.id, worded.section, worded.text) == (point.id, "causes", "Fifty chairs a week.")
    assert point.id not in {each.id for each in desk.remove_point(point.id, id, project="p").points}
    assert desk.set_mode("solution", id, project="p").mode == "solution"
    for ending, start in ((".md", b"**Chairs**"), (".docx", b"PK")):
        out = tmp_path / f"brief{ending}"
        made = desk.document(id, project="p", mode="problem", title="Chairs", out=out)
        assert made.title == "Chairs" and out.read_bytes().startswith(start)
    assert filled.artifacts(project="p") == []
    kept = desk.document(id, project="p", out=tmp_path / "kept.md", keep=True)
    assert filled.artifacts(project="p") == [kept] == [filled.artifact(kept.id, project="p")]
    assert kept.title in (tmp_path / "kept.md").read_text()
    desk.set_org_context(" We sell chairs. ", project="p")
    assert desk.org_context(project="p") == "We sell chairs."
    assert desk.rename(id, "Chairs", project="p").title == "Chairs" == desk.get(project="p").talk.title
    wrong: list[tuple[type[Exception], Any]] = [
        (UserError, lambda: desk.begin("x" * 1_001, project="p")),
        (UserError, lambda: desk.begin(project="p", mode="lunch")),
        (UserError, lambda: desk.rename(id, " ", project="p")),
        (UserError, lambda: desk.rename(id, "x" * 1_001, project="p")),
        (UserError, lambda: desk.say("  ", id, project="p")),
        (UserError, lambda: desk.say("x" * 100_001, id, project="p")),
        (UserError, lambda: desk.say("Hello there.", id, project="p", probe="lunch")),
        (UserError, lambda: desk.say("Hello there.", id, project="p", mode="lunch")),
        (Conflict, lambda: desk.say("Hello there.", id, project="p", turn=2)),
        (UserError, lambda: desk.add_assumption("Chairs fly.", id, project="p", impact="grave")),
        (Conflict, lambda: desk.add_assumption("Shops still hand it out.", id, project="p")),
        (UserError, lambda: desk.revise_assumption("A1", id, project="p", depends_on=["A1"])),
        (UserError, lambda: desk.revise_assumption("A1", id, project="p", status="shaken")),
        (NotFound, lambda: desk.revise_assumption("A99", id, project="p")),
        (NotFound, lambda: desk.remove_assumption("A99", id, project="p")),
        (NotFound, lambda: desk.remove_point("P99", id, project="p")),
        (NotFound, lambda: desk.revise_point("P99", id, project="p", text="Soup.")),
        (UserError, lambda: desk.revise_point("P1", id, project="p", section="lunch")),
        (UserError, lambda: desk.revise_point("P1", id, project="p", text=" ")),
        (UserError, lambda: desk.add_point("lunch", "Soup.", id, project="p")),
        (UserError, lambda: desk.set_mode("lunch", id, project="p")),
        (UserError, lambda: desk.document(id, project="p", out=tmp_path / "brief.pdf")),
        (UserError, lambda: desk.document(id, project="p", mode="lunch")),
        (UserError, lambda: desk.set_org_context("x" * 6_001, project="p")),
        (NotFound, lambda: desk.get("nothing", project="p")),
        (NotFound, lambda: desk.say("Hello there.", "nothing", project="p")),
        (NotFound, lambda: desk.remove("nothing", project="p")),
        (NotFound, lambda: desk.all(project="none")),
        (NotFound, lambda: desk.org_context(project="none")),
    ]
    for kind, work in wrong:
        with pytest.raises(kind) as problem:
            work()
        assert getattr(problem.value, "hint", ""), problem.value
    cancel = Cancel()
    cancel.set()
    with pytest.raises(Cancelled):
        desk.say("Hello there.", id, project="p", cancel=cancel)
    assert desk.get(id, project="p").state.turn == 4
    assert desk.remove("last", project="p").id == id and desk.all(project="p") == []
    with pytest.raises(NotFound):
        desk.get(project="p")


def test_both_lead_the_same_interview(here: Ragforge, tmp_path: Path) -> None:
    here.create_project("q", strategy=SMALL, embedder="hashing")
    for project in ("p", "q"):
        here.add(tmp_path / "docs", project=project)
    with serving(here) as url, RemoteForge(url) as remote:
        led: dict[str, list[Any]] = {}
        for project, either in (("p", here), ("q", remote)):
            desk: Either = either.discovery
            id = desk.begin("Returns", project=project).id
            led[project] = [desk.say(each, id, project=project) for each in SAYINGS]
        mine, theirs = led["p"], led["q"]
        for ours, other in zip(mine, theirs, strict=True):
            assert ours.turn.answer == other.turn.answer and ours.turn.number == other.turn.number
            assert ours.account.decision == other.account.decision and ours.account.changes == other.account.changes
            assert [each.name for each in ours.account.sections] == [each.name for each in other.account.sections]
            assert [each.text for each in ours.account.sources] == [each.text for each in other.account.sources]
            for part in ("assumptions", "points", "asked"):
                kept = [
                    [
                        {**encode(each), "cited": [], "documents": [], "evidence": []}
                        for each in getattr(turn.state, part)
                    ]
                    for turn in (ours, other)
                ]
                assert kept[0] == kept[1]
        assert any(turn.turn.citations for turn in theirs), "the documents were asked too"
        local, away = here.discovery, remote.discovery
        for read in ("get", "turns", "progress", "open_questions", "versions", "opening", "all", "org_context"):
            assert getattr(local, read)(project="q") == getattr(away, read)(project="q"), read
        assert local.modes() == away.modes()
        made = [each.document(project="q") for each in (local, away)]
        assert replace(made[0], id="", made_at=made[1].made_at) == replace(made[1], id="")


def test_indexes(filled: Either) -> None:
    assert all(isinstance(event, Progress) for event in filled.rebuilding(project="p"))
    before = filled.project("p")
    list(filled.reindexing(project="p", strategy=replace(SMALL, leaf_max=50)))
    assert filled.project("p").generation == before.generation + 1
    assert filled.search(QUESTION, project="p", k=1).passages[0].name == "chairs.md"


def ended(forge: Either, job: Job) -> Job:
    deadline = time.monotonic() + 60
    while not (found := forge.job(job.id)).ended:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert isinstance(found, Job)
    return found


def test_long_work_is_asked_for_and_followed(filled: Either, tmp_path: Path) -> None:
    lines = tmp_path / "own.jsonl"
    lines.write_text(json.dumps({"question": QUESTION, "documents": ["chairs.md"]}) + "\n")
    list(filled.importing_questions(lines, project="p"))
    before, smaller = filled.project("p").generation, asdict(replace(SMALL, leaf_max=50))
    work: dict[str, dict[str, Any]] = {
        "make": {"kind": "blueprint", "title": "Chairs"},
        "evaluate": {"questions": "own", **asdict(Tuning(k=1))},
        "rebuild": {},
        "reindex": {"strategy": smaller, "embedder": None},
    }
    done = {}
    for kind, payload in work.items():
        job = filled.enqueue(kind, payload, project="p", key=f"once-{kind}", priority=Priority.HIGH)
        assert job.priority is Priority.HIGH
        assert filled.enqueue(kind, payload, project="p", key=f"once-{kind}").id == job.id
        done[kind] = ended(filled, job)
        assert (done[kind].kind, done[kind].state, done[kind].error) == (kind, JobState.DONE, "")
    assert filled.artifact(done["make"].result["artifact"], project="p").title == "Chairs"
    assert filled.evaluation(done["evaluate"].result["run"], project="p").run.settings["k"] == 1
    assert filled.project("p").generation == before + 1
    with pytest.raises(NotFound):
        filled.enqueue("rebuild", {}, project="none")


def test_a_server_does_not_do_every_kind_of_work(here: Ragforge) -> None:
    with serving(here) as url, RemoteForge(url) as remote:
        for kind in ("upload", "add", "nonsense"):
            with pytest.raises(UserError, match=kind) as problem:
                remote.enqueue(kind, {}, project="p")
            assert "make, evaluate, checkpoint, rebuild, reindex" in problem.value.hint


def test_how_the_server_is(forge: Either) -> None:
    assert forge.tuning() == Tuning()
    assert all(finding.ok for finding in forge.ready())
    assert {"catalog", "database", "indexes", "disk", "embedder"} <= {finding.subject for finding in forge.ready()}
    assert forge.language_models().models == ()


def test_a_server_that_cannot_work_says_which_part_is_missing(tmp_path: Path) -> None:
    nowhere = {"embed__model": "minilm", "embed__fallback": "", "store__models_dir": str(tmp_path / "none")}
    with open_forge(tmp_path / "ws", **nowhere) as here, serving(here) as url, RemoteForge(url) as remote:
        (missing,) = [finding for finding in remote.ready() if not finding.ok]
    assert (missing.subject, missing.detail) == ("embedder", "the model of the settings is not here")


def test_models_are_told_without_keys_and_to_others_without_addresses(tmp_path: Path) -> None:
    with open_forge(tmp_path / "ws", None, model__name="openai:gpt-5-mini", model__cheap="ollama:llama3.2") as here:
        _, secret = here.access().create("reader", Role.READER)
        mine = here.language_models()
        with serving(here) as url, RemoteForge(url, key=secret) as remote:
            theirs = remote.language_models()
    assert mine.ollama_url and not theirs.ollama_url
    answers, cheap = theirs.models
    assert (answers.card, answers.key_name) == (mine.models[0].card, "OPENAI_API_KEY")
    assert "http" in mine.models[1].problem and cheap.problem == "no Ollama answers at its address"
    assert replace(theirs, ollama_url=mine.ollama_url, models=(answers, mine.models[1])) == mine


# -- what only a network does


def test_keys(here: Ragforge, tmp_path: Path) -> None:
    here.add(tmp_path / "docs", project="p")
    reader, secret = here.access().create("reader", Role.READER)
    with serving(here) as url:
        with RemoteForge(url, key=secret) as remote:
            assert [each.slug for each in remote.projects()] == ["p"]
            with pytest.raises(NotAllowed):
                remote.remove_project("p")
            here.access().revoke(reader.id)
            time.sleep(1)
            with pytest.raises(Unauthenticated, match="no such key") as wrong:
                remote.projects()
        with RemoteForge(url) as remote, pytest.raises(Unauthenticated, match="a key is needed") as none:
            remote.projects()
        assert all("key=" in problem.value.hint and "Bearer" not in problem.value.hint for problem in (wrong, none))


def test_what_counts_today_is_not_removed_with_a_key(here: Ragforge, tmp_path: Path) -> None:
    here.add(tmp_path / "docs", project="p")
    _, secret = here.access().create("admin", Role.ADMIN, clearance=Clearance.RESTRICTED)
    with serving(here) as url, RemoteForge(url, key=secret) as remote:
        time.sleep(0.6)  # until it is known that there are keys
        remote.ask(QUESTION, project="p")
        with pytest.raises(NotAllowed, match="today"):
            remote.prune_log(datetime.now(UTC) + timedelta(minutes=1), project="p")
        assert remote.prune_log(datetime.now(UTC) - timedelta(days=1), project="p") == 0
        assert len(remote.query_log(project="p")) == 1


def test_lists_come_whole(here: Ragforge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragforge.client.remote._PAGE", 3)
    here.add(fill(tmp_path / "many", 10), project="p")
    with serving(here) as url, RemoteForge(url) as remote:
        assert remote.documents(project="p") == here.documents(project="p")
        assert remote.documents(project="p", limit=7) == here.documents(project="p", limit=7)


def test_files_of_one_name_are_refused_before_anything_is_sent(here: Ragforge, tmp_path: Path) -> None:
    (tmp_path / "docs" / "more").mkdir()
    (tmp_path / "docs" / "more" / "chairs.md").write_text(DESKS)
    with serving(here) as url, RemoteForge(url) as remote:
        with pytest.raises(UserError, match="two files are called"):
            remote.add(tmp_path / "docs", project="p")
        assert remote.documents(project="p") == []


def test_a_slow_server_is_waited_for(here: Ragforge, tmp_path: Path) -> None:
    with (
        open_forge(tmp_path / "slow", WatchedEmbedder(64, lambda: time.sleep(1.5))) as forge,
        serving(forge) as url,
        RemoteForge(url, timeout=0.8) as remote,
    ):
        assert [file.outcome for file in remote.add(tmp_path / "docs", project="p").files] == [Outcome.READY] * 2


def test_what_is_added_is_cancelled_there(here: Ragforge, tmp_path: Path) -> None:
    class Endless(HashingEmbedder):
        def embed(self, passages: Sequence[Passage], cancel: Cancel) -> Matrix:
            threading.Timer(0.1, stop.set).start()
            if cancel.wait(20):
                raise Cancelled
            raise AssertionError("nobody told it")

    stop = Cancel()
    with open_forge(tmp_path / "stuck", Endless(64)) as forge, serving(forge) as url, RemoteForge(url) as remote:
        with pytest.raises(Cancelled):
            remote.add(fill(tmp_path / "many", 4), project="p", cancel=stop)
        assert [job.state for job in forge.jobs()] == [JobState.CANCELLED] * 4


def test_a_question_that_is_cancelled_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with RemoteForge(address, timeout=20) as remote:
            for work in (remote.search, remote.explain, remote.prompt):
                began = time.monotonic()
                with pytest.raises(Cancelled):
                    work(QUESTION, project="p", cancel=Cancel(0.2))
                assert time.monotonic() - began < 2


def test_a_key_that_must_wait_goes_on(here: Ragforge, tmp_path: Path) -> None:
    _, secret = here.access().create("k", Role.EDITOR, limits=KeyLimits(requests_per_minute=60))
    with serving(here) as url, RemoteForge(url, key=secret) as remote:
        time.sleep(0.6)  # until it is known that there are keys
        with pytest.raises(OverLimit) as problem:
            for _ in range(70):
                remote.projects()
        assert problem.value.retry_after == 1
        began = time.monotonic()
        assert [file.outcome for file in remote.add(tmp_path / "docs", project="p").files] == [Outcome.READY] * 2
        assert time.monotonic() - began > 1


def test_a_request_of_another_shape_is_refused() -> None:
    with RemoteForge("http://127.0.0.1:1") as remote, pytest.raises(UserError, match="request"):
        remote.ask(QUESTION, request="a b")


def test_what_cannot_be_sent_is_told(here: Ragforge, tmp_path: Path) -> None:
    with serving(here) as url, RemoteForge(url) as remote:
        with pytest.raises(UserError, match="cannot be sent"):
            remote.upload(tmp_path / "docs" / "chairs.md", project="p", key="schlüssel")
        (tmp_path / "docs" / os.fsdecode(b"caf\xe9.md")).write_text(DESKS + "Coffee.")
        remote.add(tmp_path / "docs", project="p")
        assert "caf\ufffd.md" in {document.name for document in here.documents(project="p")}


def test_nobody_is_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    remote = RemoteForge(f"http://127.0.0.1:{port}")
    remote.close()
    with pytest.raises(RuntimeError, match="closed"):
        remote.projects()
    with RemoteForge(f"http://127.0.0.1:{port}") as remote:
        for work in (remote.projects, lambda: remote.ask(QUESTION), lambda: remote.content("x")):
            with pytest.raises(StoreError) as problem:
                work()
            assert "does not answer" in problem.value.message and problem.value.hint


@contextmanager
def cutting(target: str, after_bytes: int) -> Iterator[str]:
    """A way to a server that cuts every connection after so many bytes of its answer."""
    host, port = target.removeprefix("http://").split(":")
    listening = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def pump(source: socket.socket, sink: socket.socket, most: int | None) -> None:
        sent = 0
        try:
            while data := source.recv(256):
                sink.sendall(data)
                sent += len(data)
                if most is not None and sent >= most:
                    break
        except OSError:
            pass
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        while not ended.is_set():
            try:
                client, _ = listening.accept()
            except OSError:
                return
            upstream = socket.create_connection((host, int(port)))
            threading.Thread(target=pump, args=(client, upstream, None), daemon=True).start()
            threading.Thread(target=pump, args=(upstream, client, after_bytes), daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        ended.set()
        listening.close()


def test_an_answer_that_is_cut_off_goes_on(here: Ragforge, tmp_path: Path) -> None:
    here.add(tmp_path / "docs", project="p")
    with serving(here) as url, RemoteForge(url) as whole:
        expected = list(whole.stream(QUESTION, project="p", ephemeral=True))
        with cutting(url, 9_000) as cut, RemoteForge(cut) as remote:
            events = list(remote.stream(QUESTION, project="p", ephemeral=True))
    assert [type(event) for event in events] == [type(event) for event in expected]
    assert isinstance(events[-1], DoneEvent) and isinstance(expected[-1], DoneEvent)
    assert events[-1].result.text == expected[-1].result.text


def test_what_is_cancelled_ends_at_once(here: Ragforge, tmp_path: Path) -> None:
    from ragforge.testing.model_server import STALL

    with (
        ModelServer(reply="Within 45 days [1].") as model,
        open_forge(
            tmp_path / "asked", None, model__name="openai-compatible:stub", model__base_url=model.base_url
        ) as forge,
    ):
        forge.add(tmp_path / "docs", project="p")
        with serving(forge) as url, RemoteForge(url) as remote:
            remote.ask(QUESTION, project="p")  # what is imported once takes its time
            model.script(*[STALL] * 4)
            cancel = Cancel()
            threading.Timer(0.5, cancel.set).start()
            began = time.monotonic()
            with pytest.raises(Cancelled):
                remote.ask(QUESTION, project="p", cancel=cancel)
            assert time.monotonic() - began < 5
            cancel = Cancel()
            cancel.set()
            with pytest.raises(Cancelled):
                remote.add(tmp_path / "docs", project="p", cancel=cancel)


def test_what_is_no_ragforge_server_is_told() -> None:
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse

    with listening_to(Starlette()) as url, RemoteForge(url) as remote, pytest.raises(Exception) as problem:
        remote.projects()
    assert "404" in str(problem.value)
    told = pytest.raises(StoreError, match="does not tell whether it can work")
    with listening_to(JSONResponse({"fine": True})) as url, RemoteForge(url) as remote, told:
        remote.ready()


def test_questions_of_several_are_kept_apart(here: Ragforge, tmp_path: Path) -> None:
    with here._parts.catalog.write() as c:
        c.evaluations.put_questions(owner(), here.project("p").id, "mine", "", [Question("a/b", "word", {})])
    with serving(here) as url, RemoteForge(url) as remote:
        assert remote.questions("mine", project="p") == here.questions("mine", project="p")
        with pytest.raises(NotFound):
            remote.questions("a/b", project="p")
