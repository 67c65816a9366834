"""The project at the top of the sidebar: choose, make, rename, remove it, and write what every prompt of it holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import streamlit as st

from ragforge.domain.access import Action
from ragforge.domain.library import Project
from ragforge.domain.records import ProjectTextKind
from ragforge.errors import RagforgeError
from ragforge.interfaces.ui.engine import Visitor
from ragforge.interfaces.ui.look import dim, quiet, show_problem, told
from ragforge.interfaces.ui.session import Session, choose_project, close_window, keep, kept, open_window
from ragforge.interfaces.words import ago

_TEXTS = {
    ProjectTextKind.HARD_RULES: (
        "Hard Rules",
        "What every answer must obey. It stands first in the prompt, above all files.",
        "Answer in British English.\nNever name a customer.",
    ),
    ProjectTextKind.PROJECT_MEMORY: (
        "Project Memory",
        "What a newcomer to this project should know. It stands below the Hard Rules, above all files.",
        "We sell furniture in Denmark and northern Germany.",
    ),
}


def switcher(session: Session) -> None:
    projects = session.forge(Action.READ).projects()
    names = {project.slug: project.name for project in projects}
    with st.container(horizontal=True, wrap=False, vertical_alignment="bottom", gap="small"):
        key = "project-choice"
        st.session_state[key] = session.slug
        st.selectbox(
            "Project",
            list(names),
            key=key,
            format_func=lambda slug: names.get(slug, slug),
            on_change=lambda: choose_project(st.session_state[key]),
        )
        if session.visitor.may(Action.MANAGE):
            wanted = st.menu_button(
                "",
                list(WINDOWS),
                key="project-menu",
                icon=":material/settings:",
                type="tertiary",
                help="New project, rules, memory, rename, delete",
            )
            if wanted:
                open_window(wanted)


def first(visitor: Visitor) -> None:
    """Before there is any project."""
    st.title("Ask your documents")
    st.markdown(
        "A project is a set of documents that you can ask. Make one, drop files into it, and ask: every answer cites "
        "the passages it stands on, and says so when your documents do not tell."
    )
    if not visitor.may(Action.MANAGE):
        st.info("There is no project that your key reaches. Ask whoever runs this for one.")
        return
    with st.form("first-project"):
        name = st.text_input("Name of the project", value="default", max_chars=100)
        if st.form_submit_button("Make it", type="primary"):
            _made(visitor, name)


def _made(visitor: Visitor, name: str) -> None:
    try:
        made = visitor.forge(Action.MANAGE).create_project(name)
    except RagforgeError as problem:
        show_problem(problem)
        return
    choose_project(made.slug)
    close_window()
    st.rerun()


@st.dialog("New project", on_dismiss=close_window)
def _new(session: Session) -> None:
    with st.form("new-project", border=False):
        name = st.text_input("Name", max_chars=100, placeholder="Contracts 2026")
        if st.form_submit_button("Make it", type="primary"):
            _made(session.visitor, name)


@st.dialog("Rename the project", on_dismiss=close_window)
def _rename(session: Session) -> None:
    with st.form("rename-project", border=False):
        name = st.text_input("Name", value=session.project.name, max_chars=100)
        if st.form_submit_button("Rename", type="primary"):
            try:
                renamed: Project = session.forge(Action.MANAGE).rename_project(session.slug, name)
            except RagforgeError as problem:
                show_problem(problem)
                return
            keep("project", renamed.slug)
            close_window()
            st.rerun()


@st.dialog("Delete the project", on_dismiss=close_window)
def _remove(session: Session) -> None:
    files = session.forge(Action.READ).documents(project=session.slug)
    st.markdown(
        f"**{quiet(session.project.name)}** goes for good, with its {len(files):,} files, its conversations, and "
        "everything that was made from it. There is no way back."
    )
    typed = st.text_input("Write its name to delete it", key="delete-project-name")
    if st.button("Delete for good", type="primary", disabled=typed.strip() != session.project.name):
        with told(), st.spinner("Deleting …"):
            removed = session.forge(Action.MANAGE).remove_project(session.slug)
            keep("toast", f"Deleted {session.project.name} with {len(removed):,} files.")
            choose_project("")
            st.rerun()


@st.dialog("Rules and memory", width="large", on_dismiss=close_window)
def _texts(session: Session) -> None:
    st.markdown("Two texts that people write, and no model. They are part of every prompt of this project.")
    for kind, (title, about, example) in _TEXTS.items():
        with told():
            now = session.forge(Action.READ).project_text(kind, project=session.slug)
            text = st.text_area(
                title, value=now.text, key=f"text-{kind}-{session.slug}-{now.version}", help=about, height=160,
                placeholder=example,
            )  # fmt: skip
            told_when = "" if now.written_at is None else f", {ago(now.written_at)}"
            dim(f"{about} Version {now.version}{told_when}.")
            if st.button(f"Save {title}", key=f"save-{kind}", disabled=text == now.text):
                session.forge(Action.MANAGE).write_project_text(kind, text, project=session.slug)
                keep("toast", f"Saved the {title}.")
                st.rerun()


WINDOWS: Mapping[str, Callable[[Session], None]] = {
    "New project": _new,
    "Rules and memory": _texts,
    "Rename": _rename,
    "Delete …": _remove,
}


def toasts() -> None:
    """What was done in the run before this one, and what went wrong in a callback."""
    if said := kept("toast", ""):
        keep("toast", "")
        st.toast(quiet(said), icon=":material/check_circle:")
    if trouble := kept("trouble", ""):
        keep("trouble", "")
        st.error(trouble, icon=":material/error:")
