"""What a citation stands for: the passage in its file, with the words that bear the answer out marked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from typing import Self

import streamlit as st

from ragforge.domain.access import Action
from ragforge.domain.answers import Citation
from ragforge.domain.documents import Locator
from ragforge.domain.prompts import Source
from ragforge.domain.retrieval import Passage
from ragforge.errors import NotFound
from ragforge.interfaces.ui.files import original
from ragforge.interfaces.ui.look import chip, dim, html, quiet, told
from ragforge.interfaces.ui.render import around, passage_html, plain_html, seek
from ragforge.interfaces.ui.session import Session, close_window, keep


@dataclass(frozen=True, slots=True)
class Place:
    """Where to look, and for which words."""

    number: int
    document: str
    chunk: str
    name: str
    locator: Locator
    quote: str = ""
    proved: bool | None = None
    """None: nobody checked it."""
    reason: str = ""
    text: str = ""
    """The passage as it was read for the answer, as long as that is known."""

    @classmethod
    def cited(cls, citation: Citation) -> Self:
        return cls(
            citation.marker, citation.document, citation.chunk, citation.name, citation.locator, citation.quote,
            citation.proved, citation.reason,
        )  # fmt: skip

    @classmethod
    def read(cls, source: Source) -> Self:
        return cls(source.number, source.document, source.chunk, source.name, source.locator, text=source.text)

    @classmethod
    def found(cls, number: int, passage: Passage) -> Self:
        return cls(number, passage.document, passage.chunk, passage.name, passage.locator, text=passage.text)


def where(locator: Locator) -> str:
    """Page or time, and the headings."""
    label = locator.label() if locator.page is not None or locator.start is not None else ""
    return " · ".join(filter(None, (label, " › ".join(locator.path))))


@st.dialog("Passage", width="medium", position="right", on_dismiss=close_window)
def passage(session: Session, place: Place) -> None:
    """At the side, so that the answer stays in view."""
    st.markdown(f"#### {place.number:d}  {quiet(place.name)}")
    if told_where := where(place.locator):
        dim(told_where)
    if place.locator.speaker:
        dim(f"Speaker: {place.locator.speaker}")
    if place.proved is not None:
        proved = chip("The marked words bear it out", "ok") if place.proved else ""
        html(proved or chip(f"Not proved: {place.reason}", "note"))
    with told():
        _shown(session, place)


def _shown(session: Session, place: Place) -> None:
    if not place.document:
        dim("What a person said or wrote, in their own words:")
        html(f'<blockquote class="rf-passage" data-testid="passage">{plain_html(place.text)}</blockquote>')
        return
    forge = session.forge(Action.READ)
    try:
        document = forge.document(place.document, project=session.slug)
    except NotFound:
        st.info("This file was deleted since the answer was given.", icon=":material/delete:")
        return
    text = forge.text(document.id, project=session.slug)
    span = next(
        (
            (chunk.start, chunk.end)
            for chunk in forge.chunks(document.id, project=session.slug)
            if chunk.id == place.chunk
        ),
        None,
    )
    if span is None:
        _changed(place, text)
    else:
        start, end = span
        marked = seek(text[start:end], place.quote) if place.quote else None
        found = (start + marked[0], start + marked[1]) if marked else None
        _text(text, found or (start, start), span if found is None else found)
    with st.container(horizontal=True):
        original(session, document, key="passage")
        if st.button("Ask only this file", key=f"only-{document.id}", icon=":material/filter_alt:"):
            keep("choices", replace(session.choices, only=(document.id,)))
            close_window()
            st.rerun()


def _text(text: str, marked: tuple[int, int], shown: tuple[int, int]) -> None:
    """The words with what stands around them; where they are not sure, nothing is marked."""
    piece, start, _ = around(text, *shown)
    offset = shown[0] - start
    body = passage_html(piece, marked[0] - offset, marked[1] - offset)
    before = "… " if offset > 0 else ""
    after = " …" if offset + len(piece) < len(text) else ""
    html(f'<div class="rf-passage" data-testid="passage">{before}{body}{after}</div>')


def _changed(place: Place, text: str) -> None:
    found = seek(text, place.quote) if place.quote else None
    if found:
        st.info("The file changed since the answer was given. These words are still in it.", icon=":material/update:")
        _text(text, found, found)
        return
    st.warning("The file changed since the answer was given. This is what it said then:", icon=":material/update:")
    html(f'<blockquote class="rf-passage">{escape(place.quote or place.text)}</blockquote>')
