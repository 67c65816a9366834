"""One pattern on the page Lessons: what it stands on, other ways to solve the same, and what is done with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import streamlit as st

from ragforge.domain.access import Action
from ragforge.domain.lessons import Lesson, Outcome, Pattern, PatternDetails, PatternState, Words
from ragforge.errors import Conflict, NotFound
from ragforge.interfaces.ui.lesson_look import (
    capture_html,
    done,
    line,
    lives,
    pattern_chips,
    record_html,
    record_text,
    told_by,
    who,
    words_html,
)
from ragforge.interfaces.ui.look import chip, dim, html, table
from ragforge.interfaces.ui.session import Session, drop, keep, kept
from ragforge.interfaces.words import ago, count
from ragforge.learn.capture import LONGEST

_SHOWN = 10
"""Captures of one pattern that are shown at once."""
_BOXES = {"problem": "Problem", "solution": "Solution", "when_to_try": "When to try"}


@dataclass(frozen=True, slots=True)
class _Editing:
    """Somebody writes new words for a pattern."""

    id: str
    seen: Words
    """As they were when this began."""
    version: int
    theirs: Words | None = None
    """What somebody else wrote meanwhile."""


def show(session: Session, id: str, patterns: Sequence[Pattern]) -> bool:
    """False: it is not there any more."""
    try:
        details = session.forge(Action.MANAGE).lessons.pattern(id, project=session.slug)
    except NotFound:
        _leave()
        return False
    st.button("All lessons", key="leave-pattern", icon=":material/arrow_back:", type="tertiary", on_click=_leave)
    found, editing = details.pattern, kept("edit_pattern", None)
    if editing is not None and editing.id == id:
        html(pattern_chips(found))
        _editor(session, editing)
    else:
        html(f'<div class="rf-lesson">{pattern_chips(found)}{words_html(found.words)}{record_html(found.record)}</div>')
        dim(lives(found))
        _actions(session, details, patterns)
    _captures(details)
    _outcomes(session, details)
    _alternatives(details)
    return True


def _leave() -> None:
    for name in ("pattern", "edit_pattern", "shown_evidence"):
        drop(name)


# -- what a reviewer does


def judging(session: Session, found: Pattern) -> None:
    """Buttons that say yes and no; only what would change something."""
    rejected = found.state is PatternState.REJECTED
    if rejected or not found.approved:
        st.button(
            "Bring back" if rejected else "Approve", key=f"approve-{found.id}",
            icon=":material/undo:" if rejected else ":material/check:",
            help="Agents are told again" if rejected else "Say that a person looked at it and agrees",
            on_click=_judge, args=(session, found.id, True),
        )  # fmt: skip
    if not rejected:
        st.button(
            "Reject", key=f"reject-{found.id}", icon=":material/block:",
            help="No agent is told any more, however often it is told again. You can bring it back.",
            on_click=_judge, args=(session, found.id, False),
        )  # fmt: skip


def _judge(session: Session, id: str, yes: bool) -> None:
    def judged() -> str:
        desk = session.forge(Action.MANAGE).lessons
        if yes:
            desk.approve(id, project=session.slug)
            return "Approved. Agents are told."
        desk.reject(id, project=session.slug)
        return "Rejected. No agent is told any more."

    done(judged)


def _actions(session: Session, details: PatternDetails, patterns: Sequence[Pattern]) -> None:
    found = details.pattern
    alike = {each.id: each for each in (*details.alternatives, *patterns)}
    others = [
        each
        for each in alike.values()
        if each.id != found.id and (each.project, each.facets, each.state) == (found.project, found.facets, found.state)
    ]
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="reviewing"):
        st.button("Edit", key=f"edit-{found.id}", icon=":material/edit:", on_click=keep,
                  args=("edit_pattern", _Editing(found.id, found.words, found.version)))  # fmt: skip
        judging(session, found)
        if others:
            with st.popover("Merge with …", icon=":material/merge:", key=f"merge-{found.id}"):
                _merge_form(session, found, others)
        if len(details.lessons) > 1:
            with st.popover("Split …", icon=":material/call_split:", key=f"split-{found.id}"):
                _split_form(session, details)
        with st.popover("Delete …", icon=":material/delete:", key=f"delete-{found.id}"):
            st.markdown(f"Delete this pattern for good, with its {count(len(details.lessons), 'capture')}?")
            dim("Should it be told again, it comes back. To keep agents from it, reject it.")
            st.button("Delete for good", key=f"delete-sure-{found.id}", type="primary",
                      on_click=_delete, args=(session, found.id))  # fmt: skip


def _merge_form(session: Session, found: Pattern, others: Sequence[Pattern]) -> None:
    by_id = {each.id: each for each in others}
    with st.form(f"merge-form-{found.id}", border=False):
        st.markdown("What these stand on becomes this one's; its words stay. They are gone then.")
        st.multiselect(
            "Patterns for the same agent, task and technology", list(by_id), key=f"merged-{found.id}",
            placeholder="Choose some",
            format_func=lambda id: _option(by_id[id]) if id in by_id else id,
        )  # fmt: skip
        st.form_submit_button("Merge", type="primary", on_click=_merge, args=(session, found.id))


def _option(each: Pattern) -> str:
    return f"{line(each.words.problem, 60)} → {line(each.words.solution, 40)} ({record_text(each.record)})"


def _merge(session: Session, id: str) -> None:
    others = list(st.session_state[f"merged-{id}"])
    if not others:
        keep("trouble", "Choose the patterns to merge first.")
        return

    def merged() -> str:
        session.forge(Action.MANAGE).lessons.merge(id, others, project=session.slug)
        return f"Merged {count(len(others), 'pattern')} into this one."

    done(merged)


def _split_form(session: Session, details: PatternDetails) -> None:
    by_id = {each.id: each for each in details.lessons}
    id = details.pattern.id
    with st.form(f"split-form-{id}", border=False):
        st.markdown("These captures become a pattern of their own. Outcomes stay with this one.")
        st.multiselect(
            "Captures to take out", list(by_id), key=f"taken-{id}", placeholder="Choose some, not all",
            format_func=lambda each: _capture_option(by_id[each]) if each in by_id else each,
        )  # fmt: skip
        st.form_submit_button("Split", type="primary", on_click=_split, args=(session, id))


def _capture_option(each: Lesson) -> str:
    words = each.words
    return f"{line(words.problem, 60)} → {line(words.solution, 40)} ({ago(each.captured_at)})"


def _split(session: Session, id: str) -> None:
    taken = list(st.session_state[f"taken-{id}"])

    def split() -> str:
        made = session.forge(Action.MANAGE).lessons.split(id, taken, project=session.slug)
        keep("pattern", made.id)
        return f"{count(len(taken), 'capture')} became this pattern."

    done(split)


def _delete(session: Session, id: str) -> None:
    def deleted() -> str:
        pending = session.forge(Action.MANAGE).lessons.remove([id], project=session.slug)
        _leave()
        left = f" Words of it may still be on disk: {'; '.join(pending)}." if pending else ""
        return f"Deleted the pattern.{left}"

    done(deleted)


# -- editing


def _editor(session: Session, editing: _Editing) -> None:
    if editing.theirs is not None:
        st.warning(
            "Somebody edited it meanwhile. Below is what it says now, then what you wrote: save again to replace "
            "theirs, or leave it.",
            icon=":material/group:",
        )
        html(words_html(editing.theirs))
    with st.form(f"edit-pattern-{editing.id}"):
        for name, label in _BOXES.items():
            st.text_area(
                label, value=getattr(editing.seen, name), key=f"words-{name}-{editing.id}", height="content",
                max_chars=LONGEST,
            )  # fmt: skip
        with st.container(horizontal=True):
            st.form_submit_button("Save", type="primary", on_click=_save, args=(session, editing))
            st.form_submit_button("Leave it", on_click=drop, args=("edit_pattern",))


def _save(session: Session, editing: _Editing) -> None:
    written = Words(**{name: str(st.session_state[f"words-{name}-{editing.id}"]) for name in _BOXES})

    def saved() -> str:
        desk = session.forge(Action.MANAGE).lessons
        try:
            desk.edit(editing.id, written, editing.version, project=session.slug)
        except Conflict:
            now = desk.pattern(editing.id, project=session.slug).pattern
            keep("edit_pattern", _Editing(editing.id, editing.seen, now.version, now.words))
            return ""
        drop("edit_pattern")
        return "Saved. Agents are told in these words."

    done(saved)


# -- what it stands on


def _captures(details: PatternDetails) -> None:
    st.subheader("Evidence", anchor=False)
    dim(f"{count(len(details.lessons), 'capture')}, each of them a success that was told.")
    shown = kept("shown_evidence", _SHOWN)
    for each in details.lessons[:shown]:
        with st.container(border=True, key=f"evidence-{each.id}"):
            html(capture_html(each))
            dim(told_by(each))
    if len(details.lessons) > shown:
        st.button(
            f"Show {min(_SHOWN, len(details.lessons) - shown):,} more of {len(details.lessons):,}",
            key="more-evidence", on_click=keep, args=("shown_evidence", shown + _SHOWN),
        )  # fmt: skip


def _outcomes(session: Session, details: PatternDetails) -> None:
    st.subheader("Outcomes", anchor=False)
    if not details.outcomes:
        dim("Nobody has told yet what came of applying it.")
        return
    names = {each.id: each.name for each in session.forge(Action.READ).projects()}
    rows = [_outcome(each, names.get(each.project, "another project")) for each in details.outcomes]
    html(table(("Result", "Note", "Project", "Recorded"), rows))


def _outcome(each: Outcome, project: str) -> list[str]:
    return [
        chip("worked", "ok whole") if each.success else chip("did not work", "no whole"),
        f'<div class="rf-said">{escape(each.note)}</div>' if each.note else "–",
        f'<div class="rf-said">{escape(project)}</div>',
        escape(f"{ago(each.recorded_at)}, by {who(each.recorded_by)}"),
    ]


def _alternatives(details: PatternDetails) -> None:
    if not details.alternatives:
        return
    st.subheader("Other solutions of the same problem", anchor=False)
    for each in details.alternatives:
        with st.container(border=True, key=f"other-{each.id}"):
            html(f'<div class="rf-lesson">{words_html(each.words, 420)}{record_html(each.record)}</div>')
            if each.project == details.pattern.project:
                st.button("Open", key=f"look-{each.id}", icon=":material/open_in_full:",
                          on_click=_open_other, args=(each.id,))  # fmt: skip
            else:
                dim("Of another project that shares its lessons.")


def _open_other(id: str) -> None:
    _leave()
    keep("pattern", id)
