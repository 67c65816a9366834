"""The page Chat: ask, see the answer being written, check what it stands on. Read this first.

Three views of one conversation: the answers, the prompt of the next question, and why the last answer is what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import as_file, files
from uuid import uuid4

import streamlit as st

from ragforge.domain.access import Action
from ragforge.domain.answers import Abstention, Account, Answer, Citation, Event, Prompted, Result, WhyNot
from ragforge.domain.cancel import Cancel
from ragforge.domain.conversation import FORGOTTEN_ANSWER, Turn
from ragforge.domain.library import Status
from ragforge.domain.prompts import InjectedFile, Injection
from ragforge.errors import RagforgeError
from ragforge.interfaces.hints import PAGE, renamed
from ragforge.interfaces.ui import prompt as prompt_view
from ragforge.interfaces.ui import why as why_view
from ragforge.interfaces.ui.asking import Asked, Step
from ragforge.interfaces.ui.asking_on import keep_asking
from ragforge.interfaces.ui.cited import Listed, cited
from ragforge.interfaces.ui.look import chip, dim, html, missing_text, part, problem_text, quiet, sentence, told
from ragforge.interfaces.ui.passage import Place, where
from ragforge.interfaces.ui.render import answer_html, plain_html
from ragforge.interfaces.ui.session import (
    Choices,
    Session,
    choose_conversation,
    drop,
    keep,
    kept,
    open_window,
    show_view,
)
from ragforge.interfaces.words import ago, count, duration, price

_ASSISTANT = ":material/auto_stories:"
_FOLLOW_SECONDS = 0.3
_TITLE = 80
_TURNS = 20
"""Of a conversation, drawn at once."""
VIEWS = ("Answer", "Prompt", "Why")
INPUT = "question"
"""The key of where questions are typed."""
_DOING = {
    Step.LOOKING: "Looking for passages …",
    Step.READING: "Reading {} …",
    Step.WRITING: "Writing …",
}


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and its answer, as the page shows them."""

    question: str
    text: str
    citations: tuple[Citation, ...]
    trace_id: str
    abstained: bool = False
    quoted: bool = False
    model: str = ""
    turn: Turn | None = None
    """None: it was not kept."""
    result: Result | None = None
    """Everything about it, as long as this process remembers."""

    @property
    def key(self) -> str:
        return self.turn.id if self.turn else self.trace_id


def chat(session: Session) -> None:
    if again := kept("resend", None):
        drop("resend")
        ask(session, again[0], instead=again[1])
    view = _view()
    if view == "Answer":
        _input(session, busy=_conversation(session))
    elif view == "Prompt":
        sending = prompt_view.prompt(session, kept("draft", ""))
        if sending is not None:
            ask(session, sending.account.question, prompted=sending)
    else:
        why_view.why(session, [each for each in _exchanges(session) if each.result is not None])


def _view() -> str:
    number = kept("view_number", 0)
    key = f"view-{number}"
    st.segmented_control(
        "View",
        VIEWS,
        key=key,
        default=kept("view", "Answer"),
        required=True,
        on_change=_chosen,
        args=(number, key),
        label_visibility="collapsed",
    )
    return str(kept("view", "Answer"))


def _chosen(number: int, key: str) -> None:
    """A browser that has not drawn the page since tells of the widget of the view before: that chooses nothing."""
    if number == kept("view_number", 0):
        keep("view", st.session_state[key] or "Answer")


def _input(session: Session, *, busy: bool) -> None:
    locked = " · locked to the files it names" if session.choices.lock else ""
    st.chat_input(
        f"Ask about {session.project.name}{locked}",
        key=INPUT,
        disabled=busy,
        max_chars=20_000,
        on_submit=_submitted,
    )
    keep_asking(busy=busy)


def _submitted() -> None:
    """Before the page is run: whatever interrupts that, the question is not lost.

    What was chosen is looked up now: the page may not have been drawn since.
    """
    text = str(st.session_state[INPUT] or "")
    if kept("choices", Choices()).preview:
        keep("draft", text)
        drop("prompted")
        show_view("Prompt")
    elif text.strip():
        keep("resend", (text, None))


# -- asking


def ask(session: Session, question: str, *, prompted: Prompted | None = None, instead: Turn | None = None) -> None:
    """Begin, and look at how it goes. What the page does meanwhile stops nothing.

    `instead` is the turn whose place it takes; that goes when there is room to ask.
    """
    with told():
        visitor, slug, answers = session.visitor, session.slug, session.engine.answers
        forge, how = session.forge(Action.ASK), session.options()
        at_once, thread = visitor.spend(), _thread(session)
        answers.check(visitor.id, thread, at_once)
        if prompted is not None:
            how["prompted"] = prompted
        if session.choices.ephemeral:
            how["history"] = [forge.turn_of(result) for result in kept("private", ())]
        else:
            if not session.conversation:
                title = " ".join(question.split())[:_TITLE]
                choose_conversation(forge.begin_conversation(title, project=slug).id)
            how["conversation"] = thread = session.conversation

        def stream(cancel: Cancel) -> Iterator[Event]:
            if instead is not None:
                forge.remove_turn(instead.id, project=slug)
            how["cancel"] = cancel
            return forge.stream(question, project=slug, **how)

        answers.ask(visitor.id, question, thread, stream, may_go_on=visitor.may_go_on, at_once=at_once)
        for name in ("prompted", "draft", "editing"):
            drop(name)
        show_view("Answer")
        st.rerun()


def _thread(session: Session) -> str:
    """What the questions of this page are known by: the conversation, or a name that nothing is kept under."""
    if session.choices.ephemeral or not session.conversation:
        if not kept("thread", ""):
            keep("thread", f"private-{uuid4().hex}")
        return str(kept("thread", ""))
    return session.conversation


# -- the conversation


def _exchanges(session: Session) -> list[Exchange]:
    """All of the conversation that has an answer, in its order."""
    answers, visitor = session.engine.answers, session.visitor.id
    latest = answers.latest(visitor, _thread(session))
    result = latest.result if latest is not None and latest.ended else None
    if session.choices.ephemeral:
        if result is not None:
            keep("private", (*kept("private", ()), result))
            answers.forget(visitor, _thread(session))
        return [_of_result(each) for each in kept("private", ())]
    if not session.conversation:
        return []
    turns = session.forge(Action.ASK).turns(session.conversation, project=session.slug)
    shown = [_of_turn(turn, answers.result(visitor, session.conversation, turn.number)) for turn in turns]
    if result is not None and result.account.turn not in {turn.number for turn in turns}:
        shown.append(_of_result(result))  # it could not be kept, and says so
    return shown


def _of_turn(turn: Turn, result: Result | None) -> Exchange:
    is_its = result is not None and result.account.question == turn.question and turn.answer != FORGOTTEN_ANSWER
    return Exchange(
        turn.question, turn.answer, turn.citations, turn.trace_id, turn.abstained, turn.quoted, turn.model, turn,
        result if is_its else None,
    )  # fmt: skip


def _of_result(result: Result) -> Exchange:
    account = result.account
    if isinstance(result, Abstention):
        return Exchange(account.question, result.text, (), account.trace_id, True, result=result)
    return Exchange(
        account.question, result.text, result.citations, account.trace_id, False, result.quoted, account.model, None,
        result,
    )  # fmt: skip


def _conversation(session: Session) -> bool:
    """Whether an answer is on its way, as far as this page shows."""
    answering = False
    with told():
        latest = session.engine.answers.latest(session.visitor.id, _thread(session))
        answering = latest is not None and not latest.ended  # asked once: it may end at any moment
        exchanges = _exchanges(session)
        if answering and latest is not None and latest.ended:
            st.rerun()
        if not exchanges and latest is None:
            _welcome(session)
        for place in _recent(session, len(exchanges), answering):
            _exchange(session, exchanges[place], place, is_last=place == len(exchanges) - 1 and not answering)
        if latest is not None and answering:
            _question(latest.question)
            with st.chat_message("assistant", avatar=_ASSISTANT):
                _words(partial(_live, session, latest), _key(session, len(exchanges)), live=True)
        elif latest is not None and latest.result is None:
            _unanswered(session, latest, _key(session, len(exchanges)))
    return answering


def _recent(session: Session, number: int, answering: bool) -> range:
    """The last ones, and those before them on demand: every look at the page draws all that is on it.

    An answer that is being written counts already: what is drawn when it is whole stands in the same places.
    """
    opened, shown = kept("earlier", ("", _TURNS))
    most = shown if opened == session.conversation else _TURNS
    earlier = max(0, number + answering - most)
    if earlier:
        st.button(
            f"Show {min(earlier, _TURNS):,} of {count(earlier, 'earlier turn')}",
            key="earlier-turns",
            icon=":material/expand_less:",
            on_click=keep,
            args=("earlier", (session.conversation, most + _TURNS)),
        )
    return range(earlier, number)


def _key(session: Session, place: int) -> str:
    """Of the answer at this place of the conversation, from its first word on."""
    return f"answer-{_thread(session)}-{place}"


def _words(
    show: Callable[[str], Place | None], key: str, files: Sequence[InjectedFile] = (), *, live: bool = False
) -> None:
    """Of an answer, half or whole: the same part of the page, so that what is pressed in one is heard in the other."""
    with st.container():
        _named(files)
    part(_pressable, _FOLLOW_SECONDS if live else None)(show, key)


def _pressable(show: Callable[[str], Place | None], key: str) -> None:
    pressed = show(key)
    if pressed is not None:
        open_window("passage", pressed)
        st.rerun()


def _exchange(session: Session, exchange: Exchange, place: int, *, is_last: bool) -> None:
    key = exchange.key
    if is_last and kept("editing", None) == key:
        _edit(session, exchange)
        return
    _question(exchange.question)
    with st.chat_message("assistant", avatar=_ASSISTANT):
        account = exchange.result.account if exchange.result else None
        show = _abstained if exchange.abstained else _answered
        _words(partial(show, exchange), _key(session, place), account.files if account else ())
        if account is not None:
            _told(exchange, account)
        _below(session, exchange, key, is_last=is_last)


def _question(text: str) -> None:
    with st.chat_message("user", avatar=":material/person:"):
        html(f'<div class="rf-passage" data-testid="question">{plain_html(text)}</div>')


def _named(injected: Sequence[InjectedFile]) -> None:
    """The files that the question names, as chips."""
    if injected:
        html("".join(chip(f"❖ {file.name} · {_how(file)}") for file in injected))


def _how(file: InjectedFile) -> str:
    if file.how is Injection.NARROWS:
        return "searched alone"
    return f"{file.how.upper()}, {count(file.tokens, 'token')}"


def _answered(exchange: Exchange, key: str) -> Place | None:
    first: dict[int, Citation] = {}
    for citation in exchange.citations:
        first.setdefault(citation.marker, citation)
    listed = [Listed(number, each.name, where(each.locator)) for number, each in sorted(first.items())]
    number = cited(answer_html(exchange.text, exchange.citations), listed, key=key)
    return Place.cited(first[number]) if number in first else None


def _abstained(exchange: Exchange, key: str) -> Place | None:
    result = exchange.result
    if not isinstance(result, Abstention):
        st.info(quiet(renamed(exchange.text, PAGE)), icon=":material/search_off:")
        return None
    st.info(f"**No answer.** {quiet(result.reason)}", icon=":material/search_off:")
    if result.suggestion:
        st.markdown(f"**What would help:** {quiet(renamed(result.suggestion, PAGE))}")
    if not result.nearest or result.why is WhyNot.EMPTY_PROJECT:
        return None
    st.caption("What comes nearest")
    places = {number: Place.found(number, each) for number, each in enumerate(result.nearest, 1)}
    listed = [Listed(number, each.name, where(each.locator)) for number, each in places.items()]
    return places.get(cited("", listed, key=key) or 0)


def _told(exchange: Exchange, account: Account) -> None:
    """What a person should know of this answer."""
    for missing in account.degraded:
        st.warning(missing_text(missing), icon=":material/warning:")
    for notice in account.notices:
        dim(sentence(notice))
    result = exchange.result
    if isinstance(result, Answer):
        if result.removed:
            dim(
                f"{count(len(result.removed), 'citation')} removed: {'; '.join(each.reason for each in result.removed)}"
            )
        if result.stripped:
            dim(f"Taken out: {', '.join(result.stripped)}")
        if result.uncited:
            dim(f"{count(result.uncited, 'sentence')} without a citation")
    if account.shape.rewritten:
        dim(f"Understood as: {account.shape.standalone}")


def _below(session: Session, exchange: Exchange, key: str, *, is_last: bool) -> None:
    facts = [_by(exchange)]
    if exchange.result is not None:
        usage = exchange.result.account.usage
        if usage.calls:
            facts.append(f"{usage.input_tokens:,} tokens read, {usage.output_tokens:,} written, {price(usage.cost)}")
        spent = sum(exchange.result.account.timings.values())
        facts.append(f"{spent:.0f} ms" if spent < 1_000 else duration(spent / 1_000))
    elif exchange.turn is not None:
        facts.append(ago(exchange.turn.asked_at))
    if exchange.turn is None:
        facts.append("not kept")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if exchange.trace_id and exchange.turn is not None:
            st.feedback("thumbs", key=f"thumb-{key}", on_change=_judge, args=(session, exchange.trace_id, key))
        if is_last:
            st.button("Retry", key=f"retry-{key}", icon=":material/refresh:", type="tertiary",
                      on_click=_again, args=(session, exchange, exchange.question))  # fmt: skip
            st.button("Edit", key=f"edit-{key}", icon=":material/edit:", type="tertiary",
                      on_click=keep, args=("editing", key))  # fmt: skip
        if exchange.result is not None:
            st.button("Why", key=f"why-{key}", icon=":material/account_tree:", type="tertiary",
                      on_click=_look_why, args=(key,))  # fmt: skip
        dim(" · ".join(filter(None, facts)))


def _by(exchange: Exchange) -> str:
    if exchange.abstained:
        return ""
    if not exchange.quoted:
        return exchange.model
    missing = exchange.result.account.degraded if exchange.result else ()
    failed = any(each.part == "model" for each in missing)
    return f"Quoted from the files, {'the model did not answer' if failed else 'no model was asked'}"


def _look_why(key: str) -> None:
    show_view("Why")
    keep("why", key)


def _judge(session: Session, trace_id: str, key: str) -> None:
    """Into the log, and with what it cites into the questions of the set `feedback`."""
    thumb = st.session_state[f"thumb-{key}"]
    if thumb is None:
        return
    try:
        session.forge(Action.ASK).give_feedback(trace_id, bool(thumb), project=session.slug)
        keep("toast", "Thank you: it is a question of the set “feedback” now." if thumb else "Noted as not good.")
    except RagforgeError as problem:
        keep("trouble", problem_text(problem))


def _again(session: Session, exchange: Exchange, question: str) -> None:
    """Ask once more in place of the last turn."""
    if exchange.turn is None:
        keep("private", tuple(kept("private", ()))[:-1])
    keep("resend", (question, exchange.turn))
    drop("editing")


def _edit(session: Session, exchange: Exchange) -> None:
    with st.chat_message("user", avatar=":material/edit:"), st.form("edit-question", border=False):
        text = st.text_area("Your question", value=exchange.question, key="edited-question", max_chars=20_000)
        with st.container(horizontal=True):
            again = st.form_submit_button("Ask again", type="primary")
            leave = st.form_submit_button("Leave it")
    if again and text.strip():
        _again(session, exchange, text)
        st.rerun()
    if leave:
        keep("editing", None)
        st.rerun()


# -- on its way


def _unanswered(session: Session, asked: Asked, key: str) -> None:
    """A question that came to nothing."""
    _question(asked.question)
    with st.chat_message("assistant", avatar=_ASSISTANT):
        _words(partial(_written, asked), key)
        if asked.problem is not None:
            st.error(problem_text(asked.problem), icon=":material/error:")
        else:
            st.info("Stopped before the answer was complete. Nothing of it was kept.", icon=":material/stop_circle:")
        with st.container(horizontal=True):
            if st.button("Retry", key=f"retry-{asked.id}", icon=":material/refresh:"):
                ask(session, asked.question)
            if st.button("Dismiss", key=f"dismiss-{asked.id}", type="tertiary"):
                session.engine.answers.forget(session.visitor.id, _thread(session))
                st.rerun()


def _written(asked: Asked, key: str) -> Place | None:
    """What there is of an answer, and the source whose number was pressed just now."""
    numbers = {source.number: source for source in asked.sources}
    if not asked.text:
        return None
    html = answer_html(asked.text, sources=numbers)
    number = cited(html, key=key, writing=not asked.ended)
    return Place.read(numbers[number]) if number in numbers else None


def _live(session: Session, asked: Asked, key: str) -> Place | None:
    """Looks again and again, alone; when the answer is there the whole page is drawn once."""
    if asked.ended or not session.visitor.may_go_on():
        st.rerun()
    pressed = _written(asked, key)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("Stop", key=f"stop-{asked.id}", icon=":material/stop_circle:", on_click=asked.stop)
        doing = _DOING.get(asked.step, "").format(count(len(asked.sources), "passage"))
        dim(f"{doing} {duration(asked.seconds)}")
    return pressed


# -- before the first question


def _welcome(session: Session) -> None:
    documents = session.forge(Action.READ).documents(project=session.slug)
    ready = [each for each in documents if each.status is Status.READY and each.enabled]
    if ready:
        st.subheader(f"Ask {quiet(session.project.name)}", anchor=False)
        st.markdown(
            f"{count(len(ready), 'file')} can be asked. Every answer cites the passages it stands on: press a number "
            "to see the words. Where your files do not tell, it says so.\n\n"
            "- Name a file in your question, such as "
            f"*{quiet(ready[0].name)}*, to ask that one.\n"
            "- **Why** shows every passage that was found, and why it was used or dropped.\n"
            "- **Prompt** shows exactly what a model is sent, and lets you change it."
        )
        return
    st.subheader("Bring some files first", anchor=False)
    st.markdown(
        "Drop them into the sidebar: Word, PDF, slides, tables, web pages, mail, transcripts, data, source code. "
        "They stay on " + ("the server." if session.engine.is_remote else "this machine.")
    )
    if documents:
        st.markdown("The files that are here are switched off, or could not be read: the sidebar tells why.")
    if session.visitor.may(Action.WRITE) and st.button("Try it with sample documents", icon=":material/inventory_2:"):
        _bring_samples(session)


def _bring_samples(session: Session) -> None:
    """The documents of an invented company, as if they had been dropped."""
    with told():
        jobs = []
        for sample in sorted(files("ragforge.samples").iterdir(), key=lambda each: each.name):
            if sample.name.startswith(("_", ".")) or not sample.is_file():
                continue
            with as_file(sample) as path:
                jobs.append(session.forge(Action.WRITE).upload(path, name=sample.name, project=session.slug).id)
        keep("uploads", (*kept("uploads", ()), *jobs))
        st.rerun()
