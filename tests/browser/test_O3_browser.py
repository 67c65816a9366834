"""O3, I17, S8, S9 with eyes and hands: a real browser, `ragforge ui` as a process, real files."""

from __future__ import annotations

import io
import re
import time
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from ragforge import Ragforge
from ragforge.domain.access import Role
from ragforge.settings import load
from ragforge.testing.model_server import ModelServer
from tests.browser.driving import Driver, Place, downloaded, driving, served_by, ui
from tests.process import serve
from tests.proof import PROVING, count, record
from tests.served import answers

_RETURNS = """\
# Returns

Chairs may be returned within sixty days after delivery, clean and with all parts.

Lamps may be returned within thirty days, in the box they came in.
"""
_CODE = "def refund_days(kind):\n    return {'chair': 60, 'lamp': 30}[kind]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "files"
    made.mkdir()
    (made / "returns.md").write_text(_RETURNS)
    (made / "refund.py").write_text(_CODE)
    return made


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    made = tmp_path / "workspace"
    with Ragforge.open(load(made)) as forge:
        forge.create_project("shop", embedder="wordllama")
    return made


def _add(place: Place, folder: Path) -> None:
    with Ragforge.open(load(place.workspace)) as forge:
        forge.add(folder, project=place.project)


def _dropped(driver: Driver, *files: Path) -> None:
    driver.drop(*files)
    for file in files:  # while the page is drawn anew, a row may stand there twice for a moment
        expect(driver.file(file.name)).to_have_count(1)
    driver.settle()


def test_O3_upload_ask_open_a_citation_and_see_the_marked_words(browser: Browser, place: Place, folder: Path) -> None:
    with driving(browser, place) as driver:
        expect(driver.page.get_by_text("Bring some files first")).to_be_visible()
        _dropped(driver, folder / "returns.md", folder / "refund.py")
        expect(driver.page.get_by_text("2 files, 2 in use")).to_be_visible()
        driver.ask("How long can I return a chair?")
        expect(driver.answer).to_contain_text("sixty days")
        driver.cite().click()
        expect(driver.dialog.locator("mark").first).to_be_visible()
        marked = " ".join(driver.dialog.locator("mark").all_inner_texts())
        assert "Chairs may be returned within sixty days" in marked
        assert "Lamps" not in marked
        expect(driver.dialog).to_contain_text("returns.md")
        original = downloaded(driver, driver.dialog.get_by_role("button", name="Original file"))
        assert original.decode() == _RETURNS
        driver.close_dialog()
        driver.ask("Who won the cup in 1998?")
        expect(driver.page.get_by_text("No answer.")).to_be_visible()
        driver.page.reload()  # state survives
        expect(driver.page.get_by_text("How long can I return a chair?").first).to_be_visible()
        driver.page.locator(".cite").first.click()
        expect(driver.dialog.locator("mark").first).to_be_visible()


def test_O3_the_next_turn_uses_a_file_that_came_meanwhile_and_not_one_that_is_off(
    browser: Browser, place: Place, folder: Path
) -> None:
    with driving(browser, place) as driver:
        _dropped(driver, folder / "refund.py")
        driver.ask("How long can I return a chair?")
        expect(driver.page.get_by_role("button", name="Retry")).to_be_visible()
        _dropped(driver, folder / "returns.md")
        driver.ask("How long can I return a chair?")
        expect(driver.answer).to_contain_text("sixty days")
        driver.file("returns.md").get_by_test_id("stCheckbox").click()
        expect(driver.page.get_by_text("2 files, 1 in use")).to_be_visible()
        driver.ask("Within how many days may lamps be returned, in the box?")
        expect(driver.page.get_by_role("button", name="Why")).to_have_count(3)
        expect(driver.page.get_by_text("in the box they came in")).to_have_count(0)


def test_O3_a_locked_file_is_read_whole_and_nothing_is_searched(
    browser: Browser, place_with_model: Place, model: ModelServer, folder: Path
) -> None:
    model.reply = "Sixty days [1]."
    _add(place_with_model, folder)
    with driving(browser, place_with_model) as driver:
        driver.side("Control")
        driver.page.get_by_test_id("stSidebar").get_by_text("Exact File Lock").click()
        expect(driver.page).to_have_url(re.compile("lock=1"))  # what is asked now is asked so
        driver.ask("What is sixty?")
        expect(driver.page.get_by_text("names none that can be read")).to_be_visible()
        driver.page.get_by_role("button", name="Dismiss").click()
        driver.ask("What does refund.py return for a chair?")
        expect(driver.answer).to_contain_text("Sixty days")
        expect(driver.page.get_by_text("❖ refund.py · FULL")).to_be_visible()
    prompt = answers(model)[-1].prompt
    assert _CODE.strip() in prompt
    assert "Lamps" not in prompt


def test_S8_an_edited_prompt_is_what_the_model_gets(
    browser: Browser, place_with_model: Place, model: ModelServer, folder: Path
) -> None:
    model.reply = "Arr, sixty days [1]."
    _add(place_with_model, folder)
    with driving(browser, place_with_model) as driver:
        driver.side("Control")
        driver.page.get_by_test_id("stSidebar").get_by_text("Show the prompt before sending").click()
        expect(driver.page).to_have_url(re.compile("preview=1"))  # what is asked now is shown first
        driver.ask("How long can I return a chair?")
        expect(driver.page.get_by_text("Tokens to read")).to_be_visible()
        expect(driver.page.get_by_text("Price, at most")).to_be_visible()
        assert not answers(model)
        task = driver.page.get_by_label(re.compile("^Task"))
        task.fill("## Task\n\nHow long can I return a chair? Answer like a pirate.")
        task.blur()
        expect(driver.page.get_by_role("button", name="Send as changed")).to_be_visible()
        driver.settle()
        driver.page.get_by_role("button", name="Send as changed").click()
        expect(driver.answer).to_contain_text("Arr, sixty days")
    (call,) = answers(model)
    assert "Answer like a pirate." in call.prompt
    assert "Chairs may be returned within sixty days" in call.prompt


def test_O3_a_long_answer_can_be_stopped_and_reloading_aborts_nothing(
    browser: Browser, place_with_model: Place, model: ModelServer, folder: Path
) -> None:
    model.reply, model.piece_seconds = " ".join(f"Word {number} [1]." for number in range(400)), 0.05
    _add(place_with_model, folder)
    with driving(browser, place_with_model) as driver:
        driver.ask("How long can I return a chair?")
        expect(driver.answer).to_contain_text("Word 3")
        driver.page.reload()
        expect(driver.answer).to_contain_text("Word 12")
        assert model.disconnects == 0
        driver.page.get_by_role("button", name="Stop").click()
        expect(driver.page.get_by_text("Stopped before the answer was complete")).to_be_visible()
        expect(driver.page.get_by_role("button", name="Retry")).to_be_visible()
    model.rest()
    assert model.disconnects == 1


def test_S9_why_shows_candidates_with_reasons_and_bars(browser: Browser, place: Place, folder: Path) -> None:
    _add(place, folder)
    with driving(browser, place) as driver:
        driver.ask("How long can I return a chair?")
        driver.page.get_by_role("button", name="Why", exact=True).last.click()
        table = driver.page.locator(".rf-table").first
        expect(table).to_contain_text("returns.md")
        expect(table).to_contain_text(re.compile("found by (words|meaning)"))
        expect(table.locator(".rf-bar").first).to_be_visible()
        expect(driver.page.get_by_text("Evidence", exact=True)).to_be_visible()


def test_O3_a_deleted_file_is_gone_from_the_list_the_answers_and_the_disk(
    browser: Browser, workspace: Path, folder: Path
) -> None:
    with ui(workspace) as serving, driving(browser, serving) as driver:
        _dropped(driver, folder / "returns.md")
        driver.ask("How long can I return a chair?")
        expect(driver.answer).to_contain_text("sixty days")
        driver.delete("returns.md")
        expect(driver.file("returns.md")).to_have_count(0)
        expect(driver.page.get_by_text("nothing of it is left")).to_be_visible()
        expect(driver.page.get_by_text("Chairs may be returned")).to_have_count(0)
    left = [path for path in workspace.rglob("*") if path.is_file() and b"Chairs may be returned" in path.read_bytes()]
    assert not left


def test_Q6_a_blueprint_is_made_edited_and_downloaded(browser: Browser, place: Place, folder: Path) -> None:
    _add(place, folder)
    with driving(browser, place) as driver:
        driver.to("Documents")
        driver.page.get_by_label("What it is about").fill("How chairs are returned")
        driver.page.get_by_role("button", name="Make it").click()
        expect(driver.page.get_by_role("button", name="Markdown", exact=True)).to_be_visible(timeout=60_000)
        text = downloaded(driver, driver.page.get_by_role("button", name="Markdown", exact=True)).decode()
        assert text.startswith(f"**Blueprint: {place.project}**")
        package = downloaded(driver, driver.page.get_by_role("button", name="Word", exact=True))
        assert "word/document.xml" in zipfile.ZipFile(io.BytesIO(package)).namelist()
        driver.page.get_by_role("button", name="Edit", exact=True).first.click()
        driver.page.get_by_role("textbox", name="Text of this section").fill("We take every chair back.")
        driver.page.get_by_role("button", name="Save", exact=True).click()
        expect(driver.page.locator(".answer .text").get_by_text("We take every chair back.")).to_be_visible()
        again = downloaded(driver, driver.page.get_by_role("button", name="Markdown", exact=True)).decode()
        assert "We take every chair back." in again


def test_O2_questions_are_brought_run_and_shown(browser: Browser, place: Place, folder: Path) -> None:
    questions = folder.parent / "own.jsonl"
    questions.write_text('{"id": "1", "question": "How long for a chair?", "documents": ["returns.md"]}\n')
    _add(place, folder)
    with driving(browser, place) as driver:
        driver.to("Evaluation")
        bad = folder.parent / "bad.jsonl"
        bad.write_text("no JSON\n")
        driver.page.get_by_test_id("stMain").locator("input[type=file]").set_input_files(bad)
        expect(driver.page.get_by_text("bad line")).to_be_visible()
        expect(driver.page.get_by_test_id("stMain").locator("input[type=file]")).to_have_count(1)
        driver.settle()
        driver.page.get_by_test_id("stMain").locator("input[type=file]").set_input_files(questions)
        expect(driver.page.get_by_label("Label")).to_be_visible()
        driver.settle()  # a button that is drawn anew hears nothing
        driver.page.get_by_role("button", name="Run", exact=True).click()
        expect(driver.page.locator(".rf-table").first).to_contain_text("ndcg@10", timeout=40_000)
        report = downloaded(driver, driver.page.get_by_role("button", name="Report as a web page"))
        assert report.startswith(b"<!")


def test_O3_files_that_cannot_be_used_are_told_exactly(browser: Browser, place: Place, folder: Path) -> None:
    """A corrupt DOCX, an unknown type, a duplicate, one that is too large: calm messages, and nothing else is lost."""
    (folder / "broken.docx").write_bytes(b"PK\x03\x04" + b"\x00" * 200)
    (folder / "program.exe").write_bytes(b"MZ" + bytes(range(256)) * 8)
    (folder / "copy.md").write_text(_RETURNS)
    (folder / "large.txt").write_bytes(b"x" * 3_000_000)
    with driving(browser, place) as driver:
        sidebar = driver.page.get_by_test_id("stSidebar")
        _dropped(driver, folder / "returns.md")
        driver.drop(folder / "broken.docx", folder / "program.exe", folder / "copy.md")
        expect(sidebar.get_by_text("copy.md has the same bytes as a file that is here already")).to_be_visible()
        expect(sidebar.get_by_text(re.compile(r"broken\.docx could not be read"))).to_be_visible()
        expect(sidebar.get_by_text(re.compile(r"program\.exe could not be read"))).to_be_visible()
        sidebar.get_by_role("button", name=re.compile("Dismiss")).click()
        driver.drop(folder / "large.txt")
        expect(sidebar.get_by_text(re.compile("2(.0)?MB or smaller"))).to_be_visible()
        driver.ask("How long can I return a chair?")
        expect(driver.answer).to_contain_text("sixty days")


def test_O3_two_tabs_on_one_project_see_the_same(browser: Browser, place: Place, folder: Path) -> None:
    with driving(browser, place) as one, driving(browser, place) as two:
        _dropped(one, folder / "returns.md")
        expect(two.file("returns.md")).to_be_visible()
        two.file("returns.md").get_by_test_id("stCheckbox").click()
        expect(one.page.get_by_text("1 file, 0 in use")).to_be_visible()
        two.delete("returns.md")
        expect(one.file("returns.md")).to_have_count(0)


def test_O3_the_page_of_a_server_elsewhere_and_what_happens_when_it_goes_away(
    browser: Browser, workspace: Path, folder: Path, tmp_path: Path
) -> None:
    with Ragforge.open(load(workspace)) as forge:
        _, secret = forge.access().create("Eve", Role.ADMIN)
    with serve(workspace) as server:
        options = ("--server", server.address)
        variables = {"RAGFORGE_KEY": secret}
        with ui(tmp_path / "none", *options, variables=variables) as serving, driving(browser, serving) as driver:
            _dropped(driver, folder / "returns.md")
            driver.ask("How long can I return a chair?")
            expect(driver.answer).to_contain_text("sixty days")
            driver.cite().click()
            expect(driver.dialog.locator("mark").first).to_be_visible()
            driver.close_dialog()
            for name in ("Documents", "Evaluation", "Lessons", "Status"):
                driver.to(name)
                expect(driver.page.get_by_test_id("stAlertContentError")).to_have_count(0)
            driver.page.get_by_role("link", name="Chat", exact=True).click()
            expect(driver.page.get_by_test_id("stChatInputTextArea")).to_be_enabled()
            driver.settle()
            server.process.kill()
            server.process.wait()
            driver.ask("Within how many days may lamps be returned?")
            expect(driver.page.get_by_text("does not answer").first).to_be_visible()
            expect(driver.page.get_by_text("Your question is kept")).to_be_visible()
            expect(driver.page.get_by_text("Traceback")).to_have_count(0)
            with serve(workspace, "--port", server.address.rpartition(":")[2]) as again:
                _ = again.address
                expect(driver.answer).to_contain_text("thirty days")  # the page comes back by itself, and asks
        assert not (tmp_path / "none").exists()
        assert secret not in "\n".join(serving.lines)


@pytest.mark.alone
def test_O3_the_page_is_there_in_two_seconds_and_works_by_keyboard(
    browser: Browser, workspace: Path, folder: Path
) -> None:
    with Ragforge.open(load(workspace)) as forge:
        forge.add(folder, project="shop")
    with ui(workspace) as serving:
        _ = serving.address
        with driving(browser, serving) as first:  # the browser's own cache is warm after this
            expect(first.page.get_by_test_id("stChatInputTextArea")).to_be_visible()
        began = time.monotonic()
        with driving(browser, serving) as driver:
            expect(driver.page.get_by_test_id("stChatInputTextArea")).to_be_visible()
            loaded = time.monotonic() - began
            box = driver.page.get_by_test_id("stChatInputTextArea")
            expect(box).not_to_be_focused()
            box.focus()
            driver.page.keyboard.type("How long can I return a chair?")
            driver.page.keyboard.press("Enter")
            # Only of an answer that is whole are the words marked in the passage.
            expect(driver.page.get_by_role("button", name="Retry")).to_be_visible()
            driver.settle()
            expect(box).to_be_focused()
            driver.page.locator(".cite").last.focus()
            driver.page.keyboard.press("Enter")
            expect(driver.dialog.locator("mark").first).to_be_visible()
            driver.page.keyboard.press("Escape")
            expect(driver.dialog).to_have_count(0)
    record("ui_load", seconds=round(loaded, 2))
    assert loaded < count(8, 2), "beside other tests it takes longer"


@pytest.mark.parametrize("width", [390, 820] if PROVING else [390])
def test_O3_nothing_is_cut_on_a_small_screen(browser: Browser, place: Place, folder: Path, width: int) -> None:
    _add(place, folder)
    with driving(browser, place) as driver:
        driver.page.set_viewport_size({"width": width, "height": 844})
        driver.page.reload()
        driver.ask("How long can I return a chair?")
        expect(driver.answer).to_contain_text("sixty days")
        for path in ("/", "/documents", "/evaluation", "/lessons", "/status"):
            driver.open(path)
            driver.settle()
            wide = driver.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, path


def test_O3_hostile_words_of_a_file_load_and_run_nothing(browser: Browser, place: Place, folder: Path) -> None:
    """What a file says is shown, not done: `driving` looks at every request and every script."""
    (folder / "evil <img src=x onerror=alert(1)>.md").write_text(
        "# Parrots\n\nThe parrot <img src='http://evil.example/a.png' onerror='alert(1)'> sings "
        "![pixel](http://evil.example/p.png) [here](javascript:alert(1)) every morning at six "
        "<script>document.title='owned'</script>.\n"
    )
    (evil,) = [path for path in folder.iterdir() if path.name.startswith("evil")]
    with driving(browser, place) as driver:
        driver.page.on("dialog", lambda dialog: pytest.fail("a script ran"))
        driver.drop(evil)
        expect(driver.page.get_by_text("1 file, 1 in use")).to_be_visible()
        driver.ask("When does the parrot sing?")
        expect(driver.answer).to_contain_text("every morning at six")
        driver.cite().click()
        expect(driver.dialog.locator("mark").first).to_be_visible()
        driver.close_dialog()
        driver.view("Why")
        expect(driver.page.locator(".rf-table").first).to_contain_text("evil")
        assert driver.page.title() != "owned"
        assert driver.page.locator("img[src*='evil.example']").count() == 0


def test_O3_a_file_that_is_deleted_while_a_question_about_it_is_answered(
    browser: Browser, place_with_model: Place, model: ModelServer, folder: Path
) -> None:
    """The answer ends calmly; nothing of the file stays, also not in the answer."""
    words = " ".join(f"Word {number} [1]." for number in range(200))
    model.reply, model.piece_seconds = f"Chairs may be returned within sixty days [1]. {words}", 0.05
    _add(place_with_model, folder)
    with driving(browser, place_with_model) as driver:
        driver.ask("How long can I return a chair?")
        expect(driver.answer).to_contain_text("Word 3")
        driver.delete("returns.md")
        expect(driver.file("returns.md")).to_have_count(0)
        assert model.at_work == 1
        model.piece_seconds = 0.0  # what is left comes at once
        expect(driver.page.get_by_role("button", name="Retry")).to_be_visible(timeout=60_000)
        expect(driver.page.get_by_test_id("stAlertContentError")).to_have_count(0)
        driver.page.reload()
        expect(driver.page.get_by_role("button", name="Retry")).to_be_visible()
        expect(driver.page.get_by_text("sixty days")).to_have_count(0)
    assert model.disconnects == 0
    with Ragforge.open(load(place_with_model.workspace)) as forge:
        (conversation,) = forge.conversations(project=place_with_model.project)
        told = forge.conversation_markdown(conversation.id, project=place_with_model.project)
        assert "sixty days" not in told


def test_O3_projects_are_made_and_switched_and_a_conversation_is_saved(
    browser: Browser, place: Place, folder: Path
) -> None:
    _add(place, folder)
    with driving(browser, place) as driver:
        sidebar = driver.page.get_by_test_id("stSidebar")
        driver.ask("How long can I return a chair?")
        expect(driver.answer).to_contain_text("sixty days")
        driver.side("Chats")
        sidebar.locator("[class*=st-key-chat-]").get_by_role("button").last.click()
        saved = downloaded(driver, driver.page.get_by_role("button", name="Save as Markdown")).decode()
        assert "# How long can I return a chair?" in saved
        assert "returns.md" in saved
        driver.close_dialog()
        driver.side("Files")
        sidebar.locator("[class*=st-key-project-menu]").get_by_role("button").click()
        driver.page.get_by_role("menuitem", name="New project").or_(
            driver.page.get_by_role("option", name="New project")
        ).click()
        driver.dialog.get_by_role("textbox", name="Name").fill("Contracts & <b>more</b>")
        driver.dialog.get_by_role("button", name="Make it").click()
        expect(driver.page.get_by_text("Bring some files first")).to_be_visible()
        sidebar.get_by_role("combobox", name="Project").click()
        driver.page.get_by_role("option", name=place.project, exact=True).click()
        expect(driver.file("returns.md")).to_be_visible()
        driver.side("Chats")
        sidebar.get_by_role("button", name="How long can I return a chair?").click()
        expect(driver.answer).to_contain_text("sixty days")


def test_O3_a_revoked_key_sees_nothing_more_in_an_open_tab(browser: Browser, workspace: Path, folder: Path) -> None:
    """Nobody touches the page: it only looks at its files, and at an answer that is being written."""
    long = " ".join(f"Word {number} [1]." for number in range(600))
    with ModelServer(reply=long, piece_seconds=0.05) as model:
        with Ragforge.open(served_by(model, workspace)) as forge:
            forge.add(folder, project="shop")
            key, secret = forge.access().create("Eve", Role.EDITOR)
        with ui(workspace) as serving, driving(browser, serving) as driver:
            driver.page.get_by_label("Your key").fill(secret)
            driver.page.get_by_role("button", name="Sign in").click()
            driver.ask("How long can I return a chair?")
            expect(driver.answer).to_contain_text("Word 3")
            with Ragforge.open(workspace) as forge:
                forge.access().revoke(key.id)
            revoked = time.monotonic()
            expect(driver.page.get_by_label("Your key")).to_be_visible(timeout=5_000)
            took = time.monotonic() - revoked
            expect(driver.page.get_by_text("Word 3")).to_have_count(0)
            expect(driver.page.get_by_text("Something went wrong")).to_have_count(0)
        assert model.disconnects == 1
    record("ui_revocation", seconds=round(took, 2))
