"""The page Discovery: an interview at the left; what comes of it, what is assumed and why it was asked at the right."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import streamlit as st

from ragforge.domain.access import Action
from ragforge.domain.conversation import Conversation
from ragforge.interfaces.ui import interview, interviews, outcome, register, turn_why
from ragforge.interfaces.ui.interview import PANEL
from ragforge.interfaces.ui.look import dim, told
from ragforge.interfaces.ui.pressing import pressed, steps_html
from ragforge.interfaces.ui.saying import say
from ragforge.interfaces.ui.session import Session, choose_interview, drop, keep, kept
from ragforge.interfaces.ui.sight import Sight, changed, look
from ragforge.interfaces.words import ago, count

_STYLE = """
<style>
[data-testid="stMainBlockContainer"] { max-width: 104rem; padding: 4.2rem 2rem 1rem; }
.st-key-discovery-head h2 { padding: 0; font-size: 1.5rem; white-space: nowrap; }
.st-key-discovery-page { gap: .75rem; }
.rf-doc-title { font-weight: 700; font-size: 1.05rem; margin-bottom: .35rem; overflow-wrap: anywhere; }
.rf-head { font-size: .95rem; margin: .4rem 0 0; padding: 0; }
[data-testid="stLayoutWrapper"]:has(> .st-key-talk) { flex: 0 0 max(20rem, calc(100dvh - 21.7rem)); }
.st-key-talk { padding-bottom: .5rem; }
.st-key-talk [data-testid="stChatMessage"] { padding-top: .75rem; padding-bottom: .75rem; }
[data-testid="stLayoutWrapper"]:has(> [class*="st-key-panel-"]) { flex: 0 0 max(23.5rem, calc(100dvh - 20.2rem)); }
[class*="st-key-panel-"] { gap: .75rem; padding-right: .5rem; }
.st-key-panel-why dl.rf-facts.rf-facts { grid-template-columns: 6rem minmax(0, 1fr); gap: .2rem .6rem; }
.st-key-panel-why .rf-facts.rf-facts dd { font-size: .9rem; line-height: 1.6; }
[class*="st-key-quick-"] button { min-height: 2rem; padding: .05rem .8rem; border-radius: 1rem; }
@media (max-width: 1100px) {
  .st-key-workbench [data-testid="stColumn"] { flex: 1 1 100%; min-width: 100%; }
  [data-testid="stLayoutWrapper"]:has(> .st-key-talk) { flex-basis: max(20rem, calc(100dvh - 24rem)); }
  [data-testid="stLayoutWrapper"]:has(> [class*="st-key-panel-"]) { flex-basis: auto; }
  [class*="st-key-panel-"] { overflow: visible; }
}
@media (max-width: 640px) {
  [data-testid="stMainBlockContainer"] { padding: 4rem .9rem 1rem; }
  .st-key-discovery-head > :is(.st-key-interview-choice, :has(.st-key-interview-choice)) { order: 9; flex: 1 1 100%; }
  .st-key-discovery-head > :first-child { flex: 1 1 auto; }
  .st-key-talk { padding: .35rem; }
  .st-key-talk [data-testid="stChatMessage"] { padding-left: .5rem; padding-right: .5rem; gap: .5rem; }
}
</style>
"""
_HEIGHT = 520
"""Of what scrolls by itself, where the style does not say otherwise."""


def discovery(session: Session) -> None:
    st.html(_STYLE)
    with st.container(key="discovery-page"), told():
        talks = session.forge(Action.ASK).discovery.all(project=session.slug)
        if not talks:
            st.header("Discovery", anchor=False)
            interviews.first(session)
            return
        if kept("interview", "") not in {each.id for each in talks}:
            choose_interview(talks[0].id)
        sight = look(session, str(kept("interview", "")))
        _head(session, talks, sight)
        _progress(session, sight)
        with st.container(key="workbench"):
            left, right = st.columns([5, 3], gap="medium")
        with left:
            interview.interview(session, sight)
        with right:
            _panel(session, sight)


# -- above both


def _head(session: Session, talks: Sequence[Conversation], sight: Sight) -> None:
    by_id = {each.id: each for each in talks}
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="discovery-head"):
        st.header("Discovery", anchor=False, width="content")
        key = "interview-choice"
        st.session_state[key] = sight.id
        st.selectbox(
            "Interview",
            list(by_id),
            key=key,
            format_func=lambda id: _named(by_id[id]) if id in by_id else id,
            on_change=lambda: choose_interview(st.session_state[key]),
            label_visibility="collapsed",
        )
        interviews.menu(session, sight)


def _named(talk: Conversation) -> str:
    return f"{talk.title} · {count(talk.turns, 'turn')}, {ago(talk.updated_at)}"


def _progress(session: Session, sight: Sight) -> None:
    chosen = str(kept("probe", ""))
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="discovery-mode"):
        key = f"mode-{sight.id}-{sight.state.mode}"  # whoever changed it, the switch stands as the interview says
        st.segmented_control(
            "Mode",
            list(sight.modes),
            default=sight.state.mode,
            format_func=lambda name: sight.modes[name].title,
            required=True,
            key=key,
            on_change=_switch,
            args=(session, sight, key),
            disabled=sight.busy,
            label_visibility="collapsed",
        )
        interviews.organisation(session, sight)
        if any(step.key == chosen for step in sight.steps):
            dim(f"Next: {sight.probe(chosen)}")
            st.button("Ask it now", key="ask-now", type="tertiary", icon=":material/arrow_forward:",
                      on_click=say, args=(session, sight.id, "continue", sight.next_number),
                      disabled=sight.busy)  # fmt: skip
    if found := pressed(steps_html(sight.steps, chosen), key=f"steps-{sight.id}", disabled=sight.busy):
        keep("probe", "" if found == chosen else found)
        st.rerun()


def _switch(session: Session, sight: Sight, key: str) -> None:
    wanted = str(st.session_state[key] or sight.state.mode)
    if wanted == sight.state.mode:
        return

    def switched() -> str:
        session.forge(Action.ASK).discovery.set_mode(wanted, sight.id, project=session.slug)
        return f"It goes on with: {sight.modes[wanted].title}."

    if changed(switched):
        drop("probe")


# -- beside the talk


def _panel(session: Session, sight: Sight) -> None:
    tabs = st.tabs(list(_TABS), key=PANEL, on_change="rerun")
    for tab, (name, show) in zip(tabs, _TABS.items(), strict=True):
        with tab:
            if tab.open:
                with st.container(height=_HEIGHT, key=f"panel-{name.lower()}", border=False):
                    show(session, sight)


_TABS: Mapping[str, Callable[[Session, Sight], None]] = {
    "Document": outcome.document,
    "Assumptions": register.register,
    "Why": turn_why.why,
}
