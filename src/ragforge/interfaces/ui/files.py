"""The files of a project in the sidebar: drop them, see how far they are, switch, look into and remove them."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from ragforge.domain.access import Action
from ragforge.domain.cancel import Cancelled
from ragforge.domain.library import UPLOAD, Document, FileResult, Job, JobState, Outcome, Status
from ragforge.domain.plain import decode
from ragforge.domain.sizes import size_text
from ragforge.errors import NotFound, RagforgeError, cannot_write
from ragforge.interfaces.ui.following import cancel
from ragforge.interfaces.ui.look import dim, next_step, part, problem_text, quiet, show_problem, told
from ragforge.interfaces.ui.session import Session, close_window, keep, kept, open_window
from ragforge.interfaces.words import ago, count

_BUSY_SECONDS, _IDLE_SECONDS = 1.0, 4.0
"""How often the list is looked at anew: while files are on their way, and else for what others do."""
_MOST_SHARE = 20
"""A tab that is only open takes at most this part of a processor."""
_SHOWN = 25
"""Files on one page of the list."""
_REMEMBERED = 1_000
"""Of the uploads of this page, at most."""
_MOST_JOBS = 1_000
_BARS = 6
"""Files that have a bar; the others are counted."""
_UNFOLDED = 3
"""Notes that are shown at once."""

_STAGES = {
    "reading": "reading",
    "embedding": "making it searchable",
}


def files(session: Session) -> None:
    """Follows what happens to the files, without running the rest of the page again."""
    busy = bool(kept("uploads", ()))
    cost = _MOST_SHARE * float(kept("files_seconds", 0.0))  # a list of very many files is looked at less often
    part(_files, max(cost, _BUSY_SECONDS if busy else _IDLE_SECONDS))(session)


def _files(session: Session) -> None:
    began = time.perf_counter()
    zone, moving, listed = st.container(), st.container(), st.container()  # what comes and goes in one moves no other
    with told():
        with zone:
            if session.visitor.may(Action.WRITE):
                _drop_zone(session)
        with moving:
            names = _uploads(session)
        with listed:
            _list(session, session.forge(Action.READ).documents(project=session.slug), names)
    keep("files_seconds", time.perf_counter() - began)


# -- bringing files


def _drop_zone(session: Session) -> None:
    number = kept("dropped", 0)
    dropped = st.file_uploader(
        "Add files",
        accept_multiple_files=True,
        key=f"drop-{session.slug}-{number}",
        max_upload_size=max(1, session.engine.largest_file // 1_000_000),
        help="Office files, PDF, HTML, mail, transcripts, tables, data and source code",
        label_visibility="collapsed",
    )
    if dropped:
        keep("dropped", number + 1)  # an empty zone: the list below shows what became of them
        _receive(session, dropped)
        st.rerun()


def _receive(session: Session, dropped: Sequence[Any]) -> None:
    """Hand the files to the workers; from then on they survive everything."""
    forge = session.forge(Action.WRITE)
    for file in dropped:
        try:
            with tempfile.NamedTemporaryFile(prefix="ragforge-") as copy:
                copy.write(file.getbuffer())
                copy.flush()
                job = forge.upload(copy.name, name=file.name, project=session.slug)
            _remember(job.id)
        except OSError as problem:
            _remember_problem(file.name, cannot_write("the file for now", problem))
        except RagforgeError as problem:
            _remember_problem(file.name, problem)


def _remember(job: str) -> None:
    keep("uploads", (*kept("uploads", ()), job)[-_REMEMBERED:])


def _remember_problem(name: str, problem: RagforgeError) -> None:
    keep("refused", (*kept("refused", ()), (name, problem_text(problem)))[-_REMEMBERED:])


# -- what is on its way


def _uploads(session: Session) -> frozenset[str]:
    """Bars of what is on its way, and what became of what was dropped here. Names of what still moves."""
    own = list(kept("uploads", ()))
    jobs = {job.id: job for job in session.forge(Action.READ).jobs(project=session.slug, limit=_MOST_JOBS)}
    moving = [job for job in jobs.values() if job.kind == UPLOAD and not job.ended]
    running = [job for job in reversed(moving) if job.state is JobState.RUNNING]
    for job in running[:_BARS]:
        _bar(session, job)
    if len(moving) > len(running[:_BARS]):
        dim(f"{count(len(moving) - len(running[:_BARS]), 'more file')} on the way")
    ended = [jobs[id] for id in own if id in jobs and jobs[id].ended]
    told_of = [job for job in ended if _is_worth_telling(job)]
    _troubles(own, jobs, told_of)
    silent = {job.id for job in ended if not _is_worth_telling(job)}
    left = tuple(id for id in own if id in jobs and id not in silent)  # what is not listed any more ended long ago
    if left != tuple(own):
        keep("uploads", left)
        if not moving:
            st.rerun()  # the files they became are in the rest of the page, too
    return frozenset(str(job.payload["name"]) for job in moving)


def _troubles(own: Sequence[str], jobs: Mapping[str, Job], ended: Sequence[Job]) -> None:
    """What was not taken in, or was here already: folded where there is much of it."""
    refused = kept("refused", ())
    number = len(ended) + len(refused)
    if not number:
        return
    left = tuple(id for id in own if id in jobs and not jobs[id].ended)
    if st.button(
        f"Dismiss {count(number, 'note')}", key="dismiss-uploads", icon=":material/check:", type="tertiary",
        on_click=_dismiss, args=(left,),
    ):  # fmt: skip
        st.rerun()
    many = number > _UNFOLDED
    with st.expander(f"{count(number, 'file')} to look at", icon=":material/warning:") if many else st.container():
        for name, text in refused:
            st.warning(f"**{quiet(name)}** was not taken: {text}", icon=":material/block:")
        for job in ended:
            _told(job)


def _dismiss(left: tuple[str, ...]) -> None:
    keep("uploads", left)
    keep("refused", ())


def _bar(session: Session, job: Job) -> None:
    name, progress = str(job.payload["name"]), job.progress
    if progress is None:
        share, stage = 0.02, "reading"
    else:
        share = progress.done / progress.total if progress.total else 0.0
        share, stage = (0.05 + 0.95 * share if progress.stage == "embedding" else 0.03), progress.stage
    done = f" {progress.done:,} of {progress.total:,}" if progress and stage == "embedding" and progress.total else ""
    row = st.container(horizontal=True, vertical_alignment="center", gap="small")
    row.progress(min(1.0, share), text=f"{quiet(name)} · {_STAGES.get(stage, stage)}{done}")
    stopping = job.cancel_requested
    if session.visitor.may(Action.WRITE):
        row.button(
            "Cancelling …" if stopping else "Cancel", key=f"cancel-{job.id}", type="tertiary", disabled=stopping,
            on_click=cancel, args=(session, job.id),
        )  # fmt: skip


def _result(job: Job) -> FileResult | None:
    found = decode(list[FileResult], job.result) if job.result else []
    return found[0] if found else None


def _is_worth_telling(job: Job) -> bool:
    result = _result(job)
    return result is None or result.outcome is not Outcome.READY


def _told(job: Job) -> None:
    name, result = quiet(str(job.payload["name"])), _result(job)
    if result is None:
        stopped = job.state is JobState.CANCELLED
        st.warning(f"**{name}**: {'cancelled' if stopped else quiet(job.error or 'could not be taken in')}")
    elif result.outcome in (Outcome.FAILED, Outcome.QUARANTINED):
        why = quiet(result.message) + next_step(result.hint)
        st.warning(f"**{name}** could not be read: {why}", icon=":material/warning:")
    elif result.outcome is Outcome.DUPLICATE:
        st.info(f"**{name}** has the same bytes as a file that is here already. Both names lead to it.")
    else:
        st.info(f"**{name}** is here already, and has not changed.")


# -- what is there


def _list(session: Session, documents: Sequence[Document], moving: frozenset[str]) -> None:
    if not documents:
        if not moving:
            dim("No files yet. Drop some above: Word, PDF, slides, tables, mail, transcripts, code …")
        return
    on = sum(document.enabled and document.status is Status.READY for document in documents)
    failed = sum(document.status is not Status.READY for document in documents)
    dim(f"{count(len(documents), 'file')}, {on:,} in use" + (f", {failed:,} not readable" if failed else ""))
    wanted = ""
    if len(documents) > _SHOWN // 2:
        key = f"find-file-{session.slug}"
        wanted = st.text_input("Find a file", key=key, placeholder="Find a file", label_visibility="collapsed")
    found = [document for document in reversed(documents) if wanted.lower() in document.name.lower()]
    shown = kept("shown_files", _SHOWN)
    for document in found[:shown]:
        _row(session, document)
    if len(found) > shown:
        more = f"Show {min(_SHOWN, len(found) - shown):,} more of {len(found):,}"
        st.button(more, key="more-files", on_click=keep, args=("shown_files", shown + _SHOWN))
    if wanted and not found:
        dim("No file is called so.")


def _row(session: Session, document: Document) -> None:
    with st.container(gap=None):
        _name(session, document)
        facts = [size_text(document.size), ago(document.created_at)]
        if document.status is Status.READY:
            dim(" · ".join((f"{document.type}, {count(document.chunks, 'chunk')}", *facts)))
        elif document.problem is not None:
            st.markdown(f":small[:red[{quiet(f'{document.status}: {document.problem.message}')}]]")


def _name(session: Session, document: Document) -> None:
    with st.container(horizontal=True, wrap=False, vertical_alignment="center", gap="small", key=f"file-{document.id}"):
        name = quiet(document.name)
        if document.status is Status.READY:
            key = f"on-{document.id}-{_switched(document)}"
            st.toggle(
                name,
                value=document.enabled,
                key=key,
                on_change=_switch,
                args=(session, document.id, key),
                disabled=not session.visitor.may(Action.WRITE),
                width="stretch",
            )
        else:
            st.markdown(f":red[:material/error:] {name}", width="stretch")
        key = f"about-{document.id}"
        if st.button(
            "", key=key, icon=":material/more_vert:", type="tertiary", help=f"About {name}",
            on_click=open_window, args=("file", document.id),
        ):  # fmt: skip
            st.rerun()


def _switched(document: Document) -> int:
    """How often somebody else switched it while this page was open.

    Then its switch is another widget: of the old one a browser may still tell how it stood.
    """
    shown: dict[str, tuple[bool, int]] = st.session_state.setdefault("rf_switches", {})
    enabled, number = shown.get(document.id, (document.enabled, 0))
    shown[document.id] = document.enabled, number + (enabled != document.enabled)
    return shown[document.id][1]


def _switch(session: Session, id: str, key: str) -> None:
    wanted, shown = bool(st.session_state[key]), kept("switches", {})
    if id not in shown:  # told together with the choice of another project, which forgot it
        return
    if shown[id][0] == wanted:  # a switch that was away for a moment says how it stands, and nobody has pressed it
        return
    try:
        session.forge(Action.WRITE).enable([id], wanted, project=session.slug)
        shown[id] = wanted, shown[id][1]
    except RagforgeError as problem:  # callbacks run before the page is drawn
        keep("trouble", problem_text(problem))


@st.dialog("About the file", on_dismiss=close_window)
def about(session: Session, id: str) -> None:
    """Read anew whenever it is looked at: the file may have changed, or be gone."""
    with told():
        _details(session, session.forge(Action.READ).document(id, project=session.slug))


def _details(session: Session, document: Document) -> None:
    st.markdown(f"**{quiet(document.name)}**")
    if document.problem is not None:
        old = " The older text is still searched." if document.status is Status.READY else ""
        st.warning(f"{quiet(document.problem.message)}.{old}{next_step(document.problem.hint)}")
    if document.summary:
        st.caption("Summary")
        st.markdown(quiet(document.summary))
    added = document.created_at.astimezone().strftime("%Y-%m-%d %H:%M")
    changed = document.updated_at.astimezone().strftime("%Y-%m-%d %H:%M")
    dim(f"Added {added}" + (f", changed {changed}" if changed != added else ""))
    dim(f"{document.type}, {size_text(document.size)}, {document.tokens:,} tokens in {count(document.chunks, 'chunk')}")
    for note in document.notes:
        dim(note)
    original(session, document)
    if session.visitor.may(Action.WRITE):
        _remove(session, document)


def original(session: Session, document: Document, key: str = "file") -> None:
    """A button that saves the file as it was brought."""

    def read() -> bytes:
        _, opened = session.forge(Action.READ).content(document.id, project=session.slug)
        with opened:
            return opened.read()

    st.download_button(
        "Original file",
        data=read,
        file_name=os.path.basename(document.name),
        mime="application/octet-stream",
        key=f"original-{key}-{document.id}",
        icon=":material/download:",
        on_click="ignore",
    )


def _remove(session: Session, document: Document) -> None:
    with st.form(f"delete-{document.id}", border=False):
        what = "Yes, delete it for good, with its text, its vectors, and what answers quoted from it"
        sure = st.checkbox(what, key=f"sure-{document.id}")
        if st.form_submit_button("Delete for good", icon=":material/delete:"):
            if sure:
                _removed(session, document)
            else:
                st.warning("Tick the box first: there is no way back.")


def _removed(session: Session, document: Document) -> None:
    close_window()
    try:
        with st.spinner("Deleting, and looking for what may be left …"):
            (proof,) = session.forge(Action.WRITE).removing([document.id], project=session.slug)
    except NotFound:
        pass  # another tab was quicker
    except Cancelled:
        return
    except RagforgeError as problem:
        show_problem(problem)
        return
    else:
        session.engine.answers.forget_document(document.id)
        gone = "nothing of it is left" if proof.erased else "some of it is still held by a reader; check finishes it"
        keep("toast", f"Deleted {document.name}: {count(proof.chunks, 'chunk')}, {gone}.")
    st.rerun()
