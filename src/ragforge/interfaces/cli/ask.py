"""`ask`: a question answered from the files of a project, with checked citations."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from ragforge.domain.answers import Abstention, Prompted
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.prompts import SuperPrompt
from ragforge.errors import UserError
from ragforge.interfaces.cli.answers import Cite, Waiting, show, show_rest
from ragforge.interfaces.cli.asking import Asked, asking_options
from ragforge.interfaces.cli.common import Common, command
from ragforge.interfaces.cli.output import one_line, print_data, print_json
from ragforge.interfaces.cli.stop import STOPPED, stoppable
from ragforge.interfaces.cli.why import print_why
from ragforge.interfaces.fields.answers import answer_fields
from ragforge.interfaces.fields.explained import why_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ragforge.app import AskOptions, Ragforge

ABSTAINED = 4

Question = Annotated[
    list[str],
    typer.Argument(metavar="QUESTION", help="What you want to know, in your own words; - reads it from stdin"),
]
Ephemeral = Annotated[bool, typer.Option("--ephemeral", help="Keep nothing of it: no turn, no line in the log")]


def register(app: typer.Typer) -> None:
    command(app, "ask")(ask)


@asking_options
def ask(
    common: Common,
    question: Question,
    asked: Asked,
    cite: Cite = "place",
    why: Annotated[bool, typer.Option("--why", help="Show how the answer came about")] = False,
    change: Annotated[
        bool, typer.Option("--edit", help="Change the prompt in your editor before it is sent; needs a model")
    ] = False,
    stream: Annotated[bool, typer.Option("--stream", help="With --json: every event as a line, as it comes")] = False,
    ephemeral: Ephemeral = False,
) -> None:
    """Answer a question from the files of a project, with checked citations.

    Without a language model the answer quotes the files. Ends with 4 if they do not hold the answer: then the reason,
    the nearest passages and what would help are printed.
    """
    text = question_of(question)
    with common.open() as forge:
        project, how = common.project_in(forge), asked(common, forge)
        how["ephemeral"] = ephemeral
        if change:
            how["prompted"] = _changed(common, forge, text, project, how)
        with stopping(common) as how["cancel"]:
            result = show(common, forge.stream(text, project=project, **how), stream=stream)
        if not common.json:
            show_rest(common, forge, result, cite)
            if why:
                print_data()
                print_why(result.account)
        elif not stream:
            print_json(answer_fields(result) | ({"account": why_fields(result.account)} if why else {}))
    if isinstance(result, Abstention):
        raise typer.Exit(ABSTAINED)


def question_of(words: Sequence[str]) -> str:
    """The question as it was typed, or what comes in on stdin."""
    if list(words) != ["-"]:
        return " ".join(words)
    return sys.stdin.buffer.read().decode("utf-8", "replace").strip() if sys.stdin else ""


@contextmanager
def stopping(common: Common) -> Iterator[Cancel]:
    """What Ctrl-C stops: nothing of it stays."""
    try:
        with stoppable(lambda: None) as cancel:
            yield cancel
    except Cancelled:
        common.say("Stopped. No answer was kept.")
        raise typer.Exit(STOPPED) from None


def prepared(common: Common, forge: Ragforge, question: str, project: str, how: AskOptions) -> Prompted:
    """The prompt of a question; a model may take its time over it."""
    with Waiting(common) as waiting, stopping(common) as how["cancel"]:
        waiting.show("Preparing the prompt …")
        return forge.prompt(question, project=project, **how)


# -- the prompt in an editor


def _changed(common: Common, forge: Ragforge, question: str, project: str, how: AskOptions) -> Prompted:
    """The prompt as it was saved in the editor: exactly that is sent."""
    prompted = prepared(common, forge, question, project, how)
    if prompted.estimate is None:
        raise UserError(
            "there is no language model to send the prompt to",
            hint="name one with --model, or with model.name in ragforge.toml",
        )
    if prompted.abstention is not None:
        common.say(f"Note: by itself ragforge would not send this: {one_line(prompted.abstention.reason)}")
    texts = _edited(prompted.prompt)
    if not any(text.strip() for text in texts):
        common.say("The prompt is empty: nothing was sent.")
        raise typer.Exit(STOPPED)
    return with_texts(prompted, texts)


def with_texts(prompted: Prompted, texts: Sequence[str]) -> Prompted:
    """The prompt with these texts instead of its own."""
    from ragforge.assemble.assemble import edited
    from ragforge.domain.tokens import estimated_tokens

    return replace(prompted, prompt=edited(prompted.prompt, texts, estimated_tokens))


def _edited(prompt: SuperPrompt) -> list[str]:
    """The texts of the messages as they were saved. A line before each tells whose it is; none of them is sent."""
    from ragforge.interfaces.cli.editor import edit

    mark = _unused([message.text for message in prompt.messages])
    told = "all below is sent as it stands; an empty file sends nothing"
    pieces = [f"===== {mark} {message.role}: {told} =====\n{message.text}\n" for message in prompt.messages]
    saved = edit("".join(pieces), "prompt.md")
    before, *texts = re.split(rf"^===== {mark} .*\n?", saved, flags=re.MULTILINE)
    if saved.strip() and (before.strip() or len(texts) != len(pieces)):
        raise UserError(
            "the lines that begin with ===== are not as they were; nothing was sent",
            hint="leave them in: they tell where each message begins",
        )
    return [text.removesuffix("\n") for text in texts]


def _unused(texts: Sequence[str]) -> str:
    """A mark that stands in none of the texts."""
    import secrets

    while True:
        mark = secrets.token_hex(4)
        if not any(mark in text for text in texts):
            return mark
