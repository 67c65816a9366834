"""The page Lessons: the review desk of what agents learnt. What waits for a person, and the patterns it became."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from ragforge.domain.access import Action
from ragforge.domain.lessons import CheckpointReport, Lesson, Pattern, PatternState
from ragforge.domain.library import Job, JobState
from ragforge.domain.plain import decode
from ragforge.errors import NotAllowed
from ragforge.interfaces.ui import lesson_tools, pattern
from ragforge.interfaces.ui.following import follow, jobs_of
from ragforge.interfaces.ui.lesson_look import (
    FIELDS,
    capture_html,
    chips,
    done,
    fields_of,
    lives,
    pattern_chips,
    record_html,
    told_by,
    words_html,
)
from ragforge.interfaces.ui.look import dim, empty, html, told
from ragforge.interfaces.ui.session import Session, drop, keep, kept
from ragforge.interfaces.words import ago, count
from ragforge.learn.capture import LONGEST

_MOST = 2_000
"""Patterns that are listed, at most."""
_SHOWN = 20
_WAITING = 5
_LONGEST = 420
"""Characters of one text in the list; opened, a pattern shows all."""
_STATES = {"All": None, "Live": PatternState.LIVE, "Rejected": PatternState.REJECTED}
_COMMAND = 'ragforge learn capture failure --agent backend --failure "…" --solution "…"'


@dataclass(frozen=True, slots=True)
class _Desk:
    """What lies on it."""

    patterns: Sequence[Pattern]
    """Newest first; one more than is listed if there are too many."""
    staged: Sequence[Lesson]

    @property
    def waiting(self) -> list[Lesson]:
        return [each for each in self.staged if not each.verified]


def lessons(session: Session) -> None:
    st.header("Lessons", anchor=False)
    with told():
        checkpoints = jobs_of(session, "checkpoint")
        desk = _desk(session)
        if desk is None:
            _closed(session)
            return
        if opened := kept("pattern", ""):
            if pattern.show(session, opened, desk.patterns):
                return
            st.info("That pattern is not here any more: it was deleted, merged or became too old.")
        _head(session, desk)
        follow(session, checkpoints, "Embedding lessons")
        _last_checkpoint(checkpoints)
        if not desk.patterns and not desk.staged:
            _teach()
        _waiting(session, desk.waiting)
        if session.visitor.may(Action.LEARN):
            lesson_tools.try_it(session, desk.patterns)
        lesson_tools.move(session, any_there=bool(desk.patterns or desk.staged))
        if desk.patterns:
            _patterns(desk.patterns, session)


def _desk(session: Session) -> _Desk | None:
    """None: it is not for this visitor. Of a server elsewhere only it knows."""
    if not session.visitor.may(Action.MANAGE):
        return None
    try:
        found = session.forge(Action.MANAGE).lessons
        return _Desk(found.patterns(project=session.slug, limit=_MOST + 1), found.staged(project=session.slug))
    except NotAllowed as refused:
        if type(refused) is not NotAllowed:  # signed out meanwhile, or asked too often
            raise
        return None


def _closed(session: Session) -> None:
    empty(
        "The desk is for those who manage this project",
        "What agents learnt is approved, corrected and removed here. Agents go by it, so your key would have to be one "
        "of the role admin. Whoever runs this can give you one.",
    )
    if session.visitor.may(Action.LEARN):
        lesson_tools.try_it(session, ())


# -- how much there is


def _head(session: Session, desk: _Desk) -> None:
    waiting = len(desk.waiting)
    listed = f"{_MOST:,}+" if len(desk.patterns) > _MOST else f"{len(desk.patterns):,}"
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="lesson-figures"):
        st.metric("Patterns", listed, width="content")
        st.metric("To review", f"{waiting:,}", width="content")
        st.metric("For a checkpoint", f"{len(desk.staged) - waiting:,}", width="content")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button(
            "Checkpoint now",
            icon=":material/bookmark_added:",
            help="Embed what waits, so that agents are told. Orchestrators do this at the end of a phase.",
            on_click=_checkpoint,
            args=(session,),
        )
        shared = session.project.shares_lessons
        key = f"share-{session.slug}-{shared}"  # whoever switched it, the switch stands as the catalog says
        st.toggle(
            "Share with other projects", value=shared, key=key, on_change=_share, args=(session, key, shared),
            width="content",
        )  # fmt: skip
    dim("Shared, what was learnt here is told to orchestrators of other projects, too; else it stays in this one.")


def _checkpoint(session: Session) -> None:
    def asked() -> str:
        session.forge(Action.CHECKPOINT).enqueue("checkpoint", {"kind": "manual"}, project=session.slug)
        return "The checkpoint is on its way."

    done(asked)


def _share(session: Session, key: str, before: bool) -> None:
    wanted = bool(st.session_state[key])
    if wanted == before:  # a switch that was away for a moment says how it stands, and nobody has pressed it
        return

    def switched() -> str:
        session.forge(Action.MANAGE).lessons.share(wanted, project=session.slug)
        return "Other projects are told, too." if wanted else "Only this project is told."

    done(switched)


def _last_checkpoint(checkpoints: Sequence[Job]) -> None:
    newest = next((job for job in checkpoints if job.ended), None)
    if newest is not None and newest.state is JobState.DONE and newest.result:
        dim(f"Last checkpoint, {ago(newest.updated_at)}: {report_text(newest)}")


def report_text(job: Job) -> str:
    """What a checkpoint did, in words."""
    report = decode(CheckpointReport, job.result)
    if report.embedded:
        parts = [f"{count(report.embedded, 'lesson')} embedded"]
        if report.new_patterns:
            parts.append(f"{count(report.new_patterns, 'new pattern')}")
        if report.merged:
            parts.append(f"{report.merged:,} told what was known, and count for it")
    else:
        parts = ["nothing new was waiting"]
    if report.renewed:
        parts.append(f"{count(report.renewed, 'older lesson')} embedded anew with the model that is used now")
    if report.waiting:
        parts.append(f"{report.waiting:,} left for a person")
    return "; ".join((", ".join(parts), *report.notices)) + "."


def _teach() -> None:
    empty(
        "Nothing was learnt yet",
        "A lesson is something that verifiably worked, told by an agent or its orchestrator so that the next one need "
        "not find it out again. There are three kinds:\n\n"
        "- **Failure solved**: a test or a task failed, and this solved it.\n"
        "- **Rejected, then approved**: a person said no at a gate and why, and approved this revision.\n"
        "- **Approved at once**: a person approved this at the first attempt.\n\n"
        "Lessons that tell the same become one pattern, which counts how often it worked. What nobody verified waits "
        "here for you. Agents tell lessons over HTTP and MCP; at a terminal it goes like this:",
    )
    st.code(_COMMAND, language="bash", wrap_lines=True)


# -- what waits for a person


def _waiting(session: Session, waiting: Sequence[Lesson]) -> None:
    if not waiting:
        return
    st.subheader("Waiting for review", anchor=False)
    dim("Nobody has verified these. Agents are told only what you approve, after the next checkpoint.")
    shown = kept("shown_waiting", _WAITING)
    for each in waiting[:shown]:
        with st.container(border=True, key=f"capture-{each.id}"):
            if kept("edit_capture", None) == each.id:
                _editor(session, each)
            else:
                _capture(session, each)
    if len(waiting) > shown:
        st.button(
            f"Show {min(_WAITING, len(waiting) - shown):,} more of {len(waiting):,}", key="more-waiting",
            on_click=keep, args=("shown_waiting", shown + _WAITING),
        )  # fmt: skip


def _capture(session: Session, lesson: Lesson) -> None:
    html(f'<div class="rf-chips">{chips(lesson.facets, lesson.quality)}</div>{capture_html(lesson)}')
    dim(told_by(lesson) + ("" if lesson.told.evidence else ". It names nothing that verified it."))
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button("Approve", key=f"approve-{lesson.id}", icon=":material/check:", type="primary",
                  on_click=_approve, args=(session, lesson.id))  # fmt: skip
        st.button("Edit", key=f"edit-{lesson.id}", icon=":material/edit:",
                  on_click=keep, args=("edit_capture", lesson.id))  # fmt: skip
        with st.popover("Reject …", icon=":material/block:", key=f"reject-{lesson.id}"):
            st.markdown("It goes for good, and no agent is ever told.")
            st.button("Reject for good", key=f"reject-sure-{lesson.id}", type="primary",
                      on_click=_reject, args=(session, lesson.id))  # fmt: skip


def _approve(session: Session, id: str) -> None:
    def approved() -> str:
        session.forge(Action.MANAGE).lessons.approve(id, project=session.slug)
        return "Approved. It is told to agents after the next checkpoint."

    done(approved)


def _reject(session: Session, id: str) -> None:
    def rejected() -> str:
        session.forge(Action.MANAGE).lessons.reject(id, project=session.slug)
        return "Rejected. It is gone."

    done(rejected)


def _editor(session: Session, lesson: Lesson) -> None:
    names = fields_of(lesson.facets.entry_type)
    with st.form(f"edit-capture-{lesson.id}", border=False):
        html(f'<div class="rf-chips">{chips(lesson.facets, lesson.quality)}</div>')
        for name in names:
            st.text_area(
                FIELDS[name], value=getattr(lesson.told, name), key=f"told-{name}-{lesson.id}", max_chars=LONGEST,
                height="content",
            )  # fmt: skip
        with st.container(horizontal=True):
            st.form_submit_button("Save", type="primary", on_click=_corrected, args=(session, lesson, names))
            st.form_submit_button("Leave it", on_click=drop, args=("edit_capture",))


def _corrected(session: Session, lesson: Lesson, names: Sequence[str]) -> None:
    """Only what was changed: somebody else may have corrected the rest."""

    def saved() -> str:
        written = {name: str(st.session_state[f"told-{name}-{lesson.id}"]) for name in names}
        changed = {name: text for name, text in written.items() if text != getattr(lesson.told, name)}
        if changed:
            session.forge(Action.MANAGE).lessons.edit_staged(lesson.id, project=session.slug, **changed)
        return "Saved. It still waits for your approval."

    if done(saved):
        drop("edit_capture")


# -- the patterns


def _patterns(patterns: Sequence[Pattern], session: Session) -> None:
    st.subheader("Patterns", anchor=False)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        state = st.segmented_control(
            "State", list(_STATES), default="All", required=True, key="lesson-state", label_visibility="collapsed"
        )
        wanted = st.text_input(
            "Find a pattern", key=f"find-lesson-{session.slug}", placeholder="Find a pattern",
            label_visibility="collapsed",
        )  # fmt: skip
    listed = patterns[:_MOST]
    found = [each for each in listed if _fits(each, _STATES[state or "All"], wanted)]
    if len(patterns) > _MOST:
        dim(f"The newest {_MOST:,} are listed here; ragforge learn ls shows all.")
    if not found:
        dim("No pattern says so." if wanted.strip() else "None of these.")
    shown = kept("shown_lessons", _SHOWN)
    for each in found[:shown]:
        _row(session, each)
    if len(found) > shown:
        st.button(
            f"Show {min(_SHOWN, len(found) - shown):,} more of {len(found):,}", key="more-lessons",
            on_click=keep, args=("shown_lessons", shown + _SHOWN),
        )  # fmt: skip


def _fits(each: Pattern, state: PatternState | None, wanted: str) -> bool:
    """Whether all these words stand in what is shown of it."""
    words, facets = each.words, each.facets
    shown = " ".join(
        (words.problem, words.solution, words.when_to_try, facets.agent_type, facets.task_type, facets.technology)
    ).casefold()
    return state in (None, each.state) and all(word in shown for word in wanted.casefold().split())


def _row(session: Session, each: Pattern) -> None:
    with st.container(border=True, key=f"pattern-{each.id}"):
        out = " out" if each.state is PatternState.REJECTED else ""
        html(
            f'<div class="rf-lesson{out}">{pattern_chips(each)}{words_html(each.words, _LONGEST)}'
            f"{record_html(each.record)}</div>"
        )
        dim(lives(each))
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.button("Open", key=f"look-{each.id}", icon=":material/open_in_full:",
                      on_click=keep, args=("pattern", each.id))  # fmt: skip
            pattern.judging(session, each)
