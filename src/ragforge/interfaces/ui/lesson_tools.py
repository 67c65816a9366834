"""Beside the desk: try what an agent would be told, and take lessons elsewhere as a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from typing import Any

import streamlit as st

from ragforge.domain.access import Action
from ragforge.domain.lessons import FoundLessons, Lesson, Pattern
from ragforge.domain.plain import json_text
from ragforge.domain.tokens import estimated_tokens
from ragforge.errors import RagforgeError, UserError
from ragforge.interfaces.hints import PAGE, renamed
from ragforge.interfaces.ui.lesson_look import line
from ragforge.interfaces.ui.look import dim, html, missing_text, problem_text, quiet, scored, sentence, table
from ragforge.interfaces.ui.session import Session, drop, keep, kept
from ragforge.interfaces.words import count

_MEDIA = "application/x-ndjson"
_REFUSED = 20
"""Lines of a file that are told one by one, at most."""
_TOGETHER = 100
"""Lines that are brought with one call."""
_TASK, _FAILURE = "A task", "A failure"


# -- what an agent would be told


@dataclass(frozen=True, slots=True)
class _Tried:
    """What an agent would read now."""

    block: str
    found: FoundLessons
    left_out: Sequence[str]


def try_it(session: Session, patterns: Sequence[Pattern]) -> None:
    with st.expander("Try it: what would an agent be told?", icon=":material/smart_toy:"):
        with st.form("try-lessons", border=False):
            st.radio("About", [_TASK, _FAILURE], key="try-kind", horizontal=True, label_visibility="collapsed")
            st.text_area(
                "A task that is about to begin, or what failed", key="try-text", height=90, max_chars=8_000,
                placeholder="Write the endpoint that exports invoices as CSV",
            )  # fmt: skip
            agent, technology = st.columns(2)
            agent.text_input("Agent", key="try-agent", placeholder="Any", max_chars=100)
            technology.text_input("Technology", key="try-technology", placeholder="Any", max_chars=100)
            st.form_submit_button("Show it", type="primary", on_click=_try, args=(session,))
        tried = kept("tried", None)
        if isinstance(tried, str):
            st.error(tried, icon=":material/error:")
        elif tried is not None:
            _shown(tried, patterns)


def _try(session: Session) -> None:
    said = st.session_state
    named = {"agent_type": said["try-agent"], "technology": said["try-technology"], "project": session.slug}
    try:
        lessons = session.forge(Action.LEARN).lessons
        failure = said["try-text"] if said["try-kind"] == _FAILURE else ""
        told = lessons.context(said["try-text"], failure_description=failure, **named)
        keep("tried", _Tried(told.block, told.found, told.left_out))
    except RagforgeError as problem:
        keep("tried", problem_text(problem))


def _shown(tried: _Tried, patterns: Sequence[Pattern]) -> None:
    if tried.block:
        dim(f"The agent reads this, about {count(estimated_tokens(tried.block), 'token')}:")
        st.code(tried.block, language=None, wrap_lines=True)
    else:
        why = quiet(renamed(tried.found.notice, PAGE))
        st.info(f"The agent is told nothing beside its task: {why}.", icon=":material/info:")
    for note in tried.left_out:
        dim(f"{sentence(note)}.")
    for missing in tried.found.degraded:
        st.warning(missing_text(missing), icon=":material/warning:")
    if tried.found.decisions:
        known = {each.id: each.words.problem for each in patterns}
        known |= {each.pattern.id: each.pattern.words.problem for each in tried.found.patterns}
        rows = [
            [
                f'<div class="rf-said">{escape(line(known.get(each.pattern, "a pattern of another project")))}</div>',
                scored(each.similarity, each.similarity, low=not each.kept),
                escape("told" if each.kept else each.reason),
            ]
            for each in tried.found.decisions
        ]
        out = [place for place, each in enumerate(tried.found.decisions) if not each.kept]
        html(table(("What was near", "How well it fits", "What became of it"), rows, out=out))


# -- taking lessons elsewhere


def move(session: Session, *, any_there: bool) -> None:
    with st.expander("Export and import", icon=":material/import_export:"):
        if any_there:
            st.markdown("All lessons of this project as a file, one in a line. No vectors, nothing of other projects.")
            st.download_button(
                "Export as JSON lines",
                data=lambda: _exported(session),
                file_name=f"lessons-{session.slug}.jsonl",
                mime=_MEDIA,
                icon=":material/download:",
                on_click="ignore",
            )
        st.markdown("Bring such a file. What is in it waits for the next checkpoint; what is unverified waits for you.")
        key = f"lessons-file-{session.slug}-{kept('lessons_dropped', 0)}"
        st.file_uploader(
            "Lessons", type=["jsonl"], key=key, label_visibility="collapsed", on_change=_import, args=(session, key),
            max_upload_size=max(1, session.engine.largest_file // 1_000_000),
        )  # fmt: skip
        if brought := kept("brought", None):
            _told(brought)


def _exported(session: Session) -> bytes:
    records = session.forge(Action.MANAGE).lessons.exported(project=session.slug)
    return "".join(f"{json_text(record)}\n" for record in records).encode()


@dataclass(frozen=True, slots=True)
class _Brought:
    """What became of a file."""

    new: int
    known: int
    refused: Sequence[tuple[int, str]]
    """Numbers of lines, and why, as Markdown."""


def _import(session: Session, key: str) -> None:
    """In a callback, so that no rerun cuts it short. Should it break off, the same file can be brought again."""
    file = st.session_state[key]
    if file is None:
        return
    keep("lessons_dropped", kept("lessons_dropped", 0) + 1)  # an empty place for the next file
    try:
        keep("brought", _brought(session, bytes(file.getbuffer())))
    except RagforgeError as problem:
        keep("trouble", problem_text(problem))


def _brought(session: Session, content: bytes) -> _Brought:
    """One line that is no lesson keeps no other from coming."""
    records, refused = list[tuple[int, Any]](), list[tuple[int, str]]()
    for number, text in enumerate(content.decode("utf-8-sig", "replace").split("\n"), 1):
        if text.strip():
            try:
                records.append((number, _record(text)))
            except ValueError:
                refused.append((number, "It is no JSON."))
    lessons = session.forge(Action.MANAGE).lessons
    before, came = {each.id for each in lessons.staged(project=session.slug)}, dict[str, Lesson]()
    taken = len(records)
    for start in range(0, len(records), _TOGETHER):
        some = records[start : start + _TOGETHER]
        try:
            came |= {each.id: each for each in lessons.importing([each for _, each in some], project=session.slug)}
        except UserError:  # one by one it shows which it is
            for number, record in some:
                try:
                    came |= {each.id: each for each in lessons.importing([record], project=session.slug)}
                except UserError as problem:
                    refused.append((number, problem_text(problem)))
                    taken -= 1
    new = sum(not each.embedded and each.id not in before for each in came.values())
    return _Brought(new, taken - new, sorted(refused))


def _record(text: str) -> Any:
    """With an id of its own: by that, bringing it again tells it once."""
    record = json.loads(text)
    if isinstance(record, dict) and not record.get("id"):
        record["id"] = sha256(text.strip().encode()).hexdigest()[:16]
    return record


def _told(brought: _Brought) -> None:
    came = f"{count(brought.new, 'lesson')} came."
    if brought.known:
        came += f" {count(brought.known, 'was', 'were')} here already."
    st.info(came, icon=":material/inbox:")
    if brought.refused:
        refused = "\n".join(f"- Line {number:,}: {' '.join(why.split())}" for number, why in brought.refused[:_REFUSED])
        more = len(brought.refused) - _REFUSED
        rest = f"\n- and {more:,} more" if more > 0 else ""
        st.warning(
            f"{count(len(brought.refused), 'line')} of the file {'was' if len(brought.refused) == 1 else 'were'} "
            "not taken:\n\n" + refused + rest,
            icon=":material/block:",
        )
    st.button(
        "Dismiss", key="dismiss-brought", type="tertiary", icon=":material/check:", on_click=drop, args=("brought",)
    )
