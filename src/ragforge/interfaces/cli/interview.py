"""An interview as it goes: what is typed is said, and commands show what is known by now."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import typer

from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.discovery import Decided, Gathered, InterviewTurn, TurnAccount, TurnDone
from ragforge.errors import UserError
from ragforge.interfaces.cli.answers import Waiting
from ragforge.interfaces.cli.common import Common
from ragforge.interfaces.cli.discovered import (
    print_account,
    print_exchange,
    print_list,
    print_markdown,
    print_opening,
    print_points,
    print_progress,
    print_register,
    print_remembered,
    print_sources,
    say_progress,
    say_remarks,
)
from ragforge.interfaces.cli.output import plain, plain_text, print_data, print_json
from ragforge.interfaces.cli.stop import STOPPED, stoppable
from ragforge.interfaces.cli.typed import Dialogue, is_typed, recall_lines
from ragforge.interfaces.fields.discovery import (
    account_fields,
    assumption_fields,
    interview_fields,
    interview_turn_fields,
    point_fields,
    probe_fields,
    state_fields,
    turn_fields,
)
from ragforge.interfaces.words import count

if TYPE_CHECKING:
    from ragforge.app import Ragforge
    from ragforge.domain.discovery import InterviewState

_COMMANDS = {
    "register": "the assumptions: how sure, how much hangs on them, what rests on what, and what became of them",
    "document": "the document as it stands",
    "points": "its points by section, with the numbers by which `ragforge discover edit` and `forget` name them",
    "progress": "the probes, and which of their criteria are met",
    "questions": "what is still open",
    "probe": "/probe KEY: what is asked next, once you have said something; “continue” is enough",
    "mode": "/mode NAME: go on with the problem, or with the solution",
    "why": "how the last turn came about: decision, searches, sources, tokens, changes and refusals",
    "undo": "take the last turn back, with all that came of it",
    "help": "this list",
    "quit": "end for now, as Ctrl-D does; ragforge discover goes on where you were",
}


class Talk(Dialogue):
    """One interview in the terminal or through a pipe."""

    commands = _COMMANDS

    def __init__(self, common: Common, forge: Ragforge, project: str, id: str, model: str, *, begun: bool) -> None:
        """`begun`: it was made for this talk, and goes again if nothing is said."""
        super().__init__(common)
        self._forge = forge
        self._project = project
        self._id = id
        self._model = model
        self._begun = begun
        self._probe = ""
        """What the person wants to be asked about next."""
        self._last: TurnAccount | None = None

    # -- beginning and end

    def begin(self) -> None:
        """Tell where one is: the opening, or what was said last."""
        common, discovery = self._common, self._forge.discovery
        interview = discovery.get(self._id, project=self._project)
        turns = discovery.turns(self._id, project=self._project)
        progress = discovery.progress(self._id, project=self._project)
        named = self._forge.answering_model(self._model)
        recall_lines(turn.question for turn in turns)
        before = f", going on after {count(len(turns), 'turn')}" if turns else ""
        who = f"{plain(named)} asks." if named else "Rules ask, without a language model."
        common.say(
            f"“{plain(interview.talk.title)}” in {plain(self._project)}{before}. {who} /help lists the commands."
        )
        opening = "" if turns else discovery.opening(self._id, project=self._project)
        if common.json:
            last = turn_fields(turns[-1]) if turns else None
            fields = interview_fields(interview, progress)
            print_json({"interview": fields, "opening": opening or None, "last": last})
            return
        if opening:
            common.say("")
            print_opening(opening)
            print_data()
        elif is_typed():
            common.say("")
            print_exchange(common, self._forge, turns[-1])
            say_progress(common, interview.state, progress)

    def end(self) -> None:
        """An interview that was begun here, and in which nothing was said, is not kept."""
        if self._begun and not self._forge.discovery.turns(self._id, project=self._project):
            gone = self._forge.discovery.remove(self._id, project=self._project)
            self._common.say(f"Nothing was said: the interview “{plain(gone.title)}” is not kept.")

    # -- a message

    def _answer(self, text: str) -> None:
        try:
            with stoppable(lambda: None) as cancel:
                done = taken(
                    self._common, self._forge, self._project, self._id, text,
                    model=self._model, probe=self._probe, cancel=cancel,
                )  # fmt: skip
        except Cancelled:
            self._common.say("Stopped. Nothing of this turn was kept.")
            if not is_typed():
                raise typer.Exit(STOPPED) from None
            return
        self._probe, self._last = "", done.account
        show_turn(self._common, self._forge, self._project, done)

    # -- commands

    def _do_register(self, rest: str) -> None:
        state = self._state()
        if self._common.json:
            print_json({"assumptions": [assumption_fields(each) for each in state.assumptions]})
        elif state.assumptions:
            print_register(state.assumptions)
        else:
            self._common.say("No assumptions yet.")

    def _do_document(self, rest: str) -> None:
        from ragforge.answer.artifacts import markdown

        made = self._forge.discovery.document(self._id, project=self._project)
        if self._common.json:
            print_json({"document": made, "text": markdown(made)})
        else:
            print_data(plain_text(markdown(made)).rstrip("\n"))

    def _do_points(self, rest: str) -> None:
        state = self._state()
        if self._common.json:
            print_json({"points": [point_fields(each) for each in state.points]})
        elif state.points:
            print_points(state, self._forge.discovery.modes())
        else:
            self._common.say("The document has no points yet.")

    def _do_progress(self, rest: str) -> None:
        discovery = self._forge.discovery
        state, progress = self._state(), discovery.progress(self._id, project=self._project)
        mode = discovery.modes()[state.mode]
        if self._common.json:
            print_json({"mode": state.mode, "probes": [probe_fields(each, mode, state) for each in progress]})
        else:
            print_progress(state, progress, mode)

    def _do_questions(self, rest: str) -> None:
        found = self._forge.discovery.open_questions(self._id, project=self._project)
        if self._common.json:
            print_json({"open_questions": found})
        elif found:
            print_list(found)
        else:
            self._common.say("Nothing is open.")

    def _do_probe(self, rest: str) -> None:
        mode = self._forge.discovery.modes()[self._state().mode]
        found = [key for key in mode.probes if key == rest]
        found = found or [key for key in mode.probes if rest and key.startswith(rest)]
        if len(found) != 1:
            wrong = f"no probe is called {rest!r}" if rest else "no probe is named"
            raise UserError(wrong, hint=f"there are {', '.join(found or mode.probes)}")
        self._probe = found[0]
        about = plain(mode.probes[self._probe].title)
        self._common.say(f"“{about}” is asked after what you say next; “continue” is enough.")

    def _do_mode(self, rest: str) -> None:
        if not rest:
            raise UserError("no mode is named", hint=f"there are {', '.join(self._forge.discovery.modes())}")
        state = self._forge.discovery.set_mode(rest, self._id, project=self._project)
        self._probe = ""
        mode = self._forge.discovery.modes()[state.mode]
        self._common.say(f"{plain(mode.title)}: say something, or “continue” to hear the first questions.")
        say_progress(self._common, state, self._forge.discovery.progress(self._id, project=self._project))

    def _do_why(self, rest: str) -> None:
        if self._last is None:
            self._remember()
        elif self._common.json:
            print_json(account_fields(self._last))
        else:
            print_account(self._last)

    def _remember(self) -> None:
        """How a turn came about is known while the talk goes on; of older ones there is what is stored with them."""
        turns = self._forge.discovery.turns(self._id, project=self._project)
        if not turns:
            raise UserError("nothing was said yet", hint="say something first")
        if self._common.json:
            print_json({"last": turn_fields(turns[-1])})
            return
        print_remembered(turns[-1])
        self._common.say("That is what is kept of it; of a turn that you take now, /why tells all.")

    def _do_undo(self, rest: str) -> None:
        discovery = self._forge.discovery
        before = discovery.turns(self._id, project=self._project)
        state = discovery.undo(self._id, project=self._project)
        number = before[-1].number
        self._last, self._probe = None, ""
        if self._common.json:
            print_json({"undone": number, "state": state_fields(state)})
            return
        self._common.say(f"Turn {number} is taken back.")
        turns = discovery.turns(self._id, project=self._project)
        if is_typed() and turns:
            print_exchange(self._common, self._forge, turns[-1])
        elif is_typed():
            print_opening(discovery.opening(self._id, project=self._project))
        say_progress(self._common, state, discovery.progress(self._id, project=self._project))

    def _state(self) -> InterviewState:
        return self._forge.discovery.get(self._id, project=self._project).state


def taken(
    common: Common,
    forge: Ragforge,
    project: str,
    id: str,
    text: str,
    *,
    model: str = "",
    probe: str = "",
    mode: str = "",
    turn: int = 0,
    cancel: Cancel,
) -> InterviewTurn:
    """One turn; while it is on its way, a line tells how far it is."""
    events = forge.discovery.saying(
        text, id, project=project, model=model, probe=probe, mode=mode, turn=turn, cancel=cancel
    )
    with Waiting(common) as waiting, closing(events):  # type: ignore[type-var]
        waiting.show("Thinking …")
        for event in events:
            match event:
                case Decided():
                    looks = event.decision.requires_retrieval
                    waiting.show(f"{plain(event.decision.probe)}: {'looking' if looks else 'asking'} …")
                case Gathered():
                    if event.sources:
                        waiting.show(f"Reading {count(len(event.sources), 'passage')} …")
                case TurnDone():
                    return event.done
    raise AssertionError("a turn ends with what is stored")


def show_turn(common: Common, forge: Ragforge, project: str, done: InterviewTurn) -> None:
    """The reply with its sources on stdout; below it how far it is, and what one should know."""
    if common.json:
        print_json(interview_turn_fields(done))
        return
    print_markdown(done.turn.answer)
    print_sources(common, forge, done.turn)
    print_data()
    say_remarks(common, done.account)
    say_progress(common, done.state, forge.discovery.progress(done.interview, project=project))
