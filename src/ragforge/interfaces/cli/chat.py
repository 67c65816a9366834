"""`chat`: a conversation about the files of a project, in the terminal or through a pipe."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from ragforge.domain.answers import Abstention, Answer, Prompted, Result
from ragforge.domain.cancel import Cancelled
from ragforge.domain.conversation import Turn
from ragforge.domain.generation import Usage
from ragforge.errors import UserError
from ragforge.interfaces.cli.answers import Cite, names_in, nearest_lines, show, show_rest, source_lines
from ragforge.interfaces.cli.ask import Ephemeral
from ragforge.interfaces.cli.asking import Asked, asking_options
from ragforge.interfaces.cli.common import Common, command
from ragforge.interfaces.cli.documents import find
from ragforge.interfaces.cli.names import names_of
from ragforge.interfaces.cli.output import (
    Column,
    cut,
    one_line,
    plain,
    print_data,
    print_json,
    print_table,
    wrapped,
)
from ragforge.interfaces.cli.prompt import print_sections, print_tokens, say_of_prompt
from ragforge.interfaces.cli.stop import STOPPED, stoppable
from ragforge.interfaces.cli.typed import Dialogue, is_typed, recall_lines, typed_lines
from ragforge.interfaces.cli.why import print_why
from ragforge.interfaces.fields.answers import answer_fields, citation_fields, prompt_fields, usage_fields
from ragforge.interfaces.fields.explained import why_fields
from ragforge.interfaces.fields.passages import passage_fields
from ragforge.interfaces.words import count, spent

if TYPE_CHECKING:
    from ragforge.app import AskOptions, Ragforge

_TITLE = 80
_SHORT = 60
_COMMANDS = {
    "files": "the files, on or off; /files off NAME keeps one from being used, /files on NAME uses it again",
    "lock": "Exact File Lock on or off: only the files that a question names are used",
    "sources": "the sources of the last answer, with the words that bear it out",
    "why": "how the last answer came about: every passage kept or dropped and by which stage, memory, conflicts",
    "prompt": "the prompt of the last answer; without a model, what would be sent if you asked it again",
    "tokens": "tokens and price of the last answer and of this session",
    "model": "who answers; /model NAME asks another one from now on, /model offline none",
    "mark": "remember the last turn, however old it gets",
    "forget": "remove the last turn from the conversation",
    "new": "begin a new conversation",
    "help": "this list",
    "quit": "end the chat, as Ctrl-D does",
}


def register(app: typer.Typer) -> None:
    command(app, "chat")(chat)


@asking_options
def chat(common: Common, asked: Asked, cite: Cite = "place", ephemeral: Ephemeral = False) -> None:
    """Talk about the files of a project: follow-up questions are understood, and the turns are kept.

    A line that begins with / is a command; /help lists them. -c last goes on with the last conversation. Questions may
    also come through a pipe, one in each line; with --json each answer is one line. A pipe is read to its end, and the
    exit code is that of what failed first.
    """
    with common.open() as forge:
        talk = Chat(common, forge, asked(common, forge), cite, ephemeral=ephemeral)
        talk.begin()
        try:
            for line in typed_lines(common, "chat"):
                if not talk.hear(line):
                    break
        finally:
            talk.end()
    if talk.failed and not is_typed():
        raise typer.Exit(talk.failed)


class Chat(Dialogue):
    """A conversation as it goes: what was said last, what it took, and how the next question is asked."""

    commands = _COMMANDS
    text = "a question"

    def __init__(self, common: Common, forge: Ragforge, how: AskOptions, cite: str, *, ephemeral: bool) -> None:
        super().__init__(common)
        self._forge = forge
        self._project = common.project_in(forge)
        self._how = how
        self._cite = cite
        self._ephemeral = ephemeral
        how["ephemeral"] = ephemeral
        self._begun = ""
        """The conversation that this chat made."""
        self._history: list[Turn] = []
        """What was said while nothing is kept."""
        self._last: Result | None = None
        self._spent = Usage()

    # -- beginning and end

    def begin(self) -> None:
        """Tell where one is, and what was said before."""
        turns = self._turns()
        recall_lines(turn.question for turn in turns)
        before = f", going on after {count(len(turns), 'turn')}" if turns else ""
        who = self._who(self._how.get("model", ""))
        self._common.say(f"Project {plain(self._project)}{before}. {who} /help lists the commands.")
        if self._ephemeral:
            self._common.say("Nothing of this chat is kept: it is forgotten when it ends.")

    def _who(self, model: str) -> str:
        name = self._forge.answering_model(model, agent=self._how.get("agent", ""))
        return f"{plain(name)} answers." if name else "Answers quote the files, without a language model."

    def end(self) -> None:
        """A conversation that was begun here, and in which nothing was said, is not kept."""
        if self._begun and not self._turns():
            self._forge.remove_conversation(self._begun, project=self._project)

    def _turns(self) -> list[Turn]:
        id = self._how.get("conversation")
        return self._forge.turns(id, project=self._project) if id else []

    # -- one line

    def _answer(self, question: str) -> None:
        if not self._ephemeral and not self._how.get("conversation"):
            self._begun = self._forge.begin_conversation(one_line(question)[:_TITLE], project=self._project).id
            self._how["conversation"] = self._begun
        try:
            with stoppable(lambda: None) as self._how["cancel"]:
                result = show(self._common, self._forge.stream(question, project=self._project, **self._how))
        except Cancelled:
            self._common.say("Stopped. No answer was kept.")
            if not is_typed():
                raise typer.Exit(STOPPED) from None
            return
        if self._ephemeral:
            self._history.append(self._forge.turn_of(result))
            self._how["history"] = self._history
        self._last = result
        self._spent += result.account.usage
        if self._common.json:
            print_json(answer_fields(result))
        else:
            show_rest(self._common, self._forge, result, self._cite)
            print_data()

    # -- commands

    def _do_files(self, rest: str) -> None:
        switch, _, name = rest.partition(" ")
        if switch in ("on", "off") and name.strip():
            ids = [document.id for document in find(self._common, self._forge, [name.strip()])]
            changed = self._forge.enable(ids, switch == "on", project=self._project)
            self._tell({"documents": changed}, [f"{switch:<3}  {document.name}" for document in changed])
            return
        if rest:
            raise UserError(f"/files does not know {rest!r}", hint="/files, /files on NAME or /files off NAME")
        documents = self._forge.documents(project=self._project)
        if self._common.json:
            print_json({"documents": documents})
            return
        names = names_of(documents)
        print_table(
            (Column("use"), Column("name", least=16), Column("status"), Column("chunks", align_right=True)),
            [["on" if d.enabled else "off", names[d.id], d.status, f"{d.chunks:,}"] for d in documents],
        )

    def _do_lock(self, rest: str) -> None:
        self._how["lock"] = not self._how.get("lock", False)
        if self._how["lock"]:
            self._common.say("Exact File Lock is on: only the files that a question names are used.")
        else:
            self._common.say("Exact File Lock is off: all files of the project are searched.")

    def _do_sources(self, rest: str) -> None:
        said = self._said()
        if isinstance(said, Abstention):
            self._tell({"nearest": [passage_fields(each) for each in said.nearest]}, nearest_lines(said))
        elif self._common.json:
            print_json({"citations": [citation_fields(each) for each in said.citations]})
        elif not said.citations:
            self._common.say("The last answer cites nothing.")
        else:
            self._print_sources(said)

    def _print_sources(self, answer: Answer) -> None:
        names = names_in(self._common, self._forge, answer)
        for citation in sorted(answer.citations, key=lambda each: each.marker):
            [line] = source_lines(replace(answer, citations=(citation,)), names, self._cite)
            print_data(line)
            print_data(f"    {wrapped(f'“{one_line(citation.quote)}”', 4)}")

    def _do_why(self, rest: str) -> None:
        account = self._said().account
        if self._common.json:
            print_json(why_fields(account))
        else:
            print_why(account)

    def _do_prompt(self, rest: str) -> None:
        account = self._said().account
        if account.prompt is not None:
            self._show_prompt(Prompted(account.prompt, account))
            return
        with stoppable(lambda: None) as self._how["cancel"], suppress(Cancelled):
            prompted = self._forge.prompt(account.question, project=self._project, **self._how)
            self._show_prompt(prompted)
            say_of_prompt(self._common, prompted)

    def _show_prompt(self, prompted: Prompted) -> None:
        if self._common.json:
            print_json(prompt_fields(prompted))
        else:
            print_sections(prompted.prompt)
            print_tokens(prompted)

    def _do_tokens(self, rest: str) -> None:
        last = Usage() if self._last is None else self._last.account.usage
        told = [f"last     {_spent(last)}", f"session  {_spent(self._spent)}"]
        self._tell({"last": usage_fields(last), "session": usage_fields(self._spent)}, told)

    def _do_model(self, rest: str) -> None:
        named = rest or self._how.get("model", "")
        who = self._who(named)
        self._how["model"] = named
        self._common.say(who)

    def _do_mark(self, rest: str) -> None:
        if self._ephemeral:
            raise UserError("nothing of this chat is kept", hint="leave --ephemeral out to keep its turns")
        turn = self._last_turn()
        self._forge.mark_turn(turn.id, project=self._project)
        self._common.say(f"Turn {turn.number} is remembered from now on, however old it gets: {_short(turn)}")

    def _do_forget(self, rest: str) -> None:
        turn = self._last_turn()
        if self._ephemeral:
            self._history.pop()
        else:
            self._forge.remove_turn(turn.id, project=self._project)
        self._last = None
        self._common.say(f"Turn {turn.number} is forgotten: {_short(turn)}")
        if self._forge.settings.ask.log and not self._ephemeral:
            self._common.say("The query log still has its question.")

    def _do_new(self, rest: str) -> None:
        self.end()
        self._begun = self._how["conversation"] = ""
        self._history.clear()
        self._last = None
        self._common.say("A new conversation begins with your next question.")

    # -- what commands share

    def _said(self) -> Result:
        if self._last is None:
            raise UserError("nothing was asked yet", hint="ask something first")
        return self._last

    def _last_turn(self) -> Turn:
        turns = self._history if self._ephemeral else self._turns()
        if not turns:
            raise UserError("the conversation has no turn", hint="ask something first")
        return turns[-1]


def _spent(usage: Usage) -> str:
    return spent(usage) if usage.calls else "no model was asked"


def _short(turn: Turn) -> str:
    return f"“{cut(one_line(turn.question), _SHORT)}”"
