"""`conversation …`: what was said, what is remembered of it, how to write it to a file, and how to forget it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragforge.errors import NotFound
from ragforge.interfaces.cli.common import Common, command, path_of
from ragforge.interfaces.cli.documents import DryRun, Yes, confirm
from ragforge.interfaces.cli.output import (
    Column,
    one_line,
    paint,
    plain,
    plain_text,
    print_data,
    print_json,
    print_table,
)
from ragforge.interfaces.words import ago, count

if TYPE_CHECKING:
    from ragforge.domain.conversation import Conversation, Rollup, Turn

_ID_LENGTH = 8

Name = Annotated[str, typer.Argument(metavar="ID", help="Id of a conversation, its beginning, or last")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Conversations: list, show, rename, export and remove them.", no_args_is_help=True)
    command(group, "ls")(list_conversations)
    command(group, "show")(show)
    command(group, "rename")(rename)
    command(group, "export")(export)
    command(group, "rm")(remove)
    app.add_typer(group, name="conversation")


def list_conversations(common: Common) -> None:
    """List the conversations, the last spoken in first."""
    with common.open() as forge:
        found = forge.conversations(project=common.project_in(forge))
    if common.json:
        print_json({"conversations": found})
        return
    if not found:
        common.say("There are no conversations. Next: ragforge chat")
        return
    columns = (
        Column("id"),
        Column("title", least=16),
        Column("turns", align_right=True),
        Column("begun", align_right=True, dropped=True),
        Column("last turn", align_right=True),
    )
    rows = [
        [each.id[:_ID_LENGTH], one_line(each.title), f"{each.turns:,}", ago(each.created_at), ago(each.updated_at)]
        for each in found
    ]
    print_table(columns, rows)


def show(common: Common, id: Name) -> None:
    """Show a conversation: its turns, which of them are marked, and the summaries that stand for old ones."""
    with common.open() as forge:
        project = common.project_in(forge)
        found = forge.conversation(id, project=project)
        turns, rollups = forge.turns(found.id, project=project), forge.rollups(found.id, project=project)
    if common.json:
        print_json({"conversation": found, "turns": turns, "rollups": rollups})
        return
    print_data(f"{paint(one_line(found.title), 'bold')}  {found.id}")
    begun = {rollup.first: rollup for rollup in rollups}
    for turn in turns:
        if rollup := begun.get(turn.number):
            _print_rollup(rollup)
        _print_turn(turn)


def _print_rollup(rollup: Rollup) -> None:
    span = f"turns {rollup.first} to {rollup.last}" if rollup.first != rollup.last else f"turn {rollup.first}"
    used = f", recalled {count(rollup.used, 'time')}" if rollup.used else ""
    print_data()
    print_data(paint(f"── {span} are remembered as: {one_line(rollup.title)}{used}", "yellow"))
    print_data(paint(plain_text(rollup.text).strip(), "dim"))


def _print_turn(turn: Turn) -> None:
    facts = [
        ago(turn.asked_at),
        "marked" if turn.importance >= 1 else f"importance {turn.importance:g}" if turn.importance else "",
        "abstained" if turn.abstained else "",
        "summed up above" if turn.rolled_into else "",
    ]
    print_data()
    print_data(
        f"{paint(f'{turn.number}  {one_line(turn.question)}', 'bold')}  "
        f"{paint(', '.join(fact for fact in facts if fact), 'dim')}"
    )
    if turn.standalone:
        print_data(paint(f"   searched as: {one_line(turn.standalone)}", "dim"))
    for line in plain_text(turn.answer).strip().splitlines():
        print_data(f"   {line}".rstrip())


def rename(
    common: Common, id: Name, title: Annotated[str, typer.Argument(metavar="TITLE", help="The new title")]
) -> None:
    """Give a conversation another title."""
    with common.open() as forge:
        project = common.project_in(forge)
        renamed = forge.rename_conversation(forge.conversation(id, project=project).id, title, project=project)
    if common.json:
        print_json({"conversation": renamed})
    else:
        common.say(f"{renamed.id[:_ID_LENGTH]} is now called “{one_line(renamed.title)}”")


def export(
    common: Common,
    id: Name,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", parser=path_of, help="Write it to this .md file instead of printing it"
        ),
    ] = None,
) -> None:
    """Print a conversation as Markdown, or write it to a file: questions, answers, and the sources of each."""
    from ragforge.flows.make import Export

    with common.open() as forge:
        project = common.project_in(forge)
        found = forge.conversation(id, project=project)
        text = forge.conversation_markdown(found.id, project=project)
    if out is not None:
        Export({".md": str.encode})(text, out)
    if common.json:
        print_json({"conversation": found, "text": text, "file": str(out) if out else None})
    elif out is None:
        print_data(plain_text(text).rstrip("\n"))
    else:
        common.say(f"Wrote {plain(str(out))}")


def remove(
    common: Common,
    id: Name,
    turn: Annotated[
        list[int] | None, typer.Option("--turn", metavar="N", help="Only this turn, by its number; may be repeated")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Remove a conversation, or some of its turns, for good, with all that is remembered of them.

    A summary that tells of a removed turn goes too. The log keeps the questions: `ragforge log rm` removes those.
    """
    with common.open() as forge:
        project = common.project_in(forge)
        found = forge.conversation(id, project=project)
        chosen = _turns(found, forge.turns(found.id, project=project), turn) if turn else []
        what = _what(found, chosen)
        if not dry_run and not confirm(f"Remove {what} for good?", yes):
            common.say("Nothing removed.")
            return
        if not dry_run:
            for each in chosen:
                forge.remove_turn(each.id, project=project)
            if not chosen:
                forge.remove_conversation(found.id, project=project)
    if common.json:
        removed = {"conversation": found.id, "turns": [each.number for each in chosen] or "all"}
        print_json({"would_remove" if dry_run else "removed": removed})
    elif dry_run:
        print_data(f"would remove {what}")
    else:
        common.say(f"Removed {what}")


def _turns(conversation: Conversation, turns: Sequence[Turn], numbers: Sequence[int]) -> list[Turn]:
    by_number = {turn.number: turn for turn in turns}
    for number in numbers:
        if number not in by_number:
            hint = f"ragforge conversation show {conversation.id[:_ID_LENGTH]} shows the numbers"
            raise NotFound(f"the conversation has no turn {number}", hint=hint)
    return [by_number[number] for number in dict.fromkeys(numbers)]


def _what(conversation: Conversation, turns: Sequence[Turn]) -> str:
    title = f"“{one_line(conversation.title)}”"
    if not turns:
        return f"the conversation {title} with {count(conversation.turns, 'turn')}"
    numbers = ", ".join(str(turn.number) for turn in turns)
    return f"turn{'s' * (len(turns) > 1)} {numbers} of {title}"
