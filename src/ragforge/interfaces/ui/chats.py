"""The conversations of a project in the sidebar."""

from __future__ import annotations

import re

import streamlit as st

from ragforge.domain.access import Action
from ragforge.domain.conversation import Conversation
from ragforge.errors import RagforgeError
from ragforge.interfaces.ui.look import dim, quiet, show_problem, told
from ragforge.interfaces.ui.session import Session, choose_conversation, close_window, keep, kept, open_window
from ragforge.interfaces.words import ago, count

_SHOWN = 25
_LONGEST_TITLE = 60


def chats(session: Session) -> None:
    with told():
        st.button(
            "New conversation",
            icon=":material/add_comment:",
            on_click=choose_conversation,
            args=("",),
            width="stretch",
            disabled=not session.conversation,
        )
        found = [
            each
            for each in session.forge(Action.ASK).conversations(project=session.slug)
            if each.turns or each.id == session.conversation
        ]
        if not found:
            dim("No conversations yet. Ask something: it begins one.")
        shown = kept("shown_chats", _SHOWN)
        for each in found[:shown]:
            _row(session, each)
        if len(found) > shown and st.button(f"Show more of {len(found):,}", key="more-chats"):
            keep("shown_chats", shown + _SHOWN)
            st.rerun()


def _row(session: Session, conversation: Conversation) -> None:
    with st.container(horizontal=True, wrap=False, vertical_alignment="center", key=f"chat-{conversation.id}"):
        st.button(
            quiet(_short(conversation.title)),
            key=f"open-{conversation.id}",
            on_click=choose_conversation,
            args=(conversation.id,),
            type="secondary" if conversation.id == session.conversation else "tertiary",
            width="stretch",
            help=f"{count(conversation.turns, 'turn')}, {ago(conversation.updated_at)}",
        )
        st.button(
            "",
            key=f"more-{conversation.id}",
            icon=":material/more_vert:",
            type="tertiary",
            help="Rename, save, delete",
            on_click=open_window,
            args=("conversation", conversation.id),
        )


def _short(title: str) -> str:
    line = " ".join(title.split())
    return line if len(line) <= _LONGEST_TITLE else line[: _LONGEST_TITLE - 1].rstrip() + "…"


@st.dialog("The conversation", on_dismiss=close_window)
def about(session: Session, id: str) -> None:
    with told():
        _about(session, session.forge(Action.ASK).conversation(id, project=session.slug))


def _about(session: Session, conversation: Conversation) -> None:
    forge, id = session.forge(Action.ASK), conversation.id
    with st.form(f"rename-{id}", border=False):
        title = st.text_input("Title", value=conversation.title, max_chars=200, key=f"title-{id}")
        if st.form_submit_button("Rename", icon=":material/edit:"):
            try:
                forge.rename_conversation(id, title, project=session.slug)
            except RagforgeError as problem:
                show_problem(problem)
                return
            close_window()
            st.rerun()
    st.download_button(
        "Save as Markdown",
        data=lambda: forge.conversation_markdown(id, project=session.slug),
        file_name=f"{_file_name(conversation)}.md",
        mime="text/markdown",
        key=f"save-{id}",
        icon=":material/download:",
        on_click="ignore",
    )
    with st.form(f"delete-{id}", border=False):
        sure = st.checkbox("Yes, delete it for good", key=f"sure-{id}")
        if st.form_submit_button("Delete", icon=":material/delete:"):
            if sure:
                _removed(session, id)
            else:
                st.warning("Tick the box first: there is no way back.")


def _file_name(conversation: Conversation) -> str:
    return re.sub(r"[^\w-]+", "-", conversation.title).strip("-")[:60] or f"conversation-{conversation.id[:8]}"


def _removed(session: Session, id: str) -> None:
    session.engine.answers.forget(session.visitor.id, id)
    session.forge(Action.ASK).remove_conversation(id, project=session.slug)
    if id == session.conversation:
        choose_conversation("")
    keep("toast", "Deleted the conversation.")
    close_window()
    st.rerun()
