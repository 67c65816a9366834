"""Long work that was asked for on a page: how far it is, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st

from ragforge.domain.access import Action
from ragforge.domain.library import Job, JobState
from ragforge.errors import NotFound, RagforgeError
from ragforge.interfaces.ui.look import next_step, part, problem_text, quiet, told
from ragforge.interfaces.ui.session import Session, keep
from ragforge.interfaces.words import ago

_LOOK_SECONDS = 0.7
_RECENT = 50


def jobs_of(session: Session, kind: str) -> list[Job]:
    """Those of the project, newest first.

    Looked for before what they make is: one that ends in between would be neither followed nor shown.
    """
    jobs = session.forge(Action.READ).jobs(project=session.slug, limit=_RECENT)
    return [job for job in jobs if job.kind == kind]


def follow(
    session: Session, jobs: Sequence[Job], doing: str, done: Callable[[Mapping[str, Any]], None] = lambda result: None
) -> bool:
    """Bars of what is under way, and why the newest failed if it did, also after a reload. Whether any is under way."""
    under_way = [job for job in jobs if not job.ended]
    for job in under_way:
        part(_bar, _LOOK_SECONDS)(session, job.id, doing, done)
    if jobs and jobs[0].state in (JobState.FAILED, JobState.QUARANTINED):
        hint = next_step(jobs[0].hint)
        st.error(
            f"The last one failed, {ago(jobs[0].updated_at)}: {quiet(jobs[0].error)}{hint}", icon=":material/error:"
        )
    return bool(under_way)


def _bar(session: Session, id: str, doing: str, done: Callable[[Mapping[str, Any]], None]) -> None:
    with told():
        try:
            job = session.forge(Action.READ).job(id)
        except NotFound:
            st.rerun()
        if job.ended:
            if job.state is JobState.DONE and isinstance(job.result, Mapping):
                done(job.result)
            st.rerun()
        progress = job.progress
        share = progress.done / progress.total if progress and progress.total else 0.0
        told_how_far = f": {progress.done:,} of {progress.total:,}" if progress and progress.total else ""
        waiting = job.state is JobState.QUEUED
        with st.container(horizontal=True, vertical_alignment="center"):
            st.progress(min(1.0, share), text=f"{doing}{' (waiting)' if waiting else told_how_far}")
            if session.visitor.may(Action.WRITE):
                st.button("Stop", key=f"stop-{id}", icon=":material/stop_circle:", on_click=cancel, args=(session, id))


def cancel(session: Session, id: str) -> None:
    """When it is pressed, before anything is drawn: a run of a part that looks by itself may end before its buttons."""
    try:
        session.forge(Action.WRITE).cancel_job(id)
    except NotFound:
        pass  # it is not listed any more
    except RagforgeError as problem:
        keep("trouble", problem_text(problem))
