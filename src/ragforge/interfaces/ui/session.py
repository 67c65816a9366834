"""What this browser chose: project, conversation, how questions are answered. The address keeps it over a reload.

Streamlit forgets a widget's value while the widget is not on the page, so what was chosen is kept here under names of
its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import streamlit as st

from ragforge.domain.access import Action
from ragforge.domain.library import Project
from ragforge.domain.retrieval import Filters, Tuning
from ragforge.errors import NotFound
from ragforge.interfaces.ui.engine import Engine, Forge, Visitor

if TYPE_CHECKING:
    from ragforge.app import AskOptions

STAGES: Mapping[str, tuple[str, str]] = {
    "inject": ("A1 Files", "Files that the question names go into the prompt"),
    "shape": ("A2 Shape", "Follow-ups are rewritten so that they stand alone; intent and headings are proposed"),
    "gate": ("A3 Gate", "Passages that do not bear on the question are dropped"),
    "condense": ("A4 Condense", "With a model: the passages become facts, constraints and open issues"),
    "memory": ("Memory", "Earlier turns of the conversation are recalled"),
}
"""The stages around retrieval, as people know them."""


@dataclass(frozen=True, slots=True)
class Choices:
    """How the next question is answered."""

    model: str = ""
    """Empty: as the settings say."""
    stages: frozenset[str] | None = None
    strictness: float | None = None
    alpha: float | None = None
    """Share of meaning in the ranking. None, here and above: as the settings say."""
    lock: bool = False
    only: tuple[str, ...] = ()
    """Ids of the files that may be used; none: all that are on."""
    ephemeral: bool = False
    preview: bool = False
    """The prompt is shown before it is sent."""

    def options(self, tuning: Tuning) -> AskOptions:
        """As `ask` takes them."""
        options: AskOptions = {
            "lock": self.lock,
            "ephemeral": self.ephemeral,
            "filters": Filters(documents=self.only),
        }
        if self.stages is not None:
            options["stages"] = sorted(self.stages)
        if self.strictness is not None:
            options["strictness"] = self.strictness
        if self.model:
            options["model"] = self.model
        if self.alpha is not None:
            options["tuning"] = replace(tuning, fusion="weighted", alpha=self.alpha)
        return options


@dataclass(frozen=True, slots=True)
class Session:
    """One run of a page: who looks at what."""

    engine: Engine
    visitor: Visitor
    project: Project

    @property
    def slug(self) -> str:
        return self.project.slug

    def forge(self, action: Action) -> Forge:
        return self.visitor.forge(action)

    def options(self) -> AskOptions:
        """How the next question is answered, as `ask` takes it; raises `NotAllowed` for what may not be chosen."""
        self.visitor.check_model(self.choices.model)
        return self.choices.options(self.forge(Action.READ).tuning())

    @property
    def conversation(self) -> str:
        """Its id; empty: a new one that begins with the next question."""
        return str(kept("chat", ""))

    @property
    def choices(self) -> Choices:
        found = kept("choices", Choices())
        assert isinstance(found, Choices)
        return found


def kept(name: str, default: Any) -> Any:
    return st.session_state.get(f"rf_{name}", default)


def keep(name: str, value: object) -> None:
    st.session_state[f"rf_{name}"] = value


def drop(name: str) -> None:
    st.session_state.pop(f"rf_{name}", None)


def open_window(name: str, *about: Any) -> None:
    """Show a dialog until it is closed, however often the page is run meanwhile."""
    keep("window", (name, about))


def close_window() -> None:
    drop("window")


def show_view(name: str) -> None:
    """Answer, Prompt or Why, whatever a person looks at now.

    The widget becomes another one: of the old one a browser may still tell what was chosen before.
    """
    if kept("view", "Answer") != name:
        keep("view", name)
        keep("view_number", kept("view_number", 0) + 1)


_PRIVATE = ("private", "thread")
"""Answers of which nothing is kept, and what their questions are known by."""
OF_INTERVIEW = ("probe", "unsaid", "assumption", "refused_change", "explained", "earlier_said")
"""What was chosen or done in one interview."""
_OF_PROJECT = (
    "chat", "draft", "prompted", "uploads", "refused", "artifact", "window", "editing", "edit_section", "run", "why",
    "shown_files", "switches", "pattern", "edit_pattern", "edit_capture", "tried", "brought", "shown_lessons",
    "shown_waiting", "shown_evidence", "interview", "cited", *OF_INTERVIEW, *_PRIVATE,
)  # fmt: skip
"""What was chosen or done in one project, and means nothing in another."""


def greet(visitor: Visitor) -> None:
    """Whoever looks now sees nothing of what another did in the same tab."""
    if kept("visitor", visitor.id) != visitor.id:
        key = kept("key", "")
        forget_all()
        keep("key", key)
    keep("visitor", visitor.id)


def forget_all() -> None:
    """All that was chosen and done in this tab, in its address too."""
    st.query_params.clear()
    for name in [name for name in st.session_state if str(name).startswith("rf_")]:
        del st.session_state[name]


def end_private() -> None:
    for name in _PRIVATE:
        drop(name)


def choose_project(slug: str) -> None:
    """Look at another project, at the conversation that was open there; what belongs to the one before is left."""
    before = kept("project", "")
    if before != slug:
        talks = {**kept("talks", {}), before: kept("chat", "")}
        keep("project", slug)
        for name in _OF_PROJECT:
            drop(name)
        keep("talks", talks)
        keep("chat", talks.get(slug, ""))
        keep("choices", replace(kept("choices", Choices()), only=()))


def choose_conversation(id: str) -> None:
    keep("chat", id)
    show_view("Answer")
    for name in ("prompted", *_PRIVATE, "editing"):
        drop(name)


def choose_interview(id: str) -> None:
    """Look at another interview; what belongs to the one before is left."""
    keep("interview", id)
    for name in OF_INTERVIEW:
        drop(name)


_IN_ADDRESS = (
    "project",
    "chat",
    "interview",
    "model",
    "theta",
    "alpha",
    "stages",
    "lock",
    "only",
    "private",
    "preview",
)


def restore() -> None:
    """After a reload: what the address remembers."""
    if kept("restored", False):
        return
    keep("restored", True)
    asked = st.query_params
    for name in ("project", "chat", "interview"):
        if name in asked:
            keep(name, asked[name])
    keep(
        "choices",
        Choices(
            model=asked.get("model", ""),
            stages=frozenset(asked["stages"].split(",")) & frozenset(STAGES) if "stages" in asked else None,
            strictness=_share(asked.get("theta")),
            alpha=_share(asked.get("alpha")),
            lock="lock" in asked,
            only=tuple(filter(None, asked.get("only", "").split(","))),
            ephemeral="private" in asked,
            preview="preview" in asked,
        ),
    )


def remember() -> None:
    """Write what was chosen into the address; what is as usual is left out."""
    choices = kept("choices", Choices())
    told = {
        "project": kept("project", ""),
        "chat": kept("chat", ""),
        "interview": kept("interview", ""),
        "model": choices.model,
        "theta": "" if choices.strictness is None else f"{choices.strictness:g}",
        "alpha": "" if choices.alpha is None else f"{choices.alpha:g}",
        "stages": "" if choices.stages is None else ",".join(sorted(choices.stages)) or "none",
        "lock": "1" if choices.lock else "",
        "only": ",".join(choices.only),
        "private": "1" if choices.ephemeral else "",
        "preview": "1" if choices.preview else "",
    }
    wanted = {name: value for name, value in told.items() if value}
    if {name: st.query_params[name] for name in _IN_ADDRESS if name in st.query_params} != wanted:
        st.query_params.from_dict(wanted)


def _share(text: str | None) -> float | None:
    """A number from 0 to 1, if it is one."""
    try:
        return min(1.0, max(0.0, float(text))) if text else None
    except ValueError:
        return None


def begin(engine: Engine, visitor: Visitor) -> Session | None:
    """The session of this run; None if there is no project yet."""
    restore()
    projects = visitor.forge(Action.READ).projects()
    if not projects:
        return None
    by_slug = {project.slug: project for project in projects}
    chosen = by_slug.get(kept("project", "")) or by_slug.get("default") or projects[0]
    if kept("project", "") != chosen.slug:
        choose_project(chosen.slug)
    session = Session(engine, visitor, chosen)
    if session.conversation and not is_there(session):
        choose_conversation("")
    return session


def is_there(session: Session) -> bool:
    """Whether the conversation of the address still exists, and is the visitor's own."""
    try:
        found = session.forge(Action.ASK).conversation(session.conversation, project=session.slug)
    except NotFound:
        return False
    return found.id == session.conversation
