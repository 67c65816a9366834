"""O3: the web page, by the logic of its pages; `tests/browser` looks at it with eyes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from streamlit.testing.v1 import AppTest

from ragforge import Ragforge
from ragforge.domain.access import Action, KeyLimits, Role
from ragforge.domain.library import JobState, Outcome
from ragforge.errors import NotAllowed, Unauthenticated
from ragforge.flows.make import Made
from ragforge.interfaces.ui import chat, documents, engine, evaluation, lessons
from ragforge.interfaces.ui.session import Session
from ragforge.operate.access import owner
from ragforge.operate.jobs import worker_name
from ragforge.settings import load
from ragforge.testing.model_server import SERVER_ERROR, ModelServer
from tests.forge import open_forge
from tests.pages import alone, answered, ask, choose, look, pages, press, run, said, side
from tests.served import answers, open_served

_RULES = "# Returns\n\nA chair may be returned within sixty days. Collection is free of charge.\n"
_CODE = "def refund_days(kind):\n    return {'chair': 60, 'lamp': 30}[kind]\n"


def _files(folder: Path, forge: Ragforge) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "returns.md").write_text(_RULES)
    (folder / "refund.py").write_text(_CODE)
    assert not forge.add(folder, project="p").failed


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[Ragforge]:
    with open_forge(tmp_path / "workspace") as made:
        _files(tmp_path / "files", made)
        yield made


def test_O3_the_first_look_asks_for_a_project_and_makes_it(tmp_path: Path) -> None:
    with Ragforge.open(load(tmp_path / "workspace")) as forge, pages(forge) as tab:
        assert [each.label for each in tab.text_input] == ["Name of the project"]
        tab.text_input[0].set_value("Contracts 2026")
        press(tab, "Make it")
        assert [project.slug for project in forge.projects()] == ["contracts-2026"]
        assert any("Bring some files first" in str(each.value) for each in tab.subheader)


def test_O3_an_answer_is_kept_and_survives_a_reload(forge: Ragforge) -> None:
    with pages(forge) as tab:
        ask(tab, "How long may a chair be returned?")
        (conversation,) = forge.conversations(project="p")
        (turn,) = forge.turns(conversation.id, project="p")
        assert "sixty days" in turn.answer
        assert turn.citations
        again = look(project="p", chat=conversation.id)
        assert any("How long may a chair be returned?" in text for text in said(again))
        assert any(each.label == "Retry" for each in again.button)


@pytest.mark.parametrize("after", ["_exchanges", "_recent"])
def test_O3_an_answer_that_ends_while_the_page_is_drawn_is_shown(
    after: str, forge: Ragforge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever step of drawing it ends behind: the page that comes of it has the answer, and no second question."""
    step, fast = getattr(chat, after), threading.Event()

    def slowly(session: Session, *rest: object) -> object:
        drawn = step(session, *rest)
        answers = session.engine.answers
        while not fast.is_set() and session.conversation:
            asked = answers.latest(session.visitor.id, session.conversation)
            fast.wait(0.01)
            if asked is not None and asked.ended:
                fast.set()
        return drawn

    monkeypatch.setattr(chat, after, slowly)
    with pages(forge) as tab:
        tab.chat_input[0].set_value("How long may a chair be returned?")
        run(tab)
        assert fast.is_set()
        assert [each.label for each in tab.button].count("Why") == 1
        assert sum('data-testid="question"' in text for text in said(tab)) == 1


@pytest.mark.parametrize(
    ("page", "after", "button", "nothing"),
    [
        (evaluation, "_start", "Run", "No run yet"),
        (documents, "_form", "Make it", "Nothing was made yet"),
        (lessons, "_head", "Checkpoint now", "Embedding lessons"),
    ],
    ids=["evaluation", "documents", "lessons"],
)
def test_O3_long_work_that_ends_while_the_page_is_drawn_is_shown(
    page: ModuleType, after: str, button: str, nothing: str, forge: Ragforge, monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    """Asked for, it ends when the page has looked at what there is, and before it shows what is under way."""
    step = getattr(page, after)

    def slowly(session: Session, *rest: object, **named: object) -> None:
        step(session, *rest, **named)
        deadline = time.monotonic() + 30
        while any(not job.ended for job in forge.jobs(project="p")):
            assert time.monotonic() < deadline
            time.sleep(0.02)

    own = tmp_path / "own.jsonl"
    own.write_text('{"id": "1", "question": "How long for a chair?", "documents": ["returns.md"]}\n')
    list(forge.importing_questions(own, project="p"))
    forge.lessons.capture_failure(
        agent_type="backend", technology="http", project="p", verified=True, failure_description="The first one fails",
        solution_steps="Try again",
    )  # fmt: skip
    monkeypatch.setattr(page, after, slowly)
    name = page.__name__.rpartition(".")[2]
    with pages(forge):
        tab = press(alone(name), button)
        assert {job.state for job in forge.jobs(project="p")} == {JobState.DONE}
        assert not any(nothing in text for text in said(tab))
        assert said(tab) == said(alone(name))


def test_O3_what_was_chosen_survives_a_reload_in_the_address(forge: Ragforge) -> None:
    with pages(forge):
        tab = look(project="p", theta="0.8", alpha="0.4", stages="gate,inject", lock="1", preview="1", model="offline")
        chosen = tab.session_state["rf_choices"]
        assert (chosen.strictness, chosen.alpha, chosen.lock, chosen.preview) == (0.8, 0.4, True, True)
        assert chosen.stages == {"gate", "inject"}
        assert chosen.model == "offline"
        run(tab)
        assert tab.query_params["stages"] in ("gate,inject", ["gate,inject"])


@pytest.mark.parametrize(
    "query", [{"theta": "x", "alpha": "9"}, {"project": "nobody"}, {"chat": "none"}, {"stages": "?"}]
)
def test_O3_a_misspelt_address_is_taken_as_far_as_it_goes(forge: Ragforge, query: dict[str, str]) -> None:
    with pages(forge):
        tab = look(**query)
        assert tab.chat_input


def test_O3_an_abstention_says_what_would_help_and_what_is_nearest(forge: Ragforge) -> None:
    with pages(forge) as tab:
        ask(tab, "Who won the football cup in 1998?")
        told = " ".join(said(tab))
        assert "**No answer.**" in told
        assert "What would help" in told


def test_O3_an_empty_project_teaches(tmp_path: Path) -> None:
    with open_forge(tmp_path / "workspace") as forge, pages(forge) as tab:
        ask(tab, "How long may a chair be returned?")
        assert "Drop files into the sidebar" in " ".join(said(tab))


def test_O3_controls_reach_the_question(forge: Ragforge) -> None:
    with pages(forge) as tab:
        side(tab, "Control")
        next(each for each in tab.toggle if each.label == "Exact File Lock").set_value(True)
        run(tab)
        side(tab, "Files")
        ask(tab, "What is returned for a chair?")
        told = " ".join(said(tab))
        assert "names none that can be read" in told  # locked to files that it names
        press(tab, "Dismiss")
        ask(tab, "What does refund.py return for a chair?")
        assert "❖ refund.py" in " ".join(said(tab))


def test_O3_a_prompt_that_is_to_be_shown_is_not_sent_unseen_however_quick_one_asks(forge: Ragforge) -> None:
    """The page was not drawn between the two."""
    with pages(forge) as tab:
        side(tab, "Control")
        next(each for each in tab.toggle if each.label == "Show the prompt before sending").set_value(True)
        tab.chat_input[0].set_value("How long may a chair be returned?")
        run(tab)
        assert forge.conversations(project="p") == [] and tab.session_state["rf_choices"].preview
        assert any(each.label == "Send" for each in tab.button), [each.label for each in tab.button]


def test_O3_turning_a_stage_off_and_on_again(forge: Ragforge) -> None:
    with pages(forge) as tab:
        side(tab, "Control")
        next(each for each in tab.toggle if each.label == "A3 Gate").set_value(False)
        run(tab)
        assert "gate" not in tab.session_state["rf_choices"].stages
        assert next(each for each in tab.slider if each.label.startswith("Strictness")).disabled
        next(each for each in tab.toggle if each.label == "A3 Gate").set_value(True)
        run(tab)
        assert "gate" in tab.session_state["rf_choices"].stages


def test_O3_retry_and_edit_take_the_place_of_the_last_turn(forge: Ragforge) -> None:
    with pages(forge) as tab:
        ask(tab, "How long may a chair be returned?")
        answered(press(tab, "Retry"))
        (conversation,) = forge.conversations(project="p")
        assert [turn.question for turn in forge.turns(conversation.id, project="p")] == [
            "How long may a chair be returned?"
        ]
        press(tab, "Edit")
        next(each for each in tab.text_area if each.label == "Your question").set_value("Is collection free?")
        answered(press(tab, "Ask again"))
        assert [turn.question for turn in forge.turns(conversation.id, project="p")] == ["Is collection free?"]


def test_O3_nothing_is_kept_of_an_ephemeral_question(forge: Ragforge) -> None:
    with pages(forge) as tab:
        side(tab, "Control")
        next(each for each in tab.toggle if each.label == "Keep nothing").set_value(True)
        run(tab)
        ask(tab, "How long may a chair be returned?")
        assert "not kept" in " ".join(said(tab))
        assert forge.conversations(project="p") == []
        assert forge.query_log(project="p") == []


def test_S9_why_tells_every_candidate_and_near_misses(forge: Ragforge) -> None:
    with pages(forge) as tab:
        ask(tab, "How long may a chair be returned?")
        choose(tab, "Why")
        told = " ".join(said(tab))
        assert "returns.md" in told
        assert "What each stage said" in told
        assert "Evidence" in told


def test_S8_the_prompt_is_shown_without_a_model_but_not_sent(forge: Ragforge) -> None:
    with pages(forge) as tab:
        choose(tab, "Prompt")
        next(each for each in tab.text_area if each.label == "Your question").set_value("How long?")
        press(tab, "Show the prompt")
        assert next(each for each in tab.button if each.label == "Send").disabled
        assert "There is no model to send it to" in " ".join(said(tab))


def test_S8_an_edited_prompt_is_sent_byte_for_byte(tmp_path: Path) -> None:
    with ModelServer(reply="Sixty days [1].") as server, open_served(tmp_path / "workspace", server) as forge:
        _files(tmp_path / "files", forge)
        with pages(forge) as tab:
            choose(tab, "Prompt")
            next(each for each in tab.text_area if each.label == "Your question").set_value("How long for a chair?")
            press(tab, "Show the prompt")
            block = next(each for each in tab.text_area if each.label.startswith("Task"))
            block.set_value(str(block.value) + "\nAnswer like a pirate.")
            run(tab)
            shown = "".join(str(each.value) for each in tab.code)
            assert not answers(server)
            answered(press(tab, "Send as changed"))
        (call,) = answers(server)
        assert "Answer like a pirate." in call.prompt
        sent = [message["content"] for message in call.json["messages"]]
        assert all(text in shown for text in sent)


def test_S2_headings_by_hand_are_in_the_prompt(tmp_path: Path) -> None:
    with ModelServer() as server, open_served(tmp_path / "workspace", server) as forge:
        _files(tmp_path / "files", forge)
        with pages(forge) as tab:
            choose(tab, "Prompt")
            next(each for each in tab.text_area if each.label == "Your question").set_value("How long for a chair?")
            press(tab, "Show the prompt")
            next(each for each in tab.text_area if each.label.startswith("Headings")).set_value("Deadline\nTransport")
            press(tab, "Make the prompt anew with these")
            block = next(each for each in tab.text_area if each.label.startswith("Format"))
            assert "Deadline\nTransport" in str(block.value)


def test_O3_a_model_that_fails_is_told_and_quotes_come_instead(tmp_path: Path) -> None:
    with (
        ModelServer(always=SERVER_ERROR) as server,
        open_served(tmp_path / "workspace", server, ask__stages="") as forge,
    ):
        _files(tmp_path / "files", forge)
        with pages(forge) as tab:
            ask(tab, "How long may a chair be returned?")
            told = " ".join(said(tab))
            assert "Without model" in told
            assert "these are quotes" in told


def test_O3_a_reader_sees_no_way_to_change_anything(forge: Ragforge) -> None:
    _, secret = forge.access().create("Rita", Role.READER)
    with pages(forge) as tab:
        assert [each.label for each in tab.text_input] == ["Your key"]
        tab.text_input[0].set_value("rf_wrong")
        press(tab, "Sign in")
        assert "No such key" in " ".join(said(tab))
        tab.text_input[0].set_value(secret)
        press(tab, "Sign in")
        assert not tab.get("menu_button")
        (file, *_) = [each for each in tab.button if str(each.key).startswith("about-")]
        file.click()
        run(tab)
        assert "Delete for good" not in {each.label for each in tab.button}
        assert all(each.disabled for each in tab.toggle)
        ask(tab, "How long may a chair be returned?")
        assert any(each.label == "Retry" for each in tab.button)


def test_O3_a_page_asks_for_one_action_at_a_time(forge: Ragforge) -> None:
    """A key that may only read is refused what a page would do with it, whatever the page offers."""
    _, secret = forge.access().create("Rita", Role.READER)
    with engine.Here(forge) as here:
        visitor = here.visitor(secret)
        assert visitor.forge(Action.READ).projects()
        for action in (Action.WRITE, Action.MANAGE, Action.OPERATE):
            assert not visitor.may(action)
            with pytest.raises(NotAllowed):
                visitor.forge(action)


def test_O3_a_revoked_key_is_signed_out_at_the_next_look(forge: Ragforge) -> None:
    key, secret = forge.access().create("Rita", Role.READER)
    with pages(forge) as tab:
        tab.text_input[0].set_value(secret)
        press(tab, "Sign in")
        assert tab.chat_input
        forge.access().revoke(key.id)
        time.sleep(0.6)
        run(tab)
        assert not tab.chat_input
        assert [each.label for each in tab.text_input] == ["Your key"]


def test_O3_a_server_that_is_away_is_told_with_the_next_step(tmp_path: Path) -> None:
    engine.use(engine.There("http://127.0.0.1:9", "", load(tmp_path / "workspace")))
    tab = look()
    assert tab.error
    assert "does not answer" in str(tab.error[0].value)
    assert "**Next:** check the address" in str(tab.error[0].value)
    assert any(each.label == "Try again" for each in tab.button)


def test_I17_dropped_files_that_cannot_be_used_are_told_one_by_one(forge: Ragforge, tmp_path: Path) -> None:
    same = forge.upload(tmp_path / "files" / "returns.md", name="copy.md", project="p")
    (tmp_path / "broken.docx").write_bytes(b"PK\x03\x04 not a package")
    broken = forge.upload(tmp_path / "broken.docx", project="p")
    with pages(forge) as tab:
        tab.session_state["rf_uploads"] = (same.id, broken.id)
        deadline = time.monotonic() + 20
        while not all(forge.job(each.id).ended for each in (same, broken)):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        run(tab)
        told = " ".join(said(tab))
        assert "same bytes" in told
        assert "could not be read" in told
        press(tab, "Dismiss 2 notes")
        assert "same bytes" not in " ".join(said(tab))
        assert {Outcome.DUPLICATE, Outcome.FAILED} == {
            Outcome(forge.job(each.id).result[0]["outcome"]) for each in (same, broken)
        }


def test_O3_a_key_may_choose_only_the_models_of_the_settings(tmp_path: Path) -> None:
    """Whatever the address says: a model that is paid for is chosen by whoever runs it, or by an admin."""
    with ModelServer() as server, open_served(tmp_path / "workspace", server) as forge:
        _files(tmp_path / "files", forge)
        _, secret = forge.access().create("Rita", Role.READER)
        with pages(forge):
            tab = look(project="p", model="openai-compatible:dear")
            tab.text_input[0].set_value(secret)
            press(tab, "Sign in")
            tab.chat_input[0].set_value("How long?")
            run(tab)
            assert "may not choose the model" in " ".join(said(tab)).replace("\\", "")
        assert not server.calls


def test_O3_who_signs_in_next_sees_nothing_of_who_was_here_before(forge: Ragforge) -> None:
    keys = [forge.access().create(name, Role.READER)[1] for name in ("Alice", "Bob")]
    with pages(forge) as tab:
        tab.text_input[0].set_value(keys[0])
        press(tab, "Sign in")
        side(tab, "Control")
        next(each for each in tab.toggle if each.label == "Keep nothing").set_value(True)
        run(tab)
        ask(tab, "How long may a chair be returned?")
        press(tab, "Sign out Alice")
        tab.text_input[0].set_value(keys[1])
        press(tab, "Sign in")
        assert not any("chair" in text for text in said(tab) if "question" in text)
        assert "rf_private" not in tab.session_state
        assert "rf_choices" not in tab.session_state or not tab.session_state["rf_choices"].ephemeral


def test_O3_private_questions_stay_in_their_project(forge: Ragforge) -> None:
    forge.create_project("other", embedder="hashing")
    with pages(forge):
        tab = look(project="p", private="1")
        ask(tab, "How long may a chair be returned?")
        assert any("How long may a chair" in text for text in said(tab))
        tab.selectbox(key="project-choice").set_value("other")
        run(tab)
        assert not any("How long may a chair" in text for text in said(tab))
        assert tab.query_params["private"] in ("1", ["1"])


def test_O3_a_switch_that_is_told_together_with_another_project_is_let_be(forge: Ragforge) -> None:
    """A browser may tell of a switch that was drawn anew in the moment a project is chosen."""
    forge.create_project("other", embedder="hashing")
    with pages(forge):
        tab = look(project="p")
        tab.selectbox(key="project-choice").set_value("other")
        next(each for each in tab.toggle if str(each.key).startswith("on-")).set_value(False)
        run(tab)
        assert tab.query_params["project"] in ("other", ["other"])
        assert all(document.enabled for document in forge.documents(project="p"))


def test_O3_without_a_log_every_answer_is_shown_once_and_explained(tmp_path: Path) -> None:
    with open_forge(tmp_path / "workspace", ask__log=False) as forge:
        _files(tmp_path / "files", forge)
        with pages(forge) as tab:
            ask(tab, "How long may a chair be returned?")
            run(tab)
            questions = [text for text in said(tab) if 'data-testid="question"' in text]
            assert len(questions) == 1
            assert "not kept" not in " ".join(said(tab))
            assert any(each.label == "Why" for each in tab.main.button)


def test_O3_retry_loses_nothing_when_there_is_no_room_to_ask(forge: Ragforge, monkeypatch: pytest.MonkeyPatch) -> None:
    with pages(forge) as tab:
        ask(tab, "How long may a chair be returned?")
        (conversation,) = forge.conversations(project="p")
        monkeypatch.setattr("ragforge.interfaces.ui.asking._AT_ONCE", 0)
        press(tab, "Retry")
        assert "too many questions" in " ".join(said(tab)).lower()
        assert len(forge.turns(conversation.id, project="p")) == 1
        assert len(forge.conversations(project="p")) == 1


def test_O3_a_key_asks_only_as_often_as_it_may(forge: Ragforge) -> None:
    _, secret = forge.access().create("Rita", Role.READER, limits=KeyLimits(requests_per_minute=1))
    with pages(forge) as tab:
        tab.text_input[0].set_value(secret)
        press(tab, "Sign in")
        ask(tab, "How long may a chair be returned?")
        tab.chat_input[0].set_value("And is collection free?")
        run(tab)
        assert "may send 1 request a minute" in " ".join(said(tab))


def _documents() -> None:
    """The page Documents alone."""
    from ragforge.interfaces.ui import documents, session
    from ragforge.interfaces.ui.engine import engine

    found = session.begin(engine(), engine().visitor(""))
    assert found is not None
    documents.documents(found)


def test_Q6_two_who_edit_one_section_are_told(forge: Ragforge) -> None:
    *_, made = forge.making("blueprint", project="p", model="offline")
    assert isinstance(made, Made)
    id = made.artifact.id
    with pages(forge):
        tab = AppTest.from_function(_documents, default_timeout=30)
        tab.session_state["rf_artifact"] = id
        run(tab)
        tab.button(key=f"edit-{id}-0").click()
        run(tab)
        forge.edit_artifact(id, project="p", texts={0: "THEIRS"})
        next(each for each in tab.text_area if each.label.startswith("Text of this section")).set_value("MINE")
        press(tab, "Save")
        assert forge.artifact(id, project="p").sections[0].text == "THEIRS"
        assert tab.error


def test_Q6_while_the_first_document_is_written_nobody_says_that_there_is_none(forge: Ragforge) -> None:
    job = forge.enqueue("make", {"kind": "blueprint", "model": "offline"}, project="p")
    with forge._parts.catalog.write() as c:
        assert c.jobs.claim(owner(), worker_name(), ["make"], 60, job.id) is not None
    with pages(forge):
        tab = run(AppTest.from_function(_documents, default_timeout=30))
        assert not any("Nothing was made yet" in text for text in said(tab))
        assert any(each.label == "Stop" for each in tab.button)
        forge.cancel_job(job.id)
        with forge._parts.catalog.write() as c:
            c.jobs.finish(owner(), [c.jobs.get(owner(), job.id)], "stopped")
        assert any("Nothing was made yet" in text for text in said(run(tab)))


def test_O3_a_visitor_is_asked_anew_for_everything(forge: Ragforge) -> None:
    """A page that is open and only looks at its files, or deletes one, is not run from its beginning."""
    key, secret = forge.access().create("Eve", Role.EDITOR)
    with engine.Here(forge) as here:
        visitor = here.visitor(secret)
        assert visitor.may(Action.WRITE)
        forge.access().revoke(key.id)
        time.sleep(0.6)
        assert not visitor.may_go_on()
        for action in (Action.READ, Action.ASK, Action.WRITE):
            with pytest.raises(Unauthenticated):
                visitor.forge(action)


def test_O3_a_long_conversation_shows_its_last_turns_and_earlier_ones_on_demand(forge: Ragforge) -> None:
    conversation = forge.begin_conversation("long", project="p")
    for number in range(25):
        forge.ask(f"How long may chair {number} be returned?", project="p", conversation=conversation.id)
    with pages(forge):
        tab = look(project="p", chat=conversation.id)
        assert len([text for text in said(tab) if 'data-testid="question"' in text]) == 20
        press(tab, "Show 5 of 5 earlier turns")
        assert len([text for text in said(tab) if 'data-testid="question"' in text]) == 25
