"""The web page in a real browser: `ragforge ui` as a process, Chromium driven by Playwright."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Download,
    Locator,
    Page,
    ViewportSize,
    WebSocketRoute,
    expect,
    sync_playwright,
)

from ragforge.testing.model_server import ModelServer
from tests.process import Serving, serve

expect.set_options(timeout=45_000)  # two workers and two browsers share the processors
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome") or ""
_FLAGS = (
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def ui(workspace: Path, *options: str, variables: Mapping[str, str] | None = None) -> Iterator[Serving]:
    """The pages of a workspace, or with `--server` of another's."""
    with serve(workspace, *options, variables=variables, what="ui") as serving:
        yield serving


def served_by(model: ModelServer, workspace: Path) -> Path:
    """Answers come from this server, which speaks as OpenAI's does."""
    (workspace / "ragforge.toml").write_text(
        f'[model]\nname = "openai-compatible:stub"\nbase_url = "{model.base_url}"\nwindow = 32000\n'
        '[ask]\nwhole_project_tokens = 0\nstages = "memory, inject"\n'
    )
    return workspace


@dataclass(frozen=True)
class Place:
    """A project that is one test's own, of a workspace whose pages are served to many."""

    workspace: Path
    serving: Serving
    project: str


class Driver:
    """What a person does on the page, and what they see."""

    def __init__(self, page: Page, address: str, project: str = "") -> None:
        self.page = page
        self.address = address
        self.project = project
        """The one that is looked at; else the page chooses."""
        self.complaints: list[str] = []
        """What the browser says is wrong: scripts that fail, and whatever the policy does not let it load."""
        page.set_default_timeout(45_000)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._heard)

    def _heard(self, said: ConsoleMessage) -> None:
        if said.type == "error" and "/_stcore/" not in said.location.get("url", ""):  # it tries out where its root is
            self.complaints.append(said.text)

    def open(self, path: str = "/") -> None:
        self.page.goto(self.address + path + (f"?project={self.project}" if self.project else ""))
        expect(self.page.get_by_test_id("stApp")).to_be_visible()

    def settle(self) -> None:
        """Until the page runs no more."""
        expect(self.page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")

    def ask(self, question: str) -> None:
        box = self.page.get_by_test_id("stChatInputTextArea")
        expect(box).to_be_enabled()
        box.fill(question)
        box.press("Enter")

    def view(self, name: str) -> None:
        """Answer, Prompt or Why."""
        self.page.get_by_role("radio", name=name, exact=True).click()
        self.settle()

    def side(self, name: str) -> None:
        """Files, Chats or Control."""
        self.page.get_by_role("tab", name=name, exact=True).click()
        self.settle()

    def to(self, name: str) -> None:
        """A page."""
        self.page.get_by_role("link", name=name, exact=True).click()
        expect(self.page.get_by_role("heading", name=name, exact=True)).to_be_visible()
        self.settle()

    def drop(self, *files: Path) -> None:
        self.page.get_by_test_id("stSidebar").locator("input[type=file]").set_input_files(list(files))

    @property
    def answer(self) -> Locator:
        """The text of the newest answer."""
        return self.page.locator(".answer .text").last

    def cite(self) -> Locator:
        """The last mark of the newest answer, when that is whole: only then its words are marked in the passage."""
        expect(self.page.get_by_role("button", name="Retry").last).to_be_visible()
        self.settle()
        return self.page.locator(".cite").last

    @property
    def dialog(self) -> Locator:
        return self.page.get_by_role("dialog")

    def file(self, name: str) -> Locator:
        """Its line in the sidebar."""
        rows = self.page.get_by_test_id("stSidebar").locator("[class*=st-key-file-]")
        return rows.filter(has_text=name)

    def menu(self, name: str) -> None:
        """Open what can be done with a file."""
        self.file(name).get_by_role("button").last.click()
        expect(self.dialog).to_contain_text(name)

    def delete(self, name: str) -> None:
        self.menu(name)
        self.dialog.get_by_text("Yes, delete it for good").click()
        self.dialog.get_by_role("button", name="Delete for good").click()

    def close_dialog(self) -> None:
        self.dialog.get_by_role("button", name="Close").click()
        expect(self.dialog).to_have_count(0)


@contextmanager
def driving(browser: Browser, served: Serving | Place) -> Iterator[Driver]:
    """A tab. Whatever a test does, the browser finds nothing wrong, and nothing comes from elsewhere."""
    serving, project = (served.serving, served.project) if isinstance(served, Place) else (served, "")
    context, foreign = _context(browser), list[str]()
    page = context.new_page()
    page.on("request", lambda sent: None if _is_own(sent.url, serving.address) else foreign.append(sent.url))
    driver = Driver(page, serving.address, project)
    try:
        driver.open()
        yield driver
        assert not driver.complaints
        assert not foreign
    except BaseException as problem:
        told = ["the browser said:", *driver.complaints, "the server said:", *serving.lines[-20:]]
        problem.add_note("\n".join([*told, "the page said:", page.locator("body").inner_text()]))
        raise
    finally:
        page.close()
        context.clear_cookies()


def _context(browser: Browser) -> BrowserContext:
    """One for all tabs, as a person has: scripts are fetched and compiled once."""
    viewport: ViewportSize = {"width": 1280, "height": 860}
    return browser.contexts[0] if browser.contexts else browser.new_context(viewport=viewport, accept_downloads=True)


def _is_own(url: str, address: str) -> bool:
    return url.startswith((address, address.replace("http", "ws"), "data:", "blob:"))


def downloaded(driver: Driver, button: Locator) -> bytes:
    with driver.page.expect_download() as coming:
        button.click()
    download: Download = coming.value
    return Path(str(download.path())).read_bytes()


class Line:
    """The line between a tab and its server; each direction can be held up, as a slow one would."""

    def __init__(self, page: Page) -> None:
        self._held: dict[str, list[bytes]] = {}
        page.route_web_socket(re.compile("/_stcore/stream"), self._route)

    def _route(self, tab: WebSocketRoute) -> None:
        self._to: dict[str, WebSocketRoute] = {"up": tab.connect_to_server(), "down": tab}
        tab.on_message(lambda said: self._pass("up", said))
        self._to["up"].on_message(lambda said: self._pass("down", said))

    def _pass(self, way: str, said: str | bytes) -> None:
        if way in self._held and isinstance(said, bytes):
            self._held[way].append(said)
        else:
            self._to[way].send(said)

    @contextmanager
    def held(self, way: Literal["up", "down"]) -> Iterator[list[bytes]]:
        """What is said meanwhile; it comes at once afterwards."""
        self._held[way] = []
        try:
            yield self._held[way]
        finally:
            for said in self._held.pop(way):
                self._to[way].send(said)

    def pass_on(self, way: Literal["up", "down"], number: int) -> None:
        """The first ones of what is held up."""
        for said in self._held[way][:number]:
            self._to[way].send(said)
        del self._held[way][:number]
