"""An interview as one draw of the page sees it: read once, in an order that shows nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import streamlit as st

from ragforge.domain.access import Action
from ragforge.domain.conversation import Turn
from ragforge.domain.discovery import Interview, InterviewState, InterviewTurn, Progression
from ragforge.errors import RagforgeError
from ragforge.interfaces.ui.asking import Said
from ragforge.interfaces.ui.look import problem_text
from ragforge.interfaces.ui.saying import latest
from ragforge.interfaces.ui.session import Session, drop, keep, kept

if TYPE_CHECKING:
    from ragforge.discover.knowledge import Mode


@dataclass(frozen=True, slots=True)
class Sight:
    """All that is drawn of an interview."""

    interview: Interview
    turns: Sequence[Turn]
    steps: Sequence[Progression]
    modes: Mapping[str, Mode]
    said: Said | None
    """What was said last and became no turn, or not yet."""
    busy: bool
    """Whether that is worked on. Asked once for a draw: it may end at any moment."""

    @property
    def id(self) -> str:
        return self.interview.id

    @property
    def state(self) -> InterviewState:
        return self.interview.state

    @property
    def mode(self) -> Mode:
        return self.modes[self.state.mode]

    @property
    def next_number(self) -> int:
        """Of the turn that is said next."""
        return self.state.turn + 1

    def probe(self, key: str) -> str:
        """What a probe is called."""
        return next((mode.probes[key].title for mode in self.modes.values() if key in mode.probes), key)


def look(session: Session, id: str) -> Sight:
    """What was said last is read first: what it became is then among the turns, or it is shown as on its way."""
    said = latest(session, id)
    busy = said is not None and not said.ended
    discovery = session.forge(Action.ASK).discovery
    interview = discovery.get(id, project=session.slug)
    turns = discovery.turns(id, project=session.slug)
    if busy and said is not None and said.ended:
        st.rerun()
    known = {(turn.number, turn.question) for turn in turns}
    if said is not None and (said.came or (said.number, said.question.strip()) in known):
        said = said if busy else None
    return Sight(interview, turns, discovery.progress(id, project=session.slug), discovery.modes(), said, busy)


def explained(session: Session, sight: Sight, turn: Turn) -> InterviewTurn | None:
    """How a turn came about, as long as this process remembers it."""
    found = session.engine.answers.said(session.visitor.id, sight.id, turn.number)
    return found if found is not None and found.turn.id == turn.id else None


def changed(deed: Callable[[], str]) -> bool:
    """Do it in a callback. What is refused is said where it was tried, until something else is."""
    try:
        said = deed()
    except RagforgeError as problem:
        keep("refused_change", problem_text(problem))
        return False
    drop("refused_change")
    keep("toast", said)
    return True


def refused() -> None:
    if problem := kept("refused_change", ""):
        st.error(problem, icon=":material/block:")
