"""G1 to G7 with eyes and hands: an interview is led in a real browser, and ends in a document."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from docx import Document
from playwright.sync_api import Browser, Locator, expect

from ragforge import Ragforge
from ragforge.domain.access import Role
from ragforge.settings import load
from tests.browser.driving import Driver, Place, downloaded, driving, ui
from tests.process import serve

_SAMPLES = Path(__file__).parents[2] / "src" / "ragforge" / "samples"
_WHO = "We are Nordlicht, a furniture maker in Flensburg with two showrooms. I lead customer service."
_GUESS = "Customers are told different return windows. I think most tickets come from the old memo in the showrooms."
_HOSTILE = (
    "Our trouble: <script>document.title='owned'</script> <img src='http://evil.example/a.png' onerror='alert(1)'> "
    "![pixel](http://evil.example/p.png) [here](https://evil.example) customers complain about returns every week."
)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGFORGE_EMBED__MODEL", "wordllama")
    made = tmp_path / "workspace"
    with Ragforge.open(load(made)) as forge:
        forge.create_project("shop", embedder="wordllama")
    return made


def _say(driver: Driver, message: str) -> None:
    """And wait for what is asked next."""
    turns = driver.page.get_by_test_id("question")
    before = turns.count()
    driver.ask(message)
    expect(turns).to_have_count(before + 1)
    expect(driver.page.get_by_role("button", name="I don't know")).to_be_visible()
    expect(driver.page.get_by_test_id("stChatInputTextArea")).to_be_enabled()
    driver.settle()


def _press(driver: Driver, name: str, within: Locator | None = None) -> None:
    (within or driver.page).get_by_role("button", name=name, exact=True).click()
    driver.settle()


def _begin(driver: Driver, title: str) -> None:
    driver.page.get_by_label("What is it about?").fill(title)
    _press(driver, "Begin the interview")
    expect(driver.page.get_by_test_id("opening")).to_be_visible()


def _panel(driver: Driver, name: str) -> Locator:
    driver.page.get_by_role("tab", name=name, exact=True).click()
    driver.settle()
    shown = driver.page.locator(f".st-key-panel-{name.lower()}")
    expect(shown).to_be_visible()
    return shown


def _choose(driver: Driver, box: Locator, option: str) -> None:
    """Its list closes while something scrolls or unfolds: then a person opens it once more."""
    wanted = driver.page.get_by_role("option", name=option)
    for _ in range(10):
        box.click()
        driver.page.wait_for_timeout(500)
        if wanted.is_visible():
            break
    wanted.click()


def _settled(driver: Driver) -> list[str]:
    """What stands below each probe."""
    told = driver.page.locator(".step .far")
    expect(told).to_have_count(7)
    return told.all_inner_texts()


def test_G7_an_interview_is_led_and_ends_in_a_document(browser: Browser, place: Place) -> None:
    with Ragforge.open(load(place.workspace)) as forge:
        forge.add(_SAMPLES, project=place.project)
    with driving(browser, place) as driver:
        page = driver.page
        driver.to("Discovery")
        _begin(driver, "Returns")
        assert _settled(driver) == ["0 of 4"] * 7
        _say(driver, _WHO)
        expect(page.locator(".step[aria-current=step]")).to_have_attribute("data-press", "framing")
        _say(driver, _GUESS)
        moved = _settled(driver)
        assert moved != ["0 of 4"] * 7
        why = _panel(driver, "Why")
        expect(why).to_contain_text("searches")
        expect(why).to_contain_text("All that a model reads")
        _say(driver, "continue")
        expect(why).to_contain_text("Nothing was looked up")

        # what is assumed: one of the talk, one by hand that rests on it; the first falls, and shakes the other
        register = _panel(driver, "Assumptions")
        first = register.locator("tr[data-id=A1]")
        expect(first).to_contain_text("old memo")
        register.get_by_text("Add an assumption").click()
        register.get_by_label("What is taken for true").fill("Training of the showrooms will solve it")
        _choose(driver, register.get_by_role("combobox", name="Depends on"), "A1")
        register.get_by_text("Impact if false").click()
        _press(driver, "Add", register)
        expect(register.locator("tr[data-id=A2]")).to_have_attribute("data-status", "open")
        register.get_by_role("button", name="Change A1").press("Enter")  # by keyboard
        editor = page.locator(".st-key-assumption-editor")
        editor.get_by_role("radio", name="refuted").click()
        editor.get_by_label("What shows it").fill("Only 5 of 40 tickets mention it")
        _press(driver, "Save", editor)
        expect(register.locator("tr[data-id=A1]")).to_have_attribute("data-status", "refuted")
        expect(register.locator("tr[data-id=A2]")).to_have_attribute("data-status", "shaken")

        # a person says what is asked next
        page.locator(".step[data-press=root-cause]").click()
        expect(page.get_by_text("Next: Root cause")).to_be_visible()
        _press(driver, "Ask it now")
        expect(page.locator(".step[aria-current=step]")).to_have_attribute("data-press", "root-cause")

        document = _panel(driver, "Document")
        expect(document).to_contain_text("We are Nordlicht, a furniture maker in Flensburg with two showrooms.")
        document.locator(".cite").first.click()
        expect(driver.dialog.get_by_test_id("passage")).to_contain_text("I lead customer service")
        driver.close_dialog()
        driver.settle()
        word = downloaded(driver, document.get_by_role("button", name="Word"))
        texts = [each.text for each in Document(io.BytesIO(word)).paragraphs]
        assert any("We are Nordlicht, a furniture maker" in each for each in texts)
        assert "Open questions" in texts
        text = downloaded(driver, document.get_by_role("button", name="Markdown")).decode()
        assert "refuted" in text and "shaken" in text
        _press(driver, "Keep", document)

        settled = _settled(driver)
        page.reload()
        expect(page.get_by_test_id("question")).to_have_count(4)
        expect(page.get_by_test_id("question").nth(1)).to_contain_text(_GUESS)
        assert _settled(driver) == settled
        expect(_panel(driver, "Assumptions").locator("tr[data-id=A2]")).to_have_attribute("data-status", "shaken")
        expect(_panel(driver, "Why")).to_contain_text("the person chose it")
        driver.side("Chats")
        expect(page.get_by_text("No conversations yet")).to_be_visible()

        page.locator(".st-key-interview-menu").get_by_role("button").click()
        page.get_by_text("Take back the last turn").click()
        _press(driver, "Take it back")
        expect(page.get_by_test_id("question")).to_have_count(3)
        driver.to("Documents")
        expect(page.get_by_role("heading", name="Problem brief: Returns")).to_be_visible()
    with Ragforge.open(load(place.workspace)) as forge:
        (made,) = forge.artifacts(project=place.project)
        assert made.kind == "problem-brief"


def test_O3_hostile_words_do_nothing_and_nothing_is_cut(browser: Browser, place: Place) -> None:
    """`driving` looks at every request and every script; here in the dark, and as narrow as a phone."""
    with driving(browser, place) as driver:
        page = driver.page
        page.on("dialog", lambda dialog: pytest.fail("a script ran"))
        page.emulate_media(color_scheme="dark")
        driver.open("/discovery")
        _begin(driver, f"x{'y' * 150}")
        _say(driver, f"{_HOSTILE} {'z' * 300}")
        _say(driver, "I think <b>bold</b> ![pixel](http://evil.example/p.png) is the cause of it.")
        page.get_by_role("tab", name="Assumptions", exact=True).click()
        page.get_by_role("button", name="Change A1").click()
        expect(page.locator(".st-key-assumption-editor")).to_contain_text("<b>bold</b>")
        for width in (1280, 820, 390):
            page.set_viewport_size({"width": width, "height": 844})
            for name in ("Document", "Assumptions", "Why"):
                _panel(driver, name)
                _uncut(driver)
                main = page.get_by_test_id("stMain")
                assert main.locator("img, script, [part=answer] a, .rf-passage a, .says b").count() == 0
        talk = page.locator(".st-key-talk").bounding_box()
        panel = page.locator(".st-key-panel-why").bounding_box()
        assert talk and panel and panel["y"] > talk["y"] + talk["height"]  # below it
        assert page.title() != "owned"
        expect(page.get_by_test_id("question").first).to_contain_text("<script>document.title='owned'</script>")
        colour = "getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor"
        assert sum(map(int, page.evaluate(colour).strip("rgba()").split(",")[:3])) < 200


def _uncut(driver: Driver) -> None:
    main = "document.querySelector('[data-testid=stMain]')"
    assert driver.page.evaluate(f"{main}.scrollWidth - {main}.clientWidth") <= 0


def test_O3_an_interview_of_a_server_elsewhere(browser: Browser, workspace: Path, tmp_path: Path) -> None:
    with Ragforge.open(load(workspace)) as forge:
        _, reader = forge.access().create("Rita", Role.READER)
    with (
        serve(workspace) as server,
        ui(tmp_path / "none", "--server", server.address, variables={"RAGFORGE_KEY": reader}) as serving,
        driving(browser, serving) as driver,
    ):
        page = driver.page
        driver.to("Discovery")
        _begin(driver, "Returns")
        _say(driver, _GUESS)
        expect(_panel(driver, "Why")).to_contain_text("searches")
        expect(_panel(driver, "Assumptions").locator("tr[data-id=A1]")).to_be_visible()
        document = _panel(driver, "Document")
        word = downloaded(driver, document.get_by_role("button", name="Word"))
        assert Document(io.BytesIO(word)).paragraphs
        _press(driver, "Keep", document)  # of a server elsewhere only it knows what a key may
        expect(page.get_by_test_id("stAlertContentError")).to_be_visible()
        page.reload()
        expect(page.get_by_test_id("question")).to_have_text(_GUESS)
