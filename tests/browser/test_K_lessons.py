"""K1 to K8 with eyes and hands: what agents learnt is reviewed in a real browser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from ragforge import Ragforge
from ragforge.domain.access import Role
from ragforge.domain.lessons import PatternState
from ragforge.settings import load
from tests.browser.driving import Driver, Place, downloaded, driving, ui
from tests.process import serve
from tests.proof import PROVING

_HOSTILE = (
    "# Head <img src='http://evil.example/a.png' onerror='alert(1)'> <script>document.title='owned'</script> "
    "![pixel](http://evil.example/p.png) [here](javascript:alert(1)) :material/delete: **bold** שלום עולם"
)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGFORGE_LEARN__EMBEDDER", "wordllama")
    made = tmp_path / "workspace"
    with Ragforge.open(load(made)) as forge:
        forge.create_project("shop", embedder="wordllama")
    return made


def _failure(forge: Ragforge, project: str, technology: str, *, verified: bool = True, **told: str) -> None:
    """Of another technology it is another pattern; told again in the same words, it is the same one."""
    usual = {
        "failure_description": f"The first request of {technology} times out",
        "solution_steps": f"Open the pool of {technology} at the start",
    }
    forge.lessons.capture_failure(
        agent_type="backend", technology=technology, project=project, verified=verified, **(usual | told)
    )


def _waiting(driver: Driver) -> Locator:
    return driver.page.locator("[class*=st-key-capture-]")


def _pattern(driver: Driver, words: str) -> Locator:
    return driver.page.locator("[class*='st-key-pattern-']").filter(has_text=words)


def _press(driver: Driver, name: str, within: Locator | None = None) -> None:
    (within or driver.page).get_by_role("button", name=name, exact=True).click()
    driver.settle()


def _choose(driver: Driver, label: str, *options: str) -> None:
    """Of a list from which several may be chosen."""
    box = driver.page.get_by_role("combobox", name=label)
    box.click()
    for option in options:
        driver.page.get_by_role("option", name=option).click()
    driver.page.get_by_text(label, exact=True).click()


def test_K6_what_agents_learnt_is_reviewed(browser: Browser, place: Place, tmp_path: Path) -> None:
    """Approve, correct, reject, embed, edit, reject and bring back, merge, split, export, import, delete."""
    with Ragforge.open(load(place.workspace)) as forge:
        for _ in range(2):
            _failure(forge, place.project, "python")
        rust, ping = "The first request of rust times out", "Ping the cache of rust every minute"
        _failure(forge, place.project, "python", failure_description=rust, solution_steps=ping)  # for the same agents
        forge.lessons.checkpoint(project=place.project)
        _failure(forge, place.project, "go", verified=False, evidence="test_pool passes")
        _failure(forge, place.project, "perl", verified=False)
    with driving(browser, place) as driver:
        page = driver.page
        driver.to("Lessons")
        expect(_waiting(driver)).to_have_count(2)
        first = _waiting(driver).filter(has_text="of go")
        expect(first).to_contain_text("test_pool passes")
        _press(driver, "Edit", first)
        first.get_by_label("What solved it").fill("Open two pools of go")
        _press(driver, "Save", first)
        expect(first).to_contain_text("Open two pools of go")
        _press(driver, "Approve", first)
        _waiting(driver).filter(has_text="of perl").get_by_role("button", name="Reject …").click()
        _press(driver, "Reject for good")
        expect(_waiting(driver)).to_have_count(0)
        _press(driver, "Checkpoint now")
        expect(page.get_by_text("1 lesson embedded, 1 new pattern.")).to_be_visible()
        expect(_pattern(driver, "Open two pools of go")).to_be_visible()

        _press(driver, "Reject", _pattern(driver, "cache of rust"))
        expect(_pattern(driver, "cache of rust")).to_contain_text("rejected")
        _press(driver, "Bring back", _pattern(driver, "cache of rust"))
        expect(_pattern(driver, "cache of rust")).to_contain_text("approved by a person")

        _press(driver, "Open", _pattern(driver, "pool of python"))
        expect(page.get_by_text("2 captures, each of them")).to_be_visible()
        _press(driver, "Edit")
        page.get_by_label("Problem", exact=True).fill("Whatever is asked first times out")
        _press(driver, "Save")
        expect(page.get_by_text("edited by a person")).to_be_visible()
        expect(page.get_by_text("Whatever is asked first times out")).to_be_visible()
        page.get_by_role("button", name="Merge with …").click()
        _choose(driver, "Patterns for the same agent, task and technology", "The first request of rust")
        _press(driver, "Merge")
        expect(page.get_by_text("3 captures, each of them")).to_be_visible()
        expect(page.get_by_text("3 successes, 0 failures")).to_be_visible()
        page.get_by_role("button", name="Split …").click()
        _choose(driver, "Captures to take out", "The first request of rust")
        _press(driver, "Split")
        expect(page.get_by_text("1 capture, each of them")).to_be_visible()
        page.get_by_role("button", name="Delete …").click()
        _press(driver, "Delete for good")
        expect(_pattern(driver, "cache of rust")).to_have_count(0)
        expect(_pattern(driver, "Whatever is asked first")).to_be_visible()

        page.get_by_text("Export and import").click()
        saved = downloaded(driver, page.get_by_role("button", name="Export as JSON lines")).decode()
        records = [json.loads(line) for line in saved.splitlines()]
        assert sorted(each["technology"] for each in records) == ["go", "python", "python"]
        own = tmp_path / "own.jsonl"
        own.write_text(json.dumps({**records[0], "id": "elsewhere", "technology": "lua"}) + "\nno JSON\n" + saved)
        page.get_by_test_id("stMain").locator("input[type=file]").set_input_files(own)
        expect(page.get_by_text("1 lesson came. 3 were here already.")).to_be_visible()
        expect(page.get_by_text("Line 2: It is no JSON.")).to_be_visible()
    with Ragforge.open(load(place.workspace)) as forge:
        patterns = forge.lessons.patterns(project=place.project)
        assert {each.facets.technology: each.record.captures for each in patterns} == {"go": 1, "python": 2}
        assert all(each.state is PatternState.LIVE for each in patterns)
        assert len(forge.lessons.staged(project=place.project)) == 1


def test_O3_hostile_words_of_a_lesson_load_and_run_nothing(browser: Browser, place: Place) -> None:
    """What a lesson says is shown, not done: `driving` looks at every request and every script."""
    with Ragforge.open(load(place.workspace)) as forge:
        _failure(
            forge, place.project, "python", failure_description=_HOSTILE, solution_steps=_HOSTILE, evidence=_HOSTILE
        )
        forge.lessons.checkpoint(project=place.project)
        (found,) = forge.lessons.patterns(project=place.project)
        forge.lessons.record_outcome(found.id, True, project=place.project, note=f"\u202e{_HOSTILE}")
        _failure(forge, place.project, "rust", verified=False, failure_description=_HOSTILE, error_message=_HOSTILE)
    with driving(browser, place) as driver:
        page = driver.page
        page.on("dialog", lambda dialog: pytest.fail("a script ran"))
        driver.to("Lessons")
        expect(_waiting(driver)).to_contain_text("<script>document.title='owned'</script>")
        page.get_by_text("Try it: what would an agent be told?").click()
        page.get_by_label("A task that is about to begin").fill(_HOSTILE)
        _press(driver, "Show it")
        expect(page.get_by_text("What was near")).to_be_visible()
        _press(driver, "Open", _pattern(driver, "onerror"))
        expect(page.locator(".rf-table")).to_contain_text("**bold**")
        main = page.get_by_test_id("stMain")
        assert main.locator("img, script, dd a, dd b, dd strong").count() == 0
        assert page.title() != "owned"
        # whatever is written from right to left stays in its place
        names = page.locator("[class*=st-key-evidence-] dt").all_inner_texts()
        assert names == ["What failed", "What solved it", "What verified it"]


@pytest.mark.parametrize("width", [390, 820] if PROVING else [390])
def test_O3_the_desk_is_not_cut_on_a_small_screen(browser: Browser, place: Place, width: int) -> None:
    with Ragforge.open(load(place.workspace)) as forge:
        _failure(forge, place.project, "python", failure_description="a" * 300, error_message="/very/long/" * 40)
        forge.lessons.checkpoint(project=place.project)
        _failure(forge, place.project, "rust", verified=False, error_message="b" * 300)
    with driving(browser, place) as driver:
        driver.page.set_viewport_size({"width": width, "height": 844})
        driver.open("/lessons")
        expect(_waiting(driver)).to_be_visible()
        _uncut(driver)
        _press(driver, "Open", _pattern(driver, "/very/long/"))
        expect(driver.page.get_by_text("Evidence", exact=True)).to_be_visible()
        _uncut(driver)


def _uncut(driver: Driver) -> None:
    driver.settle()
    main = "document.querySelector('[data-testid=stMain]')"
    assert driver.page.evaluate(f"{main}.scrollWidth - {main}.clientWidth") <= 0


def test_O3_the_desk_of_a_server_elsewhere(browser: Browser, workspace: Path, tmp_path: Path) -> None:
    with Ragforge.open(load(workspace)) as forge:
        _failure(forge, "shop", "python")
        forge.lessons.checkpoint(project="shop")
        _failure(forge, "shop", "rust", verified=False)
        _, admin = forge.access().create("Ada", Role.ADMIN)
        _, reader = forge.access().create("Rita", Role.READER)
    with serve(workspace) as server:
        options = ("--server", server.address)
        with (
            ui(tmp_path / "none", *options, variables={"RAGFORGE_KEY": admin}) as managed,
            ui(tmp_path / "none", *options, variables={"RAGFORGE_KEY": reader}) as read,  # it starts meanwhile
        ):
            with driving(browser, managed) as driver:
                driver.to("Lessons")
                _press(driver, "Approve", _waiting(driver))
                expect(_waiting(driver)).to_have_count(0)
                driver.page.get_by_test_id("stMain").get_by_text("Share with other projects").click()
                expect(driver.page.get_by_text("Other projects are told, too.")).to_be_visible()
                _press(driver, "Open", _pattern(driver, "pool of python"))
                expect(driver.page.get_by_text("1 capture, each of them")).to_be_visible()
                expect(driver.page.get_by_test_id("stAlertContentError")).to_have_count(0)
            with driving(browser, read) as driver:
                driver.to("Lessons")
                expect(driver.page.get_by_text("for those who manage this project")).to_be_visible()
                expect(driver.page.get_by_text("pool of python")).to_have_count(0)
