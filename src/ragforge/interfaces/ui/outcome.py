"""The document that an interview ends in, as it stands now: read it, correct it, save it, keep it."""

from __future__ import annotations

import tempfile
from functools import partial
from html import escape
from pathlib import Path

import streamlit as st

from ragforge.domain.access import Action
from ragforge.domain.discovery import Point
from ragforge.domain.records import Artifact, ArtifactSection
from ragforge.interfaces.ui.cited import Listed, cited
from ragforge.interfaces.ui.look import chip, dim, html
from ragforge.interfaces.ui.passage import Place, where
from ragforge.interfaces.ui.render import answer_html
from ragforge.interfaces.ui.session import Session, keep, kept, open_window
from ragforge.interfaces.ui.sight import Sight, changed, refused
from ragforge.interfaces.words import count

_MEDIA = {
    ".docx": ("Word", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ".md": ("Markdown", "text/markdown"),
}
_LONGEST = 600
_SHORT = 90


def document(session: Session, sight: Sight) -> None:
    made = session.forge(Action.ASK).discovery.document(sight.id, project=session.slug)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        for ending, (name, media) in _MEDIA.items():
            st.download_button(
                name,
                data=partial(_written, session, sight.id, ending),
                file_name=f"{made.kind}{ending}",
                mime=media,
                key=f"save-{ending}-{sight.id}",
                icon=":material/download:",
                on_click="ignore",
            )
        if session.visitor.may(Action.WRITE):
            st.button(
                "Keep",
                key="keep-document",
                icon=":material/bookmark_add:",
                help="Keep it among the documents, as it stands now",
                on_click=_kept,
                args=(session, sight),
            )
    open_ones = sum(section.open for section in made.sections)
    html(
        f'<div class="rf-doc-title">{escape(made.title)}</div>'
        + chip(f"{count(len(sight.state.points), 'point')}", "kind")
        + (chip(f"{open_ones:,} of {count(len(made.sections), 'section')} open", "note") if open_ones else "")
    )
    places = {source.number: Place.read(source) for source in made.sources}
    listed = [Listed(number, place.name, where(place.locator)) for number, place in places.items()]
    number = cited("".join(map(partial(_section, made), made.sections)), listed, key=f"document-{sight.id}")
    if number in places:
        open_window("passage", places[number])
    _correcting(session, sight)


def _written(session: Session, interview: str, ending: str) -> bytes:
    """As a file, when somebody wants it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"document{ending}"
        session.forge(Action.ASK).discovery.document(interview, project=session.slug, out=file)
        return file.read_bytes()


def _kept(session: Session, sight: Sight) -> None:
    def stored() -> str:
        forge = session.forge(Action.WRITE)
        keep("artifact", forge.discovery.document(sight.id, project=session.slug, keep=True).id)
        return "Kept: the page Documents has it."

    changed(stored)


def _section(made: Artifact, section: ArtifactSection) -> str:
    head = f"<h3>{escape(section.heading)}</h3>"
    if section.open:
        return f'{head}<p class="open"><b>Open.</b> {escape(section.reason)}</p>'
    return head + answer_html(section.text, sources=[source.number for source in made.sources], links=False)


# -- by hand


def _correcting(session: Session, sight: Sight) -> None:
    """One sentence more, in other words, elsewhere, or less."""
    sections = {each.key: each.heading for mode in sight.modes.values() for each in mode.sections}
    number = kept("pointed", 0)
    keys = (f"point-section-{number}", f"point-text-{number}")
    with st.expander("Correct it by hand", icon=":material/edit:"):
        with st.form("add-point", border=False):
            own = [each.key for each in sight.mode.sections]
            st.selectbox("Section", own, format_func=lambda key: sections.get(key, key), key=keys[0])
            st.text_area("One sentence", key=keys[1], max_chars=_LONGEST, height="content")
            st.form_submit_button("Add it", on_click=_pointed, args=(session, sight, keys), disabled=sight.busy)
        if points := {each.id: each for each in sight.state.points}:
            chosen = st.selectbox(
                "A sentence to change, move or take out", list(points), key=f"point-chosen-{number}", index=None,
                placeholder="Choose one", format_func=lambda id: _line(points[id], sections) if id in points else id,
            )  # fmt: skip
            if chosen in points:
                _changing(session, sight, points[chosen], sections)
    refused()


def _changing(session: Session, sight: Sight, point: Point, sections: dict[str, str]) -> None:
    """The words and the place of one sentence; the document of this mode comes first among the places."""
    number = kept("pointed", 0)
    keys = (f"point-place-{point.id}-{number}", f"point-words-{point.id}-{number}")
    places = list(dict.fromkeys((*(each.key for each in sight.mode.sections), *sections, point.section)))
    with st.form("change-point", border=False):
        st.selectbox("Where it stands", places, index=places.index(point.section), key=keys[0],
                     format_func=lambda key: sections.get(key, key))  # fmt: skip
        st.text_area("What it says", point.text, key=keys[1], max_chars=_LONGEST, height="content")
        if point.cited:
            dim("In your own words it is no quotation: the source goes, unless you only move it.")
        with st.container(horizontal=True):
            st.form_submit_button("Save it", on_click=_revised, args=(session, sight, point, keys),
                                  disabled=sight.busy)  # fmt: skip
            st.form_submit_button("Take it out", on_click=_taken, args=(session, sight, point.id), disabled=sight.busy)


def _line(point: Point, sections: dict[str, str]) -> str:
    text = " ".join(point.text.split())
    short = text if len(text) <= _SHORT else text[: _SHORT - 1].rstrip() + "…"
    return f"{sections.get(point.section, point.section)}: {short}"


def _pointed(session: Session, sight: Sight, keys: tuple[str, str]) -> None:
    section, text = str(st.session_state[keys[0]]), str(st.session_state[keys[1]] or "")

    def added() -> str:
        session.forge(Action.ASK).discovery.add_point(section, text, sight.id, project=session.slug)
        return "Added to the document."

    if changed(added):
        keep("pointed", kept("pointed", 0) + 1)


def _revised(session: Session, sight: Sight, point: Point, keys: tuple[str, str]) -> None:
    """Only what was changed: a turn may have changed the rest meanwhile."""
    section, text = str(st.session_state[keys[0]]), str(st.session_state[keys[1]] or "")

    def saved() -> str:
        session.forge(Action.ASK).discovery.revise_point(
            point.id, sight.id, project=session.slug, text=None if text == point.text else text,
            section=None if section == point.section else section,
        )  # fmt: skip
        return "Changed in the document."

    if changed(saved):
        keep("pointed", kept("pointed", 0) + 1)


def _taken(session: Session, sight: Sight, point: str) -> None:
    def gone() -> str:
        session.forge(Action.ASK).discovery.remove_point(point, sight.id, project=session.slug)
        return "Taken out of the document."

    if changed(gone):
        keep("pointed", kept("pointed", 0) + 1)
