"""The page Status: what works here, what was done and spent, which work is under way, how much room it takes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape
from pathlib import Path

import streamlit as st

from ragforge import __version__
from ragforge.domain.access import Action
from ragforge.domain.library import Document, Finding, Job, JobState, Status
from ragforge.domain.sizes import size_text
from ragforge.errors import RagforgeError, UserError
from ragforge.interfaces.ui.engine import Forge
from ragforge.interfaces.ui.look import chip, dim, html, quiet, table, told
from ragforge.interfaces.ui.session import Session
from ragforge.interfaces.words import ago, count, price

_JOBS = 20
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
    try:
        found: Sequence[Finding] = forge.doctor()
    except (UserError, RagforgeError):
        found = forge.ready()
    bad = [each for each in found if not each.ok or each.warning]
    html(chip("All is well", "ok") if not bad else chip(f"{count(len(bad), 'thing')} to look at", "note"))
    rows = [
        [
            "✓" if each.ok and not each.warning else "!" if each.ok else "✗",
            escape(each.subject),
            escape(each.detail)
            + (f"<br><small>Next: {escape(each.hint)}</small>" if each.hint and each in bad else ""),
        ]
        for each in (*bad, *(each for each in found if each not in bad))
    ]
    html(table(("", "What", "How it is"), rows))


def _jobs(session: Session) -> None:
    st.subheader("Work", anchor=False)
    st.fragment(_work, run_every=2.0)(session)


def _work(session: Session) -> None:
    with told():
        jobs = session.forge(Action.READ).jobs(limit=_JOBS)
        if not jobs:
            dim("Nothing was asked for yet: uploads, documents and evaluations appear here.")
            return
        rows = [
            [escape(job.kind), _state(job), escape(_about(job)), ago(job.created_at), escape(_told(job))]
            for job in jobs
        ]
        html(table(("Work", "State", "About", "Begun", ""), rows))
        stuck = [job for job in jobs if not job.ended]
        if stuck and session.visitor.may(Action.WRITE) and st.button("Cancel all that waits or runs"):
            for job in stuck:
                session.forge(Action.WRITE).cancel_job(job.id)
            st.rerun(scope="fragment")


def _state(job: Job) -> str:
    kinds = {JobState.DONE: "ok", JobState.FAILED: "no", JobState.QUARANTINED: "no", JobState.RUNNING: "note"}
    return chip(job.state, kinds.get(job.state, ""))


def _about(job: Job) -> str:
    return str(job.payload.get("name") or job.payload.get("kind") or job.payload.get("questions") or "")


def _told(job: Job) -> str:
    if job.error:
        return f"{job.error}. {job.hint}".strip()
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
            price(each.cost),
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
        dim(quiet(str(session.engine.where)).replace("\\", ""))


def _storage(workspace: Path) -> dict[str, int]:
    """Bytes by part of the workspace."""
    sizes = {"Catalog": sum(each.stat().st_size for each in workspace.glob("catalog.db*") if each.is_file())}
    for folder, name in _PLACES.items():
        sizes[name] = sum(
            (Path(root) / file).stat().st_size
            for root, _, files in os.walk(workspace / folder)
            for file in files
            if (Path(root) / file).exists()
        )
    return sizes
