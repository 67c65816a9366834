"""Pictures of every page, light and dark, in docs/images/ui:
python -m tools.make_screenshots [--lessons] [--discovery] [FOLDER]

They are taken of the sample documents in a real browser. The answers of a model are those of the scripted server that
tests use; everything else is what anybody sees who does the same. With --lessons or --discovery, only those of that
page.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, expect

from ragforge import Ragforge
from ragforge.domain.lessons import EntryType
from ragforge.settings import load
from ragforge.testing.model_server import ModelServer
from tests.browser.driving import Driver, chromium, ui

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "src" / "ragforge" / "samples"
QUESTIONS = """\
{"id": "1", "question": "How long can I return a chair?", "documents": ["returns-and-refunds.md"]}
{"id": "2", "question": "Who founded the company?", "documents": ["employee-handbook.docx"]}
{"id": "3", "question": "How heavy is the desk Sylt?", "documents": ["desk-sylt-datasheet.pdf"]}
{"id": "4", "question": "What does shipping to an island cost?", "documents": ["shipping_cost.py"]}
"""
REPLY = (
    "Chairs and stools may be returned within **60 days**, if they are clean and all parts are present [1]. "
    "The return is collected for free [1]."
)
TOLD = (
    "We are Nordlicht Möbel, a furniture maker in Flensburg with two showrooms. Returns have grown since spring and "
    "support is swamped. I lead customer service, and the warehouse team is involved too.",
    "Customers get told different return windows by showrooms and by the website. Last week a customer in Hamburg was "
    "told 30 days, and the website says 60.",
    "continue",
    "About 40 tickets a week are about returns. I think most of them come from the old memo still being used in the "
    "showrooms.",
    "The showroom staff and support agents suffer most. Support answers the same question again and again.",
    "Probably everyone reads the memo from 2023 because nobody told them it is outdated.",
    "Karin Petersen, the head of operations, decides and pays for it. If the memo is still used because nobody told "
    "them, training will fix it.",
)
"""Of an interview, turn by turn."""

_SCHEMES: tuple[Literal["light"], Literal["dark"]] = ("light", "dark")
_RENAMED = """
(names) => {
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode())
    for (const [from, to] of names) walk.currentNode.data = walk.currentNode.data.replace(from, to);
}
"""
"""Folders of the machine that takes the pictures are nobody's business."""


def prepared(workspace: Path, model: ModelServer) -> None:
    """A workspace somebody has worked in for a while."""
    workspace.mkdir()
    (workspace / "ragforge.toml").write_text(
        f'[model]\nname = "openai-compatible:demo-model"\nbase_url = "{model.base_url}"\nwindow = 32000\n'
        '[ask]\nwhole_project_tokens = 0\nstages = "memory, inject"\n'
    )
    with Ragforge.open(load(workspace)) as forge:
        forge.create_project("Nordlicht Möbel")
        forge.add(SAMPLES, project="nordlicht-mobel")
        broken = workspace.parent / "contract-scan.pdf"
        broken.write_bytes(b"%PDF-1.4\n%broken")
        forge.add(broken, project="nordlicht-mobel")
        questions = workspace.parent / "samples.jsonl"
        questions.write_text(QUESTIONS)
        for _ in forge.importing_questions(questions, project="nordlicht-mobel"):
            pass
        usual = forge.tuning()
        for label, tuning in (("as usual", usual), ("words only", replace(usual, alpha=0.0))):
            for _ in forge.evaluating("samples", project="nordlicht-mobel", label=label, tuning=tuning):
                pass
        for _ in forge.making("blueprint", project="nordlicht-mobel", model="offline", title="Returns in 2027"):
            pass
        learnt(forge, "nordlicht-mobel")
        interviewed(forge, "nordlicht-mobel")


def learnt(forge: Ragforge, project: str) -> None:
    """What agents told while they worked on it."""
    lessons = forge.lessons
    for run in range(5):
        lessons.capture_failure(
            project=project,
            agent_type="backend",
            task_type="testing",
            technology="postgres",
            failure_description="The first request of the day times out",
            error_message="TimeoutError: no connection within 30 s",
            solution_steps="1. Open the pool when the service starts.\n2. Keep at least one connection in it.",
            decision_criteria="Only the first request fails, and the database was idle before",
            evidence=f"test_first_request passes, run {4_120 + run}",
        )
    for _ in range(3):
        lessons.capture_rejection(
            project=project,
            gate_type="design",
            task="Returns portal",
            human_feedback="Nobody can tell what happens to a return after it was sent",
            revision_approach="Show the five states of a return on one line, and mail the customer at each of them",
        )
    lessons.capture_approval(
        project=project,
        gate_type="release",
        task="Price import",
        approved_approach="Import into a second table, compare 100 prices by hand, then swap the tables",
        evidence="Approved by the head of sales at the first attempt",
    )
    lessons.checkpoint(project=project)
    by_kind = {each.facets.entry_type: each for each in lessons.patterns(project=project)}
    solved = by_kind[EntryType.FAILURE]
    lessons.capture_failure(
        project=project,
        agent_type="backend",
        technology="redis",
        failure_description="The first orders after a night without any wait for half a minute",
        solution_steps="Ping the cache every minute, so that the firewall keeps its connections open",
        evidence="No slow order in the seven nights since",
    )
    lessons.checkpoint(project=project)
    lessons.record_outcome(solved.id, True, project=project, note="Solved it for the invoice service, too")
    lessons.record_outcome(solved.id, False, project=project, note="Here it was the proxy that closed the connection")
    lessons.approve(by_kind[EntryType.REJECTION].id, project=project)
    lessons.capture_failure(
        project=project,
        agent_type="frontend",
        technology="react",
        failure_description="The list of returns jumps while it is loaded",
        error_message="Warning: Each child in a list should have a unique key",
        solution_steps="Use the number of the return as the key, not its place in the list",
        verified=False,
    )


def interviewed(forge: Ragforge, project: str) -> None:
    """What the head of customer service told so far."""
    discovery = forge.discovery
    id = discovery.begin("Returns", project=project).id
    for message in TOLD:
        discovery.say(message, id, project=project, model="offline")
    first, second = (each.id for each in discovery.get(id, project=project).state.assumptions[:2])
    solves = "One training of the showrooms puts an end to it."
    discovery.add_assumption(solves, id, project=project, confidence="low", impact="high", depends_on=[second])
    discovery.revise_assumption(first, id, project=project, status="confirmed", evidence="31 of 40 tickets quote it")
    discovery.revise_assumption(second, id, project=project, status="refuted", evidence="Both showrooms were told")


@dataclass(frozen=True)
class Taking:
    """Pictures of one scheme."""

    browser: Browser
    address: str
    folder: Path
    scheme: Literal["light", "dark"]
    workspace: Path

    def at(self, width: int, height: int) -> Driver:
        page = self.browser.new_page(viewport={"width": width, "height": height}, color_scheme=self.scheme)
        return Driver(page, self.address)

    def take(self, driver: Driver, name: str) -> None:
        driver.settle()
        driver.page.wait_for_timeout(700)
        driver.page.evaluate(_RENAMED, [[str(self.workspace), "/home/you/ragforge"], [str(ROOT), "/home/you/src"]])
        driver.page.screenshot(path=self.folder / f"{name}-{self.scheme}.png", animations="disabled")


def of_lessons(taking: Taking) -> None:
    """The desk, one pattern opened, what an agent is told; and the desk on a phone."""
    driver = taking.at(1280, 860)
    page = driver.page
    driver.open("/lessons")
    expect(page.get_by_role("button", name="Checkpoint now")).to_be_visible()
    taking.take(driver, "lessons")
    page.get_by_text("Try it: what would an agent be told?").click()
    page.get_by_label("A task that is about to begin").fill("The first request times out after the service starts")
    page.get_by_role("button", name="Show it").click()
    expect(page.get_by_text("The agent reads this")).to_be_visible()
    driver.settle()
    page.get_by_text("Try it: what would an agent be told?").evaluate("each => each.scrollIntoView()")
    page.mouse.move(340, 500)
    page.mouse.wheel(0, -80)
    taking.take(driver, "lessons-tried")
    page.locator("[class*=st-key-pattern-]").filter(has_text="The first request").get_by_role(
        "button", name="Open"
    ).click()
    expect(page.get_by_text("Evidence", exact=True)).to_be_visible()
    page.mouse.wheel(0, -5_000)
    taking.take(driver, "lesson")
    page.close()
    small = taking.at(390, 844)
    small.open("/lessons")
    expect(small.page.get_by_role("button", name="Checkpoint now")).to_be_visible()
    taking.take(small, "lessons-phone")
    small.page.close()


def of_discovery(taking: Taking) -> None:
    """The talk with its document, the register with one opened, and why a turn was asked; and the talk on a phone."""
    driver = taking.at(1440, 900)
    page = driver.page
    driver.open("/discovery?model=offline")
    expect(page.get_by_test_id("stChatInputTextArea")).to_be_enabled()
    taking.take(driver, "discovery")
    page.get_by_role("tab", name="Assumptions").click()
    expect(page.get_by_role("button", name="Change A3")).to_be_visible()
    taking.take(driver, "discovery-assumptions")
    before = page.get_by_test_id("question").count()
    driver.ask("Since March every agent looks it up in the wiki, and the returns policy changed twice.")
    expect(page.get_by_test_id("question")).to_have_count(before + 1)
    expect(page.get_by_role("button", name="Continue")).to_be_visible()
    page.get_by_role("tab", name="Why").click()
    expect(page.get_by_text("What was read")).to_be_visible()
    taking.take(driver, "discovery-why")
    page.locator(".st-key-interview-menu").get_by_role("button").click()
    page.get_by_text("Take back the last turn").click()
    page.get_by_role("button", name="Take it back").click()  # as it was, for the next picture
    expect(page.get_by_test_id("question")).to_have_count(before)
    page.close()
    small = taking.at(390, 844)
    small.open("/discovery?model=offline")
    expect(small.page.get_by_test_id("stChatInputTextArea")).to_be_enabled()
    taking.take(small, "discovery-phone")
    small.page.close()


def pictures(taking: Taking) -> None:
    driver = taking.at(1280, 860)
    page, take = driver.page, partial(taking.take, driver)
    driver.open()
    take("welcome")
    driver.ask("How long can I return a chair?")
    expect(driver.page.locator(".source").last).to_be_visible()
    take("chat")
    page.locator(".cite").last.click()
    expect(driver.dialog.locator("mark").first).to_be_visible()
    take("passage")
    driver.close_dialog()
    driver.view("Why")
    take("why")
    driver.view("Prompt")
    page.get_by_label("Your question").fill("What does shipping_cost.py charge for an island?")
    page.get_by_role("button", name="Show the prompt").click()
    expect(page.get_by_text("Tokens to read")).to_be_visible()
    take("prompt")
    driver.view("Answer")
    driver.side("Control")
    take("control")
    driver.side("Chats")
    take("chats")
    driver.side("Files")
    for name in ("Documents", "Evaluation", "Status"):
        driver.to(name)
        take(name.lower())
    small = taking.at(390, 844)
    phone = small.page
    phone.goto(f"{taking.address}/?{page.url.partition('?')[2]}")
    expect(phone.get_by_test_id("stApp")).to_be_visible()
    expect(phone.locator(".source").last).to_be_visible()
    taking.take(small, "phone")
    phone.close()
    page.close()


_PARTS = {"--lessons": of_lessons, "--discovery": of_discovery}


def main() -> None:
    given = [each for each in sys.argv[1:] if each not in _PARTS]
    parts = [_PARTS[each] for each in sys.argv[1:] if each in _PARTS] or [pictures, *_PARTS.values()]
    folder = Path(given[0]) if given else ROOT / "docs" / "images" / "ui"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, ModelServer(reply=REPLY) as model:
        workspace = Path(temporary) / "workspace"
        prepared(workspace, model)
        with ui(workspace) as serving, chromium() as browser:
            for scheme in _SCHEMES:
                taking = Taking(browser, serving.address, folder, scheme, workspace)
                for part in parts:
                    part(taking)


if __name__ == "__main__":
    main()
