"""Pages of the web interface without a browser, by Streamlit's own AppTest."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from streamlit.components.v2.component_manager import BidiComponentManager
from streamlit.testing.v1 import AppTest

from ragforge import Ragforge
from ragforge.interfaces.ui import engine, page

SCRIPT = Path(page.__file__)


@contextmanager
def pages(forge: Ragforge) -> Iterator[AppTest]:
    """A first look at the pages of a workspace."""
    with engine.Here(forge) as here:
        engine.use(here)
        yield look()


def look(**query: str) -> AppTest:
    """A new tab, with this in its address."""
    tab = AppTest.from_file(str(SCRIPT), default_timeout=30)
    tab.query_params.update(query)
    return run(tab)


@cache
def _installed_components() -> BidiComponentManager:
    """Looked for once, in all that is installed: each tab would do it anew."""
    manager = BidiComponentManager()
    manager.discover_and_register_components(start_file_watching=False)
    return manager


def run(tab: AppTest) -> AppTest:
    """Once more; whatever happens, no page may fail."""
    tab._bidi_component_manager = _installed_components()
    tab.run()
    assert not tab.exception, [(each.message, each.stack_trace) for each in tab.exception]
    return tab


def ask(tab: AppTest, question: str) -> AppTest:
    """Ask, and wait for the answer."""
    tab.chat_input[0].set_value(question)
    run(tab)
    return answered(tab)


def answered(tab: AppTest) -> AppTest:
    """Until nothing is being written: then one may ask again."""
    deadline = time.monotonic() + 30
    while tab.chat_input[0].disabled:
        assert time.monotonic() < deadline, said(tab)
        time.sleep(0.05)
        run(tab)
    return tab


def press(tab: AppTest, label: str) -> AppTest:
    """The last button that is called so."""
    found = [each for each in tab.button if each.label == label]
    assert found, [each.label for each in tab.button]
    found[-1].click()
    return run(tab)


def choose(tab: AppTest, view: str) -> AppTest:
    """Answer, Prompt or Why."""
    tab.session_state["rf_view"] = view
    tab.session_state["rf_view_number"] = 100 + len(view)  # a widget that nobody has touched
    return run(tab)


def side(tab: AppTest, name: str) -> AppTest:
    """Files, Chats or Control: what is not looked at is not on the page."""
    tab.session_state["side"] = name
    return run(tab)


def said(tab: AppTest) -> list[str]:
    """All that the page says in words, also as HTML of its own."""
    told: list[str] = []
    for kind in ("markdown", "info", "warning", "error", "caption", "html"):
        elements: Any = tab.get(kind)
        for each in elements:
            told.append(str(getattr(each, "value", None) or getattr(each.proto, "body", "")))
    return told


def _one(name: str) -> None:
    """A page alone, with what callbacks have to say."""
    from importlib import import_module

    from ragforge.interfaces.ui import projects, session
    from ragforge.interfaces.ui.engine import engine

    found = session.begin(engine(), engine().visitor(session.kept("key", "")))
    assert found is not None
    projects.toasts()
    getattr(import_module(f"ragforge.interfaces.ui.{name}"), name)(found)


def alone(name: str, key: str = "") -> AppTest:
    """A look at this page by whoever brings this key."""
    tab = AppTest.from_function(_one, default_timeout=30, args=(name,))
    tab.session_state["rf_key"] = key
    return run(tab)


def desk(key: str = "", pattern: str = "") -> AppTest:
    """A look at the page Lessons by whoever brings this key; with a pattern, that is opened."""
    tab = alone("lessons", key)
    return click(tab, f"look-{pattern}") if pattern else tab


def _discovery() -> None:
    """The page Discovery alone, with its windows and what callbacks have to say."""
    from ragforge.interfaces.ui import discovery, interviews, projects, session
    from ragforge.interfaces.ui.engine import engine
    from ragforge.interfaces.ui.session import kept

    found = session.begin(engine(), engine().visitor(session.kept("key", "")))
    assert found is not None
    projects.toasts()
    discovery.discovery(found)
    session.remember()
    if (window := kept("window", None)) and window[0] in interviews.WINDOWS:
        interviews.WINDOWS[window[0]](found, *window[1])


def interviewing(key: str = "", **query: str) -> AppTest:
    """A look at the page Discovery by whoever brings this key, with this in its address."""
    tab = AppTest.from_function(_discovery, default_timeout=30)
    tab.query_params.update(query)
    tab.session_state["rf_key"] = key
    return run(tab)


def click(tab: AppTest, key: str) -> AppTest:
    """The button with this key."""
    tab.button(key=key).click()
    return run(tab)
