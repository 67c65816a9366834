"""G1 to G7 on the page Discovery, by its logic; `tests/browser/test_G_discovery.py` looks at it with eyes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from ragforge import Ragforge
from ragforge.domain.access import KeyLimits, Role
from ragforge.domain.discovery import InterviewState
from tests.forge import WatchedEmbedder, open_forge
from tests.pages import answered, click, interviewing, look, pages, press, run, said, side

_WHO = "We are Nordlicht, a furniture maker in Flensburg. I lead customer service."
_GUESS = "About 40 tickets a week are about returns. I think most of them come from the old memo in the showrooms."
_HOSTILE = (
    "Our trouble: <script>alert(2)</script> <img src=x onerror=alert(1)> ![pixel](http://evil.example/p.png) "
    "[here](javascript:alert(3)) [there](https://evil.example) :material/delete: customers complain each week."
)


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[Ragforge]:
    with open_forge(tmp_path / "workspace") as made:
        yield made


def _begun(forge: Ragforge, title: str = "Returns") -> str:
    return forge.discovery.begin(title, project="p").id


def _state(forge: Ragforge, id: str = "last") -> InterviewState:
    return forge.discovery.get(id, project="p").state


def _say(tab: AppTest, message: str) -> AppTest:
    tab.chat_input[0].set_value(message)
    return answered(run(tab))


def _panel(tab: AppTest, name: str) -> AppTest:
    """Document, Assumptions or Why: what is not looked at is not on the page."""
    tab.session_state["discovery-panel"] = name
    return run(tab)


def _told(tab: AppTest) -> str:
    """All that the page says, also in its components."""
    shown: Any = tab.get("bidi_component")
    return " ".join((*said(tab), *(str(each.proto) for each in shown)))


def _labels(tab: AppTest) -> set[str]:
    return {each.label for each in tab.button}


def test_G1_a_first_look_teaches_and_begins_an_interview(forge: Ragforge) -> None:
    with pages(forge):
        tab = interviewing()
        assert "register of assumptions" in _told(tab)
        assert not tab.chat_input
        assert len(tab.radio(key="begin-mode").options) == 2
        tab.text_input(key="begin-title").set_value("Returns")
        press(tab, "Begin the interview")
        (talk,) = forge.discovery.all(project="p")
        assert talk.title == "Returns"
        assert tab.query_params["interview"] == [talk.id] or tab.query_params["interview"] == talk.id
        assert "Who are you, and what does your organisation do?" in " ".join(_told(tab).split())
        assert "Problem framing" in _told(tab) and "0 of 4" in _told(tab)


def test_G3_turns_are_explained_and_survive_a_reload(forge: Ragforge, tmp_path: Path) -> None:
    (tmp_path / "returns.md").write_text("# Returns\n\nA chair may be returned within sixty days.\n")
    forge.add(tmp_path / "returns.md", project="p")
    id = _begun(forge)
    with pages(forge):
        tab = interviewing()
        _say(tab, _WHO)
        before = _told(tab)
        _say(tab, _GUESS)
        assert _told(tab) != before
        assert "Nothing was looked up" not in _told(_panel(tab, "Why"))
        assert "1 passage" in _told(tab) and "searches" in _told(tab) and "Tokens" in _told(tab)
        _say(tab, "continue")
        told = _told(tab)
        assert "Nothing was looked up" in told
        assert "the message says nothing to look for" in told
        assert [turn.question for turn in forge.discovery.turns(id, project="p")] == [_WHO, _GUESS, "continue"]
        again = _panel(interviewing(project="p", interview=id), "Why")
        assert _GUESS in _told(again) and "Nothing was looked up" in _told(again)
        second = forge.discovery.turns(id, project="p")[1]
        click(again, f"why-{second.id}")
        assert "Nothing was looked up" not in _told(again)
    with pages(forge):  # a process that was not there
        tab = _panel(interviewing(project="p", interview=id), "Why")
        assert "since this page was started" in _told(tab)
        assert _GUESS in _told(tab)


def test_G7_an_assumption_is_refuted_and_what_rests_on_it_is_shaken(forge: Ragforge) -> None:
    _begun(forge)
    with pages(forge):
        tab = interviewing()
        _say(tab, _GUESS)
        _panel(tab, "Assumptions")
        assert [each.id for each in _state(forge).assumptions] == ["A1"]
        tab.text_area(key="new-statement-0").set_value("Training of the showrooms will solve it")
        tab.multiselect(key="new-rests-0").set_value(["A1"])
        press(tab, "Add")
        assert _state(forge).assumptions[1].depends_on == ("A1",)
        assert not tab.text_area(key="new-statement-1").value  # an empty box for the next one
        tab.session_state["rf_assumption"] = "A1"
        run(tab)
        tab.button_group(key="status-A1-0").set_value("refuted")
        tab.text_input(key="evidence-A1-0").set_value("Only 5 of 40 tickets mention it")
        press(tab, "Save")
        first, second = _state(forge).assumptions
        assert (first.status, second.status) == ("refuted", "shaken")
        assert first.evidence[-1].text == "Only 5 of 40 tickets mention it"
        assert (first.confidence, first.impact, second.confidence) == ("medium", first.impact, "medium")
        assert "1 shaken" in _told(tab) and "1 refuted" in _told(tab)


def test_G7_what_is_refused_says_why_and_what_to_do(forge: Ragforge) -> None:
    id = _begun(forge)
    forge.discovery.add_assumption("Shops use the old memo", id, project="p")
    forge.discovery.add_assumption("Training will solve it", id, project="p", depends_on=["A1"])
    with pages(forge):
        tab = interviewing()
        tab.session_state["rf_assumption"] = "A1"
        _panel(tab, "Assumptions")
        tab.multiselect(key="rests-A1-0").set_value(["A2"])
        press(tab, "Save")
        assert "That is a circle: A1 → A2 → A1" in _told(tab)
        assert "leave out one of these dependencies" in _told(tab)
        assert tab.multiselect(key="rests-A1-0").value == ["A2"]  # what was chosen is not lost
        press(tab, "Leave it")
        assert "circle" not in _told(tab)
        tab.text_area(key="new-statement-0").set_value("Shops use the old memo")
        press(tab, "Add")
        assert "A1 says the same" in _told(tab)
        assert tab.text_area(key="new-statement-0").value == "Shops use the old memo"
        tab.session_state["rf_assumption"] = "A1"
        run(tab)
        press(tab, "Remove for good")
        (left,) = _state(forge).assumptions
        assert left.id == "A2" and not left.depends_on


class _Held:
    """An embedder that waits when it is told to."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.go_on.set()

    def __call__(self) -> None:
        self.go_on.wait(20)


@pytest.fixture
def held() -> Iterator[_Held]:
    made = _Held()
    yield made
    made.go_on.set()


def test_G5_a_turn_on_its_way_is_followed_in_every_tab(tmp_path: Path, held: _Held) -> None:
    with open_forge(tmp_path / "workspace", WatchedEmbedder(before=held)) as forge, pages(forge):
        id = _begun(forge)
        tab = interviewing()
        held.go_on.clear()
        tab.chat_input[0].set_value(_WHO)
        run(tab)
        deadline = time.monotonic() + 20
        while "Reading what bears on it …" not in _told(tab):
            assert time.monotonic() < deadline, said(tab)
            time.sleep(0.05)
            run(tab)
        assert tab.chat_input[0].disabled and _WHO in _told(tab) and "Stop" in _labels(tab)
        other = interviewing(project="p", interview=id)  # a reload, or a second tab
        assert other.chat_input[0].disabled and _WHO in _told(other)
        assert not forge.discovery.turns(id, project="p")
        held.go_on.set()
        answered(tab)
        (turn,) = forge.discovery.turns(id, project="p")
        assert turn.question == _WHO
        assert _told(tab).count('data-testid="question"') == 1


def test_G5_what_was_said_is_not_lost_when_the_turn_fails(tmp_path: Path, held: _Held) -> None:
    with open_forge(tmp_path / "workspace", WatchedEmbedder(before=held)) as forge, pages(forge):
        id = _begun(forge)
        tab = interviewing()
        held.go_on.clear()
        tab.chat_input[0].set_value(_WHO)
        run(tab)
        forge.discovery.add_assumption("Shops use the old memo", id, project="p")  # it went on elsewhere
        held.go_on.set()
        answered(tab)
        assert not forge.discovery.turns(id, project="p")
        again = interviewing(project="p", interview=id)  # also after a reload
        for each in (tab, again):
            assert _WHO in _told(each) and "The interview went on elsewhere" in _told(each)
        press(again, "Say it again")
        answered(again)
        (turn,) = forge.discovery.turns(id, project="p")
        assert turn.question == _WHO
        assert "went on elsewhere" not in _told(again)
        assert "went on elsewhere" not in _told(run(tab))


def test_G5_a_turn_is_stopped_and_dismissed(tmp_path: Path, held: _Held) -> None:
    with open_forge(tmp_path / "workspace", WatchedEmbedder(before=held)) as forge, pages(forge):
        _begun(forge)
        tab = interviewing()
        held.go_on.clear()
        tab.chat_input[0].set_value(_WHO)
        run(tab)
        press(tab, "Stop")
        held.go_on.set()
        answered(tab)
        if "Stopped before the turn was complete" in _told(tab):  # else it was stored already, and stays
            press(tab, "Dismiss")
            assert _WHO not in _told(tab)


def test_G5_what_may_not_be_said_now_is_kept_with_the_reason(forge: Ragforge) -> None:
    _, key = forge.access().create("Rita", Role.READER, limits=KeyLimits(requests_per_minute=1))
    with pages(forge):
        tab = interviewing(key)
        tab.text_input(key="begin-title").set_value("Mine")
        press(tab, "Begin the interview")
        _say(tab, _WHO)
        _say(tab, _GUESS)
        assert _GUESS in _told(tab) and "Say it again" in _labels(tab)
        assert forge.discovery.all(project="p") == []  # interviews are private to who began them
        press(tab, "Dismiss")
        assert _GUESS not in _told(tab)


def test_G7_interviews_are_switched_renamed_taken_back_and_removed(forge: Ragforge) -> None:
    first, second = _begun(forge, "Returns"), _begun(forge, "Prices")
    with pages(forge):
        tab = interviewing(project="p", interview=first)
        assert tab.selectbox(key="interview-choice").value == first
        _say(tab, _WHO)
        _say(tab, _GUESS)
        tab.selectbox(key="interview-choice").set_value(second)
        assert _GUESS not in _told(run(tab))
        tab.selectbox(key="interview-choice").set_value(first)
        assert _GUESS in _told(run(tab))

        tab.session_state["rf_window"] = ("Take back the last turn", (first,))
        run(tab)
        press(tab, "Take it back")
        run(tab)
        assert [turn.question for turn in forge.discovery.turns(first, project="p")] == [_WHO]
        assert _GUESS not in _told(tab) and not _state(forge, first).assumptions

        tab.session_state["rf_window"] = ("Rename interview", (first,))
        run(tab)
        tab.text_input(key=f"interview-title-{first}").set_value("Returns in 2027")
        press(tab, "Rename")
        assert forge.discovery.get(first, project="p").talk.title == "Returns in 2027"

        tab.session_state["rf_window"] = ("Remove interview …", (first,))
        run(tab)
        assert "goes for good" in _told(tab) and len(forge.discovery.all(project="p")) == 2
        press(tab, "Remove for good")
        run(tab)
        assert [each.id for each in forge.discovery.all(project="p")] == [second]
        assert tab.selectbox(key="interview-choice").value == second


def test_G7_the_document_grows_is_corrected_and_kept(forge: Ragforge) -> None:
    id = _begun(forge)
    with pages(forge):
        tab = interviewing()
        assert "Problem brief: Returns" in _told(tab) and "0 points" in _told(tab)
        _say(tab, _WHO)
        points = _state(forge).points
        assert points and points[0].text in _told(tab)
        tab.selectbox(key="point-section-0").set_value("constraints")
        tab.text_area(key="point-text-0").set_value("Nothing changes before January.")
        press(tab, "Add it")
        assert "Nothing changes before January." in _told(tab)
        tab.selectbox(key="point-chosen-1").set_value(_state(forge).points[-1].id)
        press(run(tab), "Take it out")
        assert len(_state(forge).points) == len(points)
        press(tab, "Keep")
        (made,) = forge.artifacts(project="p")
        assert made.kind == "problem-brief" and any(points[0].text in each.text for each in made.sections)
        saving: Any = tab.get("download_button")
        assert [each.label for each in saving] == ["Word", "Markdown"]
        assert forge.discovery.get(id, project="p").state.points == points


def test_G7_a_sentence_of_the_document_is_changed_and_moved(forge: Ragforge) -> None:
    _begun(forge)
    with pages(forge):
        tab = _say(interviewing(), _WHO)
        first = _state(forge).points[0]
        assert not {"Save it", "Take it out"} & _labels(tab), "nothing is chosen yet"
        tab.selectbox(key="point-chosen-0").set_value(first.id)
        words, place = (f"point-{each}-{first.id}-0" for each in ("words", "place"))
        assert run(tab).text_area(key=words).value == first.text
        assert tab.selectbox(key=place).value == first.section and "Requirements" in tab.selectbox(key=place).options
        tab.text_area(key=words).set_value(" ")
        press(tab, "Save it")
        assert "The point says nothing" in _told(tab) and _state(forge).points[0] == first
        tab.text_area(key=words).set_value("Nordlicht makes furniture.")
        tab.selectbox(key=place).set_value("stakeholders")
        press(tab, "Save it")
        changed = _state(forge).points[0]
        assert (changed.id, changed.text, changed.section) == (first.id, "Nordlicht makes furniture.", "stakeholders")
        assert "Nordlicht makes furniture." in _told(tab) and "The point says nothing" not in _told(tab)
        assert "Save it" not in _labels(tab), "another one may be chosen"
        tab.selectbox(key="point-chosen-1").set_value(first.id)
        run(tab).selectbox(key=f"point-place-{first.id}-1").set_value("goals")
        press(tab, "Save it")
        assert _state(forge).points[0].section == "goals" and _state(forge).points[0].text == changed.text


def test_G1_the_mode_and_the_next_probe_are_chosen(forge: Ragforge) -> None:
    id = _begun(forge)
    with pages(forge):
        tab = interviewing()
        _say(tab, _WHO)
        tab.session_state["rf_probe"] = "root-cause"
        run(tab)
        assert "Next: Root cause" in _told(tab)
        press(tab, "Ask it now")
        answered(tab)
        assert forge.discovery.turns(id, project="p")[-1].probe == "root-cause"
        assert "the person chose it" in _told(_panel(tab, "Why"))
        assert "Next: Root cause" not in _told(tab)
        tab.button_group(key=f"mode-{id}-problem").set_value("solution")
        run(tab)
        assert _state(forge).mode == "solution"
        assert "Outcome and scope" in _told(tab)


def test_G6_what_is_known_of_the_organisation_is_said_by_those_who_may_write(forge: Ragforge) -> None:
    id = _begun(forge)
    _, key = forge.access().create("Rita", Role.READER)
    _, editor = forge.access().create("Ed", Role.EDITOR)
    with pages(forge):
        tab = interviewing(editor)
        tab.text_input(key="begin-title").set_value("Mine")
        press(tab, "Begin the interview")
        (box,) = [each for each in tab.text_area if str(each.key).startswith("organisation-")]
        box.set_value("A furniture maker in Flensburg")
        press(tab, "Save")
        assert forge.discovery.org_context(project="p") == "A furniture maker in Flensburg"

        reader = interviewing(key)
        press(reader, "Begin the interview")
        assert "What I know of you: A furniture maker in Flensburg" in _told(reader)
        assert not [each for each in reader.text_area if str(each.key).startswith("organisation-")]
        assert "Keep" not in _labels(reader)
        _say(reader, "We are somebody else, a bakery in Kiel.")
        assert forge.discovery.org_context(project="p") == "A furniture maker in Flensburg"
        assert len(forge.discovery.all(project="p")) == 1 and id


def test_O3_hostile_words_in_an_interview_are_words(forge: Ragforge) -> None:
    id = forge.discovery.begin(_HOSTILE, project="p").id
    forge.discovery.set_org_context(_HOSTILE, project="p")
    forge.discovery.add_assumption(_HOSTILE, id, project="p")
    with pages(forge):
        tab = interviewing()
        _say(tab, _HOSTILE)
        tab.session_state["rf_assumption"] = "A1"
        for name in ("Document", "Assumptions", "Why"):
            _panel(tab, name)
            components: Any = tab.get("bidi_component")
            pages_html: Any = tab.get("html")
            for body in (
                *(str(each.proto.json) for each in components),
                *(str(each.proto.body) for each in pages_html),
            ):
                for sign in ("<script", "<img", "href="):
                    assert sign not in body
        assert "&lt;script&gt;" in _told(tab)


def test_O3_the_list_of_chats_shows_no_interviews(forge: Ragforge) -> None:
    id = _begun(forge, "An interview")
    forge.discovery.say(_WHO, id, project="p")
    with pages(forge) as tab:
        side(tab, "Chats")
        assert "An interview" not in _labels(tab)
        assert any("No conversations yet" in each for each in said(tab))
        assert not look(project="p", chat=id).session_state["rf_chat"]  # nor can one be opened as a chat
