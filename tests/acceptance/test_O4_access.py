"""What somebody with a key sees and does: two projects, four clearances, and nothing beyond.

Everything goes through `Ragforge.acting`, as every server does it; how roles are told apart is the matrix's part.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from ragforge import Ragforge
from ragforge.build import utc_now
from ragforge.domain.access import Clearance, Role
from ragforge.domain.cancel import Cancel
from ragforge.domain.conversation import FORGOTTEN_ANSWER
from ragforge.domain.evaluation import Question, Run
from ragforge.domain.library import Labels, Outcome
from ragforge.domain.records import Artifact, ArtifactSection, ProjectTextKind
from ragforge.domain.retrieval import Filters
from ragforge.errors import NotAllowed, NotFound
from ragforge.interfaces.records import json_text
from tests.forge import SMALL, open_forge
from tests.serving import serving

LEVELS = tuple(Clearance)
WORD = {
    Clearance.PUBLIC: "heron",
    Clearance.INTERNAL: "badger",
    Clearance.CONFIDENTIAL: "otter",
    Clearance.RESTRICTED: "lynx",
}
"""A word that only the file of that level holds."""
FOREIGN = "marmot"
OTHER = replace(SMALL, leaf_max=SMALL.leaf_max + 10)
HIDDEN = ("otter", "lynx", FOREIGN)
"""What nobody with internal clearance in `p` may ever read."""


def text_of(word: str) -> str:
    return f"# About the {word}\n\nThe {word} was seen at the river on Monday. Nobody fed the {word} that day.\n"


class Yard:
    """A workspace with two projects and a file of every level in each, and people with keys."""

    def __init__(self, forge: Ragforge, folder: Path) -> None:
        self.forge = forge
        self.folder = folder
        self.access = forge.access()
        forge.create_project("q", strategy=SMALL, embedder="hashing")
        for level, word in WORD.items():
            self.put(f"{word}.md", text_of(word), level, "p")
        self.put(f"{FOREIGN}.md", text_of(FOREIGN), Clearance.PUBLIC, "q")

    def put(self, name: str, text: str, level: Clearance, project: str) -> None:
        path = self.folder / project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        assert not self.forge.add(path, project=project, labels=Labels(confidentiality=level)).failed

    def somebody(
        self,
        clearance: Clearance = Clearance.INTERNAL,
        role: Role = Role.EDITOR,
        projects: tuple[str, ...] | None = ("p",),
    ) -> Ragforge:
        ids = None if projects is None else frozenset(self.forge.project(each).id for each in projects)
        _, secret = self.access.create("somebody", role, projects=ids, clearance=clearance)
        return self.forge.acting(self.access.resolve(secret).scope)

    def id_of(self, word: str, project: str = "p") -> str:
        return self.forge.document(f"{word}.md", project=project).id


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    """For tests that change nothing."""
    folder = tmp_path_factory.mktemp("yard")
    with open_forge(folder / "workspace") as forge:
        yield Yard(forge, folder / "files")


@pytest.fixture
def yard(swift_path: Path) -> Iterator[Yard]:
    with open_forge(swift_path / "workspace") as forge:
        yield Yard(forge, swift_path / "files")


def told(value: object) -> str:
    """All that a value says, as a server would send it."""
    return json_text(value)


# -- files


@pytest.mark.parametrize("clearance", LEVELS)
def test_O4_files_up_to_the_clearance_are_there(shared: Yard, clearance: Clearance) -> None:
    me = shared.somebody(clearance)
    mine = {WORD[level] for level in LEVELS if level <= clearance}
    assert {document.name for document in me.documents(project="p")} == {f"{word}.md" for word in mine}
    for level, word in WORD.items():
        ways = (shared.id_of(word), shared.id_of(word)[:6], f"{word}.md", str(shared.folder / "p" / f"{word}.md"))
        for name in ways:
            if level <= clearance:
                assert me.document(name, project="p").id == shared.id_of(word)
                assert word in me.chunks(name, project="p")[0].text
            else:
                for use in (me.document, me.chunks, me.content, me.text):
                    with pytest.raises(NotFound):
                        use(name, project="p")


@pytest.mark.parametrize("clearance", LEVELS)
def test_O4_search_explain_ask_and_prompt_tell_nothing_above(shared: Yard, clearance: Clearance) -> None:
    me = shared.somebody(clearance)
    for level, word in WORD.items():
        question = f"Where was the {word} seen?"
        found = me.search(question, project="p", k=50)
        names = {passage.name for passage in found.passages}
        assert (f"{word}.md" in names) == (level <= clearance)
        assert all(WORD[higher] not in told(found.passages) for higher in LEVELS if higher > clearance)
        if level > clearance:
            document, chunk = shared.id_of(word), shared.forge.chunks(f"{word}.md", project="p")[0].id
            for value in (
                me.explain(question, project="p"),
                me.ask(question, project="p"),
                me.prompt(question, project="p"),
            ):
                said = told(value)
                assert document not in said and chunk not in said
                assert "at the river on Monday. Nobody fed the " + word not in said


def test_O4_a_file_above_named_in_a_filter_or_lock_is_missing(shared: Yard) -> None:
    me = shared.somebody()
    for name in (shared.id_of("lynx"), "lynx.md", "nothing.md"):
        with pytest.raises(NotFound):
            me.search("x", project="p", filters=Filters(documents=(name,)))
    high = me.search("lynx", project="p", filters=Filters(confidentiality=Clearance.RESTRICTED), k=50)
    assert all(passage.name not in ("lynx.md", "otter.md") for passage in high.passages)


# -- what is foreign is missing, whatever is done


def calls(me: Ragforge, project: str, document: str) -> dict[str, Callable[[], Any]]:
    """Every method that takes a project, with the least it needs."""
    kind = ProjectTextKind.HARD_RULES
    return {
        "project": lambda: me.project(project),
        "rename_project": lambda: me.rename_project(project, "new"),
        "remove_project": lambda: me.remove_project(project),
        "syncing": lambda: list(me.syncing(me.workspace, project=project, dry_run=True)),
        "documents": lambda: me.documents(project=project),
        "document": lambda: me.document(document, project=project),
        "find": lambda: me.find([document], project=project),
        "chunks": lambda: me.chunks(document, project=project),
        "content": lambda: me.content(document, project=project),
        "text": lambda: me.text(document, project=project),
        "removing": lambda: list(me.removing([document], project=project)),
        "enable": lambda: me.enable([document], False, project=project),
        "label": lambda: me.label([document], tags=["t"], project=project),
        "search": lambda: me.search("marmot", project=project),
        "explain": lambda: me.explain("marmot", project=project),
        "ask": lambda: me.ask("marmot?", project=project),
        "stream": lambda: list(me.stream("marmot?", project=project)),
        "answering": lambda: list(me.answering("marmot?", project=project)),
        "prompt": lambda: me.prompt("marmot?", project=project),
        "embedded": lambda: me.embedded(["marmot"], project=project),
        "begin_conversation": lambda: me.begin_conversation("t", project=project),
        "conversations": lambda: me.conversations(project=project),
        "conversation": lambda: me.conversation("last", project=project),
        "rename_conversation": lambda: me.rename_conversation("x", "t", project=project),
        "conversation_markdown": lambda: me.conversation_markdown("last", project=project),
        "turns": lambda: me.turns("x", project=project),
        "rollups": lambda: me.rollups("x", project=project),
        "mark_turn": lambda: me.mark_turn("x", project=project),
        "remove_turn": lambda: me.remove_turn("x", project=project),
        "remove_conversation": lambda: me.remove_conversation("x", project=project),
        "project_text": lambda: me.project_text(kind, project=project),
        "write_project_text": lambda: me.write_project_text(kind, "rules", project=project),
        "project_text_versions": lambda: me.project_text_versions(kind, project=project),
        "query_log": lambda: me.query_log(project=project),
        "logged": lambda: me.logged("last", project=project),
        "places": lambda: me.places(["x"], project=project),
        "spent": lambda: me.spent(project=project),
        "prune_log": lambda: me.prune_log(utc_now(), project=project),
        "give_feedback": lambda: me.give_feedback("last", True, project=project),
        "making": lambda: list(me.making("blueprint", project=project)),
        "artifacts": lambda: me.artifacts(project=project),
        "artifact": lambda: me.artifact("last", project=project),
        "edit_artifact": lambda: me.edit_artifact("last", title="t", project=project),
        "remove_artifacts": lambda: me.remove_artifacts(["x"], project=project),
        "rebuilding": lambda: list(me.rebuilding(project=project)),
        "question_sets": lambda: me.question_sets(project=project),
        "questions": lambda: me.questions("s", project=project),
        "evaluating": lambda: list(me.evaluating("s", project=project)),
        "evaluations": lambda: me.evaluations(project=project),
        "evaluation": lambda: me.evaluation("last", project=project),
        "compare_evaluations": lambda: me.compare_evaluations("a", "b", project=project),
        "reindexing": lambda: list(me.reindexing(project=project)),
        "jobs": lambda: me.jobs(project=project),
        "upload": lambda: me.upload(__file__, project=project),
        "accept_uploads": lambda: me.accept_uploads([], project=project),
        "enqueue": lambda: me.enqueue("rebuild", {}, project=project),
        "taking_in": lambda: list(me.taking_in([], project=project, labels=None, cancel=Cancel())),
    }


ELSEWHERE = {
    "add": "makes the project, which is for the owner: NotAllowed",
    "adding": "makes the project, which is for the owner: NotAllowed",
    "watching": "makes the project, which is for the owner: NotAllowed",
    "importing_questions": "makes the project, which is for the owner: NotAllowed",
    "check": "is the owner's",
    "exporting": "is the owner's",
    "importing": "is the owner's",
}
"""Methods that take a project too, and why they are tested below."""


def test_O4_no_method_with_a_project_is_forgotten(shared: Yard) -> None:
    taking = {
        name
        for name, method in inspect.getmembers(Ragforge, inspect.isfunction)
        if not name.startswith("_") and "project" in inspect.signature(method).parameters
    }
    named = calls(shared.forge, "p", "x").keys() | ELSEWHERE.keys()
    assert taking <= named, f"not looked at: {sorted(taking - named)}"


@pytest.mark.parametrize("name", sorted(calls(None, "", "")))  # type: ignore[arg-type]
def test_O4_a_foreign_project_and_a_missing_one_are_the_same(shared: Yard, name: str) -> None:
    me = shared.somebody(Clearance.RESTRICTED, Role.ADMIN)
    document = shared.id_of(FOREIGN, "q")
    messages = []
    for project in ("q", "nowhere"):
        with pytest.raises(NotFound) as missing:
            calls(me, project, document)[name]()
        messages.append((missing.value.message.replace(project, "PROJECT"), missing.value.hint))
    assert messages[0] == messages[1]
    assert [each.slug for each in shared.forge.projects()] == ["p", "q"]


@pytest.mark.parametrize("project", ["q", "nowhere"])
def test_O4_nobody_with_a_key_for_some_projects_makes_one(yard: Yard, project: str) -> None:
    me = yard.somebody(Clearance.RESTRICTED, Role.ADMIN)
    path = yard.folder / "p" / "heron.md"
    for work in (
        lambda: me.create_project("new"),
        lambda: me.add(path, project=project),
        lambda: list(me.syncing(path.parent, project=project)),
        lambda: list(me.watching(path.parent, project=project)),
        lambda: me.rename_project("p", "better"),
    ):
        with pytest.raises(NotAllowed):
            work()
    assert [each.slug for each in yard.forge.projects()] == ["p", "q"]


@pytest.mark.parametrize("reach", [("p",), None])
def test_O4_what_is_about_the_whole_workspace_is_the_owners(yard: Yard, reach: tuple[str, ...] | None) -> None:
    me = yard.somebody(Clearance.RESTRICTED, Role.ADMIN, reach)
    for work in (
        lambda: me.check(repair=True),
        me.doctor,
        lambda: list(me.exporting(yard.folder / "x", project="p")),
        lambda: list(me.importing(yard.folder / "x")),
    ):
        with pytest.raises(NotAllowed):
            work()
    assert all(finding.ok for finding in yard.forge.check())
    assert me.notices == []


# -- changes


def test_O4_what_is_above_can_be_neither_changed_nor_removed(yard: Yard) -> None:
    me = yard.somebody()
    before = yard.forge.document("lynx.md", project="p")
    for name in (before.id, "lynx.md"):
        for work in (
            lambda name=name: me.enable([name], False, project="p"),
            lambda name=name: me.label([name], confidentiality=Clearance.PUBLIC, project="p"),
            lambda name=name: me.label(["heron.md", name], tags=["x"], project="p"),
            lambda name=name: list(me.removing(["heron.md", name], project="p")),
        ):
            with pytest.raises(NotFound):
                work()
    assert yard.forge.document("lynx.md", project="p") == before
    assert yard.forge.document("heron.md", project="p").labels.tags == ()


@pytest.mark.parametrize("clearance", LEVELS)
def test_O4_nobody_labels_above_their_clearance(yard: Yard, clearance: Clearance) -> None:
    me = yard.somebody(clearance)
    new = yard.folder / "new.md"
    for level in LEVELS:
        new.write_text(text_of(f"bird{int(level)}"))
        if level <= clearance:
            me.label(["heron.md"], confidentiality=level, project="p")
            assert not me.add(new, project="p", labels=Labels(confidentiality=level)).failed
            assert me.document("heron.md", project="p").labels.confidentiality == level
        else:
            with pytest.raises(NotAllowed):
                me.label(["heron.md"], confidentiality=level, project="p")
            with pytest.raises(NotAllowed):
                me.add(new, project="p", labels=Labels(confidentiality=level))
            with pytest.raises(NotAllowed):
                me.upload(new, project="p", labels=Labels(confidentiality=level))
    assert me.document("heron.md", project="p").labels.confidentiality == clearance


def test_O4_a_file_of_which_nobody_said_anything_stays_in_sight(yard: Yard) -> None:
    me, new = yard.somebody(Clearance.PUBLIC), yard.folder / "new.md"
    new.write_text(text_of("wren"))
    assert not me.add(new, project="p").failed
    assert me.document("new.md", project="p").labels.confidentiality == Clearance.PUBLIC


def test_O4_a_path_that_is_taken_above_looks_free(yard: Yard) -> None:
    """Neither is the file above replaced, nor does anybody learn that there is one."""
    me = yard.somebody()
    taken = yard.folder / "p" / "lynx.md"
    before = yard.forge.document("lynx.md", project="p")
    for text in (text_of("wren"), text_of("robin"), text_of("robin")):
        taken.write_text(text)
        (result,) = me.add(taken, project="p").files
        assert result.outcome in (Outcome.READY, Outcome.UNCHANGED)
    mine = me.document("lynx.md", project="p")
    assert mine.id != before.id and "robin" in me.chunks(mine.id, project="p")[0].text
    assert yard.forge.document(before.id, project="p") == before
    assert "lynx" in yard.forge.chunks(before.id, project="p")[0].text
    yard.forge.label([mine.id], confidentiality=Clearance.RESTRICTED, project="p")  # now both are above
    taken.write_text(text_of("crow"))
    assert not me.add(taken, project="p").failed
    assert len([each for each in yard.forge.documents(project="p") if each.name == "lynx.md"]) == 3


def test_O4_the_same_bytes_as_a_file_above_are_refused_and_change_nothing(yard: Yard) -> None:
    me, copy = yard.somebody(), yard.folder / "copy.md"
    copy.write_text(text_of("lynx"))
    before = yard.forge.document("lynx.md", project="p")
    with pytest.raises(NotAllowed) as refused:
        me.add(copy, project="p")
    assert before.id not in refused.value.message
    assert yard.forge.document("lynx.md", project="p") == before
    assert len(yard.forge.documents(project="p")) == 4
    assert all(finding.ok for finding in yard.forge.check())


def test_O4_a_project_with_files_above_is_not_removed_nor_split_anew(yard: Yard) -> None:
    me = yard.somebody(Clearance.CONFIDENTIAL, Role.ADMIN)
    with pytest.raises(NotAllowed):
        me.remove_project("p")
    with pytest.raises(NotAllowed):
        list(me.reindexing(project="p", embedder="hashing", strategy=OTHER))
    with pytest.raises(NotAllowed):
        list(me.rebuilding(project="p"))
    before = len(yard.forge.jobs())
    for kind in ("reindex", "rebuild"):  # at once, and not as a job that fails
        with pytest.raises(NotAllowed) as refused:
            me.enqueue(kind, {}, project="p")
        assert "clearance" in refused.value.hint and len(yard.forge.jobs()) == before
    assert len(yard.forge.documents(project="p")) == 4
    assert yard.forge.search("heron", project="p").passages


# -- what others asked, said and made


def test_O4_conversations_are_their_owners_alone(yard: Yard) -> None:
    me, other, admin = yard.somebody(), yard.somebody(), yard.somebody(Clearance.RESTRICTED, Role.ADMIN, None)
    talk = me.begin_conversation("my talk", project="p")
    me.ask("Where was the heron seen?", project="p", conversation=talk.id)
    (turn,) = me.turns(talk.id, project="p")

    def is_not_there_for(stranger: Ragforge) -> None:
        assert stranger.conversations(project="p") == []
        for work in (
            lambda: stranger.conversation(talk.id, project="p"),
            lambda: stranger.turns(talk.id, project="p"),
            lambda: stranger.rollups(talk.id, project="p"),
            lambda: stranger.mark_turn(turn.id, project="p"),
            lambda: stranger.remove_turn(turn.id, project="p"),
            lambda: stranger.remove_conversation(talk.id, project="p"),
            lambda: stranger.ask("And where else?", project="p", conversation=talk.id),
        ):
            with pytest.raises(NotFound):
                work()

    for stranger in (other, admin, yard.forge):
        is_not_there_for(stranger)
    assert me.turns(talk.id, project="p") == [turn]


@pytest.mark.parametrize("reach", [("p",), None])
def test_O4_the_log_shows_ones_own_and_an_admin_everybodys(yard: Yard, reach: tuple[str, ...] | None) -> None:
    me, other = yard.somebody(projects=reach), yard.somebody(Clearance.RESTRICTED)
    me.ask("Where was the heron seen?", project="p")
    other.ask("Where was the lynx seen?", project="p")
    (mine,), (theirs,) = me.query_log(project="p"), other.query_log(project="p")
    assert mine.question != theirs.question
    assert sum(each.questions for each in me.spent(project="p", by="day")) == 1
    for work in (
        lambda: me.logged(theirs.id, project="p"),
        lambda: me.give_feedback(theirs.id, True, project="p"),
    ):
        with pytest.raises(NotFound):
            work()
    admin = yard.somebody(Clearance.RESTRICTED, Role.ADMIN, reach)
    assert {each.id for each in admin.query_log(project="p")} == {mine.id, theirs.id}
    assert sum(each.questions for each in admin.spent(project="p", by="day")) == 2
    low = yard.somebody(Clearance.INTERNAL, Role.ADMIN, reach)
    assert low.query_log(project="p") == [], "a question may tell what somebody else could read"
    assert sum(each.questions for each in low.spent(project="p", by="day")) == 2
    with yard.forge._parts.catalog.write() as c:  # as if it had been yesterday
        assert c.log.prune(me._scope, yard.forge.project("p").id, utc_now()) == 1
    assert [each.id for each in yard.forge.query_log(project="p")] == [theirs.id]


def test_O4_jobs_are_ones_own(yard: Yard) -> None:
    me, other, admin = yard.somebody(), yard.somebody(Clearance.RESTRICTED), yard.somebody(role=Role.ADMIN)
    new = yard.folder / "secret-plan.md"
    new.write_text(text_of("wren"))
    job = other.upload(new, project="p", labels=Labels(confidentiality=Clearance.RESTRICTED))
    foreign = yard.forge.upload(new, project="q")
    for stranger in (me, admin):
        assert not {job.id, foreign.id} & {each.id for each in stranger.jobs()}
        for id in (job.id, foreign.id, "missing"):
            for look in (stranger.job, stranger.cancel_job):
                with pytest.raises(NotFound):
                    look(id)
    assert other.job(job.id).id == job.id
    assert {job.id, foreign.id} <= {each.id for each in yard.forge.jobs()}
    overseer = yard.somebody(Clearance.RESTRICTED, Role.ADMIN)
    assert job.id in {each.id for each in overseer.jobs()} and foreign.id not in {each.id for each in overseer.jobs()}
    mine = me.upload(yard.folder / "p" / "heron.md", project="p")
    assert mine.id in {each.id for each in me.jobs()}


def test_O4_made_documents_are_as_secret_as_what_they_are_made_from(yard: Yard) -> None:
    high, me = yard.somebody(Clearance.RESTRICTED), yard.somebody()
    artifact = made_from(yard, "badger", "lynx")
    assert [each.id for each in high.artifacts(project="p")] == [artifact.id]
    assert me.artifacts(project="p") == []
    for work in (
        lambda: me.artifact(artifact.id, project="p"),
        lambda: me.artifact("last", project="p"),
        lambda: me.remove_artifacts([artifact.id], project="p"),
    ):
        with pytest.raises(NotFound):
            work()
    mine = made_from(yard, "badger")
    assert [each.id for each in me.artifacts(project="p")] == [mine.id]
    yard.forge.label(["badger.md"], confidentiality=Clearance.RESTRICTED, project="p")
    assert me.artifacts(project="p") == []


def made_from(yard: Yard, *words: str) -> Artifact:
    """A made document whose one section was written from these files, though it cites none of them."""
    section = ArtifactSection("Overview", 1, f"Of the {words[-1]}.", read=tuple(yard.id_of(word) for word in words))
    made = Artifact(uuid4().hex[:16], "blueprint", "Blueprint", utc_now(), (section,), ())
    with yard.forge._parts.catalog.write() as c:
        return c.artifacts.put(yard.forge._scope, yard.forge.project("p").id, made)


def test_O4_questions_and_runs_tell_nothing_above(yard: Yard) -> None:
    lines = [
        {"id": "open", "question": "Where was the badger?", "documents": {"badger.md": 1}, "answers": ["at the river"]},
        {"id": "above", "question": "Where was it?", "documents": {"lynx.md": 1}, "answers": ["LYNX-DEN"]},
        {"id": "both", "question": "Where?", "documents": {"badger.md": 1, "lynx.md": 1}, "answers": ["LYNX-DEN"]},
        {"id": "gone", "question": "Where?", "documents": {"nothing.md": 1}, "answers": ["NOWHERE"]},
    ]
    with yard.forge._parts.catalog.write() as c:
        questions = [
            Question(each["id"], each["question"], each["documents"], answers=tuple(each["answers"]))  # type: ignore[arg-type]
            for each in lines
        ]
        c.evaluations.put_questions(yard.forge._scope, yard.forge.project("p").id, "set", "", questions)
    *_, run = yard.forge.evaluating("set", project="p", answers=True)
    assert isinstance(run, Run)
    me, high = yard.somebody(), yard.somebody(Clearance.RESTRICTED)
    assert high.questions("set", project="p") == questions
    assert me.questions("set", project="p") == questions[:1], "of a document that is gone, as if it were above"
    details = me.evaluation(run.id, project="p")
    assert [each.text for each in details.results] == ["Where was the badger?", "", "", ""]
    said = told(details)
    said += told(me.compare_evaluations(run.id, run.id, project="p"))
    assert "LYNX-DEN" not in said and "lynx.md" not in said and yard.id_of("lynx") not in said
    *_, mine = me.evaluating("set", project="p", answers=True)
    assert isinstance(mine, Run)
    assert "LYNX-DEN" not in told(me.evaluation(mine.id, project="p"))
    me.give_feedback(_asked(me), True, project="p")
    assert yard.forge.questions("set", project="p") == questions, "nothing is lost by who sees less"


def _asked(me: Ragforge) -> str:
    me.ask("Where was the badger seen?", project="p")
    return me.query_log(project="p")[0].id


def test_O4_a_label_that_is_raised_hides_at_once(yard: Yard) -> None:
    me = yard.somebody()
    assert me.search("badger", project="p").passages[0].name == "badger.md"
    yard.forge.label(["badger.md"], confidentiality=Clearance.CONFIDENTIAL, project="p")
    assert "badger.md" not in {passage.name for passage in me.search("badger", project="p", k=50).passages}
    with pytest.raises(NotFound):
        me.document("badger.md", project="p")


def test_O4_a_kept_answer_goes_with_the_label_of_what_it_rests_on(yard: Yard) -> None:
    me = yard.somebody()
    talk = me.begin_conversation("animals", project="p").id
    for word in ("badger", "heron"):
        me.ask(f"Where was the {word} seen?", project="p", conversation=talk)
    made = me.prompt("Where was it fed?", project="p", conversation=talk)
    before = me.turns(talk, project="p")
    assert all("river" in turn.answer and turn.documents for turn in before)
    yard.forge.label([yard.id_of("badger")], project="p", confidentiality=Clearance.CONFIDENTIAL)
    held, other = me.turns(talk, project="p")
    assert before[0].citations[0].document == yard.id_of("badger") and "river" in before[0].citations[0].quote
    lost = (held.answer, held.summary, held.tags, held.citations, held.documents)
    assert lost == (FORGOTTEN_ANSWER, "", (), (), ())
    export = me.conversation_markdown(talk, project="p")
    assert FORGOTTEN_ANSWER in export and "fed the badger" not in export and "badger.md" not in export
    assert held.question == before[0].question and other == before[1]
    cuts = {each.cuts for each in (me.conversation(talk, project="p"), made.account) if each.cuts is not None}
    assert len(cuts) == 2, "a prompt that was made before is made anew"
    again = me.ask("And what was said of it?", project="p", conversation=talk)
    assert "fed the badger" not in told(again) and "fed the badger" not in told(me.query_log(project="p"))
    yard.forge.label([yard.id_of("badger")], project="p", confidentiality=Clearance.INTERNAL)
    assert me.turns(talk, project="p")[:2] == before, "it was withheld, not lost"
    yard.forge.label([yard.id_of("badger")], project="p", confidentiality=Clearance.CONFIDENTIAL)
    list(yard.forge.removing([yard.id_of("badger")], project="p"))
    assert me.turns(talk, project="p")[0] == held, "above and removed look the same"


def test_O4_over_http_a_kept_answer_goes_with_the_label_too(yard: Yard) -> None:
    _, secret = yard.access.create("somebody", Role.READER)
    path = "/v1/projects/p"
    with serving(yard.forge) as url, httpx.Client(base_url=url, headers={"X-API-Key": secret}, timeout=60) as client:
        talk = client.post(f"{path}/conversations", json={"title": "animals"}).json()["id"]
        asked = {"question": "Where was the badger seen?", "conversation": talk}
        assert "river" in client.post(f"{path}/ask", json=asked).json()["text"]
        turns = {"params": {"conversation": talk}}
        assert "river" in client.get(f"{path}/turns", **turns).text  # type: ignore[arg-type]
        yard.forge.label([yard.id_of("badger")], project="p", confidentiality=Clearance.CONFIDENTIAL)
        after = client.get(f"{path}/turns", **turns).text  # type: ignore[arg-type]
        assert FORGOTTEN_ANSWER in after and "river" not in after
        for place in ("log", f"conversations/{talk}", f"conversations/{talk}/markdown", "artifacts"):
            assert "river" not in client.get(f"{path}/{place}").text


def test_O4_a_removed_project_leaves_a_key_that_opens_nothing(yard: Yard) -> None:
    me = yard.somebody(projects=("q",))
    assert [each.slug for each in me.projects()] == ["q"]
    yard.forge.remove_project("q")
    assert me.projects() == []
    yard.forge.create_project("q", strategy=SMALL, embedder="hashing")
    assert me.projects() == [], "another project of the same name is another project"
    with pytest.raises(NotFound):
        me.documents(project="q")


def test_O4_nobody_sees_what_is_hidden_in_anything_they_can_read(yard: Yard) -> None:
    """A net under the rest: everything that can be read without an id, by somebody with internal clearance in `p`."""
    high = yard.somebody(Clearance.RESTRICTED)
    high.ask("Where was the lynx seen?", project="p")
    made_from(yard, "otter", "lynx")
    high.upload(yard.folder / "p" / "lynx.md", project="p")
    me = yard.somebody()
    readable: list[Callable[[], object]] = [
        me.projects,
        me.jobs,
        lambda: me.jobs(project="p"),
        lambda: me.documents(project="p"),
        lambda: me.query_log(project="p"),
        lambda: me.spent(project="p"),
        lambda: me.artifacts(project="p"),
        lambda: me.question_sets(project="p"),
        lambda: me.evaluations(project="p"),
        lambda: me.conversations(project="p"),
        lambda: [me.project_text_versions(kind, project="p") for kind in ProjectTextKind],
        lambda: me.notices,
        me.counters,
        me.queue,
    ]
    for read in readable:
        said = told(read())
        assert not [word for word in HIDDEN if word in json.dumps(said)], said[:500]
