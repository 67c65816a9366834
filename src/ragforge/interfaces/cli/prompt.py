"""`prompt`: what `ask` would send to a language model, before it is sent."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Annotated

import typer

from ragforge.domain.answers import Prompted
from ragforge.domain.generation import Estimate
from ragforge.domain.prompts import SuperPrompt
from ragforge.interfaces.cli.ask import Question, prepared, question_of
from ragforge.interfaces.cli.asking import Asked, asking_options
from ragforge.interfaces.cli.common import Common, command
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
from ragforge.interfaces.cli.passages import warn
from ragforge.interfaces.fields.answers import prompt_fields
from ragforge.interfaces.words import count, price, spent


def register(app: typer.Typer) -> None:
    command(app, "prompt")(prompt)


@asking_options
def prompt(
    common: Common,
    question: Question,
    asked: Asked,
    raw: Annotated[bool, typer.Option("--raw", help="Only the messages, byte for byte as they would be sent")] = False,
) -> None:
    """Show the prompt that `ask` would send, with its tokens and price. It is not sent, and nothing is kept.

    A model that is set may be asked what bears on the question; --stages '' leaves that out.
    """
    text = question_of(question)
    with common.open() as forge:
        prompted = prepared(common, forge, text, common.project_in(forge), asked(common, forge))
        if common.json:
            print_json(prompt_fields(prompted))
            return
        if raw:
            print_messages(prompted.prompt)
        else:
            print_sections(prompted.prompt)
            print_tokens(prompted)
        say_of_prompt(common, prompted)


def print_messages(made: SuperPrompt) -> None:
    """The texts of the messages, an empty line between them; whatever the terminal's encoding, as they are sent."""
    sys.stdout.flush()
    sys.stdout.buffer.write("\n\n".join(message.text for message in made.messages).encode() + b"\n")
    sys.stdout.buffer.flush()


def print_sections(made: SuperPrompt) -> None:
    """Each part of the prompt under its name."""
    for section in made.sections:
        print_data(paint(f"── {plain(section.name)}, {count(section.tokens, 'token')}", "bold"))
        print_data(plain_text(section.text).strip("\n"))
        print_data()


def print_tokens(prompted: Prompted) -> None:
    """Tokens by part and in all, and with a model the price and whether it fits."""
    parts: Counter[str] = Counter()
    for section in prompted.prompt.sections:
        parts[section.name] += section.tokens
    total = parts.total() if prompted.estimate is None else prompted.estimate.input_tokens
    rows = [*parts.items(), ("in all", total)]
    print_table((Column("part"), Column("tokens", align_right=True)), [[name, f"{n:,}"] for name, n in rows])
    if prompted.estimate is not None:
        print_data()
        print_data(_estimated(prompted.estimate))


def _estimated(told: Estimate) -> str:
    """`openai:gpt-5-mini: 1,204 tokens to read and at most 1,024 to write, of 400,000: it fits; at most $0.0024`."""
    tokens = f"{count(told.input_tokens, 'token')} to read and at most {told.output_tokens:,} to write"
    if told.window is None:
        room = "how many it takes is not known (model.window)"
    else:
        room = f"of {told.window:,}: {'it fits' if told.fits else 'it does not fit'}"
    cost = price(told.cost)
    return f"{plain(told.model)}: {tokens}, {room}; {f'at most {cost}' if cost.startswith('$') else cost}"


def say_of_prompt(common: Common, prompted: Prompted) -> None:
    """What a person should know of a prompt: whether it would be sent, what is missing, what it took so far."""
    account = prompted.account
    if account.shape.rewritten:
        common.say(f"Understood as: {one_line(account.shape.standalone)}")
    warn(common, account)
    for notice in account.notices:
        common.say(f"Note: {one_line(notice)}")
    if prompted.abstention is not None:
        common.say(f"It would not be sent: {one_line(prompted.abstention.text)}")
    if prompted.estimate is None:
        common.say(
            "No language model is set: nothing would be sent, and the answer would quote. "
            "Next: name one with --model, or with model.name in ragforge.toml"
        )
    if account.usage.calls:
        common.say(f"To prepare it, {plain(account.model)} took {spent(account.usage)}")
