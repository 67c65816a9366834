"""How commands that run on and on tell what they do: on stderr, without secrets or words of documents."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ragforge.interfaces.cli.common import Common

if TYPE_CHECKING:
    from ragforge.app import Ragforge
    from ragforge.operate.logs import Form

LogFormat = Annotated[
    Literal["text", "json"] | None,
    typer.Option("--log-format", help="How lines are written on stderr [default: text in a terminal, else json]"),
]


def form_of(common: Common, given: Form | None) -> Form:
    """What was given; else text for people."""
    return given or ("text" if sys.stderr.isatty() and not common.json else "json")


@contextmanager
def logged(common: Common, forge: Ragforge, form: Form) -> Iterator[None]:
    """Lines of the log go to stderr, and spans where the environment says."""
    from ragforge.operate import telemetry
    from ragforge.operate.logs import known_secrets, logging_to

    secrets = known_secrets(forge.settings, os.environ)
    with logging_to(sys.stderr, form, secrets, messages=common.debug, quiet=common.quiet):
        if missing := telemetry.begin():
            logging.getLogger("ragforge").warning(missing)
        yield
        telemetry.end()
