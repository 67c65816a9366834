"""Which interviews there are: begin, rename, remove one, take back a turn; and what is known of the organisation."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import streamlit as st

from ragforge.domain.access import Action
from ragforge.domain.library import Status
from ragforge.errors import RagforgeError
from ragforge.interfaces.ui.lesson_look import done
from ragforge.interfaces.ui.look import dim, problem_text, quiet, show_problem, told
from ragforge.interfaces.ui.saying import DESCRIBE
from ragforge.interfaces.ui.session import Session, choose_interview, close_window, keep, kept, open_window
from ragforge.interfaces.ui.sight import Sight, changed
from ragforge.interfaces.words import count

_LONGEST_TITLE = 200
_LONGEST_CONTEXT = 4_000
NEW, RENAME, UNDO, REMOVE = "New interview", "Rename interview", "Take back the last turn", "Remove interview …"


def menu(session: Session, sight: Sight) -> None:
    st.button("New", key="new-interview", icon=":material/add:", on_click=open_window, args=(NEW,))
    wanted = st.menu_button(
        "",
        [RENAME, UNDO, REMOVE],
        key="interview-menu",
        icon=":material/more_vert:",
        type="tertiary",
        help="Rename, take back the last turn, remove",
        disabled=sight.busy,
    )
    if wanted:
        open_window(wanted, sight.id)


# -- beginning


def first(session: Session) -> None:
    """Before there is any interview."""
    documents = session.forge(Action.READ).documents(project=session.slug, status=Status.READY)
    ready = [each for each in documents if each.enabled]
    left, right = st.columns([3, 2], gap="large")
    with left:
        st.markdown(
            "A guided interview works out a problem with you, and then a solution, in short rounds of two or three "
            "questions.\n\n"
            "- **It reads first.** What your files already say is quoted with its passage, and not asked again.\n"
            "- **It marks guesses.** Whatever nobody has shown goes into a register of assumptions; when one falls, "
            "those that rest on it are marked.\n"
            "- **It writes along.** At any moment there is a document in which every sentence says where it comes "
            "from: a problem brief, then product requirements.\n\n"
            "“I don't know” is a useful answer. Only you see your interviews."
        )
        dim(
            f"{count(len(ready), 'file')} of this project can be quoted."
            if ready
            else "This project has no files yet: the interview works without, and quotes what you drop in later."
        )
    with right, st.container(border=True):
        _form(session)


def _form(session: Session) -> None:
    modes = session.forge(Action.READ).discovery.modes()
    with st.form("begin-interview", border=False):
        st.text_input("What is it about?", placeholder="Returns", max_chars=_LONGEST_TITLE, key="begin-title")
        st.radio(
            "Begin with", list(modes), format_func=lambda name: quiet(modes[name].title), key="begin-mode",
            captions=[f"Ends in: {quiet(mode.document.lower())}" for mode in modes.values()],
        )  # fmt: skip
        st.form_submit_button(
            "Begin the interview", type="primary", icon=":material/play_arrow:", on_click=_begun, args=(session,)
        )


def _begun(session: Session) -> None:
    title, mode = str(st.session_state["begin-title"]), str(st.session_state["begin-mode"])
    try:
        begun = session.forge(Action.ASK).discovery.begin(
            title, project=session.slug, mode=mode, describe=session.visitor.may(DESCRIBE)
        )
    except RagforgeError as problem:
        keep("trouble", problem_text(problem))
    else:
        choose_interview(begun.id)
    close_window()


@st.dialog(NEW, on_dismiss=close_window)
def _new(session: Session) -> None:
    _unless_closed()
    with told():
        _form(session)


@st.dialog(RENAME, on_dismiss=close_window)
def _rename(session: Session, id: str) -> None:
    with told():
        talk = session.forge(Action.ASK).discovery.get(id, project=session.slug).talk
        with st.form(f"rename-interview-{id}", border=False):
            title = st.text_input("Title", value=talk.title, max_chars=_LONGEST_TITLE, key=f"interview-title-{id}")
            if st.form_submit_button("Rename", type="primary"):
                try:
                    session.forge(Action.ASK).discovery.rename(id, title, project=session.slug)
                except RagforgeError as problem:
                    show_problem(problem)
                    return
                close_window()
                st.rerun()


@st.dialog(UNDO, on_dismiss=close_window)
def _undo(session: Session, id: str) -> None:
    _unless_closed()
    with told():
        turns = session.forge(Action.ASK).discovery.turns(id, project=session.slug)
        if not turns:
            st.info("There is no turn to take back.")
            return
        st.markdown(
            f"Turn {turns[-1].number:,} goes, with all that came of it: points, assumptions, and what was changed by "
            "hand since."
        )
        st.button("Take it back", key="undo-sure", type="primary", icon=":material/undo:",
                  on_click=_undone, args=(session, id))  # fmt: skip


def _undone(session: Session, id: str) -> None:
    def undone() -> str:
        session.forge(Action.ASK).discovery.undo(id, project=session.slug)
        return "The last turn is taken back."

    _closing(undone)


@st.dialog("Remove interview", on_dismiss=close_window)
def _remove(session: Session, id: str) -> None:
    _unless_closed()
    with told():
        talk = session.forge(Action.ASK).discovery.get(id, project=session.slug).talk
        st.markdown(
            f"**{quiet(talk.title)}** goes for good, with its {count(talk.turns, 'turn')}, its assumptions and its "
            "document. Documents that were kept stay."
        )
        st.button("Remove for good", key="remove-interview-sure", type="primary", icon=":material/delete:",
                  on_click=_removed, args=(session, id))  # fmt: skip


def _removed(session: Session, id: str) -> None:
    def removed() -> str:
        session.engine.answers.forget(session.visitor.id, id)
        session.forge(Action.ASK).discovery.remove(id, project=session.slug)
        choose_interview("")
        return "The interview is removed."

    _closing(removed)


def _closing(deed: Callable[[], str]) -> None:
    done(deed)
    close_window()  # what was refused is said on the page


def _unless_closed() -> None:
    """What is pressed in a dialog draws that alone: when a callback has closed it, the whole page is to be."""
    if kept("window", None) is None:
        st.rerun()


WINDOWS: Mapping[str, Callable[..., None]] = {NEW: _new, RENAME: _rename, UNDO: _undo, REMOVE: _remove}


# -- the organisation


def organisation(session: Session, sight: Sight) -> None:
    """What every interview of the project begins with."""
    with st.popover("The organisation", icon=":material/apartment:", type="tertiary", key="organisation"):
        known = session.forge(Action.READ).discovery.org_context(project=session.slug)
        dim("What is known of the organisation. Every interview of this project builds on it.")
        if not session.visitor.may(DESCRIBE):
            st.markdown(quiet(known) or "Nothing yet: whoever manages this project can say it.")
            return
        key = f"organisation-{session.slug}-{hash(known)}"
        st.text_area(
            "The organisation", value=known, key=key, height=180, max_chars=_LONGEST_CONTEXT,
            label_visibility="collapsed", placeholder="Who you are, what you do, how large you are",
        )  # fmt: skip
        st.button("Save", key="save-organisation", type="primary", on_click=_described, args=(session, key),
                  disabled=sight.busy)  # fmt: skip


def _described(session: Session, key: str) -> None:
    def described() -> str:
        session.forge(DESCRIBE).discovery.set_org_context(str(st.session_state[key]), project=session.slug)
        return "Saved what is known of the organisation."

    changed(described)
