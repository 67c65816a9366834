"""`mcp`: the tools for other programs, over standard input and output."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from ragforge.errors import MissingExtra, Unauthenticated
from ragforge.interfaces.cli.common import Common, command
from ragforge.interfaces.cli.stop import STOPPED, stoppable

if TYPE_CHECKING:
    from ragforge.domain.access import Principal


def register(app: typer.Typer) -> None:
    command(app, "mcp", project=False)(mcp)


def mcp(
    common: Common,
    key: Annotated[
        str,
        typer.Option(
            "--key",
            envvar="RAGFORGE_KEY",
            metavar="KEY",
            help="Reach only what this access key reaches; without one, the whole workspace",
        ),
    ] = "",
) -> None:
    """Offer this workspace to an assistant, over the Model Context Protocol on standard input and output.

    The tools are search, fetch, ask, explain, list_projects and list_files; and, without a key or with one for it,
    lessons_capture, lessons_query and record_outcome. None of them changes a file. An assistant starts this command
    itself. Over HTTP the same tools are at /mcp of `ragforge serve`.
    """
    try:
        import anyio

        from ragforge.interfaces.mcp.server import serve_stdio
    except ModuleNotFoundError:
        raise MissingExtra("The server for assistants", "mcp") from None
    from ragforge.operate.access import local

    with common.open() as forge:
        access = forge.access()

        def caller() -> Principal:
            try:
                return access.resolve(key) if key else local()
            except Unauthenticated as problem:
                raise Unauthenticated(problem.message, hint="put one that works into RAGFORGE_KEY") from None

        caller()  # a key that does not work is told at once
        # A thread waits for input and cannot be woken: what it has at hand is dropped, as if the client had gone.
        with stoppable(lambda: os._exit(STOPPED)):
            common.say("Waiting for an assistant on standard input; it ends with it")
            anyio.run(serve_stdio, forge, caller)
