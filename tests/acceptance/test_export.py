"""One project as an open archive: read without ragforge, taken in elsewhere without a model, and only once."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ragforge import Ragforge
from ragforge.domain.archives import ExportReport, ImportedProject
from ragforge.domain.conversation import ConversationKind, Rollup, Turn
from ragforge.domain.discovery import (
    Cited,
    Evidence,
    InterviewState,
    Point,
    with_turns,
    without_documents,
)
from ragforge.domain.evaluation import Question, Run
from ragforge.domain.library import Labels, Status
from ragforge.domain.plain import decode, encode
from ragforge.domain.records import ProjectTextKind
from ragforge.errors import RagforgeError
from ragforge.operate.access import owner
from ragforge.settings import load
from ragforge.testing.records import artifact, source
from tests.forge import WatchedEmbedder, faults, fill, open_forge, places_of, prose, text_of
from tests.shell import Shell


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[Ragforge]:
    """A project with some of everything."""
    docs = tmp_path / "docs"
    with open_forge(tmp_path / "ws") as forge:
        fill(docs, 5)
        (docs / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
        (docs / "copy.md").write_bytes((docs / "file0001.md").read_bytes())
        (docs / "Grüße und Maße.md").write_text("# Maße\n\nDie Platte misst 160 mal 80 Zentimeter.\n")
        forge.add(docs, project="p", labels=Labels(tags=("furniture",)))
        forge.enable(["file0002.md"], False, project="p")
        for text in ("Be brief.", "Be brief and kind."):
            forge.write_project_text(ProjectTextKind.HARD_RULES, text, project="p")
        talk = forge.begin_conversation("talk", project="p").id
        for number in range(4):
            forge.ask(prose(number).split("\n\n")[1].split(".")[0] + "?", project="p", conversation=talk)
        forge.remove_turn(forge.turns(talk, project="p")[1].id, project="p")
        known = forge.project("p").id
        rollup = Rollup("r" * 32, talk, 1, 3, "Early", "What was said early.", datetime.now(UTC), 5)
        document = forge.document("file0000.md", project="p").id
        with forge._parts.catalog.write() as c:
            c.conversations.roll(owner(), known, rollup, "", None)
            c.artifacts.put(owner(), known, artifact(source(1, document, "some words")))
            c.evaluations.put_questions(owner(), known, "mine", "", [Question("q1", "word1 word2", {document: 1.0})])
        assert isinstance(list(forge.evaluating("mine", project="p"))[-1], Run)
        yield forge


def exported(forge: Ragforge, file: Path, **how: Any) -> ExportReport:
    *_, report = forge.exporting(file, project="p", **how)
    assert isinstance(report, ExportReport)
    return report


def imported(forge: Ragforge, file: Path, project: str = "") -> ImportedProject:
    reports = [event for event in forge.importing(file, project=project) if isinstance(event, ImportedProject)]
    (report,) = reports
    return report


def told(forge: Ragforge, project: str = "p") -> dict[str, object]:
    """What a project says, without ids and times of its own."""
    documents = forge.documents(project=project)
    names = {document.id: document.sha256 for document in documents}
    (talk,) = forge.conversations(project=project)
    (made,) = forge.artifacts(project=project)
    (run,) = forge.evaluations(project=project)
    details = forge.evaluation(run.id, project=project)
    return {
        "documents": sorted(
            (d.sha256, d.name, d.status, d.enabled, d.labels, d.title, d.summary, d.chunks, d.problem, d.type, d.notes)
            for d in documents
        ),
        "sources": sorted(source.key for d in documents for source in d.sources),
        "texts": {d.sha256: text_of(forge, d.id, project) for d in documents},
        "turns": [
            (t.question, t.answer, t.asked_at, t.summary, t.tags, [names[d] for d in t.documents], bool(t.rolled_into))
            for t in forge.turns(talk.id, project=project)
        ],
        "cited": [
            (t.quoted, t.model, [(c.marker, names[c.document], c.name, c.locator, c.quote) for c in t.citations])
            for t in forge.turns(talk.id, project=project)
        ],
        "rollups": [(r.title, r.text) for r in forge.rollups(talk.id, project=project)],
        "rules": [t.text for t in forge.project_text_versions(ProjectTextKind.HARD_RULES, project=project)],
        "questions": [
            (q.id, q.text, [names[d] for d in q.documents]) for q in forge.questions("mine", project=project)
        ],
        "made": (made.title, made.sections[0].text, [names[s.document] for s in made.sources]),
        "run": (run.metrics, [[names[f.document] for f in result.found] for result in details.results]),
        "found": [(p.name, round(p.score, 5)) for p in forge.search("word1 word22 word333", project=project).passages],
    }


def test_another_workspace_has_the_same_without_a_model(forge: Ragforge, tmp_path: Path) -> None:
    report = exported(forge, tmp_path / "e.zip")
    assert (report.documents, report.files, report.conversations) == (7, 7, 1)
    embedder = WatchedEmbedder()
    with Ragforge.open(tmp_path / "new", embedders={"hashing": embedder}) as other:
        done = imported(other, report.file)
        assert (done.project, done.documents, done.embedded, embedder.calls) == ("p", 7, 0, 0)
        assert told(other) == told(forge)
        (talk,) = other.conversations(project="p")
        chunks = {chunk.id for each in other.documents(project="p") for chunk in other.chunks(each.id, project="p")}
        turns = other.turns(talk.id, project="p")
        assert {cited.chunk for turn in turns for cited in turn.citations} & chunks, "under the ids they have here"
        assert {turn.trace_id for turn in turns} == {""}, "the log stays where it is"
        assert faults(other) == []
        again = imported(other, report.file)
        assert (again.documents, again.unchanged, again.conversations) == (0, 7, 0)
        assert (again.texts, again.question_sets, again.runs, again.artifacts) == (0, 0, 0, 0)
        assert told(other) == told(forge)
        copy = imported(other, report.file, "A copy")
        assert (copy.project, copy.documents, copy.embedded) == ("a-copy", 7, 0)
        assert told(other, "a-copy") == told(forge)
        assert faults(other) == []


def test_an_export_chooses_no_folder_to_write_to(forge: Ragforge, tmp_path: Path) -> None:
    asked = [Question("q1", "word1 word2", {"file0001.md": 1.0})]
    for name in ("mine", "own"):
        with forge._parts.catalog.write() as c:
            c.evaluations.put_questions(owner(), forge.project("p").id, name, str(tmp_path / "chosen"), asked)
    file = exported(forge, tmp_path / "e.zip").file
    with open_forge(tmp_path / "new") as other:
        with other._parts.catalog.write() as c:
            c.evaluations.put_questions(owner(), other.project("p").id, "own", "/ours", asked)
        imported(other, file)
        assert {each.name: each.folder for each in other.question_sets(project="p")} == {"mine": "", "own": "/ours"}


def test_texts_come_in_all_their_versions_or_not_at_all(tmp_path: Path) -> None:
    def current(forge: Ragforge, project: str) -> str:
        return forge.project_text(ProjectTextKind.HARD_RULES, project=project).text

    with open_forge(tmp_path / "ws") as forge:
        for text in ("Be kind.", "Be rude.", "Be kind."):
            forge.write_project_text(ProjectTextKind.HARD_RULES, text, project="p")
        file = exported(forge, tmp_path / "e.zip").file
        forge.create_project("copy", embedder="hashing")
        for times in (3, 0):
            done = imported(forge, file, "copy")
            assert (current(forge, "copy"), done.texts, done.notices) == ("Be kind.", times, ())
        forge.create_project("own", embedder="hashing")
        forge.write_project_text(ProjectTextKind.HARD_RULES, "Never tell prices.", project="own")
        done = imported(forge, file, "own")
        assert (current(forge, "own"), done.texts) == ("Never tell prices.", 0)
        assert any("hard rules" in notice for notice in done.notices), "what is left out is named"


def test_changed_bytes_are_named_and_the_rest_is_taken_in(tmp_path: Path) -> None:
    with open_forge(tmp_path / "ws") as forge:
        forge.add(fill(tmp_path / "docs", 2), project="p")
        path = next((forge.workspace / "uploads").glob("*/*/*"))
        path.chmod(0o600)
        path.write_bytes(path.read_bytes() + b"rot")
        report = exported(forge, tmp_path / "e.zip")
        assert (report.documents, report.files, len(report.missing)) == (2, 1, 1)
        forge.create_project("copy", embedder="hashing")
        assert imported(forge, report.file, "copy").documents == 2


def test_it_is_read_without_ragforge(forge: Ragforge, tmp_path: Path) -> None:
    with zipfile.ZipFile(exported(forge, tmp_path / "e.zip").file) as archive:
        documents = [json.loads(line) for line in archive.read("documents.jsonl").splitlines()]
        for document in documents:
            path = Path(document["sources"][0]["key"])
            assert archive.read(document["file"]) == path.read_bytes()
            if document["status"] == "ready":
                assert archive.read(document["text"]).decode() == path.read_text()
        chunks = [json.loads(line) for line in archive.read("chunks.jsonl").splitlines()]
        vectors = archive.read("vectors.jsonl").splitlines()
        assert len(chunks) == sum(document["chunks"] for document in documents) >= len(vectors) > 0
        assert all(name.isascii() and ".." not in name for name in archive.namelist())


def test_another_model_embeds_what_came(forge: Ragforge, tmp_path: Path) -> None:
    with_vectors = exported(forge, tmp_path / "e.zip").file
    without = exported(forge, tmp_path / "f.zip", vectors=False)
    assert without.size < with_vectors.stat().st_size
    embedder = WatchedEmbedder(32)
    settings = load(tmp_path / "new", flags={"the test": {"embed.model": "wordllama"}})
    with Ragforge.open(settings, embedders={"hashing": embedder}) as other:
        other.create_project("q", embedder="hashing")
        done = imported(other, with_vectors, "q")
        assert done.embedded and done.notices and embedder.calls
        assert faults(other) == []
        done = imported(other, without.file, "r")
        assert done.embedded and other.project("r").embedder == "wordllama"
        assert [d.status for d in other.documents(project="r")].count(Status.READY) == 6


def test_damaged_exports_are_refused(forge: Ragforge, tmp_path: Path) -> None:
    from tests.acceptance.test_backup import rewritten

    good = exported(forge, tmp_path / "e.zip").file
    with zipfile.ZipFile(good) as archive:
        documents = [json.loads(line) for line in archive.read("documents.jsonl").splitlines()]
        project = json.loads(archive.read("manifest.json"))["project"]

    def lines(**change: Any) -> bytes:
        return b"".join(json.dumps(document | change).encode() + b"\n" for document in documents)

    cases: list[tuple[dict[str, bytes | None], dict[str, Any]]] = [
        ({"documents.jsonl": lines(sha256="0" * 64)}, {}),
        ({"documents.jsonl": lines(sources=[])}, {}),
        ({"documents.jsonl": lines(text="../../etc/passwd")}, {}),
        ({"documents.jsonl": lines(file="files/none")}, {}),
        ({"documents.jsonl": lines(status="odd")}, {}),
        ({"vectors.jsonl": json.dumps({"document": documents[0]["id"], "text": "xyz", "vector": "!"}).encode()}, {}),
        ({}, {"project": None}),
        ({}, {"project": project | {"name": 3}}),
        ({"documents.jsonl": b"[]\n"}, {}),
    ]
    for number, (change, manifest) in enumerate(cases):
        bad = rewritten(good, tmp_path / f"bad{number}.zip", change, manifest)
        with open_forge(tmp_path / f"new{number}") as other:
            with pytest.raises(RagforgeError) as problem:
                imported(other, bad)
            assert problem.value.hint
            assert faults(other) == [], change
    backup = forge.backup(tmp_path / "b.zip").file
    with open_forge(tmp_path / "last") as other, pytest.raises(RagforgeError, match="not what is wanted"):
        imported(other, backup)


# -- interviews


@pytest.fixture
def interviewed(tmp_path: Path) -> Iterator[Ragforge]:
    """A project with an interview that quoted two of its files, of which a turn was taken back."""
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "rules.md").write_text(
        "# Returns\n\nReturns cost 40 euros a ticket, 600 tickets a month, says the report.\n"
    )
    (docs / "freeze.md").write_text("# Freeze\n\nBecause of the returns freeze nobody changes the shop, by law.\n")
    with open_forge(tmp_path / "ws") as forge:
        forge.add(docs, project="p")
        id = forge.discovery.begin("Returns", project="p").id
        forge.discovery.say("We are Nordlicht, a maker of furniture, and I lead its support.", id, project="p")
        forge.discovery.say("That was nonsense about the ostriches.", id, project="p")
        forge.discovery.undo(id, project="p")
        forge.discovery.say("I think most returns come from the old memo in the showrooms.", id, project="p")
        forge.discovery.say("If the memo stays, returns will grow by 10 percent a month.", id, project="p")
        forge.discovery.add_assumption("Nobody reads the wiki.", id, project="p", depends_on=["A1"])
        by_name = {each.name: each for each in forge.documents(project="p")}
        with forge._parts.catalog.write() as c:
            known = forge.project("p").id
            state = c.interviews.get(owner(), known, id)
            for name in ("rules.md", "freeze.md"):
                document = by_name[name].id
                chunk = forge.chunks(name, project="p")[0]
                passage = Cited(chunk.id, document, name, chunk.locator, chunk.checksum, chunk.text)
                number = state.numbers[1] + 1
                new = Point(f"P{number}", "impact", chunk.text, 4, "impact.size", (passage,), "A1", (document,))
                first, *others = state.assumptions
                first = replace(first, evidence=(*first.evidence, Evidence(chunk.text, 4, (passage,))))
                state = replace(
                    state,
                    points=(*state.points, new),
                    assumptions=(first, *others),
                    numbers=(state.numbers[0], number),
                )
            c.interviews.put(owner(), known, id, state)
        forge.discovery.document(id, project="p", mode="problem", keep=True)
        yield forge


def known(forge: Ragforge, project: str = "p") -> tuple[InterviewState, list[Turn]]:
    """What an interview knows, with files by their name and chunks by their text."""
    names = {each.id: each.name for each in forge.documents(project=project)}
    names |= {
        chunk.id: f"{names[id]} {chunk.position}" for id in list(names) for chunk in forge.chunks(id, project=project)
    }
    (talk,) = forge.discovery.all(project=project)
    told = encode(forge.discovery.get(talk.id, project=project).state)

    def named(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: named(item) for key, item in value.items()}
        return [named(each) for each in value] if isinstance(value, list) else names.get(value, value)

    return decode(InterviewState, named(told)), forge.discovery.turns(talk.id, project=project)


def test_an_interview_travels_with_what_it_knows(interviewed: Ragforge, tmp_path: Path) -> None:
    forge = interviewed
    before, turns = known(forge)
    assert [turn.number for turn in turns] == [1, 3, 4] and before.turn == 4
    file = exported(forge, tmp_path / "e.zip").file
    with open_forge(tmp_path / "new") as other:
        other.discovery.begin("Theirs", project="p")
        other.discovery.remove("last", project="p")
        assert imported(other, file).conversations == 1
        after, moved = known(other)
        assert [turn.number for turn in moved] == [1, 2, 3] and after.turn == 3, "numbers are given without gaps"
        numbers = {1: 1, 3: 2, 4: 3}
        assert after == replace(with_turns(before, numbers), version=1)
        assert [each.turn for each in after.points] == [numbers[each.turn] for each in before.points]
        assert {each.document for point in after.points for each in point.cited} >= {"rules.md", "freeze.md"}
        assert {each.chunk for each in after.points[-1].cited} == {"freeze.md 0"}, "under the ids they have here"
        assert [(turn.question, turn.answer, turn.probe, turn.summary) for turn in moved] == [
            (turn.question, turn.answer, turn.probe, turn.summary) for turn in turns
        ]
        assert other.discovery.org_context(project="p") == forge.discovery.org_context(project="p") != ""
        state_file = other.workspace / "projects" / "p" / "project_state.json"
        assert json.loads(state_file.read_text())["org_context"] == forge.discovery.org_context(project="p")
        (made,) = other.artifacts(project="p")
        assert made.kind == "problem-brief" and {source.document for source in made.sources} >= {""}
        assert faults(other) == []
        said = other.discovery.say("Support answers 40 tickets a week.", project="p")
        assert said.turn.number == 4 and said.state.version == 2, "it goes on there"
        again = imported(other, file)
        assert again.conversations == 0 and known(other)[0].version == 2, "what went on here stays"
        assert imported(other, file, "copy").conversations == 1
        assert known(other, "copy")[0] == after


def test_what_holds_words_of_a_file_that_is_not_in_the_archive_stays_out(interviewed: Ragforge, tmp_path: Path) -> None:
    from tests.acceptance.test_backup import rewritten

    forge = interviewed
    file = exported(forge, tmp_path / "e.zip").file
    with zipfile.ZipFile(file) as archive:
        documents = [json.loads(line) for line in archive.read("documents.jsonl").splitlines()]
    gone = next(each["id"] for each in documents if each["name"] == "freeze.md")
    some = "".join(f"{json.dumps(each)}\n" for each in documents if each["id"] != gone).encode()
    less = rewritten(file, tmp_path / "less.zip", {"documents.jsonl": some, "vectors.jsonl": None, "chunks.jsonl": b""})
    with open_forge(tmp_path / "new") as other:
        imported(other, less)
        after, _ = known(other)
        assert any(each.document == "rules.md" for point in after.points for each in point.cited)
        assert "nobody changes" not in repr(after) and gone not in repr(after)
        before = with_turns(known(forge)[0], {1: 1, 3: 2, 4: 3})
        expected = without_documents(before, {"freeze.md"})
        assert [each.id for each in after.points] == [each.id for each in expected.points]
        assert [each.evidence for each in after.assumptions] != [each.evidence for each in before.assumptions]
        assert faults(other) == []
        assert places_of(b"nobody changes", other.workspace) == []


def test_what_is_known_of_an_organisation_only_fills_an_empty_place(interviewed: Ragforge, tmp_path: Path) -> None:
    from tests.acceptance.test_backup import rewritten

    file = exported(interviewed, tmp_path / "e.zip").file
    with open_forge(tmp_path / "new") as other:
        other.discovery.set_org_context("We are the others.", project="p")
        done = imported(other, file)
        assert other.discovery.org_context(project="p") == "We are the others."
        assert any("organisation" in notice for notice in done.notices), "what is left out is named"
        other.create_project("q", embedder="hashing")
        long = rewritten(file, tmp_path / "long.zip", {}, {"org_context": "x" * 100_000})
        imported(other, long, "q")
        assert len(other.discovery.org_context(project="q")) == 6_000
        with pytest.raises(RagforgeError, match="damaged"):
            imported(other, rewritten(file, tmp_path / "bad.zip", {}, {"org_context": 3}), "r")


def test_archives_of_older_versions_still_come_in(forge: Ragforge, tmp_path: Path) -> None:
    """Before there were interviews."""
    from tests.acceptance.test_backup import rewritten

    file = exported(forge, tmp_path / "e.zip").file
    with zipfile.ZipFile(file) as archive:
        talks = [json.loads(line) for line in archive.read("conversations.jsonl").splitlines()]
        manifest = json.loads(archive.read("manifest.json"))
    for line in talks:
        del line["conversation"]["kind"]
        assert "state" not in line
    assert manifest["org_context"] == ""
    lines = "".join(f"{json.dumps(line)}\n" for line in talks).encode()
    old = rewritten(file, tmp_path / "old.zip", {"conversations.jsonl": lines}, without=["org_context"])
    with open_forge(tmp_path / "new") as other:
        imported(other, old)
        assert told(other) == told(forge)
        (talk,) = other.conversations(project="p")
        assert talk.kind is ConversationKind.CHAT and other.discovery.all(project="p") == []
        assert faults(other) == []


def test_damaged_interviews_are_refused(interviewed: Ragforge, tmp_path: Path) -> None:
    from tests.acceptance.test_backup import rewritten

    file = exported(interviewed, tmp_path / "e.zip").file
    with zipfile.ZipFile(file) as archive:
        (line,) = [json.loads(line) for line in archive.read("conversations.jsonl").splitlines()]
    state = line["state"]
    twice = [*state["assumptions"], state["assumptions"][0]]
    odd = [{**state["points"][0], "id": "P1; x"}]
    cases: list[dict[str, Any] | None] = [
        None,
        {**state, "points": 3},
        {**state, "numbers": [1]},
        {**state, "assumptions": twice},
        {**state, "points": odd},
        {**state, "more": 1},
    ]
    for number, wrong in enumerate(cases):
        lines = f"{json.dumps(line | {'state': wrong})}\n".encode()
        bad = rewritten(file, tmp_path / f"bad{number}.zip", {"conversations.jsonl": lines})
        with open_forge(tmp_path / f"new{number}") as other:
            with pytest.raises(RagforgeError, match="damaged") as problem:
                imported(other, bad)
            assert problem.value.hint and other.discovery.all(project="p") == [] and faults(other) == []
    linked = {**state, "assumptions": [{**each, "depends_on": ["A1", "A77"]} for each in state["assumptions"]]}
    linked |= {"numbers": [0, 0], "version": 40}
    lines = f"{json.dumps(line | {'state': linked})}\n".encode()
    with open_forge(tmp_path / "linked") as other:
        imported(other, rewritten(file, tmp_path / "linked.zip", {"conversations.jsonl": lines}))
        after, _ = known(other)
        assert after.version == 1 and all(each.depends_on == ("A1",) for each in after.assumptions)
        new = other.discovery.add_assumption("Another thing is so.", project="p")
        assert new.id not in {each.id for each in after.assumptions}, "no number is given twice"


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGFORGE_EMBED__MODEL", "wordllama")
    fill(tmp_path / "docs", 2)
    shell, other = (Shell(tmp_path / name, capsys) for name in ("ws", "other"))
    shell.run("add", str(tmp_path / "docs"), "-p", "demo")
    file = str(tmp_path / "e.zip")
    assert shell.json("export", file, "-p", "demo")["export"]["documents"] == 2
    assert "2 new files" in other.run("import", file).stderr
    assert "2 known" in other.run("import", file).stderr
    assert other.json("import", file, "-p", "Second")["import"]["project"] == "second"
    assert other.json("check")["ok"]
