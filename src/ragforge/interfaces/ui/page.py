"""The script that Streamlit runs for every look at a page: who looks, at which project, at which page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import streamlit as st

from ragforge.domain.access import Action
from ragforge.errors import RagforgeError, Unauthenticated
from ragforge.interfaces.ui import (
    chat,
    chats,
    discovery,
    documents,
    evaluation,
    files,
    interviews,
    lessons,
    passage,
    projects,
    session,
    status,
)
from ragforge.interfaces.ui.control import control
from ragforge.interfaces.ui.engine import Visitor, engine
from ragforge.interfaces.ui.look import html, part, quiet, show_problem, style
from ragforge.interfaces.ui.session import Session, keep, kept

_WINDOWS: Mapping[str, Callable[..., None]] = {
    **projects.WINDOWS,
    **interviews.WINDOWS,
    "conversation": chats.about,
    "file": files.about,
    "passage": passage.passage,
}
Shown = Callable[[Session], None]
_WAIT_SECONDS = 3.0
ICON = Path(__file__).parent / "icon.png"  # a symbol would be fetched from elsewhere


def main() -> None:
    st.set_page_config(page_title="ragforge", page_icon=ICON, layout="wide")
    style()
    try:
        visitor = engine().visitor(kept("key", ""))
        session.greet(visitor)
        found = session.begin(engine(), visitor)
        if visitor.may(Action.WRITE):
            engine().tabs.admit(_tab())
        if found is None:
            projects.first(visitor)
            return
        pages = st.navigation(
            [
                _page(chat.chat, found, "Chat", ":material/chat:", default=True),
                _page(documents.documents, found, "Documents", ":material/article:"),
                _page(discovery.discovery, found, "Discovery", ":material/explore:"),
                _page(evaluation.evaluation, found, "Evaluation", ":material/monitoring:"),
                _page(lessons.lessons, found, "Lessons", ":material/school:"),
                _page(status.status, found, "Status", ":material/health_and_safety:"),
            ],
            position="top",
        )
        _sidebar(found, visitor)
        with st.container():
            projects.toasts()
        pages.run()
        session.remember()
        if window := kept("window", None):
            name, about = window
            _WINDOWS[name](found, *about)
    except Unauthenticated as refused:
        _sign_in(refused)
    except RagforgeError as problem:
        show_problem(problem)
        if waiting := kept("resend", None):
            st.info(f"Your question is kept, and asked then: {quiet(waiting[0])}", icon=":material/schedule_send:")
        st.button("Try again", icon=":material/refresh:")
        part(_wait, _WAIT_SECONDS)()


def _wait() -> None:
    """Until what was missing is there again; then the page comes back by itself."""
    try:
        engine().visitor(kept("key", "")).forge(Action.READ).projects()
    except Unauthenticated:
        pass  # the page asks for a key
    except RagforgeError:
        return
    st.rerun()


def _page(show: Shown, found: Session, title: str, icon: str, *, default: bool = False) -> st.Page:
    return st.Page(lambda: show(found), title=title, icon=icon, url_path=title.lower(), default=default)


def _sidebar(found: Session, visitor: Visitor) -> None:
    with st.sidebar:
        html('<div class="rf-brand">ragforge</div>')
        projects.switcher(found)
        own, talks, how = st.tabs(["Files", "Chats", "Control"], key="side", on_change="rerun")
        with own:
            if own.open:
                files.files(found)
        with talks:
            if talks.open:
                chats.chats(found)
        with how:
            if how.open:
                control(found)
        if kept("key", ""):
            st.divider()
            if st.button(f"Sign out {quiet(visitor.name)}", icon=":material/logout:", type="tertiary"):
                session.forget_all()
                st.rerun()


def _tab() -> str:
    """The session of this browser's tab, as Streamlit calls it."""
    from streamlit.runtime.scriptrunner import get_script_run_ctx

    running = get_script_run_ctx()
    return running.session_id if running else ""


def _sign_in(refused: Unauthenticated) -> None:
    """Where keys are needed. The key stays in this tab's session, and nowhere else."""
    st.title("ragforge")
    if kept("key", ""):
        show_problem(refused)
    with st.form("sign-in"):
        key = st.text_input("Your key", type="password", placeholder="rf_…", autocomplete="current-password")
        if st.form_submit_button("Sign in", type="primary"):
            keep("key", key.strip())
            st.rerun()
    st.caption("Whoever runs this makes keys with ragforge keys new.")


main()
