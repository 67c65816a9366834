"""The page Documents: make a blueprint, PDR, workflow or build plan; read, edit, save and delete what was made."""

from __future__ import annotations

from functools import partial

import streamlit as st

from ragforge.domain.access import Action
from ragforge.domain.records import Artifact, ArtifactSection
from ragforge.errors import RagforgeError
from ragforge.interfaces.ui.cited import Listed, cited
from ragforge.interfaces.ui.control import models_for
from ragforge.interfaces.ui.following import follow, jobs_of
from ragforge.interfaces.ui.look import chip, dim, empty, html, problem_text, quiet, show_problem, told
from ragforge.interfaces.ui.passage import Place, where
from ragforge.interfaces.ui.render import answer_html
from ragforge.interfaces.ui.session import Session, drop, keep, kept, open_window
from ragforge.interfaces.words import ago, count

_MEDIA = {
    ".docx": ("Word", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ".md": ("Markdown", "text/markdown"),
}


def documents(session: Session) -> None:
    st.header("Documents", anchor=False)
    with told():
        jobs = jobs_of(session, "make")
        made = session.forge(Action.READ).artifacts(project=session.slug)
        if session.visitor.may(Action.WRITE):
            _form(session, expanded=not made)
        writing = follow(session, jobs, "Writing the document", lambda result: keep("artifact", result.get("artifact")))
        if not made:
            if not writing:
                empty(
                    "Nothing was made yet",
                    "A document is written by an outline, section by section, each from passages that it cites. "
                    "Sections that your files say nothing about stay open, and tell what to add.",
                )
            return
        by_id = {each.id: each for each in made}
        if kept("artifact", None) not in by_id:
            keep("artifact", made[0].id)
        key = "artifact-choice"
        st.session_state[key] = kept("artifact", None)
        st.selectbox(
            "Made so far",
            list(by_id),
            key=key,
            format_func=lambda id: _named(by_id[id]) if id in by_id else id,
            on_change=_look_at,
            args=(key,),
        )
        _document(session, by_id[kept("artifact", None)])


def _look_at(key: str) -> None:
    keep("artifact", st.session_state[key])
    drop("edit_section")


def _named(artifact: Artifact) -> str:
    return f"{artifact.title} · {artifact.kind}, {ago(artifact.made_at)}"


def _form(session: Session, *, expanded: bool) -> None:
    kinds = {outline.kind: outline for outline in session.forge(Action.READ).document_kinds()}
    names = models_for(session)
    with st.expander("Make a document", icon=":material/add:", expanded=expanded), st.form("make"):
        left, right = st.columns(2)
        left.selectbox("Kind", list(kinds), format_func=lambda kind: kinds[kind].title, key="make-kind")
        right.text_input("Title", placeholder="As the kind and the project", max_chars=200, key="make-title")
        st.text_area(
            "What it is about", placeholder="The new returns process for 2027", max_chars=20_000, key="make-brief"
        )
        st.selectbox("Written by", list(names), format_func=lambda name: names.get(name, name), key="make-model")
        st.form_submit_button("Make it", type="primary", on_click=_make, args=(session,))


def _make(session: Session) -> None:
    """Before the page is run: whatever interrupts that, the press is not lost."""
    given = st.session_state
    payload = {"agent": "", **{name: given[f"make-{name}"] for name in ("kind", "brief", "title", "model")}}
    try:
        session.visitor.check_model(payload["model"])
        session.forge(Action.WRITE).enqueue("make", payload, project=session.slug)
    except RagforgeError as problem:
        keep("trouble", problem_text(problem))


def _document(session: Session, artifact: Artifact) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        for ending, (name, media) in _MEDIA.items():
            st.download_button(
                name,
                data=partial(session.forge(Action.READ).rendered, artifact, ending),
                file_name=f"{artifact.kind}-{artifact.id[:8]}{ending}",
                mime=media,
                key=f"save-{ending}-{artifact.id}",
                icon=":material/download:",
                on_click="ignore",
            )
        if session.visitor.may(Action.WRITE):
            with st.popover("Delete …", icon=":material/delete:"):
                st.markdown("Delete this document for good?")
                if st.button("Delete for good", key=f"remove-{artifact.id}", type="primary"):
                    session.forge(Action.WRITE).remove_artifacts([artifact.id], project=session.slug)
                    drop("artifact")
                    keep("toast", f"Deleted {artifact.title}.")
                    st.rerun()
    st.title(quiet(artifact.title), anchor=False)
    written = f"by {artifact.model}" if artifact.model else "quoted from the files, no model was asked"
    open_ones = sum(section.open for section in artifact.sections)
    dim(f"{artifact.kind}, {written}, {ago(artifact.made_at)}, from {count(len(artifact.sources), 'source')}")
    if open_ones:
        html(chip(f"{open_ones:,} of {count(len(artifact.sections), 'section')} open", "note"))
    if artifact.problems:
        with st.expander(f"{count(len(artifact.problems), 'remark')} on the whole", icon=":material/rule:"):
            for problem in artifact.problems:
                st.markdown(f"- {quiet(problem)}")
    for number, section in enumerate(artifact.sections):
        _section(session, artifact, number, section)
    _sources(session, artifact)


def _section(session: Session, artifact: Artifact, number: int, section: ArtifactSection) -> None:
    key = f"{artifact.id}-{number}"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader(quiet(section.heading), anchor=False)
        seen = kept("edit_section", ("", ""))
        if session.visitor.may(Action.WRITE) and seen[0] != key:
            st.button("Edit", key=f"edit-{key}", icon=":material/edit:", type="tertiary",
                      on_click=keep, args=("edit_section", (key, section.text)))  # fmt: skip
    if seen[0] == key:
        _editor(session, artifact, number, section, seen[1])
        return
    if section.open:
        st.info(f"**Open.** {quiet(section.reason)}", icon=":material/pending:")
        return
    sources = {source.number: source for source in artifact.sources}
    pressed = cited(answer_html(section.text, sources=sources), key=f"section-{key}")
    if pressed in sources:
        open_window("passage", Place.read(sources[pressed]))


def _editor(session: Session, artifact: Artifact, number: int, section: ArtifactSection, seen: str) -> None:
    """`seen` is the text when editing began: if somebody else changed it since, that is told."""
    with st.form(f"edit-{artifact.id}-{number}", border=False):
        text = st.text_area(
            "Text of this section, as Markdown",
            value="" if section.open else section.text,
            key=f"text-{artifact.id}-{number}",
            height=280,
            max_chars=100_000,
            help="Cite sources by their numbers, as [1]; numbers that no source has are taken out.",
        )
        with st.container(horizontal=True):
            save = st.form_submit_button("Save", type="primary")
            leave = st.form_submit_button("Leave it")
    if save:
        try:
            session.forge(Action.WRITE).edit_artifact(
                artifact.id, project=session.slug, texts={number: text}, was={number: seen}
            )
        except RagforgeError as problem:
            show_problem(problem)
            return
        keep("toast", "Saved.")
    if save or leave:
        drop("edit_section")
        st.rerun()


def _sources(session: Session, artifact: Artifact) -> None:
    if not artifact.sources:
        return
    st.subheader("Sources", anchor=False)
    places = {source.number: Place.read(source) for source in artifact.sources}
    listed = [Listed(number, place.name, where(place.locator)) for number, place in places.items()]
    pressed = cited("", listed, key=f"sources-{artifact.id}")
    if pressed in places:
        open_window("passage", places[pressed])
