"""Pictures of every page, light and dark, in docs/images/ui: python -m tools.make_screenshots [FOLDER]

They are taken of the sample documents in a real browser. The answers of a model are those of the scripted server that
tests use; everything else is what anybody sees who does the same.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import Browser, expect

from ragforge import Ragforge
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


def pictures(browser: Browser, address: str, folder: Path, scheme: str, workspace: Path) -> None:
    page = browser.new_page(
        viewport={"width": 1280, "height": 860}, color_scheme="dark" if scheme == "dark" else "light"
    )
    driver = Driver(page, address)

    def take(name: str) -> None:
        driver.settle()
        page.wait_for_timeout(700)
        page.evaluate(_RENAMED, [[str(workspace), "/home/you/ragforge"], [str(ROOT), "/home/you/src"]])
        page.screenshot(path=folder / f"{name}-{scheme}.png", animations="disabled")

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
    phone = browser.new_page(
        viewport={"width": 390, "height": 844}, color_scheme="dark" if scheme == "dark" else "light"
    )
    small = Driver(phone, page.url.replace("/status", "/"))
    phone.goto(f"{address}/?{page.url.partition('?')[2]}")
    expect(phone.get_by_test_id("stApp")).to_be_visible()
    expect(phone.locator(".source").last).to_be_visible()
    small.settle()
    phone.wait_for_timeout(700)
    phone.screenshot(path=folder / f"phone-{scheme}.png", animations="disabled")
    phone.close()
    page.close()


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images" / "ui"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, ModelServer(reply=REPLY) as model:
        workspace = Path(temporary) / "workspace"
        prepared(workspace, model)
        with ui(workspace) as serving, chromium() as browser:
            for scheme in ("light", "dark"):
                pictures(browser, serving.address, folder, scheme, workspace)


if __name__ == "__main__":
    main()
