"""O2: stored questions, runs recorded with what was found and how good it was, compared run against run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from ragforge import Ragforge
from ragforge.domain.access import Clearance
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.evaluation import ImportReport, Run
from ragforge.domain.library import Outcome
from ragforge.domain.tokens import Vector
from ragforge.errors import NotFound, ProviderError, UserError
from ragforge.evaluate.report import page
from ragforge.evaluate.summary import hidden
from ragforge.interfaces.cli.main import main
from ragforge.testing.hashing import HashingEmbedder
from tests.forge import open_forge

ANIMALS = ("otter", "heron", "badger", "lynx", "marmot", "osprey")


def text_of(animal: str) -> str:
    return f"# The {animal}\n\nA {animal} was seen at the river. The {animal} stayed until the evening came.\n"


def write_questions(path: Path, **changes: Any) -> Path:
    lines = [{"id": name, "question": f"Where was the {name}?", "documents": [name]} for name in ANIMALS]
    path.write_text("".join(f"{json.dumps({**line, **changes})}\n" for line in lines))
    return path


def write_beir(folder: Path) -> Path:
    folder.mkdir()
    with (folder / "corpus.jsonl").open("w") as file:
        for name in ANIMALS:
            file.write(json.dumps({"_id": f"doc/{name}", "title": name.title(), "text": text_of(name)}) + "\n")
        file.write(json.dumps({"_id": "nothing", "title": "", "text": ""}) + "\n")
    queries = [{"_id": str(n), "text": f"Where was the {name}?"} for n, name in enumerate((*ANIMALS, "owl"))]
    (folder / "queries.jsonl").write_text("".join(f"{json.dumps(query)}\n" for query in queries))
    judged = ["query-id\tcorpus-id\tscore", *(f"{n}\tdoc/{name}\t2" for n, name in enumerate(ANIMALS))]
    (folder / "qrels.tsv").write_text("\n".join([*judged, "0\tdoc/heron\t1", "0\tgone\t1"]) + "\n")
    return folder


def imported(forge: Ragforge, path: Path, **how: Any) -> ImportReport:
    *_, report = forge.importing_questions(path, project="p", **how)
    assert isinstance(report, ImportReport)
    return report


def evaluated(forge: Ragforge, questions: str = "questions", label: str = "", **tuning: Any) -> Run:
    *_, run = forge.evaluating(questions, project="p", label=label, tuning=replace(forge.tuning(), **tuning))
    assert isinstance(run, Run)
    return run


@pytest.fixture
def forge(swift_path: Path) -> Iterator[Ragforge]:
    docs = swift_path / "docs"
    docs.mkdir()
    for name in ANIMALS:
        (docs / f"{name}.md").write_text(text_of(name))
    with open_forge(swift_path / "workspace") as forge:
        forge.add(docs, project="p")
        yield forge


def test_O2_a_run_keeps_what_was_found_and_how_good_it_was(forge: Ragforge, tmp_path: Path) -> None:
    report = imported(forge, write_questions(tmp_path / "questions.jsonl"))
    assert (report.changed, report.questions.questions, report.questions.judged) == (True, 6, 6)
    run = evaluated(forge, label="first")
    assert run.metrics["ndcg@10"] == run.metrics["recall@1"] == run.metrics["mrr"] == 1
    assert run.metrics["precision@10"] == pytest.approx(0.1)
    assert (run.asked, run.scored, run.missing, run.degraded) == (6, 6, 0, 0)
    assert run.ended_at >= run.started_at and run.milliseconds > 0
    with open_forge(forge.workspace) as again:
        details = again.evaluation(run.id[:6], project="p")
        assert details.run == run == again.evaluations(project="p")[0]
        ids = {document.name: document.id for document in again.documents(project="p")}
        for name, result in zip(ANIMALS, details.results, strict=True):
            assert (result.question, result.text) == (name, f"Where was the {name}?")
            assert [(w.name, w.grade, w.found_as) for w in result.wanted] == [(name, 1, ids[f"{name}.md"])]
            assert (result.found[0].document, result.found[0].name) == (ids[f"{name}.md"], f"{name}.md")
            assert [p.score for p in result.found] == sorted((p.score for p in result.found), reverse=True)
            (chunk,) = again.chunks(f"{name}.md", project="p")
            assert result.found[0].chunk == chunk.id


def test_O2_settings_are_kept_whole_and_hashed(forge: Ragforge, tmp_path: Path) -> None:
    imported(forge, write_questions(tmp_path / "questions.jsonl"))
    first, again, other = evaluated(forge), evaluated(forge), evaluated(forge, alpha=0.1, k=3)
    assert first.settings_hash == again.settings_hash != other.settings_hash
    assert (other.settings["alpha"], other.settings["k"]) == (0.1, 3)
    assert first.settings["alpha"] == HashingEmbedder(64).card.fusion_weight, "what was used, not that it was left open"
    project = forge.project("p")
    assert first.settings.keys() >= asdict(forge.tuning()).keys()
    assert first.settings["embedder_fingerprint"] == project.embedder_fingerprint
    assert first.settings["chunker"] == project.chunker and first.settings["words"]
    assert {name.partition("@")[2] for name in other.metrics} == {"", "1", "3"}


def test_O2_a_bad_line_imports_nothing(swift_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(swift_path)
    beir = write_beir(swift_path / "animals")
    with Ragforge.open(swift_path / "workspace", embedders={"hashing": HashingEmbedder(64)}) as forge:
        for name, line in (("corpus.jsonl", '{"text": 5}\n'), ("qrels.tsv", "99\tx\t1\n"), ("queries.jsonl", "x\n")):
            good = (beir / name).read_text()
            (beir / name).write_text(good + line)
            with pytest.raises(UserError, match=f"{name} has 1 bad line, nothing was imported: line "):
                imported(forge, beir)
            (beir / name).write_text(good)
        assert forge.projects() == []
        assert not (beir.parent / "animals-documents").exists()


def test_O2_a_beir_folder_brings_its_documents_once(swift_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beir = write_beir(swift_path / "animals")
    monkeypatch.chdir(swift_path)
    with open_forge(swift_path / "workspace") as forge:
        report = imported(forge, beir)
        assert (report.documents, report.empty, report.left_out) == ({Outcome.READY: 6}, 1, 1)
        assert report.questions.name == "animals"
        assert {document.name for document in forge.documents(project="p")} == {f"{name}.md" for name in ANIMALS}
        assert forge.document("otter.md", project="p").title == "Otter"
        before = forge.documents(project="p")
        monkeypatch.chdir(beir)
        again = imported(forge, beir)
        assert (again.changed, again.documents) == (False, {Outcome.UNCHANGED: 6})
        assert forge.documents(project="p") == before and len(forge.question_sets(project="p")) == 1
        (beir / "corpus.jsonl").write_text((beir / "corpus.jsonl").read_text().replace("evening", "morning"))
        assert imported(forge, beir).documents == {Outcome.READY: 6}
        assert len(forge.documents(project="p")) == 6

        run = evaluated(forge, "animals")
        assert (run.asked, run.missing) == (6, 1), "a document that is not there counts as not found"
        assert run.metrics["recall@1"] == pytest.approx((5 + 1 / 3) / 6)
        assert run.metrics["hit@1"] == 1


def test_O2_documents_can_be_left_out_or_come_from_elsewhere(forge: Ragforge, swift_path: Path) -> None:
    beir = write_beir(swift_path / "animals")
    alone = imported(forge, beir, with_corpus=False, name="alone")
    assert alone.documents == {} and alone.questions.folder == ""
    with pytest.raises(NotFound, match="none of the documents that alone wants, such as 'doc/otter'"):
        evaluated(forge, "alone")
    questions = write_questions(swift_path / "questions.jsonl")
    report = imported(
        forge, questions, corpus=beir / "corpus.jsonl", documents=swift_path / "elsewhere", name="with corpus"
    )
    assert report.documents == {Outcome.READY: 6}
    assert (swift_path / "elsewhere" / "doc" / "otter.md").is_file()
    with pytest.raises(UserError, match="would be written into the workspace"):
        imported(forge, beir, documents=forge.workspace / "inside")


def test_O2_what_cannot_be_judged_is_counted(forge: Ragforge, tmp_path: Path) -> None:
    chunk = forge.chunks("lynx.md", project="p")[0].id
    lines = [
        {"question": "Where was the otter?", "documents": ["otter", "nowhere.md"]},
        {"question": "Where was the lynx?", "documents": ["otter"], "chunks": [chunk]},
        {"question": "Where was the heron?"},
        {"question": "Where was the owl?", "doc_ids": ["heron"], "answerable": False},
    ]
    path = tmp_path / "mixed.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert imported(forge, path).questions.judged == 2
    run = evaluated(forge, "mixed")
    assert (run.asked, run.scored, run.missing) == (4, 2, 1)
    assert run.metrics["recall@10"] == pytest.approx(0.75)
    results = forge.evaluation("last", project="p").results
    assert [bool(result.metrics) for result in results] == [True, True, False, False]
    assert all(result.found for result in results), "they are asked all the same"


def test_O2_questions_that_fit_no_document_are_refused(forge: Ragforge, tmp_path: Path) -> None:
    imported(forge, write_questions(tmp_path / "lost.jsonl", documents=["nowhere"]))
    with pytest.raises(NotFound, match="holds none of the documents that lost wants, such as 'nowhere'"):
        evaluated(forge, "lost")
    imported(forge, write_questions(tmp_path / "open.jsonl", documents=[]))
    with pytest.raises(UserError, match="no question of open says which documents"):
        evaluated(forge, "open")
    with pytest.raises(NotFound, match="no set of questions 'nothing'"):
        evaluated(forge, "nothing")
    assert forge.evaluations(project="p") == []


def test_O2_a_name_that_several_files_share_is_refused(forge: Ragforge, swift_path: Path) -> None:
    clear = write_questions(swift_path / "clear.jsonl")
    imported(forge, clear)
    twin = swift_path / "copies" / "heron.md"
    twin.parent.mkdir()
    twin.write_text(text_of("stork"))
    forge.add(twin, project="p")
    ids = sorted(each.id[:8] for each in forge.documents(project="p") if each.name == "heron.md")
    two = rf"could be 2 files \({', '.join(ids)}\)"
    with pytest.raises(UserError, match=f"'Where was the heron\\?' wants 'heron', which {two}") as refused:
        evaluated(forge, "clear")
    assert "id or a path" in refused.value.hint
    with pytest.raises(UserError, match=f"unclear.jsonl has 1 bad line, nothing was imported: line 2: 'heron' {two}"):
        imported(forge, write_questions(swift_path / "unclear.jsonl"))
    assert [each.name for each in forge.question_sets(project="p")] == ["clear"]
    clear.write_text(clear.read_text().replace('["heron"]', '["copies/heron.md"]'))
    imported(forge, clear)
    assert evaluated(forge, "clear").missing == 0


def test_O2_a_corpus_brings_the_files_that_are_meant(forge: Ragforge, swift_path: Path) -> None:
    """Names that several files of the project share are clear when the questions bring their own."""
    for place in ("one", "two"):
        (swift_path / place).mkdir()
        (swift_path / place / "heron.md").write_text(text_of(f"heron of {place}"))
        forge.add(swift_path / place, project="p")
    beir = write_beir(swift_path / "animals")
    for file in ("corpus.jsonl", "qrels.tsv"):
        (beir / file).write_text((beir / file).read_text().replace("doc/", ""))
    for _ in range(2):
        imported(forge, beir, documents=swift_path / "own")
    evaluated(forge, "animals")
    herons = [w.found_as for r in forge.evaluation("last", project="p").results for w in r.wanted if w.name == "heron"]
    assert {forge.document(str(id), project="p").sources[0].key for id in herons} == {str(swift_path / "own/heron.md")}


def test_O2_documents_that_are_all_switched_off_are_refused(forge: Ragforge, tmp_path: Path) -> None:
    imported(forge, write_questions(tmp_path / "questions.jsonl"))
    forge.enable([f"{name}.md" for name in ANIMALS], False, project="p")
    with pytest.raises(UserError, match="the documents that questions wants are switched off, such as 'otter'"):
        evaluated(forge)


def test_O2_a_lower_clearance_sees_metrics_but_no_secret_names(forge: Ragforge, tmp_path: Path) -> None:
    questions = write_questions(tmp_path / "questions.jsonl")
    questions.write_text(questions.read_text().replace('"]}', '", "osprey.md"]}'))
    imported(forge, questions)
    imported(forge, write_questions(tmp_path / "secret.jsonl", documents=["otter"]))
    first, second = evaluated(forge, label="first"), evaluated(forge, label="second", alpha=0.1)
    secret = forge.document("otter.md", project="p")
    (chunk,) = forge.chunks("otter.md", project="p")
    forge.label(["otter.md"], confidentiality=Clearance.RESTRICTED, project="p")
    guest = Ragforge(forge._parts, replace(forge._scope, clearance=Clearance.INTERNAL))
    details = guest.evaluation("first", project="p")
    assert details.run == first and details.results[0].metrics["hit@1"] == 1
    comparison = guest.compare_evaluations("first", "second", project="p")
    assert (comparison.after, comparison.questions, comparison.notice) == (second, 6, "")
    for shown in (json.dumps([asdict(each) for each in details.results]), page(details, comparison)):
        assert not [word for word in ("otter.md", '"name": "otter"', secret.id, chunk.id) if word in shown]
        assert "heron.md" in shown
    assert "some documents are not shown" in page(details)
    assert hidden(forge.evaluation("first", project="p")) == ""
    own = evaluated(guest, label="own")
    assert own.missing == 1
    assert "otter.md" not in page(guest.evaluation("own", project="p"))
    with pytest.raises(NotFound, match=r"none of the documents that secret wants$"):
        evaluated(guest, "secret")


class Mute(HashingEmbedder):
    """Knows no answer to a question."""

    def embed_query(self, text: str, cancel: Cancel) -> Vector:
        raise ProviderError("the model does not answer")


def test_O2_a_part_that_was_missing_is_told(forge: Ragforge, tmp_path: Path) -> None:
    imported(forge, write_questions(tmp_path / "questions.jsonl"))
    forge.close()
    with open_forge(forge.workspace, Mute(64)) as mute:
        run = evaluated(mute)
        assert run.degraded == 6 and run.metrics["hit@1"] == 1
        assert {result.degraded for result in mute.evaluation("last", project="p").results} == {("embedder",)}


def test_O2_a_run_that_is_stopped_leaves_nothing(forge: Ragforge, tmp_path: Path) -> None:
    imported(forge, write_questions(tmp_path / "questions.jsonl"))
    cancel = Cancel()
    with pytest.raises(Cancelled):
        for event in forge.evaluating("questions", project="p", cancel=cancel):
            assert not isinstance(event, Run)
            if event.done == 3:
                cancel.set()
    assert forge.evaluations(project="p") == []


def test_O2_two_runs_are_compared(forge: Ragforge, tmp_path: Path) -> None:
    imported(forge, write_questions(tmp_path / "questions.jsonl"))
    good = evaluated(forge, label="good")
    imported(forge, write_questions(tmp_path / "wrong.jsonl", documents=["osprey"]))
    evaluated(forge, "wrong", label="wrong")
    with pytest.raises(UserError, match="different questions"):
        forge.compare_evaluations("good", "wrong", project="p")
    for name in ANIMALS[:3]:
        forge.enable([f"{name}.md"], False, project="p")
    worse = evaluated(forge, label="half off")
    comparison = forge.compare_evaluations("good", "half off", project="p")
    assert (comparison.before, comparison.after, comparison.questions) == (good, worse, 6)
    change = next(change for change in comparison.metrics if change.metric == "hit@10")
    assert (change.before, change.after, change.wins, change.losses, change.ties) == (1, 0.5, 0, 3, 3)
    assert {q.question for q in comparison.changed} == set(ANIMALS[:3])
    assert comparison == forge.compare_evaluations(good.id, "last", project="p"), "the same every time"
    with pytest.raises(NotFound, match="no run 'nothing'"):
        forge.compare_evaluations("nothing", "last", project="p")


# -- the command line


class Shell:
    """Runs `ragforge` in this process, in a folder of its own."""

    def __init__(self, home: Path, capture: pytest.CaptureFixture[str], env: pytest.MonkeyPatch) -> None:
        self.home = home
        self._capture = capture
        env.chdir(home)
        env.setenv("RAGFORGE_WORKSPACE", str(home / "workspace"))
        env.setenv("RAGFORGE_EMBED__MODEL", "wordllama")
        env.delenv("COLUMNS", raising=False)

    def run(self, *arguments: str, code: int = 0) -> tuple[str, str]:
        self._capture.readouterr()
        returned = main(arguments)
        said = self._capture.readouterr()
        assert returned == code, f"{arguments}: {returned}\n{said}"
        return said.out, said.err

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self.run(*arguments, "--json", code=code)[0])


@pytest.fixture
def shell(swift_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(swift_path, capsys, monkeypatch)


def test_O2_from_the_command_line(shell: Shell) -> None:
    write_beir(shell.home / "animals")
    _, said = shell.run("eval", "import", "animals")
    assert "Imported 6 questions as animals, 6 to judge by; 1 of another split left out" in said
    assert f"Documents in {shell.home / 'animals-documents'}: 6 ready, 1 without text" in said
    assert "Nothing new: 6 questions as animals" in shell.run("eval", "import", "animals")[1]
    out, said = shell.run("eval", "run", "animals", "--label", "usual")
    assert "hit" in out and "1.0000" in out and "6 questions, 1 wanted document not in the project" in out
    assert "Kept as " in said and "searching" not in out
    words = shell.json("eval", "run", "animals", "--label", "words", "--alpha", "0", "--k", "3")
    assert (words["run"]["settings"]["alpha"], words["run"]["settings"]["k"], words["gates"]) == (0, 3, [])
    listed = shell.json("eval", "ls")
    assert [run["label"] for run in listed["runs"]] == ["words", "usual"]
    assert [(s["name"], s["questions"]) for s in listed["sets"]] == [("animals", 6)]
    assert "usual" in shell.run("eval", "ls")[0]
    out, said = shell.run("eval", "compare", "usual", "words", "--html", "compare.html")
    assert out.startswith("usual -> words  animals\nk 10 -> 3, alpha ") and "ndcg@3" in out
    assert "Note: only one of the runs has" in said
    assert "<svg" in (shell.home / "compare.html").read_text()
    assert shell.json("eval", "compare", "usual", "last")["comparison"]["questions"] == 6
    out, _ = shell.run("eval", "show", "usual", "--html", "one.html", "--questions", "1")
    assert "went worst" in out and "gone (not in the project)" in out
    assert len(shell.json("eval", "show", "last")["results"]) == 6
    assert "<svg" in (shell.home / "one.html").read_text()


def test_O2_a_gate_that_is_not_met_ends_with_one(shell: Shell) -> None:
    write_beir(shell.home / "animals")
    shell.run("eval", "import", "animals")
    out, _ = shell.run("eval", "run", "animals", "--fail-under", "hit@1=1", "--fail-under", "recall@10=.95", code=1)
    assert "✓ hit@1 1.0000 reaches 1" in out and "✗ recall@10 0.9444 is under 0.95" in out
    gates = shell.json("eval", "run", "animals", "--fail-under", "recall@10=0.9")["gates"]
    assert [(gate["metric"], gate["met"]) for gate in gates] == [("recall@10", True)]
    assert len(shell.json("eval", "ls")["runs"]) == 2, "a run under its gate is kept too"
    for wrong, says in (
        ("ndcg@7=1", "a run with k 10 has no metric 'ndcg@7'\nNext: --k 7 measures ndcg@7; use one of: ndcg@1, "),
        ("ndcg@0=1", "a run with k 10 has no metric 'ndcg@0'\nNext: use one of: ndcg@1, "),
        ("speed=1", "a run with k 10 has no metric 'speed'\nNext: use one of: ndcg@1, "),
        ("mrr", "has no number\nNext: "),
        ("mrr=nan", "no number\nNext: "),
        ("hit@5=90", "metrics lie between 0 and 1\nNext: write --fail-under hit@5=0.9\n"),
        ("mrr=-1", "metrics lie between 0 and 1\nNext: write --fail-under mrr=0.7\n"),
    ):
        _, said = shell.run("eval", "run", "animals", "--fail-under", wrong, code=2)
        assert says in said
    _, said = shell.run("eval", "run", "animals", "--k", "3", "--fail-under", "ndcg@10=0.5", code=2)
    assert (
        "a run with k 3 has no metric 'ndcg@10'\nNext: --k 10 measures ndcg@10; use one of: ndcg@1, ndcg@3, r" in said
    )
    assert len(shell.json("eval", "ls")["runs"]) == 2, "refused before anything ran"
    assert "✓ ndcg@10" in shell.run("eval", "run", "animals", "--fail-under", "nDCG@10=0.5")[0], "as the page writes it"


def test_O2_what_no_search_can_find_is_told(shell: Shell) -> None:
    write_beir(shell.home / "animals")
    shell.run("eval", "import", "animals")
    shell.run("off", "lynx.md")
    out, _ = shell.run("eval", "run", "animals", "--label", "off")
    assert "6 questions, 1 wanted document not in the project, 1 wanted document switched off; " in out
    out, _ = shell.run("eval", "show", "off", "--html", "off.html")
    assert "wanted  doc/lynx (switched off)\n" in out and "heron.md" in out
    assert "doc/lynx</bdi> <small>switched off</small>" in (shell.home / "off.html").read_text()
    lynx = shell.json("show", "lynx.md")["document"]["id"]
    assert shell.json("eval", "show", "off")["unsearchable"] == {lynx: "switched off"}
    shell.run("on", "lynx.md")
    assert shell.json("eval", "run", "animals")["unsearchable"] == {}


def test_O2_a_reranker_that_is_misspelt_or_not_here(shell: Shell) -> None:
    write_beir(shell.home / "animals")
    shell.run("eval", "import", "animals")
    out, said = shell.run("eval", "run", "animals", "--reranker", "cosin", code=2)
    assert "no reranker is called 'cosin'" in said and out == ""
    assert shell.json("eval", "ls")["runs"] == []
    out, said = shell.run("eval", "run", "animals", "--reranker", "cohere:rerank-v3.5")
    assert "6 searched without the reranker; " in out
    assert "Note: ragforge search 'Where was the otter?' tells what was missing, and why" in said


def test_O2_mistakes_are_told(shell: Shell) -> None:
    (shell.home / "bad.jsonl").write_text("{}\n")
    _, said = shell.run("eval", "import", "bad.jsonl", code=2)
    assert "bad.jsonl has 1 bad line, nothing was imported: line 1" in said
    shell.run("eval", "import", "gone.jsonl", code=5)
    write_beir(shell.home / "animals")
    _, said = shell.run("eval", "import", "animals", "--name", "../x", code=2)
    assert "cannot name a set" in said
    shell.run("eval", "import", "animals")
    assert "no set of questions" in shell.run("eval", "run", "nothing", code=5)[1]
    assert "no run 'last'" in shell.run("eval", "show", "last", code=5)[1]
    shell.run("eval", "run", "animals", "--alpha", "2", code=2)
    shell.run("eval", "run", "animals", "--k", "0", code=2)
    shell.run("eval", "run", "animals")
    _, said = shell.run("eval", "show", "last", "--against", "other", code=2)
    assert "--against needs --html FILE\nNext: ragforge eval compare other last" in said
    assert "same settings" in shell.run("eval", "compare", "last", "last")[0]
    _, said = shell.run("eval", "show", "last", "--html", "no/such/folder.html", code=2)
    assert "cannot write no/such/folder.html" in said
