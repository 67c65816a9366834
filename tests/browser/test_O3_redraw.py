"""O3: whatever is pressed while the page is drawn anew is heard, and the focus stays where it was."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from ragforge import Ragforge
from ragforge.settings import load
from ragforge.testing.model_server import ModelServer
from tests.browser.driving import Driver, Line, Place, driving
from tests.served import answers

_RETURNS = "# Returns\n\nChairs may be returned within sixty days after delivery, clean and with all parts.\n"
_QUESTION = "How long can I return a chair?"
_MAIN = 0
"""Where the path of all begins that stands beside the sidebar."""


@pytest.fixture
def talk(place_with_model: Place, model: ModelServer, tmp_path: Path) -> Place:
    """A project with one file, and a model that writes slowly."""
    (tmp_path / "returns.md").write_text(_RETURNS)
    with Ragforge.open(load(place_with_model.workspace)) as forge:
        forge.add(tmp_path / "returns.md", project=place_with_model.project)
    words = " ".join(f"Word {number} [1]." for number in range(200))
    model.reply, model.piece_seconds = f"Chairs may be returned within sixty days [1]. {words}", 0.1
    return place_with_model


def _until(page: Page, happened: Callable[[], bool]) -> None:
    for _ in range(600):
        if happened():
            return
        page.wait_for_timeout(50)  # what the line brings is handled meanwhile
    pytest.fail("it did not happen in thirty seconds")


def _reading(driver: Driver) -> None:
    """Some of the answer is there, and the page has begun to look for more: its clock starts after what is drawn."""
    driver.ask(_QUESTION)
    expect(driver.answer).to_contain_text("Word 3")
    expect(driver.answer).not_to_have_text(driver.answer.inner_text())


def _whole(driver: Driver, model: ModelServer) -> None:
    model.piece_seconds = 0.0
    expect(driver.page.get_by_role("button", name="Retry")).to_be_visible()
    driver.settle()


def _opened(driver: Driver) -> None:
    expect(driver.dialog).to_contain_text("Chairs may be returned within sixty days")


def test_a_prompt_that_is_sent_twice_in_a_hurry_shows_its_answer(
    browser: Browser, talk: Place, model: ModelServer
) -> None:
    """The second press comes while the page, which shows another view already, is on its way to the browser."""
    model.reply, model.piece_seconds = "Arr, sixty days [1].", 0.0
    with driving(browser, talk) as driver:
        line = Line(driver.page)
        driver.page.goto(f"{driver.address}/?project={talk.project}&preview=1")
        driver.settle()
        driver.ask(_QUESTION)
        task = driver.page.get_by_label(re.compile("^Task"))
        task.fill("## Task\n\nHow long can I return a chair? Answer like a pirate.")
        task.blur()
        send = driver.page.get_by_role("button", name="Send as changed")
        expect(send).to_be_visible()
        driver.settle()
        with line.held("down"):
            send.click()
            _until(driver.page, lambda: bool(answers(model)))
            driver.page.wait_for_timeout(1_000)  # the run of the page that shows the answer is over
            send.click()
        expect(driver.answer).to_contain_text("Arr, sixty days")
        expect(driver.page.get_by_role("radio", name="Answer", exact=True)).to_be_checked()
        driver.settle()
        expect(driver.page.get_by_test_id("stAlertContentError")).to_have_count(0)
    (call,) = answers(model)
    assert "Answer like a pirate." in call.prompt


def test_a_citation_keeps_the_focus_while_the_answer_is_written_and_when_it_is_whole(
    browser: Browser, talk: Place, model: ModelServer
) -> None:
    with driving(browser, talk) as driver:
        _reading(driver)
        mark = driver.page.locator(".cite").nth(1)
        mark.focus()
        expect(driver.answer).to_contain_text("Word 12")
        expect(mark).to_be_focused(timeout=1_000)
        driver.page.keyboard.press("Enter")
        _opened(driver)
        driver.close_dialog()
        expect(mark).to_be_focused(timeout=1_000)
        _whole(driver, model)
        expect(mark).to_be_focused(timeout=1_000)
        driver.page.keyboard.press("Enter")
        _opened(driver)


def test_a_press_on_a_citation_that_lasts_over_a_redraw_is_heard(
    browser: Browser, talk: Place, model: ModelServer
) -> None:
    """The mouse goes down on a mark of half an answer, and up on the same mark when it is whole."""
    model.reply = " ".join(
        f"Word {number} [1]." for number in range(30)
    )  # it fits: nothing is scrolled under the mouse
    with driving(browser, talk) as driver:
        _reading(driver)
        driver.page.locator(".cite").nth(1).hover()
        driver.page.mouse.down()
        expect(driver.answer).to_contain_text("Word 12")
        _whole(driver, model)
        driver.page.locator(".cite").nth(1).hover()
        driver.page.mouse.up()
        _opened(driver)


def test_a_citation_pressed_in_the_moment_the_answer_is_whole_is_opened(
    browser: Browser, talk: Place, model: ModelServer
) -> None:
    """The server has drawn the whole answer; the browser, which waits for it, still shows what was being written."""
    with driving(browser, talk) as driver:
        line = Line(driver.page)
        driver.open()
        _reading(driver)
        with line.held("down"):
            model.piece_seconds = 0.0
            model.rest()
            driver.page.wait_for_timeout(2_000)  # the page looks at it, and is drawn whole
            driver.page.locator(".cite").nth(1).press("Enter")
            driver.page.wait_for_timeout(500)
        _opened(driver)


def test_a_button_pressed_in_the_moment_the_answer_is_whole_does_what_it_says(
    browser: Browser, talk: Place, model: ModelServer
) -> None:
    """The page looks at its files; meanwhile it looks at the answer, which is whole, and the button is pressed."""
    with driving(browser, talk) as driver:
        line = Line(driver.page)
        driver.open()
        _reading(driver)
        with line.held("up") as waiting:
            model.piece_seconds = 0.0
            model.rest()
            _until(driver.page, lambda: len({_part(said) for said in waiting}) > 1)
            driver.file("returns.md").get_by_role("button").last.click()
            _until(driver.page, lambda: not all(map(_is_look, waiting)))
            (press,) = (said for said in waiting if not _is_look(said))
            of_files = next(said for said in waiting if _part(said) == _part(press))
            of_answer = next(said for said in waiting if _part(said) != _part(press))
            waiting[:] = [of_files, of_answer, press]
        expect(driver.dialog).to_contain_text("returns.md")
        driver.close_dialog()
        expect(driver.page.get_by_role("button", name="Retry")).to_be_visible()


def test_what_stands_behind_an_answer_is_not_lost_when_the_page_looks_once_more(browser: Browser, talk: Place) -> None:
    """The page is drawn whole, and looks at the answer once more before that is sent: the server then leaves out of it
    what the answer's part had drawn, since that comes anew."""
    with driving(browser, talk) as driver:
        line = Line(driver.page)
        driver.open()
        _reading(driver)
        with line.held("down") as coming:
            driver.page.get_by_role("button", name="Stop").click()
            _until(driver.page, lambda: _looked_after_all(coming) is not None)
            begin, end, part = _looked_after_all(coming) or (0, 0, "")
            whole = [said for said in coming[begin:end] if ForwardMsg.FromString(said).delta.fragment_id != part]
            assert len(whole) < end - begin
            coming[begin:end] = whole
        expect(driver.page.get_by_text("Stopped before the answer was complete")).to_be_visible(timeout=10_000)
        expect(driver.page.get_by_role("button", name="Retry")).to_be_visible()
        expect(driver.answer).to_contain_text("Word 3")


def test_a_citation_has_the_focus_again_when_its_answer_was_off_the_page_for_a_moment(
    browser: Browser, talk: Place
) -> None:
    """As above: the answer is taken off with all of the page, and comes back with its part."""
    with driving(browser, talk) as driver:
        line = Line(driver.page)
        driver.open()
        _reading(driver)
        mark = driver.page.locator(".cite").nth(1)
        mark.press("Enter")
        _opened(driver)
        with line.held("down") as coming:
            driver.page.keyboard.press("Escape")
            expect(mark).to_be_focused()
            _until(driver.page, lambda: _all(coming) is not None)
            begin, end = _all(coming) or (0, 0)
            coming[begin:end] = rest = [said for said in coming[begin:end] if not _is_of_a_part(said)]
            line.pass_on("down", begin + len(rest))
            expect(mark).to_have_count(0)
        expect(driver.answer).to_contain_text("Word 12")
        expect(mark).to_be_focused(timeout=1_000)


def _all(coming: list[bytes]) -> tuple[int, int] | None:
    """From where to where all of the page was drawn."""
    begin = None
    for place, said in enumerate(map(ForwardMsg.FromString, coming)):
        if said.HasField("new_session"):
            begin = None if said.metadata.run.fragment_ids else place
        elif said.HasField("script_finished") and begin is not None:
            return begin, place + 1
    return None


def _is_of_a_part(said: bytes) -> bool:
    """One beside the sidebar: the answer's."""
    told = ForwardMsg.FromString(said)
    return bool(told.delta.fragment_id) and told.metadata.delta_path[:1] == [_MAIN]


def _looked_after_all(coming: list[bytes]) -> tuple[int, int, str] | None:
    """From where to where all of the page was drawn, and which part beside the sidebar looked once more after that."""
    told = [ForwardMsg.FromString(said) for said in coming]
    runs = [(place, said.metadata.run.fragment_ids) for place, said in enumerate(told) if said.HasField("new_session")]
    for number, ((begin, parts), (end, _)) in enumerate(pairwise(runs), 1):
        drawn = {said.delta.fragment_id for said in told[begin:end] if said.metadata.delta_path[:1] == [_MAIN]}
        looked = [part for _, parts in runs[number:] for part in parts if part in drawn]
        if not parts and looked:
            return begin, end, looked[0]
    return None


def test_a_step_of_an_interview_keeps_the_focus_when_it_is_chosen(browser: Browser, place: Place) -> None:
    """Chosen, and given back, by the keyboard alone."""
    with driving(browser, place) as driver:
        driver.to("Discovery")
        driver.page.get_by_label("What is it about?").fill("Returns")
        driver.page.get_by_role("button", name="Begin the interview", exact=True).click()
        step = driver.page.locator(".step").nth(2)
        expect(step).to_be_visible()
        driver.settle()
        step.press("Enter")
        expect(step).to_contain_text("next")
        driver.settle()
        expect(step).to_be_focused(timeout=1_000)
        driver.page.keyboard.press("Enter")
        expect(step).not_to_contain_text("next")


def _part(said: bytes) -> str:
    """Of the page, that is to be run."""
    return str(BackMsg.FromString(said).rerun_script.fragment_id)


def _is_look(said: bytes) -> bool:
    """Whether the page asks by itself."""
    return bool(BackMsg.FromString(said).rerun_script.is_auto_rerun)
