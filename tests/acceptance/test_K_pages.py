"""K1 to K8 on the page Lessons, by its logic; `tests/browser/test_K_lessons.py` looks at it with eyes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from ragforge import Ragforge
from ragforge.domain.access import Role
from ragforge.domain.lessons import Lesson, Pattern, PatternState, Words
from ragforge.domain.plain import json_text
from tests.forge import open_forge
from tests.pages import click, desk, pages, press, run, said

_HOSTILE = (
    "# Not a head <img src=x onerror=alert(1)> <script>alert(2)</script> [here](javascript:alert(3)) **bold** "
    ":material/delete: $x$ שלום"
)


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[Ragforge]:
    with open_forge(tmp_path / "workspace", learn__embedder="wordllama") as made:
        yield made


def _failure(forge: Ragforge, technology: str, *, verified: bool = True, **told: str) -> Lesson:
    """Of another technology it is another pattern; told again in the same words, it is the same one."""
    usual = {
        "failure_description": f"The first request of {technology} times out",
        "solution_steps": f"Open the pool of {technology} at the start",
    }
    return forge.lessons.capture_failure(
        agent_type="backend", technology=technology, project="p", verified=verified, **(usual | told)
    )


def _patterns(forge: Ragforge, *technologies: str) -> dict[str, Pattern]:
    for each in technologies:
        _failure(forge, each)
    forge.lessons.checkpoint(project="p")
    return {each.facets.technology: each for each in forge.lessons.patterns(project="p")}


def _told(tab: AppTest) -> str:
    return " ".join(said(tab))


def _labels(tab: AppTest) -> set[str]:
    return {each.label for each in tab.button}


def _figures(tab: AppTest) -> dict[str, str]:
    return {each.label: each.value for each in tab.metric}


def test_K1_an_empty_desk_teaches(forge: Ragforge) -> None:
    with pages(forge):
        tab = desk()
        told = _told(tab)
        assert "Nothing was learnt yet" in told
        for kind in ("Failure solved", "Rejected, then approved", "Approved at once"):
            assert kind in told
        assert any("ragforge learn capture failure" in str(each.value) for each in tab.code)
        assert set(_figures(tab).values()) == {"0"}


def test_K6_a_capture_is_approved_and_becomes_a_pattern_at_a_checkpoint(forge: Ragforge) -> None:
    lesson = _failure(forge, "python", verified=False, evidence="test_pool passes", error_message="TimeoutError: 30 s")
    with pages(forge):
        tab = desk()
        assert _figures(tab) == {"Patterns": "0", "To review": "1", "For a checkpoint": "0"}
        assert "test_pool passes" in _told(tab)
        assert "TimeoutError: 30 s" in _told(tab)
        click(tab, f"approve-{lesson.id}")
        assert _figures(tab) == {"Patterns": "0", "To review": "0", "For a checkpoint": "1"}
        assert forge.lessons.lesson(lesson.id, project="p").verified
        press(tab, "Checkpoint now")
        deadline = time.monotonic() + 30
        while "1 lesson embedded, 1 new pattern." not in _told(tab):
            assert time.monotonic() < deadline, _told(tab)
            time.sleep(0.1)
            run(tab)
        assert _figures(tab) == {"Patterns": "1", "To review": "0", "For a checkpoint": "0"}


def test_K6_a_capture_is_corrected_or_rejected(forge: Ragforge) -> None:
    one, other = (_failure(forge, each, verified=False) for each in ("python", "rust"))
    with pages(forge):
        tab = desk()
        click(tab, f"edit-{one.id}")
        tab.text_area(key=f"told-solution_steps-{one.id}").set_value("Open two pools")
        press(tab, "Save")
        kept = forge.lessons.lesson(one.id, project="p")
        assert kept.told.solution_steps == "Open two pools"
        assert kept.told.failure_description == one.told.failure_description
        assert not kept.verified
        click(tab, f"reject-sure-{other.id}")
        assert [each.id for each in forge.lessons.staged(project="p")] == [one.id]
        click(tab, f"edit-{one.id}")
        tab.text_area(key=f"told-solution_steps-{one.id}").set_value("")
        press(tab, "Save")
        assert "needs solution_steps" in _told(tab)
        assert tab.text_area(key=f"told-failure_description-{one.id}").value  # what was written is not lost


def test_K6_patterns_show_what_they_are_worth_and_can_be_found(forge: Ragforge) -> None:
    for _ in range(5):
        _failure(forge, "python")
    found = _patterns(forge, "rust")
    forge.lessons.record_outcome(found["python"].id, False, project="p", note="It was the proxy")
    with pages(forge):
        tab = desk()
        told = _told(tab)
        assert "5 successes, 1 failure" in told
        assert "Most Common" in told and "Less Common" in told
        assert "1 success, 0 failures" in told
        assert "HIGH" in told and "agent: backend" in told and "technology: rust" in told
        year = found["rust"].last_at
        assert year is not None and f"until {year.astimezone().replace(year=year.year + 1):%Y}" in told
        places = [str(each.key) for each in tab.button if str(each.key).startswith("look-")]
        assert places == [f"look-{found['rust'].id}", f"look-{found['python'].id}"]  # newest first
        tab.text_input(key="find-lesson-p").set_value("POOL rust")
        run(tab)
        assert [each.key for each in tab.button if str(each.key).startswith("look-")] == [f"look-{found['rust'].id}"]
        tab.text_input(key="find-lesson-p").set_value("nowhere")
        assert "No pattern says so." in _told(run(tab))


def test_K6_a_rejected_pattern_is_told_to_nobody_until_it_is_brought_back(forge: Ragforge) -> None:
    id = _patterns(forge, "python")["python"].id
    with pages(forge):
        tab = desk()
        click(tab, f"reject-{id}")
        assert forge.lessons.patterns(project="p")[0].state is PatternState.REJECTED
        assert "rejected" in _told(tab)
        assert "Reject" not in _labels(tab)
        press(tab, "Bring back")
        (kept,) = forge.lessons.patterns(project="p")
        assert kept.state is PatternState.LIVE and kept.approved
        assert "approved by a person" in _told(tab)
        assert "Approve" not in _labels(tab)


def test_K6_the_list_is_paged(forge: Ragforge) -> None:
    _patterns(forge, *(f"tool{number}" for number in range(23)))
    with pages(forge):
        tab = desk()
        assert len([each for each in tab.button if str(each.key).startswith("look-")]) == 20
        press(tab, "Show 3 more of 23")
        assert len([each for each in tab.button if str(each.key).startswith("look-")]) == 23


def test_K6_an_opened_pattern_shows_all_its_evidence(forge: Ragforge) -> None:
    _failure(forge, "python", evidence="test_pool passes", error_message="TimeoutError")
    id = _patterns(forge, "python")["python"].id
    forge.lessons.record_outcome(id, True, project="p", note="It held")
    forge.lessons.record_outcome(id, False, project="p", note="It was the proxy")
    with pages(forge):
        tab = click(desk(), f"look-{id}")
        told = _told(tab)
        for words in ("2 captures", "test_pool passes", "TimeoutError", "Told by the owner", "It held", "the proxy"):
            assert words in told
        assert "3 successes, 1 failure" in told
        press(tab, "All lessons")
        assert "Checkpoint now" in _labels(tab)


def test_K6_two_who_edit_one_pattern_are_told(forge: Ragforge) -> None:
    id = _patterns(forge, "python")["python"].id
    with pages(forge):
        tab = desk(pattern=id)
        click(tab, f"edit-{id}")
        forge.lessons.edit(id, Words("THEIRS", "their way", "always"), 1, project="p")
        tab.text_area(key=f"words-problem-{id}").set_value("MINE")
        press(tab, "Save")
        assert forge.lessons.patterns(project="p")[0].words.problem == "THEIRS"
        assert "Somebody edited it meanwhile" in _told(tab) and "their way" in _told(tab)
        assert tab.text_area(key=f"words-problem-{id}").value == "MINE"
        press(tab, "Save")
        (kept,) = forge.lessons.patterns(project="p")
        assert kept.words.problem == "MINE" and kept.edited
        assert "edited by a person" in _told(tab)


def test_K6_patterns_are_merged_and_split(forge: Ragforge) -> None:
    for solution in ("Open the pool at the start", "Ping the cache every minute", "Raise the limit of the proxy"):
        _failure(forge, "python", solution_steps=solution)
    _failure(forge, "rust")
    forge.lessons.capture_approval(gate_type="design", approved_approach="One page", project="p")
    forge.lessons.checkpoint(project="p")
    own = [each for each in forge.lessons.patterns(project="p") if each.facets.technology == "python"]
    into, *others = [each.id for each in own]
    with pages(forge):
        tab = desk(pattern=into)
        offered = tab.multiselect(key=f"merged-{into}")
        assert len(offered.options) == 2  # not those of another kind, or for others
        assert "Split" not in _labels(tab)
        press(tab, "Merge")
        assert "Choose the patterns to merge first" in _told(tab)
        tab.multiselect(key=f"merged-{into}").set_value(others)
        press(tab, "Merge")
        details = forge.lessons.pattern(into, project="p")
        assert details.pattern.record.captures == 3
        tab.multiselect(key=f"taken-{into}").set_value([each.id for each in details.lessons])
        press(tab, "Split")
        assert "leaves something on both sides" in _told(tab)
        tab.multiselect(key=f"taken-{into}").set_value([details.lessons[2].id])
        press(tab, "Split")
        by_id = {each.id: each for each in forge.lessons.patterns(project="p")}
        assert by_id[into].record.captures == 2
        made = str(tab.session_state["rf_pattern"])
        assert by_id[made].record.captures == 1
        assert "1 capture" in _told(tab)


def test_K6_a_pattern_is_deleted_for_good_and_its_page_with_it(forge: Ragforge) -> None:
    id = _patterns(forge, "python")["python"].id
    with pages(forge):
        tab, other = desk(pattern=id), desk(pattern=id)
        click(tab, f"delete-sure-{id}")
        assert forge.lessons.patterns(project="p") == []
        assert "Nothing was learnt yet" in _told(tab)
        assert "not here any more" in _told(run(other))
        assert "not here any more" not in _told(run(other))


def test_K7_who_may_ask_sees_the_block_that_an_agent_gets(forge: Ragforge) -> None:
    _patterns(forge, "python")
    with pages(forge):
        tab = desk()
        task = "The first request of python times out"
        tab.text_area(key="try-text").set_value(task)
        press(tab, "Show it")
        blocks = [str(each.value) for each in tab.code]
        assert blocks == [forge.lessons.context(task, project="p").block]
        assert blocks[0].startswith("[ORCHESTRATOR CONTEXT: Historical Knowledge]")
        tab.radio(key="try-kind").set_value("A failure")
        press(tab, "Show it")
        assert [str(each.value) for each in tab.code] == blocks
        tab.text_input(key="try-technology").set_value("cobol")
        press(tab, "Show it")
        assert not tab.code
        assert "told nothing beside its task" in _told(tab)
        tab.text_area(key="try-text").set_value("")
        press(tab, "Show it")
        assert "describe the task" in _told(tab)


@pytest.mark.parametrize(("role", "tries"), [(Role.READER, False), (Role.EDITOR, False), (Role.ORCHESTRATOR, True)])
def test_O3_the_desk_is_for_those_who_manage(forge: Ragforge, role: Role, tries: bool) -> None:
    _patterns(forge, "python")
    _failure(forge, "rust", verified=False)
    _, secret = forge.access().create("Rita", role)
    with pages(forge):
        tab = desk(secret)
        assert "for those who manage this project" in _told(tab)
        assert not tab.error
        assert "pool of" not in _told(tab)
        assert _labels(tab) == ({"Show it"} if tries else set())
        assert not tab.metric


def test_O3_an_admin_reviews_and_is_not_offered_what_only_orchestrators_do(forge: Ragforge) -> None:
    id = _patterns(forge, "python")["python"].id
    _, secret = forge.access().create("Ada", Role.ADMIN)
    with pages(forge):
        tab = desk(secret)
        assert "Show it" not in _labels(tab)
        click(tab, f"approve-{id}")
        assert forge.lessons.patterns(project="p")[0].approved


def test_O3_lessons_are_shared_by_a_switch(forge: Ragforge) -> None:
    with pages(forge):
        tab = desk()
        (switch,) = tab.toggle
        assert not switch.value
        switch.set_value(True)
        run(tab)
        assert forge.project("p").shares_lessons
        forge.lessons.share(False, project="p")
        run(tab)
        assert not tab.toggle[0].value  # as whoever switched it last left it


def test_O3_lessons_are_brought_line_by_line(forge: Ragforge) -> None:
    good = {"entry_type": "gate_approval", "gate_type": "design", "approved_approach": "One page", "verified": True}
    waiting = {"entry_type": "failure_solution", "agent_type": "any", "failure_description": "a", "solution_steps": "b"}
    lines = [json.dumps(good), "no JSON", "", json.dumps({"entry_type": "poem"}), json.dumps(waiting), "[1]"]
    with pages(forge):
        tab = desk()
        for expected in ("2 lessons came.", "0 lessons came. 2 were here already."):
            tab.file_uploader[0].set_value(("own.jsonl", "\n".join(lines).encode(), "application/x-ndjson"))
            run(tab)
            told = _told(tab)
            assert expected in told
            assert "3 lines of the file were not taken" in told
            for number in (2, 4, 6):
                assert f"Line {number}:" in told
        assert [each.verified for each in forge.lessons.staged(project="p")] == [True, False]
        whole = "\n".join(json_text(each) for each in forge.lessons.exported(project="p"))
        tab.file_uploader[0].set_value(("all.jsonl", whole.encode(), "application/x-ndjson"))
        assert "0 lessons came. 2 were here already." in _told(run(tab))
        press(tab, "Dismiss")
        assert "came." not in _told(tab)


def test_O3_hostile_words_of_a_lesson_are_only_words(forge: Ragforge) -> None:
    _failure(forge, "python", failure_description=_HOSTILE, solution_steps=_HOSTILE, evidence=_HOSTILE)
    waiting = _failure(forge, "rust", verified=False, failure_description=_HOSTILE, error_message=_HOSTILE)
    forge.lessons.checkpoint(project="p")
    (found,) = forge.lessons.patterns(project="p")
    forge.lessons.record_outcome(found.id, True, project="p", note=f"{_HOSTILE} \u202e")
    with pages(forge):
        tab = desk()
        _only_words(tab)
        click(tab, f"edit-{waiting.id}")
        _only_words(tab)
        _only_words(click(tab, f"look-{found.id}"))


def _only_words(tab: AppTest) -> None:
    for texts in (tab.markdown, tab.caption, tab.info, tab.warning, tab.error):
        assert not any("onerror" in str(each.value) for each in texts)
    for each in tab.get("html"):
        body = str(each.proto.body)
        assert "<img" not in body and "<script" not in body
    assert not any("onerror" in label for label in _labels(tab))
