"""The talk of an interview on the page Discovery: what was asked and said, and what is on its way."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from ragforge.domain.access import Action
from ragforge.domain.answers import Citation
from ragforge.domain.conversation import Turn
from ragforge.interfaces.ui.asking import Said, Step
from ragforge.interfaces.ui.cited import Listed, cited
from ragforge.interfaces.ui.look import dim, html, part, problem_text
from ragforge.interfaces.ui.passage import Place, where
from ragforge.interfaces.ui.render import answer_html, passage_html, plain_html
from ragforge.interfaces.ui.saying import say
from ragforge.interfaces.ui.session import Session, drop, keep, kept, open_window
from ragforge.interfaces.ui.sight import Sight, explained
from ragforge.interfaces.words import ago, count, duration, price

INPUT = "said"
"""The key of where people type."""
_FOLLOW_SECONDS = 0.3
_TURNS = 20
_LONGEST = 100_000
_HEIGHT = 520
"""Where the style does not say otherwise."""
_DOING = {
    Step.LOOKING: "Deciding what to ask …",
    Step.READING: "Reading what bears on it …",
    Step.WRITING: "Asking …",
}
_QUICK = ("Continue", "I don't know")
_ASKS, _SAYS = ":material/explore:", ":material/person:"


def interview(session: Session, sight: Sight) -> None:
    """The turns, in a part of the page that scrolls by itself, and below it where one types."""
    with st.container(height=_HEIGHT, key="talk", border=True, autoscroll=True):
        _opening(session, sight)
        recent = _recent(sight)
        for turn in recent:
            _turn(session, sight, turn, is_last=turn is sight.turns[-1] and sight.said is None)
        if sight.said is not None and sight.busy:
            _message(sight.said.question)
            part(_live, _FOLLOW_SECONDS)(session, sight.said)
        elif sight.said is not None:
            _failed(session, sight, sight.said)
        _unsaid(session, sight)
    st.chat_input(
        "Answer, ask, or say “continue”",
        key=INPUT,
        disabled=sight.busy,
        max_chars=_LONGEST,
        on_submit=_submitted,
        args=(session, sight.id, sight.next_number),
    )


def _submitted(session: Session, interview: str, number: int) -> None:
    say(session, interview, str(st.session_state[INPUT] or ""), number)


def _opening(session: Session, sight: Sight) -> None:
    opening = session.forge(Action.ASK).discovery.opening(sight.id, project=session.slug)
    with st.chat_message("assistant", avatar=_ASKS):
        html(f'<div class="rf-passage" data-testid="opening">{passage_html(opening)}</div>')


def _recent(sight: Sight) -> Sequence[Turn]:
    """The last ones, and those before them on demand: every look at the page draws all that is on it."""
    most = kept("earlier_said", _TURNS)
    if len(sight.turns) > most:
        earlier = len(sight.turns) - most
        st.button(
            f"Show {min(earlier, _TURNS):,} of {count(earlier, 'earlier turn')}",
            key="earlier-said",
            icon=":material/expand_less:",
            on_click=keep,
            args=("earlier_said", most + _TURNS),
        )
    return sight.turns[-most:]


def _message(text: str) -> None:
    with st.chat_message("user", avatar=_SAYS):
        html(f'<div class="rf-passage" data-testid="question">{plain_html(text)}</div>')


def _turn(session: Session, sight: Sight, turn: Turn, *, is_last: bool) -> None:
    _message(turn.question)
    first: dict[int, Citation] = {}
    for citation in turn.citations:
        first.setdefault(citation.marker, citation)
    with st.chat_message("assistant", avatar=_ASKS):
        listed = [Listed(number, each.name, where(each.locator)) for number, each in sorted(first.items())]
        number = cited(answer_html(turn.answer, turn.citations, links=False), listed, key=f"reply-{turn.id}")
        _below(session, sight, turn, is_last=is_last)
    if number in first:
        open_window("passage", Place.cited(first[number]))


def _below(session: Session, sight: Sight, turn: Turn, *, is_last: bool) -> None:
    done = explained(session, sight, turn)
    facts = [sight.probe(turn.probe), turn.model]
    if done is not None and done.account.usage.calls:
        facts.append(price(done.account.usage.cost))
    facts.append(ago(turn.asked_at))
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if is_last:
            for words in _QUICK:
                st.button(words, key=f"quick-{words}-{turn.id}", on_click=say,
                          args=(session, sight.id, words, sight.next_number))  # fmt: skip
        st.button("Why", key=f"why-{turn.id}", icon=":material/account_tree:", type="tertiary",
                  on_click=explain, args=(turn.id,))  # fmt: skip
        dim(" · ".join(filter(None, facts)))


PANEL = "discovery-panel"
"""The key of the tabs beside the talk."""


def explain(turn: str) -> None:
    keep("explained", turn)
    st.session_state[PANEL] = "Why"


# -- on its way


def _live(session: Session, said: Said) -> None:
    """Looks again and again, alone; when the turn is there the whole page is drawn once."""
    if said.ended or not session.visitor.may_go_on():
        st.rerun()
    with st.chat_message("assistant", avatar=_ASKS), st.container(horizontal=True, vertical_alignment="center"):
        st.button("Stop", key=f"stop-{said.id}", icon=":material/stop_circle:", on_click=said.stop)
        doing = _DOING.get(said.step, "")
        if said.step is Step.WRITING and said.sources:
            doing = f"Read {count(len(said.sources), 'passage')}. {doing}"
        dim(f"{doing} {duration(said.seconds)}")


def _failed(session: Session, sight: Sight, said: Said) -> None:
    """It became no turn: it is still here, with the reason."""
    _message(said.question)
    with st.chat_message("assistant", avatar=_ASKS):
        if said.problem is not None:
            st.error(problem_text(said.problem), icon=":material/error:")
        else:
            st.info("Stopped before the turn was complete. Nothing of it was kept.", icon=":material/stop_circle:")
        with st.container(horizontal=True):
            st.button("Say it again", key=f"again-{said.id}", icon=":material/refresh:", type="primary",
                      on_click=say, args=(session, sight.id, said.question, sight.next_number))  # fmt: skip
            st.button("Dismiss", key=f"dismiss-{said.id}", type="tertiary",
                      on_click=session.engine.answers.forget, args=(session.visitor.id, sight.id))  # fmt: skip


def _unsaid(session: Session, sight: Sight) -> None:
    """What could not even be begun."""
    interview, message, why = kept("unsaid", ("", "", ""))
    if interview != sight.id:
        return
    _message(message)
    with st.chat_message("assistant", avatar=_ASKS):
        st.error(why, icon=":material/error:")
        with st.container(horizontal=True):
            st.button("Say it again", key="again-unsaid", icon=":material/refresh:", type="primary", on_click=say,
                      args=(session, sight.id, message, sight.next_number), disabled=sight.busy)  # fmt: skip
            st.button("Dismiss", key="dismiss-unsaid", type="tertiary", on_click=drop, args=("unsaid",))
