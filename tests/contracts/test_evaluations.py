"""Question sets and runs in the catalog, on SQLite and on Postgres."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ragforge.adapters.catalog.database import Database
from ragforge.domain.access import Clearance
from ragforge.domain.conversation import FORGOTTEN_ANSWER
from ragforge.domain.evaluation import (
    AnswerKind,
    AnswerResult,
    CitedPassage,
    FoundPassage,
    Judgement,
    Question,
    QuestionResult,
    Run,
    Wanted,
    set_digest,
)
from ragforge.domain.library import Labels
from ragforge.errors import NotFound
from ragforge.operate.access import owner
from ragforge.testing.postgres import TemporaryPostgres
from ragforge.testing.shelf import ManualClock, Shelf, file
from tests.contracts.test_catalog import emptied
from tests.unit.evaluate.records import answered, result, run_of

QUESTIONS = [
    Question("1", "Wo? 日本語 👩‍👩‍👧", {"a.md": 2.0, "ä/b.md": 0.0}, answers=("Hier", "“dort”")),
    Question("2", "Why?", chunks=("c1", "c2")),
    Question("3", "Unknown?", {"a.md": 1.0}, answerable=False),
]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, memory_folder: Path | None) -> Iterator[Database]:
    with tempfile.TemporaryDirectory(dir=memory_folder) as folder:
        if request.param == "sqlite":
            database = Database.sqlite(Path(folder) / "catalog.db", 30)
        else:
            server: TemporaryPostgres = request.getfixturevalue("postgres")
            database = Database.postgres(server.create())
        database.upgrade()
        yield database
        database.close()


@pytest.fixture
def shelf(database: Database, clock: ManualClock) -> Shelf:
    return Shelf.create(emptied(database, clock))


def put(shelf: Shelf, questions: list[Question], name: str = "set", folder: str = "") -> bool:
    with shelf.catalog.write() as c:
        return c.evaluations.put_questions(shelf.scope, shelf.id, name, folder, questions)


def add_run(shelf: Shelf, run: Run, *results: object) -> None:
    with shelf.catalog.write() as c:
        c.evaluations.add_run(shelf.scope, shelf.id, run, results)  # type: ignore[arg-type]


def test_a_set_comes_back_as_it_was(shelf: Shelf, clock: ManualClock) -> None:
    assert put(shelf, QUESTIONS, folder="/somewhere") is True
    clock.advance(60)
    assert put(shelf, QUESTIONS, folder="/somewhere") is False
    assert put(shelf, QUESTIONS) is False, "without its documents it keeps the ones it has"
    with shelf.catalog.read() as c:
        assert c.evaluations.questions(shelf.scope, shelf.id, "set") == QUESTIONS
        (known,) = c.evaluations.question_sets(shelf.scope, shelf.id)
        assert known == c.evaluations.question_set(shelf.scope, shelf.id, "set")
    assert (known.name, known.questions, known.judged, known.folder) == ("set", 3, 2, "/somewhere")
    assert known.digest == set_digest(QUESTIONS)
    assert known.updated_at == known.created_at


def test_a_changed_set_replaces_the_old_one(shelf: Shelf, clock: ManualClock) -> None:
    put(shelf, QUESTIONS)
    put(shelf, QUESTIONS[:1], name="other")
    clock.advance(60)
    assert put(shelf, QUESTIONS[1:]) is True
    with shelf.catalog.read() as c:
        assert c.evaluations.questions(shelf.scope, shelf.id, "set") == QUESTIONS[1:]
        assert [s.name for s in c.evaluations.question_sets(shelf.scope, shelf.id)] == ["other", "set"]
        known = c.evaluations.question_set(shelf.scope, shelf.id, "set")
        assert (known.updated_at - known.created_at).total_seconds() == 60
    assert put(shelf, QUESTIONS[1:], folder="/new") is True
    assert put(shelf, QUESTIONS) is True
    with shelf.catalog.read() as c:
        assert c.evaluations.question_set(shelf.scope, shelf.id, "set").folder == "/new"


def test_a_run_comes_back_with_the_names_documents_have_now(shelf: Shelf) -> None:
    kept, gone = (shelf.publish(file(f"/{name}.md", name * 90))[0].document for name in "ac")
    shelf.remove(gone)
    found = tuple(FoundPassage(f"chunk {id}", id, 0.25, "") for id in (kept, gone))
    first = result(
        "1", {"mrr": 0.5}, found=found, wanted=(Wanted("ä", 2.0, kept), Wanted("?", 1.0, None)), degraded=("vectors",)
    )
    second = result("2", {}, found=())
    run = replace(run_of([first, second], label="größer"), project=shelf.id)
    add_run(shelf, run, first, second)
    with shelf.catalog.read() as c:
        assert c.evaluations.runs(shelf.scope, shelf.id) == [run]
        results = c.evaluations.results(shelf.scope, shelf.id, run.id)
    assert [passage.name for passage in results[0].found] == ["a.md", ""]
    assert replace(results[0], found=found) == first
    assert results[1] == second


def test_a_lower_clearance_sees_nothing_of_what_is_above_it(shelf: Shelf) -> None:
    (open_, open_chunk), (secret, secret_chunk), (gone, gone_chunk) = (
        _published(shelf, name, level)
        for name, level in (("a", Clearance.PUBLIC), ("b", Clearance.RESTRICTED), ("c", Clearance.RESTRICTED))
    )
    shelf.remove(gone)
    pairs = ((open_chunk, open_), (secret_chunk, secret), (gone_chunk, gone))
    found = tuple(FoundPassage(chunk, document, 0.25) for chunk, document in pairs)
    by_document = tuple(Wanted(name, 1.0, id) for name, id in (("a", open_), ("b", secret), ("c", gone), ("d", None)))
    by_chunk = tuple(Wanted(chunk, 2.0, chunk) for chunk, _ in pairs)
    first, second = (result(id, {"mrr": 0.5}, found=found, wanted=w) for id, w in (("1", by_document), ("2", by_chunk)))
    run = replace(run_of([first, second]), project=shelf.id)
    add_run(shelf, run, first, second)
    guest = replace(owner(), clearance=Clearance.CONFIDENTIAL)
    with shelf.catalog.read() as c:
        assert c.evaluations.runs(guest, shelf.id) == [run], "the metrics stay"
        one, two = c.evaluations.results(guest, shelf.id, run.id)
    nothing = FoundPassage("", "", 0.0)
    for seen, stored in ((one, first), (two, second)):
        assert seen.found == (replace(found[0], name="a.md"), nothing, nothing)
        assert replace(seen, found=found, wanted=stored.wanted, text=stored.text) == stored
        assert seen.text == "", "a question may tell what its documents tell"
    assert one.wanted == (by_document[0], *[Wanted("", 1.0, None)] * 3)
    assert two.wanted == (by_chunk[0], *[Wanted("", 2.0, None)] * 2)


def _published(shelf: Shelf, name: str, level: Clearance) -> tuple[str, str]:
    """A document and its first chunk."""
    document = shelf.publish(file(f"/{name}.md", name * 90, labels=Labels(confidentiality=level)))[0].document
    with shelf.catalog.read() as c:
        return document, c.documents.chunks(shelf.scope, shelf.id, document)[0].id


# -- answers

JUDGED = Judgement(5, 4, 1, {"relevance": "“Gut” 日本語"}, unseen=2, tokens=31, cost=0.25)


def full(*documents: str, **facts: object) -> AnswerResult:
    """An answer with all that can be kept of it."""
    cited = tuple(CitedPassage(f"chunk {id}", id, id != documents[-1]) for id in documents)
    metrics = {"answered": 1.0, "clarity": 0.75, "tokens": 12.0, "cost": 0.5}
    values = {"text": "Es ist “so” \x00 [1] 👩‍👩‍👧", "expected": ("so", "ä"), "degraded": ("model",), **facts}
    return answered(metrics, AnswerKind.ANSWER, cited=cited, documents=documents, judgement=JUDGED, **values)


def kept(shelf: Shelf, *answers: AnswerResult | None, id: str = "run") -> list[QuestionResult]:
    """A run with these answers, as it comes back."""
    asked = [result(str(n), {"mrr": 0.5}, answer=answer, wanted=()) for n, answer in enumerate(answers)]
    add_run(shelf, replace(run_of(asked, id=id), project=shelf.id), *asked)
    return results(shelf, id)


def results(shelf: Shelf, run: str = "run", clearance: Clearance = Clearance.RESTRICTED) -> list[QuestionResult]:
    with shelf.catalog.read() as c:
        return c.evaluations.results(replace(shelf.scope, clearance=clearance), shelf.id, run)


def test_answers_come_back_as_they_were(shelf: Shelf) -> None:
    first, second = (shelf.publish(file(f"/{name}.md", name * 90))[0].document for name in "ab")
    whole = full(*sorted((first, second)))
    failed = answered({}, AnswerKind.FAILED, text="", has_answer=None, unjudged="it rests")
    one, two, three = (each.answer for each in kept(shelf, whole, failed, None))
    assert one is not None
    assert [passage.name for passage in one.cited] == [f"{'ab'[id == second]}.md" for id in whole.documents]
    named = tuple(replace(passage, name="") for passage in one.cited)
    assert replace(one, cited=named) == whole
    assert (two, three) == (failed, None)
    with shelf.catalog.read() as c:
        (run,) = c.evaluations.runs(shelf.scope, shelf.id)
    assert run.answers == {"answered": 1.0, "clarity": 0.75, "tokens": 12.0, "cost": 0.5, "answer_ms": 20.0}


@pytest.mark.parametrize("by_path", [False, True])
def test_an_answer_goes_with_any_document_that_has_words_in_it(shelf: Shelf, by_path: bool) -> None:
    gone, stays = (shelf.publish(file(f"/{name}.md", name * 90))[0].document for name in ("gone", "stays"))
    kept(shelf, full(gone, stays), full(stays), None)
    kept(shelf, full(gone), id="second")
    other = Shelf.create(shelf.catalog, "other")
    kept(other, full(other.publish(file("/gone.md", "gone" * 90))[0].document), id="foreign")
    shelf.remove_source("/gone.md") if by_path else shelf.remove(gone)
    first, untouched, none = (each.answer for each in results(shelf))
    (second,) = (each.answer for each in results(shelf, "second"))
    for answer in (first, second):
        assert answer is not None and answer.text == FORGOTTEN_ANSWER and answer.documents == ()
        assert answer.judgement == replace(JUDGED, reasons={}) and answer.metrics["clarity"] == 0.75
        assert answer.expected == ("so", "ä"), "the question's author wrote it"
    assert first is not None and [passage.name for passage in first.cited] == ["", "stays.md"]
    assert untouched is not None and untouched.text.startswith("Es ist") and none is None
    (elsewhere,) = (each.answer for each in results(other, "foreign"))
    assert elsewhere is not None and elsewhere.text.startswith("Es ist")
    shelf.remove(stays)
    assert [each.answer and each.answer.text for each in results(shelf)] == [FORGOTTEN_ANSWER, FORGOTTEN_ANSWER, None]


def test_an_answer_from_a_document_that_was_removed_meanwhile(shelf: Shelf) -> None:
    gone, stays = (shelf.publish(file(f"/{name}.md", name * 90))[0].document for name in ("gone", "stays"))
    shelf.remove(gone)
    forgotten, whole = (each.answer for each in kept(shelf, full(stays, gone), full(stays)))
    assert forgotten is not None and forgotten.text == FORGOTTEN_ANSWER and forgotten.documents == ()
    assert whole is not None and whole.documents == (stays,)


def test_a_lower_clearance_sees_the_figures_of_an_answer_and_not_its_words(shelf: Shelf) -> None:
    (open_, _), (secret, _) = (
        _published(shelf, name, level) for name, level in (("a", Clearance.PUBLIC), ("b", Clearance.RESTRICTED))
    )
    uncited = replace(full(open_), documents=(open_, secret))
    wants = result("3", {}, answer=full(open_), wanted=(Wanted("b", 1.0, secret),))
    asked = [result(str(n), {}, answer=each, wanted=()) for n, each in enumerate((full(open_), full(secret), uncited))]
    add_run(shelf, replace(run_of([*asked, wants], id="run"), project=shelf.id), *asked, wants)
    shown, *hidden = (each.answer for each in results(shelf, clearance=Clearance.INTERNAL))
    assert shown is not None and shown.text.startswith("Es ist") and shown.cited[0].name == "a.md"
    for answer in hidden:
        assert answer is not None
        assert (answer.text, answer.expected, answer.documents) == ("", (), ())
        assert answer.judgement == replace(JUDGED, reasons={}) and answer.metrics["answered"] == 1
    assert hidden[0] is not None and hidden[0].cited == (CitedPassage("", "", False),)


def test_answers_go_with_the_project(shelf: Shelf, database: Database) -> None:
    kept(shelf, full(shelf.publish(file("/a.md", "a" * 90))[0].document))
    with shelf.catalog.write() as c:
        c.projects.remove(shelf.scope, shelf.id)
    with database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM evaluation_documents").scalar() == 0


def test_runs_newest_first(shelf: Shelf) -> None:
    for id in ("one", "two"):
        add_run(shelf, run_of([result("1", {"mrr": 1.0})], id=id), result("1", {"mrr": 1.0}))
    with shelf.catalog.read() as c:
        assert [run.id for run in c.evaluations.runs(shelf.scope, shelf.id)] == ["two", "one"]


def test_nobody_sees_another_projects_questions(shelf: Shelf) -> None:
    put(shelf, QUESTIONS)
    add_run(shelf, run_of([result("1", {"mrr": 1.0})], id="run"), result("1", {"mrr": 1.0}))
    other = Shelf.create(shelf.catalog, "other")
    stranger = replace(owner(), projects=frozenset({other.id}))
    with shelf.catalog.read() as c:
        assert c.evaluations.question_sets(shelf.scope, other.id) == []
        assert c.evaluations.results(shelf.scope, other.id, "run") == []
        for ask in (c.evaluations.question_sets, c.evaluations.runs):
            with pytest.raises(NotFound):
                ask(stranger, shelf.id)
        with pytest.raises(NotFound, match="no set of questions 'nothing'"):
            c.evaluations.questions(shelf.scope, shelf.id, "nothing")


def test_they_go_with_the_project(shelf: Shelf) -> None:
    put(shelf, QUESTIONS)
    add_run(shelf, run_of([result("1", {"mrr": 1.0})], id="run"), result("1", {"mrr": 1.0}))
    with shelf.catalog.write() as c:
        c.projects.remove(shelf.scope, shelf.id)
    again = Shelf.create(shelf.catalog)
    with shelf.catalog.read() as c:
        assert c.evaluations.question_sets(again.scope, again.id) == []
        assert c.evaluations.runs(again.scope, again.id) == []


def test_a_failed_write_leaves_nothing(shelf: Shelf) -> None:
    with pytest.raises(ZeroDivisionError), shelf.catalog.write() as c:
        c.evaluations.put_questions(shelf.scope, shelf.id, "set", "", QUESTIONS)
        _ = 1 / 0
    with shelf.catalog.read() as c:
        assert c.evaluations.question_sets(shelf.scope, shelf.id) == []
