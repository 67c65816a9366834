"""The page Status: what works here, what was done and spent, which work is under way, how much room it takes."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from html import escape
from pathlib import Path

import streamlit as st

from ragforge import __version__
from ragforge.domain.access import Action
from ragforge.domain.library import Document, Finding, Job, JobState, Status
from ragforge.domain.sizes import size_text
from ragforge.errors import NotAllowed
from ragforge.interfaces.hints import PAGE, renamed
from ragforge.interfaces.ui.engine import Forge
from ragforge.interfaces.ui.following import cancel
from ragforge.interfaces.ui.look import chip, dim, html, part, table, told
from ragforge.interfaces.ui.session import Session, keep, kept
from ragforge.interfaces.words import ago, count, price_of

_JOBS = 20
_BELIEVED_SECONDS = 10.0
_PLACES = {"uploads": "Original files", "indexes": "Indexes", "inbox": "Files that wait"}


def status(session: Session) -> None:
    st.header("Status", anchor=False)
    dim(f"ragforge {__version__} · {session.engine.where}")
    with told():
        _project(session)
    with told():
        _findings(session)
    with told():
        _jobs(session)
    with told():
        _spent(session)
    with told():
        _counters(session)


def _project(session: Session) -> None:
    documents = session.forge(Action.READ).documents(project=session.slug)
    ready = [each for each in documents if each.status is Status.READY]
    figures = st.columns(4)
    figures[0].metric("Files", f"{len(documents):,}", help=f"{len(documents) - len(ready):,} could not be read")
    figures[1].metric("Chunks", f"{sum(each.chunks for each in ready):,}")
    figures[2].metric("Tokens", f"{sum(each.tokens for each in ready):,}")
    figures[3].metric("Size", size_text(sum(each.size for each in documents)))
    project = session.project
    dim(f"Project {project.name}: split by {project.strategy.name}, vectors of {project.embedder}")
    _unreadable([each for each in documents if each.problem is not None])


def _unreadable(documents: Sequence[Document]) -> None:
    if not documents:
        return
    with st.expander(f"{count(len(documents), 'file')} could not be read", icon=":material/warning:"):
        rows = [
            [escape(each.name), escape(each.problem.message), escape(each.problem.hint)]
            for each in documents
            if each.problem is not None
        ]
        html(table(("File", "Why", "What to do"), rows))


def _findings(session: Session) -> None:
    """What the doctor says, to whoever owns the workspace; else what a server tells everybody."""
    st.subheader("Health", anchor=False)
    forge = session.forge(Action.READ)
    found: Sequence[Finding] = forge.ready() if session.engine.is_remote else _examined(session)
    bad = [each for each in found if not each.ok or each.warning]
    html(chip("All is well", "ok") if not bad else chip(f"{count(len(bad), 'thing')} to look at", "note"))
    rows = [
        [
            "✓" if each.ok and not each.warning else "!" if each.ok else "✗",
            escape(each.subject),
            escape(each.detail)
            + (f"<br><small>Next: {escape(renamed(each.hint, PAGE))}</small>" if each.hint and each in bad else ""),
        ]
        for each in (*bad, *(each for each in found if each not in bad))
    ]
    html(table(("", "What", "How it is"), rows))


def _examined(session: Session) -> list[Finding]:
    """What the doctor says; to who does not own the workspace, what is told to everybody. Believed for a while."""
    at, whose, found = kept("doctor", (0.0, "", []))
    if time.monotonic() - at > _BELIEVED_SECONDS or whose != session.visitor.id:
        forge = session.forge(Action.READ)
        try:
            found = forge.doctor()
        except NotAllowed:
            found = forge.ready()
        keep("doctor", (time.monotonic(), session.visitor.id, found))
    return list(found)


def _jobs(session: Session) -> None:
    st.subheader("Work", anchor=False)
    part(_work, 2.0)(session)


def _work(session: Session) -> None:
    with told():
        jobs = session.forge(Action.READ).jobs(project=session.slug, limit=_JOBS)
        if not jobs:
            dim("Nothing was asked for yet: uploads, documents and evaluations appear here.")
            return
        rows = [
            [escape(job.kind), _state(job), escape(_about(job)), ago(job.created_at), escape(_told(job))]
            for job in jobs
        ]
        html(table(("Work", "State", "About", "Begun", ""), rows))
        left = [job for job in jobs if not job.ended]
        if left and session.visitor.may(Action.WRITE):
            _cancel(session, left)


def _cancel(session: Session, jobs: Sequence[Job]) -> None:
    chosen = st.selectbox(
        "Cancel", [job.id for job in jobs], index=None, placeholder="Choose what to cancel",
        format_func=lambda id: next((f"{job.kind} {_about(job)}" for job in jobs if job.id == id), id),
    )  # fmt: skip
    if chosen:
        st.button("Cancel it", key="cancel-job", icon=":material/cancel:", on_click=cancel, args=(session, chosen))


def _state(job: Job) -> str:
    kinds = {JobState.DONE: "ok", JobState.FAILED: "no", JobState.QUARANTINED: "no", JobState.RUNNING: "note"}
    return chip(job.state, kinds.get(job.state, ""))


def _about(job: Job) -> str:
    return str(job.payload.get("name") or job.payload.get("kind") or job.payload.get("questions") or "")


def _told(job: Job) -> str:
    if job.error:
        return f"{job.error}. {renamed(job.hint, PAGE)}".strip()
    progress = job.progress
    if job.ended or progress is None:
        return ""
    return f"{progress.stage} {progress.done:,} of {progress.total:,}" if progress.total else progress.stage


def _spent(session: Session) -> None:
    spent = session.forge(Action.ASK).spent(project=session.slug, by="model")
    if not spent:
        return
    st.subheader("Questions and cost", anchor=False)
    rows = [
        [
            escape(each.name or "without a model"),
            f"{each.questions:,}",
            f"{each.input_tokens:,}",
            f"{each.output_tokens:,}",
            price_of(each.input_tokens + each.output_tokens, each.cost) or "–",
        ]
        for each in spent
    ]
    html(table(("Model", "Questions", "Tokens read", "Written", "Price"), rows, numbers=(1, 2, 3, 4)))


def _counters(session: Session) -> None:
    """What this process did, and what the workspace takes; of a server, its own /metrics tells."""
    if session.engine.is_remote or not session.visitor.may(Action.OPERATE):
        return
    forge: Forge = session.forge(Action.OPERATE)
    left, right = st.columns(2)
    with left:
        st.subheader("Since this was started", anchor=False)
        rows = [[escape(name.replace("_", " ")), f"{number:,}"] for name, number in forge.counters().items()]
        html(table(("What", "How many"), rows, numbers=(1,)))
    with right:
        st.subheader("Storage", anchor=False)
        rows = [[escape(name), size_text(size)] for name, size in _storage(Path(session.engine.where)).items()]
        html(table(("What", "Size"), rows, numbers=(1,)))
        dim(session.engine.where)


def _storage(workspace: Path) -> dict[str, int]:
    """Bytes by part of the workspace."""
    sizes = {"Catalog": sum(map(_size, workspace.glob("catalog.db*")))}
    for folder, name in _PLACES.items():
        sizes[name] = sum(_size(Path(root) / file) for root, _, files in os.walk(workspace / folder) for file in files)
    return sizes


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # it went just now
        return 0
